"""A proved upper end of the whole curve from pairs of labels, where what labels do to nodes has many directions.

Node t can be changed only if ``S_t·x ≥ 1`` (see :mod:`labelcert.engines.linear.bounding`), so that at most

    Σ_t (1 - v_t) + Σ_t v_t ((S_t·x + a) / (1 + a))²

nodes are, for multipliers v in [0, 1] and any a ≥ 0. Unlike a linear bound, the square counts next to nothing for nodes
that are pushed a little, in whatever direction. It is a sum over pairs of changed labels, ``x·Q·x`` with
``Q = Σ_t v_t S_t S_tᵀ / (1 + a)²``, and k labels make at most

    the k largest of   Q_ii + 2a Σ_t v_t S_ti / (1 + a)² + (the k - 1 largest other entries of row i of Q, if positive)

of it. One Q so bounds every budget; subgradient steps look for good v, and the best a is known for each.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from labelcert.arrays import Float, Int
from labelcert.engines.control import Control
from labelcert.svm.pivoting import UNIT_ROUNDOFF

LABELS = 3000
"""Most labels: all pairs of them are in memory, three times."""

EFFORT = 1.5e11
"""Products of a node's entries that are summed up for the whole curve: some seconds."""

STEPS = 6
"""Subgradient steps at one budget."""


class Pairs(NamedTuple):
    """What bounds from pairs of labels need to know.

    Attributes
    ----------
    S : (N, ν) array
        The most that changing each label takes off each node's margin, as a share of it; of either sign.
    limit : (N,) array
        What ``S_t·x`` reaches, rounding errors included, where a node is changed.
    radius : (N,) array
        Budgets below which nodes cannot be changed.
    counts : (B + 1,) array
        The most labels that each budget pays for.
    """

    S: Float
    limit: Float
    radius: Int
    counts: Int

    def improve(self, upper: Int, budgets: list[int], control: Control) -> list[Int]:
        """Lower the (B + 1,) upper end of the curve, by bounds made for some budgets; labels that seem to change most.

        The upper end may hold more nodes than these: only what it says about these is for the caller to see to.
        """
        size = self.S.shape[1]
        v = self._first_guess()
        spent, tried = 0.0, []
        for b in budgets:
            rows = np.flatnonzero(self.radius <= b)
            k = int(self.counts[b])
            if rows.size == 0 or k == 0:
                continue
            S, a, best = self.S[rows], 0.2, np.inf
            for step in range(STEPS):
                cells = float(rows.size) * size * (size + k)
                if spent + cells > EFFORT or control.over():
                    return tried
                spent += cells
                found = self._bounds(S, rows, v[rows], a, b)
                upper[: found.upper.size] = np.minimum(upper[: found.upper.size], found.upper)
                if found.upper[-1] < best:
                    best, kept = float(found.upper[-1]), found
                if best < 1.0:
                    break
                length = float(found.slope @ found.slope)
                if not length > 0:
                    break
                v[rows] = np.clip(v[rows] - 0.25 * 0.9**step * found.value / length * found.slope, 0.0, 1.0)
                a = found.a
            tried.append(kept.labels)
        return tried

    def _first_guess(self) -> Float:
        """Multipliers that are small for nodes that are easy to change."""
        energy = np.einsum("ti,ti->t", self.S, self.S)
        return np.asarray(np.minimum(1.0, 2.0 * np.median(energy) / np.maximum(energy, 1e-300)))

    def _bounds(self, S: Float, rows: Int, v: Float, a: float, budget: int) -> _Bounds:
        """Bounds for all budgets up to one, and what to change for a better one there."""
        n, size = S.shape
        w = v / (self.limit[rows] + a) ** 2
        half = np.sqrt(w)[:, None] * S
        Q = half.T @ half
        own = Q.diagonal() + 2.0 * a * (w @ S)
        scale = float(Q.diagonal().max())
        np.fill_diagonal(Q, 0.0)
        k = int(self.counts[budget])
        others = np.argpartition(-Q, min(k, size) - 1, axis=1)[:, : min(k, size)]
        entries = np.maximum(np.take_along_axis(Q, others, axis=1), 0.0)
        ranked = np.cumsum(-np.sort(-entries, axis=1), axis=1)
        counts = np.minimum(self.counts[: budget + 1], size)
        open_ = np.bincount(self.radius[rows], weights=1.0 - v, minlength=budget + 1)[: budget + 1].cumsum()
        value = np.array([_largest(own + (ranked[:, c - 2] if c > 1 else 0.0), c) for c in counts.tolist()])
        constant = a * a * float(w.sum())
        mass = n + constant + k * k * scale + 2.0 * a * k * np.sqrt(float(w.sum()) * scale)
        error = 16.0 * (n + size + 16) * UNIT_ROUNDOFF * mass
        bound = open_ + value + constant + error
        worth = own + (ranked[:, k - 2] if k > 1 else 0.0)
        chosen = np.argsort(-worth)[:k]
        pairs = np.zeros((size, chosen.size))
        order = np.argsort(-np.take_along_axis(Q[chosen], others[chosen], axis=1), axis=1)[:, : k - 1]
        np.put_along_axis(pairs.T, np.take_along_axis(others[chosen], order, axis=1), 1.0, axis=1)
        pairs[chosen, np.arange(chosen.size)] = 1.0
        single, double = S[:, chosen].sum(axis=1), np.einsum("ti,ti->t", S[:, chosen], S @ pairs)
        slope = (double + 2.0 * a * single + a * a) / (self.limit[rows] + a) ** 2 - 1.0
        total, first, second = float(v.sum()), float(v @ single), float(v @ double)
        better = np.clip((second - first) / max(total - first, 1e-300), 0.0, 1.0) if total > first else a
        return _Bounds(
            np.floor(np.where(bound < n, bound, n)).astype(np.int64), float(bound[-1]), slope, float(better), chosen
        )


class _Bounds(NamedTuple):
    """What one choice of v and a proves.

    Attributes
    ----------
    upper : (b + 1,) array
        Most nodes within each budget.
    value : float
        The bound of the last one, before it is a whole number.
    slope : (N,) array
        What a larger v of each node would add there.
    a : float
        The best a for the labels that make the bound there.
    labels : position array
        These labels.
    """

    upper: Int
    value: float
    slope: Float
    a: float
    labels: Int


def _largest(values: Float, count: int) -> float:
    """What the ``count`` largest values add up to, if positive."""
    if count < values.size:
        values = np.partition(values, values.size - 1 - count)[values.size - count :]
    return float(np.maximum(values, 0.0).sum())
