"""``harden``: the model that certifies the most among those that are accurate enough."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from labelcert.certificate import Stop
from labelcert.certification import GraphCertifier
from labelcert.checking import in_short
from labelcert.errors import InvalidInput
from labelcert.graphs import Graph
from labelcert.hardening.candidates import LOSSES, Grid, ModelSearch
from labelcert.hardening.contest import Contest
from labelcert.hardening.hardened import Hardened, accuracy
from labelcert.hardening.showing import showing
from labelcert.jobs.cells import Answer, Cell, Job, JobBatch
from labelcert.jobs.execution import run_job
from labelcert.jobs.records import Record
from labelcert.jobs.runner import lasting_backend, run_plan
from labelcert.jobs.store import Store
from labelcert.losses.cross_validation import C_GRID
from labelcert.problem import Threat
from labelcert.problem.ballots import Votes
from labelcert.problem.validation import check_workers


def harden(
    graph: Graph,
    labeled: npt.ArrayLike,
    test: npt.ArrayLike,
    *,
    flips: int,
    models: Mapping[str, Grid] | Sequence[str] | None = None,
    losses: Sequence[str] = LOSSES,
    C: Sequence[float] = C_GRID,
    parts: Sequence[int] | None = None,
    floor: float | None = None,
    seed: int = 0,
    inductive: bool = False,
    threat: Threat | None = None,
    votes: Mapping[str, Votes] | None = None,
    learner: Any = None,
    device: str = "auto",
    collective: bool = True,
    time_limit: float | None = 180.0,
    model_time_limit: float | None = 20.0,
    workers: int | None = None,
    scheduler: str | None = None,
    out: str | Path | None = None,
    progress: bool = False,
) -> Hardened:
    """Search for the model that certifies the most at a budget, among those that are accurate enough.

    Accuracy is measured by cross-validation over the labelled nodes. Labels of test nodes are never looked at. A model
    is accurate enough if it is within one standard error of the most accurate one. What is quickly certified comes
    first, so that a search whose time is over has something to show.

    Parameters
    ----------
    graph : Graph
    labeled, test : indices or masks
    flips : int
        How many wrong labels to survive (what they cost, where labels have costs).
    models : mapping from names to grids of options, or names, optional
        Which architectures to try; some twenty settings by default. Without edges, kernels on features.
    losses : sequence of str
    C : sequence of float
        Values of C to try.
    parts : sequence of int, optional
        Also ensembles on this many parts of the labels; their certificates take longer.
    floor : float, optional
        Accept models of at least this cross-validated accuracy, instead of one standard error.
    seed : int
        Of the folds, and of the parts.
    inductive : bool
        Test nodes join the graph after training.
    votes : mapping from names to Votes, optional
        Ways to make the labels of the labelled nodes from votes on them, in their order (a weight for each annotator,
        say): one of them is chosen together with the model. Budgets then count annotators. Accuracy is measured against
        the labels that each way makes.
    learner : classifier, optional
        Of scikit-learn: also ensembles of copies of it (:class:`labelcert.CertifiedEnsemble`) on ``parts`` of the
        labels, 10, 30 and 100 by default, by votes and by run-off. They see the features of nodes, and no edges.
    threat, collective
        As in :func:`labelcert.certify`, for each certificate.
    time_limit : float, optional
        Seconds for everything: 180 by default; None for as long as it takes. The best model so far is the answer then.
        With ``votes``, for each way to make labels. On a cluster, what was begun is awaited.
    model_time_limit : float, optional
        Seconds for the certificate of each model; what it leaves open counts as not certified.
    progress : bool
        Show the best models so far on standard error: a table that is drawn again in a terminal, one now and then
        elsewhere.
    device : {"auto", "cpu", "gpu"}
        Where certificates are computed. With "auto", a GPU computes that of the chosen model alone.
    workers : int, optional
        Local processes; one per core by default. With 1, everything runs in this process.
    scheduler : str, optional
        Address of a Dask scheduler to use instead.
    out : path, optional
        Folder that keeps kernels, accuracies and certificates as they come, so that the search can be resumed.

    Returns
    -------
    Hardened
        ``best`` is the model, ``certificate`` its certificate, ``table`` all candidates.

    Examples
    --------
    >>> from labelcert import harden
    >>> from labelcert.graphs import karate
    >>> found = harden(karate(), [0, 1, 2, 3, 30, 31, 32, 33], [8, 9, 13, 19, 27, 28], flips=1, workers=1,
    ...                models={"gcn": {}, "sgc": {"depth": [1, 2]}}, losses=["hinge"], C=[0.01, 1.0])
    >>> found.certified[found.chosen][0] >= found.certified[found.default][0]
    True
    """
    if votes is not None:
        how = {name: value for name, value in locals().items() if name not in ("graph", "labeled", "votes", "threat")}
        return _by_rule(votes, graph, labeled, threat or Threat(), how)
    search = ModelSearch(
        flips=flips,
        models=models,
        losses=losses,
        C=C,
        parts=parts,
        floor=floor,
        seed=seed,
        inductive=inductive,
        threat=threat,
        device=device,
        collective=collective,
        time_limit=time_limit,
        model_time_limit=model_time_limit,
        learner=learner,
    )
    started = time.monotonic()
    contest = Contest.prepare(graph, labeled, test, search, progress=progress)
    contest.until = None if time_limit is None else started + time_limit
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch if out is None else out)
        contest.kernels = folder / "kernels" if scheduler is None else None
        found = _searched(contest, folder, workers, scheduler, progress)
        if found.stopped is Stop.INTERRUPTED:
            contest.until = None  # who wants the certificate after all has time
        else:
            assert found.certificate  # which is computed now
        contest.kernels = None if out is None else contest.kernels
    return found


def _searched(contest: Contest, folder: Path, workers: int | None, scheduler: str | None, progress: bool) -> Hardened:
    """The answer, with everything kept in a folder."""
    with (
        showing(contest, check_workers(workers), progress),
        Store(folder, write=True) as store,
        lasting_backend(workers, scheduler, contest.left) as backend,
    ):

        def run(batch: JobBatch, take: Callable[[Record], None]) -> None:
            for key in batch.keys:
                if key in store.records:
                    take(store.records[key])
            run_plan(batch, store, backend=backend, watch=take)

        return contest.decide(run)


def _by_rule(
    votes: Mapping[str, Votes], graph: Graph, labeled: npt.ArrayLike, threat: Threat, how: dict[str, Any]
) -> Hardened:
    """The best of several searches, one for each way to make labels of votes."""
    if not votes:
        raise InvalidInput("votes must name at least one way to make labels, such as {'majority': Votes(table)}")
    if threat.owns_annotators:
        raise InvalidInput("give votes to harden alone, and the threat without them")
    nodes, found = np.flatnonzero(labeled) if np.asarray(labeled).dtype == bool else np.asarray(labeled), {}
    for name, rule in votes.items():
        strange = sorted({str(label) for label in rule.labels.tolist()} - set(graph.class_names))
        if strange or rule.labels.size != nodes.size:
            raise InvalidInput(
                f"votes[{name!r}] must be about the {nodes.size} labelled nodes and the classes "
                f"{', '.join(graph.class_names[:5])}, got {rule.labels.size} items of {in_short(rule.labels.tolist())}"
            )
        labels = np.array(graph.labels)
        labels[nodes] = [graph.class_names.index(str(label)) for label in rule.labels.tolist()]
        relabelled, known = replace(graph, labels=labels), replace(threat, votes=rule)
        found[name] = replace(harden(relabelled, nodes, threat=known, **how), rule=name)
    return max(found.values(), key=lambda one: (one.certified[one.chosen][0], accuracy(one.chosen)))


@dataclass(frozen=True, eq=False, kw_only=True)
class SearchedCell(Cell):
    """The certificate of the most certified model, among those that are accurate enough."""

    def decides(self, job: Job) -> dict[str, Any]:
        """With the seed of the search."""
        return {**super().decides(job), "search": job.seed}

    def answer(self, job: Job, certifier: GraphCertifier, workers: int | None) -> Answer:
        """Search in this process, one recipe after the other."""
        search = ModelSearch(
            flips=self.max_flips,
            seed=job.seed,
            inductive=job.inductive,
            model_time_limit=self.time_limit,
            threat=self.threat,
            collective=self.collective,
        )
        contest = Contest.prepare(job.graph, job.labeled, self.test, search)

        def run(batch: JobBatch, take: Callable[[Record], None]) -> None:
            for each in batch.jobs:
                for record in run_job(each, workers=1):
                    take(record)

        return contest.decide(run, stoppable=False).certificate, {}
