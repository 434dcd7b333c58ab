"""Notebooks run as written, and print what is stored in them: `make notebooks` stores it anew."""

from __future__ import annotations

import re
from importlib.util import find_spec
from pathlib import Path

import pytest

notebooks = pytest.importorskip(
    "tests.helpers.notebooks", reason="notebooks need nbclient, nbformat and ipykernel: pip install '.[test]'"
)

NOTEBOOKS = sorted(notebooks.FOLDER.glob("*.ipynb"))
EXTRAS = {"distributed": "dask", "torch": "torch", "torch_geometric": "pyg"}
LARGEST = 300_000


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_prints_what_is_stored(path: Path, tmp_path: Path) -> None:
    stored = notebooks.read(path)
    imported = re.findall(r"^(?:import|from) (\w+)", "\n".join(cell.source for cell in stored.cells), re.MULTILINE)
    for package in imported:
        if package in EXTRAS and find_spec(package) is None:
            pytest.skip(f"{package} is not installed: pip install 'labelcert[{EXTRAS[package]}]'")
    assert notebooks.printed(notebooks.executed(path, tmp_path)) == notebooks.printed(stored)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_stored_as_small_and_lasting(path: Path) -> None:
    """With pictures; without warnings, which hold paths of a machine, and without times of an execution."""
    notebook = notebooks.read(path)
    assert path.stat().st_size < LARGEST
    outputs = [out for cell in notebook.cells if cell.cell_type == "code" for out in cell.outputs]
    assert any("image/png" in out.get("data", {}) for out in outputs)
    assert not [out.text for out in outputs if out.get("name") == "stderr"]
    assert not any(cell.metadata for cell in notebook.cells)
    assert notebook.metadata.language_info == {"name": "python"}


def test_interrupted_in_the_middle() -> None:
    notebook = notebooks.read(notebooks.FOLDER / "first-certificate.ipynb")
    (certificate,) = next(cell for cell in notebook.cells if "SIGINT" in cell.source).outputs
    assert "intervals (interrupted)" in certificate.data["text/html"]
    assert " to " in certificate.data["text/html"]
