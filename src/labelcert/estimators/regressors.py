"""Regressors of scikit-learn as linear maps of their targets, with proved error bounds: each is one function here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.linalg
from sklearn.base import OneToOneFeatureMixin

from labelcert.arrays import Float, Text
from labelcert.errors import InvalidInput
from labelcert.estimators.base import Certifiable, Transform, checked_weights, row_names
from labelcert.estimators.kernels import kernel_between
from labelcert.estimators.linear_maps import LinearMap, neighbours, one_number
from labelcert.estimators.pipelines import Steps, unwrapped
from labelcert.memory import require_memory
from labelcert.problem import Threat
from labelcert.regression import RegressionCertificate, TargetMap, TargetRows, certified_targets, given_map
from labelcert.regression.rows import UNIT

SUGGESTED = "Ridge, RidgeCV, LinearRegression, KernelRidge, GaussianProcessRegressor and KNeighborsRegressor"


EIGENVALUES_AT_MOST = 2000
"""Rows of matrices whose eigenvalues are computed; of larger ones, bounds are tried out."""

GROWTH = 32.0
"""From one bound to the next one to try."""

LINEAR_IN_TARGETS = "Its predictions are linear in the targets, so that moves are exact at any number of them."


class Maps(NamedTuple):
    """Predictions, and coefficients where the model has some."""

    predictions: TargetMap
    coefficients: TargetMap | None = None


def certify_regression(
    estimator: Any = None,
    X: Any = None,
    y: npt.ArrayLike = (),
    X_test: Any = None,
    *,
    H: Any = None,
    change: Any,
    max_changes: int | None = None,
    threshold: npt.ArrayLike | None = None,
    threat: Threat | None = None,
    sample_weight: npt.ArrayLike | None = None,
    time_limit: float | None = None,
) -> RegressionCertificate:
    """How far a few wrong targets can move each prediction, and each coefficient, of a regression.

    The model must be linear in its targets. The largest moves are then sums of the largest single ones: exact at any
    size, but for rounding, which is bounded.

    Parameters
    ----------
    estimator
        ``Ridge``, ``RidgeCV`` (fitted), ``LinearRegression``, ``KernelRidge``, ``GaussianProcessRegressor`` (with
        ``optimizer=None``) or ``KNeighborsRegressor``, or a pipeline that ends with one.
    X, y, X_test
        As for ``fit`` and ``predict``: m training points with one number each, and n test points.
    H : (n, m) array or SciPy sparse matrix, optional
        Instead of an estimator, X and X_test: predictions are ``H @ y``, for the float64 numbers in ``H``.
    change : number, (m,) array, or a pair (down, up) of these
        How far wrong targets are off: target i may be anything between ``y[i] - down`` and ``y[i] + up``.
    max_changes : int, optional
        Largest number of wrong targets (with costs, cost units; with annotators, annotators); by default all, but at
        most 1,000.
    threshold : number or (n,) array, optional
        For radii: the fewest wrong targets that take each prediction to it, or past it.
    threat : Threat, optional
        Which targets can be wrong: ``trusted``, ``costs``, ``groups`` and ``group_budgets``, or ``annotators``,
        ``prices`` and ``trusted_annotators``.
    sample_weight : (m,) array, optional
        As for ``fit``.
    time_limit : float, optional
        Seconds; of predictions that are not reached by then, no move is bounded.

    Returns
    -------
    RegressionCertificate

    Examples
    --------
    >>> import labelcert
    >>> from sklearn.linear_model import Ridge
    >>> X, y = [[0.0], [1.0], [2.0], [3.0]], [0.0, 1.0, 2.0, 3.0]
    >>> cert = labelcert.certify_regression(Ridge(alpha=1.0), X, y, [[4.0]], change=1.0, max_changes=2, threshold=2.0)
    >>> cert.shift.round(3).tolist(), cert.radius_lower.tolist()
    ([[0.0, 0.875, 1.333]], [3])
    """
    asked: dict[str, Any] = {"change": change, "max_changes": max_changes, "threshold": threshold, "threat": threat}
    if H is not None:
        if not (estimator is None and X is None and X_test is None and sample_weight is None):
            raise InvalidInput("give an estimator with X, y and X_test, or H and y; H already is the trained model")
        return certified_targets(given_map(H), y, **asked, time_limit=time_limit)
    if estimator is None or X is None or X_test is None:
        raise InvalidInput("give an estimator with X, y and X_test, or H and y")
    weight = None if sample_weight is None else checked_weights(sample_weight, X)
    steps, last = unwrapped(estimator)
    train, tested = Steps(steps)(X, X_test)
    maps = _maps(last, train, tested, weight)
    return certified_targets(
        maps.predictions,
        y,
        **asked,
        time_limit=time_limit,
        coefficients=maps.coefficients,
        names=row_names(X_test),
        target_names=row_names(X),
        features=_feature_names(X, steps, train.shape[1]),
        model=f"{type(last).__name__}. {LINEAR_IN_TARGETS}",
    )


def by_sign(estimator: Any, transform: Transform) -> Certifiable:
    """A regressor on labels -1 and 1, as a classifier."""

    def rows(X: Float, T: Float, known: Any, weight: Float | None = None) -> Float:
        found = _maps(estimator, X, T, weight).predictions
        return found.read(0, found.n).H

    said = f"The certified model is {type(estimator).__name__} itself, by its sign. {LINEAR_IN_TARGETS}"
    weighted = type(estimator).__name__ == "LinearRegression"
    return LinearMap(transform, rows, explanation=said, signs=True, weighted=weighted)


def _maps(last: Any, X: Float, T: Float, weight: Float | None) -> Maps:
    kinds = [kind.__name__ for kind in type(last).__mro__ if kind.__module__.partition(".")[0] == "sklearn"]
    kind = next((name for name in kinds if name in REGRESSORS), None)
    if kind is None:
        raise InvalidInput(
            f"{type(last).__name__} is not linear in its targets, or not known to be; those that are known are "
            f"{SUGGESTED}, and any other linear model as H="
        )
    if weight is not None and kind not in WEIGHTED:
        raise InvalidInput(f"{kind} has no sample_weight; leave it out")
    return REGRESSORS[kind](last, X, T, weight)


def _feature_names(X: Any, steps: list[tuple[str, Any]], d: int) -> Text | None:
    columns = getattr(X, "columns", None)
    if columns is None or len(columns) != d or not all(isinstance(step, OneToOneFeatureMixin) for _, step in steps):
        return None
    return np.array([str(name) for name in columns])


def _ridge(estimator: Any, X: Float, T: Float, weight: Float | None) -> Maps:
    """Ridge and linear regression: ``coef = (AᵀA + αI)⁻¹ Aᵀ √s (y - ȳ)`` with A the centred features times √s."""
    if getattr(estimator, "positive", False):
        raise InvalidInput(
            f"{type(estimator).__name__}(positive=True) is not linear in the targets; use positive=False"
        )
    alpha = float(getattr(estimator, "alpha_", np.nan)) if hasattr(estimator, "alphas") else 0.0
    alpha = one_number(estimator, "alpha") if hasattr(estimator, "alpha") else alpha
    if np.isnan(alpha):
        raise InvalidInput("RidgeCV is certified with the alpha that it chose; fit it first, on the same targets")
    (m, d), intercept = X.shape, bool(estimator.fit_intercept)
    require_memory(8 * 6 * m * d, f"the linear map from {m} targets to {d} coefficients")
    s = np.ones(m) if weight is None else weight
    share, root = s / s.sum(), np.sqrt(s)
    mean = share @ X if intercept else np.zeros(d)
    A, B = root[:, None] * (X - mean), T - mean
    W, off = _primal(A, alpha) if d <= m else _dual(A, alpha)
    C, off = W * root, off * root
    if intercept:
        lengths = np.sqrt((C**2).sum(axis=0))
        off = off + share * (off.sum() + (m + 4) * UNIT * lengths.sum()) + 4 * UNIT * lengths
        C = C - C.sum(axis=1, keepdims=True) * share
    base = share if intercept else np.zeros(m)
    # Of the product with a test row, and of the sum with the mean of the targets.
    column = 1.01 * (off + (d + 8) * UNIT * np.sqrt((C**2).sum(axis=0)) + (m + 8) * UNIT * base)

    def predictions(start: int, stop: int) -> TargetRows:
        own = B[start:stop]
        return TargetRows(own @ C + base, 1.0 + _lengths(own), column, np.ones(len(own)))

    def coefficients(start: int, stop: int) -> TargetRows:
        return TargetRows(C[start:stop], np.ones(stop - start), column, np.ones(stop - start))

    return Maps(TargetMap(len(T), m, predictions), TargetMap(d, m, coefficients))


def _primal(A: Float, alpha: float) -> tuple[Float, Float]:
    """``(AᵀA + αI)⁻¹ Aᵀ``, (d, m), and a bound on the length of the error of each column.

    With a residual R, the error of a column is at most ``|R| / λ``, where λ is at most the smallest eigenvalue.
    """
    m, d = A.shape
    G, size = A.T @ A, float((A**2).sum())
    rounding = 1.1 * (m + 10 * d + 10) * UNIT * size
    least = max(alpha, float(np.linalg.eigvalsh(G)[0]) + alpha - rounding) if d else 1.0
    if not least > 0.0:
        raise InvalidInput(
            "the features are linearly dependent, or nearly so: leave some out, or use Ridge with a positive alpha"
        )
    M = G + alpha * np.eye(d)
    factor = scipy.linalg.cho_factor(M)
    W = scipy.linalg.cho_solve(factor, A.T)
    W = W + scipy.linalg.cho_solve(factor, A.T - M @ W)
    left = _lengths((A.T - M @ W).T) + (rounding + (d + 4) * UNIT * alpha) * _lengths(W.T) + 2 * UNIT * _lengths(A)
    return W, 1.01 * left / least


def _dual(A: Float, alpha: float) -> tuple[Float, Float]:
    """The same as ``Aᵀ (AAᵀ + αI)⁻¹``, where there are more features than targets."""
    m, d = A.shape
    if not alpha > 0.0:
        raise InvalidInput("there are more features than targets: leave some out, or use Ridge with a positive alpha")
    size = float((A**2).sum())
    M = A @ A.T + alpha * np.eye(m)
    factor = scipy.linalg.cho_factor(M)
    S = scipy.linalg.cho_solve(factor, np.eye(m))
    S = S + scipy.linalg.cho_solve(factor, np.eye(m) - M @ S)
    rounding = 1.1 * (m + d + 10) * UNIT * (size + alpha)
    left = _lengths((np.eye(m) - M @ S).T) + rounding * _lengths(S.T) + 2 * UNIT
    length = np.sqrt(size)
    return A.T @ S, 1.01 * (length * left / alpha + (m + 4) * UNIT * length * _lengths(S.T))


def _kernel_ridge(estimator: Any, X: Float, T: Float, weight: Float | None) -> Maps:
    """``H = K_test (K + αI)⁻¹``, with weights as scikit-learn has them."""
    own = {"gamma": estimator.gamma, "degree": estimator.degree, "coef0": estimator.coef0}
    options = (estimator.kernel_params or {}) if callable(estimator.kernel) else own
    root = np.ones(len(X)) if weight is None else np.sqrt(weight)
    K = kernel_between(X, X, estimator.kernel, **options) * np.outer(root, root)
    noise = np.full(len(X), one_number(estimator, "alpha"))

    def rows(start: int, stop: int) -> Float:
        return root * kernel_between(T[start:stop], X, estimator.kernel, **options)

    return Maps(_solved(K, noise, rows, len(T), root, centred=False))


def _gaussian_process(estimator: Any, X: Float, T: Float, weight: Float | None) -> Maps:
    """The same with a kernel of scikit-learn; where targets are normalised, their scale cancels."""
    if estimator.optimizer is not None:
        raise InvalidInput(
            "GaussianProcessRegressor chooses its kernel's parameters by the targets; fix them with optimizer=None "
            "(and kernel=fitted.kernel_ to keep those of a fitted one)"
        )
    from sklearn.gaussian_process.kernels import RBF, ConstantKernel

    kernel = ConstantKernel(1.0) * RBF(1.0) if estimator.kernel is None else estimator.kernel
    noise = np.broadcast_to(np.asarray(estimator.alpha, dtype=np.float64), (len(X),))
    ones = np.ones(len(X))
    rows: Callable[[int, int], Float] = lambda start, stop: kernel(T[start:stop], X)  # noqa: E731
    return Maps(_solved(kernel(X), noise, rows, len(T), ones, centred=bool(estimator.normalize_y)))


def _solved(
    K: Float, noise: Float, rows: Callable[[int, int], Float], n: int, root: Float, *, centred: bool
) -> TargetMap:
    """``rows (K + diag(noise))⁻¹ diag(root)``; centred: on targets without their mean, which is added again."""
    m = len(K)
    require_memory(8 * 4 * m * m, f"a kernel of {m} targets")
    M = (K + K.T) / 2 + np.diag(noise)
    least = _least_eigenvalue(M, float(noise.min()) / 2)
    factor = scipy.linalg.cho_factor(M)
    # Of a residual: its own rounding, and that of the diagonal and of the symmetric part.
    rounding = 1.1 * (m + 8) * UNIT * float(np.sqrt((M**2).sum())) + float(np.abs(K - K.T).max(initial=0.0)) * m

    def read(start: int, stop: int) -> TargetRows:
        right = np.asarray(rows(start, stop), dtype=np.float64).T
        S = scipy.linalg.cho_solve(factor, right)
        S = S + scipy.linalg.cho_solve(factor, right - M @ S)
        off = 1.01 * (_lengths((right - M @ S).T) + rounding * _lengths(S.T) + UNIT * _lengths(right.T)) / least
        H = S.T * root
        off = off + 2 * UNIT * np.abs(S).max(axis=0, initial=0.0)
        if centred:
            off = 2.02 * off + (m + 8) * UNIT * (np.abs(H).mean(axis=1) + 1.0 / m + np.abs(H).max(axis=1, initial=0.0))
            H = H - H.mean(axis=1, keepdims=True) + 1.0 / m
        return TargetRows(H, off, root, np.ones(len(H)))

    return TargetMap(n, m, read)


def _least_eigenvalue(M: Float, guess: float) -> float:
    """A lower bound on the smallest eigenvalue.

    Of large matrices: where a Cholesky factorisation of ``M - guess`` comes to an end, ``guess`` is one, but for
    rounding.
    """
    m = len(M)
    rounding = 1.1 * (m + 2) * UNIT * float(np.abs(np.diagonal(M)).sum())
    least = 0.0
    while m > EIGENVALUES_AT_MOST and guess > rounding:
        try:
            scipy.linalg.cholesky(M - guess * np.eye(m))
        except np.linalg.LinAlgError:
            break
        least, guess = guess - rounding, GROWTH * guess
    if least <= 0.0:
        least = float(scipy.linalg.eigvalsh(M, subset_by_index=(0, 0))[0]) - 10 * rounding
    if not least > 0.0:
        raise InvalidInput("the estimator's linear system is singular, or nearly so; use a larger alpha")
    return least


def _neighbours(estimator: Any, X: Float, T: Float, weight: Float | None) -> Maps:
    """Sums of the neighbours' targets, divided by the sums of their weights."""
    W = neighbours(estimator, Steps([])).rows(X, T, np.ones(len(X), dtype=bool)).tocsr()
    scale = np.asarray(W.sum(axis=1), dtype=np.float64).ravel()
    whole = bool(np.all(W.data == np.round(W.data)))
    most = int(np.diff(W.indptr).max(initial=0))

    def read(start: int, stop: int) -> TargetRows:
        H = W[start:stop].toarray()
        if whole:
            return TargetRows.exact(H, scale[start:stop])
        off = 1.01 * (most + 4) * UNIT * np.abs(H).max(axis=1, initial=0.0)  # of the scale
        return TargetRows(H, off, np.ones(H.shape[1]), scale[start:stop])

    return Maps(TargetMap(len(T), len(X), read))


def _lengths(rows: Float) -> Float:
    """The Euclidean length of each row, a little more."""
    return np.asarray(np.sqrt((rows**2).sum(axis=1)) * (1.0 + 4 * rows.shape[1] * UNIT))


REGRESSORS: dict[str, Callable[[Any, Float, Float, Float | None], Maps]] = {
    "GaussianProcessRegressor": _gaussian_process,
    "KNeighborsRegressor": _neighbours,
    "KernelRidge": _kernel_ridge,
    "LinearRegression": _ridge,
    "Ridge": _ridge,
    "RidgeCV": _ridge,
}
"""How each class of scikit-learn depends on its targets."""

WEIGHTED = {"KernelRidge", "LinearRegression", "Ridge", "RidgeCV"}
