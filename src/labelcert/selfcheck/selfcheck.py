"""Every engine against brute force in rational arithmetic, on small problems made to be nasty.

Brute force trains on every admissible labelling. That a solution is optimal is not taken from any solver: its
optimality conditions are verified in rational numbers, and for a convex problem they are a proof.
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt
from labelcert.multiclass.engines import ENGINES as CLASS_ENGINES
from labelcert.threat import Threat

from labelcert.certificate import Certificate
from labelcert.certification import certify
from labelcert.engines import ENGINES, MilpWarning
from labelcert.problem import Problem
from labelcert.svm.exact import ExactRidge, ExactSVM
from labelcert.svm.pivoting import new_scratch, settle
from labelcert.svm.training import loose_machine

Float = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Case:
    """One small problem: arguments of :func:`labelcert.certify`."""

    kind: str
    K_train: Float
    labels: npt.NDArray[Any]
    K_test: Float
    C: float
    loss: str
    threat: Threat
    max_flips: int | None

    def build(self) -> Problem:
        """The validated problem."""
        return Problem.build(
            self.K_train,
            self.labels,
            self.K_test,
            self.C,
            threat=self.threat,
            max_flips=self.max_flips,
            loss=self.loss,
        )

    def certify(self, engine: str, **options: Any) -> Certificate:
        """The certificate of one engine."""
        return certify(
            self.K_train,
            self.labels,
            self.K_test,
            self.C,
            threat=self.threat,
            max_flips=self.max_flips,
            loss=self.loss,
            engine=engine,
            **options,
        )


@dataclass(frozen=True, eq=False)
class Truth:
    """What brute force found: exact radii (``never`` where nothing works), curve, and the signs behind them."""

    radius: list[int]
    curve: list[int]
    clean: list[int]
    changed_by: dict[frozenset[int], list[bool]]


def brute_force(case: Case) -> Truth:
    """Train on every admissible labelling, exactly."""
    problem = case.build()
    Q = [[Fraction(v) for v in row] for row in problem.K_train.tolist()]
    rows = [[Fraction(v) for v in row] for row in problem.K_test.tolist()]
    scores = _trainer(problem, Q, rows)
    clean = [_sign(p) for p in scores(problem.y)]
    costs = _costs(case)
    never = sum(costs) + 1
    radius = [0 if s == 0 else never for s in clean]
    most = [0] * (problem.max_flips + 1)
    changed_by = {}
    for flips in admissible(case, costs, problem.max_flips):
        y = problem.y.copy()
        y[list(flips)] *= -1
        changed = [s * _sign(p) <= 0 for s, p in zip(clean, scores(y), strict=True)]
        cost = sum(costs[i] for i in flips)
        changed_by[frozenset(flips)] = changed
        for t, hit in enumerate(changed):
            if hit:
                radius[t] = min(radius[t], cost)
        most[cost] = max(most[cost], sum(changed))
    curve = [max(most[: b + 1]) for b in range(len(most))]
    return Truth(radius=radius, curve=curve, clean=clean, changed_by=changed_by)


def admissible(case: Case, costs: list[int], budget: int) -> Iterator[tuple[int, ...]]:
    """All sets of flips that the threat allows, read from its definition."""
    threat = case.threat
    candidates = [i for i, targets in enumerate(admissible_targets(case)) if targets]
    for size in range(len(candidates) + 1):
        for flips in itertools.combinations(candidates, size):
            if sum(costs[i] for i in flips) > budget:
                continue
            if threat.groups is not None and threat.group_budgets is not None:
                budgets = threat.group_budgets
                spent: dict[Any, int] = {}
                for i in flips:
                    spent[threat.groups[i]] = spent.get(threat.groups[i], 0) + costs[i]
                if any(
                    g is not None and cost > (budgets if isinstance(budgets, int) else budgets.get(g, cost))
                    for g, cost in spent.items()
                ):
                    continue
            yield flips


def admissible_targets(case: Case) -> list[list[Any]]:
    """What each label may become, read from the threat's definition."""
    threat, labels = case.threat, case.labels.tolist()
    m = len(labels)
    trusted = [False] * m if threat.trusted is None else [bool(v) for v in np.asarray(threat.trusted)]
    lists = [None] * m if threat.allowed_targets is None else threat.allowed_targets
    flips = threat.allowed_flips
    return [
        [
            new
            for new in sorted(set(labels))
            if new != labels[i]
            and not trusted[i]
            and (flips is None or new in flips.get(labels[i], ()))
            and (lists[i] is None or new in lists[i])  # type: ignore[operator]
        ]
        for i in range(m)
    ]


def _trainer(
    problem: Problem, Q: list[list[Fraction]], rows: list[list[Fraction]]
) -> Callable[[Float], list[Fraction]]:
    C = Fraction(problem.C)
    m = problem.m
    svm = ExactSVM(problem.K_train, problem.C)
    ridge = ExactRidge(problem.K_train, problem.C)
    machine = loose_machine(problem.K_train, problem.C)

    def scores(y: Float) -> list[Fraction]:
        labels = [int(v) for v in y]
        if problem.loss == "square":
            direction = [Fraction(int(v)) for v in ridge.solve(labels)]
            A = [[2 * C * Q[i][j] + (i == j) for j in range(m)] for i in range(m)]
            image = [_dot(A[i], direction) for i in range(m)]
            factor = image[0] * labels[0]
            if not (factor > 0 and all(image[i] == factor * labels[i] for i in range(m))):
                raise AssertionError("kernel ridge solution is wrong")
            return [_dot(row, direction) / factor for row in rows]
        hint = new_scratch(m)
        settle(machine, hint, y)
        Z = [int(v) for v in svm.train(y, hint.state, hint.z) or ()]
        z = _scale_to_optimum(Q, C, labels, Z)
        return [_dot(row, z) for row in rows]

    return scores


def _scale_to_optimum(Q: list[list[Fraction]], C: Fraction, y: list[int], Z: list[int]) -> list[Fraction]:
    """The multiple of ``Z`` that satisfies the optimality conditions, verified; they fix the scale.

    Some label is at its cap or has margin exactly 1: candidates for the scale come from these.
    """
    m = len(y)
    direction = [Fraction(v) for v in Z]
    f = [_dot(Q[i], direction) for i in range(m)]
    scales = {C / abs(v) for v in direction if v} | {1 / (y[i] * f[i]) for i in range(m) if y[i] * f[i] > 0}
    for s in scales:
        alpha = [y[i] * s * direction[i] for i in range(m)]
        margin = [y[i] * s * f[i] for i in range(m)]
        if all(0 <= a <= C and (a == 0 or g <= 1) and (a == C or g >= 1) for a, g in zip(alpha, margin, strict=True)):
            return [s * v for v in direction]
    raise AssertionError("no multiple of the solution satisfies the optimality conditions")


def compare(case: Case, truth: Truth, engine: str, *, may_be_open: bool = False, **options: Any) -> list[str]:
    """Everything in one engine's certificate that contradicts the truth (empty: nothing).

    Parameters
    ----------
    may_be_open : bool
        Intervals that contain the truth are no contradiction: for engines that rest on tolerant solvers.
    """
    cert = case.certify(engine, **options)
    budget, never = cert.max_flips, cert.never
    wrong = []
    for t, radius in enumerate(truth.radius):
        expected = (radius, radius) if radius <= budget else (budget + 1, never)
        got = (int(cert.radius_lower[t]), int(cert.radius_upper[t]))
        if got != expected and not (may_be_open and got[0] <= expected[0] and expected[1] <= got[1]):
            wrong.append(f"node {t}: radius {got}, truth {expected}")
        witness = cert.witness(t)
        if (witness is None) != (cert.radius_upper[t] >= never):
            wrong.append(f"node {t}: witness {witness} for radius {radius}")
        elif witness is not None and not truth.changed_by.get(frozenset(witness), [False] * (t + 1))[t]:
            wrong.append(f"node {t}: witness {witness} does not change it")
        if truth.clean[t] and (cert.predictions[t] == cert.classes[1]) != (truth.clean[t] > 0):
            wrong.append(f"node {t}: prediction {cert.predictions[t]}, clean sign {truth.clean[t]}")
    for b, changed in enumerate(truth.curve):
        got = (int(cert.collective_lower[b]), int(cert.collective_upper[b]))
        if got != (changed, changed) and not (may_be_open and got[0] <= changed <= got[1]):
            wrong.append(f"budget {b}: curve {got}, truth {changed}")
        flips = frozenset(cert.collective_witness(b))
        if sum(truth.changed_by.get(flips, [])) != got[0]:
            wrong.append(f"budget {b}: collective witness {sorted(flips)} does not change {got[0]}")
    return [f"{engine}, {case.kind}: {line}" for line in wrong]


def engines_for(case: Case) -> list[str]:
    """Names of the engines that answer a case without leaving anything open, ``"auto"`` among them."""
    return ["auto", *(name for name in _applicable(case) if not name.startswith("milp"))]


def milp_engines_for(case: Case) -> list[str]:
    """Names of the engines that ask a solver about a case."""
    return [name for name in _applicable(case) if name.startswith("milp")]


def _applicable(case: Case) -> list[str]:
    problem = case.build()
    return [engine.name for engine in ENGINES if engine.refuses(problem) is None]


@dataclass(frozen=True, eq=False)
class ClassTruth:
    """What brute force found for several classes.

    Attributes
    ----------
    radius, curve : lists of int
    relaxed : list of (int, int)
        The relaxed radius of each node, and a smaller one that leaves room for rounding.
    predicted : list of int or None
        Clean classes, None for a tie.
    changed_by : dict
        Which nodes each relabelling, a set of (index, new label), changes; also the new top classes of each node.
    """

    radius: list[int]
    curve: list[int]
    relaxed: list[tuple[int, int]]
    predicted: list[int | None]
    changed_by: dict[frozenset[tuple[int, Any]], tuple[list[bool], list[set[Any]]]]


def relabellings(case: Case, costs: list[int], budget: int) -> Iterator[dict[int, Any]]:
    """All relabellings that the threat allows, read from its definition."""
    targets = admissible_targets(case)
    for flips in admissible(case, costs, budget):
        for new in itertools.product(*(targets[i] for i in flips)):
            yield dict(zip(flips, new, strict=True))


def brute_force_classes(case: Case) -> ClassTruth:
    """Train one model per class on every admissible relabelling, exactly."""
    problem = case.build()
    Q = [[Fraction(v) for v in row] for row in problem.K_train.tolist()]
    rows = [[Fraction(v) for v in row] for row in problem.K_test.tolist()]
    trained: dict[tuple[float, ...], list[Fraction]] = {}
    train = _trainer(problem, Q, rows)
    classes = sorted(set(case.labels.tolist()))
    n, K, budget = len(rows), len(classes), problem.max_flips

    def scores(labels: list[Any]) -> list[list[Fraction]]:
        out = []
        for c in classes:
            y = tuple(1.0 if label == c else -1.0 for label in labels)
            if y not in trained:
                trained[y] = train(np.array(y))
            out.append(trained[y])
        return out

    labels = case.labels.tolist()
    clean = scores(labels)
    tops = [[c for c in range(K) if clean[c][t] == max(clean[k][t] for k in range(K))] for t in range(n)]
    predicted = [top[0] if len(top) == 1 else None for top in tops]
    costs = _costs(case)
    never = sum(costs) + 1
    radius = [0 if c is None else never for c in predicted]
    most = [0] * (budget + 1)
    least = [[[clean[c][t]] * (budget + 1) for t in range(n)] for c in range(K)]
    largest = [[[clean[c][t]] * (budget + 1) for t in range(n)] for c in range(K)]
    changed_by = {}
    for change in relabellings(case, costs, budget):
        p = scores([change.get(i, label) for i, label in enumerate(labels)])
        cost = sum(costs[i] for i in change)
        hits, news = [], []
        for t, c in enumerate(predicted):
            high = max(p[r][t] for r in range(K) if r != c)
            hits.append(True if c is None else high >= p[c][t])
            news.append({classes[r] for r in range(K) if r != c and p[r][t] == high})
            if hits[-1]:
                radius[t] = min(radius[t], cost)
            for k in range(K):
                least[k][t][cost] = min(least[k][t][cost], p[k][t])
                largest[k][t][cost] = max(largest[k][t][cost], p[k][t])
        changed_by[frozenset(change.items())] = hits, news
        most[cost] = max(most[cost], sum(hits))
    relaxed = []
    for t, c in enumerate(predicted):
        scale = max(abs(v[t]) for v in trained.values())
        bounds = [budget + 1, budget + 1]
        for b in range(budget, -1, -1):
            if c is None:
                break
            low = min(least[c][t][: b + 1])
            high = max(max(largest[r][t][: b + 1]) for r in range(K) if r != c)
            bounds[0] = b if low <= high else bounds[0]
            bounds[1] = b if low - high <= scale / 10**5 else bounds[1]
        relaxed.append((bounds[0], bounds[1]))
    curve = [max(most[: b + 1]) for b in range(budget + 1)]
    return ClassTruth(radius=radius, curve=curve, relaxed=relaxed, predicted=predicted, changed_by=changed_by)


def compare_classes(
    case: Case, truth: ClassTruth, engine: str, *, may_be_open: bool = False, **options: Any
) -> list[str]:
    """Everything in one engine's certificate of several classes that contradicts the truth (empty: nothing).

    Parameters
    ----------
    may_be_open : bool
        As in :func:`compare`.
    """
    cert = case.certify(engine, **options)
    budget, never = cert.max_flips, cert.never
    classes = cert.classes.tolist()
    wrong = []
    for t, radius in enumerate(truth.radius):
        got = (int(cert.radius_lower[t]), int(cert.radius_upper[t]))
        clean = truth.predicted[t]
        if clean is not None and cert.predictions[t] != classes[clean]:
            wrong.append(f"node {t}: prediction {cert.predictions[t]}, truth {classes[clean]}")
        if engine == "relaxed" and clean is not None:
            high, low = truth.relaxed[t]
            if not (low <= got[0] <= high <= max(radius, high) and got[0] <= radius and got[1] == never):
                wrong.append(f"node {t}: relaxed radius {got}, truth {low} to {high} (exact: {radius})")
            continue
        expected = (radius, radius) if radius <= budget else (budget + 1, never)
        if got != expected and not (may_be_open and got[0] <= expected[0] and expected[1] <= got[1]):
            wrong.append(f"node {t}: radius {got}, truth {expected}")
        witness = cert.witness(t)
        if (witness is None) != (got[1] >= never):
            wrong.append(f"node {t}: witness {witness} for radius {radius}")
        elif witness is not None and clean is not None:
            hits, news = truth.changed_by.get(frozenset(witness.items()), ([False] * (t + 1), []))
            assert cert.new_classes is not None
            if not hits[t]:
                wrong.append(f"node {t}: witness {witness} does not change it")
            elif len(news[t]) == 1 and classes[cert.new_classes[t]] not in news[t]:
                wrong.append(f"node {t}: becomes {classes[cert.new_classes[t]]}, truth {news[t]}")
    for b, changed in enumerate(truth.curve):
        got = (int(cert.collective_lower[b]), int(cert.collective_upper[b]))
        if not got[0] <= changed <= got[1] or (not may_be_open and engine != "relaxed" and got[0] != got[1]):
            wrong.append(f"budget {b}: curve {got}, truth {changed}")
        flips = frozenset(cert.collective_witness(b).items())
        if sum(truth.changed_by.get(flips, ([], []))[0]) < got[0]:
            wrong.append(f"budget {b}: collective witness {sorted(flips)} does not change {got[0]}")
    return [f"{engine}, {case.kind}: {line}" for line in wrong]


def engines_for_classes(case: Case) -> list[str]:
    """Names of the engines that answer a case of several classes without a solver, ``"auto"`` among them."""
    return ["auto", *(name for name in _applicable_classes(case) if not name.startswith("milp"))]


def milp_engines_for_classes(case: Case) -> list[str]:
    """Names of the engines that ask a solver about a case of several classes."""
    return [name for name in _applicable_classes(case) if name.startswith("milp")]


def _applicable_classes(case: Case) -> list[str]:
    problem = case.build()
    return [engine.name for engine in CLASS_ENGINES if engine.refuses(problem) is None]


KERNELS = (
    "generic",
    "lattice",
    "duplicates",
    "low-rank",
    "zero-rows",
    "low-rank-float",
    "identity",
    "near-tie",
)


def random_case(rng: np.random.Generator, *, largest: int = 8) -> Case:
    """A random small problem: degenerate kernels, ties, extreme caps, all threat options."""
    m = int(rng.integers(2, largest + 1))
    n = int(rng.integers(1, 6))
    kind = str(rng.choice(KERNELS))
    joint = _features(rng, kind, m, n)
    K = joint @ joint.T
    if kind == "generic" and rng.random() < 0.5:
        K = np.exp(-0.5 * np.maximum(np.diag(K)[:, None] + np.diag(K) - 2 * K, 0))
    K = (K + K.T) / 2
    scale = max(float(np.abs(K[:m, :m]).sum(axis=1).max()), 1e-3)
    C = float(rng.choice([1e-6, 0.5 / scale, 1 / scale, 0.125, 0.25, 0.3, 1.0, 2.0, 10.0, 1e3, 1e6]))
    y = rng.integers(0, 2, m)
    y[0], y[-1] = 0, 1
    names = np.array(["ham", "spam"]) if rng.random() < 0.5 else np.array([3, 7])
    labels = names[y]
    threat = _random_threat(rng, labels)
    total = m if threat.costs is None else int(np.asarray(threat.costs).sum())
    return Case(
        kind=kind,
        K_train=K[:m, :m],
        labels=labels,
        K_test=K[m:, :m],
        C=C,
        loss="square" if rng.random() < 0.25 else "hinge",
        threat=threat,
        max_flips=None if rng.random() < 0.5 else int(rng.integers(0, total + 1)),
    )


MOST_RELABELLINGS = 2000

SECONDS_PER_PROGRAM = 2.0
"""Of the multi-class programs, for one node and budget; what they leave open is no contradiction."""

LARGEST_FOR_PAPER = 5
"""Most labels for which the paper's multi-class program is asked, too."""


def random_classes_case(rng: np.random.Generator, *, largest: int = 7) -> Case:
    """The same with three to five classes; the budget keeps brute force affordable."""
    K = int(rng.integers(3, 6))
    two = random_case(rng, largest=largest)
    while two.labels.size < K:
        two = random_case(rng, largest=largest)
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
    costs = _costs(case)
    budget = sum(costs)
    while (
        sum(1 for _ in itertools.islice(relabellings(case, costs, budget), MOST_RELABELLINGS + 1)) > MOST_RELABELLINGS
    ):
        budget -= 1
    if rng.random() < 0.3:
        budget = int(rng.integers(0, budget + 1))
    return replace(case, max_flips=budget)


def hard_case(rng: np.random.Generator, *, classes: int = 2) -> Case:
    """An ill-conditioned kernel on 12 to 20 labels, attacked by at most one flip."""
    m, n = int(rng.integers(12, 21)), 30
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
    return Case(
        kind=kind,
        K_train=K[:m, :m],
        labels=labels,
        K_test=K[m:, :m],
        C=float(rng.choice([1e-3, 0.1, 1.0, 100.0, 1e5])),
        loss="hinge",
        threat=Threat(),
        max_flips=1,
    )


def _features(rng: np.random.Generator, kind: str, m: int, n: int) -> Float:
    if kind == "generic":
        return rng.normal(size=(m + n, m + 2))
    if kind == "low-rank-float":
        return rng.normal(size=(m + n, max(1, m // 2)))
    if kind == "identity":
        test = rng.integers(-1, 2, size=(n, m)).astype(float)
        return np.vstack([np.eye(m), test])
    if kind == "near-tie":
        base = rng.integers(-1, 2, size=(m + n, 3)).astype(float)
        return base + rng.choice([0.0, 2.0**-40, -(2.0**-45)], size=base.shape)
    width = 2 if kind == "low-rank" else 3
    features = rng.integers(-2, 3, size=(m + n, width)).astype(float)
    if kind == "duplicates":
        features[1:m] = features[rng.integers(0, max(1, m // 2), m - 1)]
    if kind == "zero-rows":
        features[rng.random(m + n) < 0.4] = 0.0
    return features


def _random_threat(rng: np.random.Generator, labels: npt.NDArray[Any]) -> Threat:
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


def _case(rng: np.random.Generator, k: int, largest: int) -> Case:
    if k % 10 == 9:
        return hard_case(rng, classes=3 if k % 20 == 19 else 2)
    return random_classes_case(rng, largest=min(largest, 7)) if k % 3 == 2 else random_case(rng, largest=largest)


def check(case: Case, *, milp: bool = False, **options: Any) -> list[str]:
    """Everything in any engine's certificate of a case that contradicts brute force.

    Parameters
    ----------
    milp : bool
        Ask the engines that rest on a solver, too; they may leave something open.
    """
    if np.unique(case.labels).size > 2:
        return _check_classes(case, milp=milp, **options)
    truth = brute_force(case)
    wrong = [line for engine in engines_for(case) for line in compare(case, truth, engine, workers=1, **options)]
    if milp:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", MilpWarning)
            for engine in milp_engines_for(case):
                wrong += compare(case, truth, engine, may_be_open=True, workers=1, **options)
    return wrong


def _check_classes(case: Case, *, milp: bool, **options: Any) -> list[str]:
    truth = brute_force_classes(case)
    wrong = [
        line
        for engine in engines_for_classes(case)
        for line in compare_classes(case, truth, engine, workers=1, **options)
    ]
    if milp:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", MilpWarning)
            limits = {"node_time_limit": SECONDS_PER_PROGRAM, **options}
            for engine in milp_engines_for_classes(case):
                if engine == "milp" or case.labels.size <= LARGEST_FOR_PAPER:
                    wrong += compare_classes(case, truth, engine, may_be_open=True, workers=1, **limits)
    return wrong


def run(
    problems: int, seed: int, *, largest: int = 8, report: Callable[[float, float], None] = lambda a, b: None
) -> list[str]:
    """Compare all engines with brute force on random problems; returns every contradiction found.

    Every third problem has three to five classes. Every tenth is larger and ill-conditioned, under one flip. Every
    fifth goes to the engines that ask a solver, too.
    """
    wrong: list[str] = []
    for k in range(problems):
        rng = np.random.default_rng([seed, k])
        wrong += [f"problem {k}: {line}" for line in check(_case(rng, k, largest), milp=k % 5 == 0)]
        report(k + 1, problems)
    return wrong


def _costs(case: Case) -> list[int]:
    if case.threat.costs is None:
        return [1] * case.labels.size
    return [int(c) for c in np.asarray(case.threat.costs)]


def _dot(a: list[Fraction], b: list[Fraction]) -> Fraction:
    return sum((x * v for x, v in zip(a, b, strict=True)), Fraction(0))


def _sign(value: Fraction) -> int:
    return (value > 0) - (value < 0)
