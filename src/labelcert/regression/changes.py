"""Which targets may be off by how much, at what price."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from labelcert.arrays import Float, Int
from labelcert.errors import InvalidInput
from labelcert.problem import Adversary, Threat
from labelcert.problem.ballots import whole_multiples


@dataclass(frozen=True, eq=False)
class Changes:
    """An adversary who may move m targets.

    - ``down``, ``up`` (m,): how far each target may be too high, and too low: it may become ``y - down .. y + up``.
    - ``adversary``: whom to buy: single targets, or annotators with all of their targets.
    - ``members`` (c,), ``starts`` (U + 1,): annotator u gave the targets ``members[starts[u]:starts[u + 1]]``; None:
      targets are bought one by one.
    """

    down: Float
    up: Float
    adversary: Adversary
    members: Int | None = None
    starts: Int | None = None
    owners: tuple[str, ...] = ()

    @classmethod
    def of(cls, y: Float, change: Any, threat: Threat | None) -> Changes:
        """Checked against m targets."""
        down, up = _sides(change, y.size)
        threat = Threat() if threat is None else threat
        for name in ("allowed_flips", "allowed_targets", "votes", "wrong_votes"):
            if getattr(threat, name) is not None:
                raise InvalidInput(f"{name} is about classes; say how far targets may be off with change=")
        if threat.annotators is None:
            nothing = np.zeros(y.size, dtype=np.int64)
            a = threat.resolve(nothing, np.array([0, 1]))
            return cls(down, up, a.only(np.flatnonzero((down + up)[a.labels] > 0)))
        return _owned(y.size, down, up, threat)

    def per_purchase(self, gains: Float) -> Float:
        """(k, ν) what each purchase gains together, of (k, m) gains of single targets."""
        if self.members is None or self.starts is None:
            a = self.adversary
            return gains if a.labels.size == a.m else gains[:, a.labels]
        if self.members.size == 0:
            return np.zeros((len(gains), 0))
        return np.asarray(np.add.reduceat(gains[:, self.members], self.starts[:-1], axis=1))

    def targets_of(self, bought: Int) -> Int:
        """The targets that purchases change, ascending."""
        if self.members is None or self.starts is None:
            return self.adversary.labels[bought]
        own = [self.members[self.starts[u] : self.starts[u + 1]] for u in bought.tolist()]
        return np.sort(np.concatenate([np.zeros(0, dtype=np.int64), *own]))


def _sides(change: Any, m: int) -> tuple[Float, Float]:
    pair = change if isinstance(change, tuple) else (change, change)
    if len(pair) != 2:
        raise InvalidInput(f"change must be a number, one for each target, or a pair (down, up), got {len(pair)} parts")
    return _distances("change", pair[0], m), _distances("change", pair[1], m)


def _distances(name: str, given: npt.ArrayLike, m: int) -> Float:
    try:
        found = np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidInput(f"{name} must be numbers: how far targets may be off") from None
    if found.shape not in ((), (m,)) or not np.all((found >= 0) & np.isfinite(found)):
        raise InvalidInput(
            f"{name} must be one number of at least 0, or one for each of the {m} targets, got shape {found.shape}"
        )
    return np.broadcast_to(found, (m,)).copy()


def _owned(m: int, down: Float, up: Float, threat: Threat) -> Changes:
    """Budgets that count annotators: whoever is owned may move all of their targets."""
    if threat.costs is not None or threat.groups is not None or threat.group_budgets is not None:
        raise InvalidInput("with annotators, budgets count annotators: give prices instead of costs and groups")
    who: list[Hashable] = list(threat.annotators or ())
    if len(who) != m:
        raise InvalidInput(f"annotators must have one entry per target, {m}, got {len(who)}")
    names = sorted({str(one) for one in who if one is not None})
    honest = {str(one) for one in threat.trusted_annotators or ()}
    prices = {str(one): price for one, price in (threat.prices or {}).items()}
    for name in sorted((honest | set(prices)) - set(names)):
        raise InvalidInput(f"the annotator {name!r} gave none of the targets")
    single = Threat(trusted=threat.trusted).resolve(np.zeros(m, dtype=np.int64), np.array([0, 1]))
    free = np.isin(np.arange(m), single.labels)
    free &= down + up > 0
    costs, _ = whole_multiples("prices", [prices.get(name, 1) for name in names])
    number = {name: u for u, name in enumerate(names)}
    own = np.array([-1 if one is None else number[str(one)] for one in who], dtype=np.int64)
    members = np.flatnonzero(free & (own >= 0) & np.array([str(one) not in honest for one in who], dtype=bool))
    members = members[np.argsort(own[members], kind="stable")]
    bought, starts = np.unique(own[members], return_index=True)
    adversary = Adversary(
        m=len(names),
        labels=bought.astype(np.int64),
        costs=costs[bought],
        groups=np.full(bought.size, -1, dtype=np.int64),
        group_caps=np.zeros(0, dtype=np.int64),
        never=int(costs.sum()) + 1,
        targets=np.ones((bought.size, 2), dtype=bool),
    )
    ends = np.append(starts, members.size).astype(np.int64)
    return Changes(down, up, adversary, members, ends, tuple(names[u] for u in bought.tolist()))
