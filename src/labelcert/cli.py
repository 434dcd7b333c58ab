"""The command line.

Exit codes: 0 done, 1 a check failed, 2 the request is wrong, 3 the work is too large or data is unavailable,
130 interrupted (with what was proved so far printed).
"""

from __future__ import annotations

import sys
from pathlib import Path

import click
from rich.console import Console

from labelcert import selfcheck as checks
from labelcert import tables
from labelcert._version import __version__
from labelcert.certificate import Certificate, load
from labelcert.certification import certify
from labelcert.errors import DataUnavailable, LabelcertError, WorkTooLarge
from labelcert.examples import two_clouds
from labelcert.progress import progress_report

EXIT_FAILED, EXIT_WRONG, EXIT_UNAVAILABLE, EXIT_INTERRUPTED = 1, 2, 3, 130


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="labelcert")
def cli() -> None:
    """Exact certificates: which predictions survive corrupted training labels."""


@cli.command()
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


@cli.command("show")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--nodes", "limit", default=20, show_default=True, help="Show that many nodes at the most.")
def show_file(file: Path, limit: int) -> None:
    """Print a saved certificate."""
    show(load(file), limit=limit)


@cli.command()
@click.option("--problems", default=500, show_default=True, help="Number of random problems.")
@click.option("--seed", default=0, show_default=True)
@click.option("--largest", default=8, show_default=True, help="Largest number of labels.")
def selfcheck(problems: int, seed: int, largest: int) -> None:
    """Compare every engine with brute force in rational arithmetic on random small problems.

    Degenerate kernels, ties, extreme parameters and all threat models are among them.
    """
    with progress_report("checking", sys.stderr.isatty()) as report:
        wrong = checks.run(problems, seed, largest=largest, report=report)
    for line in wrong:
        click.echo(line)
    click.echo(f"{problems} problems, every engine against brute force: {len(wrong)} contradictions")
    if wrong:
        sys.exit(EXIT_FAILED)


def show(cert: Certificate, *, limit: int | None = 20) -> None:
    """Both tables and the summary, on standard output."""
    console = Console()
    if not console.is_terminal:
        console.width = 200
    console.print(tables.node_table(cert, limit=limit))
    console.print(tables.budget_table(cert, budgets=_few(cert.max_flips)))
    console.print(tables.summary(cert), highlight=False)


def _few(max_flips: int) -> list[int]:
    """All budgets, or some two dozen of them."""
    step = max(1, -(-max_flips // 24))
    return sorted({*range(0, max_flips + 1, step), max_flips})


def main() -> None:
    """Entry point: errors in one line, without a traceback."""
    try:
        cli(standalone_mode=False)
    except click.exceptions.Abort:
        click.echo("interrupted", err=True)
        sys.exit(EXIT_INTERRUPTED)
    except click.ClickException as error:
        error.show()
        sys.exit(EXIT_WRONG)
    except LabelcertError as error:
        click.echo(f"labelcert: {error}", err=True)
        sys.exit(EXIT_UNAVAILABLE if isinstance(error, WorkTooLarge | DataUnavailable) else EXIT_WRONG)
