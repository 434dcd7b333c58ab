from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from labelcert import InvalidInput
from labelcert.problem.budget import flips_for_fraction


def test_float_error_does_not_lose_a_flip() -> None:
    assert flips_for_fraction(0.29, 100) == 29
    assert flips_for_fraction(0.57, 100) == 57
    assert flips_for_fraction(np.float32(0.29), 100) == 29
    assert flips_for_fraction(1 / 3, 3) == 1
    assert flips_for_fraction(0.05, 20) == 1
    assert flips_for_fraction(0.3, 20) == 6


@given(st.integers(0, 200), st.integers(1, 200))
def test_k_of_m_is_k(k: int, m: int) -> None:
    k = min(k, m)
    assert flips_for_fraction(k / m, m) == k
    assert flips_for_fraction(Fraction(k, m), m) == k


def test_decimal_and_bounds() -> None:
    assert flips_for_fraction(Decimal("0.29"), 100) == 29
    assert flips_for_fraction(0, 7) == 0
    assert flips_for_fraction(1, 7) == 7


@pytest.mark.parametrize("bad", [-0.1, 1.5, float("nan"), True, "half"])
def test_bad_fractions(bad: object) -> None:
    with pytest.raises(InvalidInput, match="fraction must be"):
        flips_for_fraction(bad, 10)  # type: ignore[arg-type]
