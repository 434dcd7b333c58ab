"""The collective curve where scores are linear and labels are many: a proved upper end, and attacks on the way to it.

A relabelling is a 0/1 vector x over moves (a label becomes a class). Each node t has a row ``S_t`` such that it can be
changed only if ``S_t·x ≥ 1``: what each move takes off its margin, as a share of the margin; against several rivals,
the largest such share. If ``S_t·x ≥ l_t`` for every x that is looked at, then the number of changed nodes is at most

    Σ_t min(1, (S_t·x - l_t) / (1 - l_t))  ≤  Σ_t (1 - v_t) + Σ_t v_t (S_t·x - l_t) / (1 - l_t)

for any multipliers v in [0, 1]. The right side is linear in x, so that sorting finds its maximum within the budget:
every v gives a proved bound (the dual of a linear program). Subgradient steps look for a good one. The x that they meet
are attacks. Attacks are looked at by what they spend on the labels of one class: the fewer amounts at a time, the more
nodes are out of reach, and the higher the ``l_t``.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field

import numpy as np

from labelcert.arrays import Bool, Float, Int
from labelcert.engines.base import Attacks, Question
from labelcert.engines.control import Control
from labelcert.engines.linear.radii import Radii, margin_errors
from labelcert.engines.linear.spending import uniform
from labelcert.problem import Relabelling
from labelcert.svm.pivoting import UNIT_ROUNDOFF

CELLS = 3e7
"""Most cells of S: nodes times moves."""

TABLE_CELLS = 4e6
"""Most cells of a table over nodes and budgets; beyond it, attacks are looked at all together."""

EFFORT = 4e10
"""Cells of S multiplied for the whole curve, where no time limit is given: about a minute."""

BUDGETS = 24
"""For so many budgets a bound is looked for; in between, the curve is monotone."""

STEPS = 80
"""Subgradient steps for the first range of amounts of a budget; half as many for each part of it."""

PARTS = 24
"""Most ranges of amounts that one budget is split into."""

SHARPNESS = (1.0, 0.5, 0.25, 0.12, 0.06, 0.03)
"""Widths of the soft threshold by which attacks are improved, one after the other."""

_REPEATS = 4
_GUARD = 1e-9


@dataclass(order=True)
class _Range:
    """Attacks that spend from ``low`` to ``high`` on labels of the chosen class, and a bound on what they change."""

    minus_bound: int
    low: int
    high: int
    v: Float = field(compare=False)


class Bounding:
    """Bounds and attacks for every budget.

    Parameters
    ----------
    question : Question
        With linear scores.
    reachable : position array
        The nodes to look at: those whose radius may be within the budget.
    radius_lower : (n,) array
        Of all nodes of the question.
    """

    def __init__(self, question: Question, reachable: Int, radius_lower: Int) -> None:
        a = question.problem.adversary
        self._question, self._nodes = question, reachable
        self._radius = radius_lower[reachable]
        self._move_label, self._move_target = (part.astype(np.int64) for part in np.nonzero(a.targets))
        self._first = np.searchsorted(self._move_label, np.arange(a.labels.size))
        self._S, self._always = self._shares()
        self._top = np.abs(self._S).max(axis=1, initial=0.0)
        self.updates = 0.0
        predicted = question.predicted[reachable]
        favourite = int(np.bincount(predicted, minlength=1).argmax()) if predicted.size else 0
        self._part: Bool = question.problem.codes[a.labels] == favourite
        self._split = reachable.size * (question.budget + 1.0) <= TABLE_CELLS
        if self._split:
            self._tables()
        else:
            np.maximum(self._S, 0.0, out=self._S)

    @staticmethod
    def fits(question: Question, nodes: int) -> bool:
        """Whether S is of a reasonable size."""
        return 0 < nodes * float(question.problem.adversary.targets.sum()) <= CELLS

    def _shares(self) -> tuple[Float, Bool]:
        """S, and the nodes whose clean margin is within its error of zero."""
        question, problem, a = self._question, self._question.problem, self._question.problem.adversary
        rows = question.predictor.scorer.rows[question.nodes[self._nodes]]
        errors = margin_errors(question)[self._nodes]
        predicted = question.predicted[self._nodes]
        source = problem.codes[a.labels[self._move_label]]
        entries = rows[:, a.labels[self._move_label]]
        S = np.full(entries.shape, -np.inf)
        always = np.zeros(self._nodes.size, dtype=bool)
        for c in np.unique(predicted).tolist():
            own = np.flatnonzero(predicted == c)
            for r in range(problem.n_classes):
                if r == c:
                    continue
                side = (problem.codes == c).astype(np.float64) - (problem.codes == r)
                margin = rows[own] @ side - errors[own]
                always[own] |= ~(margin > 0)
                factor = (source == c) * 1.0 - (source == r) - (self._move_target == c) + (self._move_target == r)
                with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
                    S[own] = np.maximum(S[own], entries[own] * factor / margin[:, None])
        always |= ~np.all(np.isfinite(S) & (np.abs(S) < 1e100), axis=1)
        S[always] = 0.0
        return S, always

    def _tables(self) -> None:
        """The most and the least that amounts spent on each of the two parts of the labels can add to ``S_t·x``."""
        starts = self._first
        most, least = np.maximum.reduceat(self._S, starts, axis=1), np.minimum.reduceat(self._S, starts, axis=1)
        part, rest = np.flatnonzero(self._part), np.flatnonzero(~self._part)
        self._most_part = self._sums(-np.sort(-(most / self._costs)[:, part], axis=1), part, most)
        self._least_part = -self._sums(-np.sort((least / self._costs)[:, part], axis=1), part, -least)
        self._most_rest = np.maximum.accumulate(
            self._sums(-np.sort(-(most / self._costs)[:, rest], axis=1), rest, most), axis=1
        )
        self._least_rest = np.minimum.accumulate(
            -self._sums(-np.sort((least / self._costs)[:, rest], axis=1), rest, -least), axis=1
        )

    @property
    def _costs(self) -> Int:
        return self._question.problem.adversary.costs

    def _sums(self, ranked: Float, labels: Int, values: Float) -> Float:
        """(N, B + 1) largest value for each amount spent on some labels, which may be spent in parts.

        Parameters
        ----------
        ranked : (N, k) array
            Values per unit of cost, descending.
        labels : (k,) array
        values : (N, ν) array
        """
        amounts = np.arange(self._question.budget + 1)
        costs = self._costs[labels]
        if labels.size == 0:
            return np.zeros((ranked.shape[0], amounts.size))
        if uniform(costs) and costs[0] == 1:
            total = np.concatenate([np.zeros((ranked.shape[0], 1)), np.cumsum(ranked, axis=1)], axis=1)
            return total[:, np.minimum(amounts, labels.size)]
        out = np.empty((ranked.shape[0], amounts.size))
        ratios = values[:, labels] / costs
        for t, order in enumerate(np.argsort(-ratios, axis=1)):
            spent = np.concatenate([[0], np.cumsum(costs[order])])
            out[t] = np.interp(amounts, spent, np.concatenate([[0.0], np.cumsum(values[t, labels[order]])]))
        return out

    def bound(self, budget: int, lower: int, most: int, control: Control, attacks: Attacks) -> int:
        """A proved upper end for one budget, of at most ``most``; attacks that are met on the way are entered."""
        heap = [_Range(-most, 0, budget, np.full(self._nodes.size, 0.5))]
        best, settled, tried = lower, lower, 0
        while heap and -heap[0].minus_bound > max(best, settled) and tried < PARTS and not control.over():
            now = heapq.heappop(heap)
            best = max(best, int(attacks.curve[budget]))
            if tried and now.low == now.high:
                settled = max(settled, -now.minus_bound)
                continue
            middle = (now.low + now.high) // 2
            whole = [(now.low, now.high)] if tried == 0 else [(now.low, middle), (middle + 1, now.high)]
            for low, high in whole:
                half = _Range(now.minus_bound, low, high, now.v)
                steps = STEPS if tried == 0 else STEPS // 2
                value, half.v = self._descend(budget, half, best, steps, attacks, control)
                half.minus_bound = max(-value, now.minus_bound)
                heapq.heappush(heap, half)
            tried += 1
            if not self._split:
                break
        return min(most, max([settled, best, *(-item.minus_bound for item in heap)]))

    def _descend(
        self, budget: int, now: _Range, target: int, steps: int, attacks: Attacks, control: Control
    ) -> tuple[int, Float]:
        """A bound for one range of amounts, by subgradient steps towards what is known to be possible."""
        low, high, v = now.low, now.high, now.v.copy()
        hi, lo = self._reach(budget, low, high)
        limit = 1.0 - _GUARD * (1.0 + self._top * budget)
        possible = self._always | ((self._radius <= budget) & (hi >= limit))
        gap = limit - lo
        active = possible & ~self._always & (gap > 1e-6)
        fixed = int((possible & ~active).sum())
        if not active.any():
            return fixed, v
        S, lo, gap = self._S, lo[active], gap[active]
        size, rows = float(active.sum()), np.flatnonzero(active)
        whole = rows.size == S.shape[0]
        matrix = S if whole else S[rows]
        best, best_v = np.inf, now.v
        seen = 0
        for step in range(steps):
            w = v[rows] / gap
            worth = matrix.T @ w
            value, x = self._most(worth, budget, low, high) if self._split else self._most_freely(worth, budget)
            mass = size + float(w @ np.abs(lo)) + budget * float(w @ self._top[rows])
            error = 8.0 * (rows.size + S.shape[1] + 16) * UNIT_ROUNDOFF * mass
            bound = float((1.0 - v[rows]).sum()) - float(w @ lo) + value + error
            if bound < best:
                best, best_v = bound, v.copy()
            self.updates += 2.0 * matrix.size
            if fixed + best < target + 1 or control.over():
                break
            reached = matrix @ x
            count = fixed + int((reached >= 1.0).sum())
            if count > max(seen, int(attacks.curve[budget])):
                seen = count
                self._enter(x, attacks)
            slope = (reached - lo) / gap - 1.0
            length = float(slope @ slope)
            if not length > 0:
                break
            pace = (1.5 * 0.97**step) * max(bound + fixed - target, 0.5) / length
            v[rows] = np.clip(v[rows] - pace * slope, 0.0, 1.0)
        return fixed + int(np.floor(min(best, size))), best_v

    def _reach(self, budget: int, low: int, high: int) -> tuple[Float, Float]:
        """(N,) bounds on ``S_t·x`` from above and from below, over attacks of one range."""
        n = self._nodes.size
        if not self._split:
            return np.full(n, np.inf), np.zeros(n)
        k = np.arange(low, high + 1)
        hi = (self._most_part[:, k] + self._most_rest[:, budget - k]).max(axis=1)
        lo = (self._least_part[:, k] + self._least_rest[:, budget - k]).min(axis=1)
        return hi, lo - _GUARD * (1.0 + self._top * budget)

    def _most(self, worth: Float, budget: int, low: int, high: int) -> tuple[float, Float]:
        """The largest worth of moves within the budgets, with some amount on the chosen part; and the moves."""
        best = np.maximum.reduceat(worth, self._first)
        ratio = best / self._costs
        part, rest = np.flatnonzero(self._part), np.flatnonzero(~self._part)
        orders = part[np.argsort(-ratio[part])], rest[np.argsort(-ratio[rest])]
        capacities = [self._capacities(order) for order in orders]
        capacities[1] = np.where(ratio[orders[1]] > 0, capacities[1], 0)  # nothing has to be spent there
        amounts = np.arange(low, high + 1)
        values = [
            np.interp(at, np.r_[0, np.cumsum(room)], np.r_[0.0, np.cumsum(room * ratio[order])])
            for at, room, order in zip((amounts, budget - amounts), capacities, orders, strict=True)
        ]
        pick = int((values[0] + values[1]).argmax())
        spent = np.zeros(ratio.size)
        for order, room, amount in zip(orders, capacities, (amounts[pick], budget - amounts[pick]), strict=True):
            spent[order] = np.clip(amount - (np.cumsum(room) - room), 0, room)
        return float(values[0][pick] + values[1][pick]), self._as_moves(spent, worth)

    def _most_freely(self, worth: Float, budget: int) -> tuple[float, Float]:
        """The same, whatever is spent on which part."""
        best = np.maximum.reduceat(worth, self._first)
        ratio = best / self._costs
        order = np.argsort(-ratio)
        room = np.where(ratio[order] > 0, self._capacities(order), 0)
        spent = np.zeros(ratio.size)
        spent[order] = np.clip(budget - (np.cumsum(room) - room), 0, room)
        return float(spent @ ratio), self._as_moves(spent, worth)

    def _capacities(self, order: Int) -> Int:
        """What can be spent on each label of an order, until the budget of its group is used up."""
        a = self._question.problem.adversary
        capacity = a.costs[order].copy()
        for group, cap in enumerate(a.group_caps.tolist()):
            members = np.flatnonzero(a.groups[order] == group)
            before = np.cumsum(capacity[members]) - capacity[members]
            capacity[members] = np.clip(cap - before, 0, capacity[members])
        return capacity

    def _as_moves(self, spent: Float, worth: Float) -> Float:
        """(M,) x, from what is spent on each label: its most worthy move."""
        a = self._question.problem.adversary
        x = np.zeros(worth.size)
        labels = np.flatnonzero(spent > 0)
        if a.targets.shape[1] == 2:
            x[labels] = spent[labels] / a.costs[labels]
            return x
        ends = np.append(self._first[1:], worth.size)
        for i in labels.tolist():
            moves = slice(self._first[i], ends[i])
            x[self._first[i] + int(worth[moves].argmax())] = spent[i] / a.costs[i]
        return x

    def _enter(self, x: Float, attacks: Attacks) -> None:
        """Try the whole moves of x, if they are admissible."""
        moves = np.flatnonzero(x >= 1.0)
        change = Relabelling(self._move_label[moves], self._move_target[moves])
        a = self._question.problem.adversary
        if a.admits(change, self._question.budget):
            attacks.enter(change)

    def attack(self, budget: int, attacks: Attacks, control: Control) -> None:
        """Improve an attack by a soft threshold that gets sharper: nodes just short of a change weigh the most."""
        predicted = self._question.predicted[self._nodes]
        near = self._radius <= budget
        starts = [near, *(near & (predicted == c) for c in np.unique(predicted).tolist())]
        for chosen in starts:
            if control.over():
                return
            weight, best = chosen / (1.0 + self._radius), 0
            for width in np.repeat(SHARPNESS, _REPEATS):
                _, x = self._most_freely(self._S.T @ weight, budget)
                reached = self._S @ x
                self.updates += 2.0 * self._S.size
                count = int(((reached >= 1.0) | self._always).sum())
                if count > max(best, int(attacks.curve[budget])):
                    self._enter(x, attacks)
                best = max(best, count)
                soft = 1.0 / (1.0 + np.exp(np.clip((1.0 - reached) / width, -50, 50)))
                weight = 0.5 * weight / max(weight.sum(), 1e-300) + 0.5 * _normed(chosen * soft * (1.0 - soft))


def _normed(weight: Float) -> Float:
    return np.asarray(weight / max(float(weight.sum()), 1e-300))


def bound_curve(question: Question, radii: Radii, attacks: Attacks, curve_upper: Int, control: Control) -> float:
    """Narrow the curve at a choice of budgets; returns the cells that were multiplied.

    Improves ``attacks`` and lowers ``curve_upper``.
    """
    reachable = np.flatnonzero(radii.lower <= question.budget).astype(np.int64)
    open_ = np.flatnonzero(attacks.curve < curve_upper)
    if open_.size == 0 or not Bounding.fits(question, reachable.size):
        return 0.0
    bounding = Bounding(question, reachable, radii.lower)
    chosen = open_[np.unique(np.linspace(0, open_.size - 1, BUDGETS).round().astype(int))]
    order = _by_halves(chosen)
    for b in order:
        bounding.attack(b, attacks, control)
    for done, b in enumerate(order):
        if control.over() or (control.time_limit is None and bounding.updates > EFFORT):
            break
        curve_upper[b] = bounding.bound(b, int(attacks.curve[b]), int(curve_upper[b]), control, attacks)
        curve_upper[:] = np.minimum.accumulate(curve_upper[::-1])[::-1]
        control.report(done + 1, len(order))
    return bounding.updates


def _by_halves(budgets: Int) -> list[int]:
    """The last, the first, then always the middle of what is left between two: a coarse picture comes first.

    Examples
    --------
    >>> _by_halves(np.arange(5))
    [4, 0, 2, 1, 3]
    """
    if budgets.size <= 2:
        return budgets[::-1].tolist()
    out, gaps = [int(budgets[-1]), int(budgets[0])], [(0, budgets.size - 1)]
    while gaps:
        low, high = gaps.pop(0)
        if high - low >= 2:
            middle = (low + high) // 2
            out.append(int(budgets[middle]))
            gaps += [(low, middle), (middle, high)]
    return out
