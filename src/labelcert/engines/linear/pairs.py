"""A proved upper end of the whole curve from pairs of labels, where what labels do to nodes has many directions.

Node t can be changed only if ``S_t·x ≥ 1`` (see :mod:`labelcert.engines.linear.bounding`). At most

    Σ_t (1 - v_t) + Σ_t (α_t S_t·x + β_t)²        with v_t = min(1, (α_t + β_t)²), for any α_t ≥ 0 and β_t ≥ -α_t,

nodes are: unlike a linear bound, the square counts next to nothing for nodes that are pushed a little, in whatever
direction. Squares of no node at all, ``(V_r·x + c_r)²``, only add to that; but they may take from where it counts. For
all of it is a sum over pairs of changed labels: with the rows ``R = [α_t S_t; V_r]`` and ``o = [β; c]``, it is
``x·M·x + 2 x·Rᵀo + o·o`` for ``M = RᵀR``, and k labels make at most

    the k largest of   M_ii + 2 (Rᵀo)_i + (the k - 1 largest other entries of row i of M, if positive)

of its first part. Rows V that point against each other where M is large bring these entries down, at the price of a
larger diagonal. With the best of them the bound is that of the semidefinite relaxation with products of labels that are
non-negative and add up. Gradient steps in single precision look for α, β, V and c; whatever they find is valid, and the
bound itself is added up in double precision, rounded up. One choice bounds all smaller budgets, too.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from labelcert.arrays import Float, Int
from labelcert.compiling import compiled
from labelcert.engines.control import Control
from labelcert.svm.pivoting import UNIT_ROUNDOFF

Single = npt.NDArray[np.float32]

LABELS = 3000
"""Most labels: all pairs of them are in memory, some four times."""

EFFORT = 4e11
"""Products of entries that are summed up for the whole curve: some seconds."""

FIRST = 0.4
"""Share of it for the first budget, which all others start from."""

STEPS, MORE = 45, 12
"""Most steps at the first budget, and at each of the others."""

FREE = 200
"""Squares of no node."""

PACE = {"alpha": 0.15, "beta": 0.075, "V": 0.5, "c": 0.05}
"""Lengths of the first steps; those of V as multiples of its entries."""

SOFTNESS = 0.1
"""How far below the k largest a label may be to count a little, as a share of the k-th: what steps lead towards."""


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

    def improve(self, upper: Int, lower: Int, budgets: list[int], control: Control) -> list[Int]:
        """Lower the (B + 1,) upper end of the curve, by bounds made for some budgets; labels that seem to change most.

        The upper end may hold more nodes than these: only what it says about these is for the caller to see to. There
        is nothing to do where it is at the lower end.
        """
        known: dict[int, _Squares] = {}
        single = self.S.astype(np.float32)
        tried: list[Int] = []
        left = EFFORT
        for place, b in enumerate(budgets):
            rows = np.flatnonzero(self.radius <= b)
            k = int(min(self.counts[b], self.S.shape[1]))
            if rows.size == 0 or k == 0 or upper[b] <= lower[b]:
                continue
            larger = [c for c in known if c > b]
            squares = known[min(larger)].copy() if larger else self._first_guess()
            share = left if place == len(budgets) - 1 else FIRST * left if not known else left / (len(budgets) - place)
            fit = _Fit(single if rows.size == self.S.shape[0] else single[rows], rows, squares, k)
            spent = fit.descend(MORE if larger else STEPS, share, float(lower[b]) + 1.0, control)
            left -= spent
            if not spent:
                return tried
            known[b] = fit.best
            found = self._bounds(rows, fit.best, b)
            upper[: found.size] = np.minimum(upper[: found.size], found)
            tried.append(fit.chosen)
        return tried

    def _first_guess(self) -> _Squares:
        """Squares that weigh nodes less that are easy to change, and small ones without a direction."""
        energy = np.einsum("ti,ti->t", self.S, self.S)
        alpha = np.sqrt(np.minimum(1.0, 2.0 * np.median(energy) / np.maximum(energy, 1e-300))) / 1.2
        size = self.S.shape[1]
        free = min(FREE, size)
        scale = 0.5 * np.sqrt(np.median(np.einsum("t,ti->i", alpha**2, self.S**2)) / free)
        V = scale * np.random.default_rng(0).standard_normal((free, size))
        parts = (alpha, 0.2 * alpha, V, np.zeros(free))
        return _Squares(*(part.astype(np.float32) for part in parts))

    def _bounds(self, rows: Int, squares: _Squares, budget: int) -> Int:
        """Bounds for all budgets up to one, in double precision."""
        alpha, beta = (part[rows].astype(np.float64) for part in (squares.alpha, squares.beta))
        R = np.concatenate([alpha[:, None] * self.S[rows], squares.V])
        o = np.concatenate([beta, squares.c.astype(np.float64)])
        v = np.clip(alpha * self.limit[rows] + beta, 0.0, 1.0) ** 2
        n, size = R.shape
        M = R.T @ R
        own, scale, constant = M.diagonal() + 2.0 * (o @ R), float(M.diagonal().max()), float(o @ o)
        np.fill_diagonal(M, -1.0)
        counts = np.minimum(self.counts[: budget + 1], size)
        k = int(counts[-1])
        M.partition(max(0, size - k), axis=1)
        ranked = np.cumsum(-np.sort(-np.maximum(M[:, max(0, size - k) :], 0.0), axis=1), axis=1)
        value = np.array([_largest(own + (ranked[:, c - 2] if c > 1 else 0.0), c) for c in counts.tolist()])
        open_ = np.bincount(self.radius[rows], weights=1.0 - v, minlength=budget + 1)[: budget + 1].cumsum()
        mass = n + constant + k * k * scale + 2.0 * k * np.sqrt(constant * scale)
        error = 16.0 * (n + size + 16) * UNIT_ROUNDOFF * mass
        bound = open_ + value + constant + error
        return np.floor(np.where(bound < n, bound, n)).astype(np.int64)


class _Squares(NamedTuple):
    """What makes a bound: ``(α_t S_t·x + β_t)²`` for each of N nodes, and ``(V_r·x + c_r)²`` besides."""

    alpha: Single
    beta: Single
    V: Single
    c: Single

    def copy(self) -> _Squares:
        """The same, to be changed."""
        return _Squares(*(part.copy() for part in self))


@dataclass(eq=False)
class _Adam:
    """Steps of a length that is the same for all numbers of an array, whatever the size of their slopes."""

    first: Any = 0.0
    second: Any = 0.0
    number: int = 0

    def step(self, slope: Single, length: float) -> Single:
        """What to take off."""
        self.number += 1
        self.first = 0.9 * self.first + 0.1 * slope
        self.second = 0.99 * self.second + 0.01 * slope * slope
        mean = self.first / (1.0 - 0.9**self.number)
        size = np.sqrt(self.second / (1.0 - 0.99**self.number))
        return np.asarray(length * mean / (size + 1e-12), dtype=np.float32)


@dataclass(eq=False)
class _Fit:
    """Gradient steps at one budget.

    Attributes
    ----------
    best : _Squares
        Those of the best bound so far; of nodes that are out of reach, as they were.
    chosen : position array
        The labels that make this bound.
    """

    S: Single
    rows: Int
    squares: _Squares
    k: int
    best: _Squares = field(init=False)
    chosen: Int = field(init=False)

    def __post_init__(self) -> None:
        self.best, self._now = self.squares.copy(), self.squares.copy()
        self.chosen = np.zeros(0, dtype=np.int64)
        self._adam = {name: _Adam() for name in PACE}

    def descend(self, steps: int, effort: float, enough: float, control: Control) -> float:
        """Improve the bound; returns the products spent."""
        n, size = self.S.shape
        spent, least = 0.0, np.inf
        full, half = float(size) * size * (1.5 * n + 1.5 * FREE), float(size) * size * 1.5 * FREE
        G, levels = np.empty((size, size), np.float32), np.zeros(size, np.float32)
        for step in range(steps):
            if control.over() or spent >= effort:
                break
            alpha, beta = self._now.alpha[self.rows], self._now.beta[self.rows]
            whole = step % 2 == 0
            if whole:
                A = alpha[:, None] * self.S
                Q = A.T @ A
            spent += full if whole else half
            M = self._now.V.T @ self._now.V
            M += Q
            offset = beta @ A + self._now.c @ self._now.V
            fade = 1.0 - 0.9 * step / steps
            value, p, chosen = _slopes(M, offset, self.k, SOFTNESS * (0.1 + 0.9 * fade * fade), levels, G)
            reach = np.clip(alpha + beta, 0.0, 1.0)
            value += float((1.0 - reach**2).sum() + beta @ beta + self._now.c @ self._now.c)
            if value < least:
                least, self.best, self.chosen = value, self._now.copy(), chosen
            if value < enough:
                break
            self._step(A, p, G, fade, whole)
        return spent

    def _step(self, A: Single, p: Single, G: Single, fade: float, whole: bool) -> None:
        """One step against the slope, of all or of what belongs to no node."""
        now = self._now
        V, c = now.V, now.c
        scale = float(np.sqrt(np.mean(V * V)))
        slope_V = 2.0 * (V @ G) + 2.0 * c[:, None] * p
        slope_c = 2.0 * (V @ p) + 2.0 * c
        if whole:
            alpha, beta = now.alpha[self.rows], now.beta[self.rows]
            pull = np.where(alpha + beta < 1.0, 2.0 * (alpha + beta), np.float32(0.0)).astype(np.float32)
            slope_A = 2.0 * (A @ G) + 2.0 * beta[:, None] * p
            slope_alpha = np.einsum("ti,ti->t", slope_A, self.S) - pull
            slope_beta = 2.0 * (A @ p) + 2.0 * beta - pull
            alpha = np.maximum(alpha - self._adam["alpha"].step(slope_alpha, PACE["alpha"] * fade), 0.0)
            beta = np.maximum(beta - self._adam["beta"].step(slope_beta, PACE["beta"] * fade), -alpha)
            over = np.maximum(alpha + beta, 1.0)
            now.alpha[self.rows], now.beta[self.rows] = alpha / over, beta / over
        V -= self._adam["V"].step(slope_V, PACE["V"] * fade * scale)
        c -= self._adam["c"].step(slope_c, PACE["c"] * fade)


def _slopes(M: Single, offset: Single, k: int, softness: float, levels: Single, G: Single) -> tuple[float, Single, Int]:
    """What k labels make of M and its offset, and how much each label and each pair counts in that.

    Fills the (ν, ν) ``G`` with how much pairs count.

    Returns
    -------
    value : float
    p : (ν,) array
        How much labels count; smoothed, so that those just below the k largest do, too.
    chosen : (k,) array
        The labels that make the value.
    """
    size = M.shape[0]
    own = M.diagonal() + 2.0 * offset
    others = np.full((size, k), -1, dtype=np.int32)  # the last one stays
    worth = own + _largest_of_rows(M, others[:, : k - 1], levels)
    order = np.argsort(-worth)
    width = max(softness * abs(float(worth[order[min(k, size - 1)]])), 1e-12)
    low, high = float(worth.min()) - 20.0 * width, float(worth.max()) + 20.0 * width
    for _ in range(40):
        middle = 0.5 * (low + high)
        p = 1.0 / (1.0 + np.exp(np.clip((middle - worth) / width, -50.0, 50.0)))
        low, high = (middle, high) if p.sum() > k else (low, middle)
    p = p.astype(np.float32)
    _count_pairs(p, others, G)
    return float(np.maximum(worth[order[:k]], 0.0).sum()), p, order[:k]


@compiled(allocates=True)
def _largest_of_rows(M, others, levels):  # type: ignore[no-untyped-def]
    """Columns of the largest positive entries beside the diagonal, where they go; and what each row's add up to.

    The levels say above which value to look for them in each row; they are put to where the last one was found.
    """
    size, count = M.shape[0], others.shape[1]
    total = np.zeros(size, dtype=np.float32)
    near, values = np.empty(size, dtype=np.int32), np.empty(size, dtype=np.float32)
    for i in range(size):
        level = levels[i]
        while count:
            found = 0
            for j in range(size):
                near[found] = j
                values[found] = -M[i, j]
                found += M[i, j] > level and j != i
            if found >= count or level <= 0.0:
                break
            level = 0.8 * level if level > 1e-6 else 0.0
        if not count:
            break
        order = np.argsort(values[:found])
        for j in range(min(count, found)):
            others[i, j] = near[order[j]]
            total[i] -= values[order[j]]
        levels[i] = -0.95 * values[order[count - 1]] if found >= count else 0.0
    return total


@compiled()
def _count_pairs(p, others, G):  # type: ignore[no-untyped-def]
    """Enter half of each label's weight at its pairs, on both sides of the diagonal, and all of it there."""
    G[:] = 0.0
    for i in range(p.size):
        half = np.float32(0.5) * p[i]
        for j in others[i]:
            if j < 0:
                break
            G[i, j] += half
            G[j, i] += half
        G[i, i] += p[i]


def _largest(values: Float, count: int) -> float:
    """What the ``count`` largest values add up to, if positive."""
    if count < values.size:
        values = np.partition(values, values.size - 1 - count)[values.size - count :]
    return float(np.maximum(values, 0.0).sum())
