"""The user's own graph, from an edge list, a feature table and a label table: files, or data frames."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from scipy.sparse import csr_array

from labelcert.arrays import Bool, Float, Int
from labelcert.errors import InvalidInput
from labelcert.graphs.checks import UNLABELED, SparseMatrix
from labelcert.graphs.class_coding import encode_classes
from labelcert.graphs.columns import Preparation, as_they_are, decimal
from labelcert.graphs.graph import Graph
from labelcert.graphs.problems import Problems
from labelcert.graphs.table_files import TableFile, TableSource

if TYPE_CHECKING:
    import pandas as pd

ENDS = (
    *(("from", "to"), ("src", "dst"), ("src", "tgt"), ("from_node", "to_node"), ("node1", "node2"), ("u", "v")),
    *(("from_id", "to_id"), ("id1", "id2"), ("head", "tail"), ("citing", "cited"), ("sender", "receiver")),
)
"""What the two columns of an edge list are often called."""


def graph_from_files(
    edges: TableSource | None = None,
    *,
    features: TableSource | None = None,
    labels: TableSource | None = None,
    directed: bool = False,
    source: str = "source",
    target: str = "target",
    weight: str = "weight",
    type: str = "type",
    node: str = "node",
    label: str = "label",
    name: str | None = None,
    fix: bool = False,
    columns: Sequence[str] | None = None,
    drop: Sequence[str] = (),
    raw: bool | None = None,
    transform: Any = None,
    missing: Sequence[str] | None = None,
    edge_types: Sequence[str] | None = None,
) -> Graph:
    r"""Read a graph from tables with a header row: CSV (.csv, .tsv, .txt; possibly compressed), Parquet or data frames.

    The feature table determines the nodes and their order. Without one, the nodes are those of the edge list,
    in order of appearance. A graph without features gets the identity matrix. What was decided about encodings,
    separators and columns is told by a warning each, and kept in the ``notes`` of the graph.

    Parameters
    ----------
    edges : path or data frame, optional
        One row per edge, with the columns `source`, `target` and, optionally, `weight` (1 by default). A table of two
        columns needs no such names.
    features : path or data frame, optional
        One row per node: the column `node`, any other columns and, without `labels`, optionally `label`. Numbers are
        scaled where their spreads differ, categories become one column each, and blanks are filled. Dates, ids and
        free text are left out.
    labels : path or data frame, optional
        Columns `node` and `label`. Nodes that are missing, or whose label is empty, are unlabelled. Words that may
        stand for a missing label, such as NA, unknown or ?, are refused unless ``missing`` decides.
    directed : bool
        Whether edges have a direction. If not, two rows for the two directions of an edge are one edge.
    source, target, weight, type, node, label : str
        Names of the columns.
    name : str, optional
        Name of the graph. Defaults to the file name of the edge list, or of the feature table. It includes the
        suffix, so that a file csbm.csv is not taken for the dataset csbm.
    fix : bool
        Whether to mend what is harmless: repeated edges, blanks around the names of columns, and ids that are written
        in two ways. A warning tells what was mended.
    columns, drop : sequence of str, optional
        The columns of the feature table that are features, whatever they hold; or columns that are none.
    raw : bool, optional
        Whether to take numbers as they are, and refuse everything else; False scales them in any case.
    transform : transformer of scikit-learn, optional
        Makes features of the feature table instead; it never sees labels.
    missing : str or sequence of str, optional
        Words in the column `label` that stand for no label; all others are classes then.
    edge_types : sequence of str, optional
        Only edges with one of these in the column `type`.

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
    prepare = Preparation(columns=columns, drop=drop, raw=raw, transform=transform)
    problems = Problems(fix=fix)
    edge_table = None
    if edges is not None:
        edge_table = EdgeTable(edges, problems, columns={source: "source", target: "target"}, what="edges")
        source, target = edge_table.ends(source, target)
    node_table = None
    if features is not None:
        own = {node: "node", label: "label"}
        node_table = NodeTable(features, problems, columns=own, what="features", codes=not raw)
    label_table = _label_table(labels, node_table, problems, node=node, label=label)
    needed = [(edge_table, (source, target)), (node_table, (node,)), (label_table, (node, label))]
    absent = [(table, [c for c in names if c not in table.frame.columns]) for table, names in needed if table]
    for message in dict.fromkeys(table.without(*names) for table, names in absent if names):
        problems.add(message)
    if any(names for _, names in absent):
        problems.refuse_now()  # nothing else can be read
    X: Any = None
    if node_table is not None:
        node_names = node_table.distinct_ids(node)
        X = prepare.features(node_table, node_names, (node, label))
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
        adjacency = edge_table.adjacency(source, target, weight, type, position, directed=directed, only=edge_types)
    if label_table is not None:
        y, class_names = label_table.classes(node, label, position, missing)
    problems.refuse()
    return Graph(
        adjacency=adjacency,
        features=sp.eye_array(n, format="csr") if X is None or X.shape[1] == 0 else X,
        labels=y,
        class_names=class_names,
        node_names=node_names,
        name=name or (Path(first).name if isinstance(first, str | os.PathLike) else "graph"),
        directed=directed,
        notes=tuple(problems.notes),
    )


def numbers_from_file(path: str | os.PathLike[str], *, names: str | None = None) -> pd.DataFrame:
    """A table of finite numbers in a CSV or Parquet file; the column ``names``, if there is one, names its rows."""
    import pandas as pd

    problems = Problems(fix=False)
    table = NodeTable(path, problems, columns={} if names is None else {names: "names"})
    rows = None if names is None else table.distinct_ids(names)
    kept = [column for column in table.frame.columns if column != names]
    X = as_they_are(table, kept, rows, of="row")
    problems.refuse()
    if X.size == 0:
        raise InvalidInput(f"expected rows of numbers, got an empty table; check {table.name}")
    return pd.DataFrame(X, columns=[str(column) for column in kept], index=None if rows is None else list(rows))


def _label_table(
    labels: TableSource | None, node_table: NodeTable | None, problems: Problems, *, node: str, label: str
) -> NodeTable | None:
    """Return the table with the labels: one of its own, or the feature table if it has a column for them."""
    in_features = node_table is not None and label in node_table.frame.columns
    if labels is None:
        return node_table if in_features else None
    own = NodeTable(labels, problems, columns={node: "node", label: "label"}, what="labels")
    if node_table is not None and in_features:
        raise InvalidInput(
            f"expected labels in one place, got a column {label!r} in {node_table.name} and the table "
            f"{own.name}; leave one of them out"
        )
    return own


class NodeTable(TableFile):
    """A table about nodes: which node each row is about."""

    def __init__(self, source: TableSource, problems: Problems, **how: Any) -> None:
        super().__init__(source, problems, **how)
        self._ids: dict[str, tuple[Int, list[str]]] = {}
        self._distinct: dict[str, tuple[str, ...]] = {}

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

    def positions(
        self,
        column: str,
        position: dict[str, int],
        advice: str = "correct it, or add the node to the features (or edges)",
    ) -> Int:
        """Return the position of each row's node among all nodes; -1 where it names none of them."""
        codes, names = self.ids(column)
        near = _respelled(names, position)
        places = np.array([*(position.get(name, -1) for name in names), -1], dtype=np.int64)[codes]
        unknown, other = (places < 0) & (codes >= 0), np.array([name in near for name in [*names, ""]])[codes]

        def told(i: int) -> str:
            return f"got {names[codes[i]]!r} in column {column!r}, {self.row(i)}"

        self.problems.add_each(
            np.flatnonzero(unknown & ~other),
            lambda i: f"expected ids of known nodes (such as {next(iter(position))!r}), {told(i)}; {advice}",
        )
        self.problems.harmless_each(
            np.flatnonzero(unknown & other),
            lambda i: (
                f"expected ids of known nodes as they are written there, {told(i)}, where another table has "
                f"{near[names[codes[i]]]!r}; write them alike"
            ),
            lambda i: f"{names[codes[i]]!r} in {self.row(i)} is taken for {near[names[codes[i]]]!r}",
        )
        if self.problems.fix:
            mended = np.array([*(position.get(near.get(name, ""), -1) for name in names), -1], dtype=np.int64)[codes]
            places = np.where(unknown, mended, places)
        return places

    def classes(
        self, node: str, label: str, position: dict[str, int], missing: Sequence[str] | None
    ) -> tuple[Int, tuple[str, ...]]:
        """Return the labels of all nodes, -1 for those not in the table, and the names of the classes."""
        self.distinct_ids(node)
        nodes = self.positions(node, position)
        first, rows = _first_rows(nodes), np.arange(nodes.size)
        self.problems.add_each(
            np.flatnonzero((nodes >= 0) & (first != rows) & (self.ids(node)[0][first] != self.ids(node)[0])),
            lambda i: f"expected one row per node, but {self.row(first[i])} and {self.row(i)} are about the same one",
        )
        codes, found, class_names = self.coded(label, missing)
        y = np.full(1 + max(position.values()), UNLABELED)
        y[nodes[nodes >= 0]] = np.append(found, UNLABELED)[codes][nodes >= 0]
        return y, class_names

    def coded(self, label: str, missing: Sequence[str] | None) -> tuple[Int, Int, tuple[str, ...]]:
        """Which of the distinct labels each row has (-1: none), the class of each of them, and names of classes."""
        codes, values = _factorized(self.column(label))
        first = np.flatnonzero((_first_rows(codes) == np.arange(codes.size)) & (codes >= 0))
        counts = np.bincount(codes[codes >= 0], minlength=len(values))

        def place(k: int) -> str:
            return self.row(first[k]) + (f" (and {counts[k] - 1} other rows)" if counts[k] > 1 else "")

        def advice(word: str) -> str:
            return f"if so, say missing={word!r} or leave the field empty; if it is a class, say missing=''"

        found, class_names = encode_classes(
            values,
            place=place,
            refuse=self.problems.add,
            missing=[missing] if isinstance(missing, str) else missing,
            advice=advice,
        )
        return codes, found, class_names


class EdgeTable(NodeTable):
    """A table of edges."""

    def ends(self, source: str, target: str) -> tuple[str, str]:
        """Which two columns join nodes: those of these names, of other usual names, or the only two."""
        names = [str(name) for name in self.frame.columns]
        if source in names or target in names or (source, target) != ("source", "target"):
            return source, target
        lower = {name.strip().lower(): name for name in names}
        found = next((pair for pair in ENDS if pair[0] in lower and pair[1] in lower), None)
        pair = (lower[found[0]], lower[found[1]]) if found else tuple(names)
        self.headless = len(pair) == 2 and self._are_nodes(*pair)
        if len(pair) != 2 or self.headless:
            return source, target
        self._columns = {pair[0]: "source", pair[1]: "target"}
        self.problems.notes.append(f"{self.name}: edges join the columns {pair[0]} and {pair[1]}")
        return pair

    def _are_nodes(self, left: str, right: str) -> bool:
        """Whether two names are nodes themselves, so that there is no header."""
        named = {str(value).strip() for name in (left, right) for value in self.frame[name].tolist()}
        return left in named or right in named or all(name.strip("-+").isdigit() for name in (left, right))

    def adjacency(
        self,
        source: str,
        target: str,
        weight: str,
        type: str,
        position: dict[str, int],
        *,
        directed: bool,
        only: Sequence[str] | None,
    ) -> SparseMatrix:
        """Return the weights of all edges, or of those of some types ``only``."""
        rows, columns = self.positions(source, position), self.positions(target, position)
        weights = self._weights(weight)
        n = 1 + max(position.values())
        known = (rows >= 0) & (columns >= 0) & self._of_types(type, only)
        here = np.where(known, rows * n + columns, -1 - np.arange(rows.size))  # what names no edge is like no other row
        both = np.concatenate([here, np.where(known, columns * n + rows, here)])
        first, back = np.split(_first_rows(both), 2)
        row = np.arange(rows.size)
        back = row if directed else np.minimum(back, row)
        again = first < row
        same = again & (weights[first] == weights)

        def where(i: int) -> str:
            return f"{self._edge(source, target, i)} again in {self.row(i)}"

        others = [name for name in self.frame.columns if name not in (source, target, weight)]
        apart = {
            name: same & (codes[first] != codes) for name in others for codes in [_factorized(self.frame[name])[0]]
        }
        parallel = np.logical_or.reduce([np.zeros_like(same), *apart.values()])
        if parallel.any():
            by = next(name for name, differs in apart.items() if differs.any())
            chosen = f" (edge_types=[...] chooses among {by})" if by == type and only is None else ""
            count = int(parallel.sum())
            self.problems.notes.append(
                f"{self.name}: {count} edge{'s come' if count > 1 else ' comes'} again with another {by}, which counts "
                f"once{chosen}"
            )
        self.problems.harmless_each(
            np.flatnonzero(same & ~parallel),
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

    def _of_types(self, type: str, only: Sequence[str] | None) -> Bool:
        """Which rows are edges of the types that are asked for."""
        if only is None:
            return np.ones(len(self.frame), dtype=bool)
        if type not in self.frame.columns:
            self.problems.add(self.without(type))
            return np.ones(len(self.frame), dtype=bool)
        own = self.frame[type].map(lambda value: str(value).strip())
        for name in only:
            if not (own == name).any():
                self.problems.add(
                    f"no edge in {self.name} has the {type} {name!r}; there are {', '.join(sorted(set(own))[:20])}"
                )
        return np.asarray(own.isin(list(only)).to_numpy())

    def _edge(self, source: str, target: str, i: int) -> str:
        return f"{self.frame[source].iloc[i]!s} - {self.frame[target].iloc[i]!s}"

    def _weights(self, weight: str) -> Float:
        if weight not in self.frame.columns:
            return np.ones(len(self.frame))
        values = decimal(self, weight)
        good = np.isfinite(values) & (values > 0)
        self.problems.add_each(
            np.flatnonzero(~good),
            lambda i: (
                f"expected positive weights in column {weight!r}, got {self.field(weight, i)} in {self.row(i)}; "
                "correct it or drop the edge"
            ),
        )
        return np.where(good, values, 1.0)


def _respelled(names: Sequence[str], position: dict[str, int]) -> dict[str, str]:
    """Names of no node, and the only node whose name is the same number: ``0.0`` and ``0``, ``007`` and ``7``."""
    if all(name in position for name in names):
        return {}
    known: dict[str, list[str]] = {}
    for name in position:
        known.setdefault(_plain(name), []).append(name)
    unknown = (name for name in names if name not in position)
    return {name: known[key][0] for name in unknown if len(known.get(key := _plain(name), ())) == 1}


def _plain(name: str) -> str:
    """A name without what spreadsheets do to numbers, in lower case."""
    whole = re.fullmatch(r"([-+]?)0*(\d+?)(?:\.0+)?", name)
    return whole[1] + whole[2] if whole else name.casefold()


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
