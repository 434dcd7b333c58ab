"""What is wrong with a user's tables, gathered so that all of it is told at once."""

from __future__ import annotations

import warnings

from labelcert.errors import InvalidInput

MOST_SHOWN = 20


class Problems:
    """Problems of tables; with `fix`, harmless ones are mended, with a warning."""

    def __init__(self, *, fix: bool) -> None:
        self.fix = fix
        self._found: list[str] = []
        self._mended: list[str] = []

    def add(self, message: str) -> None:
        """Note a problem, to be shown with all others."""
        self._found.append(message)

    def harmless(self, message: str, mended: str) -> None:
        """Note a problem that can be mended, and what was done if it was."""
        if self.fix:
            self._mended.append(mended)
        else:
            self._found.append(f"{message}, or read the tables with fix=True")

    def refuse(self) -> None:
        """Raise if there is any problem; warn of what was mended."""
        if self._found:
            shown = self._found[:MOST_SHOWN]
            more = len(self._found) - len(shown)
            lines = [f"{len(self._found)} problems:", *shown, *([f"and {more} more"] if more else [])]
            raise InvalidInput(shown[0] if len(self._found) == 1 else "\n  ".join(lines))
        if self._mended:
            told = self._mended[:MOST_SHOWN]
            rest = f"; and {len(self._mended) - len(told)} more" if len(self._mended) > len(told) else ""
            warnings.warn(f"mended in the tables: {'; '.join(told)}{rest}", stacklevel=3)
