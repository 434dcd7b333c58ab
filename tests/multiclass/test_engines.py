from __future__ import annotations

import itertools
import os
import signal
import threading
import time
from typing import Any

import numpy as np
import pytest

from labelcert import Certificate, InvalidInput, Threat, WorkTooLarge, certify, selfcheck
from labelcert.multiclass import sweep, work
from labelcert.multiclass.forest import Forest
from labelcert.multiclass.panel import Panel
from labelcert.multiclass.question import Question
from labelcert.multiclass.trees import FORBIDDEN, LEAF
from labelcert.problem import Problem


def blobs(m: int, n: int, *, classes: int = 4, seed: int = 0) -> tuple[Any, Any, Any]:
    """``(K_train, labels, K_test)`` of a Gaussian kernel on points around one centre per class."""
    rng = np.random.default_rng(seed)
    codes = np.arange(m + n) % classes
    points = rng.normal(size=(classes, 3))[codes] + 0.8 * rng.normal(size=(m + n, 3))
    squared = np.sum((points[:, None] - points[None]) ** 2, axis=2)
    K = np.exp(-squared / 3)
    return K[:m, :m], codes[:m], K[m:, :m]


THREATS = [
    Threat(),
    Threat(costs=np.arange(12) % 3 + 1),
    Threat(groups=[i % 3 for i in range(12)], group_budgets=1),
    Threat(costs=np.arange(12) % 2 + 1, groups=[i % 3 for i in range(12)], group_budgets={0: 2, 2: 1}),
    Threat(trusted=np.arange(12) < 3, allowed_flips={0: [1, 2], 1: [0], 3: [0, 1, 2]}),
    Threat(allowed_targets=[[3], None, [0, 1], []] * 3),
]


def same(a: Certificate, b: Certificate) -> None:
    for name in ("predictions", "radius_lower", "radius_upper", "collective_lower", "collective_upper"):
        assert np.array_equal(getattr(a, name), getattr(b, name)), name


def contains(part: Certificate, full: Certificate) -> None:
    assert np.all(part.radius_lower <= full.radius_lower)
    assert np.all(part.radius_upper >= full.radius_upper)
    assert np.all(part.collective_lower <= full.collective_lower)
    assert np.all(part.collective_upper >= full.collective_upper)


@pytest.mark.parametrize("threat", THREATS)
@pytest.mark.parametrize("loss", ["hinge", "square"])
def test_sorting_agrees_with_tables(threat: Threat, loss: str) -> None:
    K, y, rows = blobs(12, 30)
    C = 0.99 / np.abs(K).sum(axis=1).max() if loss == "hinge" else 1.0
    closed, walked = (
        certify(K, y, rows, C, loss=loss, threat=threat, engine=engine, max_flips=3, workers=1)
        for engine in ("closed-form", "enumerate")
    )
    assert closed.exact
    same(closed, walked)


@pytest.mark.parametrize("threat", THREATS)
@pytest.mark.parametrize("C", [0.01, 5.0])
def test_relaxed_never_exceeds_exact(threat: Threat, C: float) -> None:
    K, y, rows = blobs(12, 30)
    exact, relaxed = (
        certify(K, y, rows, C, threat=threat, engine=engine, max_flips=3) for engine in ("enumerate", "relaxed")
    )
    assert np.all(relaxed.radius_lower <= exact.radius_lower)
    assert np.all(relaxed.radius_lower >= 1)
    assert np.all(relaxed.radius_upper == relaxed.never)
    assert relaxed.witness(0) is None
    contains(relaxed, exact)
    assert relaxed.state == "lower bounds"
    assert relaxed.settings["engine"] == "relaxed"


def test_witnesses_do_what_they_say() -> None:
    K, y, rows = blobs(14, 20)
    cert = certify(K, y, rows, 5.0, max_flips=3)
    assert cert.exact
    for t in range(20):
        witness = cert.witness(t)
        if witness is None:
            continue
        assert len(witness) == cert.radius_upper[t]
        poisoned = y.copy()
        poisoned[list(witness)] = list(witness.values())
        assert np.all(poisoned[list(witness)] != y[list(witness)])
        after = certify(K, poisoned, rows[t : t + 1], 5.0, max_flips=0).predictions[0]
        assert after == cert.classes[cert.new_classes[t]] != cert.predictions[t]
    for b in range(4):
        witness = cert.collective_witness(b)
        assert len(witness) <= b
        poisoned = y.copy()
        poisoned[list(witness)] = list(witness.values())
        after = certify(K, poisoned, rows, 5.0, max_flips=0)
        assert np.sum(after.predictions != cert.predictions) == cert.collective_lower[b]


def test_predictions_match_scikit_learn() -> None:
    from sklearn.svm import LinearSVC

    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3))
    y = rng.integers(0, 3, 40)
    cert = certify(X[:40] @ X[:40].T, y, X[40:] @ X[:40].T, 0.7, max_flips=0)
    model = LinearSVC(C=0.7, loss="hinge", fit_intercept=False, tol=1e-10, max_iter=1_000_000).fit(X[:40], y)
    assert np.allclose(cert.decision_values, model.decision_function(X[40:]), atol=1e-4)
    assert np.array_equal(cert.predictions, model.predict(X[40:]))


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_results_do_not_depend_on_workers(workers: int) -> None:
    K, y, rows = blobs(16, 30)
    one = certify(K, y, rows, 5.0, max_flips=3, workers=1)
    many = certify(K, y, rows, 5.0, max_flips=3, workers=workers)
    same(one, many)
    assert [one.witness(t) for t in range(30)] == [many.witness(t) for t in range(30)]
    assert [one.collective_witness(b) for b in range(4)] == [many.collective_witness(b) for b in range(4)]


def test_smaller_budgets_agree() -> None:
    K, y, rows = blobs(12, 30)
    full = certify(K, y, rows, 5.0, max_flips=4)
    for b in (0, 1, 2, 3):
        part = certify(K, y, rows, 5.0, max_flips=b)
        within = full.radius_lower <= b
        assert np.array_equal(part.radius_upper[within], full.radius_upper[within])
        assert np.all(part.radius_lower[~within] == b + 1)
        assert np.all(part.radius_upper[~within] == 13)
        assert np.array_equal(part.collective_lower, full.collective_lower[: b + 1])
        assert part.exact


def test_without_the_curve() -> None:
    K, y, rows = blobs(12, 30)
    for C in (0.001, 5.0):
        full = certify(K, y, rows, C, max_flips=2)
        part = certify(K, y, rows, C, max_flips=2, collective=False)
        assert np.array_equal(part.radius_upper, full.radius_upper)
        assert np.array_equal(part.radius_lower, full.radius_lower)
        contains(part, full)
        assert part.settings["statistics"]["curve_walked_to"] == 0


def forest(m: int, threat: Threat, max_flips: int) -> Forest:
    K, y, rows = blobs(m, 3)
    problem = Problem.build(K, y, rows, 5.0, threat=threat, max_flips=max_flips)
    question = Question.ask(Panel(problem, linear=False))
    return Forest(question.panel, question.nodes, np.inf, m)


@pytest.mark.parametrize("threat", THREATS)
def test_every_toggled_set_is_in_the_forest_once(threat: Threat) -> None:
    grown = forest(12, threat, 4)
    assert grown.complete
    allowed = np.flatnonzero(grown.tree.cost != FORBIDDEN)
    sets = [(c, tuple(labels)) for c, labels in (grown.toggles(int(s)) for s in allowed)]
    assert len(sets) == len(set(sets))
    problem = grown.panel.problem
    for c in range(4):
        adversary = problem.adversary.toggling(problem.codes, c)
        assert sum(owner == c for owner, _ in sets) == adversary.count_sets(4)
    for s in np.flatnonzero(grown.tree.base != LEAF):
        child = int(grown.tree.base[s] + grown.tree.last[s] + 1)
        assert grown.tree.parent[child] == s


def test_number_of_relabellings() -> None:
    K, y, rows = blobs(8, 3)
    a = Problem.build(K, y, rows, 1.0).adversary
    for b in range(4):
        by_hand = sum(3 ** len(s) for k in range(b + 1) for s in itertools.combinations(range(8), k))
        assert a.count_sets(b, a.targets.sum(axis=1)) == by_hand


@pytest.mark.parametrize("seconds", [0.0001, 0.05, 0.3])
@pytest.mark.parametrize("engine", ["enumerate", "relaxed"])
def test_time_limit_gives_intervals_that_contain_the_truth(seconds: float, engine: str) -> None:
    K, y, rows = blobs(20, 30)
    full = certify(K, y, rows, 5.0, max_flips=3)
    part = certify(K, y, rows, 5.0, engine=engine, max_flips=3, time_limit=seconds)
    contains(part, full)
    wide = certify(K, y, rows, 5.0, engine=engine, time_limit=seconds)
    assert np.all(wide.radius_lower <= wide.radius_upper)
    assert np.all((wide.radius_lower <= full.radius_lower) | (full.radius_lower == 4))


def test_interrupt_gives_intervals() -> None:
    K, y, rows = blobs(40, 30)
    certify(*blobs(8, 5), 5.0, max_flips=1)

    def interrupt() -> None:
        time.sleep(1.0)
        os.kill(os.getpid(), signal.SIGINT)

    before = signal.getsignal(signal.SIGINT)
    thread = threading.Thread(target=interrupt)
    thread.start()
    cert = certify(K, y, rows, 5.0, max_flips=6, time_limit=600)
    thread.join()
    assert signal.getsignal(signal.SIGINT) is before
    assert cert.settings["stopped"] == "interrupted"
    assert not cert.exact
    assert np.all((cert.radius_lower >= 1) & (cert.radius_lower <= cert.radius_upper))


def test_too_large_says_what_would_fit() -> None:
    K, y, rows = blobs(60, 5)
    with pytest.raises(WorkTooLarge, match=r"max_flips=\d+ would fit.*time_limit=.*engine='relaxed'"):
        certify(K, y, rows, 5.0)
    with pytest.raises(WorkTooLarge, match=r"max_flips=\d+ would fit"):
        certify(K, y, rows, 5.0, engine="relaxed")


def test_memory_is_asked_for_before_the_work_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(work, "available_bytes", lambda: 200_000)
    K, y, rows = blobs(20, 5)
    with pytest.raises(WorkTooLarge, match=r"max_flips=\d would fit.*"):
        certify(K, y, rows, 5.0, max_flips=4)
    part = certify(K, y, rows, 5.0, max_flips=4, time_limit=100)
    assert part.settings["stopped"] == "memory limit"
    monkeypatch.undo()
    contains(part, certify(K, y, rows, 5.0, max_flips=4))


def test_names_of_engines() -> None:
    K, y, rows = blobs(8, 5)
    with pytest.raises(InvalidInput, match="auto, closed-form, enumerate, relaxed"):
        certify(K, y, rows, 5.0, engine="magic")
    with pytest.raises(InvalidInput, match="'closed-form' does not apply"):
        certify(K, y, rows, 500.0, engine="closed-form")
    with pytest.raises(InvalidInput, match="nothing to relax"):
        certify(K, y % 2, rows, 5.0, engine="relaxed")


def test_a_witness_that_does_not_check_opens_the_interval(monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(rows: Any) -> Any:
        options, position, target = sweep_options(rows)
        return options, position, (target + 1) % 4

    sweep_options = sweep._options
    monkeypatch.setattr(sweep, "_options", wrong)
    K, y, rows = blobs(8, 20)
    with pytest.warns(RuntimeWarning, match="contradict retraining"):
        cert = certify(K, y, rows, 5.0, max_flips=2, engine="enumerate")
    assert not cert.exact
    assert np.any(cert.radius_upper == cert.never)


def test_many_doubts_are_walked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    X = rng.integers(-1, 2, size=(9 + 12, 2)).astype(float)
    K = X @ X.T
    y = np.arange(9) % 3
    arrays = K[:9, :9], y, K[9:, :9], 1.0
    usual = certify(*arrays, max_flips=3, engine="enumerate")
    assert usual.settings["statistics"]["doubtful_relabellings"] > 50
    monkeypatch.setattr(sweep, "DOUBTS_AT_ONCE", 3)
    same(usual, certify(*arrays, max_flips=3, engine="enumerate"))


def test_large_linear_problem_gets_radii_and_an_interval_for_the_curve(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(work, "CURVE_LIMIT_SECONDS", 0.01)
    K, y, rows = blobs(60, 40, classes=5)
    cert = certify(K, y, rows, 1.0, loss="square", max_flips=30)
    settled = (cert.radius_lower == cert.radius_upper) | (cert.radius_lower > 30)
    assert settled.all()
    reach = cert.settings["statistics"]["curve_walked_to"]
    assert 1 <= reach < 30
    assert np.array_equal(cert.collective_lower[: reach + 1], cert.collective_upper[: reach + 1])
    assert np.all(cert.collective_lower <= cert.collective_upper)
    assert np.all(np.diff(cert.collective_lower) >= 0)
    assert cert.collective_lower[30] > cert.collective_lower[reach]


@pytest.mark.parametrize("C", [1e-6, 1.0])
def test_what_is_too_large_for_rational_arithmetic_stays_open(C: float) -> None:
    rng = np.random.default_rng(0)
    X = rng.integers(-1, 2, size=(310 + 30, 2)).astype(float)
    K = X @ X.T + np.eye(340) * 2.0**-10
    cert = certify(K[:310, :310], np.arange(310) % 3, K[310:, :310], C, max_flips=1, collective=False)
    assert np.all(cert.radius_lower <= cert.radius_upper)
    if C == 1.0:  # a test row of zeros ties all classes, but nothing here can prove it
        zero = ~X[310:].any(axis=1)
        assert zero.any()
        assert np.all((cert.radius_lower[zero] == 0) & (cert.radius_upper[zero] == cert.never))


@pytest.mark.parametrize("seed", [24, 28, 36, 44])
def test_relabellings_can_be_larger_than_any_class_s_part(seed: int) -> None:
    """Labels of two classes go to two others: four moves, but two toggles in each class."""
    rng = np.random.default_rng(seed)
    points = rng.normal(size=(14, 4))
    K = points @ points.T
    case = selfcheck.Case(
        kind="chains",
        K_train=K[:6, :6],
        labels=np.array([0, 0, 1, 1, 2, 3]),
        K_test=K[6:, :6],
        C=0.001 if seed % 3 == 1 else 1.0,
        loss="square" if seed % 3 == 0 else "hinge",
        threat=Threat(allowed_flips={0: [2], 1: [3]}),
        max_flips=4,
    )
    assert selfcheck.check(case) == []
