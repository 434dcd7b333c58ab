"""The user's own graph, from an edge list, a feature table and a label table in CSV or Parquet files.

pandas is only imported when a file is read, because it takes as long to import as the rest of the package.
"""

from __future__ import annotations

import csv
import io
import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import scipy.sparse as sp
from scipy.sparse import csr_array

from labelcert.arrays import Float, Int
from labelcert.errors import InvalidInput, MissingExtra
from labelcert.graphs.checks import UNLABELED, SparseMatrix, reason
from labelcert.graphs.class_coding import encode_classes
from labelcert.graphs.graph import Graph
from labelcert.graphs.problems import Problems
from labelcert.memory import require_memory
from labelcert.reading import LARGER, PACKED, READING, UNREADABLE, most_unpacked, read_text, require_file

if TYPE_CHECKING:
    import pandas as pd

PathOrStr: TypeAlias = str | os.PathLike[str]

MOST_COLUMNS = 50_000
"""Columns of a table: reading more takes minutes."""

_SEPARATORS = {".csv": ",", ".tsv": "\t", ".txt": "\t"}
_PARQUET = (".parquet", ".pq")


def graph_from_files(
    edges: PathOrStr | None = None,
    *,
    features: PathOrStr | None = None,
    labels: PathOrStr | None = None,
    directed: bool = False,
    source: str = "source",
    target: str = "target",
    weight: str = "weight",
    node: str = "node",
    label: str = "label",
    name: str | None = None,
    fix: bool = False,
) -> Graph:
    r"""Read a graph from tables with a header row: CSV (.csv, .tsv, .txt; possibly compressed) or Parquet.

    The feature table determines the nodes and their order. Without one, the nodes are those of the edge list,
    in order of appearance. A graph without features gets the identity matrix.

    Parameters
    ----------
    edges : path, optional
        One row per edge, with the columns `source`, `target` and, optionally, `weight` (1 by default).
    features : path, optional
        One row per node: the column `node`, numeric columns and, without `labels`, optionally `label`.
    labels : path, optional
        Columns `node` and `label`. Nodes that are missing, or whose label is empty, are unlabelled. Words for
        a missing label, such as NA or null, are refused.
    directed : bool
        Whether edges have a direction. If not, two rows for the two directions of an edge are one edge.
    source, target, weight, node, label : str
        Names of the columns.
    name : str, optional
        Name of the graph. Defaults to the file name of the edge list, or of the feature table. It includes the
        suffix, so that a file csbm.csv is not taken for the dataset csbm.
    fix : bool
        Whether to mend what is harmless: repeated edges, and blanks around the names of columns. A warning tells what
        was mended.

    Raises
    ------
    InvalidInput
        The message tells all problems at once, with line numbers.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from labelcert import graph_from_files
    >>> folder = tempfile.TemporaryDirectory()
    >>> edges, labels = Path(folder.name) / "friends.csv", Path(folder.name) / "labels.csv"
    >>> _ = edges.write_text("source,target\nann,bob\nbob,cleo\n")
    >>> _ = labels.write_text("node,label\nann,cat\ncleo,dog\n")
    >>> graph = graph_from_files(edges, labels=labels)
    >>> graph
    Graph('friends.csv', 3 nodes, 2 edges, 3 features, 2 classes, 1 unlabelled)
    >>> graph.node_names
    ('ann', 'bob', 'cleo')
    >>> folder.cleanup()
    """
    first = edges if edges is not None else features
    if first is None:
        raise InvalidInput("expected an edge list or a feature table, got neither; name at least one file")
    problems = Problems(fix=fix)
    edge_table = None if edges is None else _Table(edges, problems, columns={source: "source", target: "target"})
    node_table = None if features is None else _Table(features, problems, columns={node: "node", label: "label"})
    label_table = _label_table(labels, node_table, problems, node=node, label=label)
    X: Any = None
    if node_table is not None:
        node_names = node_table.distinct_ids(node)
        X = node_table.numbers(leaving_out=(node, label), ids=node_names)
    else:
        assert edge_table is not None
        node_names = edge_table.endpoints(source, target)
    n = len(node_names)
    if n == 0:
        problems.refuse()
        raise InvalidInput("expected at least one node, got empty tables; check the files")
    position = {name: i for i, name in enumerate(node_names)}
    adjacency, y, class_names = csr_array((n, n)), np.full(n, UNLABELED), tuple[str, ...]()
    if edge_table is not None:
        adjacency = edge_table.adjacency(source, target, weight, position, directed=directed)
    if label_table is not None:
        y, class_names = label_table.classes(node, label, position)
    problems.refuse()
    return Graph(
        adjacency=adjacency,
        features=sp.eye_array(n, format="csr") if X is None or X.shape[1] == 0 else X,
        labels=y,
        class_names=class_names,
        node_names=node_names,
        name=name or Path(first).name,
        directed=directed,
    )


def numbers_from_file(path: PathOrStr, *, names: str | None = None) -> pd.DataFrame:
    """A table of finite numbers in a CSV or Parquet file; the column ``names``, if there is one, names its rows."""
    import pandas as pd

    problems = Problems(fix=False)
    table = _Table(path, problems, columns={} if names is None else {names: "names"})
    rows = None if names is None else table.distinct_ids(names)
    kept = [column for column in table.frame.columns if column != names]
    X = table.numbers(leaving_out=() if names is None else (names,), ids=rows, of="row")
    problems.refuse()
    if X.size == 0:
        raise InvalidInput(f"expected rows of numbers, got an empty table; check {table.path.name}")
    return pd.DataFrame(X, columns=[str(column) for column in kept], index=None if rows is None else list(rows))


def _label_table(
    labels: PathOrStr | None, node_table: _Table | None, problems: Problems, *, node: str, label: str
) -> _Table | None:
    """Return the table with the labels: one of its own, or the feature table if it has a column for them."""
    in_features = node_table is not None and label in node_table.frame.columns
    if labels is None:
        return node_table if in_features else None
    if node_table is not None and in_features:
        raise InvalidInput(
            f"expected labels in one place, got a column {label!r} in {node_table.path.name} and the table "
            f"{Path(labels).name}; leave one of them out"
        )
    return _Table(labels, problems, columns={node: "node", label: "label"})


class _Table:
    """A table and the file that it was read from; error messages name the file."""

    def __init__(self, path: PathOrStr, problems: Problems, *, columns: dict[str, str]) -> None:
        self.path = Path(path)
        self.problems = problems
        self._columns = columns
        self._lines: Int = np.zeros(0, dtype=np.int64)
        self._ids: dict[str, tuple[Int, list[str]]] = {}
        self._distinct: dict[str, tuple[str, ...]] = {}
        self.frame = self._read()

    def _stripped_header(self, content: str, separator: str) -> str:
        """The text without blanks behind the names of columns, as in ``source ,target``; others are skipped anyway."""
        header, newline, rest = content.partition("\n")
        names = header.rstrip("\r").split(separator)
        if '"' in header or all(name.lstrip() == name.strip() for name in names):
            return content
        for name in names:
            if name.lstrip() != name.strip():
                self.problems.harmless(
                    f"expected the name of a column without blanks around it, got {name!r} in the header of "
                    f"{self.path.name}; remove the blanks",
                    f"the column {name!r} of {self.path.name} is read as {name.strip()!r}",
                )
        return separator.join(name.strip() for name in names) + newline + rest

    def _read(self) -> pd.DataFrame:
        import pandas as pd

        if not self.path.exists():
            raise InvalidInput(f"expected a table, but there is no file {self.path}; check the path")
        suffixes = [s.lower() for s in self.path.suffixes if s.lower() not in PACKED]
        kind = suffixes[-1] if suffixes else ""
        if kind in _PARQUET:
            return self._read_parquet()
        if kind not in _SEPARATORS:
            raise InvalidInput(
                f"expected a file ending in {', '.join((*_SEPARATORS, *_PARQUET))}, got {self.path.name}; "
                f"rename or convert it"
            )
        try:
            content = self._stripped_header(read_text(self.path), _SEPARATORS[kind])
            self._check_rows(content, _SEPARATORS[kind])
            frame = pd.read_csv(
                io.StringIO(content),
                sep=_SEPARATORS[kind],
                dtype=dict.fromkeys(self._columns, str),
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
                f"expected a table with a header and equally many fields in every row, but {self.path} "
                f"cannot be read as one ({reason(error)}); correct the file"
            ) from error

    def _check_rows(self, content: str, separator: str) -> None:
        """Refuse rows longer or shorter than the header, which pandas would cut or fill; record their line numbers."""
        quoted = '"' in content or "\r" in content
        lines, fields, header = (_parsed if quoted else _counted)(content, separator)
        if lines.size == 0:
            return
        self._check_header(header, separator)
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

    def _check_header(self, header: Sequence[str], separator: str) -> None:
        other = next((s for s in (";", "\t", ",", "|") if s != separator and s in header[0]), None)
        if len(header) == 1 and other is not None:
            raise InvalidInput(
                f"expected fields separated by {separator!r} in {self.path.name}, but its header seems to "
                f"use {other!r} ({header[0]!r}); write it with {separator!r} as the separator"
            )
        self._check_width(len(header))
        repeated = next((name for name, count in Counter(header).items() if count > 1), None)
        if repeated is not None:
            raise InvalidInput(
                f"expected distinct columns, got {repeated!r} more than once in the header of {self.path.name}; "
                f"rename or drop one of them"
            )

    def _check_width(self, columns: int) -> None:
        if columns > MOST_COLUMNS:
            raise InvalidInput(
                f"expected at most {MOST_COLUMNS:,} columns, got {columns:,} in {self.path.name}; give so many "
                "features as a sparse matrix: Graph(features=...), or a file that Graph.to_npz wrote"
            )

    def _read_parquet(self) -> pd.DataFrame:
        import pandas as pd

        try:
            import pyarrow.parquet  # type: ignore[import-untyped, unused-ignore]
        except ImportError:
            raise MissingExtra("pyarrow", "parquet", f"reading {self.path.name}") from None
        try:
            require_file(self.path)
            about = pyarrow.parquet.read_metadata(self.path)
            self._check_width(about.num_columns)
            if 8 * about.num_rows * about.num_columns > most_unpacked(os.stat(self.path).st_size):
                raise ValueError(f"it would unpack to {about.num_rows:,} rows, far more than its size allows")
            require_memory(READING * 8 * about.num_rows * about.num_columns, f"reading {self.path.name}", LARGER)
            return pd.read_parquet(self.path, engine="pyarrow")
        except (ValueError, OSError, pyarrow.ArrowException) as error:
            raise InvalidInput(
                f"expected a Parquet file, but {self.path} cannot be read as one ({reason(error)}); write it again"
            ) from error

    def row(self, index: int) -> str:
        """Describe where row `index` is in the file."""
        if self.path.suffix.lower() in _PARQUET:
            return f"row {index} of {self.path.name}"
        return f"line {self._lines[index]} of {self.path.name}"

    def field(self, column: Any, index: int) -> str:
        """Describe the content of a field for error messages."""
        field = self.frame[column].iloc[[index]]
        return "an empty field" if field.isna().any() else repr(field.item())

    def column(self, name: str) -> pd.Series[Any]:
        if name not in self.frame.columns:
            found = ", ".join(repr(str(c)) for c in self.frame.columns) or "none"
            raise InvalidInput(
                f"expected a column {name!r} in {self.path.name}, got the columns {found}; rename one, or "
                f"say which one it is as {self._columns[name]}=NAME"
            )
        return self.frame[name]

    def ids(self, column: str) -> tuple[Int, list[str]]:
        """Return which node each row names (-1 for none), and the names of these nodes in order of appearance."""
        if column not in self._ids:
            values, names = _factorized(self.column(column))
            known: dict[str, int] = {}
            code = [known.setdefault(name, len(known)) if (name := str(value).strip()) else -1 for value in names]
            codes = np.array([*code, -1], dtype=np.int64)[values]
            self.problems.add_each(
                np.flatnonzero(codes < 0),
                lambda i: (
                    f"expected a node id in column {column!r}, got an empty field in {self.row(i)}; fill it in or drop "
                    "the row"
                ),
            )
            self._ids[column] = codes, list(known)
        return self._ids[column]

    def distinct_ids(self, column: str) -> tuple[str, ...]:
        """Return the node of each row; empty where there is none."""
        if column not in self._distinct:
            codes, names = self.ids(column)
            first = _first_rows(codes)
            self.problems.add_each(
                np.flatnonzero((codes >= 0) & (first != np.arange(codes.size))),
                lambda i: (
                    f"expected one row per node, got node {names[codes[i]]!r} again in {self.row(i)} "
                    f"(first in {self.row(first[i])}); remove one of them"
                ),
            )
            self._distinct[column] = tuple(map([*names, ""].__getitem__, codes.tolist()))
        return self._distinct[column]

    def endpoints(self, source: str, target: str) -> tuple[str, ...]:
        """Return the distinct nodes of an edge list in order of appearance."""
        (left, starts), (right, ends) = self.ids(source), self.ids(target)
        position = {name: k for k, name in enumerate(dict.fromkeys([*starts, *ends]))}
        union = np.array([*map(position.__getitem__, [*starts, *ends]), -1], dtype=np.int64)
        pairs = np.stack([union[left], union[np.where(right < 0, -1, right + len(starts))]], axis=1).ravel()
        names, pairs = list(position), pairs[pairs >= 0]
        return tuple(names[k] for k in pairs[np.flatnonzero(_first_rows(pairs) == np.arange(pairs.size))])

    def positions(self, column: str, position: dict[str, int]) -> Int:
        """Return the position of each row's node among all nodes; -1 where it names none of them."""
        codes, names = self.ids(column)
        places = np.array([*(position.get(name, -1) for name in names), -1], dtype=np.int64)[codes]
        self.problems.add_each(
            np.flatnonzero((places < 0) & (codes >= 0)),
            lambda i: (
                f"expected ids of known nodes (such as {next(iter(position))!r}), got {names[codes[i]]!r} in column "
                f"{column!r}, {self.row(i)}; correct it, or add the node to the features (or edges)"
            ),
        )
        return places

    def adjacency(
        self, source: str, target: str, weight: str, position: dict[str, int], *, directed: bool
    ) -> SparseMatrix:
        rows, columns = self.positions(source, position), self.positions(target, position)
        weights = self._weights(weight)
        n = 1 + max(position.values())
        known = (rows >= 0) & (columns >= 0)
        here = np.where(known, rows * n + columns, -1 - np.arange(rows.size))  # what names no edge is like no other row
        both = np.concatenate([here, np.where(known, columns * n + rows, here)])
        first, back = np.split(_first_rows(both), 2)
        row = np.arange(rows.size)
        back = row if directed else np.minimum(back, row)
        again = first < row
        same = again & (weights[first] == weights)

        def where(i: int) -> str:
            return f"{self._edge(source, target, i)} again in {self.row(i)}"

        self.problems.harmless_each(
            np.flatnonzero(same),
            lambda i: f"expected every edge once, got {where(i)} (first in {self.row(first[i])}); remove one of them",
            lambda i: f"left out {where(i)}",
        )
        self.problems.add_each(
            np.flatnonzero(again & ~same),
            lambda i: (
                f"expected every edge once, got {where(i)} (first in {self.row(first[i])}) with another weight; "
                "remove one of them"
            ),
        )
        self.problems.add_each(
            np.flatnonzero(~same & (weights[back] != weights)),
            lambda i: (
                f"expected the same weight in both directions, got {weights[i]} for "
                f"{self._edge(source, target, i)} in {self.row(i)} but {weights[back[i]]} in "
                f"{self.row(back[i])}; make them equal, or read the edges with directed=True"
            ),
        )
        keep = known & ~same
        matrix = csr_array((weights[keep], (rows[keep], columns[keep])), shape=(n, n))
        return matrix if directed else matrix.maximum(matrix.T)

    def _edge(self, source: str, target: str, i: int) -> str:
        return f"{self.frame[source].iloc[i]!s} - {self.frame[target].iloc[i]!s}"

    def _weights(self, weight: str) -> Float:
        if weight not in self.frame.columns:
            return np.ones(len(self.frame))
        values = self._numeric(weight)
        good = np.isfinite(values) & (values > 0)
        self.problems.add_each(
            np.flatnonzero(~good),
            lambda i: (
                f"expected positive weights in column {weight!r}, got {self.field(weight, i)} in {self.row(i)}; "
                "correct it or drop the edge"
            ),
        )
        return np.where(good, values, 1.0)

    def _numeric(self, column: Any) -> Float:
        """Return a column as float64, with NaN for everything that is not a number."""
        import pandas as pd

        values = self.frame[column]
        # pandas would convert dates and durations to nanoseconds.
        if values.dtype.kind in "mMc":
            return np.full(len(values), np.nan)
        try:
            numbers = pd.to_numeric(values, errors="coerce")
            return np.array(numbers.to_numpy(dtype=np.float64, na_value=np.nan))
        except (TypeError, ValueError):
            return np.full(len(values), np.nan)

    def numbers(self, *, leaving_out: tuple[str, ...], ids: tuple[str, ...] | None, of: str = "node") -> Float:
        """Return all other columns as a matrix of shape (n, d)."""

        def owner(i: int) -> str:
            return "" if ids is None else f" for {of} {ids[i]!r}"

        columns = [c for c in self.frame.columns if c not in leaving_out]
        X = np.empty((len(self.frame), len(columns)))
        for j, column in enumerate(columns):
            X[:, j] = self._numeric(column)
            self.problems.add_each(
                np.flatnonzero(~np.isfinite(X[:, j])),
                lambda i, column=column: (  # type: ignore[misc]
                    f"expected finite numbers as features, got {self.field(column, i)}{owner(i)} in column "
                    f"{str(column)!r}, {self.row(i)}; encode it, fill it in or drop the column"
                ),
            )
        return X

    def classes(self, node: str, label: str, position: dict[str, int]) -> tuple[Int, tuple[str, ...]]:
        """Return the labels of all nodes, -1 for those not in the table, and the names of the classes."""
        self.distinct_ids(node)
        nodes = self.positions(node, position)
        codes, values = _factorized(self.column(label))
        first = np.flatnonzero((_first_rows(codes) == np.arange(codes.size)) & (codes >= 0))
        found, class_names = encode_classes(values, place=lambda k: self.row(first[k]), refuse=self.problems.add)
        y = np.full(1 + max(position.values()), UNLABELED)
        y[nodes] = np.append(found, UNLABELED)[codes]
        return y, class_names


def _factorized(values: pd.Series[Any]) -> tuple[Int, list[Any]]:
    """Which of the distinct values each row has, -1 where it is missing, and these values in order of appearance."""
    import pandas as pd

    try:
        codes, distinct = pd.factorize(values)
    except TypeError:  # lists, say
        codes, distinct = pd.factorize(values.map(str, na_action="ignore"))
    return codes.astype(np.int64), distinct.tolist()


def _first_rows(codes: Int) -> Int:
    """The first row that holds the same number as each row."""
    import pandas as pd

    found, distinct = pd.factorize(codes)
    first = np.empty(len(distinct), dtype=np.int64)
    first[found[::-1]] = np.arange(codes.size)[::-1]
    return first[found]


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
