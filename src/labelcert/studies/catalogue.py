"""Studies that come with the package, by name; extensions add more."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from pathlib import Path

from labelcert.extensions import load_extensions
from labelcert.studies.schema import Study
from labelcert.studies.study_files import parse_study, read_study

MORE = ("losses", "recheck", "harden", "transfer", "transfer-wide", "attacks", "certificates")
"""Studies that go beyond the paper."""

SHIPPED: dict[str, tuple[str, str]] = dict.fromkeys(MORE, (__package__, "more"))
"""The package and the folder that hold the file of each study."""


def find_study(file: str) -> Study:
    """Read a study from a file, or one that comes with the package by its name."""
    load_extensions()
    path = Path(file)
    return read_study(path) if path.is_file() or file not in SHIPPED else shipped_study(file)


@cache
def shipped_study(name: str) -> Study:
    """Read a study that comes with the package."""
    package, folder = SHIPPED[name]
    text = files(package).joinpath(folder, f"{name}.toml").read_text(encoding="utf-8")
    return parse_study(text, name=name, file=f"{name}.toml")
