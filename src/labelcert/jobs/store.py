"""Results on disk: a journal of JSON lines that survives a kill at any moment.

Each finished cell is one line, written and synced to the disk at once. A line carries a checksum of its record. A
torn or damaged line is recognised and dropped, and its cell counts as not computed. So do results of engines that
would compute other numbers today, unless somebody asks to keep them.
"""

from __future__ import annotations

import contextlib
import json
import os
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

from labelcert.errors import InvalidInput
from labelcert.jobs.records import Record, RecordStatus, is_old, read_record

JOURNAL = "results.jsonl"
HALVES = "backslashreplace"
"""Halves of characters, as in odd file names, are written as JSON writes them."""

LONGEST = 1 << 26
"""Most bytes of a line."""

LOCK = "results.lock"


class Store:
    """The results in one folder. The last record of a cell counts.

    Only one process at a time can write. With `keep_old`, results of older engines count. ``records`` are by content
    hash of the cells; ``dropped`` is the number of damaged lines, ``old`` that of cells whose results of other engines
    do not count.
    """

    def __init__(self, folder: Path, *, write: bool = False, keep_old: bool = False) -> None:
        self.folder = folder
        self._stream: IO[bytes] | None = None
        self._files = contextlib.ExitStack()
        if write:
            folder.mkdir(parents=True, exist_ok=True)
            self._files.enter_context(_locked(folder / LOCK))
        self.records, old, self.dropped, intact = _read(folder / JOURNAL, keep_old)
        self.old = len(old - self.records.keys())
        if write:
            self._stream = self._files.enter_context((folder / JOURNAL).open("ab"))
            # Half a line must not be glued to the next record.
            if self._stream.tell() > intact:
                self._stream.truncate(intact)

    def append(self, record: Record) -> None:
        """Write one record. It is on the disk when this returns."""
        if self._stream is None:
            raise InvalidInput("the store was opened for reading; open it with write=True")
        self._stream.write(_line(record))
        self._stream.flush()
        os.fsync(self._stream.fileno())
        self.records[record["cell"]] = record

    def done(self, cell: str) -> bool:
        """Whether the cell has its result."""
        return self.records.get(cell, {}).get("status") == RecordStatus.DONE

    def failed(self, cell: str) -> bool:
        """Whether the cell was tried and failed."""
        return self.records.get(cell, {}).get("status") == RecordStatus.FAILED

    def close(self) -> None:
        """Close the files, so that others can write."""
        self._stream = None
        self._files.close()

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def canonical(value: Any) -> str:
    """The canonical JSON text of a value, for checksums and content hashes."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def _line(record: Mapping[str, Any]) -> bytes:
    body = canonical(record)
    return f'{{"check":"{_check(body)}","record":{body}}}\n'.encode(errors=HALVES)


def _check(body: str) -> str:
    return f"{zlib.crc32(body.encode(errors=HALVES)):08x}"


def _read(path: Path, keep_old: bool) -> tuple[dict[str, Record], set[str], int, int]:
    """The records that count, cells with old ones, the number of damaged lines, and the length of all whole lines."""
    records: dict[str, Record] = {}
    old: set[str] = set()
    dropped = intact = 0
    if not path.is_file():
        return records, old, dropped, intact
    with path.open("rb") as stream:
        while line := stream.readline(LONGEST):
            size = len(line)
            while len(line) == LONGEST and not line.endswith(b"\n"):
                line = stream.readline(LONGEST)
                size += len(line)
            if not line.endswith(b"\n"):
                dropped += 1
                break
            intact += size
            plain: Any = _parse(line) if size == len(line) else None
            if is_old(plain) and not keep_old:
                old.add(plain["cell"])
            elif (record := read_record(plain)) is not None:
                records[record["cell"]] = record
            else:
                dropped += 1
    return records, old, dropped, intact


def _parse(line: bytes) -> Any:
    """What a line holds, if it matches its checksum; else None."""
    try:
        whole = json.loads(line)
        return whole["record"] if whole["check"] == _check(canonical(whole["record"])) else None
    except (ValueError, KeyError, TypeError, RecursionError):
        return None


def _locked(path: Path) -> IO[bytes]:
    stream = path.open("ab")
    try:
        import fcntl
    except ImportError:  # this system has no such locks
        return stream
    try:
        fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        stream.close()
        raise InvalidInput(
            f"another labelcert is writing to {path.parent}; wait until it is done, or choose another folder"
        ) from None
    return stream
