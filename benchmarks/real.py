"""Real problems of any size: Cora-MLb with more labels than the paper has."""

from __future__ import annotations

from pathlib import Path

from labelcert.graphs import collective_targets, load_dataset, published_split
from labelcert.pipeline import choose_model
from labelcert.problem import Problem


def cora_ml_b(m: int, *, data_dir: Path | None, nodes: int, max_flips: int, model: str = "gcn") -> Problem:
    """The paper's GCN (or another model) on m labels, and so many of the 50 targets of its collective certificate."""
    graph = load_dataset("cora-ml-b", data_dir=data_dir)
    split = published_split(graph, seed=0, per_class=-(-m // 4))
    labeled = split.labeled[:m]
    targets = collective_targets(split, seed=0)[:nodes]
    chosen = choose_model(model, graph, labeled).model
    K_train, K_test = chosen.kernel_blocks(graph, labeled, targets)
    return Problem.build(K_train, graph.labels[labeled], K_test, chosen.C, max_flips=max_flips)
