"""What is wrong with a user's tables, gathered so that all of it is told at once."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable

import numpy as np

from labelcert.errors import InvalidInput

MOST_SHOWN = 20

Places = np.ndarray[tuple[int], np.dtype[np.int64]]
Noted = list[tuple[Places, Callable[[int], str]]]
"""Places, and the message about each."""


class Problems:
    """Problems of tables; with `fix`, harmless ones are mended, with a warning."""

    def __init__(self, *, fix: bool) -> None:
        self.fix = fix
        self._found, self._mended = Noted(), Noted()

    def add(self, message: str) -> None:
        """Note a problem, to be shown with all others."""
        self.add_each(np.zeros(1, dtype=np.int64), lambda _: message)

    def add_each(self, places: Places, message: Callable[[int], str]) -> None:
        """Note a problem at each of some places; only messages that will be shown are put together."""
        self._found.append((places, message))

    def harmless(self, message: str, mended: str) -> None:
        """Note a problem that can be mended, and what was done if it was."""
        self.harmless_each(np.zeros(1, dtype=np.int64), lambda _: message, lambda _: mended)

    def harmless_each(self, places: Places, message: Callable[[int], str], mended: Callable[[int], str]) -> None:
        """Note one at each of some places."""
        if self.fix:
            self._mended.append((places, mended))
        else:
            self.add_each(places, lambda place: f"{message(place)}, or read the tables with fix=True")

    def refuse(self) -> None:
        """Raise if there is any problem; warn of what was mended."""
        found, more = _shown(self._found)
        if len(found) == 1:
            raise InvalidInput(found[0])
        if found:
            rest = [f"and {more} more"] if more else []
            raise InvalidInput("\n  ".join([f"{len(found) + more} problems:", *found, *rest]))
        mended, more = _shown(self._mended)
        if mended:
            left = f"; and {more} more" if more else ""
            warnings.warn(f"mended in the tables: {'; '.join(mended)}{left}", stacklevel=3)


def _shown(noted: Noted) -> tuple[list[str], int]:
    """The first messages, and how many more there are."""
    messages = (message(int(place)) for places, message in noted for place in places)
    shown = list(itertools.islice(messages, MOST_SHOWN))
    return shown, sum(len(places) for places, _ in noted) - len(shown)
