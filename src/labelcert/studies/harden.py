"""``harden``: the model that certifies the most among those that are accurate enough."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy.typing as npt

from labelcert.graphs import Graph
from labelcert.hardening import Hardened
from labelcert.hardening.candidates import LOSSES, Candidate, Grid
from labelcert.hardening.contest import Contest
from labelcert.losses.cross_validation import C_GRID
from labelcert.studies.cells import Graphs, expand
from labelcert.studies.results import each_row, tidy
from labelcert.studies.runner import run_plan
from labelcert.studies.schema import CertificateSpec, DatasetSpec, Kind, ModelSpec, Study
from labelcert.studies.store import Store


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
    time_limit: float | None = 20.0,
    workers: int | None = None,
    scheduler: str | None = None,
    out: str | Path | None = None,
    progress: bool = False,
) -> Hardened:
    """Search for the model that certifies the most at a budget, among those that are accurate enough.

    Accuracy is measured by cross-validation over the labelled nodes. Labels of test nodes are never looked at. A model
    is accurate enough if it is within one standard error of the most accurate one.

    Parameters
    ----------
    graph : Graph
    labeled, test : indices or masks
    flips : int
        How many wrong labels to survive.
    models : mapping from names to grids of options, or names, optional
        Which architectures to try; some twenty settings by default.
    losses : sequence of str
    C : sequence of float
        Values of C to try.
    parts : sequence of int, optional
        Also ensembles on so many parts of the labels; their certificates take longer.
    floor : float, optional
        Accept models of at least this cross-validated accuracy, instead of one standard error.
    seed : int
        Of the folds, and of the parts.
    inductive : bool
        Test nodes join the graph after training.
    time_limit : float, optional
        Seconds for each certificate.
    workers : int, optional
        Local processes; one per core by default. With 1, everything runs in this process.
    scheduler : str, optional
        Address of a Dask scheduler to use instead.
    out : path, optional
        Folder that keeps every certificate that was computed, so that the search can be resumed.
    progress : bool
        Show a progress bar on standard error.

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
    contest = Contest.prepare(
        graph,
        labeled,
        test,
        flips=flips,
        models=models,
        losses=losses,
        C=C,
        parts=parts,
        floor=floor,
        seed=seed,
        inductive=inductive,
        progress=progress,
    )
    with _store(out) as store:
        run = {"workers": workers, "scheduler": scheduler, "progress": progress}
        return contest.decide(_InStudies(contest, time_limit, store, run), time_limit)


class _InStudies:
    """Certifies candidates through the runner of studies, which is parallel and remembers."""

    def __init__(self, contest: Contest, time_limit: float | None, store: Store, run: dict[str, Any]) -> None:
        graph = contest.graph
        self._graphs = _Given(graph)
        self._dataset = DatasetSpec(
            label=graph.name, labeled=tuple(graph.names(contest.labeled)), test=tuple(graph.names(contest.test))
        )
        self._about: dict[str, Any] = {
            "seeds": (contest.seed,),
            "inductive": contest.inductive,
            "time_limit": time_limit,
        }
        self._store = store
        self._run = run
        self.interrupted = False

    def certified(self, candidates: Sequence[Candidate], flips: int) -> dict[Candidate, tuple[float, float]]:
        """What is certified of each; of some, once interrupted."""
        distinct = list(dict.fromkeys(candidates))
        specs = tuple(
            ModelSpec(
                name=c.name,
                label=str(k),
                options={key: value for key, value in c.options.items() if key != "variant"},
                C=float(c.model.C),
                loss=c.loss,
                parts=c.parts,
                max_flips=flips,
            )
            for k, c in enumerate(distinct)
        )
        study = Study(
            name="certifying",
            title="certifying",
            datasets=(self._dataset,),
            models=specs,
            certificates=(CertificateSpec(kind=Kind.RATIO),),
            flips=(flips,),
            **self._about,
        )
        plan = expand(study, graphs=self._graphs)
        try:
            run_plan(plan, self._store, **self._run)
        except KeyboardInterrupt:
            self.interrupted = True
        rows = {int(row.model): (row.lower, row.upper) for row in each_row(tidy(plan, self._store)) if row.lower >= 0}
        return {distinct[k]: (float(low), float(high)) for k, (low, high) in rows.items()}


class _Given(Graphs):
    """The one graph that is asked about."""

    def __init__(self, graph: Graph) -> None:
        super().__init__()
        self._graph = graph

    def load(self, spec: DatasetSpec, seed: int, parameters: Mapping[str, Any]) -> Graph:
        """The graph."""
        return self._graph


@contextmanager
def _store(out: str | Path | None) -> Iterator[Store]:
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch if out is None else out)
        folder.mkdir(parents=True, exist_ok=True)
        with Store(folder, write=True) as store:
            yield store
