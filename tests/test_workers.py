"""Worker processes serve every kind of program, and outlive none."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from labelcert import workers as module
from labelcert.errors import InvalidInput, WorkersUnavailable
from labelcert.workers import WorkerDied, Workers

CERTIFY = """
import labelcert
from labelcert.examples import two_clouds
d = two_clouds(n_labels=12, n_test=5)
how = dict(max_flips=2, workers=2, scheduler="processes")
assert labelcert.certify(d.K_train, d.labels, d.K_test, C=1.0, engine="enumerate", **how).exact
assert labelcert.certify_partition(d.K_train, d.labels, d.K_test, C=1.0, parts=2, **how).max_flips == 2
"""

HARDEN = """
import labelcert
from labelcert.graphs import karate
found = labelcert.harden(karate(), [0, 1, 32, 33], [8, 9], flips=1, workers=2, models={"gcn": {}}, losses=["hinge"],
    C=[0.1, 1.0])
assert len(found.table) == 3, found.table
"""

STUDY = """
import tempfile
from pathlib import Path
from labelcert.studies import Store, expand, parse_study, run_plan
text = 'seeds = [0]\\nflips = [1]\\n[[datasets]]\\nname = "karate"\\n[[models]]\\nname = "gcn"\\nC = [0.1, 1.0]\\n'
with tempfile.TemporaryDirectory() as folder, Store(Path(folder), write=True) as store:
    outcome = run_plan(expand(parse_study(text, name="s")), store, workers=2)
    assert (outcome.computed, outcome.failed) == (2, 0), outcome
"""

SELFCHECK = """
from labelcert.selfcheck import run
assert run(41, 0, largest=4, workers=2).problems == 41
"""

RECHECK = """
import labelcert
from labelcert.examples import two_clouds
d = two_clouds(n_labels=12, n_test=5)
found = labelcert.recheck(d.K_train, d.labels, d.K_test, C=1.0, flips=1, confirm=1, workers=2, scheduler="processes")
assert len(found.labels) <= 1, found
"""

PROGRAMS = {"certify": CERTIFY, "recheck": RECHECK, "harden": HARDEN, "study": STUDY, "selfcheck": SELFCHECK}
IN_A_THREAD = """
import threading
errors = []
def body():
    try:
        exec(TEXT, {{}})
    except BaseException as error:
        errors.append(error)
TEXT = {text!r}
thread = threading.Thread(target=body)
thread.start()
thread.join()
assert not errors, errors
"""
IN_A_DAEMON = """
import multiprocessing
def body():
    exec({text!r}, {{}})
if __name__ == "__main__":
    process = multiprocessing.get_context("fork").Process(target=body, daemon=True)
    process.start()
    process.join()
    assert process.exitcode == 0
"""


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_script_without_a_guard(tmp_path: Path, name: str) -> None:
    script = tmp_path / "script.py"
    script.write_text("print('once', flush=True)\n" + PROGRAMS[name])
    assert said(script) == "once"


OFTEN = [pytest.param(name, marks=[] if name in ("certify", "study") else pytest.mark.long) for name in PROGRAMS]
"""Of each kind of work, one on arrays and one on jobs; the others take the same way."""


@pytest.mark.parametrize("name", OFTEN)
def test_a_program_from_standard_input(name: str) -> None:
    assert said("-", "print('once', flush=True)\n" + PROGRAMS[name]) == "once"


def test_a_thread(tmp_path: Path) -> None:
    assert said("-", IN_A_THREAD.format(text=CERTIFY + HARDEN + STUDY)) == ""


@pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="nothing forks here")
def test_a_daemonic_process(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(IN_A_DAEMON.format(text=CERTIFY + HARDEN + STUDY))
    assert said(script) == ""


def test_a_notebook() -> None:
    nbformat = pytest.importorskip("nbformat")
    client = pytest.importorskip("nbclient", reason="notebooks need nbclient, nbformat and ipykernel")
    cells = [nbformat.v4.new_code_cell(text) for text in (CERTIFY, RECHECK, HARDEN, STUDY)]
    client.NotebookClient(nbformat.v4.new_notebook(cells=cells), timeout=240).execute()  # raises what a cell raises


def said(script: str | Path, text: str | None = None) -> str:
    """What a program prints; it must end well."""
    ran = subprocess.run([sys.executable, str(script)], input=text, capture_output=True, text=True, timeout=240)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout.strip()


def test_results_come_in_order() -> None:
    with Workers(2) as workers:
        assert list(workers.map(abs, range(-20, 0))) == list(range(20, 0, -1))


def test_what_a_job_raises_is_raised_here() -> None:
    with Workers(1) as workers:
        with pytest.raises(InvalidInput, match="too bad") as raised:
            workers.submit(raises, InvalidInput("too bad")).result()
        assert "Traceback" in "".join(raised.value.__notes__)
        with pytest.raises(RuntimeError, match="Untransportable: 3"):
            workers.submit(untransportable, 3).result()
        with pytest.raises((AttributeError, TypeError)):  # it cannot be sent
            workers.submit(lambda: 1).result()
        assert workers.submit(abs, -1).result() == 1  # the worker is fine


def test_a_result_that_is_not_there_yet() -> None:
    with Workers(1) as workers:
        job = workers.submit(len, "x")
        assert job.result() == 1
        with pytest.raises(TimeoutError):
            job.result(timeout=0.01)


def test_what_is_printed_is_no_result(capfd: pytest.CaptureFixture[str]) -> None:
    with Workers(1) as workers:
        assert workers.submit(print, "hello").result() is None
    out, err = capfd.readouterr()
    assert (out, err) == ("", "hello\n")


def test_a_job_that_kills_its_workers_is_given_up() -> None:
    with Workers(1, attempts=2) as workers:
        with pytest.raises(WorkerDied, match="died 2 times, the last time with exit code 7"):
            workers.submit(os._exit, 7).result(timeout=60)
        assert workers.submit(abs, -1).result() == 1


def test_results_before_a_death_are_kept(tmp_path: Path) -> None:
    with Workers(2, attempts=2) as workers:
        found = list(workers.stream(ends_at_two, [(10, 4), (20, 2)]))
    values = {(job, number): value for job, number, value in found if not isinstance(value, WorkerDied)}
    assert values == {(10, 0): 10, (10, 1): 11, (10, 3): 13, (20, 0): 20, (20, 1): 21}
    assert len(found) == 6


def test_workers_that_cannot_start_are_no_fault_of_the_job(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_SERVE", "raise SystemExit(3)")
    with Workers(1) as workers, pytest.raises(WorkersUnavailable, match="exit code 3 before its first job"):
        list(workers.stream(ends_at_two, [(10, 4)]))
    monkeypatch.setattr(module, "get_executable", lambda: "/nowhere/python")
    with Workers(1) as workers, pytest.raises(WorkersUnavailable, match="nowhere"):
        workers.submit(abs, -1).result()


def test_a_worker_may_print_before_it_is_ready(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_SERVE", "print('welcome', end='', flush=True)\n" + module._SERVE)
    with Workers(1) as workers:
        assert workers.submit(abs, -1).result() == 1


class Untransportable(Exception):
    """Cannot be unpickled."""

    def __init__(self, one: int, two: int) -> None:
        super().__init__(one)


def untransportable(value: int) -> None:
    raise Untransportable(value, value)


def raises(error: Exception) -> None:
    raise error


def ends_at_two(start: int, first: int) -> Iterator[int]:
    for k in range(first, 4 if start == 10 else 2):
        if k == 2:
            os._exit(1)
        yield start + k
