"""Metrics that are asked for with a certificate: in numbers, and their worst values once it is known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from labelcert.arrays import Values, frozen
from labelcert.certificate import Certificate, RelabellingList
from labelcert.certificate.metric import CountedMetric, Metric, codes_of, true_values
from labelcert.certificate.worst_case import AskedMetrics, WorstValues, joined, worst_from_radii
from labelcert.certification.task import Task
from labelcert.engines.freezing import packed
from labelcert.errors import InvalidInput
from labelcert.problem import Problem, Relabelling

Walked = Sequence[tuple[WorstValues, Sequence[Relabelling]]]
"""Of each metric, what a walk found, and the distinct attacks."""


def in_numbers(task: Task, n: int, classes: Values) -> list[CountedMetric]:
    """All metrics of a task about n test nodes; refuses what cannot be counted."""
    names, found = task.names, []
    for metric in map(Metric.of, task.metrics):
        if metric.true_labels is None:
            raise InvalidInput(f"give the true labels of the test nodes: Metric({metric.name!r}, true_labels)")
        truth = true_values(metric.true_labels, n, classes, names.class_list)
        found.append(metric.counted(codes_of(truth, classes), classes))
    return found


def with_worst_values(
    cert: Certificate, asked: Sequence[CountedMetric], walked: Walked, problem: Problem
) -> Certificate:
    """The certificate with the worst values that follow from its radii, and from a walk, if there was one."""
    if not asked:
        return cert
    known = [worst_from_radii(cert, one) for one in asked]
    labels, targets = (
        [part[k] for part in map(cert.curve_attacks.__getitem__, range(len(cert.curve_attacks)))] for k in (0, 1)
    )
    for q, (found, changes) in enumerate(walked):
        own = replace(found, attack_of=found.attack_of + len(labels))
        more = packed(problem, changes)
        labels += [more[k][0] for k in range(len(more))]
        targets += [more[k][1] for k in range(len(more))]
        known[q] = joined(asked[q], known[q], own)
    ends = [one.ends(metric) for one, metric in zip(known, asked, strict=True)]
    used, attack_of = np.unique([one.attack_of for one in known], return_inverse=True)
    stored = AskedMetrics(
        names=frozen(np.array([one.name for one in asked], dtype=np.str_)),
        positive=frozen(np.array([one.positive for one in asked], dtype=np.int64)),
        truth=frozen(np.array([one.truth for one in asked], dtype=np.int64)),
        groups=frozen(np.array([one.groups for one in asked], dtype=np.int64)),
        lower=frozen(np.array([lower for lower, _ in ends])),
        upper=frozen(np.array([upper for _, upper in ends])),
        attack_of=frozen(attack_of.reshape(len(asked), -1).astype(np.int64)),
    )
    attacks = RelabellingList.pack([labels[k] for k in used], [targets[k] for k in used])
    cert = replace(cert, metrics=stored, metric_attacks=attacks)
    return replace(cert, checksum=cert.computed_checksum())
