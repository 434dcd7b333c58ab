"""Families on a device: parent sets, and their children with one later label each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from labelcert.arrays import Bool, Int
from labelcert.engines.gpu.device import Device
from labelcert.engines.gpu.device_problems import DeviceProblems, Shapes

BLOCKS_PER_MULTIPROCESSOR = 16
"""Ranges of parents for each multiprocessor, about, so that all are busy until the end."""


class Families:
    """Trains on families.

    - ``labels`` (count, M): the labels that children may add, of each problem, in order.
    - ``ends``: how many there are.
    """

    def __init__(
        self, device: Device, shapes: Shapes, problems: DeviceProblems, labels: Any, ends: Sequence[int]
    ) -> None:
        self._device, self._shapes, self._problems = device, shapes, problems
        self._labels = device.put(labels.astype(np.int32))
        self._ends_here = np.array(ends, dtype=np.int32)
        self._ends = device.put(self._ends_here)

    def walk(self, problem: Int, parents: Int, first_child: Int, unwanted: Bool | None = None) -> tuple[Any, Any]:
        """Solutions and states of all children, family by family.

        - ``problem`` (f,): which problem each parent belongs to; parents of one problem are side by side.
        - ``parents`` (f, size): labels that each parent has flipped.
        - ``first_child`` (f,): where among the labels of the problem its children begin.
        - ``unwanted``: children to leave out: their solutions are anything.
        """
        device, M = self._device, self._problems.M
        counts = self._ends_here[problem] - first_child
        stops = np.concatenate([[0], np.cumsum(counts)])
        first_row = self._ranges(problem, stops)
        blocks = first_row.size - 1
        z, code = device.empty((int(stops[-1]), M), np.float64), device.empty((int(stops[-1]), M), np.uint8)
        slabs = None if self._shapes.shared_tableau else device.empty((blocks, M, M), np.float64)
        arguments = (
            self._labels,
            device.put(problem[first_row[:-1]].astype(np.int32)),
            self._ends,
            device.put(first_row.astype(np.int32)),
            device.put(np.ascontiguousarray(parents.astype(np.int32)) if parents.size else np.zeros(1, dtype=np.int32)),
            np.int32(parents.shape[1]),
            device.put(first_child.astype(np.int32)),
            device.put(stops[:-1]),
            None if unwanted is None else device.put(unwanted.astype(np.uint8)),
            slabs,
            z,
            code,
        )
        self._shapes.walk_families(blocks, (*self._problems.arguments, *arguments))
        return z, code

    def _ranges(self, problem: Int, stops: Int) -> Int:
        """Parents in ranges of about as many children each, none of which has parents of two problems."""
        wanted = max(1, self._device.multiprocessors * BLOCKS_PER_MULTIPROCESSOR)
        if not self._shapes.shared_tableau:
            wanted = max(1, self._device.multiprocessors * 2)  # each has a tableau in memory
        cuts = np.searchsorted(stops, np.linspace(0, stops[-1], min(wanted, problem.size) + 1)[1:-1])
        borders = np.flatnonzero(np.diff(problem)) + 1
        return np.unique(np.concatenate([[0], cuts, borders, [problem.size]])).astype(np.int64)


def blocks_of(counts: Int, most: int) -> Iterator[slice]:
    """Families in blocks of about ``most`` children."""
    ends, start = np.cumsum(counts), 0
    while start < counts.size:
        done = int(ends[start - 1]) if start else 0
        end = max(start + 1, int(np.searchsorted(ends, done + most, side="right")))
        yield slice(start, end)
        start = end
