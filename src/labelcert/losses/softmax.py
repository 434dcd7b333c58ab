"""Cross-entropy of the softmax over K classes: many labellings at a time, with a proved error bound.

The model minimises ``½ Σ_c ‖w_c‖² − C Σ_i log softmax(f_i)_{y_i}`` with ``w_c = Σ z_ci φ_i`` and ``f_c = Q z_c``. At
the optimum ``z = h(f)`` with ``h(f) = C (one-hot(y) − softmax(f))``. Everything of :mod:`~labelcert.losses.newton`
carries over: the derivative of −h is now a positive semidefinite matrix for each label, of norm at most C/2. So
``‖z − z*‖ ≤ (1 + √(Cλ/2) / 2) ‖z − h(Qz)‖``, over all classes together.

Names: m labels, K classes, B labellings.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from labelcert.arrays import Bool, Float, Int
from labelcert.svm.pivoting import UNIT_ROUNDOFF

GOOD = 1e-11
"""A residual of this, relative to the solution, is not worth another step."""

MOST_STEPS = 200
CHORDS = 40
"""Steps with one and the same inverse before a labelling gets its own."""

SLOW = 0.6
"""Steps that leave more than this of the residual are too slow to go on with an inverse."""


class SoftmaxMachine(NamedTuple):
    """One model up to its labels.

    Attributes
    ----------
    Q : (m, m) array
    C : float
    n_classes : int
    entry_max : float
        ``max |Q_ij|``.
    factor : float
        Upper bound on ``1 + √(Cλ/2) / 2``.
    """

    Q: Float
    C: float
    n_classes: int
    entry_max: float
    factor: float

    @classmethod
    def of(cls, Q: Float, C: float, n_classes: int) -> SoftmaxMachine:
        """The largest eigenvalue is at most the largest sum of a row's magnitudes."""
        largest = 1.01 * float(np.abs(Q).sum(axis=1).max())
        factor = 1.01 * (1.0 + math.sqrt(C / 2.0) * math.sqrt(largest) / 2.0)
        return cls(Q, C, n_classes, float(np.abs(Q).max()), factor)

    def train(self, codes: Int, Z: Float | None = None, inverse: Float | None = None) -> tuple[Float, Float]:
        """Train on many labellings.

        Parameters
        ----------
        codes : (B, m) array
            Class of each label.
        Z : (K, m) array, optional
            Where to start: the solution for similar labels.
        inverse : (Km, Km) array, optional
            From :meth:`inverse` there.

        Returns
        -------
        (B, K, m) array, (B,) array
            Solutions, and bounds on their 2-norm errors: on ``|k·z_c − k·z_c*|`` for every class and ``‖k‖₂ ≤ 1``, but
            for the rounding of that product.
        """
        B, m = codes.shape
        shape = (B, self.n_classes, m)
        out = np.zeros(shape) if Z is None else np.broadcast_to(Z, shape).copy()
        left = np.arange(B)
        if Z is not None:
            left = self._chords(codes, out, self.inverse(Z) if inverse is None else inverse)
        for k in left:
            out[k] = self._newton(codes[k], out[k])
        return out, self._bounds(codes, out)

    def inverse(self, Z: Float) -> Float:
        """(Km, Km) inverse of ``I + DQ`` at some solution."""
        return np.asarray(np.linalg.inv(self._system(self._shares(Z[None])[0])))

    def _shares(self, Z: Float) -> Float:
        """(B, K, m) softmax of the margins."""
        f = Z @ self.Q
        p = np.exp(f - f.max(axis=1, keepdims=True))
        return np.asarray(p / p.sum(axis=1, keepdims=True))

    def _residuals(self, codes: Int, Z: Float) -> tuple[Float, Float]:
        """(B, K, m) ``z − h(Qz)``, and ``h`` itself."""
        member = codes[:, None, :] == np.arange(self.n_classes)[None, :, None]
        h = self.C * (member - self._shares(Z))
        return Z - h, h

    def _system(self, p: Float) -> Float:
        """``I + DQ``, for the shares (K, m) of one labelling."""
        K, m = p.shape
        A = np.empty((K, m, K, m))
        for a in range(K):
            for b in range(K):
                A[a, :, b] = (self.C * p[a] * ((a == b) - p[b]))[:, None] * self.Q
        flat = A.reshape(K * m, K * m)
        flat[np.diag_indices(K * m)] += 1.0
        return flat

    def _good(self, residual: Float, Z: Float) -> Bool:
        """(B,) whether residuals (B, K, m) are as small as they need to be, or as rounding lets them be."""
        size, norm = (np.linalg.norm(values, axis=(1, 2)) for values in (residual, Z))
        noise = UNIT_ROUNDOFF * (8.0 + self.Q.shape[0] * self.entry_max * np.abs(Z).sum(axis=2).max(axis=1))
        return np.asarray(size <= np.maximum(GOOD / self.factor, noise) * norm)

    def _chords(self, codes: Int, Z: Float, inverse: Float) -> Int:
        """Improve solutions in place, with one inverse for all; returns the labellings that need one of their own."""
        K, m = Z.shape[1:]
        left = np.arange(Z.shape[0])
        last = np.full(left.size, np.inf)
        slow: list[Int] = []
        for _ in range(CHORDS):
            residual, _ = self._residuals(codes[left], Z[left])
            size = np.linalg.norm(residual, axis=(1, 2))
            stuck = ~(size <= SLOW * last)
            open_ = ~self._good(residual, Z[left])
            slow.append(left[open_ & stuck])
            go = open_ & ~stuck
            if not go.any():
                return np.concatenate(slow)
            left, last = left[go], size[go]
            Z[left] -= (residual[go].reshape(left.size, K * m) @ inverse.T).reshape(left.size, K, m)
        return np.concatenate([*slow, left])

    def _newton(self, codes: Int, Z: Float) -> Float:
        """Newton steps for one labelling, shortened so that the residual falls."""
        one = codes[None]
        residual, _ = self._residuals(one, Z[None])
        for _ in range(MOST_STEPS):
            if self._good(residual, Z[None])[0]:
                break
            step = np.linalg.solve(self._system(self._shares(Z[None])[0]), residual.ravel()).reshape(Z.shape)
            size, t = float(np.linalg.norm(residual)), 1.0
            while t > 1e-9:
                after, _ = self._residuals(one, (Z - t * step)[None])
                if float(np.linalg.norm(after)) <= (1.0 - 0.1 * t) * size:
                    break
                t *= 0.5
            else:
                break
            Z, residual = Z - t * step, after
        return Z

    def _bounds(self, codes: Int, Z: Float) -> Float:
        """(B,) proved bounds on the distances from the optima."""
        m, K, u = self.Q.shape[0], self.n_classes, UNIT_ROUNDOFF
        residual, h = self._residuals(codes, Z)
        computed, size, norm = (np.linalg.norm(values, axis=(1, 2)) for values in (residual, h, Z))
        err = 1.01 * u * (m + 3) * self.entry_max * np.abs(Z).sum(axis=2).max(axis=1) + m * 1e-290
        # Each share changes by at most itself times twice the change of f; exponentials are good to a few units.
        shares = self.C * math.sqrt(m) * (2.05 * err + (K + 40) * u)
        total = 1.01 * (1.01 * computed + shares + 8 * u * (size + norm) + K * m * 1e-290 * (1.0 + self.C))
        return np.where(err < 1e-3, 1.01 * self.factor * total, np.inf)
