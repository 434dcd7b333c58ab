"""Options and C that are known to be good for a model on a dataset, as data. Extensions add the paper's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from types import MappingProxyType
from typing import Any

from labelcert.extensions import load_extensions
from labelcert.models import models
from labelcert.models.selection import Rule

FREE_OPTIONS = ("C", "variant")
"""Options that a setting does not depend on."""


@dataclass(frozen=True)
class ModelSetting:
    """Options of one model on one dataset."""

    dataset: str
    model: str
    C: float
    options: Mapping[str, Any]
    """All other options that differ from the model's defaults."""
    source: str = "paper"
    """The paper, or "default" for a choice of this package."""

    def complete(self) -> dict[str, Any]:
        """All options of the model except C and the variant, with defaults."""
        info = next(info for info in models() if info.name == self.model)
        defaults = {f.name: f.default for f in fields(info.model) if f.name not in FREE_OPTIONS}
        return {**defaults, **self.options}


SETTINGS: list[ModelSetting] = [
    ModelSetting("karate", model, 0.001, MappingProxyType({}), source="default") for model in ("gcn", "sgc")
]
"""All that are known. The karate club's C is what 4-fold cross-validation chooses, for each of the seeds 0 to 4."""

RULE_OF: dict[str, Rule] = {}
"""How C is chosen by cross-validation on a dataset; "best" elsewhere."""


def known_setting(dataset: str, model: str, given: Mapping[str, Any] | None = None) -> ModelSetting | None:
    """The first setting that agrees with the options that are fixed already, or None."""
    fixed = {name: value for name, value in (given or {}).items() if name not in FREE_OPTIONS}
    load_extensions()
    for setting in SETTINGS:
        if (setting.dataset, setting.model) == (dataset, model):
            complete = setting.complete()
            if all(name in complete and complete[name] == value for name, value in fixed.items()):
                return setting
    return None


def known_rule(dataset: str) -> Rule:
    """How C is chosen on a dataset where nobody says."""
    load_extensions()
    return RULE_OF.get(dataset, "best")
