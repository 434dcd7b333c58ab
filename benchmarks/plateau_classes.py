"""Plateaus with three classes: ``python -m benchmarks.plateau_classes --data-dir FOLDER``.

An attack that brings every prediction into class c changes all nodes but those that were predicted c already. So a
curve that waits for such attacks waits at the number of nodes outside the smallest predicted class. For each graph and
model: how often it does, whether the first such attack leaves one class, and whether all of its flips go to that class.
"""

from __future__ import annotations

from pathlib import Path

import click
import numpy as np

import labelcert
from labelcert.cli.printing import print_table
from labelcert.graphs import load_dataset
from labelcert.models import GCN, MLP, SGC, Model
from labelcert.report.tables import listing

MODELS: tuple[Model, ...] = (GCN(C=0.01), SGC(C=0.01), MLP(C=0.01))


def curves(name: str, model: Model, seed: int, per_class: int, data_dir: Path | None) -> tuple[int, int, bool, bool]:
    """Budgets at the height, and near it; of the first attack that reaches it: one class left, flips to one class."""
    graph, rng = load_dataset(name, data_dir=data_dir), np.random.default_rng(seed)
    largest = np.argsort(-np.bincount(graph.labels[graph.labels >= 0]), kind="stable")[:3]
    of = [rng.permutation(np.flatnonzero(graph.labels == c)) for c in largest]
    labeled = np.concatenate([nodes[:per_class] for nodes in of])
    test = np.concatenate([nodes[per_class : per_class + 20] for nodes in of])
    K, k = model.kernel_blocks(graph, labeled, test)
    labels = graph.labels[labeled]
    cert = labelcert.certify(K, labels, k, model.C, max_flips=labels.size)
    curve, sizes = cert.collective_lower, np.bincount(cert.predictions, minlength=largest.max() + 1)[largest]
    height = test.size - int(sizes.min())
    reached = np.flatnonzero(curve >= height)
    at, near = int((curve == height).sum()), int((np.abs(curve - height) <= 0.04 * test.size).sum())
    if not at:
        return at, near, False, False
    poisoned = labels.copy()
    for i, c in (cert.collective_witness(int(reached[0])) or {}).items():
        poisoned[i] = c
    after = labelcert.certify(K, poisoned, k, model.C, max_flips=0).predictions
    return at, near, np.unique(after).size == 1, np.unique(poisoned[poisoned != labels]).size == 1


@click.command(help=__doc__)
@click.option("--data-dir", type=click.Path(path_type=Path), envvar="LABELCERT_DATA_DIR")
@click.option("--data", default=("iris-knn", "wine-knn", "citeseer", "cora-ml"), multiple=True, show_default=True)
@click.option("--seeds", default=5, show_default=True)
@click.option("--per-class", default=4, show_default=True, help="Labels of each of the three largest classes.")
def main(data_dir: Path | None, data: tuple[str, ...], seeds: int, per_class: int) -> None:
    """One table."""
    rows = []
    for name in data:
        for model in MODELS:
            found = np.array([curves(name, model, seed, per_class, data_dir) for seed in range(seeds)])
            counts = (f"{int(found[:, k].sum())}" for k in (2, 3))
            waits = f"{int((found[:, 0] > 0).sum())} of {seeds}"
            rows.append([name, type(model).__name__, waits, *counts, f"{found[:, 1].mean():.1f}"])
    headings = ("data", "model", "waits", "one class left", "flips to one class", "budgets near")
    print_table(listing("Three classes: curves at the nodes outside the smallest predicted class", headings, rows))


if __name__ == "__main__":
    main()
