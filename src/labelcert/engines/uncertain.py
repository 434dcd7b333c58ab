"""Certificates for every kernel within entrywise errors.

Two ways, for the same predictor. One asks it about every relabelling: it bounds the scores of each for all admissible
kernels. The other needs a single number for each node, by how much a score can move whatever the labels are: a
prediction whose lead exceeds it stays. That is a margin, so that every engine serves, at every budget.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, cast

import numpy as np

from labelcert.arrays import Bool, Float, Int
from labelcert.engines.asking import AskedBlock, AskingEngine, asked, blocks_of
from labelcert.engines.base import Attacks, Capabilities, Engine, Findings, PlainEngine, Question, within_reach
from labelcert.engines.closed_form import ClosedForm
from labelcert.engines.control import Control
from labelcert.engines.coupled.coupled_method import RelabellingLedger, every_relabelling
from labelcert.engines.pools import Local
from labelcert.engines.relaxed import Relaxed
from labelcert.engines.search import BranchAndBound
from labelcert.engines.seen import MoveNumbers, Seen
from labelcert.prediction.uncertain import UNCERTAIN, UncertainKernel, UncertainPredictor
from labelcert.problem import Problem
from labelcert.problem.lowering import lowered
from labelcert.svm.uncertain import never_free

MOST_PROGRAMS = 400
"""Relabellings of one cost for which linear programs are solved, for one node; where there are more, it stays open."""

FEW_TO_TIGHTEN = 30
"""Up to so many of them, ranges are made sharper by linear programs, too."""

SHARE_OF_LOWER = 0.6
"""Of the time that is left, what lower ends may take where upper ends take a search, too."""


class BoundEvery(AskingEngine):
    """Bounds the scores of every admissible relabelling for all admissible kernels."""

    name = "enumerate"
    capabilities = Capabilities(automatic=True, advertised=False, predictors=frozenset({UNCERTAIN}), observes=True)

    def run(self, question: Question, control: Control, known: Findings) -> Findings:
        """One after the other, by size; then linear programs for what is open."""
        moves = MoveNumbers(question.problem.adversary)

        def ask(block: AskedBlock) -> tuple[Seen, bool]:
            return asked(question, moves, block), True

        blocks = blocks_of(question, 1)
        return every_relabelling(question, control, Local(ask), blocks, OpenLedger(question, moves))


class OpenLedger(RelabellingLedger):
    """The ledger of a walk whose doubts only linear programs can decide, for radii alone."""

    def __init__(self, question: Question, moves: MoveNumbers) -> None:
        super().__init__(question, moves)
        self._open: list[tuple[int, Any, Bool]] = []
        self.open_radius[question.unsure & ~question.contrary] = 0
        self.open_most[0] = int(question.unsure.sum())

    def doubt(self, seen: Seen) -> None:
        """Keep what is open, as long as that is not too much."""
        open_ = ~(seen.changed | seen.unchanged)
        np.maximum.at(self.open_most, seen.cost, (~seen.unchanged).sum(axis=1))
        for s in np.flatnonzero(open_.any(axis=1)).tolist():
            self.doubts += 1
            self._open.append((int(seen.cost[s]), seen.code[s].copy(), open_[s]))

    def settle(self, control: Control) -> None:
        """Node by node, up to the cheapest relabelling that nothing proves to be harmless."""
        self._open.sort(key=lambda doubt: doubt[0])
        for cost in sorted({cost for cost, _, _ in self._open}):
            level = [doubt for doubt in self._open if doubt[0] == cost]
            count = np.sum([open_ for _, _, open_ in level], axis=0)
            self.open_radius[self._left(cost) & (count > MOST_PROGRAMS)] = cost
            for code, open_ in self._worst_first(level, cost):
                asked = np.flatnonzero(open_ & self._left(cost))
                if asked.size:
                    proved = self._proved(code, asked, control, tighten=len(level) <= FEW_TO_TIGHTEN)
                    self.open_radius[asked[~proved]] = cost

    def _left(self, cost: int) -> Bool:
        """Whose radius may still be above a cost."""
        return np.minimum(self.radius, self.open_radius) > cost

    def _worst_first(self, level: list[tuple[int, Any, Bool]], cost: int) -> Iterator[tuple[Any, Bool]]:
        """Relabellings with the nodes that they leave open: first those that lower the lead of some node the most.

        A node that such a relabelling leaves open needs no others.
        """
        predictor = cast(UncertainPredictor, self.question.predictor)
        leads = np.full((len(level), self.question.nodes.size), np.inf)
        for row, (_, code, open_) in zip(leads, level, strict=True):
            asked = np.flatnonzero(open_ & self._left(cost))
            codes = self.question.problem.relabelled(self.change(code))
            row[asked] = _leads(predictor, codes, self.question.nodes[asked], self.question.predicted[asked])
        worst = leads.argmin(axis=0)
        for s in np.unique(worst).tolist():
            yield level[s][1], level[s][2] & (worst == s)
        for s, (_, code, open_) in enumerate(level):
            yield code, open_ & (worst != s)

    def _proved(self, code: Any, asked: Int, control: Control, *, tighten: bool) -> Bool:
        """Which of some nodes programs prove to keep their predictions, while there is time."""
        if control.over():
            return np.zeros(asked.size, dtype=bool)
        predictor, codes = cast(UncertainPredictor, self.question.predictor), self.question.problem
        return predictor.surely(codes.relabelled(self.change(code)), self.question.nodes[asked], tighten=tighten)


class Lowered(PlainEngine):
    """Another engine, asked about predictions that keep more than kernel errors can take from them.

    Upper ends are those under the given kernel, which is one of the admissible ones.
    """

    def __init__(self, inner: Engine) -> None:
        self._inner = inner
        self.name = inner.name
        own = inner.capabilities
        self._capabilities = replace(own, advertised=False, predictors=frozenset({UNCERTAIN}), removes=False)

    @property
    def capabilities(self) -> Capabilities:
        """Those of the engine, for another predictor."""
        return self._capabilities

    def refuses(self, problem: Problem) -> str | None:
        """What the engine refuses; the closed form needs scores that are linear under every admissible kernel."""
        given = replace(problem, by=None)
        why = self._inner.refuses(given)
        if why is None and isinstance(self._inner, ClosedForm) and not problem.trained_with.always_linear:
            train, _ = cast(UncertainKernel, problem.by).errors
            if not never_free(problem.K_train, train, problem.C):
                return (
                    "scores are not proved to be linear in the labels for every kernel within its errors; use "
                    "engine='auto', or loss='square', or a smaller C"
                )
        return why

    def run(self, question: Question, control: Control, known: Findings) -> Findings:
        """Lower ends of radii with a larger margin, upper ends with the margin that was asked for."""
        predictor = cast(UncertainPredictor, question.predictor)
        one = 1.0 if question.problem.n_classes == 2 else 2.0  # leads of more classes are differences of scores
        needed = (predictor.errors.margin + one * predictor.moves) * (1.0 + 1e-12)
        finds = self.capabilities.finds_attacks
        first = control.part(SHARE_OF_LOWER) if finds and self.capabilities.searches else control
        low = self._asked(question, first, needed)
        attacks, statistics = Attacks(question), dict(low.statistics)
        if finds:
            up = self._asked(question, control, predictor.errors.margin)
            statistics = {**up.statistics, "with_kernel_errors": low.statistics}
            for change in dict.fromkeys([*up.curve_changes, *up.radius_changes]):
                if change is not None:
                    attacks.enter(change)
        reach = within_reach(low.radius_lower, question.budget)
        return attacks.findings(low.radius_lower, statistics, np.minimum(low.curve_upper, reach))

    def _asked(self, question: Question, control: Control, margin: Float) -> Findings:
        """What the engine says about predictions that have to keep a margin; nothing about those that never do."""
        predictor = cast(UncertainPredictor, question.predictor)
        given, nodes = replace(question.problem, by=None), question.nodes
        keeps = _leads(predictor, question.problem.codes, nodes, question.predicted) > margin[nodes]
        finite = np.where(np.isfinite(margin), margin, 0.0)
        problem = lowered(given, predictor.shown, finite) if finite.any() else given
        model = self._inner.predictor(problem).with_predictions(predictor.predicted)
        keeps &= model.predicted[nodes] == question.predicted
        part = Question(problem=problem, predictor=model, nodes=nodes[keeps])
        found = self._inner.run(part, control, Findings.nothing(part))
        lower = np.zeros(nodes.size, dtype=np.int64)
        lower[keeps] = found.radius_lower
        return replace(found, radius_lower=lower, curve_upper=found.curve_upper + int((~keeps).sum()))


def _leads(predictor: UncertainPredictor, codes: Int, nodes: Int, own: Int) -> Float:
    """(n,) leads of some classes under the given kernel, in units of margins."""
    columns = np.arange(nodes.size)
    p, _ = predictor.nominal.scaled_scores(codes, nodes)
    mine = p[own, columns].copy()
    p[own, columns] = -np.inf
    return np.asarray((mine - p.max(axis=0)) / (2.0 if len(p) == 2 else 1.0))


UNCERTAIN_ENGINES: tuple[Engine, ...] = (
    Lowered(ClosedForm()),
    BoundEvery(),
    Lowered(Relaxed()),
    Lowered(BranchAndBound()),
)
