"""Refuses work that would not fit into the free memory."""

from __future__ import annotations

import os
from pathlib import Path

from labelcert.errors import WorkTooLarge

GIB = 1 << 30


def available_bytes() -> int | None:
    """Return the memory that is free without swapping, in bytes; None if the system does not say."""
    limits = [_machine_bytes(), *(_group_bytes(limit, used) for limit, used in _CONTROL_GROUPS)]
    known = [limit for limit in limits if limit is not None]
    return min(known) if known else None


_CONTROL_GROUPS = (
    ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"),
    ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.usage_in_bytes"),
)
"""Files in which containers and batch systems state their memory limit and its use."""


def _machine_bytes() -> int | None:
    meminfo = Path("/proc/meminfo")
    if meminfo.is_file():
        for line in meminfo.read_text(encoding="ascii", errors="replace").splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    try:
        return int(os.sysconf("SC_PAGE_SIZE")) * int(os.sysconf("SC_PHYS_PAGES"))
    except (AttributeError, OSError, ValueError):
        return None


def _group_bytes(limit: str, used: str) -> int | None:
    try:
        return max(0, int(Path(limit).read_text()) - int(Path(used).read_text()))
    except (OSError, ValueError):  # no such file, or the word "max"
        return None


LESS = "ask for fewer labelled or test nodes at a time, a smaller depth, or use a larger machine"


def require_memory(needed: int, what: str, advice: str = LESS) -> None:
    """Refuse work whose estimated peak, in bytes, would not fit into memory, and say what to do."""
    free = available_bytes()
    if free is not None and needed > free:
        raise WorkTooLarge(
            f"{what} takes about {needed / GIB:.1f} GiB of memory, but only {free / GIB:.1f} GiB are free; {advice}"
        )
