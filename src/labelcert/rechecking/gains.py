"""Which labels to confirm where scores are linear in the labels, at any number of them: by what each label gains.

A margin is lost once the largest gains that the budget pays for reach it. Confirming a label takes its gain away, and
the next largest one takes its place. Of each margin, only as many gains are kept as can ever matter. Where labels cost
the adversary different amounts, or groups have budgets of their own, all gains are kept, and knapsacks decide.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from labelcert.arrays import Bool, Float, Int
from labelcert.engines.base import Question
from labelcert.engines.control import Control
from labelcert.engines.linear.radii import margin_errors, moves
from labelcert.engines.linear.spending import Spending, largest, uniform
from labelcert.errors import WorkTooLarge
from labelcert.memory import require_memory
from labelcert.problem import Adversary
from labelcert.rechecking.best_labels import Chosen

MOST_GAINS = 50_000_000
"""Gains that are kept in memory."""

TRIED = 12
"""The most promising labels, for which knapsacks are solved again at every step."""

NOBODY = -1
"""Stands for labels whose gains are not kept."""


@dataclass(frozen=True, eq=False)
class Block:
    """Some of the test nodes.

    Attributes
    ----------
    first : int
        How many nodes are in other blocks before it.
    question : Question
        About them, and perhaps about some of the labels alone.
    labels : (ν,) array
        Which labels these are among all that may change.
    """

    first: int
    question: Question
    labels: Int


@dataclass(frozen=True, eq=False)
class GainsChosen(Chosen):
    """Labels to confirm, and what is known after each.

    Attributes
    ----------
    safe, possible : lists of (n,) arrays
        Nodes that provably survive once the first labels are confirmed, and those for which that is not excluded.
    alone : (ν,) array
        The weight of nodes that each label makes safe, if it is the only one.
    """

    safe: list[Bool]
    possible: list[Bool]
    alone: Float


class Leads:
    """Every node against every rival: what must be gained, and what labels gain. P leads of n nodes.

    Parameters
    ----------
    blocks : iterable of Block
    adversary : Adversary
        With all labels.
    budget : int
        Of the adversary.
    n : int
    confirmed : int
        The most labels that will be confirmed.
    """

    def __init__(self, blocks: Iterable[Block], adversary: Adversary, budget: int, n: int, confirmed: int) -> None:
        self._adversary, self._budget = adversary, budget
        self.bought = not uniform(adversary.costs) or adversary.group_caps.size > 0
        self.flips = min(adversary.labels.size, budget // int(adversary.costs.max(initial=1)))
        kept = adversary.labels.size if self.bought else min(adversary.labels.size, self.flips + confirmed + 1)
        leads = float(n) * max(1, adversary.targets.shape[1] - 1)
        require_memory(
            int(40.0 * leads * kept),
            f"{kept:,} gains for each of {leads:,.0f} leads",
            "ask about fewer test nodes, fewer flips, or fewer labels to confirm",
        )
        node, margin, error, gains, labels = zip(*self._read(blocks, kept), strict=True)
        self.node: Int = np.concatenate(node)
        self.margin, self.error = np.concatenate(margin), np.concatenate(error)
        self.gains, self.labels = np.concatenate(gains), np.concatenate(labels)
        self._asked = np.zeros(n, dtype=bool)
        self._asked[self.node] = True

    def _read(self, blocks: Iterable[Block], kept: int) -> Iterator[tuple[Int, Float, Float, Float, Int]]:
        """Nodes, margins, their errors, the largest gains, and whose they are; block by block."""
        cells = 0.0
        yield (
            np.zeros(0, dtype=np.int64),
            np.zeros(0),
            np.zeros(0),
            np.zeros((0, kept)),
            np.zeros((0, kept), np.int64),
        )
        for block in blocks:
            question = block.question
            problem, a = question.problem, question.problem.adversary
            errors, segments = margin_errors(question), question.segments
            for c, r in np.argwhere(~np.eye(problem.n_classes, dtype=bool)).tolist():
                columns = np.arange(segments[c], segments[c + 1])
                cells += float(columns.size) * kept
                if cells > MOST_GAINS:
                    raise WorkTooLarge(
                        f"recheck keeps up to {kept:,} gains for each test node and rival class, and {MOST_GAINS:,} "
                        "altogether; ask about fewer test nodes, fewer flips, or fewer labels to confirm"
                    )
                rows = question.predictor.scorer.rows[question.nodes[columns]]
                best = moves(problem, c, r)
                side = (problem.codes == c).astype(np.float64) - (problem.codes == r)
                entries = rows[:, a.labels]
                gains = np.maximum(np.maximum(best.most * entries, best.least * entries), 0.0)
                if self.bought:
                    top = np.zeros((columns.size, kept))
                    top[:, block.labels] = gains
                    whose = np.broadcast_to(np.arange(kept), top.shape)
                else:
                    order = largest(gains.T, kept).T
                    top, whose = np.zeros((columns.size, kept)), np.full((columns.size, kept), NOBODY)
                    top[:, : order.shape[1]] = np.take_along_axis(gains, order, axis=1)
                    whose[:, : order.shape[1]] = block.labels[order]
                yield block.first + question.nodes[columns], rows @ side, errors[columns], top, whose

    def confirm(self, label: int) -> None:
        """Take a label's gains away; the least gain that is kept stands for those that are not."""
        if self.bought:
            self.gains[:, label] = 0.0
            return
        rows = np.flatnonzero((self.labels == label).any(axis=1))
        gains, labels = self.gains[rows], self.labels[rows]
        gone = labels == label
        rest = gains[:, -1:] if gains.shape[1] < self._adversary.labels.size else 0.0
        gains = np.where(gone, rest, gains)
        order = np.argsort(-np.where(gone, -1.0, gains), axis=1, kind="stable")
        self.gains[rows] = np.take_along_axis(gains, order, axis=1)
        self.labels[rows] = np.take_along_axis(np.where(gone, NOBODY, labels), order, axis=1)

    def safe(self, without: int | None = None, among: Int | None = None) -> Bool:
        """(P,) leads that surely survive; or only some of them, once one more label is confirmed."""
        chosen: slice | Int = slice(None) if among is None else among
        gains = self.gains[chosen]
        if without is not None:
            gains[:, without] = 0.0
        return np.asarray(self._most(gains) < self.margin[chosen] - self.error[chosen])

    def savable(self, skipped: int) -> Bool:
        """(P,) leads that may survive once some more labels are confirmed, whichever they are."""
        if self._adversary.group_caps.size:
            return np.ones(self.node.size, dtype=bool)
        if self.bought and skipped == 0:
            most = self._most(self.gains)
        else:
            known = np.where(self.labels == NOBODY, 0.0, self.gains)
            ranked = -np.sort(-known, axis=1) if self.bought else known
            most = ranked[:, skipped : skipped + self.flips].sum(axis=1)
        return np.asarray(most <= self.margin + self.error)

    def all_of(self, leads: Bool) -> Bool:
        """(n,) nodes for which something holds for all of their leads."""
        return np.asarray((np.bincount(self.node[~leads], minlength=self._asked.size) == 0) & self._asked)

    def _most(self, gains: Float) -> Float:
        """(P,) what the budget buys."""
        if not self.bought:
            return np.asarray(gains[:, : self.flips].sum(axis=1))
        return np.asarray(Spending(gains.T, self._adversary, self._budget).best[-1])

    def worth(self, weights: Float, may: Bool) -> tuple[Float, Float]:
        """(ν,) the weight of nodes that each label would save now, and how far it would bring the others."""
        nu, n = self._adversary.labels.size, self._asked.size
        worth, promise = np.zeros(nu), np.zeros(nu)
        unsafe = np.flatnonzero(~self.safe())
        gains, labels = self.gains[unsafe], self.labels[unsafe]
        goal = (self.margin - self.error)[unsafe]
        missing = np.bincount(self.node[unsafe], minlength=n)
        weight = weights[self.node[unsafe]]
        if self.bought:
            deficit = np.maximum(self._most(gains) - goal, 1e-300)
            share = np.clip(gains / deficit[:, None], 0.0, 1.0)
            promise = np.where(may, weight @ share, 0.0)
            for i in np.argsort(-promise, kind="stable")[:TRIED].tolist():
                mended = self.safe(i, unsafe)
                saved = np.bincount(self.node[unsafe[mended]], minlength=n) == np.maximum(missing, 1)
                worth[i] = weights[saved].sum()
            return worth, promise
        b = self.flips
        total = gains[:, :b].sum(axis=1)
        following = gains[:, b] if gains.shape[1] > b else np.zeros(unsafe.size)
        pairs = []
        for k in range(min(b, gains.shape[1])):
            at = np.flatnonzero(labels[:, k] != NOBODY)
            less, deficit = (gains[:, k] - following)[at], (total - goal)[at]
            share = np.where(less > deficit, 1.0, less / np.maximum(deficit, 1e-300))
            np.add.at(promise, labels[at, k], weight[at] * np.clip(share, 0.0, 1.0))
            mended = at[(total - gains[:, k] + following)[at] < goal[at]]
            pairs.append(self.node[unsafe[mended]] * np.int64(nu) + labels[mended, k])
        # A node is saved where one label mends all of its leads.
        keys, counts = np.unique(np.concatenate([*pairs, np.zeros(0, dtype=np.int64)]), return_counts=True)
        whole = counts == missing[keys // nu]
        np.add.at(worth, keys[whole] % nu, weights[keys[whole] // nu])
        return worth, promise


def choose_by_gains(
    leads: Leads, weights: Float, costs: Float, budget: float, control: Control, until: float | None = None
) -> GainsChosen:
    """Labels to confirm, one after the other, each the one that saves the most nodes for its price, or promises to."""
    order: list[int] = []
    left, alone = budget, np.zeros(costs.size)
    bound = float(weights[leads.all_of(leads.savable(affordable(costs, budget)))].sum())
    safe, possible = [leads.all_of(leads.safe())], [leads.all_of(leads.savable(0))]
    while not control.over() and not (until is not None and float(weights[safe[-1]].sum()) >= until - 1e-12):
        may = costs <= left + 1e-9
        may[order] = False
        worth, promise = leads.worth(weights, may)
        if not order:
            alone = worth
        may &= (worth > 0) | (promise > 0)
        if not may.any():
            break
        ranked = np.lexsort((np.arange(costs.size), -promise / costs, -worth / costs))
        best = int(next(i for i in ranked if may[i]))
        order.append(best)
        left -= float(costs[best])
        leads.confirm(best)
        safe.append(leads.all_of(leads.safe()))
        possible.append(leads.all_of(leads.savable(0)))
        control.report(len(order), len(order) + affordable(np.delete(costs, order), left))
    while order and float(weights[safe[-2]].sum()) >= float(weights[safe[-1]].sum()):
        for steps in (order, safe, possible):  # it would secure nothing
            steps.pop()
    value = float(weights[safe[-1]].sum())
    return GainsChosen(order, value, max(bound, value), safe, possible, alone)


def affordable(costs: Float, budget: float) -> int:
    """The most labels that can be confirmed for a price."""
    return int(np.searchsorted(np.cumsum(np.sort(costs)), budget + 1e-9, side="right"))
