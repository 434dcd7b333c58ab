from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from labelcert.errors import InvalidInput
from labelcert.jobs.cells import Job
from labelcert.jobs.runner import in_process, on_processes
from labelcert.jobs.store import Record
from labelcert.studies import Store, StudyPlan, expand, parse_study, run_plan
from labelcert.studies.report import make_report
from labelcert.studies.tidy_tables import means, tidy

FAILING = """
seeds = [0]
flips = [1]
certificates = [{ kind = "collective", engine = "closed-form" }]
[[datasets]]
name = "karate"
[[models]]
name = "gcn"
label = "linear in the labels"
C = 0.001
[[models]]
name = "gcn"
label = "not linear"
C = 10.0
"""


class Deadly:
    """Ends the process that unpickles it."""

    def __reduce__(self) -> tuple[Any, ...]:
        return os._exit, (9,)


def results(store: Store) -> dict[str, Any]:
    return {key: record["result"] for key, record in store.records.items()}


def test_in_process_and_on_processes_give_the_same_results(tmp_path: Path, small_plan: StudyPlan) -> None:
    with Store(tmp_path / "one", write=True) as one, Store(tmp_path / "two", write=True) as two:
        first = run_plan(small_plan, one, workers=1)
        second = run_plan(small_plan, two, workers=2)
        assert (first.computed, first.failed) == (second.computed, second.failed) == (6, 0)
        assert results(one) == results(two)
        again = run_plan(small_plan, one, workers=1)
        assert (again.computed, again.reused) == (0, 6)
        frame = tidy(small_plan, one)
        assert len(frame) == 24
        assert (frame["lower"] == frame["upper"]).all()
        assert (means(frame)["seeds"] == 2).all()
        report = make_report(small_plan, one, tmp_path / "out")
    assert {path.name for path in report.files} >= {"results.csv", "means.csv", "table.md", "picture.png"}
    assert "APPNP" in (tmp_path / "out" / "table.md").read_text(encoding="utf-8")


def test_records_say_how_they_came_about(tmp_path: Path, small_plan: StudyPlan) -> None:
    with Store(tmp_path, write=True) as store:
        run_plan(small_plan, store, workers=1)
    record = store.records[small_plan.keys[0]]
    assert record["about"]["model"] == "gcn"
    assert record["about"]["seed"] == 0
    assert set(record["run"]["versions"]) >= {"labelcert", "numpy", "numba"}
    assert record["result"]["engine"]
    assert record["result"]["problem_sha256"]


def test_a_failure_is_recorded_with_its_reason_and_stops_nothing(tmp_path: Path) -> None:
    plan = expand(parse_study(FAILING, name="failing"))
    with Store(tmp_path, write=True) as store:
        outcome = run_plan(plan, store, workers=1)
        assert (outcome.computed, outcome.failed) == (2, 1)
        assert "does not apply" in outcome.reasons[0]
        assert run_plan(plan, store, workers=1).computed == 0
        assert run_plan(plan, store, workers=1, retry_failed=True).computed == 1
        report = make_report(plan, store)
    assert [row[1] for row in report.sheets[0].rows][1] == "failed"
    assert any("does not apply" in note for note in report.notes)


def test_a_process_that_dies_costs_its_cell_alone(tmp_path: Path, small_plan: StudyPlan) -> None:
    deadly = replace(small_plan.jobs[1], model=Deadly())
    jobs = [small_plan.jobs[0], deadly, small_plan.jobs[3]]
    records = list(on_processes(2)(jobs))
    by_cell = {record["cell"]: record for record in records}
    assert len(records) == len(by_cell) == 3
    assert [by_cell[job.cells[0].key]["status"] for job in jobs] == ["done", "failed", "done"]
    assert "died" in by_cell[deadly.cells[0].key]["reason"]


def test_interrupting_keeps_what_is_done(tmp_path: Path, small_plan: StudyPlan) -> None:
    def interrupted(jobs: Sequence[Job]) -> Iterator[Record]:
        for k, record in enumerate(in_process(jobs)):
            if k == 2:
                raise KeyboardInterrupt
            yield record

    with Store(tmp_path, write=True) as store, pytest.raises(KeyboardInterrupt):
        run_plan(small_plan, store, backend=interrupted)
    with Store(tmp_path, write=True) as store:
        outcome = run_plan(small_plan, store, workers=1)
    assert (outcome.reused, outcome.computed) == (2, 4)


def test_a_wrong_number_of_workers(tmp_path: Path, small_plan: StudyPlan) -> None:
    with Store(tmp_path, write=True) as store:
        with pytest.raises(InvalidInput, match="at least 1"):
            run_plan(small_plan, store, workers=0)
        with pytest.raises(InvalidInput, match="not both"):
            run_plan(small_plan, store, workers=2, scheduler="tcp://127.0.0.1:1")
