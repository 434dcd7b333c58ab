"""The moves that walks over relabellings are made of."""

from __future__ import annotations

from collections.abc import Sequence
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
    source = problem.codes[a.labels]
    rows: list[tuple[int, ...]] = []
    for i in range(a.labels.size):
        seen = set()
        for k in np.flatnonzero(a.targets[i]).tolist():
            toggled = (source[i] == c or k == c, source[i] == r or k == r)
            if any(toggled) and toggled not in seen:
                seen.add(toggled)
                places = [int(place[x, i]) if on else -1 for x, on in zip((c, r), toggled, strict=True)]
                rows.append((i, k, int(a.costs[i]), int(a.groups[i]), c, r, *places))
    return _options(rows)


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
    return _options(rows)


def _options(rows: Sequence[tuple[int, ...]]) -> Options:
    table = np.array(rows, dtype=np.int64).reshape(len(rows), 8)
    position, target = table[:, 0], table[:, 1]
    following = np.searchsorted(position, position, side="right")
    return Options(np.ascontiguousarray(np.column_stack([following, table[:, 2:]])), position.copy(), target.copy())
