"""``certify_linear`` against brute force in rational arithmetic, and its ways of taking rows."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse

import labelcert
from labelcert.certification import task as task_module
from labelcert.engines import row_blocks
from labelcert.engines.linear import bounding
from labelcert.problem import rows as rows_module


def brute_force(H, labels, threat, max_flips):
    """Radii (``max_flips + 1``: larger) and curve, by trying every relabelling with exact sums."""
    classes = sorted(set(labels))
    m, exact = len(labels), [[Fraction(float(v)) for v in row] for row in np.asarray(H, dtype=float)]
    costs = np.ones(m, dtype=int) if threat.costs is None else np.asarray(threat.costs)
    options = []
    for i, label in enumerate(labels):
        may = [c for c in classes if c != label]
        if threat.trusted is not None and threat.trusted[i]:
            may = []
        if threat.allowed_flips is not None:
            may = [c for c in may if c in threat.allowed_flips.get(label, [])]
        if threat.allowed_targets is not None and threat.allowed_targets[i] is not None:
            may = [c for c in may if c in threat.allowed_targets[i]]
        options.append([label, *may])

    def scores(row, values):
        return {c: sum((v for v, one in zip(row, values, strict=True) if one == c), Fraction(0)) for c in classes}

    def winners(score):
        top = max(score.values())
        return [c for c in classes if score[c] == top]

    clean = [winners(scores(row, labels)) for row in exact]
    radii = np.array([0 if len(w) > 1 else max_flips + 1 for w in clean])
    curve = np.zeros(max_flips + 1, dtype=int)
    for values in itertools.product(*options):
        flipped = [i for i in range(m) if values[i] != labels[i]]
        cost = int(costs[flipped].sum()) if flipped else 0
        if cost > max_flips or not _within_groups(threat, flipped, costs):
            continue
        changed = 0
        for t, row in enumerate(exact):
            score = scores(row, values)
            own = clean[t][0]
            if len(clean[t]) > 1 or any(score[c] >= score[own] for c in classes if c != own):
                changed += 1
                radii[t] = min(radii[t], cost)
        curve[cost] = max(curve[cost], changed)
    return [w[0] if len(w) == 1 else None for w in clean], radii, np.maximum.accumulate(curve)


def _within_groups(threat, flipped, costs):
    if threat.groups is None or threat.group_budgets is None:
        return True
    spent = {}
    for i in flipped:
        spent[threat.groups[i]] = spent.get(threat.groups[i], 0) + int(costs[i])
    return all(spent.get(g, 0) <= cap for g, cap in threat.group_budgets.items())


def random_problem(seed):
    rng = np.random.default_rng(seed)
    K, m, n = int(rng.integers(2, 4)), int(rng.integers(3, 7)), int(rng.integers(1, 6))
    labels = rng.integers(0, K, m)
    labels[:2] = [0, 1]
    kind = seed % 3
    if kind == 0:  # many ties
        H = rng.integers(-2, 3, (n, m)).astype(float)
    elif kind == 1:  # neighbours of one weight that has no short binary form
        H = (rng.random((n, m)) < 0.6) / 3.0
    else:
        H = rng.normal(size=(n, m)) * 10.0 ** rng.integers(-3, 4)
        H[:, -1] = -H[:, 0]
    classes = sorted(set(labels.tolist()))
    options = {}
    if rng.random() < 0.3:
        options["trusted"] = rng.random(m) < 0.3
    if rng.random() < 0.5:
        options["costs"] = rng.integers(1, 4, m)
    if rng.random() < 0.3:
        options["allowed_flips"] = {c: [d for d in classes if d != c and rng.random() < 0.7] for c in classes}
    if rng.random() < 0.3:
        options["allowed_targets"] = [None if rng.random() < 0.5 else [classes[-1]] for _ in range(m)]
    if rng.random() < 0.4:
        options["groups"] = rng.choice(["x", "y", "z"], m).tolist()
        options["group_budgets"] = {g: int(rng.integers(0, 4)) for g in sorted(set(options["groups"])) if g != "z"}
    return H, labels.tolist(), labelcert.Threat(**options)


def assert_truth(cert, H, labels, threat):
    predicted, radii, curve = brute_force(H, labels, threat, cert.max_flips)
    for t, winner in enumerate(predicted):
        if winner is not None:
            assert cert.predictions[t] == winner
    within = radii <= cert.max_flips
    np.testing.assert_array_equal(cert.radius_lower, radii)
    np.testing.assert_array_equal(cert.radius_upper, np.where(within, radii, cert.never))
    assert np.all(cert.collective_lower <= curve)
    assert np.all(curve <= cert.collective_upper)
    for t in np.flatnonzero(within & (radii > 0)).tolist():
        flips = cert.witness(t)
        costs = np.ones(len(labels), dtype=int) if threat.costs is None else np.asarray(threat.costs)
        assert costs[list(flips)].sum() == radii[t]
    return curve


@pytest.mark.parametrize("seed", range(60))
def test_against_brute_force(seed):
    H, labels, threat = random_problem(seed)
    cert = labelcert.certify_linear(H, labels, threat=threat)
    curve = assert_truth(cert, H, labels, threat)
    np.testing.assert_array_equal(cert.collective_lower, curve)
    assert cert.exact


@pytest.mark.parametrize("seed", range(60))
@pytest.mark.parametrize("split", [True, False])
def test_bounds_against_brute_force(seed, split, monkeypatch):
    """The curve by multipliers alone is an interval around the truth."""
    monkeypatch.setattr("labelcert.engines.closed_form.CURVES", _no_curves())
    if not split:
        monkeypatch.setattr(bounding, "TABLE_CELLS", 0)
    H, labels, threat = random_problem(1000 + seed)
    cert = labelcert.certify_linear(H, labels, threat=threat)
    assert_truth(cert, H, labels, threat)


def _no_curves():
    from labelcert.engines.closed_form import CURVES

    return dict.fromkeys(CURVES, lambda *_: {})


def blobs(m, n, K, seed=0, spread=1.5):
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(K, 5)) * spread
    codes, truth = rng.integers(0, K, m), rng.integers(0, K, n)
    codes[:K] = np.arange(K)
    X, T = centres[codes] + rng.normal(size=(m, 5)), centres[truth] + rng.normal(size=(n, 5))
    return X, codes, T


def neighbours(X, T, k):
    """Rows of k nearest neighbours, each with weight 1/k, as a sparse matrix."""
    near = np.argsort(((T[:, None, :] - X[None, :, :]) ** 2).sum(axis=2), axis=1)[:, :k]
    data, starts = np.full(near.size, 1.0 / k), np.arange(0, near.size + 1, k)
    return scipy.sparse.csr_array((data, near.ravel(), starts), shape=(T.shape[0], X.shape[0]))


def same(one, two):
    for name in ("predictions", "decision_values", "radius_lower", "radius_upper", "new_classes", "collective_lower"):
        np.testing.assert_array_equal(getattr(one, name), getattr(two, name), err_msg=name)
    np.testing.assert_array_equal(one.collective_upper, two.collective_upper)
    for t in range(one.n_test):
        assert one.witness(t) == two.witness(t)
    assert one.run.problem_sha256 == two.run.problem_sha256


@pytest.mark.parametrize("K", [2, 3])
@pytest.mark.parametrize("k", [5, 6])
def test_dense_sparse_and_blocks_are_the_same(K, k, monkeypatch):
    X, codes, T = blobs(40, 30, K)
    H = neighbours(X, T, k)
    dense = H.toarray()
    whole = labelcert.certify_linear(dense, codes, max_flips=4)
    monkeypatch.setattr(rows_module, "SPARSE_ROWS", 7)
    same(whole, labelcert.certify_linear(H, codes, max_flips=4))
    same(whole, labelcert.certify_linear((dense[i : i + 4] for i in range(0, 30, 4)), codes, max_flips=4))
    same(whole, labelcert.certify_linear([H[:11], dense[11:12], H[12:]], codes, max_flips=4))


def test_equals_kernel_ridge():
    X, codes, T = blobs(30, 12, 3)
    K, rows = np.exp(-((X[:, None] - X[None]) ** 2).sum(2) / 4), np.exp(-((T[:, None] - X[None]) ** 2).sum(2) / 4)
    ridge = labelcert.certify(K, codes, rows, C=0.5, loss="square", max_flips=3)
    H = rows @ np.linalg.inv(K + np.eye(30))
    cert = labelcert.certify_linear(H, codes, max_flips=3)
    np.testing.assert_array_equal(ridge.radius_lower, cert.radius_lower)
    np.testing.assert_array_equal(ridge.predictions, cert.predictions)
    scores = H @ np.eye(3)[codes]
    np.testing.assert_allclose(cert.decision_values, scores, atol=1e-12)


def test_few_rows_for_the_curve(monkeypatch):
    """Where not all rows are kept, the curve is still an interval around that of all rows."""
    X, codes, T = blobs(20, 25, 2)
    H = neighbours(X, T, 5)
    whole = labelcert.certify_linear(H, codes, max_flips=4)
    monkeypatch.setattr(row_blocks, "CURVE_CELLS", 60)
    part = labelcert.certify_linear(H, codes, max_flips=4)
    np.testing.assert_array_equal(whole.radius_lower, part.radius_lower)
    assert np.all(part.collective_lower <= whole.collective_lower)
    assert np.all(part.collective_upper >= whole.collective_upper)
    assert part.run.stages[0].statistics["rows_for_curve"] < 25


def test_saved_and_loaded(tmp_path):
    X, codes, T = blobs(20, 6, 3)
    cert = labelcert.certify_linear(neighbours(X, T, 5), codes, max_flips=3)
    cert.save(tmp_path / "linear.cert")
    again = labelcert.load(tmp_path / "linear.cert")
    assert again.checksum == again.computed_checksum()
    assert len(again.to_frame()) == 6
    assert len(again.curve_frame()) == 4
    with pytest.raises(labelcert.InvalidInput, match="without its kernels"):
        cert.save(tmp_path / "with.cert", problem=True)
    with pytest.raises(labelcert.InvalidInput, match="certify_linear"):
        labelcert.verify(again)


@pytest.mark.parametrize("make", [np.asarray, scipy.sparse.csr_array])
def test_rows_of_zeros_are_ties(make):
    """Without a prediction, the radius is 0, and the node counts as changed from the start."""
    cert = labelcert.certify_linear(make(np.zeros((2, 3))), [0, 1, 1])
    np.testing.assert_array_equal(cert.radius_upper, [0, 0])
    np.testing.assert_array_equal(cert.collective_lower, [2, 2, 2, 2])
    mixed = labelcert.certify_linear(make(np.array([[0.0, 0.0, 0.0], [0.0, 0.0, 2.0]])), [0, 1, 1])
    np.testing.assert_array_equal(mixed.radius_upper, [0, 1])
    assert mixed.exact


def test_trusted_labels_leave_nothing_to_do():
    cert = labelcert.certify_linear(np.eye(3), [0, 1, 1], threat=labelcert.Threat(trusted=[True] * 3))
    np.testing.assert_array_equal(cert.radius_lower, 4)
    np.testing.assert_array_equal(cert.collective_upper, 0)


def test_usual_budget(monkeypatch):
    monkeypatch.setattr(task_module, "USUAL_FLIPS", 2)
    H, labels = np.ones((1, 5)), [0, 0, 1, 1, 1]
    assert labelcert.certify_linear(H, labels).max_flips == 2
    assert labelcert.certify_linear(H, labels, max_flips=5).max_flips == 5


def test_out_of_time():
    """What is not reached comes as intervals, with all clean predictions."""
    X, codes, T = blobs(60, 40, 2)
    H = neighbours(X, T, 5)
    cert = labelcert.certify_linear((H[i : i + 5] for i in range(0, 40, 5)), codes, time_limit=1e-9)
    exact = labelcert.certify_linear(H, codes, max_flips=3)
    np.testing.assert_array_equal(cert.predictions, exact.predictions)
    assert cert.run.stopped == "time limit"
    assert not cert.exact
    assert np.all(cert.radius_lower <= exact.radius_lower)
    assert np.all(cert.collective_upper[:4] >= exact.collective_upper)


@pytest.mark.parametrize(
    ("H", "message"),
    [
        (np.ones((3, 5)), "one column per label"),
        (np.ones((4, 3)), "transposed"),
        (np.array([[1.0, np.nan, 0.0, 1.0]]), "finite"),
        (np.zeros((0, 4)), "no rows"),
        (iter([]), "no rows"),
        ([np.ones((2, 4)), np.ones((2, 3))], "block from row 2 on"),
        ([[1, 2, 3, 4], [1, 2]], "rows of equal length"),
        (np.array([["a", "b", "c", "d"]]), "real numbers"),
        (7, "iterable of blocks"),
        (scipy.sparse.csr_array(np.array([[1.0, np.inf, 0.0, 1.0]])), "finite"),
    ],
)
def test_refused(H, message):
    with pytest.raises(labelcert.InvalidInput, match=message):
        labelcert.certify_linear(H, [0, 1, 0, 1])


def test_large_costs_are_refused():
    rng = np.random.default_rng(0)
    costs = rng.permutation(400) + 1
    with pytest.raises(labelcert.WorkTooLarge, match="knapsacks"):
        labelcert.certify_linear(
            np.ones((5000, 400)), rng.integers(0, 2, 400), threat=labelcert.Threat(costs=costs), max_flips=60_000
        )


@pytest.mark.parametrize("seed", range(4))
def test_entries_that_underflow_beside_large_ones(seed):
    rng = np.random.default_rng(seed)
    values = [0, 5e-324, -5e-324, 1e-310, 3e-308, 1e-300, 1.0, -1.0, 2.0, 1e16, 1e50]
    for _ in range(10):
        labels = np.array([0, 1, *rng.integers(0, 3, int(rng.integers(1, 4)))])
        H = rng.choice(values, size=(2, labels.size))
        H[0, 0] += 1.0
        threat = labelcert.Threat(allowed_flips={1: [0]} if rng.random() < 0.5 else None)
        cert = labelcert.certify_linear(H, labels, threat=threat)
        _, radii, curve = brute_force(H, labels.tolist(), threat, labels.size)
        assert cert.exact
        np.testing.assert_array_equal(np.minimum(cert.radius_lower, labels.size + 1), radii)
        np.testing.assert_array_equal(cert.collective_lower, curve)
        for row, radius in zip(H[:1], cert.radius_upper, strict=False):  # no answer depends on other rows
            if np.abs(row).max() > 1e-50:
                assert labelcert.certify_linear(row[None], labels, threat=threat).radius_upper[0] == radius


def test_the_smallest_number_is_no_tie():
    cert = labelcert.certify_linear([[5e-324, 1.0, -1.0]], [2, 1, 1])
    assert (cert.radius_lower[0], cert.radius_upper[0], cert.decision_values[0]) == (1, 1, 5e-324)


@pytest.mark.parametrize("blocks", [1, 3])
def test_rows_are_there_however_early_the_run_is_over(blocks: int) -> None:
    H = np.random.default_rng(0).normal(size=(30, 400))
    cert = labelcert.certify_linear(np.array_split(H, blocks), np.arange(400) % 3, time_limit=1e-9)
    assert cert.n_test == 30
    assert not cert.exact
    assert np.all(cert.radius_lower <= 1)
