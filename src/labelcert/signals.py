"""Signals that ask a program to end, and processes that end with the one that they work for.

This module imports nothing heavy, so that a new process watches its parent from its first moment.
"""

from __future__ import annotations

import contextlib
import importlib
import multiprocessing
import os
import signal
import threading
from collections.abc import Iterator
from typing import Any

TERMINATION = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))
"""Signals that ask a program to end: Ctrl-C, a request from outside, and a terminal that was closed."""


def obey_parent() -> None:
    """Leave Ctrl-C and a closed terminal to the parent process, and end at once when it is gone, however it ended."""
    for number in TERMINATION:
        if number != signal.SIGTERM:  # by which the parent ends it
            signal.signal(number, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_end_with, args=(parent.sentinel,), daemon=True).start()


def run_in_child(module: str, function: str, *arguments: Any) -> None:
    """What a new process starts with: obey, then import what there is to do."""
    obey_parent()
    getattr(importlib.import_module(module), function)(*arguments)


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


def _end_with(sentinel: int) -> None:
    from multiprocessing.connection import wait

    wait([sentinel])
    os._exit(1)
