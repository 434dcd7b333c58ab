"""Engines for several classes: sorting, tables, and what stands beside them."""

from __future__ import annotations

import time
from typing import Protocol

import numpy as np

from labelcert.engines.base import Control, Work
from labelcert.engines.enumerate import WORK_LIMIT_SECONDS
from labelcert.multiclass.forest import SLOT_BYTES, Forest
from labelcert.multiclass.linear import greedy_changes, linear_radii
from labelcert.multiclass.milp import ClassMilp
from labelcert.multiclass.panel import Panel
from labelcert.multiclass.question import Findings, Question
from labelcert.multiclass.relaxed import Relaxed
from labelcert.multiclass.sweep import PAIR_SECONDS, Sweep
from labelcert.multiclass.work import (
    Sizes,
    curve_reach,
    is_linear,
    knapsack_work,
    last_fitting,
    memory_slots,
    seconds_per_training,
    useful_depth,
)
from labelcert.problem import Problem

SUGGESTIONS = 400
"""Attacks found elsewhere that are tried on the curve."""


class Engine(Protocol):
    """One way to answer a question about several classes."""

    name: str

    def refuses(self, problem: Problem) -> str | None:
        """Why this engine cannot answer such a problem at all, and what to do instead; None where it can."""

    def panel(self, problem: Problem) -> Panel:
        """The models that this engine's answers rest on."""

    def estimate(self, question: Question, control: Control) -> Work:
        """An honest estimate, before the work starts."""

    def run(self, question: Question, control: Control) -> Findings:
        """Answer; stopped early, with intervals."""


class ClosedForm:
    """Sorting, wherever linearity is proved for every class."""

    name = "closed-form"

    def refuses(self, problem: Problem) -> str | None:
        """Problems whose scores are not provably linear in the labels."""
        if is_linear(problem):
            return None
        return (
            "scores are not proved to be linear in the labels of every class, because some label may leave its cap "
            "within the budget; use engine='auto', a smaller C or max_flips, or loss='square'"
        )

    def panel(self, problem: Problem) -> Panel:
        """Linear maps."""
        return Panel(problem, linear=True)

    def estimate(self, question: Question, control: Control) -> Work:
        """Sorting is always cheap; a knapsack over large costs is not. The effort on the curve is limited."""
        return knapsack_work(question, question.panel.n_classes - 1)

    def run(self, question: Question, control: Control) -> Findings:
        """Radii in closed form, then as much of the curve as the effort allows."""
        started = time.perf_counter()
        lower, upper, changes = linear_radii(question)
        for_radii = time.perf_counter() - started
        budget = question.panel.problem.max_flips
        slots = memory_slots(question.nodes.size)
        reach = curve_reach(Sizes.of(question), control, slots)
        depth = question.panel.problem.adversary.most_flips(reach)
        forest = Forest(question.panel, question.nodes, slots, depth, reach)
        sweep = Sweep(question, forest, 0.0)
        sweep.know(lower, upper, changes)
        if question.nodes.size:
            for change in greedy_changes(question) if control.collective else ():
                sweep.suggest(change)
            sweep.run(control, radii=False, curve_to=reach)
            _suggest(sweep)
            if control.collective and reach < budget:
                for change in greedy_changes(question, sweep.strongest(reach)):
                    sweep.suggest(change)
        found = sweep.findings(time.perf_counter() - started, seconds_for_sorting=for_radii)
        found.statistics["trainings"] = 0
        return found


class Enumerate:
    """Tables of all toggled sets, and all relabellings combined from them."""

    name = "enumerate"

    def refuses(self, problem: Problem) -> str | None:
        """Nothing: only size can be in the way."""
        return None

    def panel(self, problem: Problem) -> Panel:
        """Retraining (hinge) or linear maps (square loss)."""
        return Panel(problem, linear=problem.loss == "square")

    def estimate(self, question: Question, control: Control) -> Work:
        """Count sets and pairs, time a few trainings, multiply; the effort on the curve is limited."""
        slots = memory_slots(question.nodes.size)
        per_stop = seconds_per_training(question)
        sizes = Sizes.of(question)
        seconds = (sizes.sets * per_stop + sizes.pairs * PAIR_SECONDS) / control.workers
        fits = (sizes.sets <= slots) & (seconds <= WORK_LIMIT_SECONDS)
        reason = (
            f"{sizes.sets[-1]:,.6g} toggled sets at {per_stop * 1e6:.1f} µs each on {control.workers} workers, "
            f"{sizes.pairs[-1]:,.3g} comparisons"
        )
        if fits[-1] or control.time_limit is not None:
            return Work(reason, float(seconds[-1]))
        if sizes.sets[-1] > slots:
            reason += f", in {sizes.sets[-1] * (6 * question.nodes.size + SLOT_BYTES) / 2**30:,.3g} GiB of memory"
        advice = (
            f"max_flips={last_fitting(fits)} would fit, or time_limit=SECONDS gives what can be proved in that time "
            "(intervals where it is not exact); engine='relaxed' needs less, as do fewer test nodes and trusted labels "
            "(labelcert.Threat)"
        )
        return Work(reason, float(seconds[-1]), advice)

    def run(self, question: Question, control: Control) -> Findings:
        """Level by level."""
        started = time.perf_counter()
        slots = memory_slots(question.nodes.size)
        forest = Forest(question.panel, question.nodes, slots, useful_depth(question, control))
        sweep = Sweep(question, forest, seconds_per_training(question))
        curve_to = curve_reach(Sizes.of(question), control, np.inf)
        if question.nodes.size:
            sweep.run(control, curve_to=curve_to)
            _suggest(sweep)
            if control.collective:
                sweep.extend(control)
        return sweep.findings(time.perf_counter() - started)


def _suggest(sweep: Sweep) -> None:
    """Try the nodes' own attacks on all nodes, where the curve is open."""
    changes = {change.key: change for change in sweep.changes if change is not None}
    stride = max(1, len(changes) // SUGGESTIONS)
    for change in list(changes.values())[::stride]:
        sweep.suggest(change)


ENGINES: tuple[Engine, ...] = (
    ClosedForm(),
    Enumerate(),
    Relaxed(),
    ClassMilp("milp"),
    ClassMilp("milp-paper", faithful=True),
)
"""All engines."""

AUTOMATIC = ("closed-form", "enumerate")
"""``engine="auto"`` takes the first of these that can do the work."""
