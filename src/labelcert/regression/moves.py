"""How far each value can move, and the fewest purchases that take it to a threshold: by sorting.

A target i that moves by δ moves a value by ``H_ti δ``, whatever happens to others. So the best move of each target is
known, gains add up, and the largest gains are the best purchase: :class:`~labelcert.engines.linear.spending.Spending`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np

from labelcert.arrays import Float, Int
from labelcert.engines.linear.spending import Spending, bytes_per_node, first_row
from labelcert.regression.changes import Changes
from labelcert.regression.rows import UNIT, TargetMap, TargetRows

BLOCK_BYTES = 64e6
TINY = 1e-290
"""More than all underflows."""

EXACT_ENTRIES = 2_000_000
"""Entries of rows that are looked at in rational arithmetic, where float64 leaves a radius open."""

Move = tuple[Int, Float]
"""Targets, and what they become."""


@dataclass(eq=False)
class Moved:
    """What is known about n values, for budgets 0..B.

    - ``value``, ``value_error`` (n,): with the given targets.
    - ``up``, ``down`` (n, B + 1): no purchase moves a value farther.
    - ``slack`` (n,): by how much these are too large, at most.
    - ``lower``, ``upper`` (n,): ends of the radius, where there is a threshold.
    - ``moves``: for each value, the change of targets that realises ``upper``, or None.
    """

    value: Float
    value_error: Float
    up: Float
    down: Float
    slack: Float
    lower: Int
    upper: Int
    moves: list[Move | None] = field(default_factory=list)


def moved(
    rows: TargetMap,
    y: Float,
    changes: Changes,
    budget: int,
    threshold: Float | None,
    over: Callable[[], bool] = lambda: False,
) -> Moved:
    """All values of a map, block by block.

    ``over``: whether the run is over; of rows that are not reached, nothing is said but that they may move anywhere.
    """
    n, a = rows.n, changes.adversary
    out = Moved(
        value=np.full(n, np.nan),
        value_error=np.full(n, np.inf),
        up=np.full((n, budget + 1), np.inf),
        down=np.full((n, budget + 1), np.inf),
        slack=np.full(n, np.inf),
        lower=np.zeros(n, dtype=np.int64),
        upper=np.full(n, a.never, dtype=np.int64),
        moves=[None] * n,
    )
    block = max(1, int(BLOCK_BYTES / (bytes_per_node(a, budget) + 64.0 * rows.m)))
    left = EXACT_ENTRIES
    for start in range(0, n, block):
        stop = min(n, start + block)
        where, part = slice(start, stop), rows.read(start, stop)
        value, error = _values(part, y)
        out.value[where], out.value_error[where] = value / part.scale, error / part.scale
        if over():
            continue
        walk = _Block(part, y, changes, budget)
        out.up[where], out.down[where], out.slack[where] = walk.shifts()
        if threshold is not None:
            left -= walk.radii(threshold[where], where, out, left)
    return out


def _relative(m: int) -> float:
    """Of sums of up to m products; the factor covers the rounding of these bounds themselves."""
    return 1.01 * (m + 8) * UNIT


def _values(part: TargetRows, y: Float) -> tuple[Float, Float]:
    """(k,) sums of some rows with the given targets, and bounds on their errors."""
    relative = _relative(y.size)
    error = relative * (np.abs(part.H) @ np.abs(y)) + part.row_error * (part.column_error @ np.abs(y))
    return part.H @ y, error * (1.0 + relative) + TINY


class _Block:
    """Some rows, in sums before they are divided by their scale."""

    def __init__(self, part: TargetRows, y: Float, changes: Changes, budget: int) -> None:
        self.part, self.y, self.changes, self.budget = part, y, changes, budget
        a, H = changes.adversary, part.H
        most = np.maximum(changes.up, changes.down)
        self.gains = {
            1: np.maximum(H * changes.up, -H * changes.down),
            -1: np.maximum(H * changes.down, -H * changes.up),
        }
        self.spent = {
            side: Spending(np.ascontiguousarray(changes.per_purchase(gain).T), a, budget)
            for side, gain in self.gains.items()
        }
        off = Spending(changes.per_purchase((part.column_error * most)[None]).T, a, budget)
        self._relative = _relative(y.size)
        self._off = {
            side: part.row_error * off.best + self._relative * self.spent[side].best + TINY for side in (1, -1)
        }
        self._off_by_budget = part.row_error * off.by_budget()
        self.value, self.value_error = _values(part, y)
        whole = not part.column_error.any() or not part.row_error.any()
        self.exact = np.full(H.shape[0], whole)

    def shifts(self) -> tuple[Float, Float, Float]:
        """(k, B + 1) farthest moves up and down, rounded outwards, and by how much they may be too large."""
        found = []
        for side in (1, -1):
            best = self.spent[side].by_budget()
            error = 1.01 * (self._off_by_budget + self._relative * best)
            found.append(((best + error) / self.part.scale * (1.0 + 4.0 * UNIT)).T)
        top = [side[:, -1] for side in found]
        slack = 2.02 * self._off_by_budget[-1] / self.part.scale + 4.0 * self._relative * np.maximum(*top)
        return found[0], found[1], slack

    def radii(self, threshold: Float, where: slice, out: Moved, left: int) -> int:
        """Enter the fewest purchases that take each value to its threshold; returns entries that were exact work."""
        aim = threshold * self.part.scale
        distance = self.value - aim
        error = self.value_error + 4.0 * UNIT * (np.abs(aim) + np.abs(distance))
        done = 0
        for k in range(distance.size):
            t, m = where.start + k, self.y.size
            side = -1 if distance[k] > 0 else 1
            spent, off = self.spent[side], 1.01 * self._off[side][:, k]
            gap, best = abs(distance[k]), spent.best[:, k]
            maybe = int(first_row(~(gap - error[k] > best + off)[:, None])[0])
            sure = int(first_row((gap + error[k] <= best - off)[:, None])[0])
            if gap <= error[k]:
                maybe, sure = 0, spent.best.shape[0]
            out.lower[t] = spent.cost(maybe, k)
            cost, bought = spent.attack(sure, k)
            if maybe != sure and self.exact[k] and done + m <= left:
                done += m
                side, cost, bought = self._exactly(k, float(threshold[k]))
                out.lower[t] = cost
            if bought is not None:
                out.upper[t], out.moves[t] = cost, self._move(k, side, bought)
        return done

    def _exactly(self, k: int, threshold: float) -> tuple[int, int, Int | None]:
        """The side, and the cheapest purchase, in rational arithmetic."""
        row = [Fraction(v) for v in self.part.H[k].tolist()]
        distance = sum((h * Fraction(v) for h, v in zip(row, self.y.tolist(), strict=True) if h), Fraction(0))
        distance -= Fraction(threshold) * Fraction(float(self.part.scale[k]))
        side = -1 if distance > 0 else 1
        limits = zip(self.changes.up.tolist(), self.changes.down.tolist(), strict=True)
        gains = [
            side * h * Fraction(up) if side * h > 0 else -side * h * Fraction(down)
            for h, (up, down) in zip(row, limits, strict=True)
        ]
        together = self.changes.per_purchase(np.array(gains, dtype=object)[None]).T
        spent = Spending(together, self.changes.adversary, self.budget)
        return side, *spent.attack(int(first_row(abs(distance) - spent.best <= 0)[0]), 0)

    def _move(self, k: int, side: int, bought: Int) -> Move:
        """What the targets of a purchase become."""
        targets, h = self.changes.targets_of(bought), self.part.H[k]
        up = side * h[targets] >= 0
        by = np.where(up, self.changes.up[targets], -self.changes.down[targets])
        moved = (by != 0) & (h[targets] != 0)
        return targets[moved], (self.y[targets] + by)[moved]
