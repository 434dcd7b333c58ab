"""Answers that are not to be believed: for every kind of predictor, open intervals and a warning, never a verdict."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from tests.helpers.certificates import contains
from tests.helpers.problems import blobs, gaussian
from tests.helpers.small_problems import certify_problem, mixed_problem
from tests.helpers.solvers import LIES, SILENT, UNBELIEVABLE, Asked, Fake, Liar, Reply, answer, install

from labelcert import Certificate, Threat, certify
from labelcert.errors import MilpWarning
from labelcert.paper.milp import judging, paper_program
from labelcert.paper.milp.solvers import Answer, Ending, Limits
from labelcert.paper.milp.solvers.highs_mip import Highs
from labelcert.problem import Problem

ENGINE = "milp-paper"
"""The one engine that makes claims of a solver; all tests here trust them."""


@dataclass(frozen=True, eq=False)
class Setting:
    """A small problem, and the truth about it."""

    problem: Problem
    truth: Certificate

    def certify(self, engine: str = ENGINE, **options: Any) -> Certificate:
        return certify_problem(self.problem, engine, **{"trust_solver": True, **options})

    @property
    def programs(self) -> int:
        """One for each node, and for two classes one for all of them."""
        return self.problem.n_test + self.has_curve

    @property
    def has_curve(self) -> bool:
        return self.problem.n_classes == 2


@pytest.fixture(scope="module", params=[2, 3], ids=["two classes", "three classes"])
def setting(request: pytest.FixtureRequest) -> Setting:
    p = mixed_problem(request.param)
    radius = certify_problem(p, "enumerate").radius_lower.tolist()
    # There is something to get wrong in both directions, at both budgets.
    rows = p.K_test[[radius.index(1), radius.index(2), radius.index(3)]]
    problem = Problem.build(p.K_train, p.labels, rows, p.C, threat=p.threat, max_flips=p.max_flips)
    return Setting(problem, certify_problem(problem, "enumerate"))


def faking(monkeypatch: pytest.MonkeyPatch, setting: Setting, reply: Reply) -> Fake:
    fake = Fake(setting.problem, reply)
    install(monkeypatch, fake)
    return fake


def not_believed(cert: Certificate) -> list[str]:
    return list(cert.run.stages[0].statistics["not_believed"])


def nothing_decided(cert: Certificate, setting: Setting, fake: Fake) -> None:
    n = setting.problem.n_test
    contains(cert, setting.truth)
    assert np.all(cert.radius_lower == 1)
    assert np.all(cert.radius_upper == cert.never)
    assert cert.collective_lower.tolist() == [0, 0, 0]
    assert cert.collective_upper.tolist() == [0, n, n]
    assert set(cert.verdicts(flips=1)) == {"unknown"}
    assert len(fake.solves) >= setting.programs
    assert fake.opened == fake.closed


@pytest.mark.parametrize("reply", SILENT.values(), ids=SILENT)
def test_an_unfinished_answer_decides_nothing(monkeypatch: pytest.MonkeyPatch, setting: Setting, reply: Reply) -> None:
    fake = faking(monkeypatch, setting, reply)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", message=".*lost the solution")  # told, and nothing decided
        cert = setting.certify()
    nothing_decided(cert, setting, fake)


@pytest.mark.parametrize("reply", UNBELIEVABLE.values(), ids=UNBELIEVABLE)
def test_an_unbelievable_answer_decides_nothing_and_is_told(
    monkeypatch: pytest.MonkeyPatch, setting: Setting, reply: Reply
) -> None:
    fake = faking(monkeypatch, setting, reply)
    with pytest.warns(MilpWarning):
        cert = setting.certify()
    nothing_decided(cert, setting, fake)
    # Every single program is accounted for, even where not all are printed.
    assert len(not_believed(cert)) >= setting.programs


def test_a_finished_search_without_a_solution_decides_nothing(
    monkeypatch: pytest.MonkeyPatch, setting: Setting
) -> None:
    fake = faking(monkeypatch, setting, lambda asked: answer(Ending.OPTIMAL, bound=-100.0))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MilpWarning)
        cert = setting.certify()
    nothing_decided(cert, setting, fake)


def test_a_labelling_that_changes_nothing_is_no_witness(monkeypatch: pytest.MonkeyPatch, setting: Setting) -> None:
    """The solver claims a negative score for the clean labels, again and again."""
    fake = faking(
        monkeypatch, setting, lambda asked: answer(Ending.OPTIMAL, bound=-1e3, x=asked.point(False), objective=-1e3)
    )
    with pytest.warns(MilpWarning):
        cert = setting.certify()
    nothing_decided(cert, setting, fake)
    assert all("excluded" in complaint for complaint in not_believed(cert))


@pytest.mark.parametrize("bound", [np.inf, 1e3, np.nan])
def test_a_bound_is_doubted_after_a_labelling_was_excluded_too(
    monkeypatch: pytest.MonkeyPatch, setting: Setting, bound: float
) -> None:
    """First a labelling with a score near zero, so the solver says; then nothing is left, so it says."""

    def reply(asked: Asked) -> Answer:
        if not asked.rows:
            return answer(Ending.OPTIMAL, bound=-1e3, x=asked.point(False), objective=0.0)
        return answer(Ending.OPTIMAL, bound=bound)

    fake = faking(monkeypatch, setting, reply)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        cert = setting.certify()
    contains(cert, setting.truth)
    assert np.all(cert.radius_lower == 1)
    assert any(asked.rows for asked in fake.solves)
    told = any(warning.category is MilpWarning for warning in caught)
    # For single nodes, nothing is left that a bound could be held against: no proof, and no complaint.
    assert told or (bound > 0 and not setting.has_curve)


def test_a_true_attack_counts_whatever_the_solver_says_of_it(monkeypatch: pytest.MonkeyPatch, setting: Setting) -> None:
    """Witnesses are retrained: a correct labelling in a broken answer is a proof all the same."""
    truth = setting.truth
    fake = faking(monkeypatch, setting, lambda asked: answer(Ending.TIME_LIMIT))

    def reply(asked: Asked) -> Answer:
        flipped = np.isin(np.arange(setting.problem.m), list(witness))
        return answer(Ending.TIME_LIMIT, bound=-1e3, x=asked.point(flipped), objective=5.0)

    fake.reply = reply
    proved = 0
    for vulnerable in np.flatnonzero(truth.radius_upper == 1).tolist():
        witness = truth.witness(vulnerable)
        assert witness is not None
        cert = setting.certify()
        contains(cert, truth)
        # With two classes a label changes in one way; with more, the fake takes the first.
        if setting.problem.n_classes == 2:
            assert cert.witness(vulnerable) == witness
        if cert.radius_upper[vulnerable] == 1:
            proved += 1
            assert cert.collective_lower[1] >= 1
    assert proved > 0


def test_a_bound_within_the_margin_is_not_robust(monkeypatch: pytest.MonkeyPatch, setting: Setting) -> None:
    fake = faking(monkeypatch, setting, lambda asked: answer(Ending.OPTIMAL, bound=1e-9))
    cert = setting.certify(ENGINE, collective=False)
    assert np.all(cert.radius_lower == 1)
    contains(cert, setting.truth)
    assert len(fake.solves) == setting.problem.n_test


def test_near_ties_are_excluded_one_by_one_up_to_a_limit(monkeypatch: pytest.MonkeyPatch, setting: Setting) -> None:
    """A solver that finds another labelling within its tolerance again and again is not asked forever."""
    monkeypatch.setattr(judging, "MAX_EXCLUDED", 3)
    free = setting.problem.adversary.labels

    def reply(asked: Asked) -> Answer:
        flipped = np.isin(np.arange(setting.problem.m), free[: len(asked.rows)][-1:])
        return answer(Ending.OPTIMAL, bound=-1e-12, x=asked.point(flipped), objective=0.0)

    fake = faking(monkeypatch, setting, reply)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MilpWarning)
        cert = setting.certify(ENGINE, collective=False)
    contains(cert, setting.truth)
    assert np.all(cert.radius_lower == 1)
    assert 1 < max(len(asked.rows) for asked in fake.solves) <= 3


@pytest.mark.parametrize("classes", [2, 3])
def test_an_open_node_leaves_the_others_alone(monkeypatch: pytest.MonkeyPatch, classes: int) -> None:
    """One solve in three breaks; the rest comes from a real solver."""
    problem = mixed_problem(classes, max_flips=1)
    count = 0

    def reply(asked: Asked) -> Answer:
        nonlocal count
        count += 1
        if count % 3 == 0:
            return answer(Ending.FAILED)
        return Highs().open(asked.model, 1).solve(asked.cost, Limits(), asked.rows)

    install(monkeypatch, Fake(problem, reply))
    with pytest.warns(MilpWarning):
        cert = certify_problem(problem, ENGINE, workers=1, trust_solver=True)
    contains(cert, certify_problem(problem, "enumerate"))
    assert any("fake failed" in complaint for complaint in not_believed(cert))
    assert not cert.exact
    assert np.any(cert.radius_lower == 2)


@pytest.mark.parametrize("classes", [2, 3])
def test_many_complaints_are_summed_up(monkeypatch: pytest.MonkeyPatch, classes: int) -> None:
    problem = mixed_problem(classes)
    install(monkeypatch, Fake(problem, UNBELIEVABLE["failed"]))
    with pytest.warns(MilpWarning) as caught:
        certify_problem(problem, ENGINE)
    messages = [str(warning.message) for warning in caught]
    assert len(messages) == 6
    assert "answers more" in messages[-1]
    assert "stays open" in messages[0]


def test_a_broken_solver_under_all_threat_options(monkeypatch: pytest.MonkeyPatch, setting: Setting) -> None:
    threat = Threat(
        costs=[1, 2, 1, 2, 1, 2, 1], groups=["a"] * 4 + [None] * 3, group_budgets=2, trusted=np.arange(7) == 3
    )
    options: dict[str, Any] = {"threat": threat, "max_flips": 3}
    full = setting.certify("enumerate", **options)
    p = setting.problem
    problem = Problem.build(p.K_train, p.labels, p.K_test, p.C, **options)
    for reply in (SILENT["time limit"], UNBELIEVABLE["bound is NaN"], UNBELIEVABLE["attack beyond the budget"]):
        install(monkeypatch, Fake(problem, reply))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", MilpWarning)
            contains(setting.certify(**options), full)


# -- true answers, changed on the way ----------------------------------------------------------------------------------


@pytest.fixture(scope="module", params=[2, 3], ids=["two classes", "three classes"])
def arrays(request: pytest.FixtureRequest) -> tuple[Any, ...]:
    return (*(gaussian(6, 4, seed=3) if request.param == 2 else blobs(6, 4, classes=3, seed=3)), 3.0)


@pytest.fixture
def caught() -> Iterator[list[warnings.WarningMessage]]:
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        yield found


@pytest.mark.parametrize("lie", LIES)
def test_lies_open_intervals(
    lie: str, arrays: tuple[Any, ...], monkeypatch: pytest.MonkeyPatch, caught: list[warnings.WarningMessage]
) -> None:
    K, labels, rows, C = arrays
    rows = rows[:2]
    truth = certify(K, labels, rows, C, max_flips=2, engine="enumerate")
    install(monkeypatch, Liar(LIES[lie]))
    cert = certify(K, labels, rows, C, max_flips=2, engine=ENGINE, workers=1, collective=False, trust_solver=True)
    contains(cert, truth)
    open_ = np.any((cert.radius_lower <= 2) & (cert.radius_lower < cert.radius_upper))
    assert not open_ or lie == "vulnerable" or any(w.category is MilpWarning for w in caught)
    assert open_ or lie == "robust"  # whose solution is an attack that retraining confirms
    assert cert.run.stages[0].statistics["solves"]


@pytest.mark.parametrize("lie", ["robust", "infeasible", "failed"])
def test_lies_about_the_curve_open_intervals(lie: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The paper has a collective program for two classes."""
    arrays = (*gaussian(6, 4, seed=3), 3.0)
    truth = certify(*arrays, max_flips=2, engine="enumerate")
    install(monkeypatch, Liar(LIES[lie]))
    monkeypatch.setattr(paper_program.Asking, "sweep", lambda self, *arguments: None)
    with pytest.warns(MilpWarning):
        cert = certify(*arrays, max_flips=2, engine=ENGINE, workers=1, trust_solver=True)
    contains(cert, truth)
