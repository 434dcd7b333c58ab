"""Branch and bound of our own: the relaxation prunes subtrees, retraining settles what is left.

A subtree is a set of attacks: some labels are changed, some are kept, the others are free. Against one rival it is what
is left of a :class:`~labelcert.engines.search.rivalry.Rivalry`; for the curve, where all nodes and rivals are looked at
together, it is what labels may become. A solver suggests multipliers and thereby the order of branching; every bound is
evaluated here, with its rounding errors, and every leaf is enumerated with retraining. So no verdict rests on a solver.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from labelcert.arrays import Bool, Float, Int
from labelcert.certificate import Verdict
from labelcert.certificate.proofs import KEEPS, Excluded, Tree
from labelcert.engines.base import Findings, Question
from labelcert.engines.control import Control
from labelcert.engines.enumerate import Enumerate
from labelcert.engines.search import rivalry
from labelcert.engines.search.margin_ranges import FLIPPED, KEPT, Ranges
from labelcert.engines.search.relaxation import Multipliers, Relaxation
from labelcert.engines.search.rivalry import Rivalry, least_margins
from labelcert.problem import Problem, Relabelling

LEAF_SETS = 300_000
"""A subtree with at most this many attacks is a leaf: all of them are retrained."""

LEAF_RELABELLINGS = 50_000
"""The same for more than two classes, where each attack takes the training of several models."""


def leaf_size(problem: Problem) -> int:
    """How many attacks a leaf may have."""
    return LEAF_SETS if problem.n_classes == 2 else LEAF_RELABELLINGS


@dataclass(frozen=True, eq=False)
class Judgement:
    """What was found out about one node at one budget."""

    verdict: Verdict
    change: Relabelling | None = None  # behind ``VULNERABLE``
    by_relaxation: bool = False  # proved robust by the relaxation
    proof: Tree | None = None  # behind ``ROBUST``, where it is about one rival
    claimed: bool = False  # ``ROBUST`` rests on somebody's word. No engine of the core does that.


UNDECIDED = Judgement(Verdict.UNKNOWN)

NOTHING_TO_BUY = Judgement(Verdict.ROBUST)
"""At a budget that no attack costs: a smaller one decides."""

Decide = Callable[[int], Judgement]
"""Decides one node, at a budget that is fixed before."""


class Remainder(NamedTuple):
    """A subtree as a problem of its own."""

    made: Relabelling  # what all its attacks contain
    free: Int  # labels that may change beside it
    problem: Problem  # what is left to attack once ``made`` is made; its flippable labels are ``free``

    @classmethod
    def of(cls, problem: Problem, made: Relabelling, targets: Bool) -> Remainder | None:
        """From what is made and the (ν, K) classes that other labels may become; None where the budget is too small."""
        may = targets.copy()
        may[made.positions] = False
        free = np.flatnonzero(may.any(axis=1)).astype(np.int64)
        rest = problem.after(made, free)
        if rest is None:
            return None
        return cls(made, free, replace(rest, adversary=replace(rest.adversary, targets=may[free])))

    @classmethod
    def within(cls, pair: Rivalry) -> Remainder | None:
        """The relabellings that are left of a pair; None where there are none."""
        a = pair.problem.adversary
        forced = ~pair.may_keep[a.labels] & (pair.left.sum(axis=1) == 1)
        targets = np.zeros(a.targets.shape, dtype=bool)
        for i, o in np.argwhere(pair.left).tolist():
            targets[i, pair.target(i, o)] = True
        made = Relabelling.of({int(i): int(targets[i].argmax()) for i in np.flatnonzero(forced)})
        return cls.of(replace(pair.problem, max_flips=pair.budget), made, targets)

    @property
    def attacks(self) -> float:
        """How many attacks there are."""
        a = self.problem.adversary
        return a.count_sets(self.problem.max_flips, a.targets.sum(axis=1))

    def whole(self, change: Relabelling) -> Relabelling:
        """An attack on the rest, together with what is made already."""
        inside = dict(zip(self.free[change.positions].tolist(), change.targets.tolist(), strict=True))
        return Relabelling.of({**self.made.moves, **inside})

    def retrain(self, question: Question, nodes: Int, control: Control) -> Findings:
        """Enumerate all attacks of the subtree."""
        part = Question(self.problem, question.predictor, question.nodes[nodes])
        return Enumerate().run(part, control, Findings.nothing(part))

    def settle(self, question: Question, t: int, control: Control) -> Judgement:
        """Retrain all attacks of the subtree on one node."""
        yes, no = question.changed(self.made, np.array([t]))
        if yes[0]:
            return Judgement(Verdict.VULNERABLE, self.made)
        found = self.retrain(question, np.array([t]), control)
        change = found.radius_changes[0]
        if change is not None and found.radius_upper[0] <= self.problem.max_flips:
            return Judgement(Verdict.VULNERABLE, self.whole(change))
        return Judgement(Verdict.ROBUST) if no[0] and found.radius_lower[0] > self.problem.max_flips else UNDECIDED


@dataclass
class Effort:
    """What a search cost."""

    subtrees: int = 0
    leaves: int = 0


def decide_rival(
    question: Question, pair: Rivalry, row: Float, t: int, *, control: Control, effort: Effort, whole: Tree
) -> Judgement:
    """Whether a rival can win node ``t`` within the budget of a question.

    - ``pair``: its ranges are proved for all attacks within the budget.
    - ``control``: its deadline is the node's own.
    - ``whole``: holds the proof behind what is missing in the pair already; the proof of the search is added.
    """
    stack, undecided, root = [(pair, whole)], False, True
    while stack:
        if control.over():
            return UNDECIDED
        here, tree = stack.pop()
        effort.subtrees += 1
        left = rivalry.narrowed(here, row, control.left_seconds, tree.steps, root=root)
        part = None if left is None else Remainder.within(left)
        if left is None or part is None:
            if root:
                return Judgement(Verdict.ROBUST, by_relaxation=True, proof=whole)
            continue
        root = False
        if part.attacks <= leaf_size(question.problem):
            effort.leaves += 1
            tree.leaf = True
            found = part.settle(question, t, control)
            if found.verdict is Verdict.VULNERABLE:
                return found
            undecided = undecided or found.verdict is Verdict.UNKNOWN
            continue
        tree.label, halves = rivalry.branches(left, part.free, row)
        tree.parts = {new: Tree() for new in halves}
        stack += [(half, tree.parts[new]) for new, half in halves.items()]
    return UNDECIDED if undecided else Judgement(Verdict.ROBUST, proof=whole)


class Subtree(NamedTuple):
    """Attacks on all nodes at once."""

    made: Relabelling
    targets: Bool  # (ν, K) what other labels may become
    rivals: Bool  # (n, K) rivals that are not excluded, for each node

    @property
    def alive(self) -> Int:
        """Nodes that some rival may win."""
        return np.flatnonzero(self.rivals.any(axis=1))

    def halves(self, i: int) -> dict[int, Subtree]:
        """The parts in which label ``i`` stays, and in which it becomes each class."""
        kept = self.targets.copy()
        kept[i] = False
        moved = {k: Subtree(self.made.plus(i, k), kept, self.rivals) for k in np.flatnonzero(self.targets[i]).tolist()}
        return {KEEPS: self._replace(targets=kept), **moved}


class MostChanged:
    """The search for the most nodes that one attack within a budget changes.

    A node is excluded from a subtree where the relaxation proves for each rival that none of its attacks makes it win.
    A subtree whose other nodes are no more than a known attack changes is pruned.

    - ``models``: each class against the rest; of two classes, the second one.
    - ``ranges``: of each model, proved for all attacks within the budget.
    - ``rows`` (n, m): test rows of all nodes.
    """

    def __init__(
        self,
        question: Question,
        models: Mapping[int, Problem],
        ranges: Mapping[int, Ranges],
        rows: Float,
        effort: Effort,
    ) -> None:
        self._question, self._models, self._ranges, self._rows = question, models, ranges, rows
        self._effort = effort

    def search(
        self, root: Subtree, best: int, control: Control, enter: Callable[[Relabelling], tuple[int, bool]]
    ) -> tuple[int, Tree]:
        """A proved upper end, given an attack that changes ``best`` nodes, and its proof.

        The upper end is the most where nothing stays open.

        ``enter``: takes note of an attack; returns how many nodes it provably changes, and whether that is decided for
        all.
        """
        whole = Tree()
        stack, possible = [(root, whole)], best
        while stack:
            here, tree = stack.pop()
            if here.alive.size <= best:
                continue
            if control.over():
                possible = max(possible, *(other.alive.size for other, _ in [(here, tree), *stack]))
                break
            self._effort.subtrees += 1
            part = Remainder.of(self._question.problem, here.made, here.targets)
            if part is None:
                continue
            here, promise, excluded = self.examined(here, control.over)
            tree.steps.append(excluded)
            if here.alive.size <= best:
                continue
            if part.attacks > leaf_size(self._question.problem):
                position = int(part.free[int(promise[part.free].argmax())])
                tree.label = int(self._question.problem.adversary.labels[position])
                halves = here.halves(position)
                tree.parts = {what: Tree() for what in halves}
                stack += [(half, tree.parts[what]) for what, half in halves.items()]
                continue
            self._effort.leaves += 1
            tree.leaf = True
            best, upper = self._leaf(part, here.alive, best, control, enter)
            possible = max(possible, best, upper)
        return max(best, possible), whole

    def examined(self, here: Subtree, over: Callable[[], bool]) -> tuple[Subtree, Float, Excluded]:
        """The subtree after the relaxation has excluded what it can, how promising each label is, and the proof.

        A label promises what its best move takes off the bounds that are not positive. Nodes that are not come to
        before the time is ``over`` are not excluded.
        """
        question, a = self._question, self._question.problem.adversary
        targets = here.targets.copy()
        targets[here.made.positions, here.made.targets] = True
        narrower = replace(question.problem, adversary=replace(a, targets=targets))
        ranges = {c: self._restricted(c, here, targets) for c in self._models}
        programs = {c: Relaxation(model, ranges[c]) for c, model in self._models.items()}
        source, alive, promise = question.problem.codes[a.labels], here.rivals.copy(), np.zeros(a.labels.size)
        gone: list[tuple[int, int, list[Multipliers]]] = []
        for t in here.alive.tolist():
            if over():
                break
            own, row = int(question.predicted[t]), self._rows[t]
            known: dict[tuple[int, float], Multipliers] = {}
            for r in np.flatnonzero(alive[t]).tolist():
                pair = Rivalry.of(narrower, own, r, self._models, ranges)
                # Moves that are made between other classes are paid for, too.
                elsewhere = ~np.isin(source[here.made.positions], (own, r)) & ~np.isin(here.made.targets, (own, r))
                spent = int(a.costs[here.made.positions[elsewhere]].sum())
                pair = replace(pair, budget=pair.budget - spent)
                for c, sign in zip(pair.members, pair.signs, strict=True):
                    if (c, sign) not in known:
                        known[c, sign] = programs[c].suggest(sign * row)
                mus = [known[both] for both in zip(pair.members, pair.signs, strict=True)]
                alive[t, r] = not least_margins(pair, mus)[0] > 0.0
                if alive[t, r]:
                    promise += rivalry.gains(pair, mus)
                else:
                    gone.append((int(question.nodes[t]), r, mus))
        return here._replace(rivals=alive), promise, _recorded(gone, question.problem.m)

    def _restricted(self, c: int, here: Subtree, targets: Bool) -> Ranges:
        """Ranges of one model in a subtree."""
        problem, a = self._question.problem, self._question.problem.adversary
        member = problem.codes[a.labels] == c
        may = np.where(member, targets.any(axis=1), targets[:, c])
        made = here.made.positions
        toggled = member[made] | (here.made.targets == c)
        ranges = self._ranges[c].without(a.labels[~may], FLIPPED)
        return ranges.without(a.labels[made], np.where(toggled, KEPT, FLIPPED))

    def _leaf(
        self, part: Remainder, nodes: Int, best: int, control: Control, enter: Callable[[Relabelling], tuple[int, bool]]
    ) -> tuple[int, int]:
        """Retrain all attacks of a subtree: the best known afterwards, and an upper end.

        Nodes that are excluded do not change, so that counts are those of all nodes.
        """
        yes, no = self._question.changed(part.made, nodes)
        if int(yes.sum()) > best:
            best = enter(part.made)[0]
        found = part.retrain(self._question, nodes, control)
        if int(found.curve_lower[-1]) > best:
            best = enter(part.whole(found.curve_changes[-1]))[0]
        return best, max(int((~no).sum()), int(found.curve_upper[-1]))


def _recorded(gone: list[tuple[int, int, list[Multipliers]]], m: int) -> Excluded:
    """Nodes, rivals and the multipliers that exclude them, as a proof that can be evaluated again."""
    betas = [[mu.recorded().beta[0] for mu in mus] for _, _, mus in gone]
    own, other = (np.array([b[k] for b in betas if k < len(b)], dtype=np.float32).reshape(-1, m) for k in range(2))
    return Excluded(
        nodes=np.array([t for t, _, _ in gone], dtype=np.int32),
        rivals=np.array([r for _, r, _ in gone], dtype=np.int32),
        own=own,
        other=other,
    )
