"""Worst values of metrics beside the certificate alone, and regressions with many targets.

``python -m benchmarks.worst_cases`` prints the figures of the pages "Worst cases" and "Numbers as targets". Cora-ML in
two classes, 20 labels, all other nodes: it needs the dataset (LABELCERT_DATA_DIR).
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.linear_model import Ridge

from labelcert import GCN, Certificate, Metric, certify_regression, load_dataset, published_split

REPEATED = 7


def cora() -> Callable[..., Certificate]:
    """What certifies a GCN on 20 labels of the graph, for all other nodes at all budgets."""
    graph = load_dataset("cora-ml-b")
    labeled = published_split(graph, seed=0).labeled
    test = np.setdiff1d(np.arange(graph.n_nodes), labeled)
    return lambda **options: GCN(C=1.0).certify(graph, labeled, test, **options)


def timed(ask: Callable[[], Any]) -> tuple[Any, float, float]:
    """An answer, and the seconds and CPU seconds that it took."""
    wall, cpu = time.perf_counter(), time.process_time()
    found = ask()
    return found, time.perf_counter() - wall, time.process_time() - cpu


def metrics() -> None:
    """Each way to ask in turn, since a machine is never as fast twice."""
    certify = cora()
    ways: dict[str, list[Any]] = {
        "alone": [],
        "accuracy and recall": ["accuracy", "recall"],
        "precision, too": ["accuracy", "recall", Metric("precision")],
    }
    certify(max_flips=1)  # compiles
    seconds: dict[str, list[tuple[float, float]]] = {way: [] for way in ways}
    for _ in range(REPEATED):
        for way, asked in ways.items():
            found, *took = timed(lambda asked=asked: certify(metrics=asked))  # type: ignore[misc]
            seconds[way].append((took[0], took[1]))
            if way == "accuracy and recall":
                cert = found
    alone = [statistics.median(part) for part in zip(*seconds["alone"], strict=True)]
    for way, took in seconds.items():
        own = [statistics.median(part) for part in zip(*took, strict=True)]
        ratios = ", ".join(f"{one / other:.2f}" for one, other in zip(own, alone, strict=True))
        print(f"{way}: {own[0]:.2f} s, {own[1]:.2f} CPU s; {ratios} times the certificate alone")
    for name in ("accuracy", "recall"):
        worst = cert.worst_case(name)
        ends = "exact" if worst.exact else "intervals"
        print(f"lowest {name}, {cert.n_test} nodes ({ends}): {', '.join(map(worst.text, range(cert.max_flips + 1)))}")


def targets() -> None:
    """Ridge regression on 50,000 random targets."""
    rng = np.random.default_rng(0)
    X, T = rng.normal(size=(50_000, 50)), rng.normal(size=(200, 50))
    y = X @ rng.normal(size=50) + rng.normal(size=50_000)
    certify_regression(Ridge(), X[:99], y[:99], T[:2], change=1.0)  # compiles
    cert, wall, cpu = timed(lambda: certify_regression(Ridge(), X, y, T, change=5.0, threshold=0.0))
    print(f"{cert}: {wall:.1f} s, {cpu:.1f} CPU s; moves are too large by {cert.slack.max():.1g} at most")


if __name__ == "__main__":
    metrics()
    targets()
