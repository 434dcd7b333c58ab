"""Models on sanitised labels: certificates agree with training on every relabelling, cleaned by other code."""

from __future__ import annotations

import itertools
from collections import Counter
from typing import Any

import numpy as np
import pytest

import labelcert
from labelcert.arrays import Float, Int
from labelcert.baselines import certify_sanitized
from labelcert.errors import InvalidInput
from labelcert.problem import Threat
from labelcert.svm import train


def by_hand(x: Float, labels: Int, neighbors: int, agreement: int, rounds: int) -> Int:
    """Labels on the line, cleaned one by one."""
    for _ in range(rounds):
        new = labels.copy()
        for i in range(x.size):
            others = sorted((j for j in range(x.size) if j != i), key=lambda j: (abs(x[i] - x[j]), j))[:neighbors]
            [(c, votes)] = Counter(labels[others].tolist()).most_common(1)
            if votes >= agreement:
                new[i] = c
        labels = new
    return labels


def kernel(a: Float, b: Float) -> Float:
    """Whose distance grows with that on the line."""
    return np.exp(-(np.subtract.outer(a, b) ** 2) / 32)


def predicted(x: Float, t: Float, labels: Int, K: int, C: float) -> tuple[Int, Float]:
    """One class against the others; and by how much each point's class leads."""
    scores = np.array([kernel(t, x) @ train(kernel(x, x), np.where(labels == c, 1.0, -1.0), C) for c in range(K)])
    ordered = np.sort(scores, axis=0)
    return scores.argmax(axis=0), ordered[-1] - ordered[-2]


@pytest.mark.parametrize("K", [2, 3])
def test_certificates_agree_with_every_relabelling(K: int) -> None:
    rng, compared = np.random.default_rng(K), 0
    for trial in range(30):
        m, C = int(rng.integers(4, 7)), float(rng.choice([0.01, 1.0]))
        x = np.sort(rng.integers(-8, 9, m)) + rng.uniform(0, 1e-3, m)  # no equal distances, but for duplicates
        if trial % 5 == 0:
            x[1] = x[0]
        labels = np.concatenate([np.arange(K), rng.integers(0, K, m - K)])
        t = rng.uniform(-9, 9, 4)
        neighbors = int(rng.integers(1, m))
        agreement = int(rng.integers(neighbors // 2 + 1, neighbors + 1))
        how = {"neighbors": neighbors, "agreement": agreement, "rounds": 1 + trial % 2}
        B = 0 if trial == 7 else m if K == 2 else 2
        trusted = np.ones(m, dtype=bool) if trial == 8 else rng.random(m) < 0.2
        threat = Threat(trusted=trusted)
        cert = certify_sanitized(kernel(x, x), labels, kernel(t, x), C, threat=threat, max_flips=B, **how)
        clean, lead = predicted(x, t, by_hand(x, labels, **how), K, C)
        usual = lead > 1e-6
        np.testing.assert_array_equal(cert.predictions[usual], clean[usual])
        radius, worst = np.full(4, B + 1), np.zeros(B + 1, dtype=int)
        for codes in itertools.product(range(K), repeat=m):
            given = np.array(codes)
            cost = int((given != labels).sum())
            if cost > B or (given != labels)[trusted].any():
                continue
            now, lead = predicted(x, t, by_hand(x, given, **how), K, C)
            usual &= lead > 1e-6
            radius = np.where(now != clean, np.minimum(radius, cost), radius)
            worst[cost:] = np.maximum(worst[cost:], (now != clean).sum())
        lower, upper = cert.radius_lower, np.minimum(cert.radius_upper, B + 1)
        np.testing.assert_array_equal(lower[usual], np.minimum(radius, B + 1)[usual])
        np.testing.assert_array_equal(upper[usual], radius[usual])
        if usual.all():
            np.testing.assert_array_equal(cert.collective_lower, worst)
            compared += 1
    assert compared > 8


def test_nobody_asks_more_than_there_are() -> None:
    x = np.arange(4.0)
    arrays = (np.outer(x, x), x > 1, np.outer(x, x), 1.0)
    with pytest.raises(InvalidInput, match="neighbors"):
        certify_sanitized(*arrays, neighbors=4)
    with pytest.raises(InvalidInput, match="agreement"):
        certify_sanitized(*arrays, neighbors=3, agreement=1)


@pytest.mark.parametrize(
    ("threat", "loss"),
    [({"removable": True}, "hinge"), ({"annotators": list("aabb")}, "hinge"), ({}, "logistic_intercept")],
)
def test_what_cleaning_cannot_be_certified_with(threat: dict[str, Any], loss: str) -> None:
    x = np.arange(4.0)
    with pytest.raises(InvalidInput, match=r"use the loss without|leave out removable"):
        certify_sanitized(np.outer(x, x), x > 1, np.outer(x, x), 1.0, neighbors=3, threat=Threat(**threat), loss=loss)


def test_time_ends_with_an_interval() -> None:
    x = np.random.default_rng(0).normal(size=18)
    cert = certify_sanitized(kernel(x, x), x > 0, kernel(x, x), 1.0, max_flips=9, time_limit=1e-3)
    assert not cert.exact
    assert (cert.radius_lower <= cert.radius_upper).all()


def test_verify_refuses_it_as_another_model() -> None:
    x = np.arange(-3.0, 4.0)
    cert = certify_sanitized(np.outer(x, x), x > 0, np.outer(x, x), 1.0, neighbors=3, max_flips=1)
    assert not labelcert.verify(cert).accepted
