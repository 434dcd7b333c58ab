"""The collective curve where scores are linear and labels are many: a proved upper end, and attacks on the way to it.

A relabelling is a 0/1 vector x over moves (a label becomes a class). Each node t has a row ``S_t`` such that it can be
changed only if ``S_t·x ≥ 1``: what each move takes off its margin, as a share of the margin; against several rivals,
the largest such share. Since no more than b can be spent, and by dropping what is negative,

    Σ_j (S_tj - θ c_j)⁺ x_j ≥ 1 - θ b        for any θ from 0 to 1/b, with costs c,

so that ``W_t·x ≥ 1`` for ``W_tj = min(1, (S_tj - θ c_j)⁺ / (1 - θ b))``: moves that gain less than an average flip has
to gain count little. The number of changed nodes is at most

    Σ_t min(1, W_t·x)  ≤  Σ_t (1 - v_t) + Σ_t v_t W_t·x

for any multipliers v in [0, 1]. The right side is linear in x, so that sorting finds its maximum within the budget:
every v and θ gives a proved bound (the dual of a linear program). Subgradient steps look for good ones. The x that they
meet are attacks. Attacks are looked at by what they spend on the labels of one class, and on all others. The fewer
amounts at a time, the more nodes are out of reach, and the larger the θ, now one for each of the two kinds of labels.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field

import numpy as np

from labelcert.arrays import Bool, Float, Int
from labelcert.compiling import compiled
from labelcert.engines.base import Attacks, Question
from labelcert.engines.control import Control
from labelcert.engines.linear.pairs import LABELS, Pairs
from labelcert.engines.linear.radii import Radii, margin_errors
from labelcert.engines.linear.spending import uniform
from labelcert.engines.linear.swapping import Swapping
from labelcert.problem import Relabelling
from labelcert.svm.pivoting import UNIT_ROUNDOFF

CELLS = 3e7
"""Most cells of S: nodes times moves."""

TABLE_CELLS = 4e6
"""Most cells of a table over nodes and budgets; beyond it, attacks are looked at all together."""

EFFORT = 4e9
"""Cells of S multiplied for the whole curve: some seconds."""

BUDGETS = 24
"""Budgets for which a bound is looked for; in between, the curve is monotone."""

STEPS = 30
"""Subgradient steps between two choices of θ."""

CHOICES = 3
"""Choices of θ for the first range of amounts of a budget; one for each part of it."""

TRIES = 4
"""Times that this is done for a single amount."""

SHARES = (0.3, 0.5, 0.65, 0.8, 0.9, 0.95)
"""Values of ``θ b`` to choose from, beside 0."""

PAIRED = 9
"""Budgets of these for which pairs of labels are looked at first; each bounds all smaller ones."""

PARTS = 64
"""Most ranges of amounts that one budget is split into."""

ATTACKS = 8e9
"""Score updates spent on better attacks for the whole curve: some seconds; as much as on the first as on all others."""

_GUARD = 1e-9


@dataclass(order=True)
class _Range:
    """Attacks that spend from ``low`` to ``high`` on labels of the chosen class, and a bound on what they change."""

    minus_bound: int
    low: int
    high: int
    v: Float = field(compare=False)
    x: Float = field(compare=False)
    tries: int = field(default=0, compare=False)


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
        self._always |= ~(_GUARD * self._top * question.budget < 0.1)  # margins next to nothing
        self._S[self._always], self._top[self._always] = 0.0, 0.0
        self.updates = 0.0
        predicted = question.predicted[reachable]
        favourite = int(np.bincount(predicted, minlength=1).argmax()) if predicted.size else 0
        self._part: Bool = question.problem.codes[a.labels] == favourite
        self._split = reachable.size * (question.budget + 1.0) <= TABLE_CELLS
        if self._split:
            self._tables()

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
        always |= ~np.isfinite(S).all(axis=1)
        S[always] = 0.0
        return S, always

    def _tables(self) -> None:
        """The most that amounts spent on each of the two kinds of labels can add to ``S_t·x``."""
        most = np.maximum.reduceat(self._S, self._first, axis=1)
        self._most_part = self._sums(most, np.flatnonzero(self._part))
        self._most_rest = np.maximum.accumulate(self._sums(most, np.flatnonzero(~self._part)), axis=1)

    @property
    def _costs(self) -> Int:
        return self._question.problem.adversary.costs

    def _sums(self, values: Float, labels: Int) -> Float:
        """(N, B + 1) largest value for each amount spent on some labels, which may be spent in parts.

        Parameters
        ----------
        values : (N, ν) array
        labels : position array
        """
        amounts = np.arange(self._question.budget + 1)
        costs = self._costs[labels]
        if labels.size == 0:
            return np.zeros((values.shape[0], amounts.size))
        if uniform(costs) and costs[0] == 1:
            ranked = -np.sort(-values[:, labels], axis=1)
            total = np.concatenate([np.zeros((values.shape[0], 1)), np.cumsum(ranked, axis=1)], axis=1)
            return total[:, np.minimum(amounts, labels.size)]
        out = np.empty((values.shape[0], amounts.size))
        for t, order in enumerate(np.argsort(-values[:, labels] / costs, axis=1)):
            spent = np.concatenate([[0], np.cumsum(costs[order])])
            out[t] = np.interp(amounts, spent, np.concatenate([[0.0], np.cumsum(values[t, labels[order]])]))
        return out

    def bound(self, budget: int, most: int, effort: float, attacks: Attacks, control: Control) -> int:
        """A proved upper end for one budget, of at most ``most``; attacks that are met on the way are entered."""
        heap = [_Range(-most, 0, budget, np.full(self._nodes.size, 0.5), np.zeros(self._S.shape[1]))]
        settled, tried, stop = 0, 0, self.updates + effort
        while heap and -heap[0].minus_bound > max(int(attacks.curve[budget]), settled):
            if tried >= PARTS or (tried and self.updates > stop) or control.over():
                break
            if tried == 1 and -heap[0].minus_bound == most:  # no better than what is known
                stop = min(stop, self.updates + effort / 4)
            now = heapq.heappop(heap)
            whole = now.low == now.high or not self._split
            if whole and now.tries == TRIES:
                settled = max(settled, -now.minus_bound)
                continue
            middle = (now.low + now.high) // 2
            for low, high in (
                [(now.low, now.high)] if whole or tried == 0 else [(now.low, middle), (middle + 1, now.high)]
            ):
                part = _Range(now.minus_bound, low, high, now.v, now.x, now.tries + 1 if whole else 0)
                self._descend(budget, part, CHOICES if whole or tried == 0 else 1, stop, attacks, control)
                heapq.heappush(heap, part)
            tried += 1
        return min(most, max([settled, int(attacks.curve[budget]), *(-item.minus_bound for item in heap)]))

    def _descend(
        self, budget: int, part: _Range, choices: int, stop: float, attacks: Attacks, control: Control
    ) -> None:
        """Improve the bound of one range of amounts, by subgradient steps towards what is known to be possible."""
        possible = (self._radius <= budget) & (self._always | self._within(budget, part))
        rows = np.flatnonzero(possible & ~self._always)
        fixed = int(possible.sum()) - rows.size
        part.minus_bound = max(part.minus_bound, -(fixed + rows.size))
        matrix = self._S if rows.size == self._S.shape[0] else self._S[rows]
        for choice in range(choices):
            target = int(attacks.curve[budget])
            if rows.size == 0 or -part.minus_bound <= target or control.over() or (choice and self.updates > stop):
                return
            W = self._weights(matrix, budget, part, chosen=choice > 0 or bool(part.x.any()))
            limit = 1.0 - _GUARD * (1.0 + self._top[rows] * budget)
            walk = _Walk(W, limit, part.v[rows], target - fixed)
            for step in range(STEPS):
                worth = W.T @ walk.w
                value, x = self._most(worth, budget, part) if self._split else self._most_freely(worth, budget)
                if step % 4 == 0:
                    self._try(x, matrix @ x, fixed, budget, attacks)
                if walk.step(value, x, budget, step) or control.over():
                    break
            self.updates += 2.25 * W.size * (step + 1)
            part.minus_bound = max(part.minus_bound, -(fixed + walk.bound))
            part.v = part.v.copy()
            part.v[rows], part.x = walk.best_v, walk.mean_x

    def _within(self, budget: int, part: _Range) -> Bool:
        """(N,) which nodes some attack of the range may change."""
        if not self._split:
            return np.ones(self._nodes.size, dtype=bool)
        k = np.arange(part.low, part.high + 1)
        most = (self._most_part[:, k] + self._most_rest[:, budget - k]).max(axis=1)
        return np.asarray(most >= 1.0 - _GUARD * (1.0 + self._top * budget))

    def _weights(self, S: Float, budget: int, part: _Range, chosen: bool) -> Float:
        """W, with the θ of each node that are best for the attacks met so far, where ``chosen``; else 0."""
        costs = self._costs[self._move_label].astype(np.float64)
        inside = self._part[self._move_label]
        amounts = np.array([part.high, budget - part.low]) if self._split else np.array([budget, budget])
        shares = np.array(SHARES if chosen else (), dtype=np.float64)
        offers = [np.zeros((1, 3))]  # θ of the part, θ of the rest, and the share of the budget that they take off
        if budget:
            offers.append(np.stack([shares / budget, shares / budget, shares], axis=1))
        for side in (0, 1):
            if self._split and amounts[side]:
                pair = np.zeros((shares.size, 3))
                pair[:, side], pair[:, 2] = shares / amounts[side], shares
                offers.append(pair)
        table = np.concatenate(offers)
        return np.asarray(_weighed(S, costs, inside, part.x, table))

    def _try(self, x: Float, reached: Float, fixed: int, budget: int, attacks: Attacks) -> None:
        """Enter an attack that seems to be better than the best one known."""
        if fixed + int((reached >= 1.0 - _GUARD).sum()) > int(attacks.curve[budget]):
            self._enter(x, attacks)

    def _most(self, worth: Float, budget: int, part: _Range) -> tuple[float, Float]:
        """The largest worth of moves within the budgets, with some amount on the chosen part; and the moves."""
        best = np.maximum.reduceat(worth, self._first)
        ratio = best / self._costs
        own, rest = np.flatnonzero(self._part), np.flatnonzero(~self._part)
        orders = own[np.argsort(-ratio[own])], rest[np.argsort(-ratio[rest])]
        capacities = [self._capacities(order) for order in orders]
        capacities[1] = np.where(ratio[orders[1]] > 0, capacities[1], 0)  # nothing has to be spent there
        amounts = np.arange(part.low, part.high + 1)
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

    def by_pairs(self, budgets: list[int], curve_upper: Int, attacks: Attacks, control: Control) -> None:
        """Lower the upper end of the curve by pairs of labels; labels that are met on the way are attacks."""
        a, size = self._question.problem.adversary, self._first.size
        if size > LABELS or self._S.size == 0:
            return
        sure = ~self._always
        pairs = Pairs(
            np.maximum.reduceat(self._S[sure], self._first, axis=1),
            1.0 - _GUARD * (1.0 + self._top[sure] * self._question.budget),
            self._radius[sure],
            np.array([a.most_flips(b) for b in range(self._question.budget + 1)], dtype=np.int64),
        )
        radius = self._radius[self._always]
        always = np.array([(radius <= b).sum() for b in range(self._question.budget + 1)])
        upper = curve_upper - always
        for labels in pairs.improve(upper, attacks.curve - always, budgets, control):
            worth = np.full(self._S.shape[1], -1.0)
            worth[np.isin(self._move_label, labels)] = 1.0
            worth += self._S.mean(axis=0)
            self._enter(self._as_moves(np.where(np.isin(np.arange(size), labels), a.costs, 0), worth), attacks)
        curve_upper[:] = upper + always

    def attack(self, budget: int, updates: float, attacks: Attacks, control: Control) -> None:
        """Improve the best attack that is known."""
        near = (self._radius <= budget) & ~self._always
        a = self._question.problem.adversary
        swapping = Swapping(self._S[near], self._move_label, self._move_target, a)
        better = swapping.improved(attacks.curve_changes[budget], budget, updates, control)
        if a.admits(better, budget):
            attacks.enter(better)


class _Walk:
    """Subgradient steps of Polyak's length on the multipliers v of some nodes.

    Attributes
    ----------
    bound : int
        The best bound so far, with its rounding errors.
    best_v : array
        Its multipliers.
    mean_x : array
        The mean of the attacks that were met.
    """

    def __init__(self, W: Float, limit: Float, v: Float, target: int) -> None:
        self._W, self._limit, self._v, self._target = W, limit, v.copy(), target
        self._top = W.max(axis=1, initial=0.0)
        self._best = float(v.size)
        self.best_v = v
        self._sum, self._met = np.zeros(W.shape[1]), 0

    @property
    def w(self) -> Float:
        """What multiplies the rows of W."""
        return self._v / self._limit

    @property
    def bound(self) -> int:
        return int(np.floor(self._best))

    @property
    def mean_x(self) -> Float:
        return self._sum / max(1, self._met)

    def step(self, value: float, x: Float, budget: int, number: int) -> bool:
        """Take in the most that x can make of ``w·W·x``, and go on; True where nothing more is to be gained."""
        n, size = self._W.shape
        mass = n + budget * float(self.w @ self._top)
        error = 8.0 * (n + size + 16) * UNIT_ROUNDOFF * mass
        bound = float((1.0 - self._v).sum()) + value + error
        if bound < self._best:
            self._best, self.best_v = bound, self._v.copy()
        self._sum += x
        self._met += 1
        slope = (self._W @ x) / self._limit - 1.0
        length = float(slope @ slope)
        if self._best < self._target + 1 or not length > 0:
            return True
        pace = 1.5 * 0.97**number * max(bound - self._target, 0.5) / length
        self._v = np.clip(self._v - pace * slope, 0.0, 1.0)
        return False


@compiled(allocates=True)
def _weighed(S, costs, inside, x, offers):  # type: ignore[no-untyped-def]
    """W for the offered θ of each node that makes ``W_t·x`` least."""
    n, size = S.shape
    W = np.empty((n, size))
    used = np.flatnonzero(x > 0.0)
    for t in range(n):
        pick, least = 0, np.inf
        for k in range(offers.shape[0]):
            total, rest = 0.0, 1.0 - offers[k, 2]
            for i in used:
                theta = offers[k, 0] if inside[i] else offers[k, 1]
                total += x[i] * min(1.0, max(0.0, S[t, i] - theta * costs[i]) / rest)
            if total < least:
                pick, least = k, total
        rest = 1.0 - offers[pick, 2]
        for j in range(size):
            theta = offers[pick, 0] if inside[j] else offers[pick, 1]
            W[t, j] = min(1.0, max(0.0, S[t, j] - theta * costs[j]) / rest)
    return W


def bound_curve(question: Question, radii: Radii, attacks: Attacks, curve_upper: Int, control: Control) -> float:
    """Narrow the curve at a choice of budgets; returns the cells that were multiplied.

    Improves ``attacks`` and lowers ``curve_upper``.
    """
    reachable = np.flatnonzero(radii.lower <= question.budget).astype(np.int64)
    open_ = np.flatnonzero(attacks.curve < curve_upper)
    if open_.size == 0 or not Bounding.fits(question, reachable.size):
        return 0.0
    bounding = Bounding(question, reachable, radii.lower)
    chosen = open_[np.unique((np.geomspace(1, open_.size, BUDGETS) - 1).round().astype(int))]
    order = _by_halves(chosen)
    for b in order:
        bounding.attack(b, ATTACKS / (2 if b == order[0] else 2 * len(order)), attacks, control)
    bounding.by_pairs(order[:PAIRED], curve_upper, attacks, control)
    for done, b in enumerate(order):
        if control.over():
            break
        share = (EFFORT - bounding.updates) / (len(order) - done)
        curve_upper[b] = bounding.bound(b, int(curve_upper[b]), share, attacks, control)
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
