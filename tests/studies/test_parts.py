"""Ensembles on parts of the labels in studies: the same answers in process, on processes and on a cluster."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.helpers.certificates import same, same_witnesses
from tests.helpers.problems import gaussian

from labelcert import certify, certify_partition
from labelcert.errors import InvalidInput
from labelcert.jobs.dask_backend import labellings, on_cluster
from labelcert.jobs.runner import in_process
from labelcert.studies import Store, StudyPlan, expand, parse_study, run_plan

STUDY = """
title = "Ensembles"
seeds = [0]
flips = [1, 2, 4]
certificates = ["accuracy"]

[[datasets]]
name = "csbm"
parameters = { n = 60 }
per_class = 12

[[models]]
name = "gcn"
C = 0.5
parts = 2

[[models]]
name = "gcn"
C = 0.5
parts = 3
combine = "votes"
"""


@pytest.fixture
def plan() -> StudyPlan:
    return expand(parse_study(STUDY, name="ensembles"))


def results(store: Store) -> dict[str, Any]:
    return {key: record["result"] for key, record in store.records.items()}


def test_a_study_gives_the_certificates_of_ensembles(tmp_path: Path, plan: StudyPlan) -> None:
    with Store(tmp_path, write=True) as store:
        outcome = run_plan(plan, store, backend=in_process)
        found = results(store)
    assert (outcome.computed, outcome.failed) == (2, 0)
    [job] = plan.jobs
    for cell in job.cells:
        assert cell.recipe.parts is not None
        assert cell.recipe.C == 0.5
        cert = cell.recipe.trained.certify(job.graph, job.labeled, cell.test, max_flips=4, workers=1)
        record = found[cell.key]
        assert record["engine"] == cert.engine
        assert record["survive_lower"] == [int((cert.radius_lower > b).sum()) for b in range(5)]
    assert [place.model for place in plan.places] == ["gcn 2 parts mean", "gcn 3 parts votes"]


def test_what_a_study_refuses() -> None:
    with pytest.raises(InvalidInput, match="at most the number of labels"):
        expand(parse_study(STUDY.replace("parts = 3", "parts = 300"), name="ensembles"))
    text = STUDY.replace('["accuracy"]', '[{ kind = "accuracy", engine = "relaxed" }]')
    with pytest.raises(InvalidInput, match="engine of its own"):
        expand(parse_study(text, name="ensembles"))
    with pytest.raises(InvalidInput, match="combine"):
        parse_study(STUDY.replace('"votes"', '"median"'), name="ensembles")


def test_work_is_counted_part_by_part(plan: StudyPlan) -> None:
    two, three = plan.jobs[0].cells
    assert labellings(two) > labellings(three)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    distributed = pytest.importorskip("distributed", reason="Dask is not installed: pip install 'labelcert[dask]'")
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None, silence_logs=50
    ) as cluster:
        yield cluster


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("split_above", [1e9, 10], ids=["whole certificates", "split certificates"])
def test_a_worker_killed_in_the_middle_changes_nothing(
    tmp_path: Path, plan: StudyPlan, cluster: Any, split_above: float
) -> None:
    address = cluster.scheduler_address
    backend = on_cluster(address, split_above=split_above, batch=1)
    with Store(tmp_path / "here", write=True) as here, Store(tmp_path / "there", write=True) as there:
        run_plan(plan, here, backend=in_process)
        with Killer(address) as killer:
            outcome = run_plan(plan, there, backend=backend)
    assert killer.killed
    assert (outcome.computed, outcome.failed) == (2, 0)
    assert results(here) == results(there)


@pytest.mark.filterwarnings("ignore")
def test_one_certificate_on_a_cluster(cluster: Any) -> None:
    arrays = gaussian(28, 5)
    here = certify_partition(*arrays, 1.0, parts=2, workers=1)
    with Killer(cluster.scheduler_address) as killer:
        there = certify_partition(*arrays, 1.0, parts=2, scheduler=cluster.scheduler_address)
    assert killer.killed
    same(here, there)
    same_witnesses(here, there)


@pytest.mark.filterwarnings("ignore")
def test_enumeration_on_a_cluster(cluster: Any) -> None:
    arrays = gaussian(18, 5)
    here = certify(*arrays, 1.0, workers=1)
    with Killer(cluster.scheduler_address) as killer:
        there = certify(*arrays, 1.0, scheduler=cluster.scheduler_address)
    assert killer.killed
    same(here, there)
    same_witnesses(here, there)


@pytest.mark.filterwarnings("ignore")
def test_a_slow_transfer_of_results(cluster: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from distributed import Client

    transfer = Client._gather_remote

    async def slow(*arguments: Any) -> Any:
        await asyncio.sleep(0.5)
        return await transfer(*arguments)

    monkeypatch.setattr(Client, "_gather_remote", slow)
    arrays = gaussian(12, 5)
    same(certify(*arrays, 1.0, workers=1), certify(*arrays, 1.0, scheduler=cluster.scheduler_address))


class Killer:
    """Kills a worker as soon as one is busy."""

    def __init__(self, address: str) -> None:
        self._address, self.killed = address, False
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._wait)

    def __enter__(self) -> Killer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _wait(self) -> None:
        from distributed import Client

        with Client(self._address, set_as_default=False) as client:
            processes = client.run(os.getpid)
            while not self._over.is_set() and not self.killed:
                busy = [worker for worker, tasks in client.processing().items() if tasks and worker in processes]
                if busy:
                    os.kill(processes[busy[0]], signal.SIGKILL)
                    self.killed = True
                time.sleep(0.01)
