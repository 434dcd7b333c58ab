"""The moves that walks over relabellings are made of."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from labelcert.arrays import Int
from labelcert.engines.base import Question
from labelcert.problem import Relabelling


class Options(NamedTuple):
    """Single moves, in ascending order of labels."""

    table: Int  # (o, 7) as compiled walks read them: see ``relabelling_walk``
    # position, target: (o,) the label that moves, and the class that it becomes
    position: Int
    target: Int

    def change(self, chosen: Int) -> Relabelling:
        """The relabelling made of some of the moves."""
        return Relabelling(self.position[chosen], self.target[chosen])

    def ways(self, labels: int) -> Int:
        """(ν,) number of moves of each label."""
        return np.bincount(self.position, minlength=labels)


def pair_options(question: Question, place: Int, c: int, r: int) -> Options:
    """Options of :func:`.relabelling_walk.walk_pairs`, for predicted class ``c`` and rival ``r``.

    A label has at most two that matter: others toggle the same.
    """
    problem = question.problem
    a = problem.adversary
    source, becomes = problem.codes[a.labels][:, None], np.arange(a.targets.shape[1])
    toggled = np.where(a.targets, ((source == c) | (becomes == c)) + 2 * ((source == r) | (becomes == r)), 0)
    moves = []  # of each label the first class that toggles it in the one model, in the other one, and in both
    for kind in (1, 2, 3):
        there = np.flatnonzero((toggled == kind).any(axis=1))
        moves.append(np.column_stack([there, (toggled[there] == kind).argmax(axis=1)]))
    i, k = np.concatenate(moves).T
    order = np.lexsort([k, i])
    i, k = i[order], k[order]
    places = [np.where(toggled[i, k] & bit, place[x, i], -1) for x, bit in ((c, 1), (r, 2))]
    both = np.full((i.size, 2), (c, r))
    return _options(np.column_stack([i, k, a.costs[i], a.groups[i], both, *places]))


def all_options(question: Question, place: Int) -> Options:
    """Every admissible move, as :func:`.relabelling_walk.walk_all` takes it."""
    problem = question.problem
    a = problem.adversary
    source = problem.codes[a.labels].tolist()
    rows = [
        (i, k, int(a.costs[i]), int(a.groups[i]), s, k, int(place[s, i]), int(place[k, i]))
        for i, s in enumerate(source)
        for k in np.flatnonzero(a.targets[i]).tolist()
    ]
    return _options(np.array(rows, dtype=np.int64).reshape(len(rows), 8))


def _options(rows: Int) -> Options:
    table = rows.astype(np.int64)
    position, target = table[:, 0], table[:, 1]
    following = np.searchsorted(position, position, side="right")
    return Options(np.ascontiguousarray(np.column_stack([following, table[:, 2:]])), position.copy(), target.copy())
