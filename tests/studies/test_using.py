"""Models of studies that baselines certify."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from labelcert import certify_baseline
from labelcert.certification import GraphCertifier
from labelcert.errors import InvalidInput
from labelcert.jobs.cells import UsingCell
from labelcert.jobs.dask_backend import labellings
from labelcert.jobs.runner import in_process
from labelcert.studies import Store, expand, parse_study, run_plan
from labelcert.studies.report import make_report
from labelcert.studies.study_files import find_study

STUDY = """
title = "Baselines"
seeds = [0]
flips = [0, 1, 2]
certificates = ["accuracy"]
collective = false
times = true

[[datasets]]
name = "csbm"
parameters = { n = 60 }
per_class = 8

[[models]]
name = "gcn"
C = 0.01
loss = "square"

[[models]]
name = "gcn"
C = 0.01
loss = "square"
using = "smoothing"
using_options = { noise = 0.05 }

[[models]]
name = "gcn"
C = 0.01
using = "partition-votes"
parts = 4

[[models]]
name = "gcn"
C = 0.01
using = "sensitivity"
"""


def test_a_study_gives_the_certificates_of_baselines(tmp_path: Path) -> None:
    plan = expand(parse_study(STUDY, name="baselines"))
    with Store(tmp_path / "store", write=True) as store:
        outcome = run_plan(plan, store, backend=in_process)
        found = {key: record["result"] for key, record in store.records.items()}
        report = make_report(plan, store, tmp_path / "report", pictures=False)
    assert (outcome.computed, outcome.failed) == (4, 0)
    [job] = plan.jobs
    certifier = GraphCertifier(job.model, job.graph, job.labeled, [job.cells[0].test])
    engines = [found[cell.key]["engine"] for cell in job.cells]
    assert engines == ["closed-form", "baseline:smoothing", "baseline:partition-votes", "baseline:sensitivity"]
    for cell, given in zip(job.cells[1:], ({"noise": 0.05}, {"parts": 4}, {}), strict=True):
        assert isinstance(cell, UsingCell)
        assert labellings(cell) == 0.0
        how = {"using": certify_baseline, "loss": cell.recipe.loss, "max_flips": 2, "C": 0.01}
        name = cell.name
        cert = certifier.certify(
            cell.test, **{**how, "using": lambda *a, name=name, **k: certify_baseline(*a, using=name, **k), **given}
        )
        assert found[cell.key]["survive_lower"] == [int((cert.radius_lower > b).sum()) for b in range(3)]
    assert [place.model for place in plan.places] == [
        "gcn · square",
        "gcn smoothing · square",
        "gcn 4 parts partition-votes",
        "gcn sensitivity",
    ]
    seconds = report.sheets[-1]
    assert seconds.title.startswith("Seconds per certificate")
    assert [row[0] for row in seconds.rows] == [place.model for place in plan.places]
    assert all(float(row[1]) >= 0 for row in seconds.rows)
    assert "Seconds per certificate" in (tmp_path / "report" / "table.md").read_text(encoding="utf-8")


def test_what_decides_a_baseline_is_in_its_hash() -> None:
    keys = {
        expand(parse_study(STUDY.replace(old, new), name="any")).keys
        for old, new in (("", ""), ("noise = 0.05", "noise = 0.1"), ("parts = 4", "parts = 5"), ("0, 1, 2]", "0, 1]"))
    }
    assert len(keys) == 4


def test_no_sheet_of_seconds_and_the_same_hash_where_nobody_asks(tmp_path: Path) -> None:
    text = STUDY[: STUDY.index("[[models]]", STUDY.index("[[models]]") + 1)].replace("collective = false\n", "")
    plan = expand(parse_study(text.replace("times = true\n", ""), name="any"))
    assert plan.keys == expand(parse_study(text + 'using = "certify"\n', name="any")).keys
    with Store(tmp_path, write=True) as store:
        report = make_report(plan, store)
    assert not any(sheet.title.startswith("Seconds") for sheet in report.sheets)


@pytest.mark.parametrize(
    ("old", "new", "match"),
    [
        ('"smoothing"', '"smooting"', "models.1..using: expected one of certify, smoothing.*did you mean 'smoothing'"),
        ("noise = 0.05", "nois = 0.05", "models.1..*takes noise, got 'nois'"),
        ('loss = "square"\nusing', "using", "models.1..*needs the loss 'square', got 'hinge'"),
        ('using = "sensitivity"', 'using = "sensitivity"\nparts = 2', "takes per_label, got 'parts'"),
        ('using = "sensitivity"', "using_options = { noise = 0.1 }", "only beside `using`"),
        ('using = "sensitivity"', 'using = "sensitivity"\nverify = 1', "goes without verify"),
        ('using = "sensitivity"', 'using = "sensitivity"\nsearch = true', "goes without verify, search"),
        ("parts = 4", "parts = 400", "parts must be at most the number of labels"),
        ('["accuracy"]', '[{ kind = "accuracy", engine = "relaxed" }]', "has no engines"),
        ('["accuracy"]', '["collective"]', "collective: expected true"),
    ],
)
def test_what_a_study_refuses(old: str, new: str, match: str) -> None:
    assert old in STUDY
    with pytest.raises(InvalidInput, match=match):
        expand(parse_study(STUDY.replace(old, new), name="any"))


def test_parts_may_depend_on_the_dataset() -> None:
    text = STUDY.replace(
        "per_class = 8", 'per_class = 8\nmodels = { "gcn sensitivity" = { C = 0.5 }, votes = { parts = 3 } }'
    )
    text = text.replace('using = "partition-votes"', 'label = "votes"\nusing = "partition-votes"')
    [job] = expand(parse_study(text, name="any")).jobs
    assert isinstance(job.cells[2], UsingCell)
    assert job.cells[2].options == {"parts": 3}
    assert job.cells[3].recipe.C == 0.5


def test_the_study_that_comes_with_the_package() -> None:
    study = find_study("certificates")
    assert study.times
    assert len(study.seeds) == 2
    assert {model.using for model in study.models} >= {
        "smoothing",
        "tighter-smoothing",
        "partition-votes",
        "sensitivity",
    }
    assert np.all(np.diff(study.flips) > 0)


ATTACKED = """
title = "Attacks"
seeds = [0]
flips = [1, 2]
certificates = ["collective", "ratio"]
report = "gaps"
[[datasets]]
name = "karate"
[[models]]
name = "gcn"
label = "worst case"
C = 0.1
[[models]]
name = "gcn"
label = "lafak"
C = 0.1
using = "attack:lafak"
using_options = { targeted = true }
[[models]]
name = "gcn"
label = "nearest"
C = 0.1
using = "attack:nearest"
"""


def test_attacks_stand_beside_the_worst_case(tmp_path: Path) -> None:
    plan = expand(parse_study(ATTACKED, name="attacked"))
    with Store(tmp_path, write=True) as store:
        assert run_plan(plan, store, workers=1).failed == 0
        report = make_report(plan, store, tmp_path / "attacked")
    for sheet in report.sheets:
        worst, *others = (tuple(map(float, row[1:])) for row in sheet.rows)
        assert max(worst) > 0
        assert all(reached <= most for other in others for reached, most in zip(other, worst, strict=True))
    assert "one attack on all nodes" in report.sheets[0].title
    assert (tmp_path / "attacked" / "picture.png").is_file()


@pytest.mark.parametrize("wrong", ["using_options = { noise = 0.1 }", "parts = 3", "using_options = { seed = 3 }"])
def test_options_that_attacks_do_not_have_are_refused(wrong: str) -> None:
    with pytest.raises(InvalidInput, match="using_options"):
        parse_study(ATTACKED.replace("using_options = { targeted = true }", wrong), name="attacked")
