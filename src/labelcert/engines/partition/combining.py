"""A knapsack over parts: the lowest total that every way to spend reaches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from labelcert.arrays import Float, Int

Choices = list[npt.NDArray[np.int32]]


class Totals(NamedTuple):
    """The lowest totals of all parts together.

    Attributes
    ----------
    total : (B + 1, ..., R, n) array
        For what is spent in total, and inside each shared group; infinite where nothing costs that.
    choices : list of (B + 1, ..., R, n) arrays
        Which row of its table each part contributes; empty where nobody asked for it.
    """

    total: Float
    choices: Choices

    def by_cost(self) -> Float:
        """(B + 1, R, n) lowest total for each cost, however it is spread over groups."""
        groups = tuple(range(1, self.total.ndim - 2))
        return np.asarray(self.total.min(axis=groups))

    def rows(self, states: Sequence[Int], cost: int, r: int, t: int) -> list[int]:
        """The rows of the tables that make up the lowest total of a cost."""
        here = self.total[cost, ..., r, t]
        at = np.array([cost, *np.unravel_index(int(here.argmin()), here.shape)], dtype=np.int64)
        rows = []
        for chosen, own in zip(reversed(self.choices), reversed(states), strict=True):
            s = int(chosen[(*at.tolist(), r, t)])
            rows.append(s)
            at = at - own[s]
        return rows[::-1]


def combine(tables: Sequence[tuple[Int, Float]], spans: Int, *, choices: bool) -> Totals:
    """All parts, one after the other.

    Parameters
    ----------
    tables : sequence of ``(states, values)``
        (S, 1 + G) and (S, R, n) arrays.
    spans : (1 + G,) array
        Largest cost, and largest cost inside each shared group.
    choices : bool
        Whether it must be known how the totals come about.
    """
    shape = tuple(int(v) + 1 for v in spans)
    wide = (*shape, *tables[0][1].shape[1:])
    total = np.full(wide, np.inf)
    total[(0,) * len(shape)] = 0.0
    taken: Choices = []
    reach = 0  # the most that can be spent on the parts so far: beyond it, all is infinite
    for states, values in tables:
        new = np.full(wide, np.inf)
        chosen = np.zeros(wide if choices else (), dtype=np.int32)
        for s in useful(states, values):
            if np.any(states[s] > spans):
                continue
            sizes = [min(reach + 1, shape[0] - int(states[s, 0])), *(np.array(shape[1:]) - states[s, 1:]).tolist()]
            here = tuple(slice(0, size) for size in sizes)
            there = tuple(slice(int(v), int(v) + size) for v, size in zip(states[s], sizes, strict=True))
            offer = total[here] + values[s]
            if choices:
                chosen[there][offer < new[there]] = s
            np.minimum(new[there], offer, out=new[there])
        total, reach = new, min(reach + int(states[:, 0].max()), shape[0] - 1)
        if choices:
            taken.append(chosen)
    return Totals(total, taken)


def useful(states: Int, values: Float) -> list[int]:
    """The states that are not dominated: by cheaper ones, in every way, that reach as low for every node."""
    kept: list[int] = []
    for s in np.lexsort(states.T[::-1]).tolist():
        below = [k for k in kept if np.all(states[k] <= states[s])]
        if not below or np.any(values[s] < np.min(values[below], axis=0)):
            kept.append(s)
    return kept


def largest_sum(tables: Sequence[tuple[Int, Float]]) -> Float:
    """(R, n) bound on the magnitude of every sum, for error bounds."""
    return np.sum([np.abs(np.where(np.isfinite(values), values, 0.0)).max(axis=0) for _, values in tables], axis=0)
