"""Signals that ask a program to end."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator

TERMINATION = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))
"""Signals that ask a program to end: Ctrl-C, a request from outside, and a terminal that was closed."""


def leave_signals_to_parent() -> None:
    """Ignore Ctrl-C and a closed terminal: the parent process says when to end."""
    for number in TERMINATION:
        if number != signal.SIGTERM:
            signal.signal(number, signal.SIG_IGN)


@contextlib.contextmanager
def ending_in_order() -> Iterator[None]:
    """Requests to terminate, and a terminal that was closed, act like Ctrl-C, unless they are ignored."""
    caught = [number for number in TERMINATION[1:] if signal.getsignal(number) is signal.SIG_DFL]
    for number in caught:
        signal.signal(number, signal.default_int_handler)
    try:
        yield
    finally:
        for number in caught:
            signal.signal(number, signal.SIG_DFL)
