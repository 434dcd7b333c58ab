"""Scores of test rows under any labels, with proved error bounds; rational arithmetic where these are not enough.

Every sign that a certificate rests on is decided through a :class:`Scorer`.
"""

from __future__ import annotations

import contextlib
import math
import threading
import time
import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from labelcert.arrays import Bool, Float, Index, Int, Signs
from labelcert.losses import Exactly
from labelcert.losses.retraining import (
    Retraining,
    bound,
    relabel_all,
    retraining,
    settle,
    solve_descendant,
    train_many,
    warm,
)
from labelcert.losses.solutions import ExactRow, Rational, Solution, sign
from labelcert.memory import available_bytes, require_memory
from labelcert.problem import Problem
from labelcert.stopping import Stopped, go_on
from labelcert.svm.exact import ExactRidge
from labelcert.svm.factors import factor, solve
from labelcert.svm.pivoting import (
    CAP,
    FLAGS,
    LARGEST_COLD,
    UNIT_ROUNDOFF,
    Machine,
    Scratch,
    copy_of,
    new_scratch,
    overwrite,
    sharing,
)
from labelcert.svm.walking import MANY_LABELS

UNDECIDED = np.int8(2)
"""Sign of a score that float64 cannot decide and that is too large for rational arithmetic."""

BY_GAP = 3
"""How the error bound of a training was proved: by its duality gap, not by an active set."""

FEW_FLIPS = 16
"""A training that differs from a clean one, or from the last, by at most this many labels (or an eighth of them) starts
from it."""

TABLEAUS = 6
"""Tableaus that are in memory at a time, beside those that are kept: the kernel, and what one thread trains with."""

EXACT_LIMIT = 300
"""Largest m for which a linear system is solved in rational arithmetic."""

PATIENCE_SECONDS = 5.0
"""When arithmetic beyond float64 has taken so long, a warning says what could be done about it."""


@dataclass(frozen=True, eq=False)
class Training:
    """One training in float64.

    Attributes
    ----------
    y : (m,) array
        The labels, ±1.
    z : (m,) array
        What multiplies the scaled rows: dual variables, or the labels themselves where scores are linear in them.
    tau : float
        Bound on the error of every score; 0 means that all of them are exact.
    state : (m,) array or None
        States of the labels that float64 found: where the exact solution starts.
    sharp : bool
        Whether the error bound is the best that float64 has to offer.
    """

    y: Float
    z: Float
    tau: float
    state: Signs | None = None
    sharp: bool = True


class Scorer(ABC):
    """Scores all test rows of one problem after training on any labels.

    Attributes
    ----------
    problem : Problem
    rows : (n, m) array
        What is multiplied by ``Training.z``, scaled by powers of two to norms of at most 1.
    scale : (n,) array
        Multiplies the scores of the scaled rows back.
    row_errors : (n,) array
        2-norm error of each scaled row (0 where the rows are exact).
    exact_sums : (n,) array
        Rows with so few digits that float64 adds their products with labels without rounding.
    retraining : Retraining
        What compiled walks take to retrain.
    slack : float
        Largest error of a score that comes from the rows.
    """

    problem: Problem
    rows: Float
    scale: Float
    row_errors: Float
    exact_sums: Bool
    retraining: Retraining
    slack: float = 0.0

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self._exact_rows: dict[int, ExactRow] = {}

    @property
    def exact(self) -> bool:
        """Whether rational arithmetic is within reach."""
        return self.problem.m <= EXACT_LIMIT

    @property
    def trains_without(self) -> bool:
        """Whether labels of 0 take no part in a training."""
        return self.retraining.machine.values is not None

    def sharpened(self) -> Retraining:
        """What walks take to retrain: :attr:`retraining` with the sharpest error bounds that there are."""
        return self.retraining

    @abstractmethod
    def train(self, y: Float, *, sharp: bool = True) -> Training:
        """Train on labels ``y`` (±1) in float64; the error bound may be loose where nobody needs a ``sharp`` one."""

    @abstractmethod
    def exact_solution(self, training: Training) -> Solution | None:
        """The same training beyond float64; None where that is out of reach."""

    @abstractmethod
    def largest_score(self, nodes: Index) -> Float:
        """(n,) bound on the magnitude of the scores of some scaled rows, whatever the labels."""

    @abstractmethod
    def one_flip_bound(self, nodes: Index, movable: Int) -> Float:
        """(n,) bound on what a change of one ``movable`` label does to the scores of some scaled rows; huge for none.

        It holds whatever the other labels are.
        """

    def class_scores(self, codes: Int, nodes: Index, n_classes: int) -> tuple[Float, float] | None:
        """(K, n) scores of some nodes by the models of all classes; None where each has to be trained."""
        return None

    def exact_weights(self, t: int) -> list[Any] | None:
        """What multiplies the labels for row ``t``, exactly up to a positive factor; None where out of reach."""
        return None

    def scores(self, training: Training, nodes: Index | None = None) -> Float:
        """Scores of the scaled rows: all of them, or those of some nodes."""
        if nodes is None:
            return self.rows @ training.z
        if nodes.size <= 4:  # waking up the threads of a BLAS would cost more than the sum
            return np.sum(self.rows[nodes] * training.z, axis=1)
        if 2 * nodes.size > self.rows.shape[0]:  # nearly all: their rows need not be copied
            return np.asarray((self.rows @ training.z)[nodes])
        return self.rows[nodes] @ training.z

    def signs(self, training: Training, nodes: Index | None = None) -> Signs:
        """Signs of the scores: -1, 0, 1, or ``UNDECIDED``."""
        p = self.scores(training, nodes)
        out = np.sign(p).astype(np.int8)
        if training.tau == 0.0:
            return out
        doubtful = np.flatnonzero(~(np.abs(p) > training.tau))
        if doubtful.size and not training.sharp:
            return self.signs(self.train(training.y), nodes)
        if doubtful.size:
            out[doubtful] = self.exact_signs(training, doubtful if nodes is None else nodes[doubtful])
        return out

    def exact_signs(self, training: Training, nodes: Index) -> Signs:
        """Signs of some nodes beyond float64; ``UNDECIDED`` where that is out of reach."""
        solution = self.exact_solution(training)
        if solution is None:
            return np.full(nodes.size, UNDECIDED)
        found = (solution.sign(self.exact_row(int(t))) for t in nodes)
        return np.array([UNDECIDED if sign is None else sign for sign in found], dtype=np.int8)

    def exact_row(self, t: int) -> ExactRow:
        """Test row ``t`` without rounding."""
        if t not in self._exact_rows:
            self._exact_rows[t] = ExactRow.of(self.problem.test_rows[t])
        return self._exact_rows[t]


class RetrainingScorer(Scorer):
    """A model that is trained anew on every labelling.

    With more than ``LARGEST_COLD`` labels, a training that is no neighbour of a clean one starts from the nearest
    solution, by LAPACK. Once the run is over, it is given up, and its scores have infinite error bounds.
    """

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem)
        tableau = 8 * problem.m**2
        require_memory(
            TABLEAUS * tableau + 2 * problem.test_rows.nbytes,
            f"retraining on {problem.m:,} labels",
            "loss='square' retrains nothing; or ask with fewer labels",
        )
        free = available_bytes()
        self._most_kept = problem.n_classes if free is None else int(min(problem.n_classes, free / 4 // tableau))
        self.rows, self.scale = unit_rows(problem.test_rows)
        self.row_errors, self.exact_sums = np.zeros(problem.n_test), np.zeros(problem.n_test, dtype=bool)
        self._many = problem.m > LARGEST_COLD
        self._prepare(None if self._many else self.rows)
        # What a machine knows of the test rows makes error bounds sharper; with many labels it comes when asked for.
        self._blunt = self._many and isinstance(self.machine, Machine)
        self._threads = threading.local()
        self._exactly: Exactly | None = None
        self._exact_seconds, self._complained = 0.0, False
        self._trained: list[tuple[Float, Scratch]] = []
        self._lock = threading.Lock()

    def _prepare(self, rows: Float | None) -> None:
        problem = self.problem
        self.machine = problem.trained_with.machine(problem.K_train, problem.C, problem.min_eig, rows)
        self.retraining = retraining(self.machine)

    def sharpened(self) -> Retraining:
        """With the sharpest error bounds, as far as time allows."""
        with self._lock:
            if self._blunt:
                with contextlib.suppress(Stopped):
                    self._prepare(self.rows)
                    self._blunt = False
        return self.retraining

    @property
    def _scratch(self) -> Scratch:
        """Memory to train in, one for each thread."""
        if not hasattr(self._threads, "scratch"):
            self._threads.scratch = new_scratch(self.machine.Q.shape[0])
        return self._threads.scratch

    def train(self, y: Float, *, sharp: bool = True) -> Training:
        """Retrain in float64, from a training nearby."""
        y = y.copy()  # always writable: compiled code knows read-only arrays as another type
        if self._many:
            return self._train_many(y, sharp)
        if not sharp and y.size > MANY_LABELS:
            found = self._descendant(y)
            if found is not None:
                return found
        s = self._scratch
        self._start(s, y)
        settle(self.retraining, s, y)
        tau, _ = bound(self.retraining, s, y, sharp)
        self._threads.last = y
        if len(self._trained) < self._most_kept:
            self._trained.append((y.copy(), copy_of(s)))
        return Training(y, s.z.copy(), tau, s.state.copy(), sharp)

    def _train_many(self, y: Float, sharp: bool) -> Training:
        """From the solution of clean labels, of which a few are flipped; or by LAPACK, from there or from nothing."""
        try:
            found = self._neighbour(y) or self._from_afar(y)
        except Stopped:
            return Training(y, np.zeros(self.machine.Q.shape[0]), np.inf, np.full(y.size, CAP, dtype=np.int8))
        s, tau, proof = found
        if sharp and proof == BY_GAP and self._blunt:
            tau, proof = bound(self.sharpened(), s, y, False)
        return Training(y, s.z.copy(), tau, s.state[: y.size].copy(), sharp or proof != BY_GAP or not self._blunt)

    def _neighbour(self, y: Float) -> tuple[Scratch, float, int] | None:
        """Follow the flips of a few labels; None where there is no clean solution nearby, or that does not work."""
        with self._lock:
            near = [(int(np.count_nonzero(y != before)), k) for k, (before, _) in enumerate(self._trained)]
            flips, k = min(near, default=(y.size, 0))
            if flips == 0 and near:
                s = self._trained[k][1]
                return (s, *bound(self.retraining, s, y, False))
            if flips > FEW_FLIPS or not near:
                return None
            before, solved = self._trained[k]
            if solved.v[FLAGS, 0] != 0.0:
                warm(self.retraining, solved, before)
        here, own = before.copy(), self._own
        moved = np.flatnonzero(here != y)
        tau, proof = solve_descendant(self.retraining, solved, sharing(own, solved), here, moved, y)
        return (own, tau, proof) if tau < np.inf else None

    def _from_afar(self, y: Float) -> tuple[Scratch, float, int]:
        """By LAPACK; the first solutions, the clean ones, are kept."""
        with self._lock:
            known = list(self._trained)
        kept = len(known) < self._most_kept
        s = new_scratch(self.machine.Q.shape[0]) if kept else self._own
        start = min(known, key=lambda other: np.count_nonzero(other[0] != y), default=None)
        train_many(self.retraining, s, y, None if start is None else start[1].z)
        tau, proof = bound(self.retraining, s, y, False)
        if kept:
            with self._lock:
                self._trained.append((y, s))
        return s, tau, proof

    @property
    def _own(self) -> Scratch:
        """Memory for solutions without anything that neighbours could start from, one for each thread."""
        if not hasattr(self._threads, "own"):
            self._threads.own = new_scratch(self.machine.Q.shape[0])
        return self._threads.own

    def _nearest(self, y: Float) -> tuple[Float, Scratch] | None:
        """The last training that left a tableau, or one of the first, the clean ones, if few labels differ."""
        last = getattr(self._threads, "last", None)
        starts = [*([] if last is None else [(last, self._scratch)]), *self._trained]
        near = [(int(np.count_nonzero(y != before)), k) for k, (before, _) in enumerate(starts)]
        flips, k = min(near, default=(y.size, 0))
        return (
            starts[k] if flips <= max(FEW_FLIPS, y.size // 8) and starts and starts[k][1].v[FLAGS, 0] == 0.0 else None
        )

    def _descendant(self, y: Float) -> Training | None:
        """Solve from a tableau that is there, without changing it; None where that does not work."""
        near = self._nearest(y)
        if near is None:
            return None
        own, here = self._own, near[0].copy()
        tau, _ = solve_descendant(self.retraining, near[1], sharing(own, near[1]), here, np.flatnonzero(here != y), y)
        if not tau < np.inf:
            return None
        return Training(y, own.z.copy(), tau, own.state.copy(), sharp=False)

    def _start(self, s: Scratch, y: Float) -> None:
        """Start from a training nearby, or from nothing."""
        near = self._nearest(y)
        self._threads.last = None  # should this be interrupted
        if near is None:
            s.chill()
            return
        before, solved = near
        if solved is not s:
            overwrite(s, solved)
        relabel_all(self.retraining, s, before.copy(), np.flatnonzero(before != y), y)

    def largest_score(self, nodes: Index) -> Float:
        """What multiplies the entries of a row is bounded."""
        largest = self.problem.trained_with.largest_dual(self.problem.m, self.problem.C)
        return np.asarray(np.abs(self.rows[nodes]).sum(axis=1) * largest)

    def one_flip_bound(self, nodes: Index, movable: Int) -> Float:
        """What the loss says of its machine."""
        self.sharpened()
        return self.problem.trained_with.one_flip(self.machine, self.rows[nodes], movable)

    def exact_solution(self, training: Training) -> Solution | None:
        """Retrain beyond float64, from what that found."""
        if not self.exact:
            return None
        if self._exactly is None:
            self._exactly = self.problem.trained_with.exactly(self.problem.K_train, self.problem.C)
        assert training.state is not None
        with self._patiently():
            return self._exactly.solution(training.y, training.state, training.z)

    def exact_signs(self, training: Training, nodes: Index) -> Signs:
        """Signs of some nodes beyond float64."""
        with self._patiently():
            return super().exact_signs(training, nodes)

    @contextmanager
    def _patiently(self) -> Iterator[None]:
        """Say what can be done about it when more digits have taken long."""
        began = time.perf_counter()
        try:
            yield
        finally:
            self._exact_seconds += time.perf_counter() - began
        if self._exact_seconds > PATIENCE_SECONDS and not self._complained:
            self._complained = True
            warnings.warn(
                f"arithmetic beyond float64 has taken {self._exact_seconds:.0f} seconds so far, since float64 cannot "
                "decide many labellings of this kernel. Answers stay exact, but take long. Usually, some feature "
                "columns have a much larger scale than others, so that the kernel is nearly singular. Standardise the "
                "features (scikit-learn: StandardScaler), or add a small constant to the diagonal of K_train",
                UserWarning,
                stacklevel=3,
            )


class LinearScorer(Scorer):
    """Scores linear in the labels: kernel ridge regression, an SVM with every label at its cap, or given rows."""

    @property
    def exact(self) -> bool:
        """Sums are always within reach, linear systems up to a size."""
        return self._sums or super().exact

    @property
    def _sums(self) -> bool:
        """Whether scores are sums of entries of the given rows."""
        return not self.problem.trained_with.ridge

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem)
        self.retraining = retraining(None)
        self._ridge: ExactRidge | None = None
        if problem.trained_with.ridge:
            # Rows are scaled before anything is squared, so that no norm underflows.
            given, outer = unit_rows(problem.test_rows)
            H, errors = ridge_rows(problem, given)
            self.rows, inner = unit_rows(H)
            self.row_errors = errors / inner
            self.scale = outer * inner
        else:
            given, equal = plain_rows(problem.K_test)
            self.rows, scale = unit_rows(given)
            lossy = np.any(self.rows * scale[:, None] != given, axis=1)  # entries that underflow
            self.row_errors = np.where(lossy, UNDERFLOW, 0.0)
            self.scale = scale * problem.C * equal
        self.exact_sums = _few_digits(self.rows) & (self.row_errors == 0)
        self.slack = float(self.row_errors.max(initial=0.0)) * math.sqrt(problem.m)
        self._tau = 1.01 * (UNIT_ROUNDOFF * (problem.m + 3) * math.sqrt(problem.m) + self.slack)
        if self.exact_sums.all():
            self._tau = 0.0

    def train(self, y: Float, *, sharp: bool = True) -> Training:
        """Nothing is trained: the labels multiply the rows."""
        return Training(y, y, self._tau)

    def largest_score(self, nodes: Index) -> Float:
        """Labels are 1 or -1."""
        return np.asarray(np.abs(self.rows[nodes]).sum(axis=1) + self.slack)

    def one_flip_bound(self, nodes: Index, movable: Int) -> Float:
        """Twice the largest entry."""
        rows = np.abs(self.rows[nodes][:, movable])
        return np.asarray(1.01 * (2 * rows.max(axis=1, initial=0.0) + 2 * self.slack))

    def exact_signs(self, training: Training, nodes: Index) -> Signs:
        """Exact sums (at the cap), or one exact linear solve (ridge)."""
        if self._sums:
            signs = [sign(math.fsum(self.problem.K_test[t] * training.y)) for t in nodes]
            return np.array(signs, dtype=np.int8)
        return super().exact_signs(training, nodes)

    def exact_solution(self, training: Training) -> Solution | None:
        """The labels themselves (at the cap), or one exact linear solve (ridge)."""
        whole = [int(v) for v in training.y]
        if self._sums:
            return Rational(whole, 1, Fraction(self.problem.C))
        if not self.exact:
            return None
        ridge = self._exact_ridge()
        return Rational(*ridge.solution(whole), Fraction(ridge.scale))

    def class_scores(self, codes: Int, nodes: Index, n_classes: int) -> tuple[Float, float]:
        """(K, n) scores of some nodes by the models of all classes, and a bound on their errors.

        The model of class c has twice the sum over labels of c, minus the sum over all labels.
        """
        rows = self.rows[nodes]
        sums = np.zeros((rows.shape[0], n_classes))
        for k, row in enumerate(rows):
            sums[k] = np.bincount(codes, weights=row, minlength=n_classes)
        return np.asarray((2.0 * sums - rows.sum(axis=1)[:, None]).T), 4.0 * self._tau

    def exact_weights(self, t: int) -> list[Any] | None:
        """What multiplies the labels for row ``t``, exactly up to a positive factor; None where out of reach."""
        row = self.exact_row(t).numbers
        if self._sums:
            return row
        return self._exact_ridge().solve(row)[: self.problem.m] if self.exact else None

    def _exact_ridge(self) -> ExactRidge:
        if self._ridge is None:
            self._ridge = ExactRidge(self.problem.K_train, self.problem.C, intercept=self.problem.intercept)
        return self._ridge


def unit_rows(K: Float) -> tuple[Float, Float]:
    """Rows scaled by powers of two to 2-norms at most 1, and what multiplies them back, (n,).

    That is exact where nothing underflows.
    """
    largest = np.abs(K).max(axis=1)
    first = 2.0 ** np.ceil(np.log2(np.where(largest > 0, largest, 1.0)))
    entries = K / first[:, None]
    norms = np.linalg.norm(entries, axis=1) * (1 + 1e-9)
    second = 2.0 ** np.ceil(np.log2(np.maximum(norms, 1.0)))
    return np.ascontiguousarray(entries / second[:, None]), first * second


UNDERFLOW = 1e-300
"""What entries of a row that underflow when it is scaled come to, at most."""

_DIGITS = 30
"""Entries that are multiples of ``2**-30``, in rows of norm 1, add up without rounding for any number of labels."""


def plain_rows(K: Float) -> tuple[Float, Float]:
    """Rows whose entries are all 0 or of one size (neighbours, say) with entries 0 and ±1 instead; and that size, (n,).

    No comparison of sums depends on a positive factor of the row. Other rows stay as they are, with size 1.
    """
    size = np.abs(K).max(axis=1, initial=0.0)
    first = np.abs(K[:, :64])
    candidates = np.flatnonzero((size > 0) & np.all((first == 0) | (first == size[:, None]), axis=1))
    entries = np.abs(K[candidates])
    equal = candidates[np.all((entries == 0) | (entries == size[candidates, None]), axis=1)]
    factor = np.ones(K.shape[0])
    if equal.size == 0:
        return K, factor
    plain = K.copy()
    plain[equal] = np.sign(K[equal])
    factor[equal] = size[equal]
    return plain, factor


def _few_digits(rows: Float) -> Bool:
    """(n,) which rows of norm at most 1 hold only multiples of ``2**-30``."""
    few: Bool = np.zeros(rows.shape[0], dtype=bool)
    if rows.shape[1] >= 2**40:
        return few
    first = rows[:, :64] * 2.0**_DIGITS
    candidates = np.flatnonzero(np.all(first == np.rint(first), axis=1))
    scaled = rows[candidates] * 2.0**_DIGITS
    few[candidates] = np.all(scaled == np.rint(scaled), axis=1)
    return few


def ridge_rows(problem: Problem, rows: Float) -> tuple[Float, Float]:
    """``h_t = (Q + λI)⁻¹ k_t`` with ``λ = 1/(2C)`` for rows of norms of about 1, and bounds on their 2-norm errors.

    The error is at most the residual's norm over the smallest eigenvalue of ``A = Q + λI``, which is at least λ. With
    an intercept, ``Ah + μ1 = k`` and ``Σh = k_0``, the row's last entry. Where h misses the sum by s and the rest by r,
    its error is ``(s/m)1`` and a vector e without a sum, for which ``e·Ae = e·(r − (s/m)A1)``. So it is at most
    ``|s|/√m + ‖r − (s/m)A1‖ / λ_min(A)``.
    """
    m = problem.m
    lam = 1.0 / (2.0 * problem.C)
    A = problem.K_train + lam * np.eye(m)
    if problem.intercept:
        return _bordered_rows(problem, rows, A)
    try:
        L, H = factor(A.copy()), np.empty((m, rows.shape[0]))
        for start in range(0, rows.shape[0], 512):
            go_on()
            H[:, start : start + 512] = solve(L, rows[start : start + 512].T)
    except np.linalg.LinAlgError:  # λ is lost in rounding; any H will do, the residual tells how good it is
        H = np.linalg.lstsq(A, rows.T, rcond=None)[0].astype(np.float64)
    residual = rows.T - A @ H
    norm_a = float(np.linalg.norm(A))
    rounding = 2.0 * UNIT_ROUNDOFF * (m + 4) * (norm_a * np.linalg.norm(H, axis=0) + 1e-290)
    rounding += 2.0 * UNIT_ROUNDOFF * np.linalg.norm(rows, axis=1)
    errors = 1.01 * (np.linalg.norm(residual, axis=0) + rounding) / (0.999999 * (lam + problem.min_eig))
    return np.ascontiguousarray(H.T), errors


def _bordered_rows(problem: Problem, rows: Float, A: Float) -> tuple[Float, Float]:
    """The same with an intercept, whose entry is the last one of each row."""
    m, given = problem.m, rows.T
    M = problem.trained_with.bordered(A)
    go_on()
    try:
        found = np.linalg.solve(M, given)
    except np.linalg.LinAlgError:  # any will do, the residual tells how good it is
        found = np.linalg.lstsq(M, given, rcond=None)[0]
    found = np.where(np.isfinite(found), found, 0.0)
    H, residual = found[:m], np.abs(given - M @ found)
    # What every entry of the residual can be off by.
    residual += 2.0 * UNIT_ROUNDOFF * (m + 4) * (np.abs(M) @ np.abs(found) + np.abs(given)) + 1e-290
    rest, missed = np.linalg.norm(residual[:m], axis=0), residual[m]
    spread = float(np.linalg.norm(np.abs(A).sum(axis=1))) / m
    errors = missed / math.sqrt(m) + (rest + missed * spread) / (0.999999 * (0.5 / problem.C + problem.min_eig))
    return np.ascontiguousarray(H.T), np.asarray(1.01 * errors)
