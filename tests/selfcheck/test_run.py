"""Runs of the self-check: nothing is lost, and everything can be run again alone."""

from __future__ import annotations

import dataclasses
import warnings
from functools import partial
from typing import Any

import numpy as np
import pytest
from tests.helpers.problems import gaussian, hand_made

from labelcert import selfcheck
from labelcert.certificate import Certificate, Stop
from labelcert.engines.registry import engine_names
from labelcert.engines.search import branching
from labelcert.selfcheck import Case, SelfCheck, Truth, brute_force, comparing
from labelcert.workers import Workers


def test_no_contradiction() -> None:
    assert selfcheck.run(24, seed=5, largest=6, workers=1) == SelfCheck(24, [])


@pytest.mark.long
@pytest.mark.timeout(3000)
def test_no_contradiction_in_thousands_of_problems() -> None:
    assert selfcheck.run(3000, seed=1) == SelfCheck(3000, [])


def test_every_engine_is_asked_and_branch_and_bound_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def note(case: Case, truth: object, engine: str, **options: Any) -> list[str]:
        asked.append((engine, branching.LEAF_SETS, branching.LEAF_RELABELLINGS))
        return []

    monkeypatch.setattr(comparing, "compare", note)
    before = branching.LEAF_SETS, branching.LEAF_RELABELLINGS
    case = hand_made(*gaussian(4, 2), 1e-3)
    assert selfcheck.check(case, milp=True) == []
    assert {engine for engine, *_ in asked} == set(engine_names())
    leaves = [tuple(sizes) for engine, *sizes in asked if engine == "milp"]
    assert leaves == [before, (1, 1)]
    assert before == (branching.LEAF_SETS, branching.LEAF_RELABELLINGS)


def test_small_leaves_make_branch_and_bound_branch() -> None:
    case = hand_made(*gaussian(6, 4), 1.0)
    subtrees = []
    for leaf in (1, branching.LEAF_SETS):
        with comparing._leaves_of(leaf):
            subtrees.append(case.certify("milp", workers=1).run.stages[0].statistics["subtrees"])
    assert subtrees[0] > 5
    assert subtrees[1] == 0


@pytest.fixture
def confused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Brute force that is wrong about every kernel of one kind: all engines contradict it."""

    def truth(case: Case) -> Truth:
        found = brute_force(case)
        wrong = case.kind == "identity"
        return dataclasses.replace(found, radius=[r + 1 for r in found.radius]) if wrong else found

    monkeypatch.setattr(comparing, "brute_force", truth)


@pytest.mark.usefixtures("confused")
def test_a_contradiction_can_be_run_again_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(comparing, "_searched", lambda *_: [])  # what searches leave open depends on the machine
    how: dict[str, Any] = {"seed": 2, "largest": 4, "workers": 1}
    found = selfcheck.run(30, **how)
    assert found.problems == 30
    assert found.wrong
    assert [line for line in found.wrong if ", identity: node" not in line] == []
    name = found.wrong[0].split(":")[0]
    assert name.startswith("seed 2, problem ")
    k = int(name.removeprefix("seed 2, problem "))
    again = selfcheck.run(1, first=k, **how)
    assert again.wrong == [line for line in found.wrong if line.startswith(f"{name}:")]


def test_an_engine_that_raises_is_a_contradiction(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(case: Case, engine: str, **options: Any) -> Certificate:
        raise OverflowError("too large")

    monkeypatch.setattr(Case, "certify", fail)
    assert selfcheck.run(2, seed=0, first=4, workers=1).wrong == [
        f"seed 0, problem {k}: raises OverflowError: too large" for k in (4, 5)
    ]


def test_a_proof_that_the_final_check_withdraws_is_a_contradiction(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = Case.certify

    def certify(case: Case, engine: str, **options: Any) -> Certificate:
        warnings.warn("withdrawn", RuntimeWarning, stacklevel=1)
        return honest(case, engine, **options)

    monkeypatch.setattr(Case, "certify", certify)
    found = selfcheck.run(1, seed=0, workers=1)
    assert found.wrong == ["seed 0, problem 0: raises RuntimeWarning: withdrawn"]


def test_an_interrupt_keeps_what_was_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def work(k: int, **options: Any) -> list[str]:
        if k == 3:
            raise KeyboardInterrupt
        return [f"problem {k}"]

    monkeypatch.setattr(comparing, "_problem", work)
    shown = []
    outcome = selfcheck.run(9, seed=0, workers=1, report=lambda done, total: shown.append((done, total)))
    assert outcome == SelfCheck(3, ["problem 0", "problem 1", "problem 2"], interrupted=True)
    assert shown == [(1, 9), (2, 9), (3, 9)]


def test_an_interrupted_certificate_ends_the_check_instead_of_contradicting(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = Case.certify

    def certify(case: Case, engine: str, **options: Any) -> Certificate:
        cert = honest(case, engine, **options)
        return dataclasses.replace(cert, run=dataclasses.replace(cert.run, stopped=Stop.INTERRUPTED))

    monkeypatch.setattr(Case, "certify", certify)
    assert selfcheck.run(5, seed=0, largest=4, workers=1) == SelfCheck(0, [], interrupted=True)


def test_several_processes_find_the_same_in_the_same_order() -> None:
    work: Any = partial(divmod, 100)  # something that other processes know
    numbers = range(3, 12)
    with Workers(2) as pool:
        assert list(pool.map(work, numbers)) == list(map(work, numbers))


def test_a_problem_depends_on_its_number_alone() -> None:
    def problem(k: int) -> bytes:
        return comparing.nasty_case(np.random.default_rng([7, k]), k, 6).build().digest().encode()

    assert [problem(k) for k in (11, 3)] == [problem(k) for k in (3, 11)][::-1]


@pytest.mark.parametrize("k", [3734, 4688])
def test_relaxation_is_tight_where_large_duals_and_tied_nodes_would_hide_loose_bounds(k: int) -> None:
    assert selfcheck.run(1, seed=0, first=k, workers=1) == SelfCheck(1, [])
