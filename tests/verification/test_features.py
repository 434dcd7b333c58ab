"""Linear models by their features: certified without a kernel, and verified without one."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tests.verification.test_losses import larger_radius

from labelcert import InvalidInput, certify, verify
from labelcert.certification.facades import certify_on_features
from labelcert.verification.statement import Statement
from labelcert.verification.trainers import machine_of

LOSSES = [("logistic", False), ("logistic", True), ("squared_hinge", False), ("cross_entropy", False)]


@pytest.mark.parametrize(("loss", "intercept"), [*LOSSES, ("cross_entropy", True)])
@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("seed", range(3))
def test_honest_ones_are_accepted_and_lies_are_not(loss: str, intercept: bool, classes: int, seed: int) -> None:
    rng = np.random.default_rng([3, seed])
    y = np.tile(np.arange(classes), 6)
    X = rng.normal(size=(y.size, 4)) + 0.7 * y[:, None]
    T = rng.normal(size=(5, 4)) + 0.7
    cert = certify_on_features(X, y, T, 1.5, loss=loss, intercept=intercept, max_flips=2)
    found = verify(cert, labels=y, X_train=X, X_test=T)
    assert found.complete, found
    assert not verify(cert, X_train=X, X_test=T[::-1]).accepted
    lie = larger_radius(cert)
    assert lie is None or not verify(lie, X_train=X, X_test=T).accepted
    lie = replace(cert, decision_values=cert.decision_values * 1.01)
    assert not verify(replace(lie, checksum=lie.computed_checksum()), X_train=X, X_test=T).accepted


@pytest.mark.parametrize(("loss", "intercept"), LOSSES)
def test_features_and_their_kernel_say_the_same(loss: str, intercept: bool) -> None:
    """Scores differ by no more than both bounds, which are small."""
    rng = np.random.default_rng(5)
    X, T, y = rng.normal(size=(40, 3)), rng.normal(size=(6, 3)), np.arange(40) % 2
    features = certify_on_features(X, y, T, 2.0, loss=loss, intercept=intercept, max_flips=0)
    kernel = certify(X @ X.T, y, T @ X.T, 2.0, loss=loss, intercept=intercept, max_flips=0)
    statements = Statement.of(features, None, None, None, features=(X, T)), Statement.of(kernel, None, None, None)
    Y = np.where(rng.random((7, 40)) < 0.5, 1.0, -1.0)
    one, other = (machine_of(statement, False, lambda: None).train(Y) for statement in statements)
    assert np.all(np.abs(one.value - other.value) <= one.error + other.error)
    assert one.error.max() < 1e-8


def test_what_is_missing_is_said() -> None:
    X, y = np.random.default_rng(0).normal(size=(8, 2)), np.arange(8) % 2
    cert = certify_on_features(X, y, X, 1.0, max_flips=1)
    with pytest.raises(InvalidInput, match="by its features, pass X_train, labels and X_test"):
        verify(cert)
    with pytest.raises(InvalidInput, match="both of X_train and X_test"):
        verify(cert, X_train=X)
    with pytest.raises(InvalidInput, match="need finite X_train with 8 rows"):
        verify(cert, X_train=X[1:], X_test=X)
