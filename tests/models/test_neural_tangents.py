"""Agreement with Google's neural-tangents, from stored results and, where it runs, live."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from labelcert.models import APPNP, CNN, GCN, GIN, MLP, SGC, GraphSAGE, Model
from labelcert.models.activations import Activation
from labelcert.models.convolutional import POOLINGS

SMOOTH: tuple[Activation, ...] = ("erf", "gelu")
FOLDER = Path(__file__).parent / "golden"
MODELS: dict[str, Model] = {
    **{f"gcn-{n}-{d}": GCN(normalization=n, depth=d) for n in ("row", "symmetric") for d in (1, 2, 3)},
    **{f"sgc-{n}-{d}": SGC(normalization=n, depth=d) for n in ("row", "symmetric") for d in (1, 2, 3)},
    **{f"graphsage-{d}": GraphSAGE(depth=d) for d in (1, 2, 3)},
    **{f"gin-{d}": GIN(depth=d) for d in (1, 2, 3)},
    **{f"mlp-{d}": MLP(depth=d) for d in (1, 2, 3)},
    "appnp-0.1": APPNP(alpha=0.1),
    **{f"gcn-{a}": GCN(depth=2, activation=a) for a in SMOOTH},
    **{f"graphsage-{a}": GraphSAGE(depth=3, activation=a) for a in SMOOTH},
    **{f"gin-{a}": GIN(depth=2, activation=a) for a in SMOOTH},
    **{f"mlp-{a}": MLP(depth=3, activation=a) for a in SMOOTH},
}
IMAGES: dict[str, Model] = {}
for pooling in POOLINGS:
    given: Any = {"pooling": pooling, "image": (5, 4, 2)}
    IMAGES |= {f"cnn-{pooling}-1": CNN(**given), f"cnn-{pooling}-3": CNN(depth=3, **given)}
    IMAGES[f"cnn-{pooling}-erf"] = CNN(depth=2, activation="erf", filter=5, **given)
    IMAGES[f"cnn-{pooling}-gelu"] = CNN(depth=2, activation="gelu", **given)


@pytest.fixture(scope="module")
def golden() -> dict[str, np.ndarray]:
    with np.load(FOLDER / "neural_tangents.npz", allow_pickle=False) as arrays:
        return dict(arrays)


def test_every_stored_kernel_is_compared(golden: dict[str, np.ndarray]) -> None:
    assert set(golden) == {*MODELS, *IMAGES, "adjacency", "features", "images"}


@pytest.mark.parametrize("name", list(MODELS))
def test_the_kernel_is_that_of_neural_tangents(name: str, golden: dict[str, np.ndarray]) -> None:
    graph = SimpleNamespace(adjacency=sp.csr_array(golden["adjacency"]), features=golden["features"])
    np.testing.assert_allclose(MODELS[name].kernel(graph), golden[name], rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("name", list(IMAGES))
def test_the_kernel_of_images_is_that_of_neural_tangents(name: str, golden: dict[str, np.ndarray]) -> None:
    images = golden["images"].reshape(3, -1)
    K = IMAGES[name].kernel(SimpleNamespace(adjacency=sp.csr_array((3, 3)), features=images))
    np.testing.assert_allclose(K, golden[name], rtol=1e-8, atol=1e-10)


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
