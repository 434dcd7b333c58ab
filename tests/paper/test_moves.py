"""Which labels attacks move: counts agree with the certificate's own witnesses."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np

from labelcert.paper.moving import (
    ALONE_ENOUGH,
    BOTH,
    COUNTED,
    FROM,
    LABELS,
    NODES,
    TO,
    _with_moves_counted,
    moved_labels,
)
from labelcert.studies import Store, expand, parse_study, run_plan
from labelcert.studies.report import make_report

STUDY = """
report = "moves"
certificates = ["ratio"]
seeds = [0]
flips = [1]
[[datasets]]
name = "karate"
[[models]]
name = "gcn"
C = 0.001
"""


def test_two_classes_have_nowhere_else_to_go(tmp_path: Path) -> None:
    plan = expand(parse_study(STUDY, name="moved"))
    with Store(tmp_path, write=True) as store:
        run_plan(plan, store, workers=1)
        [counts] = moved_labels(plan, store).values()
        report = make_report(plan, store)
    assert counts[NODES] > 0
    assert counts[TO] + counts[FROM] >= counts[LABELS]
    assert report.sheets[0].rows[0][1:] == tuple(str(counts[name]) for name in COUNTED)


def test_a_label_of_a_third_class_is_seen() -> None:
    """The node leans on class 0; its runner-up 1 has no label near it that class 0 could lose to."""
    labels = np.array(["a", "a", "b", "c", "c"])
    K = np.eye(5)
    K_test = np.array([[1.0, 0.6, 0.9, 0.1, 0.1]])
    counts: Counter[str] = Counter()
    cert = _with_moves_counted(counts, K, labels, K_test, 0.1, max_flips=3, names=None)
    assert cert.runners_up().tolist() == ["b"]
    assert counts[NODES] == 1
    moves = cert.witness(0) or {}
    assert counts[LABELS] == len(moves) == cert.radius_upper[0]
    assert counts[FROM] == sum(labels[i] == "a" for i in moves)
    assert counts[BOTH] <= min(counts[FROM], counts[TO])
    assert counts[ALONE_ENOUGH] <= 1
