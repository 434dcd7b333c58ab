"""Exact certificates where scores are linear in the labels.

Two cases are linear. With the square loss, ``p_t = k_t (Q + λI)⁻¹ ỹ`` always. With the hinge loss, where every
label stays at its cap, ``p_t = C k_t·ỹ`` (:func:`~labelcert.svm.cap.always_at_cap` proves it for the
budget at hand).
"""

from __future__ import annotations

import time
from typing import Any

from labelcert.arrays import Int
from labelcert.engines.base import Attacks, Capabilities, Findings, PlainEngine, Question, Work, within_reach
from labelcert.engines.control import Control
from labelcert.engines.linear.bounding import bound_curve
from labelcert.engines.linear.counting import count_curve
from labelcert.engines.linear.greedy import greedy_changes
from labelcert.engines.linear.radii import Radii, linear_radii
from labelcert.engines.linear.spending import knapsack_work
from labelcert.engines.tables.table_method import table_curve
from labelcert.losses import LOSSES
from labelcert.prediction import OneVsRest, Predictor, Sign, predictor_for
from labelcert.problem import Problem

CHECK_UPDATES = 2e8
"""Multiplications spent on trying attacks that are known anyway on the curve."""

EXACT_CELLS = 2e6
"""Nodes times labels up to which an exact curve is worth trying."""


class ClosedForm(PlainEngine):
    """Sorting, wherever linearity is proved."""

    name = "closed-form"

    @property
    def capabilities(self) -> Capabilities:
        """The losses whose scores may be linear, those that were added later among them."""
        return Capabilities(
            automatic=True,
            losses=tuple(name for name, loss in LOSSES.items() if loss.may_be_linear),
            other_losses="scores of loss={loss!r} are not proved to be linear in the labels within this budget; "
            "use engine='auto', or loss='square'",
        )

    def refuses(self, problem: Problem) -> str | None:
        """Problems whose scores are not provably linear in the labels, for every admissible relabelling."""
        if problem.is_linear():
            return None
        return (
            f"scores of loss={problem.loss!r} are not proved to be linear in the labels within this budget; "
            "use engine='auto', or loss='square'"
            + (", or a smaller C or max_flips, so that every label stays at its cap" if problem.loss == "hinge" else "")
        )

    def predictor(self, problem: Problem) -> Predictor:
        """Linear maps: what is not linear is refused."""
        return predictor_for(problem, linear=True)

    def estimate(self, question: Question, control: Control) -> Work:
        """Sorting is always cheap; a knapsack over large costs is not. The effort on the curve is limited."""
        return knapsack_work(question, question.problem.n_classes - 1)

    def run(self, question: Question, control: Control, known: Findings) -> Findings:
        """Radii in closed form, then as much of the curve as the effort allows."""
        started = time.perf_counter()
        radii = linear_radii(question, control)
        seconds = time.perf_counter() - started
        attacks, curve_upper, statistics = linear_curve(question, radii, control)
        statistics = {"trainings": 0, "seconds_for_radii": seconds, **statistics}
        statistics["seconds"] = time.perf_counter() - started
        return attacks.findings(radii.lower, statistics, curve_upper)


def linear_curve(question: Question, radii: Radii, control: Control) -> tuple[Attacks, Int, dict[str, Any]]:
    """As much of the curve as the effort allows: the best attacks, the (B + 1,) upper end, and statistics."""
    attacks = Attacks(question)
    attacks.radius, attacks.radius_changes = radii.upper, list(radii.changes)
    curve_upper = within_reach(radii.lower, question.budget)
    statistics: dict[str, Any] = {}
    if not control.over():
        try_known_attacks(question, radii, attacks, curve_upper, control)
    if control.collective and question.nodes.size and not control.over():
        if float(question.nodes.size) * question.problem.adversary.labels.size <= EXACT_CELLS:
            close_curve = CURVES[type(question.predictor)]
            statistics.update(close_curve(question, radii, attacks, curve_upper, control))
        statistics["cells_for_bounds"] = bound_curve(question, radii, attacks, curve_upper, control)
    return attacks, curve_upper, statistics


def try_known_attacks(question: Question, radii: Radii, attacks: Attacks, curve_upper: Int, control: Control) -> None:
    """Raise the lower curve by attacks that are found anyway, each checked by the predictor."""
    known = [change for change in radii.changes if change is not None] + greedy_changes(question)
    distinct = list(dict.fromkeys(reversed(known)))
    rows = question.problem.m * question.nodes.size * (question.problem.n_classes - 1)
    stride = max(1, len(distinct) // max(10, int(CHECK_UPDATES / max(1, rows))))
    for change in distinct[::stride]:
        if control.over():
            return
        cost = question.problem.adversary.cost(change)
        if attacks.curve[cost] < curve_upper[cost]:
            attacks.count(change, int(question.changed(change)[0].sum()))


def _by_counting(
    question: Question, radii: Radii, attacks: Attacks, curve_upper: Int, control: Control
) -> dict[str, Any]:
    return {"score_updates_for_curve": count_curve(question, attacks, curve_upper, control)}


CURVES = {Sign: _by_counting, OneVsRest: table_curve}
"""How each kind of predictor closes the curve."""
