"""One question about noise, answered by a walk, by tails of sums, or by samples."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import cast

import numpy as np

from labelcert.arrays import Float, Int, Values
from labelcert.certificate import Stop
from labelcert.certification import Run, Task, solve
from labelcert.engines.base import Findings, Question
from labelcert.engines.control import Control
from labelcert.engines.enumerate import Enumerate
from labelcert.engines.pools import Local, in_order
from labelcert.engines.row_blocks import ROW_BLOCKS, ReadRows
from labelcert.errors import InvalidInput
from labelcert.labelnoise import sampling, tails
from labelcert.labelnoise.rates import rounding_of, wrong_counts
from labelcert.labelnoise.result import SAMPLES, TAILS, UNKNOWN, WALK, Noise
from labelcert.labelnoise.rivals import overtaken
from labelcert.labelnoise.sampling import Drawn
from labelcert.labelnoise.walked import Weighed
from labelcert.prediction import TIED, Predictor, predictor_for
from labelcert.prediction.by_features import ByFeatures
from labelcert.prediction.unknown import Unknown
from labelcert.problem import Problem
from labelcert.stopping import Stopped

WALK_SECONDS = 30.0
"""Labellings are walked where that is expected to take no longer, or half of the time limit."""

MOST_WALKED = 1e9
"""More labellings are not even timed."""

FEW_WALKED = 2000
"""So few are walked without being timed before."""

NEGLIGIBLE = 5e-4
"""Labellings with so many errors that they are this improbable together need not be walked."""

LINEAR_WALKED = 16.0
"""Up to two to the power of this many labellings, a walk is as fast as tails, and sharper."""

ILLUSTRATED = 1024
"""Labellings that are sampled where probabilities are proved: for accuracy, and for labels to confirm."""

RANKED = 50
"""Labels to confirm are ranked up to so many."""

MOST_FEW = 3
"""Radii are asked for where no more errors than this are usual."""

RADIUS_SECONDS = 10.0
"""For radii, which make samples count for more, or a fifth of the time limit."""


@dataclass(frozen=True, eq=False)
class _Found:
    """What is known about all nodes of a question, and about labellings that were sampled."""

    probability: Float
    lower: Float
    upper: Float
    radius: Int
    drawn: Drawn
    confirm: tuple[Int, Float] | None = None


@dataclass(frozen=True, eq=False)
class Asked:
    """A task, what the reductions make of it, the odds of all classes for its labels, and how sure to be."""

    task: Task
    problem: Problem
    odds: Float
    width: float
    confidence: float
    seed: int
    control: Control
    settled: bool = True
    """Whether there was time to settle the kernel; without it, nothing is known."""

    def answer(self, resume: Noise | None) -> Noise:
        """All rows in the way that fits the first ones."""
        problem = self.problem
        # Labels that stand for offsets are never wrong.
        odds = np.concatenate([self.odds, np.eye(problem.n_classes)[: problem.m - len(self.odds)]])
        digest = hashlib.sha256(f"{problem.digest()} {self.seed}".encode() + odds.tobytes())
        method, budget = "", 0
        parts, predicted, done = list[_Found](), list[Values](), 0
        for question, own in self._questions(odds):
            if problem.kind == ROW_BLOCKS:
                digest.update(question.predictor.scorer.rows.tobytes())
            rows = slice(done, done + question.problem.n_test)
            found = _nothing(question)
            if isinstance(question.predictor, Unknown):
                method = SAMPLES
            else:
                method, budget = (method, budget) if method else self._method(question, own)
                known = None if resume is None else _part(resume, rows)
                with suppress(Stopped):
                    found = self._found(question, own, method, budget, known)
            parts.append(found)
            predicted.append(problem.classes[question.predictor.shown])
            done = rows.stop
        if resume is not None and resume.sha256 != digest.hexdigest():
            raise InvalidInput("resume must be an answer to the same question with the same seed; leave it out")
        return self._gathered(parts, np.concatenate(predicted), method, digest.hexdigest())

    def _questions(self, odds: Float) -> Iterator[tuple[Question, Float]]:
        """The question, and the odds of its labels; for rows that are read once, one for each block of them."""
        problem = self.problem
        if problem.kind != ROW_BLOCKS:
            yield Question.ask(self._trained()), odds
            return
        plain = replace(problem, by=None)
        for rows, columns in cast(ReadRows, problem.by).rows:
            if columns is not None:  # each block has other ones, and all are asked about the same labellings
                whole = np.zeros((rows.shape[0], problem.m))
                whole[:, columns] = rows
                rows = whole
            yield Question.ask(predictor_for(plain.with_rows(rows), linear=True)), odds

    def _trained(self) -> Predictor:
        """The clean model; one that knows nothing where the run is over before it is trained."""
        problem = self.problem
        if self.settled:
            with suppress(Stopped):
                linear = not isinstance(problem.by, ByFeatures) and problem.is_linear(strict=True)
                return predictor_for(problem, linear=linear)
        return Unknown(problem)

    def _method(self, question: Question, odds: Float) -> tuple[str, int]:
        """Small problems are walked, up to a number of errors, linear ones have tails, all others are sampled."""
        a = question.problem.adversary
        if question.predictor.linear and tails.serves(odds):
            bits = float(np.log2(1.0 + a.targets.sum(axis=1)).sum())
            return WALK if bits <= LINEAR_WALKED else TAILS, question.budget
        budget = self._walkable(question, odds)
        return (SAMPLES, 0) if budget is None else (WALK, budget)

    def _walkable(self, question: Question, odds: Float) -> int | None:
        """The number of errors up to which labellings can be walked, where more are improbable; all if possible."""
        problem = question.problem
        if isinstance(problem.by, ByFeatures):
            return None
        a, limit = problem.adversary, self.control.time_limit
        seconds = WALK_SECONDS if limit is None else min(WALK_SECONDS, 0.5 * limit)
        within = np.cumsum(wrong_counts(odds, problem.codes))
        fewer = int(np.argmax(within >= 1.0 - NEGLIGIBLE))
        counts = a.count_by_budget(problem.max_flips, a.targets.sum(axis=1))
        for budget in (problem.max_flips, fewer):
            if budget <= problem.max_flips and counts[budget] <= MOST_WALKED:
                if counts[budget] <= FEW_WALKED and seconds > 0:
                    return budget
                work = Enumerate().estimate(_within(question, budget), self.control)
                if work.seconds <= seconds:
                    return budget
        return None

    def _found(self, question: Question, odds: Float, method: str, budget: int, known: Noise | None) -> _Found:
        """Of one question; nodes without a clean prediction count as changed, or as open where that is not decided."""
        predictor, nodes, n = question.predictor, question.nodes, question.problem.n_test
        if method == SAMPLES:
            own = self._by_samples(question, odds, known)
        else:
            own = self._by_walk(question, odds, budget) if method == WALK else self._by_tails(question, odds)
        tied = predictor.predicted == TIED
        lower, upper = tied.astype(np.float64), np.ones(n)
        probability, radius = (lower + upper) / 2, np.zeros(n, dtype=np.int64)
        lost = _emptied(question.problem, odds) if method != SAMPLES else 0.0
        lower[nodes], upper[nodes] = np.maximum(own.lower - lost, 0.0), np.minimum(own.upper + lost, 1.0)
        probability[nodes], radius[nodes] = own.probability, own.radius
        outcome = np.full((own.drawn.outcome.shape[0], n), UNKNOWN, dtype=np.int16)
        outcome[:, nodes] = own.drawn.outcome
        counts = np.zeros((3, n), dtype=np.int64)
        counts[:, nodes] = own.drawn.counts
        counts[:, tied] = own.drawn.changed.size
        drawn = Drawn(outcome, own.drawn.wrong, own.drawn.changed + int(tied.sum()), counts)
        return _Found(probability, lower, upper, radius, drawn, own.confirm)

    def _by_walk(self, question: Question, odds: Float, budget: int) -> _Found:
        limited = _within(question, budget)
        weighed = Weighed(limited, odds)
        found = Enumerate().run(replace(limited, observers=(weighed,)), self.control, Findings.nothing(limited))
        lower, upper = weighed.interval()
        best = weighed.to_confirm(RANKED)
        confirm = None if best is None else (question.problem.adversary.labels[best[0]], best[1])
        return _Found((lower + upper) / 2, lower, upper, found.radius_lower, self._illustrated(question, odds), confirm)

    def _by_tails(self, question: Question, odds: Float) -> _Found:
        n, slack = question.nodes.size, rounding_of(odds)
        lower, upper = np.zeros(n), np.ones(n)
        task = Local(lambda t: overtaken(question, odds, t, self.control))
        for t, found in in_order(task, iter(range(n)), self.control):
            lower[t], upper[t] = max(0.0, found.lower - slack), min(1.0, found.upper + slack)
            self.control.report(t + 1, n)
        drawn = self._illustrated(question, odds)
        return _Found((lower + upper) / 2, lower, upper, np.ones(n, dtype=np.int64), drawn)

    def _by_samples(self, question: Question, odds: Float, known: Noise | None) -> _Found:
        problem, wanted = question.problem, sampling.needed(self.width, self.confidence)
        below = np.concatenate([[0.0], np.cumsum(wrong_counts(odds, problem.codes))])  # fewer errors than so many
        radius = self._radii(question, below) if known is None else known.radius[question.nodes]
        first = 0 if known is None else known.changed_drawn.size
        drawn = sampling.draw(question, odds, radius, self.seed, first, max(0, wanted - first), self.control)
        if known is not None:
            drawn = _joined(known, question, drawn)
        slack = rounding_of(odds) + 4 * problem.m * 2.0**-53
        enough = np.clip(1.0 - below[np.minimum(radius, problem.m + 1)], 0.0, 1.0)
        share, lower, upper = sampling.shares(drawn.counts, enough, self.confidence)
        return _Found(share, np.maximum(lower - slack, 0.0), np.minimum(upper + slack, 1.0), radius, drawn)

    def _radii(self, question: Question, below: Float) -> Int:
        """(n,) proved lower ends of radii, where few errors are probable enough to be worth it."""
        radius = np.ones(question.nodes.size, dtype=np.int64)
        few = int(np.argmax(below[1:] >= 0.9))
        limit = min(RADIUS_SECONDS, 0.2 * self.control.left_seconds())
        if few > MOST_FEW or self.problem.kind == ROW_BLOCKS or not limit > 0.0 or self.control.over():
            return radius
        run = Run(time_limit=limit, workers=self.control.workers)
        cert = solve(replace(self.task, max_flips=max(1, few), collective=False), run)
        return np.maximum(radius, cert.radius_lower[question.nodes])

    def _illustrated(self, question: Question, odds: Float) -> Drawn:
        """Labellings that nothing is proved by."""
        nothing = np.zeros(question.nodes.size, dtype=np.int64)
        return sampling.draw(question, odds, nothing, self.seed, 0, ILLUSTRATED, self.control)

    def _gathered(self, parts: list[_Found], predictions: Values, method: str, sha256: str) -> Noise:
        """All rows together."""
        lower, upper, probability, radius = (
            np.concatenate([getattr(part, name) for part in parts])
            for name in ("lower", "upper", "probability", "radius")
        )
        # A run that had to stop may have sampled fewer labellings for later rows.
        sampled = min(part.drawn.changed.size for part in parts)
        shown = min(part.drawn.outcome.shape[0] for part in parts)
        changed = np.sum([part.drawn.changed[:sampled] for part in parts], axis=0)
        wrong = parts[0].drawn.wrong[:sampled, : len(self.odds)]
        counts = np.concatenate([part.drawn.counts for part in parts], axis=1)
        n, proved = lower.size, method != SAMPLES
        expected, interval = float(probability.sum()), (float(lower.sum()), float(upper.sum()))
        if not proved and sampled > 1:  # empirical Bernstein bound (Maurer and Pontil, 2009), at both ends
            expected, much = float(changed.mean()), math.log(4.0 / (1.0 - self.confidence))
            spread = math.sqrt(2.0 * float(changed.var(ddof=1)) * much / sampled)
            margin = spread + n * 7.0 * much / (3.0 * (sampled - 1))
            interval = (max(0.0, expected - margin), min(float(n), float((counts[1] / sampled).sum()) + margin))
        codes, known = self.problem.codes[: len(self.odds)], self.task.names
        confirm = parts[0].confirm if len(parts) == 1 else None
        if confirm is None:
            confirm = sampling.to_confirm(wrong, changed, self.odds, codes, RANKED)
        return Noise(
            lower=lower,
            upper=upper,
            probability=probability,
            proved=proved,
            confidence=1.0 if proved else self.confidence,
            method=method,
            expected_changes=expected,
            expected_interval=interval,
            predictions=predictions,
            labels=self.problem.labels[: codes.size],
            classes=self.problem.classes,
            odds=self.odds,
            drawn=np.concatenate([part.drawn.outcome[:shown] for part in parts], axis=1),
            wrong_drawn=wrong,
            changed_drawn=changed,
            radius=radius,
            counts=counts,
            confirm_first=confirm[0],
            expected_after=confirm[1],
            seed=self.seed,
            stopped=self.control.stop is not Stop.FINISHED,
            test_names=known.test,
            label_names=known.labels,
            model=known.model,
            sha256=sha256,
        )


def _nothing(question: Question) -> _Found:
    """What is known about a model that was not trained."""
    n, m = question.problem.n_test, question.problem.m
    none = np.zeros(0, dtype=np.int64)
    drawn = Drawn(
        np.zeros((0, n), dtype=np.int16), np.zeros((0, m), dtype=bool), none, np.zeros((3, n), dtype=np.int64)
    )
    return _Found(np.full(n, 0.5), np.zeros(n), np.ones(n), np.zeros(n, dtype=np.int64), drawn)


def _within(question: Question, budget: int) -> Question:
    return replace(question, problem=replace(question.problem, max_flips=budget))


def _emptied(problem: Problem, odds: Float) -> float:
    """How probable it is that a class without labels is dropped, which neither walks nor tails look at."""
    return float(np.prod(1.0 - odds, axis=0).sum()) * 1.01 if problem.drops_to else 0.0


def _part(answer: Noise, rows: slice) -> Noise:
    """What an answer says about some rows."""
    return replace(answer, drawn=answer.drawn[:, rows], counts=answer.counts[:, rows], radius=answer.radius[rows])


def _joined(known: Noise, question: Question, drawn: Drawn) -> Drawn:
    """Samples of an earlier answer, and those that were added."""
    nodes, tied = question.nodes, int((question.predictor.predicted == TIED).sum())
    return Drawn(
        np.concatenate([known.drawn[:, nodes], drawn.outcome]),
        np.concatenate([known.wrong_drawn, drawn.wrong[:, : known.wrong_drawn.shape[1]]]),
        np.concatenate([known.changed_drawn - tied, drawn.changed]),
        known.counts[:, nodes] + drawn.counts,
    )
