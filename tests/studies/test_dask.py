"""A real local cluster, with a worker killed on the way: the results of a local run, bit for bit."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from labelcert.errors import DataUnavailable
from labelcert.jobs.cells import Job
from labelcert.jobs.dask_backend import on_cluster
from labelcert.jobs.runner import in_process
from labelcert.jobs.store import Record
from labelcert.studies import Store, StudyPlan, run_plan

distributed = pytest.importorskip("distributed", reason="Dask is not installed: pip install 'labelcert[dask]'")


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None, silence_logs=50
    ) as cluster:
        yield cluster


def kill_a_worker(address: str) -> None:
    with distributed.Client(address, set_as_default=False) as client:
        os.kill(next(iter(client.run(os.getpid).values())), signal.SIGKILL)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("split_above", [1e9, 1000], ids=["whole certificates", "split certificates"])
def test_the_cluster_s_results_are_the_local_ones(
    tmp_path: Path, small_plan: StudyPlan, cluster: Any, split_above: float
) -> None:
    address = cluster.scheduler_address
    backend = on_cluster(address, split_above=split_above, batch=2)

    def disturbed(jobs: Sequence[Job]) -> Iterator[Record]:
        for k, record in enumerate(backend(jobs)):
            if k == 1:
                kill_a_worker(address)
            yield record

    with Store(tmp_path / "here", write=True) as here, Store(tmp_path / "there", write=True) as there:
        run_plan(small_plan, here, backend=in_process)
        outcome = run_plan(small_plan, there, backend=disturbed)
    assert (outcome.computed, outcome.failed) == (len(small_plan.keys), 0)
    assert {k: r["result"] for k, r in here.records.items()} == {k: r["result"] for k, r in there.records.items()}


def test_no_scheduler_at_that_address(tmp_path: Path, small_plan: StudyPlan, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("labelcert.certification.places.CONNECT_SECONDS", 1)
    with Store(tmp_path, write=True) as store, pytest.raises(DataUnavailable, match="cannot be reached"):
        run_plan(small_plan, store, scheduler="tcp://127.0.0.1:9")
