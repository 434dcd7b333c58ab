"""Checks of plain values that a user gives."""

from __future__ import annotations

import difflib
import math
import numbers
from collections.abc import Collection, Iterable, Mapping
from typing import Any

import numpy as np

from labelcert.arrays import Float, Values
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
    raise InvalidInput(
        f"{name} must be a whole number{limits}{f' ({remark})' if remark else ''}, got {in_short(value)}"
    )


def in_short(value: Any) -> str:
    """What somebody gave, in one line of a message."""
    text = (
        " ".join(repr(value).split())
        if not isinstance(value, int) or abs(value) < 10**18
        else "a number of many digits"
    )
    return text if len(text) <= 80 else f"{text[:77]}..."


def flag(name: str, value: Any) -> bool:
    """True or False, and nothing that merely counts as one of them."""
    if isinstance(value, bool | np.bool_):
        return bool(value)
    raise InvalidInput(f"{name} must be True or False, got {in_short(value)}")


def word(name: str, value: Any) -> str:
    """A word; everything else is refused before it is looked up."""
    if isinstance(value, str):
        return value
    raise InvalidInput(f"{name} must be a word in quotes, got {in_short(value)}")


def nearest(value: object, known: Iterable[str]) -> str:
    """What a message says behind a name that is not known: which one was probably meant."""
    close = difflib.get_close_matches(str(value).lower(), list(known), n=1)
    return f"; did you mean {close[0]!r}?" if close else ""


def known_name(name: str, value: Any, known: Collection[str]) -> str:
    """One of the names in a registry."""
    if isinstance(value, str) and value in known:
        return value
    raise InvalidInput(f"{name} must be one of {', '.join(known)}, got {in_short(value)}{nearest(value, known)}")


def one_of(name: str, value: Any, choices: tuple[str, ...]) -> None:
    """Refuse an option that is not among its choices."""
    if not isinstance(value, str) or value not in choices:
        raise InvalidInput(f"{name} must be one of {', '.join(map(repr, choices))}, got {value!r}")


def real_number(value: Any) -> float | None:
    """A finite real number as a float; None for anything else, such as True, a complex number or a missing value."""
    if isinstance(value, numbers.Real) and not isinstance(value, bool):
        try:
            number = float(value)
        except (OverflowError, TypeError, ValueError):
            return None
        return number if math.isfinite(number) else None
    return None


def is_flat(values: Any) -> bool:
    """Whether these are several values, none of which is a list of others.

    Examples
    --------
    >>> is_flat(["ann", "bob"]), is_flat([["ann", "bob"], ["cy"]]), is_flat("ann")
    (True, False, False)
    """
    if isinstance(values, str | Mapping) or not isinstance(values, Iterable) or getattr(values, "ndim", 1) != 1:
        return False
    return not any(isinstance(value, list | tuple | set | dict | np.ndarray) for value in values)


def unmasked(name: str, value: Any) -> Any:
    """An array, or whatever becomes one; refuses masked entries, whose mask NumPy would drop.

    Examples
    --------
    >>> unmasked("costs", np.ma.array([1, 2], mask=[True, False]))
    Traceback (most recent call last):
    ...
    labelcert.errors.InvalidInput: costs must not be missing, but 1 of 2 entries is masked; leave it out, or fill it in
    """
    parts = value if isinstance(value, list | tuple) else [value]
    masked = sum(int(np.ma.getmaskarray(part).sum()) for part in parts if isinstance(part, np.ma.MaskedArray))
    if masked:
        count = sum(np.size(part) for part in parts)
        is_, it = ("is", "it") if masked == 1 else ("are", "them")
        raise InvalidInput(
            f"{name} must not be missing, but {masked} of {count} entries {is_} masked; leave {it} out, or fill {it} in"
        )
    return value


def real_array(name: str, value: Any) -> Float:
    """Real numbers as an array of float64; refuses what is masked, and words and complex numbers, which NumPy turns.

    Examples
    --------
    >>> real_array("costs", ["1", "2"])
    Traceback (most recent call last):
    ...
    labelcert.errors.InvalidInput: costs must hold real numbers, got dtype <U1
    """
    given = unmasked(name, value)
    try:
        array = np.asarray(given)
        if array.dtype.kind in "biufO":
            return np.asarray(array, dtype=np.float64)
    except (ValueError, TypeError, OverflowError) as error:
        raise InvalidInput(f"{name} must hold real numbers ({error})") from None
    raise InvalidInput(f"{name} must hold real numbers, got dtype {array.dtype}")


def as_labels(value: Any) -> Values:
    """The labels as an array; refuses what NumPy would silently turn into something else."""
    given = unmasked("labels", value)
    try:
        labels = np.array(given)
        if labels.ndim != 1 or (hasattr(given, "dtype") and labels.dtype != np.object_):
            return labels
        return _of_one_kind(np.array(given, dtype=object).tolist())
    except InvalidInput:
        raise
    except (ValueError, TypeError, OverflowError) as error:
        raise InvalidInput(f"labels must be a flat sequence, one per training point ({error})") from None


def _of_one_kind(values: list[Any]) -> Values:
    """Labels that are all words, all numbers, or all True or False."""
    missing = [i for i, value in enumerate(values) if is_missing(value)]
    if missing:
        raise InvalidInput(
            f"labels must not be missing, but label {missing[0]} is {values[missing[0]]!r}; pass labelled points only"
        )
    kinds = {_kind(v): type(v).__name__ for v in values}
    if len(kinds) > 1:
        raise InvalidInput(f"labels must all be of one kind, got a mix of {', '.join(sorted(kinds.values()))}")
    labels = np.array(values)
    if labels.ndim == 1 and labels.dtype != np.object_ and np.unique(labels).size < len(set(values)):
        raise InvalidInput(
            "labels must stay different as NumPy's numbers or words, but some become equal; give them other names"
        )
    return labels


def is_missing(value: Any) -> bool:
    """Whether a value is None, does not equal itself, or does not say: NaN, and pandas' signs for missing values."""
    try:
        return value is None or not bool(value == value)
    except (TypeError, ValueError):
        return True


def _kind(value: Any) -> str:
    """What NumPy must not turn a label into another of."""
    if isinstance(value, bool | np.bool_):
        return "bool"
    return "number" if isinstance(value, numbers.Real) else type(value).__name__.removesuffix("_")
