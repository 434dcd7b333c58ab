"""What every engine takes and returns.

An engine is one file: a class that says which problems it refuses, estimates its work, and runs. It reads a
:class:`Question` and returns :class:`Findings`. It never decides on its own authority that a prediction changes, but
through the question's predictor.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from labelcert.arrays import Bool, Index, Int, Text
from labelcert.certificate import TRUSTED_SOLVER
from labelcert.certificate.proofs import Proofs
from labelcert.engines.control import Control
from labelcert.engines.observing import Counter, Observer
from labelcert.prediction import Predictor, predictor_for
from labelcert.problem import NOTHING, Problem, Relabelling
from labelcert.problem.problem import ONE_MODEL

WORK_LIMIT_SECONDS = 900.0
"""Longest estimated run that starts without a ``time_limit``."""


@dataclass(frozen=True, eq=False)
class Question:
    """A problem whose clean predictions are decided."""

    # its ``max_flips`` and its adversary say what is asked; both may be narrower than the predictor's own
    problem: Problem
    predictor: Predictor
    # (n,) the test nodes to certify: those with a clean prediction, sorted by it. Engines number them 0..n-1.
    nodes: Index
    observers: Sequence[Observer] = ()  # who else wants to know what relabellings do
    counting: Counter | None = None  # who counts what they change, where they are walked
    prover: Engine | None = None  # who proves something about what a walk has not visited yet

    @classmethod
    def ask(cls, predictor: Predictor) -> Question:
        """Leave out nodes without a clean prediction."""
        decided = np.flatnonzero(predictor.predicted >= 0)
        nodes = decided[np.argsort(predictor.predicted[decided], kind="stable")]
        return cls(problem=predictor.problem, predictor=predictor, nodes=nodes)

    @property
    def budget(self) -> int:
        """Largest budget that is asked about."""
        return self.problem.max_flips

    @property
    def predicted(self) -> Int:
        """(n,) predicted class of each node."""
        return self.predictor.predicted[self.nodes]

    @property
    def segments(self) -> Int:
        """(K + 1,) nodes predicted as class c are ``segments[c]..segments[c + 1]``."""
        return np.searchsorted(self.predicted, np.arange(self.problem.n_classes + 1)).astype(np.int64)

    @property
    def contrary(self) -> Bool:
        """(n,) nodes whose prediction was given and is not the model's own: the clean labels change them already."""
        given = self.predictor.contrary
        return np.zeros(self.nodes.size, dtype=bool) if given is None else given[self.nodes]

    @property
    def unsure(self) -> Bool:
        """(n,) nodes that are not proved to keep their prediction with the clean labels."""
        unsure = self.predictor.unsure
        return self.contrary if unsure is None else self.contrary | unsure[self.nodes]

    def changed(self, change: Relabelling, nodes: Int | None = None) -> tuple[Bool, Bool]:
        """Of these nodes (or some of them): provably changed, and provably unchanged."""
        return self.predictor.changed(
            self.problem.relabelled(change), self.nodes if nodes is None else self.nodes[nodes]
        )

    def changed_by(self, changes: Sequence[Relabelling]) -> tuple[Bool, Bool]:
        """(B, n) the same for some changes."""
        return self.predictor.changed_by(changes, self.nodes)


@dataclass(frozen=True, eq=False)
class ReadOnce:
    """What the final check cannot find out again, since the rows behind it were read once and not kept."""

    question: Question  # as it turned out: only reading the rows decided the clean predictions
    becomes: Int  # (n,) class that each node's witness turns it into, retrained while its row was there; -1 without one
    changed: dict[Relabelling, Bool]  # for attacks of the curve, (n,) which nodes each provably changes
    votes: Int | None = None  # (n, k, R) what models that nobody knows said about the clean labels


@dataclass(frozen=True, eq=False)
class Findings:
    """What an engine proved about the n nodes of a question, for budgets 0..B."""

    # radius_lower, radius_upper: (n,)
    radius_lower: Int
    radius_upper: Int
    radius_changes: Sequence[Relabelling | None]  # attacks that realise each ``radius_upper``
    # curve_lower, curve_upper: (B + 1,)
    curve_lower: Int
    curve_upper: Int
    curve_changes: Sequence[Relabelling]  # attacks that realise each ``curve_lower``
    statistics: dict[str, Any]  # plain numbers about the run
    # radius_by, curve_by: which engine proved what; filled in by ``refined``
    radius_by: Text | None = None
    curve_by: Text | None = None
    proofs: Proofs | None = None  # what a search proved, in a form that can be checked without it
    # (n,) lower ends of radii by a solver's own word, which proves nothing; None: nothing is claimed
    radius_claimed: Int | None = None
    curve_claimed: Int | None = None  # (B + 1,) upper ends of the curve, in the same way
    read: ReadOnce | None = None  # what was checked on the way
    sha256: str = ""  # hash of all that decided the answer, where that is not the problem alone
    drops: bool = False  # whether the predictor was asked wherever a class has no labels left: see ``emptied``

    @classmethod
    def nothing(cls, question: Question) -> Findings:
        """What is known before any engine ran: a clean prediction of the model has a radius of at least 1."""
        n, budget = question.nodes.size, question.budget
        contrary, unsure = question.contrary, question.unsure
        curve_upper = np.full(budget + 1, n, dtype=np.int64)
        curve_upper[0] = int(unsure.sum())
        return cls(
            radius_lower=np.where(unsure, 0, 1).astype(np.int64),
            radius_upper=np.where(contrary, 0, question.problem.adversary.never).astype(np.int64),
            radius_changes=[NOTHING if changed else None for changed in contrary],
            curve_lower=np.full(budget + 1, contrary.sum(), dtype=np.int64),
            curve_upper=curve_upper,
            curve_changes=[NOTHING] * (budget + 1),
            statistics={},
            radius_by=np.full(n, "", dtype="U32"),
            curve_by=np.full(budget + 1, "", dtype="U32"),
        )

    def refined(self, found: Findings, engine: str) -> Findings:
        """The tighter of two findings, end by end, with the name of the engine that proved each lower radius.

        For the curve it is the engine that proved the upper end: what provably survives. ``found`` may cover fewer
        budgets; then it says nothing about radii beyond them.
        """
        assert self.radius_by is not None
        assert self.curve_by is not None
        covered = found.curve_lower.size
        higher = found.radius_lower > self.radius_lower
        closer = found.radius_upper < self.radius_upper
        changes = [b if c else a for a, b, c in zip(self.radius_changes, found.radius_changes, closer, strict=True)]
        radius_by, curve_by = self.radius_by.copy(), self.curve_by.copy()
        lower = np.where(higher, found.radius_lower, self.radius_lower)
        upper = np.where(closer, found.radius_upper, self.radius_upper)
        # A radius that its witness alone settles (1 flip, say) is the work of the engine that found the witness.
        radius_by[higher | (closer & (lower == upper))] = engine
        curve_lower, curve_upper = self.curve_lower.copy(), self.curve_upper.copy()
        curve_changes = list(self.curve_changes)
        best, best_change = 0, curve_changes[0]
        for b in range(curve_lower.size):
            if b < covered and found.curve_lower[b] > best:
                best, best_change = int(found.curve_lower[b]), found.curve_changes[b]
            if best > curve_lower[b]:
                curve_lower[b], curve_changes[b] = best, best_change
        tighter = np.zeros(curve_upper.size, dtype=bool)
        tighter[:covered] = found.curve_upper < curve_upper[:covered]
        curve_upper[:covered] = np.minimum(curve_upper[:covered], found.curve_upper)
        curve_upper = np.minimum(curve_upper, within_reach(lower, curve_upper.size - 1))
        settled = (curve_lower == curve_upper) & (self.curve_lower < self.curve_upper)
        curve_by[tighter | settled] = engine
        radius_claimed = np.maximum(self.claimed_radii, found.claimed_radii)
        curve_claimed = np.minimum(self.claimed_curve, within_reach(radius_claimed, curve_upper.size - 1))
        curve_claimed[:covered] = np.minimum(curve_claimed[:covered], found.claimed_curve)
        return Findings(
            radius_lower=lower,
            radius_upper=upper,
            radius_changes=changes,
            curve_lower=curve_lower,
            curve_upper=curve_upper,
            curve_changes=curve_changes,
            statistics=found.statistics,
            radius_by=radius_by,
            curve_by=curve_by,
            proofs=found.proofs or self.proofs,
            radius_claimed=radius_claimed,
            curve_claimed=curve_claimed,
            read=found.read or self.read,
            sha256=found.sha256 or self.sha256,
        )

    @property
    def claimed_radii(self) -> Int:
        """(n,) lower ends of radii, proved or claimed."""
        if self.radius_claimed is None:
            return self.radius_lower
        return np.maximum(self.radius_claimed, self.radius_lower)

    @property
    def claimed_curve(self) -> Int:
        """(B + 1,) upper ends of the curve, proved or claimed."""
        if self.curve_claimed is None:
            return self.curve_upper
        return np.minimum(self.curve_claimed, self.curve_upper)

    def trusting(self) -> Findings:
        """With all claims as if they were proofs, and :data:`TRUSTED_SOLVER` behind them."""
        assert self.radius_by is not None
        assert self.curve_by is not None
        return replace(
            self,
            radius_lower=self.claimed_radii,
            curve_upper=self.claimed_curve,
            radius_by=np.where(self.claimed_radii > self.radius_lower, TRUSTED_SOLVER, self.radius_by),
            curve_by=np.where(self.claimed_curve < self.curve_upper, TRUSTED_SOLVER, self.curve_by),
        )

    def settled(self, collective: bool = True) -> bool:
        """Whether nothing within the budgets is open."""
        beyond = self.radius_lower >= self.curve_lower.size
        radii = bool(np.all((self.radius_lower == self.radius_upper) | beyond))
        return radii and (not collective or bool(np.array_equal(self.curve_lower, self.curve_upper)))


class Attacks:
    """The best attacks that are known so far: the cheapest on each node, the strongest within each budget.

    - ``radius`` (n,): cost of the cheapest attack on each node; ``radius_changes`` are these attacks.
    - ``curve`` (B + 1,): most nodes that one attack within each budget changes; ``curve_changes`` are these attacks.
    """

    def __init__(self, question: Question, known: Findings | None = None) -> None:
        known = Findings.nothing(question) if known is None else known
        self._question = question
        self.radius, self.radius_changes = known.radius_upper.copy(), list(known.radius_changes)
        self.curve = known.curve_lower[: question.budget + 1].copy()
        self.curve_changes = list(known.curve_changes[: question.budget + 1])
        self._entered: dict[Relabelling, tuple[int, bool]] = {}

    def enter(self, change: Relabelling) -> tuple[int, bool]:
        """Retrain on a relabelling and improve all that it can.

        Returns
        -------
        int, bool
            How many nodes it provably changes, and whether that is decided for all of them.
        """
        if change in self._entered:
            return self._entered[change]
        changed, unchanged = self._question.changed(change)
        self.take(change, changed)
        self._entered[change] = found = int(changed.sum()), bool((changed | unchanged).all())
        return found

    def enter_for(self, changes: Sequence[Relabelling], nodes: Int) -> None:
        """The same for what some relabellings do to some nodes."""
        found, _ = self._question.predictor.changed_by(changes, self._question.nodes[nodes])
        for change, some in zip(changes, found, strict=True):
            changed = np.zeros(self.radius.size, dtype=bool)
            changed[nodes] = some
            self.take(change, changed)

    def take(self, change: Relabelling, changed: Bool) -> None:
        """Improve all that a relabelling can, which provably changes some nodes."""
        cost = self._question.problem.adversary.cost(change)
        for t in np.flatnonzero(changed & (cost < self.radius)).tolist():
            self.radius[t], self.radius_changes[t] = cost, change
        self.count(change, int(changed.sum()))

    def count(self, change: Relabelling, count: int) -> None:
        """Take note of how many nodes a relabelling provably changes."""
        for b in range(self._question.problem.adversary.cost(change), self.curve.size):
            if count <= self.curve[b]:
                break
            self.curve[b], self.curve_changes[b] = count, change

    def findings(self, radius_lower: Int, statistics: dict[str, Any], curve_upper: Int | None = None) -> Findings:
        """They are the upper ends of radii and the lower ends of the curve; without one, radii bound the curve."""
        return Findings(
            radius_lower=radius_lower,
            radius_upper=self.radius,
            radius_changes=self.radius_changes,
            curve_lower=self.curve,
            curve_upper=within_reach(radius_lower, self.curve.size - 1) if curve_upper is None else curve_upper,
            curve_changes=self.curve_changes,
            statistics=statistics,
        )


def running_best(most: Int, change: Callable[[int], Relabelling]) -> tuple[Int, list[Relabelling]]:
    """From the best attack of each exact cost, the best within each budget: numbers of nodes, and relabellings."""
    best = np.maximum.accumulate(most)
    within = [change(0)]
    for b in range(1, most.size):
        within.append(change(b) if best[b] > best[b - 1] else within[-1])
    return np.maximum(best, 0), within


def within_reach(radius_lower: Int, budget: int) -> Int:
    """(B + 1,) number of nodes whose radius may be at most b: no single attack can change more than these."""
    return np.searchsorted(np.sort(radius_lower), np.arange(budget + 1), side="right").astype(np.int64)


@dataclass(frozen=True)
class Work:
    """What an answer would cost."""

    reason: str  # how the estimate comes about
    seconds: float = 0.0
    advice: str | None = None  # what would fit, where this is too much; None where the engine is ready to start


@dataclass(frozen=True)
class Capabilities:
    """What callers need to know about an engine."""

    automatic: bool = False  # ``engine="auto"`` starts with the first engine of this kind that can do the work
    # it can go on from what another engine left open: ``engine="auto"`` lets it, where a time limit is short and there
    # are at least so many classes; 0: it never does
    continues: int = 0
    finds_attacks: bool = True  # otherwise it proves lower ends of radii and nothing else
    searches: bool = False  # it searches for a time that nobody can foresee, and may leave intervals open
    advertised: bool = True  # ``certify(engine=...)`` takes it by name. Others belong to a function of their own.
    predictors: frozenset[str] = frozenset({ONE_MODEL})  # who predicts: ``Problem.kind``
    observes: bool = False  # it shows every relabelling within the budget to the observers of a question
    coupled: bool = True  # it knows models that are trained on all classes at once
    # the losses that it applies to; empty for all. ``other_losses`` says what to do with others.
    losses: tuple[str, ...] = ()
    other_losses: str = ""
    proved_losses: tuple[str, ...] = ()  # those for which it proves more than it can enumerate; empty for all
    most_labels: int = 10**9  # with a time limit and more labels than this, it proves no more than it can enumerate
    owners: bool = False  # it knows adversaries who own annotators, and nobody else
    removes: bool = False  # it knows adversaries who remove labels
    claims: bool = False  # it reports what a solver claims, which proves nothing

    def applies(self, loss: str, coupled: bool) -> bool:
        """Whether it knows models with a loss, trained on all classes at once or not."""
        return (self.coupled or not coupled) and (not self.losses or loss in self.losses)

    def proves(self, loss: str) -> bool:
        """Whether it proves more than it can enumerate."""
        return not self.proved_losses or loss in self.proved_losses

    def refuses(self, problem: Problem) -> str | None:
        """Why it does not apply to a problem; None where it does, as far as its loss is concerned."""
        return None if self.applies(problem.loss, problem.coupled) else self.why(problem.loss)

    def why(self, loss: str) -> str:
        """Why it does not apply to models with a loss, and what to do instead."""
        if self.losses and loss not in self.losses:
            needs = f"it needs the loss {' or '.join(map(repr, self.losses))}, got {loss!r}"
            return self.other_losses.format(loss=loss) if self.other_losses else needs
        return f"it looks at each class alone, which loss={loss!r} does not train; use engine='enumerate'"


class Engine(Protocol):
    """One way to answer a question, for two classes and more.

    An engine with options has a method ``configured(**options)``, too, which returns the engine to run. One that
    certificates call by another name has a method ``stage_name(problem)``. One that ``"auto"`` may run for a question's
    counter alone has a method ``counted_soon(question)``: the largest budget that it counts in a moment.
    """

    @property
    def name(self) -> str: ...  # noqa: D102 (what ``engine=`` takes)

    @property
    def capabilities(self) -> Capabilities: ...  # noqa: D102 (planning reads nothing else)

    def refuses(self, problem: Problem) -> str | None:
        """Why this engine cannot answer such a problem at all, and what to do instead; None where it can."""

    def predictor(self, problem: Problem) -> Predictor:
        """The predictor that this engine's answers rest on."""

    def estimate(self, question: Question, control: Control) -> Work:
        """An honest estimate, before the work starts."""

    def reach(self, question: Question, control: Control, seconds: float) -> int:
        """The largest budget that fits into the given seconds, for engines that ``"auto"`` starts with."""

    def run(self, question: Question, control: Control, known: Findings) -> Findings:
        """Answer; stopped early, with intervals. What is known already may be used, and need not be repeated."""


class PlainEngine:
    """What many engines say: they refuse what they are not capable of, retrain, and work as long as there is time."""

    @property
    def capabilities(self) -> Capabilities:
        """What callers need to know."""
        raise NotImplementedError

    def refuses(self, problem: Problem) -> str | None:
        """What is beyond its capabilities."""
        return self.capabilities.refuses(problem)

    def predictor(self, problem: Problem) -> Predictor:
        """Retraining, or linear maps where there is nothing to retrain."""
        return predictor_for(problem, linear=problem.trained_with.always_linear)

    def estimate(self, question: Question, control: Control) -> Work:
        """Moments, or as long as there is time."""
        return Work("no work that could be foreseen")

    def reach(self, question: Question, control: Control, seconds: float) -> int:
        """All budgets that are asked about."""
        return question.budget
