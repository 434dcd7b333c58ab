"""All losses on one problem, and logistic regression beside scikit-learn's.

Run with ``python -m benchmarks.losses --data-dir FOLDER``. Nothing else should run at the same time.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import click
import numpy as np

from benchmarks.machine import facts
from benchmarks.problems import Arrays, clouds
from labelcert import GCN, certify, load_dataset, published_split
from labelcert.cli.printing import print_table
from labelcert.report.tables import listing

LOSSES = ("hinge", "squared_hinge", "logistic", "cross_entropy", "square")
CONSTANTS = (0.01, 0.075, 0.3, 1.0)
FITS = 300


def cora_ml_b(data_dir: Path | None) -> Arrays:
    """The paper's GCN on the paper's 20 labels, and 1,200 nodes."""
    graph = load_dataset("cora-ml-b", data_dir=data_dir)
    split = published_split(graph, seed=0)
    model = GCN(C=1.0)
    K_train, K_test = model.kernel_blocks(graph, split.labeled, split.pool[:1200])
    return Arrays(K_train, graph.labels[split.labeled], K_test, 1.0)


def whole_rows(arrays: Arrays) -> list[dict[str, Any]]:
    """Every radius and the whole curve, for each loss and constant: seconds of the second call."""
    K, labels, rows, _ = arrays
    out = []
    for loss in LOSSES:
        certify(K, labels, rows[:50], 1.0, loss=loss)
        row: dict[str, Any] = {"loss": loss}
        for C in CONSTANTS:
            started = time.perf_counter()
            cert = certify(K, labels, rows, C, loss=loss)
            row[f"C = {C:g}"] = f"{time.perf_counter() - started:.2f}" + ("" if cert.exact else " (open)")
        out.append(row)
    return out


def training_rows(arrays: Arrays) -> list[dict[str, Any]]:
    """Trainings of logistic regression in a second on one core, ours with a proved error bound each."""
    from sklearn.linear_model import LogisticRegression

    K, labels, rows, _ = arrays
    values, vectors = np.linalg.eigh(K)
    X = vectors * np.sqrt(np.maximum(values, 0.0))
    rng = np.random.default_rng(0)
    out = []
    for C in CONSTANTS:
        cert = certify(K, labels, rows[:50], C, loss="logistic", workers=1, engine="enumerate")
        found = cert.run.stages[0].statistics
        ours = found["trainings"] / found["seconds"]
        estimator = LogisticRegression(C=C, fit_intercept=False, solver="liblinear", tol=1e-8)
        changed = [np.where(rng.random(labels.size) < 0.3, labels[::-1], labels) for _ in range(FITS)]
        changed = [y for y in changed if np.unique(y).size == 2]
        started = time.perf_counter()
        for y in changed:
            estimator.fit(X, y)
        theirs = len(changed) / (time.perf_counter() - started)
        out.append(
            {
                "C": f"{C:g}",
                "labelcert, a second": f"{ours:,.0f}",
                "liblinear, a second": f"{theirs:,.0f}",
                "times as many": f"{ours / theirs:,.0f}",
                "steps each": f"{found['pivoting_rounds'] / found['trainings']:.1f}",
                "in doubt": found["doubtful_labellings"],
            }
        )
    return out


def softmax_rows() -> list[dict[str, Any]]:
    """Cross-entropy of three classes, every relabelling a coupled training."""
    out = []
    for loss in ("cross_entropy", "logistic"):
        certify(*clouds(15, 5, 3), loss=loss, max_flips=1)  # compiles
    for m, flips in ((15, 3), (30, 2), (60, 2)):
        K, labels, rows, C = clouds(m, 200, 3)
        for loss in ("cross_entropy", "cross_entropy_intercept", "logistic"):
            started = time.perf_counter()
            cert = certify(K, labels, rows, C, loss=loss, max_flips=flips)
            seconds = time.perf_counter() - started
            trained = cert.run.stages[0].statistics["trainings"]
            out.append(
                {"labels": m, "flips": flips, "loss": loss, "trainings": f"{trained:,}", "seconds": f"{seconds:.2f}"}
            )
    return out


def show(title: str, rows: list[dict[str, Any]]) -> None:
    """One table."""
    print_table(listing(title, tuple(rows[0]), [tuple(str(v) for v in row.values()) for row in rows]))


@click.command()
@click.option("--data-dir", type=click.Path(path_type=Path, file_okay=False))
def main(data_dir: Path | None) -> None:
    """Print all tables."""
    print(facts())
    arrays = cora_ml_b(data_dir)
    show("20 labels, 1,200 nodes of Cora-MLb, GCN: all radii and the curve, seconds", whole_rows(arrays))
    show("Trainings of logistic regression on one core, 20 labels", training_rows(arrays))
    show("Three classes, 200 nodes", softmax_rows())


if __name__ == "__main__":
    main()
