"""Chunks of work on local processes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from labelcert.arrays import Signs
from labelcert.engines.pools import ChunkPool, PoolTask, read_only_arrays, walk_batch
from labelcert.workers import WorkerJob, Workers


class ProcessChunks(ChunkPool):
    """Sends chunks of one certificate to local processes."""

    def __init__(self, count: int, batch: int) -> None:
        self.batch = batch
        self.ahead = 3 * count
        self.workers = Workers(count)

    def submit(self, task: PoolTask, chunks: Sequence[Any], flag: Signs) -> WorkerJob:
        """Start to walk a batch."""
        return self.workers.submit(walk_batch, task, read_only_arrays(task), list(chunks))

    def close(self) -> None:
        """End the processes, done or not."""
        self.workers.close()
