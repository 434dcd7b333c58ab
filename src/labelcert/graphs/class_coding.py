"""From the labels that people write (words, numbers, nothing) to classes 0..K-1."""

from __future__ import annotations

import math
import numbers
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from labelcert.graphs.validation import UNLABELED

if TYPE_CHECKING:
    from labelcert.graphs.validation import IntArray


def encode_classes(values: Iterable[Any]) -> tuple[IntArray, tuple[str, ...]]:
    """Labels 0..K-1 and the names of the classes; None, NaN and empty text are unlabelled (-1).

    Classes are in numerical order if all names are numbers, else in alphabetical order. Whole numbers have
    one name however they are stored: 1, 1.0 and "1" are the same class.

    Examples
    --------
    >>> encode_classes(["spam", "ham", None, "spam"])
    (array([ 1,  0, -1,  1]), ('ham', 'spam'))
    >>> encode_classes([10, 2.0, float("nan")])[1]
    ('2', '10')
    """
    names = [_class_name(value) for value in values]
    known = {name for name in names if name is not None}
    try:
        classes = sorted(known, key=lambda name: (float(name), name))
    except ValueError:
        classes = sorted(known)
    position = {name: k for k, name in enumerate(classes)}
    labels = [UNLABELED if name is None else position[name] for name in names]
    return np.array(labels, dtype=np.int64), tuple(classes)


def _class_name(value: Any) -> str | None:
    # pandas has its own missing value, which is neither None nor a number; it prints as <NA>.
    if value is None or str(value) in ("", "<NA>", "NaT"):
        return None
    if isinstance(value, numbers.Real) and not isinstance(value, bool | np.bool_):
        number = float(value)
        if math.isnan(number):
            return None
        if number.is_integer():
            return str(int(number))
    return str(value).strip() or None
