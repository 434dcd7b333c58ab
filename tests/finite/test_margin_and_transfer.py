"""How far networks stray, and what they do with certified predictions."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import labelcert
from labelcert import GCN, InvalidInput, Linear, finite_margin
from labelcert.finite.transfer import transfer
from labelcert.finite.twins import Twins
from labelcert.graphs import karate
from labelcert.studies import Store, expand, run_plan
from labelcert.studies.report import make_report
from labelcert.studies.study_files import parse_study

LABELED = [0, 1, 2, 3, 7, 13, 23, 29, 30, 31, 32, 33]
TEST = np.setdiff1d(np.arange(34), LABELED)
MODEL = GCN(C=0.5)


@pytest.fixture(autouse=True)
def _torch() -> None:
    pytest.importorskip("torch", reason="networks of finite width need PyTorch (make test-torch)")


def test_the_tangent_kernel_at_the_start_nears_that_of_the_model() -> None:
    exact = MODEL.kernel_blocks(karate(), LABELED, TEST)
    off = [
        max(
            float(np.abs(one - other).max() / np.abs(other).max())
            for one, other in zip(
                MODEL.network(width, 0, device="cpu").tangent_kernel(karate(), LABELED, TEST), exact, strict=True
            )
        )
        for width in (16, 4096)
    ]
    assert off[1] < min(0.1, off[0] / 2)


def test_margins_cover_other_networks_and_shrink_with_the_width() -> None:
    graph = karate()
    found = {w: finite_margin(MODEL, graph, w, LABELED, TEST, networks=9, flips=0, device="cpu") for w in (32, 512)}
    pair = Twins(MODEL, graph, LABELED, TEST, device="cpu")
    clean = pair.machine(pair.labels[None])[0]
    covered = [np.abs(pair.network(pair.labels[None], 32, k)[0] - clean) <= found[32].margins for k in range(8)]
    assert np.mean(covered) > 0.9
    assert np.median(found[512].margins) < 0.5 * np.median(found[32].margins)
    assert found[32].confidence == 0.9
    assert "cover 95 % of 22 nodes with 90 % confidence, 9 networks" in repr(found[32])


def test_flips_widen_margins_and_seeds_repeat() -> None:
    how = {"networks": 4, "device": "cpu"}
    clean = finite_margin(MODEL, karate(), 32, LABELED, TEST, flips=0, **how)
    wrong = finite_margin(MODEL, karate(), 32, LABELED, TEST, flips=2, **how)
    assert (wrong.deviations >= clean.deviations - 5e-3).all()
    again = finite_margin(MODEL, karate(), 32, LABELED, TEST, flips=2, **how)
    np.testing.assert_allclose(again.margins, wrong.margins, rtol=1e-3)


def test_a_linear_model_needs_next_to_no_margin() -> None:
    found = finite_margin(Linear(C=0.5), karate(), 8, LABELED, TEST, networks=3, device="cpu")
    assert found.margins.max() < 0.05


def test_more_classes_have_margins_of_their_lead() -> None:
    rng = np.random.default_rng(1)
    truth = np.arange(36) % 3
    graph = labelcert.Graph(np.zeros((36, 36)), 2 * np.eye(3)[truth] + 0.4 * rng.normal(size=(36, 3)), truth)
    model = labelcert.MLP(C=1.0)
    found = finite_margin(model, graph, 64, np.arange(12), np.arange(12, 36), networks=4, device="cpu")
    plain = model.certify(graph, np.arange(12), np.arange(12, 36), max_flips=1)
    cert = model.certify(graph, np.arange(12), np.arange(12, 36), max_flips=1, margin=found)
    assert "cover 95 % of 24 nodes" in cert.run.margin_from
    assert (cert.radius_lower <= plain.radius_lower).all()
    assert cert.run.margin == tuple(found.margins.tolist())


def test_scores_that_are_all_alike_have_no_correlation() -> None:
    pair = Twins(Linear(C=0.5), karate(), LABELED, TEST[:1], device="cpu")
    assert transfer(pair, 4, networks=1, margin_networks=2, practical=False).recipes["theory"].correlation == 0.0


def test_what_networks_do_is_counted() -> None:
    pair = Twins(MODEL, karate(), LABELED, TEST, device="cpu", validation=[5, 29])
    found = transfer(pair, 64, networks=2, margin_networks=4, workers=1)
    counts = found.recipes["theory"]
    plain = labelcert.certify(pair.kernels[0], pair.labels, pair.kernels[1], 0.5, max_flips=1)
    assert counts.nodes == 2 * len(TEST)
    assert counts.certified == 2 * (plain.radius_lower > 1).sum()
    assert counts.certified_with_margin == 2 * (found.certificate.radius_lower > 1).sum() <= counts.certified
    assert counts.violated_with_margin <= counts.violated <= counts.certified
    assert 0 < counts.changed <= counts.attacked
    assert set(found.recipes) == {"theory", "practice"}
    # Broken as counted by hand, for one network.
    flips = np.concatenate([pair.labels[None], pair.single_flips(np.random.default_rng(0))])
    hand = 0
    for k in range(2):
        changed = (pair.leads(pair.network(flips, 64, k)) <= 0).any(axis=0)
        hand += int((changed & (plain.radius_lower > 1)).sum())
    assert counts.violated == hand


STUDY = """
title = "Karate"
flips = [1]
seeds = [0]
report = "transfer"
certificates = ["ratio"]
[[datasets]]
name = "karate"
[[models]]
name = "gcn"
label = "GCN"
C = 0.5
width = [16, 64]
"""


def test_a_study_of_networks(tmp_path: Path) -> None:
    plan = expand(parse_study(STUDY, name="nets"))
    with Store(tmp_path, write=True) as store:
        assert run_plan(plan, store, workers=1).failed == 0
        report = make_report(plan, store, tmp_path / "nets")
    with Store(tmp_path, write=True) as store:
        assert run_plan(plan, store, workers=1).computed == 0
        assert make_report(plan, store).sheets == report.sheets
    theory, practice = report.sheets
    assert [row[:2] for row in theory.rows] == [("GCN", "16"), ("GCN", "64")]
    assert "as practitioners do" in practice.title
    assert (tmp_path / "nets" / "picture.png").stat().st_size > 10_000


def test_what_studies_and_margins_refuse() -> None:
    with pytest.raises(InvalidInput, match="single models with the hinge loss"):
        expand(parse_study(STUDY.replace("C = 0.5", 'C = 0.5\nloss = "square"'), name="nets"))
    with pytest.raises(InvalidInput, match="leave out parts, verify, search, using"):
        expand(parse_study(STUDY.replace("C = 0.5", 'C = 0.5\nusing = "attack:greedy"'), name="nets"))
    with pytest.raises(InvalidInput, match="'ratio' or 'accuracy'"):
        expand(parse_study(STUDY.replace('["ratio"]', '["collective"]'), name="nets"))
    with pytest.raises(InvalidInput, match="belongs to no network"):
        expand(parse_study(STUDY.replace('"gcn"', '"rbf"'), name="nets"))
    with pytest.raises(InvalidInput, match="networks must be"):
        finite_margin(MODEL, karate(), 8, LABELED, TEST, networks=1)
    with pytest.raises(InvalidInput, match="quantile must lie between 0 and 1"):
        finite_margin(MODEL, karate(), 8, LABELED, TEST, quantile=1.5)
    with pytest.raises(InvalidInput, match="flips must be"):
        finite_margin(MODEL, karate(), 8, LABELED, TEST, flips=13)
