"""What flips do to a linear model, foretold from clean solutions, and a proved bound on what the forecast misses.

Let H be the Hessian at the clean optimum, M nearly its inverse, and ``A = Φ M Φᵀ``. Flipping label i moves the solution
to about ``δ = s_i M φ_i``: the impulse ``s_i`` is what it pulls with once its own score has moved by ``A_ii s_i`` (one
equation for each label). The gradient there is

    g = g₀ + s_i (HM − 1) φ_i + ε_i φ_i + Σ_{j ≠ i} E_j φ_j,

an identity: ``g₀`` is what is left at the clean solution, ``E_j`` the Taylor remainder of ``c σ`` at the change
``Δ_j = s_i A_ji`` of score j, and ``ε_i`` what is left of the equation. With slopes D, ``|E_j| ≤ D_j Δ_j² / 2 / (1 −
|Δ_j| / 3)``, since the second derivative of σ is at most the first; and ``‖Σ E_j φ_j‖_{H⁻¹} ≤ (Σ E_j² / D_j)^½``.

Several flips together (:class:`Together`): let ``Δ^i`` be what flip i alone does to all scores, by retraining. Where
all of a set S are flipped, the gradient at the sum of their solutions is ``Σ_j m_j φ_j`` and what is left of theirs,
where ``m_j`` is the mixed difference of ``c σ``: at most ``D_j (Π_S (1 + e_ij) − 1 − Σ_S e_ij)`` with ``e_ij =
exp |Δ^i_j| − 1``. Its norm is bounded by ``(Σ_j D_j e_ij⁴)^½`` of each flip.

Norms in H are those of :mod:`~labelcert.losses.hessian_norm`.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from labelcert.arrays import Float, Int
from labelcert.losses.hessian_norm import HessianNorm
from labelcert.losses.primal import PrimalMachine
from labelcert.svm.pivoting import UNIT_ROUNDOFF

ALL_PAIRS = 12_000
"""Up to so many labels, all pairs are looked at; beyond, ``|A_ij| ≤ √(A_ii A_jj)`` has to do until asked for more."""

MOST_FLIPS = 5
"""Sets of more flips are not bounded."""

_BLOCK_CELLS = 4_000_000


class Remainders(HessianNorm):
    """Bounds for one model with one output.

    Parameters
    ----------
    machine : PrimalMachine
        With slopes that are alike.
    movable : (ν,) array
        The labels that may be flipped.
    over : callable
        Whether to stop; all bounds are infinite then.

    Attributes
    ----------
    impulse : (ν,) array
        ``s_i``.
    alone : (ν,) array
        e for each flip alone.
    rough : bool
        Whether these bounds can be sharpened.
    """

    def __init__(self, machine: PrimalMachine, movable: Int, over: Callable[[], bool]) -> None:
        super().__init__(machine)
        self.movable = movable
        self.slope = machine.D
        nu = movable.size
        self._A = np.minimum(self.reach, 1e100)[movable] ** 2
        self.impulse, self._own_error = self._impulses()
        self._size = np.abs(self.impulse)
        self.alone = np.full(nu, np.inf)
        self.rough = machine.m > ALL_PAIRS
        if math.isfinite(self.eta):
            if self.rough:
                self._crude()
            else:
                self.sharpen(np.arange(nu), over)

    def _impulses(self) -> tuple[Float, Float]:
        """``s = −c y − E(A s)`` by bisection, and how far that is from being so."""
        machine, at = self.machine, self.movable
        c, D, f = machine.c[at], self.slope[at], machine.F[at, 0]
        X = machine.X[at]
        A = np.maximum(np.einsum("np,np->n", X @ machine.M, X), 0.0)
        y = 2.0 * machine.codes[at] - 1.0

        def miss(s: Float) -> Float:
            rise = 0.5 * c * (np.tanh(0.5 * (f + A * s)) - np.tanh(0.5 * f))
            return np.asarray(s - D * A * s + rise + c * y)

        low = np.where(y > 0, -c / np.maximum(1e-3, 1.0 - D * A), 0.0)
        high = np.where(y > 0, 0.0, c / np.maximum(1e-3, 1.0 - D * A))
        for _ in range(60):
            middle = (low + high) / 2
            above = miss(middle) > 0
            low, high = np.where(above, low, middle), np.where(above, middle, high)
        s = (low + high) / 2
        rounding = 32 * UNIT_ROUNDOFF * (c + np.abs(s) * (1.0 + D * A))
        return s, np.abs(miss(s)) + rounding + (0.25 * c + D) * np.abs(s) * (self._A - A)

    def _crude(self) -> None:
        """Each flip alone: score j moves by at most ``reach_j · reach_i · s_i``."""
        D, reach, s, A = self.slope, self.reach, self._size, self._A
        # The longest rows take the energy that there is.
        order = np.argsort(-reach)
        leverage = np.cumsum((D * reach**2)[order])
        ends = np.searchsorted(leverage, np.linspace(0.0, 1.0, 65)[1:]) + 1
        groups = [order[a:b] for a, b in zip([0, *ends[:-1]], ends, strict=True) if a < min(b, order.size)]
        share = np.array([float((D[own] * reach[own] ** 2).sum()) for own in groups])
        tallest = np.array([float(reach[own[0]]) for own in groups])
        left, square = np.ones(s.size), np.zeros(s.size)
        for part, tall in zip(share, tallest, strict=True):
            taken = np.minimum(left, part)
            square += _times(s * s * A * taken, _excess(s * np.sqrt(A) * tall) ** 2)
            left -= taken
        self._bound(np.arange(s.size), s * np.sqrt(A) * self._longest, square)

    def sharpen(self, flips: Int, over: Callable[[], bool]) -> None:
        """Better bounds for some flips (positions), from what they do to each score."""
        machine, at = self.machine, self.movable
        noise, step = self.noise(machine.X), max(1, _BLOCK_CELLS // machine.m)
        for start in range(0, flips.size, step):
            if over():
                return
            own = flips[start : start + step]
            block = machine.X @ (machine.M @ machine.X[at[own]].T)
            np.abs(block, out=block)
            block += self.share * noise[:, None] * noise[at[own]][None, :]
            block *= 1.01 * self._size[own]
            block[at[own], np.arange(own.size)] = 0.0
            rest = np.max(block, axis=0, initial=0.0, where=self.tame[:, None])
            block *= _excess(block)
            block *= block
            self._bound(own, rest, self.slope @ block)

    def _bound(self, own: Int, rest: Float, square: Float) -> None:
        """From bounds on changes of scores, and on remainders, to one on the error."""
        A, size = self._A[own], self._size[own]
        own_loss = self.slope[self.movable[own]] * A * -np.expm1(-np.maximum(0.0, size * A - rest))
        n = self.residue + (self.eta * size + self._own_error[own]) * np.sqrt(A) + np.sqrt(square)
        self.alone[own] = np.fmin(self.alone[own], self.distance(n, rest, 1.0 - 1.01 * own_loss))


class Together:
    """Bounds on what flips do together, beyond the sum of what each does alone.

    Parameters
    ----------
    alone : Remainders
    shift : (p, ν) array
        By how much each flip alone moves the solution.
    miss : (ν,) array
        At least ``‖g‖₂`` there.
    """

    def __init__(self, alone: Remainders, shift: Float, miss: Float) -> None:
        self._alone, machine, at = alone, alone.machine, alone.movable
        u, step = UNIT_ROUNDOFF, max(1, _BLOCK_CELLS // machine.m)
        self._rest, self._joint, self._own = (np.empty(at.size) for _ in range(3))
        self._miss = alone.least * miss + alone.residue
        tops = np.zeros((machine.m, MOST_FLIPS))
        noise = (
            4
            * u
            * (machine.p + 4)
            * machine.norms
            * float(np.linalg.norm(machine.w) + np.linalg.norm(shift, axis=0).max())
        )
        for start in range(0, at.size, step):
            part = slice(start, start + step)
            own, column = at[part], np.arange(at[part].size)
            moved = np.abs(machine.X @ shift[:, part]) + noise[:, None]
            self._own[part] = moved[own, column]
            moved[own, column] = 0.0
            self._rest[part] = moved[alone.tame].max(axis=0, initial=0.0)
            tops = -np.partition(-np.hstack([tops, moved]), MOST_FLIPS - 1, axis=1)[:, :MOST_FLIPS]
            np.expm1(moved, out=moved)
            moved *= moved
            moved *= moved
            self._joint[part] = 1.01 * np.sqrt(alone.slope @ moved)
        self._tops = np.cumsum(-np.sort(-tops, axis=1), axis=1)

    def within(self, flips: int) -> tuple[float, Float]:
        """For all sets of at most so many flips: the number plus those of its labels, a bound in the norm of H."""
        alone, b, at = self._alone, flips, self._alone.movable
        nothing = np.zeros(at.size)
        if not 2 <= b <= MOST_FLIPS:
            return math.inf, nothing
        D, root = alone.slope[at], alone.reach[at]
        others = self._tops[at, b - 2]
        most_moved = float(self._tops[:, b - 1].max(initial=0.0))
        if not most_moved + self._own.max(initial=0.0) < 5.0:
            return math.inf, nothing
        rest = min(float(self._tops[alone.tame, b - 1].max(initial=0.0)), _most(self._rest, b))
        # Σ over pairs of ``D E_i E_k``, more of them where there are more flips; and at the labels that are flipped.
        more = math.exp((b - 2) * most_moved)
        each = 0.5 * (b - 1) * more * self._joint + 1.01 * D * np.expm1(self._own) * np.expm1(others) * more * root
        each += self._miss
        lost = 1.01 * _most(D * root**2 * -np.expm1(-np.maximum(0.0, self._own + others - rest)), b)
        total = alone.residue + _most(each, b)
        most = float(alone.distance(np.array([total]), np.array([rest]), np.array([1.0 - lost]))[0])
        # The bound is convex in what it is a bound of, and 0 at 0.
        return (alone.residue * most / total, each * most / total) if math.isfinite(most) else (math.inf, nothing)


def _excess(moved: Float) -> Float:
    """``|E| / (D |Δ|)`` at most; infinite where that is not bounded in this way."""
    with np.errstate(divide="ignore"):
        return np.where(moved < 2.9, 0.5 * moved / np.maximum(1.0 - moved / 3.0, 0.03), np.inf)


def _times(share: Float, factor: Float) -> Float:
    """Products, where nothing of what is infinite is nothing."""
    return np.where(share > 0.0, share * np.where(share > 0.0, factor, 0.0), 0.0)


def _most(values: Float, count: int) -> float:
    """The sum of the largest values."""
    if count >= values.size:
        return float(values.sum())
    return float(-np.partition(-values, count - 1)[:count].sum()) if count > 0 else 0.0
