"""One loop for all walks: chunks go to whoever walks them, and what they find goes to whoever collects it.

A walk is a task (compiled work, constant during a run) and its chunks, in ascending order of the cheapest attack that
each holds. So whenever a run stops, everything cheaper than the first unfinished chunk is settled. Whoever runs the
chunks (threads, processes, a cluster, a GPU) knows no collector, and no collector knows who ran them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from labelcert.arrays import Bool, Float
from labelcert.engines.base import WORK_LIMIT_SECONDS, Question, Work
from labelcert.engines.control import Control
from labelcert.engines.pools import PoolTask, in_order


class Collector:
    """Takes what chunks found, in their order, and makes something of it: a ledger, tables, lowest scores."""

    def collect(self, found: Any, chunk: Any) -> None:
        """Take over what one chunk found, also if it was not finished."""
        raise NotImplementedError

    def unvisited(self, cost: int) -> None:
        """Learn that some attacks of this cost or more were not visited."""

    def settle(self, control: Control) -> None:
        """Decide what was left in doubt, now that the walk is over."""


def collect_all(
    task: PoolTask,
    chunks: Iterator[Any],
    collectors: Sequence[Collector],
    control: Control,
    total: float,
    done: float = 0.0,
) -> bool:
    """Walk all chunks; returns whether everything was visited.

    - ``task``: its results are pairs of what was found and whether the chunk was finished.
    - ``chunks``: each has ``stops``, its amount of work, and ``min_cost``, a least cost from it on.
    - ``total``, ``done``: for the progress report: all stops, and those made before.
    """
    finished = True
    for chunk, (found, complete) in in_order(task, chunks, control):
        for collector in collectors:
            collector.collect(found, chunk)
            if not complete:
                collector.unvisited(chunk.min_cost)
        finished = finished and complete
        done += chunk.stops
        control.report(min(done, total), total)
    rest = next(chunks, None)
    for collector in collectors:
        if rest is not None:
            collector.unvisited(rest.min_cost)
        collector.settle(control)
    return finished and rest is None


class Timed:
    """What can say for every budget how long it takes."""

    advice = "max_flips={fits} would fit, or time_limit=SECONDS gives what can be proved in that time"

    def seconds(self, question: Question, control: Control) -> tuple[Float, str]:
        """(B + 1,) estimated time for each budget, and how the estimate for the largest one comes about."""
        raise NotImplementedError

    def estimate(self, question: Question, control: Control) -> Work:
        """Count the trainings, time a few of them, multiply; the advice says which budget would fit."""
        seconds, reason = self.seconds(question, control)
        fits = np.asarray(seconds <= WORK_LIMIT_SECONDS)
        if fits[-1] or control.time_limit is not None:
            return Work(reason, float(seconds[-1]))
        return Work(reason, float(seconds[-1]), self.advice.format(fits=last_fitting(fits)))

    def reach(self, question: Question, control: Control, seconds: float) -> int:
        """The largest budget that fits into the given time."""
        return last_fitting(self.seconds(question, control)[0] <= seconds)


def last_fitting(fits: Bool) -> int:
    """The largest budget up to which everything fits (at least 0)."""
    return fits.size - 1 if fits.all() else max(0, int(fits.argmin()) - 1)
