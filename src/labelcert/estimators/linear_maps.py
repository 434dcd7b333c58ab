"""Estimators whose scores are linear in the labels: ridge regression, Gaussian processes, neighbours, propagation."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import scipy.linalg
from sklearn.base import is_regressor
from sklearn.linear_model import Ridge, RidgeClassifier

from labelcert.arrays import Bool, Float, Values
from labelcert.certificate import Certificate
from labelcert.certification import GivenKernel, GivenNeighbours, GivenRows, Names
from labelcert.errors import InvalidInput
from labelcert.estimators.base import (
    Certifiable,
    LinearModel,
    Transform,
    as_chosen,
    certified,
    checked_labels,
    class_weights,
    removes,
    row_names,
)
from labelcert.estimators.kernels import kernel_between, linear
from labelcert.estimators.near_rows import SHARED, rows_around
from labelcert.estimators.pipelines import unwrapped
from labelcert.prediction.neighbours import Neighbourhoods
from labelcert.problem import Problem

Map = Callable[..., Any]
"""From features of training and test points, which training points are labelled, and what they weigh (if that can be
said) to one row per test point with what each label adds to the score of its class."""

MOST_FREQUENT = "most_frequent"
"""What scikit-learn calls the most frequent label, for points without neighbours."""

LINEAR = "Its scores are linear in the labels, so that radii are exact at any number of labels."


@dataclass(frozen=True)
class LinearMap(Certifiable):
    """A model whose scores are ``H @ one-hot(labels)``.

    Attributes
    ----------
    rows : callable
        Computes H.
    signs : bool
        A regressor on labels -1 and 1, whose sign is the prediction.
    unlabeled : bool
        Points whose label is -1 have none, as in scikit-learn's semi-supervised estimators.
    votes : bool
        Ties are exact, and the first class wins them.
    outlier : object
        What is predicted where no label has a say; ``votes`` alone.
    weighted : bool
        Whether labels may have weights.
    machine : callable or None
        From features of training and test points to a kernel, test rows and the ``C`` of the kernel ridge regression
        that the model is: where labels are removed, H says nothing about the other ones.
    intercept : bool
        Whether that has an intercept that is not regularised. A class without labels is never predicted then.
    around : callable or None
        From features of training and test points and a problem to the rows that may vote, where some are removed.
    """

    rows: Map
    signs: bool = False
    unlabeled: bool = False
    votes: bool = False
    outlier: Any = None
    weighted: bool = False
    machine: Callable[[Float, Float], tuple[Float, Float, float]] | None = None
    intercept: bool = False
    around: Callable[[Float, Float, Problem], Neighbourhoods] | None = None

    def _certified(
        self, X_train: Any, y_train: Any, X_test: Any, weight: Float | None, options: Mapping[str, Any]
    ) -> Certificate:
        labels = checked_labels(X_train, y_train)
        if self.signs and not np.isin(labels, (-1, 1)).all():
            raise InvalidInput(
                "a regressor is certified as a classifier by its sign, so y_train must hold -1 and 1 alone; numbers as "
                "targets are what labelcert.certify_regression is for"
            )
        known = labels != -1 if self.unlabeled and labels.dtype.kind in "if" else np.ones(labels.size, dtype=bool)
        features, tested = self.transform(X_train, X_test)
        if weight is not None and not self.weighted:
            raise InvalidInput(f"{type(unwrapped(self.whole)[1]).__name__} has no sample_weight; leave it out")
        if removes(options) and self.machine is not None and weight is None:
            return self._removed(labels, features, tested, Names(row_names(X_test), row_names(X_train)), options)
        if removes(options) and self.around is not None and weight is None:
            names = Names(test=row_names(X_test), labels=row_names(X_train), model=self.explanation)
            near = GivenNeighbours(partial(self.around, features, tested), tested.shape[0])
            return certified(near, labels, names, options)
        H, own = self.rows(features, tested, known, *([] if weight is None else [weight])), row_names(X_train)
        # A class without labels has the score 0; where the sum of all scores is positive, another one has more.
        drops = not self.signs and bool((H.sum(axis=1) <= 1e-9 * abs(H).sum(axis=1)).any())
        offsets = _offsets(H, np.unique(labels), self.outlier) if self.votes else None
        model = GivenRows(_dense(H) if drops else H, drops=drops)
        names = Names(test=row_names(X_test), labels=None if own is None else own[known], model=self.explanation)
        return certified(model, labels[known], names, options, offsets)

    def _removed(
        self, labels: Values, features: Float, tested: Float, names: Names, options: Mapping[str, Any]
    ) -> Certificate:
        """The same model as a kernel machine."""
        assert self.machine is not None
        K, rows, C = self.machine(features, tested)
        drops_to = "" if self.signs or self.intercept else "square"
        model = GivenKernel((K + K.T) / 2, rows, C, loss="square", intercept=self.intercept, drops_to=drops_to)
        return certified(model, labels, replace(names, model=self.explanation), options)


def ridge_cv(estimator: Any, transform: Transform) -> Certifiable:
    """``RidgeCV`` and ``RidgeClassifierCV`` with the alpha that they chose."""
    if not hasattr(estimator, "alpha_"):
        raise InvalidInput(
            f"{type(estimator).__name__} is certified with the alpha that it chose; fit it first, on the same labels"
        )
    plain = RidgeClassifier if hasattr(estimator, "class_weight") else Ridge
    kept = {name: value for name, value in estimator.get_params().items() if name in plain().get_params()}
    chosen = ridge(plain(**kept).set_params(alpha=estimator.alpha_), transform)
    return replace(chosen, explanation=f"{chosen.explanation} {as_chosen('alpha', estimator.alpha_)}")


def ridge(estimator: Any, transform: Transform) -> Certifiable:
    """``Ridge`` and ``RidgeClassifier``, with or without an intercept."""
    if estimator.positive:
        raise InvalidInput(f"{type(estimator).__name__}(positive=True) is not linear in the labels; use positive=False")
    alpha, intercept = one_number(estimator, "alpha"), bool(estimator.fit_intercept)
    itself = f"The certified model is {type(estimator).__name__} itself, intercept included."
    class_weight, said = class_weights(estimator) if hasattr(estimator, "class_weight") else (None, "")
    if class_weight is not None:
        if not alpha > 0:
            raise InvalidInput("RidgeClassifier with class_weight needs a positive alpha to be certified")
        # Scores are not linear in labels that decide over weights.
        return LinearModel(
            transform,
            linear,
            1.0 / (2.0 * alpha),
            lambda classes: "square",
            explanation=itself + said,
            free=intercept,
            class_weight=class_weight,
        )

    def rows(X: Float, T: Float, known: Bool, weight: Float | None = None) -> Float:
        s = np.ones(X.shape[0]) if weight is None else weight
        share, root = s / s.sum(), np.sqrt(s)
        mean = share @ X if intercept else np.zeros(X.shape[1])
        A, B = root[:, None] * (X - mean), T - mean
        if X.shape[1] <= X.shape[0]:
            H = B @ _solve(A.T @ A + alpha * np.eye(A.shape[1]), A.T) * root
        else:
            H = B @ A.T @ _solve(A @ A.T + alpha * np.eye(A.shape[0]), np.eye(A.shape[0])) * root
        return H - H.sum(axis=1, keepdims=True) * share + share if intercept else H

    def machine(X: Float, T: Float) -> tuple[Float, Float, float]:
        # An intercept takes up what moves all points; with the mean at 0, less is lost in rounding.
        mean = X.mean(axis=0) if intercept else np.zeros(X.shape[1])
        A, B = X - mean, T - mean
        return A @ A.T, B @ A.T, 0.5 / alpha

    return LinearMap(
        transform,
        rows,
        explanation=f"{itself} {LINEAR}",
        signs=is_regressor(estimator),
        weighted=True,
        machine=machine if alpha > 0 else None,
        intercept=intercept,
    )


def kernel_ridge(estimator: Any, transform: Transform) -> LinearMap:
    """``KernelRidge`` on labels -1 and 1."""
    alpha = one_number(estimator, "alpha")
    own = {"gamma": estimator.gamma, "degree": estimator.degree, "coef0": estimator.coef0}
    options = (estimator.kernel_params or {}) if callable(estimator.kernel) else own

    def kernel(A: Float, B: Float) -> Float:
        return kernel_between(A, B, estimator.kernel, **options)

    def rows(X: Float, T: Float, known: Bool, weight: Float | None = None) -> Float:
        root = np.ones(X.shape[0]) if weight is None else np.sqrt(weight)
        K = kernel(X, X) * np.outer(root, root)
        return np.asarray(_solve(K + alpha * np.eye(X.shape[0]), root[:, None] * kernel(T, X).T).T * root)

    def machine(X: Float, T: Float) -> tuple[Float, Float, float]:
        return kernel(X, X), kernel(T, X), 0.5 / alpha

    said = f"The certified model is KernelRidge itself, by its sign. {LINEAR}"
    return LinearMap(
        transform, rows, explanation=said, signs=True, weighted=True, machine=machine if alpha > 0 else None
    )


def gaussian_process(estimator: Any, transform: Transform) -> LinearMap:
    """``GaussianProcessRegressor`` with fixed hyperparameters, on labels -1 and 1."""
    if estimator.optimizer is not None:
        raise InvalidInput(
            "GaussianProcessRegressor chooses its kernel's parameters by the labels, so changed labels change the "
            "kernel; fix them with optimizer=None (and kernel=fitted.kernel_ to keep those of a fitted one)"
        )
    from sklearn.gaussian_process.kernels import RBF, ConstantKernel

    # The default of scikit-learn: a constant times a Gaussian, both fixed.
    kernel = ConstantKernel(1.0) * RBF(1.0) if estimator.kernel is None else estimator.kernel
    centred = bool(estimator.normalize_y)

    def rows(X: Float, T: Float, known: Bool) -> Float:
        K = kernel(X) + np.diag(np.broadcast_to(estimator.alpha, X.shape[0]))
        H = np.asarray(_solve(K, kernel(T, X).T).T)
        return H - H.mean(axis=1, keepdims=True) + 1.0 / X.shape[0] if centred else H

    return LinearMap(
        transform,
        rows,
        explanation=f"The certified model is GaussianProcessRegressor itself, by its sign. {LINEAR}",
        signs=True,
    )


def neighbours(estimator: Any, transform: Transform) -> LinearMap:
    """``KNeighborsClassifier`` and ``RadiusNeighborsClassifier`` with any weights."""
    from sklearn.neighbors import NearestNeighbors, RadiusNeighborsClassifier

    by_radius = isinstance(estimator, RadiusNeighborsClassifier)
    outlier = estimator.outlier_label if by_radius else None
    if not (outlier is None or np.isscalar(outlier)):
        raise InvalidInput(f"outlier_label must be None, 'most_frequent' or one label, got {outlier!r}")
    search = {name: getattr(estimator, name) for name in SHARED}

    def rows(X: Float, T: Float, known: Bool) -> Any:
        finder = NearestNeighbors(**search).fit(X)
        if by_radius:
            distances, index = finder.radius_neighbors(T, radius=estimator.radius)
        else:
            distances, index = finder.kneighbors(T, n_neighbors=min(estimator.n_neighbors, X.shape[0]))
        index = list(index)
        lonely = [t for t, own in enumerate(index) if len(own) == 0]
        if lonely and outlier is None:
            raise InvalidInput(
                f"test point {lonely[0]} has no neighbour within radius={estimator.radius}; use a larger one, or set "
                "outlier_label"
            )
        weights = [_weights(estimator.weights, np.asarray(far, dtype=np.float64)) for far in distances]
        if outlier == MOST_FREQUENT:
            for t in lonely:  # every label has a vote
                weights[t], index[t] = np.ones(X.shape[0]), np.arange(X.shape[0])
        ends = np.cumsum([0, *map(len, index)])
        H = scipy.sparse.csr_array(
            (np.concatenate(weights), np.concatenate(index), ends), shape=(T.shape[0], X.shape[0])
        )
        H.sort_indices()
        return H

    return LinearMap(
        transform,
        rows,
        explanation=f"The certified model is {type(estimator).__name__} itself. {LINEAR} Where votes are tied, "
        "the first class wins: its score has a fraction of a vote more.",
        votes=True,
        outlier=outlier,
        around=partial(rows_around, estimator) if estimator.weights in (None, "uniform") else None,
    )


def label_propagation(estimator: Any, transform: Transform) -> LinearMap:
    """``LabelPropagation`` and ``LabelSpreading`` at convergence; points with the label -1 have none."""
    from sklearn.semi_supervised import LabelSpreading

    spreading = isinstance(estimator, LabelSpreading)

    def rows(X: Float, T: Float, known: Bool) -> Float:
        fresh = type(estimator)(**estimator.get_params())
        fresh.X_ = X
        fresh.n_features_in_ = X.shape[1]
        # scikit-learn's own graph; it asks for the points alone.
        G = np.asarray(_dense(fresh._build_graph()), dtype=np.float64)
        labelled = np.flatnonzero(known)
        m = labelled.size
        if spreading:
            F = _solve(np.eye(X.shape[0]) - fresh.alpha * G, np.eye(X.shape[0])[:, labelled])
        else:
            P = G / G.sum(axis=1, keepdims=True)
            free = np.flatnonzero(~known)
            F = np.zeros((X.shape[0], m))
            F[labelled] = np.eye(m)
            if free.size:
                F[free] = _solve(np.eye(free.size) - P[np.ix_(free, free)], P[np.ix_(free, labelled)])
        F = F / np.maximum(F.sum(axis=1, keepdims=True), 1e-300)
        if fresh.kernel == "knn":
            near = fresh._get_kernel(X, T)
            return np.array([F[own].sum(axis=0) for own in near])
        return np.asarray(np.asarray(_dense(fresh._get_kernel(X, T))).T @ F)

    return LinearMap(
        transform,
        rows,
        explanation=f"The certified model is {type(estimator).__name__} at convergence; the estimator stops just "
        f"before. {LINEAR}",
        unlabeled=True,
    )


def _weights(weights: Any, distances: Float) -> Float:
    """As scikit-learn weighs neighbours: equally, by the inverse of their distance, or by a function of it."""
    if weights in (None, "uniform"):
        return np.ones_like(distances)
    if weights == "distance":
        zero = distances == 0.0
        return np.asarray(zero.astype(np.float64) if zero.any() else 1.0 / distances)
    if callable(weights):
        return np.asarray(np.asarray(weights(distances[None]), dtype=np.float64)[0])
    raise InvalidInput(f"weights must be 'uniform', 'distance' or a function, got {weights!r}")


def _offsets(H: scipy.sparse.csr_array, classes: Values, outlier: Any) -> Float:
    """(n, K) what no sum of votes can make up for, but decides a tie for the first class; a vote where there is none.

    Sums of a row's entries are multiples of the lowest bit among these.
    """
    first = np.arange(classes.size)[::-1] / 2.0 ** np.ceil(np.log2(classes.size))
    mantissa, exponent = np.frexp(H.data)
    whole = np.ldexp(mantissa, 53).astype(np.int64)
    lowest = np.ldexp((whole & -whole).astype(np.float64), exponent - 53)
    lonely = np.diff(H.indptr) == 0
    unit = np.ones(H.shape[0])
    if not lonely.all():
        unit[~lonely] = np.minimum.reduceat(lowest, H.indptr[:-1][~lonely])
    if lonely.any() and outlier not in classes:
        raise InvalidInput(f"outlier_label must be one of the labels, {classes.tolist()}, got {outlier!r}")
    offsets: Float = np.where(lonely[:, None], classes == outlier, unit[:, None] * first)
    return offsets


def _solve(A: Float, B: Float) -> Float:
    try:
        return np.asarray(scipy.linalg.solve(A, B))
    except np.linalg.LinAlgError:
        raise InvalidInput("the estimator's linear system is singular; use a larger alpha") from None


def one_number(estimator: Any, name: str) -> float:
    """A parameter that could be an array, and must not be."""
    value = getattr(estimator, name)
    if np.ndim(value) != 0:
        raise InvalidInput(f"{type(estimator).__name__}({name}=...) must be one number, got an array")
    return float(value)


def _dense(A: Any) -> Any:
    return A.toarray() if hasattr(A, "toarray") else A
