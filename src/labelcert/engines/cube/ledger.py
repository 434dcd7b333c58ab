"""What an enumeration of labellings has proved so far, and what is still open."""

from __future__ import annotations

from typing import Any

import numpy as np

from labelcert.arrays import Int, Words
from labelcert.engines.base import Findings, Question, running_best, within_reach
from labelcert.engines.bitsets import positions_of, words_for
from labelcert.engines.control import Control
from labelcert.engines.cube import recording as walks
from labelcert.engines.cube.chunks import Chunk
from labelcert.engines.cube.recording import Found, Walk
from labelcert.problem import Relabelling


class Ledger:
    """All that has been proved so far, and what is still open."""

    def __init__(self, question: Question, task: Walk) -> None:
        n = question.nodes.size
        budget = question.budget
        self._question = question
        self._never = question.problem.adversary.never
        # The same arrays that walks start from.
        self._radius, self._most = task.radius, task.most
        words = words_for(task.labels.size)
        self._radius_set = np.zeros((n, words), dtype=np.uint64)
        self._most_set = np.zeros((budget + 1, words), dtype=np.uint64)
        self._doubts: list[Int] = []
        self._doubt_sets: list[Words] = []
        self._counters = np.zeros(walks.N_COUNTERS, dtype=np.int64)
        self._frontier = budget + 1
        self._open_radius = np.full(n, self._never, dtype=np.int64)
        self._open_most = np.full(budget + 1, -1, dtype=np.int64)
        self._decided_exactly = 0

    def merge(self, found: Found, chunk: Chunk, finished: bool) -> None:
        """Take over a chunk's results."""
        better = found.radius < self._radius
        self._radius[better] = found.radius[better]
        self._radius_set[better] = found.radius_set[better]
        more = found.most > self._most
        self._most[more] = found.most[more]
        self._most_set[more] = found.most_set[more]
        if len(found.doubt):
            self._doubts.append(found.doubt)
            self._doubt_sets.append(found.doubt_set)
        self._counters += found.counters
        if not finished:
            self.unvisited(chunk.min_cost)

    @property
    def doubts_held(self) -> int:
        """Labellings that wait for a decision."""
        return sum(len(d) for d in self._doubts)

    def unvisited(self, cost: int) -> None:
        """Some sets of this cost or more were not visited."""
        self._frontier = min(self._frontier, cost)

    def settle_doubts(self, control: Control) -> None:
        """Decide noted labellings exactly, cheapest first, where the answer can still matter.

        What is not decided when the run is closed, or cannot be decided exactly, stays open.
        """
        if not self._doubts:
            return
        doubts = np.concatenate(self._doubts)
        sets = np.concatenate(self._doubt_sets)
        self._doubts, self._doubt_sets = [], []
        costs, possible = doubts[:, walks.DOUBT_COST], doubts[:, walks.DOUBT_SURE] + doubts[:, walks.DOUBT_POSSIBLE]
        order = np.lexsort((-doubts[:, walks.DOUBT_SURE], costs))
        for k, row in enumerate(order):
            cost = int(costs[row])
            if possible[row] <= self._most[cost] and not self._may_lower_a_radius(doubts[row]):
                continue
            if not self._question.predictor.scorer.exact or control.closed():
                rest = order[k:]
                self._open_radius = np.minimum(self._open_radius, costs[rest].min())
                np.maximum.at(self._open_most, costs[rest], possible[rest])
                return
            self._decide(cost, sets[row])

    def _may_lower_a_radius(self, doubt: Int) -> bool:
        """Whether a labelling in doubt could change a node more cheaply than is known."""
        cost, closer = int(doubt[walks.DOUBT_COST]), int(doubt[walks.DOUBT_CLOSER])
        if closer > walks.NAMED_NODES:
            return bool(cost < self._radius.max(initial=0))
        return any(cost < self._radius[t] for t in doubt[walks.DOUBT_NODES : walks.DOUBT_NODES + closer])

    def _decide(self, cost: int, bits: Words) -> None:
        self._decided_exactly += 1
        yes, no = self._question.changed(self._change(bits))
        closer = yes & (cost < self._radius)
        self._radius[closer] = cost
        self._radius_set[closer] = bits
        if yes.sum() > self._most[cost]:
            self._most[cost] = yes.sum()
            self._most_set[cost] = bits
        undecided = ~(yes | no)
        if undecided.any():
            self._open_radius[undecided] = np.minimum(self._open_radius[undecided], cost)
            self._open_most[cost] = max(self._open_most[cost], int(yes.sum() + undecided.sum()))

    def findings(self, seconds: float) -> Findings:
        """Radii and curve, as intervals."""
        upper = self._radius
        lower = np.minimum(np.minimum(upper, self._open_radius), self._frontier)
        curve_lower, curve_changes = running_best(self._most, lambda b: self._change(self._most_set[b]))
        curve_upper = np.maximum(curve_lower, np.maximum.accumulate(self._open_most))
        unsettled = np.arange(self._most.size) >= self._frontier
        curve_upper[unsettled] = within_reach(lower, self._most.size - 1)[unsettled]
        sets, which = np.unique(self._radius_set, axis=0, return_inverse=True)
        distinct = [self._change(bits) for bits in sets]
        changes = [distinct[k] if r < self._never else None for r, k in zip(upper, which.ravel(), strict=True)]
        c = self._counters
        statistics: dict[str, Any] = {
            "trainings": int(c[walks.SOLVED]),
            "pivoting_rounds": int(c[walks.ROUNDS]),
            "proved_by_global_bound": int(c[walks.GLOBAL_PROOFS]),
            "proved_by_local_bound": int(c[walks.LOCAL_PROOFS]),
            "proved_by_duality_gap": int(c[walks.GAP_PROOFS]),
            "not_converged": int(c[walks.STUCK]),
            "doubtful_labellings": int(c[walks.DOUBTS]),
            "decided_in_rational_arithmetic": self._decided_exactly,
            "seconds": seconds,
        }
        return Findings(
            radius_lower=lower,
            radius_upper=upper,
            radius_changes=changes,
            curve_lower=curve_lower,
            curve_upper=curve_upper,
            curve_changes=curve_changes,
            statistics=statistics,
        )

    def _change(self, bits: Words) -> Relabelling:
        return self._question.problem.adversary.flipped(positions_of(bits))
