"""The incomplete certificate: lower bounds, for two classes and more."""

from __future__ import annotations

import numpy as np
import pytest
from tests.helpers.certificates import contains
from tests.helpers.problems import blobs, gaussian

from labelcert import Threat, certify
from labelcert.examples import several_clouds

THREATS = [
    Threat(),
    Threat(costs=np.arange(12) % 3 + 1),
    Threat(groups=[i % 3 for i in range(12)], group_budgets=1),
    Threat(costs=np.arange(12) % 2 + 1, groups=[i % 3 for i in range(12)], group_budgets={0: 2, 2: 1}),
    Threat(trusted=np.arange(12) < 3, allowed_flips={0: [1], 1: [0]}),
    Threat(allowed_targets=[[1], None, [0, 1], []] * 3),
]


@pytest.mark.parametrize("threat", THREATS, ids=repr)
@pytest.mark.parametrize("C", [0.01, 5.0])
@pytest.mark.parametrize("make", [gaussian, blobs], ids=["two classes", "more"])
def test_never_exceeds_exact(make: object, threat: Threat, C: float) -> None:
    K, y, rows = make(12, 30)  # type: ignore[operator]
    exact, relaxed = (
        certify(K, y, rows, C, threat=threat, engine=engine, max_flips=3) for engine in ("enumerate", "relaxed")
    )
    assert np.all(relaxed.radius_lower <= exact.radius_lower)
    assert np.all(relaxed.radius_lower >= 1)
    assert np.all(relaxed.radius_upper == relaxed.never)
    assert relaxed.witness(0) is None
    contains(relaxed, exact)
    assert relaxed.engine == relaxed.settings["engine"] == "relaxed"
    if not relaxed.exact:
        assert relaxed.state == "lower bounds"


def test_says_what_it_is() -> None:
    data = several_clouds()
    cert = certify(data.K_train, data.labels, data.K_test, data.C, max_flips=3, engine="relaxed")
    assert not cert.exact
    assert cert.state == "lower bounds"
    assert not cert.run.finds_attacks
    assert np.any(cert.radius_lower > 1)


def test_two_classes_are_exact_without_group_budgets() -> None:
    """With two classes the scores of both mirror each other, so nothing is lost by looking at each alone."""
    K, y, rows = gaussian(10, 30)
    for C in (0.01, 2.0):
        exact, relaxed = (certify(K, y, rows, C, engine=engine) for engine in ("enumerate", "relaxed"))
        assert np.array_equal(relaxed.radius_lower, exact.radius_lower)


def test_two_classes_look_the_same_as_elsewhere() -> None:
    rows = [[1.0, 1.0], [0.0, 1.0], [1.0, 0.5]]
    for loss in ("hinge", "square"):
        exact, relaxed = (certify(np.eye(2), [3, 7], rows, 1.0, engine=e, loss=loss) for e in ("enumerate", "relaxed"))
        assert relaxed.predictions.tolist() == exact.predictions.tolist() == [7, 7, 3]
        assert np.array_equal(relaxed.decision_values, exact.decision_values)
        assert relaxed.runners_up().tolist() == exact.runners_up().tolist()
