"""Labels that are removed: every walk against brute force, which trains on the labels that are left."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from tests.helpers.problems import gaussian

import labelcert
from labelcert import REMOVED, Certificate, InvalidInput, Threat, certify, selfcheck
from labelcert.engines.asking import AskingMethod
from labelcert.engines.base import Question
from labelcert.engines.control import Control
from labelcert.engines.enumerate import Enumerate
from labelcert.engines.removing import Moves, RemovingMethod
from labelcert.problem import Problem
from labelcert.selfcheck import Case
from labelcert.selfcheck.cases import nasty_case, with_loss_in_turn, with_margin_in_turn, with_removal_in_turn

REMOVAL = Threat(removable=True, changes=False)


def nasty(k: int, *, loss: str | None = None) -> Case | None:
    """Problem number ``k`` of the self-check, with labels that may be removed; None where it cannot have such."""
    number = 7 * k + 4
    case = with_loss_in_turn(nasty_case(np.random.default_rng([71, k]), number, 6), k)
    case = case if loss is None else replace(case, loss=loss, max_flips=None)
    case = with_removal_in_turn(case, number)
    return case if case.threat.removes and case.labels.size <= 8 else None


@pytest.mark.parametrize("k", range(40))
def test_brute_force(k: int) -> None:
    case = nasty(k)
    assert case is None or selfcheck.check(case) == []


@pytest.mark.parametrize("loss", ["square", "square_intercept"])
@pytest.mark.parametrize("k", range(60, 76))
def test_brute_force_of_ridge_regression(k: int, loss: str) -> None:
    case = nasty(k, loss=loss)
    assert case is None or selfcheck.check(case) == []


@pytest.mark.parametrize("k", range(90, 98))
def test_brute_force_with_margins(k: int) -> None:
    case = nasty(k)
    assert case is None or selfcheck.check(with_margin_in_turn(case, 2 + 3 * (k % 5))) == []


@pytest.mark.long
def test_brute_force_of_many_problems() -> None:
    losses = ["square", None, "square_intercept", None]
    cases = [nasty(k, loss=losses[k % 4]) for k in range(200, 800)]
    wrong = [line for k, case in enumerate(cases) if case is not None for line in selfcheck.check(case)]
    assert wrong == []


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge", "logistic"])
@pytest.mark.parametrize("threat", [REMOVAL, Threat(removable=True), Threat(removable=True, costs=[1, 2] * 35)])
def test_a_walk_over_many_labels_agrees_with_single_trainings(loss: str, threat: Threat) -> None:
    """More labels than a tableau is copied for: children share that of their parent."""
    K, y, rows = gaussian(70, 5, seed=3)
    problem = Problem.build(K, y, rows, 1.0, loss=loss, threat=threat, max_flips=1)
    question = Question.ask(Enumerate().predictor(problem))
    assert Moves.of(question) is not None
    walked, asked = (method.run(question, Control(workers=1)) for method in (RemovingMethod(), AskingMethod()))
    assert np.array_equal(walked.radius_lower, asked.radius_lower)
    assert np.array_equal(walked.radius_upper, asked.radius_upper)
    assert np.array_equal(walked.curve_upper, asked.curve_upper)
    assert np.array_equal(walked.curve_lower, asked.curve_lower)


def by_refitting(K: Any, y: Any, rows: Any, C: float, most: int) -> list[int]:
    """Fewest labels that have to go before ridge regression on ±1 predicts something else, by solving every system."""
    m, lam = y.size, 1.0 / (2.0 * C)

    def scores(left: Any) -> Any:
        return rows[:, left] @ np.linalg.solve(K[np.ix_(left, left)] + lam * np.eye(left.size), y[left])

    clean, radius = scores(np.arange(m)), np.full(len(rows), most + 1)
    for size in range(1, most + 1):
        for out in combinations(range(m), size):
            changed = scores(np.setdiff1d(np.arange(m), out)) * clean <= 0
            radius[changed & (radius > size)] = size
    return radius.tolist()


@pytest.mark.parametrize("seed", range(3))
def test_downdates_agree_with_refitting(seed: int) -> None:
    K, y, rows = gaussian(24, 12, seed=seed)
    cert = certify(K, y, rows, 0.5, loss="square", threat=REMOVAL, max_flips=3)
    signs = np.where(np.asarray(y) == cert.classes[1], 1.0, -1.0)
    assert cert.exact
    assert cert.engine == "downdates"
    assert cert.radius_lower.tolist() == by_refitting(np.asarray(K), signs, np.asarray(rows), 0.5, 3)


def test_downdates_with_more_labels_than_rational_arithmetic_takes() -> None:
    K, y, rows = gaussian(310, 6, seed=1)
    cert = certify(K, y, rows, 0.01, loss="square", threat=REMOVAL, max_flips=2)
    assert cert.exact
    # Twice the same label: with hardly any ridge, nothing is proved, and nothing wrong is claimed.
    K = np.asarray(K)
    K[1], K[:, 1] = K[0], K[:, 0]
    K[1, 1] = K[0, 0]
    rows = np.asarray(rows)
    rows[:, 1] = rows[:, 0]
    loose = certify(K, y, rows, 1e12, loss="square", threat=REMOVAL, max_flips=1)
    assert np.all(loose.radius_lower <= loose.radius_upper)
    assert not loose.exact


def test_a_time_limit_leaves_intervals() -> None:
    K, y, rows = gaussian(150, 6, seed=1)
    cert = certify(K, y, rows, 0.01, loss="square", threat=REMOVAL, max_flips=6, time_limit=0.5)
    assert np.all(cert.radius_lower <= cert.radius_upper)
    assert np.all(cert.radius_lower[cert.radius_upper == cert.never] <= 6)


def test_observers_are_shown_relabellings() -> None:
    K, y, rows = gaussian(7, 4, seed=2)
    found = {}
    for name, method in {"walk": RemovingMethod(), "asked": AskingMethod()}.items():
        problem = Problem.build(K, y, rows, 1.0, threat=Threat(removable=True), max_flips=2)
        seen = _Seen()
        question = replace(Question.ask(Enumerate().predictor(problem)), observers=[seen])
        method.run(question, Control(workers=1))
        found[name] = seen.changes
    assert found["walk"] == found["asked"]
    assert len(found["walk"]) == 1 + 7 * 2 + 21 * 4


class _Seen:
    def __init__(self) -> None:
        self.changes: dict[frozenset[tuple[int, int]], tuple[int, tuple[int, ...], tuple[int, ...]]] = {}

    def observe(self, visited: Any) -> None:
        flipped = visited.flipped()
        for s, cost in enumerate(visited.cost.tolist()):
            labels, nodes = (tuple(np.flatnonzero(a[s]).tolist()) for a in (flipped, visited.changed))
            self.changes[frozenset(visited.change(s).moves.items())] = cost, labels, nodes

    def unvisited(self, cost: int) -> None:
        raise AssertionError("everything is visited")


def small(threat: Threat = REMOVAL, **options: Any) -> Certificate:
    K, y, rows = gaussian(8, 4, seed=4)
    return certify(K, np.where(np.asarray(y) == np.asarray(y)[0], "ham", "spam"), rows, 1.0, threat=threat, **options)


def test_a_removed_label_is_a_value_of_its_own(tmp_path: Any) -> None:
    cert = small()
    t = int(np.flatnonzero(cert.radius_upper < cert.never)[0])
    assert set((cert.witness(t) or {}).values()) == {REMOVED}
    assert str(REMOVED) == repr(REMOVED) == "removed"
    assert cert.run.unit == "removals"
    assert small(Threat(removable=True)).run.unit == "labels"
    cert.save(tmp_path / "a.cert", problem=True)
    again = labelcert.load(tmp_path / "a.cert")
    assert again.witness(t) == cert.witness(t)
    assert "removed" in cert.to_frame()["witness"].astype(str)[t]
    labelcert.write_report({"removals": cert}, tmp_path / "page.html")
    assert "removed" in (tmp_path / "page.html").read_text()


def test_all_labels_of_a_class_may_go_and_then_all_labels() -> None:
    cert = certify(np.eye(2), ["a", "b"], [[2.0, 1.0], [1.0, 0.0]], 1.0, threat=REMOVAL)
    # Without its own label, node 0 is what the other one says; node 1 has a score of 0, which is a tie.
    assert cert.radius_lower.tolist() == [1, 1]
    assert cert.collective_lower.tolist() == [0, 2, 2]


def test_nobody_removes_a_trusted_label() -> None:
    cert = small(Threat(removable=True, changes=False, trusted=[True] * 8))
    assert np.all(cert.radius_lower == cert.never)
    some = small(Threat(removable=np.arange(8) < 3, changes=False))
    assert all(set(some.witness(t) or {}) <= {0, 1, 2} for t in range(4))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"changes": False}, "leaves nothing to do"),
        ({"removable": [1, 2]}, "boolean mask"),
        ({"removable": True, "changes": 0}, "changes must be True or False"),
        ({"removable": True, "annotators": list("abcdefgh")}, "remove none"),
    ],
)
def test_threats_that_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        small(Threat(**options))


def test_a_class_called_removed() -> None:
    with pytest.raises(InvalidInput, match="rename it"):
        certify(np.eye(2), ["kept", "removed"], np.eye(2), 1.0, threat=REMOVAL)


@pytest.mark.parametrize("loss", ["hinge", "square"])
@pytest.mark.parametrize("classes", [2, 3])
def test_worst_values_of_metrics(loss: str, classes: int) -> None:
    rng = np.random.default_rng(3)
    y = np.arange(15) % classes
    X = rng.normal(size=(15, 2)) + 0.8 * np.eye(3)[y][:, :2]
    Q, truth = X @ X.T + 1.0, y[9:]
    metrics = [labelcert.Metric("accuracy", truth)]
    cert = certify(Q[:9, :9], y[:9], Q[9:, :9], 1.0, loss=loss, threat=REMOVAL, max_flips=2, metrics=metrics)
    least = [1.0] * 3
    for size in range(3):
        for out in combinations(range(9), size):
            left = np.setdiff1d(np.arange(9), out)
            K, rows = Q[np.ix_(left, left)], Q[9:, left]
            predicted = certify(K, y[left], rows, 1.0, loss=loss, max_flips=0).predictions
            least[size] = min(least[size], float(np.mean(predicted == truth)))
    assert cert.worst_cases[0].exact
    assert cert.worst_cases[0].lower.tolist() == np.minimum.accumulate(least).tolist()
