"""Which model certifies the most, among those that are accurate enough."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy.typing as npt

from labelcert.arrays import Int
from labelcert.certificate import Stop
from labelcert.checking import whole_number
from labelcert.errors import InvalidInput
from labelcert.graphs import Graph, own_split
from labelcert.hardening.candidates import LOSSES, Candidate, Grid, cross_validated, settings
from labelcert.hardening.result import Hardened
from labelcert.losses import get_loss
from labelcert.losses.cross_validation import C_GRID
from labelcert.pipeline import choose_model
from labelcert.progress import Report, progress_report

BATCH = 48
"""Candidates that are certified together, before hopeless ones are dropped again."""


class Judge(Protocol):
    """Certifies candidates, somewhere.

    Attributes
    ----------
    interrupted : bool
        Whether it was asked to stop, and knows of some candidates alone.
    """

    interrupted: bool

    def certified(self, candidates: Sequence[Candidate], flips: int) -> dict[Candidate, tuple[float, float]]:
        """For each candidate, the share of predictions that survive, as (lower, upper)."""


@dataclass(frozen=True, eq=False)
class Contest:
    """All candidates with their cross-validated accuracies, before anything is certified.

    Attributes
    ----------
    graph : Graph
    labeled, test : arrays of node indices
    flips, seed : int
    inductive : bool
    candidates : tuple of Candidate
    default : Candidate
        What would have been trained otherwise.
    accurate : tuple of Candidate
        Those that are accurate enough.
    threshold : float
    """

    graph: Graph
    labeled: Int
    test: Int
    flips: int
    seed: int
    inductive: bool
    candidates: tuple[Candidate, ...]
    default: Candidate
    accurate: tuple[Candidate, ...]
    threshold: float

    @classmethod
    def prepare(
        cls,
        graph: Graph,
        labeled: npt.ArrayLike,
        test: npt.ArrayLike,
        *,
        flips: int,
        models: Mapping[str, Grid] | Sequence[str] | None = None,
        losses: Sequence[str] = LOSSES,
        C: Sequence[float] = C_GRID,
        parts: Sequence[int] | None = None,
        floor: float | None = None,
        seed: int = 0,
        inductive: bool = False,
        progress: bool = False,
    ) -> Contest:
        """Cross-validate all candidates; parameters as in :func:`labelcert.harden`."""
        if not isinstance(graph, Graph):
            raise InvalidInput(
                f"expected a labelcert.Graph, got {type(graph).__name__}; make one with Graph.from_pyg(data) or "
                "labelcert.graph_from_files(...)"
            )
        split = own_split(graph, train=labeled, test=test)
        nodes, tested = split.labeled, split.test
        flips = whole_number("flips", flips, 0, nodes.size)
        if floor is not None and not 0 <= floor <= 1:
            raise InvalidInput(f"floor must be an accuracy between 0 and 1, got {floor!r}")
        for loss in losses:
            get_loss(loss)
        if not losses or not len(C) or min(C) <= 0:
            raise InvalidInput("losses and C must hold at least one entry each, and every C must be positive")
        joining = tested if inductive else None
        chosen_models = settings(models)
        counts = [
            whole_number("parts", count, 1, nodes.size, "one label each") for count in (() if parts is None else parts)
        ]
        with progress_report("cross-validating", progress) as show:
            found = list(
                cross_validated(
                    graph,
                    nodes,
                    models=chosen_models,
                    losses=losses,
                    values=C,
                    parts=counts,
                    seed=seed,
                    report=show.report,
                    flips=flips,
                    joining=joining,
                )
            )
            if not found:
                raise InvalidInput(
                    f"{nodes.size} labels and {flips} flips are too many for these losses; add 'square', or give parts"
                )
            names = [name for name, _ in chosen_models]
            default = _default("gcn" if "gcn" in names else names[0], graph, nodes, seed, found, show.report, joining)
        top = max(found, key=lambda candidate: candidate.accuracy)
        threshold = (top.accuracy - top.error if floor is None else floor) - 1e-12
        candidates = tuple(found) if default in found else (*found, default)
        allowed = [c for c in candidates if c in found or c.loss in losses]
        accurate = [candidate for candidate in allowed if candidate.accuracy >= threshold]
        if not accurate:
            raise InvalidInput(
                f"no model reaches a cross-validated accuracy of {floor:.1%}; the best has {top.accuracy:.1%}"
            )
        return cls(
            graph=graph,
            labeled=nodes,
            test=tested,
            flips=flips,
            seed=seed,
            inductive=inductive,
            candidates=candidates,
            default=default,
            accurate=tuple(accurate),
            threshold=threshold,
        )

    def decide(self, judge: Judge, time_limit: float | None = None) -> Hardened:
        """Certify until nobody else can win; then certify the winner.

        Parameters
        ----------
        judge : Judge
        time_limit : float, optional
            Seconds for the certificate of the winner.
        """
        certified = self._certified(judge)
        ranked = [c for c in self.accurate if c in certified]
        if not ranked and judge.interrupted:
            raise KeyboardInterrupt  # nothing is known that could be told
        if not ranked:
            raise InvalidInput("no certificate was finished; give a larger time_limit, or fewer flips")
        certified.setdefault(self.default, (0.0, 1.0))  # where its certificate failed
        chosen = max(ranked, key=lambda c: (certified[c][0], c.accuracy, -c.model.C))
        certificate = chosen.trained(self.seed).certify(
            self.graph,
            self.labeled,
            self.test,
            inductive=self.inductive,
            max_flips=self.flips,
            loss=chosen.loss,
            time_limit=time_limit,
        )
        return Hardened(
            chosen=chosen,
            default=self.default,
            certified=certified,
            candidates=self.candidates,
            threshold=self.threshold,
            flips=self.flips,
            seed=self.seed,
            complete=not judge.interrupted and certificate.run.stopped is not Stop.INTERRUPTED,
            certificate=certificate,
        )

    def _certified(self, judge: Judge) -> dict[Candidate, tuple[float, float]]:
        """What is certified; candidates that cannot be the best are dropped on the way."""
        # What survives many wrong labels survives one, and one is quickly certified.
        first = judge.certified([*self.accurate, self.default], min(self.flips, 1))
        if self.flips <= 1:
            return first
        certified = {} if judge.interrupted else judge.certified([self.default], self.flips)
        best = max((certified[c][0] for c in certified if c in self.accurate), default=-1.0)
        waiting = sorted((c for c in self.accurate if c in first and c is not self.default), key=lambda c: -first[c][1])
        while waiting and not judge.interrupted:
            hopeful = [c for c in waiting if first[c][1] >= best]  # among equals, the more accurate one is chosen
            some, waiting = hopeful[:BATCH], hopeful[BATCH:]
            certified |= judge.certified(some, self.flips) if some else {}
            best = max([best, *(certified[c][0] for c in some if c in certified)])
        return certified


def _default(
    name: str, graph: Graph, labeled: Int, seed: int, found: Sequence[Candidate], report: Report, joining: Int | None
) -> Candidate:
    """The model as it would be trained without this search."""
    choice = choose_model(name, graph, labeled, seed=seed, report=report)
    [own] = cross_validated(
        graph,
        labeled,
        models=[(name, choice.model)],
        losses=["hinge"],
        values=[choice.model.C],
        parts=[],
        seed=seed,
        report=report,
        joining=joining,
    )
    same = [c for c in found if (c.name, c.model, c.loss, c.parts) == (own.name, own.model, own.loss, own.parts)]
    return same[0] if same else own
