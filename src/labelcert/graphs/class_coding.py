"""From the labels that people write (words, numbers, nothing) to classes 0..K-1."""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable, Iterable
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any

import numpy as np

from labelcert.errors import InvalidInput
from labelcert.graphs.validation import UNLABELED

if TYPE_CHECKING:
    from labelcert.arrays import Int

_MISSING_WORDS = {"na", "n/a", "nan", "none", "null"}
_LONGEST_WHOLE_NUMBER = 30


def encode_classes(
    values: Iterable[Any], *, place: Callable[[int], str] = "entry {}".format
) -> tuple[Int, tuple[str, ...]]:
    """Labels 0..K-1 and the names of the classes; None, NaN and empty text are unlabelled (-1).

    Where all labels are finite numbers, they are compared by value (1, 1.0 and "1" are the same class) and
    classes are in numerical order; otherwise they are text and in alphabetical order. Words that often stand
    for a missing label are refused: they could be meant as a class or as none. So is -1, unless the labels are
    just -1 and 1, which is the usual code of two classes.

    Parameters
    ----------
    values : iterable
        The labels.
    place : callable
        Says where the label with a given position is, for messages.

    Examples
    --------
    >>> encode_classes(["spam", "ham", None, "spam"])
    (array([ 1,  0, -1,  1]), ('ham', 'spam'))
    >>> encode_classes([10, 2.0, float("nan"), "2.00"])
    (array([ 1,  0, -1,  0]), ('2', '10'))
    >>> encode_classes(["-1", "1", None])
    (array([ 0,  1, -1]), ('-1', '1'))
    """
    names = [_class_name(value) for value in values]
    parsed = [None if name is None else _number(name) for name in names]
    plus_minus = {number for name, number in zip(names, parsed, strict=True) if name is not None} == {-1, 1}
    for i, (name, number) in enumerate(zip(names, parsed, strict=True)):
        if name is not None and (name.lower() in _MISSING_WORDS or (number == UNLABELED and not plus_minus)):
            raise InvalidInput(
                f"expected the name of a class, got {name!r} in {place(i)}, which may stand for no label; "
                f"leave the field empty for an unlabelled node, or give the class another name"
            )
    known = [number for name, number in zip(names, parsed, strict=True) if name is not None]
    numerical = None not in known
    if numerical:
        spelling: dict[Decimal, str] = {}
        for name, number in zip(names, parsed, strict=True):
            if name is not None and number is not None:
                spelling.setdefault(number, _spelled(number, name))
        names = [None if number is None else spelling[number] for number in parsed]
        classes = [spelling[number] for number in sorted(spelling)]
    else:
        classes = sorted({name for name in names if name is not None})
    position = {name: k for k, name in enumerate(classes)}
    labels = [UNLABELED if name is None else position[name] for name in names]
    return np.array(labels, dtype=np.int64), tuple(classes)


def _class_name(value: Any) -> str | None:
    # pandas has its own missing value, which is neither None nor a number; it prints as <NA>.
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
    """The finite number that a name is, exactly (long ids stay apart); None where it is another text."""
    try:
        number = Decimal(name)
    except InvalidOperation:
        return None
    return number if number.is_finite() and "_" not in name else None


def _spelled(number: Decimal, name: str) -> str:
    whole = number == number.to_integral_value() and number.adjusted() < _LONGEST_WHOLE_NUMBER
    return str(int(number)) if whole else name
