"""Training functions whose random numbers are the same at every call."""

from __future__ import annotations

import functools
import random
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from labelcert.checking import whole_number


def seeded(train: Callable[..., Any], seed: int = 0) -> Callable[..., Any]:
    """A training function that seeds Python, NumPy and PyTorch before each call, and so returns the same each time.

    PyTorch is seeded where it has been imported, and asked for deterministic algorithms: an operation that has none
    raises an error. PyTorch Geometric draws its random numbers from these three. What seeds do not reach: generators
    that the function makes itself without a seed, and on a GPU, sums whose order changes from call to call (scatter
    and ``index_add`` in most graph convolutions): train on the CPU, or with operations for which PyTorch has
    deterministic versions and ``CUBLAS_WORKSPACE_CONFIG=:4096:8`` in the environment.

    Parameters
    ----------
    train : callable
    seed : int

    Examples
    --------
    >>> import numpy as np
    >>> from labelcert import seeded
    >>> draw = seeded(lambda indices, labels: np.random.rand())
    >>> draw([0], ["a"]) == draw([0], ["a"])
    True
    """
    whole_number("seed", seed, 0, 2**32 - 1)

    @functools.wraps(train)
    def trained(*arguments: Any) -> Any:
        random.seed(seed)
        np.random.seed(seed)  # noqa: NPY002 (whatever still draws from it)
        torch = sys.modules.get("torch")
        if torch is not None:
            torch.manual_seed(seed)
            torch.use_deterministic_algorithms(True)
        return train(*arguments)

    return trained
