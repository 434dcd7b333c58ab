"""What is asked, and how it is to be answered: two values that decide an answer together."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol, cast

import numpy as np
import numpy.typing as npt

from labelcert.arrays import Float, Int, Values
from labelcert.certificate import Certificate
from labelcert.certificate.metric import Measure, Metric
from labelcert.certification.advice import Adviser
from labelcert.checking import flag, in_short, one_of, whole_number, word
from labelcert.engines.control import check_solver
from labelcert.engines.freezing import Names
from labelcert.engines.observing import Observer
from labelcert.engines.partition.engine import Parts
from labelcert.engines.registry import AUTO
from labelcert.engines.row_blocks import ReadRows
from labelcert.engines.voting import BlackBox
from labelcert.engines.voting.dealing import Dealt, deal, row_keys
from labelcert.engines.voting.rules import RULES, VOTES
from labelcert.engines.voting.training import Train
from labelcert.errors import InvalidInput
from labelcert.losses import LINEAR, UNKNOWN, get_loss
from labelcert.losses.weighted import Weights
from labelcert.prediction.by_features import FEATURES, LOSSES_BY_FEATURES, WEIGHTED, ByFeatures
from labelcert.prediction.neighbours import Neighbourhoods
from labelcert.problem import Problem, Threat, validation
from labelcert.problem.lowering import MeasuredMargins
from labelcert.problem.rows import Rows
from labelcert.problem.validation import check_seconds, check_workers

USUAL_FLIPS = 1000
"""Largest budget where none is asked for, and the model is a linear map."""


class Predicts(Protocol):
    """Who predicts, as the user gave it."""

    @property
    def C(self) -> float | str:  # noqa: N802 (the name that everybody gives it)
        """Regularisation; ``"cv"``: to be chosen by cross-validation."""

    def problem(self, task: Task) -> tuple[Problem, str]:
        """The task with all of its arrays validated, and a note about the largest budget if nobody gave one."""


@dataclass(frozen=True, eq=False)
class GivenKernel:
    """A kernel machine, by its kernel: (m, m) among labels, and (n, m) between test nodes and labels."""

    K_train: npt.ArrayLike
    K_test: npt.ArrayLike
    C: float | str
    loss: str = "hinge"
    intercept: bool = False
    drops_to: str = ""
    kernel_error: npt.ArrayLike = 0.0
    """How far entries of ``K_train`` may be off: a number, an (m, m) array, or (2, m, m) below and above; or
    (2, n, m, m), for each row of ``K_test`` that kernel which it is compared with."""
    test_kernel_error: npt.ArrayLike = 0.0
    """The same for ``K_test``."""

    def __post_init__(self) -> None:
        word("loss", self.loss)
        flag("intercept", self.intercept)

    @property
    def exact(self) -> bool:
        """Whether the kernel is known exactly."""
        return not (np.any(self.kernel_error) or np.any(self.test_kernel_error))

    def errors(self, problem: Problem) -> tuple[tuple[Float, Float], tuple[Float, Float]]:
        """How far entries may be below and above, of both kernels."""
        m, n = problem.m, problem.n_test
        return (
            validation.check_errors("kernel_error", self.kernel_error, (m, m), rows=n),
            validation.check_errors("test_kernel_error", self.test_kernel_error, (n, m)),
        )

    def problem(self, task: Task) -> tuple[Problem, str]:
        """The task with its arrays validated; nothing says yet that the kernel is positive semidefinite."""
        problem = self._unsettled(task)
        if not all(isinstance(given, float) and given == 0.0 for given in (self.kernel_error, self.test_kernel_error)):
            self.errors(problem)  # which takes an array of the kernel's size for each
        return problem, ""

    def _unsettled(self, task: Task) -> Problem:
        return Problem.unsettled(
            self.K_train,
            task.labels,
            self.K_test,
            cast(float, self.C),  # anything else is refused there
            threat=task.threat,
            max_flips=task.max_flips,
            loss=self.loss,
            intercept=self.intercept,
            drops_to=self.drops_to,
        )


@dataclass(frozen=True, eq=False)
class GivenFeatures:
    """A linear model, by the features of its points, (m, d) and (n, d): no kernel is formed."""

    X_train: Float
    X_test: Float
    C: float
    loss: str = "logistic"
    """One of the losses that have a primal form: ``"logistic"``, ``"cross_entropy"``, ``"squared_hinge"``,
    ``"square"``."""
    intercept: bool = False
    """Whether the model has an intercept that is not regularised."""
    drops_to: str = ""
    """As in :class:`~labelcert.problem.Problem`."""
    weights: Weights | None = None
    """What labels weigh."""
    enumerated: bool = False
    """Whether all relabellings are trained on. Otherwise the weights of labels must not depend on classes."""

    def problem(self, task: Task) -> tuple[Problem, str]:
        """The labels and the threat, and features with a column of ones for an intercept."""
        free = self.intercept and self.loss == "square"  # which needs no labels of both classes for it
        loss = get_loss(self.loss, intercept=self.intercept and not free)
        lasting = loss.intercept and not self.enumerated  # its budgets end before a class is empty
        problem = Problem.linear(
            task.labels,
            threat=task.threat,
            max_flips=task.max_flips,
            loss=loss.name,
            C=self.C,
            drops_to="" if lasting else self.drops_to,
        )
        if problem.trained_with.kind not in LOSSES_BY_FEATURES:
            raise InvalidInput(
                f"linear models are trained on features with loss={' or '.join(map(repr, LOSSES_BY_FEATURES))}, got "
                f"{self.loss!r}; give certify the kernel X @ X.T instead"
            )
        X = validation.check_features("X_train", self.X_train, rows=problem.m)
        T = validation.check_features("X_test", self.X_test, columns=X.shape[1])
        free = free or problem.intercept
        if free:
            X, T = (np.hstack([rows, np.ones((rows.shape[0], 1))]) for rows in (X, T))
        by = ByFeatures(X, T, free, self.weights, WEIGHTED if self.enumerated else FEATURES)
        return replace(problem, K_test=np.zeros((T.shape[0], 0)), by=by), ""


@dataclass(frozen=True, eq=False)
class GivenRows:
    """A linear map of the labels, by its rows (n, m): an array, a SciPy sparse matrix, or an iterable of blocks."""

    H: object
    C: float = 1.0  # of no meaning
    drops: bool = False
    """Whether a class without labels is dropped: it cannot be predicted."""

    def problem(self, task: Task) -> tuple[Problem, str]:
        """The labels and the threat, and rows that are still to be read."""
        problem = Problem.linear(
            task.labels,
            threat=task.threat,
            max_flips=task.max_flips,
            usual=USUAL_FLIPS,
            drops_to=LINEAR if self.drops else "",
        )
        note = ""
        if task.max_flips is None and problem.max_flips < problem.adversary.full_budget:
            note = f"budgets up to {problem.max_flips} are answered; ask for more with max_flips"
        return replace(problem, by=ReadRows(Rows(self.H, problem.m))), note


@dataclass(frozen=True, eq=False)
class GivenVotes:
    """Models that any function trains, each on a part of the labels: what they say about n test points is counted."""

    train: Train
    n_test: int
    parts: int | npt.ArrayLike | Dealt = 50
    combine: str = VOTES
    spread: int = 1
    seed: int = 0
    rows: Any = None
    """What the training points are told apart by: their features, or their names."""
    folder: str | os.PathLike[str] | None = None
    twice: int = 2
    attempts: int | None = None
    known: Mapping[int, Any] | None = None
    """What models say that are trained already, by their numbers."""
    certify_part: Callable[[Int, Values], Certificate | None] | None = None
    C: float = 1.0  # of no meaning

    def __post_init__(self) -> None:
        if not (self.certify_part is None or callable(self.certify_part)):
            raise InvalidInput(f"certify_part must be a function of indices and labels, got {self.certify_part!r}")
        if not callable(self.train):
            raise InvalidInput(f"train must be a function train(indices, labels), got {in_short(self.train)}")
        one_of("combine", self.combine, RULES)
        whole_number("n_test", self.n_test, 1)
        whole_number("twice", self.twice)
        if self.attempts is not None:
            whole_number("attempts", self.attempts)

    def problem(self, task: Task) -> tuple[Problem, str]:
        """The labels and the threat, and who is trained on which of them."""
        problem = Problem.linear(task.labels, threat=task.threat, max_flips=task.max_flips, usual=1, loss=UNKNOWN)
        dealt = self.parts if isinstance(self.parts, Dealt) else self._dealt(task, problem)
        threat, alone = problem.threat, self.combine == VOTES and bool(np.all(dealt.members.sum(axis=1) == 1))
        if self.certify_part is not None and (not alone or threat.samples or threat.owns_annotators or threat.removes):
            raise InvalidInput(
                "certificates of parts are about changed labels, each in one part, and count with combine='votes'; "
                "leave out certify_part (part_flips)"
            )
        if task.max_flips is None:
            problem = replace(problem, max_flips=min(problem.adversary.full_budget, dealt.models))
        folder = None if self.folder is None else Path(self.folder)
        how: dict[str, Any] = {"seed": self.seed, "known": self.known or {}, "certify_part": self.certify_part}
        by = BlackBox(self.train, dealt, self.combine, folder, self.twice, self.attempts, **how)
        return replace(problem, K_test=np.zeros((self.n_test, 0)), by=by), ""

    def _dealt(self, task: Task, problem: Problem) -> Dealt:
        """Labels by a hash of their rows, or of their names."""
        samples = problem.threat.samples
        if samples and self.rows is None:
            raise InvalidInput("threat='samples' deals samples out by their content: give their features as rows=")
        keys: Sequence[bytes | str] = task.names.keys(problem.m) if self.rows is None else row_keys(self.rows)
        if len(keys) != problem.m:
            raise InvalidInput(f"rows must hold one row per label ({problem.m}), got {len(keys)}")
        parts = cast(int, self.parts)  # or an array, which is looked at there
        return deal(parts, keys, spread=self.spread, seed=self.seed, by_content=samples)

    @property
    def described(self) -> str:
        """The ensemble in a few words."""
        given = isinstance(self.parts, Dealt) or np.ndim(self.parts)
        dealt = "given parts" if given else f"{self.parts!r} parts (seed {self.seed})"
        overlapping = f", each label in {self.spread} models" if self.spread != 1 else ""
        return f"{dealt}{overlapping}, {self.combine}"


@dataclass(frozen=True, eq=False)
class GivenNeighbours:
    """Nearest neighbours whose rows may be removed."""

    around: Callable[[Problem], Neighbourhoods]
    """The rows around each test point, as far as the budget reaches."""
    n_test: int
    C: float = 1.0  # of no meaning

    def problem(self, task: Task) -> tuple[Problem, str]:
        """The labels and the threat, and the rows around each test point."""
        problem = Problem.linear(task.labels, threat=task.threat, max_flips=task.max_flips, usual=USUAL_FLIPS)
        problem = replace(problem, K_test=np.zeros((self.n_test, 0)))
        return replace(problem, by=self.around(problem)), ""


@dataclass(frozen=True, eq=False)
class Task:
    """One question about predictions and the labels they are learned from. m labels, n test nodes."""

    model: Predicts | None = None
    labels: npt.ArrayLike = ()
    threat: Threat | None = None
    """None: any label, one unit each."""
    max_flips: int | None = None
    max_fraction: float | None = None
    """Largest budget as a share of the labels."""
    parts: Parts | None = None
    """None: one model, trained on all labels."""
    margin: npt.ArrayLike | MeasuredMargins = 0.0
    offsets: Float | None = None
    """(n, K) what the score of each class begins with, of a linear map; None: zero."""
    predicted: Int | None = None
    """(n,) clean predictions to assume instead of the model's own, as positions among the classes."""
    collective: bool = True
    observers: Sequence[Observer] = ()
    """Who else wants to know what relabellings do."""
    metrics: Sequence[Metric | str | Measure] = ()
    """Whose worst values are wanted: exactly where relabellings are walked, as proved bounds elsewhere."""
    adviser: Adviser | None = None
    """Who says what would prove more, where proofs end early; None: that of the kind of model."""
    names: Names = field(default_factory=Names)
    problem: Problem | None = None
    """The same with validated arrays. Reductions fill it in, and whoever has one already needs no model."""
    budget_note: str = ""
    """Why the largest budget is what it is, where nobody gave it and not all are answered."""

    def __post_init__(self) -> None:
        flag("collective", self.collective)

    @property
    def posed(self) -> Problem:
        """The problem, once the arrays are validated."""
        assert self.problem is not None
        return self.problem


@dataclass(frozen=True)
class Run:
    """How a task is to be answered, in the words of :func:`labelcert.certify`.

    The answer is the same wherever it is computed, if there is time enough.
    """

    engine: str = AUTO
    options: Mapping[str, Any] = field(default_factory=dict)
    """The engine's own."""
    time_limit: float | None = None
    node_time_limit: float | None = None
    workers: int | None = None
    scheduler: str | None = None
    device: str = "auto"
    solver: str = "highs"
    trust_solver: bool = False
    progress: bool = False

    def __post_init__(self) -> None:
        for name in ("engine", "device", "solver"):
            word(name, getattr(self, name))
        if self.scheduler is not None:
            word("scheduler", self.scheduler)
        flag("trust_solver", self.trust_solver)
        flag("progress", self.progress)
        check_workers(self.workers)
        check_seconds("time_limit", self.time_limit)
        check_solver(self.solver)
        check_seconds("node_time_limit", self.node_time_limit)
