"""Does a certificate transfer? What networks of finite width do with predictions that are certified."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from labelcert.arrays import Bool, Float, Int
from labelcert.certificate import Certificate
from labelcert.certification import certify
from labelcert.finite.margin import LABELLINGS, FiniteMargin, measured
from labelcert.finite.twins import Twins
from labelcert.models.networks.network import Recipe
from labelcert.models.networks.torch_extra import check_device

ATTACKS = 20
"""Attacks of two and three flips that networks are trained on."""

PRACTICAL = 256
"""Widths up to which networks are trained as practitioners do, too: one of each, without attacks."""

NETWORKS, MARGIN_NETWORKS = 2, 19
"""Networks that are tried, and others that margins come from."""

SETTINGS = {
    "networks": NETWORKS,
    "margin_networks": MARGIN_NETWORKS,
    "margin_labellings": LABELLINGS,
    "attacks": ATTACKS,
    "practical": PRACTICAL,
}
"""All that decides what comes out, beside the arguments."""


@dataclass
class Counts:
    """What the networks of one recipe did, summed over networks."""

    networks: int = 0
    nodes: int = 0
    """Test nodes, once for every network."""
    agree: int = 0
    """Nodes that the network predicts as the kernel machine does."""
    certified: int = 0
    """Nodes that are certified at one flip."""
    broken: int = 0
    """Certified nodes that some flip changes though the network predicts them as the kernel machine does."""
    violated: int = 0
    """Certified nodes that some flip changes or that the network predicts otherwise from the start."""
    certified_with_margin: int = 0
    violated_with_margin: int = 0
    """The same for the certificate with a margin."""
    attacked: int = 0
    """Predictions that attacks of two and three flips change in the kernel machine."""
    changed: int = 0
    """Of these, those that change in the network, too."""
    correlation: float = 0.0
    """Of clean scores with those of the kernel machine (0 where scores are all alike)."""
    deviation: float = 0.0
    """Median distance of clean scores."""


@dataclass(frozen=True, eq=False)
class Transfer:
    """A certificate with the margin for one width, at one flip, and what networks of that width did, by recipe."""

    certificate: Certificate
    margin: FiniteMargin
    device: str
    recipes: dict[str, Counts]

    def plain(self) -> dict[str, Any]:
        """Width, device and counts as JSON values."""
        return {
            "width": self.margin.width,
            "device": self.device,
            **{recipe: asdict(counts) for recipe, counts in self.recipes.items()},
        }


def transfer(
    pair: Twins,
    width: int,
    *,
    networks: int = NETWORKS,
    margin_networks: int = MARGIN_NETWORKS,
    margin_flips: int = 1,
    seed: int = 0,
    max_flips: int = 1,
    practical: bool = True,
    time_limit: float | None = None,
    workers: int | None = None,
) -> Transfer:
    """Train networks on clean labels, on every single flip and on certified attacks, and compare.

    The margin is measured with other networks than those that are tried. With `practical`, a network is trained as
    practitioners do, too, up to a width of 256. The time limit is for each certificate.
    """
    rng = np.random.default_rng([seed, width])
    K, rows = pair.kernels
    C = pair.C
    how: dict[str, Any] = {"collective": False, "device": "cpu", "workers": workers, "time_limit": time_limit}
    plain = certify(K, pair.labels, rows, C, max_flips=min(3, pair.labels.size), **how)
    margin = measured(pair, width, networks=margin_networks, flips=margin_flips, seed=seed)
    guarded = certify(K, pair.labels, rows, C, max_flips=max_flips, margin=margin, **how)
    singles = np.concatenate([pair.labels[None], pair.single_flips(rng)])
    attacks = _attacks(plain, pair)
    machine = pair.machine(np.concatenate([singles, attacks]))
    asked = _Asked(pair, len(singles), machine, plain.radius_lower > 1, guarded.radius_lower > 1)
    found: dict[str, Counts] = {}
    counted: dict[Recipe, int] = {"theory": networks, "practice": int(practical and width <= PRACTICAL)}
    for recipe, count in counted.items():
        labels = np.concatenate([singles, attacks]) if recipe == "theory" else singles
        for k in range(count):
            scores = pair.network(labels, width, seed * networks + k, recipe)
            asked.count(scores, found.setdefault(recipe, Counts()))
    return Transfer(guarded, margin, check_device(pair.device), found)


@dataclass(frozen=True, eq=False)
class _Asked:
    """What each network is asked: scores on clean labels, on single flips and on attacks, in this order."""

    pair: Twins
    singles: int
    machine: Float
    certified: Bool
    guarded: Bool

    def count(self, scores: Float, counts: Counts) -> None:
        """Add up what one network did."""
        leads = self.pair.leads(scores)
        changed = leads <= 0.0
        agree, ever = ~changed[0], changed[: self.singles].any(axis=0)
        clean, own = scores[0].ravel(), self.machine[0].ravel()
        distance = np.abs(leads[0] - self.pair.leads(self.machine)[0])
        attacked = self.pair.leads(self.machine)[self.singles : len(scores)] <= 0.0
        counts.networks += 1
        counts.nodes += agree.size
        counts.agree += int(agree.sum())
        counts.certified += int(self.certified.sum())
        counts.broken += int((self.certified & agree & ever).sum())
        counts.violated += int((self.certified & ever).sum())
        counts.certified_with_margin += int(self.guarded.sum())
        counts.violated_with_margin += int((self.guarded & ever).sum())
        counts.attacked += int(attacked.sum())
        counts.changed += int((attacked & changed[self.singles :]).sum())
        if np.ptp(clean) > 0 and np.ptp(own) > 0:
            counts.correlation += float(np.corrcoef(clean, own)[0, 1])
        counts.deviation += float(np.median(distance))


def _attacks(cert: Certificate, pair: Twins) -> Int:
    """(k, m) labels under the witnesses of two and three flips, those first that change the most nodes' radii."""
    uses: dict[tuple[tuple[int, int], ...], int] = {}
    for t in np.flatnonzero((cert.radius_upper >= 2) & (cert.radius_upper <= min(3, cert.max_flips))).tolist():
        labels, targets = cert.node_attacks[t]
        attack = tuple(zip(labels.tolist(), targets.tolist(), strict=True))
        uses[attack] = uses.get(attack, 0) + 1
    chosen = sorted(uses, key=lambda attack: (-uses[attack], attack))[:ATTACKS]
    labels = np.repeat(pair.labels[None], len(chosen), axis=0)
    for row, attack in zip(labels, chosen, strict=True):
        for i, c in attack:
            row[i] = pair.classes[c]
    return labels
