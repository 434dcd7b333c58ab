"""Computes the cells of a study that have no result yet: in this process, in local processes or on a cluster.

Only this process writes to the store. It writes each result as it arrives, so every result that arrived is kept.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from labelcert.errors import InvalidInput
from labelcert.jobs.cells import Job, JobBatch
from labelcert.jobs.execution import Backend, failure, run_job, unavailable
from labelcert.jobs.records import Record, RecordStatus
from labelcert.jobs.store import Store
from labelcert.problem.validation import check_workers
from labelcert.progress import progress_report
from labelcert.stopping import Stopped, stopped_by
from labelcert.workers import WorkerDied, Workers

ATTEMPTS = 2
"""How often a cell may kill its process before it counts as failed."""


@dataclass(frozen=True)
class RunOutcome:
    """What a run did."""

    computed: int
    """Cells that were computed now."""
    reused: int
    """Cells that were in the store already."""
    failed: int
    """Cells that have no result."""
    seconds: float
    certificate_seconds: float
    """What all certificates of the study took when they were computed, summed over processes."""
    reasons: tuple[str, ...]
    """Why cells failed, each reason once."""


def run_plan(
    plan: JobBatch,
    store: Store,
    *,
    workers: int | None = None,
    scheduler: str | None = None,
    retry_failed: bool = False,
    progress: bool = False,
    backend: Backend | None = None,
    watch: Callable[[Record], None] = lambda record: None,
) -> RunOutcome:
    """Compute the cells that are missing in a store that is open for writing.

    Jobs run in `workers` local processes, by default one per core (with 1, in this process), on the cluster of a Dask
    scheduler, or wherever `backend` runs them. Failed cells are tried again if that is asked for. ``watch`` is given
    each new record.
    """
    started = time.perf_counter()
    reused = sum(store.done(key) for key in plan.keys)
    for key, (about, reason) in plan.unavailable.items():
        if not store.failed(key) or retry_failed:
            store.append(unavailable(key, about, reason))
    wanted = {key for key in plan.keys if not store.done(key) and (retry_failed or not store.failed(key))}
    jobs = [part for job in plan.jobs if (part := job.only(wanted)) is not None]
    total = sum(len(job.cells) for job in jobs)
    run = choose_backend(workers, scheduler) if backend is None else backend
    computed = 0
    with progress_report(plan.name, progress and total > 0) as show:
        show.report(0, total)
        for record in run(jobs) if jobs else ():
            store.append(record)
            watch(record)
            computed += 1
            show.report(computed, total)
    records = [store.records[key] for key in plan.keys if key in store.records]
    return RunOutcome(
        computed=computed,
        reused=reused,
        failed=sum(not store.done(key) for key in plan.keys),
        seconds=time.perf_counter() - started,
        certificate_seconds=sum(record["run"]["seconds"] for record in records),
        reasons=tuple(dict.fromkeys(record["reason"] for record in records if record["status"] == RecordStatus.FAILED)),
    )


def choose_backend(workers: int | None, scheduler: str | None) -> Backend:
    """Choose where jobs run."""
    count = _local(workers, scheduler)
    if scheduler is not None:
        from labelcert.jobs.dask_backend import on_cluster

        return on_cluster(scheduler)
    return in_process if count == 1 else on_processes(count)


@contextmanager
def lasting_backend(workers: int | None, scheduler: str | None, left: Callable[[], float]) -> Iterator[Backend]:
    """The same for several runs, one after the other: processes stay. Raises Stopped where no seconds are ``left``.

    What runs on a cluster then is let go when its next record arrives.
    """
    count = _local(workers, scheduler)
    if scheduler is not None:
        cluster = choose_backend(None, scheduler)

        def there(jobs: Sequence[Job]) -> Iterator[Record]:
            for record in cluster(jobs):
                yield record
                if left() <= 0:
                    raise Stopped

        yield there
    elif count == 1:

        def here(jobs: Sequence[Job]) -> Iterator[Record]:
            with stopped_by(lambda: left() <= 0):
                for job in jobs:
                    yield from run_job(job, workers=1, left=left)

        yield here
    else:
        with Workers(count, ATTEMPTS) as workers_:
            yield lambda jobs: _streamed(workers_, jobs, left)


def _local(workers: int | None, scheduler: str | None) -> int:
    """The number of local processes."""
    count = check_workers(workers)
    if scheduler is not None and workers is not None:
        raise InvalidInput("choose either a number of local processes or the address of a scheduler, not both")
    return count


def in_process(jobs: Sequence[Job]) -> Iterator[Record]:
    """Run one job after the other on one core."""
    for job in jobs:
        yield from run_job(job, workers=1)


def on_processes(count: int) -> Backend:
    """Run several jobs at a time, each in its own process on one core."""

    def run(jobs: Sequence[Job]) -> Iterator[Record]:
        with Workers(min(count, len(jobs)), ATTEMPTS) as workers:
            yield from _streamed(workers, jobs)

    return run


def _streamed(workers: Workers, jobs: Sequence[Job], left: Callable[[], float] | None = None) -> Iterator[Record]:
    """What workers find out, as it arrives."""
    for job, number, record in workers.stream(_records, [(job, len(job.cells)) for job in jobs], left):
        died = isinstance(record, WorkerDied)
        yield failure(job.cells[number], RuntimeError(str(record))) if died else record


def _records(job: Job, first: int) -> Iterator[Record]:
    """Those of the cells of a job from number ``first`` on; cells run in order."""
    left = job.only({cell.key for cell in job.cells[first:]})
    return iter(()) if left is None else run_job(left, workers=1)
