"""The folder that holds local copies of the datasets: one the user names, or the user's cache."""

from __future__ import annotations

import os
from pathlib import Path

import platformdirs

DATA_DIR_VARIABLE = "LABELCERT_DATA_DIR"
"""Environment variable that names the folder with local copies of the datasets."""


def data_folder(data_dir: str | os.PathLike[str] | None = None) -> Path:
    """Return `data_dir` if given, else the folder that LABELCERT_DATA_DIR names, else the user's cache."""
    named = data_dir if data_dir is not None else os.environ.get(DATA_DIR_VARIABLE)
    return Path(named).expanduser() if named else user_cache()


def user_cache() -> Path:
    """Return the folder in the user's cache that holds downloaded datasets."""
    return platformdirs.user_cache_path("labelcert", appauthor=False, opinion=False)
