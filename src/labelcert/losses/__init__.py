"""The losses that models are trained with. A new loss is one file and one line here."""

from __future__ import annotations

from labelcert.errors import InvalidInput
from labelcert.losses.base import Exactly, Loss
from labelcert.losses.cross_entropy import CrossEntropy
from labelcert.losses.hinge import Hinge
from labelcert.losses.logistic import Logistic
from labelcert.losses.square import NothingKnown, NothingTrained, Square
from labelcert.losses.squared_hinge import SquaredHinge

KINDS: tuple[type[Loss], ...] = (Hinge, SquaredHinge, Logistic, CrossEntropy, Square, NothingTrained, NothingKnown)

LOSSES: dict[str, Loss] = {
    loss.name: loss for kind in KINDS for loss in (kind(), *([kind(intercept=True)] if kind.may_have_intercept else []))
}
"""By name; one with an intercept has a name of its own."""

LINEAR, UNKNOWN = NothingTrained.kind, NothingKnown.kind
"""In place of a loss: nothing is trained, and scores are the given rows times the labels; or nobody knows what is."""


def loss_names() -> list[str]:
    """What ``loss=`` takes; a name with ``_intercept`` says ``intercept=True`` as well.

    Examples
    --------
    >>> loss_names()[:4]
    ['hinge', 'squared_hinge', 'logistic', 'logistic_intercept']
    """
    return [name for name in LOSSES if name not in (LINEAR, UNKNOWN)]


def get_loss(name: str, *, intercept: bool = False) -> Loss:
    """The loss of a name.

    Examples
    --------
    >>> get_loss("logistic", intercept=True).name
    'logistic_intercept'
    """
    if name not in loss_names():
        raise InvalidInput(f"loss must be one of {', '.join(loss_names())}, got {name!r}")
    found = LOSSES[name]
    if not intercept or found.intercept:
        return found
    if not found.may_have_intercept:
        able = " or ".join(repr(kind.kind) for kind in KINDS if kind.may_have_intercept)
        raise InvalidInput(f"an intercept that is not regularised goes with loss={able}, got loss={name!r}")
    return type(found)(intercept=True)


__all__ = ["LINEAR", "LOSSES", "UNKNOWN", "Exactly", "Loss", "get_loss", "loss_names"]
