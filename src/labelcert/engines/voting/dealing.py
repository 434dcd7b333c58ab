"""Which labels each model is trained on: parts by a hash, each label in one model or in several."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from labelcert.arrays import Bool, Int
from labelcert.checking import unmasked, whole_number
from labelcert.engines.partition.parts import assign
from labelcert.engines.voting.prices import FAR, Reach
from labelcert.errors import InvalidInput
from labelcert.problem import Adversary
from labelcert.problem.owners import OwnerAdversary


@dataclass(frozen=True, eq=False)
class Dealt:
    """Labels in buckets, and buckets in models.

    Attributes
    ----------
    bucket_of : (m,) array
    members : (buckets, k) array
        Which models are trained on the labels of each bucket.
    """

    bucket_of: Int
    members: Bool

    @property
    def models(self) -> int:
        """Number k of models."""
        return int(self.members.shape[1])

    def labels_of(self, model: int) -> Int:
        """The labels that a model is trained on, ascending."""
        return np.flatnonzero(self.members[self.bucket_of, model]).astype(np.int64)

    def models_of(self, labels: Int) -> Int:
        """The models that are trained on any of some labels."""
        return np.flatnonzero(self.members[self.bucket_of[labels]].any(axis=0)).astype(np.int64)

    def reach(self, adversary: Adversary, whole_samples: bool, least: Int | None = None) -> Reach:
        """What the adversary can buy: of each bucket, its cheapest label; or annotators; or a sample in any bucket.

        Where each label is in one model alone, ``least`` (n, k) may say how many labels have to change before that
        model votes for another class: then these are bought, the cheapest ones of the bucket.
        """
        buckets = self.members.shape[0]
        if whole_samples:
            return Reach.of(np.ones(buckets, dtype=np.int64), self.members)
        if isinstance(adversary, OwnerAdversary):
            return Reach.of(*self._owned(adversary))
        affordable = adversary.affordable(int(adversary.costs.max(initial=1)))
        labels, costs = adversary.labels[affordable], adversary.costs[affordable]
        some = np.unique(self.bucket_of[labels])
        sums = [np.cumsum(np.sort(costs[self.bucket_of[labels] == b])) for b in some.tolist()]
        prices = np.array([paid[0] for paid in sums], dtype=np.int64)
        if least is None:
            return Reach.of(prices, self.members[some])
        own = [np.append(paid, FAR)[np.clip(least[:, b] - 1, 0, paid.size)] for b, paid in zip(some, sums, strict=True)]
        return Reach.of(prices, self.members[some], np.array(own, dtype=np.int64).reshape(some.size, -1).T)

    def _owned(self, adversary: OwnerAdversary) -> tuple[Int, Bool]:
        """The price of each annotator, and all models with a label on which they vote."""
        ballots = adversary.ballots
        counts = np.isin(ballots.item, adversary.labels) & (ballots.who >= 0)
        voted = np.zeros((adversary.prices.size, self.members.shape[0]), dtype=bool)
        voted[ballots.who[counts], self.bucket_of[ballots.item[counts]]] = True
        own = adversary.buyable
        return adversary.prices[own], (voted[own].astype(np.int64) @ self.members.astype(np.int64)) > 0


def deal(parts: int | npt.ArrayLike, keys: Sequence[bytes | str], *, spread: int, seed: int, by_content: bool) -> Dealt:
    """Deal labels out by a hash of their keys, or as they were dealt out already.

    With ``spread`` d and k parts, there are kd buckets and as many models, each trained on d of the buckets: as many
    labels as with k parts alone. Bucket b belongs to the models b + o (modulo kd), for d offsets that the seed draws.

    ``by_content``: the bucket of a key depends on nothing but that key, so that no sample moves when another one comes
    or goes; otherwise buckets differ in size by at most one.
    """
    m = len(keys)
    spread, seed = whole_number("spread", spread, 1), whole_number("seed", seed, None)
    if np.ndim(parts):
        given = np.asarray(unmasked("parts", parts))
        if given.shape != (m,) or given.dtype.kind not in "iu":
            raise InvalidInput(f"parts must be a number of parts, or {m} whole numbers, the part of each label")
        if by_content:
            raise InvalidInput("threat='samples' needs parts by a hash of each row: give their number as parts=")
        bucket_of = np.unique(given, return_inverse=True)[1].astype(np.int64)
        buckets = int(bucket_of.max()) + 1
    else:
        buckets = spread * whole_number("parts", parts, 1, max(1, m // spread), "a label for each, times spread")
        bucket_of = by_hash(keys, buckets, seed) if by_content else assign(list(map(_text, keys)), buckets, seed)
    spread = whole_number("spread", spread, 1, buckets, "at most one model for each")
    offsets = np.random.default_rng(seed).permutation(buckets)[:spread]
    members = np.zeros((buckets, buckets), dtype=bool)
    members[np.arange(buckets)[:, None], (np.arange(buckets)[:, None] + offsets) % buckets] = True
    return Dealt(bucket_of, np.eye(buckets, dtype=bool) if spread == 1 else members)


def by_hash(keys: Sequence[bytes | str], buckets: int, seed: int) -> Int:
    """(m,) a bucket for each key, by a hash of nothing but the key and the seed."""
    hashes = (hashlib.sha256(f"{seed}\x1f".encode() + _bytes(key)).digest() for key in keys)
    return np.array([int.from_bytes(one[:8], "big") % buckets for one in hashes], dtype=np.int64)


def row_keys(rows: Any) -> list[bytes]:
    """The content of each row of a table, dense or sparse or a data frame, as bytes to be hashed."""
    if hasattr(rows, "tocsr"):
        table = rows.tocsr().astype(np.float64)
        table.sort_indices()
        table.eliminate_zeros()
        ends = zip(table.indptr[:-1], table.indptr[1:], strict=True)
        return [table.indices[a:b].astype("<i8").tobytes() + b"|" + (table.data[a:b] + 0.0).tobytes() for a, b in ends]
    values = np.asarray(rows)
    if values.ndim == 0:
        raise InvalidInput("rows must hold one row per label, got a single value")
    flat = values.reshape(values.shape[0], -1)
    if flat.dtype.kind in "biuf":
        numbers = np.ascontiguousarray(flat, dtype="<f8") + 0.0  # -0.0 is 0.0
        return [row.tobytes() for row in numbers]
    return [repr(row).encode() for row in flat.tolist()]


def _bytes(key: bytes | str) -> bytes:
    return key if isinstance(key, bytes) else key.encode()


def _text(key: bytes | str) -> str:
    return key.hex() if isinstance(key, bytes) else key
