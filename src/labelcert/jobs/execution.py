"""One job, wherever it runs: the kernel once, then a certificate for each cell, reported as it finishes."""

from __future__ import annotations

import math
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from labelcert._version import NUMERICS
from labelcert.arrays import Int
from labelcert.certificate import Certificate, Stop
from labelcert.certification import versions
from labelcert.errors import ClusterLost, LabelcertError
from labelcert.jobs.cells import Cell, Job
from labelcert.jobs.records import Record, RecordStatus
from labelcert.stopping import Stopped

COMPILING = 0.1
"""Share of a time limit: if compiling took more, and the limit was reached, a certificate is computed once more."""

Backend = Callable[[Sequence[Job]], Iterator[Record]]


def run_job(job: Job, *, workers: int | None = None, left: Callable[[], float] = lambda: math.inf) -> Iterator[Record]:
    """Records of all cells, one by one; what goes wrong with one is its record and does not stop the others.

    Raises Stopped where no seconds are ``left``. A certificate that was cut short by that has no record.
    """
    started = time.perf_counter()
    try:
        certifier = job.certifier(list({cell.test.tobytes(): cell.test for cell in job.cells}.values()))
    except Stopped:
        raise
    except Exception as error:
        for cell in job.cells:
            yield failure(cell, error, time.perf_counter() - started)
        return
    kernel_seconds = time.perf_counter() - started
    for cell in job.cells:
        started, most = time.perf_counter(), left()
        if most <= 0:
            raise Stopped
        cut = most < (math.inf if cell.time_limit is None else cell.time_limit)
        try:
            certificate, more = (replace(cell, time_limit=most) if cut else cell).answer(job, certifier, workers)
            if certificate is not None and not cut and _lost_to_compiling(certificate):
                certificate, more = cell.answer(job, certifier, workers)  # which is compiled now
            found = more if certificate is None else {"result": {**summary(certificate, job, cell), **more}}
        except (ClusterLost, Stopped):
            raise
        except Exception as error:
            yield failure(cell, error, time.perf_counter() - started)
            continue
        if certificate is not None and certificate.run.stopped is Stop.INTERRUPTED:
            raise KeyboardInterrupt
        if certificate is not None and cut and certificate.run.stopped is Stop.TIME_LIMIT:
            raise Stopped
        seconds = time.perf_counter() - started + kernel_seconds / len(job.cells)
        yield _record(cell, RecordStatus.DONE, seconds, **found)


def _lost_to_compiling(certificate: Certificate) -> bool:
    """Whether time was over since much of it went into compiling."""
    run = certificate.run
    return run.stopped is Stop.TIME_LIMIT and run.compiling > COMPILING * (run.time_limit or math.inf)


def failure(cell: Cell, error: Exception, seconds: float = 0.0) -> Record:
    """The record of a cell that failed, with the reason."""
    record = _record(cell, RecordStatus.FAILED, seconds, reason=f"{type(error).__name__}: {error}")
    if not isinstance(error, LabelcertError):
        record["traceback"] = "".join(traceback.format_exception(error))[-4000:]
    return record


def unavailable(key: str, about: Any, reason: str) -> Record:
    """The record of a cell whose data is not here."""
    return {"cell": key, "status": RecordStatus.FAILED, "about": dict(about), "reason": reason, "run": _run(0.0)}


def summary(certificate: Certificate, job: Job, cell: Cell) -> dict[str, Any]:
    """All that studies read off a certificate, in plain values: counts of nodes for every budget 0..B.

    The same problem gives the same summary, bit for bit, wherever and however often it is computed.
    """
    c = certificate
    correct = c.correct(job.graph.labels[cell.test])
    budgets = range(c.max_flips + 1)

    def survive(radius: Int) -> list[int]:
        return [int((radius > b).sum()) for b in budgets]

    worst = []
    for name, positive in cell.metrics:
        found = c.worst_case(name, job.graph.named_labels(cell.test), positive=positive or None)
        worst.append(
            {"metric": name, "positive": positive, "lower": found.lower.tolist(), "upper": found.upper.tolist()}
        )
    attack = None
    if c.max_flips:
        flipped, changed = job.labeled[list(c.collective_witness(1))], cell.test[c.collective_changed(1)]
        attack = {"labels": flipped.tolist(), "changed": changed.tolist()}
    return {
        "n_test": c.n_test,
        "labels": int(c.labels.size),
        "max_flips": c.max_flips,
        "C": c.run.C,
        "engine": c.engine,
        "exact": c.exact,
        "stopped": c.run.stopped.value,
        "problem_sha256": c.run.problem_sha256,
        "kernel_shift": c.run.kernel_shift,
        "correct": int(correct.sum()),
        "survive_lower": survive(c.radius_lower),
        "survive_upper": survive(c.radius_upper),
        "correct_lower": survive(c.radius_lower[correct]),
        "correct_upper": survive(c.radius_upper[correct]),
        "changed_lower": [int(v) for v in c.collective_lower],
        "changed_upper": [int(v) for v in c.collective_upper],
        "correct_after": [int((correct & ~c.collective_changed(b)).sum()) for b in budgets],
        "attack": attack,
        **({"worst": worst} if worst else {}),
    }


def _record(cell: Cell, status: str, seconds: float, **more: Any) -> Record:
    return {"cell": cell.key, "status": status, "about": dict(cell.about), "run": _run(seconds), **more}


def _run(seconds: float) -> dict[str, Any]:
    finished = datetime.now(UTC).isoformat(timespec="seconds")
    return {"seconds": round(seconds, 4), "finished": finished, "versions": versions(), "numerics": NUMERICS}
