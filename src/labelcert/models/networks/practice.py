"""Training as practitioners do it: cross-entropy, Adam with weight decay, and early stopping on validation nodes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from labelcert.arrays import Float, Int
from labelcert.models.networks.torch_extra import torch
from labelcert.models.networks.wiring import Tensor

EPOCHS, PATIENCE, EVERY = 200, 100, 10
"""Training ends after the first number of epochs, or if the second brings nothing; the third lies between two looks."""

RATE, DECAY = 0.01, 5e-4


def train(
    outputs: Callable[[Sequence[Tensor]], Tensor], start: Sequence[Tensor], codes: Int, checks: Int
) -> tuple[list[Tensor], Float]:
    """Train one network from the same start on B sets of labels.

    `outputs` maps what is added to the weights to the outputs of labelled nodes and then of validation nodes, shape (B,
    m + v, c); the initial weights in `start` are added to zeros. `codes` (B, m) are the classes of labels (with one
    output, 0 or 1), `checks` (v,) those of validation nodes: the epoch with the fewest errors there is kept. Without
    any, training goes on for all epochs. Returned are what is added to the weights, and (B,) the epoch that was kept.
    """
    t = torch()
    B, m = codes.shape
    device, dtype = start[0].device, start[0].dtype
    moves = [w.repeat(B, *[1] * w.dim()).requires_grad_() for w in start]
    kept = [move.detach().clone() for move in moves]
    targets = t.as_tensor(np.concatenate([codes, np.repeat(checks[None], B, axis=0)], axis=1), device=device)
    adam = t.optim.Adam(moves, lr=RATE, weight_decay=DECAY)
    best = t.full((B,), np.inf, dtype=dtype, device=device)
    best_epoch = t.zeros(B, dtype=t.int64, device=device)
    for epoch in range(EPOCHS):
        scores = outputs(moves)
        losses = _cross_entropy(scores, targets)
        adam.zero_grad()
        losses[:, :m].mean(dim=1).sum().backward()
        if checks.size and epoch and epoch % EVERY == 0:
            with t.no_grad():
                # The fewest errors, and of equally many the lowest loss, which stays below 1 here.
                checked = _errors(scores[:, m:], targets[:, m:]) + 1.0 - t.exp(-losses[:, m:].mean(dim=1))
                better = (checked < best) & (epoch - best_epoch < PATIENCE)
                for keep, move in zip(kept, moves, strict=True):
                    keep[better] = move[better]
            best_epoch[better] = epoch
            best = t.where(better, checked, best)
            if bool((epoch - best_epoch >= PATIENCE).all()):
                break
        adam.step()
    if not checks.size:
        return [move.detach() for move in moves], np.full(B, float(EPOCHS - 1))
    return kept, best_epoch.cpu().numpy().astype(np.float64)


def _errors(scores: Tensor, targets: Tensor) -> Tensor:
    """(B,) number of nodes that are predicted wrongly."""
    predicted = scores[:, :, 0] > 0 if scores.shape[2] == 1 else scores.argmax(dim=2)
    return (predicted.long() != targets).sum(dim=1).to(scores.dtype)


def _cross_entropy(scores: Tensor, targets: Tensor) -> Tensor:
    """(B, k) loss of each node."""
    t = torch()
    if scores.shape[2] == 1:
        return t.nn.functional.softplus(scores[:, :, 0] * (1 - 2 * targets))
    return t.nn.functional.cross_entropy(scores.permute(0, 2, 1), targets, reduction="none")
