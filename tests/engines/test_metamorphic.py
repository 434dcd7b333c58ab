"""What must not change an answer does not, for every engine that asks no solver."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tests.helpers.certificates import ENDS, same, same_witnesses
from tests.helpers.strategies import NAMES, cases

from labelcert import Certificate
from labelcert.engines.base import Findings, Question
from labelcert.engines.control import Control
from labelcert.engines.final_check import check
from labelcert.engines.planning import Stage
from labelcert.engines.registry import ENGINES, get_engine
from labelcert.prediction import OneVsRest, Predictor, Sign
from labelcert.problem import Relabelling
from labelcert.selfcheck import Case

WITHOUT_SOLVER = [name for name, engine in ENGINES.items() if not engine.capabilities.searches]

few = settings(max_examples=40, deadline=None)


def permuted_labels(case: Case, order: list[int]) -> Case:
    """The same labels, listed in another order."""
    threat = case.threat
    per_label = {
        name: [value[i] for i in order]  # type: ignore[index]
        for name in ("trusted", "costs", "groups", "allowed_targets")
        if (value := getattr(threat, name)) is not None
    }
    return replace(
        case,
        K_train=case.K_train[np.ix_(order, order)],
        labels=case.labels[order],
        K_test=case.K_test[:, order],
        threat=replace(threat, **per_label),
    )


def renamed_classes(case: Case, new: dict[str, str]) -> Case:
    """The same classes under other names, which may sort in another order."""
    threat, changes = case.threat, dict[str, Any]()
    if threat.allowed_flips is not None:
        changes["allowed_flips"] = {new[a]: [new[b] for b in bs] for a, bs in threat.allowed_flips.items()}
    if threat.allowed_targets is not None:
        changes["allowed_targets"] = [None if ts is None else [new[t] for t in ts] for ts in threat.allowed_targets]
    labels = np.array([new[label] for label in case.labels.tolist()])
    return replace(case, labels=labels, threat=replace(threat, **changes))


def answers(case: Case, *others: Case) -> Iterator[tuple[Certificate, ...]]:
    """Certificates of a case and of others that are variations of it, by every engine that can answer them all."""
    every = (case, *others)
    problems = [c.build() for c in every]
    for name in WITHOUT_SOLVER:
        if all(ENGINES[name].refuses(problem) is None for problem in problems):
            yield tuple(c.certify(name, workers=1) for c in every)


def does_what_it_says(case: Case, witness: dict[int, Any], cost: int, t: int) -> bool:
    """Whether some flips are admissible, cost that much, and change node ``t``."""
    problem = case.build()
    position = {int(i): k for k, i in enumerate(problem.adversary.labels)}
    classes = problem.classes.tolist()
    if not set(witness) <= set(position):
        return False
    change = Relabelling.of({position[i]: classes.index(label) for i, label in witness.items()})
    predictor = ENGINES["enumerate"].predictor(problem)
    changed = predictor.changed(problem.relabelled(change), np.array([t]))[0]
    a = problem.adversary
    return bool(a.admits(change, problem.max_flips) and a.cost(change) == cost and changed[0])


def claims_agree(a: Certificate, b: Certificate) -> None:
    for name in ENDS:
        assert np.array_equal(getattr(a, name), getattr(b, name)), name


@few
@given(cases(), st.data())
def test_permuting_labels_permutes_witnesses_alone(case: Case, data: st.DataObject) -> None:
    order = data.draw(st.permutations(range(case.labels.size)))
    other = permuted_labels(case, list(order))
    for one, two in answers(case, other):
        same(one, two)
        for t in np.flatnonzero((two.radius_upper > 0) & (two.radius_upper < two.never)).tolist():
            back = {order[i]: label for i, label in (two.witness(t) or {}).items()}
            assert does_what_it_says(case, back, int(one.radius_upper[t]), t)


@few
@given(cases(), st.data())
def test_permuting_test_nodes_permutes_radii(case: Case, data: st.DataObject) -> None:
    order = list(data.draw(st.permutations(range(case.K_test.shape[0]))))
    for one, two in answers(case, replace(case, K_test=case.K_test[order])):
        for name in ("predictions", "radius_lower", "radius_upper"):
            assert np.array_equal(getattr(one, name)[order], getattr(two, name)), name
        for name in ("collective_lower", "collective_upper"):
            assert np.array_equal(getattr(one, name), getattr(two, name)), name


@few
@given(cases(), st.integers(-10, 10))
def test_scaling_kernel_and_cap_changes_nothing(case: Case, exponent: int) -> None:
    s = 2.0**exponent
    scaled = replace(case, K_train=s * case.K_train, K_test=s * case.K_test, C=case.C / s)
    for one, two in answers(case, scaled):
        same(one, two)
        if exponent % 2 == 0:  # then square roots are scaled exactly, too: not a bit is different
            same_witnesses(one, two)


@few
@given(cases(), st.data())
def test_trusting_a_label_never_helps_the_adversary(case: Case, data: st.DataObject) -> None:
    m = case.labels.size
    trusted = [False] * m if case.threat.trusted is None else list(np.asarray(case.threat.trusted).tolist())
    trusted[data.draw(st.integers(0, m - 1))] = True
    for one, two in answers(case, replace(case, threat=replace(case.threat, trusted=trusted))):
        assert np.all(two.radius_lower >= one.radius_lower)
        assert np.all(two.radius_upper >= one.radius_upper)
        assert np.all(two.collective_upper <= one.collective_upper)
        assert np.all(two.collective_lower <= one.collective_lower)


@few
@given(cases(), st.data())
def test_a_larger_budget_only_adds(case: Case, data: st.DataObject) -> None:
    most = case.build().max_flips
    assume(most > 0)
    b = data.draw(st.integers(0, most - 1))
    for full, part in answers(case, replace(case, max_flips=b)):
        assert np.all(np.diff(full.collective_lower) >= 0)
        assert np.all(np.diff(full.collective_upper) >= 0)
        assert np.array_equal(part.collective_lower, full.collective_lower[: b + 1])
        assert np.array_equal(part.collective_upper, full.collective_upper[: b + 1])
        assert np.array_equal(part.radius_lower, np.minimum(full.radius_lower, b + 1))
        assert np.array_equal(part.radius_upper, np.where(full.radius_upper <= b, full.radius_upper, part.never))


@few
@given(cases())
def test_another_test_node_changes_no_radius(case: Case) -> None:
    assume(case.K_test.shape[0] > 1)
    for full, part in answers(case, replace(case, K_test=case.K_test[:-1])):
        for name in ("predictions", "radius_lower", "radius_upper"):
            assert np.array_equal(getattr(full, name)[:-1], getattr(part, name)), name
        more = full.collective_lower - part.collective_lower
        assert np.all((more >= 0) & (more <= 1))


@few
@given(cases(), st.permutations(NAMES))
def test_renaming_classes_changes_nothing(case: Case, names: list[str]) -> None:
    new = dict(zip(NAMES, names, strict=True))
    for one, two in answers(case, renamed_classes(case, new)):
        claims_agree(one, two)
        decided = one.radius_upper > 0  # which class is shown for a tie depends on their order
        assert [new[label] for label in one.predictions[decided].tolist()] == two.predictions[decided].tolist()


@few
@given(cases(classes=2))
def test_swapping_two_classes_negates_the_scores_alone(case: Case) -> None:
    swapped = renamed_classes(case, {"ant": "bee", "bee": "ant"})
    for one, two in answers(case, swapped):
        claims_agree(one, two)
        assert np.allclose(one.decision_values, -two.decision_values, rtol=1e-9, atol=1e-9)


def found(engine: str, predictor: Predictor) -> Findings:
    """What an engine proves through a predictor, after the final check."""
    question = Question.ask(predictor)
    stage = Stage(get_engine(engine), question.budget)
    return check(question, stage.run(question, Control(workers=1), Findings.nothing(question))).findings


@pytest.mark.parametrize("engine", ["enumerate", "closed-form"])
@few
@given(case=cases(classes=2))
def test_two_classes_through_one_model_per_class(engine: str, case: Case) -> None:
    problem = case.build()
    assume(get_engine(engine).refuses(problem) is None)
    linear = get_engine(engine).predictor(problem).linear
    fast, general = Sign(problem, linear=linear), OneVsRest(problem, linear=linear)
    assert np.array_equal(fast.predicted, general.predicted)
    assert np.array_equal(fast.shown, general.shown)
    one, two = found(engine, fast), found(engine, general)
    for name in ("radius_lower", "radius_upper", "curve_lower", "curve_upper"):
        assert np.array_equal(getattr(one, name), getattr(two, name)), name
