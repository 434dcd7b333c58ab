"""Kernels of Google's neural-tangents for small networks, written to ``neural_tangents.npz``.

Run in an environment with ``neural-tangents==0.6.5 jax==0.4.30 jaxlib==0.4.30 "numpy<2" "scipy<1.13"``
(neural-tangents does not run on current releases of jax)::

    python tests/models/golden/generate.py

A graph of n nodes enters as one "image" with n pixels: Dense acts on the channels of every pixel, Aggregate
applies the graph convolution, and the kernel between pixels is the kernel between nodes.
"""

from __future__ import annotations

import pathlib

import jax
import numpy as np

jax.config.update("jax_enable_x64", True)

import jax.numpy as jnp  # noqa: E402
from neural_tangents import stax  # noqa: E402

N_NODES, N_FEATURES, WIDTH = 9, 5, 64


def graph() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(20240607)
    A = np.triu(rng.random((N_NODES, N_NODES)) < 0.3, 1).astype(float)
    A = A + A.T
    A[-1] = A[:, -1] = 0.0
    X = rng.normal(size=(N_NODES, N_FEATURES))
    X[:4] = np.abs(X[:4])
    return A, X


def convolutions(A: np.ndarray) -> dict[str, np.ndarray]:
    B = A + np.eye(N_NODES)
    d = B.sum(1)
    degree = A.sum(1)
    sage = np.eye(N_NODES) + np.divide(A, degree[:, None], out=np.zeros_like(A), where=degree[:, None] > 0)
    return {"row": B / d[:, None], "symmetric": B / np.sqrt(np.outer(d, d)), "sum": B, "sage": sage}


def dense(std: float, bias: float | None = None, width: int = WIDTH):
    return stax.Dense(width, W_std=std, b_std=bias, parameterization="ntk")


def aggregate():
    return stax.Aggregate(aggregate_axis=1, batch_axis=0, channel_axis=-1)


def ntk(layers: list, X: np.ndarray, S: np.ndarray) -> np.ndarray:
    _, _, kernel_fn = stax.serial(*layers)
    # Aggregate sums over the first index of its pattern: the transpose of S.
    pattern = jnp.asarray(S.T)[None]
    k = kernel_fn(jnp.asarray(X)[None], None, get=("ntk",), pattern=(pattern, pattern))
    return np.asarray(k.ntk).reshape(N_NODES, N_NODES)


ACTIVATIONS = {
    "relu": (stax.Relu, np.sqrt(2.0)),
    "erf": (stax.Erf, np.sqrt(np.pi / 2 / np.arcsin(2 / 3))),
    "gelu": (stax.Gelu, np.sqrt(1 / (1 / 4 + (np.arcsin(1 / 2) + 1 / np.sqrt(3)) / (2 * np.pi)))),
}
"""With the root of c, one over the expectation of its square."""


def gcn(depth: int, activation: str | None) -> list:
    layers = [aggregate(), dense(np.sqrt(N_FEATURES))]
    for _ in range(depth):
        layer, std = ACTIVATIONS[activation] if activation else (None, 1.0)
        layers += [layer()] if layer else []
        layers += [aggregate(), dense(std)]
    return layers


def gin(depth: int, activation: str = "relu") -> list:
    layers = []
    layer, std = ACTIVATIONS[activation]
    for level in range(depth):
        layers += [aggregate(), dense(np.sqrt(N_FEATURES) if level == 0 else 1.0), layer(), dense(std)]
    return layers


def mlp(depth: int, activation: str = "relu") -> list:
    layers = [dense(np.sqrt(N_FEATURES), 1.0)]
    layer, std = ACTIVATIONS[activation]
    for _ in range(depth):
        layers += [layer(), dense(std, 1.0)]
    return layers


def cnn(depth: int, activation: str, pooling: str, images: np.ndarray, q: int) -> np.ndarray:
    layer, std = ACTIVATIONS[activation]
    layers = []
    for level in range(depth):
        scale = np.sqrt(images.shape[-1]) if level == 0 else std
        layers += [stax.Conv(WIDTH, (q, q), padding="SAME", W_std=scale, b_std=None, parameterization="ntk"), layer()]
    layers += [stax.GlobalAvgPool() if pooling == "average" else stax.Flatten(), dense(std)]
    _, _, kernel_fn = stax.serial(*layers)
    return np.asarray(kernel_fn(jnp.asarray(images), None, get=("ntk",)).ntk)


def kernels() -> dict[str, np.ndarray]:
    A, X = graph()
    S = convolutions(A)
    out: dict[str, np.ndarray] = {"adjacency": A, "features": X}
    for depth in (1, 2, 3):
        for norm in ("row", "symmetric"):
            out[f"gcn-{norm}-{depth}"] = ntk(gcn(depth, "relu"), X, S[norm])
            out[f"sgc-{norm}-{depth}"] = ntk(gcn(depth, None), X, S[norm])
        out[f"graphsage-{depth}"] = ntk(gcn(depth, "relu"), X, S["sage"])
        out[f"gin-{depth}"] = ntk(gin(depth), X, S["sum"])
        out[f"mlp-{depth}"] = ntk(mlp(depth), X, np.eye(N_NODES))
    for activation in ("erf", "gelu"):
        out[f"gcn-{activation}"] = ntk(gcn(2, activation), X, S["row"])
        out[f"graphsage-{activation}"] = ntk(gcn(3, activation), X, S["sage"])
        out[f"gin-{activation}"] = ntk(gin(2, activation), X, S["sum"])
        out[f"mlp-{activation}"] = ntk(mlp(3, activation), X, np.eye(N_NODES))
    out["images"] = np.random.default_rng(3).normal(size=(3, 5, 4, 2))
    for pooling in ("average", "flatten"):
        out[f"cnn-{pooling}-1"] = cnn(1, "relu", pooling, out["images"], 3)
        out[f"cnn-{pooling}-3"] = cnn(3, "relu", pooling, out["images"], 3)
        out[f"cnn-{pooling}-erf"] = cnn(2, "erf", pooling, out["images"], 5)
        out[f"cnn-{pooling}-gelu"] = cnn(2, "gelu", pooling, out["images"], 3)
    alpha, P = 0.1, np.eye(N_NODES)
    for _ in range(10):
        P = (1 - alpha) * S["symmetric"] @ P + alpha * np.eye(N_NODES)
    out["appnp-0.1"] = ntk([*mlp(1), aggregate()], X, P)
    return out


if __name__ == "__main__":
    np.savez_compressed(pathlib.Path(__file__).with_name("neural_tangents.npz"), **kernels())
