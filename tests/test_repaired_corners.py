"""Corners in which certificates were once wrong, refused or slow."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from sklearn.neighbors import RadiusNeighborsClassifier

import labelcert
from labelcert import Certificate, Threat, selfcheck
from tests.helpers.certificates import same
from tests.helpers.problems import blobs, hand_made


def gaussian_case(k: int) -> tuple[tuple[Any, ...], int]:
    """Arguments of certify, and a budget: plain Gaussian kernels whose entries go down to 1e-9 and less."""
    rng = np.random.default_rng([9, k])
    m, n = int(rng.integers(6, 12)), 8
    classes = int(rng.choice([2, 2, 3]))
    points = rng.normal(size=(m + n, 2)) * rng.choice([2.0, 3.0, 4.0])
    G = np.exp(-np.sum((points[:, None] - points[None]) ** 2, axis=2) * rng.choice([0.5, 1.0]))
    labels = np.concatenate([np.arange(classes), rng.integers(0, classes, m - classes)])
    C = float(rng.choice([0.5, 1.0, 2.0, 10.0]))
    return (G[:m, :m], labels, G[m:, :m], C), int(rng.integers(1, 4))


@pytest.mark.parametrize(("k", "curve"), [(20, [0, 2, 4, 5]), (107, [0, 4, 6])])
@pytest.mark.parametrize("engine", ["milp", "enumerate", "auto"])
def test_curves_of_gaussian_kernels_with_three_classes(k: int, curve: list[int], engine: str) -> None:
    arguments, budget = gaussian_case(k)
    cert = labelcert.certify(*arguments, max_flips=budget, engine=engine, workers=1)
    assert cert.exact
    assert cert.collective_lower.tolist() == cert.collective_upper.tolist() == curve


def test_auto_with_a_time_limit_on_nearly_orthogonal_labels() -> None:
    K = np.eye(40)
    K[:3, :3] = [[1.0, 1.5000000000000002e-08, -2e-09], [1.5000000000000002e-08, 1.0, 6e-09], [-2e-09, 6e-09, 1.0]]
    rows = np.zeros((3, 40))
    rows[:, :3] = [
        [-0.4347148710605735, -0.04469434081630246, 1.9284391317883862],
        [0.08400586975058975, 1.4980516316677839, 0.021591298492006764],
        [-1.742470769234515, -1.166236363177276, -0.05515323991883997],
    ]
    labels = [-4, -4, 3] + [-4, 3] * 18 + [3]
    threat = Threat(costs=[3, 1, 2] + [1] * 37)
    cert = labelcert.certify(K, labels, rows, 1.0, max_flips=6, time_limit=6.0, threat=threat)
    truth = np.array([0, 1, 1, 2, 2, 2, 3])
    assert np.all(cert.collective_lower <= truth)
    assert np.all(truth <= cert.collective_upper)


def test_radii_of_ridge_do_not_depend_on_the_size_of_rows() -> None:
    """Squares of entries around 1e-170 are zero in float64."""
    X = np.array([[3.0, 0], [-3, -2], [-3, 2], [0, -2], [3, -2]])
    K = X @ X.T
    rows = np.array([[-3.0, -3], [-1, -2], [-2, 1], [-1, 2], [-3, 3], [1, -2]]) @ X.T
    labels = [0, 1, 0, 1, 0]
    truth = selfcheck.brute_force(hand_made(K, labels, np.vstack([K[:1], rows]), 1e6, loss="square"))
    for factor in (1.0, 2.0**-300, 2.0**-565):
        cert = labelcert.certify(K, labels, np.vstack([K[:1], rows * factor]), C=1e6, loss="square")
        assert cert.exact
        assert cert.radius_lower.tolist() == cert.radius_upper.tolist() == truth.radius
        assert cert.collective_lower.tolist() == truth.curve


@pytest.mark.parametrize("engine", ["auto", "enumerate", "milp"])
def test_scores_below_the_smallest_normal_number(engine: str) -> None:
    X = np.array([[10.0, 0, 0], [1.0, 0, 0], [0, 1.0, 0], [0, 0, 1.0]])
    K = X @ X.T + np.diag([1e-3, 0, 0, 0])
    case = hand_made(K, ["a", "a", "b", "c"], [[1.0, 1e-310, 1e-311, 1e-311]], 1e3)
    assert selfcheck.compare(case, selfcheck.brute_force(case), engine, workers=1) == []


def badly_scaled(seed: int, classes: int, rows: int = 3) -> tuple[Any, ...]:
    """Integer points whose lengths differ by 2**54, with a large cap."""
    rng = np.random.default_rng(seed)
    d = 2.0 ** rng.integers(-27, 28, 5).astype(float)
    X = rng.integers(-2, 3, size=(5, 5)).astype(float)
    K = (X @ X.T + np.eye(5)) * d[:, None] * d[None]
    R = rng.integers(-3, 4, size=(rows, 5)) * d[None]
    return K, [*range(classes), *rng.integers(0, classes, 5 - classes).tolist()], R, 2.0**30


def test_decision_values_have_the_sign_of_predictions() -> None:
    compared = 0
    for seed in range(50):
        try:
            cert = labelcert.certify(*badly_scaled(seed, 2), max_flips=0)
        except labelcert.InvalidInput:
            continue
        decided = cert.radius_lower > 0
        assert np.array_equal(cert.decision_values[decided] > 0, cert.predictions[decided] == 1)
        compared += int(decided.sum())
    assert compared > 60


@pytest.mark.parametrize("engine", ["auto", "enumerate", "milp"])
def test_badly_scaled_kernels_of_three_classes_raise_no_warnings(engine: str) -> None:
    """And are decided: sums of such numbers overflowed in a cast."""
    compared = 0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for seed in range(8):
            K, labels, R, C = badly_scaled(seed, 3)
            case = hand_made(K, labels, R, C, max_flips=1)
            try:
                case.build()
            except labelcert.InvalidInput:
                continue
            assert selfcheck.compare(case, selfcheck.brute_force(case), engine, workers=1) == []
            compared += 1
    assert compared > 3


POINTS = np.array([[1.0], [2.0], [-1.0]])
ONES = [[1.0, 1.0, 1.0]]

ACCEPTED: dict[str, Callable[[], Certificate]] = {
    "ridge, a row outside of the range": lambda: labelcert.certify(
        POINTS @ POINTS.T, [0, 1, 1], ONES, C=1.0, loss="square"
    ),
    "all labels at their cap": lambda: labelcert.certify(POINTS @ POINTS.T, [0, 1, 1], ONES, C=0.01),
    "diagonal of -1e-19": lambda: labelcert.certify(np.diag([1.0, 1, -1e-19]), [0, 1, 1], [[1.0, 0.5, 0]], C=1.0),
    "diagonal of 1e-17": lambda: labelcert.certify(np.diag([1.0, 1, 1e-17]), [0, 1, 1], [[1.0, 0.5, 0.5]], C=1.0),
    "keys of a dictionary": lambda: labelcert.certify(
        np.eye(3), ["a", "b", "b"], [[1.0, 0.5, 0.2]], C=1.0, threat=Threat(allowed_flips={"a": {"b": 0}.keys()})
    ),
}


@pytest.mark.parametrize("name", ACCEPTED)
def test_what_is_well_defined_is_accepted(name: str) -> None:
    assert ACCEPTED[name]().exact


def test_what_was_refused_is_right_now() -> None:
    for loss, C in (("square", 1.0), ("hinge", 0.01)):
        case = hand_made(POINTS @ POINTS.T, [0, 1, 1], ONES, C, loss=loss)
        assert selfcheck.compare(case, selfcheck.brute_force(case), "auto") == []


@pytest.mark.parametrize("m", [8, 12])
def test_ties_of_one_node_stay_cheap_beside_a_node_that_nothing_changes(m: int) -> None:
    """Nearly half of all labellings are ties of the first node; a handful of them have to be looked at."""
    rows = np.zeros((2, m))
    rows[0, :2] = 1
    rows[1, 0] = 1
    labels = [1, 1] + [i % 2 for i in range(2, m)]
    threat = Threat(trusted=np.arange(m) == 0)
    cert = labelcert.certify(np.eye(m), labels, rows, C=2.0, threat=threat, workers=1, engine="enumerate")
    assert cert.exact
    assert cert.radius_lower.tolist() == [1, m + 1]
    assert cert.run.stages[0].statistics["decided_in_rational_arithmetic"] <= 4 * m


def test_large_costs_take_as_long_as_small_ones() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(11, 5))
    G = X @ X.T
    costs = [9001, 9013, 12007, 14009, 15013, 17011, 18013]
    arguments = (G[:7, :7] + np.eye(7), [0, 1, 0, 1, 0, 1, 1], G[7:, :7], 1.0)
    cert = labelcert.certify(*arguments, loss="square", threat=Threat(costs=costs))
    assert cert.exact
    assert cert.max_flips == sum(costs)
    walked = labelcert.certify(*arguments, loss="square", threat=Threat(costs=costs), engine="enumerate")
    same(cert, walked)


def test_rivals_that_tie_above_a_prediction_settle_it() -> None:
    """The lead of 0.34 is below the margin of 8: the radius is 0, whichever of two tied rivals is ahead."""
    K = [[1.0, 0, 1, 0, 2], [0, 0, 0, 0, 0], [1, 0, 1, 0, 2], [0, 0, 0, 4, -4], [2, 0, 2, -4, 8]]
    row = [[1.0, 0, 1, -2, 4]]
    cert = labelcert.certify(K, [3, 1, 2, 0, 0], row, 12.5, loss="cross_entropy", margin=8.0)
    assert cert.exact
    assert cert.radius_upper.tolist() == [0]


def test_neighbours_within_a_radius_of_few_points() -> None:
    """With few points, scikit-learn hands out read-only arrays of neighbours."""
    X = np.random.default_rng(0).normal(size=(12, 2))
    cert = labelcert.from_sklearn(RadiusNeighborsClassifier(3.0)).certify(X[:8], [0, 1] * 4, X[8:])
    assert cert.exact


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge", "logistic", "cross_entropy", "square"])
@pytest.mark.parametrize("classes", [2, 3])
def test_time_that_is_over_before_a_model_is_trained(loss: str, classes: int) -> None:
    """More than 300 labels: nothing is known then, and everything says so."""
    K, y, rows = blobs(310, 5, classes=classes, seed=0)[:3]
    arrays, how = (K, y, rows, 1.0), {"loss": loss, "time_limit": 1e-9}
    cert = labelcert.certify(*arrays, **how, margin=0.1, max_flips=1)
    assert cert.run.margin == 0.1
    assert not cert.radius_lower.any()
    assert labelcert.verify(cert, K, y, rows).accepted
    found = labelcert.noise(*arrays, **how, wrong=0.01)
    assert not found.lower.any()
    assert np.all(found.upper == 1.0)
    advice = labelcert.recheck(*arrays, **how, flips=1, confirm=1)
    assert advice.after_upper[-1:] in ([], [1.0]) or advice.before <= advice.best_possible
