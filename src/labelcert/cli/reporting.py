"""Reports to click through: ``labelcert report``, and ``--report`` of other commands."""

from __future__ import annotations

import sys
import tempfile
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from labelcert.certificate import Certificate, load
from labelcert.cli.exits import EXIT_FAILED
from labelcert.cli.options import FILE, option
from labelcert.cli.printing import say
from labelcert.errors import InvalidInput
from labelcert.pages import write_report

REPORT_OPTION = option(
    "--report", FILE, "Write one page to click through, which needs no network.", metavar="FILE.html"
)


def check_report(path: Path | None) -> None:
    """Refuse what cannot become a page, before any work starts."""
    if path is None:
        return
    if path.suffix.lower() not in (".html", ".htm"):
        raise InvalidInput(f"a report is a page, so its name must end in .html, got {path}")
    if path.is_dir() or not path.absolute().parent.is_dir():
        raise InvalidInput(f"a report is written as a file into a folder that exists, got {path}")
    try:
        tempfile.TemporaryFile(dir=path.absolute().parent).close()
    except OSError as error:
        raise InvalidInput(f"nothing can be written into the folder of {path}: {error.strerror}") from None


def deliver_report(
    certificates: Mapping[str, Certificate], path: Path | None, *, title: str, quiet: bool, **options: Any
) -> None:
    """Write a page if one was asked for, and say so; options are those of `write_report`."""
    if path is None:
        return
    write_report(certificates, path, title=title, **options)
    if not quiet:
        say(f"wrote {path}: open it in a browser", error=True)


@click.command("report")
@click.argument("paths", metavar="FILE.cert...", nargs=-1, required=True, type=FILE)
@option("--out", FILE, "The page.", "report.html", metavar="FILE.html")
@option("--title", str, "Above the page. [default: the names of the certificates]")
@option("--name names", str, "What to call each certificate; repeatable. [default: its file]", multiple=True)
@option("--budget", click.IntRange(min=0), "Where the slider stands first.")
@option("--verify", bool, "Check certificates in exact arithmetic first, and show what that found.")
def report_files(
    paths: tuple[Path, ...], out: Path, title: str | None, names: tuple[str, ...], budget: int | None, verify: bool
) -> None:
    """Write saved certificates as one page to click through; several models stand side by side.

    The page holds all that it needs: it loads nothing, sends nothing, and opens from the disk.
    """
    check_report(out)
    called = _called(paths, names)
    certificates = {name: load(path) for name, path in zip(called, paths, strict=True)}
    files = dict(zip(called, paths, strict=True))
    right = write_report(certificates, out, title=title, budget=budget, verify=verify, files=files)
    say(f"wrote {out}: open it in a browser")
    if not right:
        say("a certificate is wrong: the page says which", error=True)
        sys.exit(EXIT_FAILED)


def _called(paths: tuple[Path, ...], names: tuple[str, ...]) -> list[str]:
    if names and len(names) != len(paths):
        raise InvalidInput(f"give --name once for each certificate: {len(paths)} files, {len(names)} names")
    stems = Counter(path.stem for path in paths)
    called = list(names) or [path.stem if stems[path.stem] == 1 else str(path.with_suffix("")) for path in paths]
    if len(set(called)) < len(called):
        raise InvalidInput("certificates must have different names: give each one a name of its own with --name")
    return called
