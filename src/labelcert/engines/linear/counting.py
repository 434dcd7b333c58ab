"""The collective curve of two classes where scores are linear: depth-first search over sets of flips, cut by counting.

Flipping label i takes its gain off a node's score, whatever else is flipped. For a partial attack with r of the budget
left for labels from i on, a node can change only if the best purchase within r brings its score to zero: a knapsack
table, made once, tells. Where no more nodes can change than a known attack already changes, the whole subtree is cut.
With labels sorted by class, the cuts come early: a budget spent on one class does not pay for the other.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from labelcert.arrays import Float, Int
from labelcert.compiling import compiled
from labelcert.engines.base import Attacks, Question
from labelcert.engines.control import Control
from labelcert.engines.linear.radii import margin_errors

TABLE_CELLS = 6e7
"""Largest knapsack table: labels × budgets × nodes."""

PAIRS = 2e5
"""Most pairs of a label and a node."""

EFFORT = 1e10
"""Score updates for the whole curve where no time limit is given: some seconds."""

VISIT = 32
"""What a visit counts at least, in score updates: it takes its time for few nodes, too."""

SWAPS = 40
"""Steps of the local search that gives each budget a good attack to start from."""

SWAP_UPDATES = 4e8
"""Score updates of the local search at one budget."""

_CHUNK = 2e8
_MAX_DOUBTS = 10_000

DEPTH, BAR, SIZE, DOUBTS, VISITED, BEST = range(6)
"""Entries of the state of a search; subtrees in which no attack changes more nodes than the bar are cut."""

NEXT_LABEL, TAKEN, LEFT, BEST_SET = range(4)
"""Rows of its stack: the next label to try, the label taken, the rest of the budget, and the best set so far."""


@dataclass(frozen=True, eq=False)
class Counted:
    """Most nodes that one attack changes.

    Attributes
    ----------
    lower, upper : int
    flips : position array
        They change ``lower`` nodes.
    updates : float
        Score updates spent.
    """

    lower: int
    upper: int
    flips: Int
    updates: float


class Counting:
    """Depth-first search for every budget; knapsack tables are shared.

    Parameters
    ----------
    question : Question
        With linear scores.
    """

    def __init__(self, question: Question) -> None:
        problem = question.problem
        a = problem.adversary
        self._question = question
        signed = question.predictor.signed_rows(question.nodes) * problem.y[:, None]
        self._margin = signed.sum(axis=0)
        self._errors = margin_errors(question)
        drop = 2.0 * signed[a.labels]
        usefulness = np.maximum(drop, 0.0).sum(axis=1)
        order = np.lexsort((-usefulness, problem.y[a.labels]))
        self._order = order.astype(np.int64)
        self._drop = np.ascontiguousarray(drop[order])
        self._costs = a.costs[order]
        self._groups = a.groups[order]

    @staticmethod
    def fits(question: Question) -> bool:
        """Whether the table is of a reasonable size, and so few pairs of a label and a node that a search may end."""
        pairs = (question.problem.adversary.labels.size + 1.0) * question.nodes.size
        return pairs <= PAIRS and pairs * (question.budget + 1) <= TABLE_CELLS

    def prepare(self) -> None:
        """Fill the knapsack table: ``(ν + 1, B + 1, n)`` best purchases from label i on."""
        budget = self._question.budget
        nu, n = self._drop.shape
        table = np.zeros((nu + 1, budget + 1, n))
        gain = np.maximum(self._drop, 0.0)
        for i in range(nu - 1, -1, -1):
            table[i] = table[i + 1]
            cost = int(self._costs[i])
            if cost <= budget:
                np.maximum(table[i, cost:], gain[i] + table[i + 1, : budget + 1 - cost], out=table[i, cost:])
        self._table = table

    def swapped(self, budget: int, flips: Int) -> tuple[Int, int]:
        """A better attack by adding a label, or swapping one, as long as that helps; and what it provably changes."""
        a = self._question.problem.adversary
        back = np.empty(self._order.size, dtype=np.int64)
        back[self._order] = np.arange(self._order.size)
        held = list(back[flips])
        tries = SWAP_UPDATES / (max(1, len(held)) * float(self._drop.size))
        for _ in range(int(min(SWAPS, tries))):
            scores = self._margin - self._drop[held].sum(axis=0)
            now = self._worth(scores)
            found = None
            for out in [None, *held]:
                kept = [i for i in held if i != out]
                base = scores if out is None else scores + self._drop[out]
                spent = self._order[kept]
                may = a.affordable(budget - int(a.costs[spent].sum()), spent)[self._order]
                may[held] = False
                offers = np.flatnonzero(may)
                if offers.size == 0:
                    continue
                after = base[None, :] - self._drop[offers]
                hit = (after < -self._errors).sum(axis=1)
                rest = np.clip(after, 0.0, None).sum(axis=1)
                best = int(np.lexsort((rest, -hit))[0])
                worth = (int(hit[best]), -float(rest[best]))
                if worth > now:
                    now, found = worth, [*kept, int(offers[best])]
            if found is None:
                break
            held = found
        attack = np.sort(self._order[held])
        return attack, int(self._question.changed(a.flipped(attack))[0].sum())

    def _worth(self, scores: Float) -> tuple[int, float]:
        return int((scores < -self._errors).sum()), -float(np.clip(scores, 0.0, None).sum())

    def narrow(self, budget: int, best: int, flips: Int, most: int, control: Control, effort: float) -> Counted:
        """The most nodes that a budget changes, given an attack that changes ``best`` and a proof of ``most``.

        By halves: that no attack changes more than the middle is proved far sooner than that none is better at all.
        Where even that takes too long, it is the middle of what is above.
        """
        found, floor, spent = Counted(best, most, flips, 0.0), best, 0.0
        while floor < found.upper and spent < effort and not control.over():
            aim = (floor + found.upper) // 2
            last = aim == found.upper - 1  # nothing to keep time for
            tried = self._search(budget, found, aim, control, (effort - spent) / (1 if last else 2))
            spent += tried.updates
            if tried.lower == found.lower and tried.upper == found.upper:
                if last:
                    break
                floor = aim
            found, floor = tried, max(floor, tried.lower)
        return replace(found, updates=spent)

    def _search(self, budget: int, known: Counted, aim: int, control: Control, effort: float) -> Counted:
        """Look for an attack that changes more than ``aim``; that there is none is a proof."""
        best, flips, most = known.lower, known.flips, known.upper
        nu, n = self._drop.shape
        state = np.zeros(6, dtype=np.int64)
        state[BAR], state[BEST] = aim, best
        depth = int(self._question.problem.adversary.most_flips(budget))
        scores = np.empty((depth + 1, n))
        scores[0] = self._margin
        stack = np.zeros((4, depth + 2), dtype=np.int64)
        stack[LEFT, 0] = budget
        rest = self._question.problem.adversary.group_caps.copy()
        doubts = np.full((_MAX_DOUBTS, depth + 1), -1, dtype=np.int64)
        spent, finished = 0.0, nu == 0
        while not finished and not control.over() and spent < effort:
            before = int(state[VISITED])
            finished = _search(
                self._drop, self._table, self._errors, self._costs, self._groups, rest, scores, stack, state, doubts,
                int(_CHUNK / max(n, VISIT)) + 1, most,
            )  # fmt: skip
            spent += float(state[VISITED] - before) * max(n, VISIT)
        if state[SIZE]:
            flips = np.sort(self._order[stack[BEST_SET, : state[SIZE]]])
        lower = int(state[BEST])
        upper = int(state[BAR]) if finished else most
        for row in doubts[: min(_MAX_DOUBTS, int(state[DOUBTS]))]:
            candidate = np.sort(self._order[row[row >= 0]])
            changed, unchanged = self._question.changed(self._question.problem.adversary.flipped(candidate))
            if changed.sum() > lower:
                lower, flips = int(changed.sum()), candidate
            upper = max(upper, lower, int((~unchanged).sum()))
        if state[DOUBTS] > _MAX_DOUBTS:
            upper = most
        return Counted(lower=lower, upper=min(max(upper, lower), most), flips=flips, updates=spent)


def count_curve(question: Question, attacks: Attacks, curve_upper: Int, control: Control) -> float:
    """Close the curve budget by budget, as far as the effort goes; returns the score updates spent.

    Improves ``attacks.curve`` and lowers ``curve_upper``.
    """
    a = question.problem.adversary
    payable = a.payable(question.budget)
    open_ = np.flatnonzero((attacks.curve < curve_upper) & payable)
    if open_.size == 0 or not Counting.fits(question):
        return 0.0
    counting = Counting(question)
    counting.prepare()
    left = EFFORT if control.time_limit is None else np.inf
    spent = 0.0
    for b in open_.tolist():
        if control.over():
            break
        better, count = counting.swapped(b, attacks.curve_changes[b].positions)
        attacks.count(a.flipped(better), count)
    # Each budget gets its turn before hard ones take what is left.
    for turn, b in enumerate([*open_.tolist(), *open_.tolist()]):
        if control.over() or spent >= left:
            break
        share = max(left / (4 * open_.size), 0.5 * (left - spent)) if turn >= open_.size else EFFORT / (4 * open_.size)
        found = counting.narrow(
            b, int(attacks.curve[b]), attacks.curve_changes[b].positions, int(curve_upper[b]), control, share
        )
        spent += found.updates
        attacks.count(a.flipped(found.flips), found.lower)
        curve_upper[b] = found.upper
        control.report(turn + 1, 2 * open_.size)
    # No attack becomes possible at a budget that no set of labels costs.
    curve_upper[:] = np.minimum(
        curve_upper, curve_upper[np.maximum.accumulate(np.where(payable, np.arange(payable.size), 0))]
    )
    curve_upper[:] = np.minimum.accumulate(curve_upper[::-1])[::-1]
    return spent


@compiled()
def _search(drop, table, errors, costs, groups, rest, scores, stack, state, doubts, visits, most):  # type: ignore[no-untyped-def]  # noqa: C901
    """Go on with the search for a number of visits; True when it is finished."""
    nu, n = drop.shape
    depth = state[DEPTH]
    bar = state[BAR]
    stop = state[VISITED] + visits
    while depth >= 0 and bar < most:
        if state[VISITED] >= stop:
            state[DEPTH] = depth
            state[BAR] = bar
            return False
        i = stack[NEXT_LABEL, depth]
        r = stack[LEFT, depth]
        reachable = 0
        if i < nu:
            state[VISITED] += 1
            for t in range(n):
                if scores[depth, t] - table[i, r, t] <= errors[t]:
                    reachable += 1
        if reachable <= bar:
            depth -= 1
            if depth >= 0:
                taken = stack[TAKEN, depth]
                if groups[taken] >= 0:
                    rest[groups[taken]] += costs[taken]
            continue
        stack[NEXT_LABEL, depth] = i + 1
        g = groups[i]
        if costs[i] > r or (g >= 0 and costs[i] > rest[g]):
            continue
        possible = 0
        sure = 0
        for t in range(n):
            value = scores[depth, t] - drop[i, t]
            scores[depth + 1, t] = value
            if value <= errors[t]:
                possible += 1
            if value < -errors[t]:
                sure += 1
        stack[TAKEN, depth] = i
        if sure > state[BEST]:
            state[BEST] = sure
            bar = max(bar, sure)
            state[SIZE] = depth + 1
            for k in range(depth + 1):
                stack[BEST_SET, k] = stack[TAKEN, k]
        if possible > bar:
            if state[DOUBTS] < doubts.shape[0]:
                for k in range(depth + 1):
                    doubts[state[DOUBTS], k] = stack[TAKEN, k]
            state[DOUBTS] += 1
        if g >= 0:
            rest[g] -= costs[i]
        depth += 1
        stack[NEXT_LABEL, depth] = i + 1
        stack[LEFT, depth] = r - costs[i]
    state[DEPTH] = depth
    state[BAR] = bar
    return True
