"""Better attacks on all nodes at once where scores are linear: moves are swapped at random, less and less so.

Simulated annealing. A node counts in full once it is changed, and a little where it is not far from that. Moves that
make this sum smaller are accepted, too, the less often the later.
"""

from __future__ import annotations

import numpy as np

from labelcert.arrays import Float, Int
from labelcert.compiling import compiled
from labelcert.engines.control import Control
from labelcert.problem import Adversary, Relabelling

COLD, HOT = 0.1, 2.0
"""Losses, in nodes, that are accepted one time out of ``e``: at the end, and at the beginning."""

NARROW, WIDE = 0.3, 1.0
"""How far from a change a node may be to count a little, as a share of its margin: at the end, and at the beginning."""

STEPS = 1000
"""Most steps, times the number of moves."""

CHUNK = 1e8
"""Score updates between two looks at the clock."""

_BEST, _RANDOM = 0, 1
_SPENT = 0


class Swapping:
    """Moves and what they do to nodes.

    Parameters
    ----------
    S : (N, M) array
        What each move takes off each node's margin, as a share of it.
    labels, targets : (M,) arrays
        The moves.
    adversary : Adversary
    """

    def __init__(self, S: Float, labels: Int, targets: Int, adversary: Adversary) -> None:
        self._S = np.ascontiguousarray(S.T, dtype=np.float32)
        self._labels, self._targets, self._adversary = labels, targets, adversary

    def improved(self, start: Relabelling, budget: int, updates: float, control: Control) -> Relabelling:
        """The best attack met within a number of score updates, from one to start with."""
        a, (size, n) = self._adversary, self._S.shape
        used = np.full(a.labels.size, -1, dtype=np.int64)
        held = np.full(a.labels.size + 1, -1, dtype=np.int64)
        count, rest = 0, a.group_caps.copy()
        for move in np.flatnonzero(np.isin(self._labels, start.positions)).tolist():
            label = int(self._labels[move])
            if self._targets[move] == start.targets[np.searchsorted(start.positions, label)]:
                used[label], held[count], count = count, move, count + 1
                if a.groups[label] >= 0:
                    rest[a.groups[label]] -= a.costs[label]
        spent = np.array([a.cost(start)], dtype=np.int64)
        state = np.array([-1, 0x9E3779B97F4A7C15 >> 1], dtype=np.int64)
        best = np.full(a.labels.size + 1, -1, dtype=np.int64)
        reached = self._S[held[:count]].sum(axis=0, dtype=np.float32)
        steps = min(STEPS * size, int(updates / max(1, n)))
        chunk, done, count = int(CHUNK / max(1, n)) + 1, 0, int(count)
        while done < steps and not control.over():
            now = min(chunk, steps - done)
            fade = done / steps
            count = _anneal(
                self._S, self._labels, a.costs, a.groups, rest, budget, used, held, count, spent, reached, state, best,
                now, HOT * (COLD / HOT) ** fade, np.float32(WIDE * (NARROW / WIDE) ** fade),
            )  # fmt: skip
            done += now
        moves = best[best >= 0]
        return Relabelling.of(dict(zip(self._labels[moves].tolist(), self._targets[moves].tolist(), strict=True)))


@compiled(fastmath=True)
def _anneal(S, labels, costs, groups, rest, budget, used, held, count, spent, reached, state, best, steps, heat, width):  # type: ignore[no-untyped-def]  # noqa: C901
    """Some steps at one temperature; the number of moves held at the end.

    A step adds a move, or puts it in the place of a random one (that of its label, where it has one); or takes that
    one off, where the move does not fit in its place.
    """
    n = S.shape[1]
    one, zero, half = np.float32(1.0), np.float32(0.0), np.float32(0.5)
    inverse = one / width
    now = zero
    for t in range(n):
        d = min(one, max(zero, (one - reached[t]) * inverse))
        now += one if reached[t] >= one else half * (one - d) * (one - d)
    seed = np.uint64(state[_RANDOM])
    for _ in range(steps):
        seed = seed * np.uint64(6364136223846793005) + np.uint64(1442695040888963407)
        new = np.int64((seed >> np.uint64(33)) % np.uint64(S.shape[0]))
        label = labels[new]
        out = used[label]
        if out >= 0 and held[out] == new:
            continue
        group = groups[label]
        if out < 0 and (spent[_SPENT] + costs[label] > budget or (group >= 0 and costs[label] > rest[group])):
            if count == 0:
                continue
            seed = seed * np.uint64(6364136223846793005) + np.uint64(1442695040888963407)
            out = np.int64((seed >> np.uint64(33)) % np.uint64(count))
            gone = labels[held[out]]
            room = rest[group] + (costs[gone] if groups[gone] == group else 0) if group >= 0 else budget
            if spent[_SPENT] + costs[label] - costs[gone] > budget or costs[label] > room:
                new = np.int64(-1)
        value = zero
        if new < 0:
            old = held[out]
            for t in range(n):
                r = reached[t] - S[old, t]
                d = min(one, max(zero, (one - r) * inverse))
                value += one if r >= one else half * (one - d) * (one - d)
        elif out < 0:
            for t in range(n):
                r = reached[t] + S[new, t]
                d = min(one, max(zero, (one - r) * inverse))
                value += one if r >= one else half * (one - d) * (one - d)
        else:
            old = held[out]
            for t in range(n):
                r = reached[t] + S[new, t] - S[old, t]
                d = min(one, max(zero, (one - r) * inverse))
                value += one if r >= one else half * (one - d) * (one - d)
        if value < now:
            seed = seed * np.uint64(6364136223846793005) + np.uint64(1442695040888963407)
            if np.float64(seed >> np.uint64(11)) / 9007199254740992.0 >= np.exp((value - now) / heat):
                continue
        now = value
        if out >= 0:
            old = held[out]
            gone = labels[old]
            used[gone] = -1
            spent[_SPENT] -= costs[gone]
            if groups[gone] >= 0:
                rest[groups[gone]] += costs[gone]
            for t in range(n):
                reached[t] -= S[old, t]
        else:
            out = count
            count += 1
        if new < 0:
            count -= 1
            held[out] = held[count]
            used[labels[held[out]]] = out
            used[gone] = -1
            continue
        held[out] = new
        used[label] = out
        spent[_SPENT] += costs[label]
        if group >= 0:
            rest[group] -= costs[label]
        hit = 0
        for t in range(n):
            reached[t] += S[new, t]
            hit += 1 if reached[t] >= one else 0
        if hit > state[_BEST]:
            state[_BEST] = hit
            for i in range(best.size):
                best[i] = held[i] if i < count else -1
    state[_RANDOM] = np.int64(seed)
    return count
