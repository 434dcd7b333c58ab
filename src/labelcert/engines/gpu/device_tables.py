"""Tables of more than two classes on a device: scores of toggled sets."""

from __future__ import annotations

import numpy as np

from labelcert.arrays import Bool, Int, Signs
from labelcert.engines.cube.cube_walk import linear_error
from labelcert.engines.gpu.device import Device
from labelcert.engines.gpu.device_problems import DeviceProblems, Shapes, clean_start
from labelcert.engines.gpu.families import Families
from labelcert.engines.tables.forest import Filled, FillTask, Siblings
from labelcert.engines.tables.toggled_trees import FORBIDDEN, LEAF, ToggledTree


class DeviceTables:
    """The trainings of a forest on a device."""

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
        error = float(linear_error(fill))
        self._problems = DeviceProblems(device, M, [machine] * K, list(fill.ys), starts, [error] * K)
        self._shapes = Shapes(device, M, fill.linear)
        labels = np.zeros((K, M), dtype=np.int64)
        labels[:, : rules.labels.shape[1]] = rules.labels
        self._families = Families(device, self._shapes, self._problems, labels, rules.sizes.tolist())
        rows = np.zeros((n, M))
        rows[:, :m] = fill.scores.T
        self._rows, self._n = device.put(rows), n

    @classmethod
    def bring(cls, device: Device, task: FillTask) -> DeviceTables | None:
        """One task; None where it has nothing to start from."""
        tables = cls(device, task)
        return tables if tables.possible else None

    def one(self, task: FillTask, chunk: Siblings, flag: Signs) -> tuple[Filled, bool]:
        """Train on one chunk."""
        return self.walk(chunk)

    def walk(self, chunk: Siblings) -> tuple[Filled, bool]:
        """Train on one chunk, in one launch."""
        start, end, stops, _ = chunk
        tree, rules, fill = self._task.tree, self._task.rules, self._task.fill
        parents = start + np.flatnonzero(tree.base[start:end] != LEAF)
        owner, first_child = tree.owner[parents], tree.last[parents] + 1
        first = int(tree.base[parents[0]] + first_child[0]) if parents.size else 0
        labels = _labels_of(tree.last, tree.parent, rules.labels, parents, owner, _size(tree, parents))
        unwanted: Bool = tree.cost[first : first + stops] == FORBIDDEN
        z, code = self._families.walk(owner, labels, first_child, unwanted if unwanted.any() else None)
        scores, errors = self._device.empty((stops, self._n), np.float32), self._device.empty(stops, np.float32)
        arguments = (
            z,
            code,
            np.int64(stops),
            self._problems.Q,
            self._problems.constants,
            self._rows,
            np.int32(self._n),
            np.float64(fill.shrink),
            scores,
            errors,
        )
        self._shapes.verdicts("tabulate", stops, arguments)
        P, tau = self._device.get(scores), self._device.get(errors)
        P[unwanted], tau[unwanted] = 0.0, np.inf
        return Filled(np.array([stops - int(unwanted.sum()), 0]), first, P, tau), True


def _size(tree: ToggledTree, parents: Int) -> int:
    """Labels that the parents of a level have toggled."""
    size, s = 0, int(parents[0]) if parents.size else -1
    while s >= 0 and tree.last[s] >= 0:
        size, s = size + 1, int(tree.parent[s])
    return size


def _labels_of(last: Int, parent: Int, labels: Int, parents: Int, owner: Int, size: int) -> Int:
    """(f, size) labels that each parent has toggled."""
    out = np.zeros((parents.size, size), dtype=np.int64)
    here = parents.copy()
    for column in range(size - 1, -1, -1):
        out[:, column] = labels[owner, last[here]]
        here = parent[here]
    return out
