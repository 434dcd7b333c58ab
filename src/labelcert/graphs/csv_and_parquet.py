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
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from scipy.sparse import csr_array

from labelcert.errors import InvalidInput, MissingExtra
from labelcert.graphs.checks import UNLABELED, reason
from labelcert.graphs.class_coding import encode_classes
from labelcert.graphs.graph import Graph
from labelcert.graphs.problems import Problems
from labelcert.memory import require_memory
from labelcert.reading import LARGER, PACKED, READING, UNREADABLE, read_text, require_file

if TYPE_CHECKING:
    from typing import TypeAlias

    import pandas as pd

    from labelcert.arrays import Float, Int
    from labelcert.graphs.checks import SparseMatrix

    PathOrStr: TypeAlias = str | os.PathLike[str]

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
        self._lines: list[int] = []
        self._ids: dict[str, list[str]] = {}
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
        lines = io.StringIO(content, newline="").readlines()
        rows = csv.reader(lines, delimiter=separator, skipinitialspace=True)
        header: list[str] | None = None
        uneven = Problems(fix=False)
        line = 1
        for row in rows:
            blank = not lines[line - 1].replace(separator, "x").strip()
            if header is None and not blank:
                self._check_header(row, separator)
                header = row
            elif header is not None and not blank:
                if len(row) != len(header):
                    uneven.add(
                        f"expected equally many fields in every row, but line {line} of {self.path.name} has "
                        f"{len(row)} where the header has {len(header)}; correct the row (a field may be empty)"
                    )
                self._lines.append(line)
            line = rows.line_num + 1
        # Nothing else can be read from such a table.
        uneven.refuse()

    def _check_header(self, header: Sequence[str], separator: str) -> None:
        other = next((s for s in (";", "\t", ",", "|") if s != separator and s in header[0]), None)
        if len(header) == 1 and other is not None:
            raise InvalidInput(
                f"expected fields separated by {separator!r} in {self.path.name}, but its header seems to "
                f"use {other!r} ({header[0]!r}); write it with {separator!r} as the separator"
            )
        repeated = next((name for name, count in Counter(header).items() if count > 1), None)
        if repeated is not None:
            raise InvalidInput(
                f"expected distinct columns, got {repeated!r} more than once in the header of {self.path.name}; "
                f"rename or drop one of them"
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

    def ids(self, column: str) -> list[str]:
        """Return the node ids in a column as text; empty where there is none."""
        if column not in self._ids:
            self._ids[column] = self._read_ids(column)
        return self._ids[column]

    def _read_ids(self, column: str) -> list[str]:
        values = self.column(column)
        ids = ["" if empty else str(value).strip() for value, empty in zip(values, values.isna(), strict=True)]
        missing = np.array([not name for name in ids], dtype=bool)
        for i in np.flatnonzero(missing).tolist():
            self.problems.add(
                f"expected a node id in column {column!r}, got an empty field in {self.row(i)}; fill it in or drop "
                "the row"
            )
        return ids

    def distinct_ids(self, column: str) -> tuple[str, ...]:
        ids = self.ids(column)
        first: dict[str, int] = {}
        for i, name in enumerate(ids):
            if name in first and name:
                self.problems.add(
                    f"expected one row per node, got node {name!r} again in {self.row(i)} "
                    f"(first in {self.row(first[name])}); remove one of them"
                )
            first.setdefault(name, i)
        return tuple(ids)

    def endpoints(self, source: str, target: str) -> tuple[str, ...]:
        """Return the distinct nodes of an edge list in order of appearance."""
        pairs = zip(self.ids(source), self.ids(target), strict=True)
        return tuple(dict.fromkeys(name for pair in pairs for name in pair))

    def positions(self, column: str, position: dict[str, int]) -> Int:
        ids = self.ids(column)
        for i, name in enumerate(ids):
            if name and name not in position:
                known = next(iter(position))
                self.problems.add(
                    f"expected ids of known nodes (such as {known!r}), got {name!r} in column {column!r}, "
                    f"{self.row(i)}; correct it, or add the node to the features (or edges)"
                )
        return np.array([position.get(name, 0) for name in ids], dtype=np.int64)

    def adjacency(
        self, source: str, target: str, weight: str, position: dict[str, int], *, directed: bool
    ) -> SparseMatrix:
        rows, columns = self.positions(source, position), self.positions(target, position)
        weights = self._weights(weight)
        n = 1 + max(position.values())
        first: dict[tuple[str, str], int] = {}
        keep = np.ones(len(rows), dtype=bool)
        for i, pair in enumerate(zip(self.ids(source), self.ids(target), strict=True)):
            if pair in first and weights[first[pair]] == weights[i]:
                keep[i] = False
                where = f"{self._edge(source, target, i)} again in {self.row(i)}"
                self.problems.harmless(
                    f"expected every edge once, got {where} (first in {self.row(first[pair])}); remove one of them",
                    f"left out {where}",
                )
                continue
            if pair in first:
                where = f"{self._edge(source, target, i)} again in {self.row(i)}"
                self.problems.add(
                    f"expected every edge once, got {where} (first in {self.row(first[pair])}) with another weight; "
                    "remove one of them"
                )
            back = first.get((pair[1], pair[0]))
            if not directed and back is not None and weights[back] != weights[i]:
                self.problems.add(
                    f"expected the same weight in both directions, got {weights[i]} for "
                    f"{self._edge(source, target, i)} in {self.row(i)} but {weights[back]} in "
                    f"{self.row(back)}; make them equal, or read the edges with directed=True"
                )
            first.setdefault(pair, i)
        matrix = csr_array((weights[keep], (rows[keep], columns[keep])), shape=(n, n))
        return matrix if directed else matrix.maximum(matrix.T)

    def _edge(self, source: str, target: str, i: int) -> str:
        return f"{self.frame[source].iloc[i]!s} - {self.frame[target].iloc[i]!s}"

    def _weights(self, weight: str) -> Float:
        if weight not in self.frame.columns:
            return np.ones(len(self.frame))
        values = self._numeric(weight)
        for i in np.flatnonzero(~(np.isfinite(values) & (values > 0))).tolist():
            self.problems.add(
                f"expected positive weights in column {weight!r}, got {self.field(weight, i)} in {self.row(i)}; "
                "correct it or drop the edge"
            )
            values[i] = 1.0
        return values

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

    def numbers(self, *, leaving_out: tuple[str, ...], ids: tuple[str, ...]) -> Float:
        """Return all other columns as a matrix of shape (n, d)."""
        columns = [c for c in self.frame.columns if c not in leaving_out]
        X = np.empty((len(self.frame), len(columns)))
        for j, column in enumerate(columns):
            X[:, j] = self._numeric(column)
            for i in np.flatnonzero(~np.isfinite(X[:, j])).tolist():
                self.problems.add(
                    f"expected finite numbers as features, got {self.field(column, i)} for node {ids[i]!r} in column "
                    f"{str(column)!r}, {self.row(i)}; encode it, fill it in or drop the column"
                )
        return X

    def classes(self, node: str, label: str, position: dict[str, int]) -> tuple[Int, tuple[str, ...]]:
        """Return the labels of all nodes, -1 for those not in the table, and the names of the classes."""
        self.distinct_ids(node)
        nodes = self.positions(node, position)
        values = self.column(label)
        found, class_names = encode_classes(
            (None if missing else v for v, missing in zip(values, values.isna(), strict=True)),
            place=self.row,
            refuse=self.problems.add,
        )
        y = np.full(1 + max(position.values()), UNLABELED)
        y[nodes] = found
        return y, class_names
