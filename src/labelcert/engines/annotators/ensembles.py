"""Ensembles on parts of the labels against owners of annotators: what a set of them reaches in each part.

A set of annotators can change so many labels of each part. The table of a part says how low as many changed labels
bring it, whichever they are; the sum over all parts bounds what the set can do. Where each annotator is in one part
alone, a set of k reaches k parts.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, cast

import numpy as np

from labelcert.arrays import Bool, Float, Int
from labelcert.engines.annotators.engine import alone_of
from labelcert.engines.base import Attacks, Capabilities, Findings, PlainEngine, Question, Work, within_reach
from labelcert.engines.control import Control
from labelcert.engines.partition.combining import largest_sum
from labelcert.engines.partition.engine import ENSEMBLE, DealtLabels, make_tables, part_method
from labelcert.engines.partition.ensemble import Ensemble, sum_error
from labelcert.engines.partition.part_tables import PartsAsked, PartTable
from labelcert.problem import Problem, Relabelling
from labelcert.problem.owners import OwnerAdversary

MOST_SETS = 50_000
"""Sets of one price that are looked at."""

TABLE_SECONDS = 20.0
"""What tables of all parts may take together, where nobody says how deep they are to be."""

CELLS = 1e7
"""Sets times rivals times nodes that are looked at together."""

ATTACKS = 100
"""Sets of each price with which attacks are tried."""


class OwnedPartEngine(PlainEngine):
    """Sets of annotators, and what each part holds out against."""

    name = "annotators"
    capabilities = Capabilities(automatic=True, advertised=False, predictors=frozenset({ENSEMBLE}), owners=True)

    def stage_name(self, problem: Problem) -> str:
        """With how the parts are combined."""
        return f"annotators ({'votes' if cast(DealtLabels, problem.by).given.combine == 'votes' else 'mean scores'})"

    def estimate(self, question: Question, control: Control) -> Work:
        """Tables are as deep as fits."""
        return Work("tables of all parts, as deep as fits into half a minute")

    def run(self, question: Question, control: Control, known: Findings) -> Findings:
        """Radii from sets of annotators, and the curve from what each of them may change at once."""
        started = time.perf_counter()
        found = PartOwners(question, control)
        found.run()
        a = cast(OwnerAdversary, question.problem.adversary)
        about = {
            "parts": len(found.parts),
            "combine": found.dealt.given.combine,
            "part_of": found.dealt.part_of.tolist(),
            "black_box_radius": found.black_box_radii().tolist(),
            "trainings": sum(int(table.statistics.get("trainings", 0)) for table in found.tables),
            "sets_of_annotators": found.sets,
        }
        about |= alone_of(question, a, found.alone)
        about["seconds"] = time.perf_counter() - started
        return found.attacks.findings(found.lower, about, found.curve_upper)


class PartOwners:
    """What sets of annotators may do, by their price."""

    def __init__(self, question: Question, control: Control) -> None:
        self._question, self._control = question, control
        self._a = cast(OwnerAdversary, question.problem.adversary)
        self._n, self._budget = question.nodes.size, question.budget
        self._ensemble = cast(Ensemble, question.predictor)
        self.dealt = cast(DealtLabels, question.problem.by)
        self._inside = np.zeros((self._a.labels.size, len(self.dealt.parts)), dtype=np.int64)
        for k, part in enumerate(self.dealt.parts):
            self._inside[part.positions, k] = 1
        counts = self._a.count_sets_by_price(self._budget)
        few = np.flatnonzero(np.cumsum(counts) > MOST_SETS)
        self._last = self._budget if few.size == 0 else int(few[0]) - 1
        self.parts = self._limited()
        self.tables: list[PartTable] = []
        self.attacks = Attacks(question)
        self.lower = np.where(question.contrary, 0, self._last + 1).astype(np.int64)
        self.curve_upper = np.full(self._budget + 1, self._n)
        self.alone: dict[int, tuple[Bool, Bool]] = {}
        self._sums: tuple[list[Float], Float] | None = None
        self.sets = 0

    def _limited(self) -> list[Any]:
        """The parts, each with as many changed labels as any set of annotators reaches there."""
        most = np.zeros(len(self.dealt.parts), dtype=np.int64)
        for _, sets in self._batches():
            most = np.maximum(most, self._reach(sets).max(axis=0))
        pairs = zip(self.dealt.parts, most.tolist(), strict=True)
        return [replace(part, problem=replace(part.problem, max_flips=reach)) for part, reach in pairs]

    def _batches(self) -> Iterator[tuple[int, Bool]]:
        """Sets of annotators, (s, A), with their price."""
        for price in range(1, self._last + 1):
            every = self._a.members(list(self._a.sets_of(price)))
            for start in range(0, len(every), 256):
                yield price, every[start : start + 256]

    def _reach(self, sets: Bool) -> Int:
        """(s, k) how many labels of each part a set of annotators can change."""
        reach = self._a.attainable(sets).any(axis=2).astype(np.int64) @ self._inside
        if self._a.wrong_votes is not None:  # each changed label takes a changed vote
            reach = np.minimum(reach, self._a.wrong_votes * sets.sum(axis=1)[:, None])
        return np.asarray(reach)

    def run(self) -> None:
        """All sets, price by price; from where they are too many or time is up on, nothing is claimed."""
        self.curve_upper[0] = int(self._question.contrary.sum())
        if self._n == 0:
            return
        self._tabled()
        tried, most = np.zeros(self._budget + 1, dtype=np.int64), 0
        for price, sets in self._batches():
            if self._control.over():
                self.lower = np.minimum(self.lower, price)
                self.curve_upper[price:] = self._n
                break
            self.sets += len(sets)
            open_ = self._open(sets)
            most = max(most, int((open_ | self._question.contrary).sum(axis=1).max()))
            self.curve_upper[price:] = most
            hit = open_.any(axis=0) & ~self._question.contrary
            self.lower[hit] = np.minimum(self.lower[hit], price)
            for owners, perhaps in zip(sets, open_, strict=True):
                tried[price] += perhaps.any()
                sure = self._attack(owners) if perhaps.any() and tried[price] <= ATTACKS else np.zeros_like(perhaps)
                if owners.sum() == 1:
                    self.alone[int(owners.argmax())] = sure | self._question.contrary, perhaps | self._question.contrary
        if self._last < self._budget:
            self.curve_upper[self._last + 1 :] = self._n
        self.curve_upper = np.minimum(self.curve_upper, within_reach(self.lower, self._budget))

    def _tabled(self) -> None:
        """How low each part is brought by so many changed labels, or fewer."""
        problem, given = self._question.problem, self.dealt.given
        flips = replace(problem, adversary=self._a.within(self._a.targets), max_flips=problem.m)
        voting, none = given.combine == "votes", np.zeros(0, dtype=np.int64)
        asked = PartsAsked(replace(self._question, problem=flips), voting, none, given.part_flips)
        if given.part_flips is None:
            _, work, _ = part_method(self.parts)
            seconds = work(asked, self.parts) / self._control.workers
            allowed = min(TABLE_SECONDS, 0.5 * self._control.left_seconds())
            asked = replace(asked, depth=int(np.flatnonzero(seconds <= max(allowed, seconds[0]))[-1]))
        self.tables = list(make_tables(asked, self.parts, self._control))
        lowest = []
        for table, part in zip(self.tables, self.parts, strict=True):
            costs = np.arange(part.problem.max_flips + 1)
            lowest.append(np.stack([table.floor[table.states[:, 0] <= cost].min(axis=0) for cost in costs]))
        least = self._ensemble.least[self._question.nodes]
        largest = largest_sum([(table.states, table.floor) for table in self.tables]) + least
        self._sums = lowest, least + sum_error(largest, len(lowest))

    def of_sets(self, sets: Bool) -> tuple[Bool, Bool]:
        """(n, s) which nodes change provably, and which possibly, by each of (s, A) sets of annotators."""
        if not self.tables and self._n:
            self._tabled()
        maybe = self._open(sets) if self._n else np.zeros((len(sets), 0), dtype=bool)
        sure = np.zeros_like(maybe)
        for k in np.flatnonzero(maybe.any(axis=1))[:ATTACKS].tolist():
            sure[k] = self._attack(sets[k])
        clean = self._question.contrary[:, None]
        return sure.T | clean, maybe.T | clean

    def knowing(self, free: Int) -> PartOwners:
        """The same where only the labels at some positions may change; parts are brought as low as before, or less."""
        other = copy.copy(self)
        adversary = cast(OwnerAdversary, self._a.only(free))
        other._question = replace(self._question, problem=replace(self._question.problem, adversary=adversary))
        other._a, other._inside, other.attacks = adversary, self._inside[free], Attacks(other._question)
        return other

    def relief(self, sets: Bool, nodes: Int, weights: Float) -> Float:
        """(ν,) how much closer to surviving sets each label brings nodes, if it is confirmed; ``weights`` (k, s).

        One label less in a part of which a set reaches r, so that it is brought as low as r - 1 do.
        """
        assert self._sums is not None
        total, tables = np.zeros(self._a.labels.size), self._sums[0]
        step = max(1, int(CELLS / tables[0][0].size))
        for start in range(0, len(sets), step):
            part = slice(start, start + step)
            reach, eased = self._reach(sets[part]), np.zeros((len(sets[part]), len(tables)))
            for k, table in enumerate(tables):
                own = np.where(np.isfinite(table), table, 0.0)[..., nodes]
                less = own[np.maximum(reach[:, k] - 1, 0)] - own[reach[:, k]]
                eased[:, k] = (np.maximum(less, 0.0).sum(axis=1) * weights.T[part]).sum(axis=1)
            touched = self._a.attainable(sets[part]).any(axis=2)
            total += (touched * (eased @ self._inside.T)).sum(axis=0)
        return total

    def _open(self, sets: Bool) -> Bool:
        """(s, n) which nodes each set of annotators may change."""
        assert self._sums is not None
        (lowest, needed), reach = self._sums, self._reach(sets)
        found = np.zeros((len(sets), self._n), dtype=bool)
        step = max(1, int(CELLS / lowest[0][0].size))
        for start in range(0, len(sets), step):
            part = slice(start, start + step)
            totals = sum(table[reach[part, k]] for k, table in enumerate(lowest))
            found[part] = np.any(~(totals > needed), axis=1)
        return found

    def _attack(self, owners: Bool) -> Bool:
        """(n,) which nodes change if a set of annotators moves all labels that it can to one class."""
        may, sure = self._a.attainable(owners[None])[0], np.zeros(self._n, dtype=bool)
        for r in range(self._question.problem.n_classes):
            positions = np.flatnonzero(may[:, r]).astype(np.int64)
            change = self._a.voted(Relabelling(positions, np.full(positions.size, r)), owners)
            if positions.size and change is not None and not self._control.over():
                self.attacks.enter(change)
                sure |= self._question.changed(change)[0]
        return sure

    def black_box_radii(self) -> Int:
        """(n,) radii from the numbers of votes alone: a part with a label within reach may vote for anything."""
        votes = self.dealt.votes(self._question)
        nodes = np.flatnonzero(votes.predicted >= 0)
        radii = np.zeros(self._question.problem.n_test, dtype=np.int64)
        if nodes.size == 0:
            return radii
        own = votes.predicted[nodes]
        rivals = own[None, :] != np.arange(self._question.problem.n_classes)[:, None]
        clean = np.where(rivals, votes.clean_votes(nodes, own), np.inf)
        radii[nodes] = self._last + 1
        for price, sets in self._batches():
            for touched in np.unique(self._reach(sets) > 0, axis=0):
                totals = clean[~touched].sum(axis=0) - np.where(rivals, touched.sum(), 0)
                lost = nodes[np.any(totals <= votes.least[nodes], axis=0)]
                radii[lost] = np.minimum(radii[lost], price)
        return radii
