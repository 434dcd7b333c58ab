"""No engine contradicts brute force over all relabellings, in rational arithmetic."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labelcert import selfcheck
from labelcert.threat import Threat


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_random_problems(seed: int) -> None:
    assert selfcheck.check(selfcheck.random_classes_case(np.random.default_rng(seed), largest=6)) == []


@pytest.mark.parametrize("kind", selfcheck.KERNELS)
def test_every_kind_of_kernel_at_full_size(kind: str) -> None:
    found = seed = 0
    while found < 2:
        case = selfcheck.random_classes_case(np.random.default_rng([19, seed]))
        seed += 1
        if case.kind == kind and case.labels.size == 7:
            assert selfcheck.check(case) == []
            found += 1


@pytest.mark.parametrize("seed", range(6))
def test_ill_conditioned_kernels(seed: int) -> None:
    assert selfcheck.check(selfcheck.hard_case(np.random.default_rng(seed), classes=3)) == []


@pytest.mark.long
def test_many_random_problems() -> None:
    wrong = []
    for seed in range(1500):
        rng = np.random.default_rng([23, seed])
        case = selfcheck.hard_case(rng, classes=4) if seed % 20 == 0 else selfcheck.random_classes_case(rng)
        wrong += [f"seed {seed}: {line}" for line in selfcheck.check(case)]
    assert wrong == []


def make(
    K: list[list[float]], labels: list[str], rows: list[list[float]], C: float, **options: object
) -> selfcheck.Case:
    return selfcheck.Case(
        kind="hand-made",
        K_train=np.array(K),
        labels=np.array(labels),
        K_test=np.array(rows),
        C=C,
        loss=str(options.get("loss", "hinge")),
        threat=options.get("threat", Threat()),  # type: ignore[arg-type]
        max_flips=None,
    )


def test_a_tie_after_poisoning_counts_as_changed() -> None:
    case = make(np.eye(4).tolist(), ["a", "a", "b", "c"], [[1.0, 1.0, 1.0, 0.5]], C=1.0)
    assert selfcheck.check(case) == []
    tie = make(np.eye(4).tolist(), ["a", "a", "b", "c"], [[1.0, 0.5, 1.0, 0.25]], C=0.5)
    assert selfcheck.check(tie) == []
    assert tie.certify("auto").radius_lower.tolist() == [1]


def test_a_clean_tie_has_radius_zero() -> None:
    case = make(np.eye(3).tolist(), ["a", "b", "c"], [[1.0, 1.0, 0.5], [1.0, 0.5, 0.25]], C=1.0)
    assert selfcheck.check(case) == []
    cert = case.certify("auto")
    assert cert.predictions.tolist() == ["a", "a"]
    assert cert.radius_upper.tolist()[0] == 0
    assert cert.collective_lower[0] == 1
    assert cert.witness(0) == {}
    assert cert.takeovers(flips=3).to_numpy().sum() == 1


@pytest.mark.parametrize("loss", ["hinge", "square"])
def test_nothing_to_see(loss: str) -> None:
    case = make(np.eye(3).tolist(), ["a", "b", "c"], [[0.0, 0.0, 0.0]], C=1.0, loss=loss)
    assert selfcheck.check(case) == []
    assert selfcheck.check(make(np.zeros((3, 3)).tolist(), ["a", "b", "c"], [[0.0, 0.0, 0.0]], C=1.0, loss=loss)) == []


def test_nothing_to_change() -> None:
    for threat in (Threat(trusted=[True] * 3), Threat(allowed_flips={}), Threat(allowed_targets=[[], [], []])):
        case = make(np.eye(3).tolist(), ["a", "b", "c"], [[1.0, 0.5, 0.25]], C=1.0, threat=threat)
        assert selfcheck.check(case) == []
        assert case.certify("auto").witness(0) is None


def test_boundary_of_the_linear_regime() -> None:
    K = [[1.0, 0.5, 0.25], [0.5, 1.0, 0.25], [0.25, 0.25, 1.0]]
    for C in (1 / 1.75, float(np.nextafter(1 / 1.75, 1))):
        assert selfcheck.check(make(K, ["a", "b", "c"], [[1.0, 0.25, 0.5], [0.5, 1.0, 0.0]], C=C)) == []
