"""Worst values of metrics, counted again: which nodes can miss their class under a relabelling, or hit it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from labelcert.arrays import Bool, Float, Int
from labelcert.certificate import Certificate
from labelcert.verification.machines import Trained
from labelcert.verification.relabellings import TIED, Walk

SHARES = ("accuracy", "recall", "precision", "false_positive_rate")
"""What is known here; all else is a function of the user's own, which no file holds."""

CLOSE = 1e-12
"""Shares that differ by less are the same."""


@dataclass(frozen=True, eq=False)
class MetricClaim:
    """What a certificate claims about a metric of n test nodes, with K classes and G groups.

    A node counts as a hit where its target is predicted: its true class, or the positive class. Where its highest score
    is shared, it counts as the adversary likes.
    """

    name: str
    positive: int
    truth: Int
    groups: Int
    lower: Float
    upper: Float
    attack_of: Int
    n_classes: int

    @classmethod
    def all_of(cls, cert: Certificate) -> list[MetricClaim]:
        """Those of metrics that are known by name."""
        if (m := cert.metrics) is None:
            return []
        found = []
        for q, name in enumerate(map(str, m.names.tolist())):
            question = (name, int(m.positive[q]), m.truth[q], m.groups[q])
            found.append(cls(*question, m.lower[q], m.upper[q], m.attack_of[q], cert.n_classes))
        return [claim for claim in found if not claim.name.endswith("()")]

    @property
    def target(self) -> Int:
        """(n,) the class that is a hit; K where none of them is."""
        target = self.truth if self.positive < 0 else np.full(self.truth.size, self.positive)
        return np.where(target < 0, self.n_classes, target)

    @property
    def cells(self) -> Int:
        """(G, 2, n) 1 for nodes that should be hits (all, for accuracy), or should not, of each group."""
        should = (self.truth == self.positive) | (self.positive < 0)
        own = self.groups == np.arange(self.groups.max(initial=0) + 1)[:, None]
        return np.stack([own & (self.truth >= 0) & should, own & (self.truth >= 0) & ~should], axis=1).astype(np.int64)

    @property
    def highest(self) -> bool:
        """Whether the highest value is the worst."""
        return len(self.cells) > 1 or self.name == "false_positive_rate"

    @property
    def counts_hits(self) -> bool:
        """Whether an adversary may want hits, and not only misses."""
        return len(self.cells) > 1 or self.name in ("precision", "false_positive_rate")

    @property
    def proved(self) -> Float:
        """(B + 1,) what no attack is worse than, so that low values are bad."""
        return -self.upper if self.highest else self.lower

    @property
    def reached(self) -> Float:
        """(B + 1,) what attacks come to, so that low values are bad."""
        return -self.lower if self.highest else self.upper

    @property
    def nonsense(self) -> str:
        """Why there is no such metric, in words."""
        if self.name not in SHARES or (self.positive < 0) != (self.name == "accuracy"):
            return f"nobody knows the metric {self.name!r} of class {self.positive}"
        of = {"precision": [], "false_positive_rate": [1]}.get(self.name, [0])
        return "" if self.cells.sum(axis=2)[:, of].all() else f"{self.name} is a share of no nodes"

    def worst(self, miss: Bool, hit: Bool) -> Float:
        """(N,) the worst value, so that low ones are bad, for (N, n) nodes that may miss their target, or hit it."""
        cells = self.cells
        sizes = cells.sum(axis=2)
        low = np.einsum("sn,gcn->gcs", (~miss).astype(np.int64), cells)
        high = np.einsum("sn,gcn->gcs", hit.astype(np.int64), cells)
        if self.name == "precision":
            least = low[:, 0] / np.maximum(low[:, 0] + high[:, 1], 1)
            most = high[:, 0] / np.maximum(high[:, 0] + low[:, 1], 1)
        else:
            c = int(self.name == "false_positive_rate")
            least, most = (counts[:, c] / sizes[:, c, None] for counts in (low, high))
        if len(cells) == 1:
            return np.asarray(-most[0] if self.highest else least[0])
        pairs = [(g, h) for g in range(len(cells)) for h in range(len(cells)) if g != h]
        return -np.asarray(np.max([most[g] - least[h] for g, h in pairs], axis=0))

    def under(self, walk: Walk, codes: Int, predicted: Int, open_: Bool) -> tuple[Float, Float]:
        """(N,) values under (N, m) labellings that the adversary comes to for sure, and the worst that are possible.

        - ``predicted`` (n,): ``TIED`` where a clean prediction is tied, which counts as the adversary likes throughout.
        - ``open_`` (n,): nodes of which nothing is certain.
        """
        models = walk.trained(codes)
        target = self.target
        none, free = target >= self.n_classes, predicted == TIED
        aim = np.where(none, 0, target)
        miss, miss_known = walk.changed(codes, aim, models)
        hit, hit_known = (np.ones(miss.shape, dtype=bool) for _ in range(2))
        for c in range(self.n_classes) if self.counts_hits else ():
            # A target is predicted, or tied, where it reaches every other class.
            reaches, known = self._reaches(walk, codes, aim, models, c)
            hit_known = (hit_known & known) | (known & ~reaches) | (hit_known & ~hit)
            hit &= reaches
        miss, miss_known = miss | free | none, (miss_known | free | none) & ~open_
        hit, hit_known = (hit | free) & ~none, (hit_known | free | none) & ~open_
        return self.worst(miss & miss_known, hit & hit_known), self.worst(miss | ~miss_known, hit | ~hit_known)

    def _reaches(self, walk: Walk, codes: Int, aim: Int, models: list[Trained], c: int) -> tuple[Bool, Bool]:
        """(N, n) whether the scores of targets are at least those of class c, and whether that is decided."""
        own = aim == c
        rivals = (aim[:, None] == np.arange(self.n_classes)) & ~own[:, None]
        reaches, known = walk.changed(codes, np.full(aim.size, c), models, rivals)
        return reaches | own, known | own

    def from_radii(self, predicted: Int, lower: Int, most: Int) -> Float:
        """(B + 1,) bounds on the worst value: a node changes from its radius on, and no more than ``most`` at once.

        - ``predicted`` (n,): the classes that are shown; a tied node has the radius 0.
        - ``lower`` (n,), ``most`` (B + 1,): proved ends of radii and of the curve.
        """
        out, target = np.empty(most.size), self.target
        right = predicted == target
        for b in range(most.size):
            may = (lower <= b) & (target < self.n_classes)
            alone = self.worst((~right | may)[None], (right | may)[None])[0]
            out[b] = max(alone, self._with_at_most(right, int(most[b])))
        return out

    def _with_at_most(self, right: Bool, most: int) -> float:
        """The same where any ``most`` nodes change."""
        if len(self.cells) > 1 or self.name == "precision":
            return -np.inf
        c = int(self.name == "false_positive_rate")
        nodes = self.cells[0, c]
        hits, size = int(nodes @ right), int(nodes.sum())
        return -min(hits + most, size) / size if self.highest else max(hits - most, 0) / size
