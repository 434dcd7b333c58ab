"""What all baselines have in common, and votes that are counted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.helpers.problems import blobs, gaussian

import labelcert
from labelcert import InvalidInput, Threat, certify_baseline, certify_partition
from labelcert.baselines import BASELINES

OPTIONS: dict[str, dict[str, Any]] = {"partition-votes": {"parts": 5}}


@pytest.mark.parametrize("using", BASELINES)
@pytest.mark.parametrize("classes", [2, 3])
def test_certificates_have_lower_ends_alone(using: str, classes: int, tmp_path: Path) -> None:
    K, labels, rows = blobs(15, 10, classes=classes, seed=1)
    names = np.array(["ash", "oak", "yew"])[labels]
    cert = certify_baseline(K, names, rows, 0.1, using=using, max_flips=6, **OPTIONS.get(using, {}))
    engine = f"baseline:{using}"
    assert cert.engine == cert.run.engine_asked == engine
    assert set(cert.radius_proved_by[cert.radius_lower > 1]) <= {engine}
    assert cert.state == "lower bounds"
    assert not cert.run.finds_attacks
    tied = (cert.radius_lower == 0) & (cert.radius_upper == 0)  # proved: the clean votes are shared
    assert np.all(cert.radius_upper[~tied] == cert.never)
    assert np.all(cert.radius_lower <= cert.max_flips + 1)
    assert set(cert.predictions) <= set(names)
    within = [int((cert.radius_lower <= b).sum()) for b in range(7)]
    assert cert.collective_upper.tolist() == within
    assert np.all(cert.collective_lower == tied.sum())
    cert.save(tmp_path / "one.cert")
    assert np.array_equal(labelcert.load(tmp_path / "one.cert").radius_lower, cert.radius_lower)
    assert labelcert.verify(cert, K, names, rows).accepted


@pytest.mark.parametrize("using", BASELINES)
def test_the_same_question_has_the_same_answer(using: str) -> None:
    data = blobs(30, 10, classes=2, seed=1)
    one, two = (certify_baseline(*data, 0.1, using=using) for _ in range(2))
    assert np.array_equal(one.radius_lower, two.radius_lower)
    assert one.run.problem_sha256 == two.run.problem_sha256
    shorter = certify_baseline(*data, 0.1, using=using, max_flips=2)
    assert np.array_equal(shorter.radius_lower, np.minimum(one.radius_lower, 3))
    nothing = certify_baseline(*data, 0.1, using=using, max_flips=0)
    assert np.array_equal(nothing.radius_lower, np.minimum(one.radius_lower, 1))


@pytest.mark.parametrize("combine", ["votes", "mean"])
@pytest.mark.parametrize("classes", [2, 3])
def test_counted_votes_are_those_of_ensembles(classes: int, combine: str) -> None:
    for seed in range(3):
        K, labels, rows = blobs(18, 12, classes=classes, seed=seed)
        exact = certify_partition(K, labels, rows, 1.0, parts=6, seed=seed, combine=combine)
        cert = certify_baseline(K, labels, rows, 1.0, using="partition-votes", parts=6, seed=seed)
        assert exact.black_box_radius is not None
        assert np.array_equal(cert.radius_lower, exact.black_box_radius)
        if combine == "votes":
            assert np.all(cert.radius_lower <= exact.radius_lower)
            assert np.array_equal(cert.predictions, exact.predictions)
    assert cert.radius_lower.max() > 1


def test_another_seed_deals_out_other_parts() -> None:
    data = gaussian(20, 10)
    parts = [
        certify_baseline(*data, 1.0, using="partition-votes", parts=4, seed=seed).run.stages[0].statistics["part_of"]
        for seed in (0, 1)
    ]
    assert parts[0] != parts[1]


def test_bad_input() -> None:
    K, labels, rows = gaussian(8, 3)

    def refused(match: str, **given: Any) -> None:
        with pytest.raises(InvalidInput, match=match):
            certify_baseline(K, labels, rows, 1.0, **{"using": "sensitivity", **given})

    refused("did you mean 'smoothing'", using="smooting")
    refused("must name a baseline", using=3)
    refused("needs the loss 'square', got 'hinge'", using="smoothing", loss="hinge")
    refused("needs the loss 'hinge' or 'square'", loss="logistic")
    refused("takes noise, got 'nois'", using="smoothing", nois=0.1)
    refused("takes noise, got 'tight'", using="smoothing", tight=True)
    refused("takes per_label, got 'noise'", noise=0.1)
    refused("any label, at one unit each", threat=Threat(trusted=[True] + [False] * 7))
    refused("any label, at one unit each", threat=Threat(costs=[2] * 8))
    refused("max_flips must be a whole number between 0 and 8", max_flips=9)
    refused("parts must be a whole number between 1 and 8", using="partition-votes", parts=9)
    refused("seed must be a whole number", using="partition-votes", parts=2, seed=0.5)
    refused("time_limit must be a positive number", time_limit=-1)
    assert certify_baseline(K, labels, rows, 1.0, using="sensitivity", threat=Threat()).n_test == 3


def test_every_baseline_says_where_it_comes_from() -> None:
    for name, info in BASELINES.items():
        assert name == info.name
        assert info.description
        assert info.reference
