"""What goes with what: the one place that says which combinations work, which are refused, and what is different.

Every way in asks :func:`require` before work starts, with a :class:`Request` of plain values, and certificates record
what :func:`notes` says. The documentation prints :func:`table`. A combination that no rule is about works.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from labelcert.engines.base import Engine
from labelcert.engines.registry import AUTO, engine_names, get_engine
from labelcert.errors import InvalidInput
from labelcert.losses import LINEAR, LOSSES, Loss, get_loss, loss_names
from labelcert.prediction.uncertain import LOSSES_WITH_ERRORS
from labelcert.problem import Threat

MACHINE, FEATURES, MAP = "kernel machine", "linear model by its features", "linear map"
UNKNOWN, NEIGHBOURS = "any function that trains", "nearest neighbours whose rows go"
VOTES, MEAN = "votes of parts", "mean scores of parts"
QUESTIONS = ("radii", "curve", "recheck", "attack", "verify", "report", "baseline", "noise")
RADII, CURVE, RECHECK, ATTACK, VERIFY, REPORT, BASELINE, NOISE = QUESTIONS
THREADS, PROCESSES, DASK, GPU = PLACES = ("threads", "processes", "Dask", "GPU")
TRUSTED, COSTS, GROUPS, DIRECTIONS, ANNOTATORS, REMOVALS, SAMPLES = THREATS = (
    *("trusted labels", "costs", "groups", "directions"),
    *("annotators", "removed labels", "samples"),
)

GPU_LABELS = 512
"""The most labels that kernels on a GPU hold."""

BASELINE_LOSSES = ("hinge", "squared_hinge", "logistic", "square")


class Support(StrEnum):
    """What becomes of a combination."""

    WORKS = "works"
    NOTED = "noted"
    REFUSED = "refused"


NOTED, REFUSED = Support.NOTED, Support.REFUSED


@dataclass(frozen=True)
class Request:
    """What somebody asks for, in plain values."""

    predictor: str = MACHINE
    """``MACHINE``, ``MAP``, ``VOTES``, ``MEAN`` or ``UNKNOWN``."""
    loss: str | None = "hinge"
    """None: nothing is trained, as with a linear map."""
    intercept: bool = False
    """Beside the losses that have one by their name."""
    classes: int = 2
    labels: int = 0
    """How many there are; 0: few."""
    threat: tuple[str, ...] = ()
    """Of ``THREATS``, what restricts the adversary; empty: nothing."""
    margin: bool = False
    uncertain: bool = False
    """Whether entries of the kernel may be off."""
    metrics: bool = False
    """Whether worst values of metrics are wanted, too."""
    weights: bool = False
    """Whether labels have weights."""
    asks: str = RADII
    """One of ``QUESTIONS``."""
    engine: str = AUTO
    place: str = THREADS
    """One of ``PLACES``."""
    limited: bool = False
    """Whether there is a time limit."""

    @property
    def trained_with(self) -> Loss:
        """The loss that is asked about; linear maps where none is given."""
        name = LINEAR if self.loss is None else self.loss
        return LOSSES[name] if name in LOSSES else get_loss(name)

    @property
    def tags(self) -> frozenset[str]:
        """What rules look for."""
        loss, engine = self.trained_with, _engine(self.engine)
        closed = self.engine == "closed-form" or (self.engine == AUTO and loss.always_linear)
        can = engine.capabilities if engine is not None else None
        facts = {
            "trained": self.loss is not None,
            "ensemble": self.predictor in (VOTES, MEAN),
            "known": self.predictor != UNKNOWN,
            "intercept": self.intercept or loss.intercept,
            "both-sides": loss.needs_both_sides,
            "coupled": loss.coupled and self.classes > 2,
            "margin": self.margin,
            "uncertain": self.uncertain,
            "other-bounds": loss.name not in LOSSES_WITH_ERRORS,
            "metrics": self.metrics,
            "bounded": self.predictor != MACHINE
            or self.uncertain
            or ANNOTATORS in self.threat
            or not (can is None or can.observes),
            "weights": self.weights,
            "threat": bool(self.threat),
            "engine": self.engine != AUTO,
            "elsewhere": self.place != THREADS,
            "closed": closed and self.predictor == MACHINE,
            "search": can is not None and can.searches,
            "no-kernel": not (loss.always_linear or loss.name in ("hinge", "squared_hinge")),
            "many": self.labels > GPU_LABELS,
            "no-baseline": loss.name not in BASELINE_LOSSES or self.intercept,
            "other-loss": can is not None and not can.applies(loss.name, loss.coupled and self.classes > 2),
            "unproved": can is not None and not loss.always_linear and not can.proves(loss.name),
            "large": can is not None and self.limited and self.labels > can.most_labels,
            "incomplete": can is not None and not can.finds_attacks,
            "claims": can is not None and can.claims,
            "keeps-labels": can is not None and not can.removes,
        }
        words = (self.predictor, self.asks, self.engine, self.place, loss.name, *self.threat)
        return frozenset([*words, *(name for name, holds in facts.items() if holds)])


@dataclass(frozen=True)
class Rule:
    """One combination, what becomes of it, and a sentence: what was asked, why not, what to do instead."""

    when: tuple[str, ...]
    """The rule is about requests with all of these tags."""
    verdict: Support
    says: str
    """With fields of the request in braces."""

    def sentence(self, request: Request) -> str:
        """What the rule says about a request."""
        engine = _engine(request.engine)
        why = "" if engine is None else engine.capabilities.why(request.trained_with.name)
        values = {name: getattr(request, name) for name in ("predictor", "loss", "asks", "engine", "place", "labels")}
        most = 0 if engine is None else engine.capabilities.most_labels
        return self.says.format(**values, why=why, most=most, largest=GPU_LABELS)


TABLE: dict[tuple[str, ...], str] = {
    # Linear maps of the labels.
    (MAP, "trained", REFUSED): "a linear map trains nothing, so it has no loss; leave out loss={loss!r}",
    (MAP, "engine", REFUSED): "a linear map has an engine of its own, the closed form; leave out engine={engine!r}",
    (MAP, "margin", REFUSED): "certify_linear has no margin; certify(loss='square', margin=...) has one for kernel "
    "ridge regression",
    (MAP, "elsewhere", REFUSED): "a linear map is certified in a moment on threads; leave out the {place}",
    (MAP, RECHECK, NOTED): "a certificate does not hold the rows of a linear map: give recheck them again, as H",
    (MAP, ATTACK, REFUSED): "attack trains on a kernel, and a linear map has none; use certify_linear's witnesses",
    (MAP, BASELINE, REFUSED): "baselines train on a kernel, and a linear map has none; use certify_linear",
    (MAP, VERIFY, NOTED): "a certificate does not hold the rows of a linear map: give verify them again, as H",
    (MAP, REPORT, NOTED): "without a kernel, attacks are not listed: what the switches of a report show is an interval",
    # Linear models that are trained on features.
    (FEATURES, "margin", REFUSED): "a model on features has no margin; certify(X @ X.T, ..., margin=...) on its kernel "
    "has",
    (FEATURES, "weights", VERIFY, REFUSED): "verify does not train models whose labels have weights",
    (FEATURES, "elsewhere", REFUSED): "a model on features is trained on threads; leave out the {place}",
    (FEATURES, RECHECK, NOTED): "a certificate does not hold features: give recheck them again, as X_train and X_test",
    (FEATURES, VERIFY, NOTED): "a certificate does not hold features: give verify them again, as X_train and X_test",
    # Ensembles on parts of the labels.
    ("ensemble", "intercept", REFUSED): "parts may hold labels of one class alone, so ensembles have no intercepts "
    "that are not regularised, as loss={loss!r} has; use the loss without intercept",
    ("ensemble", "coupled", REFUSED): "ensembles need the scores of each class alone, which loss={loss!r} does not "
    "train with more than two classes; use loss='logistic'",
    ("ensemble", "engine", REFUSED): "an ensemble on parts of the labels has an engine of its own; leave out "
    "engine={engine!r}",
    ("ensemble", ATTACK, REFUSED): "{asks} knows single kernel machines alone; the witnesses of certify_partition are "
    "attacks on an ensemble",
    (MEAN, BASELINE, REFUSED): "the baseline of ensembles counts votes, not scores; use certify_partition",
    ("ensemble", CURVE, NOTED): "the curve of an ensemble is an interval, whose upper end follows from the radii",
    ("ensemble", REPORT, NOTED): "attacks on an ensemble are listed only where its curve is exact; elsewhere, what "
    "the switches of a report show is an interval",
    # Votes of models that any function trains.
    (UNKNOWN, "trained", REFUSED): "nobody knows what the function trains with; leave out loss={loss!r}",
    (UNKNOWN, "engine", REFUSED): "votes of any function's models are counted by an engine of their own; leave out "
    "engine={engine!r}",
    (UNKNOWN, "margin", REFUSED): "votes of any function's models have no margin; leave it out",
    (UNKNOWN, GPU, REFUSED): "models are trained wherever the function does it; leave out the device",
    (UNKNOWN, RECHECK, REFUSED): "recheck trains models itself, and does not know this one; certify with "
    "Threat(trusted=...) to see what trusted labels change",
    (UNKNOWN, ATTACK, REFUSED): "attack trains models itself, and does not know this one; use the witnesses of "
    "certify_votes",
    (UNKNOWN, BASELINE, REFUSED): "baselines train models themselves, and do not know this one; certify_votes counts "
    "votes already",
    (UNKNOWN, NOISE, REFUSED): "noise trains models itself, and does not know this one; leave it out",
    (UNKNOWN, VERIFY, NOTED): "verify counts votes again, and does not train the models that gave them",
    (UNKNOWN, REPORT, NOTED): "without a kernel, attacks are not listed: what the switches of a report show is an "
    "interval",
    (UNKNOWN, CURVE, NOTED): "the curve of votes is an interval, whose upper end follows from radii and multipliers",
    (UNKNOWN, NOTED): "lower ends of radii hold for a training that is deterministic, whatever it is; upper ends are "
    "changes of labels after which it was seen to predict something else",
    # Margins, and intercepts.
    ("margin", "intercept", REFUSED): "margin cannot be combined with loss={loss!r}: its intercept is the same for "
    "all labels, and those that stand for a margin would move it; use the loss without intercept",
    ("margin", BASELINE, REFUSED): "baselines prove nothing about margins; use certify(margin=...)",
    ("both-sides", NOTED): "an intercept needs labels on both sides: budgets end before a class can lose all of its "
    "labels",
    # Kernels with errors.
    (MAP, "uncertain", REFUSED): "a linear map has no kernel whose entries could be off; leave out kernel_error, or "
    "use certify(loss='square')",
    (FEATURES, "uncertain", REFUSED): "a model on features has no kernel whose entries could be off; certify(X @ X.T, "
    "..., kernel_error=...) has one",
    (UNKNOWN, "uncertain", REFUSED): "votes of any function's models know no kernel; leave out kernel_error",
    ("ensemble", "uncertain", REFUSED): "ensembles on parts of the labels know no kernel errors; use one model",
    ("uncertain", "trained", "other-bounds", REFUSED): "kernel_error needs bounds on the scores of all admissible "
    "kernels, which loss={loss!r} does not have; use loss='hinge' or loss='square' without intercept",
    ("uncertain", ANNOTATORS, REFUSED): "kernel_error knows no budgets that count annotators; leave out one of them",
    ("uncertain", REMOVALS, REFUSED): "kernel_error knows no labels that are removed; leave out one of them",
    ("uncertain", "milp-paper", REFUSED): "the paper's programs know no kernel errors; leave out engine={engine!r}",
    ("uncertain", "elsewhere", REFUSED): "kernels with errors are certified on threads; leave out the {place}",
    ("uncertain", RECHECK, REFUSED): "recheck knows no kernel errors; certify with Threat(trusted=...) to see what "
    "trusted labels change",
    ("uncertain", ATTACK, REFUSED): "attack knows no kernel errors; it attacks the given kernel, without kernel_error",
    ("uncertain", BASELINE, REFUSED): "baselines know no kernel errors; use certify(kernel_error=...)",
    ("uncertain", NOISE, REFUSED): "noise knows no kernel errors; leave out kernel_error",
    ("uncertain", VERIFY, NOTED): "verify checks a certificate with kernel errors for the given kernel, and for others "
    "that are drawn within the errors; it does not prove lower ends for all of them",
    ("uncertain", REPORT, NOTED): "attacks that a report lists are those on the given kernel",
    ("uncertain", NOTED): "radii hold for every kernel within its errors; upper ends are changes of labels that work "
    "under the given kernel",
    # Worst values of metrics.
    ("margin", "metrics", REFUSED): "metrics are about predictions, and not about margins; leave out one of them",
    ("bounded", "metrics", NOTED): "worst values of metrics are intervals that follow from radii and the curve; they "
    "are exact where the labellings of one model are enumerated",
    # Engines, as they declare it.
    ("other-loss", REFUSED): "engine={engine!r} does not apply: {why}",
    ("unproved", NOTED): "engine={engine!r} has no proofs for loss={loss!r}: it enumerates small budgets, and looks "
    "for attacks beyond",
    ("large", NOTED): "with more than {most} labels and a time limit, engine={engine!r} looks for attacks alone: it "
    "proves nothing beyond small budgets",
    ("incomplete", NOTED): "engine={engine!r} proves lower ends of radii, and looks for no attacks",
    ("claims", NOTED): "what a solver claims proves nothing, unless trust_solver says so",
    # Questions.
    ("engine", RECHECK, REFUSED): "recheck chooses its engines itself; leave out engine={engine!r}",
    ("engine", ATTACK, REFUSED): "attack runs one heuristic, and no engine; leave out engine={engine!r}",
    ("engine", BASELINE, REFUSED): "a baseline is an engine of its own; leave out engine={engine!r}",
    ("engine", NOISE, REFUSED): "noise chooses how to answer itself; leave out engine={engine!r}",
    ("elsewhere", NOISE, REFUSED): "noise runs on threads; leave out the {place}",
    ("threat", NOISE, REFUSED): "noise has no adversary; instead of a threat, give rates for single labels, annotators "
    "or classes (wrong=)",
    ("margin", NOISE, REFUSED): "noise has no margin; leave it out",
    ("ensemble", NOISE, REFUSED): "noise knows single models alone; leave out the parts",
    ("elsewhere", ATTACK, REFUSED): "attack runs on threads; leave out the {place}",
    ("elsewhere", BASELINE, REFUSED): "baselines run on one thread; leave out the {place}",
    ("threat", BASELINE, REFUSED): "baselines let the adversary change any label, at one unit each; leave out threat, "
    "or use labelcert.certify",
    ("no-baseline", BASELINE, REFUSED): "no baseline is about loss={loss!r}; use labelcert.certify",
    # Adversaries who own annotators.
    (ANNOTATORS, "engine", REFUSED): "budgets that count annotators have an engine of their own; leave out "
    "engine={engine!r}",
    (ANNOTATORS, FEATURES, REFUSED): "budgets that count annotators need a kernel; certify(X @ X.T, ...) has one",
    (ANNOTATORS, ATTACK, REFUSED): "attack changes single labels; the witnesses of certify name annotators",
    (ANNOTATORS, "elsewhere", NOTED): "where budgets count annotators, walks over what a set of them can do go to the "
    "{place}; sums over annotators, and ensembles, stay on threads",
    (
        ANNOTATORS,
        VERIFY,
        NOTED,
    ): "where budgets count annotators, verify checks votes and witnesses, and not what no set of annotators can do",
    # Adversaries who remove labels.
    (REMOVALS, "keeps-labels", REFUSED): "engine={engine!r} knows no labels that are removed; leave it out",
    (REMOVALS, MAP, REFUSED): "a linear map does not say what it would be without a label; certify a kernel machine "
    "(of scikit-learn: RidgeClassifier, KernelRidge, SVC, LinearSVC, LogisticRegression), or an estimator of nearest "
    "neighbours with weights='uniform'",
    (NEIGHBOURS, "margin", REFUSED): "votes of neighbours have no margin; leave it out",
    (NEIGHBOURS, "elsewhere", REFUSED): "votes of neighbours are counted on threads; leave out the {place}",
    (REMOVALS, FEATURES, REFUSED): "where labels are removed, a linear model needs its kernel; certify(X @ X.T, ...) "
    "has one",
    (REMOVALS, "ensemble", REFUSED): "ensembles on parts of the labels know no labels that are removed; use one model",
    (REMOVALS, UNKNOWN, REFUSED): "votes are counted for labels that change; with samples=True, samples may be "
    "removed, too",
    (REMOVALS, ATTACK, REFUSED): "attack changes labels, and removes none; use the witnesses of certify",
    (REMOVALS, GPU, REFUSED): "device='gpu' knows no labels that are removed; leave out the device",
    (
        REMOVALS,
        VERIFY,
        NOTED,
    ): "where labels are removed, verify looks at every relabelling, or at a share of them where there are many",
    # Adversaries who bring samples of their own.
    (SAMPLES, "known", REFUSED): "features of samples change what a known model is made of, which nothing here "
    "bounds; certify_votes deals samples out to parts, and withstands that",
    # Places.
    (GPU, "no-kernel", REFUSED): "device='gpu' trains with the hinge loss, its square, or where scores are linear in "
    "the labels, and has nothing for loss={loss!r}; leave out the device",
    (GPU, "many", REFUSED): "device='gpu' holds at most {largest} labels, and there are {labels}; leave out the device",
    ("elsewhere", "closed", NOTED): "closed forms take a moment on threads of this process: nothing went to the "
    "{place}",
    ("elsewhere", "search", NOTED): "a search runs on threads of this process: nothing but small budgets, which it "
    "enumerates, went to the {place}",
}
"""What is said, by the tags that a request must have, and what becomes of it then."""

RULES = tuple(Rule(tuple(when), Support(verdict), says) for (*when, verdict), says in TABLE.items())


def _engine(name: str) -> Engine | None:
    """The engine of a name; None where one is to be chosen."""
    return None if name == AUTO else get_engine(name)


def kinds_of(threat: Threat) -> tuple[str, ...]:
    """What restricts the adversary."""
    given = {
        TRUSTED: threat.trusted is not None,
        COSTS: threat.costs is not None,
        GROUPS: threat.groups is not None,
        DIRECTIONS: threat.allowed_flips is not None or threat.allowed_targets is not None,
        ANNOTATORS: threat.owns_annotators,
        REMOVALS: threat.removes,
        SAMPLES: threat.samples,
    }
    return tuple(name for name, restricts in given.items() if restricts)


def place_of(scheduler: str | None, device: str) -> str:
    """Where chunks of work are sent."""
    if device == "gpu":
        return GPU
    return THREADS if scheduler is None else PROCESSES if scheduler == "processes" else DASK


def rules(request: Request) -> list[Rule]:
    """All rules about a request."""
    tags = request.tags
    return [rule for rule in RULES if tags.issuperset(rule.when)]


def refusal(request: Request) -> str | None:
    """Why a combination is refused, and what to do instead; None where it is not."""
    return next((rule.sentence(request) for rule in rules(request) if rule.verdict is REFUSED), None)


def notes(request: Request) -> list[str]:
    """What is different about a combination that works."""
    return [rule.sentence(request) for rule in rules(request) if rule.verdict is NOTED]


def require(request: Request) -> list[str]:
    """Refuse a combination that does not work; what is different about it otherwise."""
    why = refusal(request)
    if why is not None:
        raise InvalidInput(why)
    return notes(request)


def verdict(request: Request) -> Support:
    """What becomes of a request."""
    found = [rule.verdict for rule in rules(request)]
    return next((one for one in (REFUSED, NOTED) if one in found), Support.WORKS)


Change = tuple[str, Any]


def axes() -> dict[str, dict[str, Change]]:
    """For each axis, its values by what the table calls them: the field of a request, and what it is set to."""
    return {
        "predictor": {name: ("predictor", name) for name in (MACHINE, MAP, VOTES, MEAN, UNKNOWN)},
        "loss": {name: ("loss", name) for name in loss_names()},
        "classes": {"two classes": ("classes", 2), "more classes": ("classes", 3)},
        "threat": {"any label": ("threat", ()), **{f"threat: {name}": ("threat", (name,)) for name in THREATS}},
        "margin": {"no margin": ("margin", False), "margin": ("margin", True)},
        "kernel": {"known kernel": ("uncertain", False), "kernel errors": ("uncertain", True)},
        "question": {**{name: ("asks", name) for name in QUESTIONS}, "metrics": ("metrics", True)},
        "engine": {name: ("engine", name) for name in engine_names()},
        "place": {name: ("place", name) for name in PLACES},
    }


def cells() -> Iterator[tuple[str, str, Request]]:
    """Every pair of values of two axes, with the plainest value of every other one: their names, and the request."""
    for (_, first), (_, second) in itertools.combinations(axes().items(), 2):
        for (a, one), (b, other) in itertools.product(first.items(), second.items()):
            yield a, b, _asked(one, other)


def _asked(*changes: Change) -> Request:
    request = Request()
    for name, value in changes:
        request = replace(request, **{name: value})
    bare = request.predictor in (MAP, UNKNOWN) and "loss" not in dict(changes)
    return replace(request, loss=None) if bare else request


def counts() -> dict[Support, int]:
    """How many cells there are of each kind."""
    found = [verdict(request) for _, _, request in cells()]
    return {kind: found.count(kind) for kind in Support}


PRINTED = (
    (("loss", "classes", "threat", "margin", "kernel", "engine", "place"), ("predictor", "question")),
    (("loss", "classes", "threat", "margin", "kernel"), ("engine", "place")),
    (("loss",), ("classes", "threat", "margin", "kernel")),
    (("kernel",), ("classes", "threat", "margin")),
    (("predictor", "engine"), ("question", "place")),
)
"""Rows and columns of the printed tables."""


def table() -> str:
    """All cells, and then all rules, as Markdown."""
    found = counts()
    works, noted, refused = (found[kind] for kind in (Support.WORKS, NOTED, REFUSED))
    lines = [f"Of {sum(found.values())} cells, {works} work, {noted} work with a remark, {refused} are refused.", ""]
    for down, across in PRINTED:
        columns = {name: change for axis in across for name, change in axes()[axis].items()}
        lines += ["| | " + " | ".join(columns) + " |", "|---" * (len(columns) + 1) + "|"]
        for axis in down:
            for name, change in axes()[axis].items():
                marks = ["" if axis in across else _mark(_asked(change, other)) for other in columns.values()]
                lines.append(f"| {name} | " + " | ".join(marks) + " |")
        lines.append("")
    lines += ["| | combination | | what is said |", "|---|---|---|---|"]
    for number, rule in enumerate(RULES, 1):
        says = rule.says.replace("{", "⟨").replace("}", "⟩").replace("!r", "")
        lines.append(f"| {number} | {' × '.join(rule.when)} | {rule.verdict} | {says} |")
    return "\n".join([*lines, ""])


def _mark(request: Request) -> str:
    """✓, or the number of the rule that refuses it, or those of the rules that have something to say."""
    found = rules(request)
    numbers = {kind: [str(RULES.index(rule) + 1) for rule in found if rule.verdict is kind] for kind in Support}
    if numbers[REFUSED]:
        return f"✗ {numbers[REFUSED][0]}"
    return " ".join(["✓", *numbers[NOTED]])


if __name__ == "__main__":
    print(table(), end="")
