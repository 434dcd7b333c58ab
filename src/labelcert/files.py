"""Files that appear whole or not at all."""

from __future__ import annotations

import contextlib
import io
import os
import secrets
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from labelcert.arrays import Values
from labelcert.reading import UNPACKED
from labelcert.text import printable

if TYPE_CHECKING:
    import pandas as pd

LARGE = 1 << 22
"""Members of archives that are larger are stored unpacked where they would pack too well to be read again."""


@contextlib.contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Write to the path that is given here; the file appears under its name, on the disk, when that has succeeded.

    What is not a plain file, such as ``/dev/stdout``, is written to as it is.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with replacing(Path(folder) / "a.txt") as partial:
    ...         _ = partial.write_text("whole")
    ...     (Path(folder) / "a.txt").read_text()
    'whole'
    """
    target = Path(os.path.realpath(path))
    if target.exists() and not target.is_file():
        yield target
        return
    partial = target.with_name(f".{target.name[:40]}.{secrets.token_hex(8)}.partial")
    try:
        yield partial
        _sync(partial)
        os.replace(partial, target)
        if os.name == "posix":
            _sync(target.parent)
    except BaseException:
        with contextlib.suppress(OSError):
            partial.unlink()
        raise


def _sync(path: Path) -> None:
    """Wait until a file, or the list of files in a folder, is on the disk."""
    number = os.open(path, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)


def write_text(path: Path, text: str) -> None:
    """Write a text file."""
    with replacing(path) as partial:
        partial.write_text(text, encoding="utf-8")


def write_csv(frame: pd.DataFrame, path: Path, *, index: bool = False) -> None:
    r"""Write a table as CSV; control characters in names are written out, as ``\x1b``."""
    shown = frame.reset_index() if index else frame
    shown = shown.map(lambda cell: printable(cell) if isinstance(cell, str) else cell)
    with replacing(path) as partial:
        shown.rename(columns=lambda name: printable(str(name))).to_csv(partial, index=False)


def write_archive(path: str | os.PathLike[str], arrays: Mapping[str, Values], texts: Mapping[str, bytes] = {}) -> None:
    """Write a zip archive of ``.npy`` arrays and texts, which :class:`labelcert.reading.Archive` reads."""
    with replacing(path) as partial, zipfile.ZipFile(partial, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in texts.items():
            archive.writestr(name, text)
        for name, array in arrays.items():
            stream = io.BytesIO()
            np.lib.format.write_array(stream, np.asarray(array), allow_pickle=False)
            content = stream.getvalue()
            packs_well = len(content) > LARGE and len(zlib.compress(content, 1)) * UNPACKED // 2 < len(content)
            archive.writestr(f"{name}.npy", content, zipfile.ZIP_STORED if packs_well else zipfile.ZIP_DEFLATED)
