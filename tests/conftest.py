from __future__ import annotations

import os

for _library in ("OPENBLAS", "OMP", "MKL"):  # before NumPy is imported, and for every process that a test starts
    # One process works on each core: more threads only wait for each other, for a third of the suite's time.
    os.environ.setdefault(f"{_library}_NUM_THREADS", "1")

# ruff: noqa: E402
import signal
import time
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest

from labelcert.certification.reductions import CHAIN
from labelcert.engines.control import SOLVERS
from labelcert.engines.registry import ENGINES
from labelcert.errors import MissingExtra
from labelcert.extensions import load_extensions
from labelcert.graphs.datasets import DATASETS
from labelcert.losses import LOSSES
from labelcert.models.by_name import MODELS
from labelcert.paper.milp.solvers import SolverUnavailable, get_solver

load_extensions()  # before anybody notes what is registered

REGISTRIES: tuple[dict[str, Any], ...] = (ENGINES, MODELS, DATASETS, LOSSES)


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
def ctrl_c() -> Iterator[None]:
    """SIGINT interrupts, as in a terminal; processes in the background are started without it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(0)


@pytest.fixture
def end_of_time(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Once it is called, every time limit is over: what is done by then depends on no machine."""
    usual, ahead = time.monotonic, [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: usual() + ahead[0])

    def end(*_: object) -> None:
        ahead[0] = 1e6

    return end


@pytest.fixture(params=SOLVERS)
def solver(request: pytest.FixtureRequest) -> str:
    """Name of a solver that is installed and has a licence; the others are skipped."""
    try:
        get_solver(request.param)
    except (MissingExtra, SolverUnavailable) as error:
        pytest.skip(str(error))
    return str(request.param)
