r"""How probable it is that two sums of the same independent terms are both at most 0, or one of three, with a proof.

Both sums get a little Gaussian noise of their own, of standard deviation s, which moves thresholds by κs and nothing
else, but for a probability that is known. Wrapped around a torus of side L, the two have a Fourier series: with
:math:`u_k = 2πk/L`, the probability of a rectangle is

.. math:: \sum_{k,l} φ(u_k, u_l)\, e^{-s^2 (u_k^2 + u_l^2)/2}\, G_1(k)\, G_2(l), \qquad |G(k)| \le 1/(π|k|).

φ is a product over labels. It is multiplied out for small k and l. Elsewhere it only has to be small: with
probabilities p_a of the values of one label, whose phases are θ_a,

.. math:: |φ_i|^2 = 1 - 2 \sum_{a<b} p_a p_b (1 - \cos(θ_a - θ_b)),

and the differences of phases are multiples of h_i by six whole-number forms in k and l. So six functions of one whole
number bound φ everywhere, and one Fourier transform computes each.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import scipy.fft
from scipy.special import log_ndtr

from labelcert.arrays import Float, Int
from labelcert.compiling import compiled
from labelcert.labelnoise.tails import OUTSIDE, Jumps, Tail, reach

BOX = 64
"""Coefficients up to so many on each side are multiplied out."""

SMOOTH = 1.5e-4
"""The Gaussian noise, as a multiple of the standard deviation of a sum."""

SIGMAS = 4.5
"""How far it is taken to reach."""

LAST = 7.0
"""Coefficients are looked at as far as the noise leaves e^(-24.5) of them."""

MOST_COEFFICIENTS = 2**17

FINE = 2**22
"""Points of the grid on which the bounds of φ are computed."""

DEGREE = 16
"""Of the trigonometric polynomials that stand for a third sum."""

HOPELESS = 1e-3
"""Where even the smallest bound of φ is above this, nothing would be proved: too few labels, or too few errors."""

ROUNDING = 1e-9
"""For float64, and for coefficients beyond the last; for each thousand labels."""

SINGLE = 10.0 * 2.0**-24 * math.log2(FINE)
"""How far a transform in float32 may be off in 2-norm, relatively: see :func:`.tails._transform_error`."""

FORMS = np.array([[1, 0], [0, 1], [1, 1], [2, 1], [1, 2], [1, -1]])
"""Differences of phases are multiples of ``FORMS @ (k, l)``, up to sign. Where two of these are below b, so are k and l
below 2b, or one of the two is k or l itself."""

WITH_OWN = np.array([0, 0, 1, 1, 1, 0])
"""Those between the predicted class and others."""


def both(h: Float, values: Int, odds: Float, error: float) -> Tail:
    """The probability that both sums ``h @ values[r, classes]`` are at most 0.

    - ``values`` (2, K): 1 for the predicted class, -1 for one rival each, 0 for all others.
    """
    if math.exp(-2.0 * sum(float(weights.sum()) for weights in _products(values, odds))) > HOPELESS:
        return Tail(0.0, 1.0)
    sums = [Jumps.of(h, own, odds) for own in values]
    constants = [math.fsum((h * own.base).tolist()) for own in sums]
    below, above = (np.array([reach(own.moving, sign) for own in sums]) for sign in (-1.0, 1.0))
    spread = min(_spread(h, own, odds) for own in values)
    s = SMOOTH * spread
    L = float((below + above).max() + 20.0 * s)
    last = math.ceil(LAST / s * L / (2.0 * math.pi)) if s > 0.0 else MOST_COEFFICIENTS
    if last >= MOST_COEFFICIENTS:
        return Tail(0.0, 1.0)
    margin = SIGMAS * s + error + 1e-12 * float(np.abs(h).sum())
    box = _whole(_half(h, np.stack(_chances(values, odds)), sums, 2.0 * math.pi / L))
    k = np.arange(-BOX, BOX + 1)
    faded = np.exp(-0.5 * (s * 2.0 * math.pi / L * k) ** 2)
    ends = []
    for sign in (-1.0, 1.0):
        sides = [
            _coefficients(k, -low - 10.0 * s, sign * margin - constant, L) * faded
            for low, constant in zip(below, constants, strict=True)
        ]
        ends.append(float((sides[0] @ box @ sides[1]).real))
    missed = 2.0 * math.exp(float(log_ndtr(-SIGMAS))) + 4.0 * OUTSIDE + ROUNDING * max(1.0, h.size / 1000.0)
    missed += _beyond(h, values, odds, L, last, s)
    return Tail(max(0.0, ends[0] - missed), min(1.0, ends[1] + missed))


def alone_of_three(h: Float, values: Int, odds: Float, error: float) -> Tail:
    r"""The probability that of three sums ``h @ values[r, classes]`` the first is at most 0, and the others above.

    As in :func:`both`, for the first two. A trigonometric polynomial of degree N takes the place of the third: one that
    is nowhere below (or above) the indicator of an interval, and whose integral is off by 1 / (N + 1) of the torus
    (Selberg; Vaaler 1985). So there are 2N + 1 series in two variables. In each, the phase of the third sum moves the
    forms with the predicted class by at most N.

    - ``values`` (3, K): as in :func:`both`.
    """
    apart = odds * (values[2] != -1)  # what is not said about the third rival only makes bounds wider
    if math.exp(-2.0 * sum(float(weights.sum()) for weights in _products(values[:2], apart))) > HOPELESS:
        return Tail(0.0, 1.0)
    sums = [Jumps.of(h, own, odds) for own in values]
    zeros = [-math.fsum((h * own.base).tolist()) for own in sums]
    below, above = (np.array([reach(own.moving, sign) for own in sums]) for sign in (-1.0, 1.0))
    s = SMOOTH * min(_spread(h, own, odds) for own in values[:2])
    L = float((below + above).max() + 20.0 * s)
    last = math.ceil(LAST / s * L / (2.0 * math.pi)) if s > 0.0 else MOST_COEFFICIENTS
    if last >= MOST_COEFFICIENTS:
        return Tail(0.0, 1.0)
    off = error + 1e-12 * float(np.abs(h).sum())
    k = np.arange(-BOX, BOX + 1)
    faded = np.exp(-0.5 * (s * 2.0 * math.pi / L * k) ** 2)
    ends, masses = np.zeros(2), np.zeros(2)
    sides, third = list[tuple[Any, Any]](), list[Any]()
    for sign in (-1.0, 1.0):
        margin = sign * (SIGMAS * s + off)
        first = _coefficients(k, -float(below[0]) - 10.0 * s, zeros[0] + margin, L) * faded
        second = _coefficients(k, zeros[1] - margin, float(above[1]) + 10.0 * s, L) * faded
        sides.append((first, second))
        third.append(_selberg((zeros[2] - sign * off) / L, float(above[2]) / L, sign))
    for n in range(DEGREE + 1):
        forth, back = (
            _half(h, _turned(h, values, odds, sums[2].base, sign * n, L), sums, 2.0 * math.pi / L) for sign in (1, -1)
        )
        box = np.concatenate([back[:0:-1, ::-1].conj(), forth])
        for end, ((first, second), polynomial) in enumerate(zip(sides, third, strict=True)):
            found = polynomial[n] * (first @ box @ second)
            ends[end] += (1.0 if n == 0 else 2.0) * float(found.real)  # that of -n is conjugate
            masses[end] += (1.0 if n == 0 else 2.0) * abs(polynomial[n])
    beyond = _beyond(h, values[:2], apart, L, last, s, DEGREE) + ROUNDING * max(1.0, h.size / 1000.0)
    missed = 2.0 * math.exp(float(log_ndtr(-SIGMAS))) + 18.0 * OUTSIDE + beyond * masses
    return Tail(max(0.0, float(ends[0] - missed[0])), min(1.0, float(ends[1] + missed[1])))


def _selberg(low: float, high: float, sign: float) -> Any:
    """(N + 1,) Fourier coefficients of a polynomial above (1) or below (-1) an interval of a torus of length 1."""
    high = min(max(high, low), low + 1.0)
    n, N = np.arange(DEGREE + 1), DEGREE + 1
    u = np.where(n == 0, 0.5, n / N)
    sawtooth = np.where(n == 0, 0.0, (-(1.0 - u) / np.tan(math.pi * u) - 1.0 / math.pi) / N / 2j)
    hump = (1.0 - n / N) / (2 * N)
    begins, ends = (np.exp(-2j * math.pi * n * x) for x in (low, high))
    found = (sawtooth + sign * hump) * ends + (-sawtooth + sign * hump) * begins
    found[0] += high - low
    return found


def _turned(h: Float, values: Int, odds: Float, base: Float, n: int, L: float) -> Any:
    """(4, m) what takes the place of :func:`_chances`, with the phase of a third sum."""
    waves = odds * np.exp(2j * math.pi * n / L * h[:, None] * (values[2][None, :] - base[:, None]))
    return np.stack(_chances(values[:2], waves))


def _spread(h: Float, values: Int, odds: Float) -> float:
    """Standard deviation of a sum."""
    return math.sqrt(float((h**2 * (odds @ values**2 - (odds @ values) ** 2)).sum()))


def _coefficients(k: Int, low: float, high: float, L: float) -> Any:
    """Fourier coefficients of the interval from ``low`` to ``high``, of at most a torus."""
    high = min(max(high, low), low + L)
    u = 2.0 * math.pi / L * np.where(k == 0, 1, k)
    waves = (np.exp(-1j * u * low) - np.exp(-1j * u * high)) / (1j * u * L)
    return np.where(k == 0, (high - low) / L, waves)


def _half(h: Float, chances: Any, sums: list[Jumps], step: float) -> Any:
    """(BOX + 1, 2 BOX + 1) characteristic function of the first two sums without their constants, for k ≥ 0."""
    half = np.ones((BOX + 1, 2 * BOX + 1), dtype=np.complex128)
    bases, scratch = np.stack([own.base for own in sums[:2]]), np.zeros((4, half.shape[1]), dtype=np.complex128)
    _multiply_out(h * step, chances, bases.astype(np.int64), half, scratch)
    return half


def _whole(half: Any) -> Any:
    """The same for all k, where it is conjugate for those below 0."""
    return np.concatenate([half[:0:-1, ::-1].conj(), half])


@compiled(error_model="numpy", fastmath={"contract"})
def _multiply_out(angles: Float, chances: Any, bases: Int, half: Any, own: Any) -> None:
    """The product over all labels, for k ≥ 0: elsewhere it is conjugate. ``own`` (4, 2 BOX + 1) is scratch."""
    last, columns = half.shape[0] - 1, half.shape[1]
    for i in range(angles.shape[0]):
        for j in range(columns):
            angle = angles[i] * (j - last)
            y, shift = complex(math.cos(angle), math.sin(angle)), 1.0 + 0.0j
            if bases[1, i] != 0:
                shift = y.conjugate() if bases[1, i] > 0 else y
            own[0, j] = y
            own[1, j] = chances[0, i] * y * shift
            own[2, j] = chances[1, i] * shift
            own[3, j] = (chances[2, i] * y.conjugate() + chances[3, i]) * shift
        for k in range(last + 1):
            x, shift = own[0, last + k], 1.0 + 0.0j
            if bases[0, i] != 0:
                shift = x.conjugate() if bases[0, i] > 0 else x
            forth, back = shift * x, shift * x.conjugate()
            for j in range(columns):
                half[k, j] *= forth * own[1, j] + back * own[2, j] + shift * own[3, j]


def _beyond(h: Float, values: Int, odds: Float, L: float, last: int, s: float, shift: int = 0) -> float:
    """At most what all coefficients outside the box come to, where forms with the predicted class may be shifted."""
    bounds = _bounds(h, values, odds, L, 3 * last)  # all that the forms can be
    highest = np.maximum.accumulate(bounds[:, ::-1], axis=1)[:, ::-1]  # of all arguments from n on
    n = np.arange(BOX + 1, last + 1)
    faded = np.exp(-0.5 * (s * 2.0 * math.pi / L * n) ** 2) / (math.pi * n)
    inside = 1.0 + 2.0 * float((1.0 / (math.pi * np.arange(1, BOX + 1))).sum())

    def at(form: int, arguments: Int) -> Float:
        return np.asarray(highest[form, arguments])

    # One of k and l in the box: what the forms with the other one are at least, whatever the first is.
    strips = 0.0
    for first, twice, single in ((0, 3, 4), (1, 4, 3)):
        decay = bounds[first, n] * at(2, np.maximum(n - BOX - shift, 0)) * at(5, n - BOX)
        decay *= at(twice, 2 * n - BOX - shift) * at(single, np.maximum(n - 2 * BOX - shift, 0))
        strips += 2.0 * float((faded * decay).sum()) * inside
    # Neither: at most one of the forms is below half the box, since two of them decide k and l.
    largest = highest[range(len(FORMS)), BOX // 2 - shift * WITH_OWN]
    corners = float(np.prod(largest) / max(float(largest.min()), 1e-300))
    return strips + corners * (2.0 * float(faded.sum())) ** 2


def _bounds(h: Float, values: Int, odds: Float, L: float, last: int) -> Float:
    r"""(6, last + 1) bounds of φ by each form alone: the exponential of minus :math:`\sum_i w_i (1 - \cos(u_n h_i))`.

    The cosines are those of rounded weights, so that they may be wrong by what rounding does to their arguments.
    Transforms are those of float32: nothing but small numbers has to come out.
    """
    cells = np.rint(h * FINE / L).astype(np.int64) % FINE
    wrong = math.pi * np.arange(last + 1) / FINE
    found = np.empty((len(FORMS), last + 1))
    for form, weights in enumerate(_products(values, odds)):
        total = float(weights.sum())
        histogram = np.bincount(cells, weights=weights, minlength=FINE).astype(np.float32)
        waves = scipy.fft.rfft(histogram)[: last + 1].real.astype(np.float64)
        off = SINGLE * math.sqrt(FINE * total * float(histogram.max())) + 1e-6 * total + 1e-9
        found[form] = np.exp(-np.maximum(total - waves - total * wrong - off, 0.0))
    return found


def _products(values: Int, odds: Float) -> list[Float]:
    """For each form, (m,) products of the probabilities of the two values whose phases differ by it."""
    o, r, s, t = _chances(values, odds)
    return [r * t, s * t, o * t, o * r, o * s, r * s]


def _chances(values: Int, odds: Float) -> list[Float]:
    """(m,) probabilities of the predicted class, of the two rivals, and of all others."""
    own, one, two = (values[0] == 1), (values[0] == -1), (values[1] == -1)
    return [odds[:, mask].sum(axis=1) for mask in (own, one, two, ~(own | one | two))]
