"""Which engines run, in which order, and what the certificate says about it."""

from __future__ import annotations

import signal
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.helpers.certificates import contains, same
from tests.helpers.problems import blobs, gaussian, small_cap

from labelcert import Certificate, Threat, certify, load
from labelcert.certificate import Stop
from labelcert.engines import planning
from labelcert.engines.base import Question, Work
from labelcert.engines.control import Control
from labelcert.engines.enumerate import Enumerate
from labelcert.engines.planning import plan
from labelcert.engines.search import branching
from labelcert.errors import InvalidInput, MilpWarning, WorkTooLarge
from labelcert.problem import Problem
from labelcert.report.tables import summary
from labelcert.signals import ending_in_order

K, LABELS, ROWS = gaussian(9, 8, seed=132, dims=2)
C = 0.5
LINEAR_CAP = small_cap(K)


@pytest.fixture
def slow_enumeration(monkeypatch: pytest.MonkeyPatch) -> None:
    """Enumeration that would exceed every time limit, and reaches one flip within it."""
    monkeypatch.setattr(Enumerate, "estimate", lambda self, question, control: Work("all labellings", 1e9))
    monkeypatch.setattr(Enumerate, "reach", lambda self, question, control, seconds: 1)


@pytest.fixture(scope="module")
def truth() -> Certificate:
    cert = certify(K, LABELS, ROWS, C, max_flips=3, engine="enumerate")
    assert set(cert.radius_lower.tolist()) == {1, 2, 3, 4}
    return cert


def names(name: str, cap: float, control: Control, **options: object) -> list[tuple[str, int]]:
    problem = Problem.build(K, LABELS, ROWS, cap, max_flips=3, **options)  # type: ignore[arg-type]
    return [(stage.engine.name, stage.max_flips) for stage in plan(name, problem, control).stages]


def test_plans() -> None:
    control = Control(workers=1)
    assert names("auto", LINEAR_CAP, control) == [("closed-form", 3)]
    assert names("auto", C, control, loss="square") == [("closed-form", 3)]
    assert names("auto", C, control) == [("enumerate", 3)]
    assert names("auto", C, Control(workers=1, time_limit=1e6)) == [("enumerate", 3)]
    for name in ("enumerate", "relaxed", "milp", "milp-paper"):
        assert names(name, C, control) == [(name, 3)]


def test_plans_for_more_classes() -> None:
    K, labels, rows = blobs(9, 8)

    def stages(name: str, cap: float, **options: object) -> list[tuple[str, int]]:
        problem = Problem.build(K, labels, rows, cap, max_flips=2, **options)  # type: ignore[arg-type]
        return [(stage.engine.name, stage.max_flips) for stage in plan(name, problem, Control(workers=1)).stages]

    assert stages("auto", small_cap(K)) == [("closed-form", 2)]
    assert stages("auto", 5.0, loss="square") == [("closed-form", 2)]
    assert stages("auto", 5.0) == [("enumerate", 2)]
    for name in ("enumerate", "relaxed", "milp", "milp-paper"):
        assert stages(name, 5.0) == [(name, 2)]


@pytest.mark.usefixtures("slow_enumeration")
def test_plan_with_too_little_time() -> None:
    assert names("auto", C, Control(workers=1, time_limit=10.0)) == [("enumerate", 1), ("milp", 3)]
    assert names("auto", LINEAR_CAP, Control(workers=1, time_limit=10.0)) == [("closed-form", 3)]
    # Without a time limit nobody waits for years, and whoever names an engine gets it.
    assert names("auto", C, Control(workers=1)) == [("enumerate", 3)]
    assert names("enumerate", C, Control(workers=1, time_limit=10.0)) == [("enumerate", 3)]


def test_plan_refuses() -> None:
    control = Control(workers=1)
    with pytest.raises(InvalidInput, match="auto, closed-form, enumerate, relaxed, milp, milp-paper"):
        names("simplex", C, control)
    with pytest.raises(InvalidInput, match="engine='closed-form' does not apply"):
        names("closed-form", C, control)
    with pytest.raises(InvalidInput, match="engine='milp-paper' does not apply"):
        names("milp-paper", C, control, loss="square")
    large = Problem.build(*gaussian(60, 2), 2.0)
    with pytest.raises(WorkTooLarge, match="max_flips="):
        plan("auto", large, control)


@pytest.mark.parametrize("arrays", [gaussian(60, 4), blobs(60, 4)], ids=["two classes", "more"])
def test_without_limits_the_budget_is_what_fits(
    arrays: tuple[np.ndarray, ...], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(planning, "USUAL_SECONDS", 1.0)
    cert = certify(*arrays, 5.0, workers=1)
    assert 1 <= cert.max_flips < 6
    note = cert.run.budget_note
    assert note.startswith(f"budgets up to {cert.max_flips} of 60 are answered")
    assert f"{cert.max_flips + 1} would take about" in note
    assert "max_flips" in note
    assert note in summary(cert)
    cert.save(tmp_path / "some.cert")
    assert load(tmp_path / "some.cert").run.budget_note == note
    same(cert, certify(*arrays, 5.0, max_flips=cert.max_flips, workers=1))


def test_even_one_flip_that_does_not_fit_is_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Enumerate, "estimate", lambda self, question, control: Work("all labellings", 1e9))
    monkeypatch.setattr(Enumerate, "reach", lambda self, question, control, seconds: 0)
    cert = certify(K, LABELS, ROWS, C)
    assert cert.max_flips == 1
    assert cert.run.time_limit == planning.USUAL_SECONDS
    contains(cert, certify(K, LABELS, ROWS, C, max_flips=1, engine="enumerate"))


def test_everything_is_answered_where_it_fits() -> None:
    cert = certify(K, LABELS, ROWS, C)
    assert (cert.max_flips, cert.run.budget_note) == (9, "")


def test_the_largest_budget_as_a_share() -> None:
    assert certify(K, LABELS, ROWS, C, max_fraction=0.34).max_flips == 3
    costs = Threat(costs=[2] * 9)
    assert certify(K, LABELS, ROWS, C, max_fraction=0.5, threat=costs).max_flips == 9
    with pytest.raises(InvalidInput, match="max_flips or as max_fraction, not both"):
        certify(K, LABELS, ROWS, C, max_flips=2, max_fraction=0.5)


def test_a_stage_has_a_share_of_the_time() -> None:
    whole = Control(workers=1, time_limit=100.0)
    whole.start_clock()
    part = whole.part(0.5)
    assert whole.deadline is not None
    assert part.deadline is not None
    assert 40.0 < whole.deadline - part.deadline < 60.0
    part.end(Stop.TIME_LIMIT)
    assert part.over()
    assert not whole.over()
    whole.end(Stop.INTERRUPTED)
    assert whole.part(0.5).over()


def test_a_request_to_terminate_is_an_orderly_stop_on_the_command_line() -> None:
    control = Control(workers=1)
    before = signal.getsignal(signal.SIGTERM)
    with ending_in_order(), control.running():
        signal.raise_signal(signal.SIGTERM)
        assert control.over()
    assert control.stop is Stop.INTERRUPTED
    assert signal.getsignal(signal.SIGTERM) == before


@pytest.mark.parametrize("handler", [signal.SIG_IGN, signal.SIG_DFL, lambda *_: None])
def test_handlers_of_others_stay(handler: Any) -> None:
    before = signal.signal(signal.SIGTERM, handler)
    try:
        with Control(workers=1).running():
            assert signal.getsignal(signal.SIGTERM) is handler
        assert signal.getsignal(signal.SIGTERM) is handler
    finally:
        signal.signal(signal.SIGTERM, before)


def test_reach_grows_with_time() -> None:
    problem = Problem.build(*gaussian(40, 2), 2.0)
    question = Question.ask(Enumerate().predictor(problem))
    control = Control(workers=1)
    reached = [Enumerate().reach(question, control, seconds) for seconds in (0.0, 1e-2, 1.0, 1e15)]
    assert reached == sorted(reached)
    assert reached[0] == 0
    assert reached[-1] == 40


def test_one_stage_says_who_proved_what(truth: Certificate) -> None:
    assert truth.engine == "enumerate"
    assert [stage.engine for stage in truth.run.stages] == ["enumerate"]
    assert set(truth.radius_proved_by.tolist()) == {"enumerate"}
    assert set(truth.collective_proved_by[1:].tolist()) == {"enumerate"}
    closed = certify(K, LABELS, ROWS, LINEAR_CAP)
    assert closed.engine == closed.settings["engine"] == "closed-form"
    assert set(closed.radius_proved_by.tolist()) == {"closed-form"}


def test_a_clean_tie_is_proved_by_its_score() -> None:
    cert = certify(np.eye(2), [0, 1], [[1.0, 1.0], [0.0, 1.0]], 2.0, engine="milp")
    assert cert.radius_lower.tolist() == [0, 1]
    assert cert.radius_proved_by.tolist() == ["clean score", "milp"]


@pytest.mark.usefixtures("slow_enumeration")
@pytest.mark.parametrize("leaves", [300_000, 1])
def test_two_stages_give_what_enumeration_gives(
    truth: Certificate, leaves: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether the second stage retrains what the relaxation leaves at once, or branches."""
    monkeypatch.setattr(branching, "LEAF_SETS", leaves)
    cert = certify(K, LABELS, ROWS, C, max_flips=3, time_limit=300.0, workers=1)
    same(cert, truth)
    assert cert.exact
    assert cert.engine == "enumerate + milp"
    assert cert.run.engine_asked == "auto"
    first, later = cert.run.stages
    assert (first.engine, first.max_flips) == ("enumerate", 1)
    assert (later.engine, later.max_flips) == ("milp", 3)
    assert later.statistics["solver"].startswith("highs")
    assert "trainings" in first.statistics
    for t, radius in enumerate(truth.radius_lower.tolist()):
        # What one flip changes was settled by the first stage, and what an early attack changes with two may have been.
        by = {1: ["enumerate"], 2: ["enumerate", "milp"]}.get(radius, ["milp"])
        assert cert.radius_proved_by[t] in by
        assert cert.witness(t) is not None or radius > 3
    assert cert.collective_proved_by[1] == "enumerate"
    assert set(cert.collective_proved_by[2:].tolist()) <= {"milp"}


@pytest.mark.usefixtures("slow_enumeration")
def test_two_stages_under_a_threat_with_everything() -> None:
    threat = Threat(
        costs=[1, 2, 1, 2, 1, 2, 1, 2, 1],
        groups=["a"] * 4 + ["b"] * 3 + [None] * 2,
        group_budgets={"a": 2, "b": 3},
        trusted=np.arange(9) == 4,
    )
    full = certify(K, LABELS, ROWS, C, max_flips=4, threat=threat, engine="enumerate")
    cert = certify(K, LABELS, ROWS, C, max_flips=4, threat=threat, time_limit=300.0, workers=1)
    assert cert.engine == "enumerate + milp"
    same(cert, full)


@pytest.mark.usefixtures("slow_enumeration")
def test_no_second_stage_where_the_first_settles_everything() -> None:
    cert = certify(K, LABELS, ROWS, C, max_flips=1, time_limit=300.0)
    assert cert.exact
    assert cert.engine == "enumerate"
    assert len(cert.run.stages) == 1


@pytest.mark.usefixtures("slow_enumeration")
def test_provenance_survives_a_file(tmp_path: Path, truth: Certificate) -> None:
    cert = certify(K, LABELS, ROWS, C, max_flips=3, time_limit=300.0, workers=1)
    cert.save(tmp_path / "cert.npz")
    again = load(tmp_path / "cert.npz")
    same(again, truth)
    assert again.radius_proved_by.tolist() == cert.radius_proved_by.tolist()
    assert again.collective_proved_by.tolist() == cert.collective_proved_by.tolist()
    assert again.run == cert.run
    assert again.settings == cert.settings


@pytest.mark.parametrize("engine", ["milp", "milp-paper"])
@pytest.mark.parametrize(
    "limits", [{"node_time_limit": 1e-4}, {"time_limit": 1e-4}, {"node_time_limit": 0.02}], ids=str
)
def test_tiny_limits_give_intervals(truth: Certificate, solver: str, engine: str, limits: dict[str, float]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MilpWarning)
        cert = certify(K, LABELS, ROWS, C, max_flips=3, engine=engine, solver=solver, **limits)  # type: ignore[arg-type]
    contains(cert, truth)
    if "time_limit" in limits:
        assert cert.run.stopped == "time limit"
        assert not cert.exact
    for name, seconds in limits.items():
        assert getattr(cert.run, name) == cert.settings[name] == seconds


@pytest.mark.usefixtures("slow_enumeration")
@pytest.mark.parametrize("seconds", [1e-4, 0.05, 0.5])
def test_two_stages_with_too_little_time_for_both(truth: Certificate, seconds: float) -> None:
    contains(certify(K, LABELS, ROWS, C, max_flips=3, time_limit=seconds), truth)


@pytest.mark.parametrize("engine", ["auto", "milp", "milp-paper"])
def test_radii_alone(engine: str) -> None:
    flips = 1 if engine == "milp-paper" else 3
    cert = certify(K, LABELS, ROWS[4:], C, max_flips=flips, engine=engine, collective=False, trust_solver=True)
    part = certify(K, LABELS, ROWS[4:], C, max_flips=flips, engine="enumerate")
    assert np.array_equal(cert.radius_lower, part.radius_lower)
    assert np.array_equal(cert.radius_upper, part.radius_upper)
    contains(cert, part)
    assert cert.run.collective is False
    if engine == "milp-paper":
        assert all(record["node"] is not None for record in cert.run.stages[0].statistics["solves"])


def test_radii_alone_in_closed_form() -> None:
    whole = certify(K, LABELS, ROWS, LINEAR_CAP)
    radii = certify(K, LABELS, ROWS, LINEAR_CAP, collective=False)
    assert np.array_equal(radii.radius_lower, whole.radius_lower)
    contains(radii, whole)
    assert "score_updates_for_curve" not in radii.run.stages[0].statistics


@pytest.mark.parametrize("value", ["cplex", "", None, 3])
def test_bad_solver(value: object) -> None:
    with pytest.raises(InvalidInput, match="highs, scip, gurobi" if isinstance(value, str) else "a word in quotes"):
        certify(K, LABELS, ROWS, C, max_flips=1, solver=value)  # type: ignore[arg-type]


@pytest.mark.parametrize("value", [0, -1.0, float("nan"), float("inf"), "1", True])
@pytest.mark.parametrize("name", ["node_time_limit", "time_limit"])
def test_bad_seconds(name: str, value: object) -> None:
    with pytest.raises(InvalidInput, match=f"{name} must be a positive number of seconds"):
        certify(K, LABELS, ROWS, C, max_flips=1, **{name: value})  # type: ignore[arg-type]
