from __future__ import annotations

from labelcert.graphs.datasets import datasets
from labelcert.models import model_from_name
from labelcert.paper.paper_settings import PAPER_SETTINGS
from labelcert.pipeline.settings import SETTINGS, known_setting


def test_the_papers_settings_are_options_of_their_models() -> None:
    names = {info.name for info in datasets()}
    keys = set()
    assert set(map(id, PAPER_SETTINGS)) < set(map(id, SETTINGS))
    for setting in SETTINGS:
        assert setting.dataset in names
        model_from_name(setting.model, C=setting.C, **setting.complete())
        assert known_setting(setting.dataset, setting.model, setting.complete()) == setting
        keys.add((setting.dataset, setting.model, *sorted(setting.complete().items())))
    assert len(keys) == len(SETTINGS)
