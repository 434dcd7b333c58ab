from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.helpers.problems import gaussian

from labelcert.prediction.scoring import RetrainingScorer
from labelcert.problem import Problem
from labelcert.selfcheck.brute_force import is_optimum
from labelcert.svm import train
from labelcert.svm.error_bound import bound
from labelcert.svm.exact import ExactSVM, in_range, is_psd, to_integers
from labelcert.svm.pivoting import CAP, FREE, ZERO, new_scratch, relabel, settle


def gap(K: np.ndarray, y: np.ndarray, C: float, z: np.ndarray) -> float:
    f = K @ z
    alpha = y * z
    assert np.all(alpha >= -1e-9 * C)
    assert np.all(alpha <= C * (1 + 1e-9))
    return float(z @ f + C * np.maximum(0, 1 - y * f).sum() - alpha.sum())


@pytest.mark.parametrize("C", [1e-6, 1e-3, 0.1, 1.0, 30.0, 1e3, 1e6])
@pytest.mark.parametrize("dims", [1, 2, 5, 40])
@pytest.mark.parametrize("m", [1, 2, 7, 30, 80])
def test_duality_gap(m: int, dims: int, C: float) -> None:
    rng = np.random.default_rng(m)
    X = rng.normal(size=(m, dims))
    K = X @ X.T
    y = np.where(rng.random(m) < 0.5, 1.0, -1.0)
    z = train(K, y, C)
    assert gap(K, y, C, z) <= 1e-6 * max(1.0, C * m)


def test_scikit_learn_agrees() -> None:
    from sklearn.svm import LinearSVC

    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 4))
    y = np.where(rng.random(30) < 0.5, 1.0, -1.0)
    model = LinearSVC(loss="hinge", fit_intercept=False, C=0.5, tol=1e-10, max_iter=10**7).fit(X, y)
    w = X.T @ train(X @ X.T, y, 0.5)
    assert np.allclose(w, model.coef_[0], atol=1e-5)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from([0.05, 0.7, 20.0]), st.sampled_from([2, 3, 12]))
def test_relabel_follows_the_optimum(seed: int, C: float, dims: int) -> None:
    rng = np.random.default_rng(seed)
    m = 12
    X = rng.normal(size=(m + 4, dims))
    K = X @ X.T
    labels = np.arange(m) % 2
    problem = Problem.build(K[:m, :m], labels, K[m:, :m], C)
    scorer = RetrainingScorer(problem)
    s, y = new_scratch(m), problem.y.copy()
    settle(scorer.machine, s, y)
    for i in rng.integers(0, m, 15):
        relabel(scorer.machine, s, y, int(i), -y[i])
        settle(scorer.machine, s, y)
        tau, _ = bound(scorer.machine, s, y, True)
        cold = scorer.train(y)
        assert np.all(np.abs(scorer.rows @ s.z - scorer.scores(cold)) <= tau + cold.tau)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from([1e-3, 0.3, 1.0, 50.0]), st.booleans())
def test_error_bound_holds_against_exact_scores(seed: int, C: float, degenerate: bool) -> None:
    rng = np.random.default_rng(seed)
    m = 7
    X = rng.integers(-2, 3, size=(m + 3, 3)).astype(float) if degenerate else rng.normal(size=(m + 3, 9))
    K = X @ X.T
    K = (K + K.T) / 2
    y = np.where(rng.random(m) < 0.5, 1.0, -1.0)
    problem = Problem.build(K[:m, :m], np.array([0, 1] * 3 + [0]), K[m:, :m], C)
    scorer = RetrainingScorer(problem)
    training = scorer.train(y)
    p, tau = scorer.scores(training), training.tau
    found = ExactSVM(problem.K_train, C).solution(y, np.full(m, CAP, dtype=np.int8))
    assert found is not None
    Z, D = [int(v) for v in found[0]], int(found[1])
    Q, shift = to_integers(problem.K_train)
    assert is_optimum(Q, 1 << shift, Fraction(C), tuple(y.astype(int).tolist()), Z, D)
    z = [Fraction(v, D) for v in Z]
    for t in range(3):
        exact = sum(Fraction(k) * v for k, v in zip(scorer.rows[t].tolist(), z, strict=True))
        assert abs(Fraction(p[t]) - exact) <= Fraction(tau)


def test_states_match_their_definition() -> None:
    K, labels, rows = gaussian(20, 3)
    problem = Problem.build(K, labels, rows, 1.0)
    scorer = RetrainingScorer(problem)
    trained = scorer.train(problem.y)
    assert trained.state is not None
    margin = problem.y * (K @ trained.z)
    alpha = problem.y * trained.z
    assert {ZERO, FREE, CAP} >= set(trained.state.tolist())
    assert np.all(alpha[trained.state == ZERO] == 0)
    assert np.allclose(alpha[trained.state == CAP], 1.0)
    assert np.allclose(margin[trained.state == FREE], 1.0)


def test_exact_helpers() -> None:
    rows, shift = to_integers(np.array([[0.75, 2.0**-60, 0.0]]))
    assert [v / 2**shift for v in rows[0]] == [0.75, 2.0**-60, 0.0]
    assert is_psd(np.zeros((2, 2)))
    assert not is_psd(np.diag([1.0, -(2.0**-1000)]))
    singular = np.array([[1.0, 1.0], [1.0, 1.0]])
    assert in_range(singular, np.array([[3.0, 3.0]]))
    assert not in_range(singular, np.array([[3.0, np.nextafter(3.0, 4)]]))


def test_criss_cross_agrees_with_block_pivoting() -> None:
    rng = np.random.default_rng(3)
    for _ in range(60):
        m = int(rng.integers(1, 7))
        X = rng.integers(-2, 3, size=(m, int(rng.integers(1, 5))))
        svm = ExactSVM((X @ X.T).astype(float), float(rng.choice([0.1, 0.5, 2.0])))
        y = rng.choice([-1.0, 1.0], m)
        one = svm.train(y, rng.integers(0, 3, m).astype(np.int8))
        two, _ = svm._criss_cross([int(v) for v in y])
        assert one is not None
        f1 = [sum(int(q) * int(v) for q, v in zip(row, one, strict=True)) for row in X @ X.T]
        f2 = [sum(int(q) * int(v) for q, v in zip(row, two, strict=True)) for row in X @ X.T]
        assert all(f1[i] * f2[j] == f1[j] * f2[i] for i in range(m) for j in range(m))


def test_bound_does_not_believe_a_solution_that_does_not_fit_its_states() -> None:
    K, labels, rows = gaussian(12, 5, dims=1)
    problem = Problem.build(K, labels, rows, 10.0)
    scorer = RetrainingScorer(problem)
    training = scorer.train(problem.y)
    best, tau_best = scorer.scores(training), training.tau
    rng = np.random.default_rng(0)
    s = scorer._scratch
    for _ in range(200):
        s.state[:] = rng.integers(0, 4, 12)
        s.z[:] = 10.0 * problem.y * rng.random(12)
        tau, _ = bound(scorer.machine, s, problem.y, True)
        assert np.all(np.abs(scorer.rows @ s.z - best) <= tau + tau_best)
    s.z[:] = np.nan
    assert not bound(scorer.machine, s, problem.y, True)[0] < np.inf


def test_exact_solutions_come_with_their_scale() -> None:
    rng = np.random.default_rng(5)
    for _ in range(40):
        m = int(rng.integers(1, 7))
        X = rng.integers(-2, 3, size=(m, int(rng.integers(1, 5))))
        Q, C = (X @ X.T).astype(float), float(rng.choice([0.1, 0.5, 2.0]))
        y = rng.choice([-1.0, 1.0], m)
        svm = ExactSVM(Q, C)
        for found in (svm.solution(y, rng.integers(0, 3, m).astype(np.int8)), svm._criss_cross([int(v) for v in y])):
            assert found is not None
            Z, D = found
            assert D > 0
            alpha = [Fraction(int(v), int(D)) * int(y[i]) for i, v in enumerate(Z)]
            f = [sum(int(Q[i, j]) * Fraction(int(Z[j]), int(D)) for j in range(m)) * int(y[i]) for i in range(m)]
            cap = Fraction(C)
            assert all(
                0 <= a <= cap and (a == 0 or g <= 1) and (a == cap or g >= 1) for a, g in zip(alpha, f, strict=True)
            )
