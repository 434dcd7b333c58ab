"""From what a user asks to what an engine answers, and back: each reduction takes one thing away from a task.

A new reduction is one file and one line in :data:`CHAIN`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast

import numpy as np

from labelcert.arrays import Float, frozen
from labelcert.certificate import Certificate
from labelcert.certification.task import GivenKernel, Task
from labelcert.engines.partition.engine import DealtLabels
from labelcert.engines.partition.parts import Part, cut
from labelcert.engines.row_blocks import ReadRows
from labelcert.errors import InvalidInput
from labelcert.losses.cross_validation import CHOSEN, CROSS_VALIDATED, best_C
from labelcert.memory import require_memory
from labelcert.prediction import Predictor, predictor_for
from labelcert.prediction.uncertain import UncertainKernel
from labelcert.problem import Problem, Threat
from labelcert.problem.budget import largest_budget
from labelcert.problem.lowering import MeasuredMargins, check_margin, lowered
from labelcert.problem.owners import OwnerAdversary, total_cost
from labelcert.problem.rows import OffsetRows
from labelcert.stopping import Stopped


class Reduction(ABC):
    """One step from what the user asks towards what an engine answers."""

    @abstractmethod
    def accepts(self, task: Task) -> bool:
        """Whether a task has what this reduction takes away."""

    @abstractmethod
    def apply(self, task: Task) -> tuple[Task, Any]:
        """The task without it, and whatever :meth:`invert` needs to know."""

    def invert(self, cert: Certificate, undo: Any) -> Certificate:
        """The certificate of the task as it was: the same one, if only other words for the same question were found."""
        return cert


class FractionOfLabels(Reduction):
    """The largest budget as a share of the labels."""

    def accepts(self, task: Task) -> bool:
        """Where a share is given."""
        return task.max_fraction is not None

    def apply(self, task: Task) -> tuple[Task, None]:
        """Shares are of the total cost, where labels have costs, or of all annotators."""
        total = total_cost(task.threat or Threat(), np.size(task.labels))
        flips = largest_budget(task.max_flips, task.max_fraction, total)
        return replace(task, max_flips=flips, max_fraction=None), None


class ChosenC(Reduction):
    """Cross-validation over the labels as they are; the certificate is about the one C that it chooses."""

    def accepts(self, task: Task) -> bool:
        """Where C is to be chosen."""
        return task.model is not None and isinstance(task.model.C, str) and task.model.C == CROSS_VALIDATED

    def apply(self, task: Task) -> tuple[Task, None]:
        """The kernel among labelled points is all that it takes."""
        model: Any = task.model
        problem, _ = replace(model, C=1.0).problem(task)
        C = best_C(problem.K_train, problem.codes, problem.trained_with)
        # Whoever chooses C, the certificate names the same model.
        name = task.names.model.replace(f"C={CROSS_VALIDATED!r}", f"C={C!r}", 1)
        names = replace(task.names, model=name, remarks=(*task.names.remarks, CHOSEN))
        return replace(task, model=replace(model, C=C), names=names), None


class ValidatedArrays(Reduction):
    """Arrays of any kind, as the user has them."""

    def accepts(self, task: Task) -> bool:
        """Where nobody looked at them yet."""
        return task.problem is None

    def apply(self, task: Task) -> tuple[Task, None]:
        """Everything is refused here that no engine could answer."""
        assert task.model is not None
        problem, note = task.model.problem(task)
        return replace(task, problem=problem, budget_note=note), None


class SettledKernel(Reduction):
    """A kernel that may miss positive semidefiniteness by rounding."""

    def accepts(self, task: Task) -> bool:
        """Where nothing is known about its eigenvalues, and it is trained on as a whole."""
        return task.posed.by is None and not task.posed.min_eig >= 0.0

    def apply(self, task: Task) -> tuple[Task, None]:
        """The certificate is about the kernel that comes out, bit for bit."""
        return replace(task, problem=task.posed.settled()), None


class DealtOut(Reduction):
    """An ensemble: the labels are dealt out to parts, and each part trains a model of its own."""

    def accepts(self, task: Task) -> bool:
        """Where there are parts."""
        return task.parts is not None

    def apply(self, task: Task) -> tuple[Task, tuple[Float, str]]:
        """A hash of their names deals out the labels, which have no influence themselves."""
        problem, given = task.posed, task.parts
        assert given is not None
        margins, source = margins_of(task)
        part_of = given.of_labels(task.names.keys(problem.m))
        parts = cut(problem, part_of)
        by = DealtLabels(given, parts, part_of, margins if margins.any() else None)
        dealt = replace(_shifted(problem, parts), by=by)
        return replace(task, problem=dealt, parts=None, margin=0.0), (margins, source)

    def invert(self, cert: Certificate, undo: tuple[Float, str]) -> Certificate:
        """The certificate says which margin it is about."""
        margins, source = undo
        return recorded(cert, margins, source) if margins.any() else cert


class WithKernelErrors(Reduction):
    """A kernel that is known up to entrywise errors: somebody predicts who knows them."""

    def accepts(self, task: Task) -> bool:
        """Where there are errors, and nobody knows them yet."""
        return isinstance(task.model, GivenKernel) and not task.model.exact and task.posed.by is None

    def apply(self, task: Task) -> tuple[Task, tuple[UncertainKernel, Float, str]]:
        """What was added to the diagonal is an error, too: the kernel that is meant is near the given one."""
        problem, (margins, source) = task.posed, margins_of(task)
        (below, above), (test_below, test_above) = cast(GivenKernel, task.model).errors(problem)
        if problem.shift:
            below = below + problem.shift * np.eye(problem.m)
        by = UncertainKernel(below, above, test_below, test_above, margins)
        return replace(task, problem=replace(problem, by=by), margin=0.0), (by, margins, source)

    def invert(self, cert: Certificate, undo: tuple[UncertainKernel, Float, str]) -> Certificate:
        """The certificate says which errors and which margin it is about."""
        by, margins, source = undo
        train, test = by.errors
        run = replace(cert.run, kernel_error=(float(train.max()), float(test.max())), kernel_error_sha256=by.sha256())
        return recorded(replace(cert, run=run), margins, source)


class WithOffsets(Reduction):
    """Scores that begin with something: labels that nobody can change, one of each class, add it."""

    def accepts(self, task: Task) -> bool:
        """Where a linear map has such numbers."""
        return task.offsets is not None

    def apply(self, task: Task) -> tuple[Task, Task]:
        """One more column for each class."""
        problem, m, K = task.posed, task.posed.m, task.posed.n_classes
        assert task.offsets is not None
        extended = replace(
            problem,
            labels=np.concatenate([problem.labels, problem.classes]),
            codes=np.concatenate([problem.codes, np.arange(K)]).astype(np.int64),
            K_test=np.zeros((0, m + K)),
            adversary=replace(problem.adversary, m=m + K),
            by=ReadRows(OffsetRows(cast(ReadRows, problem.by).rows, task.offsets, m)),
        )
        return replace(task, problem=extended, offsets=None, names=replace(task.names, labels=None)), task

    def invert(self, cert: Certificate, undo: Task) -> Certificate:
        """The labels as they were given."""
        plain = replace(cert, labels=undo.posed.labels, label_names=undo.names.labels)
        return replace(plain, checksum=plain.computed_checksum())


class RowsAtOnce(Reduction):
    """Rows that would be read in blocks, where budgets count annotators: all are looked at together."""

    def accepts(self, task: Task) -> bool:
        """Where they are not read yet."""
        return isinstance(task.posed.by, ReadRows) and isinstance(task.posed.adversary, OwnerAdversary)

    def apply(self, task: Task) -> tuple[Task, Float]:
        """A table of all rows."""
        problem, blocks, n = task.posed, list[Float](), 0
        for block in cast(ReadRows, problem.by).rows:
            n += block.rows.shape[0]
            require_memory(8 * n * problem.m, f"{n} rows of {problem.m} labels, all at once")
            rows = np.zeros((block.rows.shape[0], problem.m))
            rows[:, slice(None) if block.columns is None else block.columns] = block.rows
            blocks.append(rows)
        table = np.concatenate(blocks)
        return replace(task, problem=replace(problem.with_rows(table), by=None)), table.sum(axis=1)

    def invert(self, cert: Certificate, undo: Float) -> Certificate:
        """Scores of more than two classes are sums over the labels of each, as where rows are read in blocks."""
        if cert.decision_values.ndim == 1:
            return cert
        plain = replace(cert, decision_values=frozen((cert.decision_values + undo[:, None]) / 2))
        return replace(plain, checksum=plain.computed_checksum())


class WithMargin(Reduction):
    """Predictions that have to keep a margin: the same question about predictions that are lowered by it."""

    def accepts(self, task: Task) -> bool:
        """Where any prediction has to keep one."""
        return bool(margins_of(task)[0].any())

    def apply(self, task: Task) -> tuple[Task, tuple[Task, Predictor]]:
        """The given predictions, or the model's own, on a problem where they keep only what exceeds the margin."""
        problem = task.posed
        if problem.emptied:
            least = min(problem.adversary.cost(change) for change in problem.emptied.values())
            raise InvalidInput(
                f"max_flips must be at most {least - 1} with a margin, got {problem.max_flips}: more could take the "
                "last label from a class, which is then dropped. Trust a label of each class, or leave the margin out"
            )
        clean = predictor_for(problem, linear=problem.trained_with.always_linear)
        if task.predicted is not None:
            clean = clean.with_predictions(task.predicted)
        low = lowered(problem, clean.shown, margins_of(task)[0])
        names = replace(task.names, labels=None, label_keys=None, around=None)
        return replace(task, problem=low, predicted=clean.predicted, names=names, margin=0.0), (task, clean)

    def invert(self, cert: Certificate, undo: tuple[Task, Predictor]) -> Certificate:
        """The labels, scores and names of the given problem; proofs about the other one do not count."""
        task, clean = undo
        K_train, K_test = task.posed.kernels
        plain = replace(
            cert,
            predictions=frozen(task.posed.classes[clean.shown]),
            decision_values=frozen(clean.decision),
            labels=task.posed.labels,
            label_names=task.names.labels,
            around=task.names.around,
            K_train=K_train,
            K_test=K_test,
            run=replace(cert.run, problem_sha256=task.posed.digest()),
            proofs=None,
        )
        return recorded(plain, *margins_of(task))


def _shifted(problem: Problem, parts: list[Part]) -> Problem:
    """The problem with the kernel that is certified: that of every part, bit for bit."""
    K = problem.K_train.copy()
    for part in parts:
        K[np.ix_(part.index, part.index)] = part.problem.K_train
    for array in (K, problem.K_test, problem.labels, problem.classes, problem.codes):
        array.setflags(write=False)
    return replace(problem, K_train=K, shift=max(part.problem.shift for part in parts))


def margins_of(task: Task) -> tuple[Float, str]:
    """(n,) margins that make sense, and where they come from."""
    given = task.margin
    if isinstance(given, MeasuredMargins):
        return check_margin(given.margins, task.posed.n_test), str(given)
    return check_margin(given, task.posed.n_test), ""


def recorded(cert: Certificate, margins: Float, source: str) -> Certificate:
    """The certificate with the margins that it is about."""
    alike = bool(np.all(margins == margins[:1]))
    margin = float(margins[0]) if alike else tuple(margins.tolist())
    plain = replace(cert, run=replace(cert.run, margin=margin, margin_from=source))
    return replace(plain, checksum=plain.computed_checksum())


CHAIN: list[Reduction] = [
    FractionOfLabels(),
    ChosenC(),
    ValidatedArrays(),
    DealtOut(),
    SettledKernel(),
    WithKernelErrors(),
    WithOffsets(),
    RowsAtOnce(),
    WithMargin(),
]
"""All reductions, in the order in which a task takes them."""


def posed(task: Task) -> Task:
    """A task whose arrays are validated, and that is otherwise as it was given."""
    for reduction in CHAIN:
        if task.problem is None and reduction.accepts(task):
            task, _ = reduction.apply(task)
    return task


def unfinished(task: Task) -> bool:
    """Whether the run was over before a task was reduced: its kernel is not settled, or it still has margins."""
    settled = task.posed.by is not None or task.posed.min_eig >= 0.0
    return not settled or bool(margins_of(task)[0].any())


def reduced(
    task: Task, look: Callable[[Task], None] = lambda task: None
) -> tuple[Task, Callable[[Certificate], Certificate]]:
    """A task that an engine can answer, and what turns its certificate into that of the given task.

    ``look`` may refuse the task, once its arrays are validated and before anything else is done. Where the run is over
    before, the task is as far as it got.
    """
    taken: list[tuple[Reduction, Any]] = []
    looked = False
    for reduction in CHAIN:
        if task.problem is not None and not looked:
            look(task)
            looked = True
        if reduction.accepts(task):
            try:
                task, undo = reduction.apply(task)
            except Stopped:
                break
            taken.append((reduction, undo))

    def restored(cert: Certificate) -> Certificate:
        for reduction, undo in reversed(taken):
            cert = reduction.invert(cert, undo)
        return cert

    return task, restored
