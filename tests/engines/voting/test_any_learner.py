"""Certificates of any learner, against all that can happen: every labelling within the budget is trained on."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.neighbors import KNeighborsClassifier
from sklearn.tree import DecisionTreeClassifier
from tests.engines.voting.test_counting import elected

from labelcert import Certificate, CertifiedEnsemble, InvalidInput, Threat, Votes, certify_votes, from_sklearn, verify
from labelcert.engines.voting.dealing import by_hash, row_keys
from labelcert.engines.voting.rules import RUN_OFF, VOTES

LEARNERS: dict[str, Callable[[], Any]] = {
    "tree": lambda: DecisionTreeClassifier(random_state=0),
    "forest": lambda: RandomForestClassifier(n_estimators=3, random_state=0),
    "logistic": lambda: LogisticRegression(C=10.0),
    "neighbours": lambda: KNeighborsClassifier(1),
}


class Learner:
    """Trains on some points, and scores test points for all classes."""

    def __init__(self, kind: str, X: Any, T: Any, K: int) -> None:
        self.kind, self.X, self.T, self.K = kind, X, T, K
        self.known: dict[Any, Any] = {}

    def __call__(self, indices: Any, labels: Any) -> Any:
        key = self.X[indices].tobytes(), labels.tobytes()
        if key not in self.known:
            scores = np.zeros((len(self.T), self.K))
            if np.unique(labels).size == 1:
                scores[:, labels[0]] = 1.0
            else:
                model = LEARNERS[self.kind]().fit(self.X[indices], labels)
                scores[:, model.classes_] = model.predict_proba(self.T)
            self.known[key] = scores
        return self.known[key]


def ballots(train: Learner, members: list[Any], labels: Any) -> list[list[tuple[int, ...]]]:
    """What each model says about each test point."""
    said = []
    for own in members:
        scores = train(own, labels[own]) if own.size else np.tile(-np.arange(train.K), (len(train.T), 1))
        said.append([tuple(sorted(range(train.K), key=lambda c: (-row[c], c))) for row in scores.tolist()])
    return [list(one) for one in zip(*said, strict=True)]


def predicted(train: Learner, members: list[Any], labels: Any, rule: str) -> list[int]:
    """What the ensemble predicts."""
    return [elected(said, train.K, rule) for said in ballots(train, members, labels)]


def members_of(cert: Certificate) -> list[Any]:
    """The labels that each model is trained on, as the certificate records them."""
    about = cert.run.stages[0].statistics
    part_of, k = np.array(about["part_of"]), about["models"]
    return [np.flatnonzero(np.isin(part_of, [(j - o) % k for o in about["offsets"]])) for j in range(k)]


def threats(rng: Any, m: int, K: int) -> Iterator[Threat | None]:
    """Nothing that restricts the adversary, and everything that may."""
    yield None
    yield Threat(trusted=rng.random(m) < 0.4)
    yield Threat(costs=rng.integers(1, 3, m))
    yield Threat(groups=rng.integers(0, 2, m).tolist(), group_budgets=1)
    yield Threat(allowed_flips={0: [1]})


def labellings(labels: Any, K: int, threat: Threat | None, budget: int) -> Iterator[tuple[int, Any]]:
    """All labellings within a budget, each with its cost, by going through all of them."""
    m = labels.size
    trusted = np.zeros(m, bool) if threat is None or threat.trusted is None else np.asarray(threat.trusted)
    costs = np.ones(m, int) if threat is None or threat.costs is None else np.asarray(threat.costs)
    for size in range(1, budget + 1):
        for some in itertools.combinations(np.flatnonzero(~trusted).tolist(), size):
            cost = int(costs[list(some)].sum())
            if cost > budget:
                continue
            groups = np.arange(m) if threat is None or threat.groups is None else np.asarray(threat.groups)
            if max(np.bincount(groups[list(some)])) > 1:
                continue
            for new in itertools.product(range(K), repeat=size):
                moved = [(int(labels[i]), c) for i, c in zip(some, new, strict=True)]
                if any(a == b for a, b in moved):
                    continue
                if threat is not None and threat.allowed_flips is not None and any(one != (0, 1) for one in moved):
                    continue
                changed = labels.copy()
                changed[list(some)] = new
                yield cost, changed


def problems(seed: int, count: int) -> Iterator[tuple[Any, Any, Any, int, Any]]:
    """Few points on a grid, so that some are alike; of some class there may be one alone."""
    rng = np.random.default_rng(seed)
    for _ in range(count):
        m, K = int(rng.integers(5, 9)), int(rng.integers(2, 4))
        labels = np.concatenate([np.arange(K), rng.integers(0, K, m - K)])
        yield rng.integers(0, 4, (m, 2)).astype(float), labels, rng.integers(0, 4, (4, 2)).astype(float), K, rng


@pytest.mark.parametrize("kind", LEARNERS)
@pytest.mark.parametrize(("seed", "count"), [(0, 10), pytest.param(1, 60, marks=pytest.mark.long)])
def test_no_certified_prediction_changes(kind: str, seed: int, count: int) -> None:
    found = 0
    for X, labels, T, K, rng in problems(seed, count):
        for threat, rule, spread in zip(
            threats(rng, labels.size, K), [VOTES, RUN_OFF] * 3, [1, 1, 2, 2, 1], strict=False
        ):
            train, parts = Learner(kind, X, T, K), min(int(rng.integers(2, 4)), labels.size // spread)
            asked: dict[str, Any] = {"combine": rule, "spread": spread, "seed": int(rng.integers(9))}
            cert = certify_votes(train, labels, n_test=4, parts=parts, threat=threat, max_flips=2, **asked)
            members = members_of(cert)
            clean = predicted(train, members, labels, rule)
            assert cert.predictions.tolist() == clean
            for cost, changed in labellings(labels, K, threat, 2):
                new = np.array(predicted(train, members, changed, rule))
                hit = new != clean
                assert np.all(cert.radius_lower[hit] <= cost), (kind, rule, spread, threat)
                assert hit.sum() <= cert.collective_upper[cost]
            for t in np.flatnonzero(cert.radius_upper <= 2).tolist():
                attacked = labels.copy()
                for i, label in (cert.witness(t) or {}).items():
                    attacked[i] = label
                assert predicted(train, members, attacked, rule)[t] == cert.new_classes[t] != clean[t]
                found += 1
            for b in range(3):
                attacked = labels.copy()
                for i, label in cert.collective_witness(b).items():
                    attacked[i] = label
                hit = np.array(predicted(train, members, attacked, rule)) != clean
                assert hit.tolist() == cert.collective_changed(b).tolist()
    assert found > 10


@pytest.mark.parametrize("rule", [VOTES, RUN_OFF])
@pytest.mark.parametrize(("seed", "count"), [(0, 5), pytest.param(1, 60, marks=pytest.mark.long)])
def test_samples_that_come_and_go_or_change(rule: str, seed: int, count: int) -> None:
    for X, labels, T, K, rng in problems(seed, count):
        kind, parts = list(LEARNERS)[int(rng.integers(4))], int(rng.integers(2, 5))
        train = Learner(kind, X, T, K)
        cert = certify_votes(train, labels, n_test=4, parts=parts, rows=X, threat="samples", combine=rule, max_flips=3)
        assert cert.run.unit == "samples"

        def said(X: Any, labels: Any, parts: int = parts, kind: str = kind, T: Any = T, K: int = K) -> Any:
            part_of = by_hash(row_keys(X), parts, 0)
            members = [np.flatnonzero(part_of == k) for k in range(parts)]
            return np.array(predicted(Learner(kind, X, T, K), members, labels, rule))

        assert said(X, labels).tolist() == cert.predictions.tolist()
        once = list(edits(X, labels, T, K))
        for one, y in once:
            assert np.all(cert.radius_lower[said(one, y) != cert.predictions] <= 1)
        for k in rng.permutation(len(once))[:6].tolist():  # two changes; a row whose features change is one of them
            twice = list(edits(*once[k], T, K))
            for j in rng.permutation(len(twice))[:12].tolist():
                assert np.all(cert.radius_lower[said(*twice[j]) != cert.predictions] <= 2)


def edits(X: Any, labels: Any, T: Any, K: int) -> Iterator[tuple[Any, Any]]:
    """Everything that one sample more, one less, or one with another label can be."""
    for i in range(labels.size):
        yield np.delete(X, i, axis=0), np.delete(labels, i)
        for c in set(range(K)) - {int(labels[i])}:
            yield X, np.where(np.arange(labels.size) == i, c, labels)
    for x, c in itertools.product([*T, X[0], X[0] + 0.5], range(K)):
        yield np.vstack([X, x]), np.append(labels, c)


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.long)])
def test_parts_that_an_engine_knows_take_their_exact_radii(seed: int) -> None:
    """Mixed ensembles: some parts are logistic regressions or nearest neighbours, some are trees."""
    better, rng, m = 0, np.random.default_rng(seed), 10
    for _ in range(40 if seed else 5):
        labels = rng.permutation(np.arange(m) % 2)
        X, T = rng.integers(0, 3, (m, 2)) + 2.0 * labels[:, None], rng.integers(0, 5, (4, 2)).astype(float)
        learners = {kind: Learner(kind, X, T, 2) for kind in ("logistic", "neighbours", "tree")}
        kinds = rng.choice(["logistic", "logistic", "neighbours", "tree"], m)

        def train(indices: Any, given: Any, learners: Any = learners, kinds: Any = kinds) -> Any:
            return learners[kinds[indices[0]]](indices, given)

        train.K = 2  # type: ignore[attr-defined]

        def certify_part(indices: Any, given: Any, X: Any = X, T: Any = T, kinds: Any = kinds) -> Certificate | None:
            kind = kinds[indices[0]]
            if kind == "tree":
                return None
            budget = min(2, int(np.bincount(given, minlength=2).min()) - 1)
            known = from_sklearn(LEARNERS[kind]())
            return known.certify(X[indices], given, T, max_flips=budget) if budget > 0 else None

        for threat in threats(rng, m, 2):
            asked: dict[str, Any] = {"n_test": 4, "parts": 2, "threat": threat, "max_flips": 3}
            plain = certify_votes(train, labels, attempts=0, **asked)
            cert = certify_votes(train, labels, certify_part=certify_part, **asked)
            assert np.all(cert.radius_lower >= plain.radius_lower)
            assert np.all(cert.collective_upper <= plain.collective_upper)
            better += int(np.sum(cert.radius_lower > plain.radius_lower))
            assert verify(cert).accepted
            clean = np.array(predicted(train, members_of(cert), labels, VOTES))  # type: ignore[arg-type]
            for cost, changed in labellings(labels, 2, threat, 3):
                hit = np.array(predicted(train, members_of(cert), changed, VOTES)) != clean  # type: ignore[arg-type]
                assert np.all(cert.radius_lower[hit] <= cost), (kinds, threat)
                assert hit.sum() <= cert.collective_upper[cost]
    assert better > 5


def test_an_ensemble_certifies_its_members_on_request() -> None:
    rng = np.random.default_rng(0)
    X, labels = rng.normal(size=(60, 2)), np.array(["no", "yes"])[rng.integers(0, 2, 60)]
    X[labels == "yes"] += 1.5
    model = CertifiedEnsemble(RidgeClassifier(alpha=5.0), parts=5).fit(X, labels)
    plain, cert = (model.certify(X[:20], max_flips=4, part_flips=flips, attempts=0) for flips in (0, 3))
    assert np.all(cert.radius_lower >= plain.radius_lower)
    assert cert.radius_lower.sum() > plain.radius_lower.sum()
    assert verify(cert).accepted
    with pytest.raises(InvalidInput, match="cannot be certified"):
        CertifiedEnsemble(DecisionTreeClassifier(), parts=5).fit(X, labels).certify(X[:2], part_flips=1)
    for how in ({"spread": 2}, {"combine": "run-off"}, {"threat": "samples"}):
        other = CertifiedEnsemble(LogisticRegression(), parts=5, **how).fit(X, labels)
        with pytest.raises(InvalidInput, match="certi"):
            other.certify(X[:2], part_flips=1, max_flips=1)
    with pytest.raises(InvalidInput, match="certify_part must return a certificate of the"):
        certify_votes(
            lambda indices, given: np.repeat("no", 20),
            labels,
            n_test=20,
            parts=5,
            certify_part=lambda indices, given: cert,
        )


def test_dishonest_annotators_take_all_models_that_they_reach() -> None:
    for X, labels, T, K, rng in problems(4, 15):
        who = rng.integers(0, 3, labels.size)
        train = Learner("tree", X, T, K)
        cert = certify_votes(train, labels, n_test=4, parts=3, threat=Threat(annotators=who.tolist()), max_flips=1)
        members = members_of(cert)
        clean = np.array(predicted(train, members, labels, VOTES))
        for liar in range(3):
            own = np.flatnonzero(who == liar)
            for new in itertools.product(range(K), repeat=min(own.size, 5)):
                changed = labels.copy()
                changed[own[:5]] = new
                assert np.all(cert.radius_lower[np.array(predicted(train, members, changed, VOTES)) != clean] <= 1)


def test_attacks_of_dishonest_annotators_work() -> None:
    found = 0
    for X, labels, T, K, rng in problems(5, 12):
        table = [(i, int(rng.integers(4)), c) for i, c in enumerate(labels.tolist()) for _ in range(3)]
        table = list({(i, who): (i, who, c) for i, who, c in table}.values())
        train = Learner("tree", X, T, K)
        for threat in (Threat(annotators=rng.integers(0, 4, labels.size).tolist()), Threat(votes=Votes(table))):
            cert = certify_votes(train, labels, n_test=4, parts=4, threat=threat, max_flips=2, attempts=12)
            members = members_of(cert)
            clean = np.array(predicted(train, members, labels, VOTES))
            for t in np.flatnonzero(cert.radius_upper <= 2).tolist():
                changed, found = labels.copy(), found + 1
                for i, c in cert.witness(t).items():
                    changed[i] = c
                assert predicted(train, members, changed, VOTES)[t] != clean[t]
                assert len(cert.witness_votes(t)) == cert.radius_upper[t]
            for b in range(3):
                changed = labels.copy()
                for i, c in cert.collective_witness(b).items():
                    changed[i] = c
                now = np.array(predicted(train, members, changed, VOTES))
                assert np.sum(now != clean) == cert.collective_lower[b]
            assert verify(cert).accepted
    assert found > 5


def test_nobody_asks_a_black_box_about_single_annotators() -> None:
    X, T = np.arange(6.0), np.array([1.0, 4.0])

    def nearest(indices: Any, labels: Any) -> Any:
        return labels[np.abs(X[indices] - T[:, None]).argmin(axis=1)]

    cert = certify_votes(nearest, X > 2, n_test=2, parts=3, threat=Threat(annotators=list("aabbcc")), max_flips=1)
    for asked in (cert.annotators, cert.audit):
        with pytest.raises(InvalidInput, match="votes of a black box are counted"):
            asked()
