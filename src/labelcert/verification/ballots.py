"""Votes of models that nobody knows, and which of them somebody can buy: from what a certificate records."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

import numpy as np

from labelcert.arrays import Bool, Int
from labelcert.certificate import Certificate
from labelcert.errors import InvalidInput

NOBODY = 1 << 40
"""The price of what cannot be bought."""


@dataclass(frozen=True, eq=False)
class ModelVotes:
    """What k models say, (n, k, R), and which labels each is trained on.

    Bucket b of the labels, ``part_of`` (m,), belongs to the models b + o, modulo k, for each o of ``offsets``.
    """

    ranks: Int
    part_of: Int
    offsets: Int
    combine: str
    samples: bool
    radii: Int | None = None
    """(k, n) how many labels have to change before each model votes for another class, where that is stated."""

    @classmethod
    def of(cls, cert: Certificate, votes: Any = None) -> ModelVotes:
        """From a certificate, or with votes that somebody gives."""
        about = cert.run.stages[0].statistics if cert.run.stages else {}
        part_of, offsets = (np.array(about.get(name, []), dtype=object) for name in ("part_of", "offsets"))
        ranks = cert.part_votes if votes is None else np.asarray(votes)
        if ranks is not None and ranks.ndim == 2:
            ranks = ranks[:, :, None]
        if ranks is None or ranks.ndim != 3 or ranks.dtype.kind not in "iu" or cert.part_votes is None:
            raise InvalidInput("votes must be whole numbers of shape (n, models), or (n, models, K) for a run-off")
        k, K = ranks.shape[1], cert.n_classes
        sound = (
            part_of.shape == cert.labels.shape
            and offsets.size > 0
            and all(isinstance(o, int) and 0 <= o < k for o in (*part_of.tolist(), *offsets.tolist()))
            and np.unique(offsets.astype(np.int64)).size == offsets.size
            and about.get("combine") in ("votes", "run-off")
            and ranks.shape == (cert.n_test, k, 1 if about.get("combine") == "votes" else K)
            and bool(np.all((ranks >= 0) & (ranks < K)))
            and (ranks.shape[2] == 1 or bool(np.all(np.sort(ranks, axis=2) == np.arange(K))))
        )
        if not sound:
            raise InvalidInput("the certificate does not say which model is trained on which labels, or how they vote")
        samples, radii = bool(cert.run.threat.get("samples")), None
        ranks, part_of, offsets = (array.astype(np.int64) for array in (ranks, part_of, offsets))
        if "part_radii" in about:
            radii = np.array(about["part_radii"], dtype=np.int64)
            alone = offsets.tolist() == [0] and about["combine"] == "votes" and not samples
            if radii.shape != (k, cert.n_test) or not alone or np.any(radii < 1):
                raise InvalidInput(
                    "radii of parts must be whole numbers, one for each model that a label reaches alone"
                )
        return cls(ranks, part_of, offsets, about["combine"], samples, radii)

    def digest(self, finish: Any) -> str:
        """The hash that a certificate names; ``finish`` takes in labels and threat."""
        h = hashlib.sha256(f"{self.combine} {self.ranks.shape}".encode())
        for array in (self.ranks, self.part_of, self.offsets, *([] if self.radii is None else [self.radii])):
            h.update(np.ascontiguousarray(array, dtype="<i8").tobytes() + b"|")
        h.update(b"samples" if self.samples else b"labels")
        return str(finish(h))

    def purchases(self, statement: Any) -> tuple[Int, Bool]:
        """(I,) prices, or (n, I) for each node, and (I, k) the models that each purchase reaches."""
        k = self.ranks.shape[1]
        models = np.zeros((k, k), dtype=bool)
        for offset in self.offsets.tolist():
            models[np.arange(k), (np.arange(k) + offset) % k] = True
        if self.samples:
            return np.ones(k, dtype=np.int64), models
        bought: list[tuple[int | list[int], Bool]] = []
        if statement.crowd is not None:
            crowd = statement.crowd
            for who in np.flatnonzero(crowd.prices > 0).tolist():
                own = np.intersect1d(crowd.item[crowd.who == who], statement.movable)
                bought.append((int(crowd.prices[who]), models[self.part_of[own]].any(axis=0)))
        else:
            for b in range(k):
                own = np.flatnonzero(self.part_of == b)
                costs = sorted(int(statement.costs[i]) for i in own.tolist() if self._may_change(statement, i))
                if costs and self.radii is None:
                    bought.append((costs[0], models[b]))
                elif costs and self.radii is not None:
                    bought.append(([sum(costs[:r]) if r <= len(costs) else NOBODY for r in self.radii[b]], models[b]))
        prices = np.array([price for price, _ in bought], dtype=np.int64)
        return prices.T, np.array([touched for _, touched in bought], dtype=bool).reshape(-1, k)

    @staticmethod
    def _may_change(statement: Any, i: int) -> bool:
        """Whether a label can change at all: its group may not even pay for it."""
        return bool(statement.allowed[i].any()) and statement.within_caps(np.array([i]))
