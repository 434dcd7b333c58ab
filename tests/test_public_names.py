"""Names that people import, and that importing takes no time."""

from __future__ import annotations

import importlib
import subprocess
import sys

import pytest

import labelcert


def test_every_public_name_has_a_home() -> None:
    assert {*labelcert._HOME_OF, "__version__"} > set(labelcert.__all__)
    assert len(labelcert.__all__) == len(set(labelcert.__all__)) <= 25
    for name, home in labelcert._HOME_OF.items():
        assert getattr(labelcert, name) is getattr(importlib.import_module(f"labelcert.{home}"), name)
    assert set(labelcert.__all__) <= set(dir(labelcert))


def test_parts_of_the_package_are_imported_when_asked_for() -> None:
    code = "import labelcert; labelcert.graphs.karate(); labelcert.models.GCN(); print(hasattr(labelcert, 'nothing'))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_unknown_names() -> None:
    with pytest.raises(AttributeError, match="no attribute 'certfy'"):
        labelcert.certfy  # noqa: B018
