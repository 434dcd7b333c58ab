"""Training as practitioners do it: Adam, weight decay, cross-entropy, and early stopping."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from labelcert.arrays import Float, Int
from labelcert.models.networks.torch_extra import torch
from labelcert.models.networks.wiring import Tensor

EPOCHS, PATIENCE = 300, 30
RATE, DECAY = 0.01, 5e-4
HELD_OUT = 4
"""Every so manieth labelled node decides when to stop."""


def train(
    outputs: Callable[[Sequence[Tensor]], Tensor], start: Sequence[Tensor], codes: Int, seed: int
) -> tuple[list[Tensor], Float]:
    """Train one network from the same start on B sets of labels.

    Parameters
    ----------
    outputs
        From what is added to the weights to the outputs of labelled nodes, shape (B, m, c).
    start
        Initial weights.
    codes : (B, m) array
        Class of each label; with one output, 0 or 1.
    seed
        Decides which labelled nodes are held out.

    Returns
    -------
    list of tensors, (B,) array
        What is added to the weights, and the epoch of each training that was kept.
    """
    t = torch()
    B, m = codes.shape
    held = np.zeros(m, dtype=bool)
    held[np.random.default_rng(seed).permutation(m)[: m // HELD_OUT]] = True
    device, dtype = start[0].device, start[0].dtype
    moves = [t.zeros((B, *w.shape), dtype=dtype, device=device, requires_grad=True) for w in start]
    kept = [move.detach().clone() for move in moves]
    targets = t.as_tensor(codes, device=device)
    fits, checks = (t.as_tensor(np.flatnonzero(which), device=device) for which in (~held, held))
    adam = t.optim.Adam(moves, lr=RATE)
    best = t.full((B,), np.inf, dtype=dtype, device=device)
    best_epoch = t.zeros(B, dtype=t.int64, device=device)
    for epoch in range(EPOCHS):
        losses = _cross_entropy(outputs(moves), targets)
        checked = losses[:, checks if checks.numel() else fits].mean(dim=1).detach()
        better = checked < best
        with t.no_grad():
            for keep, move in zip(kept, moves, strict=True):
                keep[better] = move[better]
        best_epoch[better] = epoch
        best = t.minimum(best, checked)
        if bool((epoch - best_epoch >= PATIENCE).all()):
            break
        adam.zero_grad()
        losses[:, fits].mean(dim=1).sum().backward()
        with t.no_grad():
            for move, w in zip(moves, start, strict=True):
                move.grad += DECAY * (w + move)
        adam.step()
    return kept, best_epoch.cpu().numpy().astype(np.float64)


def _cross_entropy(scores: Tensor, targets: Tensor) -> Tensor:
    """(B, m) loss of each label."""
    t = torch()
    if scores.shape[2] == 1:
        return t.nn.functional.softplus(scores[:, :, 0] * (1 - 2 * targets))
    return t.nn.functional.cross_entropy(scores.permute(0, 2, 1), targets, reduction="none")
