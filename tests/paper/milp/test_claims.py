"""A solver's word: a claim beside what is proved, and a proof only for those who ask for it."""

from __future__ import annotations

import io
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console
from rich.table import Table
from tests.helpers.certificates import contains, same
from tests.helpers.problems import gaussian
from tests.helpers.small_problems import certify_problem, mixed_problem
from tests.helpers.solvers import Fake, answer, install

from labelcert import Certificate, Threat, certify, load
from labelcert.paper.milp.solvers import Ending
from labelcert.problem import Problem
from labelcert.report import pictures, tables


@dataclass(frozen=True, eq=False)
class Asked:
    """One problem, the truth about it, and what the paper's program says without trust and with it."""

    problem: Problem
    truth: Certificate
    claimed: Certificate
    trusted: Certificate


@pytest.fixture(scope="module", params=[2, 3], ids=["two classes", "three classes"])
def asked(request: pytest.FixtureRequest) -> Asked:
    problem = mixed_problem(request.param, max_flips=1)
    claimed, trusted = (
        certify_problem(problem, "milp-paper", workers=1, trust_solver=trust) for trust in (False, True)
    )
    return Asked(problem, certify_problem(problem, "enumerate"), claimed, trusted)


def text(table: Table) -> str:
    console = Console(file=io.StringIO(), width=200)
    console.print(table)
    return console.file.getvalue()  # type: ignore[attr-defined]


def test_by_default_a_claim_proves_nothing(asked: Asked) -> None:
    cert, truth = asked.claimed, asked.truth
    robust = truth.radius_lower > 1
    assert 0 < robust.sum() < cert.n_test
    contains(cert, truth)
    assert not cert.exact
    assert cert.run.trust_solver is cert.trusts_solver is False
    assert np.all(cert.radius_lower == 1)
    assert cert.collective_upper.tolist() == [0, cert.n_test]
    assert np.array_equal(cert.radius_claimed, truth.radius_lower)
    assert np.array_equal(cert.collective_claimed[:1], truth.collective_upper[:1])
    assert truth.collective_upper[1] <= cert.collective_claimed[1] < cert.n_test
    assert cert.verdicts(flips=1).tolist() == np.where(robust, "unknown", "vulnerable").tolist()
    assert cert.certified_ratio(flips=1) == 0.0
    assert f"claimed by the solver: {robust.sum()} of {cert.n_test} radii, 1 of 2 curve points" in cert.state


def test_claims_count_where_the_solver_is_trusted(asked: Asked) -> None:
    cert, truth = asked.trusted, asked.truth
    assert cert.run.trust_solver is cert.trusts_solver is True
    assert np.array_equal(cert.radius_lower, truth.radius_lower)
    assert np.array_equal(cert.radius_claimed, cert.radius_lower)
    assert np.array_equal(cert.collective_upper, asked.claimed.collective_claimed)
    assert np.array_equal(cert.radius_proved_by == "a trusted solver", truth.radius_lower > 1)
    assert cert.collective_proved_by[1] == "a trusted solver"
    assert "trusting the solver" in cert.state
    if asked.problem.n_classes == 2:  # there is a program for the curve
        assert cert.exact
        assert cert.state == "exact, trusting the solver"
        same(cert, truth)


def test_both_are_kept_in_files(asked: Asked, tmp_path: Path) -> None:
    for cert in (asked.claimed, asked.trusted):
        cert.save(tmp_path / "a.cert")
        again = load(tmp_path / "a.cert")
        assert again.run == cert.run
        assert (again.state, again.exact, again.trusts_solver) == (cert.state, cert.exact, cert.trusts_solver)
        assert np.array_equal(again.radius_claimed, cert.radius_claimed)
        assert np.array_equal(again.collective_claimed, cert.collective_claimed)


def test_every_table_shows_both(asked: Asked) -> None:
    for cert, word in ((asked.claimed, "claimed by the solver"), (asked.trusted, "trusting the solver")):
        count = int(np.sum(asked.truth.radius_lower > 1))
        assert text(tables.node_table(cert)).count(word) == count
        assert text(tables.budget_table(cert)).count(word) == 1
        assert word in tables.summary(cert)
        assert cert.to_frame()["radius_claimed"].tolist() == cert.radius_claimed.tolist()
        assert cert.curve_frame()["changed_claimed"].tolist() == cert.collective_claimed.tolist()
    compared = [("one", asked.claimed), ("two", asked.trusted)]
    assert "trusting the solver: two" in text(tables.comparison_table(compared))
    assert "a trusted solver" in asked.trusted.to_frame()["proved_by"].tolist()
    assert "a trusted solver" in asked.trusted.curve_frame()["proved_by"].tolist()
    legend = pictures.ratio_figure(compared).axes[-1].get_legend()
    assert legend is not None
    assert [entry.get_text() for entry in legend.get_texts()] == ["one", "two (trusting the solver)"]


def test_a_lying_solver_fools_only_those_who_trust_it(asked: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    """It calls every node robust, with a bound that nothing contradicts."""
    install(monkeypatch, Fake(asked.problem, lambda asked: answer(Ending.DECIDED, bound=1e-4)))
    fooled, cert = (
        certify_problem(asked.problem, "milp-paper", collective=False, workers=1, trust_solver=trust)
        for trust in (True, False)
    )
    assert np.all(fooled.radius_lower == 2)
    assert np.any(fooled.radius_lower > asked.truth.radius_lower)
    assert fooled.state == "exact, trusting the solver"
    contains(cert, asked.truth)
    assert np.all(cert.radius_lower == 1)
    assert np.all(cert.radius_claimed == 2)
    assert not cert.exact


def test_what_no_attack_costs_is_proved_without_a_solver() -> None:
    threat = Threat(costs=[2] * 6)
    cert = certify(*gaussian(6, 3), 2.0, threat=threat, max_flips=1, engine="milp-paper")
    assert cert.exact
    assert cert.state == "exact"
    assert cert.run.stages[0].statistics["solves"] == []


@pytest.mark.parametrize("engine", ["auto", "enumerate", "milp"])
def test_trust_changes_nothing_where_no_solver_is_believed(engine: str) -> None:
    arrays = gaussian(7, 5)
    plain, trusting = (certify(*arrays, 2.0, max_flips=2, engine=engine, trust_solver=t) for t in (False, True))
    same(plain, trusting)
    assert trusting.run.trust_solver
    assert not trusting.trusts_solver
    assert trusting.state == plain.state == "exact"
    assert trusting.radius_proved_by.tolist() == plain.radius_proved_by.tolist()
