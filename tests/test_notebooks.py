"""Notebooks run as written, and show tables and pictures."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

nbformat = pytest.importorskip("nbformat", reason="notebooks need nbclient, nbformat and ipykernel")
nbclient = pytest.importorskip("nbclient", reason="notebooks need nbclient, nbformat and ipykernel")

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def outputs(tmp_path_factory: pytest.TempPathFactory) -> list[list[Any]]:
    notebook = nbformat.read(ROOT / "docs" / "notebooks" / "first-certificate.ipynb", as_version=4)
    folder = tmp_path_factory.mktemp("notebook")
    nbclient.NotebookClient(notebook, timeout=200, resources={"metadata": {"path": str(folder)}}).execute()
    return [cell.outputs for cell in notebook.cells if cell.cell_type == "code"]


def shown(outputs: list[list[Any]], kind: str) -> list[str]:
    return [out.data[kind] for cell in outputs for out in cell if "data" in out and kind in out.data]


def test_tables_and_pictures(outputs: list[list[Any]]) -> None:
    tables = shown(outputs, "text/html")
    for words in ("Certificate", "Graph", "Threat", "each alone, %", "GCN(", "becomes"):
        assert any(words in table for table in tables), words
    assert len(shown(outputs, "image/png")) == 2


def test_interrupted_in_the_middle(outputs: list[list[Any]]) -> None:
    printed, certificate = outputs[-1]
    assert printed.text.startswith("interrupted after")
    assert "intervals (interrupted)" in certificate.data["text/html"]
    assert " to " in certificate.data["text/html"]
