"""Expectations of smooth activations: the bounds of tanh proved, and all against quadrature."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from scipy.special import erf, erfc
from tests.models.test_networks import ACTIVATED

from labelcert.models.activations import SCALES, TANH, TANH_ERROR, TANH_SLOPE_ERROR, expectations

Function = Callable[[np.ndarray], np.ndarray]


def largest(f: Function, *, end: float) -> float:
    """A bound of |f| on [0, end], where f is analytic, and at most 100 within distance 1 of that interval.

    On each interval of length 1/2, f is interpolated at 20 Chebyshev nodes. The Bernstein ellipse with parameter ρ = 8
    stays within distance 1, so the interpolation is off by 4 · 100 ρ⁻¹⁹ / (ρ − 1) < 1e-14 / 2, and it is at most
    Lebesgue's constant 2/π log(20) + 1 < 3 times the largest value at a node. Rounding errors are below 1e-14 / 2.
    """
    nodes = np.cos((np.arange(20) + 0.5) * np.pi / 20) / 4
    starts = np.arange(0.25, end, 0.5)
    return float(3 * np.abs(f(starts[:, None] + nodes)).max() + 1e-14)


def test_tanh_is_nearly_a_sum_of_error_functions() -> None:
    s, w = TANH.T

    def off(x: np.ndarray) -> np.ndarray:
        return np.tanh(x) - erf(x[..., None] * s) @ w

    def slope_off(x: np.ndarray) -> np.ndarray:
        return np.cosh(x) ** -2 - 2 / np.sqrt(np.pi) * np.exp(-((x[..., None] * s) ** 2)) @ (w * s)

    # Within distance 1, |erf(sz)| and |s erf'(sz)| are at most 1 + 2 s exp(s²), |tanh| ≤ 2 and |tanh'| ≤ 4.
    assert (w * (1 + 2 * s * np.exp(s**2))).sum() + 4 < 100
    assert largest(off, end=20) < TANH_ERROR
    assert largest(slope_off, end=20) < TANH_SLOPE_ERROR
    # Beyond 20, both functions are nearly 1, and both derivatives nearly 0.
    assert abs(1 - w.sum()) + (w * erfc(20 * s)).sum() + 2 * np.exp(-40) < TANH_ERROR
    assert 2 * (w * s * np.exp(-((20 * s) ** 2))).sum() + 4 * np.exp(-40) < TANH_SLOPE_ERROR


@pytest.mark.parametrize("activation", ["erf", "gelu", "tanh"])
def test_expectations_are_those_of_gaussians(activation: str) -> None:
    x, weights = np.polynomial.hermite_e.hermegauss(150)
    W = np.outer(weights, weights) / weights.sum() ** 2
    f, slope = ACTIVATED[activation]
    for v, w, u in ((1.0, 1.0, 0.5), (0.3, 0.7, -0.9), (1.0, 0.5, 0.99), (0.1, 0.2, 1.0), (0.0, 1.0, 0.0), (1, 1, -1)):
        a, b = np.sqrt(v) * x[:, None], np.sqrt(w) * (u * x[:, None] + np.sqrt(1 - u * u) * x)
        found = expectations(activation, np.array([u * np.sqrt(v * w)]), np.array([v]), np.array([w]))
        for values, g in zip(found, (f, slope), strict=True):
            assert values[0] == pytest.approx(SCALES[activation] * (W * g(a) * g(b)).sum(), abs=1e-9)
    one = np.ones(1)
    np.testing.assert_allclose(expectations(activation, one, one, one)[0], 1.0, rtol=1e-11)


@pytest.mark.parametrize("activation", ["erf", "gelu", "tanh"])
@pytest.mark.parametrize("size", [1e-3, 1.0, 1e3])
def test_the_slope_is_the_derivative_and_kernels_are_positive(activation: str, size: float) -> None:
    X = np.random.default_rng(2).normal(size=(40, 4)) * np.sqrt(size)
    X[1], X[2], X[3] = X[0], -X[0], X[0] * (1 + 1e-9)
    sigma, v = X @ X.T, (X**2).sum(axis=1)
    np.fill_diagonal(sigma, v)
    E, slope = expectations(activation, sigma, v[:, None], v)
    scale = np.abs(E).max()
    for matrix in (E, slope):
        np.testing.assert_allclose(matrix, matrix.T, rtol=1e-13)
        np.testing.assert_allclose(matrix[0], matrix[1], rtol=1e-13)
        assert np.linalg.eigvalsh(matrix).min() > -1e-13 * np.trace(matrix)
    sigma *= 0.9
    step = 1e-5 * size
    up, down = (expectations(activation, sigma + d, v[:, None], v)[0] for d in (step, -step))
    found = expectations(activation, sigma, v[:, None], v)[1]
    np.testing.assert_allclose((up - down) / (2 * step), found, rtol=1e-6, atol=1e-9 * scale / step)


def test_the_series_of_tanh_is_the_sum_over_all_pairs() -> None:
    rng = np.random.default_rng(0)
    v, w = 10.0 ** rng.uniform(-4, 4, size=(2, 300))
    u = np.concatenate([rng.uniform(-1, 1, 150), 1 - 10.0 ** rng.uniform(-16, -1, 140), np.ones(5), -np.ones(5)])
    s, weights = TANH.T
    S, R, pair = s[:, None], s[None], np.outer(weights, weights)
    E, slope = expectations("tanh", u * np.sqrt(v * w), v, w)
    assert expectations("tanh", *np.full((3, 1), 1e20))[0] == pytest.approx(SCALES["tanh"], rel=1e-8)
    for k in range(300):
        D = 1 + 2 * S**2 * v[k] + 2 * R**2 * w[k] + 4 * (S * R) ** 2 * v[k] * w[k] * (1 - u[k]) * (1 + u[k])
        angle = np.arctan(2 * S * R * u[k] * np.sqrt(v[k] * w[k]) / np.sqrt(D))
        scale = SCALES["tanh"] * 2 / np.pi
        assert E[k] == pytest.approx(scale * (pair * angle).sum(), rel=1e-11, abs=1e-300)
        assert slope[k] == pytest.approx(scale * (pair * 2 * S * R / np.sqrt(D)).sum(), rel=1e-9)
