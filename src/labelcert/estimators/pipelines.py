"""What comes before the estimator in a pipeline: transformers that do not look at labels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.pipeline import Pipeline
from sklearn.utils import get_tags

from labelcert.arrays import Float
from labelcert.checking import unmasked
from labelcert.errors import InvalidInput


def unwrapped(estimator: Any) -> tuple[list[tuple[str, Any]], Any]:
    """The steps before the last one, and the last one itself."""
    steps: list[tuple[str, Any]] = []
    while isinstance(estimator, Pipeline):
        before = [(name, step) for name, step in estimator.steps[:-1] if step not in (None, "passthrough")]
        steps, estimator = [*steps, *before], estimator.steps[-1][1]
    return steps, estimator


@dataclass(frozen=True)
class Steps:
    """Transformers of a pipeline, for training and test data as the user has them.

    Attributes
    ----------
    steps : list of (str, transformer)
    fitted : bool
        Whether they are taken as they were fitted. Otherwise they are fitted on the training data, without labels.
    """

    steps: list[tuple[str, Any]]
    fitted: bool = False

    @property
    def names(self) -> str:
        """Their kinds."""
        return ", ".join(type(step).__name__ for _, step in self.steps)

    def __call__(self, X_train: Any, X_test: Any) -> tuple[Float, Float]:
        """Both as matrices of features.

        Raises
        ------
        InvalidInput
            A transformer asks for labels, or cannot do with what came.
        """
        for name, step in self.steps:
            X_train, X_test = self._through(name, step, X_train, X_test)
        ready = features("X_train", X_train)
        return ready, features("X_test", X_test, columns=ready.shape[1])

    def _through(self, name: str, step: Any, X_train: Any, X_test: Any) -> tuple[Any, Any]:
        fresh, features = _without_labels(name, step, X_train)
        if not self.fitted:
            return features, _transformed(name, fresh, X_test)
        as_fitted = _transformed(name, step, X_train)
        if not _alike(features, as_fitted):
            raise _supervised(name, step, ", or is random (set its random_state)")
        return as_fitted, _transformed(name, step, X_test)


def _transformed(name: str, step: Any, X: Any) -> Any:
    """What a fitted transformer makes of data."""
    try:
        return step.transform(X)
    except (TypeError, ValueError) as error:
        raise _failed(name, step, error) from None


def _without_labels(name: str, step: Any, X: Any) -> tuple[Any, Any]:
    """A transformer fitted without labels, and what it makes of the data."""
    fresh = clone(step)
    try:
        return fresh, fresh.fit_transform(X)
    except (TypeError, ValueError) as error:
        asks = get_tags(fresh).target_tags.required or "requires y" in str(error) or "'y'" in str(error)
        if asks:
            raise _supervised(name, step) from None
        raise _failed(name, step, error) from None


def _failed(name: str, step: Any, error: Exception) -> InvalidInput:
    return InvalidInput(f"the step {name!r} ({type(step).__name__}) of the pipeline failed: {error}")


def _supervised(name: str, step: Any, other: str = "") -> InvalidInput:
    return InvalidInput(
        f"the step {name!r} ({type(step).__name__}) of the pipeline looks at the labels{other}, so changed labels "
        "change the features, too; that cannot be certified. Leave it out, or use a transformer without labels (PCA, "
        "StandardScaler, VarianceThreshold)"
    )


def last_of(pipeline: Any, X: Any, y: Any) -> tuple[Any, Any]:
    """The last estimator of a fitted pipeline, and data as its transformers hand them on to it.

    A transformer that makes something else of these data once it is told their labels is refused.
    """
    steps, last = unwrapped(pipeline)
    for name, step in steps:
        _, plain = _without_labels(name, step, X)
        if not _alike(plain, clone(step).fit(X, y).transform(X)):
            raise _supervised(name, step, ", or is random (set its random_state)")
        X = step.transform(X)
    return last, X


def _alike(A: Any, B: Any) -> bool:
    """Whether a transformer gives the same features, up to rounding."""
    A, B = (np.asarray(array.toarray() if hasattr(array, "toarray") else array) for array in (A, B))
    if A.shape != B.shape or A.dtype.kind not in "fiub" or B.dtype.kind not in "fiub":
        return A.shape == B.shape and bool(np.all(A == B))
    return bool(np.allclose(A, B, rtol=1e-6, atol=1e-8 * (1.0 + np.abs(A).max(initial=0.0)), equal_nan=True))


def features(name: str, X: Any, *, columns: int | None = None) -> Float:
    """A matrix of finite numbers."""
    if hasattr(X, "toarray"):  # sparse
        X = X.toarray()
    try:
        array = np.asarray(unmasked(name, X))
        if array.dtype.kind in "cmM":  # NumPy would drop imaginary parts, and make numbers of dates
            raise TypeError(array.dtype)
        array = array.astype(np.float64)
    except InvalidInput:
        raise
    except (TypeError, ValueError, OverflowError):
        raise InvalidInput(
            f"{name} must hold numbers; encode strings and categories first (scikit-learn: OneHotEncoder in a pipeline)"
        ) from None
    if array.ndim != 2:
        raise InvalidInput(f"{name} must have one row per point and one column per feature, got shape {array.shape}")
    if not np.isfinite(array).all():
        raise InvalidInput(
            f"{name} must not hold missing or infinite values; fill them first (scikit-learn: SimpleImputer)"
        )
    if columns is not None and array.shape[1] != columns:
        raise InvalidInput(f"{name} has {array.shape[1]} columns, but X_train has {columns}")
    return array
