"""Kill -9 in the middle of a study: nothing that was written is computed again, and the table is the same."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pandas as pd
import pytest

from labelcert.jobs.store import JOURNAL
from labelcert.studies import Store, StudyPlan, run_plan
from labelcert.studies.tidy_tables import tidy

RUN = "import sys; from labelcert.cli import main; main()"


def start(study: Path, out: Path, workers: int) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-c", RUN, "study", "run", str(study), "--out", str(out), "--no-pictures"]
    return subprocess.Popen([*command, "--workers", str(workers)], stdout=subprocess.DEVNULL)


def written(out: Path) -> list[str]:
    path = out / JOURNAL
    if not path.exists():
        return []
    return [
        json.loads(line)["record"]["cell"] for line in path.read_bytes().splitlines(keepends=True) if line[-1:] == b"\n"
    ]


@pytest.mark.parametrize("workers", [1, 2])
def test_a_killed_study_goes_on_where_it_stopped(
    tmp_path: Path, small_text: str, small_plan: StudyPlan, workers: int
) -> None:
    study = tmp_path / "small.toml"
    study.write_text(small_text)
    killed, whole = tmp_path / "killed", tmp_path / "whole"
    process = start(study, killed, workers)
    deadline = time.monotonic() + 120
    while len(written(killed)) < 2 and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.005)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    before = written(killed)
    assert 2 <= len(before) < len(small_plan.keys)
    # A process killed while writing leaves half a line.
    with (killed / JOURNAL).open("ab") as stream:
        stream.write(b'{"check":"00')
    assert start(study, killed, workers).wait() == 0
    after = written(killed)
    assert after[: len(before)] == before
    assert len(after) == len(set(after)) == len(small_plan.keys)
    with Store(whole, write=True) as store:
        run_plan(small_plan, store, workers=1)
    columns = ["dataset", "model", "certificate", "seed", "epsilon", "flips", "lower", "upper", "C", "n_test", "cell"]
    pd.testing.assert_frame_equal(tidy(small_plan, Store(killed))[columns], tidy(small_plan, Store(whole))[columns])
