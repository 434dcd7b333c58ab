"""Numbers the classes 0..K-1, from labels as people write them: words, numbers or nothing."""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from typing import Any

import numpy as np

from labelcert.arrays import Int
from labelcert.errors import InvalidInput
from labelcert.graphs.checks import UNLABELED

DOUBTFUL = (
    *("na", "n/a", "nan", "none", "null", "nil", "#n/a", "?", "??", "-", "--", ".", "unknown", "missing", "undefined"),
    *("unlabeled", "unlabelled", "not labeled", "not labelled", "tbd"),
)
"""Words, in lower case, that often stand for nothing: where labels are, somebody has to say."""

_LONGEST_WHOLE_NUMBER = 30


def encode_classes(
    values: Iterable[Any],
    *,
    place: Callable[[int], str] = "entry {}".format,
    refuse: Callable[[str], None] | None = None,
    missing: Sequence[str] | None = None,
    advice: Callable[[str], str] = "leave it empty for no label, or give the class another name than {!r}".format,
) -> tuple[Int, tuple[str, ...]]:
    """Return labels 0..K-1 and the names of the classes; None, NaN and empty text become -1 (unlabelled).

    If all labels are finite numbers, they are compared by value (1, 1.0 and "1" are the same class) and classes
    are in numerical order. Otherwise labels are text and classes are in alphabetical order. Words that often
    mark a missing label are refused, because they could also name a class. So is -1, unless the labels are just
    -1 and 1, the usual code of two classes. ``missing`` decides: its words mark a missing label, all others a class.

    `place` describes where the label at a position is, for messages. `refuse` takes the message of each label
    that is refused; by default the first one is raised. `advice` says what to do about a name.
    """
    names = [_class_name(value) for value in values]
    if missing is not None:
        none = {word.strip().lower() for word in missing}
        names = [None if name is None or name.lower() in none else name for name in names]
    numeric = {name: _number(name) for name in names if name is not None}
    plus_minus = set(numeric.values()) == {-1, 1}
    for i, name in enumerate(names):
        doubtful = name is not None and (name.lower() in DOUBTFUL or (numeric[name] == UNLABELED and not plus_minus))
        if doubtful and missing is None:
            message = (
                f"expected the name of a class, got {name!r} in {place(i)}, which may stand for no label; "
                f"{advice(str(name))}"
            )
            if refuse is None:
                raise InvalidInput(message)
            refuse(message)
    exact = {name: number for name, number in numeric.items() if number is not None}
    if len(exact) == len(numeric):
        code, classes = _by_value(exact)
    else:
        classes = sorted(numeric)
        code = {name: k for k, name in enumerate(classes)}
    labels = [UNLABELED if name is None else code[name] for name in names]
    return np.array(labels, dtype=np.int64), tuple(classes)


def _by_value(numeric: Mapping[str, Decimal]) -> tuple[dict[str, int], list[str]]:
    """Number the classes by their values; return the class of each name, and how each class is first spelled."""
    spelling: dict[Decimal, str] = {}
    for name, number in numeric.items():
        whole = number == number.to_integral_value() and number.adjusted() < _LONGEST_WHOLE_NUMBER
        spelling.setdefault(number, str(int(number)) if whole else name)
    rank = {number: k for k, number in enumerate(sorted(spelling))}
    return {name: rank[number] for name, number in numeric.items()}, [spelling[number] for number in rank]


def _class_name(value: Any) -> str | None:
    # The missing values of pandas are neither None nor a number; they print as <NA> and NaT.
    if value is None or str(value) in ("", "<NA>", "NaT"):
        return None
    if isinstance(value, numbers.Integral) and not isinstance(value, bool):
        return str(int(value))
    if isinstance(value, numbers.Real) and not isinstance(value, bool | np.bool_):
        number = float(value)
        if math.isnan(number):
            return None
        if number.is_integer():
            return str(int(number))
    return str(value).strip() or None


def _number(name: str) -> Decimal | None:
    """Return the finite number that a name spells, exactly (long ids stay distinct); None if it spells none."""
    try:
        number = Decimal(name)
    except InvalidOperation:
        return None
    return number if number.is_finite() and "_" not in name else None
