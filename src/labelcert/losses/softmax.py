"""Cross-entropy of the softmax over K classes: many labellings at a time, with a proved error bound.

The model minimises ``½ Σ_c ‖w_c‖² − C Σ_i log softmax(f_i)_{y_i}`` with ``w_c = Σ z_ci φ_i`` and ``f_c = Q z_c``. At
the optimum ``z = h(f)`` with ``h(f) = C (one-hot(y) − softmax(f))``. All of :mod:`~labelcert.losses.newton` carries
over: the derivative of −h is now a positive semidefinite matrix D for each label, of norm at most C/2. So
``‖z − z*‖ ≤ (1 + √(Cλ/2) / 2) ‖z − h(Qz)‖``, over all classes together.

Intercepts that are not regularised. Then ``f_c = Q z_c + b_c`` and ``Σ_i z_ci = 0``. Only differences of intercepts
matter. As there, ``z(b)`` is the solution for fixed b, ``g(b) = Σ_i z_i(b)``, and ``−g' = S = Eᵀ(I + DQ)⁻¹DE``, where E
repeats one number per class for all labels. If no ``f_ci`` moves by more than 1/4, no share moves by more than a factor
of √e, so that D and S keep 1/e of themselves. For any U, S is at least ``EᵀDU + UᵀDE − UᵀDU − UᵀDQDU``. So with its
smallest eigenvalue s (beside that of equal intercepts), ``‖b − b*‖ ≤ e ‖g(b)‖ / s``.

Names: m labels, K classes, B labellings. A solution has a row per class and a column per label, and one more for an
intercept.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from labelcert.arrays import Bool, Float, Int
from labelcert.losses.conjugate import resolved
from labelcert.svm.pivoting import UNIT_ROUNDOFF

GOOD = 1e-11
"""A residual of this, relative to the solution, is not worth another step."""

LARGEST_SYSTEM = 1500
"""Most unknowns of all classes together that are solved for at once; with more, conjugate gradients do it."""

MOST_STEPS = 200
MOST_PRODUCTS = 400
CHORDS = 40
"""Steps with one and the same inverse before a labelling gets its own."""

SLOW = 0.6
"""Steps that leave more than this of the residual are too slow to go on with an inverse."""


class SoftmaxMachine(NamedTuple):
    """One model up to its labels.

    Attributes
    ----------
    Q : (M, M) array
        The kernel; with intercepts, bordered by ones, and M = m + 1.
    C : float
    n_classes : int
    m : int
        Number of labels.
    entry_max : float
        ``max |Q_ij|``.
    factor : float
        Upper bound on ``1 + √(Cλ/2) / 2``.
    spread : float
        Upper bound on ``√(λ max Q_ii)``: how far a residual of 1 moves any ``f_ci``.
    reach : float
        Upper bound on ``1 + √(m C max Q_ii / 2) / 2``: how far a change of 1 of the intercepts does.
    """

    Q: Float
    C: float
    n_classes: int
    m: int
    entry_max: float
    factor: float
    spread: float
    reach: float

    @classmethod
    def of(cls, Q: Float, C: float, n_classes: int, *, intercept: bool = False) -> SoftmaxMachine:
        """The largest eigenvalue is at most the largest sum of a row's magnitudes."""
        m = Q.shape[0]
        largest, diagonal = 1.01 * float(np.abs(Q).sum(axis=1).max()), float(np.diag(Q).max())
        if intercept:
            Q = np.block([[Q, np.ones((m, 1))], [np.ones((1, m)), np.zeros((1, 1))]])
        return cls(
            Q=Q,
            C=C,
            n_classes=n_classes,
            m=m,
            entry_max=float(np.abs(Q).max()),
            factor=1.01 * (1.0 + math.sqrt(C / 2.0) * math.sqrt(largest) / 2.0),
            spread=1.01 * math.sqrt(largest) * math.sqrt(diagonal),
            reach=1.01 * (1.0 + math.sqrt(m * C / 2.0) * math.sqrt(diagonal) / 2.0),
        )

    @property
    def intercept(self) -> bool:
        """Whether there are intercepts."""
        return bool(self.Q.shape[0] > self.m)

    def train(self, codes: Int, Z: Float | None = None, inverse: Float | None = None) -> tuple[Float, Float]:
        """Train on many labellings.

        Parameters
        ----------
        codes : (B, m) array
            Class of each label.
        Z : (K, M) array, optional
            Where to start: the solution for similar labels.
        inverse : (KM, KM) array, optional
            From :meth:`inverse` there.

        Returns
        -------
        (B, K, M) array, (B,) array
            Solutions, and bounds on their 2-norm errors: on ``|k·z_c − k·z_c*|`` for every class and ``‖k‖₂ ≤ 1``, but
            for the rounding of that product. With intercepts, up to one number that all classes share.
        """
        shape = (codes.shape[0], self.n_classes, self.Q.shape[0])
        out = np.zeros(shape) if Z is None else np.broadcast_to(Z, shape).copy()
        left = np.arange(codes.shape[0])
        if Z is not None and not self.many:
            left = self._chords(codes, out, self._inverse(Z) if inverse is None else inverse)
        for k in left:
            out[k] = self._newton(codes[k], out[k])
        return out, self._bounds(codes, out)

    @property
    def many(self) -> bool:
        """Whether there are so many labels and classes that no system is written down."""
        return self.n_classes * self.Q.shape[0] > LARGEST_SYSTEM

    def inverse(self, Z: Float) -> Float | None:
        """(KM, KM) inverse of the system of a Newton step at some solution; None where that would be large."""
        return None if self.many else self._inverse(Z)

    def _inverse(self, Z: Float) -> Float:
        return _solved(self._system(self._shares(Z[None])[0]), np.eye(self.n_classes * self.Q.shape[0]))

    def _shares(self, Z: Float) -> Float:
        """(B, K, m) softmax of the margins."""
        f = (Z @ self.Q)[:, :, : self.m]
        p = np.exp(f - f.max(axis=1, keepdims=True))
        return np.asarray(p / p.sum(axis=1, keepdims=True))

    def _residuals(self, codes: Int, Z: Float) -> tuple[Float, Float]:
        """(B, K, M) ``z − h(Qz)``, and behind it the sums of the dual variables; (B, K, m) ``h`` itself."""
        member = codes[:, None, :] == np.arange(self.n_classes)[None, :, None]
        h = self.C * (member - self._shares(Z))
        residual = Z[:, :, : self.m] - h
        if self.intercept:
            residual = np.concatenate([residual, Z[:, :, : self.m].sum(axis=2, keepdims=True)], axis=2)
        return residual, h

    def _system(self, p: Float) -> Float:
        """The system of a Newton step, for the shares (K, m) of one labelling."""
        K, m, M = self.n_classes, self.m, self.Q.shape[0]
        A = np.zeros((K, M, K, M))
        for a in range(K):
            for b in range(K):
                A[a, :m, b] = (self.C * p[a] * ((a == b) - p[b]))[:, None] * self.Q[:m]
            if self.intercept:
                A[a, m, a, :m] = 1.0
                A[a, m, :, m] = 1.0  # of all equivalent intercepts, steps with a sum of 0
            A[a, range(m), a, range(m)] += 1.0
        return A.reshape(K * M, K * M)

    def _good(self, residual: Float, Z: Float) -> Bool:
        """(B,) whether residuals are as small as they need to be, or as rounding lets them be."""
        size, norm = np.linalg.norm(residual, axis=(1, 2)), np.linalg.norm(Z[:, :, : self.m], axis=(1, 2))
        noise = np.minimum(1e-4, UNIT_ROUNDOFF * (8.0 + self.m * self.entry_max * np.abs(Z).sum(axis=2).max(axis=1)))
        good = 1e-2 * GOOD if self.intercept else GOOD
        return np.asarray(size <= np.maximum(good / self.factor, noise) * norm)

    def _chords(self, codes: Int, Z: Float, inverse: Float) -> Int:
        """Improve solutions in place, with one inverse for all; returns the labellings that need one of their own."""
        K, M = Z.shape[1:]
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
            Z[left] -= (residual[go].reshape(left.size, K * M) @ inverse.T).reshape(left.size, K, M)
        return np.concatenate([*slow, left])

    @np.errstate(all="ignore")
    def _newton(self, codes: Int, Z: Float) -> Float:
        """Newton steps for one labelling, shortened so that the residual falls, and none that is not finite."""
        one = codes[None]
        residual, _ = self._residuals(one, Z[None])
        for _ in range(MOST_STEPS):
            if self._good(residual, Z[None])[0]:
                break
            p = self._shares(Z[None])[0]
            step = self._step(p, residual[0]) if self.many else _solved(self._system(p), residual.ravel())
            step = step.reshape(Z.shape)
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

    def _resolved(self, p: Float, right: Float) -> Float:
        """(k, K, m) ``(I + DQ)⁻¹`` times k right sides, by conjugate gradients: D is ``A Aᵀ`` for each label."""
        size, root = math.sqrt(self.C), np.sqrt(p)

        def A(X: Float) -> Float:  # noqa: N802
            return np.asarray(size * (root * X - p * (root * X).sum(axis=1, keepdims=True)))

        def At(X: Float) -> Float:  # noqa: N802
            return np.asarray(size * root * (X - (p * X).sum(axis=1, keepdims=True)))

        return resolved(self.Q[: self.m, : self.m], A, At, right, MOST_PRODUCTS)[0]

    def _step(self, p: Float, residual: Float) -> Float:
        """A Newton step without its system; intercepts make up for what the dual variables would add up to."""
        K, m = self.n_classes, self.m
        if not self.intercept:
            return self._resolved(p, residual[None])[0]
        # D times the intercept of each class alone.
        DE = self.C * p * (np.eye(K)[:, :, None] - p[:, None, :])
        found = self._resolved(p, np.concatenate([residual[None, :, :m], DE]))
        step, effects = found[0], found[1:]
        beta = _solved(1.0 - effects.sum(axis=2).T, residual[:, m] - step.sum(axis=1))
        return np.column_stack([step - np.einsum("b,bam->am", beta, effects), beta])

    def _bounds(self, codes: Int, Z: Float) -> Float:
        """(B,) proved bounds on the distances from the optima."""
        m, K, u = self.m, self.n_classes, UNIT_ROUNDOFF
        residual, h = self._residuals(codes, Z)
        sums = residual[:, :, m:]
        parts = (residual[:, :, :m], h, Z, sums)
        computed, size, norm, excess = (np.linalg.norm(values, axis=(1, 2)) for values in parts)
        err = 1.01 * u * (m + 4) * self.entry_max * np.abs(Z).sum(axis=2).max(axis=1) + m * 1e-290
        # Each share changes by at most itself times twice the change of f; exponentials are good to a few units.
        shares = self.C * math.sqrt(m) * (2.05 * err + (K + 40) * u)
        total = 1.01 * (1.01 * computed + shares + 8 * u * (size + norm) + K * m * 1e-290 * (1.0 + self.C))
        off = 1.01 * self.factor * total
        if self.intercept:
            uneven = 1.01 * (excess + K * err + math.sqrt(m) * off)
            falls = self._falls(Z, self._directions(Z[0]))
            for k in np.flatnonzero(falls == 0.0):
                falls[k] = self._falls(Z[k : k + 1], self._directions(Z[k]))[0]
            with np.errstate(over="ignore", divide="ignore"):  # infinite where nothing is proved
                shift = 2.75 * uneven / falls
                moved = self.reach * shift + self.spread * total + err
            shift[~(moved <= 0.2)] = np.inf
            off = off + 1.01 * shift * (1.0 + self.factor * self.C / 2.0 * math.sqrt(m))
        return np.where(err < 1e-3, off, np.inf)

    def _falls(self, Z: Float, U: Float) -> Float:
        """(B,) lower bounds on the smallest eigenvalue of S, beside that of equal intercepts; 0: none is proved."""
        K, m, Q = self.n_classes, self.m, self.Q[: self.m, : self.m]
        p = self._shares(Z)
        pairs, alone = np.einsum("zam,zbm->zabm", p, p), np.einsum("zam,ab->zabm", p, np.eye(K))
        E = np.repeat(_differences(K)[:, None], m, axis=1)
        DU = self.C * np.einsum("zabm,bmx->zamx", alone - pairs, U)
        first = np.einsum("cmx,zcmy->zxy", E, DU)
        low = first + first.transpose(0, 2, 1) - np.einsum("cmx,zcmy->zxy", U, DU)
        low -= np.einsum("zcmx,zcmy->zxy", DU, np.matmul(Q, DU))
        sizes = self.C * np.einsum("zabm,bmx->zamx", alone + pairs, np.abs(U))
        # Every entry of a sum over all labels and classes, on and off the diagonal.
        terms = np.einsum("cm,zcm->z", (2 * np.abs(E) + np.abs(U)).sum(axis=2), sizes.sum(axis=3))
        rounding = 8.0 * UNIT_ROUNDOFF * (K * m + K + 8) * (terms + self.entry_max * sizes.sum(axis=(1, 2, 3)) ** 2)
        # Shares have a relative error of less than 1/200 (the bound asks for it), and so have D and S.
        return np.asarray(np.maximum(0.9 * (np.linalg.eigvalsh(low)[:, 0] - rounding), 0.0))

    def _directions(self, Z: Float) -> Float:
        """(K, m, K - 1) the best ``U = E − Q(I + DQ)⁻¹DE`` at some solution; good for similar labels, too."""
        K, m = self.n_classes, self.m
        p = self._shares(Z[None])[0]
        E = np.repeat(_differences(K)[:, None], m, axis=1)
        DE = self.C * (p[:, :, None] * E - p[:, :, None] * np.einsum("bm,bmx->mx", p, E))
        if self.many:
            V = self._resolved(p, np.ascontiguousarray(DE.transpose(2, 0, 1))).transpose(1, 2, 0)
        else:
            M = self.Q.shape[0]
            system = self._system(p).reshape(K, M, K, M)[:, :m, :, :m].reshape(K * m, K * m)
            V = _solved(system, DE.reshape(K * m, K - 1)).reshape(K, m, K - 1)
        return np.asarray(E - np.matmul(self.Q[:m, :m], V))


def _solved(A: Float, right: Float) -> Float:
    """A solution of a linear system, or zeros where float64 finds none: nobody believes it anyway."""
    try:
        return np.asarray(np.linalg.solve(A, right))
    except np.linalg.LinAlgError:
        return np.zeros_like(right)


def _differences(K: int) -> Float:
    """(K, K - 1) orthonormal columns that add up to 0: all that matters of intercepts."""
    return np.asarray(np.linalg.qr(np.column_stack([np.ones(K), np.eye(K)[:, : K - 1]]))[0][:, 1:])
