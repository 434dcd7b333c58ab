"""Worst values of metrics: how they are asked for, stored, shown and refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import RidgeClassifier

import labelcert
from labelcert import GCN, InvalidInput, Metric, Threat, certify, certify_linear, certify_partition, from_sklearn
from labelcert.examples import several_clouds, two_clouds
from labelcert.graphs import karate

DATA = two_clouds(n_labels=8, n_test=30)
ARRAYS = (DATA.K_train, DATA.labels, DATA.K_test)


def f1(tp: Any, fp: Any, fn: Any, tn: Any) -> Any:
    return 2 * tp / np.maximum(2 * tp + fp + fn, 1)


def test_what_was_asked_for_is_stored(tmp_path: Path) -> None:
    asked = [Metric("recall", DATA.truth, positive="fraud"), Metric(f1, DATA.truth), Metric("accuracy", DATA.truth)]
    cert = certify(*ARRAYS, 1.0, metrics=asked)
    plain = certify(*ARRAYS, 1.0)
    assert cert.radius_lower.tolist() == plain.radius_lower.tolist()
    cert.save(tmp_path / "one.cert")
    plain.save(tmp_path / "plain.cert")
    assert labelcert.load(tmp_path / "plain.cert").worst_cases == []
    again = labelcert.load(tmp_path / "one.cert")
    assert again.checksum == again.computed_checksum() != plain.checksum
    for one, other in zip(cert.worst_cases, again.worst_cases, strict=True):
        assert one.exact
        assert (one.title, one.lower.tolist(), one.attacks) == (other.title, other.lower.tolist(), other.attacks)
    for metric in asked:
        assert again.worst_case(metric).exact
    assert again.worst_case("recall").title == "lowest recall (fraud)"
    assert again.worst_case("accuracy").lower.tolist() == cert.worst_case("accuracy", DATA.truth).lower.tolist()
    other = again.worst_case("recall", positive="fine")  # with the true labels that are known
    assert other.title == "lowest recall (fine)"
    assert other.to_frame().shape == (9, 3)


def test_witnesses_come_to_what_they_should() -> None:
    asked = [Metric("false_positive_rate", DATA.truth, positive="fraud"), Metric("accuracy", DATA.truth)]
    cert = certify(*ARRAYS, 1.0, metrics=asked)
    for b in range(cert.max_flips + 1):
        for metric, worst in zip(asked, cert.worst_cases, strict=True):
            labels = DATA.labels.copy()
            change = worst.witness(b)
            assert len(change) <= b
            labels[list(change)] = list(change.values())
            if np.unique(labels).size < 2:
                continue
            predicted = certify(DATA.K_train, labels, DATA.K_test, 1.0, max_flips=0).predictions
            value = np.mean(predicted == DATA.truth)
            if metric.name != "accuracy":
                value = np.mean(predicted[DATA.truth == "fine"] == "fraud")
            assert value == pytest.approx(worst.lower[b])


def test_every_way_in_bounds_what_enumeration_finds() -> None:
    metric = Metric("recall", DATA.truth, positive="fraud")
    options: dict[str, Any] = {"max_flips": 3, "metrics": [metric]}
    for ask in (
        lambda **how: certify_linear(DATA.K_test, DATA.labels, **how),
        lambda **how: certify_partition(*ARRAYS, 1.0, parts=2, **how),
        lambda **how: certify(*ARRAYS, 1.0, engine="milp", **how),
        lambda **how: certify(*ARRAYS, 1.0, threat=Threat(annotators=list("aabbccdd")), **how),
        lambda **how: from_sklearn(RidgeClassifier()).certify(DATA.K_train, DATA.labels, DATA.K_test, **how),
    ):
        cert = ask(**options)
        worst = cert.worst_case("recall")
        assert np.all(worst.lower <= worst.upper)
        assert worst.upper[0] == pytest.approx(np.mean(cert.predictions[DATA.truth == "fraud"] == "fraud"))
        assert np.all(np.diff(worst.lower) <= 0)
        assert np.all(np.diff(worst.upper) <= 0)
    square = [certify(*ARRAYS, 1.0, loss="square", engine=engine, **options) for engine in ("auto", "closed-form")]
    exact, bounds = (cert.worst_case("recall") for cert in square)
    assert exact.exact  # "auto" walks for it
    assert np.all((bounds.lower <= exact.lower) & (exact.upper <= bounds.upper))


def test_more_than_two_classes() -> None:
    data = several_clouds(n_labels=9, n_test=20)
    metrics = [Metric("accuracy", data.truth), Metric("recall", data.truth, positive="red")]
    cert = certify(data.K_train, data.labels, data.K_test, 1.0, max_flips=2, metrics=metrics)
    assert all(worst.exact for worst in cert.worst_cases)
    assert cert.engine == "enumerate"


def test_a_run_that_is_stopped_has_intervals() -> None:
    data = two_clouds(n_labels=40, n_test=300)
    options: dict[str, Any] = {"metrics": [Metric("accuracy", data.truth)], "time_limit": 0.05}
    cert = certify(data.K_train, data.labels, data.K_test, 1.0, engine="enumerate", **options)
    worst = cert.worst_case("accuracy")
    assert np.all(worst.lower <= worst.upper)
    assert not worst.exact


def test_graphs_know_their_true_classes() -> None:
    graph = karate()
    cert = GCN(C=0.1).certify(graph, [0, 1, 2, 32, 33, 30], [5, 6, 9, 28], metrics=["accuracy"])
    assert cert.worst_case("accuracy").exact
    assert cert.worst_case("accuracy", graph.labels[[5, 6, 9, 28]]).exact
    assert cert.worst_case("recall").lower.tolist()[:2] == [1.0, 0.0]


@pytest.mark.parametrize(
    ("metric", "words"),
    [
        (lambda: Metric("f2"), "'precision'"),
        (lambda: Metric("accuracy", DATA.truth, positive="fraud"), "leave positive out"),
        (lambda: Metric("accuracy"), "true labels"),
        (lambda: Metric("accuracy", ["fraud"]), "one entry per test node"),
        (lambda: Metric("recall", DATA.truth, positive="theft"), "one of the classes"),
        (lambda: Metric("recall", np.full(30, "fine")), "of the positive class"),
        (lambda: Metric("false_positive_rate", np.full(30, "fraud")), "of another class"),
        (lambda: Metric("accuracy", DATA.truth, groups=["a"] * 30), "two groups"),
        (lambda: Metric("accuracy", DATA.truth, groups=["a", "b"]), "one entry per test node"),
        (lambda: Metric(lambda tp, fp, fn, tn: tp / 0.0, DATA.truth), "finite number"),
    ],
)
def test_what_is_refused(metric: Any, words: str) -> None:
    with pytest.raises(InvalidInput, match=words), np.errstate(all="ignore"):
        certify(*ARRAYS, 1.0, max_flips=1, metrics=[metric()])


def test_margins_have_no_metrics() -> None:
    with pytest.raises(InvalidInput, match="not about margins"):
        certify(*ARRAYS, 1.0, max_flips=1, margin=0.1, metrics=[Metric("accuracy", DATA.truth)])
    with pytest.raises(InvalidInput, match="not about margins"):
        certify(*ARRAYS, 1.0, max_flips=1, margin=0.1).worst_case("accuracy", DATA.truth)
