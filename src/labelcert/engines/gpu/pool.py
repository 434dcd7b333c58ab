"""Chunks of work on GPUs."""

from __future__ import annotations

import threading
import time
import warnings
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any, NamedTuple

import numpy as np

from labelcert.arrays import Signs
from labelcert.engines.gpu.device import Device
from labelcert.engines.gpu.device_tables import DeviceTables
from labelcert.engines.gpu.device_walks import FEW_STOPS, DeviceWalks, Shape, launch_stops, start_of
from labelcert.engines.pools import ChunkPool, DeviceLoad, PoolTask

MOST_LABELS = 512

THREADS_PER_DEVICE = 2
"""One prepares what the device does next while it works for the other."""

TOGETHER = 24
"""Small problems to have under way at a time."""

TOGETHER_STOPS = 1 << 22
"""Labellings of small problems that are walked in one launch."""

TABLE_BYTES = 2**28
"""Scores that a launch brings back."""

SMALL_SECONDS = 1e-7
"""Rough time of one labelling of a problem that takes one launch: measuring it would take longer."""

PAYS_OFF = 4e6
"""Labellings of 20 labels from which on a device is worth its start."""


PROGRAMS: dict[str, type[DeviceWalks] | type[DeviceTables]] = {"labellings": DeviceWalks, "tables": DeviceTables}
"""What devices can do, by the kind of load."""


class _Parcel(NamedTuple):
    """Work that waits for a device."""

    task: Any
    chunks: Sequence[Any]
    flag: Signs
    promise: Future[list[Any]]


class DeviceChunks(ChunkPool):
    """Walks chunks on one or more devices.

    DeviceProblems of one shape that wait at the same time are walked in one launch.

    - ``find``: the devices. It is called when there is work for them.
    - ``workers``: threads that share the work elsewhere, for estimates.
    - ``large_only``: whether to leave work to threads where a device would not pay off, or there is none; and to the
      CPU where a device fails.
    - ``launches``: launches of one chunk: some tenths of a second.
    """

    batch = 1

    def __init__(
        self, find: Callable[[], Sequence[Device]], workers: int = 1, *, large_only: bool = False, launches: int = 4
    ) -> None:
        self._find, self._count, self._launches = find, workers, launches
        self._large_only = self._forgiving = large_only
        self.ahead = 3
        self._waiting: deque[_Parcel] = deque()
        self._arrived = threading.Condition()
        self._threads: list[threading.Thread] = []
        self._closed = False
        self.devices: Sequence[Device] = ()
        self.used = False

    def accepts(self, task: PoolTask) -> bool:
        """Two classes, or tables of several; hinge loss or linear in the labels, of a size that devices can hold."""
        load = task.for_device()
        if load is None or not 0 < load.labels <= MOST_LABELS:
            return False
        return not self._large_only or (load.labellings * (load.labels / 20) ** 2 >= PAYS_OFF and self._found())

    def _found(self) -> bool:
        """Whether there is a device."""
        if not self.devices:
            try:
                self.devices = tuple(self._find())
            except Exception:
                self._find = tuple  # none, and not asked again
        return bool(self.devices)

    @property
    def device(self) -> str:
        """The name of the first device, or the CPU as long as none was used."""
        return self.devices[0].name if self.used else "cpu"

    def take_many(self, labellings: float) -> int:
        """Take them all, if they pay off together."""
        if self._large_only and not (labellings >= PAYS_OFF and self._found()):
            return 1
        self._large_only = False
        return TOGETHER

    def chunk_stops(self, task: PoolTask, usual: int) -> int:
        """Some launches; one where scores come back."""
        load = _load(task)
        if load.bytes_back:
            return max(1, min(launch_stops(load.labels), TABLE_BYTES // load.bytes_back))
        return self._launches * launch_stops(load.labels)

    def seconds_per_stop(self, task: PoolTask, chunk: Any) -> float:
        """Measured once everything is compiled and in place."""
        load = _load(task)
        if not load.bytes_back and load.labellings <= launch_stops(load.labels):
            return SMALL_SECONDS
        flag, seconds = np.zeros(1, dtype=np.int8), 0.0
        for _ in range(2):
            started = time.perf_counter()
            self.submit(task, [chunk], flag).result()
            seconds = time.perf_counter() - started
        return seconds * self._count / (chunk.stops * len(self.devices))

    def submit(self, task: Any, chunks: Sequence[Any], flag: Signs) -> Future[list[Any]]:
        """Put a batch into the queue."""
        if self._closed or not self._threads:
            self._start()
        promise: Future[list[Any]] = Future()
        with self._arrived:
            self._waiting.append(_Parcel(task, chunks, flag, promise))
            self._arrived.notify()
        return promise

    def _start(self) -> None:
        with self._arrived:
            if self._closed:
                raise RuntimeError("the pool is closed")
            if self._threads:
                return
            self.devices = self.devices or tuple(self._find())
            self.used = True
            for device in self.devices:
                for _ in range(THREADS_PER_DEVICE):
                    worker = _Worker(device, self._next, forgiving=self._forgiving)
                    self._threads.append(threading.Thread(target=worker.run, daemon=True))
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        """Wait for what is under way."""
        with self._arrived:
            self._closed = True
            self._arrived.notify_all()
        for thread in self._threads:
            thread.join()
        for device in self.devices:
            device.release()

    def _next(self, device: Device) -> list[_Parcel]:
        """The next parcel, and others that can be walked with it; nothing once the pool is closed."""
        with self._arrived:
            while not self._waiting:
                if self._closed:
                    return []
                self._arrived.wait()
            first = self._waiting.popleft()
            parcels, kind = [first], _kind(first, device)
            if kind is None:
                return parcels
            most = TOGETHER_STOPS // first.chunks[0].stops
            for _ in range(len(self._waiting)):
                other = self._waiting.popleft()
                fits = len(parcels) < most and _kind(other, device) == kind
                (parcels if fits else self._waiting).append(other)
            return parcels


def _load(task: PoolTask) -> DeviceLoad:
    load = task.for_device()
    assert load is not None  # it was accepted
    return load


def _kind(parcel: _Parcel, device: Device) -> Any:
    """What parcels must have in common to be walked together; None for one that is walked alone."""
    if _load(parcel.task).bytes_back or len(parcel.chunks) != 1:
        return None
    chunk = parcel.chunks[0]
    if chunk.low < 0 or not 256 <= chunk.stops <= TOGETHER_STOPS // 2:
        return None
    return Shape.of(device, parcel.task.walk_over), chunk.low


class _Worker:
    """A thread that feeds a device."""

    def __init__(
        self, device: Device, following: Callable[[Device], list[_Parcel]], *, forgiving: bool = False
    ) -> None:
        self._device, self._following, self._forgiving = device, following, forgiving
        self._entered = False
        self._task: Any = None
        self._there: Any = None

    def run(self) -> None:
        """Work until there is nothing more to come."""
        while parcels := self._following(self._device):
            try:
                results = self._walk_or_leave(parcels)
            except BaseException as error:  # whoever waits for it gets it
                for parcel in parcels:
                    parcel.promise.set_exception(error)
            else:
                for parcel, result in zip(parcels, results, strict=True):
                    parcel.promise.set_result(result)

    def _walk_or_leave(self, parcels: list[_Parcel]) -> list[list[Any]]:
        """CubeWork on the device; if it fails, and nobody asked for it by name, on the CPU."""
        try:
            if not self._entered:
                self._device.enter()
                self._entered = True
            return self._walk(parcels)
        except Exception as error:
            if not self._forgiving:
                raise
            warnings.warn(
                f"{self._device.name} failed ({type(error).__name__}: {error}); the CPU does its work. "
                "device='cpu' leaves it out from the start",
                UserWarning,
                stacklevel=2,
            )
            return [[p.task.walk(chunk, p.task.new_worker(), p.flag) for chunk in p.chunks] for p in parcels]

    def _walk(self, parcels: list[_Parcel]) -> list[list[Any]]:
        if len(parcels) == 1:
            parcel = parcels[0]
            return [[self._walk_one(parcel.task, chunk, parcel.flag) for chunk in parcel.chunks]]
        walks = [parcel.task.walk_over for parcel in parcels]
        starts = [start_of(walk) for walk in walks]
        if any(start is None and not walk.linear for start, walk in zip(starts, walks, strict=True)):
            return [self._walk([parcel])[0] for parcel in parcels]
        together = DeviceWalks(self._device, walks, starts)
        found = together.walk([parcel.chunks[0] for parcel in parcels], walks, parcels[0].flag)
        return [[one] for one in found]

    def _walk_one(self, task: Any, chunk: Any, flag: Signs) -> Any:
        there = None if chunk.stops <= FEW_STOPS else self._brought(task)
        if there is None:
            return task.walk(chunk, task.new_worker(), flag)
        return there.one(task, chunk, flag)

    def _brought(self, task: Any) -> Any:
        """The task on this thread's device; None where it has nothing to start from."""
        if self._task is not task:
            self._task, self._there = None, None
            self._there = PROGRAMS[_load(task).kind].bring(self._device, task)
            self._task = task
        return self._there
