"""Certificates from a device are those from the CPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.helpers.certificates import same
from tests.helpers.problems import blobs, gaussian, small_cap

from labelcert import Threat, certify, certify_partition
from labelcert.engines.gpu import device, device_problems, device_walks, families
from labelcert.selfcheck import check
from labelcert.selfcheck.cases import nasty_case, with_loss_in_turn

from .emulation import EmulatedDevice


def duplicates(m: int, n: int) -> tuple[Any, Any, Any]:
    """A singular kernel: some points are there twice."""
    rng = np.random.default_rng(3)
    points = rng.normal(size=(m + n, m))
    points[1], points[3] = points[0], points[2]
    K = points @ points.T / m
    return K[:m, :m], np.arange(m) % 3 % 2, K[m:, :m]


GROUPS = Threat(groups=np.arange(20) % 3, group_budgets={0: 1, 1: 2, 2: 1}, trusted=np.arange(20) % 7 == 2)
CASES = {
    "all labellings": (gaussian(11, 20), 2.0, {}),
    "all labellings, large C": (gaussian(11, 20), 1e4, {}),
    "all labellings, low rank": (gaussian(12, 9, dims=1), 5.0, {}),
    "all labellings of some labels": (gaussian(20, 9), 2.0, {"threat": Threat(trusted=np.arange(20) >= 9)}),
    "all labellings, costs": (gaussian(10, 20), 2.0, {"threat": Threat(costs=np.arange(10) % 3 + 1)}),
    "all labellings, costs and a budget": (
        gaussian(10, 20),
        2.0,
        {"threat": Threat(costs=np.arange(10) % 3 + 1), "max_flips": 12},
    ),
    "three flips": (gaussian(20, 70), 2.0, {"max_flips": 3}),
    "three flips of many labels": (gaussian(35, 9), 5.0, {"max_flips": 3}),
    "two flips of more labels": (gaussian(70, 9), 0.5, {"max_flips": 2}),
    "groups": (gaussian(20, 9), 2.0, {"threat": GROUPS, "max_flips": 4}),
    "costs": (gaussian(20, 9), 2.0, {"threat": Threat(costs=np.arange(20) % 4 + 1), "max_flips": 6}),
    "singular": (duplicates(11, 9), 1.0, {}),
    "singular, three flips": (duplicates(24, 9), 10.0, {"max_flips": 3}),
    "square loss": (gaussian(11, 9), 2.0, {"loss": "square"}),
    "square loss, three flips": (gaussian(20, 9), 2.0, {"loss": "square", "max_flips": 3}),
    "squared hinge": (gaussian(11, 9), 2.0, {"loss": "squared_hinge"}),
    "a margin": (gaussian(10, 20), 2.0, {"margin": 0.1}),
    "more classes, a margin": (blobs(12, 20), 5.0, {"max_flips": 2, "margin": 0.1}),
    "more classes": (blobs(14, 20), 5.0, {"max_flips": 3}),
    "more classes, many labels": (blobs(35, 20), 5.0, {"max_flips": 2}),
    "more classes, costs": (blobs(14, 20), 5.0, {"max_flips": 4, "threat": Threat(costs=np.arange(14) % 3 + 1)}),
    "more classes, square loss": (blobs(14, 20), 5.0, {"max_flips": 3, "loss": "square"}),
}


@pytest.mark.parametrize("name", CASES)
def test_the_certificate_is_the_same(name: str, elsewhere: Any) -> None:
    arrays, C, options = CASES[name]
    here = certify(*arrays, C, engine="enumerate", **options)
    with elsewhere(launches=1) as pool:
        there = certify(*arrays, C, engine="enumerate", **options)
    assert pool.used
    same(here, there)
    assert here.exact
    assert [there.witness(t) is None for t in range(there.n_test)] == [
        here.witness(t) is None for t in range(here.n_test)
    ]


@pytest.mark.parametrize("name", ["all labellings", "groups", "three flips of many labels", "singular, three flips"])
def test_more_doubts_than_fit_are_not_lost(name: str, elsewhere: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """With an error bound so poor that everything is in doubt, and room for few doubts."""
    arrays, C, options = CASES[name]
    here = certify(*arrays, C, engine="enumerate", **options)
    monkeypatch.setattr(device_walks, "DOUBTS_AT_ONCE", 40)
    poor = device.source().replace("return select(better, by_gap, tau);", "return select(better, by_gap, tau) + 0.5;")
    assert poor != device.source()
    monkeypatch.setattr(device, "source", lambda: poor)
    with elsewhere(launches=1):
        there = certify(*arrays, C, engine="enumerate", **options)
    same(here, there)
    assert there.run.stages[0].statistics["doubtful_labellings"] > 40


def test_a_path_that_gets_lost_is_left_to_the_cpu(elsewhere: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """With room for one pivot, most children fail."""
    arrays, C, options = CASES["three flips of many labels"]
    here = certify(*arrays, C, engine="enumerate", **options)
    monkeypatch.setattr(device, "NOTES", 1)
    with elsewhere(launches=1):
        there = certify(*arrays, C, engine="enumerate", **options)
    same(here, there)
    assert there.run.stages[0].statistics["not_converged"] > 50


@pytest.mark.parametrize("name", ["all labellings", "three flips of many labels"])
def test_tableaus_outside_shared_memory(name: str, elsewhere: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    arrays, C, options = CASES[name]
    here = certify(*arrays, C, engine="enumerate", **options)
    monkeypatch.setattr(device_problems, "MOST_SHARED_LABELS", 0)
    monkeypatch.setattr(device_problems.Shapes, "shared_tableau", False)
    with elsewhere(launches=1):
        there = certify(*arrays, C, engine="enumerate", **options)
    same(here, there)


@pytest.mark.parametrize("combine", ["mean", "votes"])
def test_parts(combine: str, elsewhere: Any) -> None:
    K, labels, rows = gaussian(45, 12)
    options = {"parts": 5, "combine": combine, "max_flips": 8}
    here = certify_partition(K, labels, rows, 2.0, **options)
    with elsewhere() as pool:
        there = certify_partition(K, labels, rows, 2.0, **options)
    assert pool.used
    same(here, there)


def test_several_parts_in_one_launch(device: Any, elsewhere: Any) -> None:
    if not isinstance(device, EmulatedDevice):
        pytest.skip("a GPU does not count launches")
    K, labels, rows = gaussian(90, 12)
    with elsewhere():
        certify_partition(K, labels, rows, 2.0, parts=10, max_flips=8)
    assert device.launches.count("walk_cubes") < 10


@pytest.mark.parametrize("k", range(0, 200, 4))
def test_nasty_problems(k: int, elsewhere: Any) -> None:
    """Against brute force in rational arithmetic."""
    case = with_loss_in_turn(nasty_case(np.random.default_rng([11, k]), k, 8), k)
    with elsewhere():
        assert check(case) == []


def test_scores_that_are_linear_because_all_labels_are_at_their_cap(elsewhere: Any) -> None:
    K, labels, rows = gaussian(11, 9)
    here = certify(K, labels, rows, small_cap(K), engine="closed-form")
    with elsewhere():
        there = certify(K, labels, rows, small_cap(K), engine="enumerate")
    same(here, there)


def test_blocks_cover_all_families() -> None:
    counts = np.array([5, 0, 7, 100, 3, 3, 3])
    blocks = list(families.blocks_of(counts, 10))
    assert [k for block in blocks for k in range(block.start, block.stop)] == list(range(7))
    assert all(counts[block].sum() <= 10 or block.stop - block.start == 1 for block in blocks)
