"""The closed form for linear maps of the labels that are read row by row.

Radii need one row at a time, so rows are read in blocks and forgotten. The curve needs many rows at once: those of the
nodes nearest to a change are kept, as far as memory is set aside for them. The others count as unchanged at the lower
end of the curve, and as changed from their radius on at the upper end.
"""

from __future__ import annotations

import hashlib
import time
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
import scipy.sparse

from labelcert.arrays import Bool, Float, Int
from labelcert.engines.base import Attacks, Capabilities, Findings, Question, ReadOnce, Work, within_reach
from labelcert.engines.closed_form import ClosedForm, linear_curve
from labelcert.engines.control import Control
from labelcert.engines.emptied import classes_dropped
from labelcert.engines.final_check import check
from labelcert.engines.linear.radii import Radii, linear_radii
from labelcert.engines.linear.spending import spending_work
from labelcert.prediction import OPEN, TIED, Gathered, Predictor, predictor_for
from labelcert.problem import NOTHING, Problem, Relabelling
from labelcert.problem.rows import OffsetRows, RowBlock, Rows

CURVE_CELLS = 10_000_000
"""Entries of rows that are kept for the curve."""

ROW_BLOCKS = "rows read in blocks"
"""Who predicts: a linear map of the labels, whose rows are not kept."""


@dataclass(frozen=True, eq=False)
class ReadRows:
    """Predictions of a linear map whose rows come in blocks: nobody knows them, or how many, before they are read."""

    rows: Rows | OffsetRows
    kind: str = ROW_BLOCKS

    def predictor(self, problem: Problem) -> Predictor:
        """One without a single node."""
        none = np.zeros(0, dtype=np.int64)
        return Gathered(problem, none, none, np.zeros(0))

    def digest(self, sha256: str) -> str:
        """Rows that are not read are in no hash."""
        return sha256


class RowBlockEngine(ClosedForm):
    """Sorting, while rows are read."""

    capabilities = Capabilities(automatic=True, advertised=False, predictors=frozenset({ROW_BLOCKS}))

    def estimate(self, question: Question, control: Control) -> Work:
        """What sorting costs, or knapsacks, where it is known how many rows there are."""
        problem = question.problem
        n = cast(ReadRows, problem.by).rows.n
        if n is None or control.time_limit is not None:
            return Work("sorting, as rows are read")
        work = spending_work(problem.adversary, problem.max_flips, n, problem.n_classes - 1)
        return work if work.advice is None else replace(work, advice=f"{work.advice}, or time_limit=SECONDS")

    def run(self, question: Question, control: Control, known: Findings) -> Findings:
        """Radii block by block, each with a checked witness; then the curve."""
        started = time.perf_counter()
        harvest, rows = _Harvest(replace(question.problem, by=None), control), cast(ReadRows, question.problem.by).rows
        for block in rows:
            harvest.add(block)
            control.note(f"{harvest.n} rows")
            if rows.n is not None:
                control.report(harvest.n, rows.n)
        found = harvest.result()
        found.statistics["seconds"] = time.perf_counter() - started
        return found


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
        found = check(question, classes_dropped(question, _alone(question, radii), self._control))
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
        back = positions_among(self._problem, block.columns)
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
        """Keep ``most`` rows, those with the smallest radii, and forget the others."""
        order = self._by_radius()
        self._least_dropped = min(self._least_dropped, int(self._gathered("lower")[self._kept_nodes[order[most]]]))
        chosen = np.sort(order[:most])
        self._kept = [scipy.sparse.csr_array(scipy.sparse.vstack(self._kept, format="csr")[chosen])]
        self._kept_nodes = self._kept_nodes[chosen]

    def _gathered(self, name: str) -> Any:
        return np.concatenate([part[name] for part in self._parts])

    def result(self) -> Findings:
        """Everything about all rows, with the curve."""
        problem = replace(self._problem, K_test=np.zeros((self.n, 0)))
        predicted, shown, decision = (self._gathered(name) for name in ("predicted", "shown", "decision"))
        question = Question.ask(Gathered(problem, predicted, shown, decision))
        nodes = question.nodes
        lower, upper = self._gathered("lower")[nodes], self._gathered("upper")[nodes]
        curve, statistics = self._curve(lower, nodes)
        return Findings(
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
            read=ReadOnce(
                question,
                self._gathered("becomes")[nodes],
                {change: mask[nodes] for change, mask in curve.changed.items()},
            ),
            sha256=problem.finish_digest(self.digest),
        )

    def _curve(self, lower: Int, nodes: Int) -> tuple[_Curve, dict[str, Any]]:
        """The curve of the kept rows, and what the others may add to it."""
        budget = self._problem.max_flips
        curve = _Curve(budget, self.n)
        if self._kept_nodes.size == 0 or self._control.over():
            curve.upper = within_reach(lower, budget)
            return curve, {"rows_for_curve": 0}
        block = self._kept_block()
        question = _question(self._problem, block)
        back = positions_among(self._problem, block.columns)
        at = self._kept_nodes[question.nodes]
        changes: list[Relabelling | None] = []
        for change in map(self._changes.get, at.tolist()):
            positions = None if change is None else np.searchsorted(back, change.positions).astype(np.int64)
            changes.append(None if change is None or positions is None else Relabelling(positions, change.targets))
        radii = Radii(self._gathered("lower")[at], self._gathered("upper")[at], changes)
        attacks, upper, statistics = linear_curve(question, radii, self._control)
        known = _with_curve(question, radii, attacks, upper)
        found = check(question, classes_dropped(question, known, self._control))
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
            if self._problem.emptied:  # which classes have labels is to be seen
                columns = np.arange(self._problem.m)
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


def positions_among(problem: Problem, columns: Int | None) -> Int:
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
