"""Which machine trains again what a certificate is about."""

from __future__ import annotations

from collections.abc import Callable

from labelcert.verification.machines import Hinge, Linear, Machine
from labelcert.verification.statement import Statement

LOSSES = ("hinge", "square")
"""Losses whose models are checked here."""


def machine_of(statement: Statement, linear: bool, pace: Callable[[], None]) -> Machine:
    """What trains the models of a problem; ``linear`` where all scores are linear in the labels."""
    return Linear(statement, pace) if linear else Hinge(statement, pace)
