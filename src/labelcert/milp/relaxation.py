"""Rigorous bounds before any search: ranges of the margins under a budget, and proofs for single nodes.

In units of the cap, ``z = C·s·a`` with ``a`` in [0, 1], and ``g = s·f`` is the margin with respect to the sign s that
the label has after poisoning: its own (*kept*) or the other one (*flipped*). The pair (a, g) lies on a staircase
(:mod:`~labelcert.milp.compact`); the convex hull of the part within known ranges has at most four corners. The
*relaxation* lets every label be any mixture of the corners of its two hulls, tied together by ``f = Q z`` and by the
budget. Minimising and maximising each label's g and a, on both sides, tightens the ranges; tighter ranges give a
tighter relaxation, and so on. Asked about attacks that change one node (``success·z ≤ 0``), the ranges often end up
empty: then there is no such attack, and the node is proved robust without any search.

Nothing here rests on a solver's word. For any multipliers β of the ties and any price μ ≥ 0 of success,
``c·z + d·f ≥ (c + Qβ + μ·success)·z + (d − β)·f`` for all successful attacks, and the right side separates over
labels: its minimum takes each label's best kept corner, and the best flips that the budget buys. A solver only
suggests β and μ; the minimum is evaluated here, with its rounding errors. So all of this is proof.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import highspy
import numpy as np
import numpy.typing as npt

from labelcert.milp.model import Builder, Index, Model, add_budget
from labelcert.milp.solvers.highs import load
from labelcert.problem import Problem
from labelcert.svm.pivoting import UNIT_ROUNDOFF
from labelcert.svm.training import train

Float = npt.NDArray[np.float64]
Int = npt.NDArray[np.int64]
Side = tuple[int, int]

KEPT, FLIPPED = 0, 1

MAX_ROUNDS = 20
"""Rounds of tightening at the most."""

WORTH_IT = 0.95
"""Another round follows while the mean width shrinks below this share of the last one."""

PARTS = 2
"""Into how many parts a round is cut, to be done side by side; fixed, so that results do not depend on workers."""

_PASSES = 40
_PASS_WORTH_IT = 0.995
LOW, HIGH, LEAST, MOST = range(4)


@dataclass(frozen=True, eq=False)
class Ranges:
    """Between which values each label's margin and dual variable lie, for every admissible attack within a budget.

    Attributes
    ----------
    low, high : (m, 2) arrays
        Of ``g = s·f``, for the kept and for the flipped label; ``low > high``: no attack leads there.
    least, most : (m, 2) arrays
        Of ``a``. A label that cannot reach 0 is never Zero, one that cannot reach 1 never at its Cap.
    budget : int
    """

    low: Float
    high: Float
    least: Float
    most: Float
    budget: int

    @property
    def possible(self) -> npt.NDArray[np.bool_]:
        """(m, 2) whether a label can be kept, flipped."""
        return np.asarray(self.states().any(axis=-1))

    def states(self) -> npt.NDArray[np.bool_]:
        """(m, 2, 3) which states can occur: Zero, Free, Cap."""
        zero = (self.high >= 1.0) & (self.least <= 0.0)
        free = (self.low <= 1.0) & (self.high >= 1.0)
        cap = (self.low <= 1.0) & (self.most >= 1.0)
        sound = (self.low <= self.high) & (self.least <= self.most)
        return np.stack([zero, free, cap], axis=-1) & sound[..., None]

    @property
    def width(self) -> float:
        """Mean width of margins over the sides that can occur, plus that of dual variables."""
        here = self.possible
        gap = (self.high - self.low)[here] + (self.most - self.least)[here]
        return float(gap.mean()) if gap.size else 0.0

    @property
    def empty(self) -> bool:
        """Whether no attack is left: some label can neither be kept nor flipped."""
        return not bool(self.possible.any(axis=1).all())

    def emptied(self) -> Ranges:
        """Ranges that no attack is in."""
        return replace(self, low=np.full_like(self.low, np.inf))

    def without_flips(self, labels: Int) -> Ranges:
        """Ranges of the attacks that leave some labels alone."""
        low = self.low.copy()
        low[labels, FLIPPED] = np.inf
        return replace(self, low=low)

    def corners(self) -> tuple[Float, Float, npt.NDArray[np.bool_]]:
        """``(a, g, present)``, each (m, 2, 4): the corners of the hulls, two at the end of Zero, two at that of Cap."""
        zero, free, cap = np.moveaxis(self.states(), -1, 0)
        start, end = np.where(zero, 0.0, self.least), np.where(cap, 1.0, self.most)
        a = np.stack([start, start, end, end], axis=-1)
        g = np.stack(
            [
                np.where(zero, self.high, 1.0),
                np.where(zero, np.maximum(self.low, 1.0), 1.0),
                np.where(cap, np.minimum(self.high, 1.0), 1.0),
                np.where(cap, self.low, 1.0),
            ],
            axis=-1,
        )
        present = np.stack([zero | free, zero | free, cap | free, cap | free], axis=-1)
        return np.where(present, a, 0.0), np.where(present, g, 0.0), present

    def intersect(self, other: Ranges) -> Ranges:
        """The tighter of two proved ranges."""
        return Ranges(
            low=np.maximum(self.low, other.low),
            high=np.minimum(self.high, other.high),
            least=np.maximum(self.least, other.least),
            most=np.minimum(self.most, other.most),
            budget=self.budget,
        )


def trivial_ranges(problem: Problem, budget: int) -> Ranges:
    """``|f_i| ≤ C Σ_j |Q_ij|``."""
    reach = problem.C * np.abs(problem.K_train).sum(axis=1) * (1 + 1e-12)
    both = np.repeat(reach[:, None], 2, axis=1)
    high = both.copy()
    high[~_flippable(problem, budget), FLIPPED] = -np.inf
    return Ranges(low=-both, high=high, least=np.zeros_like(both), most=np.ones_like(both), budget=budget)


def ball_ranges(problem: Problem, budget: int) -> Ranges:
    """Ranges from one clean training, which need not be accurate.

    The SVM solution is a proximal map, hence firmly non-expansive: flipping S moves ``w`` into the ball with centre
    ``w − ½ Σ_S c_i φ_i`` and radius ``½ ‖Σ_S c_i φ_i‖``, where ``c_i = z_i + C y_i [y_i f_i > −1]``. For a z that is
    feasible but optimal only up to a duality gap, ``−w`` is a subgradient of the loss up to that gap, and the square of
    the radius grows by it.
    """
    Q, y, C = problem.K_train, problem.y, problem.C
    m = problem.m
    trivial = trivial_ranges(problem, budget)
    a = problem.adversary
    b = a.most_flips(budget)
    alpha = np.clip(y * train(Q, y, C), 0.0, C)
    f = Q @ (y * alpha)
    error = 2.0 * UNIT_ROUNDOFF * (m + 4) * (np.abs(Q) @ alpha) + 1e-300
    excess = y * f - 1.0
    gaps = np.maximum(alpha * excess, (alpha - C) * excess)
    gap = 1.01 * float(np.sum(gaps + C * (error + 4.0 * UNIT_ROUNDOFF * (1.0 + np.abs(excess)))))
    if not np.isfinite(gap):
        return trivial
    # c has the sign of y; everything below grows with its magnitude, so an upper bound on that will do.
    weight = np.zeros(m)
    weight[a.labels] = (alpha + C * (y * f > -1.0 - error - 1e-15))[a.labels]
    moved = 0.5 * Q * (y * weight)[None, :]
    down, up = _top_sum(moved, b), _top_sum(-moved, b)
    pairs = np.abs(Q) * np.outer(weight, weight)
    radius = np.sqrt(0.25 * _top_sum(_top_sum(pairs, b)[None, :], b)[0] + max(gap, 0.0))
    spread = radius * np.sqrt(np.maximum(np.diag(Q), 0.0))
    slack = 1e-12 * (1.0 + np.abs(f) + down + up + spread) + error
    low, high = f - down - spread - slack, f + up + spread + slack
    signs = np.stack([y, -y], axis=1)
    ends = np.stack([signs * low[:, None], signs * high[:, None]])
    return trivial.intersect(replace(trivial, low=ends.min(axis=0), high=ends.max(axis=0)))


def _top_sum(values: Float, b: int) -> Float:
    """Sum of the b largest positive entries of each row."""
    positive = np.maximum(values, 0.0)
    if b >= positive.shape[1]:
        return np.asarray(positive.sum(axis=1))
    if b == 0:
        return np.zeros(positive.shape[0])
    return np.asarray(np.partition(positive, -b, axis=1)[:, -b:].sum(axis=1))


def _flippable(problem: Problem, budget: int) -> npt.NDArray[np.bool_]:
    a = problem.adversary
    affordable = a.costs <= budget
    grouped = a.groups >= 0
    affordable[grouped] &= a.costs[grouped] <= a.group_caps[a.groups[grouped]]
    out = np.zeros(problem.m, dtype=bool)
    out[a.labels[affordable]] = True
    return out


@dataclass(frozen=True, eq=False)
class Multipliers:
    """Many suggestions of a solver, in the form in which their bounds are evaluated again and again.

    Column k bounds ``cost_z·z + cost_f·f`` from below; ``on_z = cost_z + Qβ`` and ``on_f = cost_f − β``.

    Attributes
    ----------
    on_z, on_f : (m, K) arrays
    size_z, size_f : (m, K) arrays
        Magnitudes behind them, for their rounding errors.
    label, side : (K,) arrays
        A label whose side is given (label -1: none).
    end : (K,) array
        Which end of the label's ranges the bound is about: ``LOW``, ``HIGH``, ``LEAST`` or ``MOST``.
    empty : (K,) boolean array
        Multipliers that should prove that no attack is left: a positive bound does.
    """

    on_z: Float
    on_f: Float
    size_z: Float
    size_f: Float
    label: Int
    side: Int
    end: Int
    empty: npt.NDArray[np.bool_]

    @classmethod
    def join(cls, parts: Sequence[Multipliers]) -> Multipliers:
        """All columns side by side."""
        fields = ("on_z", "on_f", "size_z", "size_f", "label", "side", "end", "empty")
        return cls(*(np.concatenate([getattr(p, name) for p in parts], axis=-1) for name in fields))


class Bounds:
    """Evaluates multipliers for one problem and set of ranges: pure arithmetic, no solver."""

    def __init__(self, problem: Problem, ranges: Ranges) -> None:
        self.ranges = ranges
        self._signs = np.stack([problem.y, -problem.y], axis=1)
        self._a, self._g, self._present = ranges.corners()
        self._possible = ranges.possible
        self._largest = np.abs(self._g).max(axis=(1, 2), initial=0.0)
        a = problem.adversary
        self._costs = np.full(problem.m, ranges.budget + 1, dtype=np.int64)
        self._costs[a.labels] = a.costs

    def evaluate(self, multipliers: Multipliers) -> Float:
        """(K,) proved lower bounds; ∞ where no attack is left."""
        mu = multipliers
        count = mu.on_z.shape[1]
        possible = np.repeat(self._possible[:, :, None], count, axis=2)
        given = np.flatnonzero(mu.label >= 0)
        possible[mu.label[given], 1 - mu.side[given], given] = False
        kept, flipped = (self.least(mu, side) for side in (KEPT, FLIPPED))
        forced = ~possible[:, KEPT]
        budget = self.ranges.budget - np.where(forced, self._costs[:, None], 0).sum(axis=0)
        nothing = (budget < 0) | ~possible.any(axis=1).all(axis=0)
        total = np.where(forced, flipped, kept).sum(axis=0)
        choice = possible.all(axis=1) & (self._costs[:, None] <= budget)
        gains = np.where(choice, np.maximum(0.0, kept - flipped), 0.0)
        out = total - most_gain(gains, self._costs, budget) - self.rounding(mu)
        out = np.where(mu.empty, np.where(out > 0.0, np.inf, -np.inf), out)
        return np.where(nothing, np.inf, np.where(np.isnan(out), -np.inf, out))

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


class Relaxation:
    """The linear program of one problem, budget and set of ranges, in a solver that suggests multipliers.

    Parameters
    ----------
    problem : Problem
    ranges : Ranges
    success : (m,) array, optional
        Consider only attacks that succeed on one node: ``success·z ≤ 0``.
    """

    def __init__(self, problem: Problem, ranges: Ranges, success: Float | None = None) -> None:
        self._problem = problem
        self._success = success
        self._kernel = problem.C * problem.K_train
        self._sizes = np.abs(self._kernel)
        self._signs = np.stack([problem.y, -problem.y], axis=1)
        self._a, self._g, self._present = ranges.corners()
        self._ranges = ranges
        self._highs = load(self._model())
        for option, value in (("threads", 1), ("presolve", "off"), ("solver", "simplex"), ("simplex_strategy", 4)):
            self._highs.setOptionValue(option, value)

    def suggest(self, cost_z: Float, cost_f: Float, fixed: Side | None = None, end: int = LOW) -> Multipliers:
        """Multipliers for ``cost_z·z + cost_f·f``, with a label's side given or not."""
        beta, price, empty = self._solve(cost_z, cost_f, fixed)
        if empty and self._success is not None:
            # No successful attack is left on this side. The proof: every attack there has a positive score.
            self._success_required(False)
            beta, _, hopeless = self._solve(self._success, np.zeros_like(cost_f), fixed)
            self._success_required(True)
            price = 0.0 if hopeless else 1.0
        if empty:
            cost_z, cost_f = np.zeros_like(cost_z), np.zeros_like(cost_f)
        if self._success is not None:
            cost_z = cost_z + price * self._success
        label, side = (-1, KEPT) if fixed is None else fixed
        size = np.abs(beta)
        return Multipliers(
            on_z=(cost_z + self._kernel @ beta)[:, None],
            on_f=(cost_f - beta)[:, None],
            size_z=(np.abs(cost_z) + self._sizes @ size)[:, None],
            size_f=(np.abs(cost_f) + size)[:, None],
            label=np.array([label]),
            side=np.array([side]),
            end=np.array([end]),
            empty=np.array([empty]),
        )

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
        h.run()
        status = h.getModelStatus()
        prices = None
        if status == highspy.HighsModelStatus.kOptimal:
            prices = np.asarray(h.getSolution().row_dual)
        elif status == highspy.HighsModelStatus.kInfeasible:
            _, has_ray, ray = h.getDualRay()  # type: ignore[attr-defined]
            prices = np.asarray(ray) if has_ray else None
        if fixed is not None:
            self._allow(fixed[0], 1 - fixed[1], True)
        empty = status == highspy.HighsModelStatus.kInfeasible
        if prices is None or not np.all(np.isfinite(prices)):
            return np.zeros(m), 0.0, empty
        return -prices[m : 2 * m], max(0.0, -float(prices[2 * m])) if self._success is not None else 0.0, empty

    def _allow(self, label: int, side: int, allowed: bool) -> None:
        columns = np.arange(4, dtype=np.int32) + 8 * label + 4 * side
        upper = self._present[label, side].astype(float) if allowed else np.zeros(4)
        self._highs.changeColsBounds(4, columns, np.zeros(4), upper)

    def _success_required(self, required: bool) -> None:
        row = 2 * self._problem.m
        self._highs.changeRowBounds(row, -np.inf, 0.0 if required else np.inf)

    def _model(self) -> Model:
        a = self._problem.adversary
        b = Builder()
        corner = add_hulls(b, self._problem, self._ranges)
        if self._success is not None:
            z = self._signs[..., None] * self._a
            success = (self._success[:, None, None] * z).reshape(1, -1)
            b.constrain("success", [(corner.ravel(), success)], upper=0.0)
        add_budget(b, corner[a.labels, FLIPPED], a, self._ranges.budget)
        return b.build()


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


def propagate(problem: Problem, ranges: Ranges, multipliers: Multipliers) -> Ranges:
    """Evaluate the same multipliers again while tighter ranges make them better: no solver needed."""
    for _ in range(_PASSES):
        tighter = apply_bounds(ranges, multipliers, Bounds(problem, ranges).evaluate(multipliers))
        done = tighter.empty or not tighter.width < _PASS_WORTH_IT * ranges.width
        ranges = tighter
        if done:
            break
    return ranges


def tighten(
    problem: Problem,
    ranges: Ranges,
    success: Float | None = None,
    *,
    pool: ThreadPoolExecutor | None = None,
    over: Callable[[], bool] = lambda: False,
) -> tuple[Ranges, Multipliers | None]:
    """One round: minimise and maximise every margin and every dual variable, on both sides; then propagate.

    Returns
    -------
    ranges, multipliers
        The multipliers can be evaluated again for other budgets.
    """
    states = ranges.states()
    free = states[..., 1]
    # A side in one state is a straight piece: its ends follow from those of the others.
    open_ = states.sum(axis=-1) > 1
    sides = [(int(i), side) for side in (FLIPPED, KEPT) for i in np.flatnonzero(open_[:, side])]

    def part(own: list[Side]) -> list[Multipliers]:
        relaxation = Relaxation(problem, ranges, success)
        found = []
        for fixed in own:
            if over():
                break
            found.append(relaxation.suggest_for(fixed, (LOW, HIGH, LEAST, MOST) if free[fixed] else (LOW, HIGH)))
        return found

    parts = [sides[k::PARTS] for k in range(PARTS)]
    found = [mu for some in (pool.map(part, parts) if pool else map(part, parts)) for mu in some]
    if not found:
        return ranges, None
    multipliers = Multipliers.join(found)
    return propagate(problem, ranges, multipliers), multipliers


def proved_ranges(
    problem: Problem,
    budget: int,
    *,
    known: Multipliers | None = None,
    pool: ThreadPoolExecutor | None = None,
    over: Callable[[], bool] = lambda: False,
) -> tuple[Ranges, Multipliers | None]:
    """Ball bound, then rounds of tightening while they pay.

    Parameters
    ----------
    problem : Problem
    budget : int
    known : Multipliers, optional
        Of another budget: a start that costs nothing.
    pool : executor, optional
    over : callable
        True ends it early; what is proved by then stands.
    """
    ranges, multipliers = ball_ranges(problem, budget), known
    if known is not None:
        ranges = propagate(problem, ranges, known)
    for _ in range(MAX_ROUNDS):
        if over():
            break
        tighter, found = tighten(problem, ranges, pool=pool, over=over)
        multipliers = found or multipliers
        worth = tighter.width < WORTH_IT * ranges.width
        ranges = tighter
        if not worth:
            break
    return ranges, multipliers


def highest_scores(problem: Problem, ranges: Ranges, rows: Float) -> Float:
    """(n,) proved upper bounds on the scores of rows (m, n) over all attacks within the budget (at least 0)."""
    relaxation = Relaxation(problem, ranges)
    nothing = np.zeros(problem.m)
    mu = Multipliers.join([relaxation.suggest(-row, nothing) for row in rows.T])
    reach = np.abs(rows).sum(axis=0) * (1 + 1e-12)
    return np.clip(-Bounds(problem, ranges).evaluate(mu), 0.0, reach)


def narrow(
    problem: Problem,
    ranges: Ranges,
    score: Float,
    *,
    over: Callable[[], bool] = lambda: False,
) -> Ranges:
    """Ranges of the attacks that change one node; empty ones prove that there are none.

    Each round first asks for every label whether an attack that flips it (keeps it) can succeed at all, then tightens
    the ranges of the attacks that remain.
    """
    nothing = np.zeros_like(score)
    for _ in range(MAX_ROUNDS):
        relaxation, bounds = Relaxation(problem, ranges), Bounds(problem, ranges)
        if bounds.evaluate(relaxation.suggest(score, nothing))[0] > 0.0:
            return ranges.emptied()
        if over():
            return ranges
        sides = [(int(i), s) for s in (FLIPPED, KEPT) for i in np.flatnonzero(ranges.possible.all(axis=1))]
        if sides:
            mu = Multipliers.join([relaxation.suggest(score, nothing, fixed) for fixed in sides])
            hopeless = bounds.evaluate(mu) > 0.0
            low = ranges.low.copy()
            low[mu.label[hopeless], mu.side[hopeless]] = np.inf
            screened = replace(ranges, low=low)
        else:
            screened = ranges
        if screened.empty:
            return screened
        tighter, _ = tighten(problem, screened, score, over=over)
        worth = tighter.width < WORTH_IT * ranges.width or tighter.possible.sum() < ranges.possible.sum()
        ranges = tighter
        if ranges.empty or not worth:
            break
    return ranges
