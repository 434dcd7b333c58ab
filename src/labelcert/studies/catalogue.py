"""Studies that come with the package: the paper's, and our own."""

from __future__ import annotations

import difflib
from functools import cache
from importlib.resources import files
from pathlib import Path

from labelcert.errors import InvalidInput
from labelcert.studies.reading import parse_study, read_study
from labelcert.studies.schema import Study

ORDER = (
    "fig1-karate",
    *("accuracy-cora-ml-b", "accuracy-citeseer-b", "accuracy-csbm", "accuracy-cba", "accuracy-polblogs"),
    *("multi-class-citeseer", "multi-class-cora-ml", "tightness"),
    *("table-1", "cora-ml-b", "citeseer-b", "wiki-cs-b", "polblogs", "cora-b", "chameleon-b", "csbm", "cba"),
    *("sample-wise-and-collective", "ranks", "plateau"),
    *("normalization", "skip-connections", "depth", "linear-or-relu"),
    *("appnp-alpha", "edge-weight", "csbm-density", "csbm-homophily", "cba-density", "csbm-structure-sample-wise"),
    *("graph-size", "graph-size-depth", "linear-kernel", "inductive"),
)
"""All names, in the order of the paper."""

MORE = ("losses", "recheck", "harden", "transfer", "transfer-wide", "attacks", "certificates")
"""Studies that go beyond the paper."""


def paper_study(name: str) -> Study:
    """Read a study of the paper."""
    if name not in ORDER:
        close = difflib.get_close_matches(name, ORDER, n=1)
        hint = f"did you mean {close[0]!r}? " if close else ""
        raise InvalidInput(
            f"expected the name of a study of the paper, or 'all', got {name!r}; {hint}"
            "`labelcert reproduce --list` lists all names"
        )
    return _shipped("paper", name)


def find_study(file: str) -> Study:
    """Read a study from a file, or one that comes with the package by its name."""
    path = Path(file)
    if path.is_file() or file not in (*ORDER, *MORE):
        return read_study(path)
    return paper_study(file) if file in ORDER else _shipped("more", file)


@cache
def _shipped(folder: str, name: str) -> Study:
    text = files("labelcert.studies").joinpath(folder, f"{name}.toml").read_text(encoding="utf-8")
    return parse_study(text, name=name, file=f"{name}.toml")
