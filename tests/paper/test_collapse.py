"""Plateaus: no attack changes more than pairs allow, and what reports say of them is what the curves say."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest

import labelcert
from labelcert.arrays import Float
from labelcert.errors import InvalidInput
from labelcert.jobs.execution import run_job
from labelcert.paper.collapse_report import collapsed_curves
from labelcert.paper.collapsing import ceiling, swap_budgets
from labelcert.studies import Store, StudyPlan, expand, parse_study, run_plan
from labelcert.studies.report import make_report

STUDY = """
report = "collapse"
seeds = [0]
[[datasets]]
name = "csbm"
parameters = { n = 60 }
[[models]]
name = "gcn"
C = 0.001
[[models]]
name = "sgc"
C = 0.001
[[models]]
name = "mlp"
C = 10.0
"""


def drawn(rng: np.random.Generator, kind: int) -> tuple[Float, Float]:
    """Rows and labels: blocks, what has no structure, and what has ties and equal nodes."""
    m, n = int(rng.integers(1, 8)), int(rng.integers(1, 7))
    y = rng.choice([-1.0, 1.0], m)
    if kind == 0:
        M = np.where(np.equal.outer(rng.choice([-1.0, 1.0], n), y), 1.0, rng.uniform(-1, 1)) * rng.uniform(0.5, 2, m)
    elif kind == 1:
        M = rng.normal(size=(n, m))
    else:
        M = rng.integers(-1, 3, (n, m)).astype(np.float64)
    return M, y


def test_no_attack_swaps_earlier_or_changes_more() -> None:
    rng = np.random.default_rng(0)
    tight = 0
    for trial in range(240):
        M, y = drawn(rng, trial % 3)
        signs = np.array(list(itertools.product([1.0, -1.0], repeat=y.size)))
        cost = (signs < 0).sum(axis=1)
        clean = M @ y
        changed = (signs * y) @ M.T * np.sign(clean) <= 1e-12
        changed[:, np.abs(clean) <= 1e-12] = True
        least, plus, minus = swap_budgets(M, y)
        for (a, t), (b, s) in itertools.product(enumerate(plus), enumerate(minus)):
            both = cost[changed[:, t] & changed[:, s]]
            assert least[a, b] <= (both.min() if both.size else y.size + 1)
        worst = [int(changed[cost <= k].sum(axis=1).max()) for k in range(y.size + 1)]
        bound = ceiling(M, y, y.size)
        assert all(w <= c for w, c in zip(worst, bound, strict=True)), (M, y, worst, bound)
        tight += sum(w == c for w, c in zip(worst, bound, strict=True)) - 1
    assert tight > 300


@pytest.mark.parametrize("other", [-0.75, -0.5, 0.0, 0.25, 0.75])
def test_two_blocks_wait_from_a_quarter_of_one_minus_rho_to_one_half(other: float) -> None:
    m = 16
    y = np.repeat([1.0, -1.0], m // 2)
    M = np.where(np.equal.outer(np.repeat([1.0, -1.0], [12, 8]), y), 1.0, other)
    curve = labelcert.certify_linear(np.abs(M), y).collective_lower if other >= 0 else None
    bound = np.array(ceiling(M, y, m))
    start = int(np.ceil(m * (1 - other) / 4 - 1e-9))
    if curve is not None:
        assert np.flatnonzero(curve == 12).tolist() == list(range(start, m // 2))
        assert np.array_equal(bound, curve)
    assert np.flatnonzero(bound == 12)[[0, -1]].tolist() == [start, m // 2 - 1]


@pytest.fixture(scope="module")
def plan() -> StudyPlan:
    return expand(parse_study(STUDY, name="waits"))


def test_the_report_is_what_curves_and_attacks_say(plan: StudyPlan, tmp_path: Path) -> None:
    with Store(tmp_path, write=True) as store:
        run_plan(plan, store, workers=1)
        report = make_report(plan, store, tmp_path / "out")
        curves = collapsed_curves(plan, store)
    assert [c.model for c in curves] == ["gcn", "sgc", "mlp"]
    assert report.sheets[-2].rows[-1][0] == "all"
    assert {"picture.png", "table.md"} <= {path.name for path in report.files}
    for c, job in zip(curves, plan.jobs, strict=True):
        told = c.told
        assert sum(told["predicted"]) == c.n
        assert told["after"][0] == told["predicted"]
        for b, (flips, after) in enumerate(zip(told["flips"], told["after"], strict=True)):
            assert sum(flips) <= b
            assert sum(after) == c.n
        assert np.all(np.max(told["one_sided"], axis=0) <= c.changed)
        assert bool(told["ceiling"]) == (c.model != "mlp")
        assert np.all(np.array(told["ceiling"] or [c.n]) >= c.changed)
        [cell] = job.cells
        cert = job.model.certify(job.graph, job.labeled, cell.test)
        assert cert.collective_lower.tolist() == c.changed.tolist()
    gcn, sgc, _ = curves
    assert gcn.waits
    assert gcn.one_class_left
    assert gcn.told["across"] > 0 > sgc.told["across"]


def test_what_is_not_about_two_classes_and_one_model_is_refused() -> None:
    for line in ('parts = 2\nname = "gcn"', 'using = "attack:alfa"\nname = "gcn"', 'verify = 1\nname = "gcn"'):
        with pytest.raises(InvalidInput, match="leave out parts"):
            expand(parse_study(STUDY.partition("[[models]]")[0] + f"[[models]]\n{line}\n", name="x"))
    few = 'name = "karate"\nlabeled = ["0", "33"]\ntest = ["1", "32"]'
    plan = expand(parse_study(STUDY.replace('name = "csbm"\nparameters = { n = 60 }', few), name="few"))
    assert [record["status"] for record in run_job(plan.jobs[0], workers=1)] == ["done"]
