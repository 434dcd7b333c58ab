"""More labels than a tableau is copied for: sets are solved from their parent's tableau, which is shared."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from tests.helpers.problems import blobs, gaussian

from labelcert import Threat, certify
from labelcert.engines.base import Question
from labelcert.prediction import predictor_for
from labelcert.problem import Problem, Relabelling
from labelcert.svm.error_bound import bound
from labelcert.svm.pivoting import Z, _exchange, new_scratch, row_of, settle, sharing
from labelcert.svm.training import loose_machine
from labelcert.svm.walking import MANY_LABELS, solve_child

M = MANY_LABELS + 6


def duplicates(m: int, n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A singular kernel with exact ties."""
    rng = np.random.default_rng(seed)
    points = rng.integers(-2, 3, size=(m + n, 3)).astype(float)
    K = points @ points.T
    return K[:m, :m], (points[:m, 0] > 0).astype(int), K[m:, :m]


@pytest.mark.parametrize("C", [0.05, 1.0, 50.0])
@pytest.mark.parametrize("make", [gaussian, duplicates])
def test_certificates_agree_with_retraining_on_every_set(make: object, C: float) -> None:
    arrays = make(M, 6)  # type: ignore[operator]
    threat = Threat(trusted=np.arange(M) % 4 != 0)
    problem = Problem.build(*arrays, C, threat=threat, max_flips=2)
    cert = certify(*arrays, C, threat=threat, max_flips=2, engine="enumerate", workers=1)
    question = Question.ask(predictor_for(problem, linear=False))
    assert cert.exact
    radius = np.full(question.nodes.size, problem.adversary.never)
    most = np.zeros(3, dtype=np.int64)
    for size in (1, 2):
        for flips in itertools.combinations(range(problem.adversary.labels.size), size):
            positions = np.array(flips)
            change = Relabelling(positions, problem.adversary.targets[positions].argmax(axis=1).astype(np.int64))
            yes, no = question.changed(change)
            assert np.all(yes ^ no)
            radius[yes] = np.minimum(radius[yes], size)
            most[size:] = np.maximum(most[size:], int(yes.sum()))
    found = cert.radius_upper[question.nodes]
    assert np.array_equal(np.where(radius <= 2, radius, problem.adversary.never), found)
    assert np.array_equal(cert.collective_lower, most + (problem.n_test - question.nodes.size))


def test_noted_pivots_give_the_rows_of_the_tableau() -> None:
    K, y, _ = gaussian(12, 2)
    machine = loose_machine(K, 1.0)
    dense, noted = new_scratch(12), new_scratch(12)
    signs = np.where(np.asarray(y) == 1, 1.0, -1.0)
    for s in (dense, noted):
        settle(machine, s, signs.copy())
    noted.marks[-1] = 1
    out = np.zeros(12)
    for k in (3, 7, 3, 0, 11, 7):
        assert _exchange(dense, k, 0.0)
        assert _exchange(noted, k, 0.0)
        for r in range(12):
            row_of(noted, r, out)
            assert np.allclose(out, dense.T[r], rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("seed", range(5))
def test_a_child_is_solved_like_any_other_problem(seed: int) -> None:
    K, y, rows = gaussian(M, 3, seed=seed)
    machine = loose_machine(K, 2.0)
    parent, own, cold = (new_scratch(M) for _ in range(3))
    signs = np.where(np.asarray(y) == 1, 1.0, -1.0)
    settle(machine, parent, signs)
    before = parent.T.copy()
    for i in range(0, M, 5):
        here = signs.copy()
        tau, _ = solve_child(machine, parent, sharing(own, parent), here, i, -here[i])
        assert here[i] == -signs[i]
        cold.chill()
        settle(machine, cold, here)
        sharp, _ = bound(machine, cold, here, True)
        norms = np.linalg.norm(rows, axis=1)
        assert np.all(np.abs(rows @ own.v[Z] - rows @ cold.v[Z]) <= (tau + sharp) * norms)
        assert tau < 1e-4
    assert np.array_equal(parent.T, before)


def test_tables_share_tableaus_too() -> None:
    m = MANY_LABELS + 4
    K, y, rows = blobs(m, 4, classes=3)
    threat = Threat(trusted=np.arange(m) % 12 != 0)
    problem = Problem.build(K, y, rows, 1.0, threat=threat, max_flips=1)
    cert = certify(K, y, rows, 1.0, threat=threat, max_flips=1, engine="enumerate", workers=1)
    question = Question.ask(predictor_for(problem, linear=False))
    a = problem.adversary
    changed = np.zeros(question.nodes.size, dtype=bool)
    for i, k in np.argwhere(a.targets):
        changed |= question.changed(Relabelling(np.array([i]), np.array([k])))[0]
    assert np.array_equal(cert.radius_upper[question.nodes] == 1, changed)
