"""The paper's tables with published kernels, from the real graphs; skipped where no local copies exist."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.helpers.local_data import data_folder

from labelcert.jobs.execution import run_job
from labelcert.models import name_of
from labelcert.paper.paper_studies import paper_study
from labelcert.studies import Graphs, Store, expand, run_plan
from labelcert.studies.printed_numbers import Agreement, Compared
from labelcert.studies.report import make_report


@pytest.fixture(scope="module")
def folder() -> Path:
    return data_folder("random_graph_orders.npz")


def reproduced(name: str, folder: Path, out: Path) -> list[Compared]:
    plan = expand(paper_study(name).changed(variant="published"), graphs=Graphs(folder))
    with Store(out, write=True) as store:
        run_plan(plan, store)
        return list(make_report(plan, store).comparison)


@pytest.mark.long
def test_cora_ml_b_within_one_node(folder: Path, tmp_path: Path) -> None:
    numbers = reproduced("cora-ml-b", folder, tmp_path)
    assert len(numbers) == 56
    assert not [number for number in numbers if number.verdict == Agreement.OFF]
    assert sum(number.verdict == Agreement.EQUAL for number in numbers if float(number.at) <= 0.3) >= 42


@pytest.mark.long
def test_csbm_is_equal(folder: Path, tmp_path: Path) -> None:
    numbers = reproduced("csbm", folder, tmp_path)
    assert len(numbers) == 56
    assert all(number.verdict == Agreement.EQUAL for number in numbers)


def test_the_first_gcn_of_the_multi_class_table(folder: Path) -> None:
    """C is 1e-4 there: dual variables that small must count."""
    plan = expand(paper_study("multi-class-citeseer").changed(variant="published", seeds=(0,)), graphs=Graphs(folder))
    job = next(job for job in plan.jobs if name_of(job.model) == "gcn")
    assert [record["result"]["correct_lower"][:3] for record in run_job(job, workers=1)] == [[35, 7, 0]]
