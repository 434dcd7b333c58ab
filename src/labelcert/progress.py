"""Progress of long work, on standard error."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from labelcert.text import printable

Report = Callable[[float, float], None]


@dataclass(frozen=True)
class Show:
    """What long work calls: ``report(done, total)`` moves the bar, ``note(text)`` says what is being done."""

    report: Report = lambda done, total: None
    note: Callable[[str], None] = lambda text: None


@contextmanager
def progress_report(title: str, enabled: bool) -> Iterator[Show]:
    """A bar with the remaining time, or nothing."""
    if not enabled:
        yield Show()
        return
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TaskProgressColumn(),
        TimeElapsedColumn(),
        TextColumn("left:"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task(printable(title), total=None)
        yield Show(
            report=lambda done, total: bar.update(task, completed=done, total=total),
            note=lambda text: bar.update(task, description=printable(f"{title}: {text}" if text else title)),
        )
