"""The paper's program for more than two classes: optima are those of brute force, also after excluding."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from tests.helpers.small_problems import CLASS_THREATS, all_relabellings, class_problem, margin

from labelcert import Threat
from labelcert.paper.milp.label_programs import LabelProgram
from labelcert.paper.milp.solvers import Answer, Limits, Row, get_solver
from labelcert.paper.milp.theorems import more_classes


def least(program: LabelProgram, rows: Sequence[Row] = ()) -> Answer:
    session = get_solver("highs").open(program.model, 1)
    try:
        return session.solve(program.model.cost, Limits(), rows)
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
    program = more_classes(p, 2, row, own)
    answer = least(program)
    assert answer.objective == pytest.approx(min(truth.values()), abs=1e-6)
    assert answer.x is not None
    found = program.change(answer.x)
    assert truth[found] == pytest.approx(answer.objective, abs=1e-6)
    others = [value for change, value in truth.items() if change != found]
    if others:
        assert least(program, [program.without(found)]).objective == pytest.approx(min(others), abs=1e-6)


def test_size_of_the_papers_program() -> None:
    p = class_problem()
    K, m = 3, 6
    program = more_classes(p, 2, p.K_test[0], 0)
    assert int(program.model.integer.sum()) == 3 * K * m + K - 1
    assert program.model.columns["class 1: R"].shape == (m, m)
