"""Linear models by their d features: trained in the primal, many labellings at once, with proved error bounds.

The model minimises ``½ w·Rw + Σ c_i loss(y_i, φ_i·w)``; R is 1 on the diagonal, 0 for an intercept. Where labels
differ in a few places, so do the optima, and one matrix M, nearly the inverse of the Hessian H at the clean optimum,
serves all of them as preconditioner of nonlinear conjugate gradients: two products of matrices a step.

The bound. Let g be the gradient at any w, w* the optimum, and G the mean Hessian between them: ``g = G (w − w*)``.
Where everything is regularised, ``G ≽ 1`` and so ``‖w − w*‖ ≤ ‖g‖``. An intercept that is not has a place in all
scores, so that for ``v = (u, β)``

    v·Gv ≥ ‖u‖² + Σ d_j (x_j·u + β)² ≥ ‖u‖² + s (x̄·u + β)² ≥ μ ‖v‖²,      μ = s / (1 + s + s ‖x̄‖²),

with slopes ``d_j``, their sum s and the mean x̄ that they weigh. (Of a softmax, ``d_j`` is c times the smallest share of
a class, and intercepts have the sum 0, which is kept by a ridge on that sum.) Slopes change by no more than
``exp(±ρ)`` where scores change by ρ, so slopes at w serve for G times ``(1 − exp(−κe)) / κe``, with ``e = ‖w − w*‖``
and ``κ = max ‖φ_j‖``. Then ``e ≤ −log(1 − κ ‖g‖ / μ) / κ``. The score of a row φ is off by at most ``‖φ‖ e``. The
rounding of g is a part of it.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import scipy.linalg

from labelcert.arrays import Float, Int
from labelcert.errors import InvalidInput
from labelcert.stopping import go_on
from labelcert.svm.pivoting import UNIT_ROUNDOFF

MOST_STEPS = 80
PATIENCE = 12
"""Steps without progress, beyond which no more is to be had from one preconditioner."""

REFRESHED = 6
"""How often a labelling on which M is of no use gets a Hessian of its own."""

ROWS = 4096
"""Rows that are added up at a time, so that sums over many labels keep their digits."""

LARGEST_INVERSE = 3000
"""Beyond so many weights, only the diagonal blocks of H are formed, one for each class."""

BATCH_BYTES = 6.4e7
"""Memory for the scores of all labels in one batch of trainings."""


class Slopes(ABC):
    """A loss as primal training sees it: its derivatives by the scores (N, K, ...) of labels with some codes.

    Attributes
    ----------
    steepest : float
        Largest second derivative, as a multiple of c.
    alike : bool
        Second derivatives differ at most by ``exp(ρ)`` where scores differ by at most ρ, and do not ask for the label.
    """

    steepest: float
    alike: bool = True

    @abstractmethod
    def residual(self, F: Float, codes: Int, c: Float) -> Float:
        """First derivatives; F is (N, K, B), codes and c are (N, 1) or (N, B)."""

    @abstractmethod
    def product(self, F: Float, P: Float, codes: Int, c: Float) -> Float:
        """(N, K, B) second derivatives times P."""

    def bend(self, F: Float, P: Float, codes: Int, c: Float) -> Float:
        """(B,) second derivatives of the sum of all losses along P."""
        return _dots(self.product(F, P, codes, c), P)

    def least(self, F: Float, c: Float) -> Float:
        """(N, B) smallest second derivatives (of a softmax, among directions that add up to 0)."""
        raise NotImplementedError(f"{type(self).__name__} needs a regularised intercept")

    @abstractmethod
    def hessian(self, F: Float, codes: Int, c: Float) -> Float:
        """(N, K, K) second derivatives; F is (N, K)."""


class LogisticSlopes(Slopes):
    """One output; code 1 is the class whose score it is."""

    steepest = 0.25

    def residual(self, F: Float, codes: Int, c: Float) -> Float:
        """``c (σ(f) − code)``."""
        out = np.tanh(0.5 * F)
        out *= 0.5
        out += (0.5 - codes)[:, None, :]
        out *= c[:, None, :]
        return out

    def product(self, F: Float, P: Float, codes: Int, c: Float) -> Float:
        """``c σ(f) σ(−f) P``."""
        out = np.tanh(0.5 * F)
        out *= out
        np.subtract(1.0, out, out=out)
        out *= 0.25 * c[:, None, :]
        out *= P
        return out

    def least(self, F: Float, c: Float) -> Float:
        """The only one."""
        return np.asarray(self.hessian(F[:, 0], np.zeros(0, dtype=np.int64), c)[:, :, 0])

    def hessian(self, F: Float, codes: Int, c: Float) -> Float:
        """The same without cancellation."""
        small = np.exp(-np.minimum(np.abs(F), 600.0))
        return np.asarray((c * small / (1.0 + small) ** 2)[:, :, None])


class SquaredHingeSlopes(Slopes):
    """One output; code 1 is the class whose score it is."""

    steepest = 2.0
    alike = False

    def residual(self, F: Float, codes: Int, c: Float) -> Float:
        """``−2 c y max(0, 1 − y f)``."""
        y = (2.0 * codes - 1.0)[:, None, :]
        return np.asarray(-2.0 * c[:, None, :] * y * np.maximum(0.0, 1.0 - y * F))

    def product(self, F: Float, P: Float, codes: Int, c: Float) -> Float:
        """``2 c P`` where the margin is below 1."""
        return np.asarray(2.0 * c[:, None, :] * ((2.0 * codes - 1.0)[:, None, :] * F < 1.0) * P)

    def hessian(self, F: Float, codes: Int, c: Float) -> Float:
        """The same."""
        return np.asarray((2.0 * c * ((2.0 * codes - 1.0) * F < 1.0))[:, :, None])


class SoftmaxSlopes(Slopes):
    """One output for each class."""

    steepest = 0.5

    def residual(self, F: Float, codes: Int, c: Float) -> Float:
        """``c (softmax(f) − one-hot(code))``."""
        out = softmax(F)
        labels, batch = np.arange(F.shape[0])[:, None], np.arange(F.shape[2])[None, :]
        out[labels, np.broadcast_to(codes, (F.shape[0], F.shape[2])), batch] -= 1.0
        out *= c[:, None, :]
        return out

    def product(self, F: Float, P: Float, codes: Int, c: Float) -> Float:
        """``c (p P − p (p · P))``."""
        p = softmax(F)
        return np.asarray(p * (P - np.einsum("nkb,nkb->nb", p, P)[:, None, :]) * c[:, None, :])

    def bend(self, F: Float, P: Float, codes: Int, c: Float) -> Float:
        """``Σ c (p · P² − (p · P)²)``, in one pass."""
        p = softmax(F)
        p *= P
        mean = p.sum(axis=1)
        p *= P
        return np.asarray(np.einsum("nb,nb->b", p.sum(axis=1) - mean * mean, np.broadcast_to(c, mean.shape)))

    def least(self, F: Float, c: Float) -> Float:
        """The smallest share."""
        return np.asarray(softmax(F).min(axis=1) * c)

    def hessian(self, F: Float, codes: Int, c: Float) -> Float:
        """``c (diag(p) − p pᵀ)``."""
        p = softmax(F[:, :, None])[:, :, 0]
        return np.asarray(c[:, :, None] * (p[:, :, None] * np.eye(p.shape[1]) - p[:, :, None] * p[:, None, :]))


def softmax(F: Float) -> Float:
    """(N, K, B) shares of the classes."""
    out = F - F.max(axis=1, keepdims=True)
    np.exp(out, out=out)
    out /= out.sum(axis=1, keepdims=True)
    return out


def _dots(A: Float, B: Float) -> Float:
    """(B,) inner products of arrays (N, K, B), labelling by labelling."""
    return np.einsum("nb,nb->b", A.reshape(-1, A.shape[-1]), B.reshape(-1, B.shape[-1]))


def _norms(A: Float) -> Float:
    """(B,) 2-norms."""
    return np.sqrt(_dots(A, A))


class Changes(NamedTuple):
    """The labels that each of B labellings changes: label, labelling, and new code of every change."""

    label: Int
    batch: Int
    code: Int
    size: int
    c: Float | None = None
    """(m, B) of all labels, where changes change it: see :mod:`~labelcert.losses.weighted`."""

    @classmethod
    def of(cls, sets: Sequence[tuple[Int, Int]]) -> Changes:
        """From the labels and new codes of each labelling."""
        none = [np.zeros(0, dtype=np.int64)]
        sizes = [labels.size for labels, _ in sets]
        return cls(
            np.concatenate([labels for labels, _ in sets] + none),
            np.repeat(np.arange(len(sets)), sizes),
            np.concatenate([codes for _, codes in sets] + none),
            len(sets),
        )

    def only(self, batch: Int) -> Changes:
        """Some labellings (ascending) alone."""
        place = np.full(self.size, -1)
        place[batch] = np.arange(batch.size)
        kept = place[self.batch] >= 0
        c = None if self.c is None else self.c[:, batch]
        return Changes(self.label[kept], place[self.batch[kept]], self.code[kept], batch.size, c)


NO_CHANGES = Changes.of([(np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64))])
"""The clean labels alone."""


class PrimalMachine:
    """One model on given features, trained on its clean labels.

    Parameters
    ----------
    X : (m, p) array
        Features, a column of ones for an intercept included.
    codes : (m,) array
        Clean labels: 0 or 1 with one output, otherwise classes.
    c : (m,) array
    penalty : (p,) array
        1, or 0 for the intercept.
    outputs : int
        K: scores of a row.

    Attributes
    ----------
    w : (p, K) array
        The clean solution.
    F : (m, K) array
        Its scores.
    D : (m,) array
        Slopes there, which H is made of (of one output).
    H, M : (pK, pK) arrays
        The Hessian there, features first, and nearly its inverse (only where that is not too large).
    norms : (m,) array
        At least ``‖φ_j‖``.
    longest : float
        κ; for a softmax, of differences between classes.
    firm : float
        A lower bound on the eigenvalues of the Hessian at the clean solution.
    over : callable
        Whether trainings have to end; their error bounds say how far they got.
    """

    over: Callable[[], bool] = staticmethod(lambda: False)

    def __init__(self, X: Float, codes: Int, c: Float, penalty: Float, slopes: Slopes, outputs: int = 1) -> None:
        self.X, self.codes, self.c, self.penalty, self.slopes, self.outputs = X, codes, c, penalty, slopes, outputs
        self.m, self.p = X.shape
        self.norms = np.linalg.norm(X, axis=1) * (1.0 + 8 * UNIT_ROUNDOFF * self.p)
        self.longest = float(self.norms.max()) * (1.0 if outputs == 1 else 1.5)
        self._total = float(np.linalg.norm(self.norms)) * (1.0 + 1e-9)
        self._weight, self._weighted = float(c @ self.norms) * 1.01, float(c @ self.norms**2) * 1.01
        self.sum_error = 1.01 * UNIT_ROUNDOFF * (min(self.m, ROWS) + self.m / ROWS + 8)
        self._fit()
        self.F = X @ self.w
        self.firm = 1.0 if np.all(penalty > 0) else float(self._least(self.F[:, :, None], NO_CHANGES)[0])

    # -- the clean optimum -------------------------------------------------------------------------------------------

    def _fit(self) -> None:
        """A start from one preconditioner for all classes, then the Hessian where that leads.

        Raises
        ------
        Stopped
            The run is over.
        """
        K = self.outputs
        share = self.slopes.steepest * (1.0 if K == 1 else 2.0 * (K - 1) / K**2)
        rough = self.X.T @ (self.X * (share * self.c)[:, None]) + np.diag(np.maximum(self.penalty, 1e-9))
        inner = _inverse(rough)
        self._apply = lambda G: (inner @ G.reshape(self.p, -1)).reshape(G.shape)
        self.w = np.zeros((self.p, K))
        for attempt in range(8):
            go_on()
            before = self.X @ self.w
            self.w = self._descend(self.w[:, :, None], NO_CHANGES, 0.0, 0.0)[0][:, :, 0]
            moved = float(np.abs(self.X @ self.w - before).max(initial=0.0))
            done = attempt > 0 and moved < 1e-5
            if moved > 0.0 or not attempt:
                self._set_hessian()  # bounds take it as the one at the solution
            if done:
                break

    def _set_hessian(self) -> None:
        """M from the Hessian at the clean solution; beyond a size, from its diagonal blocks."""
        F, K, size = self.X @ self.w, self.outputs, self.p * self.outputs
        if size <= LARGEST_INVERSE:
            self.H = self._hessian(F, self.codes)
            self.M = _inverse(self.H)
            if K == 1:
                self.D = self.slopes.hessian(F, self.codes[:, None], self.c[:, None])[:, 0, 0]
            self._apply = lambda G: (self.M @ G.reshape(size, -1)).reshape(G.shape)
            return
        blocks = np.zeros((K, self.p, self.p))
        for rows in self._blocks():
            X = self.X[rows]
            D = self.slopes.hessian(F[rows], self.codes[rows, None], self.c[rows, None])
            for k in range(K):
                blocks[k] += X.T @ (X * D[:, k, k][:, None])
        inner = np.stack([_inverse(block + np.diag(np.maximum(self.penalty, 1e-9))) for block in blocks])
        self._apply = lambda G: np.ascontiguousarray((inner @ G.transpose(1, 0, 2)).transpose(1, 0, 2))

    def _hessian(self, F: Float, codes: Int) -> Float:
        """``R + Σ φφᵀ ⊗ D`` at some scores (m, K), features first."""
        p, K = self.p, self.outputs
        H = np.zeros((p, K, p, K))
        for rows in self._blocks():
            X = self.X[rows]
            D = self.slopes.hessian(F[rows], codes[rows, None], self.c[rows, None])
            for k in range(K):
                for other in range(k, K):
                    H[:, k, :, other] += X.T @ (X * D[:, k, other][:, None])
        for k in range(K):
            for other in range(k):
                H[:, k, :, other] = H[:, other, :, k].T
            H[np.arange(p), k, np.arange(p), k] += self.penalty
        free = np.flatnonzero(self.penalty == 0)
        if K > 1:
            H[free, :, free, :] += 1.0 / K
        flat = H.reshape(p * K, p * K)
        return np.asarray((flat + flat.T) / 2)

    def _blocks(self) -> list[slice]:
        return [slice(start, start + ROWS) for start in range(0, self.m, ROWS)]

    def _ridge(self, W: Float) -> Float:
        """``R w``; a softmax does not see the sum of all intercepts, which is kept at 0."""
        out = W * self.penalty[:, None, None]
        free = self.penalty == 0
        if self.outputs > 1 and free.any():
            out[free] = W[free].mean(axis=1, keepdims=True)
        return out

    # -- training ----------------------------------------------------------------------------------------------------

    def batch_size(self) -> int:
        """How many labellings fit into one batch."""
        return max(1, int(BATCH_BYTES / (8 * self.m * self.outputs)))

    def train(self, changes: Changes, start: Float | None = None, accuracy: float = 0.0, near: float = 0.0) -> Float:
        """(p, K, B) solutions for changed labels; as accurate as float64 allows.

        Or to an ``accuracy`` of ``‖g‖``, or until they are as ``near`` the optimum, in the norm of H.
        """
        start = self.start(changes) if start is None else start
        W, left = self._descend(start, changes, accuracy, near)
        for b in left if self.p * self.outputs <= LARGEST_INVERSE else ():
            if self.over():
                break
            W[:, :, b] = self._refreshed(W[:, :, b], changes.only(np.array([b])), accuracy, near)
        return W

    def _refreshed(self, w: Float, change: Changes, accuracy: float, near: float) -> Float:
        """(p, K) one solution, by Hessians of its own."""
        codes, W = self.codes.copy(), w[:, :, None]
        codes[change.label] = change.code
        for _ in range(REFRESHED):
            factor = _factor(self._hessian(self.X @ W[:, :, 0], codes))
            W, left = self._descend(W, change, accuracy, near, _solver(factor))
            if left.size == 0:
                break
        return W[:, :, 0]

    def start(self, changes: Changes) -> Float:
        """(p, K, B) what one step from the clean solution foretells."""
        return np.asarray(self.w[:, :, None] + self._apply(self.impulses(changes)))

    def impulses(self, changes: Changes) -> Float:
        """(p, K, B) by how much changes of labels move the gradient at the clean solution."""
        pulls = self.pull(self.F[changes.label][:, :, None], changes.code, changes.label)
        out = np.zeros((changes.size, self.outputs, self.p))
        np.add.at(out, changes.batch, pulls * self.X[changes.label][:, None, :])
        return np.ascontiguousarray(out.transpose(2, 1, 0))

    def bounded(self, G: Float, wrong: Float, F: Float, changes: Changes) -> Float:
        """(B,) bounds on the distance of solutions from the optimum, from what :meth:`gradient` says about them.

        All outputs together; infinite for no bound.
        """
        n = 1.01 * (_norms(G) + wrong)
        if np.all(self.penalty > 0):
            return np.asarray(n)
        least = self._least(F, changes)
        with np.errstate(divide="ignore", invalid="ignore"):
            steps = 1.01 * self.longest * n / least
            bound = -1.01 * np.log1p(-np.minimum(steps, 0.9)) / self.longest
        return np.where(steps < 0.9, bound, np.inf)

    def gradient(self, W: Float, changes: Changes) -> tuple[Float, Float, Float]:
        """(p, K, B) gradients, how far each may be off, and the (m, K, B) scores of all labels."""
        G, r, F = self._gradient(W, changes)
        return G, self._rounding(W, r), F

    def _rounding(self, W: Float, r: Float) -> Float:
        """(B,) how far a computed gradient may be off."""
        u, norm, size = UNIT_ROUNDOFF, _norms(W), _norms(r)
        scores = self.slopes.steepest * 1.01 * u * (self.p + 2) * norm * self._weighted
        labels = 16 * u * (math.sqrt(self.outputs) * self._weight + size * self._total)
        return np.asarray(scores + labels + self.sum_error * size * self._total + 8 * u * norm)

    def _least(self, F: Float, changes: Changes) -> Float:
        return self._least_with(F, self.c[:, None])

    def _least_with(self, F: Float, c: Float) -> Float:
        """(B,) lower bounds on the Hessian's eigenvalues where an intercept is not regularised."""
        d = self.slopes.least(F, c)
        total = 0.99 * d.sum(axis=0)
        free = self.penalty == 0
        offset = np.linalg.norm(self.X[:, ~free].T @ d, axis=0) / total
        return np.asarray(0.98 * np.minimum(1.0, total / (1.0 + total + total * offset**2)))

    def _gradient(self, W: Float, changes: Changes) -> tuple[Float, Float, Float]:
        F = (self.X @ W.reshape(self.p, -1)).reshape(self.m, self.outputs, -1)
        r = self._residuals(F, changes)
        return self._ridge(W) + self._back(r), r, F

    def _back(self, r: Float) -> Float:
        """``Φᵀ r``, some rows at a time."""
        flat = r.reshape(self.m, -1)
        total = self.X[:ROWS].T @ flat[:ROWS]
        for rows in self._blocks()[1:]:
            total += self.X[rows].T @ flat[rows]
        return np.asarray(total.reshape(self.p, *r.shape[1:]))

    def _residuals(self, F: Float, changes: Changes) -> Float:
        r = self.slopes.residual(F, self.codes[:, None], self.c[:, None])
        label, batch = changes.label, changes.batch
        own = self.slopes.residual(F[label, :, batch][:, :, None], changes.code[:, None], self.c[label][:, None])
        r[label, :, batch] = own[:, :, 0]
        return r

    def _descend(
        self, W: Float, changes: Changes, accuracy: float, near: float, apply: Callable[[Float], Float] | None = None
    ) -> tuple[Float, Int]:
        """Nonlinear conjugate gradients, preconditioned (with M), and Newton's method along each line.

        Returns
        -------
        (p, K, B) array, array
            Solutions, and those of them that are far from what was asked for.
        """
        apply = self._apply if apply is None else apply
        W, active, now, part = W.copy(), np.arange(W.shape[2]), W, changes
        far = np.zeros(W.shape[2], dtype=bool)
        G, r, F = self._gradient(now, part)
        P, before, size = np.zeros_like(G), G, np.ones(active.size)
        best, stale = np.full(active.size, np.inf), np.zeros(active.size, dtype=int)
        for _ in range(MOST_STEPS):
            if self.over():
                break
            Z = apply(G)
            n = _dots(G, Z)
            stale = np.where(n < 0.5 * best, 0, stale + 1)
            best = np.minimum(best, n)
            miss = _norms(G) / np.maximum(accuracy, 0.2 * self._rounding(now, r))
            if near > 0.0:
                miss = np.minimum(miss, np.sqrt(np.maximum(n, 0.0)) / near)
            going = (miss > 1.0) & (stale < PATIENCE)
            far[active] = ~(miss < 10.0)
            if going.mean() < 0.7:
                W[:, :, active] = now
                keep = np.flatnonzero(going)
                active, part = active[keep], part.only(keep)
                now, G, Z, F, P, before = (array[:, :, keep] for array in (now, G, Z, F, P, before))
                n, best, stale, size = n[keep], best[keep], stale[keep], size[keep]
            if active.size == 0:
                break
            P = np.maximum(_dots(G - before, Z) / np.maximum(size, 1e-300), 0.0) * P - Z
            uphill = _dots(P, G) >= 0.0
            P[:, :, uphill] = -Z[:, :, uphill]
            before, size = G, n
            XP = (self.X @ P.reshape(self.p, -1)).reshape(F.shape)
            alpha, r = self._line(now, P, F, XP, G, part)
            now, F = now + alpha * P, F + alpha * XP
            G = self._ridge(now) + self._back(r)
        W[:, :, active] = now
        return W, np.flatnonzero(far)

    def influence(self, W: Float, V: Float) -> tuple[Float, Float]:
        """(m, K, B) by how much scores in directions V (p, K, B) move for a unit of each label's pull, at solutions W.

        Also the scores of all labels there. A forecast: conjugate gradients on the Hessian of each solution.
        """
        F = (self.X @ W.reshape(self.p, -1)).reshape(self.m, self.outputs, -1)
        out, rest = np.zeros_like(V), V.copy()
        Z = self._apply(rest)
        P, now = Z, _dots(rest, Z)
        first = now
        for _ in range(25):
            XP = (self.X @ P.reshape(self.p, -1)).reshape(F.shape)
            image = self._ridge(P) + self._back(self.slopes.product(F, XP, self.codes[:, None], self.c[:, None]))
            alpha = now / np.maximum(_dots(P, image), 1e-300)
            out += alpha * P
            rest -= alpha * image
            Z = self._apply(rest)
            now, before = _dots(rest, Z), now
            if np.all(now <= 1e-4 * first):
                break
            P = Z + now / np.maximum(before, 1e-300) * P
        return (self.X @ out.reshape(self.p, -1)).reshape(F.shape), F

    def pull(self, F: Float, codes: Int, labels: Int) -> Float:
        """(N, K, B) with what force some labels pull after they become ``codes``, beyond what they did before."""
        c = self.c[labels][:, None]
        before = self.slopes.residual(F, self.codes[labels][:, None], c)
        return np.asarray(before - self.slopes.residual(F, codes[:, None], c))

    def _line(self, W: Float, P: Float, F: Float, XP: Float, G: Float, changes: Changes) -> tuple[Float, Float]:
        """(B,) steps to where the derivative along P is small, and residuals there."""
        first = _dots(G, P)
        RP = self._ridge(P)
        ridge = _dots(RP, P)
        linear = _dots(RP, W)
        # Changed labels may bend it differently; the search along the line makes up for that.
        bend = np.maximum(ridge + self.slopes.bend(F, XP, self.codes[:, None], self.c[:, None]), 1e-300)
        alpha = -first / bend
        low, high, at_low = np.zeros_like(alpha), np.full_like(alpha, np.inf), first.copy()
        for _ in range(12):
            r = self._residuals(F + alpha * XP, changes)
            slope = linear + alpha * ridge + _dots(r, XP)
            todo = np.abs(slope) > 0.3 * np.abs(first)
            if not todo.any():
                break
            behind = slope > 0
            high = np.where(behind, alpha, high)
            with np.errstate(divide="ignore", invalid="ignore"):
                secant = low + (alpha - low) * at_low / (at_low - slope)
            low, at_low = np.where(behind, low, alpha), np.where(behind, at_low, slope)
            within = (secant > low) & (secant < high)
            fallback = np.where(np.isfinite(high), (low + high) / 2, 4.0 * alpha)
            alpha = np.where(todo, np.where(within, np.minimum(secant, 8.0 * alpha), fallback), alpha)
        return alpha, r


def bytes_to_train(m: int, p: int, classes: int) -> int:
    """An estimate of the memory that models of all classes take, for their systems and for batches of trainings."""
    whole = p * classes if p * classes <= LARGEST_INVERSE else p
    systems = 4 * whole**2 + 3 * classes * p**2
    return 8 * (systems + 2 * m * p) + 20 * int(max(BATCH_BYTES, 8 * m * classes))


def _factor(H: Float) -> tuple[Float, bool]:
    """The Cholesky factor of a positive definite matrix."""
    try:
        found: tuple[Float, bool] = scipy.linalg.cho_factor(H, lower=True, check_finite=False)
    except np.linalg.LinAlgError:
        raise InvalidInput(
            "the features are so nearly dependent that float64 cannot train on them; standardise them "
            "(scikit-learn: StandardScaler), or use a smaller C"
        ) from None
    return found


def _solver(factor: tuple[Float, bool]) -> Callable[[Float], Float]:
    """Solves with a factorised matrix, for arrays (p, K, B)."""
    return lambda G: scipy.linalg.cho_solve(factor, G.reshape(factor[0].shape[0], -1)).reshape(G.shape)


def _inverse(H: Float) -> Float:
    """The inverse of a positive definite matrix, exactly symmetric."""
    inverse, _ = scipy.linalg.lapack.dpotri(_factor(H)[0], lower=1)
    lower = np.tril(inverse)
    return np.asarray(lower + np.tril(lower, -1).T)
