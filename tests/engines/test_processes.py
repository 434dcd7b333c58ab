"""Local processes, one of which is killed on the way: the results of threads, bit for bit."""

from __future__ import annotations

import os
import signal
import threading
import time
from typing import Any

import pytest
from tests.helpers.certificates import same, same_witnesses
from tests.helpers.problems import gaussian

from labelcert import certify, certify_partition
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
            for pid in [process.pid for pool in pools for process in list(pool.workers._processes)][:1]:
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
