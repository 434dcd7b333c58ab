"""Values that NumPy would silently turn into something else, given to every public function that takes any.

Each is refused in one line before work starts, or listed here as something that makes sense. None is an internal error.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.linear_model import RidgeClassifier

import labelcert
from labelcert import (
    GCN,
    Graph,
    LabelcertError,
    Threat,
    attack,
    certify,
    certify_linear,
    certify_partition,
    from_sklearn,
    recheck,
    verify,
)

X = np.random.default_rng(0).normal(size=(9, 3))
GRAM = X @ X.T
K, R, Y = GRAM[:6, :6], GRAM[6:, :6], list("aabbab")
KARATE = labelcert.load_dataset("karate")
CERT = certify(K, Y, R, C=1.0)


def masked(values: Any) -> Any:
    array = np.ma.array(values)
    array.mask = np.zeros(array.shape, dtype=bool)
    array.mask.flat[0] = True
    return array


NUMBERS = {
    "nan": np.nan,
    "infinity": np.inf,
    "true": np.True_,
    "word": "1",
    "400 digits": 10**400,
    "70 bits": 2**70,
    "negative": -1,
    "array": np.array([1.0]),
    "list": [1],
    "masked": np.ma.masked,
    "NA": pd.NA,
    "complex": 1 + 0j,
    "NumPy complex": np.complex128(1),
    "bytes": b"1",
    "dict": {},
    "date": datetime.date(2020, 1, 1),
    "sparse": sp.csr_array([[1.0]]),
    "fraction": Fraction(1, 2),
    "decimal": Decimal("0.5"),
    "half": 0.5,
    "none": None,
}


def matrices(A: Any) -> dict[str, Any]:
    gaps = np.where(np.eye(*A.shape) > 0, np.nan, A)
    return {
        "masked": masked(A),
        "list of masked rows": [masked(row) for row in A],
        "objects": A.astype(object),
        "NA": pd.DataFrame(gaps).convert_dtypes(),
        "nan": gaps,
        "complex": A + 0j,
        "words": A.astype(str),
        "no rows": A[:0],
        "no columns": A[:, :0],
        "three axes": A[None],
        "one axis": A[0],
        "word": "x",
        "none": None,
        "400 digits": [[10**400] * A.shape[1]] * A.shape[0],
        "ragged": [[1], [1, 2]],
        "dates": A.astype("M8[s]"),
        "set": {1},
        "dict": {},
        "sparse": sp.csr_array(A),
        "frame": pd.DataFrame(A),
        "lists": A.tolist(),
        "half precision": A.astype(np.float16),
    }


LABELS = {
    "words and numbers": ["a", 1] * 3,
    "numbers and digits": [1, "2"] * 3,
    "words and bytes": ["a", b"b"] * 3,
    "bools and numbers": [True, 2] * 3,
    "objects": np.array([True, 2] * 3, dtype=object),
    "masked": masked([0, 0, 1, 1, 0, 1]),
    "masked words": masked(np.array(Y, dtype=object)),
    "None": ["a", None, "b", "b", "a", "b"],
    "words and nan": ["a", np.nan, "b", "b", "a", "b"],
    "nan": [0, np.nan, 1, 1, 0, 1],
    "NA": pd.Series([0, 1, pd.NA, 1, 0, 1], dtype="Int64"),
    "NA among words": pd.Series(["a", pd.NA, "b", "b", "a", "b"], dtype="string"),
    "NA in a category": pd.Categorical(["a", None] * 3),
    "complex": [0, 1j] * 3,
    "too long to differ": [2**53 + 1, 2**53, 0.5] * 2,
    "NUL": ["a", "a\0", "b"] * 2,
    "nested": [[0], [1]] * 3,
    "sparse": sp.csr_array([[0, 1] * 3]),
    "empty": [],
    "text": "ababab",
    "dict": {},
    "none": None,
    "infinity": [np.inf, 1] * 3,
    "dates": np.array(["2020", "2021"] * 3, "M8[Y]"),
    "tuples": [("a",), ("b",)] * 3,
    "400 digits": [10**400, 1] * 3,
    "fractions": [Fraction(1, 3), Fraction(1, 2)] * 3,
    "bools": [True, False] * 3,
    "numbers": [1, 2.5] * 3,
    "series": pd.Series(Y),
    "category": pd.Categorical(Y),
    "NumPy words": [np.str_("a"), "b"] * 3,
    "NumPy numbers": [np.int64(1), 2] * 3,
}
SOUND_LABELS = ("bools", "numbers", "series", "category", "NumPy words", "NumPy numbers")

MASKS = {
    "numbers": [0, 1] * 3,
    "masked": masked([True, False] * 3),
    "objects": np.array([True, False] * 3, dtype=object),
    "NA": pd.array([True, pd.NA] * 3, dtype="boolean"),
    "words": ["True"] * 6,
    "short": [True],
    "nested": [[True]] * 6,
    "scalar": True,
    "empty": [],
    "dict": {},
    "sparse": sp.csr_array([[True] * 6]),
    "plain": [True, False] * 3,
    "series": pd.Series([True, False] * 3),
}
COSTS = {
    "masked": masked([1] * 6),
    "halves": [1.5] * 6,
    "nan": [np.nan] * 6,
    "bools": [True] * 6,
    "NA": pd.array([1, pd.NA] * 3),
    "400 digits": [10**400] * 6,
    "62 bits": [2**62] * 6,
    "words": ["1"] * 6,
    "zero": [0] * 6,
    "durations": np.ones(6, "m8[s]"),
    "scalar": 2,
    "complex": [1j] * 6,
    "sparse": sp.csr_array([[1] * 6]),
    "dict": {},
    "whole": [1, 2] * 3,
}
WEIGHTS = {
    **{name: v for name, v in COSTS.items() if name not in ("halves", "62 bits", "bools")},
    "negative": [-1.0] * 6,
    "infinite": [np.inf] * 6,
    "halves": [0.5, 1.5] * 3,
    "none": None,
}
GROUPS = {
    "masked": masked([1, 2] * 3),
    "lists": [[1]] * 6,
    "nested": np.ones((6, 1)),
    "short": ["a"],
    "scalar": 1,
    "dict": {},
    "sparse": sp.csr_array([[1] * 6]),
    "NA": pd.array([1, pd.NA] * 3),
    "nan": [1, np.nan] * 3,
    "none": [None] * 6,
    "words": list("xyzxyz"),
    "alike as words": [1, "1"] * 3,
    "equal numbers": [1, 1.0] * 3,
}
TARGETS = {
    **NUMBERS,
    "nan in it": {"a": [np.nan]},
    "NA in it": {"a": [pd.NA]},
    "unknown": {"a": ["c"]},
    "array in it": {"a": [np.ones(2)]},
    "a list for each": [["b"]] * 6,
    "arrays of arrays": [np.ones((1, 2))] * 6,
    "generator": (None for _ in Y),
}
NODES = {
    **NUMBERS,
    "masked indices": masked([0, 1, 32, 33]),
    "halves": [0.5, 33.0],
    "durations": np.array([0, 33], "m8[s]"),
    "masked mask": np.ma.array(np.arange(34) % 33 == 0, mask=np.arange(34) == 0),
    "NA in it": pd.array([0, pd.NA, 33]),
    "70 bits in it": [2**70, 0],
    "set": {0, 33},
    "indices": [0, 1, 32, 33],
}
PARTS = {
    **NUMBERS,
    "masked parts": masked([0, 0, 0, 1, 1, 1]),
    "parts as floats": [0.0, 1.0] * 3,
    "durations": np.array([0, 1] * 3, "m8[s]"),
    "NA in it": pd.array([0, 1, pd.NA] * 2),
    "70 bits in it": [2**70, 0] * 3,
}

Table = tuple[Callable[[Any], Any], dict[str, Any], tuple[str, ...]]
REAL = ("fraction", "half")
ALL_THREAT: Callable[..., Any] = lambda **how: certify(K, Y, R, C=1.0, threat=Threat(**how))  # noqa: E731
NUMERIC = ("frame", "lists", "half precision")
GIVES_VERDICT = (*NUMERIC, "objects", "no rows")
"""What ``verify`` takes for arrays: of other ones than the certificate's, it says so."""
TABLES: dict[str, Table] = {
    "certify(K_train)": (lambda v: certify(v, Y, R, C=1.0), matrices(K), ("frame", "lists")),
    "certify(K_test)": (lambda v: certify(K, Y, v, C=1.0), matrices(R), NUMERIC),
    "certify(labels)": (lambda v: certify(K, v, R, C=1.0), LABELS, SOUND_LABELS),
    "certify(C)": (lambda v: certify(K, Y, R, C=v), NUMBERS, REAL),
    "certify(max_flips)": (lambda v: certify(K, Y, R, C=1.0, max_flips=v), NUMBERS, ("none",)),
    "certify(max_fraction)": (lambda v: certify(K, Y, R, C=1.0, max_fraction=v), NUMBERS, (*REAL, "decimal", "none")),
    "certify(time_limit)": (lambda v: certify(K, Y, R, C=1.0, time_limit=v), NUMBERS, (*REAL, "70 bits", "none")),
    "certify(workers)": (lambda v: certify(K, Y, R, C=1.0, workers=v), NUMBERS, ("none",)),
    "certify(margin)": (
        lambda v: certify(K, Y, R, C=1.0, margin=v),
        {**NUMBERS, "masked margins": masked(np.ones(3)), "NA in it": pd.array([1.0, pd.NA, 1.0])},
        ("half",),
    ),
    "certify(intercept)": (
        lambda v: certify(K, Y, R, C=1.0, loss="logistic", max_flips=0, intercept=v),
        NUMBERS,
        ("true",),
    ),
    "certify(collective)": (lambda v: certify(K, Y, R, C=1.0, collective=v), NUMBERS, ("true",)),
    "certify(engine)": (lambda v: certify(K, Y, R, C=1.0, engine=v), NUMBERS, ()),
    "certify(loss)": (lambda v: certify(K, Y, R, C=1.0, loss=v), NUMBERS, ()),
    "certify(device)": (lambda v: certify(K, Y, R, C=1.0, device=v), NUMBERS, ()),
    "certify(threat)": (lambda v: certify(K, Y, R, C=1.0, threat=v), NUMBERS, ("none",)),
    "Threat(trusted)": (lambda v: ALL_THREAT(trusted=v), MASKS, ("plain", "series")),
    "Threat(costs)": (lambda v: ALL_THREAT(costs=v), COSTS, ("whole", "halves")),
    "Threat(groups)": (lambda v: ALL_THREAT(groups=v, group_budgets=1), GROUPS, ("NA", "nan", "none", "words")),
    "Threat(group_budgets)": (
        lambda v: ALL_THREAT(groups=Y, group_budgets=v),
        NUMBERS,
        ("400 digits", "70 bits", "none", "dict"),
    ),
    "Threat(allowed_flips)": (lambda v: ALL_THREAT(allowed_flips=v), TARGETS, ("dict", "none")),
    "Threat(allowed_targets)": (lambda v: ALL_THREAT(allowed_targets=v), TARGETS, ("none", "a list for each")),
    "certify_linear(H)": (lambda v: certify_linear(v, Y), matrices(R), (*NUMERIC, "sparse")),
    "certify_linear(blocks)": (
        lambda v: certify_linear(v, Y),
        {"masked": [masked(R)], "complex": [sp.csr_array(R + 0j)], "nan": [R, R * np.nan], "plain": [R, R]},
        ("plain",),
    ),
    "certify_linear(labels)": (lambda v: certify_linear(R, v), LABELS, SOUND_LABELS),
    "certify_partition(parts)": (lambda v: certify_partition(K, Y, R, C=1.0, parts=v), PARTS, ()),
    "certify_partition(seed)": (
        lambda v: certify_partition(K, Y, R, C=1.0, parts=2, seed=v),
        NUMBERS,
        ("400 digits", "70 bits", "negative"),
    ),
    "certify_partition(combine)": (lambda v: certify_partition(K, Y, R, C=1.0, parts=2, combine=v), NUMBERS, ()),
    "from_sklearn(X_train)": (
        lambda v: from_sklearn(RidgeClassifier()).certify(v, Y, X[6:]),
        {name: v for name, v in matrices(X[:6]).items() if name not in ("none", "word", "set", "dict")},
        (*NUMERIC, "sparse", "objects", "words"),
    ),
    "from_sklearn(y_train)": (lambda v: from_sklearn(RidgeClassifier()).certify(X[:6], v, X[6:]), LABELS, SOUND_LABELS),
    "GCN(C)": (lambda v: GCN(C=v), NUMBERS, (*REAL, "70 bits")),
    "GCN.certify(labeled)": (lambda v: GCN(C=0.1).certify(KARATE, v, [5], max_flips=1), NODES, ("indices",)),
    "GCN.certify(test)": (lambda v: GCN(C=0.1).certify(KARATE, [2, 3, 31], v, max_flips=1), NODES, ("indices", "list")),
    "Graph(adjacency)": (
        lambda v: Graph(v, np.eye(3), [0, 1, 0]),
        matrices(np.ones((3, 3))),
        (*NUMERIC, "sparse", "objects", "words"),
    ),
    "Graph(features)": (
        lambda v: Graph(np.ones((3, 3)), v, [0, 1, 0]),
        matrices(np.ones((3, 3))),
        (*NUMERIC, "sparse", "objects", "words", "no columns"),
    ),
    "attack(labels)": (lambda v: attack(K, v, R, C=1.0), LABELS, SOUND_LABELS),
    "recheck(labels)": (lambda v: recheck(K, v, R, C=1.0, flips=1, verify=1), LABELS, SOUND_LABELS),
    "from_sklearn(sample_weight)": (
        lambda v: from_sklearn(RidgeClassifier()).certify(X[:6], Y, X[6:], sample_weight=v, max_flips=1),
        WEIGHTS,
        ("halves", "whole", "none"),
    ),
    "recheck(confirm_costs)": (
        lambda v: recheck(K, Y, R, C=1.0, flips=1, confirm=2, confirm_costs=v),
        WEIGHTS,
        ("halves", "whole", "none"),
    ),
    "recheck(weights)": (
        lambda v: recheck(K, Y, R, C=1.0, flips=1, confirm=2, weights=v),
        {"masked": masked([1.0] * 3), "NA": pd.array([1, pd.NA, 1]), "words": ["1"] * 3, "halves": [0.5] * 3},
        ("halves",),
    ),
    "verify(K_train)": (lambda v: verify(CERT, v, Y, R), matrices(K), GIVES_VERDICT[:-1]),
    "verify(K_test)": (lambda v: verify(CERT, K, Y, v), matrices(R), GIVES_VERDICT),
    "verify(labels)": (
        lambda v: verify(CERT, K, v, R),
        LABELS,
        (*SOUND_LABELS, "NA", "infinity", "dates", "400 digits", "fractions"),
    ),
    "verify(H)": (lambda v: verify(certify_linear(R, Y), H=v), matrices(R), (*GIVES_VERDICT, "one axis", "sparse")),
    "recheck(flips)": (lambda v: recheck(K, Y, R, C=1.0, flips=v, verify=1), NUMBERS, ()),
    "certified_ratio": (CERT.certified_ratio, NUMBERS, (*REAL, "decimal")),
    "certified_accuracy": (
        lambda v: CERT.certified_accuracy(v, flips=1),
        {
            "masked": masked(np.array(["a", "b", "a"])),
            "words and numbers": ["a", 1, "b"],
            "short": ["a"],
            "right": ["a", "b", "a"],
        },
        ("right",),
    ),
    "witness": (CERT.witness, NUMBERS, ("negative",)),
    "collective_witness": (CERT.collective_witness, NUMBERS, ()),
}


def outcome(call: Callable[[Any], Any], value: Any) -> str:
    """What comes of a value: accepted, refused in one line, or the error that it should not be."""
    try:
        call(value)
    except LabelcertError as refused:
        return "refused" if len(str(refused).splitlines()) == 1 else str(refused)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "accepted"


@pytest.mark.parametrize("where", TABLES)
def test_odd_values_are_refused_in_one_line(where: str) -> None:
    call, values, sound = TABLES[where]
    found = {name: outcome(call, value) for name, value in values.items()}
    assert found == {name: "accepted" if name in sound else "refused" for name in values}
