from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.engines.gpu.emulation import EmulatedDevice

from labelcert.engines.gpu.device import devices
from labelcert.engines.gpu.pool import DeviceChunks
from labelcert.engines.pools import chunks_walked_by


@pytest.fixture(autouse=True)
def _on_the_device(request: pytest.FixtureRequest) -> Iterator[None]:
    """With ``--device``, everything that a device can walk is walked there."""
    name = request.config.getoption("--device")
    if name == "cpu":
        yield
        return
    found = [EmulatedDevice()] if name == "emulated" else devices()
    pool = DeviceChunks(lambda: found)
    try:
        with chunks_walked_by(pool):
            yield
    finally:
        pool.close()


@pytest.fixture
def _on_the_cpu(request: pytest.FixtureRequest) -> None:
    """What a test says about the CPU alone."""
    if request.config.getoption("--device") != "cpu":
        pytest.skip("about the CPU")
