from __future__ import annotations

import json

import numpy as np
import pytest
from tests.helpers.problems import gaussian

import labelcert
from labelcert import InvalidInput, certify
from labelcert.certificate import Stop
from labelcert.graphs import karate
from labelcert.models import SGC


def test_ratios_follow_from_radii_and_curve(cert: labelcert.Certificate) -> None:
    for b in range(11):
        assert cert.certified_ratio(b) == cert.certified_ratio(flips=b) == np.mean(cert.radius_lower > b)
        assert cert.certified_ratio(flips=b, collective=True) == 1 - cert.collective_lower[b] / 25
    assert cert.certified_ratio(0.1) == cert.certified_ratio(fraction=0.1) == cert.certified_ratio(flips=1)
    truth = cert.predictions.copy()
    truth[:5] = np.where(truth[:5] == "no", "yes", "no")
    expected = np.mean((cert.radius_lower > 1) & (np.arange(25) >= 5))
    assert cert.certified_accuracy(truth, flips=1) == expected


def test_verdicts(cert: labelcert.Certificate) -> None:
    verdicts = cert.verdicts(flips=1)
    assert set(verdicts) <= {"robust", "vulnerable"}
    assert np.array_equal(verdicts == "robust", cert.radius_lower > 1)


def test_collective_is_bounded_by_sample_wise(cert: labelcert.Certificate) -> None:
    for b in range(11):
        assert cert.collective_lower[b] <= np.sum(cert.radius_lower <= b)
    assert np.all(np.diff(cert.collective_lower) >= 0)


def test_frame(cert: labelcert.Certificate) -> None:
    frame = cert.to_frame()
    assert list(frame.columns) == [
        "prediction",
        "decision_value",
        "runner_up",
        "becomes",
        "radius",
        "radius_lower",
        "radius_upper",
        "radius_claimed",
        "exact",
        "proved_by",
        "witness",
    ]
    assert len(frame) == 25
    assert np.all(frame["runner_up"] != frame["prediction"])
    assert len(cert.curve_frame()) == 11


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "give one budget"),
        ({"flips": 1, "fraction": 0.1}, "give one budget"),
        ({"flips": 11}, "covers budgets 0 to 10, got 11"),
        ({"flips": 1, "bound": "middle"}, "bound must be"),
        ({"fraction": 2.0}, "between 0 and 1"),
    ],
)
def test_bad_budgets(cert: labelcert.Certificate, options: dict[str, object], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        cert.certified_ratio(**options)  # type: ignore[arg-type]


def test_bad_queries(cert: labelcert.Certificate) -> None:
    with pytest.raises(InvalidInput, match="no test node 25"):
        cert.witness(25)
    with pytest.raises(InvalidInput, match="covers budgets"):
        cert.collective_witness(11)
    with pytest.raises(InvalidInput, match="one entry per test node"):
        cert.certified_accuracy(["no"], flips=1)
    with pytest.raises(InvalidInput, match="labels' own values"):
        cert.certified_accuracy(np.zeros(25, dtype=int), flips=1)


def test_the_labels_given_stay_the_callers() -> None:
    K, y, rows = gaussian(8, 5)
    labels = y.copy()
    made = certify(K, labels, rows, 2.0)
    before = [made.witness(t) for t in range(5)]
    labels[:] = 1 - labels
    assert [made.witness(t) for t in range(5)] == before


def test_arrays_are_read_only(cert: labelcert.Certificate) -> None:
    with pytest.raises(ValueError, match="read-only"):
        cert.radius_lower[0] = 5


def test_the_run_is_recorded(cert: labelcert.Certificate) -> None:
    assert cert.run.versions["labelcert"] == labelcert.__version__
    assert len(cert.run.problem_sha256) == 64
    assert cert.run.stopped is Stop.FINISHED
    assert cert.settings["stopped"] == "finished"
    assert [stage.engine for stage in cert.run.stages] == [cert.engine] == ["enumerate"]
    assert cert.run.unit == "flips"
    assert cert.run.finds_attacks
    json.dumps(cert.settings)
    K, y, rows = gaussian(10, 25)
    other = certify(K, np.array(["no", "yes"])[y], rows, 2.0, max_flips=3)
    assert other.run.problem_sha256 != cert.run.problem_sha256


def test_the_curve_s_attacks_change_what_they_say(cert: labelcert.Certificate) -> None:
    K, y, rows = gaussian(10, 25)
    names = np.array(["no", "yes"])
    for b in range(11):
        labels = names[y]
        for i, label in cert.collective_witness(b).items():
            labels[i] = label
        retrained = certify(K, labels, rows, 2.0, max_flips=0)
        assert np.array_equal(retrained.predictions != cert.predictions, cert.collective_changed(b))
        assert cert.collective_changed(b).sum() == cert.collective_lower[b]
    with pytest.raises(InvalidInput, match="covers budgets"):
        cert.collective_changed(11)


def test_takeovers_of_two_classes(cert: labelcert.Certificate) -> None:
    counts = cert.takeovers(flips=2)
    assert counts.to_numpy().trace() == 0
    changed = cert.radius_upper <= 2
    for name, other in (("no", "yes"), ("yes", "no")):
        assert counts.loc[name, other] == np.sum(changed & (cert.predictions == name))


def test_names_of_nodes_and_classes_come_with_a_graph() -> None:
    graph = karate()
    test = np.array([5, 30, 8])
    made = SGC(C=0.1).certify(graph, [0, 1, 32, 33], test)
    assert made.test_names is not None
    assert made.label_names is not None
    assert made.class_list is not None
    assert made.test_names.tolist() == graph.names(test)
    assert made.label_names.tolist() == graph.names([0, 1, 32, 33])
    assert made.class_list.tolist() == list(graph.class_names)
    assert set(made.classes.tolist()) == {"Mr. Hi", "Officer"}
    in_names, in_codes = graph.named_labels(test), graph.labels[test]
    assert np.array_equal(made.correct(in_names), made.correct(in_codes))
    assert made.certified_accuracy(in_names, flips=1) == made.certified_accuracy(in_codes, flips=1)
    assert np.array_equal(made.correct(1 - in_codes), ~made.correct(in_codes))
    assert not made.correct(np.full(3, -1)).any()  # unlabelled
    with pytest.raises(InvalidInput, match="class codes 0 to 1"):
        made.correct(np.full(3, 2))


def test_without_a_graph_there_are_no_names(cert: labelcert.Certificate) -> None:
    assert cert.test_names is None
    assert cert.label_names is None
    assert cert.class_list is None
