"""Models that are linear in their labels, at size: ``python -m benchmarks.linear`` prints times, memory and intervals.

Each measurement runs in a process of its own, so that peak memory belongs to it alone.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import click
import numpy as np
import scipy.sparse
import scipy.spatial
from sklearn.linear_model import RidgeClassifier

import labelcert
from benchmarks.child import Row, peak_memory
from labelcert.arrays import Float, Int
from labelcert.cli.printing import print_table
from labelcert.report.tables import listing

RIDGES = (30.0, 100.0, 300.0, 1000.0)
"""Regularisation of the kernel ridge regressions whose curves are measured."""


def blobs(m: int, n: int, classes: int, features: int, distance: float, seed: int = 0) -> tuple[Float, Int, Float, Int]:
    """Gaussian blobs, the first two centres a distance apart: training points and labels, test points and labels."""
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(classes, features))
    centres *= distance / np.linalg.norm(centres[0] - centres[1])
    codes, truth = rng.integers(0, classes, m), rng.integers(0, classes, n)
    return (
        centres[codes] + rng.normal(size=(m, features)),
        codes,
        centres[truth] + rng.normal(size=(n, features)),
        truth,
    )


def regression_blocks(m: int, n: int, classes: int, rows: int) -> tuple[Iterator[Float], Int, Int]:
    """Ridge regression on 64 random features of 20-dimensional blobs, rows of H in blocks; and labels."""
    X, codes, T, truth = blobs(m, n, classes, 20, 4.0)
    rng = np.random.default_rng(1)
    W, shift = rng.normal(size=(20, 64)) * 0.1, rng.uniform(0, 2 * np.pi, 64)
    F, G = np.cos(X @ W + shift), np.cos(T @ W + shift)
    A = np.linalg.solve(F.T @ F + 10.0 * np.eye(64), F.T)
    return (G[i : i + rows] @ A for i in range(0, n, rows)), codes, truth


def radii(m: int, n: int, classes: int, flips: int, collective: bool) -> Row:
    """Dense rows in blocks."""
    blocks, codes, truth = regression_blocks(m, n, classes, 100)
    started = time.perf_counter()
    cert = labelcert.certify_linear(blocks, codes, max_flips=flips, collective=collective)
    return _row(cert, truth, time.perf_counter() - started, f"ridge, blocks{', curve' if collective else ''}")


def neighbours(m: int, n: int, classes: int, flips: int, k: int) -> Row:
    """Sparse rows of k nearest neighbours."""
    X, codes, T, truth = blobs(m, n, classes, 4, 4.0)
    near = scipy.spatial.cKDTree(X).query(T, k)[1]
    H = scipy.sparse.csr_array((np.full(near.size, 1 / k), near.ravel(), np.arange(0, near.size + 1, k)), shape=(n, m))
    started = time.perf_counter()
    cert = labelcert.certify_linear(H, codes, max_flips=flips)
    return _row(cert, truth, time.perf_counter() - started, f"{k} nearest neighbours")


def kernel_ridge(m: int, n: int, ridge: float) -> tuple[Float, Int, Int]:
    """Kernel ridge regression with a Gaussian kernel on two 10-dimensional blobs: H, labels, true labels."""
    X, codes, T, truth = blobs(m, n, 2, 10, 4.0)

    def kernel(A: Float, B: Float) -> Float:
        return np.exp(-0.05 * scipy.spatial.distance.cdist(A, B, "sqeuclidean"))

    return np.linalg.solve(kernel(X, X) + ridge * np.eye(m), kernel(X, T)).T, codes, truth


def curve(m: int, n: int, flips: int, ridge: float) -> Row:
    """The interval of the curve at the largest budget, beside the number of nodes within reach."""
    H, codes, truth = kernel_ridge(m, n, ridge)
    started = time.perf_counter()
    cert = labelcert.certify_linear(H, codes, max_flips=flips)
    seconds = time.perf_counter() - started
    gap = cert.collective_upper - cert.collective_lower
    return {
        "λ": ridge,
        "accuracy": float(np.mean(cert.predictions == truth)),
        "within reach": int(np.sum(cert.radius_lower <= flips)),
        "changed": f"{cert.collective_lower[-1]} to {cert.collective_upper[-1]}",
        "interval": float(gap[-1] / n),
        "widest": float(gap.max() / n),
        "seconds": seconds,
    }


def estimators(asks: str, m: int, n: int, features: int, flips: int) -> Row:
    """RidgeClassifier on noisy labels of two blobs, with its curve or rechecked, beside scikit-learn's own fit."""
    X, codes, T, _ = blobs(m, n, 2, features, 2.0 * features**0.25, seed=1)
    rng = np.random.default_rng(2)
    y = np.where(rng.random(m) < 0.05, 1 - codes, codes)
    model = labelcert.from_sklearn(RidgeClassifier())
    model.certify(X[:20], np.arange(20) % 2, T[:5])  # compiled
    started = time.perf_counter()
    RidgeClassifier().fit(X, y).predict(T)
    fit = time.perf_counter() - started
    started = time.perf_counter()
    if asks == "curve":
        cert = model.certify(X, y, T, max_flips=flips)
        answer = f"{cert.collective_lower[-1]} to {cert.collective_upper[-1]} of {n} changed"
    else:
        advice = model.recheck(X, y, T, flips=flips, confirm=20)
        after = max([advice.before, *advice.after])
        answer = f"{advice.before:.1%} survive, {after:.1%} once {len(advice.labels)} are confirmed"
    return {
        "asks": asks,
        "labels": m,
        "features": features,
        "flips": flips,
        "answer": answer,
        "seconds": time.perf_counter() - started,
        "fit": fit,
        "memory": peak_memory(),
    }


def estimator_runs(small: int = 1) -> list[dict[str, Any]]:
    """The measurements of :func:`estimators`, with so many times fewer labels."""
    return [
        {"asks": "curve", "m": 2000 // small, "n": 1000 // small, "features": 384 // small, "flips": 50 // small},
        {"asks": "curve", "m": 2000 // small, "n": 1000 // small, "features": 64 // small, "flips": 50 // small},
        {"asks": "recheck", "m": 50_000 // small, "n": 1000 // small, "features": 64, "flips": 500 // small},
    ]


def _row(cert: labelcert.Certificate, truth: Int, seconds: float, model: str) -> Row:
    settled = (cert.radius_lower == cert.radius_upper) | (cert.radius_lower > cert.max_flips)
    return {
        "model": model,
        "labels": cert.labels.size,
        "classes": cert.n_classes,
        "rows": cert.n_test,
        "flips": cert.max_flips,
        "accuracy": float(np.mean(cert.predictions == truth)),
        "exact radii": float(np.mean(settled)),
        "median radius": float(np.median(cert.radius_lower)),
        "seconds": seconds,
        "MiB": peak_memory() / 2**20,
    }


TASKS: dict[str, Callable[..., Row]] = {
    "radii": radii,
    "neighbours": neighbours,
    "curve": curve,
    "estimators": estimators,
}


def measure(task: str, **options: Any) -> Row:
    """One measurement in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.linear", "--task", task, "--options", json.dumps(options)]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True)
    row: Row = json.loads(done.stdout.splitlines()[-1])
    return row


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--quick", is_flag=True, help="Small sizes: a smoke run, whose figures mean little.")
@click.option("--only", type=click.Choice(list(TASKS)), help="Run this part alone.")
@click.option("--task", type=click.Choice(list(TASKS)), hidden=True)
@click.option("--options", default="{}", hidden=True)
def main(quick: bool, only: str | None, task: str | None, options: str) -> None:
    """Time certify_linear."""
    if task is not None:
        print(json.dumps(TASKS[task](**json.loads(options))))
        return
    small = 20 if quick else 1
    m, n = 50_000 // small, 10_000 // small
    parts: dict[str, list[dict[str, Any]]] = {
        "radii": [
            {"m": m, "n": n, "classes": 2, "flips": 1000 // small, "collective": False},
            {"m": m, "n": n, "classes": 4, "flips": 1000 // small, "collective": False},
            {"m": m, "n": n, "classes": 2, "flips": 1000 // small, "collective": True},
        ],
        "neighbours": [{"m": m, "n": m, "classes": 3, "flips": 100 // small, "k": k} for k in (15, 50)],
        "estimators": estimator_runs(small),
        "curve": [{"m": 1000 // small, "n": 1000 // small, "flips": 100 // small, "ridge": r / small} for r in RIDGES],
    }
    for name, runs in parts.items():
        if only in (None, name):
            rows = [measure(name, **run) for run in runs]
            print_table(listing(name, list(rows[0]), [[_text(value) for value in row.values()] for row in rows]))


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    return f"{value:,.3f}" if isinstance(value, float) and abs(value) < 10 else f"{value:,.0f}"


if __name__ == "__main__":
    main()
