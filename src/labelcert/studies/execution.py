"""One job, wherever it runs: the kernel once, then a certificate for each cell, reported as it finishes."""

from __future__ import annotations

import time
import traceback
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import numpy as np

from labelcert.arrays import Float, Int
from labelcert.certificate import Certificate
from labelcert.certification import certify, versions
from labelcert.errors import LabelcertError
from labelcert.models import model_from_name
from labelcert.studies import published_code
from labelcert.studies.cells import Cell, Job
from labelcert.studies.store import DONE, FAILED, Record
from labelcert.workflow import choose_model

INTERRUPTED = "interrupted"


def run_job(job: Job, *, workers: int | None = None) -> Iterator[Record]:
    """Records of all cells, one by one; what goes wrong with one is its record and does not stop the others.

    Parameters
    ----------
    job : Job
    workers : int, optional
        Threads of each certificate; all cores by default.
    """
    started = time.perf_counter()
    try:
        model = model_from_name(job.model, **job.options)
        if job.inductive:
            blocks = None
        else:
            nodes = np.unique(np.concatenate([cell.test for cell in job.cells]))
            blocks = model.kernel_blocks(job.graph, job.labeled, nodes, inductive=False)
    except Exception as error:
        for cell in job.cells:
            yield failure(cell, error, time.perf_counter() - started)
        return
    kernel_seconds = time.perf_counter() - started
    for cell in job.cells:
        started = time.perf_counter()
        try:
            if blocks is None:
                K_train, K_test = model.kernel_blocks(job.graph, job.labeled, cell.test, inductive=True)
            else:
                K_train, K_test = blocks[0], blocks[1][np.searchsorted(nodes, cell.test)]
            labels, truth = job.graph.labels[job.labeled], job.graph.labels[cell.test]
            C = cell.C
            if C is None:
                C = choose_model(
                    job.model, job.graph, job.labeled, C="cv", rule=cell.rule, seed=job.seed, **job.options
                ).model.C
            published = job.options.get("variant") == "published"
            result = _certified(cell, K_train, labels, K_test, truth, C, published=published, workers=workers)
        except Exception as error:
            yield failure(cell, error, time.perf_counter() - started)
            continue
        if result["stopped"] == INTERRUPTED:
            raise KeyboardInterrupt
        seconds = time.perf_counter() - started + kernel_seconds / len(job.cells)
        yield _record(cell, DONE, seconds, result=result)


def _certified(
    cell: Cell,
    K_train: Float,
    labels: Int,
    K_test: Float,
    truth: Int,
    C: float,
    *,
    published: bool,
    workers: int | None,
) -> dict[str, Any]:
    options: dict[str, Any] = {
        "max_flips": cell.max_flips,
        "engine": cell.engine,
        "time_limit": cell.time_limit,
        "workers": workers,
    }
    if not published:
        return summary(certify(K_train, labels, K_test, C, **options), truth, C)
    shift = published_code.diagonal_shift(K_train)
    K_train = K_train + shift * np.eye(len(K_train))
    contrary = published_code.contrary_nodes(K_train, labels, K_test, C)
    if contrary.any():
        certificate = published_code.certify_as_published(
            K_train, labels, K_test, C, contrary, max_flips=cell.max_flips, workers=workers
        )
    else:
        certificate = certify(K_train, labels, K_test, C, **options)
    result = summary(certificate, truth, C)
    return {**result, "diagonal_shift": shift, "contrary_nodes": int(contrary.sum())}


def failure(cell: Cell, error: Exception, seconds: float = 0.0) -> Record:
    """The record of a cell that failed, with the reason."""
    record = _record(cell, FAILED, seconds, reason=f"{type(error).__name__}: {error}")
    if not isinstance(error, LabelcertError):
        record["traceback"] = "".join(traceback.format_exception(error))[-4000:]
    return record


def unavailable(key: str, about: Any, reason: str) -> Record:
    """The record of a cell whose data is not here."""
    return {"cell": key, "status": FAILED, "about": dict(about), "reason": reason, "run": _run(0.0)}


def summary(certificate: Certificate, truth: Int, C: float) -> dict[str, Any]:
    """All that studies read off a certificate, in plain values: counts of nodes for every budget 0..B.

    The same problem gives the same summary, bit for bit, wherever and however often it is computed.
    """
    c = certificate
    correct = (truth == c.predictions) & (c.radius_upper > 0)
    budgets = np.arange(c.max_flips + 1)

    def survive(radius: Int) -> list[int]:
        return [int(v) for v in (radius[:, None] > budgets[None, :]).sum(axis=0)]

    return {
        "n_test": c.n_test,
        "labels": int(c.labels.size),
        "max_flips": c.max_flips,
        "C": float(C),
        "engine": c.engine,
        "exact": c.exact,
        "stopped": c.settings.get("stopped", "finished"),
        "problem_sha256": c.settings.get("problem_sha256", ""),
        "correct": int(correct.sum()),
        "survive_lower": survive(c.radius_lower),
        "survive_upper": survive(c.radius_upper),
        "correct_lower": survive(c.radius_lower[correct]),
        "correct_upper": survive(c.radius_upper[correct]),
        "changed_lower": [int(v) for v in c.collective_lower],
        "changed_upper": [int(v) for v in c.collective_upper],
    }


def _record(cell: Cell, status: str, seconds: float, **more: Any) -> Record:
    return {"cell": cell.key, "status": status, "about": dict(cell.about), "run": _run(seconds), **more}


def _run(seconds: float) -> dict[str, Any]:
    finished = datetime.now(UTC).isoformat(timespec="seconds")
    return {"seconds": round(seconds, 4), "finished": finished, "versions": versions()}
