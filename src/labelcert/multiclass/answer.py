"""From a problem with several classes to the parts of a certificate."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from labelcert.certificate import Certificate, SetList
from labelcert.engines import duration
from labelcert.engines.base import Control, reconciled
from labelcert.errors import InvalidInput, WorkTooLarge
from labelcert.multiclass.engines import AUTOMATIC, ENGINES, Engine
from labelcert.multiclass.panel import OPEN, TIED, Panel
from labelcert.multiclass.question import NOTHING, Findings, Question, Relabelling, within_threat
from labelcert.problem import Problem
from labelcert.svm.scoring import EXACT_LIMIT

Int = npt.NDArray[np.int64]

MULTICLASS_ENGINES = tuple(engine.name for engine in ENGINES)


@dataclass(frozen=True, eq=False)
class Answer:
    """What one engine proved, with every witness checked.

    Attributes
    ----------
    engine : str
    question : Question
    findings : Findings
    rivals : (n,) array
        Class that each node's witness turns it into; -1 without one.
    """

    engine: str
    question: Question
    findings: Findings
    rivals: Int

    def certificate(self, settings: dict[str, Any]) -> Certificate:
        """Put the nodes without a clean prediction back in, and freeze the result."""
        panel, found = self.question.panel, self.findings
        problem = panel.problem
        n, nodes = problem.n_test, self.question.nodes
        tied, open_ = panel.predicted == TIED, panel.predicted == OPEN
        lower = np.zeros(n, dtype=np.int64)
        upper = np.where(tied, 0, problem.adversary.never).astype(np.int64)
        rivals = np.full(n, -1, dtype=np.int64)
        lower[nodes], upper[nodes], rivals[nodes] = found.radius_lower, found.radius_upper, self.rivals
        node_changes = [NOTHING] * n
        for t, change in zip(nodes, found.radius_changes, strict=True):
            node_changes[t] = NOTHING if change is None else change
        distinct: dict[bytes, int] = {}
        curve_changes: list[Relabelling] = []
        set_of = np.empty(problem.max_flips + 1, dtype=np.int64)
        for b, change in enumerate(found.curve_changes):
            if change.key not in distinct:
                distinct[change.key] = len(curve_changes)
                curve_changes.append(change)
            set_of[b] = distinct[change.key]
        index = problem.adversary.labels
        arrays: dict[str, npt.NDArray[Any]] = {
            "predictions": problem.classes[panel.shown],
            "decision_values": panel.decision,
            "radius_lower": lower,
            "radius_upper": upper,
            "collective_lower": found.curve_lower + int(tied.sum()),
            "collective_upper": found.curve_upper + int(tied.sum() + open_.sum()),
            "labels": problem.labels,
            "classes": problem.classes,
            "curve_set_of": set_of,
            "node_targets": SetList.pack([change.targets for change in node_changes]).indices,
            "curve_targets": SetList.pack([change.targets for change in curve_changes]).indices,
            "new_classes": rivals,
            "radius_proved_by": np.where(tied, "clean scores", np.where(open_, "", self.engine)),
            "collective_proved_by": np.full(problem.max_flips + 1, self.engine),
        }
        for array in arrays.values():
            array.setflags(write=False)
        return Certificate(
            **arrays,
            max_flips=problem.max_flips,
            never=problem.adversary.never,
            settings=settings,
            node_sets=SetList.pack([index[change.positions] for change in node_changes]),
            curve_sets=SetList.pack([index[change.positions] for change in curve_changes]),
        )


def certify_classes(problem: Problem, engine: str, control: Control) -> Answer:
    """Choose an engine, run it and check its witnesses.

    Raises
    ------
    InvalidInput
        Unknown name, or the named engine does not apply.
    WorkTooLarge
        No engine can do it in reasonable time; the message says how large the work is and what would fit.
    """
    chosen, question = _choose(engine, problem, control)
    control.start_clock()
    findings = chosen.run(question, control)
    checked, rivals = check_witnesses(question, findings)
    return Answer(engine=chosen.name, question=question, findings=checked, rivals=rivals)


def _choose(name: str, problem: Problem, control: Control) -> tuple[Engine, Question]:
    names = ["auto", *MULTICLASS_ENGINES]
    if name not in names:
        raise InvalidInput(f"engine must be one of {', '.join(names)} for more than two classes, got {name!r}")
    refusals: list[str] = []
    for engine in ENGINES:
        if name != engine.name and (name != "auto" or engine.name not in AUTOMATIC):
            continue
        refusal = engine.refuses(problem)
        if refusal is not None:
            if name == engine.name:
                raise InvalidInput(f"engine={name!r} does not apply: {refusal}")
            continue
        question = Question.ask(engine.panel(problem))
        work = engine.estimate(question, control)
        if work.advice is None:
            return engine, question
        refusals.append(
            f"engine={engine.name!r} would take about {duration(work.seconds)} ({work.reason}); {work.advice}"
        )
    raise WorkTooLarge("the work is too large: " + "; ".join(refusals))


def check_witnesses(question: Question, findings: Findings) -> tuple[Findings, Int]:
    """Retrain on every witness and keep only what it proves; also the class that each turns its node into.

    A witness that does not check is dropped, its interval opened and a warning raised: it would be a bug.
    """
    problem = question.panel.problem
    checker = question.panel
    some = any(change is not None for change in findings.radius_changes) or findings.curve_lower.any()
    if some and checker.linear and problem.loss == "hinge" and problem.m <= EXACT_LIMIT:
        checker = Panel(problem, linear=False)
    radius_upper = findings.radius_upper.copy()
    changes = list(findings.radius_changes)
    rivals = np.full(radius_upper.size, -1, dtype=np.int64)
    by_change: dict[bytes, list[int]] = {}
    for t, change in enumerate(changes):
        if change is not None:
            by_change.setdefault(change.key, []).append(t)
    bad = 0
    for members in by_change.values():
        change = changes[members[0]]
        assert change is not None
        codes = checker.relabel(change.positions, change.targets)
        yes, _ = checker.changed(codes, question.nodes[members])
        for t, ok in zip(members, yes, strict=True):
            node = int(question.nodes[t])
            agreed = checker.predicted[node] == question.panel.predicted[node]
            if ok and agreed and within_threat(problem, change, int(radius_upper[t])):
                others = [c for c in range(problem.n_classes) if c != checker.predicted[node]]
                rivals[t] = checker.leaders(codes, node, others)[0][0]
            else:
                radius_upper[t], changes[t] = problem.adversary.never, None
                bad += 1
    curve_lower = findings.curve_lower.copy()
    curve_changes = list(findings.curve_changes)
    counts: dict[bytes, int] = {}
    for b, change in enumerate(curve_changes):
        if change.key not in counts:
            codes = checker.relabel(change.positions, change.targets)
            counts[change.key] = int(checker.changed(codes, question.nodes)[0].sum())
        if counts[change.key] < curve_lower[b] or not within_threat(problem, change, b):
            curve_lower[b], curve_changes[b] = 0, NOTHING
            bad += 1
    radius_lower, curve_upper = reconciled(findings.radius_lower, radius_upper, curve_lower, findings.curve_upper, bad)
    kept = replace(
        findings,
        radius_lower=radius_lower,
        curve_upper=curve_upper,
        radius_upper=radius_upper,
        radius_changes=changes,
        curve_lower=curve_lower,
        curve_changes=curve_changes,
    )
    return kept, rivals
