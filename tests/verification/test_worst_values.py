"""Worst values of metrics are checked: honest ones are proved, and no others."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import labelcert
from labelcert import Certificate, Metric, Threat, certify, certify_linear, certify_partition, verify
from labelcert.verification.record import WORST_VALUES

SEEDS = range(4)


def problem(seed: int, classes: int) -> tuple[Any, Any, Any, list[Metric]]:
    """Few points on a grid, so that scores are tied now and then."""
    rng = np.random.default_rng(seed)
    m, n = 7, 6
    X = rng.integers(-2, 3, size=(m + n, 2)).astype(float)
    K = X @ X.T + (seed % 2) * np.eye(m + n)
    names = np.array(["a", "b", "c"][:classes])
    labels = np.concatenate([names, rng.choice(names, size=m - classes)])
    truth = np.concatenate([names, rng.choice([*names, "", "other"], size=n - classes)])
    groups = np.array(["x", "y"] * 3)
    truth[:2] = ["a", "a"]  # of both groups
    truth[2] = "b"
    metrics = [
        Metric("accuracy", truth),
        Metric("recall", truth, positive="a"),
        Metric("precision", truth, positive="b"),
        Metric("false_positive_rate", truth, positive="a"),
        Metric("accuracy", truth, groups=groups),
        Metric("recall", truth, positive="a", groups=groups),
        Metric("precision", truth, positive="a", groups=groups),
    ]
    return K[:m, :m], labels, K[m:, :m], metrics


def made(seed: int) -> Iterator[tuple[Certificate, dict[str, Any]]]:
    """Certificates of many kinds, and what files of theirs do not hold."""
    for classes in (2, 3):
        K, labels, rows, metrics = problem(seed, classes)
        how: dict[str, Any] = {"max_flips": 2, "metrics": metrics}
        yield certify(K, labels, rows, C=1.0, **how), {}
        yield certify(K, labels, rows, C=1.0, loss="square", **how), {}
        yield certify(K, labels, rows, C=1.0, threat=Threat(costs=[1, 2, 1, 2, 1, 1, 2]), **how), {}
        yield certify(K, labels, rows, C=1.0, threat=Threat(removable=True), **{**how, "max_flips": 1}), {}
        yield certify_linear(rows, labels, **how), {"H": rows}
        yield certify_partition(K, labels, rows, C=1.0, parts=2, **how), {}
    K, labels, rows, metrics = problem(seed, 2)
    yield certify(K, labels, rows, C=1.0, engine="milp", max_flips=2, metrics=metrics), {}


@pytest.mark.parametrize("seed", SEEDS)
def test_honest_values_are_proved(seed: int) -> None:
    for cert, given in made(seed):
        found = verify(cert, **given)
        assert found.accepted, found
        assert WORST_VALUES not in found.stated, found
        assert found.complete, found


@pytest.mark.parametrize("seed", SEEDS)
def test_better_values_than_true_ones_are_rejected(seed: int) -> None:
    rng = np.random.default_rng(seed)
    for cert, given in made(seed):
        assert cert.metrics is not None
        q, b = int(rng.integers(len(cert.worst_cases))), int(rng.integers(cert.max_flips + 1))
        worst = cert.worst_cases[q]
        better = worst.lower[b] - 0.01 if worst.highest else worst.upper[b] + 0.01
        lower, upper = cert.metrics.lower.copy(), cert.metrics.upper.copy()
        lower[q, b] = upper[q, b] = better
        lie = replace(cert, metrics=replace(cert.metrics, lower=lower, upper=upper))
        assert not verify(replace(lie, checksum=lie.computed_checksum()), **given).accepted, (worst, b)


def test_attacks_that_do_less_are_rejected() -> None:
    K, labels, rows, metrics = problem(0, 2)
    cert = certify(K, labels, rows, C=1.0, max_flips=2, metrics=metrics)
    assert cert.metrics is not None
    for q, worst in enumerate(cert.worst_cases):
        lower, upper = cert.metrics.lower.copy(), cert.metrics.upper.copy()
        (lower if not worst.highest else upper)[q] += -0.01 if not worst.highest else 0.01
        (upper if not worst.highest else lower)[q] += -0.01 if not worst.highest else 0.01
        lie = replace(cert, metrics=replace(cert.metrics, lower=lower, upper=upper))
        found = verify(replace(lie, checksum=lie.computed_checksum()))
        assert [check.what for check in found.wrong] == ["metrics"]
        assert "does not come to its value" in found.wrong[0].how


def test_what_nobody_can_check_stays_stated() -> None:
    def errors(tp: Any, fp: Any, fn: Any, tn: Any) -> Any:
        return -(fp + fn)

    K, labels, rows, metrics = problem(0, 2)
    cert = certify(K, labels, rows, C=1.0, max_flips=2, metrics=[metrics[0], Metric(errors, metrics[0].true_labels)])
    found = verify(cert)
    assert found.complete
    assert WORST_VALUES in found.stated
    votes = certify_partition(K, labels, rows, C=1.0, parts=3, combine="votes", max_flips=2, metrics=metrics)
    assert WORST_VALUES in verify(votes).stated
    data = labelcert.examples.two_clouds(n_labels=20, n_test=5)
    metric = Metric("recall", data.truth)
    large = certify(
        data.K_train, data.labels, data.K_test, C=1.0, max_flips=6, metrics=[metric, Metric("precision", data.truth)]
    )
    found = verify(large, share=0.001)
    assert found.accepted
    assert WORST_VALUES in found.stated
