"""Where chunks of an enumeration are walked: on threads of this process, or wherever a pool sends them.

A pool takes batches of chunks and returns their results in order, so that merged results do not depend on where they
were computed.
"""

from __future__ import annotations

import queue
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Protocol

import numpy as np
import numpy.typing as npt

from labelcert.engines.chunks import Chunk
from labelcert.engines.walks import DOUBTS, Found, Task, Walker, new_walker

Walked = list[tuple[Found, bool]]
"""For each chunk of a batch what was found, and whether it was finished."""


class Promise(Protocol):
    """A result that is not there yet."""

    def result(self, timeout: float | None = None) -> Walked:
        """Wait for it; raises TimeoutError when it takes longer."""


class ChunkPool(Protocol):
    """Walks batches of chunks.

    Attributes
    ----------
    batch : int
        Chunks per batch.
    ahead : int
        Batches to have under way at a time.
    """

    batch: int
    ahead: int

    def submit(self, task: Task, chunks: Sequence[Chunk]) -> Promise:
        """Start walking a batch."""


class Threads:
    """Threads of this process, one chunk at a time; the flag makes them return."""

    batch = 1

    def __init__(self, workers: int, flag: npt.NDArray[np.int8]) -> None:
        self.ahead = 3 * workers
        self._workers = workers
        self._flag = flag
        self._pool = ThreadPoolExecutor(workers)
        self._walkers: queue.SimpleQueue[Walker | None] = queue.SimpleQueue()
        for _ in range(workers):
            self._walkers.put(None)

    def submit(self, task: Task, chunks: Sequence[Chunk]) -> Future[Walked]:
        """Start walking a batch."""
        return self._pool.submit(self._walk, task, chunks)

    def close(self) -> None:
        """Wait for what is under way."""
        self._pool.shutdown()

    def _walk(self, task: Task, chunks: Sequence[Chunk]) -> Walked:
        walker = self._walkers.get()
        if walker is None:
            walker = new_walker(task)
        try:
            return [chunk.walk(task, walker, self._flag) for chunk in chunks]
        finally:
            self._walkers.put(walker)


_POOL: ContextVar[ChunkPool | None] = ContextVar("chunk_pool", default=None)


@contextmanager
def chunks_walked_by(pool: ChunkPool) -> Iterator[None]:
    """Every enumeration inside sends its chunks to this pool."""
    token = _POOL.set(pool)
    try:
        yield
    finally:
        _POOL.reset(token)


@contextmanager
def chunk_pool(workers: int, flag: npt.NDArray[np.int8]) -> Iterator[ChunkPool]:
    """The pool in force, or threads of this process."""
    pool = _POOL.get()
    if pool is not None:
        yield pool
        return
    threads = Threads(workers, flag)
    try:
        yield threads
    finally:
        threads.close()


def walk_batch(task: Task, read_only: Sequence[bool], chunks: Sequence[Chunk]) -> Walked:
    """Walk a batch that came from another process.

    Parameters
    ----------
    task : Task
    read_only : sequence of bool
        Which of its arrays were read-only where it comes from (`read_only_arrays`): compiled code depends on it.
    chunks : sequence of Chunk
    """
    for array, locked in zip(_arrays(task), read_only, strict=True):
        array.setflags(write=not locked)
    walker = new_walker(task)
    flag = np.zeros(1, dtype=np.int8)
    return [(_short(found), finished) for found, finished in (chunk.walk(task, walker, flag) for chunk in chunks)]


def read_only_arrays(task: Task) -> list[bool]:
    """Which arrays of a task are read-only, in a fixed order."""
    return [not array.flags.writeable for array in _arrays(task)]


def _arrays(value: object) -> Iterator[npt.NDArray[np.generic]]:
    if isinstance(value, np.ndarray):
        yield value
    elif isinstance(value, tuple):
        for part in value:
            yield from _arrays(part)


def _short(found: Found) -> Found:
    """Without the unused room for doubts."""
    doubts = int(found.counters[DOUBTS])
    return found._replace(doubt=found.doubt[:doubts].copy(), doubt_set=found.doubt_set[:doubts].copy())
