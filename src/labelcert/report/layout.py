"""Where the nodes of a graph go in a drawing of it."""

from __future__ import annotations

import numpy as np

from labelcert.arrays import Float, Int
from labelcert.compiling import compiled

LARGEST_STRESS_LAYOUT = 100
"""Minimal stress looks best, but takes all distances and a slow search; springs are good enough for larger graphs."""

ITERATIONS = 150


def layout(n: int, edges: Int, seed: int = 0) -> Float:
    """(n, 2) positions in the square of side 2, the longest direction of the drawing horizontal; edges are (E, 2)."""
    import networkx as nx

    drawn = nx.Graph()
    drawn.add_nodes_from(range(n))
    drawn.add_edges_from(edges.tolist())
    if 2 < n <= LARGEST_STRESS_LAYOUT and nx.is_connected(drawn):
        placed = nx.kamada_kawai_layout(drawn)
        return _fill_square(np.array([placed[v] for v in range(n)]))
    positions = np.random.default_rng(seed).uniform(-1.0, 1.0, size=(n, 2))
    spring(positions, np.ascontiguousarray(edges, dtype=np.int64), ITERATIONS, np.zeros((n, 2)))
    return _fill_square(positions)


@compiled(fastmath=True)
def spring(positions: Float, edges: Int, iterations: int, force: Float) -> None:
    """Fruchterman and Reingold's forces, and a pull to the centre that keeps loose parts near.

    Nodes repel each other by k²/d, edges attract by d²/k, and steps become shorter and shorter. The result overwrites
    the (n, 2) positions; (n, 2) ``force`` is room to work in.
    """
    n = positions.shape[0]
    k = 2.0 / np.sqrt(max(n, 1))
    for step in range(iterations):
        for i in range(n):
            fx, fy = -0.6 * positions[i, 0] * k * n**0.5, -0.6 * positions[i, 1] * k * n**0.5
            for j in range(n):
                dx, dy = positions[i, 0] - positions[j, 0], positions[i, 1] - positions[j, 1]
                pull = k * k / (dx * dx + dy * dy + 1e-6 * k * k)
                fx += dx * pull
                fy += dy * pull
            force[i, 0], force[i, 1] = fx, fy
        for e in range(edges.shape[0]):
            i, j = edges[e, 0], edges[e, 1]
            dx, dy = positions[i, 0] - positions[j, 0], positions[i, 1] - positions[j, 1]
            pull = np.sqrt(dx * dx + dy * dy) / k
            force[i, 0] -= dx * pull
            force[i, 1] -= dy * pull
            force[j, 0] += dx * pull
            force[j, 1] += dy * pull
        longest = 0.2 * (1.0 - step / iterations) ** 2 + 0.002
        for i in range(n):
            length = np.sqrt(force[i, 0] ** 2 + force[i, 1] ** 2) + 1e-12
            share = min(length, longest) / length
            positions[i, 0] += force[i, 0] * share
            positions[i, 1] += force[i, 1] * share


def _fill_square(points: Float) -> Float:
    """Turn the longest direction of a drawing to the horizontal and stretch it to [-1, 1] both ways."""
    if len(points) < 3:
        return np.array([[-1.0, 0.0], [1.0, 0.0]])[: len(points)]
    centred = points - points.mean(axis=0)
    turned = centred @ np.linalg.svd(centred, full_matrices=False)[2].T
    low, high = turned.min(axis=0), turned.max(axis=0)
    return np.asarray(2.0 * (turned - low) / np.where(high > low, high - low, 1.0) - 1.0)
