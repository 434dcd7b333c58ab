"""Which machine trains again what a certificate is about."""

from __future__ import annotations

from collections.abc import Callable

from labelcert.verification.large import hinge_of
from labelcert.verification.linear_radii import always_at_cap
from labelcert.verification.machines import LinearTrainer, Trainer
from labelcert.verification.smooth import LogisticTrainer, SoftmaxTrainer, SquaredHingeTrainer
from labelcert.verification.statement import LINEAR, Statement


def is_linear(statement: Statement, pace: Callable[[], None]) -> bool:
    """Whether all scores are linear in the labels, whatever the adversary does."""
    if statement.loss == "hinge":
        return statement.crowd is None and always_at_cap(statement, pace)
    return statement.loss in ("square", "square_intercept", LINEAR)


def machine_of(statement: Statement, linear: bool, pace: Callable[[], None]) -> Trainer:
    """What trains the models of a problem; ``linear`` where all scores are linear in the labels."""
    if linear:
        return LinearTrainer(statement, pace)
    if statement.loss.startswith("cross_entropy") and statement.n_classes > 2:
        return SoftmaxTrainer(statement, pace)
    if statement.loss == "hinge":
        return hinge_of(statement, pace)
    return (
        SquaredHingeTrainer(statement, pace) if statement.loss == "squared_hinge" else LogisticTrainer(statement, pace)
    )
