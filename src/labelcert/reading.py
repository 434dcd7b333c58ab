"""Files from somebody else, read within limits: no device, no archive that unpacks to gigabytes, no pickles."""

from __future__ import annotations

import bz2
import codecs
import csv
import gzip
import io
import lzma
import math
import os
import stat
import tokenize
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

import numpy as np

from labelcert.arrays import Values
from labelcert.memory import require_memory

UNPACKED = 100
"""Most that a packed file may grow by, as a factor."""

ANYWAY = 1 << 28
"""Bytes that are unpacked in any case."""

TEXT_ANYWAY = 1 << 25
"""The same for tables, each row of which takes time."""

READING = 4
"""Memory that reading a file takes at least, as a multiple of its size."""

LARGER = "use a smaller file, or a machine with more memory"

UNREADABLE = (
    ValueError,
    OSError,
    EOFError,
    NotImplementedError,
    RuntimeError,
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
    csv.Error,
)
"""What reading a table may raise."""

_PACKED: dict[str, Callable[[IO[bytes]], IO[bytes]]] = {
    ".gz": lambda stream: gzip.GzipFile(fileobj=stream),  # type: ignore[dict-item, return-value, unused-ignore]
    ".bz2": bz2.BZ2File,
    ".xz": lzma.LZMAFile,
}
PACKED = (*_PACKED, ".zip")
"""Endings of packed files."""

_WORKBOOKS = (b"PK\x03\x04", b"\xd0\xcf\x11\xe0")
"""How workbooks of Excel begin, whatever they are called."""


def require_file(path: str | os.PathLike[str]) -> None:
    """Refuse what is neither a file nor a pipe, such as a folder or a device, which may never end.

    Raises
    ------
    OSError
        In one line, what it is.
    """
    mode = os.stat(path).st_mode
    if not (stat.S_ISREG(mode) or stat.S_ISFIFO(mode)):
        what = "a folder" if stat.S_ISDIR(mode) else "a device or a socket"
        raise OSError(f"{os.fspath(path)} is {what}, not a file")


def read_bytes(path: str | os.PathLike[str], most: int | None = None) -> bytes:
    """The content of a file of at most so many bytes; by default, memory is the limit."""
    require_file(path)
    size = os.stat(path).st_size
    if most is not None and size > most:
        raise OSError(f"{os.fspath(path)} has {size:,} bytes, more than the {most:,} that such a file may have")
    require_memory(READING * size, f"reading {Path(path).name}", LARGER)
    with open(path, "rb") as stream:
        return _limited(stream, max(size, ANYWAY) if most is None else most)


def _limited(stream: IO[bytes], most: int) -> bytes:
    """All that a stream holds, if that is not too much."""
    pieces, left = list[bytes](), most
    while piece := stream.read(1 << 20):
        pieces.append(piece)
        left -= len(piece)
        if left < 0:
            raise ValueError(f"it holds more than {most >> 20:,} MiB; unpack it, or save it to a plain file")
    return b"".join(pieces)


def read_text(path: str | os.PathLike[str]) -> str:
    """The text of a file, unpacked if its name says that it is packed; without NUL characters.

    Raises
    ------
    OSError, EOFError, ValueError, zipfile.BadZipFile, lzma.LZMAError, zlib.error
        The file cannot be read, or is no text.
    """
    return read_decoded(path)[0]


def read_decoded(path: str | os.PathLike[str]) -> tuple[str, str]:
    """The same, and the name of its encoding where that is not UTF-8."""
    content = _unpacked(path)
    if any(content.startswith(start) for start in _WORKBOOKS):
        raise ValueError("it is a workbook or an archive, not text; save it as CSV")
    if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        text, encoding = content.decode("utf-16"), "UTF-16"
    else:
        try:
            text, encoding = content.decode("utf-8-sig"), ""
        except UnicodeDecodeError:
            text, encoding = _windows(content), "Windows-1252 (Latin-1)"
    if "\0" in text:
        line = text[: text.index("\0")].count("\n") + 1
        raise ValueError(f"line {line} holds a NUL character, so it is not text in UTF-8; save it as UTF-8")
    return text, encoding


def _windows(content: bytes) -> str:
    """Text as Excel saves it where nobody asks for UTF-8."""
    try:
        return content.decode("cp1252")
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        raise ValueError(f"line {line} is neither UTF-8 nor Windows-1252; save it as UTF-8") from None


def _unpacked(path: str | os.PathLike[str]) -> bytes:
    """The content of a file, unpacked if its name says that it is packed."""
    content = read_bytes(path)
    suffix = Path(path).suffix.lower()
    if suffix == ".zip":
        archive = Archive(io.BytesIO(content), TEXT_ANYWAY)
        if len(archive.names) != 1:
            raise ValueError(f"one file was expected in the archive, not {len(archive.names)}")
        return archive.read(archive.names[0])
    if suffix in _PACKED:
        with _PACKED[suffix](io.BytesIO(content)) as stream:
            content = _limited(stream, most_unpacked(len(content)))
        require_memory(READING * len(content), f"reading {Path(path).name}", LARGER)
    return content


class Archive:
    """A zip archive whose members can be read within limits, among them NumPy's arrays.

    Parameters
    ----------
    source : path or stream
    anyway : int
        Bytes that may be unpacked in any case.

    Raises
    ------
    OSError, ValueError, NotImplementedError, RuntimeError, zipfile.BadZipFile
        It cannot be read, or would unpack to more than it should.
    """

    def __init__(self, source: str | os.PathLike[str] | IO[bytes], anyway: int = ANYWAY) -> None:
        if isinstance(source, str | os.PathLike):
            require_file(source)
            packed = os.stat(source).st_size
        else:
            packed = source.seek(0, os.SEEK_END)
        self._archive = zipfile.ZipFile(source)
        try:
            self._check(max(anyway, UNPACKED * packed))
        except BaseException:
            self._archive.close()
            raise

    def _check(self, most: int) -> None:
        members = self._archive.infolist()
        self.names = [member.filename for member in members]
        if len(set(self.names)) < len(self.names):
            twice = next(name for name, count in Counter(self.names).items() if count > 1)
            raise ValueError(f"it holds {twice!r} twice")
        size = sum(member.file_size for member in members)
        if size > most:
            raise ValueError(f"it would unpack to {size >> 20:,} MiB, far more than its size allows")
        require_memory(2 * size, "unpacking it", LARGER)

    def __enter__(self) -> Archive:
        return self

    def __exit__(self, *_: object) -> None:
        self._archive.close()

    def __contains__(self, name: str) -> bool:
        return name in self.names

    def damaged(self) -> str | None:
        """The first member that does not match its checksum."""
        return self._archive.testzip()

    def read(self, name: str) -> bytes:
        """The content of a member."""
        return self._archive.read(name)

    def array(self, name: str) -> Values:
        """The array in the member ``name.npy``; refuses pickles, and headers that promise more than there is."""
        content = io.BytesIO(self._archive.read(f"{name}.npy"))
        version = np.lib.format.read_magic(content)
        if version not in _HEADERS:
            raise ValueError(f"the format of arrays {version} is not known")
        try:
            shape, by_columns, dtype = _HEADERS[version](content)
        except (SyntaxError, tokenize.TokenError, TypeError, RecursionError, MemoryError) as error:
            raise ValueError(f"its header is damaged ({type(error).__name__})") from None
        if dtype.hasobject:
            raise ValueError("it holds pickled objects")
        count: int = math.prod(int(length) for length in shape)
        size, left = count * dtype.itemsize, len(content.getbuffer()) - content.tell()
        if size != left or (dtype.itemsize == 0 and count) or any(length < 0 for length in shape):
            raise ValueError(f"it should have {size} bytes of data, but has {left}")
        data = content.read()
        if dtype.kind == "U":
            codes = np.frombuffer(data, dtype=f"{dtype.str[0]}u4")
            if np.any((codes > LAST_CHARACTER) | ((codes >= 0xD800) & (codes < 0xE000))):
                raise ValueError("it holds characters that do not exist")
        flat = np.frombuffer(data, dtype=dtype).copy()
        return flat.reshape(shape, order="F" if by_columns else "C")

    def arrays(self) -> dict[str, Values]:
        """All arrays by name."""
        return {name.removesuffix(".npy"): self.array(name.removesuffix(".npy")) for name in self.names}


LAST_CHARACTER = 0x10FFFF

_HEADERS: dict[tuple[int, int], Callable[[Any], tuple[tuple[int, ...], bool, np.dtype[Any]]]] = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}


def most_unpacked(packed: int) -> int:
    """Bytes that a packed table of so many may unpack to."""
    return max(TEXT_ANYWAY, UNPACKED * packed)
