"""Packages that add to labelcert without being imported by it.

An extension is a module that registers something when it is imported: engines, studies, commands. It is announced as an
entry point of the group ``labelcert``, by this project's ``pyproject.toml`` or by that of any other package.
"""

from __future__ import annotations

from functools import cache
from importlib.metadata import entry_points

GROUP = "labelcert"


@cache
def load_extensions() -> None:
    """Import every extension that is installed, once: whoever looks a name up among all that are registered does so."""
    for extension in sorted(entry_points(group=GROUP), key=lambda found: found.name):
        extension.load()
