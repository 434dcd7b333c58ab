"""What every loss brings along, and where it can be used."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import labelcert
from labelcert import certify, certify_partition
from labelcert.cli import main
from labelcert.engines.attacking import Attacker
from labelcert.engines.base import Question
from labelcert.engines.coupled.coupled_method import _chunks, extend_for
from labelcert.errors import InvalidInput
from labelcert.losses import LOSSES, get_loss, loss_names
from labelcert.losses.cross_validation import C_GRID, best_C
from labelcert.prediction import Highest, predictor_for
from labelcert.problem import Problem
from labelcert.stopping import stopped_by
from tests.helpers.certificates import same
from tests.helpers.problems import blobs, gaussian

TRAINED = ("hinge", "squared_hinge", "logistic", "logistic_intercept", "cross_entropy")


@pytest.mark.parametrize("loss", loss_names())
def test_training_minimises_the_objective(loss: str) -> None:
    K, labels, _ = gaussian(10, 1)
    y, C = 2.0 * labels - 1.0, 1.7

    def objective(u: Any) -> float:
        z = u[:10]
        f = K @ z + (u[10] if u.size > 10 else 0.0)
        each = {
            "hinge": np.maximum(0, 1 - y * f),
            "squared_hinge": np.maximum(0, 1 - y * f) ** 2,
            "logistic": np.log1p(np.exp(-y * f)),
            "cross_entropy": 2 * np.log1p(np.exp(-y * f)),
            "square": (1 - y * f) ** 2,
        }
        return float(0.5 * z @ K @ z + C * each[loss.removesuffix("_intercept")].sum())

    z = LOSSES[loss].train(K, y, C)
    rng = np.random.default_rng(0)
    best = objective(z)
    for size in (1e-1, 1e-3):
        assert all(objective(z + size * rng.normal(size=z.size)) > best for _ in range(50))


@pytest.mark.parametrize("loss", ["squared_hinge", "logistic", "logistic_intercept", "cross_entropy"])
def test_training_agrees_with_scikit_learn(loss: str) -> None:
    from sklearn.linear_model import LogisticRegression
    from sklearn.svm import LinearSVC

    rng = np.random.default_rng(0)
    classes = 3 if loss == "cross_entropy" else 2
    X = rng.normal(size=(30, 4))
    labels = (np.abs(X[:, 0] * 2).astype(int) + (X[:, 1] > 0)) % classes
    options: Any = {"C": 0.7, "fit_intercept": loss == "logistic_intercept", "tol": 1e-10, "max_iter": 100000}
    estimator: Any = (LinearSVC if loss == "squared_hinge" else LogisticRegression)(**options)
    expected = estimator.fit(X, labels).decision_function(X)
    K = X @ X.T
    got = LOSSES[loss].rows(K) @ LOSSES[loss].train_classes(K, labels, classes, 0.7).T
    assert np.allclose(got[:, 1] if classes == 2 else got, expected, atol=1e-4)


def test_squared_hinge_is_ridge_regression_where_no_margin_reaches_one() -> None:
    K, y, rows = gaussian(9, 12)
    for C, linear in ((0.02, True), (5.0, False)):
        problem = Problem.build(K, y, rows, C, loss="squared_hinge")
        assert problem.is_linear() == linear
        auto, walked = (
            certify(K, y, rows, C, loss="squared_hinge", engine=e, workers=1) for e in ("auto", "enumerate")
        )
        assert auto.run.stages[0].engine == ("closed-form" if linear else "enumerate")
        same(auto, walked)
        ridge = certify(K, y, rows, C, loss="square", workers=1)
        assert np.array_equal(ridge.radius_lower, auto.radius_lower) or not linear
    # Within a small budget, more models are linear than within a large one.
    proved = [Problem.build(K, y, rows, 1.0, loss="squared_hinge", max_flips=b).is_linear() for b in range(10)]
    assert proved == sorted(proved, reverse=True)
    assert len(set(proved)) == 2


@pytest.mark.parametrize("loss", TRAINED)
def test_answers_do_not_depend_on_where_trainings_run(loss: str) -> None:
    for arrays, flips in ((gaussian(9, 5), None), (blobs(9, 5, classes=3), 2)):
        here = certify(*arrays, 1.0, loss=loss, max_flips=flips, workers=1)
        same(here, certify(*arrays, 1.0, loss=loss, max_flips=flips, workers=2))
        same(here, certify(*arrays, 1.0, loss=loss, max_flips=flips, scheduler="processes", workers=2))


@pytest.mark.parametrize("arrays", [gaussian(40, 6), blobs(24, 6, classes=3)], ids=["two", "three"])
@pytest.mark.parametrize("loss", TRAINED)
def test_a_time_limit_leaves_sound_intervals(
    loss: str, arrays: Any, end_of_time: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    exact = certify(*arrays, 1.0, loss=loss, max_flips=2)
    stopped = [certify(*arrays, 1.0, loss=loss, time_limit=0.5)]
    if not (loss == "cross_entropy" and exact.classes.size > 2):
        monkeypatch.setattr(Attacker, "improve", end_of_time)  # when attacks have been looked for
        stopped.append(certify(*arrays, 1.0, loss=loss, engine="milp", time_limit=300.0))
        assert stopped[1].run.stopped == "time limit"
        assert np.all(stopped[1].radius_upper < exact.never)  # an upper end for every node
    known = exact.radius_lower <= 2
    for limited in stopped:
        assert np.all(limited.radius_lower[known] <= exact.radius_lower[known])
        assert np.all(limited.radius_upper[known] >= exact.radius_lower[known])
        assert np.all(limited.radius_upper[~known] > 2)


@pytest.mark.parametrize("loss", TRAINED)
def test_nothing_is_lost_beyond_sixty_labels(loss: str) -> None:
    """Neighbours are solved from a shared solution there."""
    K, y, rows = blobs(70, 8, classes=2)
    cert = certify(K, y, rows, 1.0, loss=loss, max_flips=1)
    assert cert.exact
    model = LOSSES[loss]
    for t in range(8):
        radius = 2
        for i in range(70):
            signs = 2.0 * y - 1.0
            row = model.rows(rows)[t]
            clean = row @ model.train(K, signs, 1.0)
            signs[i] *= -1
            if clean * (row @ model.train(K, signs, 1.0)) < 0:
                radius = 1
                break
        assert cert.radius_lower[t] == radius


def test_engines_say_what_they_cannot_do() -> None:
    two, three = gaussian(6, 3), blobs(6, 3, classes=3)
    with pytest.raises(InvalidInput, match="loss must be one of hinge, squared_hinge"):
        certify(*two, 1.0, loss="log")
    with pytest.raises(InvalidInput, match="loss must be one of"):
        get_loss("linear")
    with pytest.raises(InvalidInput, match="scores of loss='logistic' are not proved to be linear"):
        certify(*two, 1e-6, loss="logistic", engine="closed-form")
    with pytest.raises(InvalidInput, match="the paper's formulation is about the hinge loss"):
        certify(*two, 1.0, loss="squared_hinge", engine="milp-paper")
    for engine in ("relaxed", "milp"):
        with pytest.raises(InvalidInput, match="looks at each class alone"):
            certify(*three, 1.0, loss="cross_entropy", engine=engine)
    with pytest.raises(InvalidInput, match="ensembles need the scores of each class alone"):
        certify_partition(*three, 1.0, parts=2, loss="cross_entropy")
    assert labelcert.verify(certify(*two, 1.0, loss="logistic"), *two).complete


def test_the_certificate_names_the_loss_and_survives_storage(tmp_path: Any) -> None:
    cert = certify(*gaussian(7, 4), 1.0, loss="logistic")
    cert.save(tmp_path / "one.cert")
    again = labelcert.load(tmp_path / "one.cert")
    assert again.run.loss == "logistic"
    same(cert, again)


def test_an_intercept_needs_both_classes() -> None:
    K, rows = gaussian(6, 3)[::2]
    labels = ["ham", "spam", "ham", "ham", "spam", "ham"]
    assert certify(K, labels, rows, 1.0, loss="logistic_intercept").max_flips == 1
    with pytest.raises(
        InvalidInput, match="max_flips must be at most 1 with an intercept that is not regularised, got 2"
    ):
        certify(K, labels, rows, 1.0, loss="logistic_intercept", max_flips=2)
    trusted = labelcert.Threat(trusted=np.array(labels) == "spam")
    assert certify(K, labels, rows, 1.0, loss="logistic_intercept", threat=trusted).max_flips == 3
    both = labelcert.Threat(trusted=np.arange(6) < 2)
    assert certify(K, labels, rows, 1.0, loss="logistic_intercept", threat=both).max_flips == 6
    with pytest.raises(InvalidInput, match="parts may hold labels of one class alone"):
        certify_partition(K, labels, rows, 1.0, parts=2, loss="logistic_intercept")


@pytest.mark.parametrize("loss", loss_names())
def test_the_command_line(loss: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["certify", "karate", "--model", "gcn", "--beside", "none", "--loss", loss, "--max-flips", "1", "--quiet"]
    monkeypatch.setattr(sys, "argv", ["labelcert", *asked])
    with pytest.raises(SystemExit) as stop:
        main()
    assert stop.value.code == 0, capsys.readouterr().err


@pytest.mark.parametrize("loss", loss_names())
def test_cross_validation_with_the_loss(loss: str) -> None:
    graph = labelcert.load_dataset("karate")
    labeled = np.arange(0, 34, 2)
    found = labelcert.select(labelcert.GCN(), graph, labeled, seed=0, loss=loss, C=(0.01, 1.0))
    assert all(0.5 <= candidate.accuracy <= 1.0 for candidate in found.candidates)


def test_linearity_asks_every_model_of_a_part() -> None:
    """Two classes are left in the part, and the labels of one of them can move to a third."""
    X = np.array([[0.126, -0.132], [0.64, 0.105], [-0.536, 0.362], [1.304, 0.947], [-0.704, -1.265], [-0.623, 0.041]])
    K = X @ X.T + 1e-3 * np.eye(6)
    threat = labelcert.Threat(allowed_targets=[[], [2], [2], [2], [2], []])
    labels = [0, 1, 1, 1, 1, 2]
    whole = Problem.unsettled(K, labels, K, 0.667, threat=threat, max_flips=1, loss="squared_hinge")
    part = whole.restricted(np.arange(5))
    each = [part.one_vs_rest(c)._is_linear(False) for c in range(3)]
    assert each[0]
    assert not each[1]
    assert not part.is_linear()


@pytest.mark.parametrize("loss", ["hinge", "logistic", "cross_entropy"])
def test_classes_without_labels_are_tied(loss: str) -> None:
    X = np.array([[1.0, 0.2], [0.3, 1.0], [-1.0, -0.5]])
    problem = Problem.build(X @ X.T + np.eye(3), [0, 1, 2], X[:, :1].T @ X @ X.T, 1.0, loss=loss)
    predictor = predictor_for(problem, linear=False)
    assert isinstance(predictor, Highest)
    assert predictor.compare(np.array([2, 2, 2]), 0, 0, 1) == 0


def test_relabellings_come_level_by_level_without_being_kept() -> None:
    problem = Problem.build(*blobs(100, 3, classes=3), 1.0, loss="cross_entropy", max_flips=30)
    chunks = _chunks(extend_for(Question.ask(predictor_for(problem, linear=False))))
    seen = [next(chunks) for _ in range(40)]
    assert [chunk.positions.shape[1] for chunk in seen[:15]] == [0] + [1] * 13 + [2]
    assert seen[0].min_cost == 1
    assert seen[-1].min_cost == 3


def test_an_intercept_is_a_field_of_a_loss() -> None:
    assert get_loss("logistic_intercept") == get_loss("logistic", intercept=True) != get_loss("logistic")
    assert get_loss("cross_entropy_intercept", intercept=True).name == "cross_entropy_intercept"
    with pytest.raises(InvalidInput, match="goes with loss='logistic' or 'cross_entropy' or 'square', got"):
        get_loss("hinge", intercept=True)
    one, two = (
        Problem.build(*gaussian(9, 2), 1.0, **how)
        for how in ({"loss": "logistic_intercept"}, {"loss": "logistic", "intercept": True})
    )
    assert one.digest() == two.digest()
    assert (two.loss, two.intercept, two.max_flips) == ("logistic_intercept", True, one.max_flips)


def test_the_square_loss_chooses_among_the_values_of_c_that_were_tried_in_time() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 3))
    labels = (X[:, 0] > 0).astype(np.int64)
    asked = iter(range(1000))
    with stopped_by(lambda: next(asked) > 20):
        assert best_C(X @ X.T, labels, get_loss("square")) in C_GRID[:3]
    with stopped_by(lambda: True):
        assert best_C(X @ X.T, labels, get_loss("square")) == C_GRID[0]
