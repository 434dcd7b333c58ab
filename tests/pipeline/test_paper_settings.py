from __future__ import annotations

from labelcert.graphs.datasets import datasets
from labelcert.models import model_from_name
from labelcert.pipeline import paper_settings
from labelcert.pipeline.paper_settings import paper_setting


def test_the_papers_settings_are_options_of_their_models() -> None:
    names = {info.name for info in datasets()}
    keys = set()
    for setting in paper_settings._SETTINGS:
        assert setting.dataset in names
        model_from_name(setting.model, C=setting.C, **setting.complete())
        assert paper_setting(setting.dataset, setting.model, setting.complete()) == setting
        keys.add((setting.dataset, setting.model, *sorted(setting.complete().items())))
    assert len(keys) == len(paper_settings._SETTINGS)
