"""Convolutional and fully connected networks, and ridge, on scikit-learn's digits: accuracy and proved robustness.

python -m benchmarks.digits [--classes 3,8] [--labels 20 --labels 100] [--splits 2] [--flips 2] [--time-limit 30]

Every model gets the same labelled images, as many of each class, and its C by cross-validation on them; the test images
are drawn among the others. Radii that were not settled in time count as far as they are proved.
"""

from __future__ import annotations

import time
from typing import Any

import click
import numpy as np
from sklearn.datasets import load_digits

import labelcert
from benchmarks.machine import facts
from labelcert.cli.printing import print_table
from labelcert.models import CNN, MLP, Linear, Model
from labelcert.report.tables import listing

MODELS: dict[str, tuple[Model, str]] = {
    "CNN, average": (CNN(), "hinge"),
    "CNN, flatten": (CNN(pooling="flatten"), "hinge"),
    "CNN, average, L = 2": (CNN(depth=2), "hinge"),
    "CNN, flatten, GELU": (CNN(pooling="flatten", activation="gelu"), "hinge"),
    "MLP": (MLP(), "hinge"),
    "ridge": (Linear(bias=True), "square"),
}


def problem(classes: list[int], labels: int, n_test: int, seed: int) -> tuple[labelcert.Graph, Any]:
    """The first nodes are labelled, as many of each class as fit."""
    digits = load_digits()
    rng = np.random.default_rng(seed)
    own = rng.permutation(np.flatnonzero(np.isin(digits.target, classes)))
    by_class = [own[digits.target[own] == c][: labels // len(classes)] for c in classes]
    train = np.concatenate(by_class)
    test = np.setdiff1d(own, train, assume_unique=True)
    test = rng.permutation(test)[:n_test]
    X, y = digits.data, digits.target.astype(str)
    return labelcert.Graph.from_features(X[train], y[train], X[test]), y[test]


@click.command()
@click.option("--classes", multiple=True, default=("3,8", "0,1,2,3,4,5,6,7,8,9"), show_default=True)
@click.option("--labels", "sizes", multiple=True, type=int, default=(20, 50, 100), show_default=True)
@click.option("--splits", default=2, show_default=True)
@click.option("--test", "n_test", default=60, show_default=True, help="Test images of each split.")
@click.option("--flips", default=2, show_default=True, help="Largest attack.")
@click.option("--time-limit", default=30.0, show_default=True, help="Seconds for each certificate.")
def main(
    classes: tuple[str, ...], sizes: tuple[int, ...], splits: int, n_test: int, flips: int, time_limit: float
) -> None:
    """Print one table for each set of classes."""
    click.echo(facts())
    for text in classes:
        chosen = [int(c) for c in text.split(",")]
        rows = []
        for labels in sizes:
            problems = [problem(chosen, labels, n_test, seed) for seed in range(splits)]
            for name, (model, loss) in MODELS.items():
                start, right, shares = time.perf_counter(), [], []
                for graph, truth in problems:
                    m = graph.n_nodes - len(truth)
                    cert = model.certify(
                        graph,
                        range(m),
                        range(m, graph.n_nodes),
                        loss=loss,
                        max_flips=flips,
                        time_limit=time_limit,
                        collective=False,
                    )
                    right.append((cert.predictions == truth).mean())
                    shares.append([cert.certified_ratio(flips=k) for k in range(1, flips + 1)])
                seconds = (time.perf_counter() - start) / splits
                certified = (f"{np.floor(1000 * share + 1e-9) / 10:.1f}" for share in np.mean(shares, axis=0))
                rows.append((str(labels), name, f"{100 * np.mean(right):.1f}", *certified, f"{seconds:.1f}"))
        columns = ("labels", "model", "accuracy %", *(f"{k} flip{'s'[: k > 1]}, %" for k in range(1, flips + 1)), "s")
        print_table(listing(f"Digits {text}: proved robust, {splits} splits, {n_test} test images", columns, rows))


if __name__ == "__main__":
    main()
