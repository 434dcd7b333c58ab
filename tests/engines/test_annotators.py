"""Budgets that count annotators, against all votes that every set of annotators could cast."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from tests.engines.partition.test_small_ensembles import brute_force as by_training

from labelcert import Certificate, InvalidInput, Threat, Votes, certify, certify_linear, certify_partition, load, verify
from labelcert.certificate.certificate import RelabellingList
from labelcert.selfcheck import Case
from labelcert.verification.verdict import CheckStatus

Row = tuple[int, int, int]
Changed = Callable[[tuple[int, ...]], Any]


@dataclass
class Crowd:
    """A small problem: votes (item, annotator, class), the rule that makes labels of them, and what limits liars."""

    rows: list[Row]
    rank: list[int]
    weights: dict[int, int]
    prices: dict[int, int]
    honest: list[int]
    trusted: Any
    wrong_votes: int | None

    @classmethod
    def draw(cls, rng: np.random.Generator, several: bool, most_classes: int = 4) -> Crowd:
        """One in which every class is the label of some item."""
        while True:
            K, m, A = int(rng.integers(2, most_classes + 1)), int(rng.integers(4, 6)), int(rng.integers(2, 5))
            rows = [
                (i, int(a), int(rng.integers(K)))
                for i in range(m)
                for a in rng.choice(A, int(rng.integers(1, min(A, 3) + 1)) if several else 1, replace=False)
            ]
            names = sorted({a for _, a, _ in rows})
            found = cls(
                rows,
                [int(k) for k in (rng.permutation(K) if several and rng.random() < 0.5 else range(K))],
                {a: int(rng.integers(1, 4)) if several and rng.random() < 0.3 else 1 for a in names},
                {a: int(rng.integers(1, 3)) if rng.random() < 0.3 else 1 for a in names},
                names[:1] if rng.random() < 0.2 else [],
                rng.random(m) < 0.15,
                int(rng.integers(1, 3)) if rng.random() < 0.3 else None,
            )
            if set(found.labels) == set(range(K)):
                return found

    @property
    def m(self) -> int:
        return self.rows[-1][0] + 1

    @property
    def labels(self) -> list[int]:
        return [self.winner([row[1:] for row in self.rows if row[0] == i]) for i in range(self.m)]

    def winner(self, votes: list[tuple[int, int]]) -> int:
        totals = [sum(self.weights[a] for a, label in votes if label == c) for c in range(len(self.rank))]
        return max(range(len(totals)), key=lambda c: (totals[c], -self.rank[c]))

    def threat(self, kind: str) -> Threat:
        ties = [self.rank.index(k) for k in range(len(self.rank))]
        given: dict[str, Any] = {
            "one": {"annotators": [a for _, a, _ in self.rows]},
            "votes": {"votes": Votes(self.rows, ties, self.weights)},
            "callable": {"votes": Votes(self.rows, aggregate=lambda votes: self.winner(list(votes.items())))},
        }[kind]
        limits = {"trusted_annotators": self.honest, "trusted": self.trusted, "wrong_votes": self.wrong_votes}
        return Threat(**given, **limits, prices=self.prices)

    def labellings(self, owners: set[int]) -> Iterator[tuple[int, ...]]:
        """All labels that some annotators can bring about."""
        options = []
        for i, label in enumerate(self.labels):
            votes = [row[1:] for row in self.rows if row[0] == i]
            own, found = [k for k, (a, _) in enumerate(votes) if a in owners], set()
            for answer in itertools.product(range(len(self.rank)), repeat=len(own)):
                cast = list(votes)
                for k, c in zip(own, answer, strict=True):
                    cast[k] = (votes[k][0], c)
                liars = tuple(a for (a, old), (_, new) in zip(votes, cast, strict=True) if old != new)
                outcome = self.winner(cast)
                if not self.trusted[i] or outcome == label:
                    found.add((outcome, liars if self.wrong_votes else ()))
            options.append(found)
        for way in itertools.product(*options):
            liars = [a for _, some in way for a in some]
            if not liars or max(map(liars.count, liars)) <= (self.wrong_votes or 0):
                yield tuple(outcome for outcome, _ in way)

    def truth(self, cert: Certificate, changed: Changed) -> tuple[Any, Any]:
        """Radii and curve by going through all sets of annotators."""
        radii, curve = np.full(cert.n_test, cert.never), np.zeros(cert.max_flips + 1, dtype=int)
        free = [a for a in self.prices if a not in self.honest]
        for owners in itertools.chain.from_iterable(itertools.combinations(free, k) for k in range(len(free) + 1)):
            price = sum(self.prices[a] for a in owners)
            if price <= cert.max_flips:
                hits = np.array([changed(codes) for codes in set(self.labellings(set(owners)))])
                radii[hits.any(axis=0)] = np.minimum(radii[hits.any(axis=0)], price)
                curve[price:] = np.maximum(curve[price:], hits.sum(axis=1).max())
        return radii, curve


def agrees(crowd: Crowd, cert: Certificate, changed: Changed) -> bool:
    """Whether nothing is wrong; True where nothing is open either."""
    radii, curve = crowd.truth(cert, changed)
    within = np.minimum(radii, cert.max_flips + 1)
    assert np.all(np.minimum(cert.radius_lower, cert.max_flips + 1) <= within)
    assert np.all(radii <= cert.radius_upper)
    assert np.all((cert.collective_lower <= curve) & (curve <= cert.collective_upper))
    for t in np.flatnonzero((cert.radius_upper < cert.never) & (cert.radius_upper > 0)).tolist():
        said = cert.witness_votes(t)
        assert said is not None
        assert sum(crowd.prices[int(a)] for a in said) == cert.radius_upper[t]
        votes = {(i, a): c for i, a, c in crowd.rows} | {(i, int(a)): c for a in said for i, c in said[a].items()}
        relabelled = [
            crowd.labels[i] if crowd.trusted[i] else crowd.winner([(a, c) for (j, a), c in votes.items() if j == i])
            for i in range(crowd.m)
        ]
        assert changed(tuple(relabelled))[t]
    return bool(cert.exact)


@pytest.mark.parametrize("kind", ["one", "votes", "callable"])
def test_linear_maps_with_ties(kind: str) -> None:
    exact = []
    for seed in range(30):
        rng = np.random.default_rng(seed)
        crowd = Crowd.draw(rng, several=kind != "one")
        H = rng.integers(-3, 4, size=(4, crowd.m)).astype(float)
        K = len(crowd.rank)

        def scores(codes: Any, H: Any = H, K: int = K) -> Any:
            return np.stack([H @ (np.array(codes) == c) for c in range(K)], axis=1)

        clean = scores(crowd.labels)
        own, tied = clean.argmax(axis=1), np.sum(clean == clean.max(axis=1, keepdims=True), axis=1) > 1

        def changed(codes: Any, own: Any = own, tied: Any = tied, scores: Any = scores, K: int = K) -> Any:
            now = scores(codes)
            rivals = np.where(np.arange(K) == own[:, None], -np.inf, now).max(axis=1)
            return tied | (rivals >= now[np.arange(4), own])

        cert = certify_linear(H, crowd.labels, threat=crowd.threat(kind))
        sure = agrees(crowd, cert, changed)
        if kind != "callable" and seed < 20:
            checked = {check.what: check.status for check in verify(cert, H=H).checks}
            assert checked["witnesses"] == checked["collective attacks"] == CheckStatus.PROVED
            assert checked["radii"] == checked["curve"] == CheckStatus.NOT_CHECKED
        assert sure or (crowd.wrong_votes is not None and kind != "one")
        exact.append(sure)
    assert np.mean(exact) > 0.8


@pytest.mark.parametrize("loss", ["hinge", "square", "logistic", "squared_hinge"])
def test_retrained_models(loss: str) -> None:
    for seed in range(4):
        rng = np.random.default_rng(seed)
        crowd = Crowd.draw(rng, several=seed % 2 == 0, most_classes=2)
        points = rng.normal(size=(crowd.m + 3, 2))
        K = np.exp(-((points[:, None] - points[None]) ** 2).sum(axis=2))
        K_train, K_test = K[: crowd.m, : crowd.m], K[crowd.m :, : crowd.m]
        known: dict[tuple[int, ...], Any] = {}

        def predicted(codes: tuple[int, ...], K_train: Any = K_train, K_test: Any = K_test, known: Any = known) -> Any:
            if codes not in known:
                y = np.array(codes)
                fitted = None if len(set(codes)) == 1 else certify(K_train, y, K_test, 1.0, loss=loss, max_flips=0)
                known[codes] = y[:3] if fitted is None else fitted.predictions
            return known[codes]

        clean = predicted(tuple(crowd.labels))

        def changed(codes: tuple[int, ...], predicted: Any = predicted, clean: Any = clean) -> Any:
            return predicted(codes) != clean

        cert = certify(K_train, crowd.labels, K_test, 1.0, loss=loss, threat=crowd.threat("votes"), workers=1)
        agrees(crowd, cert, changed)


@pytest.mark.parametrize("loss", ["hinge", "square", "squared_hinge"])
def test_models_of_more_classes(loss: str) -> None:
    for seed in range(5):
        rng = np.random.default_rng([seed, 3])
        crowd = Crowd.draw(rng, several=seed % 2 == 0, most_classes=3)
        points = rng.integers(-2, 3, size=(crowd.m + 3, 2)).astype(float)
        K = points @ points.T + 0.5 * np.eye(len(points)) * (seed % 3 > 0)
        K_train, K_test = K[: crowd.m, : crowd.m], K[crowd.m :, : crowd.m]
        case = Case("crowd", K_train, np.array(crowd.labels), K_test, 1.0, loss, Threat(), crowd.m)
        truth = by_training(case, 1, "mean")
        hits = {
            tuple(change.get(i, label) for i, label in enumerate(crowd.labels)): hit
            for change, hit in zip(truth.changes, truth.hits, strict=True)
        }

        def changed(codes: tuple[int, ...], hits: Any = hits) -> Any:
            return hits[tuple(codes)]

        cert = certify(K_train, crowd.labels, K_test, 1.0, loss=loss, threat=crowd.threat("votes"), workers=1)
        agrees(crowd, cert, changed)


def test_search_beyond_all_sets_agrees_with_all_sets(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(1)
    rows = [(i, int(a), int(rng.integers(3))) for i in range(30) for a in rng.choice(8, 3, replace=False)]
    votes = Votes(rows)
    H = rng.normal(size=(12, 30)) + 9.0 * (rng.integers(3, size=12)[:, None] == votes.labels)
    ask = {"threat": Threat(votes=votes, prices={0: 0.5, 1: 1.5}), "max_flips": 9, "collective": False}
    every = certify_linear(H, votes.labels, **ask)
    monkeypatch.setattr("labelcert.engines.annotators.linear.SET_WORK", 0.0)
    searched = certify_linear(H, votes.labels, **ask)
    assert every.settled.all()
    assert len(set(every.radius_lower.tolist())) > 1
    assert np.array_equal(every.radius_lower, searched.radius_lower)
    assert np.array_equal(every.radius_upper, searched.radius_upper)


def test_wide_tables_and_files(tmp_path: Any) -> None:
    import pandas as pd

    wide = pd.DataFrame({"ann": ["a", "b", None, "a"], "bob": ["a", None, "b", "b"]}, index=list("wxyz"))
    long = wide.stack().dropna().rename_axis(["item", "annotator"]).rename("label").reset_index()
    H = [[1.0, 0.5, 0.25, 0.125], [0.5, 1.0, 1.0, 0.5]]
    certs = [
        certify_linear(H, votes.labels, threat=Threat(votes=votes))
        for votes in (Votes(wide), Votes(long), Votes(wide, items=list("wxyz")))
    ]
    assert len({cert.run.problem_sha256 for cert in certs}) == 1
    assert certs[0].radius_lower.tolist() == [2, 1]
    certs[0].save(tmp_path / "crowd.cert")
    loaded = load(tmp_path / "crowd.cert")
    assert loaded.checksum == loaded.computed_checksum()
    assert loaded.annotators().equals(certs[0].annotators())
    assert loaded.witness_votes(0) == certs[0].witness_votes(0)
    assert Threat.from_plain(loaded.run.threat, loaded.labels, loaded.classes).describe() == loaded.run.threat
    loaded.report(tmp_path / "crowd.html")


def test_what_is_refused() -> None:
    rows = [(0, "ann", "a"), (1, "ann", "b"), (1, "bob", "b")]
    ask: dict[str, tuple[Threat, str]] = {
        "no such annotator": (Threat(votes=rows, prices={"cy": 1}), "names the annotator 'cy'"),
        "both": (Threat(votes=rows, costs=[1, 1]), "instead of costs"),
        "price": (Threat(votes=rows, prices={"ann": 0}), "positive numbers"),
        "twice": (Threat(votes=[*rows, (0, "ann", "b")]), "votes twice on item 0"),
        "class": (Threat(votes=[*rows, (1, "cy", "c")]), "the label of no item"),
        "missing": (Threat(votes=[*rows, (3, "cy", "b")]), "about 3 items"),
        "alone": (Threat(prices={"ann": 1}), "give annotators or votes"),
        "ties": (Threat(votes=Votes(rows, ties="last")), "ties must be 'first'"),
        "form": (Threat(votes=3), "item, annotator and label"),
        "shape": (Threat(annotators=["ann"]), "one entry per label"),
    }
    for threat, match in ask.values():
        with pytest.raises(InvalidInput, match=match):
            certify_linear([[1.0, 0.5]], ["a", "b"], threat=threat)
    with pytest.raises(InvalidInput, match="its votes make it 'a'"):
        certify_linear([[1.0, 0.5, 1.0]], ["b", "b", "a"], threat=Threat(votes=[*rows, (2, "bob", "a")]))


def test_verify_counts_votes_again() -> None:
    rng = np.random.default_rng(3)
    rows = [(i, int(a), int(rng.integers(3))) for i in range(12) for a in rng.choice(12, 3, replace=False)]
    votes, H = Votes(rows), rng.normal(size=(4, 12))
    cert = certify_linear(H, votes.labels, threat=Threat(votes=votes, prices={1: 0.5}), max_flips=4)
    assert verify(cert, H=H).accepted
    assert cert.node_votes is not None
    for labels in (np.roll(cert.node_votes.labels, 1), np.zeros_like(cert.node_votes.labels)):
        listed = RelabellingList(cert.node_votes.starts, labels, cert.node_votes.targets)
        forged = replace(cert, node_votes=listed, curve_votes=cert.curve_votes)
        assert not verify(replace(forged, checksum=forged.computed_checksum()), H=H).accepted


@pytest.mark.parametrize("combine", ["votes", "mean"])
@pytest.mark.parametrize("loss", ["hinge", "square"])
def test_ensembles(combine: str, loss: str) -> None:
    exact = []
    for seed in range(12):
        rng = np.random.default_rng([seed, 7])
        crowd = Crowd.draw(rng, several=seed % 2 == 0, most_classes=3)
        points = rng.integers(-2, 3, size=(crowd.m + 3, 2)).astype(float)
        K = points @ points.T + 0.5 * np.eye(len(points)) * (seed % 3 > 0)
        K_train, K_test = K[: crowd.m, : crowd.m], K[crowd.m :, : crowd.m]
        labels = np.array(crowd.labels)
        case = Case("crowd", K_train, labels, K_test, 1.0, loss, Threat(), crowd.m)
        truth = by_training(case, 2, combine)
        hits = {
            tuple(change.get(i, label) for i, label in enumerate(crowd.labels)): hit
            for change, hit in zip(truth.changes, truth.hits, strict=True)
        }

        def changed(codes: tuple[int, ...], hits: Any = hits) -> Any:
            return hits[tuple(codes)]

        how: dict[str, Any] = {"parts": 2, "combine": combine, "loss": loss, "workers": 1}
        cert = certify_partition(K_train, crowd.labels, K_test, 1.0, threat=crowd.threat("votes"), **how)
        exact.append(agrees(crowd, cert, changed))
        assert verify(cert).accepted
        if combine == "votes":
            assert np.all(cert.black_box_radius <= cert.radius_lower)
    assert any(exact)


def test_an_ensemble_with_a_part_for_each_annotator() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 3))
    K, y, who = np.exp(-((X[:, None] - X[None]) ** 2).sum(axis=2)), (X[:, 0] > 0).astype(int), np.arange(30) % 5
    ask: dict[str, Any] = {"combine": "votes", "threat": Threat(annotators=[f"a{k}" for k in who]), "max_flips": 5}
    cert = certify_partition(K[:30, :30], y[:30], K[30:, :30], 1.0, parts=who, **ask)
    assert np.array_equal(cert.radius_lower, cert.radius_upper)  # to own an annotator is to own a part
    assert cert.radius_lower.max() == 3
    mixed = certify_partition(K[:30, :30], y[:30], K[30:, :30], 1.0, parts=5, **ask)
    assert mixed.radius_upper.max() < 3
