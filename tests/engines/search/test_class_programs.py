"""Programs for more than two classes: their optima are those of brute force, and so is what excluding leaves."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from tests.helpers.small_problems import CLASS_THREATS, all_relabellings, class_problem, margin

from labelcert import Threat
from labelcert.engines.base import Question
from labelcert.engines.search import relaxation
from labelcert.engines.search.class_programs import collective_classes, pair_program, paper_classes
from labelcert.engines.search.pairs import Pair
from labelcert.engines.search.programs import Program
from labelcert.engines.search.ranges import trivial_ranges
from labelcert.engines.search.solvers import Answer, Limits, Row, get_solver
from labelcert.prediction import OneVsRest
from labelcert.problem import NOTHING, Problem


def least(program: Program, rows: Sequence[Row] = ()) -> Answer:
    session = get_solver("highs").open(program.model, 1)
    try:
        return session.solve(program.model.cost, Limits(), None, rows)
    finally:
        session.close()


@pytest.mark.parametrize(
    "threat",
    [pytest.param(t, marks=[] if k in (1, 4) else pytest.mark.long, id=repr(t)) for k, t in enumerate(CLASS_THREATS)],
)
def test_the_papers_program_has_the_true_optimum(threat: Threat) -> None:
    p = class_problem(threat)
    own, rivals, row = 0, [1, 2], p.K_test[0]
    truth = {change: margin(p, change, row, own, rivals) for change in all_relabellings(p, 2)}
    program = paper_classes(p, 2, row, own)
    answer = least(program)
    assert answer.objective == pytest.approx(min(truth.values()), abs=1e-6)
    assert answer.x is not None
    found = program.change(answer.x)
    assert truth[found] == pytest.approx(answer.objective, abs=1e-6)
    others = [value for change, value in truth.items() if change != found]
    if others:
        assert least(program, [program.without(found)]).objective == pytest.approx(min(others), abs=1e-6)
    assert program.point(NOTHING) is None


def test_size_of_the_papers_program() -> None:
    p = class_problem()
    K, m = 3, 6
    program = paper_classes(p, 2, p.K_test[0], 0)
    assert int(program.model.integer.sum()) == 3 * K * m + K - 1
    assert program.model.columns["class 1: R"].shape == (m, m)


@pytest.mark.parametrize("threat", CLASS_THREATS, ids=repr)
@pytest.mark.parametrize("tight", [False, True])
def test_pair_programs_have_the_true_optimum(threat: Threat, tight: bool) -> None:
    p = class_problem(threat)
    row = p.K_test[0]
    for own, rival in ((0, 1), (2, 0)):
        values = {change: margin(p, change, row, own, [rival]) for change in all_relabellings(p, 2)}
        parts = p.one_vs_rest(own), p.one_vs_rest(rival)
        ranges = [relaxation.proved_ranges(part, 2)[0] if tight else trivial_ranges(part, 2) for part in parts]
        program = pair_program(Pair.of(p, own, rival, parts, (ranges[0], ranges[1])), row)
        answer = least(program)
        assert answer.objective * program.unit == pytest.approx(min(values.values()), abs=1e-6)
        assert answer.x is not None
        assert values[program.change(answer.x)] == pytest.approx(min(values.values()), abs=1e-6)
        offered = 0
        for change, value in values.items():
            point = program.point(change)
            if point is not None:
                offered += 1
                assert program.model.violation(point) < 1e-6
                assert float(program.model.cost @ point) * program.unit == pytest.approx(value, abs=1e-6)
        assert offered > 0


def linear_problem(threat: Threat) -> Problem:
    p = class_problem()
    return Problem.build(p.K_train, p.labels, p.K_test, 1.0, threat=threat, max_flips=2, loss="square")


@pytest.mark.parametrize("threat", CLASS_THREATS, ids=repr)
@pytest.mark.parametrize("linear", [False, True])
def test_collective_programs_count_what_one_relabelling_changes(threat: Threat, linear: bool) -> None:
    p = linear_problem(threat) if linear else class_problem(threat)
    predictor = OneVsRest(p, linear=linear)
    question = Question.ask(predictor)
    rows = np.ascontiguousarray(predictor.scorer.rows[question.nodes].T)
    own = question.predicted
    pairs = np.array([(t, own[t], r) for t in range(own.size) for r in range(3) if r != own[t]])
    reach = 2.0 * np.abs(rows).sum(axis=0)[pairs[:, 0]]
    parts = [p.one_vs_rest(c) for c in range(3)]
    ranges = None if linear else [relaxation.proved_ranges(part, 2)[0] for part in parts]
    program = collective_classes(p, 2, parts, ranges, rows, pairs, reach, np.zeros(len(pairs)))
    counts = {change: int(question.changed(change)[0].sum()) for change in all_relabellings(p, 2)}
    for change, count in counts.items():
        x = program.point(change)
        assert x is not None
        assert program.model.violation(x) < 1e-6
        assert program.change(x) == change
        assert float(program.model.cost @ x) == -count
    answer = least(program)
    assert -answer.objective == pytest.approx(max(counts.values()), abs=1e-6)
    assert answer.x is not None
    assert counts[program.change(answer.x)] == max(counts.values())


@pytest.mark.parametrize("threat", CLASS_THREATS, ids=repr)
def test_without_excludes_one_relabelling_and_no_other(threat: Threat) -> None:
    """Also where the same label moves elsewhere."""
    p = class_problem(threat)
    parts = [p.one_vs_rest(c) for c in range(3)]
    ranges = [trivial_ranges(part, 2) for part in parts]
    row = p.K_test[0]
    pairs = np.array([(0, 0, 1)])
    reach = np.array([2.0 * np.abs(row).sum()])
    program = collective_classes(p, 2, parts, ranges, row[:, None], pairs, reach, np.zeros(1))
    points = {change: program.point(change) for change in all_relabellings(p, 2)}
    for excluded in points:
        without = program.without(excluded)
        for change, x in points.items():
            assert x is not None
            assert (without.coefficients @ x[without.columns] <= without.upper) == (change != excluded)
