"""What to annotate again, and whom to audit, against all choices and all that every set of annotators could do."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from tests.engines.test_annotators import Crowd

from labelcert import InvalidInput, Recheck, Threat, Votes, WorkTooLarge, certify, certify_linear, recheck


def survive(crowd: Crowd, scores: Any, flips: int, items: Any = (), honest: Any = ()) -> float:
    """The share of predictions that no annotators within a budget change, once some are known, and some labels."""
    trusted, names = np.array(crowd.trusted), [*crowd.honest, *honest]
    trusted[list(items)] = True
    known = Crowd(crowd.rows, crowd.rank, crowd.weights, crowd.prices, names, trusted, crowd.wrong_votes)
    clean = scores(known.labels)
    own = clean.argmax(axis=1)
    safe = np.sum(clean == clean.max(axis=1, keepdims=True), axis=1) == 1
    free = [a for a in known.prices if a not in names]
    for owners in itertools.chain.from_iterable(itertools.combinations(free, k) for k in range(1, len(free) + 1)):
        if sum(known.prices[a] for a in owners) <= flips:
            for codes in set(known.labellings(set(owners))):
                now = scores(codes)
                rivals = np.where(np.arange(now.shape[1]) == own[:, None], -np.inf, now).max(axis=1)
                safe &= rivals < now[np.arange(own.size), own]
    return float(safe.mean())


def agrees(crowd: Crowd, found: Recheck, scores: Any, flips: int, choices: Any) -> None:
    """Every share is right, and no choice is better than the bound."""
    for k, (low, high) in enumerate(zip([found.before, *found.after], [found.before, *found.after_upper], strict=True)):
        chosen = {"honest": map(int, found.annotators[:k])} if found.annotators is not None else {}
        real = survive(crowd, scores, flips, **(chosen or {"items": found.labels[:k]}))
        assert low - 1e-9 <= real <= max(high, found.best_possible) + 1e-9
    if not found.labels and not found.annotators:
        return
    best = max(survive(crowd, scores, flips, **choice) for choice in choices(len(found.names)))
    assert best <= found.best_possible + 1e-9
    assert not found.optimal or found.after[-1] >= best - 1e-9


@pytest.mark.parametrize("kind", ["one", "votes", "callable"])
def test_linear_maps(kind: str) -> None:
    secured = 0
    for seed in range(25):
        rng = np.random.default_rng(seed)
        crowd = Crowd.draw(rng, several=kind != "one", most_classes=3)
        H = rng.integers(-2, 5, size=(4, crowd.m)).astype(float)

        def scores(codes: Any, H: Any = H, K: int = len(crowd.rank)) -> Any:
            return np.stack([H @ (np.array(codes) == c) for c in range(K)], axis=1)

        flips = min(int(rng.integers(1, 3)), sum(crowd.prices.values()))
        ask: dict[str, Any] = {"labels": crowd.labels, "H": H, "threat": crowd.threat(kind), "flips": flips}
        audited = recheck(**ask, audit=2)
        free = [a for a in crowd.prices if a not in crowd.honest]
        agrees(
            crowd, audited, scores, flips, lambda k, free=free: ({"honest": s} for s in itertools.combinations(free, k))
        )
        confirmed = recheck(**ask, confirm=2)
        items = range(crowd.m)
        agrees(crowd, confirmed, scores, flips, lambda k, i=items: ({"items": s} for s in itertools.combinations(i, k)))
        secured += bool(audited.after) + bool(confirmed.after)
    assert secured > 10


def test_retrained_models() -> None:
    for seed in range(6):
        rng = np.random.default_rng(seed)
        crowd = Crowd.draw(rng, several=seed % 2 == 0, most_classes=2)
        crowd.wrong_votes = None
        points = rng.normal(size=(crowd.m + 3, 2))
        K = np.exp(-((points[:, None] - points[None]) ** 2).sum(axis=2))
        K_train, K_test = K[: crowd.m, : crowd.m], K[crowd.m :, : crowd.m]

        def scores(codes: Any, K_train: Any = K_train, K_test: Any = K_test) -> Any:
            if len(set(codes)) == 1:
                return np.eye(2)[[codes[0]] * 3]
            fitted = certify(K_train, np.array(codes), K_test, 1.0, max_flips=0).decision_values
            return np.stack([-fitted, fitted], axis=1)

        threat = crowd.threat("votes")
        ask: dict[str, Any] = {"flips": 1, "workers": 1}
        found = recheck(K_train, crowd.labels, K_test, 1.0, **ask, threat=threat, confirm=2)
        items = range(crowd.m)
        agrees(crowd, found, scores, 1, lambda k, i=items: ({"items": s} for s in itertools.combinations(i, k)))
        free = [a for a in crowd.prices if a not in crowd.honest]
        found = recheck(certify(K_train, crowd.labels, K_test, 1.0, threat=threat), **ask, audit=1)
        agrees(crowd, found, scores, 1, lambda k, free=free: ({"honest": s} for s in itertools.combinations(free, k)))


@pytest.mark.parametrize("combine", ["votes", "mean"])
def test_ensembles(combine: str) -> None:
    secured = 0
    for seed in range(8):
        rng = np.random.default_rng(seed)
        crowd = Crowd.draw(rng, several=seed % 2 == 0, most_classes=3)
        points, K = rng.normal(size=(crowd.m + 4, 2)), len(crowd.rank)
        kernel = np.exp(-((points[:, None] - points[None]) ** 2).sum(axis=2))
        K_train, K_test = kernel[: crowd.m, : crowd.m], kernel[crowd.m :, : crowd.m]
        parts = np.arange(crowd.m) % 3

        def scores(codes: Any, K_train: Any = K_train, K_test: Any = K_test, parts: Any = parts, K: int = K) -> Any:
            y = np.where(np.array(codes)[:, None] == np.arange(K), 1.0, -1.0)
            found = np.zeros((len(K_test), K))
            for p in range(3):
                own = np.flatnonzero(parts == p)
                one = K_test[:, own] @ np.linalg.solve(K_train[np.ix_(own, own)] + 0.5 * np.eye(own.size), y[own])
                found += np.eye(K)[one.argmax(axis=1)] if combine == "votes" else one
            return np.round(found, 10)

        flips = min(int(rng.integers(1, 3)), sum(crowd.prices.values()))
        how: dict[str, Any] = {"loss": "square", "parts": parts, "combine": combine, "workers": 1}
        ask = (K_train, crowd.labels, K_test, 1.0)
        free, items = [a for a in crowd.prices if a not in crowd.honest], range(crowd.m)
        audited = recheck(*ask, **how, threat=crowd.threat("votes"), flips=flips, audit=2)
        agrees(
            crowd, audited, scores, flips, lambda k, free=free: ({"honest": s} for s in itertools.combinations(free, k))
        )
        confirmed = recheck(*ask, **how, threat=crowd.threat("votes"), flips=flips, confirm=2)
        agrees(crowd, confirmed, scores, flips, lambda k, i=items: ({"items": s} for s in itertools.combinations(i, k)))
        secured += bool(audited.after) + bool(confirmed.after)
    assert secured > 3


def test_until_a_share_survives_and_how_it_is_shown() -> None:
    H, labels, who = [[0.6, 0.5, 0.1, 0.1], [0.1, 0.1, 0.5, 0.7]], ["a", "a", "b", "b"], ["ann", "ann", "bob", "cy"]
    cert = certify_linear(H, labels, threat=Threat(annotators=who))
    found = recheck(cert, H=H, flips=1, until=0.5)
    assert found.after[-1] >= 0.5
    audited = recheck(cert, H=H, flips=1, audit=2)
    assert "audit" in audited.summary()
    assert audited.to_frame().columns[0] == "audit"
    assert audited.certificate.run.threat["trusted_annotators"] == audited.names
    assert audited.plot().get_xticklabels()[0].get_text() == "now"
    assert cert.audit(2).survive.iloc[-1] == audited.after[-1] * 2


def test_what_is_refused() -> None:
    H, labels, who = [[0.6, 0.5, 0.1, 0.1]], ["a", "a", "b", "b"], ["ann", "ann", "bob", "cy"]
    threat = Threat(annotators=who)
    with pytest.raises(InvalidInput, match="audit is about annotators"):
        recheck(labels=labels, H=H, flips=1, audit=1)
    with pytest.raises(InvalidInput, match="one of these"):
        recheck(labels=labels, H=H, flips=1, audit=1, confirm=1, threat=threat)
    with pytest.raises(InvalidInput, match="objective='each'"):
        recheck(labels=labels, H=H, flips=1, confirm=1, threat=threat, objective="collective")
    rows = [(i, a, "ab"[i % 2]) for i in range(60) for a in range(60) if (i + a) % 7 == 0]
    with pytest.raises(WorkTooLarge, match="sets of annotators"):
        recheck(labels=Votes(rows).labels, H=np.ones((2, 60)), threat=Threat(votes=rows), flips=4, audit=2)
