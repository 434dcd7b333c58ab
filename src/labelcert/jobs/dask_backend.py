"""Runs studies on a Dask cluster. Each job is a task, and large certificates are split into chunks.

The answers equal those of a local run, bit for bit: a job does the same work wherever it runs, and the chunks of a
large certificate are merged here in a fixed order. If a worker is lost, its tasks run again elsewhere.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from labelcert.certification.places import connected
from labelcert.engines.cluster import ClusterChunks, lost, require_connection
from labelcert.engines.pools import chunks_walked_by
from labelcert.jobs.cells import Cell, Job
from labelcert.jobs.execution import Backend, failure, run_job
from labelcert.jobs.records import Record
from labelcert.workers import Attempts

if TYPE_CHECKING:
    from distributed import Client, Future

SPLIT_ABOVE = 5e6
"""Certificates with more labellings are split. That many take about half a minute on one core."""

BATCH = 64
"""Chunks per task, about a second of work."""

POLL_SECONDS = 0.05


def on_cluster(address: str, *, split_above: float = SPLIT_ABOVE, batch: int = BATCH) -> Backend:
    """Run jobs on the cluster of a scheduler; larger certificates are split, with this many chunks in each task."""

    def run(jobs: Sequence[Job]) -> Iterator[Record]:
        with connected(address) as client:
            small = [part for job in jobs if (part := _part(job, split_above, large=False)) is not None]
            large = [part for job in jobs if (part := _part(job, split_above, large=True)) is not None]
            waiting = {client.submit(_whole_job, job, pure=False): (job, Attempts()) for job in small}
            for future in _as_they_arrive(client, waiting):
                job, attempts = waiting.pop(future)
                try:
                    yield from future.result()
                except Exception as error:
                    require_connection(client)
                    if lost(future, attempts):
                        waiting[client.submit(_whole_job, job, pure=False)] = (job, attempts)
                    else:
                        yield from (failure(cell, error) for cell in job.cells)
            with chunks_walked_by(ClusterChunks(client, batch)):
                for job in large:
                    yield from run_job(job)

    return run


def _as_they_arrive(client: Client, waiting: Mapping[Future[Any], Any]) -> Iterator[Future[Any]]:
    """Futures that are done, until none is waiting; ends with an error when the scheduler is gone."""
    while waiting:
        require_connection(client)
        arrived = [future for future in waiting if future.status != "pending"]
        yield from arrived
        if not arrived:
            time.sleep(POLL_SECONDS)


def labellings(cell: Cell) -> float:
    """The largest number of labellings that an enumeration for this cell visits."""
    parts = cell.parts_enumerated
    if parts is None:
        return 0.0
    m = -(-int(cell.about["labels"]) // parts)
    flips = min(m, cell.max_flips)
    sets = sum(math.comb(m, size) for size in range(flips + 1))
    return float(parts * min(sets, 2 ** (m - 1) if 2 * flips >= m else 2**m))


def _part(job: Job, split_above: float, *, large: bool) -> Job | None:
    return job.only({cell.key for cell in job.cells if (labellings(cell) > split_above) == large})


def _whole_job(job: Job) -> list[Record]:
    return list(run_job(job, workers=1))
