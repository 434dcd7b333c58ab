"""Walks over labellings of two classes on a device: chunks in, what they prove out."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from labelcert.arrays import Int, Signs, Words
from labelcert.engines.bitsets import words_for
from labelcert.engines.cube.cube_walk import linear_error
from labelcert.engines.cube.cutting import LabellingChunk
from labelcert.engines.cube.recording import (
    DOUBT_CLOSER,
    DOUBT_COST,
    DOUBT_NODES,
    DOUBT_POSSIBLE,
    DOUBT_SURE,
    DOUBTS,
    GAP_PROOFS,
    GLOBAL_PROOFS,
    NAMED_NODES,
    SOLVED,
    STUCK,
    CubeSummary,
    CubeWork,
    new_summary,
)
from labelcert.engines.gpu.device import Device
from labelcert.engines.gpu.device_problems import DeviceProblems, Shapes, Start, clean_start
from labelcert.engines.gpu.families import Families, blocks_of

LAUNCH_STOPS = 1 << 20
USUAL_LABELS = 128
"""Labellings that are walked in one launch, and up to how many labels: solutions stay in memory meanwhile. With more
labels they are fewer."""

RUNS = 1 << 13
FEWEST_RUN_BITS, MOST_RUN_BITS = 6, 10
"""Into how many runs a cube is divided, about, one for each warp; each starts from the clean labels. And how many
labellings a run has, as powers of two."""


def launch_stops(m: int) -> int:
    """Labellings of one launch, at most (a power of two)."""
    if m <= 32:
        return 4 * LAUNCH_STOPS
    fewer = max(0.0, 2.0 * math.log2(m / USUAL_LABELS))
    return max(1 << 12, LAUNCH_STOPS >> math.ceil(fewer))


def run_bits(low: int) -> int:
    """How a cube of dimension ``low`` is divided."""
    return min(low, MOST_RUN_BITS, max(FEWEST_RUN_BITS, low + 1 - RUNS.bit_length()))


DOUBTS_AT_ONCE = 1 << 18
"""Doubts that one chunk notes; a chunk with more is walked again in halves."""

FEW_STOPS = 1
"""So few labellings are walked on the CPU."""

_NUMBER = np.uint64(0xFFFFFFFF)


class _Results(NamedTuple):
    """What chunks find, on the device: one row for each problem."""

    radius: Any
    most: Any
    doubts: Any
    doubt_count: Any
    low: Any
    low_stop: Any
    counters: Any


class Shape(NamedTuple):
    """What walks must have in common to be made in one launch."""

    M: int
    nodes: int
    linear: bool
    groups: int
    budgets: int
    rows: int

    @classmethod
    def of(cls, device: Device, walk: CubeWork) -> Shape:
        """The shape of one walk."""
        m, n = walk.scores.shape
        return cls(device.padded(m), n, walk.linear, walk.group_caps.size, walk.most.size, walk.rows)


class DeviceWalks:
    """Walks of one shape that were brought to a device.

    ``starts``: where they start, unless they are linear.
    """

    def __init__(self, device: Device, walks: Sequence[CubeWork], starts: Sequence[Start | None]) -> None:
        self._device, self._walks = device, walks
        self._shape = shape = Shape.of(device, walks[0])
        count, M = len(walks), shape.M
        machines = [None if walk.linear else walk.retraining.machine.values for walk in walks]
        errors = [float(linear_error(walk)) for walk in walks]
        self._problems = DeviceProblems(device, M, machines, [walk.y for walk in walks], starts, errors)
        self._shapes = Shapes(device, M, shape.linear)
        rows = np.zeros((count, shape.nodes, M))
        costs, groups = np.zeros((count, M), dtype=np.int32), np.full((count, M), -1, dtype=np.int32)
        labels, later = np.zeros((count, M), dtype=np.int32), np.zeros((count, M), dtype=np.int32)
        for p, walk in enumerate(walks):
            rows[p, :, : walk.y.size] = walk.scores.T
            costs[p, walk.labels], groups[p, walk.labels] = walk.costs, walk.groups
            labels[p, : walk.labels.size] = walk.labels
            later[p, : walk.affordable.size] = walk.labels[walk.affordable]
        limits = [(walk.budget, walk.total, walk.last_row, walk.mirror) for walk in walks]
        caps = [(walk.group_caps, walk.group_totals, walk.strides) for walk in walks]
        self._rows, self._labels = device.put(rows), device.put(labels)
        self._prices = (
            device.put(costs),
            device.put(groups),
            *(device.put(np.array(arrays, dtype=np.int32)) for arrays in zip(*caps, strict=True)),
            np.int32(shape.groups),
            device.put(np.array(limits, dtype=np.int32)),
        )
        ends = [int(walk.affordable.size) for walk in walks]
        self._families = Families(device, self._shapes, self._problems, later, ends)

    @classmethod
    def bring(cls, device: Device, task: Any) -> DeviceWalks | None:
        """One walk; None where it has nothing to start from."""
        walk = task.walk_over
        start = start_of(walk)
        return cls(device, [walk], [start]) if start is not None or walk.linear else None

    def one(self, task: Any, chunk: Any, flag: Signs) -> tuple[CubeSummary, bool]:
        """Visit everything in one chunk of the only walk."""
        return self.walk([chunk], [task.walk_over], flag)[0]

    def walk(
        self, chunks: Sequence[LabellingChunk], known: Sequence[CubeWork], flag: Signs
    ) -> list[tuple[CubeSummary, bool]]:
        """Visit everything in one chunk of each walk; also returns whether it was finished.

        Several chunks are cubes of one size.
        """
        results = self._new_results(known)
        finished = True
        for first, stops, each, z, code in self._launches(chunks):
            self._judge(known, results, first, stops, each, z, code)
            finished = first + each >= chunks[0].stops
            if flag[0]:
                break
        met = int(self._device.get(results.doubt_count)[0])
        if met > DOUBTS_AT_ONCE:
            return [self._in_parts(p, chunks, known, flag) for p in range(len(chunks))]
        return [(found, finished) for found in self._found(chunks, known, results, met)]

    def _in_parts(
        self, p: int, chunks: Sequence[LabellingChunk], known: Sequence[CubeWork], flag: Signs
    ) -> tuple[CubeSummary, bool]:
        """The same for one chunk, in halves if it was alone already: no doubt is lost."""
        alone = self if len(chunks) == 1 else DeviceWalks(self._device, [known[p]], [self._problems.starts[p]])
        own, complete = known[p], True
        all_found = []
        for part in chunks[p].halves(known[p]) if len(chunks) == 1 else (chunks[p],):
            ((found, finished),) = alone.walk([part], [own], flag)
            all_found.append(found)
            complete = complete and finished
            own = own._replace(radius=np.minimum(own.radius, found.radius), most=np.maximum(own.most, found.most))
        return (all_found[0] if len(all_found) == 1 else _joined(*all_found)), complete

    def _new_results(self, known: Sequence[CubeWork]) -> _Results:
        device, count = self._device, len(known)
        cells = max(1, self._shape.rows * self._shape.nodes)
        radius = np.array([walk.radius for walk in known]).astype(np.uint64)
        return _Results(
            radius=device.put(radius << np.uint64(32) | _NUMBER),
            most=device.full((count, self._shape.budgets), 0, np.uint64),
            doubts=device.empty((DOUBTS_AT_ONCE, DOUBT_NODES + 2 + NAMED_NODES), np.int32),
            doubt_count=device.full(1, 0, np.int32),
            low=device.full((count, cells), _ordered(np.array([np.inf]))[0], np.uint64),
            low_stop=device.full((count, cells), 0, np.uint64),
            counters=device.full((count, 4), 0, np.uint64),
        )

    def _launches(self, chunks: Sequence[LabellingChunk]) -> Iterator[tuple[int, int, int, Any, Any]]:
        """Launch after launch.

        Each is the number of its first labelling, how many there are, how many of each problem, solutions and states.
        """
        chunk = chunks[0]
        return self._family_launches(chunk) if chunk.low < 0 else self._cube_launches(chunks)

    def _cube_launches(self, chunks: Sequence[Any]) -> Iterator[tuple[int, int, int, Any, Any]]:
        device, M, count = self._device, self._shape.M, len(chunks)
        low = run_bits(chunks[0].low)
        runs = 1 << (chunks[0].low - low)
        # Several problems are walked to their end in one launch.
        at_once = runs if count > 1 else max(1, min(runs, launch_stops(M) >> low))
        stops = count * at_once << low
        z, code = device.empty((stops, M), np.float64), device.empty((stops, M), np.uint8)
        first_runs = np.array([chunk.prefix << (chunk.low - low) for chunk in chunks])
        problem = device.put(np.repeat(np.arange(count, dtype=np.int32), at_once))
        for first in range(0, runs, at_once):
            own = min(at_once, runs - first)
            prefixes = device.put((first_runs[:, None] + np.arange(first, first + own)).astype(np.int64))
            arguments = (self._labels, problem, prefixes, np.int32(count * own), np.int32(low))
            self._shapes.walk_cubes(count * own, (*self._problems.arguments, *arguments), (z, code))
            yield first << low, count * own << low, own << low, z, code

    def _family_launches(self, chunk: Any) -> Iterator[tuple[int, int, int, Any, Any]]:
        walk = self._walks[0]
        first_child = chunk.first_child
        labels = walk.labels[walk.affordable[chunk.parents]]
        counts = walk.affordable.size - first_child
        first = 0
        for rows in blocks_of(counts, launch_stops(self._shape.M)):
            stops = int(counts[rows].sum())
            z, code = self._families.walk(np.zeros(rows.stop - rows.start, int), labels[rows], first_child[rows])
            yield first, stops, stops, z, code
            first += stops

    def _judge(
        self, known: Sequence[CubeWork], results: _Results, first: int, stops: int, each: int, z: Any, code: Any
    ) -> None:
        best = self._device.put(np.array([np.maximum.accumulate(walk.most) for walk in known], dtype=np.int32))
        shape = self._shape
        for seek in (0, 1) if shape.rows else (0,):
            arguments = (
                z,
                code,
                np.int64(stops),
                np.int64(first),
                np.int32(each if len(known) > 1 else 2**31 - 1),
                self._problems.Q,
                self._problems.constants,
                self._problems.y,
                *self._prices,
                self._rows,
                np.int32(shape.nodes),
                best,
                np.int32(shape.budgets),
                results.radius,
                results.most,
                results.doubts,
                results.doubt_count,
                np.int32(DOUBTS_AT_ONCE),
                results.low,
                results.low_stop,
                np.int32(shape.rows),
                np.int32(seek),
                results.counters,
            )
            self._shapes.verdicts("judge", stops, arguments)

    def _found(
        self, chunks: Sequence[LabellingChunk], known: Sequence[CubeWork], results: _Results, met: int
    ) -> Iterator[CubeSummary]:
        """What each chunk found, on the host."""
        get = self._device.get
        radius, most, counters = get(results.radius), get(results.most), get(results.counters)
        noted = get(results.doubts[:met]).astype(np.int64)
        low = low_stop = np.zeros((len(chunks), 0), dtype=np.uint64)
        if self._shape.rows:
            low, low_stop = get(results.low), get(results.low_stop)
        for p, (chunk, walk) in enumerate(zip(chunks, known, strict=True)):
            numbers = _Numbers(self._walks[p], chunk)
            own = noted[noted[:, 0] == p, 1:]
            own = own[np.argsort(own[:, 0], kind="stable")]
            yield _as_found(walk, numbers, radius[p], most[p], own, counters[p], low[p], low_stop[p])


def start_of(walk: CubeWork) -> Start | None:
    """Where a walk starts; None where that cannot be found, or nothing is trained."""
    return None if walk.linear else clean_start(walk.retraining, walk.y)


def _as_found(
    known: CubeWork,
    numbers: _Numbers,
    radius_key: Words,
    most_key: Words,
    noted: Int,
    counts: Words,
    low: Words,
    low_stop: Words,
) -> CubeSummary:
    """Numbers of labellings turned into sets of flips."""
    radius = (radius_key >> np.uint64(32)).astype(np.int64)
    better = np.flatnonzero(radius < known.radius)
    changed = (most_key >> np.uint64(32)).astype(np.int64)
    stronger = np.flatnonzero((most_key > 0) & (changed > known.most))
    found = new_summary(known, 0)._replace(radius=radius, doubt=noted[:, 1:], doubt_set=numbers.sets(noted[:, 0]))
    found.radius_set[better] = numbers.sets((radius_key[better] & _NUMBER).astype(np.int64))
    found.most[stronger] = changed[stronger]
    found.most_set[stronger] = numbers.sets((_NUMBER - (most_key[stronger] & _NUMBER)).astype(np.int64))
    found.counters[[SOLVED, GLOBAL_PROOFS, GAP_PROOFS, STUCK]] = counts
    found.counters[DOUBTS] = len(noted)
    if known.rows:
        found.low[:] = _from_ordered(low).reshape(found.low.shape)
        stop = low_stop.reshape(found.low.shape).astype(np.int64)
        found.low_set[stop > 0] = numbers.sets(stop[stop > 0] - 1)
    return found


class _Numbers:
    """Which sets the labellings of a chunk are, by their numbers.

    A number is twice the place in the chunk, plus 1 for the complement.
    """

    def __init__(self, walk: CubeWork, chunk: Any) -> None:
        self._nu, self._affordable = walk.labels.size, walk.affordable
        self._chunk = chunk
        self.words = words_for(self._nu)
        if chunk.low < 0:
            self._ends = np.cumsum(walk.affordable.size - chunk.first_child)

    def sets(self, numbers: Int) -> Words:
        """(·, W) sets as bits."""
        stops, side = numbers >> 1, numbers & 1
        flipped = np.zeros((numbers.size, 64 * self.words), dtype=bool)
        chunk = self._chunk
        if chunk.low >= 0:
            low = run_bits(chunk.low)
            step = stops & ((1 << low) - 1)
            bits = (stops >> low) + (chunk.prefix << (chunk.low - low))
            bits = bits << low | (step ^ step >> 1)
            flipped[:, : self._nu] = bits[:, None] >> np.arange(self._nu) & 1
        else:
            row = np.searchsorted(self._ends, stops, side="right")
            child = self._affordable.size - (self._ends[row] - stops)
            each = np.arange(numbers.size)
            for column in chunk.parents[row].T:
                flipped[each, self._affordable[column]] = True
            flipped[each, self._affordable[child]] = True
        flipped[:, : self._nu] ^= side[:, None].astype(bool)
        return np.packbits(flipped, axis=1, bitorder="little").view(np.uint64)


def _joined(one: CubeSummary, other: CubeSummary) -> CubeSummary:
    """What two chunks found together; the second one knew what the first had found."""
    closer, stronger, lower = other.radius < one.radius, other.most > one.most, other.low < one.low
    return one._replace(
        radius=other.radius,
        radius_set=np.where(closer[:, None], other.radius_set, one.radius_set),
        most=np.maximum(one.most, other.most),
        most_set=np.where(stronger[:, None], other.most_set, one.most_set),
        doubt=np.concatenate([one.doubt, other.doubt]),
        doubt_set=np.concatenate([one.doubt_set, other.doubt_set]),
        counters=one.counters + other.counters,
        low=np.minimum(one.low, other.low),
        low_set=np.where(lower[:, :, None], other.low_set, one.low_set),
    )


_SIGN = np.uint64(1 << 63)


def _ordered(values: Any) -> Words:
    """Numbers whose order is that of the values."""
    bits = np.asarray(values, dtype=np.float64).view(np.uint64)
    return np.where(bits & _SIGN, ~bits, bits | _SIGN)


def _from_ordered(numbers: Words) -> Any:
    """The values back; what was no number is minus infinity."""
    values = np.where(numbers & _SIGN, numbers ^ _SIGN, ~numbers).view(np.float64)
    return np.where(numbers == 0, -np.inf, values)


assert (DOUBT_COST, DOUBT_SURE, DOUBT_POSSIBLE, DOUBT_CLOSER, DOUBT_NODES) == (0, 1, 2, 3, 4)
