"""Small ensembles against training on every labelling in rational arithmetic."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from flint import fmpq
from tests.helpers.problems import blobs, gaussian, hand_made

from labelcert import Certificate, Threat, certify_partition
from labelcert.engines.partition.parts import assign
from labelcert.problem import Problem
from labelcert.selfcheck import Case
from labelcert.selfcheck.brute_force import trainer
from labelcert.selfcheck.cases import label_costs, random_case, random_classes_case, relabellings

COMBINATIONS = ("votes", "mean")


@dataclass(frozen=True, eq=False)
class Truth:
    """Clean classes (None: no prediction), and what each relabelling costs and changes."""

    predicted: list[int | None]
    changes: list[dict[int, Any]]
    costs: np.ndarray
    hits: np.ndarray

    def radius(self, t: int, never: int) -> int:
        return int(self.costs[self.hits[:, t]].min(initial=never))

    def curve(self, b: int) -> int:
        return int(self.hits[self.costs <= b].sum(axis=1).max())


def brute_force(
    case: Case, parts: int, combine: str, seed: int = 0, kernel: Any = None, margin: Fraction | None = None
) -> Truth:
    """By definition: every relabelling, every part trained on its own labels. Clean predictions ask for no margin."""
    problem = Problem.unsettled(
        case.K_train if kernel is None else kernel,
        case.labels,
        case.K_test,
        case.C,
        threat=case.threat,
        max_flips=case.max_flips,
        loss=case.loss,
    )
    labels, classes = case.labels.tolist(), sorted(set(case.labels.tolist()))
    part_of = assign([str(i) for i in range(len(labels))], parts, seed)
    learners = [Learner(problem, np.flatnonzero(part_of == k), classes) for k in np.unique(part_of)]
    costs = label_costs(case)
    changes = list(relabellings(case, costs, problem.max_flips))
    n, K = problem.n_test, len(classes)

    # A lead counts half of two classes, of which one has the negative scores of the other.
    least = Fraction(0) if margin is None else margin * len(learners) * (2 if K == 2 else 1)
    unit = Fraction(2 * case.C) if case.loss == "square" else Fraction(1)  # brute force leaves out a factor

    def beats(new: list[Any], t: int, c: int, r: int, least: Fraction) -> bool:
        """Whether class ``c`` is ahead of ``r`` by more than this, whatever becomes of ties."""
        scores = [learner.scores(new, t) for learner in learners]
        if combine == "mean":
            lead = sum((p[c] - p[r] for p in scores), fmpq(0))
            return Fraction(int(lead.p), int(lead.q)) * unit > least
        return sum(-1 if p[r] == max(p) else 0 if max(p[:c] + p[c + 1 :]) == max(p) else 1 for p in scores) > least

    def wins(new: list[Any], t: int, c: int, least: Fraction = Fraction(0)) -> bool:
        return all(beats(new, t, c, r, least) for r in range(K) if r != c)

    predicted = [next((c for c in range(K) if wins(labels, t, c)), None) for t in range(n)]
    hits = np.array(
        [
            [
                c is None or not wins([change.get(i, label) for i, label in enumerate(labels)], t, c, least)
                for t, c in enumerate(predicted)
            ]
            for change in changes
        ]
    )
    return Truth(predicted, changes, np.array([sum(costs[i] for i in change) for change in changes]), hits)


class Learner:
    """One part, trained once on each of its labellings."""

    def __init__(self, problem: Problem, index: np.ndarray, classes: list[Any]) -> None:
        self._index, self._classes = index, classes
        self._learn = trainer(problem.restricted(index))
        self._known: dict[tuple[int, ...], list[fmpq]] = {}

    def scores(self, labels: list[Any], t: int) -> list[fmpq]:
        own = [labels[i] for i in self._index]
        return [self._trained(tuple(1 if label == c else -1 for label in own))[t] for c in self._classes]

    def _trained(self, y: tuple[int, ...]) -> list[fmpq]:
        if y not in self._known:
            self._known[y] = self._learn(y)
        return self._known[y]


def certified(case: Case, parts: int, combine: str, **options: Any) -> Certificate:
    """The certificate of an ensemble."""
    return certify_partition(
        case.K_train,
        case.labels,
        case.K_test,
        case.C,
        parts=parts,
        combine=combine,
        threat=case.threat,
        max_flips=case.max_flips,
        loss=case.loss,
        workers=1,
        **options,
    )


def compare(case: Case, parts: int, combine: str, **options: Any) -> Certificate:
    """The certificate is exact, and right; its curve is an interval around the truth; its witnesses work."""
    margin = options.get("margin")
    truth = brute_force(case, parts, combine, margin=None if margin is None else Fraction(margin))
    cert = certified(case, parts, combine, **{**options, **({} if margin is None else {"margin": float(margin)})})
    rows = {frozenset(change.items()): row for row, change in enumerate(truth.changes)}
    for t, c in enumerate(truth.predicted):
        radius = truth.radius(t, cert.never)
        if c is None:
            assert (cert.radius_lower[t], cert.radius_upper[t]) == (0, 0)
            continue
        assert cert.predictions[t] == cert.classes[c]
        assert cert.radius_lower[t] == min(radius, cert.max_flips + 1), (t, radius)
        assert cert.radius_upper[t] == radius
        witness = cert.witness(t)
        assert (witness is None) == (radius == cert.never)
        if witness is not None:
            assert truth.hits[rows[frozenset(witness.items())], t]
    for b in range(cert.max_flips + 1):
        assert cert.collective_lower[b] <= truth.curve(b) <= cert.collective_upper[b]
        attack = rows[frozenset(cert.collective_witness(b).items())]
        assert truth.costs[attack] <= b
        assert truth.hits[attack].sum() >= cert.collective_lower[b]
    return cert


def two_classes(seed: int, **options: Any) -> Case:
    return hand_made(*gaussian(7, 6, seed=seed), 2.0, **options)


def three_classes(seed: int, **options: Any) -> Case:
    return hand_made(*blobs(6, 5, classes=3, seed=seed), 2.0, **options)


THREATS = [
    Threat(costs=np.arange(7) % 3 + 1),
    Threat(trusted=np.arange(7) < 2),
    Threat(allowed_flips={0: [1]}),
    Threat(groups=[i % 2 for i in range(7)], group_budgets=1),
    Threat(groups=[0, 0, 0, 0, 1, None, None], group_budgets={0: 2}),
    Threat(groups=[i % 3 for i in range(7)], group_budgets={0: 1, 1: 2}, costs=np.arange(7) % 2 + 1),
]

CLASS_THREATS = [
    Threat(costs=np.arange(6) % 3 + 1),
    Threat(groups=[i % 2 for i in range(6)], group_budgets=1),
    Threat(trusted=np.arange(6) < 2, allowed_flips={0: [1], 2: [0, 1]}),
    Threat(allowed_targets=[[2], None, [0, 1], [], None, [1]]),
]


@pytest.mark.parametrize("combine", COMBINATIONS)
@pytest.mark.parametrize("loss", ["hinge", "square", "squared_hinge", "logistic"])
@pytest.mark.parametrize("parts", [1, 2, 3, 7])
def test_two_classes(combine: str, loss: str, parts: int) -> None:
    compare(two_classes(parts, loss=loss), parts, combine)


@pytest.mark.parametrize("combine", COMBINATIONS)
@pytest.mark.parametrize("threat", THREATS, ids=repr)
def test_threats_on_two_classes(combine: str, threat: Threat) -> None:
    for seed in range(2):
        compare(two_classes(seed, threat=threat), 3, combine)


@pytest.mark.parametrize("combine", COMBINATIONS)
@pytest.mark.parametrize("loss", ["hinge", "square", "squared_hinge", "logistic"])
@pytest.mark.parametrize("parts", [1, 2, 3])
def test_three_classes(combine: str, loss: str, parts: int) -> None:
    compare(three_classes(parts, loss=loss, max_flips=3), parts, combine)


@pytest.mark.parametrize("combine", COMBINATIONS)
@pytest.mark.parametrize("threat", CLASS_THREATS, ids=repr)
def test_threats_on_three_classes(combine: str, threat: Threat) -> None:
    compare(three_classes(1, threat=threat, max_flips=3), 2, combine)


MEAN_MARGINS = (0.01, 0.125, 0.6)
VOTE_MARGINS = (Fraction(1, 100), Fraction(1, 6), Fraction(1, 3), Fraction(1, 2))


@pytest.mark.parametrize("margin", MEAN_MARGINS)
@pytest.mark.parametrize("loss", ["hinge", "square", "squared_hinge", "logistic"])
def test_margins_of_mean_scores(loss: str, margin: float) -> None:
    compare(two_classes(3, loss=loss), 3, "mean", margin=margin)
    compare(three_classes(3, loss=loss, max_flips=2), 2, "mean", margin=margin)


@pytest.mark.parametrize("margin", VOTE_MARGINS)
@pytest.mark.parametrize("loss", ["hinge", "square"])
def test_margins_of_votes(loss: str, margin: Fraction) -> None:
    """A third of three votes is one vote, exactly."""
    compare(two_classes(3, loss=loss), 3, "votes", margin=margin)
    cert = compare(three_classes(3, loss=loss, max_flips=2), 3, "votes", margin=margin)
    assert cert.run.margin == float(margin)
    assert cert.black_box_radius is not None
    assert np.all(cert.black_box_radius <= np.where(cert.radius_upper > cert.max_flips, 9, cert.radius_upper))


@pytest.mark.parametrize("combine", COMBINATIONS)
@pytest.mark.parametrize("threat", THREATS, ids=repr)
def test_margins_with_threats(combine: str, threat: Threat) -> None:
    compare(two_classes(0, threat=threat), 3, combine, margin=Fraction(1, 6))


@pytest.mark.parametrize("combine", COMBINATIONS)
def test_leads_that_equal_the_margin(combine: str) -> None:
    """Rows of whole numbers, so that scores are as well: a lead of just the margin counts as changed."""
    labels = [0, 1, 0, 1, 1, 0]
    rows = np.array([[1, 1, 1, 1, 1, 0], [0, 1, 0, 1, 1, 0], [1.0, 2, 3, 4, 5, 6]])
    for margin in (Fraction(1, 2), Fraction(1), Fraction(3, 2)):
        compare(hand_made(np.eye(6), labels, rows, 1.0), 2, combine, margin=margin)
        compare(hand_made(np.eye(6), [0, 1, 2, 1, 1, 0], rows, 1.0, max_flips=2), 2, combine, margin=margin)


def test_each_node_has_its_own_margin() -> None:
    case = two_classes(4)
    margins = np.linspace(0.0, 0.5, len(case.K_test))
    cert = certified(case, 3, "mean", margin=margins)
    for t, margin in enumerate(margins.tolist()):
        alone = certified(replace(case, K_test=case.K_test[t : t + 1]), 3, "mean", margin=margin)
        assert cert.radius_lower[t] == alone.radius_lower[0]
        assert cert.radius_upper[t] == alone.radius_upper[0]


@pytest.mark.parametrize("combine", COMBINATIONS)
def test_ties_inside_parts_and_between_them(combine: str) -> None:
    labels = [0, 1, 0, 1, 1, 0]
    compare(hand_made(np.eye(6), labels, np.ones((1, 6)), 1.0), 3, combine)
    compare(hand_made(np.eye(6), labels, np.array([[1, 1, 1, 1, 1, 0], [0, 1, 0, 1, 1, 0]]), 1.0), 2, combine)
    rows = np.array([[1, 1, 0, 1, 1, 0], [0, 1, 0, 1, 1, 0], [1.0, 2, 3, 4, 5, 6]])
    compare(hand_made(np.eye(6), [0, 1, 2, 1, 1, 0], rows, 1.0, max_flips=3), 2, combine)


@pytest.mark.parametrize("combine", COMBINATIONS)
@pytest.mark.parametrize("case", [two_classes(5), three_classes(5, max_flips=3)], ids=["two", "three"])
def test_a_limit_inside_parts_gives_sound_intervals(combine: str, case: Case) -> None:
    truth = brute_force(case, 2, combine)
    for limit in (0, 1, 2):
        cert = certify_partition(
            case.K_train,
            case.labels,
            case.K_test,
            case.C,
            parts=2,
            combine=combine,
            max_flips=case.max_flips,
            part_flips=limit,
            workers=1,
        )
        for t in range(cert.n_test):
            radius = truth.radius(t, cert.never)
            assert cert.radius_lower[t] <= radius <= cert.radius_upper[t]
            assert cert.radius_lower[t] >= min(radius, limit + 1)


@pytest.mark.parametrize("seed", range(12))
def test_nasty_problems_give_sound_intervals(seed: int) -> None:
    rng = np.random.default_rng([7, seed])
    case = (random_case if seed % 3 else random_classes_case)(rng, largest=6)
    parts, combine = int(rng.integers(1, case.labels.size + 1)), COMBINATIONS[seed % 2]
    budget = min(3, case.build().max_flips) if seed % 3 == 0 else case.max_flips
    sound(replace(case, max_flips=budget), parts, combine)
    sound(replace(case, max_flips=budget), parts, combine, part_flips=1)


def sound(case: Case, parts: int, combine: str, **options: Any) -> bool:
    """No interval excludes the truth; whether all radii are exact."""
    cert = certified(case, parts, combine, **options)
    truth = brute_force(case, parts, combine, kernel=cert.K_train)
    for t, c in enumerate(truth.predicted):
        radius = truth.radius(t, cert.never)
        assert min(cert.radius_lower[t], cert.max_flips + 1) <= radius <= cert.radius_upper[t]
        if cert.radius_lower[t] > 0:
            assert c is not None
            assert cert.predictions[t] == cert.classes[c]
    for b in range(cert.max_flips + 1):
        assert cert.collective_lower[b] <= truth.curve(b) <= cert.collective_upper[b]
    return bool(np.all((cert.radius_lower == cert.radius_upper) | (cert.radius_lower > cert.max_flips)))
