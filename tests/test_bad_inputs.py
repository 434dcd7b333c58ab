"""What new users get wrong: one clear line each, before any work starts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import RandomForestClassifier
from sklearn.feature_selection import SelectKBest
from sklearn.linear_model import LogisticRegression, LogisticRegressionCV, SGDClassifier
from sklearn.model_selection import GridSearchCV
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, LinearSVC

import labelcert
from labelcert import GCN, CertifiedClassifier, InvalidInput, Threat, certify, from_sklearn, graph_from_files
from labelcert.examples import two_clouds

X, Y = load_breast_cancer(return_X_y=True)
X, Y = X[:30], Y[:30]
FRAME = pd.DataFrame(X, index=[f"p{i}" for i in range(30)])
CLOUDS = two_clouds()
GRAPH = labelcert.load_dataset("karate")


def model() -> Any:
    return from_sklearn(make_pipeline(StandardScaler(), LogisticRegression()))


def table(folder: Path, text: str, **options: Any) -> Any:
    (folder / "edges.csv").write_text(text)
    return graph_from_files(folder / "edges.csv", **options)


CASES = {
    "transposed features": (
        lambda _: model().certify(X[:20].T, Y[:20], X),
        r"one label per row of X_train \(30\), got shape \(20,\)",
    ),
    "transposed kernel": (
        lambda _: certify(CLOUDS.K_train, CLOUDS.labels, CLOUDS.K_test.T, C=1.0),
        r"K_test must have one row per test node .* it looks transposed: pass K_test.T",
    ),
    "string features": (lambda _: model().certify([["a"], ["b"]], [0, 1], [["a"]]), "could not convert|hold numbers"),
    "unfitted pipeline": (lambda _: model().certify(X, Y, X[:2], max_flips=1), None),
    "transformer that looks at labels": (
        lambda _: from_sklearn(make_pipeline(SelectKBest(k=2), LinearSVC())).certify(X, Y, X),
        "'selectkbest' .* looks at the labels",
    ),
    "sparse features": (
        lambda _: from_sklearn(LinearSVC()).certify(sp.csr_array(X), Y, sp.csr_array(X[:2]), max_flips=1),
        None,
    ),
    "one class": (lambda _: model().certify(X, np.zeros(30), X), "at least two classes"),
    "missing values": (
        lambda _: from_sklearn(LinearSVC()).certify(np.where(np.eye(30) > 0, np.nan, X), Y, X),
        "missing or infinite values; fill them first",
    ),
    "missing labels": (lambda _: model().certify(X, np.where(Y == 1, np.nan, Y), X), "labels must not be missing"),
    "indices that do not match": (
        lambda _: model().certify(FRAME, pd.Series(Y, index=FRAME.index[::-1]), FRAME),
        r"different indices.*y_train.loc\[X_train.index\]",
    ),
    "too few labels": (
        lambda _: model().certify(X, Y[:-1], X),
        r"one label per row of X_train \(30\), got shape \(29,\)",
    ),
    "other columns in test": (lambda _: model().certify(X, Y, X[:, :5]), "5 features|5 columns"),
    "forest": (
        lambda _: from_sklearn(RandomForestClassifier()),
        r"RandomForestClassifier cannot be certified: its splits jump .* nearest .* CertifiedClassifier",
    ),
    "search": (lambda _: from_sklearn(GridSearchCV(SVC(), {"C": [1]})), "chooses its parameters.*best_estimator_"),
    "chosen C": (lambda _: from_sklearn(LogisticRegressionCV()), "the one C that it chose .* fit it first"),
    "stochastic gradient": (lambda _: from_sklearn(SGDClassifier()), "order of its steps.*LogisticRegression"),
    "network": (lambda _: from_sklearn(MLPClassifier()), "labelcert.MLP"),
    "calibration": (lambda _: from_sklearn(CalibratedClassifierCV()), "the estimator inside it"),
    "class instead of an estimator": (lambda _: from_sklearn(SVC), "give an instance: SVC()"),
    "not fitted": (lambda _: CertifiedClassifier().certify(X), "not fitted yet"),
    "negative C": (lambda _: CertifiedClassifier(C=-1.0).fit(X, Y), "C must be a positive number, got -1.0"),
    "unknown kernel": (lambda _: CertifiedClassifier(kernel="gauss").fit(X, Y), "'gauss'"),
    "unknown loss": (
        lambda _: certify(CLOUDS.K_train, CLOUDS.labels, CLOUDS.K_test, 1.0, loss="log"),
        "one of .*logistic",
    ),
    "graph of another library": (lambda _: GCN().certify(object(), [0], [1]), r"expected a labelcert.Graph.*from_pyg"),
    "several masks": (lambda _: GCN().certify(GRAPH, np.ones((34, 3), bool), [1]), r"mask\[:, 0\]"),
    "mask of another graph": (lambda _: GCN().certify(GRAPH, np.ones(33, bool), [1]), "one entry for each of the 34"),
    "labelled test nodes": (
        lambda _: GCN().certify(GRAPH, [0, 1, 32, 33], [1, 5]),
        "must not be labelled ones, but 1 of 2",
    ),
    "name that is not there": (lambda _: GCN().certify(GRAPH, ["0", "anna"], [1]), "no node 'anna'"),
    "one label of a class": (lambda _: GCN().certify(GRAPH, ["0", "33"], [1]), "give C as a number"),
    "C in another word": (lambda _: GCN(C="auto"), "got 'auto'; cross-validation chooses it with C='cv'"),
    "report as PDF": (lambda _: labelcert.write_report({}, "x.pdf"), "must end in .html, got x.pdf; for a PDF, open"),
    "node that is not there": (lambda _: GCN().certify(GRAPH, [0, 99], [1]), "99"),
    "threat of another size": (
        lambda _: certify(CLOUDS.K_train, CLOUDS.labels, CLOUDS.K_test, 1.0, threat=Threat(trusted=[True])),
        "trusted must .*16",
    ),
    "group without budget": (
        lambda _: certify(
            CLOUDS.K_train, CLOUDS.labels, CLOUDS.K_test, 1.0, threat=Threat(groups=["a"] * 16, group_budgets={"b": 1})
        ),
        "'b'",
    ),
    "semicolons": (lambda folder: table(folder, "source;target\na;b\n"), None),
    "no header": (lambda folder: table(folder, "a,b\nb,c\n"), "expected a header in edges.csv"),
    "spreadsheet": (lambda folder: graph_from_files(folder / "graph.xlsx"), "no file"),
}


@pytest.mark.filterwarnings("ignore::FutureWarning")
@pytest.mark.parametrize("name", CASES)
def test_one_clear_line(name: str, tmp_path: Path) -> None:
    attempt, message = CASES[name]
    if message is None:  # this is no mistake: it works
        attempt(tmp_path)
        return
    with pytest.raises(ValueError, match=message) as refused:
        attempt(tmp_path)
    if name != "not fitted":  # scikit-learn's own error, which its tools ask for
        assert isinstance(refused.value, InvalidInput)
    assert len(str(refused.value).splitlines()) == 1
