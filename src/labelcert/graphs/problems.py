"""What is wrong with a user's tables, gathered so that all of it is told at once."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import numpy as np

from labelcert.errors import InvalidInput

MOST_SHOWN = 20

Places = np.ndarray[tuple[int], np.dtype[np.int64]]


class Problems:
    """Problems of tables; with `fix`, harmless ones are mended, with a warning."""

    def __init__(self, *, fix: bool) -> None:
        self.fix = fix
        self._found, self._mended = _Noted(), _Noted()

    def add(self, message: str) -> None:
        """Note a problem, to be shown with all others."""
        self._found.add(1, lambda _: message)

    def add_each(self, places: Places, message: Callable[[int], str]) -> None:
        """Note a problem at each of some places; only messages that will be shown are put together."""
        self._found.add(len(places), lambda k: message(int(places[k])))

    def harmless(self, message: str, mended: str) -> None:
        """Note a problem that can be mended, and what was done if it was."""
        self.harmless_each(np.zeros(1, dtype=np.int64), lambda _: message, lambda _: mended)

    def harmless_each(self, places: Places, message: Callable[[int], str], mended: Callable[[int], str]) -> None:
        """Note one at each of some places."""
        if self.fix:
            self._mended.add(len(places), lambda k: mended(int(places[k])))
        else:
            self.add_each(places, lambda place: f"{message(place)}, or read the tables with fix=True")

    def refuse(self) -> None:
        """Raise if there is any problem; warn of what was mended."""
        found, mended = self._found, self._mended
        if found.count == 1:
            raise InvalidInput(found.shown[0])
        if found.count:
            more = [f"and {found.more} more"] if found.more else []
            raise InvalidInput("\n  ".join([f"{found.count} problems:", *found.shown, *more]))
        if mended.count:
            rest = f"; and {mended.more} more" if mended.more else ""
            warnings.warn(f"mended in the tables: {'; '.join(mended.shown)}{rest}", stacklevel=3)


class _Noted:
    """Messages: how many there are, and the first of them."""

    def __init__(self) -> None:
        self.count, self.shown = 0, list[str]()

    def add(self, count: int, message: Callable[[int], str]) -> None:
        self.shown += [message(k) for k in range(min(count, MOST_SHOWN - len(self.shown)))]
        self.count += count

    @property
    def more(self) -> int:
        return self.count - len(self.shown)
