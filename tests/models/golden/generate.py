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


def gcn(depth: int, relu: bool) -> list:
    layers = [aggregate(), dense(np.sqrt(N_FEATURES))]
    for _ in range(depth):
        layers += [stax.Relu()] if relu else []
        layers += [aggregate(), dense(np.sqrt(2.0) if relu else 1.0)]
    return layers


def gin(depth: int) -> list:
    layers = []
    for level in range(depth):
        layers += [aggregate(), dense(np.sqrt(N_FEATURES) if level == 0 else 1.0), stax.Relu(), dense(np.sqrt(2.0))]
    return layers


def mlp(depth: int) -> list:
    layers = [dense(np.sqrt(N_FEATURES), 1.0)]
    for _ in range(depth):
        layers += [stax.Relu(), dense(np.sqrt(2.0), 1.0)]
    return layers


def kernels() -> dict[str, np.ndarray]:
    A, X = graph()
    S = convolutions(A)
    out: dict[str, np.ndarray] = {"adjacency": A, "features": X}
    for depth in (1, 2, 3):
        for norm in ("row", "symmetric"):
            out[f"gcn-{norm}-{depth}"] = ntk(gcn(depth, relu=True), X, S[norm])
            out[f"sgc-{norm}-{depth}"] = ntk(gcn(depth, relu=False), X, S[norm])
        out[f"graphsage-{depth}"] = ntk(gcn(depth, relu=True), X, S["sage"])
        out[f"gin-{depth}"] = ntk(gin(depth), X, S["sum"])
        out[f"mlp-{depth}"] = ntk(mlp(depth), X, np.eye(N_NODES))
    alpha, P = 0.1, np.eye(N_NODES)
    for _ in range(10):
        P = (1 - alpha) * S["symmetric"] @ P + alpha * np.eye(N_NODES)
    out["appnp-0.1"] = ntk([*mlp(1), aggregate()], X, P)
    return out


if __name__ == "__main__":
    np.savez_compressed(pathlib.Path(__file__).with_name("neural_tangents.npz"), **kernels())
