from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import pytest

from labelcert.engines.gpu.device import Device, NoDevice, devices
from labelcert.engines.gpu.pool import DeviceChunks
from labelcert.engines.pools import chunks_walked_by
from labelcert.errors import MissingExtra

from .emulation import COMPILER, EmulatedDevice


@pytest.fixture(params=["emulated", "gpu"])
def device(request: pytest.FixtureRequest) -> Device:
    """The kernels on a GPU, and the same source on the CPU."""
    if request.param == "emulated":
        if COMPILER is None:
            pytest.skip("no C++ compiler to run the kernels on the CPU")
        return EmulatedDevice()
    try:
        return devices()[0]
    except (MissingExtra, NoDevice) as error:
        pytest.skip(str(error))


@pytest.fixture
def elsewhere(device: Device) -> Callable[..., AbstractContextManager[DeviceChunks]]:
    """Everything inside is walked on the device."""

    @contextmanager
    def walked(**options: Any) -> Iterator[DeviceChunks]:
        pool = DeviceChunks(lambda: [device], 1, **options)
        try:
            with chunks_walked_by(pool):
                yield pool
        finally:
            pool.close()

    return walked
