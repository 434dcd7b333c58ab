"""How probable it is that each label should have been another class."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from labelcert.arrays import Float, Int, Values
from labelcert.checking import in_short, real_number, unmasked
from labelcert.errors import InvalidInput
from labelcert.problem.ballots import Ballots, Votes

SUM_TOLERANCE = 1e-6
"""Rows of a confusion matrix may miss 1 by this much; they are divided by their sums."""


def odds_of(
    wrong: float | npt.ArrayLike | Mapping[Any, float], codes: Int, classes: Values, annotators: Any = None
) -> Float:
    """(m, K) probability of each class for each label, which are independent of each other.

    - ``wrong``: one rate; one for each label; one for each annotator, by name; or a (K, K) confusion matrix, whose row
      holds the probabilities of all true classes, given the label. A rate is shared equally by all other classes.

    Examples
    --------
    >>> odds_of(0.25, np.array([0, 1]), np.array(["cat", "dog"])).tolist()
    [[0.75, 0.25], [0.25, 0.75]]
    """
    m, K = codes.size, classes.size
    if annotators is not None and not isinstance(wrong, Mapping):
        raise InvalidInput("annotators= needs one rate for each of them: wrong={'name': rate}")
    if isinstance(annotators, Votes) and isinstance(wrong, Mapping):
        return _by_votes(wrong, annotators.ballots(classes), codes)
    given = _by_annotator(wrong, annotators, m) if isinstance(wrong, Mapping) else _numbers(wrong)
    if given.ndim == 2:
        return _by_confusion(given, codes, classes)
    if given.shape not in ((), (m,)):
        raise InvalidInput(
            f"wrong must be one rate, one for each of the {m} labels, a mapping from annotators to rates, or a "
            f"({K}, {K}) confusion matrix, got shape {given.shape}"
        )
    _within("wrong", given)
    rates = np.broadcast_to(given, m)
    odds = np.repeat((rates / (K - 1))[:, None], K, axis=1)
    odds[np.arange(m), codes] = 1.0 - rates
    return odds


def _numbers(wrong: Any) -> Float:
    try:
        return np.asarray(unmasked("wrong", wrong), dtype=np.float64)
    except (TypeError, ValueError) as error:
        if isinstance(error, InvalidInput):
            raise
        raise InvalidInput(
            f"wrong must be a rate between 0 and 1, an array of them, or a mapping, got {in_short(wrong)}"
        ) from None


def _within(name: str, rates: Float) -> None:
    inside = (rates >= 0.0) & (rates <= 1.0)
    if not inside.all():
        bad = np.atleast_1d(rates)[~np.atleast_1d(inside)][0]
        raise InvalidInput(f"{name} must hold probabilities between 0 and 1, got {bad:g}")


def _by_votes(wrong: Mapping[Any, float], ballots: Ballots, codes: Int) -> Float:
    """What several votes say about each label: Bayes' rule, where all classes are equally probable before.

    A vote of an annotator with the rate e is for the true class with probability 1 - e, and for each other with
    e / (K - 1), whatever others say.
    """
    rates, K = _rates(wrong, ballots.annotators), ballots.classes.size
    if not np.array_equal(ballots.labels, codes):
        raise InvalidInput("labels must be those that the votes make: pass Votes(...).labels")
    odds = np.full((codes.size, K), 1.0 / K)
    for i, who, says in zip(ballots.item.tolist(), ballots.who.tolist(), ballots.says.tolist(), strict=True):
        likely = np.full(K, rates[who] / (K - 1))
        likely[says] = 1.0 - rates[who]
        odds[i] *= likely
        if not odds[i].sum() > 0.0:
            raise InvalidInput(f"annotators who are never wrong disagree about item {i}; give them a rate above 0")
        odds[i] /= odds[i].sum()
    return odds


def _rates(wrong: Mapping[Any, float], names: Sequence[Any]) -> list[float]:
    """The rate of each annotator."""
    unknown = next((name for name in names if name not in wrong), None)
    if unknown is not None:
        raise InvalidInput(f"wrong has no rate for the annotator {unknown!r}; it has rates for {list(wrong)[:10]}")
    rates = {name: real_number(rate) for name, rate in wrong.items()}
    for name, rate in rates.items():
        if rate is None or not 0.0 <= rate <= 1.0:
            raise InvalidInput(f"the rate of annotator {name!r} must lie between 0 and 1, got {in_short(wrong[name])}")
    return [float(rates[name] or 0.0) for name in names]


def _by_annotator(wrong: Mapping[Any, float], annotators: Any, m: int) -> Float:
    if annotators is None:
        raise InvalidInput("wrong names annotators, so annotators= must say who gave each label")
    names = [name.item() if isinstance(name, np.generic) else name for name in unmasked("annotators", annotators)]
    if len(names) != m:
        raise InvalidInput(f"annotators must name who gave each of the {m} labels, got {len(names)} names")
    return np.array(_rates(wrong, names))


def _by_confusion(matrix: Float, codes: Int, classes: Values) -> Float:
    K = classes.size
    if matrix.shape != (K, K):
        raise InvalidInput(
            f"a confusion matrix needs one row and one column for each of the {K} classes {classes.tolist()}, in this "
            f"order, got shape {matrix.shape}"
        )
    _within("wrong", matrix)
    sums = matrix.sum(axis=1)
    off = np.flatnonzero(~(np.abs(sums - 1.0) <= SUM_TOLERANCE))
    if off.size:
        raise InvalidInput(
            "each row of a confusion matrix holds the probabilities of all true classes given one label, so it must "
            f"add up to 1, but row {off[0]} ({classes[off[0]]}) adds up to {sums[off[0]]:g}; if its columns do, pass "
            "its transpose, weighed by how frequent classes are"
        )
    return np.asarray((matrix / sums[:, None])[codes])


def wrong_counts(odds: Float, codes: Int) -> Float:
    """(m + 1,) probability of each number of wrong labels, up to rounding."""
    counts = np.zeros(codes.size + 1)
    counts[0] = 1.0
    for right in odds[np.arange(codes.size), codes].tolist():
        counts[1:] = counts[1:] * right + counts[:-1] * (1.0 - right)
        counts[0] *= right
    return counts


def rounding_of(odds: Float) -> float:
    """How far float64 numbers may be from probabilities that add up to 1, for all labellings together."""
    m, K = odds.shape
    return float(4.0 * m * (K + 2) * 2.0**-53)
