"""The worst values of metrics, against every relabelling tried one by one."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from tests.engines.test_observers import CASES, THREATS, ask

from labelcert import Metric, certify
from labelcert.prediction import OPEN, TIED


def f1(tp: Any, fp: Any, fn: Any, tn: Any) -> Any:
    return 2 * tp / np.maximum(2 * tp + fp + fn, 1)


def of_counts(name: str, tp: int, fp: int, fn: int, tn: int) -> float:
    """By the definition; all nodes are positive for accuracy, and hits are right."""
    if name in ("accuracy", "recall"):
        return tp / (tp + fn)
    if name == "precision":
        return tp / (tp + fp) if tp + fp else 0.0
    return fp / (fp + tn) if name == "false_positive_rate" else float(f1(tp, fp, fn, tn))


def plain_value(metric: Metric, predicted: list[int], truth: Any, groups: Any) -> float:
    """By the definition, for one list of predictions."""
    values = []
    for g in sorted(set(groups) - {""}):
        pairs = [(p, t) for p, t, own in zip(predicted, truth, groups, strict=True) if own == g and t >= 0]
        if metric.name == "accuracy":
            pairs = [(int(p == t), 1) for p, t in pairs]
        counts = [sum((p == 1, t == 1) == kind for p, t in pairs) for kind in KINDS]
        values.append(of_counts(metric.name, *counts))
    return values[0] if len(values) == 1 else max(values) - min(values)


KINDS = [(True, True), (True, False), (False, True), (False, False)]


def worst_by_trying(question: Any, metric: Metric, truth: Any, groups: Any) -> list[float]:
    """One relabelling after the other; a shared highest score is what is worse."""
    problem, a, predictor = question.problem, question.problem.adversary, question.predictor
    highest = metric.name == "false_positive_rate" or len(set(groups) - {""}) > 1
    worst = [-np.inf if highest else np.inf] * (question.budget + 1)
    for size in range(a.labels.size + 1):
        for change in a.relabellings(size, question.budget):
            codes = problem.relabelled(change)
            options: list[list[int]] = []
            for t in range(problem.n_test):
                found = predictor.predicts(codes, t) if t in question.nodes else TIED
                assert found != OPEN
                if found == TIED and t in question.nodes and problem.n_classes > 2:
                    options.append(predictor.leaders(codes, t, list(range(problem.n_classes)))[0])
                else:
                    options.append(list(range(problem.n_classes)) if found == TIED else [found])
            values = [plain_value(metric, list(p), truth, groups) for p in itertools.product(*options)]
            value, cost = max(values) if highest else min(values), a.cost(change)
            worst[cost:] = [max(value, w) if highest else min(value, w) for w in worst[cost:]]
    return worst


MEASURES: list[Any] = ["accuracy", "recall", "precision", "false_positive_rate", f1]


@pytest.mark.parametrize("threat", THREATS)
@pytest.mark.parametrize("case", [case for case in CASES if "logistic" not in case])
def test_they_are_the_worst_of_all_relabellings(case: str, threat: str) -> None:
    arrays, options = CASES[case]
    K_train, labels, K_test = arrays
    K_test = K_test[:6]
    question = ask((K_train, labels, K_test), 1.0, threat=THREATS[threat], **options)
    rng = np.random.default_rng(len(case + threat))
    classes = question.problem.classes
    codes = np.concatenate([[0, 1], rng.integers(0, classes.size, K_test.shape[0] - 2)])
    groups = ["a", "b", *rng.choice(["a", "b", ""], K_test.shape[0] - 2).tolist()]
    several: list[tuple[Any, Any]] = [(measure, None) for measure in MEASURES] + [("accuracy", groups)]
    metrics = [
        Metric(m, classes[codes], positive=None if m == "accuracy" else classes[1], groups=as_given(g))
        for m, g in several
    ]
    loss = options.get("loss", "hinge")
    asked = {"threat": THREATS[threat], "max_flips": options.get("max_flips"), "loss": loss, "workers": 1}
    exact = certify(K_train, labels, K_test, 1.0, engine="enumerate", metrics=metrics, **asked)
    bounds = certify(K_train, labels, K_test, 1.0, **asked)
    some = certify(K_train, labels, K_test, 1.0, engine="relaxed", **asked) if loss == "hinge" else bounds
    for metric, (_, group) in zip(metrics, several, strict=True):
        worst = worst_by_trying(question, metric, codes, ["a"] * len(groups) if group is None else groups)
        found = exact.worst_case(metric)
        assert found.exact or loss == "cross_entropy", metric.name
        for cert in (exact, bounds, some):
            end = cert.worst_case(metric)
            assert np.all(end.lower <= np.array(worst) + 1e-12), (metric.name, cert.engine)
            assert np.all(end.upper >= np.array(worst) - 1e-12), (metric.name, cert.engine)


def as_given(groups: list[str] | None) -> Any:
    return None if groups is None else [g or None for g in groups]
