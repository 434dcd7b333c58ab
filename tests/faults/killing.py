"""Signals to programs and their workers."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

from labelcert.jobs.store import JOURNAL
from tests.faults.registry import alive, descendants, fault, orphans_after, program, start, wait_until

STUDY = """
seeds = [0, 1, 2]
flips = [1, 2]
certificates = ["accuracy"]

[[datasets]]
name = "csbm"
parameters = { n = 120 }

[[models]]
name = "gcn"
C = [0.1, 0.5, 1.0]

[[models]]
name = "appnp"
C = [0.1, 0.5, 1.0]
"""


def study(folder: Path) -> tuple[str, ...]:
    """A study with 18 certificates on two processes, as options."""
    (folder / "study.toml").write_text(STUDY)
    return ("study", "run", "study.toml", "--out", "results", "--workers", "2", "--no-pictures")


def lines(folder: Path) -> int:
    """How many results are saved."""
    path = folder / "results" / JOURNAL
    return path.read_bytes().count(b"\n") if path.exists() else 0


def begun(folder: Path, least: int = 1) -> tuple[subprocess.Popen[bytes], set[int]]:
    """A study under way, and its workers."""
    with open(folder / "err", "wb") as err:
        process = start(*study(folder), cwd=folder, stdout=subprocess.DEVNULL, stderr=err)
    wait_until(lambda: lines(folder) >= least or process.poll() is not None, 120)
    return process, descendants(process.pid)


@fault("workers computed on")
def terminated(folder: Path) -> str:
    """SIGTERM and SIGHUP to a study with workers."""
    said = ""
    for number in (signal.SIGTERM, signal.SIGHUP):
        process, workers = begun(folder, lines(folder) + 1)
        assert process.poll() is None
        assert len(workers) >= 2
        process.send_signal(number)
        assert process.wait(30) == 130
        assert not orphans_after(workers)
        said = (folder / "err").read_text()
        assert "Traceback" not in said
        assert "saved in results" in said
    assert program(*study(folder), cwd=folder).code == 0
    assert lines(folder) == 18
    return f"exit code 130, no worker a second later: {said.strip().splitlines()[-1]}"


@fault("workers lived on until their next result")
def killed(folder: Path) -> str:
    """kill -9 of a study with workers."""
    process, workers = begun(folder)
    assert len(alive(workers)) >= 2
    process.kill()
    process.wait()
    left = orphans_after(workers)
    assert not left, left
    assert program(*study(folder), cwd=folder).code == 0
    assert lines(folder) == 18
    return "no worker a second later; the same command goes on"


@fault("workers lived on")
def killed_while_workers_start(folder: Path) -> str:
    """kill -9 while workers are still being imported."""
    process = start(*study(folder), cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    workers = wait_until(lambda: len(found := descendants(process.pid)) >= 2 and found, 120)
    process.kill()
    process.wait()
    left = orphans_after(workers)
    assert not left, left
    return "no worker a second later"


@fault("workers printed tracebacks, and two Ctrl-C recorded healthy cells as failed for good")
def ctrl_c_where_it_is_ignored(folder: Path) -> str:
    """Ctrl-C to a background job, which ignores it."""

    def ignore() -> None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)

    with open(folder / "err", "w+b") as err:
        process = start(*study(folder), cwd=folder, stdout=subprocess.DEVNULL, stderr=err, preexec_fn=ignore)
        for k in (1, 3, 5):
            wait_until(lambda: lines(folder) >= k or process.poll() is not None, 120)  # noqa: B023
            os.killpg(process.pid, signal.SIGINT)
        assert process.wait(120) == 0
        err.seek(0)
        assert not err.read()
    assert lines(folder) == 18
    return "exit code 0, nothing said, nothing failed"


@fault("SIGHUP ended it with nothing shown or saved", long=True)
def ctrl_c_in_a_certificate(folder: Path) -> str:
    """Ctrl-C, SIGTERM and SIGHUP to `certify --out o`."""
    options = ("csbm", "--per-class", "17", "--max-flips", "12", "--engine", "enumerate", "--time-limit", "600")
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        with open(folder / "err", "w+b") as err, open(folder / "out", "w+b") as out:
            process = start("certify", *options, "--no-pictures", "--out", "o", cwd=folder, stdout=out, stderr=err)
            time.sleep(8)
            process.send_signal(number)
            code = process.wait(60)
            err.seek(0)
            said = err.read().decode()
        assert (code, "what was proved until then is shown" in said) == (130, True), said
        assert sorted(path.suffix for path in (folder / "o").iterdir()) == [".cert", ".csv", ".csv"]
    return "exit code 130, what was proved is shown and saved"
