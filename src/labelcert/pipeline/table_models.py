"""Classifiers of scikit-learn by name, for features without edges: the models of plain tables."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from labelcert.arrays import Float, Int
from labelcert.certificate import Certificate
from labelcert.certification import GivenFeatures, GivenRows, GraphCertifier, certify, support
from labelcert.checking import known_name, whole_number
from labelcert.errors import InvalidInput
from labelcert.estimators import from_sklearn
from labelcert.estimators.base import agreement, remarked
from labelcert.graphs import Graph
from labelcert.labelnoise import noise
from labelcert.losses.cross_validation import C_GRID, stratified_folds
from labelcert.memory import require_memory
from labelcert.models import Recipe
from labelcert.models.base import GraphLike
from labelcert.models.features import Features, gram
from labelcert.models.plain_kernels import PairwiseModel
from labelcert.problem.validation import check_labels
from labelcert.progress import Report
from labelcert.rechecking import recheck


@dataclass(frozen=True)
class TableModelInfo:
    """A classifier that can be asked for by name."""

    name: str
    description: str
    options: tuple[str, ...]
    make: Callable[[TableModel, int], Any]
    """The estimator, with a seed for what is random in it."""
    C: float = 1.0
    """What stands for scikit-learn's default."""


def _logistic(model: TableModel, _: int) -> Any:
    from sklearn.linear_model import LogisticRegression

    return LogisticRegression(C=float(model.C), max_iter=10_000)


def _ridge(model: TableModel, _: int) -> Any:
    from sklearn.linear_model import RidgeClassifier

    return RidgeClassifier(alpha=0.5 / float(model.C))


def _svm(model: TableModel, seed: int) -> Any:
    from sklearn.svm import LinearSVC

    return LinearSVC(C=float(model.C), max_iter=100_000, random_state=seed)


def _knn(model: TableModel, _: int) -> Any:
    from sklearn.neighbors import KNeighborsClassifier

    return KNeighborsClassifier(model.neighbors)


def _forest(_: TableModel, seed: int) -> Any:
    from sklearn.ensemble import RandomForestClassifier

    return RandomForestClassifier(n_estimators=20, random_state=seed)


_LISTED = (
    TableModelInfo(
        "logistic", "logistic regression (scikit-learn's LogisticRegression), edges unused", ("C",), _logistic
    ),
    TableModelInfo("ridge", "ridge regression (RidgeClassifier, alpha = 1/(2C)), edges unused", ("C",), _ridge, 0.5),
    TableModelInfo("svm", "linear support vector machine (LinearSVC), edges unused", ("C",), _svm),
    TableModelInfo("knn", "nearest neighbours (KNeighborsClassifier), edges unused", ("neighbors",), _knn),
    TableModelInfo(
        "ensemble", "small random forests on --parts parts of the labels, which vote; edges unused", (), _forest
    ),
)
TABLE_MODELS: dict[str, TableModelInfo] = {info.name: info for info in _LISTED}
"""Every classifier by name."""

ENSEMBLE, PARTS = "ensemble", 50
NEIGHBORS = 5


@dataclass(frozen=True, kw_only=True)
class TableModel(PairwiseModel):
    """A classifier on features. The kernel is that of linear ones."""

    kind: str = "logistic"
    neighbors: int = NEIGHBORS

    def _check(self) -> None:
        known_name("model", self.kind, TABLE_MODELS)
        whole_number("neighbors", self.neighbors, 1)

    def _between(self, left: Features, right: Features, *, same: bool) -> Float:
        if "C" not in TABLE_MODELS[self.kind].options:
            raise InvalidInput(f"{self.kind} has no kernel; use logistic, ridge or svm")
        return gram(left, right)


@dataclass(frozen=True)
class TableRecipe(Recipe):
    """A classifier to train, and how it came to be chosen."""

    model: TableModel = field(default_factory=TableModel)

    @property
    def name(self) -> str:
        """As in `labelcert models`."""
        return self.model.kind

    @property
    def has_C(self) -> bool:  # noqa: N802
        """Whether it is regularised by a C."""
        return "C" in TABLE_MODELS[self.name].options

    @property
    def options(self) -> dict[str, Any]:
        """Those that the classifier has, but C."""
        return {key: getattr(self.model, key) for key in TABLE_MODELS[self.name].options if key != "C"}

    @property
    def changed(self) -> dict[str, Any]:
        """Options that differ from the defaults."""
        return {key: value for key, value in self.options.items() if value != getattr(TableModel(), key)}

    @property
    def estimator(self) -> Any:
        """What is trained: the classifier, or an ensemble of it."""
        from labelcert.estimators.ensemble import CertifiedEnsemble

        single = TABLE_MODELS[self.name].make(self.model, self.seed)
        if self.parts is None and self.name != ENSEMBLE:
            return single
        return CertifiedEnsemble(single, parts=self.parts or PARTS, seed=self.seed)

    def certifier(
        self, graph: GraphLike, labeled: npt.ArrayLike, tests: Sequence[npt.ArrayLike], *, inductive: bool = False
    ) -> GraphCertifier:
        """What certifies it on the features of a graph."""
        return _RowCertifier(self.model, graph, labeled, tests, inductive=inductive)

    def certify(
        self, certifier: GraphCertifier, test: npt.ArrayLike, *, using: Callable[..., Any] | None = None, **options: Any
    ) -> Any:
        """The certificate of some rows, or what else is asked about them."""
        assert isinstance(certifier, _RowCertifier)
        return certifier.answer(self.estimator, test, using or certify, options)

    def beside(self, graph: GraphLike, labeled: npt.ArrayLike, test: npt.ArrayLike) -> dict[str, Any]:
        """The rows of a linear map, or features, with the labels; nothing for votes, which certificates hold."""
        certifier = _RowCertifier(self.model, graph, labeled, [test])
        return certifier.arrays(self.estimator, test)


class _RowCertifier(GraphCertifier):
    """Certificates for several sets of rows, from the estimator itself."""

    def _prepare(self, tests: Sequence[npt.ArrayLike]) -> None:
        """Nothing is shared: estimators take features."""

    def answer(self, estimator: Any, test: npt.ArrayLike, using: Callable[..., Any], options: dict[str, Any]) -> Any:
        """What ``using`` makes of the estimator's predictions for some rows."""
        nodes: Int = self._indices(test, "test")
        if using not in (certify, recheck, noise):
            raise InvalidInput(
                "classifiers of plain tables know no poisoned features; use a model with a kernel: linear"
            )
        options = self._with_truth(nodes, options)
        rows, labels, tested = self._rows(self.labeled), self.labels, self._rows(nodes)
        if hasattr(estimator, "compare"):  # an ensemble
            return self._elected(estimator.fit(rows, labels), tested, nodes, using, options)
        door = from_sklearn(estimator)
        if using is recheck:
            return door.recheck(rows, labels, tested, **options)
        if using is noise:
            return door.noise(rows, labels, tested, **options)
        return self._named(door.certify(rows, labels, tested, **options), nodes)

    def arrays(self, estimator: Any, test: npt.ArrayLike) -> dict[str, Any]:
        """What the estimator is certified by, but for kernels."""
        if hasattr(estimator, "compare"):
            return {}
        nodes: Int = self._indices(test, "test")
        posed: Any = from_sklearn(estimator)._certified(
            self._rows(self.labeled), self.labels, self._rows(nodes), None, {"using": lambda task: task}
        )
        model = posed.model
        if isinstance(model, GivenRows) and posed.offsets is not None:
            return {}  # the verifier knows no scores that labels do not add up to
        if isinstance(model, GivenRows):
            H: Any = model.H
            return {"H": H.toarray() if hasattr(H, "toarray") else H, "labels": posed.labels}
        features = isinstance(model, GivenFeatures)
        return {"X_train": model.X_train, "labels": posed.labels, "X_test": model.X_test} if features else {}

    def _elected(self, fitted: Any, rows: Any, nodes: Int, using: Callable[..., Any], options: dict[str, Any]) -> Any:
        for asked, question in ((recheck, support.RECHECK), (noise, support.NOISE)):
            if using is asked:
                support.require(support.Request(predictor=support.UNKNOWN, loss=None, asks=question))
        for option in ("engine", "device", "scheduler", "margin", "part_flips"):
            if option in options:
                raise InvalidInput(f"an ensemble that votes has no option {option}; leave it out")
        cert = fitted.certify(rows, **options)
        return self._named(remarked(cert, agreement(fitted, None, None, rows, cert.predictions)), nodes)

    def _rows(self, nodes: Int) -> Any:
        """Features as a data frame whose index are names, as certificates take them over."""
        import pandas as pd

        X = self._graph.features
        require_memory(8 * len(nodes) * X.shape[1], f"the features of {len(nodes)} rows")
        own = X[nodes]
        names = self._graph.names(nodes) if isinstance(self._graph, Graph) else [str(node) for node in nodes]
        return pd.DataFrame(own.toarray() if hasattr(own, "toarray") else own, index=pd.Index(names, dtype=object))

    def _named(self, cert: Certificate, nodes: Int) -> Certificate:
        """The certificate with what is known about the table."""
        names = self._names(nodes, self._model.C)
        model = "; ".join([cert.run.model, *getattr(self._graph, "notes", ())])
        known = replace(cert, class_list=names.class_list, around=names.around, run=replace(cert.run, model=model))
        return replace(known, checksum=known.computed_checksum())


def choose_table_model(
    name: str,
    graph: Graph,
    labeled: npt.ArrayLike,
    *,
    C: float | str | None,
    seed: int,
    loss: str,
    validate: bool,
    report: Report | None,
    **options: Any,
) -> TableRecipe:
    """A classifier by name, with scikit-learn's own C, a given one, or the best one by cross-validation."""
    info = TABLE_MODELS[name]
    if loss != "hinge":
        raise InvalidInput(f"{name} has a loss of its own; leave out loss={loss!r}, or use the model linear with it")
    if C is not None and "C" not in info.options:
        raise InvalidInput(f"{name} has no C; leave it out")
    if isinstance(C, str) and C != "cv":
        raise InvalidInput(f"C must be a positive number or 'cv', got {C!r}")
    source = "scikit-learn" if C is None else "cross-validation" if C == "cv" else "given"
    model = TableModel(kind=name, C=info.C if C is None or isinstance(C, str) else float(C), **options)
    recipe = TableRecipe(model, source=source, seed=seed)
    nodes = np.asarray(labeled)
    check_labels(graph.named_labels(nodes))
    y, X = np.asarray(graph.labels)[nodes], graph.features
    if name == ENSEMBLE or not (validate or C == "cv") or np.unique(y, return_counts=True)[1].min() < 2:
        return recipe
    rows = np.asarray(X[nodes] if isinstance(X, np.ndarray) else X[nodes].toarray())
    folds = stratified_folds(y, seed=seed)
    grid = [replace(model, C=value) for value in C_GRID] if C == "cv" else [model]
    best: TableRecipe | None = None
    for k, candidate in enumerate(grid):
        found = [_accuracy(replace(recipe, model=candidate).estimator, rows, y, *fold) for fold in folds]
        if best is None or float(np.mean(found)) > (best.accuracy or 0.0):
            best = replace(recipe, model=candidate, accuracy=float(np.mean(found)), deviation=float(np.std(found)))
        if report is not None:
            report(k + 1, len(grid))
    assert best is not None
    return best


def _accuracy(estimator: Any, X: Float, y: Int, train: Int, held: Int) -> float:
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of trainings that stop early; certificates do not build on these
        return float(np.mean(estimator.fit(X[train], y[train]).predict(X[held]) == y[held]))
