"""One job, wherever it runs: the kernel once, then a certificate for each cell, reported as it finishes."""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import numpy as np

from labelcert._version import NUMERICS
from labelcert.arrays import Bool, Int
from labelcert.certificate import Certificate, Stop
from labelcert.certification import GraphCertifier, certify, certify_partition, versions
from labelcert.errors import ClusterLost, LabelcertError
from labelcert.finite.transfer import Transfer, transfer
from labelcert.finite.twins import Twins
from labelcert.hardening import Contest
from labelcert.hardening.candidates import Candidate
from labelcert.models import model_from_name
from labelcert.models.networks.torch_extra import threads
from labelcert.pipeline import choose_model
from labelcert.problem import Threat
from labelcert.rechecking import recheck
from labelcert.studies import published_code
from labelcert.studies.cells import Cell, Job
from labelcert.studies.records import Record, Status
from labelcert.studies.using import USING

Backend = Callable[[Sequence[Job]], Iterator[Record]]


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
        tests = [cell.test for cell in job.cells]
        certifier = GraphCertifier(model, job.graph, job.labeled, tests, inductive=job.inductive)
    except Exception as error:
        for cell in job.cells:
            yield failure(cell, error, time.perf_counter() - started)
        return
    kernel_seconds = time.perf_counter() - started
    using = published_code.certify if job.options.get("variant") == "published" else certify
    for cell in job.cells:
        started = time.perf_counter()
        try:
            more: dict[str, Any] = {}
            if cell.search:
                certificate = _searched(job, cell)
            elif cell.finite is not None:
                found = _transferred(job, cell, workers)
                certificate, more = found.certificate, {"transfer": found.plain()}
            else:
                certificate = _certified(job, cell, certifier, using, workers)
            result = {**summary(certificate, job, cell), **more}
        except ClusterLost:
            raise
        except Exception as error:
            yield failure(cell, error, time.perf_counter() - started)
            continue
        if certificate.run.stopped is Stop.INTERRUPTED:
            raise KeyboardInterrupt
        seconds = time.perf_counter() - started + kernel_seconds / len(job.cells)
        yield _record(cell, Status.DONE, seconds, result=result)


def _certified(
    job: Job, cell: Cell, certifier: GraphCertifier, using: Callable[..., Certificate], workers: int | None
) -> Certificate:
    C = _regularisation(job, cell)
    how: dict[str, Any] = {"using": using, "engine": cell.engine}
    if cell.parts is not None:
        how = {"using": certify_partition, **cell.parts}
    if how["using"] in (certify, certify_partition):
        how["device"] = "cpu"  # of several attacks that are equally strong, a GPU may find another
        how["collective"] = cell.collective
    if cell.using is not None:
        how = {"using": USING[cell.using["name"]], "seed": cell.using["seed"], **cell.using["options"]}
    if cell.using is not None or cell.loss != "hinge":
        how["loss"] = cell.loss
    if cell.verify is not None:
        how["threat"] = Threat(trusted=_verified(job, cell, certifier, C, cell.verify))
    certificate: Certificate = certifier.certify(
        cell.test, C=C, max_flips=cell.max_flips, time_limit=cell.time_limit, workers=workers, **how
    )
    return certificate


def _transferred(job: Job, cell: Cell, workers: int | None) -> Transfer:
    """The certificate with the margin of networks of finite width, and what such networks do."""
    assert cell.finite is not None
    model = replace(model_from_name(job.model, **job.options), C=_regularisation(job, cell))
    pair = Twins(model, job.graph, job.labeled, cell.test, job.inductive, validation=cell.finite["validation"])
    how: dict[str, Any] = {"max_flips": max(1, cell.max_flips), "time_limit": cell.time_limit, "workers": workers}
    with threads(workers):
        return transfer(pair, cell.finite["width"], seed=job.seed, **how)


def _searched(job: Job, cell: Cell) -> Certificate:
    """Of the most certified model among those that are accurate enough."""
    how: dict[str, Any] = {"flips": cell.max_flips, "seed": job.seed, "inductive": job.inductive}
    contest = Contest.prepare(job.graph, job.labeled, cell.test, **how)
    return contest.decide(_Here(contest, cell.time_limit), cell.time_limit).certificate


class _Here:
    """Certifies candidates one after the other, in this process; those with the same kernel share it."""

    def __init__(self, contest: Contest, time_limit: float | None) -> None:
        self.interrupted = False
        self._contest, self._time_limit = contest, time_limit
        self._certifiers: dict[str, GraphCertifier] = {}

    def certified(self, candidates: Sequence[Candidate], flips: int) -> dict[Candidate, tuple[float, float]]:
        """What is certified of each."""
        contest, found = self._contest, {}
        for candidate in dict.fromkeys(candidates):
            kernel = f"{candidate.name} {candidate.options}"
            if kernel not in self._certifiers:
                self._certifiers[kernel] = GraphCertifier(
                    candidate.model, contest.graph, contest.labeled, [contest.test], inductive=contest.inductive
                )
            try:
                certificate = self._certifiers[kernel].certify(
                    contest.test,
                    using=certify,
                    C=candidate.model.C,
                    loss=candidate.loss,
                    max_flips=flips,
                    time_limit=self._time_limit,
                    workers=1,
                )
            except LabelcertError:
                continue
            if certificate.run.stopped is Stop.INTERRUPTED:
                raise KeyboardInterrupt
            found[candidate] = (
                certificate.certified_ratio(flips=flips),
                certificate.certified_ratio(flips=flips, bound="upper"),
            )
        return found


def _verified(job: Job, cell: Cell, certifier: GraphCertifier, C: float, verify: Mapping[str, Any]) -> Bool:
    """(m,) which labels are verified."""
    m = len(job.labeled)
    if verify["choose"] == "random":
        chosen = np.random.default_rng(job.seed).permutation(m)[: verify["labels"]].tolist()
    else:
        how = {"flips": cell.max_flips, "verify": verify["labels"], "loss": cell.loss, "time_limit": cell.time_limit}
        chosen = certifier.certify(cell.test, using=recheck, C=C, workers=1, **how).labels
    return np.isin(np.arange(m), chosen)


def _regularisation(job: Job, cell: Cell) -> float:
    if cell.C is not None:
        return cell.C
    how: dict[str, Any] = {"C": "cv", "rule": cell.rule, "seed": job.seed, "loss": cell.loss}
    return choose_model(job.model, job.graph, job.labeled, **how, **job.options).model.C


def failure(cell: Cell, error: Exception, seconds: float = 0.0) -> Record:
    """The record of a cell that failed, with the reason."""
    record = _record(cell, Status.FAILED, seconds, reason=f"{type(error).__name__}: {error}")
    if not isinstance(error, LabelcertError):
        record["traceback"] = "".join(traceback.format_exception(error))[-4000:]
    return record


def unavailable(key: str, about: Any, reason: str) -> Record:
    """The record of a cell whose data is not here."""
    return {"cell": key, "status": Status.FAILED, "about": dict(about), "reason": reason, "run": _run(0.0)}


def summary(certificate: Certificate, job: Job, cell: Cell) -> dict[str, Any]:
    """All that studies read off a certificate, in plain values: counts of nodes for every budget 0..B.

    The same problem gives the same summary, bit for bit, wherever and however often it is computed.
    """
    c = certificate
    correct = c.correct(job.graph.labels[cell.test])
    budgets = range(c.max_flips + 1)

    def survive(radius: Int) -> list[int]:
        return [int((radius > b).sum()) for b in budgets]

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
    }


def _record(cell: Cell, status: str, seconds: float, **more: Any) -> Record:
    return {"cell": cell.key, "status": status, "about": dict(cell.about), "run": _run(seconds), **more}


def _run(seconds: float) -> dict[str, Any]:
    finished = datetime.now(UTC).isoformat(timespec="seconds")
    return {"seconds": round(seconds, 4), "finished": finished, "versions": versions(), "numerics": NUMERICS}
