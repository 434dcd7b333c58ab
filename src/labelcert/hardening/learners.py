"""Ensembles of a learner of the user's own as candidates: on features alone, each member on a part of the labels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import sklearn

from labelcert.arrays import Float, Int
from labelcert.certificate import Certificate
from labelcert.certification import GraphCertifier
from labelcert.engines.voting.rules import RULES
from labelcert.errors import InvalidInput
from labelcert.estimators.ensemble import CertifiedEnsemble
from labelcert.graphs import Graph
from labelcert.losses.cross_validation import Folds
from labelcert.models import Recipe
from labelcert.models.plain_kernels import Linear
from labelcert.stopping import go_on

PARTS = (10, 30, 100)
"""Numbers of parts that are tried where nobody names any."""


@dataclass(frozen=True)
class LearnerRecipe(Recipe):
    """An ensemble of copies of a classifier of scikit-learn, whose votes are counted; it sees no edges."""

    learner: Any = None
    rule: str = "votes"

    @property
    def name(self) -> str:
        """The learner's."""
        return type(self.learner).__name__

    @property
    def options(self) -> dict[str, Any]:
        """How votes are counted."""
        return {"combine": self.rule}

    @property
    def changed(self) -> dict[str, Any]:
        """The same."""
        return self.options

    @property
    def label(self) -> str:
        """Learner, parts and rule."""
        return f"{self.name} in {self.parts} parts, {self.rule}"

    @property
    def full_label(self) -> str:
        """The same: there is no C."""
        return self.label

    @property
    def command(self) -> str:
        """The command line knows no learner."""
        return ""

    @property
    def trained(self) -> Any:
        """The ensemble, to be fitted."""
        how: dict[str, Any] = {"combine": self.rule, "seed": self.seed}
        return CertifiedEnsemble(self.learner, self.parts or 1, **how)

    @property
    def extra(self) -> dict[str, Any]:
        """What tells learners apart, as far as their parameters say it."""
        kind, params = type(self.learner), self.learner.get_params(deep=True)
        told = {name: repr(value) for name, value in sorted(params.items())}
        return {"of": f"{kind.__module__}.{kind.__qualname__}", "params": told, "rule": self.rule} | {
            "version": sklearn.__version__
        }

    def certify(
        self, certifier: GraphCertifier, test: npt.ArrayLike, *, using: Callable[..., Any] | None = None, **options: Any
    ) -> Certificate:
        """Fit the ensemble on the labelled nodes and certify its votes; no attacks are tried."""
        graph, nodes = certifier.graph, np.asarray(test)
        model = self.trained.fit(graph.features[certifier.labeled], certifier.labels)
        asked = {name: options[name] for name in ("threat", "max_flips", "time_limit", "collective") if name in options}
        found: Certificate = model.certify(graph.features[nodes], attempts=0, twice=1, **asked)
        return replace(found, class_list=np.array(graph.class_names))

    def accuracies(self, graph: Graph, labeled: Int, folds: Folds) -> Float:
        """(1, folds) accuracies by cross-validation over the labelled nodes."""
        X, labels = graph.features[labeled], graph.named_labels(labeled)
        found = []
        for fit, held in folds:
            go_on()
            found.append(np.mean(self.trained.fit(X[fit], labels[fit]).predict(X[held]) == labels[held]))
        return np.array([found])


def learner_recipes(learner: Any, parts: Sequence[int] | None, m: int, seed: int) -> list[LearnerRecipe]:
    """All ensembles of a learner that are tried: every number of parts, and every rule that it knows."""
    if not (hasattr(learner, "get_params") and hasattr(learner, "fit")):
        raise InvalidInput(f"learner must be a classifier of scikit-learn, got {type(learner).__name__}")
    scores = hasattr(learner, "predict_proba") or hasattr(learner, "decision_function")
    counts = [count for count in parts or PARTS if count <= m // 2]
    model = Linear(C=1.0)
    return [
        LearnerRecipe(model, "votes", parts=count, seed=seed, learner=learner, rule=rule)
        for count in counts
        for rule in (RULES if scores else RULES[:1])
    ]
