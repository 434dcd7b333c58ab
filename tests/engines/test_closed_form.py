from __future__ import annotations

import numpy as np
import pytest
from tests.problems import gaussian

from labelcert import Threat, certify
from labelcert.problem import Problem
from labelcert.svm.scoring import always_at_cap


def small_cap(K: np.ndarray) -> float:
    return float(0.99 / np.abs(K).sum(axis=1).max())


@pytest.mark.parametrize(
    "threat",
    [
        Threat(),
        Threat(costs=np.arange(14) % 3 + 1),
        Threat(groups=[i % 3 for i in range(14)], group_budgets=2),
        Threat(costs=np.arange(14) % 3 + 1, groups=[i % 3 for i in range(14)], group_budgets={0: 4, 2: 1}),
        Threat(trusted=np.arange(14) < 6, allowed_flips={1: [0]}),
    ],
)
@pytest.mark.parametrize("loss", ["hinge", "square"])
def test_agrees_with_enumeration(threat: Threat, loss: str) -> None:
    K, y, rows = gaussian(14, 60)
    C = small_cap(K) if loss == "hinge" else 1.0
    closed = certify(K, y, rows, C, loss=loss, threat=threat, engine="closed-form")
    walked = certify(K, y, rows, C, loss=loss, threat=threat, engine="enumerate")
    assert closed.exact
    for name in ("radius_lower", "radius_upper", "collective_lower", "collective_upper"):
        assert np.array_equal(getattr(closed, name), getattr(walked, name)), name


def test_linear_regime_is_proved_for_the_budget_at_hand() -> None:
    K, y, rows = gaussian(12, 5)
    C = 0.2
    problems = [Problem.build(K, y, rows, C, max_flips=b) for b in range(13)]
    proved = [always_at_cap(p) for p in problems]
    assert proved == sorted(proved, reverse=True)
    everywhere = C * np.abs(K).sum(axis=1).max() <= 1
    assert not everywhere
    assert not proved[-1]


def test_large_problem_gets_radii_and_an_interval_for_the_curve(monkeypatch: pytest.MonkeyPatch) -> None:
    K, y, rows = gaussian(150, 80)
    monkeypatch.setattr("labelcert.engines.closed_form.EFFORT", 1e8)
    cert = certify(K, y, rows, 1.0, loss="square")
    assert np.array_equal(cert.radius_lower, cert.radius_upper)
    assert np.all(cert.collective_lower <= cert.collective_upper)
    assert cert.collective_lower[-1] == cert.collective_upper[-1] == 80
    reach = int(np.argmax(cert.collective_lower < cert.collective_upper)) - 1
    assert 1 <= reach < 150
    for b in (reach + 1, 75, 150):
        assert len(cert.collective_witness(b)) <= b


def test_ridge_matches_scikit_learn() -> None:
    from sklearn.kernel_ridge import KernelRidge

    K, y, rows = gaussian(20, 30)
    cert = certify(K, y, rows, 3.0, loss="square", max_flips=1)
    model = KernelRidge(alpha=1 / 6, kernel="precomputed").fit(K, 2.0 * y - 1)
    assert np.allclose(cert.decision_values, model.predict(rows), atol=1e-12)
