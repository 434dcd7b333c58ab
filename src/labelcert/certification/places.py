"""Where the chunks of a certificate are walked: on threads, on GPUs, on local processes, or on a Dask cluster."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from importlib.util import find_spec
from typing import TYPE_CHECKING

from labelcert.certification.support import Request, refusal
from labelcert.certification.versions import versions
from labelcert.engines.cluster import ClusterChunks
from labelcert.engines.gpu.device import devices
from labelcert.engines.gpu.pool import DeviceChunks
from labelcert.engines.pools import chunks_walked_by, pool_in_force
from labelcert.engines.processes import ProcessChunks
from labelcert.errors import DataUnavailable, InvalidInput, LabelcertError, MissingExtra

if TYPE_CHECKING:
    from distributed import Client

AUTO, CPU, GPU = DEVICES = ("auto", "cpu", "gpu")

PROCESSES = "processes"
"""The scheduler that stands for processes on this machine."""

BATCH = 8
"""Chunks per task."""

CONNECT_SECONDS = 20
CLOSE_SECONDS = 2


def gpu_remark(asked: Request, scheduler: str | None, device: str) -> list[str]:
    """Why a GPU that is there was left out, where nobody said which device to use."""
    refused = refusal(replace(asked, place="GPU"))
    if device != AUTO or scheduler is not None or refused is None or find_spec("cupy") is None:
        return []
    try:
        name = devices()[0].name
    except LabelcertError:
        return []
    return [f"{name} was not used: {refused}"]


@contextmanager
def walked_by(scheduler: str | None, workers: int, device: str = CPU) -> Iterator[None]:
    """Every certificate inside is computed there: on processes, on a Dask cluster, on GPUs, or right here.

    If a process or a worker dies, its tasks run again elsewhere. The answers are the same, bit for bit.
    """
    if device not in DEVICES:
        raise InvalidInput(f"device must be one of {', '.join(DEVICES)}, got {device!r}")
    if device == GPU and scheduler is not None:
        raise InvalidInput("device='gpu' computes on this machine; leave out the scheduler, or the device")
    if scheduler is None and (device == CPU or (device == AUTO and pool_in_force() is not None)):
        yield
    elif scheduler is None:
        if device == GPU:
            devices()  # fails now, and not after the first estimate
        with closing(DeviceChunks(devices, workers, large_only=device != GPU)) as gpus, chunks_walked_by(gpus):
            yield
    elif scheduler == PROCESSES:
        with closing(ProcessChunks(workers, BATCH)) as pool, chunks_walked_by(pool):
            yield
    else:
        with connected(scheduler) as client, chunks_walked_by(ClusterChunks(client, BATCH)):
            yield


@contextmanager
def connected(address: str) -> Iterator[Client]:
    """A client of a Dask scheduler whose workers have our versions."""
    try:
        import distributed
    except ImportError:
        raise MissingExtra("distributed", "dask", "running on a cluster") from None
    try:
        client = distributed.Client(address, timeout=CONNECT_SECONDS, set_as_default=False)
    except (OSError, ValueError, TimeoutError) as error:
        raise DataUnavailable(
            f"the Dask scheduler {address!r} cannot be reached ({error}); check the address, or run here by "
            "leaving out --scheduler"
        ) from None
    try:
        _check_versions(client)
        yield client
    finally:
        log = logging.getLogger("distributed.client")
        level = log.level
        if client.status != "running":
            log.setLevel(logging.CRITICAL)  # we say it in a line of our own
        client.close(timeout=CLOSE_SECONDS)
        log.setLevel(level)


def _check_versions(client: Client) -> None:
    """Refuse workers with other versions: their last digits may differ, or they may not understand the jobs."""
    here = versions()
    try:
        client.wait_for_workers(1, timeout=CONNECT_SECONDS)
    except TimeoutError:
        raise DataUnavailable("the Dask scheduler has no workers; start some with `dask worker ADDRESS`") from None
    try:
        found = client.run(versions)
    except Exception as error:
        raise InvalidInput(
            f"the workers of the cluster cannot run labelcert ({error}); install labelcert "
            f"{here['labelcert']} on every worker"
        ) from None
    for worker, there in found.items():
        differing = [
            f"{k} {there.get(k)} instead of {version}" for k, version in here.items() if there.get(k) != version
        ]
        if differing:
            raise InvalidInput(
                f"the worker {worker} has {', '.join(differing)}; results would not be comparable. "
                "Install the same versions on every worker"
            )
