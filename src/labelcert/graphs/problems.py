"""What is wrong with a user's tables, gathered so that all of it is told at once."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import numpy as np

from labelcert.errors import InvalidInput

MOST_SHOWN = 20

MOST_ALIKE = 3
"""Problems of one kind that are shown; the others are counted."""

Places = np.ndarray[tuple[int], np.dtype[np.int64]]
Noted = list[tuple[Places, Callable[[int], str]]]
"""Places, and the message about each."""


class Problems:
    """Problems of tables; with `fix`, harmless ones are mended, with a warning."""

    def __init__(self, *, fix: bool) -> None:
        self.fix = fix
        self._found, self._mended = Noted(), Noted()
        self.notes: list[str] = []
        """What was decided about the tables without being asked, one line each."""

    @property
    def any(self) -> bool:
        """Whether something was found."""
        return any(len(places) for places, _ in self._found)

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
        """Raise if there is any problem; warn of what was mended, or decided without being asked."""
        self.refuse_now()
        mended, _ = _shown(self._mended)
        self.notes += [f"mended in the tables: {'; '.join(mended)}"] if mended else []
        for note in self.notes:
            warnings.warn(note, stacklevel=3)

    def refuse_now(self) -> None:
        """Raise if there is any problem so far."""
        found, count = _shown(self._found)
        if count == 1:
            raise InvalidInput(found[0])
        if found:
            raise InvalidInput("\n  ".join([f"{count} problems:", *found]))


def _shown(noted: Noted) -> tuple[list[str], int]:
    """The first messages of each kind, with the number of others like them, and how many there are in all."""
    shown, left = list[str](), 0
    for places, message in noted:
        if len(shown) >= MOST_SHOWN:
            left += len(places)
            continue
        shown += [message(int(place)) for place in places[:MOST_ALIKE]]
        shown += [f"and {len(places) - MOST_ALIKE} more like that"] if len(places) > MOST_ALIKE else []
    return [*shown, *([f"and {left} more"] if left else [])], sum(len(places) for places, _ in noted)
