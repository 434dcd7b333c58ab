"""The numbers that the paper prints, as data.

The tables in this folder were read from the paper's source. If the source is available, a test reads it again. The
paper prints some certified ratios as a change against the GCN. Here they are sums of the two printed numbers, with
twice the rounding.
"""

from __future__ import annotations

import csv
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import TypeVar

import msgspec

T = TypeVar("T")

HOURS_PER_COLLECTIVE_CERTIFICATE = 4.2
"""The paper's average for one collective certificate at one budget on Cora-MLb."""

KARATE_GCN_DROP = 50.0
"""Points of accuracy that the GCN loses to one flip in the paper's Figure 1."""


@dataclass(frozen=True)
class PrintedShare:
    """One printed mean and standard deviation, in percent."""

    table: str
    """Label in the paper's source; "text" for numbers in the text."""
    dataset: str
    model: str
    certificate: str
    """As in `CertificateSpec.label`."""
    epsilon: float
    printed: str
    """The text in the table, for example a change against the GCN."""
    mean: float
    std: float
    rounding: float
    """The largest error from rounding the printed numbers."""


@dataclass(frozen=True)
class Rank:
    """A model's average rank over a range of budgets."""

    dataset: str
    model: str
    epsilons: str
    rank: float


@dataclass(frozen=True)
class Difference:
    """How much the mean collective ratio drops between two budgets, in points."""

    where: str
    dataset: str
    model: str
    from_epsilon: float
    to_epsilon: float
    drop: float


@dataclass(frozen=True)
class Threshold:
    """The smallest budget at which no prediction is certified, in (above, at_most]; model "" means all others."""

    where: str
    dataset: str
    model: str
    above: float
    at_most: float


def _table(name: str, kind: type[T]) -> Callable[[], tuple[T, ...]]:
    """What reads a table, once."""

    @cache
    def read() -> tuple[T, ...]:
        text = files(__package__).joinpath(f"{name}.csv").read_text(encoding="utf-8")
        return msgspec.convert(list(csv.DictReader(text.splitlines())), tuple[kind, ...], strict=False)  # type: ignore[valid-type]

    return read


certified = _table("certified", PrintedShare)
ranks = _table("ranks", Rank)
differences = _table("differences", Difference)
thresholds = _table("thresholds", Threshold)
