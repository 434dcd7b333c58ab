"""Local processes, one of which is killed on the way: the results of threads, bit for bit."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from typing import Any

import pytest
from tests.helpers.certificates import same, same_witnesses
from tests.helpers.problems import gaussian

from labelcert import certify, certify_partition
from labelcert.engines import processes as module
from labelcert.engines.processes import ProcessChunks


def test_a_killed_process_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    pools: list[ProcessChunks] = []
    started = ProcessChunks.__init__

    def remember(self: ProcessChunks, *arguments: Any) -> None:
        started(self, *arguments)
        pools.append(self)

    monkeypatch.setattr(ProcessChunks, "__init__", remember)
    killed = []

    def kill() -> None:
        end = time.monotonic() + 60
        while not killed and time.monotonic() < end:
            for pid in [pid for pool in pools for pid in dict(pool._pool._processes or {})][:1]:
                os.kill(pid, signal.SIGKILL)
                killed.append(pid)
            time.sleep(0.01)

    arrays = gaussian(28, 5)
    here = certify_partition(*arrays, 1.0, parts=2, workers=1)
    killer = threading.Thread(target=kill)
    killer.start()
    there = certify_partition(*arrays, 1.0, parts=2, workers=2, scheduler="processes")
    killer.join()
    assert killed
    same(here, there)
    same_witnesses(here, there)


def test_any_certificate_can_be_computed_by_processes() -> None:
    arrays = gaussian(15, 5)
    here = certify(*arrays, 1.0, workers=1)
    there = certify(*arrays, 1.0, workers=2, scheduler="processes")
    same(here, there)
    same_witnesses(here, there)


def test_processes_that_keep_dying_end_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "walk_batch", os._exit)
    pool = ProcessChunks(1, 1)
    batch = module._Batch(pool, (3,))
    with pytest.raises(module.BrokenProcessPool):
        wait_for(batch)
    pool.close()


def wait_for(batch: Any) -> None:
    for _ in range(10):
        with contextlib.suppress(TimeoutError):
            batch.result(timeout=60)
