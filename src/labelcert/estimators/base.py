"""An estimator of scikit-learn as a model that can be certified."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, Protocol

import numpy as np
from sklearn.base import clone, is_regressor
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from labelcert.arrays import Float, Text, Values
from labelcert.certificate import Certificate
from labelcert.certification import GivenFeatures, GivenKernel, Names, Predicts, Run, Task, solve
from labelcert.checking import as_labels
from labelcert.errors import InvalidInput
from labelcert.losses import get_loss
from labelcert.prediction.by_features import LOSSES_BY_FEATURES
from labelcert.text import per_cent


class Transform(Protocol):
    """From training and test data as the user has them to feature matrices."""

    @property
    def names(self) -> str:
        """The transformers, in words; empty where there are none."""

    def __call__(self, X_train: Any, X_test: Any) -> tuple[Float, Float]:
        """Both, as numbers."""


@dataclass(frozen=True)
class Certifiable(ABC):
    """A model that gives the predictions of a scikit-learn estimator, and can be certified.

    Attributes
    ----------
    transform : callable
        Prepares the data.
    whole
        The estimator that was given, its pipeline included.
    explanation : str
        Which model is certified, and how it differs from the estimator.
    """

    transform: Transform
    whole: Any = field(default=None, kw_only=True, repr=False)
    explanation: str = field(kw_only=True)

    def certify(self, X_train: Any, y_train: Any, X_test: Any, **options: Any) -> Certificate:
        """Certify the predictions for test points against changed labels.

        Parameters
        ----------
        X_train, y_train, X_test
            As for the estimator's ``fit`` and ``predict``.
        **options
            Passed to :func:`labelcert.certify`: ``threat``, ``max_flips``, ``time_limit``, and so on.

        Returns
        -------
        Certificate
            Its remarks say for how many test points the estimator predicts the same.
        """
        cert = self._certified(X_train, y_train, X_test, options)
        said = [*self._frozen(), *agreement(self.whole, X_train, y_train, X_test, cert.predictions)]
        return remarked(cert, said)

    @abstractmethod
    def _certified(self, X_train: Any, y_train: Any, X_test: Any, options: Mapping[str, Any]) -> Certificate:
        """The certificate, without what the estimator itself has to say."""

    def _frozen(self) -> list[str]:
        """What the transformers of a pipeline have to do with the certificate."""
        names = self.transform.names
        return [f"{names}: fitted without labels, the same whatever labels are changed"] if names else []

    def predict(self, X_train: Any, y_train: Any, X_test: Any) -> Values:
        """What the certified model predicts after training on ``y_train``."""
        return self._certified(X_train, y_train, X_test, {"max_flips": 0}).predictions


def remarked(cert: Certificate, said: list[str]) -> Certificate:
    """The certificate with remarks before its own."""
    plain = replace(cert, run=replace(cert.run, remarks=(*said, *cert.run.remarks)))
    return replace(plain, checksum=plain.computed_checksum())


def agreement(estimator: Any, X_train: Any, y_train: Any, X_test: Any, predictions: Values) -> list[str]:
    """For how many test points an estimator predicts what a certificate does, in words, and where it does not.

    The estimator is taken as it was fitted; one that was not is fitted on the given labels.
    """
    if estimator is None:
        return []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            fitted = is_fitted(estimator)
            ready = estimator if fitted else clone(estimator).fit(X_train, y_train)
            predicted = np.asarray(ready.predict(X_test))
        except (TypeError, ValueError) as error:
            return [f"the estimator itself could not predict the test points: {str(error).splitlines()[0]}"]
    if is_regressor(estimator):
        predicted = np.where(predicted > 0, 1, -1)
    n, differs = len(predictions), np.flatnonzero(predicted != predictions).tolist()
    who = f"the estimator, {'as it is' if fitted else 'once'} fitted,"
    if not differs:
        return [f"{who} predicts the same for all {n} test points"]
    rows = ", ".join(map(str, differs[:ROWS_NAMED])) + (", …" if len(differs) > ROWS_NAMED else "")
    return [
        f"{who} predicts the same for {n - len(differs)} of {n} test points ({per_cent(1 - len(differs) / n)} %), and "
        f"something else for rows {rows}: their scores are nearly tied, or it was fitted on other data"
    ]


def is_fitted(estimator: Any) -> bool:
    """Whether an estimator, or the last one of a pipeline, has been fitted."""
    try:
        check_is_fitted(estimator)
    except NotFittedError:
        return False
    return True


@dataclass(frozen=True)
class KernelMachine(Certifiable):
    """A kernel machine on features.

    Attributes
    ----------
    kernel : callable
        From two feature matrices to the kernel between their rows.
    C : float
    loss : callable
        From the number of classes to the name of a loss.
    """

    kernel: Callable[[Float, Float], Float]
    C: float
    loss: Callable[[int], str]

    def _certified(self, X_train: Any, y_train: Any, X_test: Any, options: Mapping[str, Any]) -> Certificate:
        labels = checked_labels(X_train, y_train)
        features, tested = self.transform(X_train, X_test)
        K, loss = self.kernel(features, features), self.loss(np.unique(labels).size)
        model = GivenKernel((K + K.T) / 2, self.kernel(tested, features), self.C, loss=loss, drops_to=self.loss(2))
        names = Names(test=row_names(X_test), labels=row_names(X_train), model=self.explanation)
        return certified(model, labels, names, options)


def certified(
    model: Predicts, labels: Values, names: Names, options: Mapping[str, Any], offsets: Float | None = None
) -> Certificate:
    """The certificate of a model, with the options of :func:`labelcert.certify` that are none of the model itself."""
    how = {field.name for field in fields(Run)}
    asked = {"threat", "max_flips", "max_fraction", "margin", "collective"}
    for name in options:
        if name not in how | asked:
            raise TypeError(f"certify() takes the options {', '.join(sorted(how | asked))}, got {name!r}")
    task = Task(
        model, labels, names=names, offsets=offsets, **{name: value for name, value in options.items() if name in asked}
    )
    return solve(task, Run(**{name: value for name, value in options.items() if name in how}))


ROWS_NAMED = 10
"""Test points that are named where an estimator does not predict what its certificate does."""

FEW_LABELS = 300
"""Up to so many labels of two classes (fewer of more classes that are trained together), trainings on a kernel are
fast enough to be enumerated."""

OF_KERNELS = frozenset({"engine", "margin", "scheduler", "device", "solver", "trust_solver", "node_time_limit"})
"""Options that kernel machines alone have."""


@dataclass(frozen=True)
class LinearModel(KernelMachine):
    """A linear model: few labels as a kernel machine, many by their features.

    Attributes
    ----------
    constant : float
        A feature that all points share: a regularised intercept. 0 for none.
    """

    constant: float = 0.0

    def _certified(self, X_train: Any, y_train: Any, X_test: Any, options: Mapping[str, Any]) -> Certificate:
        labels = checked_labels(X_train, y_train)
        classes = np.unique(labels).size
        loss = self.loss(classes)
        if OF_KERNELS & options.keys() or not many_labels(labels.size, classes, loss):
            return super()._certified(X_train, y_train, X_test, options)
        X, T = (with_constant(rows, self.constant) for rows in self.transform(X_train, X_test))
        names = Names(test=row_names(X_test), labels=row_names(X_train), model=self.explanation)
        model = GivenFeatures(X, T, self.C, loss, drops_to=self.loss(2))
        return certified(model, labels, names, options)


def many_labels(m: int, classes: int, loss: str) -> bool:
    """Whether a linear model is better trained by its features than by their kernel."""
    found = get_loss(loss)
    models = classes if found.coupled else 2
    return found.kind in LOSSES_BY_FEATURES and m * models > 2 * FEW_LABELS


def with_constant(X: Float, constant: float) -> Float:
    """Features with one more that all points share, unless it is 0."""
    return np.hstack([X, np.full((X.shape[0], 1), constant)]) if constant else X


def as_chosen(name: str, value: float) -> str:
    """What is said about a parameter that cross-validation chose."""
    return (
        f"It has {name}={value:g}, which cross-validation chose on the labels as they are; changed labels might choose "
        "another one, and the certificate does not look at that."
    )


def no_class_weights(estimator: Any) -> None:
    """Refuse weights that depend on labels."""
    if estimator.class_weight is not None:
        raise InvalidInput(
            f"{type(estimator).__name__}(class_weight=...) weighs labels by their class, so that a changed label "
            "changes all weights; that cannot be certified. Use class_weight=None"
        )


def checked_labels(X: Any, y: Any) -> Values:
    """The labels, one per row of the data."""
    labels = as_labels(y)
    rows = X.shape[0] if hasattr(X, "shape") else len(X)
    if labels.ndim != 1 or labels.size != rows:
        raise InvalidInput(f"y_train must hold one label per row of X_train ({rows}), got shape {labels.shape}")
    own, other = _index(X), _index(y)
    if own is not None and other is not None and not own.equals(other):
        raise InvalidInput(
            "X_train and y_train are data frames with different indices, so their rows do not belong together; "
            "align them first: y_train = y_train.loc[X_train.index]"
        )
    return labels


def row_names(X: Any) -> Text | None:
    """Names of the rows of a data frame whose index is more than numbers."""
    index = _index(X)
    if index is None or type(index).__name__ == "RangeIndex":
        return None
    return np.array([str(name) for name in index])


def _index(X: Any) -> Any:
    """The index of a data frame or series."""
    index = getattr(X, "index", None)
    return index if hasattr(index, "equals") else None
