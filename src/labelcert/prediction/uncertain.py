"""Kernel machines whose kernel is known up to entrywise errors: what is proved holds for every admissible kernel.

The kernel that was given is one of them. So a relabelling that changes a prediction under it changes it, and one that
does not is proved harmless only where bounds on the scores of all admissible kernels say so. The rest stays open.
"""

from __future__ import annotations

import copy
import hashlib
import math
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from labelcert.arrays import Bool, Float, Index, Int
from labelcert.losses.hinge import lengths_of, pivoting_machine
from labelcert.prediction.predictor import Predictor
from labelcert.prediction.scoring import ridge_rows
from labelcert.problem import Problem
from labelcert.problem.problem import signs_of
from labelcert.stopping import Stopped, is_over
from labelcert.svm import uncertain
from labelcert.svm.pivoting import UNIT_ROUNDOFF

UNCERTAIN = "kernel machines with kernel errors"
"""Who predicts: a machine on any kernel within entrywise bounds."""

LOSSES_WITH_ERRORS = ("hinge", "square")
"""Losses whose scores are bounded for all admissible kernels."""

MOST_FOR_PROGRAMS = 64
"""With more labels, linear programs for multipliers take too long."""

_UP = 1.0 + 1e-12
"""Covers the rounding of a few operations."""


@dataclass(frozen=True, eq=False)
class UncertainKernel:
    """How far the kernel that is meant may be below and above the given one, entry by entry.

    Attributes
    ----------
    below, above : (m, m) arrays
        Symmetric. With (n, m, m), each test row has a kernel of its own.
    test_below, test_above : (n, m) arrays
    margin : (n,) array
        Predictions count as changed once their lead falls to this.
    """

    below: Float
    above: Float
    test_below: Float
    test_above: Float
    margin: Float
    kind: str = UNCERTAIN

    def predictor(self, problem: Problem) -> UncertainPredictor:
        """Around the predictor of the given kernel."""
        from labelcert.prediction import predictor_for

        given = replace(problem, by=None)
        return UncertainPredictor(problem, predictor_for(given, linear=given.is_linear()), self)

    @property
    def apart(self) -> bool:
        """Whether each test row has a kernel of its own."""
        return self.below.ndim == 3

    @cached_property
    def together(self) -> tuple[Float, Float]:
        """(m, m) below and above, for all rows at once."""
        return (self.below.max(axis=0), self.above.max(axis=0)) if self.apart else (self.below, self.above)

    @property
    def errors(self) -> tuple[Float, Float]:
        """(m, m) and (n, m) the larger one of both sides, for all rows at once."""
        return np.maximum(*self.together), np.maximum(self.test_below, self.test_above)

    def digest(self, sha256: str) -> str:
        """That of the given kernel: what the errors are has a hash of its own."""
        return sha256

    def sha256(self) -> str:
        """Hash of the errors."""
        h = hashlib.sha256()
        for array in (self.below, self.above, self.test_below, self.test_above):
            h.update(repr(array.shape).encode())
            h.update(np.ascontiguousarray(array, dtype="<f8").tobytes())
        return h.hexdigest()


class UncertainPredictor(Predictor):
    """The machine on the given kernel, and how far the scores of all others can be from its own.

    Attributes
    ----------
    nominal : Predictor
        Of the given kernel.
    moves : (n,) array
        By how much the score of any class can differ from that under the given kernel, whatever the labels are.
    """

    tie_note = "clean scores"
    enumerated = "answers"

    def __init__(self, problem: Problem, nominal: Predictor, errors: UncertainKernel) -> None:
        self.problem, self.nominal, self.errors, self.linear = problem, nominal, errors, False
        self.scorer, self._on_fewer = nominal.scorer, {}
        self.predicted, self.shown, self.decision = nominal.predicted, nominal.shown, nominal.decision
        self.moves = largest_moves(problem, errors)
        # Of two classes, the margin is about one score, of which the lead is twice.
        self._asked = errors.margin * (2.0 if problem.n_classes == 2 else 1.0)
        self._machine = None
        if problem.loss == "hinge":
            Q, E = _middle(problem.K_train, *errors.together)
            rows, off = _middle(problem.K_test, errors.test_below, errors.test_above)
            self._machine = Q, E, rows, off
        self._look_at_clean_labels()

    def _look_at_clean_labels(self) -> None:
        """Which predictions the clean labels change already, because of a margin, and which they may change."""
        nodes = np.flatnonzero(self.predicted >= 0)
        changed, unchanged = self.changed(self.problem.codes, nodes)
        given = self.nominal.contrary
        self.contrary = np.zeros(self.predicted.size, dtype=bool) if given is None else given.copy()
        self.unsure = np.zeros(self.predicted.size, dtype=bool)
        self.contrary[nodes[changed]] = True
        doubt = np.flatnonzero(~(changed | unchanged))
        if doubt.size:
            unchanged[doubt] = self.surely(self.problem.codes, nodes[doubt], tighten=True)
        self.unsure[nodes[~unchanged]] = True

    def of(self, problem: Problem) -> Predictor:
        """Refused before: classes stay."""
        raise NotImplementedError("classes without labels stay where kernels have errors")

    def with_predictions(self, predicted: Int) -> Predictor:
        """The same under given clean predictions."""
        twin = copy.copy(self)
        twin.nominal = self.nominal.with_predictions(predicted)
        twin.predicted, twin.shown = twin.nominal.predicted, twin.nominal.shown
        twin._look_at_clean_labels()
        return twin

    def retrained(self) -> Predictor:
        """The given kernel's model is retrained."""
        twin = copy.copy(self)
        twin.nominal = self.nominal.retrained()
        twin.scorer = twin.nominal.scorer
        return twin

    def changed(self, codes: Int, nodes: Index) -> tuple[Bool, Bool]:
        """Changed under the given kernel, and unchanged under every admissible one."""
        changed, unchanged = self.nominal.changed(codes, nodes)
        p, error = self.nominal.scaled_scores(codes, nodes)
        own, columns, asked = self.predicted[nodes], np.arange(nodes.size), self._asked[nodes]
        rivals = own[None, :] != np.arange(self.problem.n_classes)[:, None]
        lead, off = p[own, columns] - p, (error + np.broadcast_to(error, p.shape)[own, columns]) * _UP
        changed = changed | (rivals & (lead + off < asked)).any(axis=0)
        needed = (asked + 2.0 * self.moves[nodes]) * _UP
        proved = (~rivals | (lead - off > needed)).all(axis=0)
        open_ = np.flatnonzero(unchanged & ~changed & ~proved)
        if open_.size and self._machine is not None:
            proved[open_] = self._surely(codes, nodes[open_])
        return changed, unchanged & proved & ~changed

    def surely(self, codes: Int, nodes: Index, *, tighten: bool) -> Bool:
        """Which of some nodes are proved not to change, by linear programs: where they are not changed.

        None, where there are too many labels, or no time.
        """
        if self._machine is not None and self.problem.m <= MOST_FOR_PROGRAMS:
            with suppress(Stopped):
                return self._surely(codes, nodes, programs=True, tighten=tighten)
        return np.zeros(nodes.size, dtype=bool)

    def _surely(self, codes: Int, nodes: Index, **how: bool) -> Bool:
        """By bounds on the scores under these labels."""
        assert self._machine is not None
        K = self.problem.n_classes
        trained = [(y, self._duals(y)) for y in (signs_of(codes, c) for c in ((1,) if K == 2 else range(K)))]
        Q, E, rows, off = self._machine
        if not self.errors.apart:
            return self._leads(trained, nodes, (Q, E, rows[nodes], off[nodes]), **how)
        # One kernel that covers those of all rows is often enough.
        proved = self._leads(trained, nodes, (Q, E, rows[nodes], off[nodes]), rounds=1)
        for s in np.flatnonzero(~proved).tolist():
            if is_over():
                break
            one = nodes[s : s + 1]
            t = int(one[0])
            Q, E = _middle(self.problem.K_train, self.errors.below[t], self.errors.above[t])
            proved[s] = self._leads(trained, one, (Q, E, rows[one], off[one]), **how)[0]
        return proved

    def _leads(
        self, trained: list[tuple[Float, Float]], nodes: Index, given: tuple[Float, Float, Float, Float], **how: Any
    ) -> Bool:
        """Whether leads are above the margin for all kernels: of labels ±1 with their dual variables, by class."""
        machine = uncertain.UncertainMachine(*given, self.problem.C)
        own, margin = self.predicted[nodes], self.errors.margin[nodes]
        if self.problem.n_classes == 2:
            low, high = machine.scores(*trained[0], margin, -margin, **how)
            return np.asarray(np.where(own == 1, low, -high) > margin)
        nothing = np.full(nodes.size, np.inf)
        found = [machine.scores(y, alpha, nothing, -nothing, **how) for y, alpha in trained]
        low, high = (np.array(ends) for ends in zip(*found, strict=True))
        least = low[own, np.arange(nodes.size)]
        high[own, np.arange(nodes.size)] = -np.inf
        return np.asarray(least - high.max(axis=0) > margin + 1e-15 * np.abs(least))

    def _duals(self, y: Float) -> Float:
        """(m,) what a training on labels ±1 finds."""
        C = self.problem.C
        if self.nominal.linear:
            return np.full(y.size, C)
        return np.clip(y * self.nominal.scorer.train(y, sharp=False).z[: y.size], 0.0, C)

    def class_scores(self, codes: Int, nodes: Index) -> tuple[Float, Float]:
        """Those of the given kernel."""
        return self.nominal.class_scores(codes, nodes)

    def margins(self, codes: Int, nodes: Index) -> Float:
        """Those of the given kernel."""
        return self.nominal.margins(codes, nodes)

    def becomes(self, codes: Int, node: int) -> int:
        """What the given kernel says."""
        return self.nominal.becomes(codes, node)

    def predicts(self, codes: Int, node: int) -> int:
        """What the given kernel says."""
        return self.nominal.predicts(codes, node)


def _middle(given: Float, below: Float, above: Float) -> tuple[Float, Float]:
    """The middle of each interval, and what covers both of its ends."""
    if np.array_equal(below, above):
        return given, above
    middle = given + (above - below) / 2.0
    half = np.maximum(given + above - middle, middle - (given - below))
    return middle, np.maximum(half, 0.0) * _UP + 8.0 * UNIT_ROUNDOFF * (np.abs(given) + above + below)


def largest_moves(problem: Problem, errors: UncertainKernel) -> Float:
    """(n,) bounds on how far the score of any class is from that under the given kernel, whatever the labels are."""
    train, test = errors.errors
    moves = _ridge_moves(problem) if problem.loss == "square" else _hinge_moves(problem, train)
    everywhere = np.arange(len(test))
    if not errors.apart:
        return moves(train, test, everywhere)
    each = np.maximum(errors.below, errors.above)
    return np.array([moves(each[t], test[t : t + 1], everywhere[t : t + 1])[0] for t in range(len(test))])


Moves = Callable[[Float, Float, Index], Float]
"""From the errors of the kernel and of some test rows, and which rows these are."""


def _hinge_moves(problem: Problem, train: Float) -> Moves:
    """The same for support vector machines, with errors up to these of the kernel."""
    Q, C = problem.K_train, problem.C
    if uncertain.never_free(Q, train, C):  # only the sums of errors count
        return lambda E, e, t: uncertain.largest_change(Q, E, e, C, np.zeros(len(e)), 0.0, 0.0)
    machine = pivoting_machine(Q, C, problem.min_eig, None)
    ridge = machine.gap_ridge
    if not ridge + problem.min_eig > 0.0:
        return lambda E, e, t: np.full(len(e), np.inf)
    lengths = lengths_of(Q, problem.K_test, ridge, problem.min_eig)
    return lambda E, e, t: uncertain.largest_change(Q, E, e, C, lengths[t], ridge, problem.min_eig)


def _ridge_moves(problem: Problem) -> Moves:
    """The same for kernel ridge regression: ``p' − p = (k' − k)·z' − β·(Q' − Q) z'`` with ``β = (Q + λI)⁻¹ k``.

    ``z' = (Q' + λI)⁻¹ y`` has a 2-norm of at most ``√m / λ``. Entry by entry, ``z' = z − (Q + λI)⁻¹ (Q' − Q) z'``.
    """
    m = problem.m
    norm = math.sqrt(m) * 2.0 * problem.C * _UP
    beta, off = ridge_rows(problem, problem.K_test)
    inverse, missed = ridge_rows(problem, np.eye(m))
    up = 1.0 + 16.0 * UNIT_ROUNDOFF * (m + 8)

    def moves(train: Float, test: Float, t: Index) -> Float:
        columns = np.linalg.norm(train, axis=0)
        spread = (test + np.abs(beta[t]) @ train + off[t, None] * columns) * (1.0 + 4.0 * UNIT_ROUNDOFF * (m + 4))
        second = np.linalg.norm(np.abs(inverse) @ train + missed[:, None] * columns, axis=1) * norm
        each = np.abs(inverse).sum(axis=1) + missed * math.sqrt(m) + second
        return np.asarray(np.minimum(np.linalg.norm(spread, axis=1) * norm, spread @ (each * up)) * up)

    return moves
