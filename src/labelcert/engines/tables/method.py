"""More than two classes: tables of all toggled sets, and all relabellings combined from them."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from labelcert.arrays import Float, Int
from labelcert.engines.base import WORK_LIMIT_SECONDS, Attacks, Findings, Question, Work
from labelcert.engines.control import Control
from labelcert.engines.linear.greedy import greedy_changes
from labelcert.engines.linear.radii import Radii
from labelcert.engines.tables.forest import SLOT_BYTES
from labelcert.engines.tables.levels import PAIR_SECONDS, Sweep
from labelcert.engines.tables.sizes import (
    Sizes,
    curve_reach,
    last_fitting,
    memory_slots,
    new_forest,
    seconds_per_training,
    useful_depth,
)

SUGGESTIONS = 400
"""Attacks found elsewhere that are tried on the curve."""


class TableMethod:
    """Tables of all toggled sets, and all relabellings combined from them."""

    def estimate(self, question: Question, control: Control) -> Work:
        """Count sets and pairs, time a few trainings, multiply; the effort on the curve is limited."""
        slots = memory_slots(question.nodes.size)
        per_stop = seconds_per_training(question)
        sizes = Sizes.of(question)
        seconds = _seconds(sizes, per_stop, control)
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

    def reach(self, question: Question, control: Control, seconds: float) -> int:
        """The largest budget that fits into so many seconds, and into memory."""
        sizes = Sizes.of(question)
        needed = _seconds(sizes, seconds_per_training(question), control)
        return last_fitting((sizes.sets <= memory_slots(question.nodes.size)) & (needed <= seconds))

    def run(self, question: Question, control: Control) -> Findings:
        """Level by level."""
        started = time.perf_counter()
        slots = memory_slots(question.nodes.size)
        forest = new_forest(question, slots, useful_depth(question, control))
        sweep = Sweep(question, forest, seconds_per_training(question))
        if question.nodes.size:
            sweep.run(control, curve_to=curve_reach(Sizes.of(question), control, np.inf))
            _suggest_radius_attacks(sweep)
            if control.collective:
                sweep.extend(control)
        return sweep.findings(time.perf_counter() - started)


def _seconds(sizes: Sizes, per_stop: float, control: Control) -> Float:
    """(B + 1,) estimated time for each budget."""
    return (sizes.sets * per_stop + sizes.pairs * PAIR_SECONDS) / control.workers


def table_curve(
    question: Question, radii: Radii, attacks: Attacks, curve_upper: Int, control: Control
) -> dict[str, Any]:
    """Close the curve where scores are linear and radii are known; improves ``attacks`` and lowers ``curve_upper``."""
    slots = memory_slots(question.nodes.size)
    reach = curve_reach(Sizes.of(question), control, slots)
    depth = question.problem.adversary.most_flips(reach)
    sweep = Sweep(question, new_forest(question, slots, depth, reach), 0.0)
    sweep.know(*radii)
    if question.nodes.size:
        for change in dict.fromkeys(attacks.curve_changes):
            sweep.suggest(change)
        sweep.run(control, radii=False, curve_to=reach)
        if reach < question.budget:
            for change in greedy_changes(question, sweep.strongest(reach)):
                sweep.suggest(change)
    found = sweep.findings(0.0)
    for change, count in zip(found.curve_changes, found.curve_lower.tolist(), strict=True):
        attacks.count(change, count)
    np.minimum(curve_upper, found.curve_upper, out=curve_upper)
    return {**found.statistics, "trainings": 0}


def _suggest_radius_attacks(sweep: Sweep) -> None:
    """Try the nodes' own attacks on all nodes, where the curve is open."""
    changes = list(dict.fromkeys(change for change in sweep.changes if change is not None))
    for change in changes[:: max(1, len(changes) // SUGGESTIONS)]:
        sweep.suggest(change)
