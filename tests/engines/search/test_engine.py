"""Engines that ask a solver, end to end: right where they decide; exact always, or where the problem is tame."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.helpers.certificates import contains, same
from tests.helpers.local_data import data_folder
from tests.helpers.problems import blobs, gaussian, small_cap
from tests.helpers.small_problems import CLASS_THREATS, certify_problem, mixed_problem
from tests.helpers.solvers import Fake, answer, install

from labelcert import Threat, certify, selfcheck
from labelcert.engines.search import branching
from labelcert.errors import InvalidInput, MilpWarning, MissingExtra
from labelcert.graphs import collective_targets, load_dataset, published_split
from labelcert.models import GCN
from labelcert.paper.milp.solvers import Ending, SolverUnavailable, get_solver
from labelcert.problem import Problem
from labelcert.selfcheck.cases import Case, random_case, random_classes_case
from labelcert.selfcheck.nasty_kernels import DEGENERATE

ENGINES = ["milp", "milp-paper"]


@pytest.fixture
def deep(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leaves are single attacks, so that there is something to branch on."""
    monkeypatch.setattr(branching, "LEAF_SETS", 1)
    monkeypatch.setattr(branching, "LEAF_RELABELLINGS", 1)


# -- agreement with brute force ----------------------------------------------------------------------------------------


def check(case: Case, solver: str = "highs", *, may_be_open: bool = True, engines: list[str] | None = None) -> None:
    """Engine "milp" has to be exact in any case; a solver is trusted where nothing may stay open."""
    truth = selfcheck.brute_force(case)
    options: dict[str, Any] = {"solver": solver, "trust_solver": not may_be_open, "workers": 1}
    with warnings.catch_warnings():
        if may_be_open:
            warnings.simplefilter("ignore", MilpWarning)
        for engine in engines or selfcheck.engines_for(case, searching=True):
            may = may_be_open and engine != "milp"
            assert selfcheck.compare(case, truth, engine, may_be_open=may, **options) == []


@pytest.mark.usefixtures("deep")
@pytest.mark.parametrize("seed", range(3))
def test_two_classes_never_contradict_brute_force(solver: str, seed: int) -> None:
    check(random_case(np.random.default_rng([71, seed]), largest=6), solver)


@pytest.mark.parametrize("seed", range(4))
def test_more_classes_never_contradict_brute_force(seed: int) -> None:
    check(random_classes_case(np.random.default_rng([31, seed]), largest=5))


@pytest.mark.parametrize("seed", range(3))
def test_retraining_what_the_relaxation_leaves_agrees_with_brute_force(seed: int) -> None:
    check(random_case(np.random.default_rng([76, seed]), largest=6), engines=["milp"])


@pytest.mark.usefixtures("deep")
@pytest.mark.parametrize("kind", DEGENERATE)
def test_every_kind_of_kernel(kind: str) -> None:
    """Up to full size; the default solver alone, since SCIP takes its time."""
    rng = np.random.default_rng(72)
    case = random_case(rng, largest=8)
    while case.kind != kind or case.loss != "hinge" or case.labels.size < 6:
        case = random_case(rng, largest=8)
    check(case)


def well_conditioned(seed: int, largest: int) -> Case:
    rng = np.random.default_rng([73, seed])
    while True:
        case = random_case(rng, largest=largest)
        if case.kind in ("generic", "identity", "lattice") and 0.05 < case.C <= 10 and case.labels.size >= 3:
            return case


@pytest.mark.usefixtures("deep")
@pytest.mark.parametrize("seed", range(3))
def test_nothing_stays_open_on_well_conditioned_kernels(solver: str, seed: int) -> None:
    check(well_conditioned(seed, largest=5), solver, may_be_open=False)


@pytest.mark.parametrize("threat", CLASS_THREATS, ids=repr)
@pytest.mark.parametrize("C", [0.05, 2.0])
def test_nothing_stays_open_on_well_conditioned_problems_of_three_classes(threat: Threat, C: float) -> None:
    K, labels, rows = blobs(6, 5, classes=3)
    exact, found = (
        certify(K, labels, rows, C, threat=threat, max_flips=2, engine=engine, workers=1)
        for engine in ("enumerate", "milp")
    )
    assert found.exact
    same(found, exact)


@pytest.mark.parametrize(
    "threat",
    [pytest.param(t, marks=[] if k == 4 else pytest.mark.long, id=repr(t)) for k, t in enumerate(CLASS_THREATS)],
)
@pytest.mark.parametrize("C", [0.05, 2.0])
def test_the_papers_program_decides_well_conditioned_problems_of_three_classes(threat: Threat, C: float) -> None:
    """But for the curve: it has no program for that."""
    K, labels, rows = blobs(6, 5, classes=3)
    exact, paper = (
        certify(K, labels, rows[:2], C, threat=threat, max_flips=2, engine=engine, workers=1, trust_solver=True)
        for engine in ("enumerate", "milp-paper")
    )
    contains(paper, exact)
    assert np.array_equal(paper.radius_lower, exact.radius_lower)
    assert np.array_equal(paper.radius_upper, exact.radius_upper)


@pytest.mark.long
@pytest.mark.timeout(3000)
@pytest.mark.usefixtures("deep")
def test_hundreds_of_random_problems(solver: str) -> None:
    for seed in range(300):
        check(random_case(np.random.default_rng([74, seed]), largest=8), solver)


@pytest.mark.long
@pytest.mark.timeout(3000)
def test_hundreds_of_random_problems_of_more_classes() -> None:
    for seed in range(300):
        case = random_classes_case(np.random.default_rng([37, seed]), largest=6)
        check(case, engines=None if seed % 3 == 0 else ["milp"])


@pytest.mark.long
@pytest.mark.timeout(3000)
@pytest.mark.usefixtures("deep")
def test_random_problems_with_twelve_labels(solver: str) -> None:
    found = seed = 0
    while found < 20:
        case = random_case(np.random.default_rng([75, seed]), largest=12)
        seed += 1
        if case.labels.size >= 10 and case.max_flips is not None and case.max_flips <= 4:
            check(case, solver)
            found += 1


@pytest.mark.long
@pytest.mark.timeout(3000)
@pytest.mark.usefixtures("deep")
def test_many_well_conditioned_problems(solver: str) -> None:
    """Even on these, claims of a solver have been wrong."""
    for seed in range(60):
        check(well_conditioned(100 + seed, largest=7), solver)


HARD_FOR_SOLVERS = {
    "identity, six labels": Case(
        kind="identity",
        K_train=np.eye(6),
        labels=np.array(["ham"] * 5 + ["spam"]),
        K_test=np.array([[0.0, 1.0, 0.0, 1.0, 1.0, 0.0], [-1.0, 1.0, 1.0, 0.0, -1.0, -1.0]]),
        C=1e9,
        loss="square",
        threat=Threat(costs=[1, 3, 2, 3, 1, 1]),
        max_flips=6,
    ),
    "identity, five labels": Case(
        kind="identity",
        K_train=np.eye(5),
        labels=np.array([0, 1, 0, 0, 1]),
        K_test=np.array([[1.0, -1.0, 1.0, -1.0, 0.0], [0.0, 1.0, -1.0, 1.0, 0.0], [0.0, 0.0, 0.0, 1.0, -1.0]]),
        C=1e9,
        loss="square",
        threat=Threat(trusted=[False, False, False, True, False]),
        max_flips=3,
    ),
    "rows with large errors": Case(
        kind="zero-rows",
        K_train=np.array([[4.0, 4, 4, -4, 0], [4, 9, 7, -7, 1], [4, 7, 9, -5, 3], [-4, -7, -5, 6, 0], [0, 1, 3, 0, 2]]),
        labels=np.array([3, 7, 7, 3, 7]),
        K_test=np.array(
            [[0.0, 0, 0, 0, 0], [-4, -2, 2, 4, 4], [0, 0, 0, 0, 0], [-2, -6, -2, 5, 1], [-4, -7, -9, 5, -3]]
        ),
        C=1e9,
        loss="square",
        threat=Threat(costs=[3, 3, 1, 2, 3]),
        max_flips=None,
    ),
}


@pytest.mark.parametrize("name", HARD_FOR_SOLVERS)
def test_programs_on_which_solvers_have_been_wrong(name: str, solver: str) -> None:
    check(HARD_FOR_SOLVERS[name], solver)


# -- a published graph -------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def cora() -> tuple[np.ndarray, np.ndarray, np.ndarray, float]:
    graph = load_dataset("cora-ml-b", data_dir=data_folder("cora_ml.npz"))
    split = published_split(graph, seed=0)
    model = GCN(C=0.075)
    K, rows = model.kernel_blocks(graph, split.labeled, collective_targets(split, seed=0)[:6])
    return K, graph.labels[split.labeled], rows, model.C


@pytest.mark.usefixtures("deep")
def test_branching_on_cora_ml_b(cora: tuple[Any, Any, Any, float]) -> None:
    K, labels, rows, C = cora
    assert labels.size == 20
    walked = certify(K, labels, rows, C, max_flips=3, engine="enumerate")
    searched = certify(K, labels, rows, C, max_flips=3, engine="milp")
    assert searched.exact
    assert searched.run.stages[0].statistics["subtrees"] > labels.size / 2
    same(searched, walked)


@pytest.mark.long
def test_the_papers_program_on_cora_ml_b(cora: tuple[Any, Any, Any, float]) -> None:
    """With the fastest solver."""
    try:
        get_solver("gurobi")
    except (MissingExtra, SolverUnavailable) as error:
        pytest.skip(str(error))
    K, labels, rows, C = cora
    chosen = rows[[0, 3]]
    walked = certify(K, labels, chosen, C, max_flips=1, engine="enumerate")
    asked = certify(K, labels, chosen, C, max_flips=1, engine="milp-paper", solver="gurobi", collective=False)
    assert walked.radius_lower.tolist() == [2, 1]
    assert np.array_equal(asked.radius_claimed, walked.radius_lower)
    assert np.array_equal(asked.radius_upper, walked.radius_upper)


@pytest.mark.long
@pytest.mark.timeout(3000)
def test_the_papers_program_on_cora_ml_b_with_every_solver(cora: tuple[Any, Any, Any, float], solver: str) -> None:
    K, labels, rows, C = cora
    walked = certify(K, labels, rows[:3], C, max_flips=1, engine="enumerate")
    asked = certify(K, labels, rows[:3], C, max_flips=1, engine="milp-paper", solver=solver, trust_solver=True)
    same(asked, walked)


# -- options and records -----------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("deep")
@pytest.mark.parametrize("engine", ENGINES)
def test_workers_do_not_change_the_answer(engine: str) -> None:
    """Nor does what ran before, with another number of threads."""
    K, labels, rows = gaussian(4, 3)
    one, two, again = (
        certify(K, labels, rows, 2.0, max_flips=2, engine=engine, workers=w, trust_solver=True) for w in (1, 2, 1)
    )
    assert one.exact
    same(one, two)
    same(one, again)


def test_workers_do_not_change_the_answer_about_four_classes() -> None:
    arrays = blobs(12, 8, classes=4)
    exact = certify(*arrays, 3.0, max_flips=2, engine="enumerate")
    for workers in (1, 2):
        cert = certify(*arrays, 3.0, max_flips=2, engine="milp", workers=workers, collective=False)
        assert np.array_equal(cert.radius_lower, exact.radius_lower)
        assert np.array_equal(cert.radius_upper, exact.radius_upper)


@pytest.mark.parametrize("arrays", [gaussian(5, 2), blobs(8, 3, classes=3)], ids=["two classes", "three classes"])
def test_the_papers_program_is_about_the_hinge_loss(arrays: tuple[Any, Any, Any]) -> None:
    with pytest.raises(InvalidInput, match="hinge loss"):
        certify(*arrays, 1.0, loss="square", engine="milp-paper")
    assert certify(*arrays, 1.0, loss="square", max_flips=3, engine="milp").exact


def test_linear_scores_need_no_retraining() -> None:
    K, labels, rows = gaussian(12, 20)
    for options in ({"C": small_cap(K)}, {"C": 1.0, "loss": "square"}):
        walked = certify(K, labels, rows, max_flips=3, engine="enumerate", **options)
        asked = certify(K, labels, rows, max_flips=3, engine="milp", **options)
        assert asked.exact
        same(asked, walked)


@pytest.mark.parametrize("loss", ["hinge", "square"])
def test_linear_scores_of_four_classes(loss: str) -> None:
    K, y, rows = blobs(12, 6, classes=4)
    C = small_cap(K) if loss == "hinge" else 1.0
    exact, cert = (certify(K, y, rows, C, loss=loss, max_flips=3, engine=e) for e in ("closed-form", "milp"))
    assert cert.exact
    same(cert, exact)


@pytest.mark.parametrize("arrays", [gaussian(4, 2), blobs(3, 2, classes=3)], ids=["two classes", "three classes"])
def test_answers_are_kept_in_the_certificate(solver: str, arrays: tuple[Any, Any, Any]) -> None:
    cert = certify(*arrays, 2.0, max_flips=1, engine="milp-paper", solver=solver)
    [stage] = cert.run.stages
    assert (stage.engine, stage.max_flips) == ("milp-paper", 1)
    assert stage.statistics["solver"].startswith(solver)
    assert cert.run.solver == solver
    solves = stage.statistics["solves"]
    assert {record["node"] for record in solves if record["node"] is not None} == {0, 1}
    for record in solves:
        assert record["budget"] == 1
        assert record["status"] in {status.value for status in Ending}
        assert record["tree_nodes"] >= 0
        assert record["bound"] is None or isinstance(record["bound"], float)
    assert stage.statistics["not_believed"] == []


@pytest.mark.usefixtures("deep")
def test_rivals_are_counted_by_how_they_were_excluded() -> None:
    cert = certify_problem(mixed_problem(3), "milp", collective=False)
    excluded = cert.run.stages[0].statistics["rivals_excluded"]
    assert set(excluded) == {"by_relaxation", "by_pair_relaxation", "by_branching"}
    assert excluded["by_relaxation"] > 0
    assert excluded["by_branching"] > 0


@pytest.mark.parametrize(
    "problem", [Problem.build(*gaussian(10, 20), 2.0, max_flips=1), mixed_problem(3, max_flips=1)], ids=["2", "3"]
)
@pytest.mark.usefixtures("deep")
def test_the_relaxation_proves_nodes_and_no_mixed_integer_solver_is_asked(
    problem: Problem, monkeypatch: pytest.MonkeyPatch
) -> None:
    truth = certify_problem(problem, "enumerate")
    fake = Fake(problem, lambda asked: answer(Ending.FAILED))
    install(monkeypatch, fake)
    cert = certify_problem(problem, "milp")
    same(cert, truth)
    assert fake.opened == 0
    statistics = cert.run.stages[0].statistics
    assert statistics["proved_by_relaxation"] > 0
    assert "solves" not in statistics
    assert np.any(cert.radius_lower == 2)


def test_small_leaves_mean_more_subtrees(monkeypatch: pytest.MonkeyPatch) -> None:
    arrays = gaussian(9, 8, seed=132, dims=2)
    truth = certify(*arrays, 0.5, max_flips=3, engine="enumerate")
    subtrees = []
    for leaves in (300_000, 1):
        monkeypatch.setattr(branching, "LEAF_SETS", leaves)
        cert = certify(*arrays, 0.5, max_flips=3, engine="milp", collective=False)
        assert np.array_equal(cert.radius_lower, truth.radius_lower)
        assert np.array_equal(cert.radius_upper, truth.radius_upper)
        subtrees.append(cert.run.stages[0].statistics["subtrees"])
    assert 0 == subtrees[0] < subtrees[1]


@pytest.mark.parametrize("make", [gaussian, blobs])
@pytest.mark.parametrize("engine", ENGINES)
def test_time_limits_and_nothing_to_flip(make: Callable[..., tuple[Any, Any, Any]], engine: str) -> None:
    K, y, rows = make(8, 3)
    full = certify(K, y, rows, 2.0, max_flips=2, engine="enumerate")
    part = certify(K, y, rows, 2.0, max_flips=2, engine=engine, node_time_limit=1e-6, workers=1)
    contains(part, full)
    solves = part.run.stages[0].statistics.get("solves")
    assert engine == "milp" or solves[0]["status"] == "time limit"
    nothing = certify(K, y, rows, 2.0, max_flips=1, engine=engine, threat=Threat(trusted=np.ones(8, dtype=bool)))
    assert nothing.exact
    assert np.all(nothing.radius_lower == 2)
