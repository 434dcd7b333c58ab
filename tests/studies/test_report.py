from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import labelcert
from labelcert import certification, svm
from labelcert._version import NUMERICS
from labelcert.certification import GraphCertifier
from labelcert.jobs import execution
from labelcert.jobs.store import RecordStatus
from labelcert.models import Model, recipe
from labelcert.paper import published_code
from labelcert.paper.paper_reports import _attack_panels
from labelcert.studies import Store, StudyPlan, expand, parse_study, run_plan
from labelcert.studies.report import Sheet, StudyReport, _with_imitated, make_report

STUDY = """
report = "attack"
seeds = [0, 1]
flips = [1]
certificates = ["accuracy", "collective"]
[[datasets]]
name = "karate"
[[models]]
name = "gcn"
label = "GCN"
C = 0.001
[[models]]
name = "sgc"
C = 0.001
"""
ATTACK = {"labels": [0], "changed": [1, 2, 3]}


@pytest.fixture
def plan() -> StudyPlan:
    return expand(parse_study(STUDY, name="attacked"))


def result(**attack: Any) -> dict[str, Any]:
    counts = {"survive": [20, 10], "correct": [18, 9], "changed": [0, 10]}
    bounds = {f"{name}_{end}": values for name, values in counts.items() for end in ("lower", "upper")}
    about = {"C": 0.001, "engine": "e", "exact": True, "stopped": "finished", "problem_sha256": "", "kernel_shift": 0.0}
    return {"n_test": 20, "labels": 10, "max_flips": 1, "correct": 18, **about, **bounds, **attack}


def reported(plan: StudyPlan, folder: Path, *results: dict[str, Any]) -> tuple[StudyReport, Store]:
    """The report on hand-written records of the first cells."""
    with Store(folder, write=True) as store:
        for key, each in zip(plan.keys, results, strict=False):
            run = {"seconds": 0.0, "finished": "", "versions": {"labelcert": "0"}, "numerics": NUMERICS}
            store.append({"cell": key, "status": RecordStatus.DONE, "about": {}, "result": each, "run": run})
        return make_report(plan, store, folder / "out", pictures=False), store


def test_the_attack_is_read_from_the_records(plan: StudyPlan, tmp_path: Path) -> None:
    report, store = reported(plan, tmp_path, result(correct_after=[18, 8], attack=ATTACK))
    assert report.sheets[0].rows[0] == ("GCN", "0", "90.0", "40.0", "50.0", "3 of 20")
    assert report.sheets[0].rows[1:] == tuple((m, s, *4 * "–") for m, s in (("sgc", "0"), ("GCN", "1"), ("sgc", "1")))
    assert report.counts.startswith("1 of 1 cells equal")
    [panel] = _attack_panels(plan, store)
    assert panel.title == "GCN\n1 flip: 3 of 26 predictions change"
    assert (panel.graph.name, panel.flipped.tolist(), panel.changed.tolist()) == ("karate", [0], [1, 2, 3])
    assert panel.labeled.size + 26 == panel.graph.n_nodes
    assert pd.read_csv(tmp_path / "out" / "comparison.csv")["verdict"].tolist() == ["equal"]


def test_published_kernels_stand_beside_exact_ones(plan: StudyPlan, tmp_path: Path) -> None:
    exact, store = reported(plan, tmp_path, result(correct_after=[18, 8], attack=ATTACK))
    own = Sheet("A: ratio in % / paper", ("model", "ε"), (("GCN", "50.0 / 51.0 (-1.0)"), ("SGC", "–")))
    other = Sheet("A: ratio in % / paper", ("model", "ε"), (("GCN", "51.0 / 51.0 ="), ("SGC", "–")))
    both = _with_imitated(own, other)
    assert both.rows == (("GCN", "50.0 (51.0 / 51.0 =)"), ("SGC", "–"))
    assert both.title == "A: ratio in %: exact kernels (published kernels / paper)"
    assert _with_imitated(own, own).rows[1] == own.rows[1]
    beside = make_report(plan, store, imitated=exact)
    assert beside.counts == exact.counts
    assert "published code" in beside.notes[-1]


def test_panels_show_one_graph_and_one_set_of_labels(plan: StudyPlan, tmp_path: Path) -> None:
    attacked = [result(correct_after=[18, 8], attack=ATTACK)] * 4
    _, store = reported(plan, tmp_path, *attacked)
    assert [panel.title.splitlines()[0] for panel in _attack_panels(plan, store)] == ["GCN", "sgc"]


def test_without_flips_there_is_no_attack(plan: StudyPlan, tmp_path: Path) -> None:
    report, store = reported(plan, tmp_path, result(correct_after=[18], attack=None))
    assert report.sheets[0].rows[0] == ("GCN", "0", "90.0", *3 * "–")
    assert not _attack_panels(plan, store)


def test_verdicts_are_text_in_parquet_too(plan: StudyPlan, tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    reported(plan, tmp_path, result())
    assert pd.read_parquet(tmp_path / "out" / "comparison.parquet")["verdict"].tolist() == ["no result"]


def test_a_report_never_trains(plan: StudyPlan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Store(tmp_path, write=True) as store:
        run_plan(plan, store, workers=1)
        [record] = [store.records[key] for key in plan.keys[:1]]
        assert len(record["result"]["correct_after"]) == 2
        assert len(record["result"]["attack"]["changed"]) == record["result"]["changed_lower"][1]

        def refuse(*_: Any, **__: Any) -> None:
            raise AssertionError("a report trained or certified")

        for place, name in (
            (labelcert, "certify"),
            (certification, "certify"),
            (certification, "solve"),
            (recipe, "certify"),
            (execution, "run_job"),
            (published_code, "certify"),
            (published_code, "train"),
            (svm, "train"),
            (GraphCertifier, "__init__"),
            (Model, "kernel_blocks"),
            (Model, "kernel"),
        ):
            monkeypatch.setattr(place, name, refuse)
        report = make_report(plan, store, tmp_path / "out")
    assert report.counts.startswith("1 of 1 cells equal")
    assert {"graph.png", "picture.svg", "table.md", "comparison.csv"} <= {path.name for path in report.files}
