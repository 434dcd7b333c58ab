"""Which recipe certifies the most, among those that are accurate enough."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from labelcert.arrays import Int
from labelcert.certificate import Certificate, Stop
from labelcert.certificate.run_record import unit_of
from labelcert.errors import InvalidInput
from labelcert.graphs import Graph, own_split
from labelcert.hardening.candidates import WITHOUT_EDGES, ModelSearch, effort, settings
from labelcert.hardening.hardened import Hardened, accuracy
from labelcert.hardening.learners import LearnerRecipe
from labelcert.hardening.validation import ValidatedCell
from labelcert.jobs.cells import Cell, Job, JobBatch, JobList
from labelcert.jobs.records import Record
from labelcert.losses import get_loss
from labelcert.losses.cross_validation import stratified_folds
from labelcert.models import Model, Recipe, name_of
from labelcert.pipeline import choose_model
from labelcert.problem import Threat
from labelcert.progress import progress_report
from labelcert.stopping import Stopped
from labelcert.text import per_cent

FIRST, SECOND = 4, 8
"""Settings of the first rounds, those with the cheapest kernels. There is something to show after the first one."""

SMALL_BATCH, BATCH = 16, 48
"""Recipes that are certified together, before hopeless ones are dropped again: for one flip, and for all."""

CLOSING, LEAST = 3.0, 0.5
"""Seconds that are kept for what comes after the search, and that the certificate at its end gets in any case."""

Shares = dict[Recipe, tuple[float, float]]
"""For each recipe, the share of predictions that survive, as (lower, upper)."""

Runner = Callable[[JobBatch, Callable[[Record], None]], None]
"""Runs jobs, and hands on each record; those that it has are handed on as well."""


@dataclass(eq=False)
class Contest:
    """A search that can be looked at while it runs.

    Attributes
    ----------
    plans : list of Recipe
        All that is searched, without C, cheap kernels first; ``usual`` is what would have been trained otherwise.
    watch : callable
        Is given the contest whenever there is news.
    certified : dict
        What survives the budget, for each recipe of which that is known.
    until : float, optional
        When everything has to be over, on the monotonic clock.
    """

    search: ModelSearch
    graph: Graph
    labeled: Int
    test: Int
    plans: list[Recipe]
    usual: Recipe
    kernels: Path | None = None
    watch: Callable[[Contest], None] = lambda contest: None
    certified: Shares = field(default_factory=dict)
    until: float | None = None
    _seconds: dict[Recipe, float] = field(default_factory=dict)
    """What cross-validation of plans took, kernels included, and certificates of recipes."""
    _reserve: float = 0.0
    _validated: dict[Recipe, list[Recipe]] = field(default_factory=dict)
    _first: Shares = field(default_factory=dict)
    _failed: dict[Recipe, str] = field(default_factory=dict)
    _refused: Counter[str] = field(default_factory=Counter)

    @classmethod
    def prepare(
        cls, graph: Graph, labeled: npt.ArrayLike, test: npt.ArrayLike, search: ModelSearch, *, progress: bool = False
    ) -> Contest:
        """Check what is asked, and choose what would be trained without a search."""
        if not isinstance(graph, Graph):
            raise InvalidInput(
                f"expected a labelcert.Graph, got {type(graph).__name__}; make one with Graph.from_pyg(data) or "
                "labelcert.graph_from_files(...)"
            )
        split = own_split(graph, train=labeled, test=test)
        nodes = split.labeled
        if search.models is None and graph.n_edges == 0:
            search = replace(search, models=WITHOUT_EDGES)
        search = search.checked(nodes.size)
        labels = np.asarray(graph.labels)[nodes]
        plans = search.plans(nodes.size, np.unique(labels).size)
        if not plans:
            raise InvalidInput(
                f"{nodes.size} labels and {search.flips} flips are too many for these losses; add 'square', or "
                "give parts"
            )
        stratified_folds(labels)  # refuses labels that cannot be cross-validated
        # As it would be without this search: a GCN or, where none is searched, the first of the models.
        names = [name_of(model) for model in settings(search.models)]
        with progress_report("choosing C of the default model", progress) as show:
            usual = "gcn" if "gcn" in names else names[0]
            how: dict[str, Any] = {"seed": search.seed, "joining": split.test if search.inductive else None}
            model = choose_model(usual, graph, nodes, report=show.report, **how).model
        return cls(search, graph, nodes, split.test, plans, Recipe(model))

    @property
    def total(self) -> int:
        """How many models are in the search."""
        known = any(_alike(plan, self.usual) and self.usual.C in self.search.C for plan in self.plans)
        learned = sum(isinstance(plan, LearnerRecipe) for plan in self.plans)
        return (len(self.plans) - learned) * len(self.search.C) + learned + (not known)

    def left(self) -> float:
        """Seconds that the search may still take: the certificate of the best model so far comes after it."""
        return math.inf if self.until is None else self.until - self._reserve - time.monotonic()

    def described(self) -> str:
        """What is searched, in numbers."""
        plans = [plan for plan in self.plans if not isinstance(plan, LearnerRecipe)]
        models, learned = {plan.model for plan in plans}, len(self.plans) - len(plans)
        settings_, architectures, losses, values = (
            f"{count} {word if count == 1 else words}"
            for count, word, words in (
                (len(models), "setting", "settings"),
                (len({name_of(model) for model in models}), "architecture", "architectures"),
                (len({plan.loss for plan in plans}), "loss", "losses"),
                (len(self.search.C), "value", "values"),
            )
        )
        parts = "".join(f", in {count} parts" for count in self.search.parts or ())
        parts += f", and {learned} ensembles of {type(self.search.learner).__name__}" if learned else ""
        one, all_ = (
            "as long as it takes" if limit is None else f"{limit:g} s"
            for limit in (self.search.model_time_limit, self.search.time_limit)
        )
        return (
            f"{self.total} models: {settings_} of {architectures}, {losses}, {values} of C{parts}; cheap ones come "
            f"first. A certificate may take {one}, the search {all_}"
        )

    def progress(self, workers: int) -> str:
        """How far the search is, and about how long the rest of the cross-validation takes."""
        done = [plan for plan in self.plans if plan in self._seconds]
        words = f"{len(self.candidates)} of {self.total} models cross-validated"
        if len(done) < len(self.plans) and done:
            rate = sum(self._seconds[plan] for plan in done) / sum(effort(plan.model) for plan in done)
            left = rate * sum(effort(plan.model) for plan in self.plans if plan not in self._seconds) / workers
            words += f", the others in about {max(1.0, left):.0f} s"
        return f"{words}; {len(self.certified)} certified, {len(self._first)} more for one flip"

    @property
    def candidates(self) -> tuple[Recipe, ...]:
        """All recipes whose accuracy is known, the default one included."""
        found = [recipe for plan in self.plans for recipe in self._validated.get(plan, [])]
        default = self.default
        return tuple(found) if default is None or default in found else (*found, default)

    @property
    def default(self) -> Recipe | None:
        """What would have been trained otherwise, once its accuracy is known."""
        own = self._validated.get(self.usual, [None])[0]
        if own is None:
            return None
        same = (c for plan in self.plans if _alike(plan, own) for c in self._validated.get(plan, []) if c.C == own.C)
        return next(same, own)

    @property
    def threshold(self) -> float:
        """Accuracies from here on are good enough, as far as is known."""
        if self.search.floor is not None:
            return self.search.floor - 1e-12
        top = max((recipe for plan in self.plans for recipe in self._validated.get(plan, [])), key=accuracy)
        return accuracy(top) - (top.deviation or 0.0) - 1e-12

    @property
    def accurate(self) -> list[Recipe]:
        """Those that are accurate enough, as far as is known."""
        if not any(plan in self._validated for plan in self.plans):
            return []
        default, threshold = self.default, self.threshold
        return [
            c for c in self.candidates if accuracy(c) >= threshold and (c != default or c.loss in self.search.losses)
        ]

    @property
    def ranked(self) -> list[Recipe]:
        """The accurate ones whose certificate is known, the best one first."""
        known = [c for c in self.accurate if c in self.certified]
        return sorted(known, key=lambda c: (-self.certified[c][0], -accuracy(c), c.C))

    def decide(self, run: Runner, *, stoppable: bool = True) -> Hardened:
        """Certify until nobody else can win.

        If it is ``stoppable``, Ctrl-C ends the search with what is known, rather than for good.
        """
        stop = Stop.FINISHED
        try:
            self._search(run)
        except KeyboardInterrupt:
            stop = Stop.INTERRUPTED
        except Stopped:
            stop = Stop.TIME_LIMIT
        if stop is Stop.INTERRUPTED and not (stoppable and self.ranked):
            raise KeyboardInterrupt  # nothing is known that could be told
        return self.standing(stop)

    def standing(self, stop: Stop) -> Hardened:
        """The answer as far as it is known."""
        search, ranked, default, candidates = self.search, self.ranked, self.default, self.candidates
        if not ranked or default is None:
            why = next(iter(self._refused), "give a larger time_limit, or fewer flips")
            raise InvalidInput(f"no certificate was finished; {why}")
        known = {default: (0.0, 1.0), **self.certified}  # that of the default one may be missing
        certified = {c: known[c] for c in candidates if c in known}
        return Hardened(
            chosen=ranked[0],
            default=default,
            certified=certified,
            candidates=candidates,
            threshold=self.threshold,
            flips=search.flips,
            seed=search.seed,
            stopped=stop,
            certify=self.certificate,
            total=self.total,
            unit=unit_of((search.threat or Threat()).describe()),
            notes=(
                *search.left_out(self.labeled.size, np.unique(self.graph.labels[self.labeled]).size),
                *(f"{plan.label} ({plan.loss}) was left out: {why}" for plan, why in self._failed.items()),
                *(f"{count} certificates were not finished: {why}" for why, count in self._refused.items()),
            ),
        )

    def certificate(self, recipe: Recipe) -> Certificate:
        """The full certificate of one recipe, under the settings of the search."""
        search = self.search
        how = {"max_flips": search.flips, "device": search.device, **search.limits}
        if self.until is not None:
            own = math.inf if search.model_time_limit is None else search.model_time_limit
            how["time_limit"] = min(own, max(LEAST, self.until - time.monotonic()))
        found: Certificate = recipe.certify(self._job(recipe).certifier([self.test]), self.test, **how)
        return found

    def _search(self, run: Runner) -> None:
        """Find out what is certified; recipes that cannot be the best are dropped on the way."""
        models = list(dict.fromkeys(plan.model for plan in self.plans))
        rounds = (models[:FIRST], models[FIRST : FIRST + SECOND], models[FIRST + SECOND :])
        for number, some in enumerate(rounds):
            first = [self.usual] if number == 0 else []
            self._validate(run, [*(plan for plan in self.plans if plan.model in some), *first])
            cheap = [c for c in self.accurate if _cheap(c) and c not in self.certified]
            default = [c for c in self.candidates if c == self.default and c not in [*cheap, *self.certified]]
            self._certify(run, [*cheap, *(default if number else [])], self.search.flips)
        if self._failed and (self.default is None or len(self.candidates) == 1):
            raise InvalidInput(next(iter(self._failed.values())))
        if not self.accurate:
            top = max(map(accuracy, self.candidates))
            raise InvalidInput(
                f"no model reaches a cross-validated accuracy of {per_cent(self.search.floor or 0.0)} %; "
                f"the best has {per_cent(top)} %"
            )
        self._certify_costly(run)

    def _certify_costly(self, run: Runner) -> None:
        """Those that are not linear in the labels, and ensembles: the most promising ones first."""
        flips, hope = self.search.flips, dict[Model, float]()
        for recipe, (low, _) in self.certified.items():
            hope[_setting(recipe)] = max(low, hope.get(_setting(recipe), 0.0))
        left = [c for c in self.accurate if c not in self.certified]
        left.sort(key=lambda c: -hope.get(_setting(c), 0.0))
        # What survives many wrong labels survives one, and one is quickly certified.
        for k in range(0, len(left), SMALL_BATCH):
            some = left[k : k + SMALL_BATCH]
            self._certify(run, some, min(flips, 1))
            self._certify(run, self._waiting(some)[:1], flips)
        while some := self._waiting(left)[:BATCH]:
            self._certify(run, some, flips)

    def _waiting(self, recipes: Sequence[Recipe]) -> list[Recipe]:
        """Those that may still win, by what survives one flip; among equals, the more accurate one is chosen."""
        best = max((self.certified[c][0] for c in self.ranked[:1]), default=-1.0)
        some = [c for c in recipes if c in self._first and c not in self.certified and self._first[c][1] >= best]
        return sorted(some, key=lambda c: -self._first[c][1])

    def _validate(self, run: Runner, plans: Sequence[Recipe]) -> None:
        """Cross-validate plans, each with every C; the usual model has its own."""

        def take(plan: Recipe, cell: ValidatedCell, record: Record) -> None:
            found = record.get("validated")
            if found and len(found["accuracy"]) == len(cell.values):
                self._validated[plan] = cell.recipes(found)
                self._seconds[plan] = record["run"]["seconds"]
            else:
                self._failed[plan] = str(record.get("reason", ""))

        asked: list[tuple[Job, Cell, Callable[[Record], None]]] = []
        for plan in plans:
            alone = plan is self.usual or isinstance(plan, LearnerRecipe)
            values = (plan.C,) if alone else tuple(map(float, self.search.C))
            cell = ValidatedCell(recipe=plan, test=self.test, max_flips=0, values=values)
            asked.append((self._job(plan), cell, partial(take, plan, cell)))
        self._run("cross-validating", run, asked)

    def _certify(self, run: Runner, recipes: Sequence[Recipe], budget: int) -> None:
        """Certify recipes at a budget, which may be smaller than that of the search."""
        into = self.certified if budget == self.search.flips else self._first

        def take(recipe: Recipe, record: Record) -> None:
            if record.get("result"):
                into[recipe] = _share(record["result"], budget)
                self._seconds[recipe] = record["run"]["seconds"]
                best = max((self._seconds[c] for c in self.ranked[:1]), default=0.0)
                self._reserve = min(1.25 * best + CLOSING, 0.5 * (self.search.time_limit or 0.0))
            else:
                self._refused[str(record.get("reason", ""))] += 1

        asked: list[tuple[Job, Cell, Callable[[Record], None]]] = []
        device = "gpu" if self.search.device == "gpu" else "cpu"
        for recipe in recipes:
            how = {"test": self.test, "max_flips": budget, "device": device, **self.search.limits}
            asked.append((self._job(recipe), Cell(recipe=recipe, **how), partial(take, recipe)))
        self._run("certifying", run, asked)

    def _run(self, name: str, run: Runner, asked: Sequence[tuple[Job, Cell, Callable[[Record], None]]]) -> None:
        """Have cells computed, and take each record when it arrives."""
        fingerprint, jobs = self.graph.fingerprint(), JobList()
        takers: dict[str, list[Callable[[Record], None]]] = {}
        for job, cell, own in asked:
            takers.setdefault(jobs.add(job, cell, fingerprint).key, []).append(own)

        def take(record: Record) -> None:
            for own in takers[record["cell"]]:
                own(record)
            self.watch(self)

        if takers:
            run(JobBatch(name, jobs.jobs()), take)

    def _job(self, recipe: Recipe) -> Job:
        search = self.search
        return Job(self.graph, self.labeled, search.seed, recipe.model, search.inductive, kernels=self.kernels)


def _setting(recipe: Recipe) -> Model:
    """The model whatever its C."""
    return replace(recipe.model, C=1.0)


def _cheap(recipe: Recipe) -> bool:
    """Whether a sort certifies it, or counting votes."""
    return isinstance(recipe, LearnerRecipe) or (recipe.parts is None and get_loss(recipe.loss).always_linear)


def _alike(plan: Recipe, other: Recipe) -> bool:
    """The same but for C."""
    return (plan.loss, plan.parts) == (other.loss, other.parts) and replace(plan.model, C=other.C) == other.model


def _share(result: Mapping[str, Any], flips: int) -> tuple[float, float]:
    """The share of predictions that survive, each alone, as an interval."""
    at = min(flips, result["max_flips"])
    lower, upper = (result[f"survive_{end}"][at] / result["n_test"] for end in ("lower", "upper"))
    return (lower if at == flips else 0.0), upper
