"""The verifier's own trainings: their error bounds hold, and certificates of every kind are accepted, lies are not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from tests.helpers.problems import blobs, gaussian

from labelcert import (
    Certificate,
    InvalidInput,
    Threat,
    attack,
    certify,
    certify_linear,
    certify_partition,
    recheck,
    verify,
)
from labelcert.attacks import attack_names
from labelcert.verification import smooth
from labelcert.verification.relabellings import Walk
from labelcert.verification.statement import LOSSES, Statement
from labelcert.verification.trainers import machine_of

TRAINED = ("squared_hinge", "logistic", "cross_entropy")
INTERCEPTS = ("logistic_intercept", "cross_entropy_intercept")

THREATS = [
    Threat(),
    Threat(costs=np.arange(8) % 3 + 1),
    Threat(groups=["a", "b", None, "a", "b", "a", "b", None], group_budgets={"a": 1, "b": 2}),
    Threat(trusted=np.arange(8) < 2),
]


def problem(classes: int, m: int = 8) -> tuple[Any, Any, Any]:
    return gaussian(m, 6, seed=3) if classes == 2 else blobs(m, 6, classes=3, seed=3)


@pytest.mark.parametrize("loss", sorted({*LOSSES} - {"linear", "unknown", "square_intercept", *INTERCEPTS}))
@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("threat", THREATS, ids=repr)
@pytest.mark.parametrize("margin", [0.0, 0.05])
def test_every_loss_threat_and_margin(loss: str, classes: int, threat: Threat, margin: float) -> None:
    K, y, rows = problem(classes)
    cert = certify(K, y, rows, 1.0, loss=loss, threat=threat, max_flips=2, margin=margin)
    found = verify(cert, K, y, rows)
    assert found.complete, found
    assert larger_radius(cert) is None or not verify(larger_radius(cert), K, y, rows).accepted  # type: ignore[arg-type]


def larger_radius(cert: Certificate) -> Certificate | None:
    """A lie about one node, with the checksum that belongs to it."""
    exact = np.flatnonzero((cert.radius_lower == cert.radius_upper) & (cert.radius_lower <= cert.max_flips))
    if not exact.size:
        return None
    more = (np.arange(cert.n_test) == exact[-1]).astype(np.int64)
    ends = {name: getattr(cert, name) + more for name in ("radius_lower", "radius_upper", "radius_claimed")}
    lie = replace(cert, **ends)
    return replace(lie, checksum=lie.computed_checksum())


@pytest.mark.parametrize("loss", [*TRAINED, *INTERCEPTS])
@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("steps", [0, 1, 3, 6])
def test_bounds_hold_for_trainings_that_stop_early(
    loss: str, classes: int, steps: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    K, y, rows = problem(classes)
    cert = certify(K, y, rows, 2.0, loss=loss, max_flips=1)
    statement = Statement.of(cert, K, y, rows)
    walk = Walk(statement, machine_of(statement, False, lambda: None))
    codes = np.array([np.roll(statement.codes, k) for k in range(5)])
    right = walk.trained(codes)
    assert max(float(one.error.max()) for one in right) < 1e-9
    monkeypatch.setattr(smooth, "STEPS", steps)
    for rough, good in zip(walk.trained(codes), right, strict=True):
        assert np.all(np.abs(rough.value - good.value) <= rough.error + good.error)


@pytest.mark.parametrize("loss", ["hinge", *TRAINED])
@pytest.mark.parametrize("classes", [2, 3])
def test_bounds_on_flips_hold(loss: str, classes: int) -> None:
    """Changing up to three labels lowers a lead by no more than the bound of the walk says."""
    K, y, rows = problem(classes, 64 if loss == "hinge" else 8)
    cert = certify(K, y, rows, 0.5, loss=loss, max_flips=0)
    statement = Statement.of(cert, K, y, rows)
    machine = machine_of(statement, False, lambda: None)
    before = machine.classes(statement.codes[None], classes)
    rng = np.random.default_rng(0)
    for _ in range(40):
        flips = rng.choice(statement.m, int(rng.integers(1, 4)), replace=False)
        codes = statement.codes.copy()
        codes[flips] = (codes[flips] + rng.integers(1, classes, flips.size)) % classes
        after = machine.classes(codes[None], classes)
        for own in range(classes):
            for rival in set(range(classes)) - {own}:
                lead = before[own].value[0] - before[rival].value[0]
                doubt = before[own].error[0] + before[rival].error[0]
                new = after[own].value[0] - after[rival].value[0]
                off = after[own].error[0] + after[rival].error[0]
                fall = machine.drop(before[own], 1)[0] + machine.drop(before[rival], -1)[0]
                left = fall[:, flips].sum(axis=1)
                sure = left < machine.coarse(lead - doubt)
                assert np.all(new[sure] > -off[sure])


@pytest.mark.parametrize("loss", INTERCEPTS)
@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("C", [0.01, 1.0, 30.0])
def test_intercepts(loss: str, classes: int, C: float) -> None:
    K, y, rows = problem(classes, 10)
    cert = certify(K, y, np.vstack([rows, 0 * rows[:1]]), C, loss=loss, max_flips=2)
    found = verify(cert)
    assert found.complete, found
    lie = larger_radius(cert)
    assert lie is None or not verify(lie).accepted


@pytest.mark.parametrize("loss", ["hinge", *TRAINED, *INTERCEPTS])
@pytest.mark.parametrize("classes", [2, 3])
def test_large_problems_have_bounds_that_decide(loss: str, classes: int) -> None:
    """Conjugate gradients, and systems of free labels, from similar solutions and from none."""
    K, y, rows = gaussian(90, 4, seed=3) if classes == 2 else blobs(90, 4, classes=3, seed=3)
    cert = certify(K, y, rows, 2.0, loss=loss, max_flips=0)
    statement = Statement.of(cert, K, y, rows)
    codes = np.array([np.roll(statement.codes, k) for k in range(2)] + [statement.codes])
    codes[2, 3] = 1 - min(codes[2, 3], 1)
    one = Walk(statement, machine_of(statement, False, lambda: None))
    alone = [Walk(statement, machine_of(statement, False, lambda: None)).trained(row[None]) for row in codes]
    for c, model in enumerate(one.trained(codes)):
        assert float(model.error.max()) < 1e-7
        for k, other in enumerate(alone):
            assert np.all(np.abs(model.value[k] - other[c].value[0]) <= model.error[k] + other[c].error[0])


@pytest.mark.parametrize("k", range(12))
def test_linear_maps(k: int) -> None:
    rng = np.random.default_rng([4, k])
    m, classes = int(rng.integers(4, 9)), int(rng.integers(2, 4))
    H = rng.integers(-2, 3, (5, m)) * 1.0 if k % 2 else rng.normal(size=(5, m))
    y = np.concatenate([np.arange(classes), rng.integers(0, classes, m - classes)])
    threat = [Threat(), Threat(costs=rng.integers(1, 3, m)), Threat(trusted=np.arange(m) == 0)][k % 3]
    cert = certify_linear(H, y, threat=threat)
    for rows in (H, H.tolist(), scipy.sparse.csr_array(H), iter([H[:2], scipy.sparse.csr_array(H[2:])])):
        assert verify(cert, H=rows).complete
    lie = larger_radius(cert)
    assert lie is None or not verify(lie, H=H).accepted
    other = H.copy()
    other[0, 0] += 1.0
    assert verify(cert, H=other).wrong[0].what == "problem"
    with pytest.raises(InvalidInput, match="pass H="):
        verify(cert)


@pytest.mark.parametrize("loss", ["hinge", "logistic", "square"])
def test_advice_is_accepted(loss: str) -> None:
    X = np.random.default_rng(0).normal(size=(9, 2))
    G, y = X @ X.T, [0, 1, 1, 0, 1, 0]
    advice = recheck(G[:6, :6], y, G[6:, :6], C=1.0, flips=2, verify=1, loss=loss)
    assert verify(advice.certificate, G[:6, :6], y, G[6:, :6]).complete


def test_kernels_that_are_not_symmetric_are_rejected() -> None:
    K, y, rows = problem(2)
    cert = certify(K, y, rows, 1.0, max_flips=1)
    odd = np.array(cert.K_train)
    odd[0, 1] += 0.5
    other = replace(cert, K_train=odd)
    sealed = replace(other.run, problem_sha256=Statement.of(other, None, None, None).digest())
    other = replace(other, run=sealed)
    assert verify(replace(other, checksum=other.computed_checksum())).wrong[0].what == "kernel"


@pytest.mark.parametrize("limit", [None, 60.0])
def test_curves_at_no_budget_are_walked_too(limit: float | None) -> None:
    """A node without a clean prediction counts as changed at every budget; a curve that leaves it out is wrong."""
    K, y, rows = np.eye(2), ["a", "b"], [[1.0, 1.0], [1.0, 0.2]]
    cert = certify(K, y, rows, C=1.0, max_flips=0)
    names = ("collective_lower", "collective_upper", "collective_claimed")
    assert cert.collective_upper.tolist() == [1]
    lie = replace(cert, **{name: getattr(cert, name) - 1 for name in names})
    assert not verify(replace(lie, checksum=lie.computed_checksum()), K, y, rows, time_limit=limit).accepted


def test_attacks_are_accepted() -> None:
    K, y, rows = problem(2)
    for method in attack_names():
        found = attack(K, y, rows, 1.0, using=method, max_flips=2)
        assert verify(found, K, y, rows).accepted, method


def test_time_limits_and_progress() -> None:
    K, y, rows = gaussian(60, 40, seed=1)
    cert = certify(K, y, rows, 0.5, max_flips=2)
    told: list[str] = []
    assert verify(cert, K, y, rows, report=told.append).accepted
    assert told[0] == "reading the problem"
    assert told[1].startswith("checked 0 of ")
    found = verify(cert, K, y, rows, time_limit=1e-6)
    assert found.accepted
    assert not found.complete
    assert "within the time limit; the rest is not checked" in str(found)
    with pytest.raises(InvalidInput, match="time_limit"):
        verify(cert, K, y, rows, time_limit=-1.0)


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge", "logistic", "square"])
@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("threat", THREATS[:3], ids=repr)
def test_ensembles_of_mean_scores(loss: str, classes: int, threat: Threat) -> None:
    K, y, rows = problem(classes)
    cert = certify_partition(K, y, rows, 1.0, parts=3, loss=loss, threat=threat, max_flips=3)
    assert verify(cert).complete, verify(cert)
    assert verify(cert, K, y, rows).complete or cert.run.kernel_shift
    lie = larger_radius(cert)
    assert lie is None or not verify(lie).accepted
