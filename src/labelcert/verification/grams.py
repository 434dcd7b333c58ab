"""Products with a kernel, which is given, or is that of features: with bounds on how they are rounded."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

import numpy as np

from labelcert.arrays import Float
from labelcert.verification.machines import SAFE, UNIT, Trainer, check_kernel


class Gram(ABC):
    """A kernel Q among m labels.

    Attributes
    ----------
    diagonal : (m,) array
        Upper bounds on its entries.
    norm : float
        An upper bound on its largest eigenvalue.
    """

    diagonal: Float
    norm: float

    @abstractmethod
    def __matmul__(self, Z: Float) -> Float:
        """(..., m) products of Q with the last axis."""

    @abstractmethod
    def rounding(self, Z: Float) -> Float:
        """(..., m) bounds on their errors."""

    @abstractmethod
    def check(self, machine: Trainer, pace: Callable[[], None]) -> None:
        """Whether it is positive semidefinite."""


class Kernel(Gram):
    """A kernel that is given."""

    def __init__(self, K: Float) -> None:
        self.matrix, self._size = K, np.abs(K)
        self.diagonal = np.diag(K)
        self.norm = float(np.sqrt((K**2).sum())) * SAFE

    def __matmul__(self, Z: Float) -> Float:
        return np.asarray(Z @ self.matrix)

    def rounding(self, Z: Float) -> Float:
        """Those of sums of m products."""
        return np.asarray(UNIT * 1.01 * (len(self.matrix) + 3) * (np.abs(Z) @ self._size))

    def check(self, machine: Trainer, pace: Callable[[], None]) -> None:
        """By elimination, or by a factorisation."""
        check_kernel(machine, self.matrix, pace)


class OfFeatures(Gram):
    """``X Xᵀ``, which is never formed: it is positive semidefinite as it stands, without any rounding."""

    def __init__(self, X: Float) -> None:
        self._X, self._size = X, np.abs(X)
        self.diagonal = (X**2).sum(axis=1) * SAFE
        self.norm = float(np.sqrt(((X.T @ X) ** 2).sum())) * SAFE + UNIT * X.size * float((X**2).sum())

    def __matmul__(self, Z: Float) -> Float:
        return np.asarray((Z @ self._X) @ self._X.T)

    def rounding(self, Z: Float) -> Float:
        """Those of two sums, one after the other."""
        together = UNIT * 1.01 * (sum(self._X.shape) + 6)
        return np.asarray(together * ((np.abs(Z) @ self._size) @ self._size.T))

    def check(self, machine: Trainer, pace: Callable[[], None]) -> None:
        """There is nothing to check."""
        machine.about = "that of the features, which is positive semidefinite"
