"""What every engine takes and returns.

An engine is one file: a class that says which problems it refuses, estimates its work, and runs. It reads a
:class:`Question` and returns :class:`Findings`; it never decides a sign on its own authority, but through the
question's scorer.
"""

from __future__ import annotations

import signal
import threading
import time
import warnings
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
    report : callable
        ``report(done, total)``, called now and then.
    flag : (1,) array
        Non-zero tells compiled loops to return.
    collective : bool
        Whether the collective curve is asked for; if not, engines may leave it open.
    solver : str
        Which solver runs mixed-integer programs.
    node_time_limit : float or None
        Seconds that a mixed-integer program may take for one node or one budget of the curve.
    note : callable
        ``note(text)``: what is being worked on, for a progress display.
    """

    workers: int
    time_limit: float | None = None
    report: Callable[[float, float], None] = lambda done, total: None
    deadline: float | None = None
    flag: npt.NDArray[np.int8] = field(default_factory=lambda: np.zeros(1, dtype=np.int8))
    stop: Stop = Stop.FINISHED
    closing_time: float | None = None
    collective: bool = True
    solver: str = "highs"
    node_time_limit: float | None = None
    note: Callable[[str], None] = lambda text: None

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

    def flip(self, positions: Int) -> Float:
        """The labels after flipping some of the flippable ones (by their positions)."""
        y = self.problem.y.copy()
        index = self.problem.adversary.labels[positions]
        y[index] = -y[index]
        return y

    def changed(self, positions: Int) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
        """Of these nodes: provably changed, and provably unchanged, by flipping ``positions``."""
        return self.scorer.changed(self.flip(positions), self.nodes)


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
    radius_by, curve_by : string arrays or None
        Which engine proved what; filled in by :meth:`refined`.
    """

    radius_lower: Int
    radius_upper: Int
    radius_sets: list[Int | None]
    curve_lower: Int
    curve_upper: Int
    curve_sets: list[Int]
    statistics: dict[str, Any]
    radius_by: npt.NDArray[np.str_] | None = None
    curve_by: npt.NDArray[np.str_] | None = None

    @classmethod
    def nothing(cls, question: Question) -> Findings:
        """What is known before any engine ran: a node with a clean prediction has a radius of at least 1."""
        n, budget = question.nodes.size, question.problem.max_flips
        curve_upper = np.full(budget + 1, n, dtype=np.int64)
        curve_upper[0] = 0
        return cls(
            radius_lower=np.ones(n, dtype=np.int64),
            radius_upper=np.full(n, question.problem.adversary.never, dtype=np.int64),
            radius_sets=[None] * n,
            curve_lower=np.zeros(budget + 1, dtype=np.int64),
            curve_upper=curve_upper,
            curve_sets=[np.zeros(0, dtype=np.int64)] * (budget + 1),
            statistics={},
            radius_by=np.full(n, "", dtype="U32"),
            curve_by=np.full(budget + 1, "", dtype="U32"),
        )

    def refined(self, found: Findings, engine: str) -> Findings:
        """The tighter of two findings, end by end, with the name of the engine that proved each lower radius.

        For the curve it is the engine that proved the upper end: what provably survives. ``found`` may cover fewer
        budgets; then it says nothing about radii beyond them.
        """
        assert self.radius_by is not None
        assert self.curve_by is not None
        covered = found.curve_lower.size
        higher = found.radius_lower > self.radius_lower
        closer = found.radius_upper < self.radius_upper
        sets = [b if c else a for a, b, c in zip(self.radius_sets, found.radius_sets, closer, strict=True)]
        radius_by, curve_by = self.radius_by.copy(), self.curve_by.copy()
        lower = np.where(higher, found.radius_lower, self.radius_lower)
        upper = np.where(closer, found.radius_upper, self.radius_upper)
        # A radius that its witness alone settles (1 flip, say) is the work of who found the witness.
        radius_by[higher | (closer & (lower == upper))] = engine
        curve_lower, curve_upper = self.curve_lower.copy(), self.curve_upper.copy()
        curve_sets = list(self.curve_sets)
        best, best_set = 0, curve_sets[0]
        for b in range(curve_lower.size):
            if b < covered and found.curve_lower[b] > best:
                best, best_set = int(found.curve_lower[b]), found.curve_sets[b]
            if best > curve_lower[b]:
                curve_lower[b], curve_sets[b] = best, best_set
        tighter = np.zeros(curve_upper.size, dtype=bool)
        tighter[:covered] = found.curve_upper < curve_upper[:covered]
        curve_upper[:covered] = np.minimum(curve_upper[:covered], found.curve_upper)
        curve_upper = np.minimum(curve_upper, within_reach(lower, curve_upper.size - 1))
        settled = (curve_lower == curve_upper) & (self.curve_lower < self.curve_upper)
        curve_by[tighter | settled] = engine
        return Findings(
            radius_lower=lower,
            radius_upper=upper,
            radius_sets=sets,
            curve_lower=curve_lower,
            curve_upper=curve_upper,
            curve_sets=curve_sets,
            statistics=found.statistics,
            radius_by=radius_by,
            curve_by=curve_by,
        )

    def settled(self, collective: bool = True) -> bool:
        """Whether nothing within the budgets is open."""
        beyond = self.radius_lower >= self.curve_lower.size
        radii = bool(np.all((self.radius_lower == self.radius_upper) | beyond))
        return radii and (not collective or bool(np.array_equal(self.curve_lower, self.curve_upper)))


def reconciled(
    radius_lower: Int, radius_upper: Int, curve_lower: Int, curve_upper: Int, dropped: int
) -> tuple[Int, Int]:
    """``(radius_lower, curve_upper)`` without those that a retrained witness contradicts.

    Witnesses are retrained with error bounds, so it is the proof that goes. That, and every witness dropped before,
    would be a bug: there is a warning.
    """
    lower = np.where(radius_lower > radius_upper, 0, radius_lower)
    upper = np.where(curve_upper < curve_lower, radius_lower.size, curve_upper)
    dropped += int(np.sum(lower < radius_lower) + np.sum(upper > curve_upper))
    if dropped:
        warnings.warn(
            f"{dropped} findings contradict retraining and were dropped; the certificate has open intervals. "
            "Please report this with the problem's kernel",
            RuntimeWarning,
            stacklevel=4,
        )
    return lower, upper


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

    def run(self, question: Question, control: Control, known: Findings) -> Findings:
        """Answer; stopped early, with intervals. What is known already may be used, and need not be repeated."""
