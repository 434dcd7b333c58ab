"""Probabilities of changes under noise, against sums over all labellings and against simulation."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.helpers.problems import blobs, gaussian

import labelcert
from labelcert import CertificateFileError, InvalidInput, Noise, Threat, Votes, from_sklearn, noise, noise_linear
from labelcert.examples import several_clouds, two_clouds
from labelcert.labelnoise import answering, joint, rivals, tails
from labelcert.labelnoise.sampling import clopper_pearson, needed
from labelcert.selfcheck.brute_force import brute_force
from labelcert.selfcheck.cases import Case

LOSSES = ("hinge", "square", "squared_hinge", "logistic")


def exact(K: Any, y: Any, rows: Any, C: float, loss: str, odds: Any) -> Any:
    """(n,) probabilities from exact trainings on all labellings; NaN where the clean prediction is tied."""
    truth = brute_force(Case("noise", K, np.asarray(y), rows, C, loss, Threat(), None))
    classes = sorted(set(np.asarray(y).tolist()))
    total = np.zeros(len(rows))
    for change, row in truth.rows.items():
        new = dict(change)
        chosen = [classes.index(new.get(i, label)) for i, label in enumerate(np.asarray(y).tolist())]
        total += np.prod(odds[np.arange(len(y)), chosen]) * truth.hits[row]
    return np.where([c is None for c in truth.predicted], np.nan, total)


def some_odds(rng: Any, y: Any, kind: int) -> tuple[Any, Any]:
    """``wrong`` in one of its forms, and the probabilities that it stands for."""
    y = np.asarray(y)
    m, K = y.size, np.unique(y).size
    codes = np.unique(y, return_inverse=True)[1]
    if kind == 3:
        matrix = rng.dirichlet(np.ones(K), K) * 0.3 + 0.7 * np.eye(K)
        return {"wrong": matrix}, matrix[codes]
    rates = np.full(m, rng.uniform(0, 0.4)) if kind == 0 else rng.uniform(0, 0.4, m)
    if kind == 2:
        names = rng.integers(0, 3, m)
        rates = np.array([0.0, 0.1, 0.3])[names]
    odds = np.repeat(rates[:, None] / (K - 1), K, axis=1)
    odds[np.arange(m), codes] = 1 - rates
    if kind == 2:
        return {"wrong": {0: 0.0, 1: 0.1, 2: 0.3}, "annotators": names}, odds
    return {"wrong": rates[0] if kind == 0 else rates}, odds


def agrees(found: Noise, truth: Any, width: float = 1e-9) -> None:
    tied = np.isnan(truth)
    assert np.all(found.lower[~tied] <= truth[~tied] + 1e-12)
    assert np.all(found.upper[~tied] >= truth[~tied] - 1e-12)
    assert np.all(found.upper[~tied] - found.lower[~tied] <= width)
    assert np.all(found.lower[tied] == 1.0)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("classes", [2, 3])
def test_walks_equal_brute_force(classes: int, loss: str) -> None:
    rng = np.random.default_rng(classes)
    for seed in range(8):
        m = 7 if classes == 2 else 5
        K, y, rows = gaussian(m, 5, seed=seed) if classes == 2 else blobs(m, 5, classes=3, seed=seed)
        given, odds = some_odds(rng, y, seed % 4)
        found = noise(K, y, rows, 1.0, loss=loss, workers=1, **given)
        assert found.proved
        assert found.method == "all labellings"
        agrees(found, exact(K, y, rows, 1.0, loss, odds))
        assert found.expected_changes == pytest.approx(found.probability.sum())


@pytest.mark.parametrize("classes", [2, 3])
def test_tails_of_kernels_equal_brute_force(classes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answering, "LINEAR_WALKED", 0.0)
    monkeypatch.setattr(answering, "ILLUSTRATED", 64)
    monkeypatch.setattr(rivals, "FEW", 1)
    rng = np.random.default_rng(5)
    for seed in range(8 if classes == 2 else 4):
        m = 7 if classes == 2 else 5
        K, y, rows = gaussian(m, 5, seed=seed) if classes == 2 else blobs(m, 5, classes=3, seed=seed)
        given, odds = some_odds(rng, y, seed % 4)
        found = noise(K, y, rows, 1.0, loss="square", workers=1, **given)
        assert found.method == "tails of sums"
        agrees(found, exact(K, y, rows, 1.0, "square", odds), 1.0)


def by_sums(H: Any, codes: Any, odds: Any) -> Any:
    """(n,) probabilities that the predicted class is not alone ahead; NaN where it is not without noise."""
    n, m, K = len(H), codes.size, odds.shape[1]
    total = np.zeros(n)
    clean = np.array([np.bincount(codes, weights=row, minlength=K) for row in H])
    own = clean.argmax(axis=1)
    tied = (np.sort(clean, axis=1)[:, -1] - np.sort(clean, axis=1)[:, -2]) < 1e-12
    for new in itertools.product(range(K), repeat=m):
        scores = H @ np.eye(K)[list(new)]
        mine = scores[np.arange(n), own].copy()
        scores[np.arange(n), own] = -np.inf
        total += np.prod(odds[np.arange(m), new]) * (mine <= scores.max(axis=1) + 1e-12)
    return np.where(tied, np.nan, total)


@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.parametrize("classes", [2, 3, 4])
def test_tails_of_linear_maps_hold_the_truth(classes: int, whole: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answering, "LINEAR_WALKED", 0.0)
    monkeypatch.setattr(answering, "ILLUSTRATED", 64)
    monkeypatch.setattr(tails, "GRID", 2**12)
    monkeypatch.setattr(rivals, "FEW", 1)
    rng = np.random.default_rng(classes)
    for trial in range(12 if whole or classes == 2 else 4):  # every form of rates
        m = {2: 8, 3: 6, 4: 5}[classes]
        codes = np.concatenate([np.arange(classes), rng.integers(0, classes, m - classes)])
        H = rng.integers(-2, 4, (4, m)) / 4 if whole else rng.normal(size=(4, m))
        given, odds = some_odds(rng, codes, trial % 4)
        found = noise_linear(H, codes, workers=1, **given)
        # Sums of whole numbers are exact, ties and all, where there is one rival; a union of rivals is an interval.
        agrees(found, by_sums(H, codes, odds), 1e-6 + 1e-6 if whole and classes == 2 else 1.0)


def test_tails_are_sharp_and_agree_with_simulation() -> None:
    rng = np.random.default_rng(0)
    m, K, n = 400, 3, 8
    codes = np.arange(m) % K
    H = rng.normal(size=(n, m)) * 0.2 + 0.04 * (codes == 0)
    found = noise_linear(H, codes, wrong=0.1, workers=1)
    odds = found.odds
    draws = rng.random((4000, m, 1))
    new = (draws > np.cumsum(odds, axis=1)[None]).sum(axis=2)
    own = found.predictions.astype(int)
    scores = np.array([H @ (new == c).T for c in range(K)])
    changed = (scores.argmax(axis=0) != own[:, None]).mean(axis=1)
    lower, upper = clopper_pearson(*(2 * [np.rint(changed * 4000).astype(int)]), np.full(n, 4000), 0.9999)
    assert np.all(lower <= found.upper)
    assert np.all(upper >= found.lower)
    single = noise_linear(H, codes == 0, wrong=0.1, workers=1)
    assert single.width <= 1e-3


def noisy(m: int, classes: int) -> tuple[Any, Any]:
    """Labels of all classes, and how probable each class is for each of them: 10 % are wrong."""
    codes = np.arange(m) % classes
    odds = np.full((m, classes), 0.1 / (classes - 1))
    odds[np.arange(m), codes] = 0.9
    return codes, odds


def drawn(rng: np.random.Generator, odds: Any) -> Any:
    """(20,000, m) labels."""
    shape = (4000, len(odds), 1)
    return np.concatenate([(rng.random(shape) > np.cumsum(odds, axis=1)[None]).sum(axis=2) for _ in range(5)])


@pytest.mark.parametrize("classes", [3, 5])
def test_two_rivals_at_once(classes: int) -> None:
    rng = np.random.default_rng(classes)
    m, S = 300, 20_000
    codes, odds = noisy(m, classes)
    h = rng.normal(size=m) + 0.05 * (codes == 0) - 0.05 * (codes > 0)
    values = np.zeros((2, classes), dtype=np.int64)
    values[:, 0], values[0, 1], values[1, 2] = 1, -1, -1
    found = joint.both(h, values, odds, 0.0)
    new = drawn(rng, odds)
    hits = np.array([np.all([(own[new] @ h) <= 0 for own in values], axis=0).sum()])
    lower, upper = clopper_pearson(hits, hits, np.array([S]), 0.9999)
    assert 0.02 < hits[0] / S < 0.9
    assert lower[0] <= found.upper
    assert upper[0] >= found.lower
    assert found.upper - found.lower < (5e-3 if classes == 3 else 1e-3)


def test_bounds_of_the_characteristic_function_hold() -> None:
    rng = np.random.default_rng(2)
    m, L, last = 40, 30.0, 500
    for classes in (3, 5):
        h, odds = rng.normal(size=m), rng.dirichlet(np.ones(classes), m)
        values = np.zeros((2, classes), dtype=np.int64)
        values[:, 0], values[0, 1], values[1, 2] = 1, -1, -1
        bounds = joint._bounds(h, values, odds, L, 3 * last)
        for k, j in rng.integers(-last, last, (200, 2)).tolist():
            u = 2 * np.pi / L * (k * values[0] + j * values[1])
            factor = np.abs(np.prod((odds * np.exp(1j * h[:, None] * u[None])).sum(axis=1)))
            forms = np.abs(joint.FORMS @ np.array([k, j]))
            assert factor <= np.prod(bounds[np.arange(6), forms]) * (1 + 1e-9)
        sums = [joint.Jumps.of(h, own, odds) for own in values]
        bases = [own.base for own in sums]
        box = joint._whole(joint._half(h, np.stack(joint._chances(values, odds)), sums, 0.1))
        for k, j in rng.integers(-joint.BOX, joint.BOX + 1, (50, 2)).tolist():
            phases = k * (values[0] - bases[0][:, None]) + j * (values[1] - bases[1][:, None])
            product = np.prod((odds * np.exp(0.1j * h[:, None] * phases)).sum(axis=1))
            assert abs(box[joint.BOX + k, joint.BOX + j] - product) < 1e-12


@pytest.mark.parametrize("classes", [4, 6])
def test_a_third_rival_without_the_two_others(classes: int) -> None:
    rng = np.random.default_rng(classes)
    m, S = 400, 20_000
    codes, odds = noisy(m, classes)
    h = rng.normal(size=m) + 0.03 * (codes == 0)
    values = np.zeros((3, classes), dtype=np.int64)
    values[:, 0], values[[0, 1, 2], [1, 2, 3]] = 1, -1
    found = joint.alone_of_three(h, values, odds, 0.0)
    new = drawn(rng, odds)
    sums = [own[new] @ h for own in values]
    hits = np.array([np.sum((sums[0] <= 0) & (sums[1] > 0) & (sums[2] > 0))])
    lower, upper = clopper_pearson(hits, hits, np.array([S]), 0.9999)
    assert lower[0] <= found.upper
    assert upper[0] >= found.lower
    assert found.upper - found.lower < 0.15
    x = np.linspace(0.0, 1.0, 2001)
    waves = (
        2.0
        * np.exp(2j * np.pi * np.arange(joint.DEGREE + 1)[:, None] * x)
        / (1 + (np.arange(joint.DEGREE + 1) == 0))[:, None]
    )
    for low, high in ((0.1, 0.4), (0.7, 1.2), (0.2, 0.2)):
        above, below = ((joint._selberg(low, high, sign) @ waves).real for sign in (1.0, -1.0))
        inside = ((x >= low) & (x <= high)) | (x + 1 <= high)
        strictly = ((x > low) & (x < high)) | (x + 1 < high)
        assert np.all(above >= inside - 1e-12)
        assert np.all(below <= strictly + 1e-12)


def test_unions_of_rivals_are_narrow() -> None:
    rng = np.random.default_rng(0)
    m, K = 300, 4
    codes = np.arange(m) % K
    H = rng.normal(size=(2, m)) + 0.08 * (codes == 0)
    H -= 0.08 * (codes > 0)
    found = noise_linear(H, codes, wrong=0.1, workers=1)
    new = (rng.random((20_000, m, 1)) > np.cumsum(found.odds, axis=1)[None]).sum(axis=2)
    scores = np.array([H @ (new == c).T for c in range(K)])
    hits = (scores.argmax(axis=0) != found.predictions.astype(int)[:, None]).sum(axis=1)
    lower, upper = clopper_pearson(hits, hits, np.full(2, 20_000), 0.9999)
    assert np.all((lower <= found.upper) & (upper >= found.lower))
    assert found.probability.max() > 0.1


@pytest.mark.parametrize("loss", ["hinge", "logistic", "cross_entropy"])
def test_samples_agree_with_the_walk(loss: str, monkeypatch: pytest.MonkeyPatch) -> None:
    data = several_clouds(n_labels=6, n_test=5)
    how: dict[str, Any] = {"C": 1.0, "loss": loss, "wrong": 0.08, "workers": 1}
    arrays = (data.K_train, data.labels, data.K_test)
    walked = noise(*arrays, **how)
    monkeypatch.setattr(answering, "WALK_SECONDS", -1.0)
    sampled = noise(*arrays, **how, width=0.1, confidence=0.9999)
    assert not sampled.proved
    assert sampled.width <= 0.1
    assert np.all(sampled.lower <= walked.upper)
    assert np.all(sampled.upper >= walked.lower)
    low, high = sampled.expected_interval
    assert low <= walked.expected_changes <= high
    again = noise(*arrays, **how, width=0.1, confidence=0.9999)
    assert np.array_equal(sampled.probability, again.probability)


def test_samples_of_a_model_on_features_are_resumed(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    X = rng.normal(size=(330, 4))
    y = X[:, 0] + 0.5 * rng.normal(size=330) > 0
    from sklearn.linear_model import LogisticRegression

    model = from_sklearn(LogisticRegression(C=1.0))
    arrays = (X[:310], y[:310], X[310:])
    short = model.noise(*arrays, wrong=0.1, width=0.2, workers=1)
    short.save(tmp_path / "short.noise")
    resumed = model.noise(*arrays, wrong=0.1, width=0.15, workers=1, resume=Noise.load(tmp_path / "short.noise"))
    whole = model.noise(*arrays, wrong=0.1, width=0.15, workers=1)
    assert short.changed_drawn.size == needed(0.2, 0.95) < whole.changed_drawn.size
    for name in ("lower", "upper", "drawn", "wrong_drawn", "changed_drawn", "counts"):
        assert np.array_equal(getattr(resumed, name), getattr(whole, name)), name
    with pytest.raises(InvalidInput, match="same question"):
        model.noise(*arrays, wrong=0.2, width=0.2, workers=1, resume=short)
    fitted = np.array([LogisticRegression(C=1.0).fit(X[:310], y[:310]).predict(X[310:])])
    assert np.array_equal(whole.predictions, fitted[0])


def test_a_run_that_is_killed_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(2)
    X = rng.normal(size=(140, 4))
    y = X[:, 0] + 0.5 * rng.normal(size=140) > 0
    from sklearn.linear_model import LogisticRegression

    def asked(**more: Any) -> Noise:
        model = from_sklearn(LogisticRegression())
        return model.noise(X[:120], y[:120], X[120:], wrong=0.1, width=0.1, workers=1, **more)

    whole = asked()
    answer, rounds = answering.Asked.answer, 0

    def killed(self: Any, resume: Noise | None) -> Noise:
        nonlocal rounds
        rounds += 1
        if rounds == 3:
            raise KeyboardInterrupt
        return answer(self, resume)

    monkeypatch.setattr(answering.Asked, "answer", killed)
    with pytest.raises(KeyboardInterrupt):
        asked(keep=tmp_path / "a.noise")
    kept = Noise.load(tmp_path / "a.noise").changed_drawn.size
    assert 0 < kept < whole.changed_drawn.size
    again = asked(keep=tmp_path / "a.noise")
    for name in ("lower", "upper", "drawn", "wrong_drawn", "changed_drawn", "counts"):
        assert np.array_equal(getattr(again, name), getattr(whole, name)), name
    assert np.array_equal(Noise.load(tmp_path / "a.noise").lower, whole.lower)


def test_several_votes_for_each_label() -> None:
    for seed in range(10):
        rng = np.random.default_rng(seed)
        rates, K = {"ann": 0.1, "bob": 0.3, "cy": 0.0 if seed % 2 else 0.2}, 2 + seed % 2
        rows = [(i, who, int(rng.integers(K))) for i in range(5) for who in rng.permutation(list(rates))[:2]]
        rows = [(i, who, rows[2 * i][2]) if who == "cy" else (i, who, c) for i, who, c in rows]
        votes = Votes(rows)
        codes = np.asarray(votes.labels)
        if np.unique(codes).size < K or {c for _, _, c in rows} != set(range(K)):
            continue
        odds = np.ones((5, K))
        for i, who, said in rows:
            odds[i] *= [1 - rates[who] if c == said else rates[who] / (K - 1) for c in range(K)]
        odds /= odds.sum(axis=1, keepdims=True)
        H = rng.normal(size=(4, 5))
        found = noise_linear(H, codes, wrong=rates, annotators=votes, workers=1)
        assert np.allclose(found.odds, odds)
        agrees(found, by_sums(H, codes, odds))
    liars = Votes([(0, "ann", 0), (0, "bob", 1), (1, "ann", 1)])
    with pytest.raises(InvalidInput, match="never wrong disagree"):
        noise_linear([[1.0, 2.0]], liars.labels, wrong={"ann": 0.0, "bob": 0.0}, annotators=liars)
    with pytest.raises(InvalidInput, match="no rate for the annotator 'bob'"):
        noise_linear([[1.0, 2.0]], liars.labels, wrong={"ann": 0.0}, annotators=liars)


def test_what_to_confirm_takes_most_from_the_expected_changes() -> None:
    data = two_clouds(n_labels=8, n_test=10)
    arrays = (data.K_train, data.labels, data.K_test)
    found = noise(*arrays, C=1.0, wrong=0.1, workers=1)
    advice = found.recheck(2)
    rates = np.full(8, 0.1)
    for row in advice.itertuples():
        after = []
        for i in range(8):
            own = rates.copy()
            own[i] = 0.0
            after.append(noise(*arrays, C=1.0, wrong=own, workers=1).expected_changes)
        assert min(after) == pytest.approx(row.expected_changes, abs=1e-9)
        assert after[row.confirm] == pytest.approx(min(after), abs=1e-9)
        rates[row.confirm] = 0.0


def test_accuracy_and_pictures(tmp_path: Path) -> None:
    data = two_clouds()
    found = noise(data.K_train, data.labels, data.K_test, data.C, wrong=0.2, workers=1)
    accuracy = found.accuracy(data.truth)
    expected = np.where(found.predictions == data.truth, 1 - found.probability, found.probability).mean()
    assert abs(accuracy.mean - expected) < 0.02
    low, high = accuracy.interval(0.5)
    assert low <= accuracy.quantile(0.5) <= high
    assert len(found.to_frame()) == 12
    assert found.plot().get_ylabel().startswith("probability")
    found.save(tmp_path / "a.noise")
    loaded = Noise.load(tmp_path / "a.noise")
    assert repr(loaded) == repr(found)
    assert np.array_equal(loaded.lower, found.lower)
    (tmp_path / "bad.noise").write_bytes(b"no archive")
    for name in ("bad.noise", "absent.noise"):
        with pytest.raises(CertificateFileError):
            Noise.load(tmp_path / name)


def test_ties_count_as_changed() -> None:
    found = noise_linear([[1.0, 1.0], [1.0, 0.5]], ["a", "b"], wrong=0.25)
    assert found.lower.tolist()[0] == 1.0
    assert found.probability[1] == pytest.approx(0.25)  # if the first label is wrong, alone or with the other


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"wrong": 1.5}, "probabilities between 0 and 1"),
        ({"wrong": float("nan")}, "probabilities between 0 and 1"),
        ({"wrong": "often"}, "a rate between 0 and 1"),
        ({"wrong": [0.1, 0.2]}, "one for each of the 16 labels"),
        ({"wrong": {"ann": 0.1}}, "annotators= must say"),
        ({"wrong": {"ann": 0.1}, "annotators": ["bob"] * 16}, "no rate for the annotator 'bob'"),
        ({"wrong": 0.1, "annotators": ["bob"] * 16}, "one rate for each of them"),
        ({"wrong": [[0.9, 0.2], [0.1, 0.8]]}, "add up to 1"),
        ({"wrong": np.eye(3)}, "one row and one column for each of the 2 classes"),
        ({"wrong": 0.1, "width": 0}, "width must lie"),
        ({"wrong": 0.1, "confidence": 1}, "confidence must lie"),
        ({"wrong": 0.1, "seed": -1}, "seed must be"),
    ],
)
def test_bad_input_is_refused(given: dict[str, Any], message: str) -> None:
    data = two_clouds()
    with pytest.raises(InvalidInput, match=message):
        noise(data.K_train, data.labels, data.K_test, 1.0, **given)


def test_estimators_refuse_what_noise_has_not() -> None:
    from sklearn.linear_model import RidgeClassifier

    model = from_sklearn(RidgeClassifier())
    with pytest.raises(TypeError, match="threat"):
        model.noise([[0.0], [1.0]], [0, 1], [[0.2]], wrong=0.1, threat=Threat())
    found = model.noise([[0.0], [1.0], [2.0]], [0, 1, 1], [[0.2]], wrong=0.1)
    assert found.proved


def test_neighbours_and_weights_of_labels() -> None:
    from sklearn.linear_model import LogisticRegression
    from sklearn.neighbors import KNeighborsClassifier

    rng = np.random.default_rng(0)
    X = rng.normal(size=(50, 3))
    y = (X[:, 0] > 0).astype(int) + (X[:, 1] > 0.8)
    arrays = X[:40], y[:40], X[40:]
    found = from_sklearn(KNeighborsClassifier(3)).noise(*arrays, wrong=0.05, workers=1)
    estimator = KNeighborsClassifier(3).fit(*arrays[:2])
    assert np.array_equal(found.predictions, estimator.predict(X[40:]))
    near = estimator.kneighbors(X[40:], return_distance=False)
    for t, own in enumerate(near):
        chance = found.lower[t], found.upper[t]
        total = 0.0
        for new in itertools.product(range(3), repeat=3):
            votes = np.bincount(new, minlength=3)
            wrong = np.array(new) != y[own]
            total += (votes.argmax() != found.predictions[t]) * np.prod(np.where(wrong, 0.025, 0.95))
        assert chance[0] - 1e-12 <= total <= chance[1] + 1e-12
        assert chance[1] - chance[0] < 1e-9
    weighted = from_sklearn(LogisticRegression(class_weight="balanced"))
    assert not weighted.noise(*arrays, wrong=0.05, width=0.3, workers=1).proved


def test_a_graph_and_its_names() -> None:
    graph = labelcert.load_dataset("karate")
    split = labelcert.published_split(graph, seed=0)
    found = labelcert.SGC(C=0.1).noise(graph, split.labeled, split.pool, wrong=0.05, workers=1)
    assert found.to_frame().index.name == "node"
    cert = labelcert.SGC(C=0.1).certify(graph, split.labeled, split.pool)
    # Fewer errors than the radius change nothing.
    counts = np.arange(split.labeled.size + 1)
    from scipy.stats import binom

    assert np.all(found.lower <= binom.sf(cert.radius_lower - 1, counts[-1], 0.05) + 1e-12)


def test_time_limit_leaves_intervals() -> None:
    rng = np.random.default_rng(3)
    X = rng.normal(size=(60, 5))
    K = X @ X.T
    found = noise(K, X[:, 0] > 0, K[:10], 1.0, wrong=0.2, width=0.003, time_limit=0.5, workers=1)
    assert found.stopped
    assert np.all((found.lower <= found.probability) & (found.probability <= found.upper))
