"""Estimators that keep what they were fitted on, so that scikit-learn's tools can ask for certificates."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone, is_classifier
from sklearn.utils import get_tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from labelcert.arrays import Float, Values
from labelcert.certificate import Certificate
from labelcert.errors import InvalidInput
from labelcert.estimators import adapted
from labelcert.estimators.base import Certifiable, fitted_with
from labelcert.estimators.pipelines import last_of
from labelcert.labelnoise import Noise
from labelcert.rechecking import Recheck


def _has(name: str) -> Callable[[Any], bool]:
    """Whether the estimator inside has a method."""
    return lambda self: hasattr(getattr(self, "estimator_", self.estimator), name)


class CertifiedEstimator(ClassifierMixin, MetaEstimatorMixin, BaseEstimator):  # type: ignore[misc]
    """An estimator of scikit-learn, or a pipeline that ends with one, which can certify its predictions after ``fit``.

    Parameters
    ----------
    estimator
        A classifier that :func:`~labelcert.from_sklearn` takes. Transformers of a pipeline are taken as they were
        fitted, and refused by name where they look at labels.

    Attributes
    ----------
    estimator_
        The same, fitted.
    classes_ : array

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.linear_model import RidgeClassifier
    >>> from labelcert import CertifiedEstimator
    >>> X, y = load_iris(return_X_y=True)
    >>> model = CertifiedEstimator(RidgeClassifier(alpha=0.1)).fit(X[::3], y[::3])
    >>> model.certify(X[1::30], max_flips=3).run.remarks
    ('the estimator, as it is fitted, predicts the same for all 5 test points',)
    """

    def __init__(self, estimator: Any) -> None:
        self.estimator = estimator

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit the estimator, and remember on what."""
        if not is_classifier(self.estimator):
            raise InvalidInput(f"expected a classifier, got {type(self.estimator).__name__}; use from_sklearn")
        self.estimator_ = fitted_with(clone(self.estimator), X, y, sample_weight)
        adapted(self.estimator_)  # refuses what cannot be certified
        self.X_, self.y_, self.weight_ = X, y, sample_weight
        self.classes_ = self.estimator_.classes_
        return self

    def predict(self, X: Any) -> Values:
        """What the estimator predicts."""
        check_is_fitted(self)
        return np.asarray(self.estimator_.predict(X))

    @available_if(_has("decision_function"))  # type: ignore[untyped-decorator]
    def decision_function(self, X: Any) -> Float:
        """The scores of the estimator."""
        check_is_fitted(self)
        return np.asarray(self.estimator_.decision_function(X))

    @available_if(_has("predict_proba"))  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any) -> Float:
        """The probabilities of the estimator."""
        check_is_fitted(self)
        return np.asarray(self.estimator_.predict_proba(X))

    def certify(self, X_test: Any, **options: Any) -> Certificate:
        """Certify the predictions for test points against changes of the labels that this was fitted on.

        Parameters
        ----------
        X_test
            As for ``predict``.
        **options
            Passed to :func:`labelcert.certify`: ``threat``, ``max_flips``, ``time_limit``, and so on.
        """
        return self._fitted().certify(self.X_, self.y_, X_test, sample_weight=self.weight_, **options)

    def recheck(self, X_test: Any, **options: Any) -> Recheck:
        """Which of the labels that this was fitted on to confirm, so that more predictions survive wrong ones.

        Parameters
        ----------
        X_test
            As for ``predict``.
        **options
            Passed to :func:`labelcert.recheck`: ``flips``, ``confirm`` or ``until``, and so on.
        """
        return self._fitted().recheck(self.X_, self.y_, X_test, sample_weight=self.weight_, **options)

    def noise(self, X_test: Any, **options: Any) -> Noise:
        """How probable it is that each prediction changes, where the labels of the fit are wrong by chance.

        Parameters
        ----------
        X_test
            As for ``predict``.
        **options
            Of :func:`labelcert.noise`: ``wrong``, ``time_limit``, ``seed``, and so on.
        """
        return self._fitted().noise(self.X_, self.y_, X_test, sample_weight=self.weight_, **options)

    def _fitted(self) -> Certifiable:
        """The estimator as a model that can be certified, with transformers as they were fitted."""
        check_is_fitted(self)
        return adapted(self.estimator_, fitted=True)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        inside = get_tags(self.estimator)
        tags.input_tags = inside.input_tags
        return tags


def make_certified_scorer(*, flips: int, accuracy: bool = True, **options: Any) -> Callable[[Any, Any, Any], float]:
    """A scorer for ``GridSearchCV`` and its like: what is certified on the held-out points at a number of flips.

    It certifies :class:`~labelcert.CertifiedClassifier` and :class:`~labelcert.CertifiedEstimator`, which know what
    they were fitted on, also at the end of a pipeline.

    Parameters
    ----------
    flips : int
        Budget.
    accuracy : bool
        Count certified points whose prediction is right; otherwise all certified points.
    **options
        Passed to ``certify``.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.model_selection import GridSearchCV
    >>> from labelcert import CertifiedClassifier, make_certified_scorer
    >>> X, y = load_iris(return_X_y=True)
    >>> search = GridSearchCV(
    ...     CertifiedClassifier(loss="square"), {"C": [0.01, 1.0]}, scoring=make_certified_scorer(flips=3), cv=3
    ... )
    >>> search.fit(X[::4], y[::4]).best_params_
    {'C': 1.0}
    """

    def score(estimator: Any, X: Any, y: Any) -> float:
        last, X = last_of(estimator, X, y)
        if not hasattr(last, "certify"):
            name = type(last).__name__
            raise InvalidInput(
                f"a scorer cannot certify {name}, which does not keep the data that it was fitted on; wrap what you "
                f"search over: CertifiedEstimator({name}()), with parameters named estimator__..."
            )
        cert = last.certify(X, max_flips=flips, collective=False, **options)
        safe = cert.radius_lower > flips
        return float(np.mean(safe & (cert.predictions == np.asarray(y)) if accuracy else safe))

    return score
