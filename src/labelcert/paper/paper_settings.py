"""The paper's options and C for each dataset and model: ``settings.csv``, where the first row that agrees counts.

They come from the paper's appendix on hyperparameters and from the configurations that its authors published. For real
graphs, depth 1 with the usual normalisation comes first, then the other settings that were studied. Of APPNP on
random graphs, the first row is the model of the main comparison; the others belong to the study of alpha.

Text and configurations differ twice, and the published numbers decide. For GCN Skip-alpha on CSBM at depth 1, the text
says row normalisation, but every cell of the table comes from the symmetric one. For APPNP on CBA, the text says C =
0.001, and the configurations 0.25.
"""

from __future__ import annotations

import csv
from collections.abc import Callable
from importlib.resources import files
from types import MappingProxyType
from typing import Any

from labelcert.pipeline.settings import RULE_OF, SETTINGS, ModelSetting

OPTIONS: dict[str, Callable[[str], Any]] = {"depth": int, "normalization": str}
"""How options are read; all others are numbers."""


def _setting(row: dict[str, str]) -> ModelSetting:
    dataset, model, C = (row.pop(name) for name in ("dataset", "model", "C"))
    options = {name: OPTIONS.get(name, float)(text) for name, text in row.items() if text}
    return ModelSetting(dataset, model, float(C), MappingProxyType(options))


_TEXT = files(__package__).joinpath("settings.csv").read_text(encoding="utf-8")
PAPER_SETTINGS = tuple(map(_setting, csv.DictReader(_TEXT.splitlines())))
SETTINGS.extend(PAPER_SETTINGS)
RULE_OF.update(dict.fromkeys(("csbm", "cba", "cora-ml"), "smallest"))
