"""Tables of more than two classes on a device: scores of toggled sets."""

from __future__ import annotations

import math

import numpy as np

from labelcert.arrays import Bool, Int, Signs
from labelcert.engines.gpu.cube import launch_stops
from labelcert.engines.gpu.device import Device
from labelcert.engines.gpu.families import Families, blocks_of
from labelcert.engines.gpu.problems import Problems, Shapes, clean_start
from labelcert.engines.tables.forest import Filled, FillTask
from labelcert.engines.tables.trees import FORBIDDEN, LEAF
from labelcert.svm.pivoting import UNIT_ROUNDOFF


class DeviceTables:
    """The trainings of a forest on a device.

    Parameters
    ----------
    device : Device
    task : FillTask
    """

    def __init__(self, device: Device, task: FillTask) -> None:
        fill, rules = task.fill, task.rules
        self._device, self._task = device, task
        (m, n), K = fill.scores.shape, fill.ys.shape[0]
        M = device.padded(m)
        starts = [None if fill.linear else clean_start(fill.retraining, fill.ys[c]) for c in range(K)]
        self.possible = fill.linear or all(start is not None for start in starts)
        if not self.possible:
            return
        machine = None if fill.linear else fill.retraining.machine.values
        error = 1.01 * (UNIT_ROUNDOFF * 4.0 * math.sqrt(m) * (m + 4) + fill.slack)
        self._problems = Problems(device, M, [machine] * K, list(fill.ys), starts, [error] * K)
        self._shapes = Shapes(device, M, fill.linear)
        labels = np.zeros((K, M), dtype=np.int64)
        labels[:, : rules.labels.shape[1]] = rules.labels
        self._families = Families(device, self._shapes, self._problems, labels, rules.sizes.tolist())
        rows = np.zeros((n, M))
        rows[:, :m] = fill.scores.T
        self._rows, self._n = device.put(rows), n

    def walk(self, chunk: tuple[int, int, int], flag: Signs) -> Filled:
        """Train on one chunk."""
        start, end, stops = chunk
        tree, rules, fill = self._task.tree, self._task.rules, self._task.fill
        parents = start + np.flatnonzero(tree.base[start:end] != LEAF)
        owner, first_child = tree.owner[parents], tree.last[parents] + 1
        first = int(tree.base[parents[0]] + first_child[0]) if parents.size else 0
        labels = _labels_of(tree.last, tree.parent, rules.labels, parents, owner, _size(tree, parents))
        unwanted: Bool = tree.cost[first : first + stops] == FORBIDDEN
        P, tau = np.empty((stops, self._n), dtype=np.float32), np.empty(stops, dtype=np.float32)
        counts = rules.sizes[owner] - first_child
        at, finished = 0, True
        for rows in blocks_of(counts, launch_stops(fill.ys.shape[1])):
            own = int(counts[rows].sum())
            skip = unwanted[at : at + own]
            z, code = self._families.walk(owner[rows], labels[rows], first_child[rows], skip if skip.any() else None)
            scores, errors = self._device.empty((own, self._n), np.float32), self._device.empty(own, np.float32)
            arguments = (
                z,
                code,
                np.int64(own),
                self._problems.Q,
                self._problems.constants,
                self._rows,
                np.int32(self._n),
                np.float64(fill.shrink),
                scores,
                errors,
            )
            self._shapes.verdicts("tabulate", own, arguments)
            P[at : at + own], tau[at : at + own] = self._device.get(scores), self._device.get(errors)
            at += own
            if flag[0]:
                finished = at == stops
                break
        P[unwanted], tau[unwanted] = 0.0, np.inf
        return Filled(finished, np.array([at, 0]), first, P, tau)


def _size(tree: object, parents: Int) -> int:
    """Labels that the parents of a level have toggled."""
    size, s = 0, int(parents[0]) if parents.size else -1
    while s >= 0 and tree.last[s] >= 0:  # type: ignore[attr-defined]
        size, s = size + 1, int(tree.parent[s])  # type: ignore[attr-defined]
    return size


def _labels_of(last: Int, parent: Int, labels: Int, parents: Int, owner: Int, size: int) -> Int:
    """(f, size) labels that each parent has toggled."""
    out = np.zeros((parents.size, size), dtype=np.int64)
    here = parents.copy()
    for column in range(size - 1, -1, -1):
        out[:, column] = labels[owner, last[here]]
        here = parent[here]
    return out
