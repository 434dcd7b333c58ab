"""From the probabilities that single rivals overtake the predicted class to the probability that any of them does."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import numpy as np

from labelcert.arrays import Float, Int
from labelcert.engines.base import Question
from labelcert.engines.control import Control
from labelcert.labelnoise.joint import alone_of_three, both
from labelcert.labelnoise.tails import Tail, tail

TOGETHER = 1e-4
"""Rivals that are less probable are not looked at together."""

MOST_RIVALS = 4
"""So many are."""

FEW = 2**17
"""Where so few labellings of its neighbours decide a node, all of them are tried."""

NARROW = 9e-4
"""Intervals that are no wider are not worth the time that it takes to look at two rivals at once."""


FINER = 2**21
"""Points of the grid where intervals are wide after all."""


def overtaken(question: Question, odds: Float, t: int, control: Control) -> Tail:
    r"""The probability that another class reaches the score of the predicted one, for a node of a linear model.

    With A_r, "the class r reaches it": the union is at most as probable as all A_r together, and at least as the most
    probable one. Where the score is no larger than the mean of two rivals', one of them has reached it, and where both
    have, it is no larger than the mean; so the probability M of that improves the lower end twice:

    .. math:: P(A_1 \cup A_2) \ge M, \qquad P(A_1 \cup A_2) \ge P(A_1) + P(A_2) - M.

    Where that leaves a wide interval, the probabilities that two rivals do so together close it, and at last the
    probability that a third one does so without the two most probable ones.
    """
    node, own, K = int(question.nodes[t]), int(question.predicted[t]), question.problem.n_classes
    scorer = question.predictor.scorer
    h = scorer.rows[node]
    error = 2.0 * math.sqrt(h.size) * float(scorer.row_errors[node])

    moving = np.flatnonzero((h != 0.0) & (odds.max(axis=1) < 1.0))
    if moving.size * math.log(K) <= math.log(FEW):
        return _enumerated(h, odds, own, moving, 0.0 if scorer.exact_sums[node] else error + 1e-12 * np.abs(h).sum())

    def leads(*rivals: int) -> Int:
        values = np.zeros(K, dtype=np.int64)
        values[own] = len(rivals)
        values[list(rivals)] = -1
        return values

    alone = {r: tail(h, leads(r), odds, error) for r in range(K) if r != own}
    lower = max(found.lower for found in alone.values())
    upper = min(1.0, sum(found.upper for found in alone.values()))
    likely = sorted((r for r in alone if alone[r].upper > TOGETHER), key=lambda r: -alone[r].upper)[:MOST_RIVALS]
    pairs = list(itertools.combinations(likely, 2))
    if not pairs or upper - lower <= NARROW:
        return Tail(lower, upper)
    means = {pair: tail(h, leads(*pair), odds, 2.0 * error) for pair in pairs}
    met = {pair: Tail(0.0, min(mean.upper, *(alone[r].upper for r in pair))) for pair, mean in means.items()}
    lower, upper = _union(alone, met, likely, max(lower, *(mean.lower for mean in means.values())), upper)
    for pair in sorted(pairs, key=lambda pair: -met[pair].upper):
        if control.over() or upper - lower <= NARROW:
            break
        found = both(h, np.array([leads(r) for r in pair]), odds, error)
        met[pair] = Tail(found.lower, min(found.upper, met[pair].upper))
        lower, upper = _union(alone, met, likely, lower, upper)
    if upper - lower > NARROW and not control.over():
        alone |= {r: _within(alone[r], tail(h, leads(r), odds, error, FINER)) for r in likely}
        lower, upper = _union(alone, met, likely, lower, min(upper, sum(found.upper for found in alone.values())))
    if upper - lower > NARROW and len(likely) > 2 and not control.over():
        return _within(Tail(lower, upper), _three(h, leads, odds, error, alone, met, likely))
    return Tail(lower, upper)


def _three(
    h: Float,
    leads: Callable[[int], Int],
    odds: Float,
    error: float,
    alone: dict[int, Tail],
    met: dict[tuple[int, int], Tail],
    likely: list[int],
) -> Tail:
    """The interval of a union, from that of two events, and of a third one without the two."""
    one, two, third = likely[:3]
    near, far = sorted((one, two), key=lambda r: -met[r, third].lower)
    found = alone_of_three(h, np.array([leads(r) for r in (third, near, far)]), odds, error)
    more = min(found.upper, alone[third].upper - met[near, third].lower)
    others = sum(tail.upper for r, tail in alone.items() if r not in (one, two, third))
    return Tail(
        alone[one].lower + alone[two].lower - met[one, two].upper + found.lower,
        alone[one].upper + alone[two].upper - met[one, two].lower + more + others,
    )


def _within(one: Tail, other: Tail) -> Tail:
    """What both say."""
    return Tail(max(one.lower, other.lower), min(one.upper, other.upper))


def _enumerated(h: Float, odds: Float, own: int, moving: Int, error: float) -> Tail:
    """The same for few neighbours: all classes that they may have. Scores are within ``error`` / 2."""
    K = odds.shape[1]
    fixed = np.delete(np.arange(h.size), moving)
    scores = np.bincount(odds[fixed].argmax(axis=1), weights=h[fixed], minlength=K)[None].astype(np.float64)
    chance = np.ones(1)
    for i in moving.tolist():
        scores = (scores[:, None] + h[i] * np.eye(K)[None]).reshape(-1, K)
        chance = (chance[:, None] * odds[i]).ravel()
    lead = scores[:, own] - np.delete(scores, own, axis=1).max(axis=1)
    slack = 2.0**-52 * (chance.size + moving.size)
    return Tail(max(0.0, chance[lead <= -error].sum() - slack), min(1.0, chance[lead <= error].sum() + slack))


def _union(
    alone: dict[int, Tail], met: dict[tuple[int, int], Tail], likely: list[int], lower: float, upper: float
) -> tuple[float, float]:
    """The interval of a union, from those of all events and of some intersections of two.

    Below, the inequality of Bonferroni for the most probable events. Above, that of Hunter and Worsley: all events,
    less the intersections along a tree, of which the most probable event is the root.
    """
    for k in range(2, len(likely) + 1):
        pairs = itertools.combinations(likely[:k], 2)
        lower = max(lower, sum(alone[r].lower for r in likely[:k]) - sum(met[pair].upper for pair in pairs))
    star = sum(met[likely[0], r].lower for r in likely[1:])
    return lower, min(upper, sum(found.upper for found in alone.values()) - star)
