from __future__ import annotations

import os
import signal
import threading
import time

import numpy as np
import pytest
from tests.problems import gaussian

from labelcert import Certificate, Threat, certify
from labelcert.engines.base import Question
from labelcert.engines.chunks import cube_chunks, level_chunks
from labelcert.engines.enumerate import make_task, positions_of
from labelcert.problem import Problem
from labelcert.svm.scoring import HingeScorer


def same(a: Certificate, b: Certificate) -> None:
    for name in ("radius_lower", "radius_upper", "collective_lower", "collective_upper"):
        assert np.array_equal(getattr(a, name), getattr(b, name)), name


def question(m: int, max_flips: int | None = None, threat: Threat | None = None) -> Question:
    K, y, rows = gaussian(m, 3)
    problem = Problem.build(K, y, rows, 2.0, max_flips=max_flips, threat=threat)
    return Question.ask(problem, HingeScorer(problem))


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_results_do_not_depend_on_workers(workers: int) -> None:
    K, y, rows = gaussian(15, 40)
    one = certify(K, y, rows, 2.0, engine="enumerate", workers=1)
    many = certify(K, y, rows, 2.0, engine="enumerate", workers=workers)
    same(one, many)
    assert [one.witness(t) for t in range(40)] == [many.witness(t) for t in range(40)]


def test_budgeted_walk_agrees_with_the_full_cube() -> None:
    K, y, rows = gaussian(14, 40)
    full = certify(K, y, rows, 2.0, engine="enumerate")
    for b in (1, 3, 6):
        part = certify(K, y, rows, 2.0, engine="enumerate", max_flips=b)
        within = full.radius_lower <= b
        assert np.array_equal(part.radius_upper[within], full.radius_upper[within])
        assert np.all(part.radius_lower[~within] == b + 1)
        assert np.all(part.radius_upper[~within] == 15)
        assert np.array_equal(part.collective_lower, full.collective_lower[: b + 1])
        assert part.exact


def test_more_than_64_labels() -> None:
    K, y, rows = gaussian(70, 10)
    cert = certify(K, y, rows, 2.0, max_flips=1)
    for t in range(10):
        flips = [
            i
            for i in range(70)
            if certify(K, np.where(np.arange(70) == i, 1 - y, y), rows[t : t + 1], 2.0, max_flips=0).predictions[0]
            != cert.predictions[t]
        ]
        assert (cert.radius_lower[t] == 1) == bool(flips)


def test_every_set_is_visited_once() -> None:
    q = question(9, max_flips=3, threat=Threat(trusted=np.arange(9) == 4))
    task = make_task(q)
    stops = sum(chunk.stops for chunk in level_chunks(task))
    assert stops == 1 + 8 + 28 + 56
    full = make_task(question(9))
    assert full.mirror
    assert sum(chunk.stops for chunk in cube_chunks(full)) == 2**8


@pytest.mark.parametrize(
    ("threat", "max_flips", "sets"),
    [
        (Threat(groups=["ann"] * 14 + ["bob"] * 14, group_budgets=2), None, 106**2),
        (Threat(costs=[1] * 10 + [1000] * 18), 10, 1024),
    ],
)
def test_inadmissible_sets_are_not_even_generated(threat: Threat, max_flips: int | None, sets: int) -> None:
    q = question(28, max_flips=max_flips, threat=threat)
    assert q.problem.adversary.count_sets(q.problem.max_flips) == sets
    task = make_task(q)._replace(mirror=False)
    assert sum(chunk.stops for chunk in level_chunks(task)) < 30 * sets
    K, y, rows = gaussian(28, 3)
    assert certify(K, y, rows, 2.0, threat=threat, max_flips=max_flips).exact


def test_chunks_come_in_order_of_cost() -> None:
    for q in (question(14), question(14, threat=Threat(costs=np.arange(1, 15)))):
        costs = [chunk.min_cost for chunk in cube_chunks(make_task(q))]
        assert costs == sorted(costs)
        assert costs[0] == 0


def test_positions() -> None:
    bits = np.array([0b101, 1 << 3], dtype=np.uint64)
    assert positions_of(bits).tolist() == [0, 2, 67]


def contains(part: Certificate, full: Certificate) -> None:
    assert np.all(part.radius_lower <= full.radius_lower)
    assert np.all(part.radius_upper >= full.radius_upper)
    assert np.all(part.collective_lower <= full.collective_lower)
    assert np.all(part.collective_upper >= full.collective_upper)


@pytest.mark.parametrize("seconds", [0.0001, 0.05, 0.3])
def test_time_limit_gives_intervals_that_contain_the_truth(seconds: float) -> None:
    K, y, rows = gaussian(17, 60)
    full = certify(K, y, rows, 2.0, engine="enumerate")
    part = certify(K, y, rows, 2.0, engine="enumerate", time_limit=seconds)
    contains(part, full)
    if not part.exact:
        assert part.settings["stopped"] == "time limit"
        assert set(part.verdicts(flips=8)) <= {"robust", "vulnerable", "unknown"}
    for t in range(60):
        witness = part.witness(t)
        if witness is not None:
            poisoned = y.copy()
            poisoned[list(witness)] = 1 - poisoned[list(witness)]
            assert certify(K, poisoned, rows[t : t + 1], 2.0, max_flips=0).predictions[0] != part.predictions[t]


def test_interrupt_gives_intervals() -> None:
    K, y, rows = gaussian(24, 50)
    certify(*gaussian(8, 5), 2.0)

    def interrupt() -> None:
        time.sleep(0.8)
        os.kill(os.getpid(), signal.SIGINT)

    before = signal.getsignal(signal.SIGINT)
    thread = threading.Thread(target=interrupt)
    thread.start()
    cert = certify(K, y, rows, 2.0, engine="enumerate")
    thread.join()
    assert signal.getsignal(signal.SIGINT) is before
    assert cert.settings["stopped"] == "interrupted"
    assert not cert.exact
    assert np.all(cert.radius_lower <= cert.radius_upper)
    assert np.all(cert.radius_lower >= 1)
    assert np.any(cert.radius_upper < cert.never)


def test_runs_outside_the_main_thread() -> None:
    K, y, rows = gaussian(8, 5)
    results: list[Certificate] = []
    thread = threading.Thread(target=lambda: results.append(certify(K, y, rows, 2.0)))
    thread.start()
    thread.join()
    assert results[0].exact


def test_a_witness_that_does_not_check_opens_the_interval(monkeypatch: pytest.MonkeyPatch) -> None:
    from labelcert.engines import enumerate as module

    def wrong(bits: np.ndarray) -> np.ndarray:
        return np.zeros(0, dtype=np.int64)

    monkeypatch.setattr(module, "positions_of", wrong)
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
    assert cert.settings["kernel_shift"] == 0.0
    assert cert.exact
    assert np.any(cert.radius_upper == 0)
