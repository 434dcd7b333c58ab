"""The checks of ensembles that count votes: those of one model, where parts say what changes."""

from __future__ import annotations

import numpy as np

from labelcert.arrays import Int
from labelcert.verification.checker import Checker
from labelcert.verification.relabellings import TIED
from labelcert.verification.verdict import CheckStatus
from labelcert.verification.votes import Tops, VoteWalk, strength

SHARE_TOLERANCE = 1e-9
"""Shares of the votes that differ by less are alike."""


class VoteChecker(Checker):
    """One verification of an ensemble that counts votes."""

    trains_as_one = False

    def _prepare(self) -> None:
        margins = np.broadcast_to(np.asarray(self._cert.run.margin, dtype=np.float64), self._given.n)
        self._walk = walk = VoteWalk(self._given, margins, self._pace)  # type: ignore[assignment]
        if self._sound([member.machine for member in walk.members]):
            self._tops = walk.trained(self._given.codes[None, :])
            self._shares = strength(self._tops[0])[0]

    def predictions(self) -> None:
        """No other class has as many votes, wherever parts that are tied could vote; ties are said to be ties."""
        cert, own, K = self._cert, self._predicted, self._given.n_classes
        self._pace.begin("predictions")
        rival = np.arange(K)[:, None] != own
        sure, maybe = (self._walk.leads(tops, own)[0] for tops in self._tops)  # type: ignore[attr-defined]
        tie = (rival & (sure <= 0)).any(axis=0)
        open_ = (rival & (maybe <= 0)).any(axis=0) & ~tie
        # Among classes that are tied, the one with the largest share is shown; of two classes, the second one.
        behind = self._shares[own, np.arange(own.size)] < self._shares.max(axis=0) - SHARE_TOLERANCE
        wrong = tie & ((cert.radius_lower > 0) | ((own == 0) if K == 2 else behind))
        least = self._walk.least  # type: ignore[attr-defined]
        wrong |= (cert.radius_lower > 0) & (rival & (sure <= least)).any(axis=0)
        if wrong.any():
            self._wrong("predictions", f"the clean prediction of node {int(wrong.argmax())} is another one, or tied")
            return
        open_ &= ~self._uncertain
        self._predicted = np.where(tie & (cert.radius_upper == 0), TIED, own)
        self._doubtful = np.zeros(own.size, dtype=bool)
        count = int((~open_).sum())
        status = CheckStatus.NOT_CHECKED if open_.any() else CheckStatus.PROVED
        self._out.add("predictions", status, f"{count} clean predictions, by training all parts from scratch")
        self._pace(done=count)

    def scores(self) -> None:
        """Shares of the votes that are shown."""
        self._pace.begin("decision values")
        shares, decision = self._shares, self._cert.decision_values
        known = (self._tops[0] == self._tops[1]).all(axis=(0, 1, 2))
        if len(shares) == 2:
            shares = np.where(self._predicted == TIED, 0.0, (shares[1] - shares[0]) / 2)[None]
        off = np.abs(decision.reshape(decision.shape[0], -1).T - shares).max(axis=0)
        far = known & ~(off <= SHARE_TOLERANCE)
        self._out.require(
            "decision values", not far.any(), "shares of the votes", f"those of node {int(far.argmax())} are others"
        )
        self._pace(done=self._given.n)

    def bounds(self) -> None:
        """Lower ends of radii, from relabellings of the parts; the curve follows from them."""
        cert, statement, out = self._cert, self._given, self._out
        lower, budget = cert.radius_lower, statement.budget
        self._pace.begin("radii")
        nodes = np.flatnonzero(lower > 0)
        counts = np.array([int((lower <= b).sum()) for b in range(budget + 1)])
        proved, levels = np.zeros(nodes.size, dtype=np.int64), 0
        walk: VoteWalk = self._walk.only(nodes)  # type: ignore[assignment]
        for below, above in walk.lowest(self._predicted[nodes], budget, self._pace):
            levels += 1
            proved = np.maximum(proved, below)
            if np.any(above < lower[nodes]):
                t = int(nodes[np.argmax(above < lower[nodes])])
                self._wrong("radii", f"an attack on several parts that costs {above[nodes == t][0]} turns node {t}")
                return
            if np.all(proved >= lower[nodes]):
                break
        open_ = int((proved < lower[nodes]).sum())
        how = f"all relabellings of single parts that cost up to {max(0, levels - 1)}, and a knapsack over the parts"
        how = f"{lower.size} lower ends, by {how}" + (f"; nothing proves {open_} of them" if open_ else "")
        out.add("radii", CheckStatus.NOT_CHECKED if open_ else CheckStatus.PROVED, how)
        self._pace(done=lower.size - open_)
        if np.any(lower > budget + 1) or np.any(np.diff(cert.collective_upper) < 0):
            self._wrong("radii", "a radius is claimed beyond the largest budget, or the curve falls")
            return
        from_radii = not open_ and bool(np.all(cert.collective_upper >= counts))
        text = "upper ends, from the radii" if from_radii else "nothing proves some upper ends"
        out.add("curve", CheckStatus.PROVED if from_radii else CheckStatus.NOT_CHECKED, text)
        self._pace(done=(budget + 1) * from_radii)

    def _takes_over(self, walk: VoteWalk, codes: Int, models: Tops, k: int, t: int) -> bool | None:  # type: ignore[override]
        """Whether the class that is named reaches the predicted one, and no stronger class does."""
        sure, maybe = (tops[k, :, :, k] for tops in models)
        new, own = int(self._cert.new_classes[t]), np.array([self._predicted[t]])
        reached = walk.leads(sure[..., None], own)[:, 0] <= walk.least[k]
        reached[own[0]] = False
        if np.any(sure != maybe):
            return None
        shares = strength(sure[..., None])[:, 0]
        return bool(reached[new] and shares[new] >= shares[reached].max() - SHARE_TOLERANCE)
