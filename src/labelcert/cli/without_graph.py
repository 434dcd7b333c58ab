"""Commands without a graph: the demo, a saved certificate, the self-check."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from labelcert import selfcheck as checks
from labelcert.certificate import load
from labelcert.certification import certify
from labelcert.cli.exits import EXIT_FAILED
from labelcert.cli.printing import show
from labelcert.examples import two_clouds
from labelcert.progress import progress_report


@click.command()
@click.option("--labels", "n_labels", default=16, show_default=True, help="Number of labelled points.")
@click.option("--nodes", "n_test", default=12, show_default=True, help="Number of test points.")
@click.option("--seed", default=0, show_default=True)
@click.option("--out", type=click.Path(path_type=Path), help="Save the certificate to this file.")
def demo(n_labels: int, n_test: int, seed: int, out: Path | None) -> None:
    """Certify a small built-in problem: points in the plane, labelled fraud or fine."""
    example = two_clouds(n_labels=n_labels, n_test=n_test, seed=seed)
    cert = certify(example.K_train, example.labels, example.K_test, example.C, progress=sys.stderr.isatty())
    show(cert)
    if out is not None:
        cert.save(out)


@click.command("show")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--nodes", "limit", default=20, show_default=True, help="Show that many nodes at the most.")
def show_file(file: Path, limit: int) -> None:
    """Print a saved certificate."""
    show(load(file), limit=limit)


@click.command()
@click.option("--problems", default=500, show_default=True, help="Number of random problems.")
@click.option("--seed", default=0, show_default=True)
@click.option("--largest", default=8, show_default=True, help="Largest number of labels.")
def selfcheck(problems: int, seed: int, largest: int) -> None:
    """Compare every engine with brute force in rational arithmetic on random small problems.

    Degenerate kernels, ties, extreme parameters and all threat models are among them.
    """
    with progress_report("checking", sys.stderr.isatty()) as show:
        wrong = checks.run(problems, seed, largest=largest, report=show.report)
    for line in wrong:
        click.echo(line)
    click.echo(f"{problems} problems, every engine against brute force: {len(wrong)} contradictions")
    if wrong:
        sys.exit(EXIT_FAILED)
