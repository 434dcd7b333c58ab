"""Worst values of metrics in studies."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

import labelcert
from labelcert.certification import GraphCertifier
from labelcert.errors import InvalidInput
from labelcert.jobs.records import read_record
from labelcert.jobs.runner import in_process
from labelcert.studies import Store, expand, parse_study, run_plan
from labelcert.studies.report import make_report
from labelcert.studies.tidy_tables import tidy

STUDY = """
seeds = [0]
flips = [0, 1, 2, 3]
certificates = ["collective"]
metrics = ["accuracy", { name = "recall", positive = "Mr. Hi" }, "false_positive_rate"]

[[datasets]]
name = "karate"

[[models]]
name = "gcn"
C = 0.1
max_flips = 2

[[models]]
name = "gcn"
C = 0.1
max_flips = 2
parts = 2

[[models]]
name = "gcn"
C = 0.1
max_flips = 2
using = "sensitivity"
"""


def test_a_study_has_worst_values(tmp_path: Path) -> None:
    plan = expand(parse_study(STUDY, name="worst"))
    [job] = plan.jobs
    assert len(job.cells) == 3  # the certificate that is there anyway
    with Store(tmp_path / "store", write=True) as store:
        outcome = run_plan(plan, store, backend=in_process)
        report = make_report(plan, store, tmp_path / "report", pictures=False, page=True)
        frame = tidy(plan, store)
        records = dict(store.records)
    assert (outcome.computed, outcome.failed) == (3, 0)
    certifier, test = GraphCertifier(job.model, job.graph, job.labeled, [job.cells[0].test]), job.cells[0].test
    metrics = [labelcert.Metric("recall", positive="Mr. Hi"), labelcert.Metric("false_positive_rate")]
    cert = certifier.certify(test, C=0.1, max_flips=2, metrics=["accuracy", *metrics])
    asked = ("lowest accuracy", "lowest recall (Mr. Hi)", "highest false positive rate")
    first = frame[frame["model"] == plan.places[0].model]
    for name, worst in zip(asked, cert.worst_cases, strict=True):
        rows = first[first["certificate"] == name]
        assert worst.exact
        assert rows["lower"].tolist()[:3] == rows["upper"].tolist()[:3] == worst.lower.tolist()
        assert rows["exact"].tolist() == [True, True, True, False]
        assert rows[["lower", "upper"]].to_numpy()[3].tolist() == (
            [worst.lower[2], 1.0] if worst.highest else [0.0, worst.upper[2]]
        )
        for _, others in frame[frame["certificate"] == name].groupby("model"):
            assert np.all(others["lower"] <= others["upper"])
    assert frame["metric"].unique().tolist() == ["", "accuracy", "recall", "false_positive_rate"]
    titles = [sheet.title for sheet in report.sheets]
    assert titles[1:] == [f"karate: {name} in %" for name in asked]
    assert report.sheets[2].rows[0][1] == cert.worst_cases[1].text(0).removesuffix(" %")
    assert "lowest recall (Mr. Hi)" in (tmp_path / "report" / "report.html").read_text(encoding="utf-8")
    record = next(iter(records.values()))
    assert read_record(record) == record
    record["result"]["worst"][0]["lower"][0] = math.inf
    assert read_record(record) is None


def test_studies_without_metrics_keep_their_names() -> None:
    with_some, without = (expand(parse_study(text, name="worst")) for text in (STUDY, "".join(_plain(STUDY))))
    assert not set(with_some.keys) & set(without.keys)
    assert all("metrics" not in cell.about for job in without.jobs for cell in job.cells)


def _plain(text: str) -> list[str]:
    return [line for line in text.splitlines(keepends=True) if not line.startswith("metrics")]


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('"accuracy"', '"f2"', "accuracy"),
        ('"Mr. Hi"', '"nobody"', "positive must be one of the classes"),
        ('"accuracy"', '{ name = "accuracy", positive = "Mr. Hi" }', "no positive class"),
        ('["collective"]', '["lowest"]', "under the key `metrics`"),
        ("max_flips = 2", "max_flips = 2\nwidth = 64", "have margins"),
        ("seeds = [0]", 'seeds = [0]\nreport = "gaps"', "report = 'certified'"),
        ('"accuracy"', '"accuracy", "accuracy"', "twice"),
    ],
)
def test_what_is_refused(old: str, new: str, words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        expand(parse_study(STUDY.replace(old, new, 1), name="worst"))
