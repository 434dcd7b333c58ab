"""The plain proof: walk through all admissible relabellings and train on each.

Where a bound shows that further changes, within the budgets that are left, cannot contradict any claim, the walk turns
back. Or only a random share of all relabellings is looked at, which is no proof.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, fields, replace
from fractions import Fraction

import numpy as np

from labelcert.arrays import Bool, Int
from labelcert.verification.arithmetic import Whole
from labelcert.verification.machines import Trained, Trainer
from labelcert.verification.statement import Statement

TIED = -1
"""Prediction of a node whose highest clean score is shared: it counts as changed, whatever the labels."""

ABOVE, EQUAL, BELOW, UNDECIDED = 1, 0, -1, 2
"""Where a class stands: above all others, with one of them, below one; or arithmetic cannot tell."""


@dataclass(frozen=True, eq=False)
class Claims:
    """What is to be proved, for all admissible relabellings.

    Attributes
    ----------
    predicted : (n,) array
        Predictions, as positions among the classes, or ``TIED``.
    reach : (n,) array
        Node t does not change at a cost of at most ``reach[t]`` (-1: nothing is claimed).
    most : (B + 1,) array
        No relabelling that costs b changes more nodes than ``most[b]``.
    rivals : (n, K) array, optional
        Only these classes count as changes; all by default.
    """

    predicted: Int
    reach: Int
    most: Int
    rivals: Bool | None = None

    @property
    def budget(self) -> int:
        """The largest budget about which something is claimed."""
        bounded = np.flatnonzero(self.most < self.predicted.size)
        return int(max(self.reach.max(initial=-1), bounded.max(initial=-1)))

    def within(self, budget: int) -> Claims:
        """What is claimed within a budget."""
        most = np.where(np.arange(self.most.size) <= budget, self.most, self.predicted.size)
        return replace(self, reach=np.minimum(self.reach, budget), most=most)

    def only(self, nodes: Int) -> Claims:
        """About some nodes, all others being known to keep their predictions."""
        rivals = None if self.rivals is None else self.rivals[nodes]
        return Claims(self.predicted[nodes], self.reach[nodes], self.most, rivals)


@dataclass
class WalkOutcome:
    """What a walk found.

    Attributes
    ----------
    contradictions : list of str
    undecided : int
        Comparisons that exact arithmetic cannot reach.
    visited : int
        Relabellings trained on.
    """

    contradictions: list[str] = field(default_factory=list)
    undecided: int = 0
    visited: int = 0


@dataclass(frozen=True, eq=False)
class States:
    """Relabellings, and how far the walk goes on from each.

    Attributes
    ----------
    codes : (N, m) array
    cost : (N,) array
    last : (N,) array
        Labels up to this one stay as they are.
    until : (N,) array
        Largest budget that matters beyond it.
    alive : (N, n) array
        Nodes that matter from there on.
    """

    codes: Int
    cost: Int
    last: Int
    until: Int
    alive: Bool

    def __getitem__(self, rows: slice | Bool) -> States:
        return States(*(getattr(self, one.name)[rows] for one in fields(self)))


class Walk:
    """Walks through relabellings of one problem.

    Parameters
    ----------
    statement : Statement
    machine : Trainer
    """

    def __init__(self, statement: Statement, machine: Trainer) -> None:
        self._statement, self._machine = statement, machine
        self._batch = max(1, machine.batch // (statement.n_classes * statement.m * max(statement.m, statement.n)))
        self._exact: dict[bytes, tuple[Whole, int] | None] = {}

    # -- single relabellings -----------------------------------------------------------------------------------------

    @property
    def machine(self) -> Trainer:
        """What trains."""
        return self._machine

    @property
    def batch(self) -> int:
        """How many relabellings are trained on at a time."""
        return self._batch

    def only(self, nodes: Int) -> Walk:
        """About some test nodes alone."""
        return Walk(self._statement.only(nodes), self._machine.only(nodes))

    def trained(self, codes: Int) -> list[Trained]:
        """The models of all classes, for (N, m) labellings."""
        return self._machine.classes(codes, self._statement.n_classes)

    def changed(
        self,
        codes: Int,
        predicted: Int,
        models: list[Trained] | None = None,
        rivals: Bool | None = None,
        at: Bool | None = None,
    ) -> tuple[Bool, Bool]:
        """(N, n) whether another class (or one of some) reaches the predicted one's score; whether that is decided.

        With ``at``, an (N, n) mask, what is in doubt is decided there alone.
        """
        models = self.trained(codes) if models is None else models
        columns = np.arange(predicted.size)
        value = np.stack([one.value for one in models])
        error = np.stack([one.error for one in models])
        if self._statement.drops_to:
            gone = self.gone(codes)
            value[gone], error[gone] = -2 * (np.abs(value).max() + error.max()) - 1, 0
        own, own_error = value[predicted, :, columns].T, error[predicted, :, columns].T
        tied = (predicted == TIED)[None, :]
        yes = np.repeat(tied, codes.shape[0], axis=0)
        doubtful = np.zeros((len(models), *own.shape), dtype=bool)
        for c in range(len(models)):
            rival = ((predicted != c) & ~tied[0])[None, :]
            if rivals is not None:
                rival = rival & rivals[None, :, c]
            distance, doubt = own - value[c], own_error + error[c]
            yes |= rival & (distance < -doubt).astype(bool)
            doubtful[c] = rival & ~(distance > doubt).astype(bool)
        open_ = doubtful.any(axis=0) & ~yes
        decided = ~open_
        for k, t in np.argwhere(open_ if at is None else open_ & at):
            ahead = [
                self.compare(codes[k], int(t), int(predicted[t]), int(c)) for c in np.flatnonzero(doubtful[:, k, t])
            ]
            yes[k, t] = any(sign is not None and sign <= 0 for sign in ahead)
            decided[k, t] = yes[k, t] or None not in ahead
        return yes, decided

    def gone(self, codes: Int) -> Bool:
        """(K, N) which classes are dropped, as they have no label."""
        classes = np.arange(self._statement.n_classes)
        return np.asarray((codes[None] != classes[:, None, None]).all(axis=2)) & bool(self._statement.drops_to)

    def standing(self, codes: Int, shown: Int, models: list[Trained]) -> Int:
        """(n,) where the class that is shown for each node stands under one labelling."""
        out = np.full(shown.size, ABOVE, dtype=np.int64)
        for t, own in enumerate(shown.tolist()):
            for c in range(self._statement.n_classes):
                if c == own or out[t] == BELOW:
                    continue
                ahead = models[own].value[0, t] - models[c].value[0, t]
                doubt = models[own].error[0, t] + models[c].error[0, t]
                sign = int(np.sign(ahead)) if abs(ahead) > doubt else self.compare(codes, t, own, c)
                if sign is None:
                    out[t] = UNDECIDED
                elif sign < 0 or (sign == 0 and out[t] == ABOVE):
                    out[t] = sign
        return out

    def compare(self, codes: Int, t: int, own: int, rival: int) -> int | None:
        """Sign of one class's score minus that of another, solved exactly; None where that is out of reach."""
        lead = self.lead(codes, t, own, rival)
        return None if lead is None else (lead > 0) - (lead < 0)

    def lead(self, codes: Int, t: int, own: int, rival: int) -> Fraction | None:
        """One class's score minus that of another, in units of the machine; None where that is out of reach."""
        exact = not self._machine.intercept and not self._machine.rounded
        if exact and not self._statement.K_test[t].any():
            return Fraction(0)
        mine, other = self._solved(codes, own), self._solved(codes, rival)
        if mine is None or other is None:
            return None
        return Fraction(int(mine[0][t]), mine[1]) - Fraction(int(other[0][t]), other[1])

    def _solved(self, codes: Int, c: int) -> tuple[Whole, int] | None:
        y = np.where(codes == c, 1.0, -1.0)
        key = y.astype(np.int8).tobytes()
        if key not in self._exact:
            if len(self._exact) > 10_000:
                self._exact.clear()
            self._exact[key] = self._machine.exact(y)
        return self._exact[key]

    # -- all of them -------------------------------------------------------------------------------------------------

    def prove(self, claims: Claims, pace: Callable[[str], None], start: States | None = None) -> WalkOutcome:
        """Walk through everything that could contradict a claim, from the given labels or from other ones."""
        outcome = WalkOutcome()
        stack = [self.root(claims.budget) if start is None else start]
        while stack and not outcome.contradictions:
            states = stack.pop()
            if states.cost.size > self._batch:
                stack.append(states[self._batch :])
                states = states[: self._batch]
            nodes = np.flatnonzero(states.alive.any(axis=0))
            walk, part = (self, claims) if nodes.size == self._statement.n else (self.only(nodes), claims.only(nodes))
            models = walk.trained(states.codes)
            walk._compare(states, models, part, outcome, nodes)
            pace(f"{outcome.visited:,} relabellings")
            children = walk._children(states, models, part, nodes)
            if children.cost.size:
                stack.append(children)
        return outcome

    def sample(self, claims: Claims, relabellings: Iterator[Int], pace: Callable[[str], None]) -> WalkOutcome:
        """Look at some relabellings."""
        outcome = WalkOutcome()
        while not outcome.contradictions and (batch := list(itertools.islice(relabellings, self._batch))):
            self._look(batch, claims, outcome)
            pace(f"{outcome.visited:,} relabellings")
        return outcome

    def root(self, budget: int) -> States:
        """The given labels, with all of the budget."""
        return self.state(self._statement.codes, 0, budget)

    def state(self, codes: Int, cost: int, budget: int) -> States:
        """One labelling, with what is left of a budget."""
        one, everybody = np.zeros(1, dtype=np.int64), np.ones((1, self._statement.n), dtype=bool)
        return States(codes[None, :].copy(), one + cost, one - 1, one + budget, everybody)

    def _look(self, batch: list[Int], claims: Claims, outcome: WalkOutcome) -> None:
        codes = np.array(batch)
        cost = np.where(codes != self._statement.codes, self._statement.costs, 0).sum(axis=1)
        nothing, nodes = np.zeros(len(batch), dtype=np.int64), np.arange(self._statement.n)
        states = States(codes, cost, nothing, nothing, np.ones((len(batch), nodes.size), dtype=bool))
        self._compare(states, self.trained(codes), claims, outcome, nodes)

    def _compare(self, states: States, models: list[Trained], claims: Claims, outcome: WalkOutcome, nodes: Int) -> None:
        yes, decided = self.changed(states.codes, claims.predicted, models, claims.rivals)
        outcome.visited += states.cost.size
        broken = yes & (states.cost[:, None] <= claims.reach)
        counts, room = (yes | ~decided).sum(axis=1), claims.most[states.cost]
        outcome.undecided += int((~decided & (states.cost[:, None] <= claims.reach)).sum())
        outcome.undecided += int(((counts > room) & (yes.sum(axis=1) <= room)).sum())
        for k, t in np.argwhere(broken)[:1]:
            flips = np.flatnonzero(states.codes[k] != self._statement.codes)
            outcome.contradictions.append(
                f"node {nodes[t]}: relabelling {flips.tolist()}, which costs {states.cost[k]}, changes it, "
                f"but its radius is claimed to be above {claims.reach[t]}"
            )
        for k in np.flatnonzero(yes.sum(axis=1) > room)[:1]:
            flips = np.flatnonzero(states.codes[k] != self._statement.codes)
            outcome.contradictions.append(
                f"budget {states.cost[k]}: relabelling {flips.tolist()} changes {int(yes[k].sum())} nodes, "
                f"but at most {room[k]} are claimed"
            )

    def _children(self, states: States, models: list[Trained], claims: Claims, nodes: Int) -> States:
        """Each state with one change more, of a label behind its last one, where that could contradict a claim.

        Claims are about some nodes. Of each child, those matter that it can endanger, up to the largest budget at which
        anything does.
        """
        statement = self._statement
        further = int((states.until - states.cost).max(initial=0))
        if further <= 0:
            return states[:0]
        safe, endangered = self._endangered(states, models, claims, further)
        at = states.cost[:, None] + np.arange(1, further + 1)[None, :]
        most = claims.most[np.minimum(at, claims.most.size - 1)]
        open_ = ~safe & (at <= states.until[:, None])[:, None, :]
        together = open_.sum(axis=1) > most
        needed = open_ & ((at[:, None, :] <= claims.reach[None, :, None]) | together[:, None, :])
        until = np.where(needed.any(axis=1), at, 0).max(axis=1)
        endangered &= needed.any(axis=2)[:, :, None]
        # Where many nodes together contradict a claim, so must those that a child endangers.
        alone = (needed & (at[:, None, :] <= claims.reach[None, :, None])).any(axis=2)
        useful = (endangered & alone[:, :, None]).any(axis=1)
        useful |= together.any(axis=1)[:, None] & (endangered.sum(axis=1) > most[:, :1])
        found = [states[:0]]
        for i in statement.movable.tolist():
            cost = states.cost + statement.costs[i]
            rows = np.flatnonzero((states.last < i) & (cost <= until) & useful[:, i])
            alive = np.zeros((rows.size, states.alive.shape[1]), dtype=bool)
            alive[:, nodes] = endangered[rows, :, i]
            for target in np.flatnonzero(statement.allowed[i]).tolist() if rows.size else []:
                codes = states.codes[rows]
                codes[:, i] = target
                found.append(States(codes, cost[rows], np.full(rows.size, i), until[rows], alive))
        all_ = States(*(np.concatenate([getattr(one, part.name) for one in found]) for part in fields(States)))
        if statement.caps.size:
            flips = all_.codes != statement.codes
            all_ = all_[np.array([statement.within_caps(np.flatnonzero(row)) for row in flips], dtype=bool)]
        return all_

    def _endangered(self, states: States, models: list[Trained], claims: Claims, further: int) -> tuple[Bool, Bool]:
        """Bounds on what changes of later labels can do, which cost up to ``further`` more.

        (N, n, further) whether no such changes of that cost change a node; (N, n, m) whether some with a label could.
        """
        statement, machine = self._statement, self._machine
        movable: Bool = np.asarray(statement.allowed.any(axis=1))
        later = movable[None, :] & (np.arange(statement.m)[None, :] > states.last[:, None])
        cheapest = int(statement.costs[movable].min(initial=further + 1))
        flips = np.arange(1, further + 1) // cheapest
        count = min(statement.m, max(1, int(flips[-1])))
        tied = claims.predicted == TIED
        safe = np.repeat(~tied[None, :, None], states.cost.size, axis=0).repeat(further, axis=2)
        endangered = tied[None, :, None] & later[:, None, :]
        for own in np.unique(claims.predicted[~tied]).tolist():
            mine = np.flatnonzero(claims.predicted == own)
            part = machine.only(mine)
            # A class without labels is dropped: where later changes can take all of them, its predictions change.
            theirs = states.codes == own
            cost = np.where(theirs, statement.costs, 0).sum(axis=1)
            emptied = (later | ~theirs).all(axis=1) & bool(statement.drops_to)
            within = emptied[:, None] & (cost[:, None] <= np.arange(1, further + 1))
            safe[:, mine] &= ~within[:, None, :]
            endangered[:, mine] |= (emptied[:, None] & theirs)[:, None, :]
            down = part.drop(models[own], 1)
            for rival in [c for c in range(statement.n_classes) if c != own]:
                ours = np.ones(mine.size, dtype=bool) if claims.rivals is None else claims.rivals[mine, rival]
                nodes = mine[ours]
                gains = np.where(later[:, None, :], (down + part.drop(models[rival], -1))[:, ours], 0)
                best = np.partition(gains, statement.m - count, axis=2)[:, :, statement.m - count :]
                total = np.cumsum(-np.sort(-best, axis=2), axis=2)
                total = np.concatenate([np.zeros_like(total[:, :, :1]), total], axis=2)
                a, b = models[own], models[rival]
                lead = machine.coarse(a.value[:, nodes] - b.value[:, nodes] - a.error[:, nodes] - b.error[:, nodes])
                safe[:, nodes] &= total[:, :, np.minimum(flips, count)] < lead[:, :, None]
                endangered[:, nodes] |= later[:, None, :] & (gains >= (lead - total[:, :, count - 1])[:, :, None])
        return safe, endangered


def count_relabellings(statement: Statement, budget: int) -> list[list[int]]:
    """``ways[i][b]``: how many ways there are to change labels i, i + 1, ... at a cost of at most b.

    Group budgets are ignored.
    """
    ways = [[1] * (budget + 1)]
    for i in reversed(range(statement.m)):
        options, cost = int(statement.allowed[i].sum()), int(statement.costs[i])
        later = ways[0]
        ways.insert(0, [later[b] + (options * later[b - cost] if b >= cost else 0) for b in range(budget + 1)])
    return ways


def every_relabelling(statement: Statement, budget: int) -> Iterator[Int]:
    """All admissible relabellings, as classes of all labels; one past the last class stands for a removed label."""

    def further(codes: Int, first: int, left: int) -> Iterator[Int]:
        if statement.caps.size == 0 or statement.within_caps(np.flatnonzero(codes != statement.codes)):
            yield codes
        for i in range(first, statement.m):
            cost = int(statement.costs[i])
            for target in np.flatnonzero(statement.allowed[i]).tolist() if cost <= left else ():
                more = codes.copy()
                more[i] = target
                yield from further(more, i + 1, left - cost)

    return further(statement.codes, 0, budget)


def random_relabellings(statement: Statement, budget: int, count: int, rng: np.random.Generator) -> Iterator[Int]:
    """Draw ``count`` admissible relabellings, each as likely as any other."""
    ways = count_relabellings(statement, budget)
    while count > 0:
        codes, left = statement.codes.copy(), budget
        for i in range(statement.m):
            options, cost = np.flatnonzero(statement.allowed[i]), int(statement.costs[i])
            if not options.size or cost > left:
                continue
            # Python integers: the numbers of ways are larger than any float.
            draw = int.from_bytes(rng.bytes(40), "little") * ways[i][left] >> 320
            if draw >= ways[i + 1][left]:
                codes[i] = rng.choice(options)
                left -= cost
        if statement.within_caps(np.flatnonzero(codes != statement.codes)):
            count -= 1
            yield codes
