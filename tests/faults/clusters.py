"""A cluster that is lost."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from labelcert.jobs.store import JOURNAL
from tests.faults.registry import fault, start, wait_until

SMALL = 'seeds = [0, 1]\nflips = [2]\n[[datasets]]\nname = "csbm"\n[[models]]\nname = "gcn"\nC = [0.1, 0.2, 0.3]\n'
LARGE = SMALL.replace("[2]", "[12]").replace('"csbm"', '"csbm"\nper_class = 6')


@contextlib.contextmanager
def cluster(folder: Path) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """The address of a scheduler with one worker, and its process."""
    place = folder / "scheduler.json"
    scheduler, worker = (
        subprocess.Popen(
            [sys.executable, "-m", f"distributed.cli.dask_{what}", *words, "--no-dashboard", "--scheduler-file", place],
            cwd=folder,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for what, words in (
            ("scheduler", ("--port", "0", "--host", "127.0.0.1")),
            ("worker", ("--nworkers", "1", "--nthreads", "1", "--death-timeout", "3")),
        )
    )
    try:
        wait_until(lambda: place.exists() and place.read_text().strip().endswith("}"))
        yield json.loads(place.read_text())["address"], scheduler
    finally:
        for process in (worker, scheduler):
            process.kill()
            process.wait()


def lost(folder: Path, text: str, least: int) -> str:
    """Kill the scheduler once so many results are saved; what the study says then."""
    (folder / "study.toml").write_text(text)
    out = folder / "results"
    with cluster(folder) as (address, scheduler), open(folder / "err", "w+b") as err:
        options = ("study", "run", "study.toml", "--out", out, "--scheduler", address)
        process = start(*options, cwd=folder, stdout=subprocess.DEVNULL, stderr=err)
        journal = out / JOURNAL

        def saved() -> int:
            return journal.read_bytes().count(b"\n") if journal.exists() else -1

        wait_until(lambda: saved() >= least or process.poll() is not None, 120)
        assert process.poll() is None
        scheduler.kill()
        code = process.wait(20)
        err.seek(0)
        said = [line for line in err.read().decode().splitlines() if line]
    assert code == 3, (code, said)
    assert len(said) == 1, said
    assert "is lost" in said[0]
    assert saved() >= least
    assert b'"failed"' not in journal.read_bytes()
    return f"exit code 3, {saved()} results kept: {said[0][:120]}"


@fault("a traceback after 21 s", long=True)
def scheduler_lost_during_whole_jobs(folder: Path) -> str:
    """The Dask scheduler is killed while certificates are computed."""
    return lost(folder, SMALL, 1)


@fault("the client hung", long=True)
def scheduler_lost_during_a_split_certificate(folder: Path) -> str:
    """The Dask scheduler is killed while a split certificate is computed."""
    return lost(folder, LARGE, 1)
