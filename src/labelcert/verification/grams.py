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
    def bounded(self, Z: Float) -> tuple[Float, Float]:
        """The same as well as can be, and bounds on what is rounded off."""

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

    def bounded(self, Z: Float) -> tuple[Float, Float]:
        """Sums of m products."""
        return self @ Z, np.asarray(UNIT * 1.01 * (len(self.matrix) + 3) * (np.abs(Z) @ self._size))

    def check(self, machine: Trainer, pace: Callable[[], None]) -> None:
        """By elimination, or by a factorisation."""
        check_kernel(machine, self.matrix, pace)


class OfFeatures(Gram):
    """``X Xᵀ``, which is never formed: it is positive semidefinite as it stands, without any rounding."""

    def __init__(self, X: Float) -> None:
        self._X, self._wide = X, X.astype(np.longdouble)
        self.diagonal = (X**2).sum(axis=1) * SAFE
        among = X.T @ X if X.shape[1] <= X.shape[0] else X @ X.T
        self.norm = float(np.linalg.eigvalsh(among)[-1]) * SAFE + 4 * UNIT * sum(X.shape) * float((X**2).sum())

    def __matmul__(self, Z: Float) -> Float:
        return np.asarray((Z @ self._X) @ self._X.T)

    def bounded(self, Z: Float) -> tuple[Float, Float]:
        """Two sums, one after the other, with more digits where the machine has them."""
        product = ((Z.astype(np.longdouble) @ self._wide) @ self._wide.T).astype(np.float64)
        unit = 0.51 * float(np.finfo(np.longdouble).eps) * (sum(self._X.shape) + 6)
        sizes = (np.abs(Z) @ np.abs(self._X)) @ np.abs(self._X).T
        return product, np.asarray(unit * sizes * SAFE + 1.01 * UNIT * np.abs(product))

    def check(self, machine: Trainer, pace: Callable[[], None]) -> None:
        """There is nothing to check."""
        machine.about = "that of the features, which is positive semidefinite"
