"""What a loss brings along: how to retrain, how far the result can be off, how to decide doubts, where it is linear."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from labelcert.arrays import Bool, Float, Int, Signs
from labelcert.losses.solutions import Solution


class Exactly(ABC):
    """One kernel and constant, ready to be trained on any labels beyond float64."""

    @abstractmethod
    def solution(self, y: Float, state: Signs, z: Float) -> Solution | None:
        """The solution for labels ``y`` (±1), from what float64 found; None where it is out of reach."""


@dataclass(frozen=True)
class Loss(ABC):
    """A loss: the model minimises ``½‖w‖² + C Σ loss`` over ``w``, with an intercept or without.

    Attributes
    ----------
    intercept : bool
        An intercept that is not regularised is the last entry of every solution.
    kind : str
        What ``loss=`` takes.
    formula : str
        The loss of a label ±1 with the score f, in the words of a help text.
    always_linear : bool
        Scores are linear in the labels, whatever kernel and C.
    defined_anywhere : bool
        The dual solution is unique, so that scores are well defined for every test row, also beside a singular kernel.
    rational : bool
        The optimum is a rational number, so that ties can be proved.
    ridge : bool
        Where scores are linear, they are those of kernel ridge regression; otherwise sums of kernel entries.
    may_have_intercept : bool
    coupled : bool
        More than two classes are trained as one problem, not one against the rest each.
    """

    intercept: bool = False

    kind: ClassVar[str]
    formula: ClassVar[str]
    always_linear: ClassVar[bool] = False
    defined_anywhere: ClassVar[bool] = True
    rational: ClassVar[bool] = True
    ridge: ClassVar[bool] = False
    may_have_intercept: ClassVar[bool] = False
    coupled: ClassVar[bool] = False

    @property
    def name(self) -> str:
        """The loss and its intercept in one word, as certificates, studies and hashes have it."""
        return self.kind + ("_intercept" if self.intercept else "")

    @property
    def may_be_linear(self) -> bool:
        """Whether scores are linear in the labels for some kernels and budgets at least."""
        return self.always_linear or type(self).is_linear is not Loss.is_linear

    def is_linear(self, Q: Float, y: Float, C: float, movable: Bool, flips: int, *, strict: bool = False) -> bool:
        """Whether scores are provably linear in the labels, for up to this many flips.

        Parameters
        ----------
        Q : (m, m) array
        y : (m,) array
            Clean labels, ±1.
        C : float
        movable : (m,) array
            Which labels can be flipped.
        flips : int
        strict : bool
            Whether no other dual solution may exist beside the linear one.
        """
        return self.always_linear

    def rows(self, K_test: Float) -> Float:
        """What is multiplied by a solution: the test rows, with a column of ones for an intercept."""
        return np.hstack([K_test, np.ones((K_test.shape[0], 1))]) if self.intercept else K_test

    def bordered(self, A: Float) -> Float:
        """The matrix of a linear system; with an intercept, bordered by ones: dual variables add up to 0."""
        if not self.intercept:
            return A
        one = np.ones((A.shape[0], 1))
        return np.block([[A, one], [one.T, np.zeros((1, 1))]])

    @property
    def needs_both_sides(self) -> bool:
        """Whether there is no best intercept for labels of one class alone."""
        return self.intercept and not self.ridge

    @abstractmethod
    def train(self, Q: Float, y: Float, C: float) -> Float:
        """(m,) what multiplies the test rows after training on labels ``y`` (±1), without any proof."""

    def train_classes(self, Q: Float, codes: Int, n_classes: int, C: float) -> Float:
        """(K, m) the same for each class, here against the rest; of two classes, one is the other's negative."""
        if n_classes == 2:
            z = self.train(Q, np.where(codes == 0, 1.0, -1.0), C)
            return np.array([z, -z])
        return np.array([self.train(Q, np.where(codes == c, 1.0, -1.0), C) for c in range(n_classes)])

    @abstractmethod
    def machine(self, Q: Float, C: float, min_eig: float, rows: Float | None) -> Any:
        """What compiled walks retrain, see :mod:`~labelcert.losses.retraining`.

        Parameters
        ----------
        Q : (m, m) array
        C : float
        min_eig : float
            Proved lower bound on the smallest eigenvalue of ``Q``.
        rows : (n, m) array or None
            Test rows, scaled to norms of at most 1; None for any such rows, with larger error bounds.
        """

    @abstractmethod
    def exactly(self, Q: Float, C: float) -> Exactly:
        """What decides where float64 cannot."""

    @abstractmethod
    def largest_dual(self, m: int, C: float) -> float:
        """Bound on ``|z_i|`` at the optimum, whatever the labels."""

    @abstractmethod
    def one_flip(self, machine: Any, rows: Float, movable: Int) -> Float:
        """(n,) bounds on what one more changed label does to the score of each row, whatever the other labels are.

        Parameters
        ----------
        machine
            From :meth:`machine`.
        rows : (n, m) array
            As there.
        movable : array
            Which labels may change.
        """

    @abstractmethod
    def response(self, Q: Float, C: float, y: Float, z: Float, state: Signs, rows: Float) -> Float:
        """(k, m) by how much the scores of k rows should change if one label is flipped: a forecast, not a proof."""


def forecast(Q: Float, free: Int, moved: Float, rows: Float) -> Float:
    """What a flip does where some labels make up for others, so that their margins stay.

    Parameters
    ----------
    Q : (m, m) array
    free : (F,) array
        Those labels.
    moved : (m,) array
        By how much a flip of each label moves its dual variable, if no other label makes up for it.
    rows : (k, m) array
    """
    block = Q[np.ix_(free, free)] + 1e-12 * float(np.trace(Q)) * np.eye(free.size)
    inverse = np.linalg.inv(block) if free.size else block
    weights = rows[:, free] @ inverse
    reach = rows - weights @ Q[free]
    reach[:, free] = weights / np.maximum(np.diag(inverse), 1e-300)
    return np.asarray(-reach * moved)


def two_norm_bound(machine: Any, slope: float, jump: float, rows: Float) -> Float:
    """(n,) bounds on what one flip does, where ``z = h(Qz)`` with smooth h.

    The flip leaves a residual of at most ``jump`` in one place. As in :mod:`~labelcert.losses.newton`, the solution is
    at most ``1 + √(slope·λ) / 2`` times as far away, and no row is longer than 1.
    """
    largest = float(np.abs(machine.Q).sum(axis=1).max())
    return np.full(rows.shape[0], 1.01 * jump * (1.0 + np.sqrt(slope) * np.sqrt(largest) / 2.0))
