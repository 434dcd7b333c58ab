"""The kernels against the networks they claim to be the limits of.

Random networks of finite width are built literally as documented, and the inner products of their gradients
come from hand-written backpropagation (itself checked by finite differences, and by torch where it is
installed). With growing width they must converge to the kernel.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.special import erf, ndtr

from labelcert.models import APPNP, CNN, GCN, GIN, MLP, PPNP, SGC, GCNSkipAlpha, GCNSkipPC, GraphSAGE, Linear, Model

D = 4


@dataclass(frozen=True)
class Start:
    """H <- value, a constant."""

    value: np.ndarray


@dataclass(frozen=True)
class Convolve:
    """H <- T H."""

    T: np.ndarray


@dataclass(frozen=True)
class Gather:
    """H <- the T H side by side."""

    T: list[np.ndarray]


@dataclass(frozen=True)
class Add:
    """H <- H + value, a constant."""

    value: np.ndarray


@dataclass(frozen=True)
class Weight:
    """H <- H W, W trained."""

    W: np.ndarray


@dataclass(frozen=True)
class Bias:
    """H <- H + b, b trained."""

    b: np.ndarray


@dataclass(frozen=True)
class Scale:
    """H <- factor H."""

    factor: float


@dataclass(frozen=True)
class Activate:
    """H <- σ(H)."""

    name: str = "relu"


ACTIVATED: dict[str, tuple[Callable[[np.ndarray], np.ndarray], Callable[[np.ndarray], np.ndarray]]] = {
    "relu": (lambda H: np.maximum(H, 0.0), lambda H: H > 0.0),
    "linear": (lambda H: H, np.ones_like),
    "erf": (erf, lambda H: 2 / np.sqrt(np.pi) * np.exp(-(H**2))),
    "gelu": (lambda H: H * ndtr(H), lambda H: ndtr(H) + H * np.exp(-(H**2) / 2) / np.sqrt(2 * np.pi)),
    "tanh": (np.tanh, lambda H: 1 - np.tanh(H) ** 2),
}
"""Each activation and its derivative."""

Steps = list[Start | Convolve | Gather | Add | Weight | Bias | Scale | Activate]
Build = Callable[[np.ndarray, np.ndarray, "Draws", int], Steps]


def forward(steps: Steps) -> tuple[np.ndarray, list[np.ndarray]]:
    """Output, shape (n, 1), and the input of each step."""
    H, inputs = np.empty((0, 0)), []
    for step in steps:
        inputs.append(H)
        match step:
            case Start(value):
                H = value
            case Convolve(T):
                H = T @ H
            case Gather(several):
                H = np.concatenate([T @ H for T in several], axis=1)
            case Add(value):
                H = H + value
            case Weight(W):
                H = H @ W
            case Bias(b):
                H = H + b
            case Scale(factor):
                H = factor * H
            case Activate(name):
                H = ACTIVATED[name][0](H)
    return H, inputs


def gradients(steps: Steps) -> list[tuple[np.ndarray | None, np.ndarray]]:
    """Per trained step, last first: its input H (None for a bias) and G, G[i] = d f_i / d (its output)."""
    out, inputs = forward(steps)
    G = np.eye(len(out))[:, :, None]
    collected: list[tuple[np.ndarray | None, np.ndarray]] = []
    for step, H in zip(reversed(steps), reversed(inputs), strict=True):
        match step:
            case Convolve(T):
                G = np.einsum("ba,ibh->iah", T, G)
            case Gather(several):
                parts = np.split(G, len(several), axis=2)
                G = sum(np.einsum("ba,ibh->iah", T, part) for T, part in zip(several, parts, strict=True))
            case Weight(W):
                collected.append((H, G))
                G = G @ W.T
            case Bias():
                collected.append((None, G))
            case Scale(factor):
                G = factor * G
            case Activate(name):
                G = G * ACTIVATED[name][1](H)
    return collected


def tangent(left: Steps, right: Steps) -> np.ndarray:
    """Inner products of the gradients of two networks that share their weights, shape (n_left, n_right)."""
    total = np.zeros(())
    for (H, G), (H_, G_) in zip(gradients(left), gradients(right), strict=True):
        if H is None or H_ is None:
            total = total + G.sum(axis=1) @ G_.sum(axis=1).T
        else:
            backward = np.tensordot(G, G_, axes=(2, 2))
            total = total + np.einsum("iajb,ab->ij", backward, H @ H_.T)
    return total


class Draws:
    """Weights drawn on first use and handed out again, in order, to a second network."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.drawn: list[np.ndarray] = []
        self.position = 0

    def __call__(self, *shape: int) -> np.ndarray:
        if self.position == len(self.drawn):
            self.drawn.append(self.rng.standard_normal(shape))
        self.position += 1
        return self.drawn[self.position - 1]

    def rewind(self) -> Draws:
        self.position = 0
        return self


def row(A: np.ndarray) -> np.ndarray:
    B = A + np.eye(len(A))
    return B / B.sum(axis=1, keepdims=True)


def symmetric(A: np.ndarray) -> np.ndarray:
    B = A + np.eye(len(A))
    d = B.sum(axis=1)
    return B / np.sqrt(np.outer(d, d))


def total(A: np.ndarray) -> np.ndarray:
    return A + np.eye(len(A))


def mean(A: np.ndarray) -> np.ndarray:
    d = A.sum(axis=1, keepdims=True)
    return np.eye(len(A)) + np.divide(A, d, out=np.zeros_like(A), where=d > 0)


def heavy(A: np.ndarray) -> np.ndarray:
    return row(0.25 * A)


def pagerank(A: np.ndarray) -> np.ndarray:
    P = np.eye(len(A))
    for _ in range(10):
        P = 0.8 * symmetric(A) @ P + 0.2 * np.eye(len(A))
    return P


def exact_pagerank(A: np.ndarray) -> np.ndarray:
    return 0.2 * np.linalg.inv(np.eye(len(A)) - 0.8 * symmetric(A))


def activate(name: str, h: int) -> Steps:
    """σ, scaled as documented: c is one over the expectation of its square."""
    x, w = np.polynomial.hermite_e.hermegauss(120)
    return [Activate(name), Scale(np.sqrt(w.sum() / (w @ ACTIVATED[name][0](x) ** 2) / h))]


def gcn(convolution: Callable[[np.ndarray], np.ndarray], depth: int, *, activation: str = "relu") -> Build:
    def build(A: np.ndarray, X: np.ndarray, draw: Draws, h: int) -> Steps:
        S = convolution(A)
        steps: Steps = [Start(X), Convolve(S), Weight(draw(D, h))]
        for level in range(1, depth + 1):
            steps += activate(activation, h)
            steps += [Convolve(S), Weight(draw(h, h if level < depth else 1))]
        return steps

    return build


def gin(depth: int, *, activation: str = "relu") -> Build:
    def build(A: np.ndarray, X: np.ndarray, draw: Draws, h: int) -> Steps:
        steps: Steps = [Start(X)]
        for level in range(1, depth + 1):
            steps += [Convolve(total(A)), Weight(draw(D if level == 1 else h, h))]
            steps += [Scale(1.0 if level == 1 else np.sqrt(1 / h))]
            steps += activate(activation, h)
            steps += [Weight(draw(h, h if level < depth else 1))]
        return steps

    return build


def mlp(
    depth: int, propagation: Callable[[np.ndarray], np.ndarray] = lambda A: np.eye(len(A)), *, activation: str = "relu"
) -> Build:
    def build(A: np.ndarray, X: np.ndarray, draw: Draws, h: int) -> Steps:
        steps: Steps = [Start(X), Weight(draw(D, h)), Bias(draw(1, h))]
        for level in range(1, depth + 1):
            width = h if level < depth else 1
            steps += [*activate(activation, h), Weight(draw(h, width)), Bias(draw(1, width))]
        return [*steps, Convolve(propagation(A))]

    return build


def skip_pc(depth: int, *, activation: str = "relu") -> Build:
    def build(A: np.ndarray, X: np.ndarray, draw: Draws, h: int) -> Steps:
        S, H0 = row(A), X @ draw(D, h) / np.sqrt(h)
        steps: Steps = [Start(H0), Convolve(S), Weight(draw(h, h))]
        for level in range(1, depth + 1):
            steps += [*activate(activation, h), Add(H0), Convolve(S)]
            steps += [Weight(draw(h, h if level < depth else 1))]
        return steps

    return build


def skip_alpha(depth: int, alpha: float, *, activation: str = "relu") -> Build:
    def build(A: np.ndarray, X: np.ndarray, draw: Draws, h: int) -> Steps:
        S, H0 = (1 - alpha) * row(A), X @ draw(D, h) / np.sqrt(h)
        steps: Steps = [Start(H0), Convolve(S), Add(alpha * H0), Weight(draw(h, h))]
        for level in range(1, depth + 1):
            steps += [*activate(activation, h), Convolve(S), Add(alpha * H0)]
            steps += [Weight(draw(h, h if level < depth else 1))]
        return steps

    return build


SMOOTH: list[tuple[str, Model, Build]] = [
    ("gcn-erf-2", GCN(depth=2, activation="erf"), gcn(row, 2, activation="erf")),
    ("graphsage-tanh-2", GraphSAGE(depth=2, activation="tanh"), gcn(mean, 2, activation="tanh")),
    ("gin-gelu", GIN(activation="gelu"), gin(1, activation="gelu")),
    ("appnp-tanh", APPNP(alpha=0.2, activation="tanh"), mlp(1, pagerank, activation="tanh")),
    ("skip-pc-gelu", GCNSkipPC(activation="gelu"), skip_pc(1, activation="gelu")),
    ("skip-alpha-erf", GCNSkipAlpha(skip_alpha=0.3, activation="erf"), skip_alpha(1, 0.3, activation="erf")),
    ("mlp-gelu-2", MLP(depth=2, activation="gelu"), mlp(2, activation="gelu")),
]
ARCHITECTURES: dict[str, tuple[Model, Build]] = {
    "gcn-row": (GCN(), gcn(row, 1)),
    "gcn-symmetric": (GCN(normalization="symmetric"), gcn(symmetric, 1)),
    "gcn-sum": (GCN(normalization="none"), gcn(total, 1)),
    "gcn-light-edges": (GCN(edge_weight=0.25), gcn(heavy, 1)),
    "gcn-2": (GCN(depth=2), gcn(row, 2)),
    "sgc": (SGC(), gcn(row, 1, activation="linear")),
    "sgc-2": (SGC(depth=2), gcn(row, 2, activation="linear")),
    "graphsage": (GraphSAGE(), gcn(mean, 1)),
    "graphsage-2": (GraphSAGE(depth=2), gcn(mean, 2)),
    "gin": (GIN(), gin(1)),
    "gin-2": (GIN(depth=2), gin(2)),
    "gin-linear-2": (GIN(depth=2, activation="linear"), gin(2, activation="linear")),
    "appnp": (APPNP(alpha=0.2), mlp(1, pagerank)),
    "appnp-2": (APPNP(alpha=0.2, depth=2), mlp(2, pagerank)),
    "ppnp": (PPNP(alpha=0.2), mlp(1, exact_pagerank)),
    "ppnp-2": (PPNP(alpha=0.2, depth=2), mlp(2, exact_pagerank)),
    "skip-pc": (GCNSkipPC(), skip_pc(1)),
    "skip-pc-2": (GCNSkipPC(depth=2), skip_pc(2)),
    "skip-alpha": (GCNSkipAlpha(skip_alpha=0.3), skip_alpha(1, 0.3)),
    "skip-alpha-2": (GCNSkipAlpha(skip_alpha=0.3, depth=2), skip_alpha(2, 0.3)),
    "mlp": (MLP(), mlp(1)),
    "mlp-2": (MLP(depth=2), mlp(2)),
    **{name: (model, build) for name, model, build in SMOOTH},
}
SLOW = {name for name, *_ in SMOOTH if name.endswith("-2")}
every_architecture = pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.long) if name in SLOW else name for name in ARCHITECTURES]
)
DEEP = {name for name in ARCHITECTURES if name.endswith("-2") and name != "gcn-2"} | {name for name, *_ in SMOOTH}
"""One of depth 2 is enough where all architectures were compared at that depth before, and one activation."""
most_architectures = pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.long) if name in DEEP else name for name in ARCHITECTURES]
)


def small_graph() -> tuple[np.ndarray, np.ndarray]:
    A = np.zeros((5, 5))
    for i, j in ((0, 1), (1, 2), (2, 3), (0, 2), (3, 4)):
        A[i, j] = A[j, i] = 1.0
    X = np.random.default_rng(7).normal(size=(5, D)) / 2 + 0.3
    return A, X


def deviations(exact: np.ndarray, empirical: Callable[[int, int], np.ndarray], width: int, draws: int) -> np.ndarray:
    """Empirical minus exact kernel relative to the latter's largest entry, shape (draws, ...)."""
    scale = np.abs(exact).max()
    return np.stack([(empirical(seed, width) - exact) / scale for seed in range(draws)])


def assert_converges(exact: np.ndarray, empirical: Callable[[int, int], np.ndarray]) -> None:
    """Within Monte-Carlo error at both widths, with an error that shrinks like the root of the width."""
    narrow, wide = 48, 768
    spread = {}
    for width, draws in ((narrow, 60), (wide, 16)):
        error = deviations(exact, empirical, width, draws)
        spread[width] = np.sqrt((error**2).mean())
        standard_error = error.std(axis=0, ddof=1) / np.sqrt(draws)
        # The mean over networks of finite width is off by O(1/width); linear networks have no such bias.
        assert (np.abs(error.mean(axis=0)) <= 5.0 * standard_error + 1.0 / width).all()
    assert spread[wide] < 0.12
    shrinkage = spread[narrow] / spread[wide]
    assert 2.4 < shrinkage < 6.6, f"expected about sqrt({wide}/{narrow}) = 4, got {shrinkage:.2f}"


@every_architecture
def test_the_empirical_tangent_kernel_converges_to_the_kernel(name: str) -> None:
    model, build = ARCHITECTURES[name]
    A, X = small_graph()
    K = model.kernel(SimpleNamespace(adjacency=sp.csr_array(A), features=X))

    def empirical(seed: int, width: int) -> np.ndarray:
        steps = build(A, X, Draws(seed), width)
        return tangent(steps, steps)

    assert_converges(K, empirical)


@most_architectures
def test_inductive_rows_are_gradients_in_the_new_graph_against_gradients_in_the_training_graph(name: str) -> None:
    model, build = ARCHITECTURES[name]
    A, X = small_graph()
    labeled, test = np.array([3, 0]), np.array([4, 1])
    kept = np.setdiff1d(np.arange(5), test)
    graph = SimpleNamespace(adjacency=sp.csr_array(A), features=X)
    K_train, K_test = model.kernel_blocks(graph, labeled, test, inductive=True)
    own = np.searchsorted(kept, labeled)

    def empirical(seed: int, width: int) -> np.ndarray:
        draw = Draws(seed)
        after = build(A, X, draw, width)
        before = build(A[np.ix_(kept, kept)], X[kept], draw.rewind(), width)
        return np.concatenate([tangent(before, before)[np.ix_(own, own)], tangent(after, before)[np.ix_(test, own)]])

    assert_converges(np.concatenate([K_train, K_test]), empirical)


def test_the_published_skip_alpha_kernel_is_not_the_limit_of_the_network() -> None:
    """The check above has teeth: without the factor (1 - alpha)^2 it fails."""
    _, build = ARCHITECTURES["skip-alpha"]
    A, X = small_graph()
    published = GCNSkipAlpha(skip_alpha=0.3, variant="published")
    K = published.kernel(SimpleNamespace(adjacency=sp.csr_array(A), features=X))

    def empirical(seed: int, width: int) -> np.ndarray:
        steps = build(A, X, Draws(seed), width)
        return tangent(steps, steps)

    with pytest.raises(AssertionError):
        assert_converges(K, empirical)


def test_the_linear_kernel_is_that_of_the_linear_model() -> None:
    A, X = small_graph()
    graph = SimpleNamespace(adjacency=sp.csr_array(A), features=X)
    steps: Steps = [Start(X), Weight(np.zeros((D, 1)))]
    np.testing.assert_allclose(Linear().kernel(graph), tangent(steps, steps), atol=1e-14)
    steps.append(Bias(np.zeros((1, 1))))
    np.testing.assert_allclose(Linear(bias=True).kernel(graph), tangent(steps, steps), atol=1e-14)


@every_architecture
def test_backpropagation_agrees_with_finite_differences(name: str) -> None:
    A, X = small_graph()
    steps = ARCHITECTURES[name][1](A, X, Draws(3), 6)
    rng, eps = np.random.default_rng(0), 1e-6
    shifts: list[Any] = [
        rng.standard_normal(step.W.shape)
        if isinstance(step, Weight)
        else rng.standard_normal(step.b.shape)
        if isinstance(step, Bias)
        else None
        for step in steps
    ]

    def moved(t: float) -> np.ndarray:
        out: Steps = []
        for step, shift in zip(steps, shifts, strict=True):
            match step:
                case Weight(W):
                    out.append(Weight(W + t * shift))
                case Bias(b):
                    out.append(Bias(b + t * shift))
                case _:
                    out.append(step)
        return forward(out)[0].ravel()

    slope = np.zeros(5)
    trained = [shift for shift in shifts if shift is not None]
    for (H, G), shift in zip(gradients(steps), reversed(trained), strict=True):
        slope += (G * (shift if H is None else H @ shift)).sum(axis=(1, 2))
    np.testing.assert_allclose((moved(eps) - moved(-eps)) / (2 * eps), slope, rtol=1e-6, atol=1e-7)


@every_architecture
def test_backpropagation_agrees_with_torch(name: str) -> None:
    torch = pytest.importorskip("torch")
    A, X = small_graph()
    steps = ARCHITECTURES[name][1](A, X, Draws(3), 6)
    H, parameters = torch.empty(0), []
    for step in steps:
        match step:
            case Start(value):
                H = torch.tensor(value)
            case Convolve(T):
                H = torch.tensor(T) @ H
            case Add(value):
                H = H + torch.tensor(value)
            case Weight(value) | Bias(value):
                parameters.append(torch.tensor(value, requires_grad=True))
                H = H @ parameters[-1] if isinstance(step, Weight) else H + parameters[-1]
            case Scale(factor):
                H = factor * H
            case Activate(name):
                special = {"linear": torch.positive, "gelu": torch.nn.functional.gelu}
                H = (special[name] if name in special else getattr(torch, name))(H)
    rows = [
        torch.cat([g.ravel() for g in torch.autograd.grad(out, parameters, retain_graph=True)]) for out in H.ravel()
    ]
    jacobian = torch.stack(rows).numpy()
    np.testing.assert_allclose(tangent(steps, steps), jacobian @ jacobian.T, rtol=1e-10, atol=1e-12)


def cnn(shape: tuple[int, int, int], depth: int, q: int, pooling: str, activation: str) -> Build:
    def build(A: np.ndarray, X: np.ndarray, draw: Draws, h: int) -> Steps:
        height, width, channels = shape
        n, P = len(X), height * width

        def window(down: int, along: int) -> np.ndarray:
            """What lies so many pixels away, for the pixels of all images, and zeros beyond the border."""
            return np.kron(np.eye(n), np.kron(np.eye(height, k=down), np.eye(width, k=along)))

        reach = range(-(q // 2), q // 2 + 1)
        steps: Steps = [Start(X.reshape(n * P, channels))]
        for level in range(depth):
            steps += [Gather([window(down, along) for down in reach for along in reach]), Scale(1 / q)]
            steps += [Weight(draw(q * q * (h if level else channels), h)), *activate(activation, h)]
        if pooling == "average":
            return [*steps, Convolve(np.kron(np.eye(n), np.full((1, P), 1 / P))), Weight(draw(h, 1))]
        pixels = [np.kron(np.eye(n), np.eye(P)[p : p + 1]) for p in range(P)]
        return [*steps, Gather(pixels), Scale(1 / np.sqrt(P)), Weight(draw(P * h, 1))]

    return build


@pytest.mark.parametrize(
    ("pooling", "depth", "activation"),
    [
        ("average", 1, "relu"),
        ("flatten", 1, "tanh"),
        pytest.param("average", 2, "erf", marks=pytest.mark.long),
        pytest.param("flatten", 2, "relu", marks=pytest.mark.long),
    ],
)
def test_convolutional_networks_converge_to_the_kernel(pooling: Any, depth: int, activation: Any) -> None:
    shape, X = (2, 3, 2), np.random.default_rng(8).normal(size=(3, 12))
    model = CNN(depth=depth, pooling=pooling, activation=activation, image=shape)
    K = model.kernel(SimpleNamespace(adjacency=sp.csr_array((3, 3)), features=X))
    build = cnn(shape, depth, 3, pooling, activation)

    def empirical(seed: int, width: int) -> np.ndarray:
        steps = build(np.zeros((3, 3)), X, Draws(seed), width)
        return tangent(steps, steps)

    assert_converges(K, empirical)
