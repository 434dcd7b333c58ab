"""Classes that lose their last label are dropped, as estimators do: the verifier trains on those that are left."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from tests.verification.test_losses import THREATS, larger_radius

from labelcert import Threat, from_sklearn, verify
from labelcert.certification import GivenKernel, GivenRows, Run, Task, solve


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge", "logistic", "square"])
@pytest.mark.parametrize("seed", range(8))
def test_kernel_machines(loss: str, seed: int) -> None:
    rng = np.random.default_rng([9, seed])
    y = np.array([0, 0, 0, 1, 1, 1, 2, [2, 0][seed % 2]])
    X, T = rng.normal(size=(8, 3)) + y[:, None], rng.normal(size=(6, 3)) + 1.0
    model = GivenKernel(X @ X.T + np.eye(8), T @ X.T, 1.0, loss, drops_to=loss)
    cert = solve(Task(model, y, THREATS[seed % 3], max_flips=3), Run())
    found = verify(cert)
    assert found.complete, found
    lie = larger_radius(cert)
    assert lie is None or not verify(lie).accepted


@pytest.mark.parametrize("seed", range(30))
def test_linear_maps(seed: int) -> None:
    rng = np.random.default_rng([10, seed])
    y = np.array([0, 0, 0, 1, 1, 2, 2 - seed % 2])
    H = rng.integers(0, 3, (8, 7)) * 1.0 if seed % 2 else rng.random((8, 7))
    threat = Threat(costs=rng.integers(1, 3, 7)) if seed % 3 else Threat()
    cert = solve(Task(GivenRows(H, drops=True), y, threat, max_flips=4), Run())
    found = verify(cert, H=H)
    assert found.complete, found
    lie = larger_radius(cert)
    assert lie is None or not verify(lie, H=H).accepted


def test_what_is_left_out_is_said() -> None:
    rng = np.random.default_rng(0)
    y = np.array([0, 0, 0, 1, 1, 2])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        cert = from_sklearn(LogisticRegression(fit_intercept=False)).certify(rng.normal(size=(6, 2)), y, np.eye(2))
    found = verify(cert)
    assert found.accepted
    assert "does not train this loss on fewer classes" in str(found)
