"""Where local copies of datasets lie: the folder the user names, or the user's cache."""

from __future__ import annotations

import os
import sys
from pathlib import Path

DATA_DIR_VARIABLE = "LABELCERT_DATA_DIR"
"""Environment variable that names the folder with local copies of the datasets."""


def data_folder(data_dir: str | os.PathLike[str] | None = None) -> Path:
    """Folder with local copies: `data_dir`, else what LABELCERT_DATA_DIR names, else the user's cache.

    Examples
    --------
    >>> data_folder("copies").name
    'copies'
    """
    named = data_dir if data_dir is not None else os.environ.get(DATA_DIR_VARIABLE)
    return Path(named).expanduser() if named else user_cache()


def user_cache() -> Path:
    """Folder in the user's cache where downloaded datasets are kept.

    Examples
    --------
    >>> user_cache().name
    'labelcert'
    """
    if sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    elif sys.platform == "darwin":
        base = Path.home() / "Library" / "Caches"
    else:
        base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return base / "labelcert"
