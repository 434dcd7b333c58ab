"""Chunks of work on a Dask cluster."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from labelcert.arrays import Signs
from labelcert.engines.pools import ChunkPool, PoolTask, read_only_arrays, walk_batch
from labelcert.errors import ClusterLost
from labelcert.workers import Attempts

if TYPE_CHECKING:
    from distributed import Client


class ClusterChunks(ChunkPool):
    """Sends chunks of one certificate to the workers."""

    def __init__(self, client: Client, batch: int) -> None:
        self._client = client
        self.batch = batch
        self.ahead = max(4, 3 * sum(client.nthreads().values()))

    def submit(self, task: PoolTask, chunks: Sequence[Any], flag: Signs) -> _Batch:
        """Start to walk a batch. The task travels with it, so no worker depends on another."""
        return _Batch(self._client, (task, read_only_arrays(task), list(chunks)))


class _Batch:
    """A batch under way. It is started again if its result is lost with a worker."""

    def __init__(self, client: Client, arguments: tuple[Any, ...]) -> None:
        self._client = client
        self._arguments = arguments
        self._attempts = Attempts()
        self._start()

    def result(self, timeout: float | None = None) -> list[Any]:
        """Wait for the result; raises TimeoutError if it takes longer.

        Only the wait for the task has a limit. A client of Dask whose transfer of a result was cut short
        once fails to transfer any other.
        """
        try:
            self._future.exception(timeout=timeout)
            walked: list[Any] = self._future.result()
        except TimeoutError:
            require_connection(self._client)
            raise
        except Exception:
            require_connection(self._client)
            if not lost(self._future, self._attempts):
                raise
            self._start()
            raise TimeoutError("started again") from None
        return walked

    def _start(self) -> None:
        require_connection(self._client)
        self._future = self._client.submit(walk_batch, *self._arguments, pure=False)


def require_connection(client: Client) -> None:
    """Give up once the scheduler is gone: a client forgets its tasks then, even if it finds a new one."""
    if client.status != "running":
        raise ClusterLost(
            "the connection to the Dask scheduler is lost; everything that arrived before is kept, so run the same "
            "command again once the cluster is back"
        )


def lost(future: Any, attempts: Attempts) -> bool:
    """Whether to start a task again: its result was lost with a worker, and not too often; it did not fail itself."""
    return future.status != "error" and attempts.another()
