"""Standard streams that are closed, full, or know few signs."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

from tests.faults.registry import fault, limit_file_size, program, start, wait_until

CERTIFY = ("certify", "karate", "--beside", "none", "--max-flips", "1", "--no-pictures", "--out", "o")
FILES = ["gcn-all-budgets.csv", "gcn-all-nodes.csv", "gcn-all.cert"]


def saved(folder: Path) -> list[str]:
    """What is in the folder of results."""
    return sorted(path.name for path in (folder / "o").iterdir()) if (folder / "o").exists() else []


@fault("exit code 0, and nothing saved")
def a_reader_that_leaves(folder: Path) -> str:
    """`certify --out o | head -1`."""
    reading, writing = os.pipe()
    os.close(reading)
    ran = program(*CERTIFY, cwd=folder, out=writing)
    os.close(writing)
    assert (ran.code, saved(folder)) == (0, FILES), ran.err
    assert "Traceback" not in ran.err
    return "exit code 0, all files saved, no message"


@fault("nothing saved")
def a_full_standard_output(folder: Path) -> str:
    """`certify --out o > /dev/full`."""
    with open("/dev/full", "wb") as full:
        ran = program(*CERTIFY, cwd=folder, out=full)
    assert saved(folder) == FILES
    assert ran.code == 2
    assert "Traceback" not in ran.err
    return f"exit code 2, all files saved: {ran.last}"


@fault("a traceback")
def closed_streams(folder: Path) -> str:
    """Standard output and standard error are closed."""
    for number in (1, 2):
        code = subprocess.run(
            ["sh", "-c", f'exec "$@" {number}>&- 0<&-', "sh", *_words()],
            cwd=folder,
            stdout=subprocess.PIPE,
            stderr=(seen := open(folder / "seen", "w+b")),  # noqa: SIM115
            check=False,
        ).returncode
        seen.seek(0)
        assert (code, saved(folder)) == (0, FILES)
        assert b"Traceback" not in seen.read()
        seen.close()
    return "exit code 0, all files saved"


def _words() -> tuple[str, ...]:
    from tests.faults.registry import COMMAND

    return (*COMMAND, *CERTIFY)


@fault("the work was done, then lost: a file cannot be read or written … '→'")
def ascii_output(folder: Path) -> str:
    """A terminal that knows ASCII alone, and one that knows Latin-1."""
    for encoding in ("ascii", "latin-1"):
        ran = program(*CERTIFY, cwd=folder, env={"PYTHONIOENCODING": encoding})
        assert (ran.code, saved(folder)) == (0, FILES), ran.err
        assert "-> " in ran.out
        table = [line for line in ran.out.splitlines() if " % " in line]
        assert table
        assert encoding != "ascii" or all(line.isascii() for line in table)
    return "exit code 0, tables in ASCII signs: →  is ->"


@fault("half a file under its final name")
def a_full_disk(folder: Path) -> str:
    """The disk is full while results are written."""
    ran = program(*CERTIFY, cwd=folder, preexec_fn=limit_file_size(2000))
    assert ran.code == 2, ran.err
    assert "Traceback" not in ran.err
    assert not [name for name in saved(folder) if name.endswith((".cert", ".partial"))]
    return f"exit code 2, no half file: {ran.last}"


@fault("a traceback")
def ctrl_c_during_import(folder: Path) -> str:
    """Ctrl-C while the program is being imported."""
    seen = set()
    for delay in (0.15, 0.4, 0.8):
        with open(folder / "err", "w+b") as err:
            process = start("datasets", cwd=folder, stdout=subprocess.DEVNULL, stderr=err)
            # From here on, Python itself has started.
            wait_until(lambda: "labelcert" in Path(f"/proc/{process.pid}/cmdline").read_text())  # noqa: B023
            time.sleep(delay)
            process.send_signal(signal.SIGINT)
            code = process.wait(60)
            err.seek(0)
            said = err.read().decode()
        if "in main" in said or code in (0, 130):  # else the program had not begun
            assert "Traceback" not in said, said
            seen.add(code)
    assert 130 in seen, seen
    return "exit code 130: interrupted"
