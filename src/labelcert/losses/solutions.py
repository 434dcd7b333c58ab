"""Solutions of trainings that are as exact as anybody asks: what decides where float64 cannot.

Rational numbers are exact at once. Where the optimum is not rational, a solution is known up to an interval that
becomes narrower with each level of precision.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from labelcert.arrays import Float
from labelcert.svm.exact import to_integers

LAST_LEVEL = 3
"""The highest level of precision; what it leaves undecided stays undecided."""

Interval = tuple[Fraction, Fraction]

NOTHING: Interval = (Fraction(0), Fraction(0))


class ExactRow(NamedTuple):
    """A test row as whole numbers over a power of two: ``row = numbers / 2**shift``."""

    numbers: list[int]
    shift: int

    @classmethod
    def of(cls, row: Float) -> ExactRow:
        """A row of float64 numbers without rounding."""
        numbers, shift = to_integers(row[None])
        return cls(numbers[0], shift)


class Solution(ABC):
    """What multiplies the test rows after one training."""

    @abstractmethod
    def score(self, row: ExactRow, level: int) -> Interval | None:
        """An interval that holds the score of a row; None where nothing is known at this level."""

    @abstractmethod
    def rounded(self) -> tuple[Float, float]:
        """The solution in float64, and a bound on the 2-norm of what that leaves out, beyond rounding."""

    def sign(self, row: ExactRow) -> int | None:
        """Sign of the score of a row; None where it stays undecided."""
        return decided(lambda level: self.score(row, level))

    def compare(self, other: Any, row: ExactRow) -> int | None:
        """Sign of the score of a row minus its score by another solution of the same kind."""
        return decided(lambda level: minus(self.score(row, level), other.score(row, level)))


def minus(a: Interval | None, b: Interval | None) -> Interval | None:
    """The difference of two intervals; unknown where one of them is."""
    return None if a is None or b is None else (a[0] - b[1], a[1] - b[0])


def decided(interval: Callable[[int], Interval | None]) -> int | None:
    """The sign of a number that an interval holds at each level; None where even the last one holds zero inside."""
    for level in range(LAST_LEVEL + 1):
        found = interval(level)
        if found is not None and (found[0] > 0 or found[1] < 0 or found[0] == found[1]):
            return sign(found[0])
    return None


class Rational(Solution):
    """Rational numbers ``numerators / denominator``, times a positive factor that is the same for all labels."""

    def __init__(self, numerators: Sequence[Any], denominator: Any = 1, unit: Fraction = Fraction(1)) -> None:
        self._numerators, self._denominator, self._unit = numerators, denominator, unit

    def score(self, row: ExactRow, level: int) -> Interval:
        """Both ends are the score."""
        value = Fraction(int(self._product(row)), int(self._denominator) << row.shift) * self._unit
        return value, value

    def sign(self, row: ExactRow) -> int:
        """Only the numerator matters."""
        return sign(self._product(row))

    def compare(self, other: Rational, row: ExactRow) -> int:
        """Cross-multiplied, without a division."""
        return sign(self._product(row) * other._denominator - other._product(row) * self._denominator)

    def rounded(self) -> tuple[Float, float]:
        """Nothing but rounding is left out."""
        unit = self._unit
        return np.array([float(Fraction(int(v), int(self._denominator)) * unit) for v in self._numerators]), 0.0

    def _product(self, row: ExactRow) -> Any:
        return sum(k * v for k, v in zip(row.numbers, self._numerators, strict=True))


def sign(value: Any) -> int:
    """-1, 0 or 1."""
    return int(value > 0) - int(value < 0)
