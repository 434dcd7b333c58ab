"""Which recipe certifies the most, among those that are accurate enough."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from labelcert.arrays import Int
from labelcert.certificate import Certificate, Stop
from labelcert.errors import InvalidInput
from labelcert.graphs import Graph, own_split
from labelcert.hardening.candidates import ModelSearch, cross_validated, settings
from labelcert.hardening.hardened import Hardened, accuracy
from labelcert.jobs.cells import Cell, Job, JobBatch, JobList
from labelcert.jobs.records import Record
from labelcert.models import Model, Recipe, name_of
from labelcert.pipeline import choose_model
from labelcert.progress import progress_report
from labelcert.text import per_cent

BATCH = 48
"""Recipes that are certified together, before hopeless ones are dropped again."""

Shares = dict[Recipe, tuple[float, float]]
"""For each recipe, the share of predictions that survive, as (lower, upper)."""

Runner = Callable[[JobBatch], None]


@dataclass(frozen=True, eq=False)
class Contest:
    """All recipes with their cross-validated accuracies, before anything is certified."""

    search: ModelSearch
    graph: Graph
    labeled: Int
    test: Int
    candidates: tuple[Recipe, ...]
    default: Recipe
    """What would have been trained otherwise."""
    accurate: tuple[Recipe, ...]
    threshold: float

    @classmethod
    def prepare(
        cls, graph: Graph, labeled: npt.ArrayLike, test: npt.ArrayLike, search: ModelSearch, *, progress: bool = False
    ) -> Contest:
        """Cross-validate all recipes, to leave those that are accurate enough."""
        if not isinstance(graph, Graph):
            raise InvalidInput(
                f"expected a labelcert.Graph, got {type(graph).__name__}; make one with Graph.from_pyg(data) or "
                "labelcert.graph_from_files(...)"
            )
        split = own_split(graph, train=labeled, test=test)
        nodes, tested = split.labeled, split.test
        search = search.checked(nodes.size)
        joining = tested if search.inductive else None
        models = settings(search.models)
        with progress_report("cross-validating", progress) as show:

            def validated(models: Sequence[Model], search: ModelSearch) -> list[Recipe]:
                return list(cross_validated(graph, nodes, models, search, show.report, joining))

            found = validated(models, search)
            if not found:
                raise InvalidInput(
                    f"{nodes.size} labels and {search.flips} flips are too many for these losses; add 'square', or "
                    "give parts"
                )
            # As it would be without this search: a GCN or, where none is searched, the first of the models.
            names = [name_of(model) for model in models]
            name = "gcn" if "gcn" in names else names[0]
            usual = choose_model(name, graph, nodes, seed=search.seed, joining=joining, report=show.report)
            [own] = validated([usual.model], replace(search, losses=["hinge"], C=[usual.C], parts=None, flips=0))
        default = next((c for c in found if (c.model, c.loss, c.parts) == (own.model, own.loss, own.parts)), own)
        top = max(found, key=accuracy)
        assert top.deviation is not None
        threshold = (accuracy(top) - top.deviation if search.floor is None else search.floor) - 1e-12
        candidates = tuple(found) if default in found else (*found, default)
        allowed = [c for c in candidates if c in found or c.loss in search.losses]
        accurate = [candidate for candidate in allowed if accuracy(candidate) >= threshold]
        if not accurate:
            raise InvalidInput(
                f"no model reaches a cross-validated accuracy of {per_cent(search.floor or 0.0)}%; "
                f"the best has {per_cent(accuracy(top))}%"
            )
        return cls(search, graph, nodes, tested, candidates, default, tuple(accurate), threshold)

    def decide(self, run: Runner, known: Mapping[str, Record], *, stoppable: bool = True) -> Hardened:
        """Certify until nobody else can win; then certify the winner.

        ``run`` runs batches of jobs, and their records are ``known`` then. If it is ``stoppable``, Ctrl-C ends the
        search with what is known, rather than for good.
        """
        search, certified, interrupted = self.search, Shares(), False
        try:
            self._certify(certified, run, known)
        except KeyboardInterrupt:
            interrupted = True
        ranked = [c for c in self.accurate if c in certified]
        if interrupted and not (stoppable and ranked):
            raise KeyboardInterrupt  # nothing is known that could be told
        if not ranked:
            raise InvalidInput("no certificate was finished; give a larger time_limit, or fewer flips")
        certified.setdefault(self.default, (0.0, 1.0))  # where its certificate failed
        chosen = max(ranked, key=lambda c: (certified[c][0], accuracy(c), -c.C))
        certificate = self.certificate(chosen)
        return Hardened(
            chosen=chosen,
            default=self.default,
            certified=certified,
            candidates=self.candidates,
            threshold=self.threshold,
            flips=search.flips,
            seed=search.seed,
            complete=not interrupted and certificate.run.stopped is not Stop.INTERRUPTED,
            certificate=certificate,
            notes=tuple(search.left_out(self.labeled.size, np.unique(self.graph.labels[self.labeled]).size)),
        )

    def certificate(self, recipe: Recipe) -> Certificate:
        """The full certificate of one recipe, under the settings of the search."""
        search = self.search
        certifier = recipe.certifier(self.graph, self.labeled, [self.test], inductive=search.inductive)
        how = {"max_flips": search.flips, "device": search.device, **search.limits}
        found: Certificate = recipe.certify(certifier, self.test, **how)
        return found

    def _certify(self, certified: Shares, run: Runner, known: Mapping[str, Record]) -> None:
        """Find out what is certified; recipes that cannot be the best are dropped on the way."""
        flips, fingerprint = self.search.flips, self.graph.fingerprint()

        def certify(recipes: Sequence[Recipe], budget: int, into: Shares) -> None:
            jobs = JobList()
            keys = {recipe: jobs.add(*self._cell(recipe, budget), fingerprint).key for recipe in recipes}
            try:
                run(JobBatch("certifying", jobs.jobs()))
            finally:
                found = {recipe: known[key].get("result") for recipe, key in keys.items() if key in known}
                into.update({recipe: _share(result, budget) for recipe, result in found.items() if result})

        # What survives many wrong labels survives one, and one is quickly certified.
        first: Shares = certified if flips <= 1 else {}
        certify([*self.accurate, self.default], min(flips, 1), first)
        if flips <= 1:
            return
        certify([self.default], flips, certified)
        best = max((certified[c][0] for c in certified if c in self.accurate), default=-1.0)
        waiting = sorted((c for c in self.accurate if c in first and c != self.default), key=lambda c: -first[c][1])
        while some := [c for c in waiting if first[c][1] >= best][:BATCH]:  # among equals, the more accurate is chosen
            waiting = [c for c in waiting if c not in some]
            certify(some, flips, certified)
            best = max([best, *(certified[c][0] for c in some if c in certified)])

    def _cell(self, recipe: Recipe, flips: int) -> tuple[Job, Cell]:
        search = self.search
        device = "gpu" if search.device == "gpu" else "cpu"
        cell = Cell(recipe=recipe, test=self.test, max_flips=flips, device=device, **search.limits)
        return Job(self.graph, self.labeled, search.seed, recipe.model, search.inductive), cell


def _share(result: Mapping[str, Any], flips: int) -> tuple[float, float]:
    """The share of predictions that survive, each alone, as an interval."""
    at = min(flips, result["max_flips"])
    lower, upper = (result[f"survive_{end}"][at] / result["n_test"] for end in ("lower", "upper"))
    return (lower if at == flips else 0.0), upper
