"""More than two classes: tables of all toggled sets, and all relabellings combined from them."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import numpy as np

from labelcert.arrays import Float, Int
from labelcert.certificate import Stop
from labelcert.engines.base import Attacks, Findings, Question, within_reach
from labelcert.engines.control import Control
from labelcert.engines.linear.greedy import greedy_changes
from labelcert.engines.linear.radii import Radii
from labelcert.engines.tables.forest import SLOT_BYTES
from labelcert.engines.tables.levels import PAIR_SECONDS, Sweep
from labelcert.engines.tables.sizes import (
    Sizes,
    curve_reach,
    memory_nodes,
    memory_slots,
    new_forest,
    seconds_per_training,
    useful_depth,
)
from labelcert.engines.walks import Timed

SUGGESTIONS = 400
"""Attacks found elsewhere that are tried on the curve."""


class TableMethod(Timed):
    """Tables of all toggled sets, and all relabellings combined from them."""

    advice = (
        f"{Timed.advice} (intervals where it is not exact); engine='relaxed' needs less, as do fewer test nodes and "
        "trusted labels (labelcert.Threat)"
    )

    def seconds(self, question: Question, control: Control) -> tuple[Float, str]:
        """All sets are trained on, all pairs compared; the effort on the curve is limited."""
        per_stop = seconds_per_training(question)
        sizes = Sizes.of(question)
        reason = (
            f"{sizes.sets[-1]:,.6g} toggled sets at {per_stop * 1e6:.1f} µs each on {control.workers} workers, "
            f"{sizes.pairs[-1]:,.3g} comparisons"
        )
        all_rounds = _rounds(question, sizes)
        rounds = all_rounds[-1]
        if rounds == np.inf:
            reason += f", in {sizes.sets[-1] * SLOT_BYTES / 2**30:,.3g} GiB of memory for each node"
        elif rounds > 1:
            reason += f", for {rounds:,.0f} blocks of test nodes, since tables of all would not fit into memory"
        seconds = np.full(all_rounds.shape, np.inf)
        np.multiply(sizes.sets * per_stop, all_rounds, out=seconds, where=np.isfinite(all_rounds))
        return (seconds + sizes.pairs * PAIR_SECONDS) / control.workers, reason

    def run(self, question: Question, control: Control) -> Findings:
        """All nodes at once, or as many at a time as tables in memory allow."""
        count = 1 if question.observers else _blocks(question, control)  # observers look at all nodes at once
        blocks = np.array_split(np.arange(question.nodes.size), count)
        if len(blocks) == 1:
            return self._run(question, control)
        found = []
        for k, block in enumerate(blocks):
            control.note(f"block {k + 1} of {len(blocks)} of the test nodes")
            own = control.part(1 / (len(blocks) - k))
            found.append(self._run(replace(question, nodes=question.nodes[block]), own))
            if control.stop is Stop.FINISHED:
                control.stop = own.stop
        return _joined(question, found)

    def _run(self, question: Question, control: Control) -> Findings:
        """Fill and read the tables level by level, for some nodes at a time."""
        started = time.perf_counter()
        forest = new_forest(question, memory_slots(question.nodes.size), useful_depth(question, control))
        sweep = Sweep(question, forest, seconds_per_training(question))
        if question.nodes.size:
            sweep.run(control, curve_to=curve_reach(Sizes.of(question), control, np.inf))
            if control.collective:
                _suggest_radius_attacks(sweep, control)
                sweep.extend(control)
        if question.observers:
            sweep.show(control)
        return sweep.findings(time.perf_counter() - started)


def _rounds(question: Question, sizes: Sizes) -> Float:
    """(B + 1,) how many blocks of test nodes each budget takes: all of the training is done for each of them.

    Infinite where not even the tables of one node fit into memory.
    """
    n = question.nodes.size
    per_block = memory_nodes(sizes.sets)
    return np.where(per_block < 1.0, np.inf, np.ceil(n / np.clip(per_block, 1.0, max(n, 1))))


def _blocks(question: Question, control: Control) -> int:
    """Blocks of test nodes for the sets that are worth preparing."""
    depth = useful_depth(question, control)
    budget = question.budget if control.time_limit is None else min(question.budget, depth)
    rounds = _rounds(question, Sizes.of(replace(question, problem=replace(question.problem, max_flips=budget))))[-1]
    return int(rounds) if 1 < rounds < np.inf else 1  # where nothing fits: as far as it goes


def _joined(question: Question, found: list[Findings]) -> Findings:
    """Findings about blocks of nodes as findings about all of them.

    One attack changes no more nodes than the best ones on each block together; the attacks are tried on all nodes.
    """
    lower = np.concatenate([part.radius_lower for part in found])
    known = replace(
        Findings.nothing(question),
        radius_lower=lower,
        radius_upper=np.concatenate([part.radius_upper for part in found]),
        radius_changes=[change for part in found for change in part.radius_changes],
    )
    attacks = Attacks(question, known)
    for change in dict.fromkeys(change for part in found for change in part.curve_changes):
        attacks.enter(change)
    together = np.sum([part.curve_upper for part in found], axis=0)
    statistics = {key: sum(part.statistics[key] for part in found) for key in found[0].statistics}
    statistics["curve_walked_to"] = min(part.statistics["curve_walked_to"] for part in found)
    return attacks.findings(lower, statistics, np.minimum(together, within_reach(lower, question.budget)))


def table_curve(
    question: Question, radii: Radii, attacks: Attacks, curve_upper: Int, control: Control
) -> dict[str, Any]:
    """Close the curve where scores are linear and radii are known; improves ``attacks`` and lowers ``curve_upper``."""
    slots = memory_slots(question.nodes.size)
    reach = curve_reach(Sizes.of(question), control, slots)
    depth = question.problem.adversary.most_flips(reach)
    sweep = Sweep(question, new_forest(question, slots, depth, reach), 0.0)
    sweep.ledger.know(*radii)
    if question.nodes.size:
        for change in dict.fromkeys(attacks.curve_changes):
            sweep.suggest(change)
        sweep.run(control, radii=False, curve_to=reach)
        if reach < question.budget:
            for change in greedy_changes(question, sweep.ledger.strongest(reach)):
                sweep.suggest(change)
    found = sweep.findings(0.0)
    for change, count in zip(found.curve_changes, found.curve_lower.tolist(), strict=True):
        attacks.count(change, count)
    np.minimum(curve_upper, found.curve_upper, out=curve_upper)
    return {**found.statistics, "trainings": 0}


def _suggest_radius_attacks(sweep: Sweep, control: Control) -> None:
    """Try the nodes' own attacks on all nodes, where the curve is open."""
    changes = list(dict.fromkeys(change for change in sweep.ledger.changes if change is not None))
    for change in changes[:: max(1, len(changes) // SUGGESTIONS)]:
        if control.over():
            return
        sweep.suggest(change)
