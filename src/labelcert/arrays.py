"""Array types that the whole package shares."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Float = npt.NDArray[np.float64]
Float32 = npt.NDArray[np.float32]
Int = npt.NDArray[np.int64]
Index = npt.NDArray[np.intp]
Signs = npt.NDArray[np.int8]
Bool = npt.NDArray[np.bool_]
Words = npt.NDArray[np.uint64]
Text = npt.NDArray[np.str_]
Values = npt.NDArray[Any]
"""Labels and classes in the user's own type."""


def frozen(array: Values) -> Values:
    """The array, which cannot be written to any more."""
    array.setflags(write=False)
    return array
