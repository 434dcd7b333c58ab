"""The classifier for scikit-learn's tools."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_wine
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator

from labelcert import CertifiedClassifier, make_certified_scorer
from labelcert.errors import InvalidInput
from labelcert.losses import loss_names


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("loss", loss_names())
def test_scikit_learns_own_checks(loss: str) -> None:
    failed = [
        found for found in check_estimator(CertifiedClassifier(loss=loss), on_fail=None) if found["status"] == "failed"
    ]
    assert failed == []


def wine() -> tuple[Any, Any]:
    X, y = load_wine(return_X_y=True)
    return StandardScaler().fit_transform(X), y


@pytest.mark.parametrize("loss", ["hinge", "logistic", "cross_entropy", "square"])
@pytest.mark.parametrize("kernel", ["rbf", "linear", "poly", "laplacian"])
def test_certified_predictions_are_its_own(loss: str, kernel: str) -> None:
    X, y = wine()
    model = CertifiedClassifier(kernel, loss=loss, bias=0.5).fit(X[::6], y[::6])
    cert = model.certify(X[1::6], max_flips=1)
    assert np.array_equal(cert.predictions, model.predict(X[1::6]))
    assert cert.run.loss == loss


def test_it_works_with_the_tools() -> None:
    X, y = load_breast_cancer(return_X_y=True)
    rows = np.arange(0, len(y), 10)
    pipeline = make_pipeline(StandardScaler(), CertifiedClassifier(loss="square"))
    assert pipeline.fit(X[rows], y[rows]).score(X, y) > 0.9
    scaled = StandardScaler().fit_transform(X)
    grid = {"C": [0.001, 1.0], "loss": ["square", "logistic"]}
    search = GridSearchCV(CertifiedClassifier(), grid, scoring=make_certified_scorer(flips=1), cv=3)
    search.fit(scaled[rows], y[rows])
    assert search.best_score_ > 0.5
    again = pickle.loads(pickle.dumps(search.best_estimator_))
    assert np.array_equal(again.predict(scaled), search.best_estimator_.predict(scaled))
    assert clone(again).get_params() == search.best_estimator_.get_params()


def test_names_in_and_names_out() -> None:
    X, y = wine()
    frame = pd.DataFrame(
        X, columns=[f"measure {k}" for k in range(X.shape[1])], index=[f"bottle {i}" for i in range(len(y))]
    )
    labels = np.array(["barolo", "grignolino", "barbera"])[y]
    model = CertifiedClassifier(loss="square").fit(frame[::6], labels[::6])
    assert model.feature_names_in_[0] == "measure 0"
    cert = model.certify(frame[1::6], max_flips=2)
    assert cert.test_names is not None
    assert cert.test_names[0] == "bottle 1"
    assert set(cert.classes.tolist()) == {"barolo", "grignolino", "barbera"}


def test_precomputed_kernels() -> None:
    X, y = wine()
    K = X @ X.T
    given = (
        CertifiedClassifier("precomputed", loss="squared_hinge")
        .fit(K[::6, ::6], y[::6])
        .certify(K[1::6, ::6], max_flips=1)
    )
    linear = CertifiedClassifier("linear", loss="squared_hinge").fit(X[::6], y[::6]).certify(X[1::6], max_flips=1)
    assert np.array_equal(given.radius_lower, linear.radius_lower)


@pytest.mark.parametrize(
    ("options", "match"),
    [({"loss": "log"}, "loss must be one of"), ({"C": 0.0}, "positive"), ({"bias": -1.0}, "bias must be at least 0")],
)
def test_bad_parameters(options: dict[str, Any], match: str) -> None:
    X, y = wine()
    with pytest.raises(InvalidInput, match=match):
        CertifiedClassifier(**options).fit(X, y)
