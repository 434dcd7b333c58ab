"""How long compiling takes, apart from the work that it is for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from numba.core.event import TimingListener, install_listener


@contextmanager
def compiling_clock() -> Iterator[Callable[[], float]]:
    """What tells the seconds, from here on, in which some thread compiled, or read what was compiled before."""
    listener = TimingListener()
    with install_listener("numba:compiler_lock", listener):
        yield lambda: float(listener.duration) if listener.done else 0.0
