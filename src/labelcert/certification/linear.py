"""``certify_linear``: any model whose scores are linear in the labels, row by row.

Radii need one row at a time, so rows are read in blocks and forgotten. The curve needs many rows at once: those of the
nodes nearest to a change are kept, as far as memory is set aside for them. The others count as unchanged at the lower
end of the curve, and as changed from their radius on at the upper end.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse

from labelcert.arrays import Bool, Float, Int
from labelcert.certificate import Certificate, StageRecord
from labelcert.certification.from_arrays import record
from labelcert.engines.base import Attacks, Findings, Question, within_reach
from labelcert.engines.checking import Checked, check
from labelcert.engines.closed_form import ClosedForm, linear_curve
from labelcert.engines.control import Control
from labelcert.engines.freezing import Names, freeze
from labelcert.engines.linear.radii import Radii, linear_radii
from labelcert.engines.linear.spending import spending_work
from labelcert.engines.planning import duration
from labelcert.errors import WorkTooLarge
from labelcert.prediction import OPEN, TIED, Gathered, predictor_for
from labelcert.problem import NOTHING, Problem, Relabelling, Threat
from labelcert.problem.rows import RowBlock, Rows
from labelcert.problem.validation import check_seconds, check_workers
from labelcert.progress import progress_report

USUAL_FLIPS = 1000
"""Largest budget where none is asked for."""

CURVE_CELLS = 10_000_000
"""Entries of rows that are kept for the curve."""


def certify_linear(
    H: npt.ArrayLike | Iterable[Any],
    labels: npt.ArrayLike,
    *,
    threat: Threat | None = None,
    max_flips: int | None = None,
    time_limit: float | None = None,
    workers: int | None = None,
    progress: bool = False,
    collective: bool = True,
    names: Names | None = None,
) -> Certificate:
    """Certify a model whose scores are ``H @ one-hot(labels)``: the score of class c is a sum over labels of class c.

    Kernel ridge regression, Gaussian-process regression, k nearest neighbours, Nadaraya–Watson, label propagation and
    label spreading are of this kind. The highest score decides. Radii are exact for the float64 numbers in ``H``.

    Parameters
    ----------
    H : (n, m) array, SciPy sparse matrix, or iterable of blocks of rows
        What each label adds to the score of its class, for each test node. It must not depend on the labels. Blocks
        are dense or sparse, with m columns; they are read once and not kept, so memory does not grow with n.
    labels : (m,) array
        Two classes or more, of any type.
    threat : Threat, optional
        What the adversary may change; by default any label, one unit each.
    max_flips : int, optional
        Largest budget (in cost units, with costs); by default all labels, but at most 1,000.
    time_limit : float, optional
        Seconds. What is not proved by then comes as intervals. Ctrl-C does the same at any moment. Clean predictions
        are always computed for all rows.
    workers : int, optional
        Threads; all cores by default.
    progress : bool
        Show a progress bar on standard error.
    collective : bool
        Whether the collective curve is asked for. Without it, the curve is the number of nodes within reach.
    names : Names, optional
        What test nodes, labelled nodes and classes are called.

    Returns
    -------
    Certificate
        Its curve is an interval, where the problem is too large for an exact one.

    Raises
    ------
    InvalidInput
        The input is refused; the message says why and what to do.
    WorkTooLarge
        Costs are so large that the knapsacks would take too long, and there is no time limit.

    Examples
    --------
    Two nearest neighbours of two points on a line, among five labelled points:

    >>> from labelcert import certify_linear
    >>> H = [[0.5, 0.5, 0, 0, 0], [0, 0, 0.5, 0, 0.5]]
    >>> cert = certify_linear(H, ["a", "a", "b", "b", "b"])
    >>> cert
    Certificate(2 test nodes, 5 labels of 2 classes, budgets 0..5, exact, engine='closed-form')
    >>> cert.predictions.tolist(), cert.radius_lower.tolist(), cert.witness(0)
    (['a', 'b'], [1, 1], {0: 'b'})
    """
    control = Control(
        workers=check_workers(workers), time_limit=check_seconds("time_limit", time_limit), collective=bool(collective)
    )
    problem = Problem.linear(labels, threat=threat, max_flips=max_flips, usual=USUAL_FLIPS)
    rows = Rows(H, problem.m)
    if rows.n is not None and time_limit is None:
        _refuse_too_large(problem, rows.n)
    note = ""
    if max_flips is None and problem.max_flips < problem.adversary.full_budget:
        note = f"budgets up to {problem.max_flips} are answered; ask for more with max_flips"
    with progress_report("certifying", progress) as show, control.running():
        control.report, control.note = show.report, show.note
        return _certified(problem, rows, control, names or Names(), note)


def _refuse_too_large(problem: Problem, n: int) -> None:
    work = spending_work(problem.adversary, problem.max_flips, n, problem.n_classes - 1)
    if work.advice is not None:
        raise WorkTooLarge(
            f"the work is too large: it would take about {duration(work.seconds)} ({work.reason}); {work.advice}, "
            "or time_limit=SECONDS"
        )


def _certified(problem: Problem, rows: Rows, control: Control, names: Names, note: str) -> Certificate:
    started = time.perf_counter()
    control.start_clock()
    harvest = _Harvest(problem, control)
    for block in rows:
        harvest.add(block)
        control.note(f"{harvest.n} rows")
        if rows.n is not None:
            control.report(harvest.n, rows.n)
    question, checked, statistics = harvest.result()
    statistics["seconds"] = time.perf_counter() - started
    stages = [StageRecord(ClosedForm.name, problem.max_flips, statistics)]
    sha256 = problem.finish_digest(harvest.digest)
    seconds = time.perf_counter() - started
    run = record(problem, control, ClosedForm.name, stages, seconds, budget_note=note, sha256=sha256)
    return freeze(question, checked, run, names)


class _Harvest:
    """Results of all rows so far, and the rows that are kept for the curve."""

    def __init__(self, problem: Problem, control: Control) -> None:
        self._problem, self._control = problem, control
        self.digest = hashlib.sha256(b"linear")
        self.n = 0
        self._parts: list[dict[str, Any]] = []
        self._changes: dict[int, Relabelling] = {}
        self._kept: list[scipy.sparse.csr_array] = []
        self._least_dropped = problem.max_flips + 1
        self._kept_nodes = np.zeros(0, dtype=np.int64)
        self._seconds, self._blocks = 0.0, 0

    def add(self, block: RowBlock) -> None:
        """Radii of the rows of a block, each with a checked witness."""
        started = time.perf_counter()
        block.update(self.digest, self._problem.m)
        question = _question(self._problem, block)
        radii = linear_radii(question, self._control)
        found = check(question, _alone(question, radii))
        predictor, nodes = question.predictor, question.nodes
        part: dict[str, Any] = {
            "predicted": predictor.predicted,
            "shown": predictor.shown,
            "decision": _decision(question, block),
            "lower": np.zeros(predictor.predicted.size, dtype=np.int64),
            "upper": np.full(predictor.predicted.size, self._problem.adversary.never, dtype=np.int64),
            "becomes": np.full(predictor.predicted.size, -1, dtype=np.int64),
        }
        part["lower"][nodes] = found.findings.radius_lower
        part["upper"][nodes] = found.findings.radius_upper
        part["becomes"][nodes] = found.becomes
        self._parts.append(part)
        back = _positions(self._problem, block.columns)
        for t, change in zip(nodes.tolist(), found.findings.radius_changes, strict=True):
            if change is not None:
                self._changes[self.n + t] = Relabelling(back[change.positions], change.targets)
        if self._control.collective and not self._control.over():
            near = nodes[found.findings.radius_lower <= self._problem.max_flips]
            self._keep(np.sort(near), block)
        self.n += predictor.predicted.size
        self._blocks += 1
        self._seconds += time.perf_counter() - started

    def _keep(self, near: Int, block: RowBlock) -> None:
        """Keep rows for the curve; of too many, those with the smallest radii."""
        near = near[self._parts[-1]["lower"][near] < self._least_dropped]
        rows = scipy.sparse.csr_array(block.rows[near])
        if block.columns is not None:
            shape = (rows.shape[0], self._problem.m)
            rows = scipy.sparse.csr_array((rows.data, block.columns[rows.indices], rows.indptr), shape=shape)
        self._kept.append(rows)
        self._kept_nodes = np.concatenate([self._kept_nodes, self.n + near])
        if sum(part.nnz for part in self._kept) > 2 * CURVE_CELLS:
            sizes = np.concatenate([np.diff(part.indptr) for part in self._kept])
            self._drop(int(np.sum(np.cumsum(sizes[self._by_radius()]) <= CURVE_CELLS)))

    def _by_radius(self) -> Int:
        return np.argsort(self._gathered("lower")[self._kept_nodes], kind="stable").astype(np.int64)

    def _drop(self, most: int) -> None:
        """Keep so many rows, in the order of their radii, and forget the others."""
        order = self._by_radius()
        self._least_dropped = min(self._least_dropped, int(self._gathered("lower")[self._kept_nodes[order[most]]]))
        chosen = np.sort(order[:most])
        self._kept = [scipy.sparse.csr_array(scipy.sparse.vstack(self._kept, format="csr")[chosen])]
        self._kept_nodes = self._kept_nodes[chosen]

    def _gathered(self, name: str) -> Any:
        return np.concatenate([part[name] for part in self._parts])

    def result(self) -> tuple[Question, Checked, dict[str, Any]]:
        """Everything about all rows, with the curve."""
        problem = replace(self._problem, K_test=np.zeros((self.n, 0)))
        predicted, shown, decision = (self._gathered(name) for name in ("predicted", "shown", "decision"))
        question = Question.ask(Gathered(problem, predicted, shown, decision))
        nodes = question.nodes
        lower, upper = self._gathered("lower")[nodes], self._gathered("upper")[nodes]
        curve, statistics = self._curve(lower, nodes)
        found = Findings(
            radius_lower=lower,
            radius_upper=upper,
            radius_changes=[self._changes.get(t) for t in nodes.tolist()],
            curve_lower=curve.lower,
            curve_upper=curve.upper,
            curve_changes=curve.changes,
            statistics={
                "trainings": 0,
                "rows": self.n,
                "blocks": self._blocks,
                "seconds_for_radii": self._seconds,
                **statistics,
            },
        )
        findings = Findings.nothing(question).refined(found, ClosedForm.name)
        changed = {change: mask[nodes] for change, mask in curve.changed.items()}
        for change in findings.curve_changes:
            changed.setdefault(change, np.zeros(nodes.size, dtype=bool))
        return question, Checked(findings, self._gathered("becomes")[nodes], changed), findings.statistics

    def _curve(self, lower: Int, nodes: Int) -> tuple[_Curve, dict[str, Any]]:
        """The curve of the kept rows, and what the others may add to it."""
        budget = self._problem.max_flips
        curve = _Curve(budget, self.n)
        if self._kept_nodes.size == 0 or self._control.over():
            curve.upper = within_reach(lower, budget)
            return curve, {"rows_for_curve": 0}
        block = self._kept_block()
        question = _question(self._problem, block)
        back = _positions(self._problem, block.columns)
        at = self._kept_nodes[question.nodes]
        changes: list[Relabelling | None] = []
        for change in map(self._changes.get, at.tolist()):
            positions = None if change is None else np.searchsorted(back, change.positions).astype(np.int64)
            changes.append(None if change is None or positions is None else Relabelling(positions, change.targets))
        radii = Radii(self._gathered("lower")[at], self._gathered("upper")[at], changes)
        attacks, upper, statistics = linear_curve(question, radii, self._control)
        found = check(question, _with_curve(question, radii, attacks, upper))
        renamed = {change: Relabelling(back[change.positions], change.targets) for change in (*found.changed, NOTHING)}
        for change, mask in found.changed.items():
            curve.changed[renamed[change]] = np.zeros(self.n, dtype=bool)
            curve.changed[renamed[change]][at[mask]] = True
        curve.lower = found.findings.curve_lower
        curve.changes = [renamed[change] for change in found.findings.curve_changes]
        others = ~np.isin(nodes, at)
        curve.upper = found.findings.curve_upper + within_reach(lower[others], budget)
        return curve, {"rows_for_curve": int(at.size), **statistics}

    def _kept_block(self) -> RowBlock:
        """As many of the kept rows as a dense table holds."""
        while True:
            table = scipy.sparse.vstack(self._kept, format="csr")
            columns = np.unique(table.indices).astype(np.int64)
            most = max(1, int(CURVE_CELLS / max(1, columns.size)))
            if table.shape[0] <= most:
                columns = columns if columns.size else np.zeros(1, dtype=np.int64)
                return RowBlock(table[:, columns].toarray(), columns)
            self._drop(max(most, table.shape[0] // 2))


class _Curve:
    """The curve of all nodes: numbers, attacks, and which nodes each of them provably changes."""

    def __init__(self, budget: int, n: int) -> None:
        self.lower = np.zeros(budget + 1, dtype=np.int64)
        self.upper = np.full(budget + 1, n, dtype=np.int64)
        self.changes: list[Relabelling] = [NOTHING] * (budget + 1)
        self.changed: dict[Relabelling, Bool] = {}


def _question(problem: Problem, block: RowBlock) -> Question:
    part = problem.with_rows(block.rows, block.columns)
    return Question.ask(predictor_for(part, linear=True))


def _positions(problem: Problem, columns: Int | None) -> Int:
    """Positions, among all labels that may change, of those in some columns."""
    labels = problem.adversary.labels
    return np.arange(labels.size) if columns is None else np.flatnonzero(np.isin(labels, columns)).astype(np.int64)


def _decision(question: Question, block: RowBlock) -> Float:
    """Scores, added up in the order of labels; they do not contradict the predictions where these are decided."""
    problem, predicted = question.problem, question.predictor.predicted
    scores: Float = np.array(
        [np.bincount(problem.codes, weights=row, minlength=problem.n_classes) for row in block.rows]
    )
    if problem.n_classes == 2:
        one = scores[:, 1] - scores[:, 0]
        sign = np.where(predicted == TIED, 0.0, np.where(predicted == 1, 1.0, -1.0))
        noise = (predicted != OPEN) & (np.sign(one) != sign)
        return np.asarray(np.where(noise, sign * np.maximum(np.abs(one), np.finfo(np.float64).tiny), one))
    winner = scores.argmax(axis=1)
    for t in np.flatnonzero((predicted >= 0) & (winner != predicted)).tolist():  # their difference is noise
        pair = [winner[t], predicted[t]]
        scores[t, pair] = scores[t, pair[::-1]]
    return scores


def _alone(question: Question, radii: Radii) -> Findings:
    """Radii as findings that say nothing about the curve."""
    nothing = Findings.nothing(question)
    return replace(nothing, radius_lower=radii.lower, radius_upper=radii.upper, radius_changes=radii.changes)


def _with_curve(question: Question, radii: Radii, attacks: Attacks, upper: Int) -> Findings:
    return replace(
        _alone(question, radii), curve_lower=attacks.curve, curve_upper=upper, curve_changes=attacks.curve_changes
    )
