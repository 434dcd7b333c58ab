"""Options, names and node sets: what is accepted, and what the error messages say."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from labelcert.arrays import Float
from labelcert.errors import InvalidInput, WorkTooLarge
from labelcert.graphs import Graph
from labelcert.models import APPNP, CNN, GCN, GIN, MLP, PPNP, RBF, SGC, GCNSkipAlpha, Linear, model_from_name, models
from labelcert.models.by_name import MODELS, ModelInfo
from labelcert.models.features import Features, gram
from labelcert.models.plain_kernels import PairwiseModel


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: GCN(C=0.0), "C must be a positive finite number, got 0.0"),
        (lambda: SGC(C=float("nan")), "C must be a positive finite number, got nan"),
        (lambda: GCN(depth=0), "depth must be a whole number of at least 1 \\(hidden layers\\), got 0"),
        (lambda: MLP(depth=1.5), "depth must be a whole number"),
        (lambda: GIN(depth=True), "depth must be a whole number"),
        (lambda: GCN(normalization="column"), "normalization must be one of 'row', 'symmetric', 'none', got 'column'"),
        (lambda: GCN(activation="sine"), "activation must be one of 'relu', 'linear', 'erf', .*, got 'sine'"),
        (lambda: GCN(activation="erf", variant="published"), "the published code knows the activations 'relu' and"),
        (lambda: GCN(variant="old"), "variant must be one of 'exact', 'published', got 'old'"),
        (lambda: GCN(edge_weight=-1.0), "edge_weight must lie between 0 and 1e"),
        (lambda: APPNP(alpha=1.5), "alpha must lie between 0 and 1, got 1.5"),
        (lambda: APPNP(iterations=0), "iterations must be a whole number of at least 1 \\(None"),
        (lambda: APPNP(alpha=0.0, iterations=None), "needs alpha of at least 0.001, got 0.0; use APPNP"),
        (lambda: PPNP(normalization="none"), "needs normalization 'row' or 'symmetric', got 'none'"),
        (lambda: GCNSkipAlpha(skip_alpha=-0.1), "skip_alpha must lie between 0 and 1, got -0.1"),
        (lambda: CNN(filter=2), "filter must be an odd number of pixels, got 2"),
        (lambda: CNN(pooling="max"), "pooling must be one of 'average', 'flatten', got 'max'"),
        (lambda: CNN(image=(8, 8)), r"image must be \(height, width, channels\), got \(8, 8\)"),
        (lambda: CNN().kernel(Graph(np.zeros((2, 2)), np.eye(2), [0, 1])), "2 features are not the pixels of a square"),
        (lambda: RBF(gamma=0.0), "gamma must be a positive finite number, got 0.0"),
        (lambda: Linear(bias="yes"), "bias must be True or False, got 'yes'"),
        (lambda: model_from_name("gcnn"), "model must be one of gcn, sgc, .*, got 'gcnn'; did you mean 'gcn'"),
        (lambda: model_from_name("sgc", alpha=1), "model 'sgc' has no option 'alpha'; its options are C, depth"),
    ],
)
def test_bad_options_are_refused(build: Callable[[], Any], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        build()


@pytest.mark.parametrize(
    ("labeled", "test", "inductive", "message"),
    [
        ([0, 99], [1], False, r"labeled: expected indices in 0\.\.9, got 99 at position 1"),
        ([0, -1], [1], False, r"labeled: expected indices in 0\.\.9, got -1"),
        ([0, 1], [], False, "test: expected at least one node, got none"),
        ([0, 0, 1], [2], False, "labeled: expected distinct nodes, got 0 more than once"),
        ([0.5], [2], False, "labeled: expected integer indices or a boolean mask"),
        ([True, False], [2], False, "labeled: expected a boolean mask with one entry for each of the 10 nodes, got 2"),
        ([0, 1, 2], [2, 3], True, r"none may be labelled, but 1 of them are \(nodes 2\)"),
    ],
)
def test_bad_node_sets_are_refused(
    random_graph: Callable[..., Graph], labeled: Any, test: Any, inductive: bool, message: str
) -> None:
    with pytest.raises(InvalidInput, match=message):
        GCN().kernel_blocks(random_graph(10), labeled, test, inductive=inductive)


def test_masks_and_indices_are_the_same(random_graph: Callable[..., Graph]) -> None:
    graph = random_graph(10)
    mask = np.arange(10) < 4
    by_mask = GCN().kernel_blocks(graph, mask, ~mask)
    by_index = GCN().kernel_blocks(graph, np.arange(4), np.arange(4, 10))
    for a, b in zip(by_mask, by_index, strict=True):
        np.testing.assert_array_equal(a, b)


def test_models_are_immutable_and_compare_by_value() -> None:
    model = GCN(C=0.075)
    assert model == GCN(C=0.075) != GCN(C=0.1)
    with pytest.raises(dataclasses.FrozenInstanceError):
        model.C = 1.0  # type: ignore[misc]


def test_options_are_keyword_only() -> None:
    with pytest.raises(TypeError):
        GCN(2)  # type: ignore[call-arg, misc]


def test_images_that_do_not_fit_into_memory_are_refused() -> None:
    with pytest.raises(WorkTooLarge, match=r"the kernel of images of 90000 pixels .*; use pooling='flatten'"):
        CNN().kernel(Graph(np.zeros((2, 2)), np.zeros((2, 90_000)), [0, 1]))


def test_every_registered_model_is_built_by_its_name(random_graph: Callable[..., Graph]) -> None:
    names = [info.name for info in models()]
    assert names == [
        "gcn",
        "sgc",
        "graphsage",
        "gin",
        "appnp",
        "ppnp",
        "gcn-skip-pc",
        "gcn-skip-alpha",
        "mlp",
        "cnn",
        "linear",
        "rbf",
    ]
    for info in models():
        model = model_from_name(info.name, C=0.5)
        assert type(model) is info.model
        assert model.C == 0.5
        assert info.description
        assert model.kernel(random_graph(6)).shape == (6, 6)


def test_a_new_model_takes_one_class_and_one_line(
    random_graph: Callable[..., Graph], monkeypatch: pytest.MonkeyPatch
) -> None:
    @dataclasses.dataclass(frozen=True, kw_only=True)
    class Polynomial(PairwiseModel):
        degree: int = 2

        def _between(self, left: Features, right: Features, *, same: bool) -> Float:
            return np.asarray(gram(left, right) ** self.degree)

    monkeypatch.setitem(MODELS, "toy", ModelInfo("toy", "powers of inner products", Polynomial))
    assert models()[-1].options == ("C", "degree")
    model, graph = model_from_name("toy", degree=3), random_graph(6)
    X = np.asarray(graph.features)
    np.testing.assert_allclose(model.kernel(graph), (X @ X.T) ** 3, atol=1e-12)
    K_train, K_test = model.kernel_blocks(graph, [0, 1], [4, 2, 3])
    assert (K_train.shape, K_test.shape) == ((2, 2), (3, 2))
    with pytest.raises(InvalidInput, match="model 'toy' has no option 'depth'; its options are C, degree"):
        model_from_name("toy", depth=2)


def test_certificates_come_in_the_order_of_the_test_nodes(random_graph: Callable[..., Graph]) -> None:
    graph = random_graph(14, 5, seed=3)
    labeled, test = np.arange(8), np.array([13, 9, 11])
    together = GCN(C=0.5).certify(graph, labeled, test, max_flips=2)
    for position, node in enumerate(test):
        alone = GCN(C=0.5).certify(graph, labeled, [node], max_flips=2)
        assert alone.predictions[0] == together.predictions[position]
        assert alone.radius_lower[0] == together.radius_lower[position]


def test_inductive_certificates_are_given(random_graph: Callable[..., Graph]) -> None:
    graph = random_graph(14, 5, seed=3)
    certificate = APPNP(C=0.5).certify(graph, np.arange(8), [13, 9], inductive=True, max_flips=1)
    assert len(certificate.predictions) == 2


def test_labelled_nodes_without_label_are_refused(random_graph: Callable[..., Graph]) -> None:
    graph = random_graph(10)
    labels = graph.labels.copy()
    labels[1] = -1
    unlabeled = Graph(graph.adjacency, graph.features, labels)
    with pytest.raises(InvalidInput, match=r"1 of 2 have none \(such as 1\); leave them out"):
        GCN().certify(unlabeled, [0, 1], [2])


def test_importing_models_imports_no_heavy_package() -> None:
    code = "import sys, labelcert.models; print([m for m in ('torch', 'jax', 'sklearn') if m in sys.modules])"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"
