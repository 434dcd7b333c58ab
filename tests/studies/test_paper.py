"""The paper's tables with published kernels, from the real graphs; skipped where no local copies exist."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from labelcert.studies import Graphs, Store, expand, run_plan
from labelcert.studies.catalogue import paper_study
from labelcert.studies.compare import Compared, Verdict
from labelcert.studies.report import make_report


@pytest.fixture(scope="module")
def folder() -> Path:
    beside = Path(__file__).resolve().parents[2].parent / "shared" / "datasets"
    for candidate in (os.environ.get("LABELCERT_DATA_DIR"), beside):
        if candidate and (Path(candidate) / "random_graph_orders.npz").is_file():
            return Path(candidate)
    pytest.skip("no local copies of the datasets: name a folder in LABELCERT_DATA_DIR")


def reproduced(name: str, folder: Path, out: Path) -> list[Compared]:
    plan = expand(paper_study(name).changed(variant="published"), graphs=Graphs(folder))
    with Store(out, write=True) as store:
        run_plan(plan, store)
        return list(make_report(plan, store).comparison)


@pytest.mark.long
def test_cora_ml_b_within_one_node(folder: Path, tmp_path: Path) -> None:
    numbers = reproduced("cora-ml-b", folder, tmp_path)
    assert len(numbers) == 56
    assert not [number for number in numbers if number.verdict == Verdict.OFF]
    assert sum(number.verdict == Verdict.EQUAL for number in numbers if float(number.at) <= 0.3) >= 42


@pytest.mark.long
def test_csbm_is_equal(folder: Path, tmp_path: Path) -> None:
    numbers = reproduced("csbm", folder, tmp_path)
    assert len(numbers) == 56
    assert all(number.verdict == Verdict.EQUAL for number in numbers)
