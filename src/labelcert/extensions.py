"""Packages that add to labelcert without being imported by it.

An extension is a module that registers something when it is imported: engines, studies, settings, in the group
``labelcert`` of entry points, and commands of the command line in ``labelcert.commands``. It is announced by this
project's ``pyproject.toml`` or by that of any other package.
"""

from __future__ import annotations

from functools import cache
from importlib.metadata import entry_points

COMMANDS = "labelcert.commands"


@cache
def load_extensions(group: str = "labelcert") -> None:
    """Import every extension of a group that is installed, once: before anything is looked up among what they add."""
    for extension in sorted(entry_points(group=group), key=lambda found: found.name):
        extension.load()
