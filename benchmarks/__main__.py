"""``python -m benchmarks``: run, print tables, store figures."""

from __future__ import annotations

import json
import time
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table

from benchmarks.machine import facts
from benchmarks.sections import SECTIONS, Section, measure


def show(console: Console, section: Section) -> None:
    table = Table(title=section.title, title_justify="left")
    for key, heading, _ in section.columns:
        table.add_column(heading, justify="left" if isinstance(section.rows[0][key], str) else "right")
    for row in section.rows:
        table.add_row(*(form(row[key]) for key, _, form in section.columns))
    console.print(table)
    for note in section.notes:
        console.print(f"  {note}", highlight=False)
    console.print()


def as_markdown(section: Section) -> str:
    """A section as it stands in ``docs/benchmarks.md``."""
    first = section.rows[0]
    lines = [
        f"### {section.title}\n",
        "| " + " | ".join(heading for _, heading, _ in section.columns) + " |",
        "|" + "|".join("---" if isinstance(first[key], str) else "---:" for key, _, _ in section.columns) + "|",
    ]
    lines += ["| " + " | ".join(form(row[key]) for key, _, form in section.columns) + " |" for row in section.rows]
    notes = [f"- {note}" for note in section.notes]
    return "\n".join([*lines, *([""] if notes else []), *notes, ""])


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--quick", is_flag=True, help="Small sizes: a smoke run, whose figures mean little.")
@click.option("--json", "store", type=click.Path(path_type=Path, dir_okay=False), help="Store all figures here.")
@click.option("--markdown", type=click.Path(path_type=Path, dir_okay=False), help="Store the tables as Markdown here.")
@click.option(
    "--only", multiple=True, type=click.Choice(list(SECTIONS)), help="Run this section alone; may be repeated."
)
def main(quick: bool, store: Path | None, markdown: Path | None, only: tuple[str, ...]) -> None:
    """Time labelcert, beside scikit-learn where it does the same."""
    console = Console()
    if not console.is_terminal:
        console.width = 160
    machine = facts()
    versions = ", ".join(f"{name} {version}" for name, version in machine["versions"].items())
    console.print(
        f"{machine['cpu']}, {machine['cores']} cores, load {machine['load_at_start']} at the start; "
        f"{machine['system']}, Python {machine['python']}, {versions}",
        highlight=False,
    )
    if quick:
        console.print("quick run: small sizes, single repeats; not for quoting", highlight=False)
    console.print()
    started = time.perf_counter()
    measure("compile_all")
    results = {}
    pages = []
    for key, run in SECTIONS.items():
        if only and key not in only:
            continue
        section = run(quick)
        show(console, section)
        pages.append(as_markdown(section))
        results[key] = {"title": section.title, "rows": section.rows, "notes": section.notes}
    console.print(f"{time.perf_counter() - started:.0f} s in all", highlight=False)
    if markdown is not None:
        markdown.write_text("\n".join(pages), encoding="utf-8")
    if store is not None:
        figures = {"machine": machine, "quick": quick, "sections": results}
        store.write_text(json.dumps(figures, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
