"""Sampled labellings: what each of them does, and intervals from their shares."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt
from scipy.special import betaincinv, ndtri

from labelcert.arrays import Bool, Float, Int
from labelcert.engines.base import WORK_LIMIT_SECONDS, Question
from labelcert.engines.control import Control
from labelcert.engines.planning import duration
from labelcert.engines.pools import Local, in_order
from labelcert.errors import WorkTooLarge
from labelcert.labelnoise.result import UNKNOWN
from labelcert.memory import require_memory
from labelcert.prediction.by_features import FeaturePredictor
from labelcert.problem import Relabelling
from labelcert.stopping import is_over

CHUNK = 64
"""Labellings that are sampled together, with a random generator of their own."""

REMEMBERED = 4_000_000
"""Predictions of retrained models are remembered up to so many."""

KEPT = 2000
"""Predictions of so many sampled labellings are kept."""


def needed(width: float, confidence: float) -> int:
    """How many labellings it takes so that no interval of Clopper and Pearson is wider, in whole chunks.

    The widest is that of a share of one half; 2/width more make up for its corrections.

    Examples
    --------
    >>> needed(0.02, 0.95)
    9728
    """
    z = float(ndtri(0.5 + confidence / 2.0))
    return CHUNK * math.ceil(((z / width) ** 2 + 2.0 / width) / CHUNK)


def clopper_pearson(least: Int, most: Int, size: Int, confidence: float) -> tuple[Float, Float]:
    """The interval for a probability, from a number of successes that lies between two ends.

    Examples
    --------
    >>> lower, upper = clopper_pearson(np.array([0]), np.array([0]), np.array([10]), 0.95)
    >>> lower.tolist(), upper.round(4).tolist()
    ([0.0], [0.3085])
    """
    miss = (1.0 - confidence) / 2.0
    lower = np.where(least > 0, betaincinv(np.maximum(least, 1), size - least + 1, miss), 0.0)
    upper = np.where(most < size, betaincinv(most + 1, np.maximum(size - most, 1), 1.0 - miss), 1.0)
    return np.asarray(lower), np.asarray(upper)


def sampled_codes(odds: Float, seed: int, chunk: int) -> Int:
    """(CHUNK, m) the classes of labels in the labellings of one chunk: the same for everybody who asks."""
    draws = np.random.default_rng([seed, chunk]).random((CHUNK, odds.shape[0]))
    codes = np.zeros(draws.shape, dtype=np.int64)
    for ends in np.cumsum(odds, axis=1).T[:-1]:
        codes += draws >= ends
    return codes


@dataclass(frozen=True, eq=False)
class Drawn:
    """What S sampled labellings do to n nodes."""

    outcome: npt.NDArray[np.int16]  # (at most KEPT, n) predictions, as positions in the classes
    wrong: Bool  # (S, m)
    changed: Int  # (S,) how many nodes each of them provably changes
    counts: Int  # (3, n) of those with so many wrong labels that a node may change: changed, maybe changed, all


def draw(question: Question, odds: Float, radius: Int, seed: int, first: int, count: int, control: Control) -> Drawn:
    """Sample and retrain, from a chunk on; fewer where the run has to stop.

    - ``radius`` (n,): fewer wrong labels than this change nothing.
    - ``first``, ``count``: labellings that are sampled elsewhere, and those to sample; whole chunks.
    """
    n, codes = question.nodes.size, question.problem.codes
    require_memory(
        min(count, KEPT) * n * 2 + count * codes.size, f"{count:,} sampled labellings", "use fewer: a larger width"
    )
    judge = _judge(question)
    chunks = range(first // CHUNK, (first + count) // CHUNK)

    def work(chunk: int) -> tuple[Bool, Int, Bool, Bool]:
        new = sampled_codes(odds, seed, chunk)
        return (new != codes, *judge(new))

    if control.time_limit is None and len(chunks) > 1:
        began = time.perf_counter()
        work(chunks[0])
        seconds = (time.perf_counter() - began) * len(chunks) / control.workers
        if seconds > WORK_LIMIT_SECONDS:
            raise WorkTooLarge(
                f"{count:,} sampled labellings would take about {duration(seconds)}; ask for wider intervals "
                f"(width={2 * math.sqrt(seconds / WORK_LIMIT_SECONDS) / math.sqrt(count):.2g}), or give "
                "time_limit=SECONDS for what can be sampled in that time"
            )
    outcome, wrong = list[npt.NDArray[np.int16]](), list[Bool]()
    changed, counts, kept = list[Int](), np.zeros((3, n), dtype=np.int64), first
    for chunk, (bad, new, yes, no) in in_order(Local(work), iter(chunks), control):
        matters = bad.sum(axis=1)[:, None] >= radius
        counts += np.array([(yes & matters).sum(axis=0), (~no & matters).sum(axis=0), matters.sum(axis=0)])
        wrong.append(bad)
        changed.append(yes.sum(axis=1))
        if kept < KEPT:
            outcome.append(new.astype(np.int16))
        kept += CHUNK
        control.report(chunk - chunks[0] + 1, len(chunks))
    return Drawn(
        np.concatenate(outcome) if outcome else np.zeros((0, n), dtype=np.int16),
        np.concatenate(wrong) if wrong else np.zeros((0, codes.size), dtype=bool),
        np.concatenate(changed) if changed else np.zeros(0, dtype=np.int64),
        counts,
    )


def _judge(question: Question) -> Callable[[Int], tuple[Int, Bool, Bool]]:
    """From (B, m) classes of labels: (B, n) predictions, what provably changes, and what provably does not."""
    predictor, nodes, own = question.predictor, question.nodes, question.predicted
    K = question.problem.n_classes
    many = predictor.judge if isinstance(predictor, FeaturePredictor) else None
    labels = question.problem.adversary.labels

    def relabelling(new: Int) -> Relabelling:
        at = np.flatnonzero(new[labels] != question.problem.codes[labels])
        return Relabelling(at.astype(np.int64), new[labels[at]])

    nothing = np.full(nodes.size, UNKNOWN), np.zeros(nodes.size, dtype=bool), np.zeros(nodes.size, dtype=bool)

    @lru_cache(max(1, REMEMBERED // max(1, nodes.size)))  # of few labels, labellings are drawn many times
    def one(key: bytes) -> tuple[Int, Bool, Bool]:
        new = np.frombuffer(key, dtype=np.int64)
        if (
            question.problem.trained_with.needs_both_sides and np.unique(new).size < K
        ):  # no best intercept: it stays open
            return nothing
        yes, no = predictor.changed(new, nodes)
        outcome = np.where(no, own, UNKNOWN)
        if K == 2:
            outcome[yes] = 1 - own[yes]
        else:
            outcome[yes] = predictor.become(new, nodes[yes])
        return outcome, yes, no

    def judged(codes: Int) -> tuple[Int, Bool, Bool]:
        if many is not None and all(np.unique(new).size == K for new in codes):
            told = many([relabelling(new) for new in codes])
            yes, no = told.changed[nodes].T, told.unchanged[nodes].T
            return np.where(no, own, np.where(yes, told.rivals[nodes].T, UNKNOWN)), yes, no
        # What is left when the run is over counts as open: leaving it out would favour labellings that train quickly.
        found = [nothing if is_over() else one(new.tobytes()) for new in codes]
        outcome, yes, no = (np.array(part) for part in zip(*found, strict=True))
        return outcome, yes, no

    return judged


def shares(counts: Int, odds_of_wrong: Float, confidence: float) -> tuple[Float, Float, Float]:
    """(n,) estimates and ends, from counts among labellings with enough errors.

    ``odds_of_wrong`` (n,): the probability of so many errors. Given their number, the labellings are a sample of their
    own, so that each interval holds at the confidence.
    """
    least, most, size = counts
    lower, upper = clopper_pearson(least, most, size, confidence)
    share = (least + most) / np.maximum(2 * size, 1)
    return np.where(size > 0, share, 0.5) * odds_of_wrong, lower * odds_of_wrong, upper * odds_of_wrong


def to_confirm(wrong: Bool, changed: Int, odds: Float, codes: Int, count: int) -> tuple[Int, Float]:
    """Labels to confirm, best first, and the expected number of changes after each, estimated from sampled labellings.

    Given that a label is right, the labellings in which it is are a sample. Ends where too few are left.
    """
    left = np.ones(len(wrong), dtype=bool)
    chosen, expected = list[int](), list[float]()
    open_labels = odds[np.arange(codes.size), codes] < 1.0
    while len(chosen) < count and left.sum() >= CHUNK and open_labels.any():
        right = ~wrong[left]
        sizes = right.sum(axis=0)
        after = np.where(open_labels & (sizes >= CHUNK // 2), changed[left] @ right / np.maximum(sizes, 1), np.inf)
        best = int(after.argmin())
        if not np.isfinite(after[best]):
            break
        chosen.append(best)
        expected.append(float(after[best]))
        left &= ~wrong[:, best]
        open_labels[best] = False
    return np.array(chosen, dtype=np.int64), np.array(expected)
