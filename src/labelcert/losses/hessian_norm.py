"""How far solutions of a linear model are from the optimum, in the norm of its Hessian at the clean one.

Let H be the Hessian at the clean optimum, M nearly its inverse, and ``B_j = φ_j ⊗ 1`` what takes weights to the scores
of label j. Let g be the gradient at a solution for changed labels, S these labels, and ``ρ_j`` the range over classes
of the change of score j (with one output, its size). Slopes change by no more than ``exp(±ρ)`` where scores change by
ρ: the derivative of a variance under a softmax along Δ is at most the range of Δ times it. So the mean Hessian on the
way to the optimum is at least ``exp(−r) (1 − Σ_S ℓ_i) H (1 − exp(−κe)) / κe``, where r bounds the changes of scores
outside of S, ``ℓ_i`` is the leverage of label i, and ``κ ‖v‖_H`` bounds the range of any ``B_jᵀ v``. For ν, the bound
on ``‖g‖_{H⁻¹}`` over what is left of H, ``e ≤ −log(1 − κν) / κ`` bounds the distance from the optimum in the norm of H,
and the score of a row φ for class k is off by at most ``‖φ ⊗ e_k‖_{H⁻¹} e``.

M is proved good by ``η = ‖1 − HM‖``, a bound on the distance of the eigenvalues of ``H^½ M H^½`` from 1, in any norm.
"""

from __future__ import annotations

import itertools
import math

import numpy as np

from labelcert.arrays import Float
from labelcert.losses.primal import LARGEST_INVERSE, NO_CHANGES, Changes, PrimalMachine, softmax
from labelcert.svm.pivoting import UNIT_ROUNDOFF

LEFT_OUT = 0.1
"""Leverage of the labels that bounds on the mean Hessian do without."""


class HessianNorm:
    """The norm of one model, whose slopes are alike.

    Parameters
    ----------
    machine : PrimalMachine

    Attributes
    ----------
    eta : float
        Infinite where M is not proved good.
    reach : (m,) array
        At least the range of ``B_jᵀ v`` for any v of norm 1; with one output, ``‖φ_j‖_{H⁻¹}``.
    leverage : (m,) array
        At least that of each label.
    tame : (m,) array
        All labels but few, whose reach is long and whose leverage is small.
    """

    def __init__(self, machine: PrimalMachine) -> None:
        self.machine = machine
        size, K, u = machine.p * machine.outputs, machine.outputs, UNIT_ROUNDOFF
        h = np.sqrt(np.diag(machine.H)) * (1.0 + 1e-6)
        scaled = (np.eye(size) - machine.H @ machine.M) * (h[None, :] / h[:, None])
        total = float((np.abs(machine.M) * h[:, None] * h[None, :]).sum())
        rounding = 2.0 * machine.sum_error + 1.01 * u * (size + 8)
        eta = 1.01 * (float(np.abs(scaled).sum(axis=1).max()) + rounding * (total + size))
        self._weights = np.sqrt(np.maximum(np.diag(machine.M), 0.0)).reshape(machine.p, K)
        self._root, self.share = 1.0, 1.01 * u * (2 * size + 8)
        # Slopes are off by a few units themselves, and as far as the scores are.
        off = u * (128 + 8 * K + 8 * (machine.p + 4) * machine.norms * float(np.linalg.norm(machine.w)))
        lengths = self.lengths(machine.X)
        eta += 2.0 * float((machine.c * off * (lengths**2).sum(axis=1)).sum())
        self.eta = eta if eta < 0.4 else math.inf
        if not math.isfinite(self.eta):
            self._root = self._longest = self.least = self.residue = math.inf
            self.reach = self.leverage = np.full(machine.m, np.inf)
            self.tame = np.ones(machine.m, dtype=bool)
            return
        self._root = (1.0 + 1e-6) / math.sqrt(1.0 - eta)
        lengths *= self._root
        top = np.sort(lengths, axis=1)[:, -2:]
        self.reach = top.sum(axis=1)
        self.leverage = self._leverages(lengths)
        order = np.argsort(-self.reach)
        self.tame = np.ones(machine.m, dtype=bool)
        self.tame[order[np.cumsum(self.leverage[order]) <= LEFT_OUT]] = False
        self._longest = float(self.reach[self.tame].max(initial=0.0)) + 1e-300
        self.least = self._root * math.sqrt(float(np.abs(machine.M).sum(axis=1).max()))
        G, wrong, _ = machine.gradient(machine.w[:, :, None], NO_CHANGES)
        self.residue = float(self.size(G, wrong)[0])

    def _leverages(self, lengths: Float) -> Float:
        """Largest eigenvalues of ``D^½ B_jᵀ H⁻¹ B_j D^½``."""
        machine, K = self.machine, self.machine.outputs
        if K == 1:
            return np.asarray(machine.D * lengths[:, 0] ** 2)
        M, A = machine.M.reshape(machine.p, K, machine.p, K), np.empty((machine.m, K, K))
        for k, other in itertools.combinations_with_replacement(range(K), 2):
            A[:, k, other] = A[:, other, k] = np.einsum("np,np->n", machine.X @ M[:, k, :, other], machine.X)
        q = softmax(machine.F[:, :, None])[:, :, 0]
        # D = R Rᵀ with R = √c (1 − q 1ᵀ) √diag(q).
        R = np.sqrt(machine.c)[:, None, None] * (np.eye(K) - q[:, :, None]) * np.sqrt(q)[:, None, :]
        found = np.linalg.eigvalsh(R.transpose(0, 2, 1) @ A @ R)[:, -1]
        noise = 64 * (machine.p + K) * UNIT_ROUNDOFF * machine.c * (lengths**2).sum(axis=1)
        return np.asarray(self._root**2 * np.maximum(found, 0.0) * (1.0 + 1e-9) + noise)

    def lengths(self, rows: Float) -> Float:
        """(N, K) bounds on ``‖φ ⊗ e_k‖_{H⁻¹}`` of some rows."""
        machine, K = self.machine, self.machine.outputs
        M = machine.M.reshape(machine.p, K, machine.p, K)
        square = np.stack([np.einsum("np,np->n", rows @ M[:, k, :, k], rows) for k in range(K)], axis=1)
        noise = 1.01 * UNIT_ROUNDOFF * (2 * machine.p + 8) * (np.abs(rows) @ self._weights) ** 2
        return np.asarray(self._root * np.sqrt(np.maximum(square, 0.0) + noise))

    def length(self, rows: Float) -> Float:
        """(N,) the same with one output."""
        return self.lengths(rows)[:, 0]

    def noise(self, rows: Float) -> Float:
        """(N,) with one output, numbers whose products, times :attr:`share`, bound the rounding of ``φ M φ'``."""
        return np.asarray(np.abs(rows) @ self._weights[:, 0])

    def size(self, G: Float, wrong: Float) -> Float:
        """(B,) bounds on ``‖g‖_{H⁻¹}`` of gradients (p, K, B) that may be off by so much."""
        flat = G.reshape(-1, G.shape[-1])
        square = np.einsum("pb,pb->b", flat, self.machine.M @ flat)
        square = np.maximum(square, 0.0) + self.share * (self._weights.ravel() @ np.abs(flat)) ** 2
        return np.asarray(self._root * np.sqrt(square) + 1.01 * self.least * wrong)

    def near(self, W: Float, G: Float, wrong: Float, F: Float, changes: Changes) -> Float:
        """(B,) bounds on the distance from the optimum, from gradients and scores (m, K, B); infinite for no bound."""
        if not math.isfinite(self.eta) or changes.c is not None:
            return np.full(W.shape[-1], np.inf)
        machine = self.machine
        moved = F - machine.F[:, :, None]
        rho = np.abs(moved[:, 0]) if machine.outputs == 1 else moved.max(axis=1) - moved.min(axis=1)
        own = rho[changes.label, changes.batch]
        rho[changes.label, changes.batch] = 0.0
        norm = np.sqrt((W * W).sum(axis=(0, 1))) + float(np.linalg.norm(machine.w))
        off = 8 * UNIT_ROUNDOFF * (machine.p + 4) * float(machine.norms.max()) * norm
        rest = rho[self.tame].max(axis=0, initial=0.0) + off
        lost = np.zeros(rest.size)
        more = np.maximum(0.0, own + off[changes.batch] - rest[changes.batch])
        np.add.at(lost, changes.batch, -self.leverage[changes.label] * np.expm1(-more))
        return self.distance(self.size(G, wrong), rest, 1.0 - 1.01 * lost)

    def distance(self, n: Float, rest: Float, share: Float) -> Float:
        """E from a bound on ``‖g‖_{H⁻¹}``, one on the changes of scores, and the share of H that is left."""
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            steps = 1.02 * n * np.exp(rest) / np.maximum(share - LEFT_OUT, 1e-300) * self._longest
            steps = np.where(np.isfinite(steps), steps, np.inf)
            return np.where(steps < 0.9, -1.01 * np.log1p(-np.minimum(steps, 0.9)) / self._longest, np.inf)


def norm_of(machine: PrimalMachine) -> HessianNorm | None:
    """The norm of a model, if there is one: slopes are alike, and H is not too large."""
    known = machine.slopes.alike and machine.p * machine.outputs <= LARGEST_INVERSE
    return HessianNorm(machine) if known else None
