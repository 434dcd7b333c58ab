r"""Activations σ, and the Gaussian expectations of their products that kernels are made of.

For :math:`(a, b) \sim N(0, \cdot)` with variances :math:`v_i, v_j` and covariance :math:`\Sigma_{ij}`,

.. math::
    E_{ij} = c\,\mathbb{E}[\sigma(a)\,\sigma(b)], \qquad \dot E_{ij} = c\,\mathbb{E}[\sigma'(a)\,\sigma'(b)]
    = \partial E_{ij} / \partial \Sigma_{ij}, \qquad c = 1 / \mathbb{E}_{z \sim N(0, 1)}[\sigma(z)^2].

With :math:`\Delta = v_i v_j - \Sigma_{ij}^2`, written as :math:`(q - \Sigma_{ij})(q + \Sigma_{ij})` so that nothing
cancels, the error function has (Williams, 1997)

.. math::
    E = \tfrac{2c}{\pi} \arctan \frac{2 \Sigma}{\sqrt D}, \qquad \dot E = \frac{4c}{\pi \sqrt D}, \qquad
    D = 1 + 2 v_i + 2 v_j + 4 \Delta,

and :math:`\mathrm{GELU}(x) = x \Phi(x)`, by Stein's lemma, with :math:`D = 1 + v_i + v_j + \Delta`,

.. math::
    E &= c\,\Sigma M + \frac{c}{2 \pi} \frac{q^2 \sqrt D + \Sigma^2 / \sqrt D}{(1 + v_i)(1 + v_j)}, \qquad
    M = \tfrac14 + \tfrac{1}{2 \pi} \arctan \frac{\Sigma}{\sqrt D}, \\
    \dot E &= c M + \frac{c\,\Sigma}{2 \pi \sqrt D} \Bigl(\frac{1}{1 + v_i} + \frac{1}{1 + v_j} + \frac1D\Bigr).

tanh has no closed form. The logistic distribution is a mixture of normal ones, so :math:`\tanh(x) = \int \mathrm{erf}(s
x)\,\mathrm{d}\mu(s)` (Andrews and Mallows, 1974). A Gauss rule in log s makes this a sum of 20 error functions that
differs from tanh by at most `TANH_ERROR` anywhere, and in its derivative by `TANH_SLOPE_ERROR`. So E is off by at most
:math:`2 c` times the first and :math:`\dot E` by :math:`2 c` times the second, whatever the covariances, and the matrix
is the kernel of a network: positive semidefinite. The tests prove both bounds.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal, get_args

import numpy as np

from labelcert.arrays import Float, Int
from labelcert.compiling import compiled
from labelcert.models import chunks
from labelcert.models.relu import relu_expectations

Activation = Literal["relu", "linear", "erf", "gelu", "tanh"]
ACTIVATIONS: tuple[str, ...] = get_args(Activation)

SCALES: dict[str, float] = {
    "relu": 2.0,
    "linear": 1.0,
    "erf": math.pi / 2 / math.asin(2 / 3),
    "gelu": 2.3517156140733729,
    "tanh": 2.5361754332174538,
}
"""c of each activation."""

TANH_ERROR, TANH_SLOPE_ERROR = 1e-12, 6e-12
"""Most that the sum of error functions differs from tanh, and its derivative from that of tanh."""

TANH = np.array(
    [
        (0.2005168863722397, 2.529110068933416e-10),
        (0.23258176113358622, 9.752303521240803e-08),
        (0.2670492822008652, 6.241191021913732e-06),
        (0.3062895171461565, 0.00013805387374370964),
        (0.3521444489509052, 0.001434894754950328),
        (0.4065506550282203, 0.008333649872079242),
        (0.47169401613011475, 0.030359174427168893),
        (0.5500133919838555, 0.07559939998863124),
        (0.6440396971130002, 0.13756653023786308),
        (0.7560373306009953, 0.19156795429847925),
        (0.8876766195548268, 0.20786110694699808),
        (1.0400609160843648, 0.17378823176959277),
        (1.213969623055922, 0.10833645909487645),
        (1.4101136531109966, 0.047979382227491145),
        (1.6294463413649534, 0.01417994333187124),
        (1.8736190825523267, 0.0025786294489337155),
        (2.145739767534335, 0.0002580693170174952),
        (2.45190812961028, 1.199025440663697e-05),
        (2.8052750931490382, 1.9068971045285153e-07),
        (3.2423518302136523, 4.992181455855766e-10),
    ]
)
"""Scales s and weights of the sum of error functions."""

TERMS = 128
"""Most terms of the series of tanh; where they are too few, all pairs of error functions are summed."""


def expectations(activation: str, sigma: Float, left: Float, right: Float) -> tuple[Float, Float]:
    r"""Compute :math:`(E, \dot E)`, entry by entry; variances `left` and `right` broadcast to the shape of sigma."""
    return _EXPECTATIONS[activation](sigma, left, right)


def activate(activation: str, sigma: Float, theta: Float | None, left_variance: Float, right_variance: Float) -> None:
    r"""Pass a layer through its activation, in place.

    :math:`\Theta \leftarrow \Theta \odot \dot E`, :math:`\Sigma \leftarrow E`. Without Θ, only covariances are needed.
    """
    if activation == "linear":
        return
    for rows in chunks.row_chunks(len(sigma), sigma.shape[1], chunks.CACHE_ENTRIES):
        sigma[rows], slope = expectations(activation, sigma[rows], left_variance[rows, None], right_variance[None])
        if theta is not None:
            theta[rows] *= slope


def _relu(sigma: Float, left: Float, right: Float) -> tuple[Float, Float]:
    return relu_expectations(sigma, np.sqrt(left * right))


def _bounded(sigma: Float, left: Float, right: Float) -> tuple[Float, Float, Float]:
    r"""Covariances that their variances allow, :math:`q = \sqrt{v_i v_j}`, and Δ."""
    q = np.sqrt(left * right)
    sigma = np.clip(sigma, -q, q)
    return sigma, q, (q - sigma) * (q + sigma)


def _erf(sigma: Float, left: Float, right: Float) -> tuple[Float, Float]:
    sigma, _, delta = _bounded(sigma, left, right)
    root = np.sqrt(1.0 + 2.0 * (left + right) + 4.0 * delta)
    c = 2.0 * SCALES["erf"] / np.pi
    return c * np.arctan(2.0 * sigma / root), 2.0 * c / root


def _gelu(sigma: Float, left: Float, right: Float) -> tuple[Float, Float]:
    sigma, q, delta = _bounded(sigma, left, right)
    D = 1.0 + (left + right) + delta
    root = np.sqrt(D)
    both = 0.25 + np.arctan(sigma / root) / (2 * np.pi)
    x, y = 1.0 / (1.0 + left), 1.0 / (1.0 + right)
    E = sigma * both + (q * q * root + sigma * sigma / root) * (x * y / (2 * np.pi))
    return SCALES["gelu"] * E, SCALES["gelu"] * (both + sigma / root * (x + y + 1.0 / D) / (2 * np.pi))


def _tanh(sigma: Float, left: Float, right: Float) -> tuple[Float, Float]:
    E, slope = np.empty(sigma.size), np.empty(sigma.size)
    (v, i, left_table), (w, j, right_table) = (_tanh_table(variances, sigma.shape) for variances in (left, right))
    _tanh_products(TANH, np.ascontiguousarray(sigma).ravel(), v, w, i, j, left_table, right_table, E, slope)
    return SCALES["tanh"] * E.reshape(sigma.shape), SCALES["tanh"] * slope.reshape(sigma.shape)


def _tanh_table(variances: Float, shape: tuple[int, ...]) -> tuple[Float, Int, Float]:
    """Distinct variances, which of them each entry has, and their series."""
    distinct, places = np.unique(variances, return_inverse=True)
    table = np.empty((distinct.size, TERMS))
    _tanh_series(TANH, distinct, table)
    return distinct, np.broadcast_to(places.reshape(variances.shape), shape).ravel().astype(np.int64), table


_EXPECTATIONS: dict[str, Callable[[Float, Float, Float], tuple[Float, Float]]] = {
    "relu": _relu,
    "linear": lambda sigma, left, right: (sigma, np.ones_like(sigma)),
    "erf": _erf,
    "gelu": _gelu,
    "tanh": _tanh,
}


@compiled()
def _tanh_series(rule: Float, variances: Float, table: Float) -> None:
    r"""Fill in the table :math:`b_m(v) = \sqrt{c_m} \sum_k w_k p_k (p_k^2 v)^m`, :math:`p_k = s_k\sqrt{2/(1+2s_k^2v)}`.

    :math:`c_m` are the coefficients of :math:`\tfrac{2}{\pi} \arcsin`, so that :math:`\mathbb{E}[\tanh(a) \tanh(b)] =
    \Sigma \sum_m b_m(v_i)\, b_m(v_j)\, (\Sigma^2 / v_i v_j)^m`, the series of the arcsines of all pairs.
    """
    for n in range(variances.size):
        v = variances[n]
        table[n] = 0.0
        for k in range(rule.shape[0]):
            p = rule[k, 0] * math.sqrt(2.0 / (1.0 + 2.0 * rule[k, 0] ** 2 * v))
            power = rule[k, 1] * p
            for m in range(table.shape[1]):
                table[n, m] += power
                power *= p * p * v
        c = 2.0 / math.pi
        for m in range(table.shape[1]):
            table[n, m] *= math.sqrt(c)
            c *= (2 * m + 1) ** 2 / ((2 * m + 2) * (2 * m + 3))


@compiled()
def _tanh_products(
    rule: Float,
    sigma: Float,
    left: Float,
    right: Float,
    i: Int,
    j: Int,
    left_table: Float,
    right_table: Float,
    E: Float,
    slope: Float,
) -> None:
    """E and Ė of the sum of error functions, up to rounding.

    A term of either series is at most x times the one before, but for the factor 2m + 1 of the derivative's, whose
    terms are all positive. So what is left out is known, and the sum ends where that is a rounding error.
    """
    widest = 2.0 * rule[-1, 0] ** 2
    for n in range(sigma.size):
        v, w = left[i[n]], right[j[n]]
        q2 = v * w
        t = min(sigma[n] ** 2 / q2, 1.0) if q2 > 0.0 else 0.0
        x = min(t * (widest * v / (1.0 + widest * v)) * (widest * w / (1.0 + widest * w)), 1.0 - 1e-15)
        value = derivative = 0.0
        power = 1.0
        for m in range(left_table.shape[1]):
            term = left_table[i[n], m] * right_table[j[n], m] * power
            value += term
            derivative += (2 * m + 1) * term
            rest = term * x * ((2 * m + 3) + 2.0 * x / (1.0 - x)) / (1.0 - x)
            if rest <= 1e-16 * derivative:
                E[n], slope[n] = sigma[n] * value, derivative
                break
            power *= t
        else:
            E[n], slope[n] = _tanh_pair(rule, math.copysign(math.sqrt(t * q2), sigma[n]), v, w, (1.0 - t) * q2)


@compiled(inner=True)
def _tanh_pair(rule: Float, sigma: float, v: float, w: float, delta: float) -> tuple[float, float]:
    """The sums over all pairs of error functions."""
    value = derivative = 0.0
    for k in range(rule.shape[0]):
        for m in range(rule.shape[0]):
            s, r = rule[k, 0], rule[m, 0]
            weight = rule[k, 1] * rule[m, 1] * 2.0 / math.pi
            root = math.sqrt(1.0 + 2.0 * s * s * v + 2.0 * r * r * w + 4.0 * (s * r) ** 2 * delta)
            value += weight * math.atan(2.0 * s * r * sigma / root)
            derivative += weight * 2.0 * s * r / root
    return value, derivative
