"""An estimator of scikit-learn as a model that can be certified."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from numbers import Real
from typing import Any, Protocol, cast

import numpy as np
import numpy.typing as npt
from sklearn.base import clone, is_regressor
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from labelcert.arrays import Float, Text, Values
from labelcert.certificate import Certificate
from labelcert.certification import GivenFeatures, GivenKernel, Names, Predicts, Run, Task, solve
from labelcert.certification.advice import Adviser
from labelcert.checking import as_labels, in_short, real_array
from labelcert.errors import InvalidInput
from labelcert.estimators.advising import Ridge
from labelcert.labelnoise import Noise, noise_of
from labelcert.losses import get_loss
from labelcert.losses.weighted import BALANCED, Weights
from labelcert.prediction.by_features import LOSSES_BY_FEATURES
from labelcert.problem import Threat
from labelcert.rechecking import Recheck, recheck
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

    def certify(
        self, X_train: Any, y_train: Any, X_test: Any, *, sample_weight: npt.ArrayLike | None = None, **options: Any
    ) -> Certificate:
        """Certify the predictions for test points against changed labels.

        Parameters
        ----------
        X_train, y_train, X_test
            As for the estimator's ``fit`` and ``predict``.
        sample_weight : (m,) array, optional
            As for ``fit``; a changed label keeps its weight.
        **options
            Passed to :func:`labelcert.certify`: ``threat``, ``max_flips``, ``time_limit``, and so on.

        Returns
        -------
        Certificate
            Its remarks say for how many test points the estimator predicts the same.
        """
        weight = None if sample_weight is None else checked_weights(sample_weight, X_train)
        cert = self._certified(X_train, y_train, X_test, weight, options)
        said = [*self._frozen(), *agreement(self.whole, X_train, y_train, X_test, cert.predictions, weight)]
        return remarked(cert, said)

    def recheck(
        self,
        X_train: Any,
        y_train: Any,
        X_test: Any,
        *,
        threat: Threat | None = None,
        sample_weight: npt.ArrayLike | None = None,
        **options: Any,
    ) -> Recheck:
        """Which labels to confirm, so that more predictions survive wrong ones among the others.

        Parameters
        ----------
        X_train, y_train, X_test, sample_weight
            As for :meth:`certify`.
        threat : Threat, optional
            What the adversary may change.
        **options
            Passed to :func:`labelcert.recheck`: ``flips``, ``confirm`` or ``until``, and so on.

        Examples
        --------
        >>> import numpy as np
        >>> from labelcert import from_sklearn
        >>> from sklearn.neighbors import KNeighborsClassifier
        >>> X, y = np.arange(8.0)[:, None], [0, 0, 0, 0, 1, 1, 1, 1]
        >>> from_sklearn(KNeighborsClassifier(3)).recheck(X, y, [[1.0], [6.0]], flips=2, confirm=2)
        Recheck(confirm [0, 1]: 0.0 % -> 50.0 % survive 2 flips)
        """
        weight = None if sample_weight is None else checked_weights(sample_weight, X_train)
        advised = {**options, "using": lambda task, **asked: recheck(replace(task, threat=threat), **asked)}
        found: Any = self._certified(X_train, y_train, X_test, weight, advised)
        return cast(Recheck, found)

    @abstractmethod
    def _certified(
        self, X_train: Any, y_train: Any, X_test: Any, weight: Float | None, options: Mapping[str, Any]
    ) -> Certificate:
        """The certificate, without what the estimator itself has to say."""

    def _frozen(self) -> list[str]:
        """What the transformers of a pipeline have to do with the certificate."""
        names = self.transform.names
        return [f"{names}: fitted without labels, the same whatever labels are changed"] if names else []

    def noise(
        self, X_train: Any, y_train: Any, X_test: Any, *, sample_weight: npt.ArrayLike | None = None, **options: Any
    ) -> Noise:
        """How probable it is that each prediction for the test points changes, where labels are wrong by chance.

        Parameters
        ----------
        X_train, y_train, X_test, sample_weight
            As in :meth:`certify`.
        **options
            Of :func:`labelcert.noise`: ``wrong``, ``time_limit``, ``seed``, and so on.
        """
        weight = None if sample_weight is None else checked_weights(sample_weight, X_train)
        found: Any = self._certified(X_train, y_train, X_test, weight, {**options, "using": noise_of})
        return cast("Noise", found)

    def predict(self, X_train: Any, y_train: Any, X_test: Any) -> Values:
        """What the certified model predicts after training on ``y_train``."""
        return self._certified(X_train, y_train, X_test, None, {"max_flips": 0}).predictions


def remarked(cert: Certificate, said: list[str]) -> Certificate:
    """The certificate with remarks before its own."""
    plain = replace(cert, run=replace(cert.run, remarks=(*said, *cert.run.remarks)))
    return replace(plain, checksum=plain.computed_checksum())


def agreement(
    estimator: Any, X_train: Any, y_train: Any, X_test: Any, predictions: Values, weight: Float | None = None
) -> list[str]:
    """For how many test points an estimator predicts what a certificate does, in words, and where it does not.

    The estimator is taken as it was fitted; one that was not is fitted on the given labels.
    """
    if estimator is None:
        return []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            fitted = is_fitted(estimator)
            ready = estimator if fitted else fitted_with(clone(estimator), X_train, y_train, weight)
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


def fitted_with(estimator: Any, X: Any, y: Any, weight: Any) -> Any:
    """The estimator after a fit; weights of labels go to the last one of a pipeline."""
    if weight is None:
        return estimator.fit(X, y)
    path, last = "", estimator
    while hasattr(last, "steps"):
        name, last = last.steps[-1]
        path += f"{name}__"
    return estimator.fit(X, y, **{f"{path}sample_weight": weight})


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

    def _certified(
        self, X_train: Any, y_train: Any, X_test: Any, weight: Float | None, options: Mapping[str, Any]
    ) -> Certificate:
        if weight is not None:
            raise InvalidInput(
                f"sample_weight cannot be certified with the {self.loss(2)} loss; it can with LogisticRegression, "
                "LinearSVC(loss='squared_hinge'), RidgeClassifier and KernelRidge"
            )
        labels = checked_labels(X_train, y_train)
        features, tested = self.transform(X_train, X_test)
        K, loss = self.kernel(features, features), self.loss(np.unique(labels).size)
        model = GivenKernel((K + K.T) / 2, self.kernel(tested, features), self.C, loss=loss, drops_to=self.loss(2))
        names = Names(test=row_names(X_test), labels=row_names(X_train), model=self.explanation)
        return certified(model, labels, names, options, adviser=self._adviser(features, labels))

    def _adviser(self, features: Float, labels: Values) -> Adviser | None:
        """Who says what would prove more; None: that of all kernel machines."""
        return None


def certified(
    model: Predicts,
    labels: Values,
    names: Names,
    options: Mapping[str, Any],
    offsets: Float | None = None,
    adviser: Adviser | None = None,
) -> Certificate:
    """The certificate of a model, with the options of :func:`labelcert.certify` that are none of the model itself.

    With ``using``, whatever that makes of the task and the options.
    """
    if "using" in options:
        others = {name: value for name, value in options.items() if name != "using"}
        answer: Certificate = options["using"](Task(model, labels, names=names, offsets=offsets), **others)
        return answer
    how = {field.name for field in fields(Run)}
    asked = {"threat", "max_flips", "max_fraction", "margin", "collective", "metrics"}
    for name in options:
        if name not in how | asked:
            raise TypeError(f"certify() takes the options {', '.join(sorted(how | asked))}, got {name!r}")
    about = {name: value for name, value in options.items() if name in asked}
    task = Task(model, labels, names=names, offsets=offsets, adviser=adviser, **about)
    return solve(task, Run(**{name: value for name, value in options.items() if name in how}))


ROWS_NAMED = 10
"""Test points that are named where an estimator does not predict what its certificate does."""

FEW_LABELS = 300
"""Up to so many labels, trainings on a kernel are fast enough to be enumerated."""

FEW_COUPLED = 200
"""The same for labels times classes that are trained together."""


def removes(options: Mapping[str, Any]) -> bool:
    """Whether labels may be removed, which kernel machines alone know."""
    threat = options.get("threat")
    return isinstance(threat, Threat) and threat.removes


OF_KERNELS = frozenset({"engine", "margin", "scheduler", "device", "solver", "trust_solver", "node_time_limit"})
"""Options that kernel machines alone have."""


@dataclass(frozen=True)
class LinearModel(KernelMachine):
    """A linear model: few labels as a kernel machine, many by their features.

    Attributes
    ----------
    constant : float
        A feature that all points share: a regularised intercept. 0 for none.
    free : bool
        Whether there is an intercept that is not regularised, beside the square loss. Other losses say so themselves.
    class_weight : dict, "balanced" or None
        What labels of each class weigh.
    one_sided : bool
        As in :class:`~labelcert.losses.weighted.Weights`.
    """

    constant: float = 0.0
    free: bool = False
    class_weight: Any = None
    one_sided: bool = False

    def _certified(
        self, X_train: Any, y_train: Any, X_test: Any, weight: Float | None, options: Mapping[str, Any]
    ) -> Certificate:
        labels = checked_labels(X_train, y_train)
        classes = np.unique(labels).size
        loss = self.loss(classes)
        by_features = get_loss(loss).kind in LOSSES_BY_FEATURES
        sampled = options.get("using") is noise_of and labels.size > FEW_SAMPLED
        many = by_features and (sampled or many_labels(labels.size, classes, loss))
        weighted = self.class_weight is not None or (weight is not None and by_features)
        if not weighted and (OF_KERNELS & options.keys() or not many or removes(options)):
            return super()._certified(X_train, y_train, X_test, weight, options)
        if weighted and (other := OF_KERNELS & options.keys()):
            raise InvalidInput(f"leave out {', '.join(sorted(other))}: with weights, models are trained on features")
        features, tested = self.transform(X_train, X_test)
        X, T = (with_constant(rows, self.constant) for rows in (features, tested))
        names = Names(test=row_names(X_test), labels=row_names(X_train), model=self.explanation)
        model = GivenFeatures(
            X,
            T,
            self.C,
            loss,
            intercept=self.free,
            drops_to=self.loss(2),
            weights=self._weights(labels.size, np.unique(labels).tolist(), weight) if weighted else None,
            enumerated=self.class_weight is not None or (weighted and not many),
        )
        return certified(model, labels, names, options, adviser=self._adviser(features, labels))

    def _adviser(self, features: Float, labels: Values) -> Adviser:
        """Ridge regression on the same features; who chose by cross-validation takes too long to compare."""
        last = self.whole.steps[-1][1] if hasattr(self.whole, "steps") else self.whole
        return Ridge(None if type(last).__name__.endswith("CV") else last, features, labels)

    def _weights(self, m: int, classes: list[Any], weight: Float | None) -> Weights:
        if weight is not None and self.class_weight == BALANCED:
            raise InvalidInput(
                "sample_weight and class_weight='balanced' cannot be certified together: versions of scikit-learn do "
                "not agree on what that means; give class_weight as a dictionary"
            )
        given = self.class_weight if isinstance(self.class_weight, Mapping) else {}
        if unknown := [name for name in given if name not in classes]:
            raise InvalidInput(f"class_weight names {in_short(unknown[0])}, but the labels are {classes}")
        return Weights(np.ones(m) if weight is None else weight, self.class_weight, self.one_sided)


FEW_SAMPLED = 100
"""With more labels, noise samples labellings of linear models, which are faster trained by their features."""


def many_labels(m: int, classes: int, loss: str) -> bool:
    """Whether a linear model is better trained by its features than by their kernel."""
    return m * classes > FEW_COUPLED if get_loss(loss).coupled else m > FEW_LABELS


def with_constant(X: Float, constant: float) -> Float:
    """Features with one more that all points share, unless it is 0."""
    return np.hstack([X, np.full((X.shape[0], 1), constant)]) if constant else X


def as_chosen(name: str, value: float) -> str:
    """What is said about a parameter that cross-validation chose."""
    return (
        f"It has {name}={value:g}, which cross-validation chose on the labels as they are; changed labels might choose "
        "another one, and the certificate does not look at that."
    )


def no_class_weights(estimator: Any, instead: str) -> None:
    """Refuse weights that depend on labels."""
    if estimator.class_weight is not None:
        raise InvalidInput(
            f"{type(estimator).__name__} with class_weight cannot be certified with the hinge loss; use {instead}, or "
            "class_weight=None"
        )


def class_weights(estimator: Any) -> tuple[Any, str]:
    """What labels of each class weigh, and what is said about it."""
    given = estimator.class_weight
    if given is None:
        return None, ""
    if given != BALANCED and not (
        isinstance(given, Mapping) and all(isinstance(w, Real) and 0 < float(w) < np.inf for w in given.values())
    ):
        raise InvalidInput(f"class_weight must be 'balanced', None, or positive numbers by class, got {given!r}")
    said = " A changed label weighs what its new class does" + (
        ", and all others what their classes do once they are counted anew." if given == BALANCED else "."
    )
    return given, said


def checked_weights(sample_weight: npt.ArrayLike, X: Any) -> Float:
    """One positive number per row."""
    weight = real_array("sample_weight", sample_weight)
    rows = X.shape[0] if hasattr(X, "shape") else len(X)
    if weight.shape != (rows,) or not np.all((weight > 0) & np.isfinite(weight)):
        raise InvalidInput(
            f"sample_weight must hold one positive number per row of X_train ({rows}); leave out rows without weight"
        )
    return weight


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
