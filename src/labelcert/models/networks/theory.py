r"""Training as the theory assumes: full batch, to convergence, and close to the initial weights.

The objective is :math:`\tfrac12 \|\theta - \theta_0\|^2 + C \sum_i \max(0, 1 - y_i g_i)` with :math:`g = f_\theta -
f_{\theta_0}`, the one whose limit of infinite width is the kernel machine. A stationary point is :math:`\theta =
\theta_0 + J(\theta)^\top z` with dual variables z that fit the scores g as those of a support vector machine do. It is
found by alternating between the two: z solves the machine whose kernel is the tangent kernel of this network, corrected
by how far its scores are from the network's own, and the weights follow z. Plain gradient descent ends at the same
point, in some thousand times as many steps.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from labelcert.arrays import Float
from labelcert.compiling import compiled
from labelcert.models.networks.torch_extra import torch
from labelcert.models.networks.wiring import Place, Tensor

Outputs = Callable[[Sequence[Tensor]], Tensor]

TOLERANCE = 1e-4
"""A training has converged once no score of a labelled node moves by more than this share of the largest one."""

STEPS = 300
"""Most steps of a training."""

SLOWER = 0.9
"""A step that shrinks what is left by less than this is followed by a shorter one: at a kink of the ReLU the gradient
jumps, and the weights settle between its two sides."""

SHORTEST = 1.0 / 512
"""Shortest step."""


def train(
    outputs: Outputs, shapes: Sequence[tuple[int, ...]], signs: Float, C: float, K: Float, place: Place
) -> tuple[list[Tensor], Float]:
    """Train one network from the same start on B sets of labels, (B, m, c) signs of each output.

    `outputs` maps what is added to the weights, of these `shapes`, to the outputs of labelled nodes, shape (B, m, c). K
    is the tangent kernel of each output at the start, shape (c, m, m). Returned are what was added to the weights, and
    (B,) how much the scores of labelled nodes moved in the last step.
    """
    t = torch()
    B = signs.shape[0]
    with t.no_grad():
        start = outputs([t.zeros((1, *shape), dtype=place.dtype, device=place.device) for shape in shapes])
    moves = [t.zeros((B, *shape), dtype=place.dtype, device=place.device, requires_grad=True) for shape in shapes]
    z = np.zeros_like(signs)
    g = np.zeros_like(signs)
    length = np.ones(B)
    moved = left = np.full(B, np.inf)
    scores = outputs(moves)
    for _ in range(STEPS):
        offset = g - np.einsum("cij,bjc->bic", K, z)
        target = z.copy()
        solve_duals(K, offset, signs, C, target)
        z = z + length[:, None, None] * (target - z)
        wanted = t.autograd.grad(scores, moves, grad_outputs=place.put(z))
        with t.no_grad():
            part = place.put(length)
            for move, towards in zip(moves, wanted, strict=True):
                move += part.reshape(-1, *[1] * (move.dim() - 1)) * (towards - move)
        scores = outputs(moves)
        found = (scores.detach() - start).double().cpu().numpy()
        moved = np.abs(found - g).max(axis=(1, 2))
        length = np.where(moved / length > SLOWER * left, np.maximum(0.7 * length, SHORTEST), length)
        g, left = found, moved / length
        if np.all(moved < TOLERANCE * np.abs(g).max(axis=(1, 2))):
            break
    return [move.detach() for move in moves], moved


def tangent_kernel(
    outputs: Outputs, shapes: Sequence[tuple[int, ...]], m: int, c: int, place: Place, at_once: int
) -> Float:
    """Inner products of the gradients of m outputs at the start, for each of c classes: shape (c, m, m)."""
    t = torch()
    K = np.zeros((c, m, m))
    for k in range(c):
        rows: list[list[Tensor]] = []
        for first in range(0, m, at_once):
            which = np.arange(first, min(m, first + at_once))
            moves = [
                t.zeros((which.size, *shape), dtype=place.dtype, device=place.device, requires_grad=True)
                for shape in shapes
            ]
            seed = np.zeros((which.size, m, c))
            seed[np.arange(which.size), which, k] = 1.0
            rows.append(list(t.autograd.grad(outputs(moves), moves, grad_outputs=place.put(seed))))
        for left, a in enumerate(rows):
            for right, b in enumerate(rows[: left + 1]):
                block = sum(
                    (x.reshape(x.shape[0], -1) @ y.reshape(y.shape[0], -1).T).double()
                    for x, y in zip(a, b, strict=True)
                )
                found = block.cpu().numpy()
                i, j = left * at_once, right * at_once
                K[k, i : i + found.shape[0], j : j + found.shape[1]] = found
                K[k, j : j + found.shape[1], i : i + found.shape[0]] = found.T
    return K


@compiled()
def solve_duals(K: Float, offset: Float, signs: Float, C: float, z: Float) -> None:
    """Signed dual variables of support vector machines whose scores are ``offset + K z``, by coordinate descent from z.

    K has shape (c, m, m), all else (B, m, c). The solution overwrites z.
    """
    B, m, c = z.shape
    for b in range(B):
        for k in range(c):
            for _ in range(20000):
                moved = 0.0
                for i in range(m):
                    if K[k, i, i] <= 0.0:
                        continue
                    f = offset[b, i, k]
                    for j in range(m):
                        f += K[k, i, j] * z[b, j, k]
                    y = signs[b, i, k]
                    before = y * z[b, i, k]
                    after = min(max(before + (1.0 - y * f) / K[k, i, i], 0.0), C)
                    z[b, i, k] = y * after
                    moved = max(moved, abs(after - before) * K[k, i, i])
                if moved < 1e-7:
                    break
