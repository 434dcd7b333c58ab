"""A pool whose work goes a long way."""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Sequence
from typing import Any

from labelcert.arrays import Signs
from labelcert.engines.pools import ChunkPool, PoolTask, read_only_arrays, walk_batch


class PicklingPool(ChunkPool):
    """Walks batches in this process, but sends tasks, chunks and results through pickle, as a cluster would.

    Attributes
    ----------
    sent : Counter
        Number of chunks by the name of their task.
    batches : int
        Number of batches.
    """

    ahead = 3

    def __init__(self, batch: int = 2, protocol: int = pickle.DEFAULT_PROTOCOL) -> None:
        self.batch = batch
        self._protocol = protocol
        self.sent: Counter[str] = Counter()
        self.batches = 0

    def submit(self, task: PoolTask, chunks: Sequence[Any], flag: Signs) -> Parcel:
        """Pack a batch."""
        assert 1 <= len(chunks) <= self.batch
        self.sent[type(task).__name__] += len(chunks)
        self.batches += 1
        return Parcel(pickle.dumps((task, read_only_arrays(task), list(chunks)), protocol=self._protocol))


class Parcel:
    """A batch under way; nobody asks for it in time."""

    def __init__(self, content: bytes) -> None:
        self._content = content
        self._asked = 0

    def result(self, timeout: float | None = None) -> list[Any]:
        """Walk it when it is asked for the second time."""
        self._asked += 1
        if self._asked == 1:
            raise TimeoutError("still under way")
        walked = walk_batch(*pickle.loads(self._content))
        return list(pickle.loads(pickle.dumps(walked)))
