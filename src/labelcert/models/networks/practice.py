"""Training as practitioners do it: cross-entropy, AdamW, and early stopping on validation nodes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from labelcert.arrays import Float, Int
from labelcert.models.networks.torch_extra import torch
from labelcert.models.networks.wiring import Tensor

EPOCHS, PATIENCE = 200, 20
RATE, DECAY = 0.01, 5e-4


def train(
    outputs: Callable[[Sequence[Tensor]], Tensor], start: Sequence[Tensor], codes: Int, checks: Int
) -> tuple[list[Tensor], Float]:
    """Train one network from the same start on B sets of labels.

    Parameters
    ----------
    outputs
        From what is added to the weights to the outputs of labelled nodes and then of validation nodes, shape
        (B, m + v, c).
    start
        Initial weights.
    codes : (B, m) array
        Class of each label; with one output, 0 or 1.
    checks : (v,) array
        Class of each validation node. Without any, training goes on for all epochs.

    Returns
    -------
    list of tensors, (B,) array
        What is added to the weights, and the epoch of each training that was kept.
    """
    t = torch()
    B, m = codes.shape
    device, dtype = start[0].device, start[0].dtype
    moves = [t.zeros((B, *w.shape), dtype=dtype, device=device, requires_grad=True) for w in start]
    kept = [move.detach().clone() for move in moves]
    targets = t.as_tensor(np.concatenate([codes, np.repeat(checks[None], B, axis=0)], axis=1), device=device)
    # Its own decay would be towards the start, since moves are what is added to it.
    adam = t.optim.Adam(moves, lr=RATE)
    best = t.full((B,), np.inf, dtype=dtype, device=device)
    best_epoch = t.zeros(B, dtype=t.int64, device=device)
    for epoch in range(EPOCHS):
        losses = _cross_entropy(outputs(moves), targets)
        adam.zero_grad()
        losses[:, :m].mean(dim=1).sum().backward()
        with t.no_grad():
            checked = losses[:, m:].mean(dim=1) if checks.size else t.full_like(best, -float(epoch))
            better = checked < best
            for keep, move in zip(kept, moves, strict=True):
                keep[better] = move[better]
            best_epoch[better] = epoch
            best = t.minimum(best, checked)
            if bool((epoch - best_epoch >= PATIENCE).all()):
                break
            for move, w in zip(moves, start, strict=True):
                move -= RATE * DECAY * (w + move)
        adam.step()
    return kept, best_epoch.cpu().numpy().astype(np.float64)


def _cross_entropy(scores: Tensor, targets: Tensor) -> Tensor:
    """(B, k) loss of each node."""
    t = torch()
    if scores.shape[2] == 1:
        return t.nn.functional.softplus(scores[:, :, 0] * (1 - 2 * targets))
    return t.nn.functional.cross_entropy(scores.permute(0, 2, 1), targets, reduction="none")
