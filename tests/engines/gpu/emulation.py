"""A device on the CPU: the kernels' own source, compiled as C++ and run block by block."""

from __future__ import annotations

import ctypes
import getpass
import hashlib
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from labelcert.engines.gpu import device
from labelcert.engines.gpu.device import Program

COMPILER = shutil.which("c++") or shutil.which("g++") or shutil.which("clang++")
SIZES = (12, 24, 40, 72, 104, 320)
"""Numbers of labels that kernels are compiled for here."""

_BUILT: dict[tuple[str, ...], ctypes.CDLL] = {}
_LOCK = threading.Lock()
_FOLDER = Path(tempfile.gettempdir()) / f"labelcert-emulated-kernels-{getpass.getuser()}"


def _library(program: Program) -> ctypes.CDLL:
    source = device.source()
    macros = [f"-D{name}={value}" for name, value in program._replace(threads=32, blocks=1).definitions.items()]
    key = source, *macros
    with _LOCK:
        if key not in _BUILT:
            _FOLDER.mkdir(exist_ok=True, mode=0o700)
            flags = ["-std=c++17", "-O2", "-fPIC", "-shared", "-x", "c++", "-ffp-contract=off", "-Wno-unknown-pragmas"]
            digest = hashlib.sha256(" ".join([source, *flags, *macros]).encode()).hexdigest()[:16]
            path = _FOLDER / f"{digest}.so"
            if not path.exists():
                with tempfile.TemporaryDirectory(dir=_FOLDER) as folder:
                    text, made = Path(folder) / "kernels.cu", Path(folder) / "kernels.so"
                    text.write_text(source, encoding="utf-8")
                    assert COMPILER is not None
                    subprocess.run([COMPILER, *flags, *macros, str(text), "-o", str(made)], check=True)
                    made.replace(path)
            _BUILT[key] = ctypes.CDLL(str(path))
    return _BUILT[key]


_PLAIN = {
    np.dtype(np.int32): ctypes.c_int,
    np.dtype(np.int64): ctypes.c_longlong,
    np.dtype(np.float64): ctypes.c_double,
}


class EmulatedDevice:
    """Runs kernels one block of one warp after the other."""

    name = "emulated"
    multiprocessors = 2
    warps = 1

    def __init__(self, shared_bytes: int = 227 * 1024) -> None:
        self.shared_bytes = shared_bytes
        self.launches: list[str] = []

    def enter(self) -> None:
        """Nothing is needed."""

    def release(self) -> None:
        """Nothing is kept."""

    def put(self, array: npt.NDArray[Any]) -> Any:
        """A copy."""
        return np.array(array, order="C")

    def full(self, shape: int | tuple[int, ...], value: Any, dtype: Any) -> Any:
        """An array with one value everywhere."""
        return np.full(shape, value, dtype=dtype)

    def empty(self, shape: int | tuple[int, ...], dtype: Any) -> Any:
        """An array full of what is surely wrong."""
        out = np.empty(shape, dtype=dtype)
        out.view(np.uint8)[...] = 0xFF
        return out

    def get(self, array: Any) -> npt.NDArray[Any]:
        """A copy."""
        return np.array(array)

    def padded(self, m: int) -> int:
        """The next of a few sizes."""
        return next(size for size in SIZES if size >= m)

    def launch(
        self, program: Program, kernel: str, blocks: int, warps: int, shared: int, arguments: Sequence[Any]
    ) -> None:
        """Run a kernel to its end."""
        assert shared <= self.shared_bytes
        library = _library(program)
        function, place = getattr(library, kernel), library.set_block
        given = []
        for one in arguments:
            if one is None:
                given.append(ctypes.c_void_p(None))
            elif isinstance(one, np.ndarray):
                assert one.flags.c_contiguous or one.ndim == 1
                given.append(ctypes.c_void_p(one.ctypes.data))
            else:
                given.append(_PLAIN[one.dtype](one.item()))
        self.launches.append(kernel)
        for block in range(blocks):
            place(block, blocks)
            function(*given)
