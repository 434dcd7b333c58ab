"""What certificates say would prove more, where proofs end early."""

import numpy as np
import pytest

import labelcert
from labelcert.certificate.display import as_html
from labelcert.certification import GivenKernel, Run, Task, solve
from labelcert.certification.advice import other_models, square_loss
from labelcert.examples import several_clouds, two_clouds
from labelcert.losses import get_loss
from labelcert.losses.cross_validation import accuracies, stratified_folds
from labelcert.problem import Problem
from labelcert.report import tables
from labelcert.text import per_cent

DATA = several_clouds()
ARRAYS = (DATA.K_train, DATA.labels, DATA.K_test)


def test_where_proofs_end_early_the_square_loss_is_advised_everywhere(tmp_path):
    cert = labelcert.certify(*ARRAYS, 1.0, max_flips=3, engine="relaxed")
    [words] = cert.run.advice
    parts = stratified_folds(np.unique(DATA.labels, return_inverse=True)[1])
    mine = accuracies(DATA.K_train, np.asarray(DATA.labels), [1.0], parts, get_loss("hinge")).mean()
    assert words.startswith("loss='square' with C=")
    assert words.endswith(f"(loss='hinge': {per_cent(mine)} %)")
    assert "loss='square' with C=" in cert.summary()
    assert words in tables.summary(cert)
    assert "accurate by cross-validation" in as_html(cert)
    cert.save(tmp_path / "a.cert")
    assert labelcert.load(tmp_path / "a.cert").run.advice == cert.run.advice


def test_what_is_exact_needs_no_advice():
    assert labelcert.certify(*ARRAYS, 1.0, max_flips=2).run.advice == ()
    assert labelcert.certify(*ARRAYS, 1.0, loss="square").run.advice == ()


def test_a_task_brings_an_adviser_of_its_own():
    asked = []

    def own(problem, seconds):
        asked.append((problem.m, seconds))
        return ["something else"]

    task = Task(GivenKernel(*(DATA.K_train, DATA.K_test), 1.0), DATA.labels, max_flips=2, adviser=own)
    assert solve(task, Run("relaxed")).run.advice == ("something else",)
    assert solve(task, Run("relaxed", time_limit=50)).run.advice == ("something else",)
    assert asked == [(15, 2.0), (15, 1.0)]
    assert solve(task, Run("enumerate")).run.advice == ()


@pytest.mark.parametrize(("seconds", "says"), [(0.0, "without a search"), (2.0, "accurate")])
def test_accuracies_are_measured_as_time_allows(seconds, says):
    [words] = square_loss(Problem.build(*ARRAYS, 1.0), seconds)
    assert says in words
    assert ("accurate" in words) == (seconds > 0)


def test_a_class_with_one_label_has_no_cross_validation():
    labels = ["a", "a", "b"]
    [words] = square_loss(Problem.build(np.eye(3), labels, np.eye(3), 1.0), 2.0)
    assert words == "loss='square' has exact radii at every budget, without a search"


def test_ensembles_are_advised_where_there_are_labels_for_parts():
    data = two_clouds()
    problem = Problem.build(np.eye(100), np.arange(100) % 2, np.eye(100), 1.0)
    _, words = other_models(problem, 0.0)
    assert words.startswith("certify_partition(parts=5) has an ensemble")
    assert "harden" in words
    assert len(other_models(Problem.build(data.K_train, data.labels, data.K_test, 1.0), 0.0)) == 1
    assert other_models(Problem.build(np.eye(100), np.arange(100) % 2, np.eye(100), 1.0, loss="square"), 0.0) == []
