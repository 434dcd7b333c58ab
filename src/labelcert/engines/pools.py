"""Where chunks of work run: on threads of this process, or wherever a pool sends them.

Results come back in the order of the chunks, so that nothing depends on where or when they were computed.
"""

from __future__ import annotations

import itertools
import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as NotYet
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from labelcert.arrays import Signs
from labelcert.engines.control import Control

Chunk = TypeVar("Chunk")


class Task(Protocol):
    """Work that can be cut into chunks; one that may leave this process is a nested tuple of arrays and numbers."""

    def new_worker(self) -> Any:
        """Working memory of one worker."""

    def walk(self, chunk: Any, worker: Any, flag: Signs) -> Any:
        """The result of one chunk; ``flag[0] != 0`` ends it early."""


class Local:
    """A function of a chunk as a task that stays on the threads of this process."""

    def __init__(self, work: Callable[[Any], Any]) -> None:
        self._work = work

    def new_worker(self) -> None:
        """Nothing is needed."""

    def walk(self, chunk: Any, worker: Any, flag: Signs) -> Any:
        """Call the function."""
        return self._work(chunk)


class Promise(Protocol):
    """The results of a batch of chunks, which are not there yet."""

    def result(self, timeout: float | None = None) -> list[Any]:
        """Wait for them; raises TimeoutError when it takes longer."""


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

    def submit(self, task: Task, chunks: Sequence[Any]) -> Promise:
        """Start walking a batch."""


class Threads:
    """Threads of this process, one chunk at a time; the flag makes them return."""

    batch = 1

    def __init__(self, workers: int, flag: Signs) -> None:
        self.ahead = 3 * workers
        self._flag = flag
        self._pool = ThreadPoolExecutor(workers)
        self._workers: queue.SimpleQueue[Any] = queue.SimpleQueue()
        for _ in range(workers):
            self._workers.put(None)

    def submit(self, task: Task, chunks: Sequence[Any]) -> Future[list[Any]]:
        """Start walking a batch."""
        return self._pool.submit(self._walk, task, chunks)

    def close(self) -> None:
        """Wait for what is under way."""
        self._pool.shutdown()

    def _walk(self, task: Task, chunks: Sequence[Any]) -> list[Any]:
        worker = self._workers.get()
        if worker is None:
            worker = task.new_worker()
        try:
            return [task.walk(chunk, worker, self._flag) for chunk in chunks]
        finally:
            self._workers.put(worker)


_POOL: ContextVar[ChunkPool | None] = ContextVar("chunk_pool", default=None)


@contextmanager
def chunks_walked_by(pool: ChunkPool) -> Iterator[None]:
    """Every engine inside sends its chunks to this pool."""
    token = _POOL.set(pool)
    try:
        yield
    finally:
        _POOL.reset(token)


@contextmanager
def _pool_for(task: Task, control: Control) -> Iterator[ChunkPool]:
    """The pool in force, or threads of this process."""
    pool = _POOL.get()
    if pool is not None and not isinstance(task, Local):
        yield pool
        return
    threads = Threads(control.workers, control.flag)
    try:
        yield threads
    finally:
        threads.close()


def in_order(task: Task, chunks: Iterator[Chunk], control: Control) -> Iterator[tuple[Chunk, Any]]:
    """Each chunk with its result, in order; takes no more chunks once the run has to stop."""
    pending: deque[tuple[list[Chunk], Promise]] = deque()
    with _pool_for(task, control) as pool:
        while True:
            while len(pending) < pool.ahead and not control.over():
                batch = list(itertools.islice(chunks, pool.batch))
                if not batch:
                    break
                pending.append((batch, pool.submit(task, batch)))
            if not pending:
                return
            batch, promise = pending[0]
            try:
                results = promise.result(timeout=0.1)
            except NotYet:
                control.over()
                continue
            pending.popleft()
            yield from zip(batch, results, strict=True)


def walk_batch(task: Task, read_only: Sequence[bool], chunks: Sequence[Any]) -> list[Any]:
    """Walk a batch that came from another process.

    Parameters
    ----------
    task : Task
    read_only : sequence of bool
        Which of its arrays were read-only where it comes from (`read_only_arrays`): compiled code depends on it.
    chunks : sequence
    """
    for array, locked in zip(_arrays(task), read_only, strict=True):
        if array.flags.writeable == locked:  # NumPy refuses to unlock even unlocked arrays that older pickles hold
            array.setflags(write=not locked)
    worker = task.new_worker()
    flag = np.zeros(1, dtype=np.int8)
    return [task.walk(chunk, worker, flag) for chunk in chunks]


def read_only_arrays(task: Task) -> list[bool]:
    """Which arrays of a task are read-only, in a fixed order."""
    return [not array.flags.writeable for array in _arrays(task)]


def _arrays(value: object) -> Iterator[npt.NDArray[np.generic]]:
    if isinstance(value, np.ndarray):
        yield value
    elif isinstance(value, tuple):
        for part in value:
            yield from _arrays(part)


def seconds_per_step(walk: Callable[[Signs], int], moment: float = 0.3) -> float:
    """How long one step of some work takes, measured for a moment; the start, which takes longer, is left out.

    Parameters
    ----------
    walk : callable
        Takes a flag that tells it to stop; returns how many steps it made, at least one.
    moment : float
        Seconds.
    """

    def timed(seconds: float) -> tuple[int, float]:
        flag = np.zeros(1, dtype=np.int8)
        timer = threading.Timer(seconds, flag.fill, [1])
        flag[0] = seconds == 0.0
        timer.start()
        started = time.perf_counter()
        steps = walk(flag)
        spent = time.perf_counter() - started
        timer.cancel()
        return steps, spent

    timed(0.0)  # compiles
    (few, short), (many, long) = timed(0.0), timed(moment)
    return max(long - short, 1e-3 * long) / (many - few) if many > few else long / max(1, many)
