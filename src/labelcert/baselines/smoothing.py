"""Randomised smoothing over labels (Rosenfeld et al. 2020), for kernel ridge regression.

The *smoothed classifier* predicts the class that the ridge model predicts most often when labels are replaced at
random. Its certificate knows the ridge model through one number only: a bound on the probability of any other class.
The scores are linear in the labels, so that Chernoff's inequality bounds it without sampling.
"""

from __future__ import annotations

import math
from functools import partial

import numpy as np

from labelcert.arrays import Float, Int
from labelcert.baselines.likelihood import best_threshold, divergence_threshold
from labelcert.baselines.proving import Proved
from labelcert.errors import InvalidInput
from labelcert.prediction import OPEN, Gathered, predictor_for
from labelcert.prediction.scoring import Scorer
from labelcert.problem import Problem
from labelcert.svm.pivoting import UNIT_ROUNDOFF

NEWTON_STEPS = 12
LARGEST_EXPONENT = 300.0
"""Of what is put into ``exp``."""

ULPS = 16.0
"""Roundings that one label's factor may suffer: those of ``exp`` and ``log``, of coefficients and of sums."""


def smoothing(problem: Problem, *, noise: float = 0.1, tight: bool) -> Proved:
    """Lower ends of the radii of the smoothed classifier, with the square loss.

    `noise` is the probability that a label is replaced by one of the other classes, all alike. Radii come from the
    lemma of Neyman and Pearson if `tight`, or from the divergence alone, as published. A node for which no class has a
    proved majority has no prediction.
    """
    q = _checked_noise(noise, problem.n_classes)
    base = predictor_for(problem, linear=True)
    n, nodes = problem.n_test, np.flatnonzero(base.predicted >= 0)
    log_other = np.zeros(n)
    log_other[nodes] = log_error(base.scorer, problem.codes, base.predicted[nodes], nodes, problem.n_classes, q)
    threshold = partial(best_threshold if tight else divergence_threshold, q, problem.n_classes)
    lower = _radii(log_other, threshold, problem.max_flips)
    predicted = np.where(lower > 0, base.predicted, OPEN)
    predictor = Gathered(problem, predicted, base.shown, base.decision)
    statistics = {
        "noise": q,
        "without_majority": int((lower == 0).sum()),
        "log_other": [round(float(v), 6) for v in log_other],
    }
    return Proved(predictor, lower, statistics)


def _checked_noise(noise: float, n_classes: int) -> float:
    largest = 1 - 1 / n_classes
    if isinstance(noise, bool) or not isinstance(noise, int | float | np.number) or not 0 < noise < largest:
        raise InvalidInput(
            f"noise must be between 0 and {largest:.4g}, where labels of {n_classes} classes say nothing any more, "
            f"got {noise!r}"
        )
    return float(noise)


def _radii(log_other: Float, threshold: partial[float], budget: int) -> Int:
    """(n,) the first number of changed labels whose threshold the error does not stay below."""
    lower = np.zeros(log_other.size, dtype=np.int64)
    for r in range(budget + 1):
        safe = (lower == r) & (log_other < threshold(r))
        if not safe.any():
            break
        lower[safe] = r + 1
    return lower


def log_error(scorer: Scorer, codes: Int, own: Int, nodes: Int, n_classes: int, q: float) -> Float:
    """(n,) upper bounds on the logarithm of the probability that the noisy model does not predict ``own``.

    A rival that reaches the score of ``own`` counts as an error. The errors of all rivals are added up.
    """
    total = np.full(nodes.size, -np.inf)
    for c in np.unique(own):
        at = np.flatnonzero(own == c)
        rows, errors = scorer.rows[nodes[at]], scorer.row_errors[nodes[at]]
        for r in range(n_classes):
            if r != c:
                one = chernoff(rows, errors, *_laws(codes, int(c), r, n_classes, q))
                total[at] = np.logaddexp(total[at], one)
    return np.asarray(np.minimum(total + 1e-13 * n_classes * (1 + np.abs(total)), 0.0))


def _laws(codes: Int, c: int, r: int, n_classes: int, q: float) -> tuple[Float, Float, Float]:
    """Probabilities that each noisy label is of class c, of class r, and of neither."""
    keep, other = 1 - q, q / (n_classes - 1)
    neither = np.where((codes == c) | (codes == r), (n_classes - 2) * other, keep + (n_classes - 3) * other)
    return np.where(codes == c, keep, other), np.where(codes == r, keep, other), neither


def chernoff(rows: Float, row_errors: Float, mine: Float, theirs: Float, neither: Float) -> Float:
    """(n,) upper bounds on ``log P(Σ h_i v_i ≤ 0)`` for independent v_i in {1, -1, 0} with the given probabilities.

    The bound is ``Σ log E exp(−t h_i v_i)``. It holds for every t > 0; Newton's method finds a good one. What is
    returned includes the errors of the rows (2-norms) and all rounding errors.
    """
    m = rows.shape[1]
    squares = rows**2
    mean, variance = rows @ (mine - theirs), squares @ (mine + theirs - (mine - theirs) ** 2)
    useful = (mean > 0) & (variance > 0)
    out = np.zeros(rows.shape[0])
    rows, squares, row_errors = rows[useful], squares[useful], row_errors[useful]
    most = LARGEST_EXPONENT / np.maximum(np.abs(rows).max(axis=1, initial=0.0), 1e-290)
    t = np.minimum(mean[useful] / variance[useful], most)
    best, chosen = np.full(t.size, np.inf), t
    for _ in range(NEWTON_STEPS):
        x = t[:, None] * rows
        down, up = mine * np.exp(-x), theirs * np.exp(x)
        factor = down + up + neither
        value = np.log(factor).sum(axis=1) + t * row_errors * math.sqrt(m)
        better = value < best
        best, chosen = np.where(better, value, best), np.where(better, t, chosen)
        tilt = (up - down) / factor
        slope = (rows * tilt).sum(axis=1) + row_errors * math.sqrt(m)
        bend = (squares * ((up + down) / factor - tilt**2)).sum(axis=1)
        t = np.minimum(np.clip(t - slope / np.maximum(bend, 1e-290), t / 4, t * 4), most)
    x = chosen[:, None] * rows
    logs = np.log(mine * np.exp(-x) + theirs * np.exp(x) + neither)
    size = (np.abs(x) + ULPS * (1 + np.abs(logs)) + (m + 2) * np.abs(logs)).sum(axis=1)
    slack = 1.01 * chosen * row_errors * math.sqrt(m)
    out[useful] = np.minimum(logs.sum(axis=1) + slack + 2 * UNIT_ROUNDOFF * size, 0.0)
    return out
