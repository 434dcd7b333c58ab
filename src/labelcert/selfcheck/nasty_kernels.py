"""Kernels of small problems: degenerate ones, and those on which arithmetic with tolerances goes wrong.

Every function draws a kernel between m labels and the rows of n test nodes. Products of small integers and powers of
two are exact in float64, so these kernels are positive semidefinite without rounding, with test rows in their range.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from labelcert.arrays import Float

DEGENERATE = ("generic", "lattice", "duplicates", "low-rank", "zero-rows", "low-rank-float", "identity", "near-tie")
"""Ties, duplicates, singular kernels."""

Drawn = tuple[Float, Float]
"""Kernel between labels, (m, m), and test rows, (n, m)."""


def draw_kernel(rng: np.random.Generator, kind: str, m: int, n: int) -> Drawn:
    """A kernel of some kind, degenerate or treacherous."""
    if kind in _TREACHEROUS:
        return _TREACHEROUS[kind](rng, m, n)
    joint = _features(rng, kind, m, n)
    K = joint @ joint.T
    if kind == "generic" and rng.random() < 0.5:
        K = np.exp(-0.5 * np.maximum(np.diag(K)[:, None] + np.diag(K) - 2 * K, 0))
    K = (K + K.T) / 2
    return K[:m, :m], K[m:, :m]


def draw_cap(rng: np.random.Generator, kind: str, K: Float) -> float:
    """A cap: extreme ones, and those at which labels just reach it."""
    sums = np.abs(K).sum(axis=1)
    scale = max(float(sums.max()), 1e-3)
    common = [1e-6, 0.5 / scale, 1 / scale, 0.125, 0.25, 0.3, 1.0, 2.0, 10.0, 1e3, 1e6]
    if kind not in _TREACHEROUS:
        return float(rng.choice(common))
    own = np.maximum(rng.choice(np.concatenate([sums, np.diag(K)]), 3), 1e-12)
    edges = np.nextafter(1 / own, rng.choice([0.0, 1.0, np.inf], 3))
    return float(np.clip(rng.choice([*common, *edges, 0.5 / own[0], 2 / own[1], 1e-12]), 1e-12, 1e12))


def _features(rng: np.random.Generator, kind: str, m: int, n: int) -> Float:
    if kind == "generic":
        return rng.normal(size=(m + n, m + 2))
    if kind == "low-rank-float":
        return rng.normal(size=(m + n, max(1, m // 2)))
    if kind == "identity":
        test = rng.integers(-1, 2, size=(n, m)).astype(float)
        return np.vstack([np.eye(m), test])
    if kind == "near-tie":
        base = rng.integers(-1, 2, size=(m + n, 3)).astype(float)
        return base + rng.choice([0.0, 2.0**-40, -(2.0**-45)], size=base.shape)
    width = 2 if kind == "low-rank" else 3
    features = rng.integers(-2, 3, size=(m + n, width)).astype(float)
    if kind == "duplicates":
        features[1:m] = features[rng.integers(0, max(1, m // 2), m - 1)]
    if kind == "zero-rows":
        features[rng.random(m + n) < 0.4] = 0.0
    return features


def _tolerances(rng: np.random.Generator, m: int, n: int) -> Drawn:
    """Entries around the tolerances of solvers, beside ordinary ones; the diagonal dominates."""
    off = np.triu(_small(rng, (m, m)), 1)
    K = off + off.T + np.diag(rng.choice([0.5, 1.0, 1.0, 2.0], m))
    ordinary = rng.normal(size=(n, m)) if rng.random() < 0.5 else rng.integers(-2, 3, size=(n, m)).astype(float)
    return K, np.where(rng.random((n, m)) < rng.choice([0.0, 0.5, 0.9], (n, 1)), _small(rng, (n, m)), ordinary)


def _small(rng: np.random.Generator, shape: tuple[int, ...]) -> Float:
    """Numbers from 1e-11 to 1e-6 of either sign, and zeros."""
    size = 10.0 ** rng.uniform(-11, -6, shape)
    if rng.random() < 0.5:  # few digits: exact ties are then possible
        size = np.exp2(np.round(np.log2(size)))
    return size * rng.choice([-1.0, 0.0, 1.0, 1.0], shape)


def _gaussian(rng: np.random.Generator, m: int, n: int) -> Drawn:
    """A Gaussian kernel of any width, from all ones to the identity, and below the smallest float64."""
    points = rng.normal(size=(m + n, int(rng.integers(1, 4))))
    power = rng.uniform(-6, 2.5) if rng.random() < 0.5 else rng.uniform(0, 1.3)  # often around solvers' tolerances
    K = np.exp(-(10.0**power) * np.sum((points[:, None] - points[None]) ** 2, axis=2))
    return K[:m, :m], K[m:, :m]


def _integers(rng: np.random.Generator, m: int, n: int) -> Drawn:
    """Small integers: singular with test rows in its range, or definite with any test rows."""
    X = rng.integers(-2, 3, size=(m + n, int(rng.integers(2, m + 2)))).astype(float)
    K = X @ X.T
    if rng.random() < 0.5:
        return K[:m, :m], K[m:, :m]
    return K[:m, :m] + np.eye(m), rng.integers(-3, 4, size=(n, m)).astype(float)


def _graded(rng: np.random.Generator, m: int, n: int) -> Drawn:
    """Scales of labels that fall by powers of two, from 1 to at most 2**-28."""
    K, rows = _integers(rng, m, n)
    d = 2.0 ** -np.sort(rng.integers(0, int(rng.integers(4, 29)), m)).astype(float)
    return K * d[:, None] * d, rows * d


def _badly_scaled(rng: np.random.Generator, m: int, n: int) -> Drawn:
    """Scales of labels and of test nodes that have nothing to do with each other."""
    K, rows = _integers(rng, m, n)
    d = 2.0 ** rng.integers(-20, 21, m).astype(float)
    if rng.random() < 0.5:
        d = np.where(rng.random(m) < 0.5, d, 10.0 ** rng.integers(0, 3))
    return K * d[:, None] * d, rows * d * 2.0 ** rng.integers(-40, 21, (n, 1)).astype(float)


def _tiny_rows(rng: np.random.Generator, m: int, n: int) -> Drawn:
    """Test rows, and sometimes labels, of about 1e-170 beside ordinary ones."""
    K, rows = _integers(rng, m, n)
    d = np.ones(m)
    if rng.random() < 0.4:
        d[1:] = rng.choice([1.0, 2.0**-282, 2.0**-30], m - 1)
    factors = rng.choice([1.0, 2.0**-565, 2.0**-600, 2.0**-300], (n, 1))
    rows[0], factors[0] = K[0], 1.0  # a row of K is in its range
    return K * d[:, None] * d, rows * d * factors


def _last_bits(rng: np.random.Generator, m: int, n: int) -> Drawn:
    """Ties that the last bits break: small integers times 1 ± a few units of 2**-52."""
    share = rng.choice([0.2, 0.6])

    def nudged(A: Float) -> Float:
        ulps = rng.integers(-4, 5, A.shape) * (rng.random(A.shape) < share)
        return np.asarray(A * (1 + ulps * 2.0**-52))

    X = rng.integers(-1, 2, size=(m, 2)).astype(float)
    K = np.eye(m) if rng.random() < 0.5 else X @ X.T + np.eye(m)
    if rng.random() < 0.5:
        upper = np.triu(nudged(K))
        K = upper + np.triu(upper, 1).T
    return K, nudged(rng.integers(-2, 3, size=(n, m)).astype(float))


_TREACHEROUS: dict[str, Callable[[np.random.Generator, int, int], Drawn]] = {
    "tolerances": _tolerances,
    "gaussian": _gaussian,
    "graded": _graded,
    "badly-scaled": _badly_scaled,
    "tiny-rows": _tiny_rows,
    "last-bits": _last_bits,
}

TREACHEROUS = tuple(_TREACHEROUS)
"""Entries around the tolerances of solvers, any width, any scale, underflow, ties broken by the last bits."""
