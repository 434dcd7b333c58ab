"""Models of studies whose nodes may have poisoned features."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from labelcert import GCN, InvalidInput, certify_features
from labelcert.jobs.cells import PoisonedCell
from labelcert.jobs.runner import in_process
from labelcert.studies import Store, expand, parse_study, run_plan
from labelcert.studies.study_files import find_study

STUDY = """
seeds = [0]
flips = [0, 1]
certificates = ["ratio"]
collective = false

[[datasets]]
name = "csbm"
parameters = { n = 60 }
per_class = 3

[[models]]
name = "gcn"
C = 0.01
radius = [0.02, 0.2]
poisoned = 2
backdoor = [false, true]
"""


def test_a_study_gives_the_certificates_of_poisoned_features(tmp_path: Path) -> None:
    plan = expand(parse_study(STUDY, name="poisoned"))
    with Store(tmp_path / "store", write=True) as store:
        run_plan(plan, store, backend=in_process)
        [job] = plan.jobs
        ratios = []
        for cell in job.cells:
            assert isinstance(cell, PoisonedCell)
            poison = cell.poison
            assert np.isin(poison.nodes, job.labeled).all()
            own = certify_features(
                GCN(C=0.01),
                job.graph,
                job.labeled,
                cell.test,
                poisoned=poison.nodes,
                radius=poison.ball.radius,
                backdoor=poison.backdoor,
                flips=1,
                collective=False,
            )
            found = store.records[cell.key]["result"]["survive_lower"]
            assert found == [int((own.radius_lower > b).sum()) for b in range(2)]
            ratios.append(float(np.mean(own.radius_lower > 0)))
    assert len(ratios) == 4
    assert ratios[0] >= ratios[1] >= ratios[3]


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("poisoned = 2\nbackdoor = [false, true]", "", "radius beside"),
        ("radius = [0.02, 0.2]", "", "radius beside"),
        ("radius = [0.02, 0.2]", "radius = -1", "at least 0"),
        ("poisoned = 2", "poisoned = 99", "at most 12"),
        ("poisoned = 2", "poisoned = 2\nparts = 3", "single models"),
        ("poisoned = 2", 'poisoned = 2\nloss = "logistic"', "kernel_error"),
    ],
)
def test_what_makes_no_sense_is_refused(old: str, new: str, words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        expand(parse_study(STUDY.replace(old, new), name="wrong"))


def test_the_studies_that_come_along_can_be_read() -> None:
    for name in ("features-csbm", "features-cora-ml-b"):
        assert len(find_study(name).models) > 100
