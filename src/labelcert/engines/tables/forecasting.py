"""What several moves do, foretold: as much as each does alone, added up.

Each toggled label is trained on alone. Two labels that are toggled in different models do exactly what they do alone;
in the same model it is a forecast. So nothing is proved here, but which attacks are worth a training, and
which nodes are worth a proof.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from labelcert.arrays import Float, Float32, Index, Int
from labelcert.engines.base import Attacks, Question
from labelcert.engines.control import Control
from labelcert.engines.tables.forest import Forest
from labelcert.engines.tables.options import Options, pair_options
from labelcert.engines.tables.relabelling_walk import COST, PLACE_FROM, PLACE_TO
from labelcert.problem import Relabelling

CELLS = 4e6
"""Effects of single moves on nodes that are looked at together."""

MOST_MOVES = 40
"""Longest attack that is foretold."""

AT_ONCE = 64
"""Attacks that are tried together."""

FURTHER = (0, 1, 3, 7, 15)
"""How many moves more than foretold are tried, in each round."""


class Foretold(NamedTuple):
    """What the worst moves should do to some nodes."""

    nodes: Int  # (n,) positions among those of the question
    lead: Float  # (n,) what the worst moves within the budget should leave of the lead, over all rivals
    size: Int  # (n,) fewest moves that should change each node; more than MOST_MOVES where these do not
    rival: Int  # (n,) the class that should take over then
    moves: Int  # (k, n) options for this rival, from the worst on; -1 where there are no more


class Forecast:
    """From trainings on single toggled labels to what several do.

    - ``question``: of one model per class.
    - ``forest``: with duals.
    - ``z`` (S, m): what multiplies the test rows for the clean labels and for each toggled label, by slot.
    """

    def __init__(self, question: Question, forest: Forest, z: Float32) -> None:
        self._question, self._forest, self._z = question, forest, z

    def about(self, nodes: Int, budget: int) -> Iterator[Foretold]:
        """Some nodes, a few of one predicted class at a time."""
        own = self._question.predicted[nodes]
        fits = max(1, int(CELLS / (self._question.problem.n_classes * self._question.problem.m)))
        for c in np.unique(own).tolist():
            mine = nodes[own == c]
            for some in np.array_split(mine, math.ceil(mine.size / fits)):
                yield self._one_class(c, some, budget)

    def change(self, found: Foretold, k: int, size: int) -> Relabelling:
        """The worst moves for one of these nodes."""
        c, r = int(self._question.predicted[found.nodes[k]]), int(found.rival[k])
        moves = np.sort(found.moves[:size, k])
        return self._options(c, r).change(moves[moves >= 0])

    def _options(self, c: int, r: int) -> Options:
        known = self._forest.pair_options
        if (c, r) not in known:
            known[c, r] = pair_options(self._question, self._forest.place, c, r)
        return known[c, r]

    def _effects(self, nodes: Index) -> tuple[Float, Float]:
        """(K, n) clean scores, and (K, m, n) what toggling each label in each class adds to its score."""
        forest = self._forest.about(nodes)
        K, tree = forest.starts[1], forest.tree
        clean = np.array([forest.clean_scores(c)[0] for c in range(K)])
        single = np.arange(K, forest.starts[2])
        owner = tree.owner[single]
        effects = np.zeros((K, self._question.problem.m, nodes.size))
        labels = forest.rules.labels[owner, tree.last[single]]
        effects[owner, labels] = self._z[single] @ forest.rows.T - clean[owner]
        return clean, effects

    def _one_class(self, c: int, nodes: Int, budget: int) -> Foretold:
        a, n = self._question.problem.adversary, nodes.size
        clean, effects = self._effects(self._question.nodes[nodes])
        most = min(MOST_MOVES, a.labels.size)
        lead, size = np.full(n, np.inf), np.full(n, most + 1)
        least, rival, moves = np.full(n, np.inf), np.zeros(n, dtype=np.int64), np.full((most, n), -1)
        for r in np.flatnonzero(np.arange(clean.shape[0]) != c).tolist():
            options = self._options(c, r)
            table = options.table
            if not len(table):
                continue
            at = a.labels[options.position]
            gain = np.where(table[:, PLACE_TO, None] >= 0, effects[r][at], 0.0)
            gain -= np.where(table[:, PLACE_FROM, None] >= 0, effects[c][at], 0.0)
            worst = _worst_moves(gain / np.maximum(table[:, COST, None], 1), options.position, most)
            columns = np.arange(n)
            left = clean[c] - clean[r] - np.cumsum(np.maximum(gain[worst, columns], 0.0), axis=0)
            within = np.cumsum(table[worst, COST], axis=0) <= budget
            lead = np.minimum(lead, np.where(within, left, clean[c] - clean[r]).min(axis=0))
            enough = np.where((left < 0.0).any(axis=0), (left < 0.0).argmax(axis=0) + 1, most + 1)
            after = left[np.minimum(enough, len(left)) - 1, columns]
            better = (enough < size) | ((enough == size) & (after < least))
            size, least = np.where(better, enough, size), np.where(better, after, least)
            rival[better] = r
            moves[:, better] = -1
            moves[: len(worst), better] = worst[:, better]
        return Foretold(nodes, lead, size, rival, moves)


def _worst_moves(merit: Float, position: Int, most: int) -> Int:
    """(k, n) options with the highest merits, from the highest on, one for each label."""
    starts = np.flatnonzero(np.diff(position, prepend=-1))
    best = np.maximum.reduceat(merit, starts, axis=0)
    k = min(most, starts.size)
    top = np.argpartition(-best, k - 1, axis=0)[:k]
    columns = np.arange(merit.shape[1])
    top = top[np.argsort(-best[top, columns], axis=0, kind="stable"), columns]
    # Of a label's options, of which there are few, the one that is the best.
    chosen, ends = starts[top], np.append(starts[1:], position.size)[top]
    for further in range(1, int(np.diff(np.append(starts, position.size)).max())):
        other = np.minimum(starts[top] + further, ends - 1)
        chosen = np.where(merit[other, columns] > merit[chosen, columns], other, chosen)
    return np.asarray(chosen)


def attack(question: Question, forecast: Forecast, attacks: Attacks, open_: Int, budget: int, control: Control) -> None:
    """Try the foretold attacks on open nodes; those that turn out too short get more moves, round by round.

    Those come first that should change the most nodes; each is tried on all open nodes that a cheaper one leaves alone.
    """
    a = question.problem.adversary
    for further in FURTHER:
        left = open_ if not further else open_[attacks.radius[open_] > question.budget]
        members: dict[Relabelling, list[int]] = {}
        for found in forecast.about(left, budget):
            if control.over():
                return
            for k in np.flatnonzero(found.size <= MOST_MOVES).tolist():
                change = forecast.change(found, k, int(found.size[k]) + further)
                members.setdefault(change, []).append(int(found.nodes[k]))
        order = sorted(members.items(), key=lambda item: (len(item[0]), -len(item[1])))
        for start in range(0, len(order), AT_ONCE):
            if control.over():
                return
            some = [
                change
                for change, nodes in order[start : start + AT_ONCE]
                if a.admits(change, question.budget) and np.any(attacks.radius[nodes] > a.cost(change))
            ]
            if some:
                attacks.enter_for(some, open_[attacks.radius[open_] > a.cost(some[0])])
