"""What a journal holds: one record for each cell, with its result or the reason why there is none."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any

import msgspec

from labelcert._version import NUMERICS
from labelcert.finite.transfer import Counts

Record = dict[str, Any]
Count = Annotated[int, msgspec.Meta(ge=0, le=2**40)]


class RecordStatus(StrEnum):
    """Whether a record holds a result, or the reason why there is none."""

    DONE = "done"
    FAILED = "failed"


class Attack(msgspec.Struct, forbid_unknown_fields=True):
    """The strongest known attack with one flip: labelled nodes that are flipped, and test nodes that change."""

    labels: list[Count]
    changed: list[Count]


class Transferred(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """What networks of one width did, by how they were trained."""

    width: Count
    device: str
    theory: Counts | None = None
    practice: Counts | None = None


class Worst(msgspec.Struct, forbid_unknown_fields=True):
    """Between which shares the worst value of a metric lies, for every budget."""

    metric: str
    positive: str
    lower: list[float]
    upper: list[float]


class Collapse(msgspec.Struct, forbid_unknown_fields=True):
    """What the worst attacks do to two classes, for every budget."""

    classes: list[str]
    predicted: list[Count]
    """Nodes of each class, without an attack."""
    flips: list[list[Count]]
    """Labels of each class that the strongest known attack flips."""
    after: list[list[Count]]
    """Predictions of each class after it."""
    one_sided: list[list[Count]]
    """For each class, the most predictions that flips of its labels alone change."""
    across: float
    """Influence of the other class's labels on scores, in units of the own one's."""
    ceiling: list[Count]
    """Where scores are linear: more predictions are provably never changed."""

    def __post_init__(self) -> None:
        if not len(self.classes) == len(self.predicted) == len(self.one_sided) == 2:
            raise ValueError("not two classes")
        if any(len(row) != 2 for row in (*self.flips, *self.after)):
            raise ValueError("not one count for each class")


class Result(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """All that studies read off a certificate: counts of nodes for every budget 0..``max_flips``."""

    n_test: Count
    labels: Count
    max_flips: Count
    C: float
    engine: str
    exact: bool
    stopped: str
    problem_sha256: str
    kernel_shift: float
    correct: Count
    """Nodes that are predicted correctly without an attack."""
    survive_lower: list[Count]
    """Nodes that survive a budget, each alone."""
    survive_upper: list[Count]
    correct_lower: list[Count]
    """Of these, those that are predicted correctly."""
    correct_upper: list[Count]
    changed_lower: list[Count]
    """Most nodes that one attack changes."""
    changed_upper: list[Count]
    correct_after: list[Count]
    """Nodes that are predicted correctly after the strongest known attack."""
    attack: Attack | None
    transfer: Transferred | None = None
    """What networks of finite width did, where the study trains some."""
    collapse: Collapse | None = None
    """What attacks do to both classes, where the study asks for it."""
    moves: dict[str, Count] = {}
    """What cheapest attacks on single nodes do to labels, where the study asks for it."""
    worst: list[Worst] = []
    """Of each metric, where the study asks for some."""

    def __post_init__(self) -> None:
        pairs = (
            (self.survive_lower, self.survive_upper),
            (self.correct_lower, self.correct_upper),
            (self.changed_lower, self.changed_upper),
            (self.correct_after, self.correct_after),
        )
        if not (self.n_test >= 1 and self.max_flips >= 0 and 0 <= self.correct <= self.n_test):
            raise ValueError("counts out of range")
        for one in self.worst:
            if not len(one.lower) == len(one.upper) == self.max_flips + 1:
                raise ValueError("not one value for each budget")
            if not all(0 <= low <= high <= 1 for low, high in zip(one.lower, one.upper, strict=True)):
                raise ValueError("shares out of range")
        if (c := self.collapse) is not None:
            sizes = {len(c.flips), len(c.after), *map(len, c.one_sided), len(c.ceiling or c.flips)}
            if sizes != {self.max_flips + 1}:
                raise ValueError("not one entry for each budget")
        for lower, upper in pairs:
            if not len(lower) == len(upper) == self.max_flips + 1:
                raise ValueError("not one count for each budget")
            if not all(0 <= low <= high <= self.n_test for low, high in zip(lower, upper, strict=True)):
                raise ValueError("counts out of range")


class Validated(msgspec.Struct, forbid_unknown_fields=True):
    """Cross-validated accuracy, and its standard error, for each C."""

    accuracy: list[Annotated[float, msgspec.Meta(ge=0, le=1)]]
    error: list[Annotated[float, msgspec.Meta(ge=0, le=1)]]

    def __post_init__(self) -> None:
        if not 0 < len(self.accuracy) == len(self.error):
            raise ValueError("not one error for each accuracy")


class RunStamp(msgspec.Struct):
    """How a record came about; ``numerics`` is the version of all that decides its numbers."""

    seconds: float
    finished: str
    versions: dict[str, str]
    numerics: int = 0


class _Stored(msgspec.Struct, omit_defaults=True):
    cell: str
    status: RecordStatus
    about: dict[str, Any]
    run: RunStamp
    result: Result | None = None
    validated: Validated | None = None
    """In place of a result, where no certificate was asked for."""
    reason: str = ""
    traceback: str = ""

    def __post_init__(self) -> None:
        if (self.result is not None) + (self.validated is not None) != (self.status is RecordStatus.DONE):
            raise ValueError("a result, or a reason why there is none")


def read_record(plain: Any) -> Record | None:
    """A whole record, whose parts fit each other, from what a journal holds; None if it is not."""
    try:
        record: Record = msgspec.to_builtins(msgspec.convert(plain, _Stored))
    except (msgspec.ValidationError, RecursionError):
        return None
    return record


def is_old(plain: Any) -> bool:
    """Whether a record is of an engine whose numbers may differ from today's."""
    try:
        return isinstance(plain["cell"], str) and plain["run"].get("numerics", 0) != NUMERICS
    except (KeyError, TypeError, AttributeError):
        return False
