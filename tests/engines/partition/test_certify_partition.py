"""Everything about ensembles that brute force does not say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.helpers.certificates import contains, same, same_witnesses
from tests.helpers.pools import PicklingPool
from tests.helpers.problems import blobs, gaussian

from labelcert import Certificate, Threat, certify, certify_partition, load, verify
from labelcert.engines.freezing import Names
from labelcert.engines.partition import engine, ensemble, part_tables
from labelcert.engines.partition.parts import assign
from labelcert.engines.pools import chunks_walked_by
from labelcert.errors import InvalidInput, WorkTooLarge

COMBINATIONS = ("votes", "mean")


def black_box(cert: Certificate) -> list[int]:
    assert cert.black_box_radius is not None
    return cert.black_box_radius.tolist()


def test_parts_are_even_stable_and_blind_to_labels() -> None:
    names = [f"node {i}" for i in range(100)]
    parts = assign(names, 7, seed=3)
    assert set(np.bincount(parts).tolist()) == {14, 15}
    order = np.random.default_rng(0).permutation(100)
    assert np.array_equal(assign([names[i] for i in order], 7, seed=3), parts[order])
    assert not np.array_equal(assign(names, 7, seed=4), parts)
    assert assign(["a", "b", "c", "d"], 2, seed=0).tolist() == [1, 0, 0, 1]  # the same in every version

    K, labels, rows = gaussian(12, 4)
    found = [
        certify_partition(K, y, rows, 1.0, parts=3, workers=1).run.stages[0].statistics["part_of"]
        for y in (labels, 1 - labels, np.arange(12) % 2)
    ]
    assert found[0] == found[1] == found[2]


def test_names_decide_not_the_order_of_labels() -> None:
    K, labels, rows = gaussian(10, 5, seed=2)
    order = np.random.default_rng(1).permutation(10)
    names = np.array([f"node {i}" for i in range(10)])
    one = certify_partition(K, labels, rows, 1.0, parts=3, workers=1, names=Names(labels=names))
    two = certify_partition(
        K[np.ix_(order, order)],
        labels[order],
        rows[:, order],
        1.0,
        parts=3,
        workers=1,
        names=Names(labels=names[order]),
    )
    same(one, two)


@pytest.mark.parametrize("combine", COMBINATIONS)
def test_one_part_is_the_model_itself(combine: str) -> None:
    arrays = gaussian(9, 6, seed=1)
    whole = certify(*arrays, 1.0, workers=1)
    cert = certify_partition(*arrays, 1.0, parts=1, combine=combine, workers=1)
    assert np.array_equal(cert.predictions, whole.predictions)
    assert np.array_equal(cert.radius_lower, whole.radius_lower)
    assert np.array_equal(cert.radius_upper, whole.radius_upper)
    contains(cert, whole)


def test_the_black_box_bound_is_never_better_than_the_votes() -> None:
    for seed in range(3):
        cert = certify_partition(*gaussian(15, 8, seed=seed), 1.0, parts=5, combine="votes", workers=1)
        assert np.all(np.minimum(black_box(cert), cert.max_flips + 1) <= cert.radius_lower)
        assert np.any(np.array(black_box(cert)) > 0)


def test_the_black_box_bound_counts_votes() -> None:
    # Each label is a part of its own: radii are numbers of votes.
    cert = certify_partition(np.eye(5), [0, 0, 0, 0, 1], np.ones((1, 5)), 1.0, parts=5, combine="votes", workers=1)
    assert black_box(cert) == [2]
    assert cert.radius_lower.tolist() == cert.radius_upper.tolist() == [2]
    trusted = Threat(trusted=[True, True, True, False, False])
    cert = certify_partition(
        np.eye(5), [0, 0, 0, 0, 1], np.ones((1, 5)), 1.0, parts=5, combine="votes", workers=1, threat=trusted
    )
    assert black_box(cert) == [6]
    assert cert.radius_lower.tolist() == [6]


def test_parts_of_one_class_and_fewer_labels_than_classes() -> None:
    K, labels, rows = gaussian(6, 4)
    cert = certify_partition(K, labels, rows, 1.0, parts=6, combine="votes", workers=1)
    assert cert.run.stages[0].statistics["largest_part"] == 1
    K, labels, rows = blobs(6, 4, classes=4)
    certify_partition(K, labels, rows, 1.0, parts=3, max_flips=2, workers=1)


@pytest.mark.parametrize("combine", COMBINATIONS)
@pytest.mark.parametrize("arrays", [gaussian(9, 5), blobs(9, 4, classes=3)], ids=["two", "three"])
def test_groups_too_large_to_follow_give_intervals(combine: str, arrays: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    options: dict[str, Any] = {
        "parts": 3,
        "combine": combine,
        "max_flips": 3,
        "threat": Threat(groups=[i % 2 for i in range(9)], group_budgets=1),
        "workers": 1,
    }
    full = certify_partition(*arrays, 1.0, **options)
    monkeypatch.setattr(engine, "GROUP_SECONDS", 0.0)
    part = certify_partition(*arrays, 1.0, **options)
    assert part.run.stages[0].statistics["groups_relaxed"] == 2
    assert np.all(part.radius_lower <= full.radius_lower)
    assert np.all(part.radius_upper >= full.radius_upper)


@pytest.mark.parametrize("combine", COMBINATIONS)
@pytest.mark.parametrize("arrays", [gaussian(12, 5), blobs(9, 4, classes=3)], ids=["two", "three"])
def test_blocks_and_pools_change_nothing(combine: str, arrays: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    options: dict[str, Any] = {"parts": 3, "combine": combine, "max_flips": 3, "workers": 1}
    here = certify_partition(*arrays, 1.0, **options)
    monkeypatch.setattr(engine, "CELLS", 1)
    same(here, certify_partition(*arrays, 1.0, **options))
    pool = PicklingPool(batch=1)
    with chunks_walked_by(pool):
        there = certify_partition(*arrays, 1.0, **options)
    assert pool.batches
    same(here, there)
    same_witnesses(here, there)


@pytest.mark.usefixtures("_on_the_cpu")
def test_votes_look_at_few_flips_first(monkeypatch: pytest.MonkeyPatch) -> None:
    arrays = gaussian(16, 8, seed=3)
    once = certify_partition(*arrays, 1.0, parts=2, combine="votes", workers=1)
    monkeypatch.setattr(part_tables, "FIRST_DEPTHS", (1, 2, 3))
    monkeypatch.setattr(part_tables, "SPARES", 0)
    step_by_step = certify_partition(*arrays, 1.0, parts=2, combine="votes", workers=1)
    assert np.array_equal(once.radius_lower, step_by_step.radius_lower)
    assert np.array_equal(once.radius_upper, step_by_step.radius_upper)
    trainings = [cert.run.stages[0].statistics["trainings"] for cert in (once, step_by_step)]
    assert trainings[0] != trainings[1]


def test_a_time_limit_gives_intervals() -> None:
    K, labels, rows = gaussian(60, 5)
    cert = certify_partition(K, labels, rows, 1.0, parts=2, time_limit=1.0, workers=1)
    assert not cert.exact
    assert cert.run.stopped == "time limit"
    assert np.all(cert.radius_lower[cert.radius_upper > 0] >= 1)


def test_work_that_is_too_large_says_what_would_fit() -> None:
    with pytest.raises(WorkTooLarge, match=r"2 parts of up to 60 labels.*part_flips=\d"):
        certify_partition(*gaussian(120, 2), 1.0, parts=2, workers=1)


def test_saving_and_loading(tmp_path: Path) -> None:
    cert = certify_partition(*gaussian(8, 4), 1.0, parts=2, workers=1)
    cert.save(tmp_path / "ensemble.cert", problem=True)
    again = load(tmp_path / "ensemble.cert")
    same(cert, again)
    same_witnesses(cert, again)
    assert black_box(again) == black_box(cert)
    assert again.engine == "partition (mean scores)"
    assert again.to_frame()["black_box_radius"].tolist() == black_box(cert)
    assert certify(*gaussian(8, 4), 1.0, workers=1).black_box_radius is None
    assert verify(again).complete
    assert verify(certify_partition(*gaussian(8, 4), 1.0, parts=2, combine="votes", workers=1)).complete


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"parts": 0}, "parts must be a whole number between 1 and 6"),
        ({"parts": 7}, "parts must be a whole number between 1 and 6"),
        ({"parts": 2.0}, "parts must be a whole number"),
        ({"parts": 2, "combine": "median"}, "combine must be one of 'mean', 'votes'"),
        ({"parts": 2, "seed": "a"}, "seed must be a whole number"),
        ({"parts": 2, "part_flips": -1}, "part_flips must be a whole number of at least 0"),
        ({"parts": 2, "max_flips": 9}, "max_flips must be a whole number between 0 and 6"),
        ({"parts": 2, "max_flips": 2, "max_fraction": 0.5}, "not both"),
        ({"parts": 2, "loss": "log"}, "loss must be one of"),
    ],
)
def test_bad_input(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        certify_partition(*gaussian(6, 2), 1.0, **options)


def test_a_budget_as_a_fraction() -> None:
    cert = certify_partition(*gaussian(6, 2), 1.0, parts=2, max_fraction=0.5, workers=1)
    assert cert.max_flips == 3


def test_an_indefinite_part_is_refused() -> None:
    with pytest.raises(InvalidInput, match="positive semidefinite"):
        certify_partition([[0.0, 1.0], [1.0, 0.0]], [0, 1], [[1.0, 1.0]], 1.0, parts=1)
    # Only the kernel inside parts matters.
    cert = certify_partition([[1.0, 3.0], [3.0, 1.0]], [0, 1], [[1.0, 2.0]], 1.0, parts=2, workers=1)
    assert cert.predictions.tolist() == [1]


def test_exact_arithmetic_ends_with_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where float64 decides nothing, what is left when the time is over stays undecided."""
    how: dict[str, Any] = {"parts": 2, "combine": "mean", "loss": "logistic", "max_flips": 1, "workers": 1}
    arrays = blobs(9, 6)
    whole = certify_partition(*arrays, 1.0, **how)
    honest, asked = ensemble.MeanScores._exactly, list[int]()

    def counted(self: Any, codes: Any, t: int, c: int, r: int) -> int | None:
        asked.append(t)
        return honest(self, codes, t, c, r)

    monkeypatch.setattr(ensemble, "sum_error", lambda magnitude, terms: np.full_like(magnitude, np.inf))
    monkeypatch.setattr(ensemble.MeanScores, "_exactly", counted)
    monkeypatch.setattr(ensemble, "is_over", lambda: len(asked) >= 3)
    contains(certify_partition(*arrays, 1.0, **how), whole)
    assert len(asked) == 3
