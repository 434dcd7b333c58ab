from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest

from labelcert.certification.reductions import CHAIN
from labelcert.engines.registry import ENGINES
from labelcert.extensions import load_extensions
from labelcert.graphs.datasets import DATASETS
from labelcert.models.registry import MODELS

load_extensions()
for extension in ("attacks", "baselines"):  # also where the project was installed before they were announced
    import_module(f"labelcert.{extension}")

REGISTRIES: tuple[dict[str, Any], ...] = (ENGINES, MODELS, DATASETS)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--device",
        choices=("cpu", "gpu", "emulated"),
        default="cpu",
        help="where the engines enumerate in their tests: emulated runs the kernels of GPUs on the CPU",
    )


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Without PyTorch, the one example in a docstring that needs it is skipped."""
    if find_spec("torch") is None:
        for item in items:
            if item.name == "labelcert.finite.margin.finite_margin":
                item.add_marker(pytest.mark.skip(reason="PyTorch is not installed"))


@pytest.fixture(autouse=True)
def _registries_as_before() -> Iterator[None]:
    """What a test, or an example in the documentation, registers is gone afterwards."""
    before, chain = [dict(registry) for registry in REGISTRIES], list(CHAIN)
    yield
    CHAIN[:] = chain
    for registry, entries in zip(REGISTRIES, before, strict=True):
        registry.clear()
        registry.update(entries)


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(0)
