"""Ensembles of any classifier, as scikit-learn's tools want them."""

from __future__ import annotations

import pickle
import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from matplotlib.figure import Figure
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.datasets import load_iris
from sklearn.ensemble import RandomForestClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils.estimator_checks import check_estimator

from labelcert import CertifiedEnsemble, InvalidInput, Threat, make_certified_scorer, verify

X, Y = load_iris(return_X_y=True)
TRAIN, TEST = np.arange(150) % 3 != 0, np.arange(150) % 3 == 0


@pytest.mark.parametrize(
    "model",
    [
        CertifiedEnsemble(LogisticRegression(), parts=3),
        CertifiedEnsemble(DecisionTreeClassifier(), combine="run-off", spread=2),
        CertifiedEnsemble(DecisionTreeClassifier(), parts=4, threat="samples"),
    ],
)
def test_scikit_learn_takes_it(model: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        failed = [found for found in check_estimator(model, on_fail=None) if found["status"] == "failed"]
    assert failed == []


@pytest.mark.parametrize("how", [{}, {"combine": "run-off"}, {"spread": 2}, {"threat": "samples"}])
def test_certificates_are_about_what_it_predicts(how: dict[str, Any]) -> None:
    model = CertifiedEnsemble(DecisionTreeClassifier(), parts=10, **how).fit(X[TRAIN], Y[TRAIN])
    cert = model.certify(X[TEST], max_flips=4)
    assert np.array_equal(cert.predictions, model.predict(X[TEST]))
    assert np.array_equal(model.predict_proba(X[TEST]).argmax(axis=1), model.predict(X[TEST]))
    assert verify(cert).accepted
    assert cert.run.unit == ("samples" if how.get("threat") == "samples" else "flips")
    for t in np.flatnonzero(cert.radius_upper < cert.never).tolist():  # all of it trained anew, in another way
        labels = Y[TRAIN].copy()
        for i, label in (cert.witness(t) or {}).items():
            labels[i] = label
        refitted = CertifiedEnsemble(DecisionTreeClassifier(), parts=10, **how).fit(X[TRAIN], labels)
        assert refitted.predict(X[TEST][t : t + 1])[0] == cert.classes[cert.new_classes[t]] != cert.predictions[t]
    assert np.any(cert.radius_upper < cert.never)


def test_a_search_over_parts_by_what_is_certified() -> None:
    model = make_pipeline(StandardScaler(), CertifiedEnsemble(LogisticRegression()))
    asked = {"certifiedensemble__parts": [4, 12], "certifiedensemble__combine": ["votes", "run-off"]}
    search = GridSearchCV(model, asked, scoring=make_certified_scorer(flips=2, attempts=0), cv=3)
    search.fit(X[TRAIN], Y[TRAIN])
    assert search.best_params_["certifiedensemble__parts"] == 12
    assert 0.5 < search.best_score_ <= 1.0
    assert cross_val_score(search.best_estimator_, X, Y, cv=3).mean() > 0.8


def test_it_pickles() -> None:
    model = CertifiedEnsemble(LinearSVC(), parts=6, combine="run-off").fit(X[TRAIN], Y[TRAIN])
    again = pickle.loads(pickle.dumps(model))
    assert np.array_equal(again.predict(X), model.predict(X))
    one, other = (m.certify(X[TEST], max_flips=2, attempts=0) for m in (model, again))
    assert np.array_equal(one.radius_lower, other.radius_lower)


def test_tables_with_words_and_gaps() -> None:
    names = np.array(["setosa", "versicolor", "virginica"])[Y]
    frame = pd.DataFrame(
        {"a": X[:, 2], "b": np.where(X[:, 3] > 1, "wide", "small")}, index=[f"f{i}" for i in range(150)]
    )
    frame.loc["f4", "a"] = np.nan
    prepare = make_column_transformer((SimpleImputer(), ["a"]), (OneHotEncoder(handle_unknown="ignore"), ["b"]))
    model = CertifiedEnsemble(make_pipeline(prepare, DecisionTreeClassifier()), parts=8).fit(frame[TRAIN], names[TRAIN])
    cert = model.certify(frame[TEST], max_flips=2)
    assert cert.test_names is not None
    assert cert.test_names[0] == "f0"
    assert np.array_equal(cert.predictions, model.predict(frame[TEST]))
    sparse = CertifiedEnsemble(LogisticRegression(), parts=8).fit(scipy.sparse.csr_array(X[TRAIN]), Y[TRAIN])
    dense = CertifiedEnsemble(LogisticRegression(), parts=8).fit(X[TRAIN], Y[TRAIN])
    assert sparse.certify(scipy.sparse.csr_array(X[TEST]), max_flips=2, attempts=0).exact in (True, False)
    assert len(dense.estimators_) == len(sparse.estimators_) == 8


def test_few_rows_and_classes_that_parts_lack() -> None:
    few = CertifiedEnsemble(KNeighborsClassifier(1)).fit(X[::10], Y[::10])
    assert len(few.estimators_) == 15  # of one row each
    cert = few.certify(X[1::10], max_flips=3)
    assert verify(cert).accepted
    rare = np.where(np.arange(100) == 7, 2, np.arange(100) % 2)
    run_off = CertifiedEnsemble(LogisticRegression(), parts=10, combine="run-off").fit(X[:100], rare)
    assert sum(2 in m.classes_ for m in run_off.estimators_) == 1
    assert verify(run_off.certify(X[100:], max_flips=2)).accepted


def test_random_states_are_settled() -> None:
    one, other = (
        CertifiedEnsemble(RandomForestClassifier(n_estimators=3), parts=5).fit(X[TRAIN], Y[TRAIN]) for _ in range(2)
    )
    assert np.array_equal(one.predict_proba(X), other.predict_proba(X))
    np.random.seed(None)  # noqa: NPY002
    chance = RandomForestClassifier(n_estimators=2, random_state=np.random.mtrand._rand)
    with pytest.raises(InvalidInput, match="not deterministic"):
        CertifiedEnsemble(_Moody(), parts=5).fit(X[TRAIN], Y[TRAIN]).certify(X[TEST])
    assert chance is not None


class _Moody(DecisionTreeClassifier):  # type: ignore[misc]
    """Predicts something else each time."""

    def predict(self, X: Any) -> Any:
        return np.random.default_rng().choice(self.classes_, len(X))


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (CertifiedEnsemble(StandardScaler()), "expected a classifier"),
        (CertifiedEnsemble(LogisticRegression(), combine="mean"), "combine must be"),
        (CertifiedEnsemble(LogisticRegression(), threat="all"), "threat must be"),
        (CertifiedEnsemble(LogisticRegression(), parts=0), "parts must be"),
        (CertifiedEnsemble(LogisticRegression(), parts=2.0), "parts must be"),
    ],
)
def test_bad_parameters_are_refused(model: Any, words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        model.fit(X, Y)


def test_bad_questions_are_refused() -> None:
    model = CertifiedEnsemble(LogisticRegression(), parts=5).fit(X, Y)
    with pytest.raises(InvalidInput, match="threat='samples'"):
        model.certify(X[:3], threat="samples")
    with pytest.raises(InvalidInput, match="threat='samples'"):
        model.certify(X[:3], threat=Threat(samples=True))
    with pytest.raises(InvalidInput, match="at least two classes"):
        CertifiedEnsemble(LogisticRegression()).fit(X, np.zeros(150))
    no_scores = CertifiedEnsemble(_NoScores(), combine="run-off", parts=4).fit(X, Y)
    with pytest.raises(InvalidInput, match="needs scores, which _NoScores has not"):
        no_scores.predict(X)


class _NoScores(KNeighborsClassifier):  # type: ignore[misc]
    predict_proba = None


@pytest.fixture(scope="module")
def compared() -> Any:
    return CertifiedEnsemble(DecisionTreeClassifier()).compare(X, Y, flips=6, parts=(4, 20), cv=3)


def test_numbers_of_parts_side_by_side(compared: Any) -> None:
    frame = compared.to_frame()
    assert frame.index.tolist() == [(4, "votes"), (4, "run-off"), (20, "votes"), (20, "run-off")]
    assert np.all(np.diff(compared.shares, axis=1) <= 0)
    assert np.all(compared.shares[:2, -1] == 0)  # six labels reach all of four parts
    assert compared.best.parts == 20
    assert frame["certified"].max() == frame["certified"][frame["chosen"]].item() > 0
    assert "20 parts" in compared.summary()
    scoring = make_certified_scorer(flips=6, attempts=0)
    again = cross_val_score(clone(compared.best), X, Y, scoring=scoring, cv=3).mean()
    assert again == pytest.approx(compared.shares[compared.chosen, -1])
    assert compared.alone == pytest.approx(cross_val_score(DecisionTreeClassifier(random_state=0), X, Y, cv=3).mean())


def test_comparison_is_drawn(compared: Any) -> None:
    axes = compared.plot(Figure().subplots())
    assert axes.get_xlabel() == "parts"
    assert len(axes.containers) == 4


def test_comparisons_that_make_no_sense() -> None:
    model = CertifiedEnsemble(DecisionTreeClassifier())
    for how, message in (
        ({"flips": 0}, "flips"),
        ({"flips": 1, "parts": ()}, "at least one number"),
        ({"flips": 1, "combine": ("best",)}, "combine"),
        ({"flips": 1, "floor": 2.0}, "floor"),
        ({"flips": 1, "parts": (50,), "floor": 1.0, "cv": 3}, "no ensemble reaches"),
    ):
        with pytest.raises(InvalidInput, match=message):
            model.compare(X, Y, **how)
