"""Every check of a user's arrays, in one place.

Each function returns a clean float64 array (or raises :class:`~labelcert.errors.InvalidInput` with a message
that says what was expected, what came, and what to do).
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import scipy.linalg
import scipy.sparse.linalg

from labelcert.arrays import Float, Int, Values
from labelcert.checking import as_labels, in_short, real_number, unmasked, whole_number
from labelcert.errors import InvalidInput
from labelcert.svm import exact
from labelcert.svm.factors import factor, solve

SYMMETRY_TOLERANCE = 1e-10
"""Largest asymmetry, relative to the largest entry, that counts as rounding."""

PSD_TOLERANCE = 1e-10
"""Most negative eigenvalue, relative to the largest, that counts as rounding."""

RANGE_TOLERANCE = 1e-4
"""How far a test row may leave the range of a nearly singular kernel, relative to its largest eigenvalue."""

EXACT_PSD_LIMIT = 128
"""Largest m for which a nearly singular kernel is examined in exact arithmetic."""

LARGE = 300
"""With more labels, a kernel is settled by factorisations that can be stopped, and no eigenvalues."""

FLOORS = (1e-1, 1e-2, 1e-3, 1e-4, 1e-6, 1e-9)
"""Smallest eigenvalues to try, as shares of the largest entry."""

ROUGH_FLOOR = 1e-4
"""The same for a large kernel, where error bounds need not be sharp."""

INVERSE_STEPS = 8

LARGEST_FLOAT_CLASSES = 50
"""More distinct labels than this, as real numbers, are no classes."""

MOST_WORKERS = 4096
"""Threads or processes; nobody means more."""

SMALLEST_C, LARGEST_C = 1e-12, 1e12

LARGEST_ENTRY = 1e60
"""Kernels whose largest entry is beyond this (or below its inverse) would overflow in error bounds."""


RESCALE = "rescale the features: (K·s, C/s) is the same problem as (K, C)"


def check_matrix(name: str, value: npt.ArrayLike, advice: str = RESCALE) -> Float:
    """A finite, two-dimensional, real array as float64."""
    try:
        array = np.asarray(unmasked(name, value))
    except ValueError as error:
        if isinstance(error, InvalidInput):
            raise
        raise InvalidInput(f"{name} must be a matrix: rows of equal length ({error})") from None
    if array.dtype == np.object_ or not (
        np.issubdtype(array.dtype, np.floating) or np.issubdtype(array.dtype, np.integer) or array.dtype == np.bool_
    ):
        raise InvalidInput(f"{name} must be a matrix of real numbers, got dtype {array.dtype}")
    if array.ndim != 2:
        raise InvalidInput(f"{name} must be a matrix (two dimensions), got shape {array.shape}")
    array = array.astype(np.float64)
    ends = np.array([array.min(initial=0.0), array.max(initial=0.0)])  # what is no number stays, and nothing is copied
    if not np.isfinite(ends).all():
        finite = np.isfinite(array)
        i, j = np.argwhere(~finite)[0]
        raise InvalidInput(
            f"{name} must be finite, but entry ({i}, {j}) is {array[i, j]} "
            f"({int((~finite).sum())} such entries); check the features and the kernel's parameters"
        )
    largest = float(np.abs(ends).max())
    if largest != 0.0 and not 1 / LARGEST_ENTRY <= largest <= LARGEST_ENTRY:
        raise InvalidInput(
            f"{name} has entries up to {largest:.3g}, outside of {1 / LARGEST_ENTRY:g} to {LARGEST_ENTRY:g}; {advice}"
        )
    return array


def check_train_kernel(value: npt.ArrayLike, m: int) -> Float:
    """Shape and symmetry of the training kernel; an asymmetry within rounding is averaged away."""
    K = check_matrix("K_train", value)
    if K.shape[0] != K.shape[1]:
        raise InvalidInput(f"K_train must be square (one row and column per label), got {K.shape[0]}x{K.shape[1]}")
    if K.shape[0] != m:
        raise InvalidInput(f"K_train must have one row per label: {m} labels, but K_train is {K.shape[0]}x{K.shape[1]}")
    if _symmetric(K):
        return np.ascontiguousarray(K)
    asymmetry = np.abs(K - K.T)
    scale = np.abs(K).max()
    if asymmetry.max() > SYMMETRY_TOLERANCE * scale:
        i, j = np.unravel_index(int(asymmetry.argmax()), K.shape)
        raise InvalidInput(
            f"K_train must be symmetric, but entry ({i}, {j}) is {K[i, j]:.17g} and ({j}, {i}) is {K[j, i]:.17g}; "
            "a kernel matrix is the same read either way: check how it was computed"
        )
    return np.ascontiguousarray((K + K.T) / 2)


def _symmetric(K: Float) -> bool:
    """Block by block, so that nothing of the matrix's size is needed."""
    size = 1024
    return all(
        np.array_equal(K[i : i + size, j : j + size], K[j : j + size, i : i + size].T)
        for i in range(0, len(K), size)
        for j in range(0, i + 1, size)
    )


def check_test_kernel(value: npt.ArrayLike, m: int) -> Float:
    """Shape of the test rows."""
    K = check_matrix("K_test", value)
    if K.shape[0] == 0:
        raise InvalidInput("K_test has no rows: there is no test node to certify")
    if K.shape[1] != m:
        hint = "; it looks transposed: pass K_test.T" if K.shape[0] == m else ""
        raise InvalidInput(
            f"K_test must have one row per test node and one column per label ({m}), got shape {K.shape}{hint}"
        )
    return np.ascontiguousarray(K)


def check_features(name: str, value: npt.ArrayLike, *, rows: int | None = None, columns: int | None = None) -> Float:
    """Features of points, one row each."""
    X = check_matrix(name, value, "scale the features (scikit-learn: StandardScaler)")
    if X.shape[0] == 0 or (rows is not None and X.shape[0] != rows):
        expected = "at least one row" if rows is None else f"one row per label ({rows})"
        raise InvalidInput(f"{name} must have {expected}, got shape {X.shape}")
    if columns is not None and X.shape[1] != columns:
        raise InvalidInput(f"{name} must have as many columns as X_train ({columns}), got shape {X.shape}")
    return np.ascontiguousarray(X)


def check_errors(name: str, value: object, shape: tuple[int, ...], *, rows: int | None = None) -> tuple[Float, Float]:
    """How far entries of a kernel may be below and above: from a number, an array, or a pair of arrays.

    With a number of test ``rows``, each of them may have arrays of its own, (2, rows, ...).
    """
    try:
        given = np.asarray(unmasked(name, value))
        errors = given.astype(np.float64) if given.dtype.kind in "fiu" else np.array(np.nan)
    except InvalidInput:
        raise
    except (ValueError, OverflowError):
        errors = np.array(np.nan)
    if not np.all((errors >= 0.0) & (errors <= LARGEST_ENTRY)):
        raise InvalidInput(
            f"{name} must be how far entries of the kernel may be off, numbers of at least 0: one for all, one for "
            f"each, or two for each (below and above), got {in_short(value)}"
        )
    if rows is not None and errors.shape == (2, rows, *shape):
        shape = (rows, *shape)
    if errors.ndim and errors.shape not in (shape, (2, *shape)):
        each = "" if rows is None else f", or (2, {rows}, {shape[0]}, {shape[1]}): each test row with its own"
        raise InvalidInput(
            f"{name} must be a number, or have the kernel's shape {shape}, or two of them{each}; got shape "
            f"{errors.shape}"
        )
    below, above = errors if errors.ndim == len(shape) + 1 else (errors, errors)
    below, above = (np.ascontiguousarray(np.broadcast_to(array, shape)) for array in (below, above))
    if rows is not None:
        below, above = (np.maximum(array, np.swapaxes(array, -1, -2)) for array in (below, above))
    return below, above


def check_labels(value: npt.ArrayLike) -> tuple[Values, Values, Int]:
    """The labels as an array, their K distinct values in order, and the class 0..K-1 of each label."""
    labels = as_labels(value)
    if labels.ndim != 1:
        raise InvalidInput(f"labels must be a flat sequence, one per training point, got shape {labels.shape}")
    if labels.size == 0:
        raise InvalidInput("labels is empty: at least two labelled points, one of each class, are needed")
    if labels.dtype.kind == "T":
        labels = labels.astype(np.str_)
    if labels.dtype.kind not in "biufUS":
        raise InvalidInput(
            f"labels must be numbers, strings or booleans, got {type(labels.flat[0]).__name__} "
            f"(dtype {labels.dtype}); pass their names instead"
        )
    if np.issubdtype(labels.dtype, np.floating) and not np.isfinite(labels).all():
        bad = int(np.flatnonzero(~np.isfinite(labels))[0])
        raise InvalidInput(f"labels must not be missing, but label {bad} is {labels[bad]}; pass labelled points only")
    classes = np.unique(labels)
    if classes.size == 1:
        raise InvalidInput(
            f"labels must hold at least two classes, but all {labels.size} are {classes.tolist()[0]!r}; "
            "with one class there is nothing to flip between"
        )
    if np.issubdtype(labels.dtype, np.floating) and classes.size > LARGEST_FLOAT_CLASSES:
        raise InvalidInput(
            f"labels must be classes, but they hold {classes.size} different real numbers, such as "
            f"{classes[:3].tolist()}; these look like regression targets: round them, or pass names"
        )
    return labels, classes, np.searchsorted(classes, labels).astype(np.int64)


def check_cap(C: object) -> float:
    """A positive regularisation constant."""
    value = real_number(C)
    if value is None or not value > 0:
        raise InvalidInput(
            f"C must be a positive finite number, got {in_short(C)}; cross-validation chooses it with C='cv'"
        )
    if not SMALLEST_C <= value <= LARGEST_C:
        raise InvalidInput(
            f"C must be between {SMALLEST_C:g} and {LARGEST_C:g}, got {value:g}; "
            "rescale the kernel instead: (K·s, C/s) is the same problem as (K, C)"
        )
    return value


def provably_positive_definite(A: Float, margin: float = 0.0) -> bool:
    """Whether ``A − margin·I`` is positive definite, proved by a floating-point Cholesky factorisation.

    If the factorisation of ``A − c·I`` runs through, with ``c ≥ γ_{m+1}/(1−γ_{m+1})·tr(A)``, then ``A`` is
    positive definite (Rump 2006): ``c`` covers all rounding errors.
    """
    m = A.shape[0]
    trace = float(np.abs(np.diag(A)).sum())
    cover = 4.0 * (m + 3) * 2.0**-53 * (trace + m * abs(margin)) + 1e-290
    shifted = A.copy()
    shifted[np.diag_indices(m)] -= margin + cover
    try:
        factor(shifted)
    except np.linalg.LinAlgError:
        return False
    return True


def settle_kernel(
    K: Float, K_test: Float, anywhere: Callable[[], bool], *, roughly: bool = False
) -> tuple[Float, float, float]:
    """Make sure that every score is well defined: ``(kernel, shift, lower bound on its eigenvalues)``.

    That needs a positive semidefinite kernel and, where it is singular, test rows in its range (unless scores are
    defined for rows ``anywhere``). Kernels for which both can be shown are kept to the bit: by a factorisation where
    the kernel is definite, in exact arithmetic where it is nearly singular and m ≤ ``EXACT_PSD_LIMIT``. Otherwise, if
    nothing is missed by more than rounding, a small power of two is added to the diagonal, which makes the kernel
    positive definite; what misses by more is refused. A bound that is only ``roughly`` known is enough for a few
    trainings, and takes half as long.
    """
    m = K.shape[0]
    diagonal = np.diag(K)
    scale = float(np.abs(K).max())
    if diagonal.min() < -PSD_TOLERANCE * scale:
        i = int(diagonal.argmin())
        raise InvalidInput(
            f"K_train must be positive semidefinite, but its diagonal entry {i} is {diagonal[i]:.6g}; "
            "a squared norm cannot be negative"
        )
    if scale == 0.0:
        return K, 0.0, 0.0
    if m > LARGE:
        if roughly and provably_positive_definite(K, ROUGH_FLOOR * scale):
            return K, 0.0, ROUGH_FLOOR * scale
        return _settle_large(K, K_test, scale, anywhere)
    # A quick proof for well-conditioned kernels; the eigenvalues are needed only where it fails. A sharper one makes
    # the error bounds of all trainings sharper.
    for share in FLOORS if m > EXACT_PSD_LIMIT else ():
        if provably_positive_definite(K, share * scale):
            return K, 0.0, share * scale
    eigenvalues, vectors = scipy.linalg.eigh(K)
    low, high = float(eigenvalues[0]), float(eigenvalues[-1])
    _refuse_indefinite(low, high, scale)
    for share in (0.9, 0.5, 0.1):
        if low > 0 and provably_positive_definite(K, share * low):
            return K, 0.0, share * low
    exactly = m <= EXACT_PSD_LIMIT and exact.is_psd(K)
    if exactly and (exact.in_range(K, K_test) or anywhere()):
        return K, 0.0, 0.0
    if not anywhere():
        _check_range(K_test, eigenvalues, vectors)
    return _shifted(K, max(abs(low), _rounding(K)))


def _refuse_indefinite(low: float, high: float, scale: float) -> None:
    """Refuse a kernel whose smallest eigenvalue is negative by more than rounding."""
    if low < -PSD_TOLERANCE * max(high, scale):
        raise InvalidInput(
            f"K_train must be positive semidefinite, but its smallest eigenvalue is {low:.6g} "
            f"(the largest is {high:.6g}); this is no kernel matrix. If it should be one up to noise, "
            f"add {2 * abs(low):.2g} to its diagonal"
        )


def _rounding(K: Float) -> float:
    """What has to be added to the diagonal of a singular kernel for a proof that it is definite then."""
    return float(16 * (K.shape[0] + 3) * 2.0**-53 * np.abs(np.diag(K)).sum())


def _shifted(K: Float, least: float) -> tuple[Float, float, float]:
    """The kernel with a power of two of at least this on its diagonal that makes it definite."""
    shift = 2.0 ** math.ceil(math.log2(least))
    while True:
        shifted = K + shift * np.eye(K.shape[0])
        if provably_positive_definite(shifted, shift / 4):
            return shifted, shift, shift / 4
        shift *= 2


def _settle_large(K: Float, K_test: Float, scale: float, anywhere: Callable[[], bool]) -> tuple[Float, float, float]:
    """The same for large kernels by factorisations alone: eigenvalues would take much longer than all the rest."""
    m = K.shape[0]
    cover = 4.0 * (m + 3) * 2.0**-53 * float(np.abs(np.diag(K)).sum()) + 1e-290
    L = K.copy()
    L[np.diag_indices(m)] -= cover
    try:
        factor(L)
    except np.linalg.LinAlgError:
        return _settle_singular(K, K_test, scale, anywhere)
    # Inverse iteration comes close to the smallest eigenvalue from above.
    v, low = np.asarray(np.random.default_rng(0).standard_normal(m)), scale
    for _ in range(INVERSE_STEPS):
        v = solve(L, v / float(np.linalg.norm(v)))
        low = cover + 1.0 / float(np.linalg.norm(v))
    for share in (0.5, 0.05, 1e-3):
        if share * low > cover and provably_positive_definite(K, share * low):
            return K, 0.0, share * low
    return K, 0.0, 0.0


def _settle_singular(K: Float, K_test: Float, scale: float, anywhere: Callable[[], bool]) -> tuple[Float, float, float]:
    """A large kernel that is singular, or nearly so, or no kernel."""
    high = float(np.abs(K).sum(axis=1).max())
    shift = 2.0 ** math.ceil(math.log2(_rounding(K)))
    L = K + shift * np.eye(K.shape[0])
    try:
        factor(L)
    except np.linalg.LinAlgError:
        low = float(scipy.sparse.linalg.eigsh(K, 1, which="SA", tol=1e-3, return_eigenvectors=False)[0])
        _refuse_indefinite(low, high, scale)
        return _shifted(K, max(abs(low), 2 * shift))
    if not anywhere():
        # What the kernel cannot explain of a row is nearly all that is left; of a row that fits, it leaves little.
        outside = np.concatenate(
            [shift * np.linalg.norm(solve(L, K_test[t : t + 256].T), axis=0) for t in range(0, len(K_test), 256)]
        )
        _refuse_outside(outside, high, K_test)
    return _shifted(K, shift)


def _check_range(K_test: Float, eigenvalues: Float, vectors: Float) -> None:
    """Refuse test rows that no kernel could have beside a (nearly) singular training kernel.

    A joint kernel is positive semidefinite only if ``(v·k_t)² ≤ λ·K_tt`` for every eigenpair of ``K_train``.
    """
    high = float(eigenvalues[-1])
    null = vectors[:, eigenvalues <= 1e-12 * high]
    if null.shape[1] == 0:
        return
    _refuse_outside(np.abs(K_test @ null).max(axis=1), high, K_test)


def _refuse_outside(outside: Float, high: float, K_test: Float) -> None:
    """Refuse rows of which too much is outside of the range of the kernel."""
    excess = outside - RANGE_TOLERANCE * (high + np.linalg.norm(K_test, axis=1))
    if excess.max() > 0:
        t = int(excess.argmax())
        raise InvalidInput(
            f"K_test row {t} does not fit K_train: K_train is singular, and the row sticks out of its range by "
            f"{outside[t]:.3g}, so its score would depend on which of several optimal SVMs is found. "
            "Compute both from the same kernel, or add a small constant to K_train's diagonal"
        )


def check_workers(workers: int | None) -> int:
    """A number of threads; None means all cores that this process may use."""
    if workers is None:
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if whole_number("workers", workers, least=1) > MOST_WORKERS:
        raise InvalidInput(f"workers must be at most {MOST_WORKERS}, got {in_short(workers)}")
    return workers


def check_seconds(name: str, seconds: float | None) -> float | None:
    """A positive number of seconds, or None."""
    if seconds is None:
        return None
    number = real_number(seconds)
    if number is None or not number > 0:
        raise InvalidInput(f"{name} must be a positive number of seconds, got {in_short(seconds)}")
    return number
