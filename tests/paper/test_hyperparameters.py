"""What cross-validation returns: one candidate on all folds of all splits, by the paper's two rules."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from labelcert.graphs import Graph
from labelcert.models import GCN, Recipe
from labelcert.paper import hyperparameters
from labelcert.paper.hyperparameters import hyperparameter_sheets
from labelcert.pipeline.settings import ModelSetting
from labelcert.studies import Graphs


def test_all_folds_of_all_splits_count_alike() -> None:
    rng = np.random.default_rng(0)
    folds = rng.random((3, 4))
    parts = [Recipe(GCN(C=1.0), accuracy=float(own.mean()), deviation=float(own.std())) for own in folds]
    pooled = hyperparameters._pooled(parts)
    assert pooled.accuracy == pytest.approx(folds.mean())
    assert pooled.deviation == pytest.approx(folds.std())


def test_the_protocol_of_the_paper() -> None:
    setting = ModelSetting("csbm", "gcn", 1.0, {})
    accuracies = {0.1: 0.6, 1.0: 0.75, 10.0: 0.8}
    measured = [Recipe(GCN(C=C), accuracy=a, deviation=0.1) for C, a in accuracies.items()]
    for rule, found, same in (("best", 10.0, False), ("smallest", 1.0, True)):
        told = hyperparameters._returned("CSBM", "GCN", rule, setting, measured)
        assert found == told.found.C
        assert told.within
        assert (told.row()[-1] == "the same") is same
        assert told.accuracy == pytest.approx((75.0, 100 * accuracies[found]))
    far = hyperparameters._returned("CSBM", "GCN", "best", replace(setting, C=0.1), measured)
    assert (far.within, far.row()[-1]) == (False, "no")


def test_every_model_of_a_table_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hyperparameters, "TABLES", ("cba",))
    monkeypatch.setattr(hyperparameters, "C_GRID", (0.1, 1.0))
    graph = Graph(np.zeros((40, 40)), np.random.default_rng(0).normal(size=(40, 2)), np.arange(40) % 2, name="cba")
    monkeypatch.setattr(Graphs, "load", lambda self, spec, seed, parameters: graph)
    whole, counts = hyperparameter_sheets(Graphs(tmp_path), [0])
    assert len(whole.rows) == 8
    assert [row[0] for row in counts.rows] == ["CBA"]
    assert {row[2] for row in whole.rows} == {"smallest"}
