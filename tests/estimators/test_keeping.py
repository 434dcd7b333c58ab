"""Estimators that keep their data, scorers of whole pipelines, chosen parameters, and what certificates say of them."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.datasets import load_wine
from sklearn.feature_selection import SelectFromModel, SelectKBest
from sklearn.linear_model import LogisticRegression, LogisticRegressionCV, Ridge, RidgeClassifier, RidgeClassifierCV
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

from labelcert import CertifiedClassifier, CertifiedEstimator, from_sklearn, make_certified_scorer
from labelcert.errors import InvalidInput

SCORER = make_certified_scorer(flips=1)


def wine(step: int = 4) -> tuple[Any, Any, Any]:
    X, y = load_wine(return_X_y=True)
    return X[::step], np.array(["red", "rose", "white"])[y[::step]], X[1::step]


class MeansOfClasses(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Looks at labels if there are any, and does not say so."""

    def fit(self, X: Any, y: Any = None) -> MeansOfClasses:
        chosen = X if y is None else X[y == y[0]]
        self.mean_ = chosen.mean(axis=0)
        return self

    def transform(self, X: Any) -> Any:
        return X - self.mean_


@pytest.mark.parametrize(
    "last",
    [
        CertifiedClassifier(loss="square"),
        CertifiedEstimator(RidgeClassifier()),
        CertifiedEstimator(make_pipeline(StandardScaler(), KNeighborsClassifier(5))),
    ],
    ids=str,
)
def test_scorers_of_pipelines(last: Any) -> None:
    X, y, T = wine()
    pipeline = make_pipeline(StandardScaler(), "passthrough", make_pipeline(StandardScaler(), last))
    scores = cross_val_score(pipeline, X, y, scoring=SCORER, cv=3)
    assert np.all((scores > 0) & (scores <= cross_val_score(pipeline, X, y, cv=3)))
    pipeline.fit(X, y)
    cert = pickle.loads(pickle.dumps(pipeline[-1][-1])).certify(pipeline[:-1].transform(T), max_flips=1)
    assert np.array_equal(cert.predictions, pipeline.predict(T))


def test_a_search_over_an_estimator_inside_a_pipeline_inside_a_wrapper() -> None:
    X, y, T = wine(6)
    model = CertifiedEstimator(make_pipeline(StandardScaler(), RidgeClassifier()))
    grid = {"estimator__ridgeclassifier__alpha": [0.1, 1e6]}
    search = GridSearchCV(model, grid, scoring=make_certified_scorer(flips=2), cv=3).fit(X, y)
    assert search.best_params_ == {"estimator__ridgeclassifier__alpha": 0.1}
    plain = clone(search.best_estimator_.estimator)
    assert np.array_equal(search.predict(T), plain.fit(X, y).predict(T))
    cert, other = search.best_estimator_.certify(T, max_flips=2), from_sklearn(plain).certify(X, y, T, max_flips=2)
    assert np.array_equal(cert.radius_lower, other.radius_lower)
    assert cert.run.remarks[0] == "StandardScaler: fitted without labels, the same whatever labels are changed"


def test_transformers_are_taken_as_they_were_fitted() -> None:
    X, y, T = wine()
    scaler = StandardScaler().fit(X)
    model = CertifiedEstimator(make_pipeline(StandardScaler(), LinearSVC(C=0.1))).fit(X, y)
    inside = from_sklearn(LinearSVC(C=0.1)).certify(scaler.transform(X), y, scaler.transform(T), max_flips=1)
    assert np.array_equal(model.certify(T, max_flips=1).radius_upper, inside.radius_upper)


@pytest.mark.parametrize(
    ("pipeline", "match"),
    [
        (make_pipeline(SelectKBest(k=3), RidgeClassifier()), r"'selectkbest' .* looks at the labels"),
        (make_pipeline(MeansOfClasses(), RidgeClassifier()), r"'meansofclasses' .* looks at the labels, or is random"),
    ],
    ids=["says so", "does not say so"],
)
def test_transformers_that_look_at_labels(pipeline: Pipeline, match: str) -> None:
    X, y, T = wine()
    with pytest.raises(InvalidInput, match=match):
        CertifiedEstimator(pipeline).fit(X, y).certify(T, max_flips=1)


def test_what_a_scorer_refuses() -> None:
    X, y, _ = wine()
    with pytest.raises(InvalidInput, match=r"CertifiedEstimator\(RidgeClassifier\(\)\)"):
        SCORER(make_pipeline(StandardScaler(), RidgeClassifier()).fit(X, y), X, y)
    for step in (SelectKBest(k=3), SelectFromModel(RidgeClassifier()), MeansOfClasses()):
        with pytest.raises(InvalidInput, match=f"{type(step).__name__}. of the pipeline looks at the labels"):
            SCORER(make_pipeline(step, CertifiedClassifier(loss="square")).fit(X, y), X, y)
    with pytest.raises(InvalidInput, match="expected a classifier, got Ridge"):
        CertifiedEstimator(Ridge()).fit(X, y)


def test_parameters_that_cross_validation_chose() -> None:
    X, y, T = wine()
    X, T = X / X.std(axis=0), T / X.std(axis=0)
    chosen = RidgeClassifierCV(alphas=[0.5, 2.0, 8.0], class_weight=None).fit(X, y)
    cert = from_sklearn(chosen).certify(X, y, T, max_flips=2)
    plain = from_sklearn(RidgeClassifier(chosen.alpha_)).certify(X, y, T, max_flips=2)
    assert np.array_equal(cert.radius_lower, plain.radius_lower)
    assert f"alpha={chosen.alpha_:g}, which cross-validation chose" in cert.run.model
    with pytest.raises(InvalidInput, match="fit it first"):
        from_sklearn(RidgeClassifierCV())


@pytest.mark.filterwarnings("ignore")
def test_the_c_that_cross_validation_chose() -> None:
    X, y, T = wine()
    scaled = StandardScaler().fit(X)
    X, T = scaled.transform(X), scaled.transform(T)
    chosen = LogisticRegressionCV(Cs=[0.1, 1.0], cv=3).fit(X, y)
    C = float(np.ravel(chosen.C_)[0])
    cert = from_sklearn(chosen).certify(X, y, T, max_flips=1)
    plain = from_sklearn(LogisticRegression(C=C)).certify(X, y, T, max_flips=1)
    assert np.array_equal(cert.radius_lower, plain.radius_lower)
    assert f"C={C:g}, which" in cert.run.model


def test_agreement_with_the_estimator() -> None:
    X, y, T = wine()
    estimator = KNeighborsClassifier(3)
    assert from_sklearn(estimator).certify(X, y, T, max_flips=1).run.remarks == (
        f"the estimator, once fitted, predicts the same for all {len(T)} test points",
    )
    other = np.where(y == "rose", "white", y)
    (said,) = from_sklearn(estimator.fit(X, other)).certify(X, y, T, max_flips=1).run.remarks
    expected = estimator.fit(X, y).predict(T)
    rows = np.flatnonzero(estimator.fit(X, other).predict(T) != expected)
    assert f"the same for {len(T) - rows.size} of {len(T)} test points" in said
    assert f"something else for rows {', '.join(map(str, rows[:10]))}" in said


def test_labels_to_confirm_and_noise_of_what_is_kept() -> None:
    X, y, T = wine()
    pipeline = make_pipeline(StandardScaler(), RidgeClassifier())
    kept, model = CertifiedEstimator(pipeline).fit(X, y), from_sklearn(pipeline)
    assert kept.recheck(T, flips=1, confirm=2).labels == model.recheck(X, y, T, flips=1, confirm=2).labels
    found = kept.noise(T, wrong=0.02)
    assert np.array_equal(found.upper, model.noise(X, y, T, wrong=0.02).upper)
