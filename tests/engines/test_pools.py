"""Chunks that are walked elsewhere give the same certificate, for two classes and for more."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.helpers.certificates import same, same_witnesses
from tests.helpers.pools import PicklingPool
from tests.helpers.problems import blobs, gaussian

from labelcert import Certificate, Threat, certify
from labelcert.arrays import Signs
from labelcert.engines.cube import labellings
from labelcert.engines.pools import Threads, chunks_walked_by, seconds_per_step
from labelcert.engines.tables import forest
from labelcert.stopping import stopped_by

TWO, MORE = "CubeTask", "FillTask"

CASES = {
    "two classes, all labellings": (TWO, gaussian(13, 20), 2.0, "enumerate", {}),
    "two classes, three flips": (TWO, gaussian(13, 20), 2.0, "enumerate", {"max_flips": 3}),
    "two classes, square loss": (TWO, gaussian(13, 20), 2.0, "enumerate", {"max_flips": 3, "loss": "square"}),
    "two classes, costs": (TWO, gaussian(13, 20), 2.0, "enumerate", {"threat": Threat(costs=np.arange(13) % 3 + 1)}),
    "more classes": (MORE, blobs(13, 20), 5.0, "enumerate", {"max_flips": 3}),
    "more classes, square loss": (MORE, blobs(13, 20), 5.0, "enumerate", {"max_flips": 3, "loss": "square"}),
    "more classes, closed form": (MORE, blobs(13, 20), 5.0, "closed-form", {"max_flips": 3, "loss": "square"}),
    "more classes, relaxed": (MORE, blobs(15, 20), 1.0, "relaxed", {"max_flips": 3}),
    "two classes, relaxed": (MORE, gaussian(15, 20), 2.0, "relaxed", {"max_flips": 3}),
}


@pytest.fixture(autouse=True)
def _small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """So small that there are many."""
    monkeypatch.setattr(labellings, "CHUNK_STOPS", 256)
    monkeypatch.setattr(forest, "CHUNK_STOPS", 64)


def here_and_elsewhere(name: str, pool: PicklingPool) -> tuple[Certificate, Certificate]:
    _, arrays, C, engine, options = CASES[name]

    def run() -> Certificate:
        return certify(*arrays, C, engine=engine, workers=2, **options)

    here = run()
    with chunks_walked_by(pool):
        elsewhere = run()
    return here, elsewhere


@pytest.mark.parametrize(("batch", "protocol"), [(1, 4), (5, 5)])
@pytest.mark.parametrize("name", CASES)
def test_the_certificate_is_the_same(name: str, batch: int, protocol: int) -> None:
    here, elsewhere = here_and_elsewhere(name, PicklingPool(batch, protocol))
    same(here, elsewhere)
    same_witnesses(here, elsewhere)
    assert elsewhere.run.problem_sha256 == here.run.problem_sha256
    work = [cert.run.stages[0].statistics["trainings"] for cert in (here, elsewhere)]
    assert work[0] == work[1]


@pytest.mark.parametrize("name", CASES)
def test_chunks_are_really_sent(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pool = PicklingPool(batch=3)
    here: list[str] = []
    monkeypatch.setattr(Threads, "submit", _noting(here))
    _, arrays, C, engine, options = CASES[name]
    with chunks_walked_by(pool):
        certify(*arrays, C, engine=engine, **options)
    assert set(pool.sent) == {CASES[name][0]}
    assert pool.sent[CASES[name][0]] >= 5
    assert pool.batches >= pool.sent[CASES[name][0]] / 3
    assert not {TWO, MORE} & set(here)


def _noting(names: list[str]) -> Any:
    """``Threads.submit`` that takes note of what it is given."""
    original = Threads.submit

    def submit(self: Threads, task: Any, batch: Any, flag: Any) -> Any:
        names.append(type(task).__name__)
        return original(self, task, batch, flag)

    return submit


def test_every_chunk_is_sent_once() -> None:
    """All labellings of 13 labels, halved by the mirror, in chunks of 256."""
    pool = PicklingPool()
    here_and_elsewhere("two classes, all labellings", pool)
    assert pool.sent == {TWO: 2**12 / 2**8}


def test_nothing_is_sent_afterwards() -> None:
    pool = PicklingPool()
    with chunks_walked_by(pool):
        pass
    certify(*gaussian(8, 3), 2.0, engine="enumerate")
    certify(*blobs(8, 3), 5.0, engine="enumerate", max_flips=2)
    assert pool.batches == 0


def test_an_error_elsewhere_is_raised_here() -> None:
    class Broken(PicklingPool):
        def submit(self, task: Any, chunks: Any, flag: Any) -> Any:
            raise RuntimeError("the cluster is gone")

    with chunks_walked_by(Broken()), pytest.raises(RuntimeError, match="the cluster is gone"):
        certify(*blobs(8, 3), 5.0, engine="enumerate", max_flips=2)


def test_nothing_is_timed_for_long_once_a_run_is_over() -> None:
    calls = []

    def walk(flag: Signs) -> int:
        calls.append(bool(flag[0]))
        return 1

    with stopped_by(lambda: True):
        assert seconds_per_step(walk) > 0.0
    assert calls == [True]
