from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from tests.helpers.problems import blobs

from labelcert.prediction import OPEN, TIED, OneVsRest, scoring
from labelcert.prediction.scoring import Training
from labelcert.problem import Problem, Relabelling
from labelcert.problem.problem import signs_of
from labelcert.selfcheck.brute_force import trainer


def exact_scores(problem: Problem, codes: np.ndarray) -> list[list[Fraction]]:
    train = trainer(problem)
    scores = [train(tuple(signs_of(codes, c).astype(int).tolist())) for c in range(problem.n_classes)]
    return [[Fraction(int(v.p), int(v.q)) for v in p] for p in scores]


@pytest.mark.parametrize("loss", ["hinge", "square"])
@pytest.mark.parametrize("degenerate", [False, True])
def test_scores_of_different_classes_compare_as_fractions(loss: str, degenerate: bool) -> None:
    rng = np.random.default_rng(1)
    X = rng.integers(-2, 3, size=(14, 2)).astype(float) if degenerate else rng.normal(size=(14, 3))
    K = X @ X.T
    K = (K + K.T) / 2
    problem = Problem.build(K[:9, :9], np.arange(9) % 3, K[9:, :9], 0.7, loss=loss)
    models = OneVsRest(problem, linear=loss == "square")
    for _ in range(20):
        codes = rng.integers(0, 3, 9)
        truth = exact_scores(problem, codes)
        for t in range(5):
            for c, r in ((0, 1), (1, 2), (2, 0)):
                sign = (truth[c][t] > truth[r][t]) - (truth[c][t] < truth[r][t])
                assert models.compare(codes, t, c, r) == sign
            high = max(scores[t] for scores in truth)
            best = [c for c in range(3) if truth[c][t] == high]
            assert models.leaders(codes, t, [0, 1, 2]) == (best, True)


def test_linear_scores_at_the_cap_compare_as_fractions() -> None:
    K, y, rows = blobs(9, 6, classes=3)
    problem = Problem.build(K, y, rows, 1e-3)
    linear, trained = OneVsRest(problem, linear=True), OneVsRest(problem, linear=False)
    assert np.array_equal(linear.predicted, trained.predicted)
    assert np.allclose(linear.decision, trained.decision)
    rng = np.random.default_rng(0)
    for _ in range(20):
        codes = rng.integers(0, 3, 9)
        for t in range(6):
            assert linear.compare(codes, t, 0, 1) == trained.compare(codes, t, 0, 1)


def test_sharp_scores_are_within_their_bound() -> None:
    K, y, rows = blobs(10, 6)
    problem = Problem.build(K, y, rows, 50.0)
    models = OneVsRest(problem, linear=False)
    truth = exact_scores(problem, problem.codes)
    for c in range(4):
        found = models.sharp_scores(signs_of(problem.codes, c))
        assert found is not None
        for t in range(6):
            exact = truth[c][t] / Fraction(models.scorer.scale[t])
            assert abs(Fraction(found[0][t]) - exact) <= Fraction(found[1])


def test_ties_and_open_predictions(monkeypatch: pytest.MonkeyPatch) -> None:
    arrays = np.eye(3), ["a", "b", "c"], [[1.0, 1.0, 0.5], [1.0, 0.5, 0.5], [0.0, 0.0, 0.0]], 1.0
    models = OneVsRest(Problem.build(*arrays), linear=False)
    assert models.predicted.tolist() == [TIED, 0, TIED]
    assert models.shown.tolist() == [0, 0, 0]
    monkeypatch.setattr(scoring, "EXACT_LIMIT", 2)
    assert OneVsRest(Problem.build(*arrays), linear=False).predicted.tolist() == [OPEN, 0, OPEN]


def test_changed_knows_what_it_does_not_know(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = Problem.build(np.eye(3), ["a", "b", "c"], [[1.0, 0.75, 0.5], [0.0, 1.0, 0.0]], 1.0)
    tie = np.array([1, 1, 2])  # the first label moves to b: 1.75 against 0.5
    nodes = np.arange(2)
    models = OneVsRest(problem, linear=False)
    assert [v.tolist() for v in models.changed(tie, nodes)] == [[True, False], [False, True]]
    monkeypatch.setattr(scoring, "EXACT_LIMIT", 2)
    models = OneVsRest(problem, linear=False)
    models.scorer.train = lambda y: Training(y, np.zeros(3), np.nan)  # type: ignore[method-assign]
    models._scores.clear()
    yes, no = models.changed(tie, nodes)
    assert not yes.any()
    assert not no.any()


@pytest.mark.parametrize("loss", ["hinge", "square"])
@pytest.mark.parametrize("degenerate", [False, True])
def test_many_relabellings_and_nodes_at_once_say_what_each_says(loss: str, degenerate: bool) -> None:
    rng = np.random.default_rng(1)
    X = rng.integers(-2, 3, size=(60, 2)).astype(float) if degenerate else rng.normal(size=(60, 3))
    K = X @ X.T
    K = (K + K.T) / 2
    problem = Problem.build(K[:9, :9], np.arange(9) % 3, K[9:, :9], 0.7, loss=loss, max_flips=9)
    one, many = (OneVsRest(problem, linear=loss == "square") for _ in range(2))
    nodes = rng.permutation(np.flatnonzero(one.predicted >= 0))
    drawn = [np.where(rng.random(9) < 0.4, rng.integers(0, 3, 9), problem.codes) for _ in range(12)]
    moved = [np.flatnonzero(codes != problem.codes) for codes in drawn]
    changes = [Relabelling(at, codes[at]) for at, codes in zip(moved, drawn, strict=True)]
    for some in (nodes, nodes[:5]):
        changed, unchanged = many.changed_by(changes, some)
        for k, codes in enumerate(drawn):
            alone = [one.changed(codes, some[j : j + 1]) for j in range(some.size)]
            assert [bool(yes[0]) for yes, _ in alone] == changed[k].tolist()
            assert [bool(no[0]) for _, no in alone] == unchanged[k].tolist()
            assert many.become(codes, some).tolist() == [one.becomes(codes, t) for t in some.tolist()]
