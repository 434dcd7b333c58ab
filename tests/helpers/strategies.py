"""Small problems for Hypothesis, drawn piece by piece, so that what fails shrinks to something readable.

Shrinking leads to the identity kernel, C = 1, the hinge loss, two labels, one test node and the plain threat.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st

from labelcert import Threat
from labelcert.arrays import Float
from labelcert.selfcheck import Case

MOST_LABELS = 6
MOST_TEST_NODES = 4

KERNELS = ("identity", "linear", "linear + 1", "gaussian")
"""Linear kernels of integer points are singular and full of ties; Gaussian ones are neither."""

CAPS = (1.0, 2.0**-10, 0.125, 0.3, 10.0, 1e3)
"""Without exception between the limits of validation when a power of two up to 2**10 multiplies or divides them."""

NAMES = ("ant", "bee", "cat", "dog")

SELDOM = st.integers(0, 2).map(lambda k: k == 2)
"""True now and then: a threat with all its options would leave little to the adversary."""


@st.composite
def cases(draw: st.DrawFn, *, classes: int | tuple[int, int] = (2, 4), m: int | None = None) -> Case:
    """A problem with so many classes (or a number between two), and ``m`` labels (2 to 6)."""
    least, most = (classes, classes) if isinstance(classes, int) else classes
    K = draw(st.integers(least, most))
    m = draw(st.integers(max(2, K), MOST_LABELS)) if m is None else m
    n = draw(st.integers(1, MOST_TEST_NODES))
    kind = draw(st.sampled_from(KERNELS))
    K_train, K_test = draw(kernels(kind, m, n))
    # The first K labels show every class once, so that there are K classes whatever the others are.
    codes = [*range(K), *draw(st.lists(st.integers(0, K - 1), min_size=m - K, max_size=m - K))]
    labels = np.array(NAMES)[codes]
    threat = draw(threats(labels.tolist()))
    total = m if threat.costs is None else int(np.sum(threat.costs))
    affordable = total if K == 2 else min(total, 3 if threat.costs is None else 5)
    max_flips = draw(st.none() | st.integers(0, affordable) if K == 2 else st.integers(0, affordable))
    return Case(
        kind=kind,
        K_train=K_train,
        labels=labels,
        K_test=K_test,
        C=draw(st.sampled_from(CAPS)),
        loss=draw(st.sampled_from(("hinge", "square"))),
        threat=threat,
        max_flips=max_flips,
    )


@st.composite
def kernels(draw: st.DrawFn, kind: str, m: int, n: int) -> tuple[Float, Float]:
    """``(K_train, K_test)`` of points with small integer coordinates."""
    if kind == "identity":
        return np.eye(m), draw(integer_points(n, m, 1))
    points = draw(integer_points(m + n, draw(st.integers(1, 3)), 2))
    K = points @ points.T
    if kind == "linear + 1":
        K = K + np.eye(m + n)
    elif kind == "gaussian":
        norms = np.diag(K)
        K = np.exp(-(norms[:, None] + norms - 2 * K) / 4)
    return K[:m, :m], K[m:, :m]


def integer_points(rows: int, columns: int, largest: int) -> st.SearchStrategy[Float]:
    """(rows, columns) array of whole numbers from ``-largest`` to ``largest``."""
    row = st.lists(st.integers(-largest, largest), min_size=columns, max_size=columns)
    return st.lists(row, min_size=rows, max_size=rows).map(lambda lists: np.array(lists, dtype=float))


@st.composite
def threats(draw: st.DrawFn, labels: list[str]) -> Threat:
    """Any combination of the options of a threat against some labels."""
    m, names = len(labels), sorted(set(labels))
    options: dict[str, Any] = {}
    some = st.lists(st.sampled_from(names), unique=True)
    if draw(SELDOM):
        options["trusted"] = draw(each(st.booleans(), m))
    if draw(SELDOM):
        options["costs"] = draw(each(st.integers(1, 3), m))
    if draw(SELDOM):
        options["groups"] = draw(each(st.sampled_from([None, "ann", "bob"]), m))
        present = sorted({g for g in options["groups"] if g is not None})
        budget = st.integers(0, 2)
        each_its_own = st.fixed_dictionaries({}, optional=dict.fromkeys(present, budget))
        options["group_budgets"] = draw(budget | each_its_own)
    if draw(SELDOM):
        options["allowed_flips"] = draw(st.fixed_dictionaries({}, optional=dict.fromkeys(names, some)))
    if draw(SELDOM):
        options["allowed_targets"] = draw(each(st.none() | some, m))
    return Threat(**options)


def each(entry: st.SearchStrategy[Any], m: int) -> st.SearchStrategy[list[Any]]:
    """One entry per label."""
    return st.lists(entry, min_size=m, max_size=m)
