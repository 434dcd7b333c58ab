"""The checks of certificates that count votes of models that nobody knows."""

from __future__ import annotations

import numpy as np

from labelcert.arrays import Int
from labelcert.verification.checker import Checker
from labelcert.verification.elections import Election
from labelcert.verification.verdict import CheckStatus

TOLERANCE = 1e-9
"""Shares of the votes that differ by less are alike."""

UNSEEN = "votes, prices and labels fit; nobody trained the models again"


class BallotChecker(Checker):
    """One verification of such a certificate: votes are counted again, and no model is trained."""

    trains_as_one = False

    def _prepare(self) -> None:
        ballots = self._given.ballots
        assert ballots is not None
        self._election = Election(ballots.ranks, self._given.n_classes, *ballots.purchases(self._given))

    def predictions(self) -> None:
        """Who wins every election."""
        winners = np.array([self._election.winner(t) for t in range(self._given.n)], dtype=np.int64)
        wrong = winners != self._predicted
        self._out.require(
            "predictions",
            not wrong.any(),
            f"{winners.size} clean predictions, from the votes that are given",
            f"the votes elect another class for node {int(wrong.argmax())}",
        )
        self._pace(done=winners.size)

    def scores(self) -> None:
        """Shares of the votes that are shown."""
        shares = np.array([self._election.shares(t) for t in range(self._given.n)])
        if self._given.n_classes == 2:
            shares = (shares[:, 1] - shares[:, 0])[:, None] / 2
        far = np.abs(self._cert.decision_values.reshape(shares.shape) - shares).max(axis=1) > TOLERANCE
        far |= np.isnan(self._cert.decision_values.reshape(shares.shape)).any(axis=1)
        self._out.require(
            "decision values", not far.any(), "shares of the votes", f"those of node {int(far.argmax())} are others"
        )
        self._pace(done=self._given.n)

    def witnesses(self) -> None:
        """Attacks on single nodes: whether the threat admits them, and not what training on them gives."""
        for t in range(self._given.n):
            labels, targets = self._cert.node_attacks[t]
            wrong = self._misfit(t, labels, targets)
            if not wrong and self._cert.new_classes[t] == self._predicted[t]:
                wrong = f"the witness of node {t} turns it into what it is"
            if wrong:
                self._wrong("witnesses", wrong)
                return
        if self._claimed.size:
            self._out.add("witnesses", CheckStatus.NOT_CHECKED, f"{self._claimed.size} attacks: {UNSEEN}")

    def attacks_of_curve(self) -> None:
        """Attacks on many nodes, in the same way."""
        cert, counts = self._cert, self._cert.curve_changed.sum(axis=1)
        self._fit_curve()
        cheaper = [
            np.any(cert.curve_changed[k] & (cert.radius_lower > self._given.cost(cert.curve_attacks[k][0])))
            for k in range(len(cert.curve_attacks))
        ]
        if any(cheaper):
            self._wrong("collective attacks", "an attack changes a node for less than its radius")
        elif counts.any() and self._out.accepted:
            self._out.add("collective attacks", CheckStatus.NOT_CHECKED, f"{len(counts)} attacks: {UNSEEN}")

    def bounds(self) -> None:
        """Lower ends of radii, from the votes; the curve, where it follows from them."""
        cert, given = self._cert, self._given
        self._pace.begin("radii")
        least = self._election.least_costs(self._predicted)
        lower = cert.radius_lower
        wrong = (lower > np.minimum(self._payable(least), given.budget + 1)) | (lower > given.budget + 1)
        self._out.require(
            "radii",
            not wrong.any(),
            f"{lower.size} lower ends, from the votes, if training is deterministic",
            f"the votes do not prove the radius of node {int(wrong.argmax())}",
        )
        if wrong.any() or np.any(np.diff(cert.collective_upper) < 0):
            self._wrong("curve", "it rests on radii that are not proved, or falls")
            return
        counts = np.array([int((lower <= b).sum()) for b in range(given.budget + 1)])
        open_ = int((cert.collective_upper < counts).sum())
        text = f"multipliers bound {open_} upper ends, and are not kept" if open_ else "upper ends, from the radii"
        self._out.add("curve", CheckStatus.NOT_CHECKED if open_ else CheckStatus.PROVED, text)
        self._pace(done=lower.size + given.budget + 1 - open_)

    def _payable(self, least: Int) -> Int:
        """The next cost that some labels have together; budgets that count annotators are taken as they are."""
        given = self._given
        if given.crowd is not None:
            return least
        sums = {0}
        for cost in given.costs[given.movable].tolist():
            sums |= {s + cost for s in sums if s + cost <= given.budget}
        steps = np.array([*sorted(sums), given.budget + 1])
        return np.asarray(steps[np.searchsorted(steps, np.minimum(least, given.budget + 1))])
