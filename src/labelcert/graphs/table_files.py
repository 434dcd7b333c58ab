"""Tables as people have them: CSV in several dialects and encodings, Parquet, and data frames.

pandas is only imported when a table is read, because it takes as long to import as the rest of the package.
"""

from __future__ import annotations

import csv
import io
import os
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import numpy as np

from labelcert.arrays import Int
from labelcert.checking import in_short
from labelcert.errors import InvalidInput, MissingExtra
from labelcert.graphs.checks import reason
from labelcert.graphs.problems import Problems
from labelcert.memory import require_memory
from labelcert.reading import LARGER, PACKED, READING, UNREADABLE, most_unpacked, read_decoded, require_file

if TYPE_CHECKING:
    import pandas as pd

TableSource: TypeAlias = "str | os.PathLike[str] | pd.DataFrame"

MOST_COLUMNS = 50_000
"""Columns of a table: reading more takes minutes."""

SEPARATORS = {".csv": ",", ".tsv": "\t", ".txt": "\t"}
PARQUET = (".parquet", ".pq")
_OTHERS = {";": "semicolons", "\t": "tabs", ",": "commas", "|": "vertical bars"}
_CODE = re.compile(r"(?m)(?:^|[,;|\t\"])[ ]*0\d")
"""Where a number begins with a zero, as codes do."""


def is_table(path: Path) -> bool:
    """Whether a file is a table, by its name."""
    return kind_of(path) in (*SEPARATORS, *PARQUET)


def kind_of(path: Path) -> str:
    """The ending of a file that says what it is, in lower case, without that of its compression."""
    suffixes = [s.lower() for s in path.suffixes if s.lower() not in PACKED]
    return suffixes[-1] if suffixes else ""


class TableFile:
    """A table and the file, or data frame, that it was read from; error messages name it.

    ``columns`` are those that are needed, and how a caller says that they have other names. With ``codes``, numbers
    that begin with a zero stay text. A file of ``any_name`` is taken for CSV.
    """

    def __init__(
        self,
        source: TableSource,
        problems: Problems,
        *,
        columns: dict[str, str],
        what: str = "",
        codes: bool = False,
        any_name: bool = False,
    ) -> None:
        self.problems = problems
        self.decimal_comma = self.headless = False
        self._columns, self._codes, self._needed = columns, codes, what == "edges"
        self._any_name = any_name
        self._first, self._other = 0, cast("TableFile | None", None)
        self._lines: Int = np.zeros(0, dtype=np.int64)
        if isinstance(source, str | os.PathLike):
            self.path: Path | None = Path(source)
            self.name = self.path.name
            self.frame = self._read(self.path)
        else:
            self.path, self.name = None, f"the data frame of {what}"
            self.frame = self._taken(source)

    def _taken(self, source: Any) -> pd.DataFrame:
        """A data frame as it is given; names of nodes may be in its index."""
        if not hasattr(source, "iloc") or not hasattr(source, "columns"):
            raise InvalidInput(f"expected a path or a data frame, got {in_short(source)}")
        self._check_header([str(name) for name in source.columns])
        node = next((name for name, role in self._columns.items() if role == "node"), None)
        if node is not None and node not in source.columns and type(source.index).__name__ != "RangeIndex":
            return cast("pd.DataFrame", source.rename_axis(node).reset_index())
        return cast("pd.DataFrame", source.reset_index(drop=True))

    def _read(self, path: Path) -> pd.DataFrame:
        import pandas as pd

        if not path.exists():
            raise InvalidInput(f"expected a table, but there is no file {path}; check the path")
        kind = kind_of(path)
        if kind in PARQUET:
            return self._read_parquet(path)
        if kind not in SEPARATORS and not self._any_name:
            advice = "save it as CSV" if kind in (".xlsx", ".xls", ".ods") else "rename or convert it"
            raise InvalidInput(
                f"expected a file ending in {', '.join((*SEPARATORS, *PARQUET))}, got {self.name}; {advice}"
            )
        try:
            content, encoding = read_decoded(path)
            if not content.strip():
                raise ValueError("it is an empty file")
            content, separator = self._dialect(content, SEPARATORS.get(kind, ","), encoding)
            content = self._stripped_header(content, separator)
            header = self._check_rows(content, separator)
            # Ids are text; where their columns have other names, which these are is not yet known.
            text = self._needed and not set(self._columns) <= set(header)
            text |= self._codes and _CODE.search(content) is not None
            frame = pd.read_csv(
                io.StringIO(content),
                sep=separator,
                dtype=str if text else dict.fromkeys(self._columns, str),
                keep_default_na=False,
                na_values=[""],
                skipinitialspace=True,
            )
            if len(frame) != len(self._lines):
                raise ValueError(f"it has {len(self._lines)} rows or {len(frame)}, depending on how quotes are read")
            return frame
        except InvalidInput:
            raise
        except UNREADABLE as error:
            raise InvalidInput(
                f"expected a table with a header and equally many fields in every row, but {path} "
                f"cannot be read as one ({reason(error)}); correct the file"
            ) from error

    def _dialect(self, content: str, usual: str, encoding: str) -> tuple[str, str]:
        """The text, without what Excel says about separators, and the sign that separates its fields."""
        said = re.match(r'"?sep=([;,|\t])"?[ ]*(?=\r?\n)', content)
        if said:
            content = content[said.end() :]  # a blank line, so that lines keep their numbers
        header = re.sub(r'"[^"]*"', "", next((line for line in content.split("\n", 50) if line.strip()), ""))
        counts = {sign: header.count(sign) for sign in _OTHERS}
        separator = usual if counts[usual] else max(counts, key=lambda sign: counts[sign])
        separator = said[1] if said else separator if counts[separator] else usual
        unusual = [encoding] if encoding else []
        unusual += [f"separated by {_OTHERS[separator]}"] if separator != usual else []
        self.decimal_comma = separator != "," and bool(re.search(r"\d,\d", content))
        if unusual:
            self.problems.notes.append(f"{self.name} is read as {', '.join(unusual)}")
        return content, separator

    def _stripped_header(self, content: str, separator: str) -> str:
        """The text without blanks behind the names of columns, as in ``source ,target``; others are skipped anyway."""
        start = len(content) - len(content.lstrip("\r\n"))
        header, newline, rest = content[start:].partition("\n")
        names = header.rstrip("\r").split(separator)
        if '"' in header or all(name.lstrip() == name.strip() for name in names):
            return content
        for name in names:
            if name.lstrip() != name.strip():
                self.problems.harmless(
                    f"expected the name of a column without blanks around it, got {name!r} in the header of "
                    f"{self.name}; remove the blanks",
                    f"the column {name!r} of {self.name} is read as {name.strip()!r}",
                )
        return content[:start] + separator.join(name.strip() for name in names) + newline + rest

    def _check_rows(self, content: str, separator: str) -> list[str]:
        """Refuse rows longer or shorter than the header, which pandas would cut or fill; record their line numbers.

        Returns the header.
        """
        quoted = '"' in content or "\r" in content
        lines, fields, header = (_parsed if quoted else _counted)(content, separator)
        if lines.size == 0:
            return header
        self._check_header(header)
        self._lines = lines[1:]
        uneven = Problems(fix=False)
        uneven.add_each(
            np.flatnonzero(fields[1:] != fields[0]),
            lambda i: (
                f"expected equally many fields in every row, but {self.row(i)} has {fields[1 + i]} where the header "
                f"has {fields[0]}; correct the row (a field may be empty)"
            ),
        )
        # Nothing else can be read from such a table.
        uneven.refuse()
        return header

    def _check_header(self, header: Sequence[str]) -> None:
        self._check_width(len(header))
        repeated = next((name for name, count in Counter(header).items() if count > 1), None)
        if repeated is not None:
            raise InvalidInput(
                f"expected distinct columns, got {repeated!r} more than once in the header of {self.name}; "
                f"rename or drop one of them"
            )

    def _check_width(self, columns: int) -> None:
        if columns > MOST_COLUMNS:
            raise InvalidInput(
                f"expected at most {MOST_COLUMNS:,} columns, got {columns:,} in {self.name}; give so many "
                "features as a sparse matrix: Graph(features=...), or a file that Graph.to_npz wrote"
            )

    def _read_parquet(self, path: Path) -> pd.DataFrame:
        import pandas as pd

        try:
            import pyarrow.parquet  # type: ignore[import-untyped, unused-ignore]
        except ImportError:
            raise MissingExtra("pyarrow", "parquet", f"reading {self.name}") from None
        try:
            require_file(path)
            about = pyarrow.parquet.read_metadata(path)
            self._check_width(about.num_columns)
            if 8 * about.num_rows * about.num_columns > most_unpacked(os.stat(path).st_size):
                raise ValueError(f"it would unpack to {about.num_rows:,} rows, far more than its size allows")
            require_memory(READING * 8 * about.num_rows * about.num_columns, f"reading {self.name}", LARGER)
            return pd.read_parquet(path, engine="pyarrow")
        except (ValueError, OSError, pyarrow.ArrowException) as error:
            raise InvalidInput(
                f"expected a Parquet file, but {path} cannot be read as one ({reason(error)}); write it again"
            ) from error

    def extend(self, other: TableFile, optional: Sequence[str] = ()) -> None:
        """Add the rows of another table with the same columns, of which some may be absent there."""
        import pandas as pd

        absent = [str(name) for name in self.frame.columns if name not in other.frame.columns and name not in optional]
        if absent:
            raise InvalidInput(f"{other.name} lacks columns of {self.name}: {', '.join(absent[:10])}; add them")
        self._first, self._other = len(self.frame), other
        kept = [name for name in self.frame.columns if name in other.frame.columns]
        self.decimal_comma |= other.decimal_comma
        self.frame = pd.concat([self.frame, other.frame[kept]], ignore_index=True)

    def row(self, index: int) -> str:
        """Describe where row `index` is in the file."""
        if self._other is not None and index >= self._first:
            return self._other.row(index - self._first)
        if self._lines.size == 0:
            return f"row {index} of {self.name}"
        return f"line {self._lines[index]} of {self.name}"

    def field(self, column: Any, index: int) -> str:
        """Describe the content of a field for error messages."""
        field = self.frame[column].iloc[[index]]
        return "an empty field" if field.isna().any() else repr(field.item())

    def column(self, name: str) -> pd.Series[Any]:
        """The column of that name; refuses tables without it."""
        if name not in self.frame.columns:
            raise InvalidInput(self.without(name))
        return self.frame[name]

    def without(self, *absent: str) -> str:
        """What is said about columns that there are not."""
        names = [str(c) for c in self.frame.columns]
        if self.headless or (len(names) > 1 and all(re.fullmatch(r"[-+]?[\d.,]+", c) for c in names)):
            return (
                f"expected a header in {self.name}, got {', '.join(names[:4])} as the names of its columns, which look "
                "like data; write a line with names above them"
            )
        found = ", ".join(map(repr, names[:20])) + (f" and {len(names) - 20} more" if len(names) > 20 else "")
        said = ", ".join(f"{role}=NAME" for name in absent if (role := self._columns.get(name, name)))
        one = len(absent) == 1
        wanted = f"a column {absent[0]!r}" if one else f"the columns {' and '.join(map(repr, absent))}"
        return (
            f"expected {wanted} in {self.name}, got the columns {found or 'none'}; rename {'one' if one else 'two'}"
            + (f", or say which {'one it is' if one else 'they are'} as {said}" if said else "")
        )


def _counted(content: str, separator: str) -> tuple[Int, Int, list[str]]:
    """Line numbers of the rows that are not blank, how many fields each has, and the first row.

    Each line is a row, cut at every separator.
    """
    signs = np.frombuffer(content.encode(), dtype=np.uint8)
    ends = np.append(np.flatnonzero(signs == ord("\n")), signs.size)
    cuts = np.flatnonzero(signs == ord(separator))
    fields = np.diff(np.searchsorted(cuts, ends), prepend=0) + 1
    starts = np.append(0, ends[:-1] + 1)
    single = np.flatnonzero(fields == 1).tolist()
    blank = [k for k in single if not signs[starts[k] : ends[k]].tobytes().decode().strip()]
    rows = np.delete(np.arange(ends.size), blank)
    header = signs[starts[rows[0]] : ends[rows[0]]].tobytes().decode() if rows.size else ""
    return rows + 1, fields[rows], [name.lstrip(" ") for name in header.split(separator)]


def _parsed(content: str, separator: str) -> tuple[Int, Int, list[str]]:
    """The same where fields are quoted, and may hold separators or go on over several lines."""
    text = io.StringIO(content, newline="").readlines()
    reader = csv.reader(text, delimiter=separator, skipinitialspace=True)
    found, header, line = list[tuple[int, int]](), list[str](), 1
    for row in reader:
        if text[line - 1].replace(separator, "x").strip():
            header = header or row
            found.append((line, len(row)))
        line = reader.line_num + 1
    lines, fields = np.array(found, dtype=np.int64).reshape(-1, 2).T
    return lines, fields, header
