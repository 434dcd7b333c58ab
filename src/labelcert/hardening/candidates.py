"""Recipes to choose among, cheap ones first."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from labelcert.checking import whole_number
from labelcert.errors import InvalidInput
from labelcert.hardening.learners import learner_recipes
from labelcert.losses import get_loss
from labelcert.losses.cross_validation import C_GRID
from labelcert.models import Model, Recipe, model_from_name, name_of
from labelcert.models.selection import variants
from labelcert.problem import Threat
from labelcert.problem.owners import total_cost
from labelcert.problem.validation import check_seconds

Grid = Mapping[str, Sequence[Any]]

MODELS: dict[str, Grid] = {
    "gcn": {"depth": (1, 2), "normalization": ("row", "symmetric")},
    "sgc": {"depth": (1, 2, 4, 10, 30)},
    "ppnp": {"alpha": (0.003, 0.01, 0.03, 0.1)},
    "appnp": {"alpha": (0.02, 0.1, 0.3)},
    "gcn-skip-pc": {},
    "graphsage": {},
    "mlp": {},
}
"""Architectures and options that are searched where nobody names any.

Smoothing over large neighbourhoods (SGC of many steps, small α) often certifies the most.
"""

WITHOUT_EDGES: dict[str, Grid] = {"linear": {}, "rbf": {"gamma": (0.01, 0.1, 1.0)}, "mlp": {"depth": (1, 2)}}
"""The same where there is no edge: plain tables."""

LOSSES = ("hinge", "logistic", "square")

MOST_SETS = 2_000_000
"""With more sets of labels within budget, only losses that are linear in the labels are tried, and ensembles."""


def settings(models: Mapping[str, Grid] | Sequence[str] | None) -> list[Model]:
    """Models, without C, that a user asks for: all by default, by name, or with grids of their own."""
    if models is None:
        models = MODELS
    elif not isinstance(models, Mapping):
        models = {name: MODELS.get(name, {}) for name in models}
    if not models:
        raise InvalidInput("models must name at least one model to search")
    each = (variants(model_from_name(name), grid, name, ("C", "variant")) for name, grid in models.items())
    return [model for found in each for model in found]


def effort(model: Model) -> float:
    """Roughly what the kernel of a model takes, compared with others on the same graph."""
    if hasattr(model, "iterations"):
        return 5.0 if model.iterations is None else 1.0
    return 5.0 if name_of(model) == "ppnp" else float(getattr(model, "depth", 1))


def within_reach(loss: str, m: int, flips: int) -> bool:
    """Whether every set of up to ``flips`` among m labels can be retrained on, or nothing has to be."""
    return get_loss(loss).always_linear or sum(math.comb(m, k) for k in range(flips + 1)) <= MOST_SETS


def no_parts(loss: str, n_classes: int) -> str:
    """Why no ensemble on parts of the labels is trained with a loss; empty where it can be."""
    trained_with = get_loss(loss)
    if trained_with.intercept:
        return "parts may hold labels of one class alone, so ensembles have no intercepts that are not regularised"
    return "it trains no class alone" if trained_with.coupled and n_classes > 2 else ""


@dataclass(frozen=True, kw_only=True)
class ModelSearch:
    """What is searched; see :func:`labelcert.harden` for each of its fields."""

    flips: int
    models: Mapping[str, Grid] | Sequence[str] | None = None
    losses: Sequence[str] = LOSSES
    C: Sequence[float] = C_GRID
    parts: Sequence[int] | None = None
    floor: float | None = None
    seed: int = 0
    inductive: bool = False
    threat: Threat | None = None
    device: str = "auto"
    collective: bool = True
    time_limit: float | None = None
    model_time_limit: float | None = None
    learner: Any = None

    @property
    def limits(self) -> dict[str, Any]:
        """What certificates of any budget are asked with."""
        return {"threat": self.threat, "collective": self.collective, "time_limit": self.model_time_limit}

    def checked(self, m: int) -> ModelSearch:
        """The same with whole numbers; refuses what makes no sense for m labels."""
        flips = whole_number("flips", self.flips, 0, m if self.threat is None else total_cost(self.threat, m))
        if self.floor is not None and not 0 <= self.floor <= 1:
            raise InvalidInput(f"floor must be an accuracy between 0 and 1, got {self.floor!r}")
        for loss in self.losses:
            get_loss(loss)
        if not self.losses or not len(self.C) or min(self.C) <= 0:
            raise InvalidInput("losses and C must hold at least one entry each, and every C must be positive")
        check_seconds("time_limit", self.time_limit)
        check_seconds("model_time_limit", self.model_time_limit)
        parts = [whole_number("parts", count, 1, m, "one label each") for count in self.parts or ()]
        return replace(self, flips=flips, parts=parts)

    def plans(self, m: int, n_classes: int) -> list[Recipe]:
        """All that is searched, each without its C: cheap kernels first, each with all losses.

        Models that cannot be certified at that many flips are left out.
        """
        found = []
        for model in sorted(settings(self.models), key=effort):
            for loss, count in itertools.product(self.losses, (None, *(self.parts or ()))):
                if count is None and within_reach(loss, m, self.flips):
                    found.append(Recipe(model, loss))
                elif count is not None and not no_parts(loss, n_classes):
                    found.append(Recipe(model, loss, parts=count, seed=self.seed))
        own = [] if self.learner is None else learner_recipes(self.learner, self.parts, m, self.seed)
        return list(dict.fromkeys([*found, *own]))

    def left_out(self, m: int, n_classes: int) -> Iterator[str]:
        """What is not searched, and why."""
        for loss in self.losses:
            if not within_reach(loss, m, self.flips):
                yield f"single models with the loss {loss} were left out: {self.flips} flips of {m} labels are too many"
            if self.parts and (reason := no_parts(loss, n_classes)):
                yield f"parts with the loss {loss} were left out: {reason}"
