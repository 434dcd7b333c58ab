"""Runs studies on a Dask cluster. Each job is a task, and large certificates are split into chunks.

The answers equal those of a local run, bit for bit: a job does the same work wherever it runs, and the chunks of a
large certificate are merged here in a fixed order. If a worker is lost, its tasks run again elsewhere.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from labelcert.certification import versions
from labelcert.engines.pools import Task, chunks_walked_by, read_only_arrays, walk_batch
from labelcert.errors import DataUnavailable, InvalidInput, MissingExtra
from labelcert.studies.cells import Cell, Job
from labelcert.studies.execution import Backend, failure, run_job
from labelcert.studies.store import Record

if TYPE_CHECKING:
    from distributed import Client

SPLIT_ABOVE = 5e6
"""Certificates with more labellings are split. That many take about half a minute on one core."""

BATCH = 64
"""Chunks per task, about a second of work."""

ATTEMPTS = 5
"""How often a task is started if its result keeps getting lost with a worker."""

CONNECT_SECONDS = 20


def on_cluster(address: str, *, split_above: float = SPLIT_ABOVE, batch: int = BATCH) -> Backend:
    """Run jobs on the cluster of a scheduler.

    Parameters
    ----------
    address : str
        Such as ``tcp://10.0.0.1:8786``.
    split_above : float
        Certificates with more labellings than this are split.
    batch : int
        Chunks per task of a split certificate.
    """
    try:
        import distributed
    except ImportError:
        raise MissingExtra("distributed", "dask", "running a study on a cluster") from None

    def run(jobs: Sequence[Job]) -> Iterator[Record]:
        try:
            client = distributed.Client(address, timeout=CONNECT_SECONDS, set_as_default=False)
        except (OSError, ValueError, TimeoutError) as error:
            raise DataUnavailable(
                f"the Dask scheduler {address!r} cannot be reached ({error}); check the address, or run here by "
                "leaving out --scheduler"
            ) from None
        with client:
            _check_versions(client)
            small = [part for job in jobs if (part := _part(job, split_above, large=False)) is not None]
            large = [part for job in jobs if (part := _part(job, split_above, large=True)) is not None]
            waiting = {client.submit(_whole_job, job, pure=False): (job, 1) for job in small}
            arrived = distributed.as_completed(list(waiting), loop=client.loop)
            for future in arrived:
                job, attempt = waiting.pop(future)
                try:
                    yield from future.result()
                except Exception as error:
                    if _final(future, attempt):
                        yield from (failure(cell, error) for cell in job.cells)
                        continue
                    again = client.submit(_whole_job, job, pure=False)
                    waiting[again] = (job, attempt + 1)
                    arrived.add(again)
            with chunks_walked_by(_ClusterChunks(client, batch)):
                for job in large:
                    yield from run_job(job)

    return run


class _ClusterChunks:
    """Sends chunks of one certificate to the workers."""

    def __init__(self, client: Client, batch: int) -> None:
        self._client = client
        self.batch = batch
        self.ahead = max(4, 3 * sum(client.nthreads().values()))

    def submit(self, task: Task, chunks: Sequence[Any]) -> _Batch:
        """Start to walk a batch. The task travels with it, so no worker depends on another."""
        return _Batch(self._client, (task, read_only_arrays(task), list(chunks)))


class _Batch:
    """A batch under way. It is started again if its result is lost with a worker."""

    def __init__(self, client: Client, arguments: tuple[Any, ...]) -> None:
        self._client = client
        self._arguments = arguments
        self._attempt = 0
        self._start()

    def result(self, timeout: float | None = None) -> list[Any]:
        """Wait for the result; raises TimeoutError if it takes longer."""
        try:
            walked: list[Any] = self._future.result(timeout=timeout)
        except TimeoutError:
            raise
        except Exception:
            if _final(self._future, self._attempt):
                raise
            self._start()
            raise TimeoutError("started again") from None
        return walked

    def _start(self) -> None:
        self._attempt += 1
        self._future = self._client.submit(walk_batch, *self._arguments, pure=False)


def _final(future: Any, attempt: int) -> bool:
    """Whether to give up: the task itself failed, or its result was lost with a worker too often."""
    return future.status == "error" or attempt >= ATTEMPTS


def labellings(cell: Cell) -> float:
    """The largest number of labellings that an enumeration for this cell visits."""
    parts = 1 if cell.parts is None else int(cell.parts["parts"])
    m = -(-int(cell.about["labels"]) // parts)
    flips = min(m, cell.max_flips)
    sets = sum(math.comb(m, size) for size in range(flips + 1))
    return float(parts * min(sets, 2 ** (m - 1) if 2 * flips >= m else 2**m))


def _part(job: Job, split_above: float, *, large: bool) -> Job | None:
    return job.only({cell.key for cell in job.cells if (labellings(cell) > split_above) == large})


def _whole_job(job: Job) -> list[Record]:
    return list(run_job(job, workers=1))


def _check_versions(client: Client) -> None:
    """Refuse workers with other versions: their last digits may differ, or they may not understand the jobs."""
    here = versions()
    try:
        client.wait_for_workers(1, timeout=CONNECT_SECONDS)
    except TimeoutError:
        raise DataUnavailable("the Dask scheduler has no workers; start some with `dask worker ADDRESS`") from None
    try:
        found = client.run(versions)
    except Exception as error:
        raise InvalidInput(
            f"the workers of the cluster cannot run labelcert ({error}); install labelcert "
            f"{here['labelcert']} on every worker"
        ) from None
    for worker, there in found.items():
        differing = [
            f"{k} {there.get(k)} instead of {version}" for k, version in here.items() if there.get(k) != version
        ]
        if differing:
            raise InvalidInput(
                f"the worker {worker} has {', '.join(differing)}; results would not be comparable. "
                "Install the same versions on every worker"
            )
