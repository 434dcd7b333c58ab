"""Exact radii of nearest neighbours whose rows may be removed, by counting.

Only what happens up to the last row that votes matters. For a predicted class a and a rival b, rows are taken in order:
each votes as it is, or as what it is changed into, or is removed. A table of the most that b gains on a, by how many
rows vote so far and by what was spent, gives the least cost of every outcome. Of rows that are as far away as each
other, any may be the last ones to vote, at no cost; so lower ends hold for every order.
"""

from __future__ import annotations

import time
from typing import Any, NamedTuple, cast

import numpy as np

from labelcert.arrays import Bool, Int
from labelcert.compiling import compiled
from labelcert.engines.asking import AskingMethod
from labelcert.engines.base import Attacks, Capabilities, Findings, PlainEngine, Question
from labelcert.engines.control import Control
from labelcert.engines.coupled.coupled_method import relabelling_counts
from labelcert.engines.pools import Local, in_order
from labelcert.prediction.neighbours import NEIGHBOURS, Neighbourhoods
from labelcert.problem import Problem, Relabelling

NEVER = -(10**6)
"""The gain of what cannot be."""

FIRST_BUDGET = 4
"""Tables begin with this budget, and with four times as much where that is not enough."""

MOST_STATES = 10_000_000
"""Entries of a table; larger ones leave out the budgets of groups, or end."""

FEW_ASKED = 20_000
"""Relabellings up to which all are asked about, for an exact curve."""

VOTES, TURNS, GOES = 1, 2, 3
"""What becomes of a row: it votes, votes for another class, or does not (removed, or behind others as far away)."""


class NeighbourEngine(PlainEngine):
    """Tables over the rows around each test point."""

    name = "counting"
    capabilities = Capabilities(
        automatic=True, advertised=False, predictors=frozenset({NEIGHBOURS}), removes=True, observes=True
    )

    def run(self, question: Question, control: Control, known: Findings) -> Findings:
        """Radii node by node; the curve from all relabellings where there are few, else from radii."""
        started = time.perf_counter()
        attacks, n = Attacks(question, known), question.nodes.size
        if question.observers or (control.collective and relabelling_counts(question)[-1] <= FEW_ASKED):
            return AskingMethod().run(question, control)
        lower = known.radius_lower.copy()
        task = Local(lambda t: _cheapest(question, t, control))
        for t, (least, changes) in in_order(task, iter(range(n)), control):
            lower[t] = max(lower[t], least)
            for change in changes:
                attacks.enter(change)
            control.report(t + 1, n)
        return attacks.findings(lower, {"trainings": 0, "seconds": time.perf_counter() - started})


class Around(NamedTuple):
    """The w rows around a test point, as an adversary sees them."""

    position: Int  # among the labels that may change; -1 for others
    band: Int
    edge: Bool
    keep: Int  # what each adds to the lead of the rival over the predicted class
    turn: Int  # the most that it adds after a change; NEVER where there is none
    removable: Bool
    cost: Int
    stride: Int  # of the budget of its group in the number of a state; 0 without one
    radix: Int


def _cheapest(question: Question, t: int, control: Control) -> tuple[int, list[Relabelling]]:
    """A lower end of the radius of a node, and attacks that may realise it."""
    problem, own = question.problem, int(question.predicted[t])
    near, budget = cast(Neighbourhoods, problem.by), FIRST_BUDGET
    node = int(question.nodes[t])
    least, below = 0, 0
    while not control.over():
        budget = min(budget, problem.max_flips)
        found = []
        for rival in range(problem.n_classes):
            if rival != own:
                around, groups = _around(problem, near, node, own, rival, budget)
                if (max(near.k, 1) + 1) * (budget + 1) * groups > MOST_STATES:
                    return below + 1, []
                ends = _swept(near, around, groups, own, rival, budget, recorded=False)
                found.append((ends[0], rival))
        least = min(found)[0]
        if least <= budget or budget == problem.max_flips:
            break
        below, budget = budget, 4 * budget
    else:
        return below + 1, []
    changes = []
    for strict in (False, True):
        cost, rival = min(found)
        if cost > budget:
            break
        around, groups = _around(problem, near, node, own, rival, budget)
        changes += _attack(problem, near, _in_strict_order(around) if strict else around, groups, own, rival, budget)
    return least, changes


def _around(problem: Problem, near: Neighbourhoods, node: int, own: int, rival: int, budget: int) -> tuple[Around, int]:
    """The rows around a node, and how many states budgets of groups have."""
    a, K = problem.adversary, problem.n_classes
    index = near.index[node][near.index[node] >= 0]
    place = np.full(problem.m, -1, dtype=np.int64)
    place[a.labels] = np.arange(a.labels.size)
    position, w = place[index], index.size
    lead = np.zeros(K + 1, dtype=np.int64)
    lead[rival], lead[own] = 1, -1
    targets = np.zeros((w, K), dtype=bool)
    free = position >= 0
    targets[free] = a.targets[position[free]][:, :K]
    turn = np.where(targets, lead[:K], NEVER).max(axis=1)
    removable, cost, group = free.copy(), np.ones(w, dtype=np.int64), np.full(w, -1)
    removable[free], cost[free], group[free] = (
        a.targets[position[free], K],
        a.costs[position[free]],
        a.groups[position[free]],
    )
    stride, radix, states = np.zeros(w, dtype=np.int64), np.ones(w, dtype=np.int64), 1
    used = [g for g in np.unique(group[group >= 0]).tolist() if a.group_caps[g] < min(budget, cost[group == g].sum())]
    sizes = [min(int(a.group_caps[g]), budget) + 1 for g in used]
    if float(np.prod(sizes)) * (max(near.k, 1) + 1) * (budget + 1) <= MOST_STATES:
        for g, size in zip(used, sizes, strict=True):
            stride[group == g], radix[group == g] = states, size
            states *= size
    around = Around(
        position,
        near.band[node][:w],
        near.edge[node][:w],
        lead[problem.codes[index]],
        turn,
        removable,
        cost,
        stride,
        radix,
    )
    return around, states


def _in_strict_order(around: Around) -> Around:
    """Rows that are as far away as each other in the order that is worst for an attack."""
    order = np.lexsort((around.keep, around.band))
    return Around._make(array[order] for array in around)._replace(band=np.arange(order.size))


def _swept(
    near: Neighbourhoods, around: Around, groups: int, own: int, rival: int, budget: int, *, recorded: bool
) -> Any:
    rows = around.keep.size if recorded else 0
    shape = (rows, (max(near.k, 1) + 1) * (budget + 1) * groups)
    record = np.zeros((2, *shape), dtype=np.int64)
    acts = np.zeros((2, *shape), dtype=np.int8)
    tables = np.zeros((4, shape[1]), dtype=np.int64)
    ends = swept(
        *around[1:],
        near.k,
        near.whole,
        near.outlier != own,
        1 if own < rival else 0,
        budget,
        groups,
        tables,
        record,
        acts,
    )
    return (*ends, record, acts)


def _attack(
    problem: Problem, near: Neighbourhoods, around: Around, groups: int, own: int, rival: int, budget: int
) -> list[Relabelling]:
    """The cheapest one, if the budgets of all groups pay for it."""
    rows, shape = around.keep.size, (max(near.k, 1) + 1) * (budget + 1) * groups
    if rows * shape > MOST_STATES:
        return []
    _, row, state, boundary, record, acts = _swept(near, around, groups, own, rival, budget, recorded=True)
    if row < 0:
        return []
    a, moves, layer = problem.adversary, dict[int, int](), 1 if boundary else 0
    here = around.band[row - 1] if boundary else -1
    while row > 0:
        row -= 1
        if layer and around.band[row] != here:
            layer = 0
        act, position = int(acts[layer, row, state]), int(around.position[row])
        state = int(record[layer, row, state])
        if act == TURNS:
            lead = np.zeros(problem.n_classes)
            lead[rival], lead[own] = 1, -1
            moves[position] = int(np.where(a.targets[position, : problem.n_classes], lead, -2).argmax())
        elif act == GOES and not layer and not around.edge[row]:
            moves[position] = problem.n_classes
    change = Relabelling.of(moves)
    return [change] if a.admits(change, problem.max_flips) else []


@compiled()
def swept(
    band: Int,
    edge: Bool,
    keep: Int,
    turn: Int,
    removable: Bool,
    cost: Int,
    stride: Int,
    radix: Int,
    k: int,
    whole: bool,
    nobody: bool,
    least: int,
    budget: int,
    groups: int,
    tables: Int,
    record: Int,
    acts: Any,
) -> tuple[int, int, int, bool]:
    """The least cost at which the rival's lead is at least so much, or nobody votes; where it ends, and how.

    A state is ``(j * (budget + 1) + spent) * groups + what groups spent``; j rows vote. With k = 0, all of them do, and
    j says whether there is one. Invariant: ``tables[now]`` holds the largest lead for each state, with all rows so far
    settled; ``tables`` (4, states) is scratch.
    """
    w, each, states = band.size, (budget + 1) * groups, tables.shape[1]
    now, last = 0, 2
    tables[now, :] = NEVER
    tables[now, 0] = 0
    best, row, at, boundary = budget + 1, -1, -1, False
    i = 0
    while i < w:
        end = i
        while end < w and band[end] == band[i]:
            end += 1
        if k > 0:  # the last row that votes is one of these
            for s in range(states):
                tables[last, s] = tables[now, s]
            for r in range(i, end):
                row_votes = keep[r], turn[r], cost[r], stride[r], radix[r]
                _settled(
                    tables[last],
                    tables[5 - last],
                    r,
                    row_votes,
                    k,
                    k,
                    each,
                    groups,
                    budget,
                    True,
                    False,
                    record[1],
                    acts[1],
                )
                last = 5 - last
            for s in range(k * each, (k + 1) * each):
                if tables[last, s] >= least and (s - k * each) // groups < best:
                    best, row, at, boundary = (s - k * each) // groups, end, s, True
        for r in range(i, end):
            row_votes, most = (keep[r], turn[r], cost[r], stride[r], radix[r]), 2 if k == 0 else k - 1
            _settled(
                tables[now],
                tables[1 - now],
                r,
                row_votes,
                k,
                most,
                each,
                groups,
                budget,
                edge[r],
                removable[r],
                record[0],
                acts[0],
            )
            now = 1 - now
        i = end
        if not _reached(tables[now]):  # the budget does not pay for more
            break
    for s in range(states):
        j, spent = s // each, s % each // groups
        lost = (whole if k > 0 else nobody and j == 0) or (k == 0 and j == 1 and tables[now, s] >= least)
        if spent < best and tables[now, s] > NEVER // 2 and lost:
            best, row, at, boundary = spent, w, s, False
    return best, row, at, boundary


@compiled(inner=True)
def _reached(table: Int) -> bool:
    """Whether there is a state at all."""
    highest = NEVER
    for s in range(table.size):
        highest = max(highest, table[s])
    return highest > NEVER // 2


@compiled(inner=True)
def _settled(
    before: Int,
    after: Int,
    r: int,
    row: tuple[int, int, int, int, int],
    k: int,
    most: int,
    each: int,
    groups: int,
    budget: int,
    skipped: bool,
    removable: bool,
    record: Int,
    acts: Any,
) -> None:
    """The table after one more row, which votes, is changed and votes, or does not. At most so many rows may vote."""
    keep, turn, cost, stride, radix = row
    after[:] = NEVER
    for s in range(before.size):
        gain = before[s]
        if gain < NEVER // 2:
            continue
        j = s // each
        pays = s % each // groups + cost <= budget and (stride == 0 or s // stride % radix + cost < radix)
        paid = cost * (groups + stride)
        for act in (VOTES, TURNS, GOES):
            if act == GOES:
                to, new = s if skipped else s + paid, gain
                allowed = skipped or (removable and pays)
            else:
                to = s if k == 0 and j == 1 else s + each
                to, new = (to, gain + keep) if act == VOTES else (to + paid, gain + turn)
                allowed = j < most and (act == VOTES or (turn > NEVER and pays))
            if allowed and new > after[to]:
                after[to] = new
                if record.shape[0] > 0:
                    record[r, to], acts[r, to] = s, act
