"""The losses that models are trained with. A new loss is one file and one line here."""

from __future__ import annotations

from labelcert.errors import InvalidInput
from labelcert.losses.base import Exactly, Loss
from labelcert.losses.cross_entropy import CrossEntropy, CrossEntropyIntercept
from labelcert.losses.hinge import Hinge
from labelcert.losses.logistic import Logistic, LogisticIntercept
from labelcert.losses.square import Linear, Square
from labelcert.losses.squared_hinge import SquaredHinge

LOSSES: dict[str, Loss] = {
    loss.name: loss
    for loss in (
        Hinge(),
        SquaredHinge(),
        Logistic(),
        LogisticIntercept(),
        CrossEntropy(),
        CrossEntropyIntercept(),
        Square(),
        Linear(),
    )
}

LINEAR = Linear.name
"""In place of a loss: nothing is trained, and scores are the given rows times the labels."""


def loss_names() -> list[str]:
    """What ``loss=`` takes.

    Examples
    --------
    >>> loss_names()[:3]
    ['hinge', 'squared_hinge', 'logistic']
    """
    return [name for name in LOSSES if name != LINEAR]


def get_loss(name: str) -> Loss:
    """The loss of a name."""
    if name not in LOSSES or name == LINEAR:
        raise InvalidInput(f"loss must be one of {', '.join(loss_names())}, got {name!r}")
    return LOSSES[name]


__all__ = ["LINEAR", "LOSSES", "Exactly", "Loss", "get_loss", "loss_names"]
