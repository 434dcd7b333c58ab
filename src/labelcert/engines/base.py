"""What every engine takes and returns.

An engine is one file: a class that says which problems it refuses, estimates its work, and runs. It reads a
:class:`Question` and returns :class:`Findings`; it never decides a sign on its own authority, but through the
question's scorer.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from labelcert.problem import Problem
from labelcert.svm.scoring import Scorer

Float = npt.NDArray[np.float64]
Int = npt.NDArray[np.int64]


GRACE_SECONDS = 1.0


class Stop(StrEnum):
    """Why a run ended."""

    FINISHED = "finished"
    TIME_LIMIT = "time limit"
    INTERRUPTED = "interrupted"
    MEMORY = "memory limit"


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
    collective : bool
        Whether the curve is asked for.
    report : callable
        ``report(done, total)``, called now and then.
    flag : (1,) array
        Non-zero tells compiled loops to return.
    """

    workers: int
    time_limit: float | None = None
    collective: bool = True
    report: Callable[[float, float], None] = lambda done, total: None
    deadline: float | None = None
    flag: npt.NDArray[np.int8] = field(default_factory=lambda: np.zeros(1, dtype=np.int8))
    stop: Stop = Stop.FINISHED
    closing_time: float | None = None

    @contextmanager
    def running(self) -> Iterator[None]:
        """Turn the first Ctrl-C into an orderly stop (the second one interrupts as usual)."""
        # Elsewhere than in the main thread signals cannot be caught, nor do they arrive.
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = signal.getsignal(signal.SIGINT)

        def on_interrupt(signum: int, frame: object) -> None:
            self.end(Stop.INTERRUPTED)
            signal.signal(signal.SIGINT, before)

        signal.signal(signal.SIGINT, on_interrupt)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, before)

    def end(self, reason: Stop) -> None:
        """Ask everybody to stop; the first reason counts."""
        if self.stop is Stop.FINISHED:
            self.stop = reason
        self.flag[0] = 1

    def over(self) -> bool:
        """Whether work has to stop now."""
        if self.deadline is not None and time.monotonic() > self.deadline:
            self.end(Stop.TIME_LIMIT)
        return bool(self.flag[0])

    def start_clock(self) -> None:
        """From here the time limit counts: compiled, and with the clean predictions decided."""
        if self.time_limit is not None:
            self.deadline = time.monotonic() + self.time_limit

    def closed(self) -> bool:
        """Whether even open points can no longer be decided: a moment after the search had to stop."""
        if not self.over():
            return False
        if self.closing_time is None:
            self.closing_time = time.monotonic() + GRACE_SECONDS
        return time.monotonic() > self.closing_time


@dataclass(frozen=True, eq=False)
class Question:
    """A problem whose clean predictions are decided.

    Attributes
    ----------
    problem : Problem
    scorer : Scorer
    nodes : (n,) array
        The test nodes to certify: those whose clean score is not zero. Engines number them 0..n-1.
    scores : (m, n) array
        Scaled rows of these nodes, transposed, times the sign of their clean prediction.
    """

    problem: Problem
    scorer: Scorer
    nodes: npt.NDArray[np.intp]
    scores: Float

    @classmethod
    def ask(cls, problem: Problem, scorer: Scorer) -> Question:
        """Leave out nodes whose clean prediction is a tie."""
        nodes = np.flatnonzero(np.abs(scorer.clean) == 1)
        signed = scorer.rows[nodes] * scorer.clean[nodes, None]
        return cls(problem=problem, scorer=scorer, nodes=nodes, scores=np.ascontiguousarray(signed.T))

    def changed(self, positions: Int) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
        """Of these nodes: provably changed, and provably unchanged, by flipping ``positions``."""
        return self.scorer.changed(self.scorer.flip(positions), self.nodes)


@dataclass(frozen=True, eq=False)
class Findings:
    """What an engine proved about the n nodes of a question, for budgets 0..B.

    Attributes
    ----------
    radius_lower, radius_upper : (n,) arrays
    radius_sets : list of n position arrays or None
        Flips that realise each ``radius_upper``.
    curve_lower, curve_upper : (B + 1,) arrays
    curve_sets : list of B + 1 position arrays
        Flips that realise each ``curve_lower``.
    statistics : dict
        Plain numbers about the run.
    """

    radius_lower: Int
    radius_upper: Int
    radius_sets: list[Int | None]
    curve_lower: Int
    curve_upper: Int
    curve_sets: list[Int]
    statistics: dict[str, Any]


def within_reach(radius_lower: Int, budget: int) -> Int:
    """(B + 1,) number of nodes whose radius may be at most b: no single attack can change more than these."""
    return np.searchsorted(np.sort(radius_lower), np.arange(budget + 1), side="right").astype(np.int64)


@dataclass(frozen=True)
class Work:
    """What an answer would cost.

    Attributes
    ----------
    reason : str
        How the estimate comes about.
    seconds : float
    advice : str or None
        What would fit, where this is too much; None where the engine is ready to start.
    """

    reason: str
    seconds: float = 0.0
    advice: str | None = None


class Engine(Protocol):
    """One way to answer a question."""

    name: str

    def refuses(self, problem: Problem) -> str | None:
        """Why this engine cannot answer such a problem at all, and what to do instead; None where it can."""

    def scorer(self, problem: Problem) -> Scorer:
        """The scorer that this engine's answers rest on."""

    def estimate(self, question: Question, control: Control) -> Work:
        """An honest estimate, before the work starts."""

    def run(self, question: Question, control: Control) -> Findings:
        """Answer; stopped early, with intervals."""
