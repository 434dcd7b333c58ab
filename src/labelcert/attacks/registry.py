"""All attacks by name. A new attack is one function and one entry here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from labelcert.attacks.growing import greedy
from labelcert.attacks.linearised import label_propagation, lafak, ridge_gradient
from labelcert.attacks.ranking import alfa, biggio, furthest, nearest, random_flips
from labelcert.checking import known_name
from labelcert.problem import Problem, Relabelling

Attack = Callable[[Problem, int, np.random.Generator], Relabelling]
"""From a problem and a budget to labels that should change as many predictions of its test rows as possible."""


@dataclass(frozen=True)
class AttackInfo:
    """One attack. The docstring of its function says what it keeps of the original, and what it replaces."""

    name: str
    """What ``using=`` takes."""
    description: str
    reference: str
    """Where it comes from."""
    function: Attack


_XIAO = "Xiao, Xiao and Eckert 2012, Adversarial Label Flips Attack on Support Vector Machines"

ATTACKS: dict[str, AttackInfo] = {
    info.name: info
    for info in (
        AttackInfo("random", "flips random labels", "a baseline", random_flips),
        AttackInfo("nearest", "flips the labels nearest to the decision boundary", f"{_XIAO} (baseline)", nearest),
        AttackInfo("furthest", "flips the labels furthest from the decision boundary", f"{_XIAO} (baseline)", furthest),
        AttackInfo("alfa", "maximises losses, in turns with training on the flipped labels", _XIAO, alfa),
        AttackInfo(
            "biggio",
            "ranks labels by dual variables, and by margins under random models",
            "Biggio, Nelson and Laskov 2011, Support Vector Machines Under Adversarial Label Noise",
            biggio,
        ),
        AttackInfo(
            "ridge-gradient",
            "ascends the loss of kernel ridge regression over relaxed labels, and rounds",
            "Lingam, Akhondzadeh and Bojchevski 2024, Rethinking Label Poisoning for GNNs: Pitfalls and Attacks",
            ridge_gradient,
        ),
        AttackInfo(
            "label-propagation",
            "attacks label propagation along the kernel, greedily and by sampling",
            "Liu, Si, Zhu, Li and Hsieh 2019, A Unified Framework for Data Poisoning Attack to Graph-based "
            "Semi-supervised Learning",
            label_propagation,
        ),
        AttackInfo(
            "lafak",
            "flips the label with the largest gradient of a smooth loss, one after the other",
            "Zhang, Hu, Shi and Wang 2020, Adversarial Label-Flipping Attack and Defense for Graph Neural Networks",
            lafak,
        ),
        AttackInfo("greedy", "grows change by change on the retrained model", "this package", greedy),
    )
}


def attack_names() -> list[str]:
    """What ``using=`` takes."""
    return list(ATTACKS)


def get_attack(name: str) -> AttackInfo:
    """The attack of a name."""
    return ATTACKS[known_name("using", name, ATTACKS)]
