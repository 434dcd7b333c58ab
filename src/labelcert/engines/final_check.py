"""The final check: nothing gets into a certificate that retraining does not confirm and the threat does not allow."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from labelcert.arrays import Bool, Int
from labelcert.engines.base import Findings, Question
from labelcert.problem import NOTHING, Relabelling


@dataclass(frozen=True, eq=False)
class Checked:
    """Findings whose every witness was retrained."""

    findings: Findings
    becomes: Int  # (n,) class that each node's witness turns it into; -1 without one
    changed: dict[Relabelling, Bool]  # for each relabelling of the curve, (n,) which nodes it provably changes


def check(question: Question, findings: Findings, closed: Callable[[], bool] = lambda: False) -> Checked:
    """Retrain on every witness and keep only what it proves.

    A witness counts if the threat admits it within its budget, if the model that checks it agrees about the clean
    prediction, and if it provably changes what it should. One that does not is dropped, its interval is opened and a
    warning raised: it would be a bug. Once the run is ``closed``, witnesses that are left are dropped in silence.
    """
    if findings.read is not None:
        nobody = dict.fromkeys(findings.curve_changes, np.zeros(question.nodes.size, dtype=bool))
        return Checked(findings, findings.read.becomes, nobody | findings.read.changed)
    problem, a = question.problem, question.problem.adversary
    checker = question
    if any(change is not None for change in findings.radius_changes) or findings.curve_lower.any():
        checker = replace(question, predictor=question.predictor.retrained())
    agreed = checker.predictor.predicted[question.nodes] == question.predicted
    upper, changes = findings.radius_upper.copy(), list(findings.radius_changes)
    becomes, doubtful = np.full(upper.size, -1, dtype=np.int64), np.zeros(upper.size, dtype=bool)
    most = np.zeros(findings.curve_lower.size, dtype=np.int64)
    # By size, since a training starts from one nearby.
    for change, members in sorted(_by_change(changes).items(), key=lambda item: len(item[0])):
        if closed() or not a.admits(change, a.never):  # each node's budget is compared below
            continue
        nodes = np.array(members)[upper[members] >= a.cost(change)]
        if nodes.size:
            hit, missed = checker.changed(change, nodes)
            doubtful[nodes] = ~(hit | missed) & agreed[nodes]
            proved = nodes[hit & agreed[nodes]]
            codes = problem.relabelled(change)
            becomes[proved] = checker.predictor.become(codes, question.nodes[proved])
            most[a.cost(change) :] = np.maximum(most[a.cost(change) :], proved.size)
    refuted = [t for t, change in enumerate(changes) if change is not None and becomes[t] < 0]
    for t in refuted:
        upper[t], changes[t] = a.never, None
    # The clean labels change those nodes alone whose prediction was given and is not the model's own.
    changed: dict[Relabelling, Bool] = {NOTHING: checker.contrary & agreed}
    possible = dict(changed)
    cheapest = np.where(changed[NOTHING], 0, upper)
    for change in sorted(set(findings.curve_changes) - {NOTHING}, key=len):
        if not closed() and a.admits(change, a.never):  # each budget is compared below
            hit, missed = checker.changed(change)
            changed[change], possible[change] = hit & agreed, ~missed & agreed
            cheapest[changed[change]] = np.minimum(cheapest[changed[change]], a.cost(change))
    curve_lower, curve_changes, dropped = _kept_curve(question, findings, changed, possible)
    wrong = dropped + int(np.sum(~doubtful[refuted]))
    kept = replace(
        _reconciled(findings, cheapest, np.maximum(most, curve_lower), 0 if closed() else wrong),
        radius_upper=upper,
        radius_changes=changes,
        curve_lower=curve_lower,
        curve_changes=curve_changes,
    )
    return Checked(kept, becomes, changed)


def _kept_curve(
    question: Question, findings: Findings, changed: dict[Relabelling, Bool], possible: dict[Relabelling, Bool]
) -> tuple[Int, list[Relabelling], int]:
    """The curve's lower end and its attacks, without those that cost more or change fewer nodes, provably or not.

    And how many of these are wrong: even with every node that is ``possible``, they would not change as many.
    """
    curve_lower, curve_changes, dropped = findings.curve_lower.copy(), list(findings.curve_changes), 0
    counts = {change: int(nodes.sum()) for change, nodes in changed.items()}
    costs = {change: question.problem.adversary.cost(change) for change in changed}
    for b, change in enumerate(curve_changes):
        if change not in changed or costs[change] > b or counts[change] < curve_lower[b]:
            dropped += change not in changed or costs[change] > b or int(possible[change].sum()) < curve_lower[b]
            curve_lower[b], curve_changes[b] = 0, NOTHING
        if b and curve_lower[b] < curve_lower[b - 1]:  # an attack within a smaller budget is one within this, too
            curve_lower[b], curve_changes[b] = curve_lower[b - 1], curve_changes[b - 1]
    return curve_lower, curve_changes, dropped


def _by_change(changes: list[Relabelling | None]) -> dict[Relabelling, list[int]]:
    """Nodes by the attack on them."""
    members: dict[Relabelling, list[int]] = {}
    for t, change in enumerate(changes):
        if change is not None:
            members.setdefault(change, []).append(t)
    return members


def _reconciled(findings: Findings, cheapest: Int, most: Int, dropped: int) -> Findings:
    """Findings without the lower radii and the upper ends of the curve that a retrained witness contradicts.

    Witnesses are retrained with error bounds, so it is the proof that goes. That, and every witness dropped before,
    would be a bug: there is a warning. One claim of a solver that is contradicted takes all claims with it.

    - ``cheapest`` (n,): cost of the cheapest witness, of a radius or of the curve, that changes each node.
    - ``most`` (B + 1,): number of nodes that some witness within each budget changes.
    - ``dropped``: witnesses that were dropped before.
    """
    n = findings.radius_lower.size
    refuted = findings.radius_lower > cheapest
    lower = np.where(refuted, 0, findings.radius_lower)
    upper = np.maximum.accumulate(np.where(findings.curve_upper < most, n, findings.curve_upper))
    # A claim is never weaker than what is proved.
    contradicted = int(np.sum(findings.claimed_radii > cheapest) + np.sum(findings.claimed_curve < most))
    dropped += contradicted
    if refuted.any():  # the curve may rest on these radii
        upper[cheapest[refuted].min() :] = n
    if dropped:
        warnings.warn(
            f"{dropped} findings contradict retraining and were dropped; the certificate has open intervals. "
            "Please report this with the problem's kernel",
            RuntimeWarning,
            stacklevel=4,
        )
    if contradicted:
        findings = replace(findings, radius_claimed=None, curve_claimed=None)
    return replace(findings, radius_lower=lower, curve_upper=upper)
