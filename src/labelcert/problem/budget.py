"""Budgets: whole numbers of flips (or cost units), and fractions of the labels without float error."""

from __future__ import annotations

import math
import numbers
from decimal import Decimal
from fractions import Fraction

import numpy as np

from labelcert.checking import in_short
from labelcert.errors import InvalidInput


def flips_for_fraction(fraction: float | Fraction | Decimal, total: int) -> int:
    """``⌊ε · total⌋`` for the fraction that was meant, not for its nearest float.

    A float stands for the simplest fraction that rounds to it: 0.29 of 100 is 29, where floats say 28.
    """
    if isinstance(fraction, bool) or not isinstance(fraction, numbers.Real | Decimal | np.floating):
        raise InvalidInput(f"a budget fraction must be a number between 0 and 1, got {in_short(fraction)}")
    if not 0 <= fraction <= 1:  # also refuses NaN
        raise InvalidInput(
            f"a budget fraction must be between 0 and 1, got {in_short(fraction)}; give a number of flips as flips=..."
        )
    return math.floor(meant(fraction) * total)


def largest_budget(flips: int | None, fraction: float | None, total: int) -> int | None:
    """The largest budget as the user gave it: as a number of flips, as a fraction of the total cost, or not at all."""
    if fraction is None:
        return flips
    if flips is not None:
        raise InvalidInput("give the largest budget as max_flips or as max_fraction, not both")
    return flips_for_fraction(fraction, total)


def meant(fraction: float | Fraction | Decimal) -> Fraction:
    """The simplest fraction that rounds to a float, if it is a simple one; otherwise the float itself."""
    if isinstance(fraction, Fraction | Decimal | numbers.Integral):
        return Fraction(fraction)
    written = Fraction(str(fraction))
    simple = written.limit_denominator(10**6)
    return simple if type(fraction)(float(simple)) == fraction else written
