"""Each kind of bad input has its own message."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import labelcert
from labelcert import InvalidInput, Threat, WorkTooLarge, certify

EYE = np.eye(4)
LABELS = [0, 1, 0, 1]
ROWS = np.ones((2, 4))


def attempt(**changes: Any) -> labelcert.Certificate:
    arguments: dict[str, Any] = {"K_train": EYE, "labels": LABELS, "K_test": ROWS, "C": 1.0, **changes}
    return certify(**arguments)


def test_the_base_case_is_fine() -> None:
    assert attempt().exact


NAN = EYE.copy()
NAN[1, 2] = np.nan
SKEW = EYE.copy()
SKEW[0, 1] = 0.5
INDEFINITE = np.eye(4)
INDEFINITE[0, 1] = INDEFINITE[1, 0] = 2.0
NEGATIVE = np.diag([1.0, 1.0, -1.0, 1.0])
SINGULAR = np.diag([1.0, 1.0, 1.0, 0.0])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"K_train": np.ones((3, 4))}, r"K_train must be square.*got 3x4"),
        ({"K_train": np.eye(3)}, r"K_train must have one row per label: 4 labels.*3x3"),
        ({"K_train": np.ones(4)}, r"K_train must be a matrix.*shape \(4,\)"),
        ({"K_train": NAN}, r"K_train must be finite, but entry \(1, 2\) is nan"),
        ({"K_train": SKEW}, r"K_train must be symmetric, but entry \(0, 1\) is 0.5"),
        ({"K_train": INDEFINITE}, r"positive semidefinite, but its smallest eigenvalue is -1"),
        ({"K_train": NEGATIVE}, r"diagonal entry 2 is -1"),
        ({"K_train": EYE.astype(complex)}, r"K_train must be a matrix of real numbers.*complex"),
        ({"K_train": EYE.astype(object)}, r"real numbers, got dtype object"),
        ({"K_train": SINGULAR}, r"K_test row 0 does not fit K_train"),
        ({"K_test": np.ones((2, 3))}, r"K_test must have one row per test node.*got shape \(2, 3\)"),
        ({"K_test": np.ones((4, 3))}, r"looks transposed"),
        ({"K_test": np.ones((0, 4))}, r"K_test has no rows"),
        ({"K_test": np.full((1, 4), np.inf)}, r"K_test must be finite"),
        ({"labels": [0, 0, 0, 0]}, r"two classes, but all 4 are"),
        ({"labels": []}, r"labels is empty"),
        ({"labels": [[0, 1, 0, 1]]}, r"labels must be a flat sequence"),
        ({"labels": [0.0, np.nan, 1.0, 0.0]}, r"label 1 is nan"),
        ({"labels": np.array(["a", None, "b", "a"], dtype=object)}, r"label 1 is None"),
        ({"labels": np.array(["a", 3, "b", "a"], dtype=object)}, r"mix of int, str"),
        ({"C": 0.0}, r"C must be a positive finite number, got 0.0"),
        ({"C": -1}, r"C must be a positive"),
        ({"C": float("nan")}, r"C must be a positive finite number, got nan"),
        ({"C": "1"}, r"C must be a positive finite number, got '1'"),
        ({"C": 1e-13}, r"C must be between"),
        ({"max_flips": 5}, r"max_flips must be a whole number between 0 and 4 \(all labels\), got 5"),
        ({"max_flips": -1}, r"max_flips must be a whole number between 0 and 4"),
        ({"max_flips": 1.5}, r"max_flips must be a whole number between .*, got 1.5"),
        ({"K_train": [[1.0, 0.0], [0.0]]}, r"K_train must be a matrix: rows of equal length"),
        ({"K_train": EYE * 1e200}, r"K_train has entries up to 1e\+200"),
        ({"K_test": ROWS * 1e-200}, r"K_test has entries up to 1e-200"),
        ({"labels": [10**30, 1, 1, 1]}, r"labels must be numbers, strings or booleans"),
        ({"threat": Threat(allowed_flips=[0])}, r"allowed_flips must be a mapping"),  # type: ignore[arg-type]
        ({"time_limit": float("inf")}, r"time_limit must be a positive number"),
        ({"time_limit": 0}, r"time_limit must be a positive number"),
        ({"workers": 0}, r"workers must be a whole number of at least 1"),
        (
            {"engine": "magic"},
            r"engine must be one of auto, closed-form, enumerate, relaxed, milp, milp-paper, got 'magic'",
        ),
        ({"engine": "closed-form", "C": 3.0}, r"engine='closed-form' does not apply.*engine='auto'"),
        ({"loss": "log"}, r"loss must be one of hinge, square"),
        ({"threat": {"trusted": []}}, r"threat must be a labelcert.Threat, got dict"),
        ({"threat": Threat(trusted=[True])}, r"trusted must have one entry per label, shape \(4,\)"),
        ({"threat": Threat(trusted=[0, 1])}, r"trusted must be a boolean mask"),
        ({"threat": Threat(costs=[1, 2])}, r"costs must have one entry per label"),
        ({"threat": Threat(costs=[1, 2, 0, 1])}, r"costs must be positive numbers, got 0"),
        ({"threat": Threat(costs=[1.0, 2.0, float("nan"), 1.0])}, r"costs must be positive numbers, got nan"),
        ({"threat": Threat(costs=[1.0, 2.0, 1.0, 0.123456789])}, r"round them: numpy.maximum\(numpy.round\(costs, 4\)"),
        ({"threat": Threat(costs=[1, 2, 10**6, 1])}, r"costs add up to 1000004 units, more than 100000; divide them"),
        ({"threat": Threat(allowed_flips={0: [7]})}, r"allowed_flips names the label 7"),
        ({"threat": Threat(groups=["a", "b"])}, r"groups must have one entry per label"),
        ({"threat": Threat(group_budgets=1)}, r"group_budgets needs groups"),
        ({"threat": Threat(groups=list("aabb"), group_budgets={"c": 1})}, r"names the group 'c'"),
        ({"threat": Threat(groups=list("aabb"), group_budgets=-1)}, r"whole number of at least 0, got -1"),
    ],
)
def test_message(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        attempt(**changes)


def test_too_large_says_what_would_fit() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(90, 100))
    with pytest.raises(WorkTooLarge, match=r"labellings.*max_flips=\d+ would fit.*time_limit"):
        certify(X @ X.T, np.arange(90) % 2, rng.normal(size=(2, 100)) @ X.T, C=10.0, max_flips=90)


def test_accepts_what_users_have() -> None:
    import pandas as pd

    expected = attempt()
    for K in (EYE.tolist(), EYE.astype(np.float32), np.asfortranarray(EYE), EYE.astype(int), pd.DataFrame(EYE)):
        assert np.array_equal(attempt(K_train=K).radius_lower, expected.radius_lower)
    for labels in (pd.Series(LABELS), tuple(LABELS), np.array(LABELS, dtype=bool), ["no", "yes", "no", "yes"]):
        assert np.array_equal(attempt(labels=labels).radius_lower, expected.radius_lower)


def test_rounding_asymmetry_and_indefiniteness_are_absorbed() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(12, 3))
    K = X @ X.T
    K[0, 1] += 1e-15
    cert = certify(K[:8, :8], np.arange(8) % 2, K[8:, :8], C=1.0)
    assert cert.exact
    assert 0 < cert.run.kernel_shift < 1e-10


def test_exactly_singular_kernels_are_kept_to_the_bit() -> None:
    X = np.array([[1.0, 0], [1, 0], [0, 2], [0, 0], [1, 1]])
    K = X @ X.T
    cert = certify(K[:4, :4], [0, 1, 0, 1], K[4:, :4], C=1.0)
    assert cert.run.kernel_shift == 0.0
