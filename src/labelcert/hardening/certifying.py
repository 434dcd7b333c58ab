"""Recipes certified as jobs: in processes, on a cluster or right here, and kept where somebody wants that."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from labelcert.certification import GraphCertifier
from labelcert.hardening.candidates import ModelSearch
from labelcert.hardening.contest import Contest, Shares
from labelcert.jobs.cells import Answer, Cell, Job, JobBatch, JobList
from labelcert.jobs.execution import run_job
from labelcert.jobs.records import Record, RecordStatus
from labelcert.models import Recipe


class InJobs:
    """Certifies recipes of a contest as a batch of jobs, which ``run`` runs: their records are ``known`` then.

    If it is ``stoppable``, Ctrl-C ends the search with what is known, rather than for good.
    """

    def __init__(
        self, contest: Contest, run: Callable[[JobBatch], None], known: Mapping[str, Record], *, stoppable: bool = True
    ) -> None:
        self.interrupted = False
        self._contest, self._run, self._known, self._stoppable = contest, run, known, stoppable
        self._fingerprint = contest.graph.fingerprint()

    def certified(self, recipes: Sequence[Recipe], flips: int) -> Shares:
        """What is certified of each; of some, once interrupted."""
        contest, search = self._contest, self._contest.search
        keys, jobs = {}, JobList()
        for recipe in recipes:
            job = Job(contest.graph, contest.labeled, search.seed, recipe.model, search.inductive)
            cell = Cell(
                recipe=recipe,
                test=contest.test,
                max_flips=flips,
                time_limit=search.time_limit,
                collective=search.collective,
                threat=search.threat,
                device="gpu" if search.device == "gpu" else "cpu",
            )
            keys[recipe] = jobs.add(job, cell, self._fingerprint).key
        try:
            self._run(JobBatch("certifying", jobs.jobs()))
        except KeyboardInterrupt:
            if not self._stoppable:
                raise
            self.interrupted = True
        found = {recipe: self._known[key].get("result") for recipe, key in keys.items() if key in self._known}
        return {recipe: _share(result, flips) for recipe, result in found.items() if result}


def _share(result: Mapping[str, Any], flips: int) -> tuple[float, float]:
    """The share of predictions that survive, each alone, as an interval."""
    at = min(flips, result["max_flips"])
    lower, upper = (result[f"survive_{end}"][at] / result["n_test"] for end in ("lower", "upper"))
    return (lower if at == flips else 0.0), upper


@dataclass(frozen=True, eq=False, kw_only=True)
class SearchedCell(Cell):
    """The certificate of the most certified model, among those that are accurate enough."""

    def decides(self, job: Job) -> dict[str, Any]:
        """With the seed of the search."""
        return {**super().decides(job), "search": job.seed}

    def answer(self, job: Job, certifier: GraphCertifier, workers: int | None) -> Answer:
        """ModelSearch in this process, one recipe after the other."""
        search = ModelSearch(
            flips=self.max_flips,
            seed=job.seed,
            inductive=job.inductive,
            time_limit=self.time_limit,
            threat=self.threat,
            collective=self.collective,
        )
        contest = Contest.prepare(job.graph, job.labeled, self.test, search)
        known: dict[str, Record] = {}

        def run(batch: JobBatch) -> None:
            records: Iterable[Record] = (record for each in batch.jobs for record in run_job(each, workers=1))
            known.update((record["cell"], record) for record in records if record["status"] == RecordStatus.DONE)

        return contest.decide(InJobs(contest, run, known, stoppable=False)).certificate, {}
