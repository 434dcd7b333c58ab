"""How models are trained: twice, elsewhere, again after an end, and as long as there is time."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import labelcert
from labelcert import InvalidInput, certify_votes, seeded, verify
from labelcert.verification.verdict import CheckStatus

RNG = np.random.default_rng(1)
X = RNG.normal(size=(60, 2))
T = RNG.normal(size=(25, 2))
LABELS = np.where(X[:, 0] > 0, "a", np.where(X[:, 1] > 0, "b", "c"))


def nearest(indices: Any, labels: Any) -> Any:
    return labels[((X[indices][None] - T[:, None]) ** 2).sum(axis=2).argmin(axis=1)]


def close(indices: Any, labels: Any) -> Any:
    near = np.exp(-((X[indices][None] - T[:, None]) ** 2).sum(axis=2))
    return np.column_stack([near[:, labels == c].sum(axis=1) for c in "abc"])


def alike(one: Any, other: Any) -> bool:
    """Whether two certificates say the same."""
    names = ("predictions", "radius_lower", "radius_upper", "collective_lower", "collective_upper", "part_votes")
    return all(np.array_equal(getattr(one, name), getattr(other, name)) for name in names)


@pytest.mark.parametrize("how", [{}, {"combine": "run-off"}, {"spread": 3}, {"threat": "samples", "rows": X}])
def test_a_file_says_the_same_and_is_verified(how: dict[str, Any], tmp_path: Path) -> None:
    cert = certify_votes(close, LABELS, n_test=25, parts=9, max_flips=6, **how)
    cert.save(tmp_path / "votes.cert")
    again = labelcert.load(tmp_path / "votes.cert")
    assert alike(cert, again)
    found = verify(again)
    assert found.accepted, found
    proved = {check.what for check in found.checks if check.status is CheckStatus.PROVED}
    assert {"contents", "problem", "predictions", "decision values", "radii"} <= proved
    assert verify(again, votes=cert.part_votes).accepted
    other = np.array(cert.part_votes)
    other[0, 0] = (other[0, 0] + 1) % 3
    assert not verify(again, votes=other).accepted
    assert "votes of" in cert.summary()
    cert.report(tmp_path / "votes.html")


def test_what_is_stored_is_not_trained_again(tmp_path: Path) -> None:
    calls: list[int] = []

    def counted(indices: Any, labels: Any) -> Any:
        calls.append(indices.size)
        return nearest(indices, labels)

    how: dict[str, Any] = {"n_test": 25, "parts": 10, "max_flips": 4, "store": tmp_path, "attempts": 5}
    first = certify_votes(counted, LABELS, **how)
    assert len(calls) == 10 + 2 + 5
    files = sorted(tmp_path.glob("model-*.npz"))
    assert len(files) == 15
    calls.clear()
    assert alike(certify_votes(counted, LABELS, **how), first)
    assert len(calls) == 2 + 5  # models are compared with what is stored, and attacks are tried again
    files[0].unlink()
    files[1].write_bytes(files[1].read_bytes()[:40])  # a file that is cut off is as good as none
    files[2].write_bytes(b"nothing")
    assert alike(certify_votes(nearest, LABELS, **how), first)
    with pytest.raises(InvalidInput, match="or empty"):
        certify_votes(lambda indices, labels: nearest(indices, labels)[::-1], LABELS, **how)


def test_training_that_is_not_deterministic_is_refused() -> None:
    noise = np.random.default_rng(0)

    def noisy(indices: Any, labels: Any) -> Any:
        return noise.choice(labels, 25)

    with pytest.raises(InvalidInput, match="training is not deterministic: model 0, trained twice"):
        certify_votes(noisy, LABELS, n_test=25, parts=5)

    def legacy(indices: Any, labels: Any) -> Any:
        return np.random.choice(labels, 25)  # noqa: NPY002

    with pytest.raises(InvalidInput, match="not deterministic"):
        certify_votes(legacy, LABELS, n_test=25, parts=5)
    assert alike(*(certify_votes(seeded(legacy), LABELS, n_test=25, parts=5, max_flips=2) for _ in range(2)))


def test_processes_say_the_same() -> None:
    how: dict[str, Any] = {"n_test": 25, "parts": 6, "max_flips": 4}
    far = certify_votes(lambda i, y: nearest(i, y), LABELS, scheduler="processes", workers=2, **how)
    assert alike(far, certify_votes(nearest, LABELS, **how))


def test_a_function_of_a_script_travels(tmp_path: Path) -> None:
    """Without a main guard, and not importable."""
    script = tmp_path / "script.py"
    script.write_text(
        "import numpy as np, labelcert\n"
        "shift = 0.5\n"
        "def train(indices, labels):\n"
        "    return np.full(3, labels[0] if shift else 0)\n"
        "how = dict(n_test=3, parts=4, scheduler='processes', workers=2)\n"
        "cert = labelcert.certify_votes(train, np.arange(12) % 2, **how)\n"
        "print(cert.n_test)\n"
    )
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=120)
    assert done.stdout.strip() == "3", done.stderr


def test_time_that_is_over_proves_nothing_and_keeps_what_is_stored(
    tmp_path: Path, end_of_time: Callable[..., None]
) -> None:
    trained = itertools.count(1)

    def slow(indices: Any, labels: Any) -> Any:
        if next(trained) == 3:
            end_of_time()
        return nearest(indices, labels)

    how: dict[str, Any] = {"n_test": 25, "parts": 10, "max_flips": 3, "store": tmp_path, "attempts": 0}
    cert = certify_votes(slow, LABELS, time_limit=300.0, workers=1, **how)
    assert cert.run.stopped == "time limit"
    assert cert.radius_lower.max() == 0
    assert cert.radius_upper.min() == cert.never
    assert 0 < len(list(tmp_path.glob("model-*"))) < 10
    assert verify(certify_votes(nearest, LABELS, **how)).accepted


@pytest.mark.usefixtures("ctrl_c")
def test_interrupted_within_a_moment() -> None:
    answered = threading.Event()

    def endless(indices: Any, labels: Any) -> Any:
        os.kill(os.getpid(), signal.SIGINT)
        assert answered.wait(100.0), "nobody waits for a training that goes on"
        return nearest(indices, labels)

    cert = certify_votes(endless, LABELS, n_test=25, parts=10)
    answered.set()
    assert cert.run.stopped == "interrupted"


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"train": 5}, "train must be a function"),
        ({"n_test": 0}, "n_test must be a whole number"),
        ({"parts": 61}, "parts must be a whole number between 1 and 60"),
        ({"parts": 0}, "parts must be a whole number"),
        ({"parts": [1, 2]}, "60 whole numbers"),
        ({"spread": 61}, "parts must be"),
        ({"combine": "mean"}, "combine must be one of 'votes', 'run-off'"),
        ({"combine": "run-off"}, "train must return scores"),
        ({"threat": "everything"}, "threat must be a labelcert.Threat, 'labels' or 'samples'"),
        ({"threat": "samples"}, "give their features as rows="),
        ({"threat": "samples", "rows": X, "parts": [0, 1] * 30}, "parts by a hash of each row"),
        ({"rows": X[:5]}, "rows must hold one row per label"),
        ({"train": lambda i, y: np.zeros((3, 3))}, "must return 25 predictions"),
        ({"train": lambda i, y: np.full((25, 3), np.nan)}, "not finite"),
        ({"train": lambda i, y: np.full(25, "d")}, "train predicted"),
        ({"twice": -1}, "twice must be"),
        ({"attempts": 1.5}, "attempts must be"),
        ({"max_flips": 61}, "max_flips must be"),
    ],
)
def test_bad_input_is_refused(given: dict[str, Any], words: str) -> None:
    asked = {"train": nearest, "n_test": 25, "parts": 5, **given}
    with pytest.raises(InvalidInput, match=words):
        certify_votes(asked.pop("train"), LABELS, **asked)


def test_labels_do_not_deal_labels_out() -> None:
    other = np.array(["c", "a", "b"] * 20)
    first, second = (
        certify_votes(nearest, labels, n_test=25, parts=7, rows=X, max_flips=1, attempts=0)
        for labels in (LABELS, other)
    )
    part_of = [cert.run.stages[0].statistics["part_of"] for cert in (first, second)]
    assert part_of[0] == part_of[1]
    order = RNG.permutation(60)
    third = certify_votes(
        lambda i, y: nearest(order[i], y), LABELS[order], n_test=25, parts=7, rows=X[order], attempts=0
    )
    assert np.array_equal(np.array(part_of[0])[order], third.run.stages[0].statistics["part_of"])


def test_trusted_labels_cannot_be_bought() -> None:
    all_ = labelcert.Threat(trusted=np.ones(60, dtype=bool))
    cert = certify_votes(nearest, LABELS, n_test=25, parts=7, threat=all_, max_flips=5)
    assert (cert.radius_lower == 6).all()
    assert cert.collective_upper.max() == 0
    assert cert.exact
    assert verify(cert).accepted
    none = certify_votes(nearest, LABELS, n_test=25, parts=7, max_flips=0)
    assert (none.radius_lower == 1).all()
    assert none.exact


@pytest.mark.long
@pytest.mark.filterwarnings("ignore")
def test_a_worker_of_a_cluster_that_is_killed_changes_nothing() -> None:
    distributed = pytest.importorskip("distributed", reason="Dask is not installed: pip install 'labelcert[dask]'")
    how: dict[str, Any] = {"n_test": 25, "parts": 40, "max_flips": 4, "attempts": 10}

    def slow(indices: Any, labels: Any) -> Any:
        time.sleep(0.2)
        return nearest(indices, labels)

    options: dict[str, Any] = {"processes": True, "dashboard_address": None, "silence_logs": 50}
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, **options) as cluster:

        def kill() -> None:
            with distributed.Client(cluster.scheduler_address, set_as_default=False) as client:
                os.kill(next(iter(client.run(os.getpid).values())), signal.SIGKILL)

        timer = threading.Timer(4.0, kill)
        timer.start()
        far = certify_votes(slow, LABELS, scheduler=cluster.scheduler_address, **how)
        timer.join()
    assert alike(far, certify_votes(nearest, LABELS, **how))
