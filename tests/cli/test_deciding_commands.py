"""``labelcert recheck`` and ``labelcert harden``."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
from tests.helpers.command_line import Call

import labelcert


def test_recheck(call: Call, tmp_path: Path) -> None:
    code, shown, _ = call("recheck", "karate", "--model", "sgc", "--flips", "1", "--confirm", "2", "--out", "o.csv")
    assert code == 0
    assert "labels to confirm, all 26 unlabelled nodes" in shown
    assert "no other choice of labels at this price secures more" in shown
    frame = pd.read_csv(tmp_path / "o.csv")
    assert len(frame) == 2
    code, printed, _ = call("recheck", "karate", "--model", "sgc", "--flips", "1", "--verify", "2", "--json")
    answer = json.loads(printed)
    assert answer["optimal"] is True
    graph = labelcert.load_dataset("karate")
    split = labelcert.published_split(graph, seed=0)
    model = labelcert.SGC(C=0.001)
    advice = model.recheck(graph, split.labeled, split.pool, flips=1, verify=2)
    assert [row["confirm"] for row in answer["labels"]] == advice.names == frame["confirm"].astype(str).tolist()


def test_recheck_with_costs_and_until(call: Call) -> None:
    Path("effort.csv").write_text("node,cost\n2,5\n15,5\n")
    asked = ("recheck", "karate", "--model", "sgc", "--flips", "1", "--objective", "collective", "--json")
    _, printed, _ = call(*asked, "--confirm", "4", "--confirm-costs", "effort.csv")
    assert not {row["confirm"] for row in json.loads(printed)["labels"]} & {"2", "15"}
    _, printed, _ = call(*asked, "--until", "0.95")
    assert json.loads(printed)["labels"][-1]["after"] >= 0.95
    for wrong, message in (
        (("--verify", "1", "--until", "0.5"), "one of these"),
        (("--verify", "1", "--out", "o.txt"), "must name a file that ends in .csv"),
        (("--confirm", "-1"), "--confirm must be a whole number"),
    ):
        code, _, said = call(*asked, *wrong)
        assert (code, message in said) == (2, True), said


def test_harden(call: Call, tmp_path: Path) -> None:
    asked = (
        "harden",
        "karate",
        "--flips",
        "1",
        "--model",
        "gcn",
        "--model",
        "sgc",
        "--loss",
        "hinge",
        "--workers",
        "1",
    )
    code, shown, said = call(*asked, "--out", "o")
    assert code == 0, said
    assert "train this" in shown
    assert "They were chosen with the labels" in shown
    command = next(line for line in shown.splitlines() if line.startswith("certify it:")).split()[2:]
    assert command[:3] == ["labelcert", "certify", "karate"]
    code, printed, _ = call(*command[1:], "--json", "--no-pictures", "--beside", "none")
    assert code == 0
    [cert] = json.loads(printed)["results"][0]["certificates"]
    kept = labelcert.load(tmp_path / "o" / "hardened.cert")
    assert cert["budgets"][1]["ratio_lower"] == kept.certified_ratio(flips=1)
    assert {"models.csv", "hardened.png", "hardened.svg", "results.jsonl"} <= {
        p.name for p in (tmp_path / "o").iterdir()
    }
    code, printed, _ = call(*asked, "--out", "o", "--json")
    answer = json.loads(printed)
    assert answer["chosen"]["certified_lower"] >= answer["default"]["certified_lower"]
    code, _, said = call("harden", "karate", "--flips", "99")
    assert (code, "--flips must be a whole number" in said) == (2, True)
