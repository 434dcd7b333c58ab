"""What a search found out so far, as a table that is drawn again and again."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from labelcert.certificate import Stop
from labelcert.certificate.run_record import amount
from labelcert.hardening.contest import Contest
from labelcert.hardening.hardened import Hardened, accuracy
from labelcert.text import between, per_cent, printable

EVERY, SELDOM = 0.5, 20.0
"""Seconds between two drawings, in a terminal and elsewhere."""

ROWS, WIDTH = 5, 120
"""Models that are shown, and columns of a table that goes into a file."""


def ranking(found: Hardened, *, limit: int) -> Table:
    """The most certified models that are accurate enough, and the default one."""
    title = f"Models by what survives {amount(found.flips, found.unit)}"
    table = Table(title=title, title_justify="left")
    for heading in ("model", "survive, each alone", "cross-validated", ""):
        table.add_column(heading, justify="left" if heading in ("model", "") else "right")
    enough = [c for c in found.certified if accuracy(c) >= found.threshold]
    ranked = sorted(enough, key=lambda c: (c != found.chosen, -found.certified[c][0], -accuracy(c)))
    shown = ranked[:limit]
    best = "train this" if found.stopped is Stop.FINISHED else "best so far"
    for candidate in [*shown, *([] if found.default in shown else [found.default])]:
        low, high = found.certified[candidate]
        marks = [word for word, which in ((best, found.chosen), ("default", found.default)) if candidate == which]
        table.add_row(
            printable(candidate.full_label),
            "unknown" if (low, high) == (0.0, 1.0) else between(low, high, " %"),
            f"{per_cent(accuracy(candidate))} % ± {per_cent(candidate.deviation or 0.0, up=True)} %",
            ", ".join(marks),
        )
    if len(ranked) > limit:
        table.caption = f"the {limit} best of {len(ranked)} that are accurate enough and not dropped early"
    return table


@contextmanager
def showing(contest: Contest, workers: int, enabled: bool) -> Iterator[None]:
    """Watch a search on standard error while it runs."""
    if not enabled:
        yield
        return
    console, started = Console(stderr=True), time.monotonic()
    if not console.is_terminal:
        console.width = WIDTH
    console.print(contest.described(), highlight=False, markup=False)

    def drawn() -> Group:
        words = Text(f"{time.monotonic() - started:.0f} s: {contest.progress(workers)}")
        return Group(ranking(contest.standing(Stop.INTERRUPTED), limit=ROWS), words) if contest.ranked else Group(words)

    last = 0.0
    with Live(console=console, auto_refresh=False, transient=True) if console.is_terminal else _plain() as live:

        def watch(contest: Contest) -> None:
            nonlocal last
            now = time.monotonic()
            if now - last >= (SELDOM if live is None else EVERY) and (live is not None or contest.ranked):
                last = now
                if live is None:
                    console.print(drawn())
                else:
                    live.update(drawn(), refresh=True)

        contest.watch = watch
        yield


@contextmanager
def _plain() -> Iterator[None]:
    yield None
