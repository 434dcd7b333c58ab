"""How far a verification is: what is told each second, and when its time is over."""

from __future__ import annotations

import time
from collections.abc import Callable

SECONDS_BETWEEN = 1.0
"""Something is told this often."""


class OutOfTime(Exception):
    """The time limit was reached; everything that is proved by then stays proved."""


class Pace:
    """Counts claims that are checked, tells how many there are, and ends the work when its time is over.

    Attributes
    ----------
    done, total : int
        Claims that are checked, and all of them.
    """

    def __init__(self, report: Callable[[str], None], time_limit: float | None) -> None:
        self._report, self._limit = report, time_limit
        self._started = time.monotonic()
        self._told = -SECONDS_BETWEEN
        self._what = ""
        self.done, self.total = 0, 0

    def begin(self, what: str) -> None:
        """Name the step that begins now, for the progress report."""
        self._what = what
        self.tell()
        self()

    def __call__(self, detail: str = "", *, done: int = 0) -> None:
        """From inside a step: this many more claims are checked; raises :class:`OutOfTime` where time is over."""
        self.done += done
        passed = time.monotonic() - self._started
        if passed - self._told >= SECONDS_BETWEEN:
            self.tell(detail)
        if self._limit is not None and passed > self._limit:
            raise OutOfTime

    def tell(self, detail: str = "") -> None:
        """Say now what is going on; claims are not counted before it is known what they are."""
        self._told = time.monotonic() - self._started
        what = ", ".join(filter(None, (self._what, detail)))
        self._report(f"{self.counted}: {what}" if self.total else what)

    @property
    def counted(self) -> str:
        """How many claims are checked, in words."""
        return f"checked {self.done:,} of {self.total:,} claims"
