"""Notebooks of the documentation: execute them, and read what they show.

``python -m tests.helpers.notebooks`` writes the outputs anew: of all notebooks, or of those named after it.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import nbclient
import nbformat

FOLDER = Path(__file__).parents[2] / "docs" / "notebooks"


def read(path: Path) -> Any:
    """A notebook as it is stored."""
    return nbformat.read(path, as_version=4)


def executed(path: Path, folder: Path) -> Any:
    """The notebook with the outputs of an execution in an empty folder, without times or versions."""
    notebook = read(path)
    resources = {"metadata": {"path": str(folder)}}
    client = nbclient.NotebookClient(
        notebook, timeout=200, record_timing=False, coalesce_streams=True, resources=resources
    )
    client.execute(env={**os.environ, "PYTHONWARNINGS": "ignore:IProgress not found"})  # tqdm asks for widgets
    notebook.metadata.language_info = {"name": "python"}
    return notebook


def printed(notebook: Any) -> list[list[str]]:
    """For each code cell: what it prints, and its results as plain text. Pictures and HTML say the same once more."""
    return [
        [out.text if "text" in out else out.data["text/plain"] for out in cell.outputs]
        for cell in notebook.cells
        if cell.cell_type == "code"
    ]


if __name__ == "__main__":
    for path in [FOLDER / name for name in sys.argv[1:]] or sorted(FOLDER.glob("*.ipynb")):
        with tempfile.TemporaryDirectory() as empty:
            nbformat.write(executed(path, Path(empty)), path)
        print("written:", path.name)
