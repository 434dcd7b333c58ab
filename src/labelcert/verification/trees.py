"""The proof that a search stored: its tree, with the multipliers that prune it.

A subtree is pruned where a bound (:mod:`~labelcert.verification.ranges`) excludes all its attacks, and the attacks of a
leaf are walked through. Nothing in a tree is believed: its parts must cover everything that it does not exclude.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from labelcert.arrays import Bool, Int, Values
from labelcert.certificate import Certificate
from labelcert.certificate.proofs import KEEPS, Excluded, PairStep, Proofs, Step, Tree
from labelcert.verification.arithmetic import Whole, shifted, whole
from labelcert.verification.machines import LinearTrainer, Trainer
from labelcert.verification.ranges import FLIPPED, KEPT, ExactModel, Region, separable_bound
from labelcert.verification.relabellings import TIED, Claims, Walk
from labelcert.verification.statement import Statement

OWN, RIVAL, ELSEWHERE = range(3)
"""What a label becomes, seen from a predicted class and a rival."""


class Trees:
    """All stored proofs of one certificate.

    Attributes
    ----------
    used : str
        What they were good for, in words.
    """

    def __init__(
        self, cert: Certificate, statement: Statement, machine: Trainer, predicted: Int, report: Callable[[str], None]
    ) -> None:
        self._cert, self._statement, self._machine, self._predicted = cert, statement, machine, predicted
        self._report = report
        self._proofs = cert.proofs if cert.proofs is not None and not isinstance(machine, LinearTrainer) else Proofs()
        self._models: dict[int, ExactModel] = {}
        self._regions: dict[tuple[int, int], Region] = {}
        self._excluded_to = np.full((statement.n, statement.n_classes), -1, dtype=np.int64)
        self.used = ""

    def proved_radii(self) -> Int:
        """(n,) lower ends of radii that stored trees prove."""
        for t, rivals in self._proofs.nodes.items():
            if not 0 <= t < self._statement.n or self._predicted[t] == TIED:
                continue
            for rival, proof in rivals.items():
                self._report(f"search tree of node {t} at budget {proof.budget}")
                own = int(self._predicted[t])
                within = (
                    0 <= rival < self._statement.n_classes
                    and rival != own
                    and 0 < proof.budget <= self._statement.budget
                )
                if within and _holds(self._excludes, t, own, rival, proof.budget, proof.tree):
                    self._excluded_to[t, rival] = proof.budget
        budgets = self._excluded_to.copy()
        rows = np.flatnonzero(self._predicted >= 0)
        budgets[rows, self._predicted[rows]] = self._statement.budget
        return np.asarray(budgets.min(axis=1) + 1)

    def proved_curve(self) -> Int:
        """(B + 1,) upper ends of the curve that stored trees prove."""
        statement, cert = self._statement, self._cert
        upper = np.full(statement.budget + 1, statement.n, dtype=np.int64)
        for b, tree in self._proofs.curve.items():
            if not 0 < b <= statement.budget:
                continue
            self._report(f"search tree of the curve at budget {b}")
            claimed = int(cert.collective_upper[b])
            alive = np.repeat((cert.radius_lower <= b)[:, None], statement.n_classes, axis=1)
            alive &= self._excluded_to < b
            rows = np.flatnonzero(self._predicted >= 0)
            alive[rows, self._predicted[rows]] = False
            at = _Place(self, b, {}, statement.allowed.copy(), alive)
            if _holds(self._counts, tree, at, claimed):
                upper[b] = claimed
                self.used = ", and by stored search trees"
        return upper

    # -- one node against one rival ----------------------------------------------------------------------------------

    def region(self, c: int, budget: int) -> Region | None:
        """Ranges of one class at a budget."""
        key = Proofs.key(c, budget)
        if key not in self._proofs.ranges:
            return None
        if (c, budget) not in self._regions:
            model = self._models.setdefault(c, ExactModel(self._statement, c))
            self._regions[c, budget] = Region.at_budget(self._statement, model, budget, self._proofs.ranges[key])
        return self._regions[c, budget].copy()

    def row(self, t: int, sign: int) -> tuple[Whole, int]:
        """A signed test row in the units of its multipliers: whole numbers times a power of two."""
        numbers, by = whole(self._statement.K_test[t])
        exponent = self._proofs.row_exponents.get(t, 0)
        up = max(0, exponent - by)
        return sign * shifted(numbers, up), by - exponent + up

    def _excludes(self, t: int, own: int, rival: int, budget: int, tree: Tree) -> bool:
        """Whether a tree proves that a rival cannot win a node within a budget."""
        if self._statement.n_classes == 2:
            region = self.region(1, budget)
            return region is not None and self._flips(tree, region, t, self.row(t, 1 if own == 1 else -1))
        pair = RegionPair.of(self, own, rival, budget)
        return pair is not None and self._moves(tree, pair, t)

    @staticmethod
    def _screened(step: Step, region: Region, row: tuple[Whole, int]) -> bool:
        """Take out the sides of labels with which a node cannot change; whether nothing is left at all."""
        cost = np.where(step.block.empty[None, :] == 0, row[0][:, None], 0)
        label, side = region.given(step.block)
        multiplied = region.multiplied(step.block.beta, cost, row[1])
        values, nothing = region.evaluate(replace(multiplied, label=label, side=side))
        for k in np.flatnonzero((values > 0).astype(bool) | nothing).tolist():
            if label[k] < 0:
                return True
            region.gone[label[k], side[k]] = True
        return False

    def _flips(self, tree: Tree, region: Region, t: int, row: tuple[Whole, int]) -> bool:
        """Two classes: whether no attack in a region changes a node."""
        for step in tree.steps:
            if not isinstance(step, Step):
                return False
            if step.kind == "tighten":
                region.tighten(step.block, row)
            elif self._screened(step, region, row):
                return True
            if region.empty:
                return True
        possible = region.possible
        made = np.flatnonzero(~possible[:, KEPT])
        statement = self._statement
        if statement.cost(made) > region.budget or not statement.within_caps(made):
            return True
        if tree.leaf:
            allowed = statement.allowed & possible[:, FLIPPED, None]
            return self._walked(
                {int(i): 1 - int(statement.codes[i]) for i in made},
                allowed,
                region.budget,
                t,
                1 - int(self._predicted[t]),
            )
        if not 0 <= tree.label < statement.m:
            return False
        for new, at in ((KEEPS, KEPT), (1 - int(statement.codes[tree.label]), FLIPPED)):
            if not possible[tree.label, at]:
                continue
            part = region.copy()
            part.gone[tree.label, 1 - at] = True
            if new not in tree.parts or not self._flips(tree.parts[new], part, t, row):
                return False
        return True

    def _moves(self, tree: Tree, pair: RegionPair, t: int) -> bool:
        """More classes: whether no relabelling that is left in a pair makes its rival win a node."""
        rows = self.row(t, 1), self.row(t, -1)
        for step in tree.steps:
            pair.settle()
            if isinstance(step, PairStep):
                bound, with_move = pair.margins(rows, (step.own, step.rival))
                if bound:
                    return True
                pair.left &= ~with_move
            elif isinstance(step, Step) and step.kind == "tighten" and step.model in (OWN, RIVAL):
                pair.regions[step.model].tighten(step.block)
            else:
                return False
            if any(region.empty for region in pair.regions):
                return True
        pair.settle()
        statement = self._statement
        if tree.leaf:
            allowed = pair.representatives()
            made = {
                int(i): int(allowed[i].argmax()) for i in np.flatnonzero(~pair.may_keep & (pair.left.sum(axis=1) == 1))
            }
            return self._walked(made, allowed, pair.budget, t, pair.classes[RIVAL])
        if not 0 <= tree.label < statement.m:
            return False
        moves: list[int | None] = [None, *np.flatnonzero(pair.left[tree.label]).tolist()]
        by_move = {None if new == KEEPS else pair.move(new): part for new, part in tree.parts.items()}
        for move in moves:
            part = pair.copy()
            part.fix(tree.label, move)
            if move not in by_move or not self._moves(by_move[move], part, t):
                return False
        return True

    def _walked(self, made: dict[int, int], allowed: Bool, budget: int, t: int, rival: int) -> bool:
        """Whether a walk through all relabellings of a leaf proves that none of them makes a rival win a node."""
        statement = self._statement
        rivals = np.zeros((statement.n, statement.n_classes), dtype=bool)
        rivals[t, rival] = True
        reach = np.full(statement.n, -1, dtype=np.int64)
        reach[t] = budget
        most = np.full(statement.budget + 1, statement.n, dtype=np.int64)
        return self.walk(made, allowed, budget, Claims(self._predicted, reach, most, rivals))

    def walk(self, made: dict[int, int], allowed: Bool, budget: int, claims: Claims) -> bool:
        """Whether claims hold for all relabellings that contain what is made and are within what is allowed."""
        statement = self._statement
        labels = np.array(sorted(made), dtype=np.int64)
        targets = np.array([made[int(i)] for i in labels], dtype=np.int64)
        cost = statement.cost(labels)
        if cost > budget or not statement.within_caps(labels):
            return True
        may = allowed.copy()
        may[labels] = False
        walk = Walk(replace(statement, allowed=may), self._machine)
        start = walk.state(statement.relabelled(labels, targets), cost, budget)
        found = walk.prove(claims, self._report, start)
        return not found.contradictions and not found.undecided

    # -- how many nodes ----------------------------------------------------------------------------------------------

    def _counts(self, tree: Tree, at: _Place, claimed: int) -> bool:
        """Whether no attack in a subtree changes more nodes than claimed."""
        statement = self._statement
        if at.impossible():
            return True
        for step in tree.steps:
            if not isinstance(step, Excluded):
                return False
            at.exclude(step)
        counted = at.alive.any(axis=1) | (self._predicted == TIED)
        if int(counted.sum()) <= claimed:
            return True
        if tree.leaf:
            most = np.full(statement.budget + 1, claimed, dtype=np.int64)
            nobody = np.full(statement.n, -1, dtype=np.int64)
            return self.walk(at.made, at.allowed, at.budget, Claims(self._predicted, nobody, most, at.alive))
        if not 0 <= tree.label < statement.m:
            return False
        for new in [KEEPS, *np.flatnonzero(at.allowed[tree.label]).tolist()]:
            if new not in tree.parts or not self._counts(tree.parts[new], at.with_label(tree.label, new), claimed):
                return False
        return True


def _holds(proved: Callable[..., bool], *arguments: Any) -> bool:
    """Whether something is proved; a proof that is not even well formed proves nothing."""
    try:
        return proved(*arguments)
    except (ValueError, IndexError, TypeError, OverflowError):
        return False


class RegionPair:
    """Relabellings as they matter to a predicted class and a rival.

    Attributes
    ----------
    classes : (int, int)
    regions : list of two Regions
    left : (m, 3) array
        What each label may still become: the predicted class, the rival, something else.
    budget : int
    """

    def __init__(
        self, statement: Statement, classes: tuple[int, int], regions: list[Region], left: Bool, budget: int
    ) -> None:
        self._statement, self.classes, self.regions, self.left, self.budget = statement, classes, regions, left, budget
        source = statement.codes
        self._toggles = np.zeros((statement.m, 3, 2), dtype=bool)
        for k in (OWN, RIVAL):
            self._toggles[:, :, k] = (source == classes[k])[:, None]
            self._toggles[:, k, k] = True

    @classmethod
    def of(cls, trees: Trees, own: int, rival: int, budget: int) -> RegionPair | None:
        """All moves that the threat allows and that matter to the two classes."""
        statement = trees._statement
        regions = [trees.region(c, budget) for c in (own, rival)]
        if regions[0] is None or regions[1] is None:
            return None
        left = moves_within(statement, own, rival, statement.allowed, budget)
        return cls(statement, (own, rival), [regions[0], regions[1]], left, budget)

    def copy(self) -> RegionPair:
        """One that can be changed on its own."""
        regions = [region.copy() for region in self.regions]
        return RegionPair(self._statement, self.classes, regions, self.left.copy(), self.budget)

    @property
    def may_keep(self) -> Bool:
        """(m,) labels that can stay as they are."""
        return np.asarray(self.regions[OWN].possible[:, KEPT] & self.regions[RIVAL].possible[:, KEPT])

    def settle(self) -> None:
        """A side that no move leads to is gone, and so is a move whose side is gone."""
        for k in (OWN, RIVAL):
            self.regions[k].gone[~(self.left & self._toggles[:, :, k]).any(axis=1), FLIPPED] = True
            possible = self.regions[k].possible
            self.left &= np.where(self._toggles[:, :, k], possible[:, FLIPPED, None], possible[:, KEPT, None])

    def margins(
        self, rows: tuple[tuple[Whole, int], tuple[Whole, int]], betas: tuple[Values, Values]
    ) -> tuple[bool, Bool]:
        """Whether the margin is positive for all relabellings that are left; and (m, 3) for all with one move."""
        mus = [
            region.multiplied(beta[None, :], row[0][:, None], row[1])
            for region, row, beta in zip(self.regions, rows, betas, strict=True)
        ]
        by = max(mu.by for mu in mus)
        sides = [
            [shifted(region.least(mu, side)[:, 0], by - mu.by) for side in (KEPT, FLIPPED)]
            for region, mu in zip(self.regions, mus, strict=True)
        ]
        keep = sides[OWN][KEPT] + sides[RIVAL][KEPT]
        values: Whole = sum(
            np.where(self._toggles[:, :, k], sides[k][FLIPPED][:, None], sides[k][KEPT][:, None]) for k in (OWN, RIVAL)
        )
        may_keep, may_move = self.may_keep, np.asarray(self.left.any(axis=1))
        best = np.array([min(values[i][self.left[i]], default=0) for i in range(len(keep))], dtype=object)
        # Column 0: everything that is left. The others: what contains one given move.
        position, move = np.nonzero(self.left)
        K = 1 + position.size
        moved = np.repeat(best[:, None], K, axis=1)
        moved[position, np.arange(1, K)] = values[position, move]
        keeps = np.repeat(may_keep[:, None], K, axis=1)
        keeps[position, np.arange(1, K)] = False
        costs = np.where(may_move, self._statement.costs, self.budget + 1)
        bounds, nothing = separable_bound(
            costs,
            self.budget,
            np.repeat(keep[:, None], K, axis=1),
            moved,
            keeps,
            np.repeat(may_move[:, None], K, axis=1),
        )
        positive = (bounds > 0).astype(bool) | nothing
        with_move = np.zeros(self.left.shape, dtype=bool)
        with_move[position, move] = positive[1:]
        return bool(positive[0]), with_move

    def fix(self, label: int, move: int | None) -> None:
        """Only relabellings in which a label makes one move, or none."""
        self.left[label] = False
        for k in (OWN, RIVAL):
            toggled = move is not None and bool(self._toggles[label, move, k])
            self.regions[k].gone[label, KEPT if toggled else FLIPPED] = True
        if move is not None:
            self.left[label, move] = True

    def move(self, new: int) -> int:
        """Which move a new class is."""
        return self.classes.index(new) if new in self.classes else ELSEWHERE

    def representatives(self) -> Bool:
        """(m, K) one new class for each move that is left."""
        allowed = np.zeros_like(self._statement.allowed)
        for i, move in zip(*np.nonzero(self.left), strict=True):
            others = [c for c in np.flatnonzero(self._statement.allowed[i]).tolist() if self.move(c) == move]
            allowed[i, others[0]] = True
        return allowed


def moves_within(statement: Statement, own: int, rival: int, allowed: Bool, budget: int) -> Bool:
    """(m, 3) what each label may become, seen from a pair of classes."""
    source = statement.codes
    third = allowed.copy()
    third[:, [own, rival]] = False
    mine = (source == own) | (source == rival)
    limit = np.minimum(np.append(statement.caps, budget)[statement.groups], budget)
    left = np.stack([allowed[:, own], allowed[:, rival], mine & third.any(axis=1)], axis=1)
    return np.asarray(left & (statement.costs <= limit)[:, None])


@dataclass(eq=False)
class _Place:
    """A subtree of the search for the most nodes.

    Attributes
    ----------
    trees : Trees
    budget : int
    made : dict
        What labels have become.
    allowed : (m, K) array
        What the others may become.
    alive : (n, K) array
        Rivals that are not excluded, for each node.
    """

    trees: Trees
    budget: int
    made: dict[int, int]
    allowed: Bool
    alive: Bool

    def with_label(self, label: int, new: int) -> _Place:
        """The part in which a label becomes a class, or stays."""
        allowed = self.allowed.copy()
        allowed[label] = False
        made = self.made if new == KEEPS else {**self.made, label: new}
        return _Place(self.trees, self.budget, made, allowed, self.alive.copy())

    def impossible(self) -> bool:
        """Whether the budgets do not pay for what is made."""
        statement = self.trees._statement
        labels = np.array(sorted(self.made), dtype=np.int64)
        return statement.cost(labels) > self.budget or not statement.within_caps(labels)

    def exclude(self, step: Excluded) -> None:
        """Take out what the multipliers of a step exclude."""
        statement, trees = self.trees._statement, self.trees
        within = (
            (step.nodes >= 0) & (step.nodes < statement.n) & (step.rivals >= 0) & (step.rivals < statement.n_classes)
        )
        regions = {c: self._region(c) for c in ([1] if statement.n_classes == 2 else range(statement.n_classes))}
        for k in np.flatnonzero(within).tolist():
            t, rival = int(step.nodes[k]), int(step.rivals[k])
            own = int(trees._predicted[t])
            if own in (TIED, rival):
                continue
            if statement.n_classes == 2:
                region = regions[1]
                if region is not None:
                    row = trees.row(t, 1 if own == 1 else -1)
                    values, nothing = region.evaluate(region.multiplied(step.own[k : k + 1], row[0][:, None], row[1]))
                    self.alive[t, rival] &= not (bool(values[0] > 0) or bool(nothing[0]))
                continue
            pair = self._pair(own, rival, regions)
            if pair is not None:
                positive, _ = pair.margins((trees.row(t, 1), trees.row(t, -1)), (step.own[k], step.other[k]))
                self.alive[t, rival] &= not positive

    def _targets(self) -> Bool:
        targets = self.allowed.copy()
        for label, new in self.made.items():
            targets[label, new] = True
        return targets

    def _region(self, c: int) -> Region | None:
        """Ranges of one class in the subtree."""
        region, statement = self.trees.region(c, self.budget), self.trees._statement
        if region is None:
            return None
        targets, member = self._targets(), statement.codes == c
        may = np.where(member, targets.any(axis=1), targets[:, c])
        region.gone[~may, FLIPPED] = True
        for label, new in self.made.items():
            toggled = member[label] or new == c
            region.gone[label, KEPT if toggled else FLIPPED] = True
        return region

    def _pair(self, own: int, rival: int, regions: dict[int, Region | None]) -> RegionPair | None:
        mine, other = regions[own], regions[rival]
        if mine is None or other is None:
            return None
        statement = self.trees._statement
        source = statement.codes
        # Changes between other classes are paid for, too.
        elsewhere = [i for i, new in self.made.items() if source[i] not in (own, rival) and new not in (own, rival)]
        budget = self.budget - statement.cost(np.array(elsewhere, dtype=np.int64))
        left = moves_within(statement, own, rival, self._targets(), self.budget)
        pair = RegionPair(statement, (own, rival), [mine.copy(), other.copy()], left, budget)
        for k in (OWN, RIVAL):
            possible = pair.regions[k].possible
            pair.left &= np.where(pair._toggles[:, :, k], possible[:, FLIPPED, None], possible[:, KEPT, None])
        return pair
