"""Radii and curve against owners of annotators, where models have to be retrained.

What one set of annotators can do is a question about label flips: some labels, each with the classes that it may
become, and nothing to pay. The walks over labellings answer it. Where a set reaches too many labels for them, radii in
flips tell which predictions survive it all the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property
from typing import cast

import numpy as np

from labelcert.arrays import Bool, Int
from labelcert.engines.base import Attacks, Findings, Question, within_reach
from labelcert.engines.control import Control
from labelcert.engines.enumerate import Enumerate
from labelcert.problem import Relabelling
from labelcert.problem.owners import OwnerAdversary

USUAL_SECONDS = 60.0
"""What walks may take together, by their estimates, where there is no time limit."""

FLIP_SECONDS = 5.0
"""What radii in flips may take."""

MOST_WALKED = 24
"""Labels within reach of a set of annotators beyond which a walk is not even considered."""

MOST_SETS = 50_000
"""Sets of one price that are looked at."""


class RetrainedOwners:
    """One question, answered set by set as far as time and effort allow.

    Attributes
    ----------
    lower : (n,) array
        Lower ends of radii. The upper ends are in ``attacks``.
    curve_upper : (B + 1,) array
    """

    def __init__(self, question: Question, control: Control, known: Attacks | None = None) -> None:
        self._question, self._control = question, control
        self._a = cast(OwnerAdversary, question.problem.adversary)
        self._n, self._budget = question.nodes.size, question.budget
        self.attacks = Attacks(question) if known is None else known
        self.lower = np.where(question.contrary, 0, question.budget + 1).astype(np.int64)
        self.curve_upper = np.full(question.budget + 1, self._n)
        self._alone: dict[int, tuple[Bool, Bool]] = {}
        self.sets = self.trainings = 0
        self._effort = USUAL_SECONDS if control.time_limit is None else np.inf

    def run(self) -> None:
        """Radii in flips, then sets of annotators by their price."""
        self.curve_upper[0] = int(self._question.contrary.sum())
        most, stopped = 0, False
        counts = self._a.count_sets_by_price(self._budget)
        for price in range(1, self._budget + 1):
            stopped = stopped or self._control.over() or counts[price] > MOST_SETS
            if stopped:
                self._by_reach(price)
                break
            reached = np.zeros(self._n, dtype=bool)
            for owners in self._members(price):
                _, perhaps, together = self._of_set(owners)
                reached |= perhaps
                most = max(most, together)
            stopped = self._control.over()
            self.curve_upper[price] = self._n if stopped else most
            if stopped:
                reached[:] = True
            self.lower = np.where(reached & ~self._question.contrary, np.minimum(self.lower, price), self.lower)
        self.curve_upper = np.minimum(self.curve_upper, within_reach(self.lower, self._budget))

    def alone(self) -> dict[int, tuple[Bool, Bool]]:
        """Of each annotator that was looked at, (n,) which nodes change provably, and which possibly."""
        return self._alone

    def of_sets(self, sets: Bool) -> tuple[Bool, Bool]:
        """(n, s) which nodes change provably, and which possibly, by each of (s, A) sets of annotators."""
        sure, maybe = (np.zeros((self._n, len(sets)), dtype=bool) for _ in range(2))
        for k, owners in enumerate(sets):
            maybe[:, k] = True
            if not self._control.over():
                sure[:, k], maybe[:, k], _ = self._of_set(owners)
        return sure, maybe

    def walkable(self, owners: Bool) -> Question | None:
        """The question about all that a set of annotators can do, if a walk answers it in the time that is left."""
        question = self._within(self._a.attainable(owners[None])[0])
        seconds = 0.0 if question is None else self._seconds(question)
        if question is None or seconds > min(self._effort, self._control.left_seconds()):
            return None
        self._effort -= seconds
        return question

    def _by_reach(self, price: int) -> None:
        """From a price on, only how many labels annotators vote on is looked at."""
        for t in np.flatnonzero(self.lower > price).tolist():
            self.lower[t] = min(self.lower[t], max(price, self._a.price_of(int(self.flips[t]))))

    def _members(self, price: int) -> Iterator[Bool]:
        for one in self._a.sets_of(price):
            if self._control.over():
                return
            self.sets += 1
            yield self._a.members([one])[0]

    @cached_property
    def flips(self) -> Int:
        """(n,) numbers of labels of which fewer change nothing, whoever votes on them."""
        question = self._within(self._a.targets)
        flips = np.ones(self._n, dtype=np.int64)
        if question is None:
            return flips + self._question.problem.m
        if self._control.left_seconds() < 4 * FLIP_SECONDS:  # to find out how many flips fit takes some of it
            return np.where(self._question.contrary, 0, flips)
        engine, part = Enumerate(), self._control.part(0.2)
        budget = min(question.budget, engine.reach(question, part, FLIP_SECONDS))
        if budget > 0:
            narrow = replace(question, problem=replace(question.problem, max_flips=budget))
            found = engine.run(narrow, part, Findings.nothing(narrow))
            beyond = self._question.problem.m + 1 if budget == question.budget else budget + 1
            flips = np.where(found.radius_lower > budget, beyond, found.radius_lower)
        return np.where(self._question.contrary, 0, flips)

    def _within(self, may: Bool) -> Question | None:
        """The question about everything that may become something, one unit each; None where nothing may."""
        adversary = self._a.within(may)
        if adversary.labels.size == 0:
            return None
        problem = replace(self._question.problem, adversary=adversary, max_flips=adversary.spendable)
        return replace(self._question, problem=problem, observers=(), counting=None)

    def _of_set(self, owners: Bool) -> tuple[Bool, Bool, int]:
        """(n,) which nodes a set of annotators provably changes, which it may change, and how many of them at once."""
        may = self._a.attainable(owners[None])[0]
        question = self._within(may)
        if question is None:
            clean = self._question.contrary
            return clean.copy(), clean.copy(), int(clean.sum())
        perhaps = self.flips <= question.budget
        single = int(owners.sum()) == 1
        if not (perhaps & (self.lower > 0)).any():
            nothing = self._question.contrary.copy()
            if single:
                self._alone[int(owners.argmax())] = nothing, perhaps
            return nothing, perhaps, int(perhaps.sum())
        engine, together = Enumerate(), int(perhaps.sum())
        seconds = self._seconds(question)
        if seconds <= min(self._effort, self._control.left_seconds()):
            self._effort -= seconds
            found = engine.run(question, self._control, Findings.nothing(question))
            self.trainings += int(found.statistics.get("trainings", 0))
            perhaps &= ~(found.radius_lower > question.budget)
            together = min(int(perhaps.sum()), int(found.curve_upper[-1]))
            changes = [change for change in found.radius_changes if change is not None]
            changes.append(found.curve_changes[-1])
        else:
            changes = self._guesses(question)
        sure = self._entered(question, changes, owners) | self._question.contrary
        if single:
            self._alone[int(owners.argmax())] = sure, perhaps
        return sure, perhaps, together

    def _seconds(self, question: Question) -> float:
        """What a walk through all that a set of annotators can do would take, roughly."""
        if question.problem.adversary.labels.size > MOST_WALKED:
            return np.inf
        work = Enumerate().estimate(question, self._control)
        return work.seconds if work.advice is None else np.inf

    def _guesses(self, question: Question) -> list[Relabelling]:
        """For each class: every label becomes it that may."""
        may = question.problem.adversary.targets
        found = []
        for r in range(question.problem.n_classes):
            positions = np.flatnonzero(may[:, r]).astype(np.int64)
            found.append(Relabelling(positions, np.full(positions.size, r)))
        return found

    def _entered(self, question: Question, changes: list[Relabelling], owners: Bool) -> Bool:
        """Retrain on what a set of annotators can do; (n,) which nodes change."""
        at = np.searchsorted(self._a.labels, question.problem.adversary.labels)
        sure = np.zeros(self._n, dtype=bool)
        for change in dict.fromkeys(changes):
            if len(change) and not self._control.over():
                voted = self._a.voted(Relabelling(at[change.positions], change.targets), owners)
                if voted is not None:
                    self.attacks.enter(voted)
                    sure |= self._question.changed(voted)[0]
        return sure
