"""A table whose rows are to be predicted, without edges: rows with a label train, others are tested."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from labelcert.arrays import Bool, Int
from labelcert.errors import InvalidInput
from labelcert.graphs.checks import UNLABELED
from labelcert.graphs.columns import Preparation
from labelcert.graphs.csv_and_parquet import NodeTable
from labelcert.graphs.graph import Graph
from labelcert.graphs.problems import Problems
from labelcert.graphs.table_files import TableSource

HELD_OUT = 0.2
"""Share of the rows that is tested where all have a label, and no other table is."""

MOST_CLASSES = 20
"""More classes than this, and than half of the labelled rows, are numbers to predict or names."""


@dataclass(frozen=True, eq=False)
class PlainTable:
    """The rows of a table as nodes of a graph without edges, and which of them have a label and are tested."""

    graph: Graph
    labeled: Int
    test: Int

    @classmethod
    def read(
        cls,
        source: TableSource,
        test: TableSource | None = None,
        *,
        label: str = "label",
        node: str = "node",
        seed: int = 0,
        missing: Sequence[str] | None = None,
        fix: bool = False,
        where: tuple[str, str] | None = None,
        **columns: Any,
    ) -> PlainTable:
        """Read a table, and another one with rows to test.

        Rows are called by what is in the column ``node``, if there is one, else by their number (``test 1`` on for
        those of the other table). Without another table, rows are tested ``where`` a column has a value, or whose label
        is empty, or a share of all rows that ``seed`` draws. ``columns`` are those of `Preparation`, which is fitted on
        labelled rows alone.
        """
        problems = Problems(fix=fix)
        how: dict[str, Any] = {"columns": {label: "label", node: "node"}, "codes": not columns.get("raw")}
        table = NodeTable(source, problems, what="rows", **how)
        if label not in table.frame.columns:
            edges = {"source", "target"} <= {*table.frame.columns}
            raise InvalidInput(table.without(label) + ("; give the edges of a graph as edges=[...]" if edges else ""))
        first, other = len(table.frame), None if test is None else NodeTable(test, problems, what="test rows", **how)
        if other is not None:
            table.extend(other, optional=(label,))
        ids = table.distinct_ids(node) if node in table.frame.columns else _numbered(first, len(table.frame))
        codes, found, classes = table.coded(label, missing)
        y = np.append(found, UNLABELED)[codes]
        known, rows = y != UNLABELED, np.arange(len(y))
        labeled, tested = rows[known & (rows < first)], rows[rows >= first]
        if where is not None:
            tested = rows[_where(table, *where)]
        elif other is None:
            tested = rows[~known] if not known.all() else _held_out(len(y), seed, table, problems)
        labeled = np.setdiff1d(labeled, tested)
        if labeled.size == 0:
            problems.refuse()
            raise InvalidInput(f"no row of {table.name} has a label in the column {label!r} to learn from")
        if len(classes) > max(MOST_CLASSES, labeled.size // 2):
            raise InvalidInput(
                f"expected classes in the column {label!r} of {table.name}, got {len(classes):,} different values for "
                f"{labeled.size:,} rows (such as {classes[0]!r}); name the column with the classes as label=NAME "
                "(numbers to predict are what certify_regression is for, and `labelcert regression`)"
            )
        X = Preparation(**columns).features(table, ids, (label, node, *(where or ())[:1]), labeled)
        problems.refuse()
        if X.shape[1] == 0:
            raise InvalidInput(f"{table.name} has no column but {label!r}; add one to predict it from")
        graph = Graph(
            csr_array((len(y), len(y))),
            X,
            y,
            class_names=classes,
            node_names=ids,
            name=table.name,
            notes=tuple(problems.notes),
        )
        return cls(graph, labeled, tested)


def _numbered(first: int, count: int) -> tuple[str, ...]:
    """Names of rows without names."""
    return (*(str(i + 1) for i in range(first)), *(f"test {i + 1}" for i in range(count - first)))


def _where(table: NodeTable, column: str, value: str) -> Bool:
    """Rows where a column has a value."""
    if column not in table.frame.columns:
        raise InvalidInput(table.without(column))
    own = table.frame[column].map(lambda field: str(field).strip())
    if not (own == value).any():
        found = ", ".join(sorted(set(own))[:10])
        raise InvalidInput(f"no row of {table.name} has {value!r} in the column {column!r}, which holds {found}")
    return np.asarray((own == value).to_numpy())


def _held_out(count: int, seed: int, table: NodeTable, problems: Problems) -> Int:
    """Rows to test where all have a label; labels have no say in which."""
    chosen = np.sort(np.random.default_rng(seed).permutation(count)[: max(1, round(HELD_OUT * count))])
    problems.notes.append(
        f"{table.name}: all {count} rows have a label, so {chosen.size} that seed={seed} draws are held out and tested"
    )
    return chosen.astype(np.int64)
