"""Progress of long work, on standard error: a bar in a terminal, a line now and then elsewhere."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from numba.core.event import Listener, install_listener
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from labelcert.text import printable

Report = Callable[[float, float], None]

EVERY = 10.0
"""Seconds between two lines."""

COMPILING = "compiling for this machine, once: up to half a minute (`labelcert warm` does it ahead)"


@dataclass(frozen=True)
class Show:
    """What long work calls: ``report(done, total)`` moves the bar, ``note(text)`` says what is being done."""

    report: Report = lambda done, total: None
    note: Callable[[str], None] = lambda text: None


@contextmanager
def progress_report(title: str, enabled: bool) -> Iterator[Show]:
    """A bar with the remaining time or, where nobody sees one, lines; or nothing."""
    if not enabled:
        yield Show()
        return
    console = Console(stderr=True)
    if not (console.is_terminal or console.is_jupyter):
        lines = _Lines(printable(title))
        with _told(lambda text: console.print(text, markup=False, highlight=False, soft_wrap=True), lines.now):
            yield Show(report=lines.report, note=lines.note)
        return
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TaskProgressColumn(),
        TimeElapsedColumn(),
        TextColumn("left:"),
        TimeRemainingColumn(),
    )
    with (
        Progress(*columns, console=console, transient=True) as bar,
        _told(lambda text: bar.console.print(text, markup=False, highlight=False)),
    ):
        task = bar.add_task(printable(title), total=None)
        yield Show(
            report=lambda done, total: bar.update(task, completed=done, total=total),
            note=lambda text: bar.update(task, description=printable(f"{title}: {text}" if text else title)),
        )


class _Lines:
    """How far work is, in words."""

    def __init__(self, title: str) -> None:
        self._title, self._note, self._share = title, "", ""

    def report(self, done: float, total: float) -> None:
        self._share = f"{100.0 * min(1.0, done / total):.0f}% after " if total > 0 else ""

    def note(self, text: str) -> None:
        self._note = f": {printable(text)}" if text else ""

    def now(self, seconds: float) -> str:
        return f"{self._title}{self._note}: {self._share}{seconds:.0f} s"


class _Compiling(Listener):  # type: ignore[misc]
    """Since when some code is being compiled; what is read from the disk is not."""

    def __init__(self) -> None:
        self._depth, self.since = 0, float("inf")

    def on_start(self, event: Any) -> None:
        self._depth += 1
        self.since = min(self.since, time.monotonic())

    def on_end(self, event: Any) -> None:
        self._depth -= 1
        self.since = self.since if self._depth else float("inf")


@contextmanager
def _told(tell: Callable[[str], None], now: Callable[[float], str] | None = None) -> Iterator[None]:
    """Tell, while work goes on elsewhere, that code is compiled (if that takes a second), and now and then how far."""
    over, compiling, started = threading.Event(), _Compiling(), time.monotonic()

    def watch() -> None:
        due, silent = started + EVERY, True
        while not over.wait(0.5):
            moment = time.monotonic()
            if silent and moment - compiling.since > 1.0:
                tell(COMPILING)
                silent = False
            if now is not None and moment >= due:
                tell(now(moment - started))
                due = moment + EVERY

    watching = threading.Thread(target=watch, daemon=True)
    with install_listener("numba:compile", compiling):
        watching.start()
        try:
            yield
        finally:
            over.set()
            watching.join()
