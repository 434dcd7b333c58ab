"""Enumeration, whatever the number of classes."""

from __future__ import annotations

import os
import signal
import threading
import time
from typing import Any

import numpy as np
import pytest
from tests.helpers.certificates import contains, same, same_witnesses
from tests.helpers.problems import blobs, gaussian

from labelcert import Certificate, WorkTooLarge, certify
from labelcert.engines import seen

TWO = (gaussian, 2.0)
MORE = (blobs, 5.0)
KINDS = pytest.mark.parametrize(("make", "C"), [TWO, MORE], ids=["two classes", "more"])


@KINDS
@pytest.mark.parametrize("workers", [2, 3])
def test_results_do_not_depend_on_workers(make: Any, C: float, workers: int) -> None:
    K, y, rows = make(15, 40)
    flips = None if make is gaussian else 3
    one, many = (certify(K, y, rows, C, engine="enumerate", max_flips=flips, workers=count) for count in (1, workers))
    same(one, many)
    same_witnesses(one, many)


@KINDS
def test_smaller_budgets_agree(make: Any, C: float) -> None:
    """For two classes the full budget is walked as a cube, the smaller ones by size."""
    K, y, rows = make(12, 40)
    full = certify(K, y, rows, C, engine="enumerate", max_flips=12 if make is gaussian else 4)
    for b in (0, 1, 2, 3, 6):
        if b > full.max_flips:
            continue
        part = certify(K, y, rows, C, engine="enumerate", max_flips=b)
        within = full.radius_lower <= b
        assert np.array_equal(part.radius_upper[within], full.radius_upper[within])
        assert np.all(part.radius_lower[~within] == b + 1)
        assert np.all(part.radius_upper[~within] == 13)
        assert np.array_equal(part.collective_lower, full.collective_lower[: b + 1])
        assert part.exact


def test_more_than_64_labels() -> None:
    K, y, rows = gaussian(70, 10)
    cert = certify(K, y, rows, 2.0, max_flips=1)
    changed = np.zeros(10, dtype=bool)
    for i in range(70):
        after = certify(K, np.where(np.arange(70) == i, 1 - y, y), rows, 2.0, max_flips=0).predictions
        changed |= after != cert.predictions
    assert np.array_equal(cert.radius_lower == 1, changed)


@KINDS
def test_witnesses_do_what_they_say(make: Any, C: float) -> None:
    K, y, rows = make(14, 20)
    cert = certify(K, y, rows, C, max_flips=3)
    assert cert.exact
    for t in range(20):
        witness = cert.witness(t)
        if witness is None:
            continue
        assert len(witness) == cert.radius_upper[t]
        poisoned = y.copy()
        poisoned[list(witness)] = list(witness.values())
        assert np.all(poisoned[list(witness)] != y[list(witness)])
        after = certify(K, poisoned, rows[t : t + 1], C, max_flips=0).predictions[0]
        assert after == cert.classes[cert.new_classes[t]] != cert.predictions[t]
    for b in range(4):
        witness = cert.collective_witness(b)
        assert len(witness) <= b
        poisoned = y.copy()
        poisoned[list(witness)] = list(witness.values())
        after = certify(K, poisoned, rows, C, max_flips=0).predictions
        assert np.sum(after != cert.predictions) == cert.collective_lower[b]
        assert np.array_equal(after != cert.predictions, cert.collective_changed(b))


def test_predictions_match_scikit_learn() -> None:
    from sklearn.svm import LinearSVC

    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3))
    y = rng.integers(0, 3, 40)
    cert = certify(X[:40] @ X[:40].T, y, X[40:] @ X[:40].T, 0.7, max_flips=0)
    model = LinearSVC(C=0.7, loss="hinge", fit_intercept=False, tol=1e-10, max_iter=1_000_000).fit(X[:40], y)
    assert np.allclose(cert.decision_values, model.decision_function(X[40:]), atol=1e-4)
    assert np.array_equal(cert.predictions, model.predict(X[40:]))


@pytest.mark.parametrize("C", [0.001, 5.0])
def test_without_the_curve(C: float) -> None:
    K, y, rows = blobs(12, 30)
    full = certify(K, y, rows, C, max_flips=2, engine="enumerate")
    part = certify(K, y, rows, C, max_flips=2, engine="enumerate", collective=False)
    assert np.array_equal(part.radius_upper, full.radius_upper)
    assert np.array_equal(part.radius_lower, full.radius_lower)
    contains(part, full)
    assert part.run.stages[0].statistics["curve_walked_to"] == 0


@pytest.mark.parametrize("seconds", [0.0001, 0.05, 0.3])
def test_time_limit_gives_intervals_that_contain_the_truth(seconds: float) -> None:
    K, y, rows = gaussian(17, 60)
    full = certify(K, y, rows, 2.0, engine="enumerate")
    part = certify(K, y, rows, 2.0, engine="enumerate", time_limit=seconds)
    contains(part, full)
    if not part.exact:
        assert part.run.stopped == "time limit"
        assert set(part.verdicts(flips=8)) <= {"robust", "vulnerable", "unknown"}
    for t in range(60):
        witness = part.witness(t)
        if witness is not None:
            poisoned = y.copy()
            poisoned[list(witness)] = 1 - poisoned[list(witness)]
            assert certify(K, poisoned, rows[t : t + 1], 2.0, max_flips=0).predictions[0] != part.predictions[t]


@pytest.mark.parametrize("seconds", [0.0001, 0.05, 0.3])
@pytest.mark.parametrize("engine", ["enumerate", "relaxed"])
def test_time_limit_with_more_classes(seconds: float, engine: str) -> None:
    K, y, rows = blobs(20, 30)
    full = certify(K, y, rows, 5.0, max_flips=3)
    contains(certify(K, y, rows, 5.0, engine=engine, max_flips=3, time_limit=seconds), full)
    wide = certify(K, y, rows, 5.0, engine=engine, time_limit=seconds)
    assert np.all(wide.radius_lower <= wide.radius_upper)
    assert np.all((wide.radius_lower <= full.radius_lower) | (full.radius_lower == 4))


@pytest.mark.usefixtures("ctrl_c")
@pytest.mark.parametrize(
    ("make", "m", "C", "max_flips"), [(gaussian, 40, 2.0, None), (blobs, 40, 5.0, 9)], ids=["two classes", "more"]
)
def test_interrupt_gives_intervals(make: Any, m: int, C: float, max_flips: int | None) -> None:
    K, y, rows = make(m, 50)
    certify(*make(8, 5), C, max_flips=1, engine="enumerate")

    def interrupt() -> None:
        time.sleep(1.0)
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    cert = certify(K, y, rows, C, max_flips=max_flips, time_limit=600, engine="enumerate")
    thread.join()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert cert.run.stopped == "interrupted"
    assert not cert.exact
    assert np.all((cert.radius_lower >= 1) & (cert.radius_lower <= cert.radius_upper))
    if make is gaussian:
        assert np.any(cert.radius_upper < cert.never)


@KINDS
def test_runs_outside_the_main_thread(make: Any, C: float) -> None:
    K, y, rows = make(8, 5)
    results: list[Certificate] = []
    thread = threading.Thread(target=lambda: results.append(certify(K, y, rows, C, max_flips=3)))
    thread.start()
    thread.join()
    assert results[0].exact


@KINDS
def test_too_large_says_what_would_fit(make: Any, C: float) -> None:
    K, y, rows = make(60, 5)
    with pytest.raises(WorkTooLarge, match=r"max_flips=\d+ would fit.*time_limit=.*"):
        certify(K, y, rows, C, max_flips=60)
    with pytest.raises(WorkTooLarge, match=r"max_flips=\d+ would fit"):
        certify(K, y, rows, C, engine="relaxed")


def test_too_large_names_the_relaxation_for_more_classes() -> None:
    with pytest.raises(WorkTooLarge, match=r"max_flips=\d+ would fit.*time_limit=.*engine='relaxed'"):
        certify(*blobs(60, 5), 5.0, max_flips=60)


def test_a_witness_that_does_not_check_opens_the_interval(monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(bits: np.ndarray) -> np.ndarray:
        return np.zeros(0, dtype=np.int64)

    monkeypatch.setattr(seen, "positions_of", wrong)
    K, y, rows = gaussian(8, 5)
    with pytest.warns(RuntimeWarning, match="contradict retraining"):
        cert = certify(K, y, rows, 2.0, engine="enumerate")
    assert np.all(cert.radius_upper == cert.never)
    assert np.all(cert.collective_lower == 0)
    assert not cert.exact


@pytest.mark.parametrize("m", [40, 100])
def test_singular_kernels_full_of_ties_are_decided_exactly(m: int) -> None:
    rng = np.random.default_rng(0)
    X = rng.integers(-2, 3, size=(m + 20, 3)).astype(float)
    K = X @ X.T
    cert = certify(K[:m, :m], rng.integers(0, 2, m), K[m:, :m], 1.0, max_flips=1, engine="enumerate")
    assert cert.run.kernel_shift == 0.0
    assert cert.exact
    assert np.any(cert.radius_upper == 0)
