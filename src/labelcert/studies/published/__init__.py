"""The numbers that the paper prints, as data.

The tables beside this file were read from the paper's source, and a test reads them again where it is at hand. A
certified ratio that the paper prints as a change against the GCN stands here as the sum of the two printed numbers,
with twice the rounding.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

HOURS_PER_COLLECTIVE_CERTIFICATE = 4.2
"""The paper's average for one collective certificate at one budget on Cora-MLb."""

KARATE_GCN_DROP = 50.0
"""Points of accuracy that one flip costs the GCN in the paper's Figure 1."""


@dataclass(frozen=True)
class Certified:
    """One printed mean and standard deviation, in percent.

    Attributes
    ----------
    table : str
        Label in the paper's source; "text" for numbers in the text.
    dataset, model : str
        Names.
    certificate : str
        Label of the certificate, as in `CertificateSpec.label`.
    epsilon : float
    printed : str
        As it stands there, a change against the GCN for instance.
    mean, std : float
    rounding : float
        What rounding in print can make up, at most.
    """

    table: str
    dataset: str
    model: str
    certificate: str
    epsilon: float
    printed: str
    mean: float
    std: float
    rounding: float


@dataclass(frozen=True)
class Rank:
    """A model's average rank over a range of budgets."""

    dataset: str
    model: str
    epsilons: str
    rank: float


@dataclass(frozen=True)
class Difference:
    """How much the mean collective ratio falls between two budgets, in points."""

    where: str
    dataset: str
    model: str
    from_epsilon: float
    to_epsilon: float
    drop: float


@dataclass(frozen=True)
class Threshold:
    """The smallest budget beyond which no prediction is certified: in (above, at_most]; model "": all others."""

    where: str
    dataset: str
    model: str
    above: float
    at_most: float


@dataclass(frozen=True)
class Statistics:
    """Size of a dataset as the paper's table has it."""

    dataset: str
    nodes: int
    edges: int
    edges_std: int | None
    classes: int


@cache
def certified() -> tuple[Certified, ...]:
    """All certified ratios and accuracies.

    Examples
    --------
    >>> next(n.mean for n in certified() if (n.dataset, n.model, n.epsilon) == ("cora-ml-b", "sgc", 0.1))
    63.2
    """
    numbers = ("epsilon", "mean", "std", "rounding")
    return tuple(
        Certified(**{k: float(v) if k in numbers else v for k, v in row.items()})  # type: ignore[arg-type]
        for row in _rows("certified.csv")
    )


@cache
def ranks() -> tuple[Rank, ...]:
    """The table of average ranks."""
    return tuple(Rank(r["dataset"], r["model"], r["epsilons"], float(r["rank"])) for r in _rows("ranks.csv"))


@cache
def differences() -> tuple[Difference, ...]:
    """Drops of the collective ratio that the text gives."""
    return tuple(
        Difference(r["where"], r["dataset"], r["model"], *(float(r[k]) for k in ("from_epsilon", "to_epsilon", "drop")))
        for r in _rows("differences.csv")
    )


@cache
def thresholds() -> tuple[Threshold, ...]:
    """Budgets beyond which nothing is certified, as the text gives them."""
    return tuple(
        Threshold(r["where"], r["dataset"], r["model"], float(r["above"]), float(r["at_most"]))
        for r in _rows("thresholds.csv")
    )


@cache
def statistics() -> tuple[Statistics, ...]:
    """Sizes of the datasets."""
    return tuple(
        Statistics(
            r["dataset"],
            int(r["nodes"]),
            int(r["edges"]),
            int(r["edges_std"]) if r["edges_std"] else None,
            int(r["classes"]),
        )
        for r in _rows("statistics.csv")
    )


def _rows(name: str) -> list[dict[str, str]]:
    text = files(__package__).joinpath(name).read_text(encoding="utf-8")
    return list(csv.DictReader(text.splitlines()))
