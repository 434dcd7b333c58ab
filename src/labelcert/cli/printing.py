"""What commands print: tables on standard output, coloured in a terminal and plain when piped."""

from __future__ import annotations

import json
from typing import Any

import click
from rich.console import Console
from rich.table import Table

from labelcert.certificate import Certificate
from labelcert.report import tables

WIDEST = 10_000
"""Columns of a piped table are never cut, whatever the names in them."""


class _Output(Console):
    """Leaves a reader that goes away to the command line, where rich alone would fail with exit code 1."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


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
    click.echo(json.dumps(value, indent=1, allow_nan=False, ensure_ascii=False))


def show(cert: Certificate, *, limit: int | None = 20) -> None:
    """Both tables and the summary of a certificate that knows no names."""
    print_table(tables.node_table(cert, limit=limit))
    print_table(tables.budget_table(cert, budgets=few(cert.last_flips)))
    if cert.run.finds_attacks:
        print_table(tables.takeover_table(cert))
    click.echo(tables.summary(cert))


def few(max_flips: int) -> list[int]:
    """All budgets, or some two dozen of them.

    Examples
    --------
    >>> few(3), len(few(100))
    ([0, 1, 2, 3], 21)
    """
    step = max(1, -(-max_flips // 24))
    return sorted({*range(0, max_flips + 1, step), max_flips})
