r"""Scores of a support vector machine whose kernel is known up to entrywise errors.

The kernel that is meant, Q', is positive semidefinite, and :math:`|Q' - Q| \le E` entry by entry; a test row k' differs
from k by at most e. For signed duals z' and margins f' = Q'z', every label is in one of three states: at 0 with
:math:`y f' \ge 1`, at C with :math:`y f' \le 1`, or between them with :math:`y f' = 1`. Three bounds, none of which
believes a solver:

- *Ball*. Let α be any dual variables, z = yα, g = y Qz, and D = α' - α. Since z' is optimal for Q',
  :math:`d^\top Q' d \le \sum_i D_i (1 - g_i) + |D_i| (E|z|)_i` for d = yD. The left side is a squared norm in the
  feature space, so it is at least 0, which bounds each D, and the margins move by at most its root times
  :math:`\sqrt{Q'_{ii}}`.
- *Box*. Margins are sums of kernel entries times duals, each within its range.
- *Lagrangian*. For any β, the score is
  :math:`p' = (k - Q\beta) \cdot z' + \beta \cdot f' + r` with
  :math:`|r| \le \sum_j |z'_j| (e_j + \sum_i |\beta_i| E_{ij})`. That separates over labels: each has its extremes
  at the corners of its three pieces. β = Q_FF⁻¹ k_F, on the labels F between 0 and C, is a first-order bound. Rows of
  Q and unit vectors in place of k bound margins and duals themselves.

Ranges of duals and margins that are found this way make the next round sharper. Every sum carries its rounding error.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from labelcert.arrays import Float, Int
from labelcert.stopping import Stopped, go_on
from labelcert.svm.pivoting import UNIT_ROUNDOFF

ROUNDS = 4
"""How often ranges are made sharper, at most, plus one."""

RIDGES = (0.0, 1.0)
"""What is added to the diagonal for multipliers, as a share of the mean sum of errors in a row."""

STEPS = 3
"""Of the iteration for multipliers."""

TURNS = 6
"""How often linear programs make ranges sharper."""

MOST_BRANCHES = 200
"""States of labels that are branched on, for one score."""

LITTLE = 0.02
"""Ranges that shrink by less than this share of C are sharp enough."""

_TINY = 1e-290


class Ranges(NamedTuple):
    """What is proved of every label under every admissible kernel: its dual variable, and its margin y f'."""

    low: Float
    high: Float
    margin_low: Float
    margin_high: Float

    def narrowed(self, other: Ranges) -> Ranges:
        """What both say."""
        return Ranges(
            np.maximum(self.low, other.low),
            np.minimum(self.high, other.high),
            np.maximum(self.margin_low, other.margin_low),
            np.minimum(self.margin_high, other.margin_high),
        )

    def settled(self, C: float) -> Ranges:
        """What the three states make of it: a margin above 1 is that of a dual at 0, and so on."""
        low = np.where(self.margin_high < 1.0, C, self.low)
        high = np.where(self.margin_low > 1.0, 0.0, self.high)
        return Ranges(
            low,
            high,
            np.where(high < C, np.maximum(self.margin_low, 1.0), self.margin_low),
            np.where(low > 0.0, np.minimum(self.margin_high, 1.0), self.margin_high),
        )


class UncertainMachine:
    """One kernel with errors, and test rows with errors: m labels, n rows.

    Parameters
    ----------
    Q, E : (m, m) arrays
        Symmetric; Q need not be positive semidefinite, as the middle of an interval.
    rows, errors : (n, m) arrays
    C : float
    """

    def __init__(self, Q: Float, E: Float, rows: Float, errors: Float, C: float) -> None:
        m, n = Q.shape[0], rows.shape[0]
        self.Q, self.E, self.C, self.n = Q, E, C, n
        # Test rows; rows of the kernel, whose scores are margins; unit vectors, whose scores are duals.
        self.k = np.vstack([rows, Q, np.eye(m)])
        self.e = np.vstack([errors, E, np.zeros((m, m))])
        self._absolute = np.abs(Q)
        self._lengths = np.sqrt(np.maximum(np.diag(Q) + np.diag(E), 0.0) * (1.0 + 1e-12))
        # Of a label: at 0, at its cap, and between them, with the margins that go with it.
        self._states = ((0.0, 0.0, 1.0, np.inf), (C, C, -np.inf, 1.0), (0.0, C, 1.0, 1.0))
        self._unit = 16.0 * UNIT_ROUNDOFF * (m + 8)

    def scores(
        self,
        y: Float,
        alpha: Float,
        floor: Float,
        ceiling: Float,
        *,
        rounds: int = ROUNDS,
        programs: bool = False,
        tighten: bool = False,
    ) -> tuple[Float, Float]:
        """(n,) bounds on the scores of all rows under every admissible kernel, after training on labels y (±1).

        Parameters
        ----------
        y : (m,) array
        alpha : (m,) array
            Dual variables between 0 and C that a training found; the better they are, the sharper the bounds.
        floor, ceiling : (n,) arrays
            Bounds are sharp enough once all scores are above the floor, or below the ceiling.
        rounds : int
            How often ranges are made sharper, at most, plus one.
        programs : bool
            Whether linear programs look for the best multipliers where that does not come about.
        tighten : bool
            Whether they make ranges sharper, too.
        """
        m, n = y.size, self.n
        low, high = np.full(n, -np.inf), np.full(n, np.inf)
        free = np.flatnonzero((alpha > 0.0) & (alpha < self.C))
        ranges = self._around(
            y, alpha, Ranges(np.zeros(m), np.full(m, self.C), np.full(m, -np.inf), np.full(m, np.inf))
        )
        support = free
        for turn in range(rounds):
            found_low, found_high = self._lagrangian(support, y, ranges, slice(0, n))
            low, high = np.maximum(low, found_low), np.minimum(high, found_high)
            last = turn == rounds - 1 and not programs
            if last or np.all((low > floor) | (high < ceiling)):
                break
            before, (found_low, found_high) = ranges, self._lagrangian(support, y, ranges, slice(n, None))
            signed = np.stack([y * found_low.reshape(2, m), y * found_high.reshape(2, m)])
            (margin_low, dual_low), (margin_high, dual_high) = signed.min(axis=0), signed.max(axis=0)
            ranges = ranges.narrowed(Ranges(dual_low, dual_high, margin_low, margin_high)).settled(self.C)
            ranges = self._around(y, alpha, ranges)
            gained = max(float(np.max(a - b)) for a, b in ((before.high, ranges.high), (ranges.low, before.low)))
            doubtful = np.flatnonzero((ranges.high > 0.0) & (ranges.low < self.C))
            if gained <= LITTLE * self.C and np.array_equal(doubtful, support):
                break
            support = free if np.array_equal(doubtful, support) else doubtful
        if programs:
            with suppress(Stopped):  # what is found until then counts
                self._programs(y, alpha, ranges, (low, high), (floor, ceiling), tighten=tighten)
        return low, high

    def _programs(
        self,
        y: Float,
        alpha: Float,
        ranges: Ranges,
        found: tuple[Float, Float],
        enough: tuple[Float, Float],
        *,
        tighten: bool,
    ) -> None:
        """Raise the lower ends and lower the upper ends that are not sharp enough, in place."""
        (low, high), (floor, ceiling) = found, enough
        either = ~(floor < np.inf)
        upper = (
            self.k[: self.n] @ (y * alpha) < np.where(either, 0.0, floor) / 2.0 + np.where(either, 0.0, ceiling) / 2.0
        )
        sides = [(either | ~upper, low, 1.0, floor), (either | upper, high, -1.0, -ceiling)]

        def raised(bound: Callable[[int, float, float], float]) -> bool:
            """Whether all are sharp enough, with better bounds on the side of the given kernel's score, or on both."""
            for t in np.flatnonzero(~((low > floor) | (high < ceiling))).tolist():
                for asked, end, sign, need in sides:
                    if asked[t]:
                        end[t] = sign * max(sign * end[t], bound(t, sign, need[t]))
            return bool(np.all((low > floor) | (high < ceiling)))

        for turn in range(TURNS if tighten else 1):
            if turn:
                before, ranges = ranges, self._tightened(y, alpha, ranges)
                if np.sum(before.high - before.low - ranges.high + ranges.low) <= LITTLE * self.C:
                    break
            if raised(lambda t, sign, need, now=ranges: self._solved(t, y, now, sign)[0]):  # type: ignore[misc]
                return
        if tighten:
            raised(lambda t, sign, need: self._searched(t, y, alpha, ranges, sign, need))

    def _searched(self, row: int, y: Float, alpha: Float, ranges: Ranges, sign: float, need: float) -> float:
        """A lower bound on one score times a sign, by branching on states of labels, until it is above what is needed.

        The label that violates its three states the most, in the program's solution, is in one of them.
        """
        number = itertools.count()
        value, guess = self._solved(row, y, ranges, sign)
        open_ = [(value, next(number), ranges, guess)]
        for _ in range(MOST_BRANCHES):
            value, _, ranges, (a, g) = open_[0]
            violation = np.where(g > 1.0, a * (g - 1.0), (self.C - a) * (1.0 - g))
            i = int(violation.argmax())
            if value > need or not violation[i] > 1e-9 * self.C:
                return value
            heapq.heappop(open_)
            for low, high, margin_low, margin_high in self._states:
                part = [end.copy() for end in ranges]
                part[0][i], part[1][i] = max(part[0][i], low), min(part[1][i], high)
                part[2][i], part[3][i] = max(part[2][i], margin_low), min(part[3][i], margin_high)
                state = self._around(y, alpha, Ranges(*part).settled(self.C))
                if np.all((state.low <= state.high) & (state.margin_low <= state.margin_high)):
                    value, guess = self._solved(row, y, state, sign)
                    heapq.heappush(open_, (value, next(number), state, guess))
            if not open_:
                return np.inf
        return open_[0][0]

    def _tightened(self, y: Float, alpha: Float, ranges: Ranges) -> Ranges:
        """Ranges of the labels that are in no state for certain, from linear programs."""
        m, ends = y.size, np.array([[*ranges.margin_low, *ranges.low], [*ranges.margin_high, *ranges.high]])
        doubtful = np.flatnonzero(ranges.low < ranges.high)
        for k in (*doubtful.tolist(), *(m + doubtful).tolist()):
            both = [self._solved(self.n + k, y, ranges, sign)[0] for sign in (1.0, -1.0)]
            ends[:, k] = np.sort(y[k % m] * np.array([both[0], -both[1]]))
        (margin_low, dual_low), (margin_high, dual_high) = ends.reshape(2, 2, m)
        ranges = ranges.narrowed(Ranges(dual_low, dual_high, margin_low, margin_high)).settled(self.C)
        return self._around(y, alpha, ranges)

    def _solved(self, row: int, y: Float, ranges: Ranges, sign: float) -> tuple[float, tuple[Float, Float]]:
        """A lower bound on one score times a sign, from the best multipliers that a linear program suggests.

        Also duals and margins that the program attains it with.
        """
        go_on()
        beta, guess = best_multipliers(self.Q, self.E, self.k[row], self.e[row], y, ranges, self.C, sign)
        return float(self._evaluated(beta[None], y, ranges, sign, slice(row, row + 1))[0]), guess

    def _around(self, y: Float, alpha: Float, known: Ranges) -> Ranges:
        """The ball around what a training found, and the box."""
        signed = self.Q * np.outer(y, y)
        g = signed @ alpha
        h = self.E @ alpha + self._unit * (self._absolute @ alpha + 1.0 + np.abs(g)) + _TINY
        for _ in range(2):
            down, up = known.low - alpha, known.high - alpha  # D is in between
            most = np.maximum(down * (1.0 - g) + np.abs(down) * h, up * (1.0 - g) + np.abs(up) * h)
            total = max(0.0, float(most.sum() + self._unit * np.abs(most).sum()) * (1.0 + 1e-12)) + _TINY
            rest = np.maximum(total - most, 0.0) * (1.0 + 1e-12) + self._unit * total
            above, below = g - 1.0 - h, 1.0 - g - h
            high = np.where(above > 0.0, alpha + rest / np.where(above > 0.0, above, 1.0), np.inf)
            low = np.where(below > 0.0, alpha - rest / np.where(below > 0.0, below, 1.0), -np.inf)
            reach = h + self._lengths * np.sqrt(total) * (1.0 + 1e-12)
            ball = Ranges(low - _TINY, high * (1.0 + 1e-15), g - reach, g + reach)
            known = known.narrowed(ball).narrowed(self._box(signed, known)).settled(self.C)
        return known

    def _box(self, signed: Float, known: Ranges) -> Ranges:
        """Margins as sums of products of intervals; duals stay."""
        positive, negative = np.maximum(signed, 0.0), np.minimum(signed, 0.0)
        off = self.E @ known.high + self._unit * (self._absolute @ known.high) + _TINY
        return Ranges(
            known.low,
            known.high,
            positive @ known.low + negative @ known.high - off,
            positive @ known.high + negative @ known.low + off,
        )

    def _lagrangian(self, support: Int, y: Float, ranges: Ranges, rows: slice) -> tuple[Float, Float]:
        """Lower and upper bounds on the scores of some rows, by the best of some multipliers.

        They are zero outside of the support. On it, ``k − Qβ = ±yρ`` with the errors ``ρ = e + |β| E``: then no dual
        variable there changes the bound. That is solved step by step; any numbers will do.
        """
        none = np.zeros_like(self.k[rows])
        found = [self._evaluated(none, y, ranges, sign, rows) for sign in (1.0, -1.0)]
        if support.size:
            block, E = self.Q[np.ix_(support, support)], self.E[np.ix_(support, support)]
            k, e = self.k[rows][:, support], self.e[rows][:, support]
            for share in RIDGES:
                ridge = 1e-12 * float(np.trace(block)) + share * float(E.sum()) / support.size + _TINY
                try:
                    inverse = np.linalg.inv(block + ridge * np.eye(support.size))
                except np.linalg.LinAlgError:
                    continue
                for side, sign in enumerate((1.0, -1.0)):
                    beta = k @ inverse
                    for _ in range(STEPS):
                        full = none.copy()
                        full[:, support] = np.where(np.isfinite(beta), beta, 0.0)
                        found[side] = np.maximum(found[side], self._evaluated(full, y, ranges, sign, rows))
                        beta = (k - sign * y[support] * (e + np.abs(full[:, support]) @ E)) @ inverse
        return found[0], -found[1]

    def _evaluated(self, beta: Float, y: Float, ranges: Ranges, sign: float, rows: slice) -> Float:
        """Lower bounds on the scores of some rows times a sign, from multipliers."""
        C, (al, au, gl, gu) = self.C, ranges
        k, spread = self.k[rows], np.abs(beta)
        rho = self.e[rows] + spread @ self.E
        p, q = sign * (k - beta @ self.Q) * y - rho, sign * beta * y
        size = np.abs(k) + spread @ self._absolute + rho
        largest = np.maximum(np.maximum(np.abs(gl), np.abs(gu)), 1.0)
        slack = self._unit * (C * size.sum(axis=1) + spread @ largest) + _TINY
        at_zero, at_cap = (al <= 0.0) & (gu >= 1.0), (au >= C) & (gl <= 1.0)
        between = (gl <= 1.0) & (gu >= 1.0)
        first, last = np.maximum(gl, 1.0), np.minimum(gu, 1.0)
        zero = np.where(at_zero, np.minimum(q * first, q * gu), np.inf)
        free = np.where(between, q + np.minimum(p * al, p * au), np.inf)
        cap = np.where(at_cap, p * C + np.minimum(q * gl, q * last), np.inf)
        least = np.minimum(np.minimum(zero, free), cap)
        # Where rounding leaves a label without any state, nothing is known.
        return np.where(np.isfinite(least).all(axis=1), least.sum(axis=1), -np.inf) - slack


def best_multipliers(
    Q: Float, E: Float, k: Float, e: Float, y: Float, ranges: Ranges, C: float, sign: float
) -> tuple[Float, tuple[Float, Float]]:
    """(m,) the multipliers with the largest lower bound on a score times a sign; zeros where a solver finds none.

    Also the duals and margins, (m,) each, that attain it where labels may be in a mix of their states.

    The bound is a sum over labels of the least value at the corners of its pieces, each of which is linear in the
    positive and negative parts of β: a linear program in these and one more variable for each label. No score is above
    ``C Σ (|k| + e)``: where bounds are, the ranges contradict each other, and the program may stop there.
    """
    m, corners = y.size, list[tuple[int, float, float]]()
    for i, (al, au, gl, gu) in enumerate(zip(*(end.tolist() for end in ranges), strict=True)):
        ends = []
        if al <= 0.0 and gu >= 1.0:
            ends += [(0.0, max(gl, 1.0)), (0.0, gu)]
        if gl <= 1.0 <= gu:
            ends += [(al, 1.0), (au, 1.0)]
        if au >= C and gl <= 1.0:
            ends += [(C, gl), (C, min(gu, 1.0))]
        corners += [(i, a, g) for a, g in dict.fromkeys(ends)]
    table = np.array(corners).reshape(-1, 3)
    label, a, g = table[:, 0].astype(np.int64), table[:, 1:2], table[:, 2:]
    own, side = np.eye(m)[label], sign * y[label][:, None]
    slope = -side * a * Q[label] + side * g * own
    rows = np.hstack([own, a * E[label] - slope, a * E[label] + slope])
    rows = np.vstack([rows, np.repeat([1.0, 0.0], [m, 2 * m])])
    most = 1.0 + 2.0 * C * float((np.abs(k) + e).sum())
    right = np.append(a[:, 0] * (side[:, 0] * k[label] - e[label]), most)
    x, prices = _solved_program(np.repeat([-1.0, 0.0], [m, 2 * m]), m, rows, right)
    if x is None or prices is None:
        finite = np.clip(np.array(ranges), -1e9, 1e9)
        return np.zeros(m), ((finite[0] + finite[1]) / 2.0, (finite[2] + finite[3]) / 2.0)
    weights = -prices[:-1]
    mean = [np.bincount(label, weights * end[:, 0], minlength=m).astype(np.float64) for end in (a, g)]
    return x[m : 2 * m] - x[2 * m :], (mean[0], mean[1])


def _solved_program(cost: Float, free: int, rows: Float, right: Float) -> tuple[Float | None, Float | None]:
    """The cheapest x with ``rows x ≤ right`` whose entries from some on are at least 0, and what rows are worth."""
    import highspy

    (r, n), program, highs = rows.shape, highspy.HighsLp(), highspy.Highs()
    for option, value in (("output_flag", False), ("threads", 1), ("presolve", "off")):
        highs.setOptionValue(option, value)
    program.num_col_, program.num_row_, program.col_cost_ = n, r, cost
    program.col_lower_ = np.repeat([-highspy.kHighsInf, 0.0], [free, n - free])
    program.col_upper_, program.row_lower_ = np.full(n, highspy.kHighsInf), np.full(r, -highspy.kHighsInf)
    program.row_upper_ = right
    matrix = sp.csr_array(rows)
    program.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
    program.a_matrix_.start_, program.a_matrix_.index_ = matrix.indptr, matrix.indices
    program.a_matrix_.value_ = matrix.data
    highs.passModel(program)
    highs.run()
    if highs.getModelStatus() != highspy.HighsModelStatus.kOptimal:
        highs.setOptionValue("presolve", "on")
        highs.run()
    if highs.getModelStatus() != highspy.HighsModelStatus.kOptimal:
        return None, None
    found = highs.getSolution()
    x, prices = np.array(found.col_value), np.array(found.row_dual)
    return (x, prices) if np.isfinite(x).all() and np.isfinite(prices).all() else (None, None)


def never_free(Q: Float, E: Float, C: float) -> bool:
    """Whether every label stays at its cap under every admissible kernel, whatever the labels are."""
    most = float(((np.abs(Q) + E).sum(axis=1)).max(initial=0.0))
    return bool(C * most * (1.0 + 16.0 * UNIT_ROUNDOFF * (Q.shape[0] + 8)) < 1.0)


def largest_change(Q: Float, E: Float, errors: Float, C: float, lengths: Float, ridge: float, least: float) -> Float:
    r"""(n,) bounds on how far the scores move from those of the kernel Q, whatever the labels are.

    With z and z' optimal for Q and Q' and d = z' - z, :math:`d^\top Q d \le |d|^\top E |z'| \le C^2 \sum E`, and
    :math:`|p' - p| \le C \sum e + |k \cdot d| \le C \sum e + \lVert k \rVert_{Q^{-1}} \lVert d \rVert_Q`. Where every
    label stays at its cap, d = 0.

    Parameters
    ----------
    Q, E : (m, m) arrays
    errors : (n, m) array
    C : float
    lengths : (n,) array
        Bounds on :math:`k^\top (Q + r I)^{-1} k` with the ridge r.
    ridge : float
    least : float
        Lower bound on the smallest eigenvalue of Q.
    """
    up = 1.0 + 16.0 * UNIT_ROUNDOFF * (Q.shape[0] + 8)
    direct = C * errors.sum(axis=1) * up + _TINY
    if never_free(Q, E, C):
        return direct
    sums = E.sum(axis=1)
    squared = float(sums.sum())
    if least > 0.0:
        squared = min(squared, float(sums @ sums) / least)
    squared += ridge * Q.shape[0]
    return np.asarray(direct + C * np.sqrt(lengths * squared) * up)
