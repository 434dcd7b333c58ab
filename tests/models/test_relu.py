from __future__ import annotations

import numpy as np
import pytest

from labelcert.models.activations import activate
from labelcert.models.relu import clip_at_smaller_variance, kappa0, relu_expectations


def kappa1(u: np.ndarray) -> np.ndarray:
    """The expectation E at unit variances."""
    return relu_expectations(u, np.ones_like(u))[0]


@pytest.mark.parametrize("u", [-0.99, -0.5, 0.0, 0.3, 0.9, 0.999])
def test_arc_cosine_functions_are_gaussian_expectations(u: float) -> None:
    """Against quadrature in polar coordinates, where only the angle t is left."""
    angle = np.arccos(u)
    t = (np.arange(200_000) + 0.5) / 200_000 * 2 * np.pi
    a, b = np.cos(t), np.cos(t - angle)
    positive = (a > 0) & (b > 0)
    assert kappa0(np.array(u)) == pytest.approx(2 * positive.mean(), abs=2e-5)
    assert kappa1(np.array([u])) == pytest.approx(2 * 2 * (a * b * positive).mean(), abs=2e-5)


def test_derivative_of_kappa1_is_kappa0() -> None:
    u = np.linspace(-0.95, 0.95, 21)
    np.testing.assert_allclose((kappa1(u + 1e-6) - kappa1(u - 1e-6)) / 2e-6, kappa0(u), atol=1e-8)


def test_variances_pass_unchanged() -> None:
    v = np.array([0.0, 1e-300, 1.0, 1e200])
    E, E_dot = relu_expectations(v, v)
    np.testing.assert_array_equal(E, v)
    np.testing.assert_array_equal(E_dot, [0.5, 1.0, 1.0, 1.0])


def test_correlations_beyond_one_by_rounding_are_cut() -> None:
    E, E_dot = relu_expectations(np.array([1.0 + 1e-15, -1.0 - 1e-15]), np.ones(2))
    np.testing.assert_array_equal(E, [1.0, 0.0])
    np.testing.assert_array_equal(E_dot, [1.0, 0.0])


def test_a_node_of_variance_zero_stays_zero() -> None:
    sigma, theta = np.zeros((2, 2)), np.zeros((2, 2))
    sigma[1, 1] = theta[1, 1] = 2.0
    v = np.array([0.0, 2.0])
    activate("relu", sigma, theta, v, v)
    np.testing.assert_array_equal(sigma, [[0.0, 0.0], [0.0, 2.0]])
    np.testing.assert_array_equal(theta, [[0.0, 0.0], [0.0, 2.0]])


def test_the_published_clipping_can_make_a_valid_kernel_indefinite() -> None:
    X = np.array([[1.0, 0.0], [2.0, 0.0], [2.0, 1.0]])
    sigma = X @ X.T
    v = sigma.diagonal().copy()
    assert np.linalg.eigvalsh(sigma).min() > -1e-12
    clip_at_smaller_variance(sigma, v, v)
    assert (sigma == np.minimum(X @ X.T, np.minimum.outer(v, v))).all()
    sigma = np.array([[1.0, 1.2, 1.2], [1.2, 1.6, 1.3], [1.2, 1.3, 1.7]])
    assert np.linalg.eigvalsh(sigma).min() > 0
    v = sigma.diagonal().copy()
    clip_at_smaller_variance(sigma, v, v)
    assert sigma[0, 1] == sigma[0, 2] == 1.0
