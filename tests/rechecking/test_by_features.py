"""recheck for linear models by their features: what it lists, and what it says is secured."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from tests.engines.influence.test_influence import problem

from labelcert import InvalidInput, Threat, certify, from_sklearn, recheck
from labelcert.certification import GivenFeatures, Task
from labelcert.engines.control import Control
from labelcert.engines.influence.foretold import ForetoldMethod
from labelcert.losses.weighted import Weights
from labelcert.problem import Relabelling
from labelcert.rechecking.attacks import bits, list_attacks
from labelcert.rechecking.subject import Subject


@pytest.mark.parametrize("loss", ["logistic", "squared_hinge", "cross_entropy"])
@pytest.mark.parametrize("seed", range(5))
def test_features_and_their_kernel_say_the_same(seed: int, loss: str) -> None:
    case, X, T = problem(seed, loss)
    task = Task(GivenFeatures(X, T, case.C, loss), case.labels, case.threat)
    asked: dict[str, Any] = {"flips": case.max_flips, "confirm": 2}
    own = recheck(task, **asked)
    other = recheck(case.K_train, case.labels, case.K_test, case.C, loss=loss, threat=case.threat, **asked)
    shares, truth = [own.before, *own.after], [other.before, *other.after]
    if own.complete and other.complete:  # exact ties may stay open
        assert (shares[0], shares[-1]) == (pytest.approx(truth[0]), pytest.approx(truth[-1]))
    if other.complete:
        assert shares[0] <= truth[0] + 1e-12
        assert shares[-1] <= truth[-1] + 1e-12


def test_weights_are_asked_about_one_by_one() -> None:
    case, X, T = problem(2, "logistic")
    weights = Weights(np.ones(case.labels.size))
    task = Task(GivenFeatures(X, T, case.C, "logistic", weights=weights, enumerated=True), case.labels)
    found = recheck(task, flips=2, confirm=2)
    other = recheck(case.K_train, case.labels, case.K_test, case.C, loss="logistic", flips=2, confirm=2)
    assert (found.before, found.after) == (pytest.approx(other.before), pytest.approx(other.after))


def many(seed: int, classes: int = 2, m: int = 701) -> tuple[Any, Any, Any]:
    """So many labels that models of them are trained on features."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, classes, m)
    return rng.normal(size=(m, 6)) + 0.4 * np.eye(6)[y], y, rng.normal(size=(40, 6)) + 0.2


def test_hundreds_of_labels_of_an_estimator() -> None:
    X, y, T = many(0)
    model = from_sklearn(LogisticRegression(C=0.5))
    advice = model.recheck(X, y, T, flips=1, confirm=4)
    assert advice.complete
    assert advice.optimal
    assert advice.before < advice.after[-1]
    for k in range(len(advice.labels) + 1):
        mask = np.isin(np.arange(y.size), advice.labels[:k])
        cert = model.certify(X, y, T, threat=Threat(trusted=mask), max_flips=1)
        assert cert.certified_ratio(flips=1) == pytest.approx([advice.before, *advice.after][k])
    cert = model.certify(X, y, T, max_flips=3)
    assert recheck(cert, X_train=X, X_test=T, flips=1, confirm=4).labels == advice.labels
    with pytest.raises(InvalidInput, match="not what the certificate is about"):
        recheck(cert, X_train=X, X_test=T[::-1], flips=1, confirm=4)
    with pytest.raises(InvalidInput, match="X_train="):
        recheck(cert, flips=1, confirm=4)
    with pytest.raises(InvalidInput, match="together, beside a certificate"):
        recheck(cert, X_train=X, flips=1, confirm=4)


def test_most_single_changes_take_no_training() -> None:
    X, y, T = many(1)
    subject = Subject(Task(GivenFeatures(X, T, 0.5), y, max_flips=1))
    question = subject.question()
    blocks = list(ForetoldMethod().blocks(question, Control(workers=1)))
    assert sum(block.stops for block in blocks) == y.size
    assert sum(block.stops for block in blocks if not block.harmless) < y.size / 4
    found = list_attacks(question, np.full(40, 1 / 40), Control(workers=1), strongest=False)
    assert found.complete
    everyone = [Relabelling(np.array([i]), np.array([1 - y[i]])) for i in range(y.size)]
    changed = question.changed_by(everyone)[0]
    listed = np.zeros_like(changed)
    for labels, overturned in zip(bits(found.sets, y.size), found.overturned, strict=True):
        listed[labels] = overturned
    assert np.array_equal(listed, changed)


def test_more_flips_in_a_limited_time() -> None:
    X, y, T = many(2)
    advice = from_sklearn(LogisticRegression(C=0.5)).recheck(X, y, T, flips=3, confirm=2, time_limit=4)
    assert not advice.complete  # 57 million sets of labels
    assert advice.before <= advice.after[-1] <= advice.after_upper[-1] if advice.after else True


def test_a_class_that_loses_its_last_label() -> None:
    X, y, T = many(3, classes=3)
    y[y == 2] = 1
    y[0] = 2
    subject = Subject(Task(GivenFeatures(X, T, 0.5, "cross_entropy", drops_to="logistic"), y, max_flips=1))
    question = subject.question()
    gone = Relabelling(np.array([0]), np.array([1]))
    first = next(iter(ForetoldMethod().blocks(question, Control(workers=1))))
    assert gone in first.changes
    assert not first.harmless
    together, alone = question.changed_by([gone]), question.changed(gone)
    assert np.array_equal(together[0][0], alone[0])
    assert np.array_equal(together[1][0], alone[1])


def test_weights_that_a_certificate_does_not_hold() -> None:
    X, y, T = many(4)
    cert = from_sklearn(LogisticRegression()).certify(X, y, T[:3], max_flips=1, sample_weight=1.0 + y)
    with pytest.raises(InvalidInput, match="does not hold the weights"):
        recheck(cert, X_train=X, X_test=T[:3], flips=1, confirm=1)


def test_what_features_are_not_for() -> None:
    X, y, T = many(5, m=20)
    cert = certify(X @ X.T, y, T @ X.T, 1.0, loss="logistic", max_flips=1)
    with pytest.raises(InvalidInput, match="not what the certificate is about"):
        recheck(cert, X_train=X, X_test=T, flips=1, confirm=1)
