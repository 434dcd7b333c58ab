"""How an attack grows: step by step, always by the best move that the budgets still pay for.

Whoever grows an attack says what a move is worth: what is foretold, what was counted, a gradient, a fixed order. Moves
of single labels come from :func:`by_merit`; whoever joins whole attacks gives :func:`grow` a step of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from labelcert.arrays import Bool, Float
from labelcert.problem import NOTHING, Adversary, Relabelling

Step = Callable[[Relabelling], Relabelling | None]
"""From an attack to one that contains it; None where it cannot grow."""

Merit = Callable[[Relabelling, Bool], Float]
"""From an attack and the (ν, K) moves that are possible beside it to what each is worth (``-inf``: never made)."""

Choice = Callable[[Relabelling, Float], tuple[int, int]]
"""From an attack and what each move is worth beside it to the move that is made."""


def grow(step: Step, start: Relabelling = NOTHING) -> Iterator[Relabelling]:
    """All attacks on the way, without the first; it ends where there is no further step."""
    change: Relabelling | None = start
    while change is not None:
        change = step(change)
        if change is not None:
            yield change


def fixed(merit: Float) -> Merit:
    """Moves that are worth the same all along."""
    return lambda change, may: merit


def highest(change: Relabelling, merit: Float) -> tuple[int, int]:
    """The first of the moves that are worth the most."""
    i, k = np.unravel_index(int(merit.argmax()), merit.shape)
    return int(i), int(k)


def by_merit(a: Adversary, budget: int, merit: Merit, choose: Choice = highest) -> Step:
    """Make one move, of those that the threat allows and the budgets pay for.

    A move that is too expensive is passed over, and cheaper ones after it are still made.
    """

    def step(change: Relabelling) -> Relabelling | None:
        may = a.targets & a.affordable(budget - a.cost(change), change.positions)[:, None]
        if not may.any():
            return None
        worth = np.where(may, merit(change, may), -np.inf)
        return change.plus(*choose(change, worth)) if np.isfinite(worth.max()) else None

    return step
