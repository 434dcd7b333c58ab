from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest
from click.testing import CliRunner, Result

from labelcert.cli import cli
from labelcert.errors import InvalidInput

STUDY = """
title = "Karate at two depths"
seeds = [0, 1]
flips = [0, 1, 2]
certificates = ["collective", "ratio"]
[[datasets]]
name = "karate"
[[models]]
name = "sgc"
label = "one layer"
[[models]]
name = "sgc"
label = "two layers"
depth = 2
C = 0.1
"""


@pytest.fixture
def study(tmp_path: Path) -> Path:
    path = tmp_path / "karate-depth.toml"
    path.write_text(STUDY)
    return path


def run(*arguments: object) -> Result:
    result = CliRunner().invoke(cli, [str(argument) for argument in arguments])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def test_check_run_status_export(study: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    checked = run("study", "check", study)
    assert "certificates to compute  4" in checked.output
    assert "0 of 4 certificates done" in run("study", "status", study, "--out", out).output
    ran = run("study", "run", study, "--out", out, "--workers", 1)
    assert ran.exit_code == 0
    assert "time: " in ran.output
    assert "paper" not in ran.output
    assert "4 of 4 certificates done, 0 failed" in run("study", "status", study, "--out", out).output
    folder = out / "karate-depth"
    frame = pd.read_csv(folder / "results.csv")
    assert len(frame) == 24
    for path in folder.iterdir():
        path.unlink()
    assert "two layers" in run("study", "export", study, "--out", out).output
    pd.testing.assert_frame_equal(pd.read_csv(folder / "results.csv"), frame)
    assert {path.suffix for path in folder.iterdir()} >= {".csv", ".md", ".png", ".svg"}


def test_parquet_holds_what_csv_holds(study: Path, tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    run("study", "run", study, "--out", tmp_path, "--workers", 1, "--no-pictures", "--seeds", "0")
    folder = tmp_path / "karate-depth"
    pd.testing.assert_frame_equal(
        pd.read_parquet(folder / "means.parquet"),
        pd.read_csv(folder / "means.csv", keep_default_na=False, na_values={"epsilon": [""]}),
        check_dtype=False,
    )


def test_without_pyarrow_a_hint(study: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for place in ("labelcert.studies.tidy_tables", "labelcert.cli.study_commands"):
        monkeypatch.setattr(f"{place}.has_parquet", lambda: False)
    result = run("study", "run", study, "--out", tmp_path, "--workers", 1, "--no-pictures", "--seeds", "0")
    assert "labelcert[parquet]" in result.output
    assert not list((tmp_path / "karate-depth").glob("*.parquet"))


def test_without_dask_a_hint(study: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(ImportError, match=r"labelcert\[dask\]"):
        run("study", "run", study, "--out", tmp_path, "--scheduler", "tcp://127.0.0.1:9")


def test_the_list_of_the_paper_s_studies() -> None:
    output = run("reproduce", "--list").output
    assert "cora-ml-b" in output
    assert "Figure 1" in output


def test_figure_one_beside_the_paper(tmp_path: Path) -> None:
    result = run("reproduce", "fig1-karate", "--out", tmp_path, "--workers", 1, "--seeds", "0")
    assert result.exit_code == 0
    assert "1 of 1 cells equal" in result.output
    assert "4.2 hours" in result.output
    assert (tmp_path / "fig1-karate" / "graph.png").is_file()


def test_claims_are_judged_by_what_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("labelcert.paper.commands.NEEDED", ("fig1-karate", "csbm-homophily"))
    given = ("--out", tmp_path, "--workers", 1, "--seeds", "0", "--no-pictures")
    result = run("reproduce", "claims", *given)
    assert result.exit_code == 0
    written = (tmp_path / "claims.md").read_text()
    assert "a GCN harder than an SGC" in written
    assert "not computed" in written
    overview = (tmp_path / "overview.html").read_text()
    assert "All studies" in overview


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        (("reproduce", "cora"), "--list"),
        (("reproduce", "fig1-karate", "--seeds", "a"), "--seeds"),
        (("study", "run", "none.toml"), "no study file"),
    ],
)
def test_refusals(arguments: tuple[str, ...], match: str) -> None:
    with pytest.raises(InvalidInput, match=match):
        run(*arguments)
