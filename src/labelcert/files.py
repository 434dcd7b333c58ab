"""Files that appear whole or not at all."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from labelcert.text import printable

if TYPE_CHECKING:
    import pandas as pd


@contextlib.contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Write to the path that is given here; the file appears under its name when that has succeeded.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with replacing(Path(folder) / "a.txt") as partial:
    ...         _ = partial.write_text("whole")
    ...     (Path(folder) / "a.txt").read_text()
    'whole'
    """
    target = Path(path)
    partial = target.with_name(f"{target.name}.partial")
    try:
        yield partial
        os.replace(partial, target)
    except BaseException:
        with contextlib.suppress(OSError):
            partial.unlink()
        raise


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
