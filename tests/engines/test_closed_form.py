"""Sorting where scores are linear in the labels, whatever the number of classes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.helpers.certificates import contains, same
from tests.helpers.problems import blobs, gaussian, small_cap

from labelcert import InvalidInput, Threat, certify
from labelcert.engines.linear import counting
from labelcert.engines.tables import sizes
from labelcert.problem import Problem


@pytest.mark.parametrize(
    "threat",
    [
        Threat(),
        Threat(costs=np.arange(14) % 3 + 1),
        Threat(groups=[i % 3 for i in range(14)], group_budgets=2),
        Threat(costs=np.arange(14) % 3 + 1, groups=[i % 3 for i in range(14)], group_budgets={0: 4, 2: 1}),
        Threat(trusted=np.arange(14) < 6, allowed_flips={1: [0]}),
    ],
    ids=repr,
)
@pytest.mark.parametrize("loss", ["hinge", "square"])
def test_agrees_with_enumeration(threat: Threat, loss: str) -> None:
    K, y, rows = gaussian(14, 60)
    C = small_cap(K) if loss == "hinge" else 1.0
    closed = certify(K, y, rows, C, loss=loss, threat=threat, engine="closed-form")
    walked = certify(K, y, rows, C, loss=loss, threat=threat, engine="enumerate")
    assert closed.exact
    same(closed, walked)


@pytest.mark.parametrize(
    "threat",
    [
        Threat(),
        Threat(costs=np.arange(12) % 3 + 1),
        Threat(groups=[i % 3 for i in range(12)], group_budgets=1),
        Threat(costs=np.arange(12) % 2 + 1, groups=[i % 3 for i in range(12)], group_budgets={0: 2, 2: 1}),
        Threat(trusted=np.arange(12) < 3, allowed_flips={0: [1, 2], 1: [0], 3: [0, 1, 2]}),
        Threat(allowed_targets=[[3], None, [0, 1], []] * 3),
    ],
    ids=repr,
)
@pytest.mark.parametrize("loss", ["hinge", "square"])
def test_agrees_with_tables_for_more_classes(threat: Threat, loss: str) -> None:
    K, y, rows = blobs(12, 30)
    C = small_cap(K) if loss == "hinge" else 1.0
    closed, walked = (
        certify(K, y, rows, C, loss=loss, threat=threat, engine=engine, max_flips=3, workers=1)
        for engine in ("closed-form", "enumerate")
    )
    assert closed.exact
    same(closed, walked)


def test_linear_regime_is_proved_for_the_budget_at_hand() -> None:
    K, y, rows = gaussian(12, 5)
    C = 0.2
    problems = [Problem.build(K, y, rows, C, max_flips=b) for b in range(13)]
    proved = [p.is_linear() for p in problems]
    assert proved == sorted(proved, reverse=True)
    everywhere = C * np.abs(K).sum(axis=1).max() <= 1
    assert not everywhere
    assert not proved[-1]


@pytest.mark.parametrize("make", [gaussian, blobs])
def test_refuses_what_is_not_linear(make: Any) -> None:
    with pytest.raises(InvalidInput, match="'closed-form' does not apply"):
        certify(*make(8, 5), 500.0, engine="closed-form")


def test_large_problem_gets_radii_and_an_interval_for_the_curve(monkeypatch: pytest.MonkeyPatch) -> None:
    K, y, rows = gaussian(60, 40)
    monkeypatch.setattr(counting, "EFFORT", 1e6)
    cert = certify(K, y, rows, 1.0, loss="square")
    assert np.array_equal(cert.radius_lower, cert.radius_upper)
    assert np.all(cert.collective_lower <= cert.collective_upper)
    assert cert.collective_lower[-1] == cert.collective_upper[-1] == 40
    reach = int(np.argmax(cert.collective_lower < cert.collective_upper)) - 1
    assert 1 <= reach < 60
    for b in (reach + 1, 30, 60):
        assert len(cert.collective_witness(b)) <= b


def test_large_problem_with_more_classes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sizes, "CURVE_LIMIT_SECONDS", 0.01)
    K, y, rows = blobs(60, 40, classes=5)
    cert = certify(K, y, rows, 1.0, loss="square", max_flips=30)
    settled = (cert.radius_lower == cert.radius_upper) | (cert.radius_lower > 30)
    assert settled.all()
    reach = cert.run.stages[0].statistics["curve_walked_to"]
    assert 1 <= reach < 30
    assert np.array_equal(cert.collective_lower[: reach + 1], cert.collective_upper[: reach + 1])
    assert np.all(cert.collective_lower <= cert.collective_upper)
    assert np.all(np.diff(cert.collective_lower) >= 0)
    assert cert.collective_lower[30] > cert.collective_lower[reach]


@pytest.mark.parametrize("make", [gaussian, blobs])
def test_radii_alone(make: Any) -> None:
    K, y, rows = make(12, 30)
    whole = certify(K, y, rows, 0.001, max_flips=3)
    radii = certify(K, y, rows, 0.001, max_flips=3, collective=False)
    assert whole.engine == radii.engine == "closed-form"
    assert np.array_equal(radii.radius_lower, whole.radius_lower)
    assert np.array_equal(radii.radius_upper, whole.radius_upper)
    contains(radii, whole)


def test_ridge_matches_scikit_learn() -> None:
    from sklearn.kernel_ridge import KernelRidge

    K, y, rows = gaussian(20, 30)
    cert = certify(K, y, rows, 3.0, loss="square", max_flips=1)
    model = KernelRidge(alpha=1 / 6, kernel="precomputed").fit(K, 2.0 * y - 1)
    assert np.allclose(cert.decision_values, model.predict(rows), atol=1e-12)
