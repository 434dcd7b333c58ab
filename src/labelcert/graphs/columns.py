"""Columns of any kind as features: numbers scaled, categories one-hot, blanks filled, dates and free text left out.

Every decision is made from the columns alone. No label is looked at, so features are the same whatever labels change.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from labelcert.arrays import Bool, Float, Int
from labelcert.errors import InvalidInput
from labelcert.graphs.class_coding import DOUBTFUL
from labelcert.graphs.table_files import TableFile
from labelcert.memory import require_memory
from labelcert.reading import LARGER

if TYPE_CHECKING:
    import pandas as pd

FEW_CATEGORIES = 30
"""Text with more values than this is taken for names or free text."""

MOST_CATEGORIES = 1000
"""Values of a column of text that somebody asks for."""

MOST_TEXTS = 2000
"""Columns of text: each is looked at in several ways, which takes milliseconds."""

ALIKE = 10.0
"""Columns whose spreads differ by less than this factor need not be scaled."""

SHOWN = 6
"""Columns that a note names; the others are counted."""

_DATE = r"\d{4}[-/.]\d{1,2}[-/.]\d{1,2}([T ].*)?|\d{1,2}[./-]\d{1,2}[./-](\d{4}|\d{2})( .*)?|\d{1,2}:\d{2}(:\d{2})?"
_COMMA = r"[-+]?(\d{1,3}(\.\d{3})+|\d+)(,\d+)?(e[-+]?\d+)?"
_COUNTER = re.compile(r"unnamed: ?\d+|index|idx|row|nr\.?|no\.?|#|(.*[_ .-])?id|.*[a-z]I[dD]|row[_ ]?number", re.I)


@dataclass(frozen=True)
class Preparation:
    """What is made of the columns of a table; ``drop`` and ``columns`` say which of them are features.

    Parameters
    ----------
    columns : sequence of str, optional
        These columns alone, whatever they hold; by default all that hold numbers or categories.
    drop : sequence of str
        Columns that are left out.
    raw : bool, optional
        Numbers as they are, and nothing else; False scales numbers in any case. By default numbers are scaled where
        their spreads differ, and where there is anything else to prepare.
    transform : transformer of scikit-learn, optional
        Makes the features instead, of a data frame with these columns; it is fitted without labels.
    """

    columns: Sequence[str] | None = None
    drop: Sequence[str] = ()
    raw: bool | None = None
    transform: Any = None

    def features(self, table: TableFile, ids: Sequence[str], without: Sequence[str], fitted_on: Any = None) -> Any:
        """(n, d) features of the rows of a table, but for columns that are none; notes say what was done.

        Scales and values that stand for blanks are those of the rows that it is ``fitted_on``, by default all.
        """
        names = self._chosen(table, without)
        if self.raw:
            return as_they_are(table, names, ids)
        rows = slice(None) if fitted_on is None else fitted_on
        if self.transform is not None:
            return _transformed(self.transform, table, names, rows)
        sorted_ = _sorted(table, names, ids, asked=self.columns is not None)
        if not sorted_.found:
            if sorted_.left_out and len(table.frame) and not table.problems.any:
                table.problems.add(
                    f"expected at least one column of numbers or categories in {table.name}, but "
                    f"{sorted_.left_out_in_words()}; name those that are to be features as columns=[...]"
                )
            return np.empty((len(table.frame), 0))
        plain = not (sorted_.left_out or sorted_.filled or sorted_.categories or sorted_.dates)
        if plain and self.raw is None and _alike(sorted_, rows):
            return np.column_stack([*sorted_.found.values()])
        table.problems.notes.append(f"{table.name}: {sorted_.in_words()} (raw=True takes numbers as they are)")
        return _fitted(sorted_, rows)

    def _chosen(self, table: TableFile, without: Sequence[str]) -> list[Any]:
        known = {str(name): name for name in table.frame.columns if name not in without}
        for option, given in (("columns", self.columns or ()), ("drop", self.drop)):
            if isinstance(given, str):
                raise InvalidInput(f"{option} must be a list of names of columns, got {given!r}")
            for name in given:
                if name not in known:
                    found = ", ".join([*known][:20]) or "none"
                    raise InvalidInput(
                        f"{option}=[...] names {name!r}, but the columns of features in {table.name} are {found}"
                    )
        wanted = known if self.columns is None else dict.fromkeys(self.columns)
        return [known[name] for name in wanted if name not in self.drop]


@dataclass
class _Sorted:
    """Columns by what they hold."""

    found: dict[Any, Any] = field(default_factory=dict)
    """Those that become features: numbers with NaN for blanks, or text."""
    binary: list[Any] = field(default_factory=list)
    categories: dict[Any, int] = field(default_factory=dict)
    """With the number of their values."""
    dates: list[Any] = field(default_factory=list)
    filled: dict[Any, int] = field(default_factory=dict)
    left_out: dict[Any, str] = field(default_factory=dict)
    commas: bool = False

    @property
    def numbers(self) -> list[Any]:
        """Columns of numbers that are scaled."""
        return [name for name in self.found if name not in self.categories and name not in self.binary]

    def in_words(self) -> str:
        """All decisions in one line."""
        words = [f"scaled to mean 0 and deviation 1: {_some(self.numbers)}"] if self.numbers else []
        words += ["decimal commas"] if self.commas else []
        words += [f"dates as days: {_some(self.dates)}"] if self.dates else []
        words += [f"0 and 1 kept: {_some(self.binary)}"] if self.binary else []
        counted = [f"{name} ({count} values)" for name, count in self.categories.items()]
        words += [f"one-hot {_some(counted)}"] if counted else []
        blanks = [f"{name} ({count})" for name, count in self.filled.items()]
        how = "the median" if not self.categories else "the median, or a category of their own"
        words += [f"blanks filled with {how}: {_some(blanks)}"] if blanks else []
        words += [f"left out {self.left_out_in_words()}"] if self.left_out else []
        return "; ".join(words)

    def left_out_in_words(self) -> str:
        """The columns that are no features, by reason."""
        reasons = dict.fromkeys(self.left_out.values())
        groups = [(why, [name for name, own in self.left_out.items() if own == why]) for why in reasons]
        return ", ".join(f"{_some(names)} ({why})" for why, names in groups)


def _some(names: Sequence[Any]) -> str:
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(map(str, names[:SHOWN])) + more


def as_they_are(table: TableFile, names: Sequence[Any], ids: Sequence[str] | None, of: str = "node") -> Float:
    """Columns of finite numbers as a matrix of shape (n, d); one complaint about each other one."""
    X = np.empty((len(table.frame), len(names)))
    for j, name in enumerate(names):
        X[:, j] = decimal(table, name)
        _complain(table, name, ids, ~np.isfinite(X[:, j]), of)
    return X


def numeric(values: pd.Series[Any]) -> Float:
    """A column as float64, with NaN for everything that is not a number."""
    import pandas as pd

    # pandas would convert dates and durations to nanoseconds.
    if values.dtype.kind in "mMc":
        return np.full(len(values), np.nan)
    try:
        numbers = pd.to_numeric(values, errors="coerce")
        return np.array(numbers.to_numpy(dtype=np.float64, na_value=np.nan))
    except (TypeError, ValueError):
        return np.full(len(values), np.nan)


def _complain(table: TableFile, name: Any, ids: Sequence[str] | None, bad: Bool, of: str = "node") -> None:
    """One problem for a column, with the number of fields that hold no numbers, and examples."""
    places = np.flatnonzero(bad)
    if places.size == 0:
        return
    whose = [f" for {of} {ids[i]!r}" if ids is not None else "" for i in places[:3].tolist()]
    shown = zip(places[:3].tolist(), whose, strict=True)
    examples = ", ".join(f"{table.field(name, i)}{owner} ({table.row(i)})" for i, owner in shown)
    count = f"{places.size:,} of {bad.size:,} rows hold something else, " if places.size > 1 else ""
    table.problems.add_each(
        places[:1],
        lambda _: (
            f"expected finite numbers as features in column {str(name)!r} of {table.name}: {count}such as {examples}; "
            "correct that, or leave the column out" + (" as drop=[...]" if of == "node" else "")
        ),
    )


def _sorted(table: TableFile, names: Sequence[Any], ids: Sequence[str], *, asked: bool) -> _Sorted:
    sorted_ = _Sorted()
    texts = sum(table.frame[name].dtype.kind not in "fiubmM" for name in names)
    if texts > MOST_TEXTS:
        raise InvalidInput(
            f"{table.name} has {texts:,} columns of text among its features, more than the {MOST_TEXTS:,} that can be "
            "looked at; name those that are to be features as columns=[...]"
        )
    for name in names:
        values = table.frame[name]
        if values.dtype.kind in "fiub":
            _take_numbers(sorted_, table, name, ids, numeric(values), asked)
        elif values.dtype.kind in "mM":
            _take_dates(sorted_, name, values, asked)
        else:
            _take_text(sorted_, table, name, ids, asked)
    return sorted_


def _take_numbers(
    sorted_: _Sorted, table: TableFile, name: Any, ids: Sequence[str], numbers: Float, asked: bool
) -> None:
    infinite = np.isinf(numbers)
    if infinite.any():
        _complain(table, name, ids, infinite)
        return
    known = numbers[np.isfinite(numbers)]
    if known.size == 0:
        sorted_.left_out[name] = "empty"
        return
    distinct = np.unique(known)
    if not asked and distinct.size == numbers.size > 2 and _COUNTER.fullmatch(str(name)) and _whole(known):
        sorted_.left_out[name] = "one number for each row, by its name an id"
        return
    if np.isin(distinct, (0.0, 1.0)).all() and known.size == numbers.size:
        sorted_.binary.append(name)
    elif known.size < numbers.size:
        sorted_.filled[name] = numbers.size - known.size
    sorted_.found[name] = numbers


def _whole(numbers: Float) -> bool:
    return bool(np.all(numbers == np.floor(numbers)))


def _take_dates(sorted_: _Sorted, name: Any, values: Any, asked: bool) -> None:
    """Dates as days since 1970 where somebody asks for them."""
    import pandas as pd

    if not asked:
        sorted_.left_out[name] = "dates"
        return
    if values.dtype.kind == "m":
        days = values / pd.Timedelta(days=1)
    else:
        first = bool(values.astype(str).str.match(r"\d{1,2}\.").any())
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = pd.to_datetime(values, errors="coerce", format="mixed", dayfirst=first, utc=True)
        days = (found - pd.Timestamp(0, tz="UTC")) / pd.Timedelta(days=1)
    numbers = np.array(days.to_numpy(dtype=np.float64, na_value=np.nan))
    if blank := int(np.isnan(numbers).sum()):
        sorted_.filled[name] = blank
    sorted_.dates.append(name)
    sorted_.found[name] = numbers


def _take_text(sorted_: _Sorted, table: TableFile, name: Any, ids: Sequence[str], asked: bool) -> None:
    values = table.frame[name]
    text = values.where(values.notna(), "").astype(str).str.strip()
    blank = text.str.lower().isin([*DOUBTFUL, ""]).to_numpy()
    known = text[~blank]
    if known.empty:
        sorted_.left_out[name] = "empty"
        return
    numbers, commas = _numbers_of(text, decimal_comma=table.decimal_comma)
    bad = ~np.isfinite(numbers) & ~blank
    code = bool(known.str.match(r"[-+]?0\d").any())
    if not code and 2 * bad.sum() < known.size:
        if bad.any():
            _complain(table, name, ids, bad)
            return
        sorted_.commas |= commas
        _take_numbers(sorted_, table, name, ids, np.where(blank, np.nan, numbers), asked)
        return
    if known.str.fullmatch(_DATE).mean() > 0.9:
        _take_dates(sorted_, name, text.where(~blank), asked)
        return
    text = text.where(text != "", "(blank)")
    distinct = int(text.nunique())
    if distinct > (MOST_CATEGORIES if asked else min(FEW_CATEGORIES, max(2, known.size // 2))):
        if asked:
            table.problems.add(
                f"column {str(name)!r} of {table.name} holds {distinct:,} different texts, more than the "
                f"{MOST_CATEGORIES:,} that can be categories; leave it out as drop=[...]"
            )
        sorted_.left_out[name] = "names or free text"
    elif distinct < 2:
        sorted_.left_out[name] = "one value alone"
    else:
        sorted_.categories[name] = distinct
        sorted_.found[name] = text.to_numpy(dtype=object)
        if blanks := int((text == "(blank)").sum()):
            sorted_.filled[name] = blanks


def decimal(table: TableFile, name: Any) -> Float:
    """A column of numbers, which may have decimal commas, with NaN for everything else."""
    values = table.frame[name]
    if not table.decimal_comma or values.dtype.kind in "fiubmM":
        return numeric(values)
    return _numbers_of(values.where(values.notna(), "").astype(str).str.strip(), decimal_comma=True)[0]


def _numbers_of(text: pd.Series[str], *, decimal_comma: bool) -> tuple[Float, bool]:
    """Text as numbers, NaN where it is none; and whether decimal commas were read."""
    if decimal_comma:
        fits = text.str.fullmatch(_COMMA, case=False)
        comma = text.str.contains(",", regex=False)
        # 1.234 is a thousand where others have decimal commas, unless some number could not be meant so.
        if bool((fits | (text == "")).all()) or bool((fits & comma).any()):
            swapped = text.str.replace(".", "", regex=False).str.replace(",", ".", regex=False)
            return numeric(swapped.where(fits, text)), True
    return numeric(text), False


def _alike(sorted_: _Sorted, rows: slice | Int) -> bool:
    """Whether the spreads of all numbers differ by less than a factor of ten."""
    spreads = np.array([np.std(sorted_.found[name][rows]) for name in sorted_.numbers])
    spreads = spreads[spreads > 0]
    return spreads.size == 0 or bool(spreads.max() < ALIKE * spreads.min())


def _fitted(sorted_: _Sorted, rows: slice | Int) -> Float:
    """What scikit-learn makes of the columns: numbers first, then 0 and 1, then categories."""
    import pandas as pd
    from sklearn.compose import ColumnTransformer
    from sklearn.impute import SimpleImputer
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    place = {name: str(k) for k, name in enumerate(sorted_.found)}
    frame = pd.DataFrame({place[name]: values for name, values in sorted_.found.items()})
    width = len(place) + sum(sorted_.categories.values())
    require_memory(3 * 8 * len(frame) * width, f"{width:,} features of {len(frame):,} rows", LARGER)
    numbers = make_pipeline(SimpleImputer(strategy="median", keep_empty_features=True), StandardScaler())
    words = OneHotEncoder(drop="if_binary", handle_unknown="ignore", sparse_output=False)
    steps = [("numbers", numbers, sorted_.numbers), ("kept", "passthrough", sorted_.binary)]
    steps += [("words", words, [*sorted_.categories])]
    transformer = ColumnTransformer([(kind, step, [place[name] for name in own]) for kind, step, own in steps if own])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of categories that no training row has
        return np.asarray(transformer.fit(frame.iloc[rows]).transform(frame), dtype=np.float64)


def _transformed(transform: Any, table: TableFile, names: Sequence[Any], rows: slice | Int) -> Any:
    """What a transformer of the caller makes of the columns."""
    from sklearn.base import clone

    frame, kind = table.frame[list(names)], type(transform).__name__
    try:
        found = clone(transform).fit(frame.iloc[rows]).transform(frame)
    except (TypeError, ValueError, AttributeError) as error:
        raise InvalidInput(
            f"{kind} cannot make features of {table.name} without labels: {str(error).splitlines()[0]}; transform must "
            "be a transformer of scikit-learn that looks at columns alone"
        ) from None
    table.problems.notes.append(f"{table.name}: features by {kind}, fitted without labels")
    return found if hasattr(found, "toarray") else np.asarray(found)
