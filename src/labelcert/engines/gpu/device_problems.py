"""DeviceProblems as kernels read them: padded to one number of labels, in arrays with one row per problem."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from labelcert.arrays import Float, Int
from labelcert.engines.gpu.device import NODE_TILE, Device, Program
from labelcert.losses.retraining import Retraining, settle
from labelcert.svm.pivoting import FLAGS, G, Machine, X, new_scratch

PAD = 5
"""State of a label that only fills up."""

MOST_SHARED_LABELS = 100
"""With more labels, tableaus of cubes are not in shared memory: it would hold too few."""

BLOCK_BYTES = 1024
"""Shared memory that every block takes beside its own."""

CONSTANTS = 9
REFINEMENTS = 2
"""Steps of refinement where the kernel is nearly singular."""


class Start(NamedTuple):
    """The training on clean labels, from which walks start."""

    T: Float  # (m, m) its tableau
    # x, g, state: (m,)
    x: Float
    g: Float
    state: Int


def clean_start(retraining: Retraining, y: Float) -> Start | None:
    """Train on clean labels, on the CPU; None where that leaves no tableau to start from."""
    scratch, y = new_scratch(y.size), y.copy()
    settle(retraining, scratch, y)
    if scratch.v[FLAGS, 0] != 0.0:
        return None
    return Start(scratch.T, scratch.v[X], scratch.v[G], scratch.state.astype(np.int64))


class DeviceProblems:
    """Machines and clean labels of several problems, on a device.

    - ``M``: labels of every problem, with those that only fill up.
    - ``machines``: None where labels enter linearly.
    - ``ys``: clean labels.
    - ``errors``: error bounds of scores that are linear in the labels.
    """

    def __init__(
        self,
        device: Device,
        M: int,
        machines: Sequence[Machine | None],
        ys: Sequence[Float],
        starts: Sequence[Start | None],
        errors: Sequence[float],
    ) -> None:
        count = len(ys)
        self.starts = starts
        self.M, self.linear = M, machines[0] is None
        Q, T = np.zeros((count, M, M)), np.zeros((count, M, M))
        x, g, y = np.zeros((count, M)), np.zeros((count, M)), np.ones((count, M))
        state = np.full((count, M), PAD, dtype=np.int32)
        constants = np.zeros((count, CONSTANTS))
        for p, (machine, own, start) in enumerate(zip(machines, ys, starts, strict=True)):
            m = own.size
            y[p, :m] = own
            state[p, :m] = 0
            constants[p, -1] = errors[p]
            if machine is None:
                continue
            assert start is not None
            Q[p, :m, :m], T[p, :m, :m] = machine.Q, start.T
            x[p, :m], g[p, :m], state[p, :m] = start.x, start.g, start.state
            constants[p, :-1] = (
                machine.C,
                1e-13 * machine.entry_max,
                REFINEMENTS if machine.ridge > 0.0 else 0,
                machine.min_eig,
                machine.entry_max,
                machine.row_norm,
                machine.gap_ridge,
                machine.gap_factor,
            )
        self.Q, self.constants, self.y = device.put(Q), device.put(constants), device.put(y)
        self._start = device.put(T), device.put(x), device.put(g), self.y, device.put(state)

    @property
    def arguments(self) -> tuple[Any, ...]:
        """What every walk begins with."""
        return (*self._start, self.Q, self.constants)


class Shapes:
    """How kernels for M labels are launched on a device."""

    def __init__(self, device: Device, M: int, linear: bool) -> None:
        self._device, self._M, self._linear = device, M, linear

    def _program(self, warps: int, blocks: int, shared_tableau: bool = True) -> Program:
        return Program(self._M, self._linear, shared_tableau, 32 * warps, blocks)

    def _at_once(self, shared: int, most: int) -> int:
        """Blocks with so much shared memory that a multiprocessor holds at a time."""
        return max(1, min(most, self._device.shared_bytes // (shared + BLOCK_BYTES)))

    def walk_cubes(self, runs: int, arguments: Sequence[Any], solutions: Sequence[Any]) -> None:
        """One warp a run, with a tableau in shared memory or, if that is too small for several, in slower memory."""
        inside = self._M <= MOST_SHARED_LABELS and self._device.shared_bytes >= 8 * (self._M * self._M + self._M)
        each = 8 * ((self._M * self._M if inside else 0) + self._M)
        warps = max(1, min(self._device.warps, 4, self._device.shared_bytes // each))
        blocks = self._at_once(warps * each, 24 // warps)
        grid = min(-(-runs // warps), self._device.multiprocessors * (4 * blocks if inside else 8))
        slabs = None if inside else self._device.empty((grid * warps, self._M, self._M), np.float64)
        program = self._program(warps, blocks, inside)
        self._device.launch(program, "walk_cubes", grid, warps, warps * each, (*arguments, slabs, *solutions))

    @property
    def family_warps(self) -> int:
        """Warps that share the tableau of a family."""
        return min(self._device.warps, 2 if self._M <= 32 else 4 if self._M <= 64 else 8)

    @property
    def _beside(self) -> int:
        """Numbers in shared memory beside the tableau of a family."""
        return (7 + self.family_warps) * self._M + 8

    @property
    def shared_tableau(self) -> bool:
        """Whether the tableau of a family fits into shared memory."""
        return 8 * (self._M * self._M + self._beside) <= self._device.shared_bytes

    def walk_families(self, blocks: int, arguments: Sequence[Any]) -> None:
        """One block a range of parents."""
        warps, inside = self.family_warps, self.shared_tableau
        shared = 8 * ((self._M * self._M if inside else 0) + self._beside)
        at_once = self._at_once(shared, (16 if self._M > 32 else 24) // warps)
        program = self._program(warps, at_once, inside)
        self._device.launch(program, "walk_families", blocks, warps, shared, arguments)

    def verdicts(self, kernel: str, stops: int, arguments: Sequence[Any]) -> None:
        """One lane a labelling."""
        each, tile = 8 * 32 * (self._M | 1), 8 * NODE_TILE * self._M
        warps = min(self._device.warps, 4 if self._M <= 64 else 2 if self._M <= 128 else 1)
        warps = max(1, min(warps, (self._device.shared_bytes - tile) // each))
        shared = tile + warps * each
        at_once = self._at_once(shared, 4)
        grid = max(1, min(-(-stops // (32 * warps)), self._device.multiprocessors * at_once * 4))
        self._device.launch(self._program(warps, at_once), kernel, grid, warps, shared, arguments)
