"""Training by LAPACK, as with many labels, finds what compiled tableaus find, and can be stopped."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from labelcert import certify
from labelcert.losses import get_loss, softmax
from labelcert.losses.retraining import bound, retraining, settle, train_many, warm
from labelcert.losses.softmax import SoftmaxMachine
from labelcert.prediction import scoring
from labelcert.prediction.scoring import RetrainingScorer
from labelcert.problem import Problem
from labelcert.stopping import Stopped, stopped_by
from labelcert.svm import factors
from labelcert.svm.pivoting import new_scratch

LOSSES = [("hinge", False), ("squared_hinge", False), ("logistic", False), ("logistic", True), ("cross_entropy", True)]
ALL = pytest.mark.parametrize(("loss", "intercept"), LOSSES)


def problems(count: int) -> list[tuple[Any, Any, float]]:
    """Kernels, labels ±1 and constants: duplicates, fewer features than labels, one label in a class, extreme C."""
    rng, found = np.random.default_rng(0), []
    for k in range(count):
        m, d = int(rng.integers(2, 30)), int(rng.integers(1, 40))
        X = rng.normal(size=(m, d))
        if k % 3 == 0:
            X = X[rng.integers(m, size=m)]
        if k % 4 == 0:
            X = np.round(X)
        y = np.where(rng.random(m) < 0.5, 1.0, -1.0)
        if k % 5 == 0:
            y[:] = 1.0
        y[:2] = 1.0, -1.0
        shift = 0.0 if k % 2 else 1e-6
        found.append((X @ X.T + shift * np.eye(m), y, float(10.0 ** rng.uniform(-3, 3))))
    return found


@ALL
def test_finds_what_pivoting_finds(loss: str, intercept: bool) -> None:
    loose = 0
    for K, y, C in problems(150):
        test = np.vstack([K[:3], K[:3] - K[1:2]])
        problem = Problem.build(K, y, test, C, max_flips=0, loss=loss, intercept=intercept)
        scorer = RetrainingScorer(problem)
        usual = scorer.train(problem.y)
        s, y = new_scratch(scorer.machine.Q.shape[0]), problem.y.copy()
        train_many(scorer.retraining, s, y)
        tau, _ = bound(scorer.retraining, s, y, False)
        apart = np.abs(scorer.rows @ s.z - scorer.scores(usual)).max()
        assert not apart > 1.01 * (tau + usual.tau) + 1e-12
        size = 1e-12 + np.abs(scorer.scores(usual)).max()
        loose += not min(tau, apart) <= 1e-5 * size
    assert loose <= 4


@ALL
def test_prepares_what_pivoting_starts_from(loss: str, intercept: bool) -> None:
    for K, y, C in problems(40):
        Q = K + 0.1 * np.eye(y.size)
        Q.setflags(write=False)
        made = retraining(get_loss(loss, intercept=intercept).machine(Q, C, 0.05, None))
        s = new_scratch(made.machine.values.Q.shape[0])
        train_many(made, s, y)
        warm(made, s, y)
        before = s.z.copy()
        assert 0 <= settle(made, s, y) <= 2
        np.testing.assert_allclose(s.z, before, atol=1e-7 * (1e-9 + np.abs(before).max()))


@ALL
def test_neighbours_start_from_it(monkeypatch: pytest.MonkeyPatch, loss: str, intercept: bool) -> None:
    rng = np.random.default_rng(1)
    X = rng.normal(size=(70, 30))
    y = np.where(X[:, 0] + rng.normal(size=70) > 0, 1.0, -1.0)
    problem = Problem.build(X @ X.T, y, X[:20] @ X.T, 0.1, max_flips=2, loss=loss, intercept=intercept)
    usual = RetrainingScorer(problem)
    monkeypatch.setattr(scoring, "LARGEST_COLD", 10)
    many = RetrainingScorer(problem)
    for flips in (0, 1, 1, 2, 0, 30, 5, 16):
        labels = problem.y.copy()
        labels[rng.permutation(70)[:flips]] *= -1.0
        one, two = usual.train(labels), many.train(labels, sharp=bool(flips % 2))
        assert np.isfinite(two.tau)
        apart = np.abs(usual.scores(one) - many.scores(two)).max()
        assert apart <= 1.01 * (one.tau + two.tau)
        assert not two.sharp or two.tau <= 2.0 * one.tau + 1e-5 * np.abs(many.scores(two)).max()


def test_factors_are_those_of_lapack() -> None:
    rng = np.random.default_rng(2)
    for m in (1, 5, factors.BLOCK, 2 * factors.BLOCK + 3):
        X = rng.normal(size=(m, m))
        A = X @ X.T + np.eye(m)
        L = factors.factor(A.copy())
        np.testing.assert_allclose(np.tril(L), np.linalg.cholesky(A), atol=1e-9 * m)
        np.testing.assert_allclose(A @ factors.solve(L, X), X, atol=1e-8 * m)
    with pytest.raises(np.linalg.LinAlgError):
        factors.factor(-np.eye(3))


@ALL
def test_stops_when_the_run_is_over(loss: str, intercept: bool) -> None:
    K, y, C = problems(2)[1]
    made = retraining(get_loss(loss, intercept=intercept).machine(K + np.eye(y.size), C, 0.5, None))
    s = new_scratch(made.machine.values.Q.shape[0])
    with stopped_by(lambda: True), pytest.raises(Stopped):
        train_many(made, s, y)


@ALL
def test_compiled_training_gives_up_and_its_error_bound_says_so(loss: str, intercept: bool) -> None:
    """From nothing, and from the solution for other labels; afterwards it trains as ever."""
    rng = np.random.default_rng(5)
    X, y = rng.normal(size=(40, 20)), np.where(rng.random(40) < 0.5, 1.0, -1.0)
    K = X @ X.T + np.eye(40)
    made = retraining(get_loss(loss, intercept=intercept).machine(K, 3.0, 0.9, None))
    stop = np.ones(1, dtype=np.int8)
    s = new_scratch(made.machine.values.Q.shape[0])._replace(stop=stop)
    for labels in (y, rng.permutation(y)):
        assert settle(made, s, labels) < 0
        poor, z = bound(made, s, labels, False)[0], s.z.copy()
        stop[0] = 0
        assert settle(made, s, labels) > 0
        tau, _ = bound(made, s, labels, False)
        moved = K / np.linalg.norm(K, axis=1).max() @ (z - s.z)[:40]
        assert np.abs(moved).max() <= 1.01 * (poor + tau) or intercept
        assert not poor < 1e3 * tau
        stop[0] = 1


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge", "logistic", "cross_entropy", "square"])
@pytest.mark.parametrize("classes", [2, 3])
def test_no_time_at_all_gives_open_intervals(loss: str, classes: int) -> None:
    rng = np.random.default_rng(3)
    X = rng.normal(size=(320, 5))
    cert = certify(X @ X.T, rng.integers(classes, size=320), X[:7] @ X.T, 1.0, loss=loss, time_limit=1e-9)
    assert (cert.radius_lower == 0).all()
    assert (cert.radius_upper == cert.never).all()
    assert (cert.collective_upper == 7).all()
    assert cert.run.stopped.value == "time limit"


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge", "logistic", "square"])
def test_budget_0_agrees_with_scikit_learn(loss: str) -> None:
    from sklearn.kernel_ridge import KernelRidge
    from sklearn.svm import LinearSVC

    rng = np.random.default_rng(4)
    X, T = rng.normal(size=(400, 12)), rng.normal(size=(50, 12))
    y = (X[:, 0] + rng.normal(size=400) > 0).astype(int)
    K, K_test = X @ X.T, T @ X.T
    cert = certify(K, y, K_test, 0.3, loss=loss, max_flips=0)
    if loss == "square":
        scores = KernelRidge(alpha=1 / 0.6, kernel="precomputed").fit(K, 2.0 * y - 1.0).predict(K_test)
    elif loss == "logistic":
        from scipy.optimize import minimize

        signs = 2.0 * y - 1.0

        def objective(w: Any) -> float:
            return float(0.5 * w @ w + 0.3 * np.logaddexp(0, -signs * (X @ w)).sum())

        scores = T @ minimize(objective, np.zeros(12)).x
    else:
        model = LinearSVC(loss=loss, C=0.3, fit_intercept=False, tol=1e-9, max_iter=1_000_000, dual=True)
        scores = model.fit(X, y).decision_function(T)
    np.testing.assert_allclose(cert.decision_values, scores, atol=2e-4)
    assert (cert.radius_lower == 1).all()


@pytest.mark.parametrize("intercept", [False, True])
def test_softmax_needs_no_system(monkeypatch: pytest.MonkeyPatch, intercept: bool) -> None:
    rng = np.random.default_rng(5)
    for _ in range(40):
        m, classes = int(rng.integers(4, 30)), int(rng.integers(3, 5))
        X = rng.normal(size=(m, int(rng.integers(1, 20))))
        codes = (
            np.concatenate([np.arange(classes), rng.integers(classes, size=m - classes)])[None] if m > classes else 0
        )
        if not np.ndim(codes):
            continue
        machine = SoftmaxMachine.of(X @ X.T, float(10.0 ** rng.uniform(-2, 1)), classes, intercept=intercept)
        monkeypatch.setattr(softmax, "LARGEST_SYSTEM", 1500)
        usual, error = machine.train(codes)
        monkeypatch.setattr(softmax, "LARGEST_SYSTEM", 0)
        assert machine.inverse(usual[0]) is None
        for start in (None, usual[0] + 0.01):
            found, bound = machine.train(codes, start)
            apart = found[0, :, :m] - usual[0, :, :m]
            assert np.linalg.norm(apart) <= 1.01 * (bound[0] + error[0])
            assert bound[0] <= 100 * error[0] + 1e-6
