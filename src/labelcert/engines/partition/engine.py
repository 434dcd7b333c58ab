"""Certificates of ensembles: a table of every part, a knapsack over parts, attacks that are tried on the ensemble."""

from __future__ import annotations

import hashlib
import itertools
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from labelcert.arrays import Bool, Float, Int
from labelcert.certificate import Stop
from labelcert.checking import unmasked, whole_number, word
from labelcert.engines import stepwise
from labelcert.engines.base import (
    WORK_LIMIT_SECONDS,
    Attacks,
    Capabilities,
    Findings,
    PlainEngine,
    Question,
    Work,
    within_reach,
)
from labelcert.engines.control import Control
from labelcert.engines.cube.labellings import count_stops
from labelcert.engines.linear.spending import first_row
from labelcert.engines.partition.class_tables import class_table, class_work
from labelcert.engines.partition.combining import combine, largest_sum
from labelcert.engines.partition.ensemble import COMBINATIONS, Ensemble, Votes, sum_error
from labelcert.engines.partition.part_tables import (
    PartsAsked,
    PartTable,
    black_box_tables,
    two_class_table,
    two_class_work,
)
from labelcert.engines.partition.parts import Part, assign
from labelcert.engines.pools import pool_in_force, side_by_side
from labelcert.engines.tables.sizes import toggled_sets
from labelcert.errors import InvalidInput
from labelcert.prediction import OneVsRest, Predictor, Sign
from labelcert.problem import Problem, Relabelling

CELLS = 4e6
"""Cells of all knapsack tables that are held at a time."""

SHARE_OF_TABLES = 0.5
"""Of the time that is left, what tables of parts may take; knapsacks over all parts come after them."""

KNAPSACK_SECONDS = 3e-9
"""Rough time of one cell of the totals, for one state of one part."""

GROUP_SECONDS = 300.0
"""Longest estimated knapsack with which the budgets of shared groups are followed."""

UNIONS, STEPS = 30, 12
"""Attacks on nodes that are joined to a growing one, and how often it grows: for the curve's lower end."""

ATTEMPTS = 4
"""Attacks of growing cost that are tried on a node."""


ENSEMBLE = "an ensemble on parts of the labels"
"""Who predicts: models that are trained on parts of the labels."""


@dataclass(frozen=True)
class Parts:
    """How labels are dealt out to the members of an ensemble.

    Attributes
    ----------
    count : int or (m,) array
        How many parts, whose sizes differ by at most one; or the part of each label, which no label may influence.
    seed : int
        Of the hash that deals them out.
    combine : str
        One of :data:`~labelcert.engines.partition.ensemble.COMBINATIONS`.
    part_flips : int or None
        Largest cost of an attack on one part to look at; None for all.
    """

    count: int | npt.ArrayLike
    seed: int = 0
    combine: str = "mean"
    part_flips: int | None = None

    def __post_init__(self) -> None:
        if word("combine", self.combine) not in COMBINATIONS:
            raise InvalidInput(f"combine must be one of {', '.join(map(repr, COMBINATIONS))}, got {self.combine!r}")
        if self.part_flips is not None:
            whole_number("part_flips", self.part_flips)

    def of_labels(self, keys: Sequence[str]) -> Int:
        """(m,) part of each label, as it was given or as a hash of its key deals it out."""
        m = len(keys)
        if np.ndim(self.count):
            part_of = np.asarray(unmasked("parts", self.count))
            if part_of.shape != (m,) or part_of.dtype.kind not in "iu":
                raise InvalidInput(f"parts must be a number of parts, or {m} whole numbers, the part of each label")
            return part_of.astype(np.int64)
        count = whole_number("parts", self.count, 1, m, "one label each")
        return assign(keys, count, whole_number("seed", self.seed, None))

    def described(self, model: str) -> str:
        """The ensemble of such models, in a few words."""
        dealt = f"{self.count!r} parts (seed {self.seed})"
        if np.ndim(self.count):
            dealt = f"{np.unique(np.asarray(self.count)).size} given parts"
        return f"{dealt}, {self.combine}: {model or 'kernel'}"


@dataclass(frozen=True, eq=False)
class DealtLabels:
    """Who predicts, once labels are dealt out: the models of ``parts``; ``part_of`` (m,) is the part of each label.

    ``margins`` (n,) are what the lead of each prediction has to exceed.
    """

    given: Parts
    parts: list[Part]
    part_of: Int
    margins: Float | None = None
    kind: str = ENSEMBLE

    def predictor(self, problem: Problem) -> Predictor:
        """The ensemble that combines the parts' models by votes or by mean scores."""
        return COMBINATIONS[self.given.combine](problem, self.parts, self.margins)

    def votes(self, question: Question) -> Votes:
        """The same parts where votes decide; a margin of mean scores is none of votes."""
        if self.given.combine == "votes":
            return cast(Votes, question.predictor)
        return Votes(question.problem, self.parts)

    def digest(self, sha256: str) -> str:
        """With the part of each label, and how parts are combined."""
        h = hashlib.sha256(sha256.encode())
        h.update(np.ascontiguousarray(self.part_of, dtype="<i8").tobytes() + self.given.combine.encode())
        return h.hexdigest()


def _two_class_labellings(question: Question) -> float:
    return count_stops(question, question.budget)


def _class_labellings(question: Question) -> float:
    return float(toggled_sets(question.problem)[-1])


PartMethod = tuple[Callable[..., PartTable], Callable[..., Float], Callable[[Question], float]]

METHODS: dict[type[Predictor], PartMethod] = {
    Sign: (two_class_table, two_class_work, _two_class_labellings),
    OneVsRest: (class_table, class_work, _class_labellings),
}
"""By what predicts in each part: how its table is made, how long that takes, and how many labellings it has."""


class PartEngine(PlainEngine):
    """A table of every part, combined over the parts."""

    name = "partition"
    capabilities = Capabilities(automatic=True, advertised=False, predictors=frozenset({ENSEMBLE}))

    def stage_name(self, problem: Problem) -> str:
        """With how the parts are combined."""
        return f"{self.name} ({'votes' if cast(DealtLabels, problem.by).given.combine == 'votes' else 'mean scores'})"

    def estimate(self, question: Question, control: Control) -> Work:
        """A knapsack over all parts, and all labellings of each, unless a time limit ends them."""
        if question.nodes.size == 0:
            return Work("there is nothing to do")
        dealt, asked = self._asked(question)
        knapsack = _knapsack_seconds(question, dealt.parts, asked.shared)
        if knapsack > WORK_LIMIT_SECONDS:
            return Work(
                f"a knapsack over {len(dealt.parts)} parts for budgets up to {question.budget} and "
                f"{question.nodes.size} nodes",
                knapsack,
                "divide the costs by a common unit, or give a smaller max_flips",
            )
        if control.time_limit is not None:
            return Work("all labellings of all parts, as far as time allows", knapsack)
        _, work, _ = part_method(dealt.parts)
        seconds = work(asked, dealt.parts) / control.workers
        reason = (
            f"all labellings of {len(dealt.parts)} parts of up to {max(part.problem.m for part in dealt.parts)} "
            f"labels, with up to {seconds.size - 1} changes in each"
        )
        if seconds[-1] <= WORK_LIMIT_SECONDS:
            return Work(reason, float(knapsack + seconds[-1]))
        fits = int(np.flatnonzero(seconds <= WORK_LIMIT_SECONDS)[-1])
        return Work(
            reason,
            float(seconds[-1]),
            f"smaller parts are faster (give a larger parts=); part_flips={fits} would fit: it looks at attacks of "
            "that size on each part, and assumes the worst of larger ones; time_limit=SECONDS gives what can be proved "
            "in that time",
        )

    def run(self, question: Question, control: Control, known: Findings) -> Findings:
        """Radii from tables of all parts; the curve from the attacks that were found on the way."""
        started = time.perf_counter()
        dealt, asked = self._asked(question)
        statistics: dict[str, Any] = {**_sizes(dealt.parts), "part_flips": dealt.given.part_flips}
        if question.nodes.size:
            first = control.part(SHARE_OF_TABLES)
            tables = list(make_tables(asked, dealt.parts, first))
            if control.stop is Stop.FINISHED:
                control.stop = first.stop
            lower = np.maximum(known.radius_lower, self._lower(asked, tables, control))
            attacks = self._attack(asked, tables, control)
            if control.collective:
                grow(question, attacks, control)
            relaxed = len(_binding_groups(question, dealt.parts)) - asked.shared.size
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
        about = {
            "combine": dealt.given.combine,
            "part_of": dealt.part_of.tolist(),
            "black_box_radius": black_box_radii(dealt.votes(question)).tolist(),
        }
        return replace(known, statistics={**statistics, **about})

    def _asked(self, question: Question) -> tuple[DealtLabels, PartsAsked]:
        """The parts, and what all their tables are about."""
        dealt = cast(DealtLabels, question.problem.by)
        shared = shared_groups(question, dealt.parts)
        asked = PartsAsked(question, dealt.given.combine == "votes", shared, dealt.given.part_flips)
        pool = pool_in_force()
        if pool is None or question.nodes.size == 0:
            return dealt, asked
        _, _, labellings = part_method(dealt.parts)
        together = pool.take_many(sum(labellings(asked.within(part)) for part in dealt.parts))
        return dealt, replace(asked, together=together)

    def _lower(self, asked: PartsAsked, tables: list[PartTable], control: Control) -> Int:
        """(n,) least cost of any attack at which nothing proves that a prediction survives; budget + 1 for none.

        Nodes that nobody got to before the run was over have 0.
        """
        problem, parts = asked.question.problem, []
        for some in _node_blocks(asked, tables):
            if control.closed():
                parts.append(np.zeros(some.size, dtype=np.int64))
                continue
            cut = [(table.states, table.floor[..., some]) for table in tables]
            totals = combine(cut, _limits(asked), choices=False)
            least = _least(asked, some)
            error = sum_error(largest_sum(cut) + least, len(cut))
            parts.append(first_row(np.any(~(totals.by_cost() - least > error), axis=1)))
        return problem.adversary.next_payable(problem.max_flips)[np.concatenate(parts)]

    def _attack(self, asked: PartsAsked, tables: list[PartTable], control: Control) -> Attacks:
        """The cheapest attacks, from the tables, tried on the ensemble."""
        question, ensemble = asked.question, cast(Ensemble, asked.question.predictor)
        attacks = Attacks(question)
        tried: set[Relabelling] = set()
        states = [table.states for table in tables]
        for some in _node_blocks(asked, tables):
            if control.closed():
                break
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
    def _change(ensemble: Ensemble, tables: list[PartTable], rows: list[int], r: int, t: int) -> Relabelling:
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
    a, ensemble = question.problem.adversary, cast(Ensemble, question.predictor)
    turned = np.zeros(0, dtype=np.int64)
    for part in sorted(ensemble.parts, key=lambda part: int(a.costs[part.positions].sum())):
        turned = np.sort(np.concatenate([turned, part.positions]))
        if control.over() or not a.affords(turned, question.budget):
            break
        attacks.enter(a.flipped(turned))
    pool = list(dict.fromkeys(change for change in attacks.radius_changes if change is not None and len(change)))
    pool = pool[:: max(1, len(pool) // UNIONS)]

    def joined(grown: Relabelling) -> Relabelling | None:
        unions = (Relabelling.of({**change.moves, **grown.moves}) for change in pool)
        larger = (u for u in unions if len(u) > len(grown) and a.admits(u, question.budget) and not control.over())
        return max(larger, key=lambda union: (attacks.enter(union)[0], -a.cost(union)), default=None)

    for _ in itertools.islice(stepwise.grow(joined), STEPS):
        pass


def shared_groups(question: Question, parts: Sequence[Part]) -> Int:
    """Groups whose budgets several parts share, as many as can be followed.

    A budget that pays for the whole group restricts nobody. Where a budget cannot be followed, every part is given
    all of it: what is proved then stays true, and attacks are checked against the threat.
    """
    followed: list[int] = []
    for g in _binding_groups(question, parts):
        more = np.array([*followed, g], dtype=np.int64)
        if _knapsack_seconds(question, parts, more) <= GROUP_SECONDS:
            followed.append(g)
    return np.array(followed, dtype=np.int64)


def _binding_groups(question: Question, parts: Sequence[Part]) -> list[int]:
    """Groups that several parts share, and whose budget does not pay for all of them."""
    a = question.problem.adversary
    return [
        g
        for g in np.flatnonzero(a.group_caps < np.minimum(a.group_totals, question.budget)).tolist()
        if sum(bool(np.any(a.groups[part.positions] == g)) for part in parts) > 1
    ]


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
    most = min(problem.max_flips, int(cheapest[cheapest > 0].sum()))
    found = first_row(np.any(combine(tables, np.array([most]), choices=False).by_cost() <= votes.least[nodes], axis=1))
    radii[nodes] = np.where(found > most, problem.max_flips + 1, found)
    return radii


def part_method(
    parts: Sequence[Part],
) -> tuple[Callable[..., PartTable], Callable[..., Float], Callable[[Question], float]]:
    """How the parts of an ensemble are worked on, which are all alike."""
    return METHODS[type(parts[0].predictor)]


def make_tables(asked: PartsAsked, parts: Sequence[Part], control: Control) -> Iterator[PartTable]:
    """The tables of all parts; with a time limit, each gets its share of what is left."""
    count, together = len(parts), asked.together
    make, _, _ = part_method(parts)

    def table(k: int) -> tuple[PartTable, Stop]:
        child = Control(workers=control.workers, collective=False, parent=control)
        if together == 1:
            control.note(f"part {k + 1} of {count}")
            child.report = lambda done, total: control.report(k + done / max(total, 1e-9), count)
        if control.deadline is not None:
            child.time_limit = max(1e-3, together * (control.deadline - time.monotonic()) / (count - k))
            child.start_clock()
        return make(parts[k], asked, child), child.stop

    for k, (made, stop) in enumerate(side_by_side(table, count, together)):
        control.report(k + 1, count)
        yield made
        if control.stop is Stop.FINISHED:
            control.stop = stop


def _least(asked: PartsAsked, some: Int) -> Float:
    """(n,) the sum over all parts at which some nodes count as changed: see `Ensemble.least`."""
    return np.asarray(cast(Ensemble, asked.question.predictor).least[asked.question.nodes[some]])


def _limits(asked: PartsAsked) -> Int:
    """(1 + G,) largest cost, and largest cost inside each shared group, of an attack on the ensemble."""
    problem = asked.question.problem
    caps = problem.adversary.group_caps[asked.shared]
    return np.concatenate([[problem.max_flips], np.minimum(caps, problem.max_flips)]).astype(np.int64)


def _node_blocks(asked: PartsAsked, tables: list[PartTable]) -> Iterator[Int]:
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


def _sizes(parts: Sequence[Part]) -> dict[str, Any]:
    """How many parts there are, and how large."""
    sizes = [part.problem.m for part in parts]
    return {"parts": len(sizes), "smallest_part": min(sizes), "largest_part": max(sizes), "trainings": 0}


def _added(records: list[dict[str, Any]]) -> dict[str, Any]:
    """Numbers of all parts, added up."""
    return {key: sum(record[key] for record in records) for key in records[0] if key != "seconds"}
