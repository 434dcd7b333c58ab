"""What comes before the estimator in a pipeline: transformers that do not look at labels."""

from __future__ import annotations

from typing import Any

import numpy as np

from labelcert.arrays import Float
from labelcert.checking import unmasked
from labelcert.errors import InvalidInput
from labelcert.estimators.base import Transform


def unwrapped(estimator: Any) -> tuple[list[tuple[str, Any]], Any]:
    """The steps before the last one, and the last one itself."""
    from sklearn.pipeline import Pipeline

    steps: list[tuple[str, Any]] = []
    while isinstance(estimator, Pipeline):
        before = [(name, step) for name, step in estimator.steps[:-1] if step not in (None, "passthrough")]
        steps, estimator = [*steps, *before], estimator.steps[-1][1]
    return steps, estimator


def transform_with(steps: list[tuple[str, Any]]) -> Transform:
    """Fit the transformers on the training data alone, without labels, then transform both.

    Raises
    ------
    InvalidInput
        A transformer asks for labels, or cannot do with what came.
    """

    def transform(X_train: Any, X_test: Any) -> tuple[Float, Float]:
        from sklearn.base import clone

        for name, step in steps:
            fresh = clone(step)
            try:
                X_train = fresh.fit_transform(X_train)
                X_test = fresh.transform(X_test)
            except (TypeError, ValueError) as error:
                if _asks_for_labels(fresh, error):
                    raise InvalidInput(
                        f"the step {name!r} ({type(step).__name__}) of the pipeline looks at the labels, so changed "
                        "labels change the features, too; that cannot be certified. Leave it out, or use a transformer "
                        "without labels (PCA, StandardScaler, VarianceThreshold)"
                    ) from None
                raise InvalidInput(
                    f"the step {name!r} ({type(step).__name__}) of the pipeline failed: {error}"
                ) from None
        ready = features("X_train", X_train)
        return ready, features("X_test", X_test, columns=ready.shape[1])

    return transform


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


def _asks_for_labels(step: Any, error: Exception) -> bool:
    """Whether a transformer that failed without labels wants some."""
    from sklearn.utils import get_tags

    return bool(get_tags(step).target_tags.required) or "requires y" in str(error) or "'y'" in str(error)
