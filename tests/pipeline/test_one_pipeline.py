"""Models, the command line and studies take one way from a graph to a certificate."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest

from labelcert.cli import main
from labelcert.graphs import karate
from labelcert.models import GCN
from labelcert.pipeline import Targets, certify_targets, choose_model, choose_split, choose_targets, model_options
from labelcert.pipeline.settings import known_rule, known_setting
from labelcert.studies import Store, expand, parse_study, run_plan
from labelcert.text import per_cent

STUDY = """
seeds = [0]
flips = [1, 8]
certificates = ["collective", "accuracy"]
[[datasets]]
name = "karate"
[[models]]
name = "gcn"
C = 0.001
"""


def test_model_command_line_and_study_agree(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    graph = karate()
    split = choose_split(graph)
    truth = graph.labels[split.pool]
    cert = GCN(C=0.001).certify(graph, split.labeled, split.pool)
    assert set(cert.predictions.tolist()) == {"Mr. Hi", "Officer"}

    monkeypatch.setattr(sys, "argv", ["labelcert", "certify", "karate", "--C", "0.001", "--json"])
    with pytest.raises(SystemExit):
        main()
    answer = json.loads(capsys.readouterr().out)
    [printed] = answer["results"][0]["certificates"]
    assert cert.test_names is not None
    assert cert.label_names is not None
    assert [row["node"] for row in printed["nodes"]] == cert.test_names.tolist()
    assert [row["node"] for row in answer["labeled"]] == cert.label_names.tolist()
    assert [row["label"] for row in answer["labeled"]] == cert.labels.tolist()
    assert [row["prediction"] for row in printed["nodes"]] == cert.predictions.tolist()
    assert [row["runner_up"] for row in printed["nodes"]] == cert.runners_up().tolist()
    assert [row["radius_lower"] for row in printed["nodes"]] == cert.radius_lower.tolist()
    for t, row in enumerate(printed["nodes"]):
        witness = cert.witness(t)
        assert witness is not None
        assert row["flips"] == {cert.label_names[i]: label for i, label in witness.items()}
    assert printed["settings"]["problem_sha256"] == cert.run.problem_sha256

    plan = expand(parse_study(STUDY, name="one"))
    with Store(tmp_path / "out", write=True) as store:
        run_plan(plan, store, workers=1)
    [record] = store.records.values()
    result = record["result"]
    assert result["problem_sha256"] == cert.run.problem_sha256
    assert result["changed_lower"] == [row["changed_lower"] for row in printed["budgets"]]
    assert result["changed_lower"] == cert.collective_lower.tolist()
    accuracy = [cert.certified_accuracy(truth, flips=b) for b in range(9)]
    assert [count / cert.n_test for count in result["correct_lower"]] == accuracy
    assert [row["accuracy_lower"] for row in printed["budgets"]] == accuracy
    flipped = [graph.names([node])[0] for node in result["attack"]["labels"]]
    assert flipped == list(printed["budgets"][1]["attack"])
    assert result["attack"]["changed"] == split.pool[cert.collective_changed(1)].tolist()


def test_certified_rows_speak_of_the_graph() -> None:
    graph = karate()
    split = choose_split(graph)
    choice = choose_model("gcn", graph, split.labeled)
    [certified] = certify_targets(choice, graph, split.labeled, choose_targets(graph, split))
    cert = certified.certificate
    assert certified.correct is not None
    assert certified.correct.mean() == cert.certified_accuracy(graph.labels[split.pool], flips=0)
    panel = certified.attack_panel(1)
    assert panel.flipped.size == 1
    assert set(panel.flipped) <= set(split.labeled)
    assert panel.changed.size == cert.collective_lower[1] == 14
    assert np.array_equal(panel.changed, split.pool[cert.collective_changed(1)])
    after = np.mean(certified.correct & ~cert.collective_changed(1))
    assert 0.45 < after < 0.47
    assert f"still correct {per_cent(float(after))} %" in panel.title
    assert certified.describe()["classes"] == ["Mr. Hi", "Officer"]


def test_choices_before_a_certificate() -> None:
    graph = karate()
    assert choose_split(graph, labeled=[0, 33]).labeled.tolist() == [0, 33]
    split = choose_split(graph)
    assert len(split.labeled) == 8
    assert [targets.title for targets in choose_targets(graph, split)] == ["all 26 unlabelled nodes"]
    assert choose_targets(graph, split, test=split.pool[:2])[0].title == "2 chosen nodes"
    assert Targets("collective", np.arange(3)).title == "the 3 nodes of the paper's collective test"
    assert getattr(choose_model("gcn", graph, [0, 1, 32, 33], C=0.5, depth=2).model, "depth", None) == 2
    given = {"alpha": 0.2, "depth": 1}
    assert model_options(["gcn", "appnp"], given) == [{"depth": 1}, given]


def test_known_settings() -> None:
    usual, deep = known_setting("cora-ml-b", "gcn"), known_setting("cora-ml-b", "gcn", {"depth": 4})
    assert usual is not None
    assert deep is not None
    assert (usual.C, deep.C) == (0.075, 0.1)
    assert known_setting("cora-ml-b", "gcn", {"depth": 3}) is None
    assert (known_rule("csbm"), known_rule("cora-ml-b")) == ("smallest", "best")
