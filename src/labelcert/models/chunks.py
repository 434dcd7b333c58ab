"""How large a piece of a dense matrix is worked on at a time."""

from __future__ import annotations

CACHE_ENTRIES = 1 << 17
"""Entries of a block passed through the ReLU: 1 MiB, so that temporaries stay in the cache."""
MLP_ENTRIES = 1 << 21
"""Entries of a block of the MLP's kernel: 16 MiB."""
PAIR_ENTRIES = 1 << 22
"""Feature entries gathered for products of node pairs: 32 MiB."""
MAPPED_ENTRIES = 1 << 24
"""Entries of mapped features that are kept: 128 MiB dense, and twice that sparse."""
STREAM_ENTRIES = 1 << 24
"""Entries of a block of the first layer's covariances: 128 MiB."""


def row_chunks(n_rows: int, n_columns: int, entries: int) -> list[slice]:
    """Cut `n_rows` rows of length `n_columns` into slices of at most `entries` entries, one row at least."""
    step = max(1, entries // max(1, n_columns))
    return [slice(start, min(start + step, n_rows)) for start in range(0, n_rows, step)]
