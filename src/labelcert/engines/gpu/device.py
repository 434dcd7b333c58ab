"""GPUs through CuPy: memory, programs, launches. Nothing is imported until one is asked for."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from labelcert.errors import LabelcertError, MissingExtra

SOURCES = ("lanes.h", "walks.cu", "verdicts.cu")


OLDEST = (8, 0)
"""Compute capability that the kernels need."""


class NoDevice(LabelcertError, RuntimeError):
    """A GPU was asked for, and there is none that can be used."""


class Program(NamedTuple):
    """What kernels are compiled for."""

    labels: int  # number of labels, those that only fill up included
    linear: bool  # whether labels enter linearly, so that nothing is trained
    shared_tableau: bool  # whether tableaus are in shared memory
    # threads, blocks: threads of a block, and blocks at a time on a multiprocessor, that registers have to suffice for
    threads: int
    blocks: int

    @property
    def definitions(self) -> dict[str, str]:
        """The values of the macros in the device's source."""
        return {
            "M": str(self.labels),
            "LINEAR": str(self.linear).lower(),
            "SHARED_TABLEAU": str(self.shared_tableau).lower(),
            "NOTES": str(NOTES),
            "NODE_TILE": str(NODE_TILE),
            "THREADS": str(self.threads),
            "BLOCKS": str(self.blocks),
        }


NODE_TILE = 8
"""Nodes whose rows are in shared memory at a time."""

NOTES = 48
"""Pivots that a child of a family notes at most; a path with more is left to the CPU."""


@cache
def source() -> str:
    """All kernels as one text."""
    return "\n".join((Path(__file__).parent / name).read_text(encoding="utf-8") for name in SOURCES)


KEPT_BYTES = 2**30


class Device:
    """One GPU, through CuPy; each thread that uses it has a stream of its own."""

    warps = 8  # that a block may have

    def __init__(self, cupy: Any, number: int) -> None:
        self._cupy, self._number = cupy, number
        properties = cupy.cuda.runtime.getDeviceProperties(number)
        self.name = f"{properties['name'].decode()} (CuPy {cupy.__version__})"
        self.capability = int(properties["major"]), int(properties["minor"])
        self.multiprocessors = int(properties["multiProcessorCount"])
        # Shared memory that one block can have.
        self.shared_bytes = int(properties["sharedMemPerBlockOptin"])
        self._kernels: dict[tuple[str, tuple[str, ...], str], Any] = {}

    def enter(self) -> None:
        """Make this thread use this device, with a stream of its own."""
        self._cupy.cuda.Device(self._number).use()
        self._cupy.cuda.Stream(non_blocking=True).use()

    def put(self, array: npt.NDArray[Any]) -> Any:
        """A copy on the device."""
        return self._cupy.asarray(np.ascontiguousarray(array))

    def full(self, shape: int | tuple[int, ...], value: Any, dtype: Any) -> Any:
        """An array on the device with one value everywhere."""
        return self._cupy.full(shape, value, dtype=dtype)

    def empty(self, shape: int | tuple[int, ...], dtype: Any) -> Any:
        """An array on the device with anything in it."""
        return self._cupy.empty(shape, dtype=dtype)

    def get(self, array: Any) -> npt.NDArray[Any]:
        """A copy on the host, once all launches before it are done."""
        return np.asarray(array.get())

    def launch(
        self, program: Program, kernel: str, blocks: int, warps: int, shared: int, arguments: Sequence[Any]
    ) -> None:
        """Start a kernel; it runs after those started before it by the same thread."""
        function = self._kernel(program, kernel)
        if shared > function.max_dynamic_shared_size_bytes:
            function.max_dynamic_shared_size_bytes = shared
        given = tuple(np.uint64(0) if one is None else one for one in arguments)
        function((blocks,), (32 * warps,), given, shared_mem=shared)

    def release(self) -> None:
        """Give back memory that was large; CuPy keeps it for later otherwise."""
        pool = self._cupy.get_default_memory_pool()
        if pool.total_bytes() > KEPT_BYTES:
            pool.free_all_blocks()

    def padded(self, m: int) -> int:
        """The labels that kernels for ``m`` labels are compiled for: not every number, since compiling takes time."""
        step = 2 if m <= 32 else 4 if m <= 128 else 16
        return -(-m // step) * step

    def _kernel(self, program: Program, name: str) -> Any:
        macros = {name.upper(): "1", **program.definitions}
        options = ("-std=c++17", *(f"-D{macro}={value}" for macro, value in macros.items()))
        key = name, options, source()
        if key not in self._kernels:
            module = self._cupy.RawModule(code=source(), options=options)
            self._kernels[key] = module.get_function(name)
        return self._kernels[key]


@cache
def devices() -> tuple[Device, ...]:
    """All GPUs of this machine.

    Raises
    ------
    MissingExtra
        CuPy is not installed.
    NoDevice
        There is no GPU, or CuPy cannot use it; the message says why.
    """
    os.environ.setdefault("CUPY_CACHE_SAVE_CUDA_SOURCE", "0")
    try:
        import cupy
    except ImportError:
        raise MissingExtra("cupy", "gpu", 'device="gpu"') from None
    try:
        found = cupy.cuda.runtime.getDeviceCount()
        gpus = tuple(Device(cupy, number) for number in range(found))
        gpus = tuple(gpu for gpu in gpus if gpu.capability >= OLDEST)
    except Exception as error:
        raise NoDevice(
            f"device='gpu' needs an NVIDIA GPU with a working driver ({type(error).__name__}: {error}); "
            "leave out the device to compute on the CPU"
        ) from None
    if not gpus:
        raise NoDevice(
            f"device='gpu' needs an NVIDIA GPU of compute capability {OLDEST[0]}.{OLDEST[1]} (Ampere) or newer, and "
            "this machine has none; leave out the device to compute on the CPU"
        )
    return gpus
