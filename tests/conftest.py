from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from labelcert.engines.registry import ENGINES


@pytest.fixture(autouse=True)
def _engines_as_before() -> Iterator[None]:
    """What a test, or an example in the documentation, registers is gone afterwards."""
    before = dict(ENGINES)
    yield
    ENGINES.clear()
    ENGINES.update(before)


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(0)
