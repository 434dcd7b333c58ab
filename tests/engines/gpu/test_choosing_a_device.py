"""Which device computes, and what is said where there is none."""

from __future__ import annotations

import importlib.util
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from tests.helpers.certificates import contains, same
from tests.helpers.command_line import run
from tests.helpers.problems import gaussian

from labelcert import certify, certify_partition
from labelcert.certification import places
from labelcert.engines.gpu import device as devices
from labelcert.engines.gpu import device_walks
from labelcert.engines.gpu import pool as pools
from labelcert.errors import InvalidInput, MissingExtra

from .emulation import COMPILER, EmulatedDevice

ARRAYS = gaussian(9, 6)

needs_compiler = pytest.mark.skipif(COMPILER is None, reason="no C++ compiler to run the kernels on the CPU")


@pytest.fixture
def _no_cupy(monkeypatch: pytest.MonkeyPatch) -> None:
    devices.devices.cache_clear()
    monkeypatch.setitem(sys.modules, "cupy", None)
    yield
    devices.devices.cache_clear()


@pytest.fixture
def emulated(monkeypatch: pytest.MonkeyPatch) -> EmulatedDevice:
    """The only device of this machine."""
    found = EmulatedDevice()
    monkeypatch.setattr(places, "devices", lambda: (found,))
    return found


@pytest.mark.usefixtures("_no_cupy")
def test_without_the_extra_the_message_says_how_to_install_it() -> None:
    with pytest.raises(MissingExtra, match=r"pip install 'labelcert\[gpu\]'"):
        certify(*ARRAYS, 1.0, device="gpu")
    with pytest.raises(MissingExtra, match="cupy"):
        certify_partition(*ARRAYS, 1.0, parts=2, device="gpu")


@pytest.mark.skipif(importlib.util.find_spec("cupy") is not None, reason="CuPy is installed here")
@pytest.mark.parametrize("command", [("certify", "karate", "--no-pictures"), ("selfcheck", "--problems", "1")])
def test_the_command_line_says_it_in_one_line(command: tuple[str, ...]) -> None:
    result = run(*command, "--device", "gpu")
    assert result.returncode != 0
    assert "pip install 'labelcert[gpu]'" in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1


class _Driverless:
    """CuPy on a machine without a GPU."""

    class cuda:  # noqa: N801
        class runtime:  # noqa: N801
            @staticmethod
            def getDeviceCount() -> int:  # noqa: N802
                raise RuntimeError("cudaErrorNoDevice: no CUDA-capable device is detected")


def test_without_a_gpu_the_message_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    devices.devices.cache_clear()
    monkeypatch.setitem(sys.modules, "cupy", _Driverless)
    with pytest.raises(devices.NoDevice, match=r"needs an NVIDIA GPU.*no CUDA-capable device.*leave out the device"):
        certify(*ARRAYS, 1.0, device="gpu")
    devices.devices.cache_clear()


def test_unknown_devices_are_refused() -> None:
    with pytest.raises(InvalidInput, match="device must be one of auto, cpu, gpu, got 'tpu'"):
        certify(*ARRAYS, 1.0, device="tpu")


def test_a_device_and_a_scheduler_contradict_each_other() -> None:
    with pytest.raises(InvalidInput, match="leave out the scheduler, or the device"):
        certify(*ARRAYS, 1.0, device="gpu", scheduler="processes")


@pytest.mark.usefixtures("_no_cupy")
def test_auto_does_without_one() -> None:
    same(certify(*ARRAYS, 1.0), certify(*ARRAYS, 1.0, device="cpu"))


@needs_compiler
def test_auto_leaves_small_work_to_the_cpu(emulated: EmulatedDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    certify(*ARRAYS, 1.0)
    certify_partition(*gaussian(30, 5), 1.0, parts=3, max_flips=5)
    assert not emulated.launches
    monkeypatch.setattr(pools, "PAYS_OFF", 40.0)
    certify(*ARRAYS, 1.0)
    assert emulated.launches


@needs_compiler
def test_auto_takes_many_small_parts_together(emulated: EmulatedDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pools, "PAYS_OFF", 1000.0)
    arrays = gaussian(60, 5)
    here = certify_partition(*arrays, 1.0, parts=6, max_flips=5, device="cpu")
    assert not emulated.launches
    same(here, certify_partition(*arrays, 1.0, parts=6, max_flips=5))
    assert emulated.launches


@needs_compiler
def test_other_losses_are_refused(emulated: EmulatedDevice) -> None:
    """A device that was asked for by name, and cannot do it, is no silent detour over the CPU."""
    with pytest.raises(InvalidInput, match="has nothing for loss='logistic'; leave out the device"):
        certify(*ARRAYS, 1.0, loss="logistic", device="gpu")
    assert not emulated.launches


@needs_compiler
def test_a_time_limit_gives_intervals(
    emulated: EmulatedDevice, end_of_time: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(device_walks, "LAUNCH_STOPS", 64)
    arrays = gaussian(12, 8)
    full = certify(*arrays, 1.0, device="cpu")
    launch = emulated.launch

    def last(*arguments: Any) -> Any:
        end_of_time()
        return launch(*arguments)

    monkeypatch.setattr(emulated, "launch", last)
    part = certify(*arrays, 1.0, device="gpu", engine="enumerate", time_limit=300.0)
    assert part.run.stopped == "time limit"
    contains(part, full)


@needs_compiler
def test_an_error_on_the_device_is_raised_here(emulated: EmulatedDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any) -> None:
        raise RuntimeError("out of memory")

    monkeypatch.setattr(emulated, "launch", broken)
    before = threading.active_count()
    with pytest.raises(RuntimeError, match="out of memory"):
        certify(*ARRAYS, 1.0, device="gpu", engine="enumerate")
    until = time.monotonic() + 60.0
    while threading.active_count() > before and time.monotonic() < until:
        time.sleep(0.01)
    assert threading.active_count() <= before


@needs_compiler
@pytest.mark.parametrize("method", ["launch", "enter", "put"])
def test_where_a_device_fails_that_nobody_asked_for_the_cpu_goes_on(
    method: str, emulated: EmulatedDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any) -> None:
        raise RuntimeError("out of memory")

    monkeypatch.setattr(emulated, method, broken)
    monkeypatch.setattr(pools, "PAYS_OFF", 40.0)
    with pytest.warns(UserWarning, match="emulated failed .*out of memory.* the CPU does its work"):
        there = certify(*ARRAYS, 1.0)
    same(certify(*ARRAYS, 1.0, device="cpu"), there)
    with pytest.raises(RuntimeError, match="out of memory"):
        certify(*ARRAYS, 1.0, device="gpu", engine="enumerate")


@needs_compiler
def test_several_devices_share_the_work(monkeypatch: pytest.MonkeyPatch) -> None:
    found = EmulatedDevice(), EmulatedDevice()
    monkeypatch.setattr(places, "devices", lambda: found)
    arrays = gaussian(13, 6)
    monkeypatch.setattr(pools.DeviceChunks, "chunk_stops", lambda self, task, usual: 64)
    same(certify(*arrays, 1.0, device="cpu"), certify(*arrays, 1.0, device="gpu", engine="enumerate"))
    assert all(one.launches for one in found)


def test_the_device_is_on_record(emulated: EmulatedDevice) -> None:
    if COMPILER is None:
        pytest.skip("no C++ compiler to run the kernels on the CPU")
    assert certify(*ARRAYS, 1.0, device="gpu", engine="enumerate").run.device == "emulated"
    assert certify(*ARRAYS, 1.0).run.device == "cpu"
