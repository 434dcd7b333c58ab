"""Which labels the cheapest attacks on single nodes move where, with more than two classes.

The paper supposes that its relaxation is tight because the best attack on a node turns labels of its predicted class
into labels of the runner-up, the class with the second highest score. Here an adversary who can do nothing else is
certified against, too: where it needs as few labels as a free one, such an attack is a best one.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from labelcert.arrays import Float, Values
from labelcert.certificate import Certificate
from labelcert.certification import GraphCertifier, certify
from labelcert.jobs.cells import CELLS, Answer, Cell, Job
from labelcert.jobs.store import Store
from labelcert.problem import Threat
from labelcert.studies.expansion import StudyPlan
from labelcert.studies.report import REPORTS, Sheet, StudyReport, certified_sheets, curves

if TYPE_CHECKING:
    import pandas as pd

NODES, ALONE_ENOUGH = "nodes", "runner-up alone"
LABELS, FROM, TO, BOTH = "labels", "from the predicted class", "to the runner-up", "both"
COUNTED = (NODES, ALONE_ENOUGH, LABELS, FROM, TO, BOTH)
"""Nodes whose cheapest attack is known, those for which moves to the runner-up are enough, and labels that move."""


@dataclass(frozen=True, eq=False, kw_only=True)
class MovesCell(Cell):
    """A certificate, and which labels its attacks on single nodes move where."""

    def decides(self, job: Job) -> dict[str, Any]:
        """With what is counted."""
        return {**super().decides(job), "moves": True}

    def answer(self, job: Job, certifier: GraphCertifier, workers: int | None) -> Answer:
        """Certify, and count."""
        counts: Counter[str] = Counter()
        cell = replace(self, using=partial(_with_moves_counted, counts))
        certificate = super(MovesCell, cell).answer(job, certifier, workers)[0]
        return certificate, {"moves": {name: counts[name] for name in COUNTED}}


def _with_moves_counted(
    counts: Counter[str], K_train: Float, labels: Values, K_test: Float, C: float, **options: Any
) -> Certificate:
    cert = certify(K_train, labels, K_test, C, **options)
    pairs = np.array([cert.predictions, cert.runners_up()]).T
    known = (cert.radius_lower == cert.radius_upper) & (cert.radius_upper > 0) & (cert.radius_upper <= cert.max_flips)
    for t in np.flatnonzero(known).tolist():
        source, target = pairs[t].tolist()
        moved = [(labels[i] == source, new == target) for i, new in (cert.witness(t) or {}).items()]
        counts[LABELS] += len(moved)
        counts[FROM] += sum(a for a, _ in moved)
        counts[TO] += sum(b for _, b in moved)
        counts[BOTH] += sum(a and b for a, b in moved)
    how = {**options, "names": None, "collective": False}
    for source, target in {tuple(pair) for pair in pairs[known].tolist()}:
        nodes = np.flatnonzero(known & (pairs == (source, target)).all(axis=1))
        threat = Threat(allowed_flips={source: [target]})
        alone = certify(K_train, labels, K_test[nodes], C, threat=threat, **how)
        counts[NODES] += nodes.size
        counts[ALONE_ENOUGH] += int((alone.radius_upper == cert.radius_upper[nodes]).sum())
    return cert


def moved_labels(plan: StudyPlan, store: Store) -> dict[tuple[str, str], Counter[str]]:
    """The counts of each dataset and model, over seeds."""
    found: dict[tuple[str, str], Counter[str]] = {}
    for place in plan.places:
        told = store.records.get(place.cell, {}).get("result", {}).get("moves", {})
        if told:
            found.setdefault((place.dataset, place.model), Counter()).update(told)
    return found


def _moves(plan: StudyPlan, store: Store, summary: pd.DataFrame, draw: bool) -> StudyReport:
    rows = tuple(
        (f"{dataset}, {model}", *(str(counts[name]) for name in COUNTED))
        for (dataset, model), counts in moved_labels(plan, store).items()
    )
    sheet = Sheet("Cheapest attacks on single nodes: which labels they move where", ("model", *COUNTED), rows)
    return StudyReport([sheet, *certified_sheets(summary, [])], figures=curves(plan, summary, draw))


CELLS["moves"] = MovesCell
REPORTS["moves"] = _moves
