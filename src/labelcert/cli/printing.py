"""All that commands print: tables on standard output, coloured in a terminal and plain when piped.

Names that a user chose are text, whatever is in them: brackets are no markup, and control characters are written out.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from labelcert.certificate import Certificate
from labelcert.report import tables
from labelcert.text import READABLE, printable, printable_json

WIDEST = 10_000
"""Columns of a piped table are never cut, whatever the names in them."""


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


def print_table(table: Table) -> None:
    """One table under its title; when piped, as wide as it needs to be."""
    console = _Output()
    title, table.title = table.title, None  # which would be folded to the width of the table
    if not console.is_terminal:
        needed = console.measure(table, options=console.options.update(width=WIDEST)).maximum
        console.width = max(200, needed, len(str(title)))
    if title:
        console.print(title, style="italic", highlight=False)
    console.print(table)


def print_json(value: Any) -> None:
    """Standard JSON, and nothing else on standard output."""
    plain = (sys.stdout.encoding or "").lower().startswith("utf")
    text = json.dumps(value, indent=1, allow_nan=False, ensure_ascii=not plain)
    click.echo(printable_json(text))


def say_written(paths: Sequence[Path], quiet: bool) -> None:
    """Name the files that were written, all into one folder."""
    if paths and not quiet:
        say(f"wrote {', '.join(path.name for path in paths)} into {paths[0].parent}", error=True)


def show(cert: Certificate, *, limit: int | None = 20, of: str = "", where: str = "", more: str = "") -> None:
    """All tables and the summary of a certificate ``of`` a model; the table of nodes only with a ``limit``."""

    def heading(text: str) -> str:
        return f"{of}: {text}, {where}" if of else text[0].upper() + text[1:]

    if limit is not None:
        counted = "flipped labels" if cert.run.unit in ("flips", "cost units") else cert.run.unit
        title = heading(f"fewest {counted} that change each prediction")
        print_table(tables.node_table(cert, limit=limit, title=title))
    title = heading("predictions that provably survive")
    print_table(tables.budget_table(cert, budgets=few(cert.last_flips), title=title))
    if cert.run.finds_attacks:
        title = heading(f"what predictions become within {cert.last_flips} {cert.run.unit}")
        print_table(tables.takeover_table(cert, title=title if of else None))
    if cert.run.counts_annotators and limit is not None:
        print_table(tables.annotator_table(cert, limit=limit, title=heading("annotators, by what they change alone")))
    say(f"{tables.summary(cert)}{more}")


def few(max_flips: int) -> list[int]:
    """All budgets, or some two dozen of them."""
    step = max(1, -(-max_flips // 24))
    return sorted({*range(0, max_flips + 1, step), max_flips})
