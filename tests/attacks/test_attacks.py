"""Attacks from the literature: admissible, proved to work, never better than the exact worst case, and no worse than
what they promise."""

from __future__ import annotations

import inspect
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.helpers.certificates import contains, same, same_witnesses
from tests.helpers.problems import blobs, gaussian
from tests.helpers.small_problems import CLASS_THREATS, certify_problem, class_problem, mixed_problem

import labelcert
from labelcert import Certificate, InvalidInput, Threat, attack, certify
from labelcert.attacks import ATTACKS, attack_names, linearised
from labelcert.attacks.linearised import LinearModel, linear_question
from labelcert.attacks.shared import ask, spend
from labelcert.certification import Names
from labelcert.engines.linear.greedy import greedy_changes
from labelcert.losses import loss_names
from labelcert.problem import NOTHING, Problem
from labelcert.selfcheck.cases import random_case, random_classes_case
from labelcert.selfcheck.nasty_kernels import DEGENERATE

NAMES = attack_names()
ON_TEST_ROWS = [name for name in NAMES if name not in ("random", "nearest", "furthest", "alfa")]
"""Attacks that aim at the test nodes."""


def attacked(problem: Problem, using: str, **options: Any) -> Certificate:
    """The attack on a problem."""
    p = problem
    arguments = {"threat": p.threat, "max_flips": p.max_flips, "loss": p.loss, **options}
    return attack(p.K_train, p.labels, p.K_test, p.C, using=using, **arguments)


def never_better_than(exact: Certificate, found: Certificate) -> None:
    """An attack finds no more than there is, and proves nothing beyond what it shows."""
    contains(found, exact)
    assert np.array_equal(found.predictions, exact.predictions)
    assert np.all(found.radius_lower <= 1)


def works(problem: Problem, found: Certificate) -> None:
    """Every witness is one that the threat allows, and does what it should when the model is trained again."""
    a, p = problem.adversary, problem
    position = {int(i): k for k, i in enumerate(a.labels)}
    code = {value: k for k, value in enumerate(p.classes.tolist())}

    def scores(moves: dict[int, Any]) -> np.ndarray:
        codes = p.codes.copy()
        for i, new in moves.items():
            assert a.targets[position[i], code[new]]
            codes[i] = code[new]
        return p.test_rows @ p.trained_with.train_classes(p.K_train, codes, p.n_classes, p.C).T

    def lost(moves: dict[int, Any]) -> np.ndarray:
        table = scores(moves)
        own = table[np.arange(p.n_test), predicted].copy()
        table[np.arange(p.n_test), predicted] = -np.inf
        return np.asarray(own <= table.max(axis=1) + 1e-9 * (1 + np.abs(own)))

    def price(moves: dict[int, Any]) -> int:
        chosen = np.array([position[i] for i in moves], dtype=np.int64)
        spent = [a.costs[chosen][a.groups[chosen] == g].sum() for g in range(a.group_caps.size)]
        assert np.all(np.array(spent) <= a.group_caps)
        return int(a.costs[chosen].sum())

    predicted = np.searchsorted(p.classes, found.predictions)
    for t in range(p.n_test):
        moves = found.witness(t)
        if moves:
            assert price(moves) == found.radius_upper[t] <= p.max_flips
            assert lost(moves)[t]
    for b in range(p.max_flips + 1):
        moves = found.collective_witness(b)
        assert price(moves) <= b
        assert int(lost(moves).sum()) >= found.collective_lower[b] if moves else True


PROBLEMS = {
    "two classes": mixed_problem(2, max_flips=3),
    "three classes, trusted labels": mixed_problem(3),
    "costs": Problem.build(*gaussian(8, 9, seed=5), 1.0, threat=Threat(costs=[1, 2, 3, 1, 2, 3, 1, 2]), max_flips=5),
    "trusted labels": Problem.build(*gaussian(9, 9, seed=6), 1.0, threat=Threat(trusted=np.arange(9) < 4), max_flips=3),
    **{
        f"{loss}, {classes} classes": Problem.build(*blobs(9, 7, classes=classes, seed=8), 0.5, loss=loss, max_flips=2)
        for loss in loss_names()
        for classes in (2, 3)
    },
    **{f"three classes, {threat}": class_problem(threat, max_flips=3) for threat in CLASS_THREATS},
}


@pytest.mark.parametrize("using", NAMES)
@pytest.mark.parametrize("name", PROBLEMS)
def test_never_better_than_the_exact_certificate(name: str, using: str) -> None:
    problem = PROBLEMS[name]
    found = attacked(problem, using, targeted=True)
    never_better_than(certify_problem(problem, "enumerate"), found)
    works(problem, found)


@pytest.mark.parametrize("using", NAMES)
def test_degenerate_kernels(using: str) -> None:
    """Ties, duplicates, singular kernels, and every option of a threat."""
    for seed in range(24):
        make = random_classes_case if seed % 3 == 2 else random_case
        case = make(np.random.default_rng([31, seed]), largest=6, kinds=(DEGENERATE[seed % len(DEGENERATE)],))
        problem = case.build()
        never_better_than(case.certify("enumerate"), attacked(problem, using, targeted=seed % 2 == 0))
        for budget in (0, 1, problem.max_flips):
            change = ATTACKS[using].function(problem, budget, np.random.default_rng(seed))
            assert problem.adversary.admits(change, budget)


def ordinary() -> list[Problem]:
    """Problems in which an attack has to choose well."""
    return [
        *(Problem.build(*gaussian(16, 20, seed=seed), 1.0, max_flips=3) for seed in range(4)),
        *(Problem.build(*blobs(15, 20, classes=3, seed=seed), 1.0, max_flips=3) for seed in range(4)),
    ]


def test_how_good_they_are() -> None:
    """What each attack changes at budgets 1 to 3, as a share of what can be changed."""
    exact = sum(certify_problem(problem, "enumerate").collective_lower.sum() for problem in ordinary())
    share = {
        using: sum(attacked(problem, using).collective_lower.sum() for problem in ordinary()) / exact for using in NAMES
    }
    assert all(0.1 < found <= 1.0 for found in share.values()), share
    assert share["greedy"] > 0.9
    assert all(share["greedy"] >= found for found in share.values()), share
    for using in ("ridge-gradient", "label-propagation", "lafak", "biggio"):
        assert share[using] > share["random"] + 0.15, share
    assert share["alfa"] > share["nearest"]


@pytest.mark.parametrize("using", ["ridge-gradient", "lafak", "greedy"])
def test_one_node_of_ridge_regression_is_attacked_in_the_best_way(using: str) -> None:
    """Scores are linear in the labels there: two classes are a matter of sorting."""
    problems = [Problem.build(*gaussian(14, 8, seed=seed), 1.0, loss="square", max_flips=5) for seed in range(3)]
    radii = []
    for problem in problems:
        exact = certify_problem(problem, "closed-form")
        found = attacked(problem, using, targeted=True)
        assert np.array_equal(found.radius_upper <= 5, exact.radius_upper <= 5)
        reached = exact.radius_upper <= 5
        assert np.array_equal(found.radius_upper[reached], exact.radius_upper[reached])
        radii += exact.radius_upper[reached].tolist()
    assert len(set(radii)) >= 3


LINE = np.array([-3.0, -1.0, -0.5, 0.4, 2.0, 4.0])
"""Points on a line with a linear kernel: the boundary is at 0."""


def on_a_line(**options: Any) -> Problem:
    labels = np.where(LINE > 0, "right", "left")
    return Problem.build(np.outer(LINE, LINE), labels, np.outer([1.0, -2.0], LINE), 0.01, **options)


def test_near_and_far_labels() -> None:
    rng = np.random.default_rng(0)
    assert ATTACKS["nearest"].function(on_a_line(), 2, rng).positions.tolist() == [2, 3]
    assert ATTACKS["furthest"].function(on_a_line(), 2, rng).positions.tolist() == [0, 5]
    trusted = on_a_line(threat=Threat(trusted=[True, False, False, True, False, False]))
    assert trusted.adversary.labels[ATTACKS["nearest"].function(trusted, 1, rng).positions].tolist() == [2]
    assert trusted.adversary.labels[ATTACKS["furthest"].function(trusted, 1, rng).positions].tolist() == [5]


def test_a_near_label_of_three_classes_becomes_the_class_next_to_it_and_a_far_one_the_class_opposite() -> None:
    angles = np.radians([0.0, 10.0, 50.0, 120.0, 130.0, 240.0, 250.0])
    points = np.column_stack([np.cos(angles), np.sin(angles)])
    problem = Problem.build(points @ points.T, list("aaabbcc"), points @ points.T, 0.1)
    rng = np.random.default_rng(0)
    assert ATTACKS["nearest"].function(problem, 1, rng).moves == {2: 1}
    assert ATTACKS["furthest"].function(problem, 1, rng).moves == {2: 2}


def test_loss_maximisation_starts_with_the_labels_that_the_clean_model_likes_best() -> None:
    """Without a poisoned model yet, these have the largest difference of losses: the furthest ones."""
    problem = on_a_line()
    change = ATTACKS["alfa"].function(problem, 1, np.random.default_rng(0))
    assert change in (NOTHING, ATTACKS["furthest"].function(problem, 1, np.random.default_rng(0)))
    two = ATTACKS["alfa"].function(problem, 2, np.random.default_rng(0))
    assert two.positions.tolist() == [0, 5]
    assert attacked(problem, "alfa", max_flips=2).collective_lower.tolist() == [0, 0, 2]


def test_propagation_follows_the_kernel() -> None:
    """The label with the largest entry decides; a constant factor of a row does not matter."""
    rows = np.array([[5.0, 1.0, 1.0, 1.0], [0.1, 0.0, 0.0, 0.02]])
    problem = Problem.build(np.eye(4), [0, 1, 1, 1], rows, 0.5)
    assert ATTACKS["label-propagation"].function(problem, 1, np.random.default_rng(0)).moves == {0: 1}
    assert attacked(problem, "label-propagation", max_flips=1).collective_lower.tolist() == [0, 2]


@pytest.mark.parametrize("seed", [0, 11], ids=["greedy is better", "sampling is better"])
def test_the_better_solver_of_label_propagation_counts(seed: int) -> None:
    problem = Problem.build(*gaussian(16, 20, seed=seed), 1.0, max_flips=3)
    question = ask(problem)
    rows = problem.K_test[question.nodes]
    maps = rows / rows.sum(axis=1, keepdims=True)
    model = LinearModel(question, maps)
    greedy = max(model.worth(change) for change in greedy_changes(linear_question(question, maps, 3)))
    sampled = model.worth(linearised._by_sampling(model, problem.adversary, 3, np.random.default_rng(0)))
    assert (greedy > sampled) == (seed == 0)
    found = ATTACKS["label-propagation"].function(problem, 3, np.random.default_rng(0))
    assert model.worth(found) == max(greedy, sampled)


@pytest.mark.parametrize("classes", [2, 3])
def test_gradients_of_the_linear_model(classes: int) -> None:
    problem = Problem.build(*blobs(9, 6, classes=classes, seed=2), 1.0)
    question = ask(problem)
    model = LinearModel(question, problem.K_test[question.nodes])
    rng = np.random.default_rng(1)
    moves = rng.random(problem.adversary.targets.shape) * problem.adversary.targets / 4

    def loss(at: np.ndarray) -> float:
        return float(-np.tanh(model.leads(at)).sum())

    gradient = model.gradient(moves)
    for i, k in zip(*np.nonzero(problem.adversary.targets), strict=True):
        step = np.zeros_like(moves)
        step[i, k] = 1e-6
        slope = (loss(moves + step) - loss(moves - step)) / 2e-6
        assert gradient[i, k] == pytest.approx(slope, rel=1e-4, abs=1e-7)
    assert np.abs(gradient).max() > 1e-2


def test_spending_passes_over_what_is_too_expensive() -> None:
    threat = Threat(costs=[3, 1, 2, 1], groups=["x", "x", "y", "y"], group_budgets={"y": 1})
    problem = Problem.build(np.eye(4), [0, 1, 0, 1], np.eye(4), 1.0, threat=threat)
    merit = np.array([4.0, 3.0, 2.0, 1.0])[:, None] * np.ones(2)
    chosen = {b: spend(problem.adversary, b, merit).positions.tolist() for b in range(6)}
    assert chosen == {0: [], 1: [1], 2: [1, 3], 3: [0], 4: [0, 1], 5: [0, 1, 3]}
    merit[1] = -np.inf
    assert spend(problem.adversary, 4, merit).positions.tolist() == [0, 3]


@pytest.mark.parametrize("using", NAMES)
def test_the_same_seed_has_the_same_result_on_any_number_of_workers(using: str) -> None:
    problem = Problem.build(*gaussian(10, 8, seed=3), 1.0, max_flips=4)
    first = attacked(problem, using, seed=5, targeted=True, workers=1)
    again = attacked(problem, using, seed=5, targeted=True, workers=3)
    same(first, again)
    same_witnesses(first, again)


def test_other_seeds_have_other_random_flips() -> None:
    problem = mixed_problem(2)
    flips = {
        tuple(ATTACKS["random"].function(problem, 2, np.random.default_rng(s)).positions.tolist()) for s in range(9)
    }
    assert len(flips) > 4
    curves = {tuple(attacked(ordinary()[0], "random", seed=seed).collective_lower.tolist()) for seed in range(6)}
    assert len(curves) > 1


@pytest.mark.parametrize("using", ON_TEST_ROWS)
def test_attacks_on_single_nodes_find_more(using: str) -> None:
    found = {"all at once": 0, "each alone": 0}
    for problem in ordinary()[::3]:
        together, alone = attacked(problem, using), attacked(problem, using, targeted=True)
        assert np.all(alone.radius_upper <= together.radius_upper)
        some = [bool(np.any(alone.radius_upper <= b)) for b in range(4)]
        assert np.array_equal(alone.collective_lower, np.maximum(together.collective_lower, some))
        found["all at once"] += int((together.radius_upper <= 3).sum())
        found["each alone"] += int((alone.radius_upper <= 3).sum())
    assert found["each alone"] > found["all at once"]


@pytest.mark.parametrize("using", NAMES)
def test_nothing_to_change(using: str) -> None:
    K, labels, rows = gaussian(6, 4, seed=1)
    safe = attack(K, labels, rows, 1.0, using=using, threat=Threat(trusted=np.ones(6, dtype=bool)), targeted=True)
    assert not safe.collective_lower.any()
    assert np.all(safe.radius_upper == safe.never)
    assert not attack(K, labels, rows, 1.0, using=using, max_flips=0).collective_lower.any()


@pytest.mark.parametrize("using", NAMES)
def test_nodes_without_a_clean_prediction_are_left_alone(using: str) -> None:
    K, labels, rows = gaussian(8, 5, seed=2)
    tied = np.vstack([np.zeros(8), rows])
    exact, found = certify(K, labels, tied, 1.0, max_flips=2), attack(K, labels, tied, 1.0, using=using, max_flips=2)
    assert found.radius_upper[0] == 0
    assert found.collective_lower[0] == exact.collective_lower[0] == 1
    never_better_than(exact, found)
    without = attack(K, labels, rows, 1.0, using=using, max_flips=2)
    assert np.array_equal(found.collective_lower, without.collective_lower + 1)
    problem = Problem.build(K, labels, np.zeros((1, 8)), 1.0, max_flips=2)
    assert problem.adversary.admits(ATTACKS[using].function(problem, 2, np.random.default_rng(0)), 2)


def test_what_is_recorded(tmp_path: Path) -> None:
    problem = Problem.build(*gaussian(10, 8, seed=3), 1.0, max_flips=3)
    names = Names(test=np.array([f"node {t}" for t in range(8)]))
    found = attacked(problem, "alfa", seed=7, targeted=True, names=names)
    assert found.engine == found.run.engine_asked == "attack:alfa"
    (stage,) = found.run.stages
    assert stage.max_flips == 3
    assert stage.statistics["seed"] == 7
    assert stage.statistics["targeted"]
    assert stage.statistics["attacks"] >= 3
    assert found.test_names is not None
    assert found.run.problem_sha256 == problem.digest()
    assert not found.exact
    assert labelcert.verify(found).accepted
    found.save(tmp_path / "attack.npz", problem=True)
    same(labelcert.load(tmp_path / "attack.npz"), found)


def test_it_stops_once_everything_has_changed() -> None:
    K, labels, rows = gaussian(8, 3, seed=0)
    found = attack(K, labels, rows, 1.0, using="greedy", workers=1)
    assert found.max_flips == 8
    assert found.collective_lower[-1] == 3
    budget = int(np.argmax(found.collective_lower == 3))
    assert found.run.stages[0].statistics["attacks"] == budget < 8


def test_every_attack_says_where_it_comes_from() -> None:
    for name, info in ATTACKS.items():
        assert info.name == name
        assert info.description
        assert info.reference
        assert inspect.getdoc(info.function)
        assert f'"{name}"' in (attack.__doc__ or "")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"using": "alpha"}, "using must be one of random, nearest, .*, got 'alpha'"),
        ({"using": None}, "using must be one of .*, got None"),
        ({"using": ["alfa"]}, r"using must be one of .*, got \['alfa'\]"),
        ({"seed": -1}, "seed must be a whole number of at least 0, got -1"),
        ({"seed": 1.5}, "seed must be a whole number"),
        ({"max_flips": -1}, "max_flips must be a whole number between 0 and 6"),
        ({"max_flips": 7}, "max_flips must be a whole number between 0 and 6"),
        ({"workers": 0}, "workers must be a whole number of at least 1"),
        ({"loss": "huber"}, "loss must be one of"),
        ({"threat": "any"}, "threat must be a labelcert.Threat"),
        ({"C": -1.0}, "C must be a positive finite number"),
    ],
)
def test_bad_input(options: dict[str, Any], message: str) -> None:
    K, labels, rows = gaussian(6, 4)
    arguments = {"C": 1.0, **options}
    with pytest.raises(InvalidInput, match=message):
        attack(K, labels, rows, **arguments)


def test_an_attack_that_breaks_the_threat_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    """The final check does not take an attack's word for it."""
    K, labels, rows = gaussian(8, 6, seed=4)
    threat = Threat(groups=["all"] * 8, group_budgets=1)
    greedy = ATTACKS["greedy"]

    def cheat(problem: Problem, budget: int, rng: np.random.Generator) -> Any:
        unlimited = replace(problem.adversary, group_caps=np.array([8]))
        return greedy.function(replace(problem, adversary=unlimited, max_flips=8), budget, rng)

    exact = certify(K, labels, rows, 1.0, threat=threat, max_flips=4)
    never_better_than(exact, attack(K, labels, rows, 1.0, threat=threat, max_flips=4))
    monkeypatch.setitem(ATTACKS, "greedy", replace(greedy, function=cheat))
    with pytest.warns(RuntimeWarning, match="findings contradict retraining"):
        found = attack(K, labels, rows, 1.0, threat=threat, max_flips=4)
    never_better_than(exact, found)
