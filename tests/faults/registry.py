"""The list of faults, and how they start real processes."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from labelcert.signals import TERMINATION

COMMAND = (sys.executable, "-m", "labelcert")
MOST_MEMORY = 1500
"""MiB that a refusal may take; importing takes some 250."""


@dataclass(frozen=True)
class Fault:
    """One attack: what was seen before, and a function that attacks again and says what it sees now."""

    name: str
    before: str
    attack: Callable[[Path], str]
    long: bool


FAULTS: list[Fault] = []


def fault(before: str, *, long: bool = False) -> Callable[[Callable[[Path], str]], Callable[[Path], str]]:
    """Add a function to the list; its docstring is the fault's name."""

    def add(attack: Callable[[Path], str]) -> Callable[[Path], str]:
        FAULTS.append(Fault((attack.__doc__ or "").strip().rstrip("."), before, attack, long))
        return attack

    return add


@dataclass(frozen=True)
class Ran:
    """A process that has ended; ``memory`` is the most that it took, in MiB."""

    code: int
    out: str
    err: str
    seconds: float
    memory: float

    @property
    def last(self) -> str:
        """The last line that it said."""
        lines = (self.err or self.out).strip().splitlines()
        return lines[-1] if lines else "nothing"

    def refused(self, *words: str, code: int = 2) -> str:
        """Check that it refused in one line, with these words, within bounded memory."""
        assert self.code == code, (self.code, self.err[-2000:])
        assert "Traceback" not in self.err + self.out, self.err[-2000:]
        assert len(self.err.strip().splitlines()) == 1, self.err[-2000:]
        for word in words:
            assert word in self.err, self.err
        assert self.memory < MOST_MEMORY, self.memory
        return f"exit code {self.code}, {self.seconds:.1f} s, {self.memory:.0f} MiB: {self.last[:150]}"


def program(*arguments: str | Path, cwd: Path, env: Mapping[str, str] | None = None, **how: Any) -> Ran:
    """Run the command line in a process of its own, to its end."""
    out, err = (how.pop(name, cwd / f"std{name}.txt") for name in ("out", "err"))
    started = time.perf_counter()
    streams = [open(place, "wb") if isinstance(place, Path) else place for place in (out, err)]  # noqa: SIM115
    process = start(*arguments, cwd=cwd, env=env, stdout=streams[0], stderr=streams[1], **how)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    seconds = time.perf_counter() - started
    for stream in streams:
        if hasattr(stream, "close"):
            stream.close()
    texts = [place.read_text(errors="replace") if isinstance(place, Path) else "" for place in (out, err)]
    return Ran(process.returncode, texts[0], texts[1], seconds, used.ru_maxrss / 1024)


def start(
    *arguments: str | Path, cwd: Path, env: Mapping[str, str] | None = None, **how: Any
) -> subprocess.Popen[bytes]:
    """Start the command line in a process group of its own, with signals as a terminal leaves them."""
    prepare = how.pop("preexec_fn", lambda: None)

    def prepared() -> None:
        for number in TERMINATION:  # the tests themselves may run in the background, where some are ignored
            signal.signal(number, signal.SIG_DFL)
        prepare()

    return subprocess.Popen(
        [*COMMAND, *map(str, arguments)],
        cwd=cwd,
        env={**os.environ, **(env or {})},
        start_new_session=True,
        preexec_fn=prepared,
        **how,
    )


def descendants(pid: int) -> set[int]:
    """All processes that a process started, and those that these started."""
    children: dict[int, list[int]] = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                fields = (folder / "stat").read_text().rsplit(")", 1)[1].split()
            except OSError:
                continue
            if fields[0] != "Z":
                children.setdefault(int(fields[1]), []).append(int(folder.name))
    found, waiting = set[int](), [pid]
    while waiting:
        own = children.get(waiting.pop(), [])
        found.update(own)
        waiting.extend(own)
    return found


def alive(pids: set[int]) -> set[int]:
    """Those that still run."""
    left = set()
    for pid in pids:
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
        except OSError:
            continue
        if state != "Z":
            left.add(pid)
    return left


def orphans_after(pids: set[int], seconds: float = 1.0) -> set[int]:
    """Those that still run a moment later."""
    deadline = time.monotonic() + seconds
    while (left := alive(pids)) and time.monotonic() < deadline:
        time.sleep(0.02)
    return left


def wait_until(condition: Callable[[], Any], seconds: float = 60.0) -> Any:
    """What the condition returns once it is true."""
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < deadline, "it took too long"
        time.sleep(0.02)
    return found


def limit_file_size(size: int) -> Callable[[], None]:
    """What a new process does first: writing more than this to a file fails, as on a full disk."""

    def limit() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))

    return limit
