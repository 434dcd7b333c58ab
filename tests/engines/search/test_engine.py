"""Engines that ask a solver: right where they decide, open where the solver cannot be believed."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.milp.test_solvers import solver
from tests.problems import gaussian

import labelcert.engines.milp as module
from labelcert import Certificate, Threat, certify, selfcheck
from labelcert.engines import MilpWarning
from labelcert.errors import InvalidInput, MissingExtra
from labelcert.graphs import collective_targets, load_dataset, published_split
from labelcert.milp import relaxation
from labelcert.milp.model import Model
from labelcert.milp.solvers import Answer, Limits, Row, SolverUnavailable, Status, get_solver
from labelcert.models import GCN
from labelcert.problem import Problem
from labelcert.svm.exact import ExactSVM
from labelcert.svm.pivoting import new_scratch, settle
from labelcert.svm.training import loose_machine

__all__ = ["solver"]

ENGINES = ["milp", "milp-paper"]
ENDS = ("radius_lower", "radius_upper", "collective_lower", "collective_upper")


def contains(part: Certificate, full: Certificate) -> None:
    assert np.all(part.radius_lower <= full.radius_lower)
    assert np.all(part.radius_upper >= full.radius_upper)
    assert np.all(part.collective_lower <= full.collective_lower)
    assert np.all(part.collective_upper >= full.collective_upper)


def same(a: Certificate, b: Certificate) -> None:
    for name in ENDS:
        assert np.array_equal(getattr(a, name), getattr(b, name)), name


# -- agreement -------------------------------------------------------------------------------------------------------


def check(case: selfcheck.Case, solver: str, *, may_be_open: bool = True) -> None:
    truth = selfcheck.brute_force(case)
    with warnings.catch_warnings():
        if may_be_open:
            warnings.simplefilter("ignore", MilpWarning)
        for engine in selfcheck.milp_engines_for(case):
            wrong = selfcheck.compare(case, truth, engine, may_be_open=may_be_open, solver=solver, workers=1)
            assert wrong == []


@pytest.mark.parametrize("seed", range(6))
def test_never_contradicts_brute_force(solver: str, seed: int) -> None:
    check(selfcheck.random_case(np.random.default_rng([71, seed]), largest=6), solver)


@pytest.mark.parametrize("kind", selfcheck.KERNELS)
def test_every_kind_of_kernel(kind: str) -> None:
    """Up to full size; the default solver alone, since SCIP takes its time."""
    rng = np.random.default_rng(72)
    case = selfcheck.random_case(rng, largest=8)
    while case.kind != kind or case.loss != "hinge" or case.labels.size < 6:
        case = selfcheck.random_case(rng, largest=8)
    check(case, "highs")


def well_conditioned(seed: int, largest: int) -> selfcheck.Case:
    rng = np.random.default_rng([73, seed])
    while True:
        case = selfcheck.random_case(rng, largest=largest)
        if case.kind in ("generic", "identity", "lattice") and 0.05 < case.C <= 10 and case.labels.size >= 3:
            return case


@pytest.mark.parametrize("seed", range(5))
def test_nothing_stays_open_on_well_conditioned_kernels(solver: str, seed: int) -> None:
    check(well_conditioned(seed, largest=5), solver, may_be_open=False)


@pytest.mark.long
@pytest.mark.timeout(3000)
def test_hundreds_of_random_problems(solver: str) -> None:
    for seed in range(300):
        check(selfcheck.random_case(np.random.default_rng([74, seed]), largest=8), solver)


@pytest.mark.long
@pytest.mark.timeout(3000)
def test_random_problems_with_twelve_labels(solver: str) -> None:
    found = seed = 0
    while found < 20:
        case = selfcheck.random_case(np.random.default_rng([75, seed]), largest=12)
        seed += 1
        if case.labels.size >= 10 and case.max_flips is not None and case.max_flips <= 4:
            check(case, solver)
            found += 1


@pytest.mark.long
@pytest.mark.timeout(3000)
def test_many_well_conditioned_problems_are_decided(solver: str) -> None:
    for seed in range(60):
        check(well_conditioned(100 + seed, largest=7), solver, may_be_open=False)


@pytest.fixture(scope="module")
def cora() -> tuple[np.ndarray, np.ndarray, np.ndarray, float]:
    named = os.environ.get("LABELCERT_DATA_DIR")
    beside = Path(__file__).resolve().parents[2].parent / "shared" / "datasets"
    for folder in (named, beside):
        if folder and (Path(folder) / "cora_ml.npz").is_file():
            graph = load_dataset("cora-ml-b", data_dir=Path(folder))
            split = published_split(graph, seed=0)
            model = GCN(C=0.075)
            K, rows = model.kernel_blocks(graph, split.labeled, collective_targets(split, seed=0)[:6])
            return K, graph.labels[split.labeled], rows, model.C
    pytest.skip("no local copies of the datasets: name a folder in LABELCERT_DATA_DIR")


def test_compact_program_on_cora_ml_b(cora: tuple[Any, Any, Any, float], solver: str) -> None:
    K, labels, rows, C = cora
    assert labels.size == 20
    walked = certify(K, labels, rows, C, max_flips=2, engine="enumerate")
    asked = certify(K, labels, rows, C, max_flips=2, engine="milp", solver=solver)
    assert asked.exact
    same(asked, walked)


def test_the_paper_s_program_on_cora_ml_b(cora: tuple[Any, Any, Any, float]) -> None:
    """With the fastest solver; the others are among the long tests."""
    try:
        get_solver("gurobi")
    except (MissingExtra, SolverUnavailable) as error:
        pytest.skip(str(error))
    K, labels, rows, C = cora
    chosen = rows[[0, 3]]
    walked = certify(K, labels, chosen, C, max_flips=1, engine="enumerate")
    asked = certify(K, labels, chosen, C, max_flips=1, engine="milp-paper", solver="gurobi", collective=False)
    assert walked.radius_lower.tolist() == [2, 1]
    assert np.array_equal(asked.radius_lower, walked.radius_lower)
    assert np.array_equal(asked.radius_upper, walked.radius_upper)


@pytest.mark.long
@pytest.mark.timeout(3000)
def test_the_paper_s_program_on_cora_ml_b_with_every_solver(cora: tuple[Any, Any, Any, float], solver: str) -> None:
    K, labels, rows, C = cora
    walked = certify(K, labels, rows[:3], C, max_flips=1, engine="enumerate")
    asked = certify(K, labels, rows[:3], C, max_flips=1, engine="milp-paper", solver=solver)
    same(asked, walked)


@pytest.mark.parametrize("engine", ENGINES)
def test_workers_do_not_change_the_answer(engine: str) -> None:
    """Nor does what ran before, with another number of threads."""
    K, labels, rows = gaussian(5, 3)
    one, two, again = (certify(K, labels, rows, 2.0, max_flips=2, engine=engine, workers=w) for w in (1, 2, 1))
    assert one.exact
    same(one, two)
    same(one, again)


def test_the_paper_s_program_is_about_the_hinge_loss() -> None:
    K, labels, rows = gaussian(5, 2)
    with pytest.raises(InvalidInput, match="hinge"):
        certify(K, labels, rows, 1.0, loss="square", engine="milp-paper")
    assert certify(K, labels, rows, 1.0, loss="square", engine="milp").exact


def test_linear_scores_need_no_retraining(solver: str) -> None:
    K, labels, rows = gaussian(12, 20)
    C = float(0.99 / np.abs(K).sum(axis=1).max())
    for options in ({"C": C}, {"C": 1.0, "loss": "square"}):
        walked = certify(K, labels, rows, max_flips=3, engine="enumerate", **options)
        asked = certify(K, labels, rows, max_flips=3, engine="milp", solver=solver, **options)
        same(asked, walked)


def test_answers_are_kept_in_the_certificate(solver: str) -> None:
    K, labels, rows = gaussian(5, 2)
    cert = certify(K, labels, rows, 2.0, max_flips=1, engine="milp-paper", solver=solver)
    statistics = cert.settings["statistics"]
    assert statistics["solver"].startswith(solver)
    assert cert.settings["solver"] == solver
    solves = statistics["solves"]
    assert {record["node"] for record in solves if record["node"] is not None} == {0, 1}
    for record in solves:
        assert record["budget"] == 1
        assert record["status"] in {status.value for status in Status}
        assert record["tree_nodes"] >= 0
        assert record["bound"] is None or isinstance(record["bound"], float)
    assert statistics["not_believed"] == []


def test_the_relaxation_proves_nodes_without_a_solver(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the relaxation proves stands even where the solver is of no use."""
    K, labels, rows = gaussian(10, 20)
    truth = certify(K, labels, rows, 2.0, max_flips=1, engine="enumerate")
    install(monkeypatch, lambda model, cost, rows: answer(Status.TIME_LIMIT))
    cert = certify(K, labels, rows, 2.0, max_flips=1, engine="milp")
    contains(cert, truth)
    assert cert.settings["statistics"]["proved_by_relaxation"] > 0
    assert np.any(cert.radius_lower == 2)


# -- injected answers ------------------------------------------------------------------------------------------------

Reply = Callable[[Model, np.ndarray, Sequence[Row]], Answer]


@dataclass
class Fake:
    """A solver that says what it is told to say."""

    reply: Reply
    name: str = "fake"
    solves: list[np.ndarray] = field(default_factory=list)
    opened: int = 0
    closed: int = 0

    def version(self) -> str:
        return "0.0"

    def open(self, model: Model, threads: int) -> FakeSession:
        self.opened += 1
        return FakeSession(self, model)


@dataclass
class FakeSession:
    fake: Fake
    model: Model

    def solve(
        self, cost: np.ndarray, limits: Limits, start: np.ndarray | None = None, rows: Sequence[Row] = ()
    ) -> Answer:
        self.fake.solves.append(cost)
        return self.fake.reply(self.model, cost, rows)

    def close(self) -> None:
        self.fake.closed += 1


def install(monkeypatch: pytest.MonkeyPatch, reply: Reply) -> Fake:
    fake = Fake(reply)
    monkeypatch.setattr(module, "get_solver", lambda name: fake)
    return fake


def answer(status: Status, *, bound: float = -np.inf, x: np.ndarray | None = None, objective: float = np.inf) -> Answer:
    return Answer(status, objective, bound, x, nodes=1, seconds=0.0, detail=f"fake {status}")


def labelled(model: Model, y: np.ndarray, flipped: np.ndarray) -> np.ndarray:
    """A point with these labels flipped; everything else in it is 0."""
    x = np.zeros(model.lower.size)
    if "y'" in model.columns:
        x[model.columns["y'"]] = np.where(flipped, y < 0, y > 0)
    else:
        x[model.columns["state"][flipped, 1, 2]] = 1.0
        x[model.columns["state"][~flipped, 0, 2]] = 1.0
    return x


K_TRAIN, LABELS, K_TEST = gaussian(7, 6, seed=43)
SIGNS = np.where(LABELS == 1, 1.0, -1.0)
NOBODY, EVERYBODY = np.zeros(7, dtype=bool), np.ones(7, dtype=bool)
ARGUMENTS: dict[str, Any] = {"C": 2.0, "max_flips": 2}

SILENT: dict[str, Reply] = {
    "time limit": lambda model, cost, rows: answer(Status.TIME_LIMIT),
    "interrupted": lambda model, cost, rows: answer(Status.INTERRUPTED),
    "time limit with a useless bound": lambda model, cost, rows: answer(Status.TIME_LIMIT, bound=-100.0),
    "time limit, unchanged": lambda model, cost, rows: answer(
        Status.TIME_LIMIT, bound=-100.0, x=labelled(model, SIGNS, NOBODY), objective=1.0
    ),
}
UNBELIEVABLE: dict[str, Reply] = {
    "infeasible": lambda model, cost, rows: answer(Status.INFEASIBLE, bound=np.inf),
    "infeasible, no bound": lambda model, cost, rows: answer(Status.INFEASIBLE),
    "failed": lambda model, cost, rows: answer(Status.FAILED),
    "failed with a bound": lambda model, cost, rows: answer(Status.FAILED, bound=1e-3),
    "bound is NaN": lambda model, cost, rows: answer(Status.OPTIMAL, bound=np.nan),
    "time limit, bound is NaN": lambda model, cost, rows: answer(Status.TIME_LIMIT, bound=np.nan),
    "bound is infinite": lambda model, cost, rows: answer(Status.OPTIMAL, bound=np.inf),
    "bound above what the clean labels attain": lambda model, cost, rows: answer(Status.DECIDED, bound=1e3),
    "solution and bound above it": lambda model, cost, rows: answer(
        Status.OPTIMAL, bound=1e3, x=labelled(model, SIGNS, NOBODY), objective=1e3
    ),
    "attack beyond the budget": lambda model, cost, rows: answer(
        Status.OPTIMAL, bound=-1e3, x=labelled(model, SIGNS, EVERYBODY), objective=-1e3
    ),
    "solution with NaN": lambda model, cost, rows: answer(
        Status.OPTIMAL, bound=-1e3, x=np.full(model.lower.size, np.nan), objective=-1e3
    ),
    "solution with infinities": lambda model, cost, rows: answer(
        Status.OPTIMAL, bound=-1e3, x=np.full(model.lower.size, np.inf), objective=-1e3
    ),
}


@pytest.fixture(scope="module")
def truth() -> Certificate:
    cert = certify(K_TRAIN, LABELS, K_TEST, engine="enumerate", **ARGUMENTS)
    # There is something to get wrong in both directions, at both budgets.
    assert {1, 2, 3} <= set(cert.radius_lower.tolist())
    return cert


@pytest.fixture
def helpless(monkeypatch: pytest.MonkeyPatch) -> None:
    """The compact engine without its own proofs and attacks: everything is up to the solver."""
    monkeypatch.setattr(module.relaxation, "narrow", lambda problem, ranges, score, over: ranges)
    monkeypatch.setattr(module.NodeSearch, "attack", lambda search: None)


@pytest.mark.usefixtures("helpless")
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("reply", SILENT.values(), ids=SILENT)
def test_an_unfinished_answer_decides_nothing(
    monkeypatch: pytest.MonkeyPatch, truth: Certificate, engine: str, reply: Reply
) -> None:
    fake = install(monkeypatch, reply)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", message=".*lost the solution")  # told, and nothing decided
        cert = certify(K_TRAIN, LABELS, K_TEST, engine=engine, **ARGUMENTS)
    nothing_decided(cert, truth, fake)


@pytest.mark.usefixtures("helpless")
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("reply", UNBELIEVABLE.values(), ids=UNBELIEVABLE)
def test_an_unbelievable_answer_decides_nothing_and_is_told(
    monkeypatch: pytest.MonkeyPatch, truth: Certificate, engine: str, reply: Reply
) -> None:
    fake = install(monkeypatch, reply)
    with pytest.warns(MilpWarning):
        cert = certify(K_TRAIN, LABELS, K_TEST, engine=engine, **ARGUMENTS)
    nothing_decided(cert, truth, fake)
    # Every single node and budget is accounted for, even where not all are printed.
    assert len(cert.settings["statistics"]["not_believed"]) >= K_TEST.shape[0] + 1


def nothing_decided(cert: Certificate, truth: Certificate, fake: Fake) -> None:
    contains(cert, truth)
    assert np.all(cert.radius_lower == 1)
    assert np.all(cert.radius_upper == cert.never)
    assert cert.collective_lower.tolist() == [0, 0, 0]
    assert cert.collective_upper.tolist() == [0, 6, 6]
    assert set(cert.verdicts(flips=1)) == {"unknown"}
    assert len(fake.solves) >= 7
    assert fake.opened == fake.closed


@pytest.mark.usefixtures("helpless")
@pytest.mark.parametrize("engine", ENGINES)
def test_a_finished_search_without_a_solution_decides_nothing(
    monkeypatch: pytest.MonkeyPatch, truth: Certificate, engine: str
) -> None:
    fake = install(monkeypatch, lambda model, cost, rows: answer(Status.OPTIMAL, bound=-100.0))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MilpWarning)
        cert = certify(K_TRAIN, LABELS, K_TEST, engine=engine, **ARGUMENTS)
    nothing_decided(cert, truth, fake)


@pytest.mark.usefixtures("helpless")
@pytest.mark.parametrize("engine", ENGINES)
def test_a_retrained_attack_outweighs_every_bound(
    monkeypatch: pytest.MonkeyPatch, truth: Certificate, engine: str
) -> None:
    """A plausible lie: each node is called robust until an attack on another one, retrained, changes it, too."""
    vulnerable = np.flatnonzero(truth.radius_upper == 1)
    first = int(vulnerable[0])
    shared = truth.witness(first)
    assert shared is not None
    flipped = np.isin(np.arange(7), list(shared))
    scores = K_TEST[first] * (1.0 if truth.predictions[first] == truth.classes[1] else -1.0)

    def reply(model: Model, cost: np.ndarray, rows: Sequence[Row]) -> Answer:
        own = cost[model.columns["z"]]
        if np.linalg.norm(own) > 0 and np.allclose(own / np.linalg.norm(own), scores / np.linalg.norm(scores)):
            return answer(Status.DECIDED, bound=-1e3, x=labelled(model, SIGNS, flipped), objective=-1.0)
        return answer(Status.DECIDED, bound=1e-2)

    install(monkeypatch, reply)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MilpWarning)
        cert = certify(K_TRAIN, LABELS, K_TEST, engine=engine, collective=False, workers=1, **ARGUMENTS)
    assert cert.radius_upper[first] == 1
    assert np.all(cert.radius_lower <= cert.radius_upper)
    # Whatever the shared attack changes is known to be vulnerable, and never called robust at one flip.
    assert np.all(cert.radius_lower[cert.radius_upper == 1] == 1)


@pytest.mark.usefixtures("helpless")
@pytest.mark.parametrize("engine", ENGINES)
def test_a_labelling_that_changes_nothing_is_no_witness(
    monkeypatch: pytest.MonkeyPatch, truth: Certificate, engine: str
) -> None:
    """The solver claims a negative score for the clean labels, again and again."""

    def reply(model: Model, cost: np.ndarray, rows: Sequence[Row]) -> Answer:
        return answer(Status.OPTIMAL, bound=-1e3, x=labelled(model, SIGNS, NOBODY), objective=-1e3)

    fake = install(monkeypatch, reply)
    with pytest.warns(MilpWarning):
        cert = certify(K_TRAIN, LABELS, K_TEST, engine=engine, **ARGUMENTS)
    nothing_decided(cert, truth, fake)
    assert all("excluded" in complaint for complaint in cert.settings["statistics"]["not_believed"])


@pytest.mark.usefixtures("helpless")
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("bound", [np.inf, 1e3, np.nan])
def test_a_bound_is_doubted_after_a_labelling_was_excluded_too(
    monkeypatch: pytest.MonkeyPatch, truth: Certificate, engine: str, bound: float
) -> None:
    """First a labelling with a score near zero, so the solver says; then nothing is left, so it says."""

    def reply(model: Model, cost: np.ndarray, rows: Sequence[Row]) -> Answer:
        if not rows:
            return answer(Status.OPTIMAL, bound=-1e3, x=labelled(model, SIGNS, NOBODY), objective=0.0)
        return answer(Status.OPTIMAL, bound=bound)

    install(monkeypatch, reply)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        cert = certify(K_TRAIN, LABELS, K_TEST, engine=engine, **ARGUMENTS)
    contains(cert, truth)
    assert any(warning.category is MilpWarning for warning in caught)


@pytest.mark.usefixtures("helpless")
@pytest.mark.parametrize("engine", ENGINES)
def test_a_true_attack_counts_whatever_the_solver_says_of_it(
    monkeypatch: pytest.MonkeyPatch, truth: Certificate, engine: str
) -> None:
    """Witnesses are retrained: a correct labelling in a broken answer is a proof all the same."""
    vulnerable = int(np.flatnonzero(truth.radius_upper == 1)[0])
    witness = truth.witness(vulnerable)
    assert witness is not None
    flipped = np.isin(np.arange(7), list(witness))

    def reply(model: Model, cost: np.ndarray, rows: Sequence[Row]) -> Answer:
        return answer(Status.TIME_LIMIT, bound=-1e3, x=labelled(model, SIGNS, flipped), objective=5.0)

    install(monkeypatch, reply)
    cert = certify(K_TRAIN, LABELS, K_TEST, engine=engine, **ARGUMENTS)
    contains(cert, truth)
    assert cert.radius_upper[vulnerable] == 1
    assert cert.witness(vulnerable) == witness
    assert cert.collective_lower[1] >= 1


@pytest.mark.usefixtures("helpless")
@pytest.mark.parametrize("engine", ENGINES)
def test_a_bound_within_the_margin_is_not_robust(
    monkeypatch: pytest.MonkeyPatch, truth: Certificate, engine: str
) -> None:
    fake = install(monkeypatch, lambda model, cost, rows: answer(Status.OPTIMAL, bound=1e-9))
    cert = certify(K_TRAIN, LABELS, K_TEST, engine=engine, collective=False, **ARGUMENTS)
    assert np.all(cert.radius_lower == 1)
    contains(cert, truth)
    assert len(fake.solves) == 6


@pytest.mark.parametrize("engine", ENGINES)
def test_an_open_node_leaves_the_others_alone(monkeypatch: pytest.MonkeyPatch, engine: str) -> None:
    """One solve in three breaks; the rest comes from a real solver."""
    from labelcert.milp.solvers.highs import Highs

    count = 0

    def reply(model: Model, cost: np.ndarray, rows: Sequence[Row]) -> Answer:
        nonlocal count
        count += 1
        if count % 3 == 0:
            return answer(Status.FAILED)
        return Highs().open(model, 1).solve(cost, Limits(), None, rows)

    monkeypatch.setattr(module.relaxation, "narrow", lambda problem, ranges, score, over: ranges)
    install(monkeypatch, reply)
    with pytest.warns(MilpWarning):
        cert = certify(K_TRAIN, LABELS, K_TEST, engine=engine, workers=1, C=2.0, max_flips=1)
    contains(cert, certify(K_TRAIN, LABELS, K_TEST, C=2.0, max_flips=1, engine="enumerate"))
    assert any("fake failed" in complaint for complaint in cert.settings["statistics"]["not_believed"])
    assert not cert.exact
    assert np.any(cert.radius_lower == 2)


def test_many_complaints_are_summed_up(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, UNBELIEVABLE["failed"])
    with pytest.warns(MilpWarning) as caught:
        certify(K_TRAIN, LABELS, K_TEST, engine="milp-paper", **ARGUMENTS)
    messages = [str(warning.message) for warning in caught]
    assert len(messages) == 6
    assert "answers more" in messages[-1]
    assert "stays open" in messages[0]


def test_a_broken_solver_under_all_threat_options(monkeypatch: pytest.MonkeyPatch) -> None:
    threat = Threat(
        costs=[1, 2, 1, 2, 1, 2, 1], groups=["a"] * 4 + [None] * 3, group_budgets=2, trusted=np.arange(7) == 3
    )
    options: dict[str, Any] = {"C": 2.0, "threat": threat, "max_flips": 3}
    full = certify(K_TRAIN, LABELS, K_TEST, engine="enumerate", **options)
    for reply in (SILENT["time limit"], UNBELIEVABLE["bound is NaN"], UNBELIEVABLE["attack beyond the budget"]):
        install(monkeypatch, reply)
        for engine in ENGINES:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", MilpWarning)
                contains(certify(K_TRAIN, LABELS, K_TEST, engine=engine, **options), full)


HARD_FOR_SOLVERS = {
    "identity, six labels": selfcheck.Case(
        kind="identity",
        K_train=np.eye(6),
        labels=np.array(["ham"] * 5 + ["spam"]),
        K_test=np.array([[0.0, 1.0, 0.0, 1.0, 1.0, 0.0], [-1.0, 1.0, 1.0, 0.0, -1.0, -1.0]]),
        C=1e9,
        loss="square",
        threat=Threat(costs=[1, 3, 2, 3, 1, 1]),
        max_flips=6,
    ),
    "identity, five labels": selfcheck.Case(
        kind="identity",
        K_train=np.eye(5),
        labels=np.array([0, 1, 0, 0, 1]),
        K_test=np.array([[1.0, -1.0, 1.0, -1.0, 0.0], [0.0, 1.0, -1.0, 1.0, 0.0], [0.0, 0.0, 0.0, 1.0, -1.0]]),
        C=1e9,
        loss="square",
        threat=Threat(trusted=[False, False, False, True, False]),
        max_flips=3,
    ),
    "rows with large errors": selfcheck.Case(
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
@pytest.mark.filterwarnings("ignore::labelcert.engines.MilpWarning")
def test_programs_on_which_solvers_have_been_wrong(name: str, solver: str) -> None:
    case = HARD_FOR_SOLVERS[name]
    truth = selfcheck.brute_force(case)
    for engine in selfcheck.milp_engines_for(case):
        assert selfcheck.compare(case, truth, engine, may_be_open=True, workers=1, solver=solver) == []
