"""Local worker processes, and what happens when one dies.

Workers are clean interpreters that import this package alone, never the program that wants them: scripts need no
``if __name__ == "__main__"``, and standard input, notebooks, threads and daemonic processes serve as well as files. A
thread for each worker starts it, hands it jobs and takes its results. A worker that dies is replaced, and its job goes
on in another one. One that dies before it takes its first job says something about this machine, not about the job.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import queue
import subprocess
import sys
import threading
import traceback
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from multiprocessing.spawn import get_executable
from typing import IO, Any

from labelcert.errors import WorkersUnavailable
from labelcert.signals import leave_signals_to_parent
from labelcert.stopping import Stopped

STARTS = 3
"""How often a worker is started before it is given up, if it ends before its first job."""

LOOKS = 0.5
"""Seconds after which somebody who waits looks whether there is time left."""

AHEAD = 4
"""Jobs of :meth:`Workers.map` under way, for each worker."""

_SERVE = f"""
import signal, sys
signal.signal(signal.SIGINT, signal.SIG_IGN)
sys.path[:] = sys.argv[1:]
from {__name__} import serve
serve()
"""
_READY = b"a worker of labelcert is ready\n"
_LENGTH = 8

Inbox = queue.SimpleQueue[Any]
"""Of triples: a job, a result, and the reason why there is none."""


class Attempts:
    """Counts how often something was started, and says when to give it up."""

    def __init__(self, most: int = 5) -> None:
        self._left = most

    def another(self) -> bool:
        """Whether to start again what has just been lost."""
        self._left -= 1
        return self._left > 0


class WorkerDied(RuntimeError):
    """A job ended its worker as often as it may."""


class WorkerJob:
    """A job that was handed to workers; ``arrived`` counts its results that are there."""

    def __init__(
        self, call: tuple[Any, ...], results: int | None, attempts: int, inbox: queue.SimpleQueue[Any]
    ) -> None:
        self.arrived = 0
        self._call, self._results, self._most, self._inbox = call, results, attempts, inbox
        self._attempts = Attempts(attempts)

    def result(self, timeout: float | None = None) -> Any:
        """The next result of a job with an inbox of its own; raises TimeoutError if it takes longer."""
        try:
            _, value, error = self._inbox.get(timeout=timeout)
        except queue.Empty:
            raise TimeoutError from None
        if error is not None:
            raise error
        return value

    def request(self) -> bytes:
        """What a worker is told: what to call, and how many of several results are there already."""
        return pickle.dumps((*self._call, None if self._results is None else self.arrived))

    def deliver(self, value: Any, error: Exception | None = None) -> None:
        """One more result, or the reason why there is none."""
        self.arrived += 1
        self._attempts = Attempts(self._most)
        self._inbox.put((self, value, error))

    def died(self, code: int) -> bool:
        """A worker died over this job; whether there is anything left to do."""
        if self._attempts.another():
            return True
        self.deliver(None, WorkerDied(f"its process died {self._most} times, the last time with exit code {code}"))
        return self.arrived < (self._results or 1)


class Workers:
    """Up to ``count`` processes that work on jobs. They start when there is something to do.

    If its workers keep dying, a job has so many ``attempts``, counted anew after each of its results.
    """

    def __init__(self, count: int, attempts: int = 5) -> None:
        self._most = attempts
        self._waiting: deque[WorkerJob] = deque()
        self._changed = threading.Condition()
        self._closed = False
        self._processes: set[subprocess.Popen[bytes]] = set()
        self._threads = [threading.Thread(target=self._tend, daemon=True) for _ in range(count)]
        for thread in self._threads:
            thread.start()

    def __enter__(self) -> Workers:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def submit(self, function: Callable[..., Any], *arguments: Any) -> WorkerJob:
        """Have a function of a module called."""
        return self._add(WorkerJob((function, arguments), None, self._most, queue.SimpleQueue()))

    def map(self, function: Callable[[Any], Any], arguments: Iterable[Any]) -> Iterator[Any]:
        """The results of a function of each argument, in order."""
        under_way: deque[WorkerJob] = deque()
        for argument in arguments:
            under_way.append(self.submit(function, argument))
            if len(under_way) >= AHEAD * len(self._threads):
                yield under_way.popleft().result()
        while under_way:
            yield under_way.popleft().result()

    def stream(
        self,
        function: Callable[[Any, int], Iterable[Any]],
        jobs: Iterable[tuple[Any, int]],
        left: Callable[[], float] | None = None,
    ) -> Iterator[tuple[Any, int, Any]]:
        """What jobs with several results each yield, as it arrives: triples of job, number and result.

        Each job comes with the number of its results; ``function(job, first)`` yields those from number ``first`` on.
        The result is a :class:`WorkerDied` where there is none. Whatever else they raise is raised here. Where no
        seconds are ``left``, Stopped is raised; the workers are good for nothing else then.
        """
        inbox: Inbox = queue.SimpleQueue()
        given, missing = dict[WorkerJob, tuple[Any, int]](), 0
        for job, results in jobs:
            given[self._add(WorkerJob((function, (job,)), results, self._most, inbox))] = job, 0
            missing += results
        for _ in range(missing):
            handed, value, error = _next_result(inbox, left)
            if error is not None and not isinstance(error, WorkerDied):
                raise error
            job, number = given[handed]
            given[handed] = job, number + 1
            yield job, number, value if error is None else error

    def close(self) -> None:
        """End the processes, whatever they do."""
        with self._changed:
            self._closed = True
            self._waiting.clear()
            self._changed.notify_all()
            for process in self._processes:
                process.kill()
        for thread in self._threads:
            thread.join()

    def _add(self, job: WorkerJob) -> WorkerJob:
        with self._changed:
            self._waiting.append(job)
            self._changed.notify()
        return job

    def _next(self) -> WorkerJob | None:
        """The job to do next; None when there will be none."""
        with self._changed:
            while not self._waiting and not self._closed:
                self._changed.wait()
            return None if self._closed else self._waiting.popleft()

    def _tend(self) -> None:
        """Look after one worker, in a thread of its own."""
        process: subprocess.Popen[bytes] | None = None
        while (job := self._next()) is not None:
            try:
                request = job.request()
                process = process or self._started()
                if process is not None:
                    _have_done(process, job, request)
            except (EOFError, OSError):
                assert process is not None
                code, process = self._buried(process), None
                if not self._closed and job.died(code):
                    with self._changed:
                        self._waiting.appendleft(job)
                        self._changed.notify()
            except Exception as error:  # nothing can be started, or the job or its result cannot be sent
                job.deliver(None, error)
        if process is not None:
            self._buried(process)

    def _started(self) -> subprocess.Popen[bytes] | None:
        """A new worker that is ready; None where nobody wants it any more."""
        code: int | str = ""
        command = [get_executable(), "-c", _SERVE, *map(os.path.abspath, sys.path)]
        for _ in range(STARTS):
            with self._changed:
                if self._closed:
                    return None
                try:
                    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
                except OSError as error:
                    raise WorkersUnavailable(str(error)) from None
                self._processes.add(process)
            assert process.stdout is not None
            if any(line.endswith(_READY) for line in process.stdout):
                return process
            code = self._buried(process)
        raise WorkersUnavailable(f"it ended with exit code {code} before its first job, {STARTS} times")

    def _buried(self, process: subprocess.Popen[bytes]) -> int:
        """The exit code of a worker that is dead, or will be now."""
        process.kill()
        code = process.wait()
        with self._changed:
            self._processes.discard(process)
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()
        return code


def _next_result(inbox: Inbox, left: Callable[[], float] | None) -> Any:
    """What arrives next; raises Stopped where that takes longer than there is time."""
    if left is None:
        return inbox.get()
    while (seconds := left()) > 0:
        with contextlib.suppress(queue.Empty):
            return inbox.get(timeout=min(seconds, LOOKS))
    raise Stopped


def _have_done(process: subprocess.Popen[bytes], job: WorkerJob, request: bytes) -> None:
    """Have a worker do one job; raises EOFError or OSError where it dies."""
    assert process.stdin is not None
    assert process.stdout is not None
    _send(process.stdin, request)
    while (answer := pickle.loads(_receive(process.stdout))) is not None:
        job.deliver(*answer)


def serve() -> None:
    """What a worker does: obey its parent, do one job after the other, and end with the parent, however that ended."""
    leave_signals_to_parent()
    # Standard output carries results alone; what is printed goes where errors go.
    jobs, results = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(2, 1)
    results.write(_READY)
    results.flush()
    requests: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    threading.Thread(target=_read, args=(jobs, requests), daemon=True).start()
    while True:
        for answer in _answers(requests.get()):
            _send(results, answer)
        _send(results, pickle.dumps(None))


def _read(jobs: IO[bytes], requests: queue.SimpleQueue[bytes]) -> None:
    """Take jobs, and end at once when the parent is gone."""
    with contextlib.suppress(EOFError, OSError):
        while True:
            requests.put(_receive(jobs))
    os._exit(1)


def _answers(request: bytes) -> Iterator[bytes]:
    """The results of a job, or what it raised."""
    try:
        function, arguments, first = pickle.loads(request)
        for value in [function(*arguments)] if first is None else function(*arguments, first):
            yield pickle.dumps((value,))
    except Exception as error:
        yield _portable(error)


def _portable(error: Exception) -> bytes:
    """What a job raised, with its traceback in words; by name alone if it cannot travel."""
    error.add_note("".join(traceback.format_exception(error)))
    try:
        data = pickle.dumps((None, error))
        pickle.loads(data)
    except Exception:
        return pickle.dumps((None, RuntimeError(f"{type(error).__name__}: {error}")))
    return data


def _send(stream: IO[bytes], data: bytes) -> None:
    stream.write(len(data).to_bytes(_LENGTH, "little"))
    stream.write(data)
    stream.flush()


def _receive(stream: IO[bytes]) -> bytes:
    head = stream.read(_LENGTH)
    size = int.from_bytes(head, "little")
    data = stream.read(size)
    if len(head) < _LENGTH or len(data) < size:
        raise EOFError
    return data
