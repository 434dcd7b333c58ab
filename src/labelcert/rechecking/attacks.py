"""All attacks within a budget, as far as they matter to the question which labels to verify.

Verifying labels removes every attack that touches one of them. So a node is safe once every set of labels whose change
can overturn it contains a verified label. Sets that contain a smaller one that does the same say nothing new.

Names: ν labels that the adversary may change, n nodes of the question.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from labelcert.arrays import Bool, Float, Int, Words
from labelcert.engines.base import Question
from labelcert.engines.bitsets import words_for
from labelcert.engines.control import Control

_REPORT_EVERY = 64


@dataclass(frozen=True, eq=False)
class AttackList:
    """Sets of labels whose change overturns predictions.

    Attributes
    ----------
    sets : (N, W) array
        Sets of labels, by their positions among those that may change, in words of 64 bits.
    overturned : (N, n) array
        Nodes that a change of exactly this set provably overturns, and that of no smaller one.
    strongest : (N,) array
        The largest weight of nodes that one change of the set overturns at once.
    complete : bool
        Whether all attacks within budget are listed, and all of them decided.
    trainings : int
    """

    sets: Words
    overturned: Bool
    strongest: Float
    complete: bool
    trainings: int


def bits_of(positions: Int, nu: int) -> Words:
    """(W,) a set of positions as words.

    Examples
    --------
    >>> bits_of(np.array([0, 2]), 3).tolist()
    [5]
    """
    words = np.zeros(max(1, words_for(nu)), dtype=np.uint64)
    for position in positions.tolist():
        words[position >> 6] |= np.uint64(1) << np.uint64(position & 63)
    return words


def list_attacks(question: Question, weights: Float, control: Control, *, strongest: bool) -> AttackList:
    """Retrain on every relabelling within budget, by size, until time is up.

    Parameters
    ----------
    question : Question
    weights : (n,) array
        What each node counts, for the strongest attack.
    control : Control
    strongest : bool
        Whether anybody asks for it. If not, sets that contain a smaller one that does the same are left out.
    """
    a, budget, n = question.problem.adversary, question.budget, question.nodes.size
    total = a.count_sets(budget, a.targets.sum(axis=1))
    contrary = question.contrary
    known: dict[tuple[int, ...], Bool] = {(): contrary}  # what a set or any smaller one overturns
    kept: list[tuple[tuple[int, ...], Bool, float]] = [((), contrary, float(weights[contrary].sum()))]
    complete, trainings = True, 0
    for size in range(1, a.most_flips(budget) + 1):
        here: dict[tuple[int, ...], Bool] = {}
        for chosen in a.sets(size, budget):
            positions = tuple(chosen.tolist())
            before = np.zeros(n, dtype=bool)
            for k in range(size):
                before |= known.get(positions[:k] + positions[k + 1 :], contrary)
            own, most = before.copy(), 0.0
            for change in a.changes(chosen):
                changed, unchanged = question.changed(change)
                complete &= bool((changed | unchanged).all())
                own |= changed
                most = max(most, float(weights[changed].sum()))
                trainings += 1
                if trainings % _REPORT_EVERY == 0:
                    control.report(trainings, total)
            here[positions] = own
            new = own & ~before
            if new.any() or (strongest and most > 0):
                kept.append((positions, new, most))
            if control.over():
                return _packed(kept, a.labels.size, False, trainings)
        known = here
        if not here:
            break
    return _packed(kept, a.labels.size, complete, trainings)


def _packed(kept: list[tuple[tuple[int, ...], Bool, float]], nu: int, complete: bool, trainings: int) -> AttackList:
    words = [bits_of(np.array(s, dtype=np.int64), nu) for s, _, _ in kept]
    return AttackList(
        sets=np.array(words, dtype=np.uint64).reshape(len(kept), max(1, words_for(nu))),
        overturned=np.array([o for _, o, _ in kept], dtype=bool).reshape(len(kept), kept[0][1].size),
        strongest=np.array([s for _, _, s in kept]),
        complete=complete,
        trainings=trainings,
    )
