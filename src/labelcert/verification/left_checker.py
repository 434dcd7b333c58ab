"""The checks of certificates whose adversary removes labels: each set of labels that are left has machines of its own.

Nothing is bounded: what no relabelling can do is proved by a look at every one of them, or a share of them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from labelcert.arrays import Bool, Int
from labelcert.verification.checker import MOST_LOOKED_AT, Checker
from labelcert.verification.machines import Trained, Trainer
from labelcert.verification.relabellings import Claims, Walk, count_relabellings, every_relabelling, random_relabellings
from labelcert.verification.statement import Statement
from labelcert.verification.trainers import is_linear, machine_of
from labelcert.verification.verdict import CheckStatus

WALKS_KEPT = 200


class LeftWalk(Walk):
    """Walks through relabellings that remove labels, too."""

    def __init__(self, statement: Statement, machine: Trainer, pace: Callable[[], None]) -> None:
        super().__init__(statement, machine)
        self._pace = pace
        self._batch = min(self._batch, 256)
        self._left: dict[bytes, Walk | None] = {}

    def left(self, codes: Int, nodes: Int | None = None) -> tuple[Walk | None, Int]:
        """Of one labelling: the walk of the labels that are left, about all nodes or some; None without any label."""
        here = codes < self._statement.n_classes
        key = here.tobytes() + (b"" if nodes is None else nodes.tobytes())
        if key not in self._left:
            if len(self._left) >= WALKS_KEPT:
                self._left.clear()
            self._left[key] = self._made(np.flatnonzero(here), nodes) if here.any() else None
        return self._left[key], codes[here]

    def _made(self, here: Int, nodes: Int | None) -> Walk:
        whole = self._statement if nodes is None else self._statement.only(nodes)
        part = replace(
            whole,
            K_train=np.ascontiguousarray(whole.K_train[np.ix_(here, here)]),
            K_test=np.ascontiguousarray(whole.K_test[:, here]),
            codes=whole.codes[here],
            allowed=whole.allowed[here],
            costs=whole.costs[here],
            groups=whole.groups[here],
        )
        # With the hinge loss, other labels may leave their caps than those of all labels would.
        return Walk(part, machine_of(part, part.loss != "hinge" and is_linear(part, self._pace), self._pace))

    def trained(self, codes: Int) -> list[Trained]:
        """Nothing: each labelling is trained on where it is looked at."""
        return []

    def changed(
        self,
        codes: Int,
        predicted: Int,
        models: list[Trained] | None = None,
        rivals: Bool | None = None,
        at: Bool | None = None,
    ) -> tuple[Bool, Bool]:
        """One labelling after the other; without any label, all nodes are tied."""
        yes, decided = (np.ones((codes.shape[0], predicted.size), dtype=bool) for _ in range(2))
        for k, row in enumerate(codes):
            walk, own = self.left(row)
            if walk is not None:
                yes[k], decided[k] = (found[0] for found in walk.changed(own[None], predicted, rivals=rivals))
        return yes, decided


class LeftChecker(Checker):
    """One verification of a certificate whose adversary removes labels."""

    def _prepare(self) -> None:
        super()._prepare()
        if not self.stuck and self._out.accepted:
            self._walk = self._lefts = LeftWalk(self._statement, self._machine, self._pace)

    def witnesses(self) -> None:
        """The attack on each node, trained on by itself."""
        cert, statement, claimed, open_ = self._cert, self._statement, self._claimed, 0
        self._pace.begin("witnesses")
        for t in range(statement.n):
            if wrong := self._misfit(t, *cert.node_attacks[t]):
                self._wrong("witnesses", wrong)
                return
        for t in claimed.tolist():
            sure = self._changes(t, statement.relabelled(*cert.node_attacks[t]))
            if sure is False:
                self._wrong("witnesses", f"the witness of node {t} does not change it, or not into what is named")
                return
            open_ += sure is None or bool(self._doubtful[t])
            self._pace(done=1)
        if claimed.size:
            how = (
                f"{claimed.size - open_} attacks on single nodes, by training from scratch on the labels that are left"
            )
            self._out.add("witnesses", CheckStatus.NOT_CHECKED if open_ else CheckStatus.PROVED, how)

    def _changes(self, t: int, codes: Int) -> bool | None:
        """Whether labels change a node into the class that is named; None where that cannot be decided."""
        walk, own = self._lefts.left(codes, np.array([t]))
        if walk is None:
            return True
        models = walk.trained(own[None])
        yes, decided = (bool(found[0, 0]) for found in walk.changed(own[None], self._predicted[[t]], models))
        if not yes:
            return None if not decided else False
        if self._cert.new_classes[t] < 0:
            return True
        shown, self._shown = self._shown, walk.machine
        try:
            return self._takes_over(walk, own, models, 0, t)
        finally:
            self._shown = shown

    def bounds(self) -> None:
        """Every relabelling, or a share of them."""
        cert, statement, out, share = self._cert, self._statement, self._out, self._share
        self._pace.begin("radii")
        if np.any(cert.radius_lower > statement.budget + 1):
            self._wrong("radii", "a radius is claimed beyond the largest budget")
            return
        if np.any(np.diff(cert.collective_upper) < 0) or np.any(np.diff(cert.collective_lower) < 0):
            self._wrong("curve", "a larger budget is said to change fewer nodes")
            return
        claims = Claims(self._predicted, cert.radius_lower - 1, cert.collective_upper)
        total = count_relabellings(statement, claims.budget)[0][claims.budget] if claims.budget >= 0 else 0
        if share is None and total > MOST_LOOKED_AT:
            why = f"there are up to {total:,} relabellings, more than {MOST_LOOKED_AT:,}; share= looks at some of them"
            for what in ("radii", "curve"):
                out.add(what, CheckStatus.NOT_CHECKED, why)
            return
        self._by_looking(claims, total)

    def _by_looking(self, claims: Claims, total: int) -> None:
        def told(text: str) -> None:
            self._pace(f"looked at {text} of at most {total:,}")

        relabellings = every_relabelling(self._statement, claims.budget)
        if self._share is not None:
            count = max(1, round(self._share * total))
            relabellings = random_relabellings(self._statement, claims.budget, count, self._rng)
        outcome = self._walk.sample(claims, relabellings, told)
        status = self._status(outcome)
        how = f"a look at {outcome.visited:,} of {total:,} relabellings"
        if status is CheckStatus.WRONG:
            self._out.add("radii", status, outcome.contradictions[0])
            return
        self._out.add("radii", status, f"{claims.reach.size} lower ends: {how}")
        self._out.add("curve", status, how)
