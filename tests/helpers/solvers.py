"""Solvers that lie: one that says what it is told to say, and one that changes the answers of HiGHS."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest

from labelcert.engines.search.mixed_integer import MixedInteger
from labelcert.paper.milp import paper_program
from labelcert.paper.milp.solvers import Answer, Ending, Limits, Row, get_solver
from labelcert.problem import Problem


@dataclass(frozen=True, eq=False)
class Asked:
    """One solve, as a solver sees it; and the problem behind it, which no solver knows."""

    problem: Problem
    model: MixedInteger
    cost: np.ndarray
    rows: Sequence[Row]

    def point(self, flipped: np.ndarray | bool) -> np.ndarray:
        """A point in which some labels (m,) are changed, each in the first way there is; all else in it is 0."""
        columns, flips = self.model.columns, np.broadcast_to(flipped, self.problem.m)
        x = np.zeros(self.model.lower.size)
        if columns["y'"].ndim == 1:
            x[columns["y'"]] = np.where(flips, self.problem.y < 0, self.problem.y > 0)
        else:
            may = self.model.upper[columns["y'"]] > 0
            for i, code in enumerate(self.problem.codes.tolist()):
                others = [c for c in range(self.problem.n_classes) if c != code and may[c, i]]
                x[columns["y'"][others[0] if flips[i] and others else code, i]] = 1.0
        return x


Reply = Callable[[Asked], Answer]


def answer(status: Ending, *, bound: float = -np.inf, x: np.ndarray | None = None, objective: float = np.inf) -> Answer:
    """An answer; nothing but its status has to be named."""
    return Answer(status, objective, bound, x, tree_nodes=1, seconds=0.0, detail=f"fake {status}")


@dataclass
class Fake:
    """A solver that says what it is told to say, and counts."""

    problem: Problem
    reply: Reply
    name: str = "fake"
    solves: list[Asked] = field(default_factory=list)
    opened: int = 0
    closed: int = 0

    def version(self) -> str:
        """Of nothing."""
        return "0.0"

    def open(self, model: MixedInteger, threads: int) -> FakeSession:
        """Count it."""
        self.opened += 1
        return FakeSession(self, model)


@dataclass
class FakeSession:
    """A program that nobody solves."""

    fake: Fake
    model: MixedInteger

    def solve(self, cost: np.ndarray, limits: Limits, rows: Sequence[Row] = ()) -> Answer:
        """Reply."""
        asked = Asked(self.fake.problem, self.model, cost, rows)
        self.fake.solves.append(asked)
        return self.fake.reply(asked)

    def close(self) -> None:
        """Count it."""
        self.fake.closed += 1


SILENT: dict[str, Reply] = {
    "time limit": lambda asked: answer(Ending.TIME_LIMIT),
    "interrupted": lambda asked: answer(Ending.INTERRUPTED),
    "time limit with a useless bound": lambda asked: answer(Ending.TIME_LIMIT, bound=-100.0),
    "time limit, unchanged": lambda asked: answer(Ending.TIME_LIMIT, bound=-100.0, x=asked.point(False), objective=1.0),
}
"""Answers that are not finished."""

UNBELIEVABLE: dict[str, Reply] = {
    "infeasible": lambda asked: answer(Ending.INFEASIBLE, bound=np.inf),
    "infeasible, no bound": lambda asked: answer(Ending.INFEASIBLE),
    "failed": lambda asked: answer(Ending.FAILED),
    "failed with a bound": lambda asked: answer(Ending.FAILED, bound=1e-3),
    "bound is NaN": lambda asked: answer(Ending.OPTIMAL, bound=np.nan),
    "time limit, bound is NaN": lambda asked: answer(Ending.TIME_LIMIT, bound=np.nan),
    "bound is infinite": lambda asked: answer(Ending.OPTIMAL, bound=np.inf),
    "bound above what the clean labels attain": lambda asked: answer(Ending.DECIDED, bound=1e3),
    "solution and bound above it": lambda asked: answer(Ending.OPTIMAL, bound=1e3, x=asked.point(False), objective=1e3),
    "attack beyond the budget": lambda asked: answer(Ending.OPTIMAL, bound=-1e3, x=asked.point(True), objective=-1e3),
    "solution with NaN": lambda asked: answer(
        Ending.OPTIMAL, bound=-1e3, x=np.full(asked.model.lower.size, np.nan), objective=-1e3
    ),
    "solution with infinities": lambda asked: answer(
        Ending.OPTIMAL, bound=-1e3, x=np.full(asked.model.lower.size, np.inf), objective=-1e3
    ),
}
"""Answers that cannot be true."""


@dataclass
class Liar:
    """HiGHS whose answers are changed on the way."""

    change: Callable[[Answer], Answer]
    name: str = "liar"

    def version(self) -> str:
        """Of nothing."""
        return "0.0"

    def open(self, model: MixedInteger, threads: int) -> LyingSession:
        """Load a program into HiGHS."""
        return LyingSession(self, get_solver("highs").open(model, threads))


@dataclass
class LyingSession:
    """A program that is solved, for what it is worth."""

    liar: Liar
    session: Any

    def solve(self, *arguments: Any) -> Answer:
        """Lie."""
        return self.liar.change(self.session.solve(*arguments))

    def close(self) -> None:
        """Close HiGHS."""
        self.session.close()


LIES: dict[str, Callable[[Answer], Answer]] = {
    "robust": lambda a: replace(a, status=Ending.OPTIMAL, bound=1e3, objective=1e3),
    "robust without a solution": lambda a: replace(a, status=Ending.OPTIMAL, bound=1e3, x=None),
    "not a number": lambda a: replace(a, bound=float("nan"), x=None),
    "vulnerable": lambda a: replace(a, objective=-1.0, bound=-1.0, x=None if a.x is None else np.zeros_like(a.x)),
    "all labels moved": lambda a: replace(a, objective=-1.0, bound=-1.0, x=None if a.x is None else np.ones_like(a.x)),
    "infeasible": lambda a: replace(a, status=Ending.INFEASIBLE, x=None, bound=float("inf")),
    "failed": lambda a: replace(a, status=Ending.FAILED, x=None, bound=0.5),
}
"""What becomes of a true answer."""


def install(monkeypatch: pytest.MonkeyPatch, solver: Any) -> None:
    """Every engine asks this solver from now on."""
    monkeypatch.setattr(paper_program, "get_solver", lambda name: solver)
