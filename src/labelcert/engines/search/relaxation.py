"""Rigorous bounds before any search: ranges of the margins under a budget, and proofs for single nodes.

The *relaxation* lets every label be any mixture of the corners of its two hulls, tied together by ``f = Q z`` and by
the budget. Minimising and maximising each label's g and a, on both sides, tightens the ranges; tighter ranges give a
tighter relaxation, and so on. Asked about attacks that change one node (``success·z ≤ 0``), the ranges often end up
empty: then there is no such attack, and the node is proved robust without any search.

Nothing here rests on a solver's word. For any multipliers β of the ties and any price μ ≥ 0 of success,
``c·z + d·f ≥ (c + Qβ + μ·success)·z + (d − β)·f`` for all successful attacks, and the right side separates over
labels: its minimum takes each label's best kept corner, and the best flips that the budget buys. A solver only
suggests β and μ; the minimum is evaluated here, with its rounding errors. So all of this is proof.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, fields

import numpy as np

from labelcert.arrays import Bool, Float, Index, Int
from labelcert.certificate import proofs
from labelcert.engines.search.highs import duals, simplex
from labelcert.engines.search.margin_ranges import FLIPPED, KEPT, Ranges, ball_ranges
from labelcert.engines.search.mixed_integer import Builder, MixedInteger, add_budget
from labelcert.problem import Problem
from labelcert.svm.pivoting import UNIT_ROUNDOFF

Side = tuple[int, int]
"""A label, and whether it is kept or flipped."""

NO_SIDE = (-1, KEPT)
"""No label's side is given."""

MAX_ROUNDS = 20
"""Most rounds of tightening."""

WORTH_IT = 0.95
"""Another round follows while the mean width shrinks below this share of the last one."""

PARTS = 2
"""Into how many parts a round is cut, to be done side by side; fixed, so that results do not depend on workers."""

_PASSES = 40
_PASS_WORTH_IT = 0.995
LOW, HIGH, LEAST, MOST = range(4)


@dataclass(frozen=True, eq=False)
class Multipliers:
    """Many suggestions of a solver, in the form in which their bounds are evaluated again and again.

    Column k bounds ``cost_z·z + cost_f·f`` from below; ``on_z = cost_z + Qβ`` and ``on_f = cost_f − β``.
    """

    # on_z, on_f: (m, K)
    on_z: Float
    on_f: Float
    # size_z, size_f: (m, K) magnitudes behind them, for their rounding errors
    size_z: Float
    size_f: Float
    # label, side: (K,) a label whose side is given (label -1: none)
    label: Int
    side: Int
    end: Int  # (K,) which end of the label's ranges the bound is about: ``LOW``, ``HIGH``, ``LEAST`` or ``MOST``
    empty: Bool  # (K,) multipliers that should prove that no attack is left: a positive bound does
    # beta, price: (m, K) and (K,) as suggested, with no more bits than float32, so that proofs can be stored in that
    beta: Float
    price: Float

    @classmethod
    def join(cls, parts: Sequence[Multipliers]) -> Multipliers:
        """All columns side by side."""
        names = [field.name for field in fields(cls)]
        return cls(*(np.concatenate([getattr(p, name) for p in parts], axis=-1) for name in names))

    def recorded(self, columns: Bool | slice = slice(None), passes: int = 1) -> proofs.Block:
        """Some of them, as a proof that can be evaluated again."""
        return proofs.Block(
            beta=self.beta[:, columns].T.astype(np.float32),
            price=self.price[columns].astype(np.float32),
            label=self.label[columns].astype(np.int32),
            side=self.side[columns].astype(np.int32),
            end=self.end[columns].astype(np.int32),
            empty=self.empty[columns].astype(np.int32),
            passes=passes,
        )


def multipliers(
    problem: Problem,
    cost_z: Float,
    beta: Float,
    cost_f: float | Float = 0.0,
    given: Side = NO_SIDE,
    end: int = LOW,
    empty: bool = False,
    price: float = 0.0,
) -> Multipliers:
    """One suggestion for ``cost_z·z + cost_f·f``; ``beta`` is rounded to what proofs can store."""
    kernel, beta = problem.C * problem.K_train, as_float32(beta)
    size = np.abs(beta)
    return Multipliers(
        on_z=(cost_z + kernel @ beta)[:, None],
        on_f=(cost_f - beta)[:, None],
        size_z=(np.abs(cost_z) + np.abs(kernel) @ size)[:, None],
        size_f=(np.abs(cost_f) + size)[:, None],
        label=np.array([given[0]]),
        side=np.array([given[1]]),
        end=np.array([end]),
        empty=np.array([empty]),
        beta=beta[:, None],
        price=np.array([price]),
    )


class Bounds:
    """Evaluates multipliers for one problem and set of ranges: pure arithmetic, no solver."""

    def __init__(self, problem: Problem, ranges: Ranges) -> None:
        self.ranges = ranges
        self._signs = np.stack([problem.y, -problem.y], axis=1)
        self._a, self._g, self._present = ranges.corners()
        self._possible = ranges.possible
        self._largest = np.abs(self._g).max(axis=(1, 2), initial=0.0)
        a = problem.adversary
        self.costs = np.full(problem.m, ranges.budget + 1, dtype=np.int64)
        self.costs[a.labels] = a.costs

    def evaluate(self, multipliers: Multipliers) -> Float:
        """(K,) proved lower bounds; ∞ where no attack is left."""
        mu = multipliers
        possible = np.repeat(self._possible[:, :, None], mu.on_z.shape[1], axis=2)
        given = np.flatnonzero(mu.label >= 0)
        possible[mu.label[given], 1 - mu.side[given], given] = False
        kept, flipped = (self.least(mu, side) for side in (KEPT, FLIPPED))
        out = least_sum(
            kept,
            flipped,
            possible[:, KEPT],
            possible[:, FLIPPED],
            costs=self.costs,
            budget=self.ranges.budget,
            rounding=self.rounding(mu),
        )
        return np.where(mu.empty, np.where(out > 0.0, np.inf, -np.inf), out)

    def rounding(self, mu: Multipliers) -> Float:
        """(K,) what rounding can do to a bound."""
        m = mu.on_z.shape[0]
        terms = (mu.size_z + self._largest[:, None] * mu.size_f).sum(axis=0)
        return np.asarray(16.0 * UNIT_ROUNDOFF * (m + 8) * terms + 1e-300)

    def least(self, mu: Multipliers, side: int) -> Float:
        """(m, K) least contribution of every label on one side; 0 where that side is impossible."""
        values = np.full(mu.on_z.shape, np.inf)
        signed_z, signed_f = self._signs[:, side, None] * mu.on_z, self._signs[:, side, None] * mu.on_f
        for corner in range(4):
            value = self._a[:, side, corner, None] * signed_z + self._g[:, side, corner, None] * signed_f
            values = np.where(self._present[:, side, corner, None], np.minimum(values, value), values)
        return np.where(np.isinf(values), 0.0, values)


def unlimited() -> float:
    """The time that is left where nobody gave a limit."""
    return math.inf


class Relaxation:
    """The linear program of one problem, budget and set of ranges, in a solver that suggests multipliers.

    - ``success`` (m,): consider only attacks that succeed on one node: ``success·z ≤ 0``.
    - ``left_seconds``: time that is left; the solver has no answer when it ends.
    """

    def __init__(
        self,
        problem: Problem,
        ranges: Ranges,
        success: Float | None = None,
        left_seconds: Callable[[], float] = unlimited,
    ) -> None:
        self._problem = problem
        self._left_seconds = left_seconds
        self._success = success
        self._signs = np.stack([problem.y, -problem.y], axis=1)
        self._a, self._g, self._present = ranges.corners()
        self._ranges = ranges
        self._highs = simplex(self._model())

    def suggest(
        self, cost_z: Float, cost_f: Float | None = None, fixed: Side | None = None, end: int = LOW
    ) -> Multipliers:
        """Multipliers for ``cost_z·z + cost_f·f``, with a label's side given or not."""
        cost_f = np.zeros_like(cost_z) if cost_f is None else cost_f
        beta, price, empty = self._solve(cost_z, cost_f, fixed)
        if empty and self._success is not None:
            # No successful attack is left on this side. The proof: every attack there has a positive score.
            self._success_required(False)
            beta, _, hopeless = self._solve(self._success, np.zeros_like(cost_f), fixed)
            self._success_required(True)
            price = 0.0 if hopeless else 1.0
        price = float(as_float32(np.array(price)))
        if empty:
            cost_z, cost_f = np.zeros_like(cost_z), np.zeros_like(cost_f)
        if self._success is not None:
            cost_z = cost_z + price * self._success
        return multipliers(self._problem, cost_z, beta, cost_f, fixed or NO_SIDE, end, empty, price)

    def suggest_for(self, fixed: Side, ends: Sequence[int]) -> Multipliers:
        """Multipliers for ends of the ranges of one label on one side."""
        nothing = np.zeros(self._problem.m)
        unit = nothing.copy()
        unit[fixed[0]] = self._signs[fixed]
        parts = []
        for end in ends:
            cost = -unit if end in (HIGH, MOST) else unit
            zf = (cost, nothing) if end in (LEAST, MOST) else (nothing, cost)
            parts.append(self.suggest(*zf, fixed, end))
            if parts[-1].empty[0]:
                break
        return Multipliers.join(parts)

    def _solve(self, cost_z: Float, cost_f: Float, fixed: Side | None) -> tuple[Float, float, bool]:
        """``(β, μ, empty)`` as the solver has them; zeros where it has no answer."""
        h = self._highs
        m = self._problem.m
        z, f = self._signs[..., None] * self._a, self._signs[..., None] * self._g
        cost = (cost_z[:, None, None] * z + cost_f[:, None, None] * f).ravel()
        h.changeColsCost(8 * m, np.arange(8 * m, dtype=np.int32), cost)
        if fixed is not None:
            self._allow(fixed[0], 1 - fixed[1], False)
        prices, empty = duals(h, self._left_seconds())
        if fixed is not None:
            self._allow(fixed[0], 1 - fixed[1], True)
        if prices is None:
            return np.zeros(m), 0.0, empty
        return -prices[m : 2 * m], max(0.0, -float(prices[2 * m])) if self._success is not None else 0.0, empty

    def _allow(self, label: int, side: int, allowed: bool) -> None:
        columns = np.arange(4, dtype=np.int32) + 8 * label + 4 * side
        upper = self._present[label, side].astype(float) if allowed else np.zeros(4)
        self._highs.changeColsBounds(4, columns, np.zeros(4), upper)

    def _success_required(self, required: bool) -> None:
        row = 2 * self._problem.m
        self._highs.changeRowBounds(row, -np.inf, 0.0 if required else np.inf)

    def _model(self) -> MixedInteger:
        a = self._problem.adversary
        b = Builder()
        corner = add_hulls(b, self._problem, self._ranges)
        if self._success is not None:
            z = self._signs[..., None] * self._a
            success = (self._success[:, None, None] * z).reshape(1, -1)
            b.constrain("success", [(corner.ravel(), success)], upper=0.0)
        add_budget(b, corner[a.labels, FLIPPED], a, self._ranges.budget)
        return b.build()


def as_float32(values: Float) -> Float:
    """Rounded to what float32 can hold."""
    with np.errstate(over="ignore"):
        rounded = values.astype(np.float32).astype(np.float64)
    return np.where(np.isfinite(rounded), rounded, 0.0)


def add_hulls(b: Builder, problem: Problem, ranges: Ranges, prefix: str = "") -> Index:
    """(m, 2, 4) columns: how much of each corner every label takes, tied together by ``f = Q z``."""
    m = problem.m
    corner_a, corner_g, present = ranges.corners()
    signs = np.stack([problem.y, -problem.y], axis=1)[..., None]
    corner = b.variables(f"{prefix}corner", (m, 2, 4), 0.0, present.astype(float))
    b.constrain(f"{prefix}one mixture", [(corner.ravel(), np.kron(np.eye(m), np.ones(8)))], 1.0, 1.0)
    tie = np.einsum("ij,jv->ijv", problem.C * problem.K_train, (signs * corner_a).reshape(m, 8))
    tie[np.arange(m), np.arange(m)] -= (signs * corner_g).reshape(m, 8)
    b.constrain(f"{prefix}f = Qz", [(corner.ravel(), tie.reshape(m, 8 * m))], 0.0, 0.0)
    return corner


def least_sum(
    keep: Float, moved: Float, may_keep: Bool, may_move: Bool, *, costs: Int, budget: int, rounding: float | Float
) -> Float:
    """(K,) proved lower bounds on a sum over labels, each kept or moved, with what the budget buys; ∞: there is none.

    - ``keep``, ``moved`` (m, K): what each label adds to the sum; finite.
    - ``costs`` (m,): of moving each label.
    - ``rounding``: what rounding can do to the sums.
    """
    left = budget - np.where(may_keep, 0, costs[:, None]).sum(axis=0)
    nothing = (left < 0) | ~(may_keep | may_move).all(axis=0)
    choice = may_keep & may_move & (costs[:, None] <= left)
    gains = np.where(choice, np.maximum(0.0, keep - moved), 0.0)
    out = np.where(may_keep, keep, moved).sum(axis=0) - most_gain(gains, costs, left) - rounding
    return np.where(nothing, np.inf, np.where(np.isnan(out), -np.inf, out))


def most_gain(gains: Float, costs: Int, budget: Int) -> Float:
    """(K,) most that each column's budget buys, fractions of labels allowed: a proved upper bound."""
    order = np.argsort(-gains / costs[:, None], axis=0, kind="stable")
    ordered = costs[order]
    before = np.cumsum(ordered, axis=0) - ordered
    share = np.clip((budget - before) / ordered, 0.0, 1.0)
    return np.asarray((np.take_along_axis(gains, order, axis=0) * share).sum(axis=0))


def apply_bounds(ranges: Ranges, multipliers: Multipliers, values: Float) -> Ranges:
    """Ranges after proved bounds on their ends."""
    ends = [ranges.low.copy(), ranges.high.copy(), ranges.least.copy(), ranges.most.copy()]
    mu = multipliers
    for end, pick, sign in (
        (LOW, np.maximum, 1),
        (HIGH, np.minimum, -1),
        (LEAST, np.maximum, 1),
        (MOST, np.minimum, -1),
    ):
        here = np.flatnonzero((mu.end == end) & (mu.label >= 0))
        pick.at(ends[end], (mu.label[here], mu.side[here]), sign * values[here])
    return Ranges(low=ends[LOW], high=ends[HIGH], least=ends[LEAST], most=ends[MOST], budget=ranges.budget)


def propagate(problem: Problem, ranges: Ranges, multipliers: Multipliers) -> tuple[Ranges, proofs.Block]:
    """Evaluate the same multipliers again while tighter ranges make them better: no solver needed.

    Returns
    -------
    ranges, block
        The block proves the ranges: those of the multipliers that tightened something.
    """
    useful = np.zeros(multipliers.label.size, dtype=bool)
    passes = 0
    for _ in range(_PASSES):
        values = Bounds(problem, ranges).evaluate(multipliers)
        tighter = apply_bounds(ranges, multipliers, values)
        useful |= _tightening(ranges, multipliers, values)
        passes += 1
        done = tighter.empty or not tighter.width < _PASS_WORTH_IT * ranges.width
        ranges = tighter
        if done:
            break
    return ranges, multipliers.recorded(useful, passes)


def _tightening(ranges: Ranges, mu: Multipliers, values: Float) -> Bool:
    """(K,) which bounds are better than the ends that they are about."""
    ends = np.stack([ranges.low, -ranges.high, ranges.least, -ranges.most])
    return np.asarray((mu.label >= 0) & (values > ends[mu.end, mu.label, mu.side]))


def tighten(
    problem: Problem,
    ranges: Ranges,
    success: Float | None = None,
    *,
    pool: ThreadPoolExecutor | None = None,
    left_seconds: Callable[[], float] = unlimited,
) -> tuple[Ranges, Multipliers | None, list[proofs.Block]]:
    """One round: minimise and maximise every margin and every dual variable, on both sides; then propagate.

    Returns
    -------
    ranges, multipliers, blocks
        The multipliers can be evaluated again for other budgets. The blocks prove the ranges.
    """
    states = ranges.states()
    free = states[..., 1]
    # A side in one state is a straight piece: its ends follow from those of the others.
    open_ = states.sum(axis=-1) > 1
    sides = [(int(i), side) for side in (FLIPPED, KEPT) for i in np.flatnonzero(open_[:, side])]

    def part(own: list[Side]) -> list[Multipliers]:
        found = list[Multipliers]()
        if left_seconds() <= 0.0:  # setting up the program takes a while
            return found
        relaxation = Relaxation(problem, ranges, success, left_seconds)
        for fixed in own:
            if left_seconds() <= 0.0:
                break
            found.append(relaxation.suggest_for(fixed, (LOW, HIGH, LEAST, MOST) if free[fixed] else (LOW, HIGH)))
        return found

    parts = [sides[k::PARTS] for k in range(PARTS)]
    found = [mu for some in (pool.map(part, parts) if pool else map(part, parts)) for mu in some]
    if not found:
        return ranges, None, []
    multipliers = Multipliers.join(found)
    tighter, block = propagate(problem, ranges, multipliers)
    return tighter, multipliers, [block]


def proved_ranges(
    problem: Problem,
    budget: int,
    *,
    known: Multipliers | None = None,
    pool: ThreadPoolExecutor | None = None,
    left_seconds: Callable[[], float] = unlimited,
) -> tuple[Ranges, Multipliers | None, proofs.RangeProof]:
    """Ball bound, then rounds of tightening while they pay.

    - ``known``: of another budget: a start that costs nothing.
    - ``left_seconds``: time that is left; what is proved when it ends stands.
    """
    (ranges, shares), multipliers = ball_ranges(problem, budget), known
    proof = proofs.RangeProof(shares=shares, blocks=[])
    if known is not None:
        ranges, block = propagate(problem, ranges, known)
        proof.blocks.append(block)
    for _ in range(MAX_ROUNDS):
        if left_seconds() <= 0.0:
            break
        tighter, found, blocks = tighten(problem, ranges, pool=pool, left_seconds=left_seconds)
        proof.blocks.extend(blocks)
        multipliers = found or multipliers
        worth = tighter.width < WORTH_IT * ranges.width
        ranges = tighter
        if not worth:
            break
    return ranges, multipliers, proof


def narrow(
    problem: Problem,
    ranges: Ranges,
    score: Float,
    *,
    rounds: int = MAX_ROUNDS,
    left_seconds: Callable[[], float] = unlimited,
) -> tuple[Ranges, list[proofs.Step]]:
    """Ranges of the attacks that change one node, with their proof; empty ones prove that there are none.

    Each round first asks for every label whether an attack that flips it (keeps it) can succeed at all, then tightens
    the ranges of the attacks that remain.
    """
    steps: list[proofs.Step] = []
    for _ in range(rounds):
        relaxation, bounds = Relaxation(problem, ranges, left_seconds=left_seconds), Bounds(problem, ranges)
        mu = relaxation.suggest(score)
        if bounds.evaluate(mu)[0] > 0.0:
            return ranges.emptied(), [*steps, proofs.Step("screen", mu.recorded())]
        if left_seconds() <= 0.0:
            return ranges, steps
        sides = [(int(i), s) for s in (FLIPPED, KEPT) for i in np.flatnonzero(ranges.possible.all(axis=1))]
        if sides:
            mu = Multipliers.join([relaxation.suggest(score, fixed=fixed) for fixed in sides])
            hopeless = bounds.evaluate(mu) > 0.0
            screened = ranges.without(mu.label[hopeless], mu.side[hopeless])
            steps.append(proofs.Step("screen", mu.recorded(hopeless)))
        else:
            screened = ranges
        if screened.empty:
            return screened, steps
        tighter, _, blocks = tighten(problem, screened, score, left_seconds=left_seconds)
        steps += [proofs.Step("tighten", block) for block in blocks]
        worth = tighter.width < WORTH_IT * ranges.width or tighter.possible.sum() < ranges.possible.sum()
        ranges = tighter
        if ranges.empty or not worth:
            break
    return ranges, steps
