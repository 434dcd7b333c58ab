"""What is asked, and how it is to be answered: two values that decide an answer together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, cast

import numpy as np
import numpy.typing as npt

from labelcert.arrays import Int
from labelcert.checking import whole_number
from labelcert.engines.control import check_solver
from labelcert.engines.freezing import Names
from labelcert.engines.observing import Observer
from labelcert.engines.partition.ensemble import COMBINATIONS
from labelcert.engines.registry import AUTO
from labelcert.engines.row_blocks import ReadRows
from labelcert.errors import InvalidInput
from labelcert.problem import Problem, Threat
from labelcert.problem.lowering import MeasuredMargins
from labelcert.problem.rows import Rows
from labelcert.problem.validation import check_seconds, check_workers

USUAL_FLIPS = 1000
"""Largest budget where none is asked for, and the model is a linear map."""


class Model(Protocol):
    """Who predicts, as the user gave it."""

    @property
    def C(self) -> float | str:  # noqa: N802 (the name that everybody gives it)
        """Regularisation; ``"cv"``: to be chosen by cross-validation."""

    def problem(self, task: Task) -> tuple[Problem, str]:
        """The task with all of its arrays validated, and a note about the largest budget if nobody gave one."""


@dataclass(frozen=True, eq=False)
class GivenKernel:
    """A kernel machine, by its kernel.

    Attributes
    ----------
    K_train : (m, m) array
    K_test : (n, m) array
    C : float or "cv"
    """

    K_train: npt.ArrayLike
    K_test: npt.ArrayLike
    C: float | str

    def problem(self, task: Task) -> tuple[Problem, str]:
        """The task with its arrays validated; nothing says yet that the kernel is positive semidefinite."""
        return Problem.unsettled(
            self.K_train,
            task.labels,
            self.K_test,
            cast(float, self.C),  # anything else is refused there
            threat=task.threat,
            max_flips=task.max_flips,
            loss=task.loss,
            intercept=task.intercept,
        ), ""


@dataclass(frozen=True, eq=False)
class GivenRows:
    """A linear map of the labels, by its rows.

    Attributes
    ----------
    H : (n, m) array, SciPy sparse matrix, or iterable of blocks of rows
    C : float
        Of no meaning.
    """

    H: object
    C: float = 1.0

    def problem(self, task: Task) -> tuple[Problem, str]:
        """The labels and the threat, and rows that are still to be read."""
        problem = Problem.linear(task.labels, threat=task.threat, max_flips=task.max_flips, usual=USUAL_FLIPS)
        note = ""
        if task.max_flips is None and problem.max_flips < problem.adversary.full_budget:
            note = f"budgets up to {problem.max_flips} are answered; ask for more with max_flips"
        return replace(problem, by=ReadRows(Rows(self.H, problem.m))), note


@dataclass(frozen=True)
class Parts:
    """How labels are dealt out to the members of an ensemble.

    Attributes
    ----------
    count : int or (m,) array
        How many parts, whose sizes differ by at most one; or the part of each label, which no label may influence.
    seed : int
        Of the hash that deals them out.
    combine : {"mean", "votes"}
    part_flips : int or None
        Largest cost of an attack on one part to look at; None for all.
    """

    count: int | npt.ArrayLike
    seed: int = 0
    combine: str = "mean"
    part_flips: int | None = None

    def __post_init__(self) -> None:
        if self.combine not in COMBINATIONS:
            raise InvalidInput(f"combine must be one of {', '.join(map(repr, COMBINATIONS))}, got {self.combine!r}")
        if self.part_flips is not None:
            whole_number("part_flips", self.part_flips)

    def named(self, names: Names) -> Names:
        """Names that say how the labels are dealt out, too."""
        dealt = f"{self.count!r} parts (seed {self.seed})"
        if np.ndim(self.count):
            dealt = f"{np.unique(np.asarray(self.count)).size} given parts"
        return replace(names, model=f"{dealt}, {self.combine}: {names.model or 'kernel'}")


@dataclass(frozen=True, eq=False)
class Task:
    """One question about predictions and the labels they are learned from. m labels, n test nodes.

    Attributes
    ----------
    model : Model
        Who predicts.
    labels : (m,) array
    loss : str
    intercept : bool
        Whether the model has an intercept that is not regularised.
    threat : Threat or None
        None: any label, one unit each.
    max_flips, max_fraction : optional
        Largest budget, as a number or as a share of the labels.
    parts : Parts or None
        None: one model, trained on all labels.
    margin : float, (n,) array or MeasuredMargins
    predicted : (n,) array or None
        Clean predictions to assume instead of the model's own, as positions among the classes.
    collective : bool
        Whether the collective curve is asked for.
    observers : sequence of Observer
        Who else wants to know what relabellings do.
    names : Names
    problem : Problem or None
        The same with validated arrays. Reductions fill it in, and whoever has one already needs no model.
    budget_note : str
        Why the largest budget is what it is, where nobody gave it and not all are answered.
    """

    model: Model | None = None
    labels: npt.ArrayLike = ()
    loss: str = "hinge"
    intercept: bool = False
    threat: Threat | None = None
    max_flips: int | None = None
    max_fraction: float | None = None
    parts: Parts | None = None
    margin: npt.ArrayLike | MeasuredMargins = 0.0
    predicted: Int | None = None
    collective: bool = True
    observers: Sequence[Observer] = ()
    names: Names = field(default_factory=Names)
    problem: Problem | None = None
    budget_note: str = ""

    @property
    def posed(self) -> Problem:
        """The problem, once the arrays are validated."""
        assert self.problem is not None
        return self.problem


@dataclass(frozen=True)
class Run:
    """How a task is to be answered. The answer is the same wherever it is computed, if there is time enough.

    Attributes
    ----------
    engine : str
    options : mapping
        The engine's own.
    time_limit, node_time_limit : float or None
        Seconds, for everything and for one node of a search.
    workers : int or None
        None: all cores.
    scheduler : str or None
    device : {"auto", "cpu", "gpu"}
    solver : str
    trust_solver : bool
        Whether a solver's claims count as proofs.
    progress : bool
    """

    engine: str = AUTO
    options: Mapping[str, Any] = field(default_factory=dict)
    time_limit: float | None = None
    node_time_limit: float | None = None
    workers: int | None = None
    scheduler: str | None = None
    device: str = "auto"
    solver: str = "highs"
    trust_solver: bool = False
    progress: bool = False

    def __post_init__(self) -> None:
        check_workers(self.workers)
        check_seconds("time_limit", self.time_limit)
        check_solver(self.solver)
        check_seconds("node_time_limit", self.node_time_limit)
