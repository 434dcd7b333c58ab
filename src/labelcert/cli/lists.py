"""Commands that say what there is: datasets and models."""

from __future__ import annotations

from dataclasses import asdict, fields

import click

from labelcert.cli.printing import print_json, print_table, say
from labelcert.graphs.datasets import datasets
from labelcert.models import models
from labelcert.report import tables


@click.command("datasets")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def datasets_command(as_json: bool) -> None:
    """List the graphs that there are by name."""
    if as_json:
        print_json([asdict(info) for info in datasets()])
        return
    rows = [
        (info.name, _size(info.n_nodes), _size(info.n_edges), str(info.n_classes), info.source, info.description)
        for info in datasets()
    ]
    print_table(tables.listing("Datasets", ("name", "nodes", "edges", "classes", "source", "what it is"), rows))
    say("Downloads are kept in the folder given as --data-dir, or named by LABELCERT_DATA_DIR, or in the cache.")


@click.command("models")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def models_command(as_json: bool) -> None:
    """List the models that there are by name, with their options and defaults."""
    known = {info: {f.name: f.default for f in fields(info.model)} for info in models()}
    if as_json:
        found = known.items()
        print_json([{"name": i.name, "description": i.description, "options": options} for i, options in found])
        return
    rows = []
    for info, options in known.items():
        words = (f"{name.replace('_', '-')}={default}" for name, default in options.items() if name != "C")
        rows.append((info.name, info.description, ", ".join(words)))
    print_table(tables.listing("Models", ("name", "what it is", "options and defaults"), rows))


def _size(count: int | None) -> str:
    return "varies" if count is None else str(count)
