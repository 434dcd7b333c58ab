"""Certificates of ensembles: a table of every part, a knapsack over parts, attacks that are tried on the ensemble."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from labelcert.arrays import Bool, Float, Int
from labelcert.certificate import Stop
from labelcert.engines.base import WORK_LIMIT_SECONDS, Attacks, Findings, Question, within_reach
from labelcert.engines.control import Control
from labelcert.engines.cube.walking import count_stops
from labelcert.engines.linear.spending import first_row
from labelcert.engines.partition.class_tables import class_table, class_work
from labelcert.engines.partition.combining import combine, largest_sum
from labelcert.engines.partition.ensemble import Ensemble, Votes, sum_error
from labelcert.engines.partition.parts import Part
from labelcert.engines.partition.tables import Asked, Table, black_box_tables, two_class_table, two_class_work
from labelcert.engines.pools import pool_in_force, side_by_side
from labelcert.engines.tables.sizes import toggled_sets
from labelcert.errors import WorkTooLarge
from labelcert.prediction import Sign
from labelcert.problem import NOTHING, Relabelling

CELLS = 2.5e7
"""Cells of all knapsack tables that are held at a time."""

KNAPSACK_SECONDS = 3e-9
"""Rough time of one cell of the totals, for one state of one part."""

GROUP_SECONDS = 300.0
"""Longest estimated knapsack with which the budgets of shared groups are followed."""

UNIONS, STEPS = 30, 12
"""Attacks on nodes that are joined to a growing one, and how often it grows: for the curve's lower end."""

ATTEMPTS = 4
"""Attacks of growing cost that are tried on a node."""


@dataclass(frozen=True, eq=False)
class Partition:
    """How an ensemble is certified.

    Attributes
    ----------
    part_flips : int or None
        Largest cost of an attack on one part to look at; None for all.
    """

    part_flips: int | None = None

    @staticmethod
    def name(predictor: Ensemble) -> str:
        """As certificates call it."""
        return "partition (votes)" if isinstance(predictor, Votes) else "partition (mean scores)"

    def run(self, question: Question, control: Control) -> Findings:
        """Radii from tables of all parts; the curve from the attacks that were found on the way."""
        started = time.perf_counter()
        ensemble = question.predictor
        assert isinstance(ensemble, Ensemble)
        known = Findings.nothing(question)
        statistics: dict[str, Any] = {**_sizes(ensemble), "part_flips": self.part_flips}
        if question.nodes.size:
            shared, relaxed = shared_groups(question, ensemble.parts)
            asked = Asked(question, isinstance(ensemble, Votes), shared, self.part_flips)
            pool = pool_in_force()
            if pool is not None:
                asked = replace(asked, together=pool.take_many(_labellings(asked, ensemble.parts)))
            self._check_work(asked, control)
            tables = list(_tables(asked, control))
            lower = np.maximum(known.radius_lower, self._lower(asked, tables))
            attacks = self._attack(asked, tables, control)
            if control.collective:
                grow(question, attacks, control)
            statistics.update(_added([table.statistics for table in tables]), groups_relaxed=relaxed)
            curve_upper = np.minimum(known.curve_upper, within_reach(lower, question.budget))
            known = replace(
                known,
                radius_lower=lower,
                radius_upper=attacks.radius,
                radius_changes=attacks.radius_changes,
                curve_lower=attacks.curve,
                curve_upper=curve_upper,
                curve_changes=attacks.curve_changes,
            )
        statistics["seconds"] = time.perf_counter() - started
        return replace(known, statistics=statistics)

    def _check_work(self, asked: Asked, control: Control) -> None:
        """Refuse what would take too long, with what would fit."""
        ensemble = asked.question.predictor
        assert isinstance(ensemble, Ensemble)
        knapsack = _knapsack_seconds(asked.question, ensemble.parts, asked.shared)
        if knapsack > WORK_LIMIT_SECONDS:
            raise WorkTooLarge(
                f"the work is too large: a knapsack over {len(ensemble.parts)} parts for budgets up to "
                f"{asked.question.budget} and {asked.question.nodes.size} nodes would take about {knapsack:.3g} "
                "seconds; divide the costs by a common unit, or give a smaller max_flips"
            )
        if control.time_limit is not None:
            return
        work = two_class_work if isinstance(ensemble.parts[0].predictor, Sign) else class_work
        seconds = work(asked, ensemble.parts) / control.workers
        deepest = seconds.size - 1
        if seconds[deepest] <= WORK_LIMIT_SECONDS:
            return
        fits = int(np.flatnonzero(seconds <= WORK_LIMIT_SECONDS)[-1])
        raise WorkTooLarge(
            f"the work is too large: all labellings of {len(ensemble.parts)} parts of up to "
            f"{max(part.problem.m for part in ensemble.parts)} labels, with up to {deepest} changes in each, would "
            f"take about {seconds[deepest]:.3g} seconds. Smaller parts are faster (give a larger parts=). "
            f"part_flips={fits} would fit: it looks at attacks of that size on each part, and assumes the worst of "
            "larger ones. time_limit=SECONDS gives what can be proved in that time"
        )

    def _lower(self, asked: Asked, tables: list[Table]) -> Int:
        """(n,) least cost at which nothing proves that a prediction survives; one more than the budget for none."""
        parts = []
        for some in _node_blocks(asked, tables):
            cut = [(table.states, table.floor[..., some]) for table in tables]
            totals = combine(cut, _limits(asked), choices=False)
            least = _least(asked, some)
            error = sum_error(largest_sum(cut) + least, len(cut))
            parts.append(first_row(np.any(~(totals.by_cost() - least > error), axis=1)))
        return np.concatenate(parts).astype(np.int64)

    def _attack(self, asked: Asked, tables: list[Table], control: Control) -> Attacks:
        """The cheapest attacks, from the tables, tried on the ensemble."""
        question, ensemble = asked.question, asked.question.predictor
        assert isinstance(ensemble, Ensemble)
        attacks = Attacks(question)
        tried: set[Relabelling] = set()
        states = [table.states for table in tables]
        for some in _node_blocks(asked, tables):
            cut = [(table.states, table.attack[..., some]) for table in tables]
            totals = combine(cut, _limits(asked), choices=True)
            least = _least(asked, some)
            error = sum_error(largest_sum(cut) + least, len(cut))
            best = totals.by_cost()
            hopeful = np.any(best - least <= error, axis=1)
            for column, t in enumerate(some.tolist()):
                for cost in _attempts(hopeful[:, column]):
                    if control.closed() or attacks.radius[t] <= cost:
                        break
                    r = int(best[cost, :, column].argmin())
                    change = self._change(ensemble, tables, totals.rows(states, cost, r, column), r, t)
                    if change not in tried and question.problem.adversary.admits(change, question.budget):
                        tried.add(change)
                        attacks.enter(change)
        return attacks

    @staticmethod
    def _change(ensemble: Ensemble, tables: list[Table], rows: list[int], r: int, t: int) -> Relabelling:
        """The attack that some rows of all tables stand for."""
        moves: dict[int, int] = {}
        for part, table, s in zip(ensemble.parts, tables, rows, strict=True):
            own = table.change(s, r, t)
            moves.update(zip(part.positions[own.positions].tolist(), own.targets.tolist(), strict=True))
        return Relabelling.of(moves)


def grow(question: Question, attacks: Attacks, control: Control) -> None:
    """Strong attacks for the curve.

    Attacks on single nodes are joined, always the one with which most nodes change. For large budgets, parts are turned
    as a whole: of two classes, that turns all their scores.
    """
    a, ensemble = question.problem.adversary, question.predictor
    assert isinstance(ensemble, Ensemble)
    turned = np.zeros(0, dtype=np.int64)
    for part in sorted(ensemble.parts, key=lambda part: int(a.costs[part.positions].sum())):
        turned = np.sort(np.concatenate([turned, part.positions]))
        if control.over() or not a.affords(turned, question.budget):
            break
        attacks.enter(a.flipped(turned))
    pool = list(dict.fromkeys(change for change in attacks.radius_changes if change is not None and len(change)))
    pool = pool[:: max(1, len(pool) // UNIONS)]
    grown = NOTHING
    for _ in range(STEPS):
        best, most = None, (-1, 0)
        for change in pool:
            union = Relabelling.of({**change.moves, **grown.moves})
            if len(union) == len(grown) or not a.admits(union, question.budget) or control.over():
                continue
            count, _ = attacks.enter(union)
            if (count, -a.cost(union)) > most:
                best, most = union, (count, -a.cost(union))
        if best is None:
            return
        grown = best


def shared_groups(question: Question, parts: Sequence[Part]) -> tuple[Int, int]:
    """Groups whose budgets several parts share, as many as can be followed; and how many others there are.

    A budget that pays for the whole group restricts nobody. Where a budget cannot be followed, every part is given
    all of it: what is proved then stays true, and attacks are checked against the threat.
    """
    a = question.problem.adversary
    binding = [
        g
        for g in np.flatnonzero(a.group_caps < np.minimum(a.group_totals, question.budget)).tolist()
        if sum(bool(np.any(a.groups[part.positions] == g)) for part in parts) > 1
    ]
    followed: list[int] = []
    for g in binding:
        more = np.array([*followed, g], dtype=np.int64)
        if _knapsack_seconds(question, parts, more) <= GROUP_SECONDS:
            followed.append(g)
    return np.array(followed, dtype=np.int64), len(binding) - len(followed)


def _knapsack_seconds(question: Question, parts: Sequence[Part], shared: Int) -> float:
    """Rough time of the knapsacks over all parts, if these groups are followed."""
    a = question.problem.adversary
    rivals = 1 if question.problem.n_classes == 2 else question.problem.n_classes
    cells = float(np.prod(np.append(a.group_caps[shared], question.budget) + 1.0)) * rivals * question.nodes.size
    states = 0.0
    for part in parts:
        own = part.problem.adversary
        spans = np.minimum(own.group_caps, own.group_totals)[shared]
        states += float(np.prod(np.append(spans, part.problem.max_flips) + 1.0))
    return 2 * cells * states * KNAPSACK_SECONDS


def black_box_radii(votes: Votes) -> Int:
    """(n,) radii of an ensemble that votes, from the numbers of votes alone: each changed label may buy a vote.

    This is the bound of partition aggregation. A node without a prediction has radius 0. One more than the largest
    budget says that no attack within it does it.
    """
    problem = votes.problem
    nodes = np.flatnonzero(votes.predicted >= 0)
    radii = np.zeros(problem.n_test, dtype=np.int64)
    if nodes.size == 0:
        return radii
    own = votes.predicted[nodes]
    costs = [problem.adversary.costs[part.positions] for part in votes.parts]
    cheapest = np.array([int(own_costs.min()) if own_costs.size else -1 for own_costs in costs])
    rivals: Bool = own[None, :] != np.arange(problem.n_classes)[:, None]
    tables = black_box_tables(votes.clean_votes(nodes, own), cheapest, rivals)
    totals = combine(tables, np.array([problem.max_flips]), choices=False)
    radii[nodes] = first_row(np.any(totals.by_cost() <= votes.least[nodes], axis=1))
    return radii


def _tables(asked: Asked, control: Control) -> Iterator[Table]:
    """The tables of all parts; with a time limit, each gets its share of what is left."""
    ensemble = asked.question.predictor
    assert isinstance(ensemble, Ensemble)
    count = len(ensemble.parts)
    together = asked.together

    def table(k: int) -> tuple[Table, Stop]:
        part = ensemble.parts[k]
        child = Control(workers=control.workers, collective=False, parent=control)
        if together == 1:
            control.note(f"part {k + 1} of {count}")
            child.report = lambda done, total: control.report(k + done / max(total, 1e-9), count)
        if control.deadline is not None:
            child.time_limit = max(1e-3, together * (control.deadline - time.monotonic()) / (count - k))
            child.start_clock()
        make = two_class_table if isinstance(part.predictor, Sign) else class_table
        return make(part, asked, child), child.stop

    for k, (made, stop) in enumerate(side_by_side(table, count, together)):
        control.report(k + 1, count)
        yield made
        if control.stop is Stop.FINISHED:
            control.stop = stop


def _labellings(asked: Asked, parts: Sequence[Part]) -> float:
    """All labellings, or toggled sets, of all parts."""
    questions = [asked.within(part) for part in parts]
    if isinstance(parts[0].predictor, Sign):
        return sum(count_stops(question, question.budget) for question in questions)
    return sum(float(toggled_sets(question.problem)[-1]) for question in questions)


def _least(asked: Asked, some: Int) -> Float:
    """(n,) the sum over all parts at which some nodes count as changed: see `Ensemble.least`."""
    ensemble = asked.question.predictor
    assert isinstance(ensemble, Ensemble)
    return np.asarray(ensemble.least[asked.question.nodes[some]])


def _limits(asked: Asked) -> Int:
    """(1 + G,) largest cost, and largest cost inside each shared group, of an attack on the ensemble."""
    problem = asked.question.problem
    caps = problem.adversary.group_caps[asked.shared]
    return np.concatenate([[problem.max_flips], np.minimum(caps, problem.max_flips)]).astype(np.int64)


def _node_blocks(asked: Asked, tables: list[Table]) -> Iterator[Int]:
    """Nodes in blocks whose knapsacks fit into memory."""
    n = asked.question.nodes.size
    cells = float(np.prod(_limits(asked) + 1.0)) * tables[0].floor.shape[1] * len(tables)
    size = max(1, int(CELLS / cells))
    for first in range(0, n, size):
        yield np.arange(first, min(n, first + size))


def _attempts(hopeful: Bool) -> list[int]:
    """Costs to try: the cheapest ones that may do it, and the largest."""
    costs = np.flatnonzero(hopeful)
    return sorted({*costs[: ATTEMPTS - 1].tolist(), *costs[-1:].tolist()})


def _sizes(ensemble: Ensemble) -> dict[str, Any]:
    sizes = [part.problem.m for part in ensemble.parts]
    return {"parts": len(sizes), "smallest_part": min(sizes), "largest_part": max(sizes), "trainings": 0}


def _added(records: list[dict[str, Any]]) -> dict[str, Any]:
    """Numbers of all parts, added up."""
    return {key: sum(record[key] for record in records) for key in records[0] if key != "seconds"}
