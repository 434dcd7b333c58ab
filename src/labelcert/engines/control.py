"""Limits and signals of one run: deadlines, Ctrl-C, progress."""

from __future__ import annotations

import math
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

import numpy as np

from labelcert.arrays import Signs
from labelcert.certificate import Stop
from labelcert.errors import InvalidInput
from labelcert.signals import TERMINATION
from labelcert.stopping import hurried, stopped_by

GRACE_SECONDS, GRACE_ON_INTERRUPT = 0.8, 0.3
"""How long open points may still be decided once the search has stopped, and then as long again attacks be checked."""

UNHURRIED_SECONDS = 15.0
"""With a shorter time limit, measurements for estimates are shorter, too."""

SOLVERS = ("highs", "scip", "gurobi")
"""What ``solver=`` takes."""


def check_solver(name: str) -> str:
    """A name of :data:`SOLVERS`."""
    if name not in SOLVERS:
        raise InvalidInput(f"solver must be one of {', '.join(SOLVERS)}, got {name!r}")
    return name


@dataclass
class Control:
    """Limits and signals of one run.

    Attributes
    ----------
    workers : int
        Threads that retrain in parallel.
    deadline : float or None
        On the monotonic clock.
    time_limit : float or None
        Seconds, as the user gave them.
    report : callable
        ``report(done, total)``, called now and then.
    flag : (1,) array
        Non-zero tells compiled loops to return.
    collective : bool
        Whether the collective curve is asked for; if not, engines may leave it open.
    solver : str
        Which solver runs the paper's mixed-integer programs.
    trust_solver : bool
        Whether a solver's claims count as proofs.
    node_time_limit : float or None
        Seconds that a search may take for one node or one budget of the curve.
    note : callable
        ``note(text)``: what is being worked on, for a progress display.
    parent : Control, optional
        The run that this one is a part of: it stops when that one does.
    chooses_budget : bool
        Whether the largest budget may be chosen by how long it takes: neither it nor a time limit was given.
    remarks : tuple of str
        What is different about this run: certificates record it.
    """

    workers: int
    time_limit: float | None = None
    report: Callable[[float, float], None] = lambda done, total: None
    deadline: float | None = None
    flag: Signs = field(default_factory=lambda: np.zeros(1, dtype=np.int8))
    stop: Stop = Stop.FINISHED
    closing_time: float | None = None
    collective: bool = True
    solver: str = "highs"
    trust_solver: bool = False
    node_time_limit: float | None = None
    note: Callable[[str], None] = lambda text: None
    parent: Control | None = None
    chooses_budget: bool = False
    remarks: tuple[str, ...] = ()

    @contextmanager
    def running(self) -> Iterator[None]:
        """Give up work inside once the run is over; the first Ctrl-C ends it in order, the second one acts as usual.

        That holds for every signal that would raise KeyboardInterrupt. Others are left as they are: whoever ignores
        Ctrl-C, or has a handler of their own, means it.
        """
        pace = 1.0 if self.time_limit is None else min(1.0, self.time_limit / UNHURRIED_SECONDS)
        with stopped_by(self.over), hurried(pace), self._signals_caught():
            yield

    @contextmanager
    def _signals_caught(self) -> Iterator[None]:
        # Elsewhere than in the main thread signals cannot be caught, nor do they arrive.
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        caught = [number for number in TERMINATION if signal.getsignal(number) is signal.default_int_handler]

        def on_interrupt(signum: int, frame: object) -> None:
            self.end(Stop.INTERRUPTED)
            signal.signal(signum, signal.default_int_handler)

        for number in caught:
            signal.signal(number, on_interrupt)
        try:
            yield
        finally:
            for number in caught:
                signal.signal(number, signal.default_int_handler)

    def end(self, reason: Stop) -> None:
        """Ask everybody to stop; the first reason counts."""
        if self.stop is Stop.FINISHED:
            self.stop = reason
        self.flag[0] = 1

    def over(self) -> bool:
        """Whether work has to stop now."""
        if self.parent is not None and self.parent.over():
            self.end(self.parent.stop)
        if self.deadline is not None and time.monotonic() > self.deadline:
            self.end(Stop.TIME_LIMIT)
        return bool(self.flag[0])

    def left_seconds(self) -> float:
        """How long the run may still take; 0 when it has to stop."""
        if self.over():
            return 0.0
        return math.inf if self.deadline is None else max(0.0, self.deadline - time.monotonic())

    def start_clock(self) -> None:
        """From here the time limit counts."""
        if self.time_limit is not None:
            self.deadline = time.monotonic() + self.time_limit

    def reserve(self, seconds: float) -> None:
        """Keep some of the time that is left, at most half of it, for what comes after the search."""
        if self.deadline is not None:
            self.deadline -= min(seconds, 0.5 * max(0.0, self.deadline - time.monotonic()))

    def limit(self, seconds: float) -> None:
        """A time limit that nobody gave."""
        self.time_limit = seconds
        self.start_clock()

    def part(self, share: float) -> Control:
        """A part of the run that gets a share of the time that is left."""
        own = replace(self, parent=self, flag=np.zeros(1, dtype=np.int8), stop=Stop.FINISHED, closing_time=None)
        if self.deadline is not None:
            now = time.monotonic()
            own.deadline = now + share * (self.deadline - now)
        return own

    def closed(self) -> bool:
        """Whether even open points can no longer be decided: a moment after the search had to stop."""
        if not self.over():
            return False
        if self.closing_time is None:
            self.closing_time = time.monotonic() + self._grace
        return time.monotonic() > self.closing_time

    def while_checking(self) -> Callable[[], bool]:
        """Whether attacks can no longer be checked: a moment from now on, where the search had to stop."""
        began = time.monotonic()
        return lambda: self.over() and time.monotonic() > max(began, self.deadline or 0.0) + self._grace

    @property
    def _grace(self) -> float:
        return GRACE_ON_INTERRUPT if self.stop is Stop.INTERRUPTED else GRACE_SECONDS
