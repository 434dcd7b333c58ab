"""Where local copies of the datasets are, if there are any."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
NAMED_FOLDER = os.environ.get("LABELCERT_DATA_DIR")
"""Read at import: tests change the variable."""


def data_folder(file: str = "cora_ml.npz") -> Path:
    """The folder that holds a file: the one named in LABELCERT_DATA_DIR, or ``shared`` beside the checkout."""
    for folder in (NAMED_FOLDER, ROOT.parent / "shared" / "datasets"):
        if folder and (Path(folder) / file).is_file():
            return Path(folder)
    pytest.skip("no local copies of the datasets: name a folder in LABELCERT_DATA_DIR")
