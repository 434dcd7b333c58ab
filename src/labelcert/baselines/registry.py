"""All baselines by name. A further one is a module with a function, and an entry here."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

from labelcert.baselines.proving import Proved
from labelcert.baselines.sensitivity import sensitivity
from labelcert.baselines.smoothing import smoothing
from labelcert.checking import nearest
from labelcert.engines.partition.engine import DealtLabels, black_box_radii
from labelcert.engines.partition.ensemble import Votes
from labelcert.errors import InvalidInput
from labelcert.problem import Problem


def partition_votes(problem: Problem, *, parts: int = 30) -> Proved:
    """Partition aggregation: votes of models on parts of the labels; each changed label may turn the vote of its part.

    Labels are dealt out as by :func:`labelcert.certify_partition`.
    """
    dealt = cast(DealtLabels, problem.by)
    votes = Votes(problem, dealt.parts)
    return Proved(votes, black_box_radii(votes), {"parts": int(parts), "part_of": dealt.part_of.tolist()})


@dataclass(frozen=True)
class BaselineInfo:
    """One certificate from the literature."""

    name: str
    description: str
    reference: str
    losses: tuple[str, ...]
    """What its model may be trained with; the first is the default."""
    prove: Callable[..., Proved]
    """Takes the problem, and the options as keywords."""
    deals_out: bool = False
    """Whether its classifier is an ensemble on ``parts`` of the labels."""

    @property
    def options(self) -> dict[str, Any]:
        """The options that it takes, with their defaults."""
        parameters = inspect.signature(self.prove).parameters.values()
        bound = self.prove.keywords if isinstance(self.prove, partial) else {}
        return {p.name: p.default for p in parameters if p.kind is p.KEYWORD_ONLY and p.name not in bound}

    def check(self, loss: str, options: Iterable[str]) -> None:
        """Refuse a loss or an option that it does not have."""
        if loss not in self.losses:
            known = " or ".join(map(repr, self.losses))
            raise InvalidInput(f"the baseline {self.name!r} needs the loss {known}, got {loss!r}")
        for option in options:
            if option not in self.options:
                takes = f"takes {', '.join(self.options)}" if self.options else "takes no options"
                raise InvalidInput(f"the baseline {self.name!r} {takes}, got {option!r}; leave it out")


_ROSENFELD = "Rosenfeld, Winston, Ravikumar, Kolter: Certified robustness to label-flipping attacks (ICML 2020)"

_LISTED = (
    BaselineInfo(
        "smoothing",
        "kernel ridge regression under random labels: Chernoff bound, then Kullback-Leibler divergence",
        _ROSENFELD,
        ("square",),
        partial(smoothing, tight=False),
    ),
    BaselineInfo(
        "tighter-smoothing",
        "the same classifier: Chernoff bound, then the Neyman-Pearson lemma, the best that one probability allows",
        f"{_ROSENFELD}, with the bound of Lee, Yuan, Chang, Jaakkola (NeurIPS 2019) for discrete noise",
        ("square",),
        partial(smoothing, tight=True),
    ),
    BaselineInfo(
        "partition-votes",
        "an ensemble on parts of the labels: votes are counted, and a changed label may turn its part",
        "Levine, Feizi: Deep partition aggregation (ICLR 2021)",
        ("hinge", "square", "squared_hinge", "logistic"),
        partition_votes,
        deals_out=True,
    ),
    BaselineInfo(
        "sensitivity",
        "differential privacy of a noisy score: the score over the most that single labels can do to it",
        "Ma, Zhu, Hsu: Data poisoning against differentially-private learners (IJCAI 2019)",
        ("hinge", "square"),
        sensitivity,
    ),
)
BASELINES: dict[str, BaselineInfo] = {info.name: info for info in _LISTED}
"""Every baseline by name."""


def baseline_named(name: str) -> BaselineInfo:
    """Look a baseline up."""
    if name in BASELINES:
        return BASELINES[name]
    raise InvalidInput(f"using must name a baseline ({', '.join(BASELINES)}), got {name!r}{nearest(name, BASELINES)}")
