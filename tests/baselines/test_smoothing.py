"""Smoothing beside brute force: every noise pattern, and every change of labels."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
import scipy.optimize
from tests.helpers.problems import blobs, gaussian

from labelcert import Certificate, InvalidInput, certify, certify_baseline
from labelcert.baselines.likelihood import best_threshold, divergence_threshold
from labelcert.baselines.smoothing import chernoff

KINDS = ("smoothing", "tighter-smoothing")


def duplicates(m: int, n: int, *, classes: int, seed: int) -> tuple[Any, Any, Any]:
    """Every labelled point occurs twice, so that many noisy scores tie."""
    K, codes, rows = blobs(m, n, classes=classes, seed=seed)
    twice = np.arange(m) // 2
    return K[np.ix_(twice, twice)], codes[twice], rows[:, twice]


def equal_weights(m: int, n: int, *, classes: int, seed: int) -> tuple[Any, Any, Any]:
    """The identity as a kernel, and rows of zeros, ones and minus ones: nearly all noisy scores tie somewhere."""
    rng = np.random.default_rng(seed)
    return np.eye(m), np.arange(m) % classes, rng.integers(-1, 2, (n, m)).astype(float)


PROBLEMS = {
    "two classes": lambda seed: gaussian(8, 12, seed=seed),
    "two blobs": lambda seed: blobs(8, 12, classes=2, seed=seed),
    "three blobs": lambda seed: blobs(6, 12, classes=3, seed=seed),
    "duplicates": lambda seed: duplicates(8, 8, classes=2, seed=seed),
    "three duplicates": lambda seed: duplicates(6, 8, classes=3, seed=seed),
    "equal weights": lambda seed: equal_weights(7, 8, classes=2, seed=seed),
    "three equal weights": lambda seed: equal_weights(6, 8, classes=3, seed=seed),
}


def smoothed(K: Any, codes: Any, rows: Any, C: float, q: float) -> tuple[Any, Any]:
    """(K + 1, labellings, n) probability of each class, and of none, for every labelling; and the labellings."""
    m, classes = codes.size, int(codes.max()) + 1
    H = np.linalg.solve(K + np.eye(m) / (2 * C), rows.T).T
    labellings = np.array(list(itertools.product(range(classes), repeat=m)))
    scores = np.array([(labellings == c) @ H.T for c in range(classes)])
    top = scores.max(axis=0)
    near = scores > top - 1e-9 * np.abs(H).sum(axis=1)
    single = near.sum(axis=0) == 1
    predicts = np.array([*(near & single), ~single], dtype=float)
    channel = np.full((classes, classes), q / (classes - 1)) + np.eye(classes) * (1 - q - q / (classes - 1))
    tensor = predicts.reshape(classes + 1, *[classes] * m, rows.shape[0])
    for axis in range(1, m + 1):
        tensor = np.moveaxis(np.tensordot(channel, tensor, axes=(1, axis)), 0, axis)
    return tensor.reshape(classes + 1, len(labellings), rows.shape[0]), labellings


def exact_radii(K: Any, codes: Any, rows: Any, C: float, q: float) -> tuple[Any, Any]:
    """(n,) prediction of the smoothed classifier, and the fewest changes of labels after which it has no lead."""
    chance, labellings = smoothed(K, codes, rows, C, q)
    chance = chance[:-1]
    changes = (labellings != codes).sum(axis=1)
    clean = chance[:, changes == 0][:, 0]
    own = clean.argmax(axis=0)
    columns = np.arange(rows.shape[0])
    mine = chance[own, :, columns].T.copy()
    chance[own, :, columns] = -1
    lost = mine <= chance.max(axis=0) + 1e-12
    radii = np.where(lost, changes[:, None], codes.size + 1).min(axis=0)
    return own, radii


@pytest.mark.parametrize("noise", [0.002, 0.03, 0.1])
@pytest.mark.parametrize("kind", PROBLEMS)
def test_no_radius_exceeds_the_exact_one_of_the_smoothed_classifier(kind: str, noise: float) -> None:
    certified = 0
    for seed in range(4):
        K, labels, rows = PROBLEMS[kind](seed)
        for C in (0.02, 1.0):
            own, exact = exact_radii(K, labels, rows, C, noise)
            for using in KINDS:
                cert = certify_baseline(K, labels, rows, C, using=using, noise=noise)
                assert np.all(cert.radius_lower <= exact)
                known = cert.radius_lower > 0
                assert np.array_equal(cert.predictions[known], own[known])
                certified += int(known.sum())
    assert certified > 0


def test_some_radii_are_larger_than_one() -> None:
    """Else the tests above would not say much."""
    data = [blobs(8, 12, classes=2, seed=seed) for seed in range(4)]
    found = {using: [certify_baseline(*part, 0.02, using=using, noise=0.002) for part in data] for using in KINDS}
    best = {using: max(int(cert.radius_lower.max()) for cert in certs) for using, certs in found.items()}
    assert best["tighter-smoothing"] >= 2


def test_the_bound_on_the_probability_holds_and_is_close() -> None:
    rng = np.random.default_rng(0)
    patterns = np.array(list(itertools.product((1, -1, 0), repeat=6)))
    for _ in range(20):
        row = rng.normal(size=(1, 6))
        row *= np.sign(row.sum())
        mine = rng.uniform(0.6, 0.9, 6)
        theirs = (1 - mine) * rng.uniform(size=6)
        neither = 1 - mine - theirs
        weights = np.where(patterns == 1, mine, np.where(patterns == -1, theirs, neither)).prod(axis=1)
        chance = weights[patterns @ row[0] <= 1e-12].sum()
        [bound] = chernoff(row, np.zeros(1), mine, theirs, neither)
        assert math.log(chance) <= bound <= 0 if chance > 0 else bound <= 0
    rows = np.full((1, 400), 1 / 20)
    [bound] = chernoff(rows, np.zeros(1), np.full(400, 0.9), np.full(400, 0.1), np.zeros(400))
    assert bound == pytest.approx(400 * math.log(2 * math.sqrt(0.9 * 0.1)))  # the exponent of a fair coin's tail
    [wider] = chernoff(rows, np.array([0.01]), np.full(400, 0.9), np.full(400, 0.1), np.zeros(400))
    assert wider > bound


@pytest.mark.parametrize("n_classes", [2, 3, 5])
@pytest.mark.parametrize("q", [0.01, 0.1, 0.3])
def test_the_tight_threshold_is_that_of_the_best_event(n_classes: int, q: float) -> None:
    for r in range(4):
        before, after = _moved_laws(n_classes, q, r)
        best = scipy.optimize.linprog(before, A_ub=[-after], b_ub=[-0.5], bounds=(0, 1), method="highs").fun
        assert math.exp(best_threshold(q, n_classes, r)) == pytest.approx(best, rel=1e-6)
        assert math.exp(best_threshold(q, n_classes, r)) <= best * (1 + 1e-9)


def _moved_laws(n_classes: int, q: float, r: int) -> tuple[Any, Any]:
    """Probabilities of all noisy values of r labels of class 0, and of the same labels moved to class 1."""
    values = np.array(list(itertools.product(range(n_classes), repeat=r)), dtype=int).reshape(n_classes**r, r)
    other = q / (n_classes - 1)
    return tuple(np.where(values == c, 1 - q, other).prod(axis=1) for c in (0, 1))  # type: ignore[return-value]


@pytest.mark.parametrize("n_classes", [2, 3, 10])
def test_thresholds_fall_and_the_tight_one_is_larger(n_classes: int) -> None:
    for q in (0.01, 0.1, 0.4):
        loose = [divergence_threshold(q, n_classes, r) for r in range(40)]
        tight = [best_threshold(q, n_classes, r) for r in range(40)]
        assert np.all(np.diff(loose) < 0)
        assert np.all(np.diff(tight) < 0)
        assert np.all(np.array(tight[1:]) > loose[1:])
        assert tight[0] == pytest.approx(math.log(0.5))
        assert max(loose[0], tight[0]) <= math.log(0.5)


def test_the_divergence_is_that_of_the_distributions() -> None:
    for n_classes, q in itertools.product((2, 4), (0.05, 0.3)):
        before, after = _moved_laws(n_classes, q, 2)
        divergence = float(np.sum(after * np.log(after / before)))
        u = math.exp(divergence_threshold(q, n_classes, 2))
        assert -0.5 * math.log(4 * u * (1 - u)) == pytest.approx(divergence)


def test_the_published_formula() -> None:
    """Robust to r flips, if r is below ``log(4p(1−p)) / (2 (1−2q) log(q/(1−q)))``."""
    for q, u in itertools.product((0.05, 0.2), (0.2, 1e-3, 1e-9)):
        radius = math.log(4 * u * (1 - u)) / (2 * (1 - 2 * q) * math.log(q / (1 - q)))
        safe = [r for r in range(60) if math.log(u) < divergence_threshold(q, 2, r)]
        assert len(safe) == math.ceil(radius)


def certified(using: str, **options: Any) -> Certificate:
    return certify_baseline(*blobs(40, 30, classes=2, seed=1), 0.05, using=using, **options)


def test_the_tight_radii_are_never_below_the_published_ones() -> None:
    loose, tight = (certified(using) for using in KINDS)
    assert np.all(tight.radius_lower >= loose.radius_lower)
    assert np.any(tight.radius_lower > loose.radius_lower)
    assert np.array_equal(tight.radius_lower > 0, loose.radius_lower > 0)


def test_scale_does_not_matter() -> None:
    K, labels, rows = blobs(30, 20, classes=3, seed=2)
    one = certify_baseline(K, labels, rows, 0.5, using="tighter-smoothing", noise=0.02)
    two = certify_baseline(K * 2.0**-30, labels, rows * 2.0**-100, 0.5 * 2.0**30, using="tighter-smoothing", noise=0.02)
    assert np.array_equal(one.radius_lower, two.radius_lower)
    assert one.radius_lower.max() > 1


def test_nodes_without_a_majority_have_no_prediction() -> None:
    K, labels, rows = gaussian(10, 6, seed=3)
    rows[2] = 0.0
    cert = certify_baseline(K, labels, rows, 1.0, using="smoothing", noise=0.45)
    assert np.all(cert.radius_lower == 0)
    assert np.all(cert.radius_upper == cert.never)
    assert cert.certified_ratio(flips=0) == 0.0
    cert = certify_baseline(K, labels, rows, 1.0, using="smoothing", noise=0.01)
    assert cert.radius_lower[2] == 0
    assert cert.radius_lower.max() > 0


@pytest.mark.parametrize("noise", [0, 0.5, 0.7, -0.1, float("nan"), "0.1", True])
def test_bad_noise(noise: Any) -> None:
    with pytest.raises(InvalidInput, match=r"noise must be between 0 and 0\.5"):
        certify_baseline(*gaussian(6, 3), 1.0, using="smoothing", noise=noise)


def test_less_noise_comes_close_to_the_model_itself() -> None:
    """Without noise, the smoothed classifier is the ridge model."""
    K, labels, rows = blobs(30, 20, classes=2, seed=4)
    ridge = certify(K, labels, rows, 0.1, loss="square")
    cert = certify_baseline(K, labels, rows, 0.1, using="tighter-smoothing", noise=1e-4)
    assert np.array_equal(cert.predictions, ridge.predictions)
    assert np.all(cert.radius_lower <= ridge.radius_upper)
