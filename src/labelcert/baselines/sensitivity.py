"""Differential privacy (Ma et al. 2019): how far single labels can move a score, whatever the other labels are.

A mechanism that adds Laplace noise of scale b to a score s predicts its sign with probability ``1 − ½ exp(−s/b)``. If
changed labels move the score by at most D, the other class gets at most ``½ exp((D − s)/b)``. So the most probable
class stays while D < s, for every b: the noise cancels, and what counts is the score over its sensitivity.
"""

from __future__ import annotations

import numpy as np
import scipy.linalg

from labelcert.arrays import Float
from labelcert.baselines.proving import Proved
from labelcert.prediction import OneVsRest
from labelcert.problem import Problem
from labelcert.problem.problem import signs_of
from labelcert.svm.pivoting import UNIT_ROUNDOFF


def sensitivity(problem: Problem, *, per_label: bool = True) -> Proved:
    """Lower ends of the radii of the model itself, which are those of its most probable noisy prediction.

    Labels change one after the other. Each moves the score of a class by at most its own sensitivity, so r labels move
    it by the r largest at most. A change from one class to another moves the scores of two classes. Of the square loss,
    sensitivities are exact. Without `per_label`, the largest one counts for all labels, as is usual.
    """
    predictor = OneVsRest(problem, linear=problem.trained_with.always_linear)
    scorer = predictor.scorer
    if predictor.linear:
        moves = 2 * (np.abs(scorer.rows) + scorer.row_errors[:, None])
    else:
        moves = hinge_moves(problem, scorer.rows)
    lead = _leads(predictor)
    largest = -np.sort(-moves, axis=1)[:, : problem.max_flips]
    if not per_label:
        largest = np.repeat(largest[:, :1], problem.max_flips, axis=1)
    reach = 2 * np.cumsum(largest, axis=1) * (1 + 4 * UNIT_ROUNDOFF * (problem.m + 4))
    decided = predictor.predicted >= 0
    lower = np.where(decided, 1 + (reach < lead[:, None]).sum(axis=1), 0)
    in_scores = largest[decided, 0] * scorer.scale[decided] if problem.max_flips else np.zeros(0)
    statistics = {"median_sensitivity": float(np.median(in_scores)) if in_scores.size else 0.0}
    return Proved(predictor, lower.astype(np.int64), statistics)


def _leads(predictor: OneVsRest) -> Float:
    """(n,) lower bounds on the score of the predicted class minus the highest other one, of the scaled rows."""
    problem = predictor.problem
    found = [predictor.scores(signs_of(problem.codes, c)) for c in range(problem.n_classes)]
    scores, errors = np.array([p for p, _ in found]), np.array([tau for _, tau in found])
    own, columns = predictor.predicted, np.arange(problem.n_test)
    lead = scores[own, columns] - scores - 1.01 * (errors[own] + errors[:, None])
    lead[own, columns] = np.inf
    least = lead.min(axis=0)
    return np.asarray(least - 4 * UNIT_ROUNDOFF * np.abs(scores).max(axis=0))


def hinge_moves(problem: Problem, rows: Float) -> Float:
    """(n, m) the most that a change of one label can move the score of each row, whatever the other labels are.

    Let w and w' be the two solutions, z_i and z_i' the signed dual variables of the changed label, c their difference.
    Strong convexity says ``‖w − w'‖² ≤ c (f_i − f_i')``, so ``w − w'`` lies in a ball with centre ``½ c φ_i`` and
    radius ``½ |c| ‖φ_i‖``. There are two cases:

    - one of both is 0. Then |c| ≤ C;
    - none of both is 0. Then |c| ≤ 2C, and the margins say ``|f_i − f_i'| ≤ 2``, hence ``‖w − w'‖ ≤ 2√C``.

    The norm of a row's point is not needed: for every a, ``k·Δz = (k − K a)·Δz + a·Δf``. The first term is at most
    ``C (‖k − K a‖₁ + |k − K a|_i)``, since other dual variables keep their side. In the second, the point is
    ``Σ a_j φ_j``, whose norm is known. With a = 0, the first term alone is a bound, too.
    """
    K, C, m = problem.K_train, problem.C, problem.m
    a = _coefficients(K, rows)
    gamma = 2 * UNIT_ROUNDOFF * (m + 4)
    image, sizes = a @ K, np.abs(a) @ np.abs(K)
    rest = np.abs(rows - image) + gamma * (sizes + np.abs(rows))
    squared = np.maximum((a * image).sum(axis=1), 0.0) + 2 * gamma * (np.abs(a) * sizes).sum(axis=1)
    norm = np.sqrt(squared)[:, None]
    ball = C * (np.abs(image) + gamma * sizes + np.sqrt(np.maximum(np.diag(K), 0.0)) * norm)
    by_point = np.maximum(0.5 * ball, np.minimum(ball, 2 * np.sqrt(C) * norm))
    by_point += C * (rest.sum(axis=1, keepdims=True) + rest)
    by_box = C * (np.abs(rows).sum(axis=1, keepdims=True) + np.abs(rows))
    return np.asarray(np.minimum(by_point, by_box) * (1 + gamma))


def _coefficients(K: Float, rows: Float) -> Float:
    """(n, m) coefficients a with K a close to each row, and small where K is nearly singular."""
    values, vectors = scipy.linalg.eigh(K)
    large = values > 1e-11 * max(float(values[-1]), 1e-290)
    inverse = np.where(large, 1 / np.where(large, values, 1.0), 0.0)
    return np.asarray(((rows @ vectors) * inverse) @ vectors.T)
