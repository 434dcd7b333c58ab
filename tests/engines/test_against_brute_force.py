"""No engine contradicts brute force in rational arithmetic. The long run: ``labelcert selfcheck --problems 50000``."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from tests.helpers.problems import hand_made
from tests.helpers.strategies import cases

from labelcert import Threat, selfcheck
from labelcert.selfcheck import Case
from labelcert.selfcheck.cases import hard_case, random_case, random_classes_case
from labelcert.selfcheck.nasty_kernels import DEGENERATE, TREACHEROUS


def agrees(case: Case) -> None:
    assert selfcheck.check(case) == []


@settings(max_examples=150, deadline=None)
@given(cases(classes=2))
def test_two_classes(case: Case) -> None:
    agrees(case)


@settings(max_examples=120, deadline=None)
@given(cases(classes=(3, 4)))
def test_more_classes(case: Case) -> None:
    agrees(case)


@pytest.mark.parametrize("kind", DEGENERATE + TREACHEROUS)
@pytest.mark.parametrize("make", [random_case, random_classes_case], ids=["two classes", "more"])
def test_every_kind_of_kernel_at_full_size(make: Callable[..., Case], kind: str) -> None:
    found = seed = 0
    while found < 2:
        case = make(np.random.default_rng([17, seed]), kinds=(kind,))
        seed += 1
        if case.labels.size >= 7:
            assert selfcheck.check(case, milp=True) == []
            found += 1


@pytest.mark.parametrize("seed", [pytest.param(s, marks=pytest.mark.long) if s == 7 else s for s in range(12)])
def test_ill_conditioned_kernels(seed: int) -> None:
    agrees(hard_case(np.random.default_rng(seed)))


@pytest.mark.parametrize("seed", range(6))
def test_ill_conditioned_kernels_with_more_classes(seed: int) -> None:
    agrees(hard_case(np.random.default_rng(seed), classes=3))


@pytest.mark.long
def test_many_random_problems_with_more_classes() -> None:
    wrong = []
    for seed in range(1500):
        rng = np.random.default_rng([23, seed])
        case = hard_case(rng, classes=4) if seed % 20 == 0 else random_classes_case(rng)
        wrong += [f"seed {seed}: {line}" for line in selfcheck.check(case)]
    assert wrong == []


def test_a_tie_after_poisoning_counts_as_changed() -> None:
    agrees(hand_made(np.eye(2), [0, 1], [[1.0, 2.0]], C=1.0))
    # Flipping label 0 gives 1 + 2, flipping label 1 gives -1 - 2; a tie needs equal pull.
    tie = hand_made(np.eye(3), [0, 1, 1], [[1.0, 1.0, 1.0]], C=1.0)
    agrees(tie)
    assert tie.certify("auto").radius_lower.tolist() == [1]
    agrees(hand_made(np.eye(4), ["a", "a", "b", "c"], [[1.0, 1.0, 1.0, 0.5]], C=1.0))
    more = hand_made(np.eye(4), ["a", "a", "b", "c"], [[1.0, 0.5, 1.0, 0.25]], C=0.5)
    agrees(more)
    assert more.certify("auto").radius_lower.tolist() == [1]


def test_a_clean_tie_has_radius_zero() -> None:
    case = hand_made(np.eye(2), [0, 1], [[1.0, 1.0], [0.0, 1.0]], C=1.0)
    agrees(case)
    cert = case.certify("auto")
    assert cert.radius_lower.tolist() == [0, 1]
    assert cert.collective_lower.tolist() == [1, 2, 2]
    assert cert.witness(0) == {}


def test_a_clean_tie_between_more_classes_has_radius_zero() -> None:
    case = hand_made(np.eye(3), ["a", "b", "c"], [[1.0, 1.0, 0.5], [1.0, 0.5, 0.25]], C=1.0)
    agrees(case)
    cert = case.certify("auto")
    assert cert.predictions.tolist() == ["a", "a"]
    assert cert.radius_upper.tolist()[0] == 0
    assert cert.collective_lower[0] == 1
    assert cert.witness(0) == {}
    assert cert.takeovers(flips=3).to_numpy().sum() == 1


@pytest.mark.parametrize("loss", ["hinge", "square"])
@pytest.mark.parametrize("labels", [["a", "b"], ["a", "b", "c"]], ids=len)
def test_zero_test_row_and_zero_kernel(labels: list[str], loss: str) -> None:
    m = len(labels)
    agrees(hand_made(np.eye(m), labels, [[0.0] * m], C=1.0, loss=loss))
    agrees(hand_made(np.zeros((m, m)), labels, [[0.0] * m], C=1.0, loss=loss))


@pytest.mark.parametrize(
    "threat", [Threat(trusted=[True] * 3), Threat(allowed_flips={}), Threat(allowed_targets=[[], [], []])], ids=repr
)
@pytest.mark.parametrize("labels", [["a", "b", "b"], ["a", "b", "c"]], ids="".join)
def test_nothing_to_change(labels: list[str], threat: Threat) -> None:
    case = hand_made(np.eye(3), labels, [[1.0, 0.5, 0.25]], C=1.0, threat=threat)
    agrees(case)
    assert case.certify("auto").witness(0) is None


def test_duplicates_with_opposite_labels() -> None:
    K = [[2.0, 2.0, 1.0], [2.0, 2.0, 1.0], [1.0, 1.0, 2.0]]
    for C in (0.1, 0.5, 1.0, 100.0):
        agrees(hand_made(K, [0, 1, 1], [[2.0, 2.0, 1.0], [1.0, 1.0, 2.0]], C=C))


def test_boundary_of_the_linear_regime() -> None:
    K = [[1.0, 0.5], [0.5, 1.0]]
    for C in (1 / 1.5, float(np.nextafter(1 / 1.5, 1))):
        agrees(hand_made(K, [0, 1], [[1.0, 0.25], [0.5, 1.0]], C=C))
    K = [[1.0, 0.5, 0.25], [0.5, 1.0, 0.25], [0.25, 0.25, 1.0]]
    for C in (1 / 1.75, float(np.nextafter(1 / 1.75, 1))):
        agrees(hand_made(K, ["a", "b", "c"], [[1.0, 0.25, 0.5], [0.5, 1.0, 0.0]], C=C))
