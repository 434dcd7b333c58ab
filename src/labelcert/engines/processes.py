"""Chunks of work on local processes."""

from __future__ import annotations

import multiprocessing
from collections.abc import Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import Any

from labelcert.arrays import Signs
from labelcert.engines.pools import Processors, Task, read_only_arrays, walk_batch
from labelcert.signals import obey_parent

ATTEMPTS = 5
"""How often a batch is started if processes keep dying."""


class ProcessChunks(Processors):
    """Sends chunks of one certificate to local processes. Processes that die are replaced."""

    def __init__(self, count: int, batch: int) -> None:
        self.batch = batch
        self.ahead = 3 * count
        self._count = count
        self._pool = self._new()

    def submit(self, task: Task, chunks: Sequence[Any], flag: Signs) -> _Batch:
        """Start to walk a batch."""
        return _Batch(self, (task, read_only_arrays(task), list(chunks)))

    def start(self, arguments: tuple[Any, ...]) -> tuple[ProcessPoolExecutor, Future[list[Any]]]:
        """Hand a batch to the processes; also returns the pool that has it."""
        try:
            return self._pool, self._pool.submit(walk_batch, *arguments)
        except BrokenProcessPool:
            self.replace(self._pool)
            return self._pool, self._pool.submit(walk_batch, *arguments)

    def replace(self, broken: ProcessPoolExecutor) -> None:
        """Start new processes instead of a pool of which one died, unless that has happened already."""
        if broken is self._pool:
            broken.shutdown(wait=False, cancel_futures=True)
            self._pool = self._new()

    def close(self) -> None:
        """End the processes."""
        self._pool.shutdown(wait=True, cancel_futures=True)

    def _new(self) -> ProcessPoolExecutor:
        context = multiprocessing.get_context("spawn")
        return ProcessPoolExecutor(self._count, mp_context=context, initializer=obey_parent)


class _Batch:
    """A batch under way. It is started again if a process dies."""

    def __init__(self, owner: ProcessChunks, arguments: tuple[Any, ...]) -> None:
        self._owner, self._arguments, self._attempt = owner, arguments, 1
        self._pool, self._future = owner.start(arguments)

    def result(self, timeout: float | None = None) -> list[Any]:
        """Wait for the result; raises TimeoutError if it takes longer."""
        try:
            return self._future.result(timeout=timeout)
        except BrokenProcessPool:
            if self._attempt >= ATTEMPTS:
                raise
        self._attempt += 1
        self._owner.replace(self._pool)
        self._pool, self._future = self._owner.start(self._arguments)
        raise TimeoutError("started again")
