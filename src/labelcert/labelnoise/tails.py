r"""Proved tails of sums of independent terms: :math:`P(\sum_i h_i v(Y_i) \le 0)` for random classes Y_i.

A label that keeps its most probable value contributes a constant, so the sum is a constant plus jumps. Jumps are
rounded to a grid of step δ, and the distribution of the rounded sum comes from its characteristic function. With
:math:`z = e^{iu}`, a label whose jumps are whole multiples j of :math:`s_i δ` has the factor

.. math:: q_0 + \sum_j q_j z^{j s_i} = q_0 \exp\Bigl(\sum_e c_e z^{e s_i}\Bigr),

where the c_e are the coefficients of the logarithm's power series. Their sum over all labels is one histogram, so that
a product of thousands of factors at hundreds of thousands of frequencies costs two Fourier transforms.

What rounding moves is a sum of few small independent terms, whose tails a Chernoff bound proves; so it shifts the
threshold by some τ, downwards for one end and upwards for the other. A Chernoff bound proves as well how much is
outside the grid. Where all jumps are multiples of one number, δ is that number and nothing is rounded.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import NamedTuple

import numpy as np
import scipy.fft

from labelcert.arrays import Float, Int

GRID = 2**18
"""Points of the grid."""

WHOLE_GRID = 2**20
"""Where nothing needs rounding, grids of up to so many points are taken as they are."""

OUTSIDE = 1e-6
"""What each Chernoff bound leaves out."""

LARGEST_SHARE = 0.65
"""Odds of jumping against staying up to which the series of the logarithm is short enough."""

TERM = 1e-15
"""What the rest of the series may come to, for each label."""

_TILTS = 2.0 ** np.arange(-3.0, 4.5, 0.5)


class Tail(NamedTuple):
    """An interval that provably holds a probability."""

    lower: float
    upper: float


class Jumps(NamedTuple):
    """A constant and independent jumps: label i adds ``h[i] * steps[i, k]`` with probability ``odds[i, k]``."""

    h: Float
    steps: Int  # (m, S) whole numbers; the first one of each label is 0
    odds: Float  # (m, S)
    base: Float  # (m,) values that the constant is made of: h @ base

    @classmethod
    def of(cls, h: Float, values: Int, odds: Float) -> Jumps:
        """Of labels with weights h, whose class c has the value ``values[c]``: the most probable value is the base."""
        kinds, which = np.unique(values, return_inverse=True)
        grouped = np.zeros((h.size, kinds.size))
        for c, k in enumerate(which.tolist()):
            grouped[:, k] += odds[:, c]
        order = np.argsort(-grouped, axis=1, kind="stable")
        grouped = np.take_along_axis(grouped, order, axis=1)
        base = kinds[order[:, 0]]
        return cls(h, (kinds[order] - base[:, None]).astype(np.int64), grouped, base.astype(np.float64))

    @property
    def moving(self) -> Jumps:
        """The labels that jump at all."""
        moving = (self.h != 0.0) & (self.odds[:, 1:].sum(axis=1) > 0.0)
        return Jumps(*(array[moving] for array in self))


def serves(odds: Float) -> bool:
    """Whether the series is short for labels with such (m, K) odds, however classes are put together."""
    top = odds.max(axis=1)
    return bool(np.all((1.0 - top) <= LARGEST_SHARE * top))


def tail(h: Float, values: Int, odds: Float, error: float = 0.0, points: int = GRID) -> Tail:
    """The probability that ``sum_i h[i] * values[class of i]`` is at most 0.

    - ``values`` (K,): small whole numbers, one for each class.
    - ``odds`` (m, K): :func:`serves` is true of them.
    - ``error``: how far the sum may be from that of exact weights, whatever the classes are.
    - ``points``: of the grid, where one is needed; the more, the narrower.
    """
    jumps = Jumps.of(h, values, odds)
    moving = jumps.moving
    constant = math.fsum((h * jumps.base).tolist())  # products with small whole numbers; their rounding is below
    size = float(np.abs(h * jumps.base).sum())
    if moving.h.size == 0:
        return _point(h, jumps.base, error)
    below = reach(moving, -1.0)
    if constant - error - 1e-12 * size > below:
        return Tail(0.0, OUTSIDE)
    whole = _whole(moving) if error == 0.0 else None
    if whole is not None:
        steps = math.floor(-_exactly(h, jumps.base) / Fraction(whole))
        return _summed(moving, whole, np.rint(moving.h / whole).astype(np.int64), below, 0.0, (steps, steps))
    above = reach(moving, 1.0)
    delta = (below + above) / (points - 256)
    grid = np.rint(moving.h / delta).astype(np.int64)
    rest = Jumps(grid * delta - moving.h, moving.steps, moving.odds, moving.base)
    tau = 1.0001 * max(reach(rest, 1.0), reach(rest, -1.0)) + error + 1e-12 * (size + float(np.abs(moving.h).sum()))
    ends = (math.floor((-constant - tau) / delta) - 1, math.floor((-constant + tau) / delta) + 1)
    return _summed(moving, delta, grid, below + tau, 4 * OUTSIDE, ends, points)


def _point(h: Float, base: Float, error: float) -> Tail:
    """Nothing is random."""
    exact = _exactly(h, base)
    return Tail(float(exact <= -Fraction(error)), float(exact <= Fraction(error)))


def _exactly(h: Float, base: Float) -> Fraction:
    """Their product, where ``base`` is whole."""
    return sum((Fraction(a) * int(b) for a, b in zip(h.tolist(), base.tolist(), strict=True)), Fraction())


def reach(jumps: Jumps, sign: float) -> float:
    r"""What the sum of jumps exceeds in one direction with a probability of at most ``OUTSIDE``.

    By Chernoff: :math:`P(D \ge x) \le e^{K(λ) - λx}` for any λ > 0, where K is the logarithm of E exp(λD).
    """
    moves = sign * jumps.h[:, None] * jumps.steps[:, 1:]
    odds = jumps.odds[:, 1:]
    spread = math.sqrt(float((odds * moves**2).sum()))
    farthest = float(np.maximum(moves, 0.0).max(axis=1).sum())
    if spread == 0.0 or farthest == 0.0:
        return 0.0
    best = farthest
    for rate in (math.sqrt(-2.0 * math.log(OUTSIDE)) / spread * _TILTS).tolist():
        with np.errstate(over="ignore"):
            grown = np.log1p((odds * np.expm1(rate * moves)).sum(axis=1)).sum()
        if math.isfinite(grown):
            best = min(best, (float(grown) - math.log(OUTSIDE)) / rate)
    return best * (1.0 + 1e-9)


def _whole(jumps: Jumps) -> float | None:
    """A number that all weights are whole multiples of, where a grid with this step is small enough."""
    sizes = np.abs(jumps.h)
    exponent = int(np.frexp(sizes.min())[1]) - 53  # all weights are whole multiples of 2**exponent
    if np.frexp(sizes.max())[1] - exponent > 62:
        return None
    whole = np.ldexp(sizes, -exponent).astype(np.int64)
    unit = float(np.ldexp(float(np.gcd.reduce(whole)), exponent))
    span = float((sizes / unit * np.abs(jumps.steps).max(axis=1)).sum())
    return unit if span < WHOLE_GRID else None


def _summed(
    jumps: Jumps, delta: float, grid: Int, below: float, left_out: float, ends: tuple[int, int], points: int = GRID
) -> Tail:
    """The probability of at most so many steps of the grid: at least, and at most.

    - ``grid`` (m,): jumps of one, in steps.
    - ``below``: how far down the sum reaches, but for ``OUTSIDE``.
    - ``left_out``: probability of what was not accounted for.
    - ``ends``: steps that the lower end and the upper end are about.
    - ``points``: of the grid; as many as it takes where nothing is left out.
    """
    if left_out == 0.0:  # all of it is on the grid
        first = -int((np.abs(grid) * np.abs(jumps.steps).max(axis=1)).sum())
        points = 1 << max(4, (1 - 2 * first).bit_length())
    else:
        first = -math.ceil(below / delta) - 64
    log0, histogram = _logarithm(jumps, grid, points)
    chances = scipy.fft.irfft(np.exp(log0 + scipy.fft.rfft(histogram)), points)
    # The cell of grid point first + k is (first + k) mod points.
    order = np.roll(chances, -(first % points))
    sums = [float(order[: min(max(0, end - first + 1), points)].sum()) for end in ends]
    slack = left_out + _transform_error(histogram, jumps.h.size, points)
    return Tail(max(0.0, sums[0] - slack), min(1.0, sums[1] + slack))


def _transform_error(histogram: Float, m: int, points: int) -> float:
    """Of two transforms, an exponential and a sum.

    A transform errs by at most ``10 u log2(G)`` in 2-norm, relatively (Higham, Accuracy and Stability, chapter 24, with
    room to spare). For exponents, that is this share of the histogram's 1-norm times the root of G. Since a
    characteristic function is at most 1, the exponential hands it on, and the way back divides by the root of G. A sum
    of G probabilities is at most their 2-norm times the root of G.
    """
    u, levels, root = 2.0**-53, math.log2(points), math.sqrt(points)
    transform = 10.0 * u * levels
    mass = float(np.abs(histogram).sum())
    exponent = transform * mass + u * (m + 8) * (1.0 + mass) + m * TERM
    return 4.0 * ((exponent + transform) * root + u * points) if exponent * root < 0.1 else 1.0


def _logarithm(jumps: Jumps, grid: Int, points: int) -> tuple[float, Float]:
    """The logarithm of the characteristic function: a constant, and a histogram over the grid whose transform it is."""
    log0 = float(np.log(jumps.odds[:, 0]).sum())
    histogram = np.zeros(points)
    keys = np.concatenate([jumps.steps, jumps.odds], axis=1)
    kinds, which = np.unique(keys, axis=0, return_inverse=True)
    for steps in np.unique(kinds[:, : jumps.steps.shape[1]], axis=0):
        own = np.flatnonzero(np.all(kinds[:, : jumps.steps.shape[1]] == steps, axis=1))
        shares = kinds[own, jumps.steps.shape[1] + 1 :] / kinds[own, jumps.steps.shape[1], None]
        exponents, coefficients = _series(steps[1:].astype(np.int64), shares)
        place = np.full(kinds.shape[0], -1)
        place[own] = np.arange(own.size)
        labels = np.flatnonzero(place[which.ravel()] >= 0)
        cells = (grid[labels, None] * exponents[None]) % points
        weights = coefficients[place[which.ravel()[labels]]]
        histogram += np.bincount(cells.ravel(), weights=weights.ravel(), minlength=points)
    return log0, histogram


def _series(steps: Int, shares: Float) -> tuple[Int, Float]:
    """Exponents, and (U, E) coefficients, of ``log(1 + sum_j shares[:, j] z**steps[j])``."""
    largest = float(shares.sum(axis=1).max(initial=0.0))
    terms = 1
    while largest ** (terms + 1) / ((terms + 1) * (1.0 - largest)) > TERM:
        terms += 1
    far = int(np.abs(steps).max(initial=0)) * terms
    power = np.zeros((shares.shape[0], 2 * far + 1))
    power[:, far] = 1.0
    total = np.zeros_like(power)
    for n in range(1, terms + 1):
        moved = [share * np.roll(power, step, axis=1).T for share, step in zip(shares.T, steps.tolist(), strict=True)]
        power = np.sum(moved, axis=0).T if moved else np.zeros_like(power)
        total += (power if n % 2 else -power) / n
    used = np.flatnonzero(np.any(total != 0.0, axis=0))
    return (used - far).astype(np.int64), total[:, used]
