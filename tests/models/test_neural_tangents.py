"""Agreement with Google's neural-tangents, from stored results and, where it runs, live."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp

from labelcert.models import APPNP, GCN, GIN, MLP, SGC, GraphSAGE, Model

FOLDER = Path(__file__).parent / "golden"
MODELS: dict[str, Model] = {
    **{f"gcn-{n}-{d}": GCN(normalization=n, depth=d) for n in ("row", "symmetric") for d in (1, 2, 3)},
    **{f"sgc-{n}-{d}": SGC(normalization=n, depth=d) for n in ("row", "symmetric") for d in (1, 2, 3)},
    **{f"graphsage-{d}": GraphSAGE(depth=d) for d in (1, 2, 3)},
    **{f"gin-{d}": GIN(depth=d) for d in (1, 2, 3)},
    **{f"mlp-{d}": MLP(depth=d) for d in (1, 2, 3)},
    "appnp-0.1": APPNP(alpha=0.1),
}


@pytest.fixture(scope="module")
def golden() -> dict[str, np.ndarray]:
    with np.load(FOLDER / "neural_tangents.npz", allow_pickle=False) as arrays:
        return dict(arrays)


def test_every_stored_kernel_is_compared(golden: dict[str, np.ndarray]) -> None:
    assert set(golden) == {*MODELS, "adjacency", "features"}


@pytest.mark.parametrize("name", list(MODELS))
def test_the_kernel_is_that_of_neural_tangents(name: str, golden: dict[str, np.ndarray]) -> None:
    graph = SimpleNamespace(adjacency=sp.csr_array(golden["adjacency"]), features=golden["features"])
    np.testing.assert_allclose(MODELS[name].kernel(graph), golden[name], rtol=1e-10, atol=1e-10)


def _generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("generate_golden", FOLDER / "generate.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def test_live_results_are_the_stored_ones(golden: dict[str, np.ndarray]) -> None:
    pytest.importorskip("neural_tangents")
    live = _generator().kernels()
    assert set(live) == set(golden)
    for name, value in live.items():
        np.testing.assert_allclose(value, golden[name], rtol=1e-10, atol=1e-10)
