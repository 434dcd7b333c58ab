"""Any classifier of scikit-learn with certificates: an ensemble of it on parts of the training data."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from joblib import Parallel, delayed
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone, is_classifier
from sklearn.dummy import DummyClassifier
from sklearn.utils import _safe_indexing, get_tags
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from labelcert.arrays import Float, Int, Values
from labelcert.certificate import Certificate
from labelcert.certification import GivenVotes, Names, Run, Task, solve
from labelcert.certification.facades import LABELS, SAMPLES
from labelcert.checking import one_of, whole_number
from labelcert.engines.voting import VoteEngine
from labelcert.engines.voting.dealing import deal, row_keys
from labelcert.engines.voting.rules import RULES, RUN_OFF, Ballots
from labelcert.engines.voting.training import ranks
from labelcert.errors import InvalidInput
from labelcert.estimators import from_sklearn
from labelcert.estimators.base import row_names
from labelcert.estimators.choosing import ComparedEnsembles, compared
from labelcert.problem import Threat


class CertifiedEnsemble(ClassifierMixin, MetaEstimatorMixin, BaseEstimator):  # type: ignore[misc]
    """Copies of any classifier, each trained on a part of the data; their votes can be certified.

    Rows are dealt out by a hash of their features, which no label influences. A part with labels of one class alone
    votes for that class; one without some class never votes for it. Whatever a part does with its labels, it is one
    vote, so certificates hold all the same.

    Parameters
    ----------
    estimator : classifier
        Or a pipeline that ends with one: it is fitted as a whole on each part. Where a ``random_state`` of it is None,
        the seed takes its place, since training has to be deterministic.
    parts : int
        Number of parts: more of them mean weaker members, and more votes that have to be bought. With few rows, there
        are as many parts as rows.
    combine : {"votes", "run-off"}
        The class with the most votes; or, of the two with the most votes, the one that more members score higher.
    spread : int
        With d, there are d times as many members, and each row is in d of them.
    seed : int
    threat : {"labels", "samples"}
        What certificates can be about: changed labels, or samples that come, go and change as well. Then parts are by
        a hash of each row alone, and differ more in size; some may be empty.
    n_jobs : int, optional
        Members that are trained at a time, as in joblib.

    Attributes
    ----------
    classes_ : array
    estimators_ : list
        The members; None for a part without rows, which votes for the first class.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> from labelcert import CertifiedEnsemble
    >>> X, y = load_iris(return_X_y=True)
    >>> model = CertifiedEnsemble(DecisionTreeClassifier(), parts=15).fit(X[::2], y[::2])
    >>> cert = model.certify(X[1::10], max_flips=5)
    >>> cert.radius_lower.tolist()
    [2, 5, 6, 5, 2, 2, 4, 4, 4, 3, 4, 4, 2, 1, 3]
    >>> bool((cert.predictions == model.predict(X[1::10])).all())
    True
    """

    def __init__(
        self,
        estimator: Any,
        parts: int = 50,
        *,
        combine: str = "votes",
        spread: int = 1,
        seed: int = 0,
        threat: str = LABELS,
        n_jobs: int | None = None,
    ) -> None:
        self.estimator = estimator
        self.parts = parts
        self.combine = combine
        self.spread = spread
        self.seed = seed
        self.threat = threat
        self.n_jobs = n_jobs

    def fit(self, X: Any, y: Any) -> Self:
        """Train a member on each part."""
        if not is_classifier(self.estimator):
            raise InvalidInput(f"expected a classifier, got {type(self.estimator).__name__}")
        one_of("combine", self.combine, RULES)
        one_of("threat", self.threat, (LABELS, SAMPLES))
        parts, spread = whole_number("parts", self.parts, 1), whole_number("spread", self.spread, 1)
        names = row_names(X)
        X, y = self._checked(X, y)
        check_classification_targets(y)
        self.classes_, codes = np.unique(y, return_inverse=True)
        if self.classes_.size < 2:
            raise InvalidInput(f"labels must hold at least two classes, but there is 1 class: {self.classes_[0]!r}")
        keys, content = row_keys(X), self.threat == SAMPLES
        if not content:
            spread = min(spread, len(keys))
            parts = min(parts, len(keys) // spread)
        self.dealt_ = deal(parts, keys, spread=spread, seed=self.seed, by_content=content)
        self.X_, self.y_, self.names_ = X, np.asarray(y), names
        self._refit = _Refit(_settled(self.estimator, self.seed), X, self.classes_, self.combine == RUN_OFF)
        chosen = [self.dealt_.labels_of(j) for j in range(self.dealt_.models)]
        jobs = (delayed(self._refit.member)(own, self.classes_[codes[own]]) for own in chosen)
        self.estimators_ = Parallel(n_jobs=self.n_jobs)(jobs)
        return self

    def predict(self, X: Any) -> Values:
        """The class that the members elect; ties go to the one that comes first."""
        winners = self._ballots(X).winners()
        return np.asarray(self.classes_[winners])

    def predict_proba(self, X: Any) -> Float:
        """Shares of the votes, of a run-off those of the second round above all others: no probabilities."""
        strength = self._ballots(X).strength()
        return np.asarray(strength / strength.sum(axis=1, keepdims=True))

    def certify(
        self,
        X_test: Any,
        *,
        threat: Threat | str | None = None,
        max_flips: int | None = None,
        part_flips: int = 0,
        **options: Any,
    ) -> Certificate:
        """Certify the predictions for test points against changes of what this was fitted on.

        Parameters
        ----------
        X_test
            As for ``predict``.
        threat : Threat or str, optional
            What the adversary may change; by default what ``threat`` says. Whole samples need ``threat="samples"``.
        max_flips : int, optional
            Largest budget; by default the number of members.
        **options
            Of :func:`labelcert.certify_votes`: ``attempts``, ``twice``, ``store``, ``max_fraction``, ``collective``,
            ``metrics``, ``time_limit``, ``scheduler``, ``workers``, ``progress``.

        - ``part_flips``: certify each member on its own against so many changed labels, where an exact engine knows it
          (see :func:`labelcert.from_sklearn`). It then takes that many labels to buy its vote, and not one. By default
          0: every label may buy a vote. With ``combine="votes"``, ``spread=1`` and threats about labels.
        """
        check_is_fitted(self)
        threat = self.threat if threat is None else threat
        if isinstance(threat, str):
            one_of("threat", threat, (LABELS, SAMPLES))
            threat = Threat(samples=True) if threat == SAMPLES else None
        if threat is not None and threat.samples and self.threat != SAMPLES:
            raise InvalidInput(
                "samples that come and go change how rows are dealt out to parts of equal size; fit "
                "CertifiedEnsemble(threat='samples'), whose parts are by a hash of each row alone"
            )
        names = Names(test=row_names(X_test), labels=self.names_, model=" ".join(repr(self).split()))
        X_test, _ = self._checked(X_test, None)
        asked = {name: options.pop(name) for name in ("max_fraction", "collective", "metrics") if name in options}
        box: dict[str, Any] = {name: options.pop(name) for name in ("attempts", "twice") if name in options}
        box["folder"] = options.pop("store", None)
        if whole_number("part_flips", part_flips):
            box["certify_part"] = self._refit.certifier(X_test, part_flips)
        members = {j: self._refit.said(m, X_test) for j, m in enumerate(self.estimators_) if m is not None}
        model = GivenVotes(
            replace(self._refit, X_test=X_test),
            _rows(X_test),
            self.dealt_,
            self.combine,
            seed=self.seed,
            known=members,
            **box,
        )
        task = Task(model, self.y_, threat, max_flips, names=names, **asked)
        return solve(task, Run(VoteEngine.name, device="cpu", **options))

    def compare(
        self,
        X: Any,
        y: Any,
        *,
        flips: int,
        parts: Sequence[int] = (10, 30, 100),
        combine: Sequence[str] = RULES,
        floor: float = 0.0,
        cv: Any = 5,
        progress: bool = False,
    ) -> ComparedEnsembles:
        """Cross-validate numbers of parts and rules: accuracy, and certified accuracy against ``flips`` wrong labels.

        What certifies the most is chosen, not what is most accurate; ``floor`` says how accurate it has to be at least.
        Labels decide about it, so wrong labels could have led to another choice: certificates hold for the ensemble
        that is chosen, not for the choice.

        Parameters
        ----------
        X, y
            As for ``fit``. Folds leave some of the rows out, so parts are smaller than they will be.
        flips : int
            The budget to choose for.
        parts : sequence of int
        combine : sequence of {"votes", "run-off"}
            Run-off needs scores.
        floor : float
            Least cross-validated accuracy.
        cv
            Folds, as scikit-learn takes them.
        progress : bool
            Show a progress bar on standard error.

        Returns
        -------
        ComparedEnsembles
            ``to_frame()`` is the table, ``plot()`` the picture, ``best`` the chosen ensemble, not fitted.

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from sklearn.tree import DecisionTreeClassifier
        >>> from labelcert import CertifiedEnsemble
        >>> X, y = load_iris(return_X_y=True)
        >>> found = CertifiedEnsemble(DecisionTreeClassifier()).compare(X, y, flips=3, parts=(5, 20))
        >>> found.best.parts
        20
        """
        return compared(self, _settled(self.estimator, self.seed), X, y, flips, parts, combine, floor, cv, progress)

    def _ballots(self, X: Any) -> Ballots:
        """What all members say."""
        check_is_fitted(self)
        X, _ = self._checked(X, None)
        ranked, n = self.combine == RUN_OFF, _rows(X)
        first = np.tile(np.arange(self.classes_.size if ranked else 1), (n, 1))
        said = [
            first if m is None else ranks(self._refit.said(m, X), self.classes_, n, ranked=ranked)
            for m in self.estimators_
        ]
        return Ballots(np.stack(said, axis=1), self.classes_.size, self.combine, np.ones(len(said), dtype=bool))

    def _checked(self, X: Any, y: Any) -> tuple[Any, Any]:
        """Data as scikit-learn wants them; what is in a data frame is left to the estimator."""
        frame = hasattr(X, "iloc")
        tags = get_tags(self.estimator).input_tags
        how: dict[str, Any] = {"skip_check_array": True}
        if not frame:
            how = {
                "accept_sparse": "csr" if tags.sparse else False,
                "ensure_all_finite": "allow-nan" if tags.allow_nan else True,
            }
            how["dtype"] = None if tags.string or tags.categorical else "numeric"
        if y is None:
            return validate_data(self, X, reset=False, **how), None
        if frame:
            validate_data(self, X, y, **how)
            return X, np.asarray(y)
        X, y = validate_data(self, X, y, **how)
        return X, y

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags = get_tags(self.estimator).input_tags
        tags.input_tags.pairwise = False
        return tags


@dataclass(frozen=True, eq=False)
class _Refit:
    """Trains members anew: ``train(indices, labels)``, in the words of :func:`labelcert.certify_votes`."""

    estimator: Any
    X: Any
    classes: Values
    ranked: bool
    X_test: Any = None

    def __call__(self, indices: Int, labels: Values) -> Any:
        """What a new member says about the test points."""
        return self.said(self.member(indices, labels), self.X_test)

    def certifier(self, X_test: Any, flips: int) -> Callable[[Int, Values], Certificate | None]:
        """What certifies members on their own labels; refuses learners that no engine knows."""
        known = from_sklearn(self.estimator)

        def certified(indices: Int, labels: Values) -> Certificate | None:
            rarest = int(np.unique(labels, return_counts=True)[1].min())
            budget = min(flips, rarest - 1)  # no class loses all of its labels
            own = _safe_indexing(self.X, indices)
            return known.certify(own, labels, X_test, max_flips=budget, collective=False) if budget else None

        return certified

    def member(self, indices: Int, labels: Values) -> Any:
        """A member that is trained on some rows; None without any, a class where all labels are alike."""
        if indices.size == 0:
            return None
        if np.unique(labels).size == 1:
            return DummyClassifier(strategy="most_frequent").fit(np.zeros((indices.size, 1)), labels)
        return clone(self.estimator).fit(_safe_indexing(self.X, indices), labels)

    def said(self, member: Any, X: Any) -> Any:
        """Predictions or, where classes have to be ranked, scores: lowest for classes that the member never met."""
        if not self.ranked:
            return member.predict(X)
        score = getattr(member, "predict_proba", None) or getattr(member, "decision_function", None)
        if score is None:
            raise InvalidInput(f"combine='run-off' needs scores, which {type(member).__name__} has not; use 'votes'")
        own = np.asarray(score(X), dtype=np.float64)
        if own.ndim == 1:
            own = np.column_stack([-own, own])
        scores = np.full((own.shape[0], self.classes.size), own.min(initial=0.0) - 1.0)
        scores[:, np.searchsorted(self.classes, member.classes_)] = own
        return scores


def _settled(estimator: Any, seed: int) -> Any:
    """A copy whose random numbers are the same each time."""
    copy = clone(estimator)
    open_ = [name for name, value in copy.get_params().items() if name.endswith("random_state") and value is None]
    return copy.set_params(**dict.fromkeys(open_, seed))


def _rows(X: Any) -> int:
    """How many rows there are."""
    return int(X.shape[0] if hasattr(X, "shape") else len(X))
