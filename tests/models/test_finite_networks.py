"""Networks of finite width: the documented functions and gradients, trained to a stationary point."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from tests.models.test_networks import ARCHITECTURES, every_architecture, forward, small_graph, tangent

from labelcert import GCN, MLP, RBF, SGC, Graph, InvalidInput, Linear, MissingExtra
from labelcert.graphs import karate
from labelcert.models.networks import practice, theory
from labelcert.models.networks.torch_extra import torch as imported
from labelcert.svm import train

WIDTH = 6


@pytest.fixture(autouse=True)
def torch() -> Any:
    return pytest.importorskip("torch", reason="networks of finite width need PyTorch (make test-torch)")


class Given:
    """Hands out the weights of a network in the order in which the hand-written ones draw them."""

    def __init__(self, weights: Any) -> None:
        self._queue = [] if weights.embedding is None else [weights.embedding * np.sqrt(weights.width)]
        for level in range(len(weights.linear) + 1):
            self._queue.append(weights.first if level == 0 else weights.linear[level - 1])
            self._queue += [kind[level] for kind in (weights.biases, weights.readouts) if kind]

    def __call__(self, *shape: int) -> np.ndarray:
        return self._queue.pop(0).numpy().reshape(shape)


def wired(name: str, *, reduced: bool) -> tuple[Any, Any, Any]:
    """A network, the same one written by hand, and the shapes of what training adds."""
    import torch

    from labelcert.models.networks.wiring import Place, Weights, Wired

    model, build = ARCHITECTURES[name]
    A, X = small_graph()
    place = Place("cpu", torch.float64)
    architecture = model._architecture(sp.csr_array(A))
    weights = Weights(architecture, X.shape[1], WIDTH, 1, 3, place)
    network = Wired(weights, architecture, X, np.arange(5))
    if reduced:
        inputs = network.inputs if isinstance(network.inputs, torch.Tensor) else network.inputs.dense()
        basis = torch.linalg.svd(inputs, full_matrices=False)[2].T
        network = Wired(weights, architecture, X, np.arange(5), basis)
    steps = build(A, X, Given(weights), WIDTH)
    rows = architecture.propagation_rows(np.arange(5))

    def outputs(moves: Any) -> Any:
        out = network.outputs(moves)
        return out if rows is None else torch.as_tensor(rows) @ out

    return outputs, steps, (weights.shapes(network.first_inputs), place)


@every_architecture
@pytest.mark.parametrize("reduced", [False, True])
def test_functions_and_gradients_are_those_of_the_network_written_by_hand(name: str, reduced: bool) -> None:
    outputs, steps, (shapes, place) = wired(name, reduced=reduced)
    start = [imported().zeros((1, *shape), dtype=place.dtype) for shape in shapes]
    np.testing.assert_allclose(outputs(start)[0].numpy(), forward(steps)[0], atol=1e-10)
    for at_once in (2, 5):
        K = theory.tangent_kernel(outputs, shapes, 5, 1, place, at_once)[0]
        np.testing.assert_allclose(K, tangent(steps, steps), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("model", [GCN(C=0.5), SGC(C=2.0), MLP(C=0.3), GCN(C=0.5, depth=2)])
def test_long_gradient_descent_ends_no_lower(model: Any, torch: Any) -> None:
    from labelcert.models.networks.network import _Trainer

    graph, labeled = karate(), [0, 1, 2, 3, 30, 31, 32, 33]
    network = model.network(32, seed=1, device="cpu")
    trainer = _Trainer(network, *model._views(graph, labeled, [8, 9]), 2)
    shapes, place = trainer._shapes, network._place
    signs = np.where(graph.labels[labeled] == 1, 1.0, -1.0)[None, :, None]
    zeros = [torch.zeros((1, *shape)) for shape in shapes]
    start = trainer._labeled(zeros)
    K = theory.tangent_kernel(trainer._labeled, shapes, len(labeled), 1, place, 4)
    moves, moved = theory.train(trainer._labeled, shapes, signs, model.C, K, place)
    y = torch.as_tensor(signs, dtype=torch.float32)

    def objective(moves: Any) -> Any:
        slack = torch.relu(1 - y * (trainer._labeled(moves) - start))
        return model.C * slack.sum() + 0.5 * sum((move**2).sum() for move in moves)

    found = float(objective(moves))
    by_descent = [zero.clone().requires_grad_() for zero in zeros]
    for step in range(3000):
        gradients = torch.autograd.grad(objective(by_descent), by_descent)
        with torch.no_grad():
            for move, gradient in zip(by_descent, gradients, strict=True):
                move -= 0.05 / (1 + step / 50) * gradient
    assert moved.max() < 1e-3
    assert found <= 1.01 * float(objective(by_descent).detach())
    assert found < float(objective(zeros)) - 0.05


@pytest.mark.parametrize("inductive", [False, True])
def test_a_linear_model_is_its_own_network(inductive: bool) -> None:
    graph, labeled, test = karate(), [0, 1, 2, 30, 32, 33], [8, 9, 5]
    model = Linear(C=0.7, bias=True)
    K, rows = model.kernel_blocks(graph, labeled, test, inductive=inductive)
    labels = np.array([graph.labels[labeled], 1 - graph.labels[labeled]])
    found = model.network(5, device="cpu").train(graph, labeled, test, labels=labels, inductive=inductive)
    expected = [rows @ train(K, np.where(one == 1, 1.0, -1.0), 0.7) for one in labels]
    np.testing.assert_allclose(found.scores, expected, atol=2e-3)
    assert found.predictions.shape == (2, 3)


def test_more_classes_have_one_score_each() -> None:
    rng = np.random.default_rng(0)
    centers = rng.normal(size=(3, 4)) * 2
    truth = np.arange(30) % 3
    graph = Graph(np.zeros((30, 30)), centers[truth] + rng.normal(size=(30, 4)), truth)
    labeled, test = np.arange(12), np.arange(12, 30)
    model = MLP(C=1.0)
    trained = model.network(512, device="cpu").train(graph, labeled, test)
    K, rows = model.kernel_blocks(graph, labeled, test)
    machine = np.stack([rows @ train(K, np.where(truth[labeled] == c, 1.0, -1.0), 1.0) for c in range(3)], axis=1)
    assert trained.scores.shape == (18, 3)
    assert (trained.predictions == truth[test]).mean() > 0.8
    assert np.corrcoef(trained.scores.ravel(), machine.ravel())[0, 1] > 0.97


def test_wider_networks_are_closer_to_the_kernel_machine() -> None:
    graph, labeled, test = karate(), [0, 1, 2, 3, 30, 31, 32, 33], np.arange(4, 30)
    model = GCN(C=0.5)
    K, rows = model.kernel_blocks(graph, labeled, test)
    scores = rows @ train(K, np.where(graph.labels[labeled] == 1, 1.0, -1.0), 0.5)
    away = {
        width: np.mean(
            [
                np.abs(model.network(width, seed, device="cpu").train(graph, labeled, test).scores - scores).mean()
                for seed in range(4)
            ]
        )
        for width in (16, 1024)
    }
    assert away[1024] < 0.35 * away[16]


def test_the_order_of_nodes_does_not_matter_and_seeds_do() -> None:
    graph, model = karate(), GCN(C=0.5)
    one = model.network(32, 4, device="cpu").train(graph, [0, 1, 32, 33], [8, 9, 5])
    other = model.network(32, 4, device="cpu").train(graph, [33, 1, 0, 32], [5, 8, 9])
    np.testing.assert_allclose(one.scores, other.scores[[1, 2, 0]], atol=1e-3)
    assert not np.allclose(
        one.scores, model.network(32, 5, device="cpu").train(graph, [0, 1, 32, 33], [8, 9, 5]).scores
    )


def test_practitioners_fit_the_labels_and_stop_early(monkeypatch: pytest.MonkeyPatch) -> None:
    graph, labeled = karate(), np.array([0, 1, 2, 3, 30, 31, 32, 33])
    network = GCN().network(32, recipe="practice", device="cpu")
    assert (network.train(graph, labeled, labeled).predictions == graph.labels[labeled]).all()
    stopped = network.train(graph, labeled, [8, 9], validation=[5, 29, 10, 28])
    assert stopped.epochs is not None
    monkeypatch.setattr(practice, "EPOCHS", int(stopped.epochs[0]))
    np.testing.assert_allclose(network.train(graph, labeled, [8, 9]).scores, stopped.scores, atol=1e-6)
    assert 0 < stopped.epochs[0] < 190


def test_what_is_refused() -> None:
    graph = karate()
    with pytest.raises(InvalidInput, match="not there for RBF"):
        RBF().network(8, device="cpu").train(graph, [0, 33], [8])
    with pytest.raises(InvalidInput, match="published variant"):
        GCN(variant="published").network(8)
    with pytest.raises(InvalidInput, match="width must be"):
        GCN().network(0)
    with pytest.raises(InvalidInput, match="recipe must be one of"):
        GCN().network(8, recipe="magic")  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="device must be one of"):
        GCN().network(8, device="tpu")
    with pytest.raises(InvalidInput, match=r"labels must be class codes 0, 1, shape \(2,\)"):
        GCN().network(8, device="cpu").train(graph, [0, 33], [8], labels=[0, 7])
    with pytest.raises(InvalidInput, match="at least two classes"):
        GCN().network(8, device="cpu").train(graph, [0, 1], [8])


def test_a_missing_torch_names_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    imported.cache_clear()
    try:
        with pytest.raises(MissingExtra, match=r"pip install 'labelcert\[torch\]'"):
            GCN().network(8)
    finally:
        imported.cache_clear()
