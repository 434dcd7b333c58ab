"""A certificate on somebody else's model: what is counted is what happened."""

from __future__ import annotations

import itertools
import signal
from typing import Any

import numpy as np
import pytest
from sklearn.neighbors import KNeighborsClassifier

import labelcert
from labelcert import InvalidInput, Threat

RNG = np.random.default_rng(0)
X, T = RNG.normal(size=(12, 2)), RNG.normal(size=(20, 2))
LABELS = np.where(X[:, 0] + 0.3 * X[:, 1] > 0, "up", "down")


def certified(**how: Any) -> labelcert.Certificate:
    return labelcert.certify(X @ X.T, LABELS, T @ X.T, 1.0, max_flips=2, **how)


def ridge(indices: Any, labels: Any) -> Any:
    w = np.linalg.solve(X[indices].T @ X[indices] + np.eye(2), X[indices].T @ np.where(labels == "up", 1.0, -1.0))
    return np.where(T @ w > 0, "up", "down")


def test_the_certified_model_itself_holds() -> None:
    """Ridge on its own certificate: all that is certified holds, and all attacks work."""
    cert = certified(loss="square")

    def same(indices: Any, labels: Any) -> Any:
        y = np.where(labels == "up", 1.0, -1.0)
        scores = T @ X.T @ np.linalg.solve(X @ X.T + 0.5 * np.eye(12), y)
        return np.column_stack([-scores, scores])

    found = labelcert.stress(same, cert, flips=2)
    shares = found.same, found.attacks, found.certified, found.relabellings
    assert all(one.held == one.of for one in shares)
    assert found.attacks.of == int(np.sum((cert.radius_upper > 0) & (cert.radius_upper <= 2))) > 0
    assert found.deterministic
    assert not found.stopped
    assert not found.broken.any()
    assert found.same.interval[1] == 1.0 > found.same.interval[0] > 0.8


def test_removed_labels_are_left_out_of_the_training() -> None:
    """Neighbours on their own certificate: all that is certified holds, and all attacks work."""
    model, removal = KNeighborsClassifier(3), Threat(removable=True, changes=False)
    cert = labelcert.from_sklearn(model).certify(X, LABELS, T, threat=removal, max_flips=2)
    found = labelcert.stress(lambda indices, labels: model.fit(X[indices], labels).predict(T), cert, flips=2, random=20)
    assert all(one.held == one.of for one in (found.same, found.attacks, found.certified, found.relabellings))
    assert found.attacks.of == int(np.sum(cert.radius_upper <= 2)) > 0


def test_counts_of_another_model() -> None:
    cert = certified()
    found = labelcert.stress(ridge, cert, flips=1, random=24)
    clean, certain = ridge(np.arange(12), LABELS), cert.radius_lower > 1
    broken = certain & (clean != cert.predictions)
    calm = 0
    for i in range(12):
        changed = LABELS.copy()
        changed[i] = "down" if LABELS[i] == "up" else "up"
        off = certain & (ridge(np.arange(12), changed) != cert.predictions)
        broken, calm = broken | off, calm + (not off.any())
    assert found.same.held == int((clean == cert.predictions).sum())
    assert found.broken.tolist() == broken.tolist()
    assert (found.certified.held, found.certified.of) == (int((certain & ~broken).sum()), int(certain.sum()))
    assert (found.relabellings.held, found.relabellings.of) == (calm, 12)
    worked = tried = 0
    for t in np.flatnonzero((clean == cert.predictions) & (cert.radius_upper <= 2) & (cert.radius_upper > 0)).tolist():
        changed = LABELS.copy()
        for i, label in (cert.witness(t) or {}).items():
            changed[i] = label
        worked, tried = worked + (ridge(np.arange(12), changed)[t] != clean[t]), tried + 1
    assert (found.attacks.held, found.attacks.of) == (worked, tried)
    assert found.to_frame().loc["attacks that work", "of"] == tried
    assert found.summary().count("\n") == 3


def test_random_changes_keep_to_the_threat() -> None:
    seen: list[Any] = []

    def watched(indices: Any, labels: Any) -> Any:
        seen.append(np.flatnonzero(labels != LABELS))
        return ridge(indices, labels)

    threat = Threat(trusted=np.arange(12) < 6, costs=[1, 2] * 6)
    labelcert.stress(watched, certified(threat=threat), flips=2, attacks=0, random=15)
    assert len(seen) == 17
    assert all(np.all(one >= 6) and sum((1, 2)[i % 2] for i in one) <= 2 for one in seen)
    assert any(one.size == 2 for one in seen)
    assert any(one.size == 1 for one in seen)


@pytest.mark.usefixtures("ctrl_c")
def test_chance_is_noticed_and_work_can_end() -> None:
    draws = itertools.count()

    def random(indices: Any, labels: Any) -> Any:
        return np.random.default_rng(next(draws)).choice(LABELS, 20)

    found = labelcert.stress(random, certified(), random=3)
    assert not found.deterministic
    assert "trained twice" in found.summary()
    assert labelcert.stress(ridge, certified(), time_limit=1e-9).stopped

    def interrupted(indices: Any, labels: Any) -> Any:
        if next(draws) > 40:
            signal.raise_signal(signal.SIGINT)
        return ridge(indices, labels)

    found = labelcert.stress(interrupted, certified(), random=60, flips=2)
    assert found.stopped
    assert 0 < found.trainings < 60


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"flips": 3}, "flips must be a whole number between 1 and 2"),
        ({"confidence": 1.0}, "confidence must lie between 0 and 1"),
        ({"train": 3}, "train must be a function"),
        ({"train": lambda i, y: np.zeros(3)}, "must return 20 predictions"),
        ({"train": lambda i, y: np.full(20, "left")}, "the certificate's classes"),
        ({"cert": lambda: certified(threat=Threat(annotators=list("abcabcabcabc")))}, "count annotators"),
    ],
)
def test_what_cannot_be_is_refused(given: dict[str, Any], words: str) -> None:
    asked = {"train": ridge, "cert": certified, **given}
    with pytest.raises(InvalidInput, match=words):
        labelcert.stress(asked.pop("train"), asked.pop("cert")(), **asked)
