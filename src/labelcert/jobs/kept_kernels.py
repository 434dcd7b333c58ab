"""Kernels on disk, so that whoever comes back to a model need not compute its kernel again."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from labelcert.arrays import Float
from labelcert.files import write_archive
from labelcert.reading import UNREADABLE, Archive

LARGEST = 8_000_000
"""Numbers in a kernel that is kept: 64 MB."""


@dataclass(frozen=True)
class KeptKernel:
    """A model whose kernel is read from a file where it was computed before; whatever else, it is that model."""

    model: Any
    path: Path
    """Named by all that decides the kernel."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self.model, name)

    def __repr__(self) -> str:
        return repr(self.model)

    def kernel_blocks(
        self, graph: Any, labeled: npt.ArrayLike, test: npt.ArrayLike, *, inductive: bool = False
    ) -> tuple[Float, Float]:
        """The two blocks, bit for bit as they were computed."""
        shapes = (np.size(labeled),) * 2, (np.size(test), np.size(labeled))
        with contextlib.suppress(FileNotFoundError, *UNREADABLE), Archive(self.path) as archive:
            if archive.damaged() is None:
                K_train, K_test = archive.array("K_train"), archive.array("K_test")
                if (K_train.shape, K_test.shape) == shapes and K_train.dtype == K_test.dtype == np.float64:
                    return K_train, K_test
        K_train, K_test = self.model.kernel_blocks(graph, labeled, test, inductive=inductive)
        if K_train.size + K_test.size <= LARGEST:
            with contextlib.suppress(OSError):  # a full disk takes nothing but time
                self.path.parent.mkdir(parents=True, exist_ok=True)
                write_archive(self.path, {"K_train": K_train, "K_test": K_test})
        return K_train, K_test
