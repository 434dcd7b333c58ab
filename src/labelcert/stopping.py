"""Whether the work at hand has to stop, for code far below an engine: it takes long, and nobody hands it a clock."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_PACE: ContextVar[float] = ContextVar("pace", default=1.0)
_OVER: ContextVar[Callable[[], bool]] = ContextVar("over", default=lambda: False)


class Stopped(Exception):
    """Work was given up, since the run that it belongs to is over."""


@contextmanager
def stopped_by(over: Callable[[], bool]) -> Iterator[None]:
    """Work inside is given up once ``over()`` holds."""
    token = _OVER.set(over)
    try:
        yield
    finally:
        _OVER.reset(token)


def is_over() -> bool:
    """Whether the run is over, for work whose parts count without the rest."""
    return _OVER.get()()


def go_on() -> None:
    """Raise :class:`Stopped` where the run is over; asked between steps of a fraction of a second."""
    if is_over():
        raise Stopped


@contextmanager
def hurried(pace: float) -> Iterator[None]:
    """Measurements inside take this part of their usual time, since the run is short."""
    token = _PACE.set(pace)
    try:
        yield
    finally:
        _PACE.reset(token)


def pace() -> float:
    """Which part of its usual time a measurement may take."""
    return _PACE.get()
