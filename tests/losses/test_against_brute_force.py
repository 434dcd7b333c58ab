"""Every loss against brute force: in rational arithmetic, or at 200 digits where the optimum is not rational."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings

from labelcert import Threat, certify, selfcheck
from labelcert.losses import LOSSES, loss_names
from labelcert.selfcheck import Case, brute_force
from labelcert.selfcheck.cases import nasty_case, with_loss
from tests.helpers.problems import blobs, gaussian, hand_made
from tests.helpers.strategies import cases

OTHERS = (
    *("squared_hinge", "logistic", "logistic_intercept", "cross_entropy", "cross_entropy_intercept"),
    "square_intercept",
)


def agrees(case: Case) -> None:
    assert selfcheck.check(case) == []


def nasty(k: int, loss: str) -> Case:
    return with_loss(nasty_case(np.random.default_rng([3, k]), k, 6), loss)


@pytest.mark.parametrize("loss", OTHERS)
@pytest.mark.parametrize("k", [k for k in range(28) if k % 20 != 9])
def test_nasty_problems(k: int, loss: str) -> None:
    agrees(nasty(k, loss))


@pytest.mark.long
@pytest.mark.parametrize("loss", OTHERS)
def test_many_nasty_problems(loss: str) -> None:
    wrong = [f"problem {k}: {line}" for k in range(100, 600) for line in selfcheck.check(nasty(k, loss), milp=True)]
    assert wrong == []


@settings(max_examples=40, deadline=None)
@given(cases(classes=(2, 3)))
def test_squared_hinge_in_rational_arithmetic(case: Case) -> None:
    agrees(replace(case, loss="squared_hinge"))


@pytest.mark.parametrize("C", [1e-6, 1e-2, 1.0, 1e3, 1e6])
@pytest.mark.parametrize("loss", OTHERS)
def test_extreme_constants(loss: str, C: float) -> None:
    agrees(with_loss(hand_made(*gaussian(6, 4, seed=2), C), loss))
    agrees(with_loss(hand_made(*blobs(6, 4, classes=3, seed=2), C, max_flips=2), loss))


@pytest.mark.parametrize("loss", OTHERS)
def test_search_and_its_attacks(loss: str) -> None:
    for seed in range(4):
        assert selfcheck.check(with_loss(hand_made(*gaussian(6, 4, seed=seed), 1.0), loss), milp=True) == []


@pytest.mark.parametrize("loss", [name for name in loss_names() if not LOSSES[name].intercept])
def test_ties_by_symmetry(loss: str) -> None:
    """Labels that a test row does not tell apart: two against two are a tie."""
    case = hand_made(np.eye(4), [0, 1, 1, 1], [[1.0, 1, 0, 0], [1.0, 1, 1, 1], [0.0, 0, 0, 0]], 1.0, loss=loss)
    truth = brute_force(case)
    assert truth.tied
    agrees(case)
    cert = case.certify("auto", workers=1)
    rational = LOSSES[loss].rational
    assert cert.exact == rational
    # The second node is changed by a tie after one flip; that cannot be proved, and is not denied either.
    assert truth.radius[1] == 1
    assert cert.radius_lower[1] == 1
    assert (cert.radius_upper[1] == 1) == rational
    # A row of zeros is a tie whatever the numbers are.
    assert cert.radius_upper[2] == 0


@pytest.mark.parametrize("loss", OTHERS)
@pytest.mark.parametrize(
    "threat",
    [
        Threat(costs=np.arange(6) % 3 + 1),
        Threat(groups=[i % 2 for i in range(6)], group_budgets=1),
        Threat(trusted=np.arange(6) < 2, allowed_flips={0: [1], 2: [0, 1]}),
        Threat(allowed_targets=[[2], None, [0, 1], [], None, [1]]),
        Threat(trusted=np.ones(6, dtype=bool)),
    ],
    ids=repr,
)
def test_threats_on_three_classes(loss: str, threat: Threat) -> None:
    K, codes, rows = blobs(6, 4, classes=3, seed=1)
    agrees(with_loss(hand_made(K, codes, rows, 1.0, threat=threat, max_flips=2), loss))


def test_cross_entropy_of_two_classes_is_logistic_regression_with_twice_the_constant() -> None:
    K, y, rows = gaussian(9, 6)
    one, two = (certify(K, y, rows, C, loss=loss, workers=1) for C, loss in ((0.7, "cross_entropy"), (1.4, "logistic")))
    assert np.array_equal(one.radius_lower, two.radius_lower)
    assert np.array_equal(one.collective_lower, two.collective_lower)
