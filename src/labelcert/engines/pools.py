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
from contextvars import ContextVar, copy_context
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from labelcert.arrays import Signs
from labelcert.engines.control import Control
from labelcert.stopping import is_over, pace

Chunk = TypeVar("Chunk")


class DeviceLoad(NamedTuple):
    """What a task means to a GPU."""

    kind: str  # which of a device's programs it is for
    labels: int  # labels of its problem
    labellings: float  # trainings of the whole task
    bytes_back: int  # what one training brings back; 0 where only a summary comes back


class PoolTask(Protocol):
    """Work that can be cut into chunks; one that may leave this process is a nested tuple of arrays and numbers."""

    @property
    def may_leave(self) -> bool:
        """Whether another process can do it."""

    def for_device(self) -> DeviceLoad | None:
        """What it means to a GPU; None where that cannot do it."""

    def new_worker(self) -> Any:
        """Working memory of one worker."""

    def walk(self, chunk: Any, worker: Any, flag: Signs) -> Any:
        """The result of one chunk; ``flag[0] != 0`` ends it early."""


class Local:
    """A function of a chunk as a task that stays on the threads of this process."""

    may_leave = False

    def __init__(self, work: Callable[[Any], Any]) -> None:
        self._work = work

    def for_device(self) -> None:
        """No device knows the function."""

    def new_worker(self) -> None:
        """Nothing: a function allocates what it needs."""

    def walk(self, chunk: Any, worker: Any, flag: Signs) -> Any:
        """What the function returns; the flag does not reach it."""
        return self._work(chunk)


class Promise(Protocol):
    """The results of a batch of chunks, which are not there yet."""

    def result(self, timeout: float | None = None) -> list[Any]:
        """Wait for them; raises TimeoutError when it takes longer."""


class ChunkPool:
    """Walks batches of chunks: what is the same on all ordinary processors."""

    batch: int  # chunks per batch
    ahead: int  # batches to have under way at a time

    @property
    def device(self) -> str:
        """What trains, for the certificate's record."""
        return "cpu"

    def accepts(self, task: PoolTask) -> bool:
        """Whether it can walk chunks of this task; if not, threads of this process do."""
        return task.may_leave

    def chunk_stops(self, task: PoolTask, usual: int) -> int:
        """Labellings that a chunk of this task should have, if ``usual`` is what a chunk has on a CPU."""
        return usual

    def take_many(self, labellings: float) -> int:
        """Get ready for many small problems, with ``labellings`` in all; returns how many to have under way."""
        return 1

    def seconds_per_stop(self, task: PoolTask, chunk: Any) -> float | None:
        """Measured on one chunk, as if one worker did it; None: as on a thread."""
        return None

    def submit(self, task: PoolTask, chunks: Sequence[Any], flag: Signs) -> Promise:
        """Start walking a batch; the flag may end it early."""
        raise NotImplementedError


class Threads(ChunkPool):
    """Threads of this process, one chunk at a time; the flag makes them return."""

    batch = 1

    def __init__(self, workers: int) -> None:
        self.ahead = 3 * workers
        self._pool = ThreadPoolExecutor(workers)
        self._workers: queue.SimpleQueue[Any] = queue.SimpleQueue()
        for _ in range(workers):
            self._workers.put(None)

    def submit(self, task: PoolTask, chunks: Sequence[Any], flag: Signs) -> Future[list[Any]]:
        """Start walking a batch."""
        # In the context of the run: what stops it stops trainings on threads, too.
        return self._pool.submit(copy_context().run, self._walk, task, chunks, flag)

    def close(self, *, wait: bool = True) -> None:
        """Wait for what is under way, or leave it to itself."""
        self._pool.shutdown(wait=wait, cancel_futures=not wait)

    def _walk(self, task: PoolTask, chunks: Sequence[Any], flag: Signs) -> list[Any]:
        worker = self._workers.get()
        if worker is None:
            worker = task.new_worker()
        try:
            return [task.walk(chunk, worker, flag) for chunk in chunks]
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


def pool_in_force(task: PoolTask | None = None) -> ChunkPool | None:
    """The pool that chunks of this task, or of any that it accepts, go to; None for threads of this process."""
    pool = _POOL.get()
    return pool if pool is not None and (task is None or pool.accepts(task)) else None


def chunk_stops(task: PoolTask, usual: int) -> int:
    """Labellings that a chunk of this task should have."""
    pool = pool_in_force(task)
    return usual if pool is None else pool.chunk_stops(task, usual)


@contextmanager
def _pool_for(task: PoolTask, control: Control, patient: bool) -> Iterator[ChunkPool]:
    """The pool in force, or threads of this process."""
    pool = pool_in_force(task)
    if pool is not None:
        yield pool
        return
    threads = Threads(control.workers)
    try:
        yield threads
    finally:
        threads.close(wait=patient or not control.over())


def in_order(
    task: PoolTask, chunks: Iterator[Chunk], control: Control, *, patient: bool = True
) -> Iterator[tuple[Chunk, Any]]:
    """Each chunk with its result, in order; takes no more chunks once the run has to stop.

    Without patience, nobody waits then for chunks that are under way and ask no flag.
    """
    pending: deque[tuple[list[Chunk], Promise]] = deque()
    with _pool_for(task, control, patient) as pool:
        while True:
            while len(pending) < pool.ahead and not control.over():
                batch = list(itertools.islice(chunks, pool.batch))
                if not batch:
                    break
                pending.append((batch, pool.submit(task, batch, control.flag)))
            if not pending:
                return
            batch, promise = pending[0]
            try:
                results = promise.result(timeout=0.1)
            except NotYet:
                if control.over() and not patient:
                    return
                continue
            pending.popleft()
            yield from zip(batch, results, strict=True)


Result = TypeVar("Result")


def side_by_side(work: Callable[[int], Result], count: int, together: int) -> Iterator[Result]:
    """The results of ``work(0)`` to ``work(count - 1)``, in order, ``together`` at a time, all with the same pool."""
    if together == 1:
        yield from map(work, range(count))
        return
    with ThreadPoolExecutor(together) as threads:
        promises = [threads.submit(copy_context().run, work, k) for k in range(count)]
        try:
            for promise in promises:
                yield promise.result()
        finally:
            for promise in promises:
                promise.cancel()


def walk_batch(task: PoolTask, read_only: Sequence[bool], chunks: Sequence[Any]) -> list[Any]:
    """Walk a batch that came from another process.

    ``read_only``: which of its arrays were read-only where it comes from (`read_only_arrays`): compiled code depends on
    it.
    """
    for array, locked in zip(_arrays(task), read_only, strict=True):
        if array.flags.writeable == locked:  # NumPy refuses to unlock even unlocked arrays that older pickles hold
            array.setflags(write=not locked)
    worker = task.new_worker()
    flag = np.zeros(1, dtype=np.int8)
    return [task.walk(chunk, worker, flag) for chunk in chunks]


def read_only_arrays(task: PoolTask) -> list[bool]:
    """Which arrays of a task are read-only, in a fixed order."""
    return [not array.flags.writeable for array in _arrays(task)]


def _arrays(value: object) -> Iterator[npt.NDArray[np.generic]]:
    if isinstance(value, np.ndarray):
        yield value
    elif isinstance(value, tuple):
        for part in value:
            yield from _arrays(part)


SHORT_RUNS = 20
"""So often a walk is repeated that is over before its moment is."""


def seconds_per_step(walk: Callable[[Signs], int], moment: float = 0.3) -> float:
    """How long one step of some work takes, measured for a moment; the start, which takes longer, is left out.

    ``walk`` takes a flag that tells it to stop; returns how many steps it made, at least one.
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

    moment *= pace()
    steps, spent = timed(0.0)  # compiles
    if is_over():  # nobody will go by it
        return spent / max(1, steps)
    few, short = min((timed(0.0) for _ in range(3)), key=lambda found: found[1])
    steps, spent, runs = 0, 0.0, 0
    while spent < moment and runs < SHORT_RUNS:
        more, seconds = timed(moment - spent)
        steps, spent, runs = steps + more, spent + seconds, runs + 1
    if steps <= runs * few:
        return spent / max(1, steps)
    # Of runs that are over at once, noise may hide nearly everything.
    floor = 1e-3 if runs == 1 else 0.25
    return max(spent - runs * short, floor * spent) / (steps - runs * few)
