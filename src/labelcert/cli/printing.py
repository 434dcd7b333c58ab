"""All that commands print: tables on standard output, coloured in a terminal and plain when piped.

Names that a user chose are text, whatever is in them: brackets are no markup, and control characters are written out.
"""

from __future__ import annotations

import json
import os
import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
import numpy as np
from rich import box
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from labelcert.certificate import Certificate, display
from labelcert.certificate.answer import answer, proved_nothing
from labelcert.report import tables
from labelcert.text import READABLE, printable, printable_json

WIDEST = 10_000
"""Columns of a piped table are never cut, whatever the names in them."""

FEW = 5
"""Nodes and annotators that are shown unless more are asked for."""

FEW_NAMED = 2
"""Labels of an attack that are named."""

MOST_BUDGETS = 6
"""Rows of budgets, unless all are asked for."""


class _Output(Console):
    """Shows text as it is, and leaves a reader that goes away to the command line."""

    def render_str(self, text: str, **options: Any) -> Text:
        """Without markup, and in signs that can be written, so that columns stay straight."""
        shown = printable(text).encode(self.encoding, READABLE).decode(self.encoding)
        return super().render_str(shown, **{**options, "markup": False, "emoji": False})

    def on_broken_pipe(self) -> None:
        """Where rich alone would exit with code 1."""
        raise BrokenPipeError


def prepare_streams() -> None:
    """Standard output and standard error write signs that they know."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors=READABLE)


def abandon(name: str) -> None:
    """Write no more to standard output, say: its reader is gone, or its disk is full."""
    devnull = os.open(os.devnull, os.O_WRONLY)
    os.dup2(devnull, getattr(sys, name).fileno())
    os.close(devnull)


def say(text: str = "", *, error: bool = False) -> None:
    """Print lines of text."""
    click.echo("\n".join(map(printable, text.split("\n"))), err=error)


def say_prose(text: str) -> None:
    """Print sentences; in a terminal, words move to the next line where one is full, but no number loses its sign."""
    console = _Output()
    for line in map(printable, text.split("\n")):
        width = console.width if console.is_terminal else WIDEST
        whole = textwrap.TextWrapper(width, break_on_hyphens=False)
        say(whole.fill(line.replace(" %", "\N{NO-BREAK SPACE}%")).replace("\N{NO-BREAK SPACE}%", " %"))


def print_table(table: Table, *, wide: Sequence[str] = (), last: str = "") -> None:
    """One table under its title; when piped, as wide as it needs to be.

    In a terminal, columns with ``wide`` headings go where the table would be too wide, and ``last`` where its longest
    words would be. Where that is not enough, rows become paragraphs: no word is ever broken.
    """
    console = _Output()
    table.box, table.show_edge, table.pad_edge, table.padding = box.SIMPLE_HEAD, False, False, (0, 1, 0, 0)
    table.show_header = any(column.header for column in table.columns)
    title, table.title = table.title, None  # which would be folded to the width of the table
    if not console.is_terminal:
        console.width = max(200, _natural(console, table), len(str(title)))
    if title:
        console.print(title, style="italic", highlight=False)
    for heading in wide:
        if _natural(console, table) > console.width:
            table = _without(table, heading)
    fits = _fitted(console, table, whole=True) or _fitted(console, table)
    if not fits:
        table = _without(table, last)
        fits = _fitted(console, table)
    if fits:
        console.print(table)
        return
    for cells in zip(*(column.cells for column in table.columns), strict=True):
        named = [(str(column.header), str(cell)) for column, cell in zip(table.columns, cells, strict=True)]
        say_prose("; ".join(f"{name}: {cell}" if name else cell for name, cell in named))
    if table.caption:
        say_prose(str(table.caption))


def _without(table: Table, heading: str) -> Table:
    """The table without the column of that heading."""
    kept = [column for column in table.columns if column.header != heading]
    fewer = Table(
        caption=table.caption,
        box=table.box,
        show_edge=False,
        pad_edge=False,
        padding=table.padding,
        show_header=table.show_header,
    )
    for column in kept:
        fewer.add_column(column.header, justify=column.justify)
    for row in zip(*(column.cells for column in kept), strict=True):
        fewer.add_row(*row)
    return fewer


def _fitted(console: Console, table: Table, *, whole: bool = False) -> bool:
    """Give each column a width, so that the table fits and no word is broken; False where that is impossible.

    Columns of numbers break no line, if ``whole``.
    """
    longest, least = [], []
    for column in table.columns:
        cells = [console.render_str(str(cell)).plain for cell in (column.header, *column.cells)]
        words = cells if whole and column.justify == "right" else [word for cell in cells for word in cell.split(" ")]
        longest.append(max(map(cell_len, cells)))
        least.append(max(map(cell_len, words)))
    left = console.width - sum(least) - 2 * (len(least) - 1)
    if left < 0:
        return False
    wanting = sorted(range(len(least)), key=lambda k: longest[k] - least[k])
    for place, k in enumerate(wanting):
        more = min(longest[k] - least[k], left // (len(wanting) - place))
        table.columns[k].width = least[k] + more
        left -= more
    return True


def _natural(console: Console, table: Table) -> int:
    """Columns of the terminal that the table takes with each row in one line."""
    return console.measure(table, options=console.options.update(width=WIDEST)).maximum


def print_json(value: Any) -> None:
    """Standard JSON, and nothing else on standard output."""
    plain = (sys.stdout.encoding or "").lower().startswith("utf")
    text = json.dumps(value, indent=1, allow_nan=False, ensure_ascii=not plain)
    click.echo(printable_json(text))


def say_written(paths: Sequence[Path], quiet: bool) -> None:
    """Name the files that were written, all into one folder."""
    if paths and not quiet:
        say(f"wrote {', '.join(path.name for path in paths)} into {paths[0].parent}", error=True)


def show(
    cert: Certificate,
    *,
    limit: int | None = None,
    full: bool = False,
    of: str = "",
    more: str = "",
    brief: bool = False,
    flips: int | None = None,
) -> None:
    """The answer, then the tables behind it unless ``brief``, and how the certificate came about.

    The answer is about the budget ``flips``; by default, about the smallest that changes a prediction.
    ``limit`` is the number of nodes, 0 for none; by default a few, or all of them and everything else if ``full``.
    """
    say_prose(of or f"{display.headline(cert)}.")
    for sentence in answer(cert, flips).sentences:
        say_prose(sentence)
    claimed = bool(np.any(cert.radius_claimed > cert.radius_lower))
    if (brief or (proved_nothing(cert) and not claimed)) and not full:
        say_prose(f"{tables.origin(cert)}{more}")
        if not brief:
            say_notes([cert])
        return
    budgets = display.telling_budgets(cert, None if full else MOST_BUDGETS)
    shown = tables.budget_table(cert, budgets=budgets, named=tables.SOME if full else FEW_NAMED)
    print_table(shown, wide=("of labels", "of all", "of total", "changed", tables.BAR), last="by flipping")
    if full and cert.run.finds_attacks:
        print_table(tables.takeover_table(cert))
    few = (None if full else FEW) if limit is None else limit
    if few != 0:
        counted = "flipped labels" if cert.run.unit in ("flips", "cost units") else cert.run.unit
        title = f"Fewest {counted} that change each prediction"
        print_table(tables.node_table(cert, limit=few, title=title), last="flips that do it")
        if cert.run.counts_annotators:
            title = "Annotators, by what they change alone"
            print_table(tables.annotator_table(cert, limit=few or cert.n_test, title=title))
    say_prose(f"{tables.origin(cert)}{more}")
    say_notes([cert])


def say_notes(certificates: Sequence[Certificate]) -> None:
    """What a reader has to know besides, each thing once."""
    for note in dict.fromkeys(note for cert in certificates for note in tables.notes(cert)):
        first, space, rest = note.partition(" ")
        say_prose(f"{first.capitalize() if first.isalpha() else first}{space}{rest}.")
