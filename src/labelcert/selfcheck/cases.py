"""Small problems that are made to be nasty: degenerate kernels, ties, extreme parameters, all threat options."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any

import numpy as np

from labelcert.arrays import Float, Values
from labelcert.certificate import Certificate
from labelcert.certification import certify
from labelcert.errors import InvalidInput
from labelcert.problem import REMOVED, Problem, Threat
from labelcert.selfcheck.nasty_kernels import DEGENERATE, TREACHEROUS, draw_cap, draw_kernel

MOST_RELABELLINGS = 2000
"""Most relabellings that brute force visits, of a problem with more than two classes."""


OTHER_LOSSES = (
    *("squared_hinge", "logistic", "logistic_intercept", "cross_entropy", "cross_entropy_intercept"),
    "square_intercept",
)
"""Losses that problems of the self-check take turns with."""

MARGINS = (0.5, 0.1, 2.0**-20, 1.0, 0.013)
"""Margins that problems of the self-check take turns with; labels are often at a margin of 1."""

FEW_RELABELLINGS = 129
"""Most relabellings that brute force visits where it has to work with many digits."""


@dataclass(frozen=True, eq=False)
class Case:
    """One small problem: arguments of :func:`labelcert.certify`."""

    kind: str
    K_train: Float
    labels: Values
    K_test: Float
    C: float
    loss: str
    threat: Threat
    max_flips: int | None
    margin: float = 0.0

    def build(self) -> Problem:
        """The problem of this case, validated."""
        return self._built

    @cached_property
    def _built(self) -> Problem:
        return Problem.build(**{name: value for name, value in self._arguments.items() if name != "margin"})

    def certify(self, engine: str, **options: Any) -> Certificate:
        """The certificate of one engine."""
        return certify(**self._arguments, engine=engine, **options)

    @property
    def _arguments(self) -> dict[str, Any]:
        return {field.name: getattr(self, field.name) for field in fields(self) if field.name != "kind"}


def admissible(case: Case, costs: list[int], budget: int) -> Iterator[tuple[int, ...]]:
    """All sets of flips that the threat allows, read from its definition."""
    threat = case.threat
    candidates = [i for i, targets in enumerate(admissible_targets(case)) if targets]
    for size in range(min(len(candidates), budget) + 1):  # a label costs at least 1
        for flips in itertools.combinations(candidates, size):
            if sum(costs[i] for i in flips) > budget:
                continue
            if threat.groups is not None and threat.group_budgets is not None:
                budgets, spent = threat.group_budgets, Counter[Any]()
                for i in flips:
                    spent[threat.groups[i]] += costs[i]
                caps = {g: budgets if isinstance(budgets, int) else budgets.get(g, spent[g]) for g in spent}
                if any(g is not None and spent[g] > caps[g] for g in spent):
                    continue
            yield flips


def admissible_targets(case: Case) -> list[list[Any]]:
    """What each label may become, read from the threat's definition."""
    threat, labels = case.threat, case.labels.tolist()
    m = len(labels)
    trusted = [False] * m if threat.trusted is None else [bool(v) for v in np.asarray(threat.trusted)]
    lists = [None] * m if threat.allowed_targets is None else threat.allowed_targets
    flips = threat.allowed_flips
    removable = np.broadcast_to(np.asarray(threat.removable if threat.removes else False), m)
    return [
        [
            new
            for new in sorted(set(labels))
            if new != labels[i]
            and threat.changes
            and not trusted[i]
            and (flips is None or new in flips.get(labels[i], ()))
            and (lists[i] is None or new in lists[i])  # type: ignore[operator]
        ]
        + [REMOVED] * int(bool(removable[i]) and not trusted[i])
        for i in range(m)
    ]


def relabellings(case: Case, costs: list[int], budget: int) -> Iterator[dict[int, Any]]:
    """All relabellings that the threat allows, read from its definition."""
    targets = admissible_targets(case)
    for flips in admissible(case, costs, budget):
        for new in itertools.product(*(targets[i] for i in flips)):
            yield dict(zip(flips, new, strict=True))


def label_costs(case: Case) -> list[int]:
    """Price of changing each label."""
    if case.threat.costs is None:
        return [1] * case.labels.size
    return [int(c) for c in np.asarray(case.threat.costs)]


def random_case(rng: np.random.Generator, *, largest: int = 8, kinds: Sequence[str] = DEGENERATE) -> Case:
    """A random small problem: kernels of some kinds, ties, extreme caps, all threat options."""
    m = int(rng.integers(2, largest + 1))
    n = int(rng.integers(1, 6))
    kind = str(rng.choice(kinds))
    K, rows = draw_kernel(rng, kind, m, n)
    C = draw_cap(rng, kind, K)
    y = rng.integers(0, 2, m)
    y[0], y[-1] = 0, 1
    names = np.array(["ham", "spam"]) if rng.random() < 0.5 else np.array([3, 7])
    labels = names[y]
    threat = _random_threat(rng, labels)
    total = m if threat.costs is None else int(np.asarray(threat.costs).sum())
    loss = "square" if rng.random() < 0.25 else "hinge"
    max_flips = None if rng.random() < 0.5 else int(rng.integers(0, total + 1))
    return Case(kind, K, labels, rows, C, loss, threat, max_flips)


def random_classes_case(rng: np.random.Generator, *, largest: int = 7, kinds: Sequence[str] = DEGENERATE) -> Case:
    """The same with three to five classes; the budget keeps brute force affordable."""
    K = int(rng.integers(3, min(largest, 5) + 1))
    two = random_case(rng, largest=largest, kinds=kinds)
    while two.labels.size < K:
        two = random_case(rng, largest=largest, kinds=kinds)
    m = two.labels.size
    codes = rng.integers(0, K, m)
    codes[rng.permutation(m)[:K]] = np.arange(K)
    names = np.array(["ant", "bee", "cat", "dog", "elk"]) if rng.random() < 0.5 else np.array([1, 4, 5, 7, 9])
    labels = names[:K][codes]
    threat = _random_threat(rng, labels)
    if rng.random() < 0.15:  # each class to another one: relabellings are then larger than any class's part in them
        kinds = names[:K].tolist()
        threat = replace(threat, allowed_flips={a: [kinds[(k + K // 2) % K]] for k, a in enumerate(kinds)})
    case = replace(two, labels=labels, threat=threat, max_flips=None)
    budget = _affordable(case, sum(label_costs(case)), MOST_RELABELLINGS)
    if rng.random() < 0.3:
        budget = int(rng.integers(0, budget + 1))
    return replace(case, max_flips=budget)


def hard_case(rng: np.random.Generator, *, classes: int = 2, largest: int = 20) -> Case:
    """An ill-conditioned kernel on 12 to 20 labels, attacked by at most one flip."""
    m, n = int(rng.integers(12, largest + 1)), 30
    kind = str(rng.choice(["gaussian", "polynomial", "vandermonde", "low rank"]))
    points = rng.normal(size=(m + n, int(rng.integers(1, 4))))
    if kind == "gaussian":
        squared = np.sum((points[:, None] - points[None]) ** 2, axis=2)
        K = np.exp(-squared / rng.choice([0.5, 4.0, 100.0]))
    elif kind == "polynomial":
        K = (1 + points @ points.T) ** int(rng.integers(2, 9))
    elif kind == "vandermonde":
        K = np.vander(points[:, 0], 8) @ np.vander(points[:, 0], 8).T
    else:
        K = points @ points.T
    K = (K + K.T) / 2
    labels = rng.integers(0, classes, m)
    labels[0], labels[1], labels[-1] = 0, classes - 1, 1
    C = float(rng.choice([1e-3, 0.1, 1.0, 100.0, 1e5]))
    return Case(kind, K[:m, :m], labels, K[m:, :m], C, "hinge", Threat(), max_flips=1)


def _random_threat(rng: np.random.Generator, labels: Values) -> Threat:
    m = labels.size
    options: dict[str, Any] = {}
    if rng.random() < 0.3:
        options["trusted"] = rng.random(m) < rng.choice([0.3, 0.7, 1.1])
    if rng.random() < 0.3:
        options["costs"] = rng.integers(1, 4, m)
    names = np.unique(labels).tolist()
    if rng.random() < 0.2 and len(names) == 2:
        a, b = names
        options["allowed_flips"] = {a: [b]} if rng.random() < 0.5 else {b: [a]}
    elif rng.random() < 0.2:
        chosen = [name for name in names if rng.random() < 0.7]
        options["allowed_flips"] = {a: [b for b in names if rng.random() < 0.6] for a in chosen}
    if rng.random() < 0.15:
        options["allowed_targets"] = [
            None if rng.random() < 0.3 else [b for b in names if rng.random() < 0.6] for _ in range(m)
        ]
    if rng.random() < 0.3:
        options["groups"] = [None if g == 3 else f"annotator {g}" for g in rng.integers(0, 4, m)]
        present = sorted({g for g in options["groups"] if g is not None})
        if rng.random() < 0.5:
            options["group_budgets"] = int(rng.integers(0, 3))
        else:
            options["group_budgets"] = {g: int(rng.integers(0, 3)) for g in present[:2]}
    return Threat(**options)


def nasty_case(rng: np.random.Generator, k: int, largest: int) -> Case:
    """Problem number ``k``; one that :func:`labelcert.certify` would refuse is drawn again.

    A quarter has treacherous kernels, a third three to five classes, and a twentieth is larger and ill-conditioned.
    """
    while True:
        case = _draw(rng, k, largest)
        try:
            case.build()
        except InvalidInput:
            continue
        return case


def with_loss_in_turn(case: Case, k: int) -> Case:
    """Every fifth problem with another loss than hinge and square, if it can be asked about that."""
    return with_loss(case, OTHER_LOSSES[k // 5 % len(OTHER_LOSSES)]) if k % 5 == 1 else case


def with_margin_in_turn(case: Case, k: int) -> Case:
    """Every third problem with a margin, if its loss has no intercept."""
    if k % 3 != 2 or case.build().intercept:
        return case
    return replace(case, margin=MARGINS[k // 3 % len(MARGINS)])


def with_removal_in_turn(case: Case, k: int) -> Case:
    """Every seventh problem with labels that may be removed, besides changes or instead of them."""
    if k % 7 != 4:
        return case
    m = case.labels.size
    some = np.random.default_rng([k, m]).random(m) < 0.6
    threat = replace(case.threat, removable=some if k % 3 == 0 else True, changes=k % 2 == 0 or not some.any())
    other = replace(case, threat=threat, max_flips=None)
    try:
        problem = other.build()
    except InvalidInput:
        return case
    if problem.coupled and not 1e-9 < case.C < 1e9:  # brute force may not converge on few labels
        return case
    budget = problem.max_flips if case.max_flips is None else min(problem.max_flips, case.max_flips)
    most = MOST_RELABELLINGS // 4 if problem.trained_with.rational else FEW_RELABELLINGS
    return replace(other, max_flips=_affordable(other, budget, most))


def with_loss(case: Case, loss: str) -> Case:
    """The same problem with another loss; its budget keeps brute force affordable."""
    other = replace(case, loss=loss, max_flips=None)  # an intercept limits the budget
    try:
        problem = other.build()
    except InvalidInput:
        return case
    if problem.trained_with.rational:
        return replace(other, max_flips=case.max_flips)
    budget = problem.max_flips if case.max_flips is None else min(problem.max_flips, case.max_flips)
    return replace(other, max_flips=_affordable(case, budget, FEW_RELABELLINGS))


def _affordable(case: Case, budget: int, most: int) -> int:
    """The largest budget, up to the given one, with at most ``most`` relabellings."""
    costs = label_costs(case)
    while sum(1 for _ in itertools.islice(relabellings(case, costs, budget), most + 1)) > most:
        budget -= 1
    return budget


def _draw(rng: np.random.Generator, k: int, largest: int) -> Case:
    if k % 20 == 9:
        # With more labels, a singular kernel can take minutes in rational arithmetic.
        return hard_case(rng, classes=3 if k % 40 == 29 else 2, largest=14)
    kinds = TREACHEROUS if k % 4 == 3 else DEGENERATE
    if k % 3 == 2:
        return random_classes_case(rng, largest=max(3, min(largest, 7)), kinds=kinds)
    return random_case(rng, largest=largest, kinds=kinds)
