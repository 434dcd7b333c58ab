"""No engine contradicts brute force in rational arithmetic. The long run: ``labelcert selfcheck --problems 5000``."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labelcert import selfcheck
from labelcert.threat import Threat


def check(case: selfcheck.Case, **options: object) -> None:
    truth = selfcheck.brute_force(case)
    for engine in selfcheck.engines_for(case):
        assert selfcheck.compare(case, truth, engine, workers=1, **options) == []


@settings(max_examples=120, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_random_problems(seed: int) -> None:
    check(selfcheck.random_case(np.random.default_rng(seed), largest=6))


@pytest.mark.parametrize("kind", selfcheck.KERNELS)
def test_every_kind_of_kernel_at_full_size(kind: str) -> None:
    found = 0
    seed = 0
    while found < 2:
        case = selfcheck.random_case(np.random.default_rng([17, seed]))
        seed += 1
        if case.kind == kind and case.labels.size >= 7:
            check(case)
            found += 1


@pytest.mark.parametrize("seed", range(12))
def test_ill_conditioned_kernels(seed: int) -> None:
    check(selfcheck.hard_case(np.random.default_rng(seed)))


@pytest.mark.long
def test_many_random_problems() -> None:
    assert selfcheck.run(3000, seed=1) == []


def make(
    K: list[list[float]], labels: list[int], rows: list[list[float]], C: float, **options: object
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
    case = make([[1.0, 0.0], [0.0, 1.0]], [0, 1], [[1.0, 2.0]], C=1.0)
    check(case)
    # Flipping label 0 gives 1 + 2, flipping label 1 gives -1 - 2; a tie needs equal pull.
    tie = make([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]], [0, 1, 1], [[1.0, 1.0, 1.0]], C=1.0)
    check(tie)
    assert tie.certify("auto").radius_lower.tolist() == [1]


def test_a_clean_tie_has_radius_zero() -> None:
    case = make([[1.0, 0.0], [0.0, 1.0]], [0, 1], [[1.0, 1.0], [0.0, 1.0]], C=1.0)
    check(case)
    cert = case.certify("auto")
    assert cert.radius_lower.tolist() == [0, 1]
    assert cert.collective_lower.tolist() == [1, 2, 2]
    assert cert.witness(0) == {}


def test_zero_test_row_and_zero_kernel() -> None:
    check(make([[1.0, 0.0], [0.0, 1.0]], [0, 1], [[0.0, 0.0]], C=1.0))
    check(make([[0.0, 0.0], [0.0, 0.0]], [0, 1], [[0.0, 0.0]], C=1.0))


def test_duplicates_with_opposite_labels() -> None:
    K = [[2.0, 2.0, 1.0], [2.0, 2.0, 1.0], [1.0, 1.0, 2.0]]
    for C in (0.1, 0.5, 1.0, 100.0):
        check(make(K, [0, 1, 1], [[2.0, 2.0, 1.0], [1.0, 1.0, 2.0]], C=C))


def test_boundary_of_the_linear_regime() -> None:
    K = [[1.0, 0.5], [0.5, 1.0]]
    inside, outside = 1 / 1.5, float(np.nextafter(1 / 1.5, 1))
    for C in (inside, outside):
        check(make(K, [0, 1], [[1.0, 0.25], [0.5, 1.0]], C=C))
