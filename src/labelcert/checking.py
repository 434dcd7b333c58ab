"""Checks of plain values that a user gives."""

from __future__ import annotations

from typing import Any

import numpy as np

from labelcert.errors import InvalidInput


def whole_number(name: str, value: Any, least: int | None = 0, largest: int | None = None, remark: str = "") -> int:
    """A Python or NumPy integer within limits, as an int; everything else is refused, 2.0 and True as well.

    Examples
    --------
    >>> whole_number("count", 3)
    3
    >>> whole_number("parts", 9, 1, 8, "one label each")
    Traceback (most recent call last):
    ...
    labelcert.errors.InvalidInput: parts must be a whole number between 1 and 8 (one label each), got 9
    """
    limits = ""
    if largest is not None:
        limits = f" between {least} and {largest}"
    elif least is not None:
        limits = f" of at least {least}"
    if isinstance(value, int | np.integer) and not isinstance(value, bool):
        number = int(value)
        if (least is None or number >= least) and (largest is None or number <= largest):
            return number
    raise InvalidInput(f"{name} must be a whole number{limits}{f' ({remark})' if remark else ''}, got {value!r}")
