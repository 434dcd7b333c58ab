"""The numbers that the paper prints, as data.

The tables in this folder were read from the paper's source. If the source is available, a test reads it again. The
paper prints some certified ratios as a change against the GCN. Here they are sums of the two printed numbers, with
twice the rounding.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

import msgspec

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


@cache
def certified() -> tuple[PrintedShare, ...]:
    """All certified ratios and accuracies."""
    return msgspec.convert(_rows("certified.csv"), tuple[PrintedShare, ...], strict=False)


@cache
def ranks() -> tuple[Rank, ...]:
    """The table of average ranks."""
    return msgspec.convert(_rows("ranks.csv"), tuple[Rank, ...], strict=False)


@cache
def differences() -> tuple[Difference, ...]:
    """Drops of the collective ratio that the text mentions."""
    return msgspec.convert(_rows("differences.csv"), tuple[Difference, ...], strict=False)


@cache
def thresholds() -> tuple[Threshold, ...]:
    """Budgets at which nothing is certified, as the text has them."""
    return msgspec.convert(_rows("thresholds.csv"), tuple[Threshold, ...], strict=False)


def _rows(name: str) -> list[dict[str, str]]:
    text = files(__package__).joinpath(name).read_text(encoding="utf-8")
    return list(csv.DictReader(text.splitlines()))
