"""What a result depends on besides its input."""

from __future__ import annotations

import platform

import numba
import numpy as np
import scipy

from labelcert._version import __version__


def versions() -> dict[str, str]:
    """Versions that a result depends on."""
    return {
        "labelcert": __version__,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "scipy": scipy.__version__,
        "numba": numba.__version__,
    }
