"""The plain proof: walk through all admissible relabellings and train on each.

Where a bound shows that further changes, within the budgets that are left, cannot contradict any claim, the walk turns
back. Or only a random share of all relabellings is looked at, which is no proof.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

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

    def by_budget(self) -> Iterator[Claims]:
        """The same in parts: what is claimed within each budget, the smallest one first."""
        for budget in range(self.budget + 1):
            most = np.where(np.arange(self.most.size) <= budget, self.most, self.predicted.size)
            yield replace(self, reach=np.minimum(self.reach, budget), most=most)


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
    """

    codes: Int
    cost: Int
    last: Int
    until: Int

    def __getitem__(self, rows: slice | Bool) -> States:
        return States(self.codes[rows], self.cost[rows], self.last[rows], self.until[rows])


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
        if not self._statement.K_test[t].any():
            return 0
        mine, other = self._solved(codes, own), self._solved(codes, rival)
        if mine is None or other is None:
            return None
        difference = int(mine[0][t]) * other[1] - int(other[0][t]) * mine[1]
        return (difference > 0) - (difference < 0)

    def _solved(self, codes: Int, c: int) -> tuple[Whole, int] | None:
        y = np.where(codes == c, 1.0, -1.0)
        key = y.astype(np.int8).tobytes()
        if key not in self._exact:
            if len(self._exact) > 10_000:
                self._exact.clear()
            self._exact[key] = self._machine.exact(y)
        return self._exact[key]

    # -- all of them -------------------------------------------------------------------------------------------------

    def prove(self, claims: Claims, start: States | None = None, *, over: Callable[[int], bool]) -> WalkOutcome:
        """Walk through everything that could contradict a claim.

        Parameters
        ----------
        claims : Claims
        start : States, optional
            Where to start; the given labels by default.
        over : callable
            Told how many relabellings were visited; whether to give up.
        """
        outcome = WalkOutcome()
        stack = [self.root(claims.budget) if start is None else start]
        while stack and not outcome.contradictions:
            states = stack.pop()
            if states.cost.size > self._batch:
                stack.append(states[self._batch :])
                states = states[: self._batch]
            models = self.trained(states.codes)
            self._compare(states, models, claims, outcome)
            if over(outcome.visited):
                outcome.undecided += 1
                break
            children = self._children(self._bounded(states, models, claims))
            if children.cost.size:
                stack.append(children)
        return outcome

    def sample(self, claims: Claims, relabellings: Iterator[Int], *, over: Callable[[int], bool]) -> WalkOutcome:
        """Look at some relabellings."""
        outcome = WalkOutcome()
        batch: list[Int] = []
        for codes in relabellings:
            batch.append(codes)
            if len(batch) == self._batch:
                self._look(batch, claims, outcome)
                batch = []
                if over(outcome.visited) or outcome.contradictions:
                    return outcome
        if batch:
            self._look(batch, claims, outcome)
        return outcome

    def root(self, budget: int) -> States:
        """The given labels, with all of the budget."""
        one = np.zeros(1, dtype=np.int64)
        return States(self._statement.codes[None, :].copy(), one, one - 1, one + budget)

    def _look(self, batch: list[Int], claims: Claims, outcome: WalkOutcome) -> None:
        codes = np.array(batch)
        cost = np.where(codes != self._statement.codes, self._statement.costs, 0).sum(axis=1)
        nothing = np.zeros(len(batch), dtype=np.int64)
        self._compare(States(codes, cost, nothing, nothing), self.trained(codes), claims, outcome)

    def _compare(self, states: States, models: list[Trained], claims: Claims, outcome: WalkOutcome) -> None:
        yes, decided = self.changed(states.codes, claims.predicted, models, claims.rivals)
        outcome.visited += states.cost.size
        broken = yes & (states.cost[:, None] <= claims.reach)
        counts, room = (yes | ~decided).sum(axis=1), claims.most[states.cost]
        outcome.undecided += int((~decided & (states.cost[:, None] <= claims.reach)).sum())
        outcome.undecided += int(((counts > room) & (yes.sum(axis=1) <= room)).sum())
        for k, t in np.argwhere(broken)[:1]:
            flips = np.flatnonzero(states.codes[k] != self._statement.codes)
            outcome.contradictions.append(
                f"node {t}: relabelling {flips.tolist()}, which costs {states.cost[k]}, changes it, "
                f"but its radius is claimed to be above {claims.reach[t]}"
            )
        for k in np.flatnonzero(yes.sum(axis=1) > room)[:1]:
            flips = np.flatnonzero(states.codes[k] != self._statement.codes)
            outcome.contradictions.append(
                f"budget {states.cost[k]}: relabelling {flips.tolist()} changes {int(yes[k].sum())} nodes, "
                f"but at most {room[k]} are claimed"
            )

    def _bounded(self, states: States, models: list[Trained], claims: Claims) -> States:
        """The states from which the walk goes on, each with the largest budget that matters beyond it."""
        statement, machine = self._statement, self._machine
        further = int((states.until - states.cost).max(initial=0))
        if further <= 0:
            return states[np.zeros(states.cost.size, dtype=bool)]
        movable: Bool = np.asarray(statement.allowed.any(axis=1))
        later = movable[None, :] & (np.arange(statement.m)[None, :] > states.last[:, None])
        cheapest = int(statement.costs[movable].min(initial=further + 1))
        safe = np.ones((states.cost.size, statement.n, further), dtype=bool)  # at 1, 2, ... beyond the state's cost
        flips = np.arange(1, further + 1) // cheapest
        safe[:, claims.predicted == TIED] = False
        for own in np.unique(claims.predicted[claims.predicted != TIED]).tolist():
            nodes = np.flatnonzero(claims.predicted == own)
            down = machine.drop(models[own], 1)[:, nodes]
            for rival in [c for c in range(statement.n_classes) if c != own]:
                gains = np.where(later[:, None, :], down + machine.drop(models[rival], -1)[:, nodes], 0)
                gains = -np.sort(-gains, axis=2)[:, :, : max(1, int(flips[-1]))]
                total = np.concatenate([np.zeros_like(gains[:, :, :1]), np.cumsum(gains, axis=2)], axis=2)
                total = total[:, :, np.minimum(flips, total.shape[2] - 1)]
                a, b = models[own], models[rival]
                margin = a.value[:, nodes] - b.value[:, nodes] - a.error[:, nodes] - b.error[:, nodes]
                ours = nodes if claims.rivals is None else nodes[claims.rivals[nodes, rival]]
                survives = total < machine.coarse(margin)[:, :, None]
                safe[:, ours] &= survives[:, np.isin(nodes, ours)]
        at = states.cost[:, None] + np.arange(1, further + 1)[None, :]
        budget = claims.most.size - 1
        needed = (~safe & (at[:, None, :] <= claims.reach[None, :, None])).any(axis=1)
        needed |= (~safe).sum(axis=1) > claims.most[np.minimum(at, budget)]
        needed &= at <= states.until[:, None]
        until = np.where(needed, at, 0).max(axis=1)
        on = until > states.cost
        return States(states.codes[on], states.cost[on], states.last[on], until[on])

    def _children(self, states: States) -> States:
        """Each state with one change more, of a label behind its last one."""
        statement = self._statement
        found = []
        for i in statement.movable.tolist():
            rows = (states.last < i) & (states.cost + statement.costs[i] <= states.until)
            if not rows.any():
                continue
            for target in np.flatnonzero(statement.allowed[i]).tolist():
                codes = states.codes[rows]
                codes[:, i] = target
                cost = states.cost[rows] + statement.costs[i]
                found.append(States(codes, cost, np.full(cost.size, i), states.until[rows]))
        if not found:
            return states[:0]
        all_ = States(
            *(np.concatenate([getattr(one, name) for one in found]) for name in ("codes", "cost", "last", "until"))
        )
        if statement.caps.size:
            flips = all_.codes != statement.codes
            all_ = all_[np.array([statement.within_caps(np.flatnonzero(row)) for row in flips], dtype=bool)]
        return all_


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
