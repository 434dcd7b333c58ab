"""``harden``: the model that certifies the most among those that are accurate enough."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy.typing as npt

from labelcert.arrays import Int
from labelcert.checking import whole_number
from labelcert.errors import InvalidInput
from labelcert.graphs import Graph, own_split
from labelcert.hardening.candidates import LOSSES, Candidate, Grid, cross_validated, settings
from labelcert.hardening.result import Hardened
from labelcert.losses import get_loss
from labelcert.losses.cross_validation import C_GRID
from labelcert.pipeline import choose_model
from labelcert.progress import Report, progress_report
from labelcert.studies.cells import Graphs, expand
from labelcert.studies.results import each_row, tidy
from labelcert.studies.runner import run_plan
from labelcert.studies.schema import CertificateSpec, DatasetSpec, Kind, ModelSpec, Study
from labelcert.studies.store import Store

BATCH = 48
"""Candidates that are certified together, before hopeless ones are dropped again."""


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
    >>> from labelcert.graphs import karate
    >>> found = harden(karate(), [0, 1, 2, 3, 30, 31, 32, 33], [8, 9, 13, 19, 27, 28], flips=1, workers=1,
    ...                models={"gcn": {}, "sgc": {"depth": [1, 2]}}, losses=["hinge"], C=[0.01, 1.0])
    >>> found.certified[found.chosen][0] >= found.certified[found.default][0]
    True
    """
    if not isinstance(graph, Graph):
        raise InvalidInput(
            f"expected a labelcert.Graph, got {type(graph).__name__}; make one with Graph.from_pyg(data) or "
            "labelcert.graph_from_files(...)"
        )
    split = own_split(graph, train=labeled, test=test)
    nodes, tested = split.labeled, split.test
    flips = whole_number("flips", flips, 0, nodes.size)
    if floor is not None and not 0 <= floor <= 1:
        raise InvalidInput(f"floor must be an accuracy between 0 and 1, got {floor!r}")
    for loss in losses:
        get_loss(loss)
    if not losses or not len(C) or min(C) <= 0:
        raise InvalidInput("losses and C must hold at least one entry each, and every C must be positive")
    joining = tested if inductive else None
    chosen_models = settings(models)
    counts = [whole_number("parts", count, 1, nodes.size, "one label each") for count in parts or ()]
    with progress_report("cross-validating", progress) as show:
        found = list(
            cross_validated(
                graph,
                nodes,
                models=chosen_models,
                losses=losses,
                values=C,
                parts=counts,
                seed=seed,
                report=show.report,
                flips=flips,
                joining=joining,
            )
        )
        if not found:
            raise InvalidInput(
                f"{nodes.size} labels and {flips} flips are too many for these losses; add 'square', or give parts"
            )
        names = [name for name, _ in chosen_models]
        default = _default("gcn" if "gcn" in names else names[0], graph, nodes, seed, found, show.report, joining)
    top = max(found, key=lambda candidate: candidate.accuracy)
    threshold = (top.accuracy - top.error if floor is None else floor) - 1e-12
    candidates = tuple(found) if default in found else (*found, default)
    allowed = [c for c in candidates if c in found or c.loss in losses]
    accurate = [candidate for candidate in allowed if candidate.accuracy >= threshold]
    if not accurate:
        raise InvalidInput(
            f"no model reaches a cross-validated accuracy of {floor:.1%}; the best has {top.accuracy:.1%}"
        )
    with _store(out) as store:
        search = _Search(graph, nodes, tested, seed, inductive, time_limit, store, workers, scheduler, progress)
        certified = search.best_of(accurate, default, flips)
        complete = not search.interrupted
    ranked = [c for c in accurate if c in certified]
    if not ranked and not complete:
        raise KeyboardInterrupt  # nothing is known that could be told
    if not ranked:
        raise InvalidInput("no certificate was finished; give a larger time_limit, or fewer flips")
    certified.setdefault(default, (0.0, 1.0))  # where its certificate failed
    chosen = max(ranked, key=lambda c: (certified[c][0], c.accuracy, -c.model.C))
    return Hardened(
        chosen=chosen,
        default=default,
        certified=certified,
        candidates=candidates,
        threshold=threshold,
        flips=flips,
        seed=seed,
        complete=complete,
        certificate=chosen.trained(seed).certify(
            graph, nodes, tested, inductive=inductive, max_flips=flips, loss=chosen.loss, time_limit=time_limit
        ),
    )


def _default(
    name: str, graph: Graph, labeled: Int, seed: int, found: Sequence[Candidate], report: Report, joining: Int | None
) -> Candidate:
    """The model as it would be trained without this search."""
    choice = choose_model(name, graph, labeled, seed=seed, report=report)
    [own] = cross_validated(
        graph,
        labeled,
        models=[(name, choice.model)],
        losses=["hinge"],
        values=[choice.model.C],
        parts=[],
        seed=seed,
        report=report,
        joining=joining,
    )
    same = [c for c in found if (c.name, c.model, c.loss, c.parts) == (own.name, own.model, own.loss, own.parts)]
    return same[0] if same else own


class _Search:
    """Certifies candidates through the runner of studies, which is parallel and remembers."""

    def __init__(
        self,
        graph: Graph,
        labeled: Int,
        test: Int,
        seed: int,
        inductive: bool,
        time_limit: float | None,
        store: Store,
        workers: int | None,
        scheduler: str | None,
        progress: bool,
    ) -> None:
        self._graphs = _Given(graph)
        self._dataset = DatasetSpec(
            label=graph.name, labeled=tuple(graph.names(labeled)), test=tuple(graph.names(test))
        )
        self._about: dict[str, Any] = {"seeds": (seed,), "inductive": inductive, "time_limit": time_limit}
        self._store = store
        self.interrupted = False
        self._run: dict[str, Any] = {"workers": workers, "scheduler": scheduler, "progress": progress}

    def best_of(
        self, accurate: Sequence[Candidate], default: Candidate, flips: int
    ) -> dict[Candidate, tuple[float, float]]:
        """What is certified; candidates that cannot be the best are dropped on the way."""
        # What survives many wrong labels survives one, and one is quickly certified.
        first = self._certify([*accurate, default], min(flips, 1))
        if flips <= 1:
            return first
        certified = {} if self.interrupted else self._certify([default], flips)
        best = max((certified[c][0] for c in certified if c in accurate), default=-1.0)
        waiting = sorted((c for c in accurate if c in first and c is not default), key=lambda c: -first[c][1])
        while waiting and not self.interrupted:
            hopeful = [c for c in waiting if first[c][1] >= best]  # among equals, the more accurate one is chosen
            some, waiting = hopeful[:BATCH], hopeful[BATCH:]
            certified |= self._certify(some, flips)
            best = max([best, *(certified[c][0] for c in some if c in certified)])
        return certified

    def _certify(self, candidates: Sequence[Candidate], flips: int) -> dict[Candidate, tuple[float, float]]:
        """What is certified of each; of some, once :attr:`interrupted`."""
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
