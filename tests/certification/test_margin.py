"""Predictions that count as changed once their lead falls to a margin."""

from __future__ import annotations

import io
import itertools
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console
from tests.helpers.certificates import same
from tests.helpers.problems import blobs, gaussian

import labelcert
from labelcert import InvalidInput, Threat, certify, verify
from labelcert.certification import Names
from labelcert.problem import Problem
from labelcert.problem.lowering import lowered
from labelcert.report.tables import budget_table, node_table
from labelcert.selfcheck import check
from labelcert.selfcheck.cases import nasty_case, with_loss_in_turn, with_margin_in_turn
from labelcert.svm import train


def by_retraining(K: Any, labels: Any, rows: Any, C: float, margin: float) -> tuple[Any, Any]:
    """Radii and curve of two classes."""
    y = np.where(labels == 1, 1.0, -1.0)
    side = np.sign(rows @ train(K, y, C))
    radius, curve = np.full(len(rows), y.size + 1), np.zeros(y.size + 1, dtype=int)
    for size in range(y.size + 1):
        for flips in itertools.combinations(range(y.size), size):
            new = y.copy()
            new[list(flips)] *= -1
            changed = side * (rows @ train(K, new, C)) <= margin
            radius[changed] = np.minimum(radius[changed], size)
            curve[size:] = np.maximum(curve[size:], changed.sum())
    return radius, curve


@pytest.mark.parametrize("margin", [0.05, 0.4])
@pytest.mark.parametrize("C", [0.5, 4.0])
def test_two_classes_against_retraining(C: float, margin: float) -> None:
    arrays = gaussian(7, 12)
    radius, curve = by_retraining(*arrays, C, margin)
    for engine in ("enumerate", "milp"):
        cert = certify(*arrays, C, margin=margin, engine=engine)
        assert cert.exact
        assert cert.radius_lower.tolist() == cert.radius_upper.tolist() == radius.tolist()
        assert cert.collective_lower.tolist() == curve.tolist()


@pytest.mark.parametrize("k", range(2, 120, 3))
def test_every_engine_against_brute_force(k: int) -> None:
    case = with_loss_in_turn(nasty_case(np.random.default_rng([23, k]), k, 6), k)
    case = with_margin_in_turn(case, k)
    assert check(case, milp=True) == []


@pytest.mark.parametrize("loss", ["hinge", "square", "squared_hinge", "logistic", "cross_entropy"])
def test_a_larger_margin_never_certifies_more(loss: str) -> None:
    arrays = blobs(9, 15)
    before = certify(*arrays, 1.0, loss=loss, max_flips=2)
    for margin in (1e-6, 0.01, 0.1, 1.0):
        after = certify(*arrays, 1.0, loss=loss, max_flips=2, margin=margin)
        assert np.all(after.radius_lower <= before.radius_lower)
        assert np.all(after.collective_upper >= before.collective_upper)
        before = after


def test_a_prediction_without_the_margin_has_radius_0() -> None:
    K, labels, rows = gaussian(9, 20)
    plain = certify(K, labels, rows, 1.0)
    margin = float(np.median(np.abs(plain.decision_values)))
    cert = certify(K, labels, rows, 1.0, margin=margin)
    assert ((cert.radius_upper == 0) == (np.abs(plain.decision_values) <= margin)).all()
    assert cert.witness(int(np.argmin(np.abs(plain.decision_values)))) == {}
    assert cert.collective_lower[0] == (cert.radius_upper == 0).sum()


def test_everything_else_is_about_the_given_problem(tmp_path: Path) -> None:
    K, labels, rows = blobs(9, 6)
    names = Names(labels=np.array([f"label {i}" for i in range(9)]), test=np.array([f"node {t}" for t in range(6)]))
    options: dict[str, Any] = {"max_flips": 2, "names": names, "threat": Threat(trusted=np.arange(9) == 3)}
    plain, cert = certify(K, labels, rows, 1.0, **options), certify(K, labels, rows, 1.0, margin=0.05, **options)
    for field in ("labels", "predictions", "decision_values", "label_names", "test_names", "K_train", "K_test"):
        assert np.array_equal(getattr(plain, field), getattr(cert, field)), field
    assert cert.never == plain.never
    assert cert.run.problem_sha256 == plain.run.problem_sha256
    assert cert.run.margin == 0.05
    assert "margin=0.05" in repr(cert)
    cert.save(tmp_path / "with.cert")
    again = labelcert.load(tmp_path / "with.cert")
    same(cert, again)
    assert again.run.margin == 0.05


def test_tables_say_that_there_is_a_margin() -> None:
    K, labels, rows = gaussian(9, 6)
    cert = certify(K, labels, rows, 1.0, margin=0.45)
    nodes = as_text(node_table(cert))
    assert str(node_table(cert).title).endswith("change each prediction (margin 0.45)")
    assert str(budget_table(cert).title).endswith("provably survive (margin 0.45)")
    assert nodes.count("(within the margin)") == (cert.radius_upper == 0).sum() > 0
    assert "(tie)" not in nodes


def as_text(table: Any) -> str:
    out = io.StringIO()
    Console(width=200, file=out).print(table)
    return out.getvalue()


def test_no_training_depends_on_the_added_labels() -> None:
    problem = Problem.build(*gaussian(9, 6), 3.0)
    extended = lowered(problem, np.zeros(6, dtype=np.int64), 0.25)
    y = np.where(problem.y > 0, 1.0, -1.0)
    z = train(problem.K_train, y, problem.C)
    more = train(extended.K_train, np.append(y, [-1.0, 1.0]), problem.C)
    assert np.allclose(more[:9], z)
    assert more[9:].tolist() == [-problem.C, problem.C]


@pytest.mark.parametrize("margin", [-0.1, float("nan"), float("inf"), "wide", None, True, "0.1", [[0.1]]])
def test_margins_that_make_no_sense_are_refused(margin: Any) -> None:
    with pytest.raises(InvalidInput, match="margin must be a number of at least 0"):
        certify(*gaussian(5, 2), 1.0, margin=margin)


def test_an_intercept_has_no_margin() -> None:
    with pytest.raises(InvalidInput, match="margin cannot be combined with loss='logistic_intercept'"):
        certify(*gaussian(9, 2), 1.0, loss="logistic_intercept", margin=0.1)


@pytest.mark.parametrize("k", range(2, 90, 3))
def test_verify_accepts_margins(k: int) -> None:
    case = with_margin_in_turn(nasty_case(np.random.default_rng([29, k]), k, 6), k)
    arrays = (case.K_train, case.labels, case.K_test)
    options = {"threat": case.threat, "max_flips": case.max_flips, "loss": case.loss}
    found = verify(certify(*arrays, case.C, margin=case.margin, **options), *arrays)
    assert found.accepted, found


@pytest.mark.parametrize("other", [0.0, 0.05, 0.6])
def test_verify_rejects_another_margin(other: float) -> None:
    arrays = gaussian(7, 12)
    cert = certify(*arrays, 1.0, margin=0.3)
    assert verify(cert, *arrays).accepted
    forged = replace(cert, run=replace(cert.run, margin=other))
    assert not verify(replace(forged, checksum=forged.computed_checksum()), *arrays).accepted


@pytest.mark.parametrize("engine", ["enumerate", "milp"])
def test_each_node_may_have_its_own_margin(engine: str, tmp_path: Path) -> None:
    K, labels, rows = gaussian(7, 12)
    margins = np.linspace(0.0, 0.6, len(rows))
    cert = certify(K, labels, rows, 1.0, margin=margins, engine=engine)
    for t, margin in enumerate(margins):
        alone = certify(K, labels, rows[t : t + 1], 1.0, margin=margin)
        assert cert.radius_upper[t] == cert.radius_lower[t] == alone.radius_lower[0]
    assert "margin=0 to 0.6" in repr(cert)
    cert.save(tmp_path / "own.cert")
    assert labelcert.load(tmp_path / "own.cert").run.margin == tuple(margins.tolist())


@pytest.mark.parametrize("margin", [-100.0, (-1.0,) * 12, (0.1,), (0.1,) * 11, float("nan")])
def test_a_certificate_with_a_forged_margin_is_refused(margin: Any) -> None:
    cert = certify(*gaussian(7, 12), 1.0, margin=0.3)
    with pytest.raises(InvalidInput, match="the margins"):
        replace(cert, run=replace(cert.run, margin=margin))


def test_what_a_certificate_says_in_short_names_the_margin() -> None:
    assert "margin 0.3" in certify(*gaussian(7, 12), 1.0, margin=0.3).summary()


def test_margins_need_one_number_for_each_node() -> None:
    with pytest.raises(InvalidInput, match="one number for each of 2 test nodes, got 3"):
        certify(*gaussian(5, 2), 1.0, margin=[0.1, 0.2, 0.3])
