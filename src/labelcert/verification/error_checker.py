"""Checks of certificates whose kernel is known up to entrywise errors: the given kernel, and others that are drawn."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from labelcert.arrays import Bool, Float
from labelcert.verification.checker import Checker
from labelcert.verification.record import KERNEL_ERRORS
from labelcert.verification.relabellings import TIED, Claims, Walk, random_relabellings
from labelcert.verification.statement import Statement
from labelcert.verification.trainers import machine_of
from labelcert.verification.verdict import CheckStatus

KERNELS, RELABELLINGS = 8, 20
"""How many kernels are drawn, and relabellings for each."""

SHARES = (1.0, 0.5, 0.1, 0.01, 0.0)
"""Of the errors, in a random direction: the first at which a kernel is positive definite, or the given kernel."""


class ErrorChecker(Checker):
    """One verification of a certificate with kernel errors.

    Witnesses, and what contradicts lower ends, are checked under the given kernel, which is one of the admissible ones.
    Nothing here proves lower ends for all of them.
    """

    _errors: tuple[Float, Float, Float, Float] | None = None

    def told(self, kernel_error: npt.ArrayLike | None, test_kernel_error: npt.ArrayLike | None) -> None:
        """How far entries may be below and above, as the user says."""
        if kernel_error is None and test_kernel_error is None:
            return
        m, n = self._given.m, self._given.n
        each = (n,) if np.ndim(np.asarray(0.0 if kernel_error is None else kernel_error)) == 4 else ()
        below, above = _two(kernel_error, (*each, m, m))
        below, above = (np.maximum(array, np.swapaxes(array, -1, -2)) for array in (below, above))
        if self._given.shift:
            below = below + self._given.shift * np.eye(m)
        self._errors = (below, above, *_two(test_kernel_error, (n, m)))

    def bounds(self) -> None:
        """Lower ends and the curve under the given kernel, and under some others."""
        first = len(self._out.checks)
        super().bounds()
        if not self._out.accepted:
            return
        status, text = self._drawn()
        for k in range(first, len(self._out.checks)):
            check = self._out.checks[k]
            if check.status is CheckStatus.PROVED and check.what in ("radii", "curve"):
                self._out.checks[k] = replace(check, status=status, how=f"{check.how}, {text}")

    def _drawn(self) -> tuple[CheckStatus, str]:
        """What some admissible kernels say."""
        cert, errors = self._cert, self._errors
        if errors is None:
            return CheckStatus.NOT_CHECKED, "under the given kernel; give verify the errors to draw others"
        most = tuple(max(float(a.max()), float(b.max())) for a, b in (errors[:2], errors[2:]))
        if _hash(errors) != cert.run.kernel_error_sha256 or most != cert.run.kernel_error:
            self._wrong(KERNEL_ERRORS, "they are not those that the certificate names by their hash")
            return CheckStatus.WRONG, ""
        self._out.stated.remove(KERNEL_ERRORS)
        looked = 0
        for statement, whose in self._kernels(errors):
            # With a kernel for each row, the curve is about no single one.
            curve = np.where(whose.all(), cert.collective_upper, cert.n_test)
            claims = Claims(self._predicted, np.where(whose, cert.radius_lower - 1, -1), curve)
            walk = Walk(statement, machine_of(statement, False, self._pace))
            some = random_relabellings(statement, statement.budget, RELABELLINGS, self._rng)
            found = walk.sample(claims, some, self._pace)
            looked += found.visited
            if found.contradictions:
                self._wrong("radii", f"under another admissible kernel, {found.contradictions[0]}")
                return CheckStatus.WRONG, ""
        return CheckStatus.NOT_CHECKED, f"and {looked} relabellings under kernels drawn within the errors"

    def _kernels(self, errors: tuple[Float, Float, Float, Float]) -> Iterator[tuple[Statement, Bool]]:
        """The problem with other kernels: corners of the training kernel, the worst corner of each test row.

        Also which test rows each is about: one, where each has a kernel of its own.
        """
        below, above, test_below, test_above = errors
        given, m = self._statement, self._given.m
        apart, whose = below.ndim == 3, np.ones(len(test_below), dtype=bool)
        own = np.where(self._predicted == TIED, 0, self._predicted)
        toward = np.where(given.codes[None, :m] == own[:, None], -test_below, test_above)
        for _ in range(KERNELS):
            signs = np.sign(self._rng.normal(size=(m, m)))
            signs = np.triu(signs, 1) + np.triu(signs, 1).T + np.eye(m)  # which keeps most of them so
            if apart:
                t = int(self._rng.integers(whose.size))
                whose = np.arange(whose.size) == t
                step = np.where(signs > 0, above[t], -below[t])
            else:
                step = np.where(signs > 0, above, -below)
            for share in SHARES:
                Q = given.K_train.copy()
                Q[:m, :m] += share * step
                if not share or np.linalg.eigvalsh(Q)[0] > 1e-9 * float(np.abs(Q).max()):
                    rows = given.K_test.copy()
                    rows[:, :m] += toward
                    yield replace(given, K_train=Q, K_test=rows), whose
                    break


def _two(given: npt.ArrayLike | None, shape: tuple[int, ...]) -> tuple[Float, Float]:
    """Below and above, from a number, one array or two."""
    array = np.asarray(0.0 if given is None else given, dtype=np.float64)
    below, above = array if array.ndim == len(shape) + 1 else (array, array)
    return np.broadcast_to(below, shape).copy(), np.broadcast_to(above, shape).copy()


def _hash(errors: tuple[Float, ...]) -> str:
    h = hashlib.sha256()
    for array in errors:
        h.update(repr(array.shape).encode())
        h.update(np.ascontiguousarray(array, dtype="<f8").tobytes())
    return h.hexdigest()
