"""Signs of scores, decided rigorously: float64 with a proved error bound, rational arithmetic where that is not enough.

A scorer answers one question for any labelling: which test scores are positive, negative, exactly zero? Engines
find labellings; what a certificate says about them rests on these answers.
"""

from __future__ import annotations

import math
import threading
from abc import ABC, abstractmethod
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.linalg

from labelcert.problem import Problem
from labelcert.svm.exact import ExactRidge, ExactSVM, to_integers
from labelcert.svm.pivoting import UNIT_ROUNDOFF, Machine, Scratch, bound, new_scratch, settle

Float = npt.NDArray[np.float64]
Signs = npt.NDArray[np.int8]
Nodes = npt.NDArray[np.intp]

UNDECIDED = np.int8(9)
"""Sign of a score that is too close to zero for float64 in a problem too large for rational arithmetic."""

EXACT_LIMIT = 300
"""Largest m for which a linear system is solved in rational arithmetic."""


class Scorer(ABC):
    """Decides the signs of all test scores under any labelling.

    Attributes
    ----------
    problem : Problem
    rows : (n, m) array
        What is multiplied by ``z`` (or by the labels, where scores are linear), scaled by powers of two to
        norms at most 1.
    clean : (n,) array
        Sign of each clean score: 0 where it is exactly zero.
    scale : (n,) array
        What multiplies the scores of the scaled rows back.
    decision : (n,) array
        Clean scores, for information.
    """

    problem: Problem
    rows: Float
    scale: Float
    clean: Signs
    decision: Float

    @property
    def exact(self) -> bool:
        """Whether rational arithmetic is within reach."""
        return self.problem.m <= EXACT_LIMIT

    @abstractmethod
    def approximate(self, y: Float, nodes: Nodes | None = None) -> tuple[Float, float]:
        """Scores of the scaled rows (all, or those of some nodes) and one error bound for all of them."""

    @abstractmethod
    def exact_solution(self, y: Float) -> tuple[list[Any], Any] | None:
        """``(Z, D)`` such that ``row·Z / D``, with the row in integers, is the score up to a positive factor.

        The factor depends on the row alone, so that scores of one node under different labels can be compared. None
        where rational arithmetic is out of reach. Called right after :meth:`approximate` on the same labels.
        """

    @abstractmethod
    def exact_signs(self, y: Float, nodes: Nodes) -> Signs:
        """Signs of some nodes in rational arithmetic (``UNDECIDED`` where that would be too large).

        Called right after :meth:`approximate` on the same labels.
        """

    def signs(self, y: Float, nodes: Nodes | None = None) -> Signs:
        """Signs of test scores after training on labels ``y`` (±1): -1, 0, 1 (or ``UNDECIDED``).

        Parameters
        ----------
        y : (m,) array
        nodes : index array, optional
            Which test nodes; all by default.
        """
        return self._decide(y, nodes, *self.approximate(y, nodes))

    def changed(self, y: Float, nodes: Nodes | None = None) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
        """Nodes provably changed by labels ``y``, and nodes provably unchanged (both False: undecided)."""
        product = self.signs(y, nodes) * (self.clean if nodes is None else self.clean[nodes])
        decided = np.abs(product) <= 1
        return decided & (product <= 0), decided & (product > 0)

    def _decide(self, y: Float, nodes: Nodes | None, p: Float, tau: float) -> Signs:
        out = np.sign(p).astype(np.int8)
        doubtful = np.flatnonzero(~(np.abs(p) > tau))
        if doubtful.size:
            out[doubtful] = self.exact_signs(y, doubtful if nodes is None else nodes[doubtful])
        return out

    def integer_row(self, t: int) -> list[int]:
        """Test row ``t`` in integers, up to a power of two."""
        if t not in self._integers:
            self._integers[t] = to_integers(self.problem.K_test[t : t + 1])[0][0]
        return self._integers[t]

    def _exact_products(self, Z: list[Any], nodes: Nodes) -> Signs:
        """Signs of the products of some test rows with exact numbers."""
        products = (sum(k * v for k, v in zip(self.integer_row(int(t)), Z, strict=True)) for t in nodes)
        return np.array([_sign(p) for p in products], dtype=np.int8)

    def _products(self, z: Float, nodes: Nodes | None) -> Float:
        if nodes is None:
            return self.rows @ z
        if nodes.size <= 4:  # waking up the threads of a BLAS would cost more than the sum
            return np.sum(self.rows[nodes] * z, axis=1)
        return self.rows[nodes] @ z

    def _finish(self, scale: Float) -> None:
        self.scale = scale
        self._integers: dict[int, list[int]] = {}
        y = self.problem.y
        p, tau = self.approximate(y)
        self.decision = p * scale
        self.clean = self._decide(y, None, p, tau)
        self.decision[self.clean == 0] = 0.0


class HingeScorer(Scorer):
    """The SVM, retrained."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.rows, scale = unit_rows(problem.K_test)
        Q, C = problem.K_train, problem.C
        largest = float(np.abs(Q).max())
        diagonal = float(np.diag(Q).max())
        well = problem.min_eig >= 1e-9 * largest
        gap_ridge = 0.0 if well else 2.0**-46 * diagonal
        self.machine = Machine(
            Q=Q,
            C=C,
            ridge=0.0 if well else 2.0**-40 * diagonal,
            min_eig=problem.min_eig,
            entry_max=largest,
            row_norm=1.01 * float(np.linalg.norm(Q, axis=1).max()),
            gap_ridge=gap_ridge,
            gap_factor=_gap_factor(Q, self.rows, gap_ridge, problem.min_eig),
        )
        self._threads = threading.local()
        self._exact: ExactSVM | None = None
        self._finish(scale)

    @property
    def _scratch(self) -> Scratch:
        """Memory to train in, one for each thread."""
        if not hasattr(self._threads, "scratch"):
            self._threads.scratch = new_scratch(self.problem.m)
        return self._threads.scratch

    def approximate(self, y: Float, nodes: Nodes | None = None) -> tuple[Float, float]:
        """Retrain in float64."""
        s = self._scratch
        s.chill()
        y = y.copy()  # always writable: compiled code knows read-only arrays as another type
        settle(self.machine, s, y)
        tau, _ = bound(self.machine, s, y)
        return self._products(s.z, nodes), tau

    def exact_signs(self, y: Float, nodes: Nodes) -> Signs:
        """Retrain in rational arithmetic, from the states that float64 found."""
        found = self.exact_solution(y)
        return np.full(nodes.size, UNDECIDED) if found is None else self._exact_products(found[0], nodes)

    def exact_solution(self, y: Float) -> tuple[list[Any], Any] | None:
        """The same, as numerators and denominator of ``z``."""
        if not self.exact:
            return None
        if self._exact is None:
            self._exact = ExactSVM(self.problem.K_train, self.problem.C)
        return self._exact.solution(y, self._scratch.state, self._scratch.z)


class LinearScorer(Scorer):
    """Scores that are linear in the labels: kernel ridge regression, or an SVM with every label at its cap.

    Attributes
    ----------
    row_errors : (n,) array
        2-norm error of each scaled row (0 where the rows are exact).
    slack : float
        Largest error of a score that comes from the rows.
    """

    @property
    def exact(self) -> bool:
        """Sums are always within reach, linear systems up to a size."""
        return self.problem.loss == "hinge" or super().exact

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self._ridge: ExactRidge | None = None
        if problem.loss == "square":
            H, errors = ridge_rows(problem)
            self.rows, scale = unit_rows(H)
            self.row_errors = errors / scale
        else:
            self.rows, scale = unit_rows(problem.K_test)
            self.row_errors = np.zeros(problem.n_test)
            scale = scale * problem.C
        self.slack = float(self.row_errors.max()) * math.sqrt(problem.m)
        self._finish(scale)

    def approximate(self, y: Float, nodes: Nodes | None = None) -> tuple[Float, float]:
        """One product."""
        m = self.problem.m
        return self._products(y, nodes), 1.01 * (UNIT_ROUNDOFF * (m + 3) * math.sqrt(m) + self.slack)

    def exact_signs(self, y: Float, nodes: Nodes) -> Signs:
        """Exact sums (at the cap), or one exact linear solve (ridge)."""
        if self.problem.loss == "hinge":
            return np.array([_sign(math.fsum(self.problem.K_test[t] * y)) for t in nodes], dtype=np.int8)
        if not self.exact:
            return np.full(nodes.size, UNDECIDED)
        return self._exact_products(self._exact_ridge().solve([int(v) for v in y]), nodes)

    def exact_solution(self, y: Float) -> tuple[list[Any], Any] | None:
        """The labels themselves (at the cap), or one exact linear solve (ridge)."""
        whole = [int(v) for v in y]
        if self.problem.loss == "hinge":
            return whole, 1
        return self._exact_ridge().solution(whole) if self.exact else None

    def exact_row(self, t: int) -> list[Any] | None:
        """Row ``t`` in exact numbers, up to a positive factor; None where the problem is too large for that."""
        row = self.integer_row(t)
        if self.problem.loss == "hinge":
            return row
        return self._exact_ridge().solve(row) if self.exact else None

    def _exact_ridge(self) -> ExactRidge:
        if self._ridge is None:
            self._ridge = ExactRidge(self.problem.K_train, self.problem.C)
        return self._ridge


def unit_rows(K: Float) -> tuple[Float, Float]:
    """Rows scaled by powers of two (exactly) to 2-norms at most 1, and what multiplies them back, (n,)."""
    largest = np.abs(K).max(axis=1)
    first = 2.0 ** np.ceil(np.log2(np.where(largest > 0, largest, 1.0)))
    entries = K / first[:, None]
    norms = np.linalg.norm(entries, axis=1) * (1 + 1e-9)
    second = 2.0 ** np.ceil(np.log2(np.maximum(norms, 1.0)))
    return np.ascontiguousarray(entries / second[:, None]), first * second


def ridge_rows(problem: Problem) -> tuple[Float, Float]:
    """Rows ``h_t = (Q + λI)⁻¹ k_t`` with ``λ = 1/(2C)``, and proved bounds on their 2-norm errors.

    The error is at most the residual's norm over the smallest eigenvalue of ``Q + λI``, which is at least λ.
    """
    m = problem.m
    lam = 1.0 / (2.0 * problem.C)
    A = problem.K_train + lam * np.eye(m)
    try:
        factor = scipy.linalg.cho_factor(A, lower=True, check_finite=False)
        H = scipy.linalg.cho_solve(factor, problem.K_test.T, check_finite=False)
    except np.linalg.LinAlgError:  # λ is lost in rounding; any H will do, the residual tells how good it is
        H = np.linalg.lstsq(A, problem.K_test.T, rcond=None)[0].astype(np.float64)
    residual = problem.K_test.T - A @ H
    norm_a = float(np.linalg.norm(A))
    rounding = 2.0 * UNIT_ROUNDOFF * (m + 4) * (norm_a * np.linalg.norm(H, axis=0) + 1e-290)
    rounding += 2.0 * UNIT_ROUNDOFF * np.linalg.norm(problem.K_test, axis=1)
    errors = 1.01 * (np.linalg.norm(residual, axis=0) + rounding) / (0.999999 * (lam + problem.min_eig))
    return np.ascontiguousarray(H.T), errors


def always_at_cap(problem: Problem) -> bool:
    """Whether every label stays at its cap under every admissible labelling, so that ``z = C·ỹ``.

    ``z = C·ỹ`` is optimal if and only if ``C·ỹ_i (Qỹ)_i ≤ 1`` for all i. The largest value of the left side
    over labellings with at most b flips is a sum of the b best gains; near 1 it is compared exactly.
    """
    if problem.loss != "hinge":
        return False
    Q, y, C = problem.K_train, problem.y, problem.C
    a = problem.adversary
    b = a.most_flips(problem.max_flips)
    signed = Q * np.outer(y, y)
    movable = np.zeros(problem.m, dtype=bool)
    movable[a.labels] = True
    for i in range(problem.m):
        others = np.arange(problem.m) != i
        keep = _largest_margin(signed[i], others, movable, b)
        options = [keep]
        if movable[i] and b >= 1:
            options.append(_largest_margin(np.where(others, -signed[i], signed[i]), others, movable, b - 1))
        for terms in options:
            value = C * math.fsum(terms)
            if value > 1.0 + 1e-12:
                return False
            if value > 1.0 - 1e-12 and Fraction(C) * sum(map(Fraction, terms), Fraction(0)) > 1:
                return False
    return True


def _largest_margin(row: Float, others: Any, movable: Any, b: int) -> list[float]:
    """Terms of the largest ``Σ_j ±row_j`` with at most ``b`` sign changes among the movable others."""
    terms = row.copy()
    candidates = np.flatnonzero(others & movable & (row < 0))
    worst = candidates[np.argsort(row[candidates], kind="stable")[:b]]
    terms[worst] = -terms[worst]
    return [float(v) for v in terms]


def _gap_factor(Q: Float, rows: Float, ridge: float, min_eig: float) -> float:
    """Proved upper bound on ``k·(Q + ridge·I)⁻¹·k`` over all rows.

    For any x, with r = k − Ax: ``k·A⁻¹k = 2k·x − x·Ax + r·A⁻¹r`` and ``r·A⁻¹r ≤ ‖r‖²/λ_min(A)``.
    """
    m = Q.shape[0]
    floor = ridge + min_eig
    if floor <= 0.0:
        return 0.0  # the zero kernel: no margin ever reaches 1, so the gap is never asked for
    A = Q + ridge * np.eye(m)
    X = np.linalg.lstsq(A, rows.T, rcond=None)[0]
    AX = A @ X
    u = 4.0 * UNIT_ROUNDOFF * (m + 4)
    absolute = np.abs(A) @ np.abs(X)
    residual = np.linalg.norm(np.abs(rows.T - AX) + u * (np.abs(rows.T) + absolute), axis=0)
    quadratic = 2 * np.sum(rows.T * X, axis=0) - np.sum(X * AX, axis=0)
    rounding = u * (2 * np.sum(np.abs(rows.T * X), axis=0) + np.sum(np.abs(X) * absolute, axis=0))
    return 1.01 * float(np.max(quadratic + rounding + residual**2 / (0.999 * floor)))


def _sign(value: Any) -> int:
    return (value > 0) - (value < 0)
