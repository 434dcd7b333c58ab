"""Exact certificates where scores are linear in the labels: radii by sorting, the curve by a short search.

Two cases are linear. With the square loss, ``p_t = k_t (Q + λI)⁻¹ ỹ`` always. With the hinge loss, where every
label stays at its cap, ``p_t = C k_t·ỹ`` (:func:`~labelcert.svm.scoring.always_at_cap` proves it for the budget
at hand). Flipping label i then lowers a node's score by its *gain*, whatever else is flipped, so the cheapest
attack takes the largest gains: a sort for equal costs, a knapsack for others.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import numpy.typing as npt

from labelcert.engines.base import Control, Findings, Question, Work, within_reach
from labelcert.engines.counting import EFFORT, Counting, linear_errors
from labelcert.engines.enumerate import WORK_LIMIT_SECONDS, positions_of
from labelcert.engines.walks import words_for
from labelcert.problem import Problem
from labelcert.svm.scoring import LinearScorer, Scorer, always_at_cap
from labelcert.threat import Adversary

Int = npt.NDArray[np.int64]
Numbers = npt.NDArray[Any]

GREEDY_UPDATES = 5e7
"""Score updates spent on finding attacks that the search starts from."""

CHECK_UPDATES = 2e8
"""Multiplications spent on trying attacks there."""

KNAPSACK_SECONDS = 3e-8
"""Rough time of one cell of a knapsack table."""

_BLOCK_BYTES = 64e6


class ClosedForm:
    """Sorting, wherever linearity is proved."""

    name = "closed-form"

    def refuses(self, problem: Problem) -> str | None:
        """Problems whose scores are not provably linear in the labels, for every admissible labelling."""
        if problem.loss == "square" or always_at_cap(problem):
            return None
        return (
            "scores are not proved to be linear in the labels, because some label may leave its cap within the "
            "budget; use engine='auto', a smaller C or max_flips, or loss='square'"
        )

    def scorer(self, problem: Problem) -> Scorer:
        """One linear map."""
        return LinearScorer(problem)

    def estimate(self, question: Question, control: Control) -> Work:
        """Sorting is always cheap; a knapsack over large costs is not. The effort on the curve is limited."""
        a, budget = question.problem.adversary, question.problem.max_flips
        if uniform(a.costs):
            return Work("sorting")
        cells = float(a.labels.size) * (budget + 1) * max(1, question.nodes.size) * (1 + a.labels.size // 64)
        cells += float((a.group_caps + 1).sum()) * (budget + 1) * question.nodes.size
        seconds = cells * KNAPSACK_SECONDS
        reason = f"a knapsack of {a.labels.size} labels and budgets up to {budget} for {question.nodes.size} nodes"
        if seconds <= WORK_LIMIT_SECONDS:
            return Work(reason, seconds)
        return Work(reason, seconds, "divide the costs by a common unit, or give a smaller max_flips")

    def run(self, question: Question, control: Control, known: Findings) -> Findings:
        """Radii in closed form, then as much of the curve as the effort allows."""
        started = time.perf_counter()
        lower, upper, sets = linear_radii(question)
        sorted_in = time.perf_counter() - started
        budget = question.problem.max_flips
        curve_upper = within_reach(lower, budget)
        curve_lower = np.zeros(budget + 1, dtype=np.int64)
        curve_sets: list[Int] = [np.zeros(0, dtype=np.int64)] * (budget + 1)
        candidates = [s for s in sets if s is not None] + greedy_attacks(question)
        _improve(question, candidates, curve_lower, curve_upper, curve_sets)
        updates = count_curve(question, curve_lower, curve_upper, curve_sets, control) if control.collective else 0.0
        return Findings(
            radius_lower=lower,
            radius_upper=upper,
            radius_sets=sets,
            curve_lower=curve_lower,
            curve_upper=curve_upper,
            curve_sets=curve_sets,
            statistics={
                "seconds": time.perf_counter() - started,
                "seconds_for_radii": sorted_in,
                "score_updates_for_curve": updates,
            },
        )


def count_curve(
    question: Question, curve_lower: Int, curve_upper: Int, curve_sets: list[Int], control: Control
) -> float:
    """Close the curve budget by budget, as far as the effort goes; returns the score updates spent."""
    open_ = np.flatnonzero(curve_lower < curve_upper)
    if open_.size == 0 or not Counting.fits(question):
        return 0.0
    counting = Counting(question)
    counting.prepare()
    left = EFFORT if control.time_limit is None else np.inf
    spent = 0.0
    for done, b in enumerate(open_.tolist()):
        if b > 0 and curve_lower[b - 1] > curve_lower[b]:
            curve_lower[b], curve_sets[b] = curve_lower[b - 1], curve_sets[b - 1]
        if control.over():
            continue
        better, count = counting.swapped(b, curve_sets[b])
        if count > curve_lower[b]:
            curve_lower[b], curve_sets[b] = count, better
        if spent > left:
            continue
        # A hard budget gets at most half of what is left, so that easier ones behind it get their turn.
        found = counting.search(
            b, int(curve_lower[b]), curve_sets[b], int(curve_upper[b]), control, max(0.5 * (left - spent), EFFORT / 100)
        )
        spent += found.updates
        curve_lower[b], curve_upper[b], curve_sets[b] = found.lower, found.upper, found.flips
        control.report(done + 1, open_.size)
    curve_upper[:] = np.minimum.accumulate(curve_upper[::-1])[::-1]
    return spent


def linear_radii(question: Question) -> tuple[Int, Int, list[Int | None]]:
    """Radii as intervals (equal but for undecidable near-ties), and the flips that realise them.

    With ``M_t`` a node's clean score and ``G_t(b)`` the largest total gain that budget b buys, the radius is the
    least b with ``M_t − 2 G_t(b) ≤ 0``.
    """
    problem = question.problem
    scorer = question.scorer
    assert isinstance(scorer, LinearScorer)
    a = problem.adversary
    n = question.nodes.size
    lower = np.empty(n, dtype=np.int64)
    upper = np.empty(n, dtype=np.int64)
    sets: list[Int | None] = [None] * n
    per_node = _bytes_per_node(a, problem.max_flips)
    block = max(1, int(_BLOCK_BYTES / per_node))
    errors = linear_errors(question)
    for start in range(0, n, block):
        part = slice(start, min(start + block, n))
        signed = question.scores[:, part] * problem.y[:, None]
        margins = signed.sum(axis=0)
        spending = Spending(signed[a.labels], a, problem.max_flips)
        left = margins[None, :] - 2.0 * spending.best
        sure = first_row(left < -errors[None, part])
        maybe = first_row(~(left > errors[None, part]))
        for k, t in enumerate(range(part.start, part.stop)):
            if sure[k] == maybe[k]:
                cost, flips = spending.attack(int(sure[k]), k)
            else:
                exact = _exact_attack(question, t)
                if exact is None:
                    lower[t] = spending.attack(int(maybe[k]), k)[0]
                    upper[t], sets[t] = spending.attack(int(sure[k]), k)
                    if sets[t] is None:
                        upper[t] = a.never
                    continue
                cost, flips = exact
            lower[t] = cost
            upper[t] = a.never if flips is None else cost
            sets[t] = flips
    return lower, upper, sets


def _exact_attack(question: Question, t: int) -> tuple[int, Int | None] | None:
    """The cheapest attack on node ``t`` in exact arithmetic; None where the problem is too large for that."""
    scorer = question.scorer
    assert isinstance(scorer, LinearScorer)
    node = int(question.nodes[t])
    row = scorer.exact_row(node)
    if row is None:
        return None
    problem = question.problem
    sign = int(scorer.clean[node])
    signed = np.array([sign * int(y) * v for y, v in zip(problem.y, row, strict=True)], dtype=object)[:, None]
    spending = Spending(signed[problem.adversary.labels], problem.adversary, problem.max_flips)
    first = first_row(signed.sum(axis=0)[None, :] - 2 * spending.best <= 0)
    return spending.attack(int(first[0]), 0)


def first_row(hit: npt.NDArray[np.bool_]) -> Int:
    """First row that holds in each column; the number of rows where none does."""
    return np.where(hit.any(axis=0), hit.argmax(axis=0), hit.shape[0])


class Spending:
    """Largest total gain for every amount spent, for several nodes at once.

    Attributes
    ----------
    best : (R, n) array
        ``best[r]`` is the largest gain of the r-th affordable step; non-decreasing in r. Floats or exact numbers.

    Parameters
    ----------
    gains : (ν, n) array
        What flipping each label takes off half of each node's score.
    """

    def __init__(self, gains: Numbers, adversary: Adversary, budget: int) -> None:
        self._adversary = adversary
        self._budget = budget
        costs = adversary.costs
        self.unit = int(costs[0]) if costs.size and uniform(costs) else 1
        if uniform(costs):
            self._by_sorting(gains, self.unit)
        else:
            self._by_knapsack(gains)

    def attack(self, step: int, node: int) -> tuple[int, Int | None]:
        """Cost and flips of a step; ``(budget + 1, None)`` for the step after the last."""
        if step >= self.best.shape[0]:
            return self._budget + 1, None
        if self._order is not None:
            return step * self.unit, np.sort(self._order[:step, node])
        flips = positions_of(self._sets[step, node])
        return int(self._adversary.costs[flips].sum()), flips

    def _by_sorting(self, gains: Numbers, unit: int) -> None:
        usable = gains.copy()
        a = self._adversary
        for group, cap in enumerate(a.group_caps.tolist()):
            members = np.flatnonzero(a.groups == group)
            ranked = np.argsort(-gains[members], axis=0, kind="stable")
            np.put_along_axis(usable, members[ranked[cap // unit :]], 0 * gains[:1], axis=0)
        order = np.argsort(-usable, axis=0, kind="stable")[: self._budget // unit]
        taken = np.take_along_axis(usable, order, axis=0)
        taken = np.where(taken > 0, taken, 0 * taken)
        zero = 0 * gains.sum(axis=0, keepdims=True)
        self.best = np.concatenate([zero, np.cumsum(taken, axis=0)])
        self._order: Int | None = order

    def _by_knapsack(self, gains: Numbers) -> None:
        a, budget = self._adversary, self._budget
        n = gains.shape[1]
        words = words_for(a.labels.size)
        zero = 0 * gains[:1]
        best = np.repeat(zero, budget + 1, axis=0)
        sets = np.zeros((budget + 1, n, words), dtype=np.uint64)
        for group in range(-1, a.group_caps.size):
            cap = budget if group < 0 else min(budget, int(a.group_caps[group]))
            own = np.repeat(zero, cap + 1, axis=0)
            own_sets = np.zeros((cap + 1, n, words), dtype=np.uint64)
            for position in np.flatnonzero(a.groups == group):
                cost = int(a.costs[position])
                if cost > cap:
                    continue
                bit = np.zeros(words, dtype=np.uint64)
                bit[position >> 6] = np.uint64(1) << np.uint64(position & 63)
                offer = own[: cap + 1 - cost] + gains[position]
                better = offer > own[cost:]
                offer_sets = own_sets[: cap + 1 - cost] | bit
                own[cost:] = np.where(better, offer, own[cost:])
                own_sets[cost:] = np.where(better[..., None], offer_sets, own_sets[cost:])
            old, old_sets = best, sets
            best, sets = best.copy(), sets.copy()
            for cost in range(cap + 1):
                offer = old[: budget + 1 - cost] + own[cost]
                better = offer > best[cost:]
                offer_sets = old_sets[: budget + 1 - cost] | own_sets[cost]
                best[cost:] = np.where(better, offer, best[cost:])
                sets[cost:] = np.where(better[..., None], offer_sets, sets[cost:])
        self.best = best
        self._sets = sets
        self._order = None


def uniform(costs: Int) -> bool:
    """Whether all labels cost the same, so that the largest gains are the best buy."""
    return costs.size == 0 or bool(np.all(costs == costs[0]))


def _bytes_per_node(adversary: Adversary, budget: int) -> float:
    nu = adversary.labels.size
    words = words_for(nu)
    return 8.0 * (4 * (nu + 1) + 3 * (budget + 1) * (words + 1) * (not uniform(adversary.costs)))


def greedy_attacks(question: Question) -> list[Int]:
    """Flip, step by step, the label that changes most nodes (then lowers the most scores); all prefixes."""
    problem = question.problem
    a = problem.adversary
    n = question.nodes.size
    steps = int(min(a.most_flips(problem.max_flips), GREEDY_UPDATES / max(1, n * a.labels.size)))
    drop = 2.0 * question.scores[a.labels] * problem.y[a.labels, None]
    p = (question.scores * problem.y[:, None]).sum(axis=0)
    spent = 0
    group_left = a.group_caps.copy()
    open_ = np.ones(a.labels.size, dtype=bool)
    chosen: list[int] = []
    attacks = []
    for _ in range(steps):
        affordable = open_ & (a.costs <= problem.max_flips - spent)
        grouped = a.groups >= 0
        affordable[grouped] &= a.costs[grouped] <= group_left[a.groups[grouped]]
        candidates = np.flatnonzero(affordable)
        if candidates.size == 0:
            break
        after = p[None, :] - drop[candidates]
        changed = (after < 0).sum(axis=1)
        pull = -np.clip(after, 0, None).sum(axis=1)
        pick = int(candidates[np.lexsort((-pull, -changed))[0]])
        p = p - drop[pick]
        open_[pick] = False
        spent += int(a.costs[pick])
        if a.groups[pick] >= 0:
            group_left[a.groups[pick]] -= a.costs[pick]
        chosen.append(pick)
        attacks.append(np.sort(np.array(chosen, dtype=np.int64)))
    return attacks


def _improve(question: Question, attacks: list[Int], curve_lower: Int, curve_upper: Int, curve_sets: list[Int]) -> None:
    """Raise the lower curve by attacks that are found anyway, each checked by the scorer."""
    costs = question.problem.adversary.costs
    distinct = {tuple(attack.tolist()): attack for attack in reversed(attacks)}
    affordable = max(10, int(CHECK_UPDATES / max(1, question.scores.size)))
    stride = max(1, len(distinct) // affordable)
    for attack in list(distinct.values())[::stride]:
        cost = int(costs[attack].sum())
        if curve_lower[cost] >= curve_upper[cost]:
            continue
        count = int(question.changed(attack)[0].sum())
        for b in range(cost, curve_lower.size):
            if count <= curve_lower[b]:
                break
            curve_lower[b] = count
            curve_sets[b] = attack
