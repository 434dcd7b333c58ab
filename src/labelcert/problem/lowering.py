"""A margin as a problem of its own.

A prediction with a margin counts as changed once its lead falls to δ, not to zero. Labels that nobody can change, one
of each class, bring this about: their kernel with all other labels is zero. So no training depends on them, and each
has the same dual variable in every one. The row of a test node has an entry for the one of its predicted class, which
lowers its lead by δ. Then it is changed in the usual sense exactly where its lead falls to δ. Every engine, every bound
and all exact arithmetic serve this problem as they are.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from labelcert.arrays import Float, Int, frozen
from labelcert.checking import in_short, unmasked
from labelcert.errors import InvalidInput
from labelcert.problem.problem import Problem


@runtime_checkable
class MeasuredMargins(Protocol):
    """MeasuredMargins that somebody measured: `labelcert.FiniteMargin` is one."""

    @property
    def margins(self) -> Float:
        """One for each test node, shape (n,)."""


def check_margin(margin: npt.ArrayLike, n_test: int) -> Float:
    """(n,) margins that make sense."""
    try:
        given = np.asarray(unmasked("margin", margin))
        values = given.astype(np.float64) if given.dtype.kind in "fiu" else np.array(np.nan)
    except InvalidInput:
        raise
    except (ValueError, OverflowError):
        values = np.array(np.nan)
    if values.ndim > 1 or not np.all((values >= 0.0) & np.isfinite(values)):
        raise InvalidInput(
            "margin must be a number of at least 0, or one for each test node, in units of the scores (labels are "
            f"trained to ±1), got {in_short(margin)}"
        )
    if values.ndim == 1 and values.size != n_test:
        raise InvalidInput(f"margin must have one number for each of {n_test} test nodes, got {values.size}")
    return np.broadcast_to(values, n_test).copy()


def lowered(problem: Problem, predicted: Int, margin: npt.ArrayLike) -> Problem:
    """The problem whose predictions change where those of the given one lose their margin.

    Each margin is that up to one rounding error: the least lead that counts. With two classes, the lead is the signed
    score; with more, the score of the predicted class minus the highest other one.
    """
    assert not problem.intercept, "the labels that stand for a margin would move an intercept"
    m, K = problem.m, problem.n_classes
    # A power of two so small that such a label stays at its cap, and no smaller than it must be.
    typical = float(np.diag(problem.K_train).mean()) or 1.0
    own = 2.0 ** math.floor(math.log2(min(0.5 / problem.C, typical)))
    kernel = np.zeros((m + K, m + K))
    kernel[:m, :m] = problem.K_train
    np.fill_diagonal(kernel[m:, m:], own)
    rows = np.zeros((problem.n_test, m + K))
    rows[:, :m] = problem.K_test
    rows[np.arange(problem.n_test), m + predicted] = -np.asarray(margin) / lead_of_one(problem, own)
    return replace(
        problem,
        K_train=frozen(kernel),
        K_test=frozen(rows),
        labels=frozen(np.concatenate([problem.labels, problem.classes])),
        codes=frozen(np.concatenate([problem.codes, np.arange(K)]).astype(np.int64)),
        adversary=replace(problem.adversary, m=m + K),
        min_eig=min(problem.min_eig, own),
    )


def lead_of_one(problem: Problem, own: float) -> float:
    """How much a label with such a kernel adds to the lead of its class, for each unit in the row of a node."""
    Q: Float = np.array([[own]])
    if problem.n_classes == 2:
        return float(problem.trained_with.train(Q, np.ones(1), problem.C)[0])
    Z = problem.trained_with.train_classes(Q, np.zeros(1, dtype=np.int64), problem.n_classes, problem.C)
    return float(Z[0, 0] - Z[1, 0])
