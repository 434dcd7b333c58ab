"""What is measured: each section runs its measurements and returns a table."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from benchmarks.linear import estimator_runs
from benchmarks.linear import measure as in_a_process
from benchmarks.machine import cores

Row = dict[str, Any]
Format = Callable[[Any], str]


@dataclass(frozen=True)
class Section:
    """Rows as they are stored, and how to show them.

    Attributes
    ----------
    key, title : str
    columns : list of (row key, heading, format)
    rows : list of dict
    notes : list of str
    """

    key: str
    title: str
    columns: list[tuple[str, str, Format]]
    rows: list[Row]
    notes: list[str] = field(default_factory=list)


def measure(task: str, *, environment: dict[str, str] | None = None, **options: Any) -> list[Row]:
    """Run one measurement of :mod:`benchmarks.child` in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.child", task, json.dumps(options)],
        env={**os.environ, **(environment or {})},
        stdout=subprocess.PIPE,
        check=True,
        text=True,
    )
    rows: list[Row] = json.loads(done.stdout.splitlines()[-1])
    return rows


def worker_counts() -> list[int]:
    """1, 2, 4, ... and all cores."""
    n = cores()
    return sorted({2**k for k in range(n.bit_length())} | {n})


def count(value: Any) -> str:
    """A whole number."""
    return f"{value:,.0f}"


def seconds(value: Any) -> str:
    """A duration, in a unit that suits it."""
    for unit, length in (("days", 86400.0), ("h", 3600.0), ("min", 60.0)):
        if value >= 2 * length:
            return f"{value / length:,.1f} {unit}"
    return f"{value:.2f} s"


def times(value: Any) -> str:
    """A ratio."""
    return f"{value:,.2f}×" if value < 10 else f"{value:,.0f}×"


def memory(value: Any) -> str:
    """Bytes."""
    return f"{value / 2**20:,.0f} MiB"


def share(value: Any) -> str:
    """A fraction."""
    return f"{value:.0%}"


def flips(value: Any) -> str:
    """A budget."""
    return "all" if value is None else str(value)


def yes_no(value: Any) -> str:
    """A verdict."""
    return "yes" if value else "NO"


def throughput(quick: bool) -> Section:
    """(a) Trainings per second beside scikit-learn."""
    m = 14 if quick else 20
    rows = measure(
        "throughput", m=m, fits=100 if quick else 500, repeats=1 if quick else 3, workers=sorted({1, cores()})
    )
    return Section(
        "throughput",
        f"(a) SVM trainings per second, m = {m}, 1 test node",
        [
            ("solver", "solver", str),
            ("trainings", "trainings", count),
            ("per_second", "per second", count),
            ("ratio", "ratio to SVC", times),
        ],
        rows,
        [
            "the same kernel and C; scikit-learn trains on random labellings out of those that labelcert visits",
            "SVC has a bias term and stops at tolerance 1e-3; labelcert trains without bias, exactly, proves an "
            "error bound, scores the node and records it",
            "SVC: median over single fits. labelcert: whole calls of certify on all labellings (up to the global "
            "sign), median of the runs",
        ],
    )


def scaling(quick: bool) -> Section:
    """(b) Scaling with the number of labels."""
    sizes: list[tuple[int, int | None]]
    sizes = [(12, None), (14, None), (20, 3), (40, 2)] if quick else [(20, None), (24, None), (40, 4), (100, 3)]
    nodes = 120 if quick else 1200
    rows = [
        row
        for m, b in sizes
        for row in measure("certificate", m=m, n=nodes, max_flips=b, workers=None, fits=50 if quick else 200)
    ]
    return Section(
        "scaling",
        f"(b) all radii and the whole curve, {count(nodes)} test nodes, {cores()} workers",
        [
            ("m", "m", str),
            ("max_flips", "flips", flips),
            ("free_clean", "Free (clean)", share),
            ("free_random", "Free (random)", share),
            ("trainings", "trainings", count),
            ("seconds", "time", seconds),
            ("per_second", "per second", count),
            ("peak_bytes", "peak memory", memory),
            ("exact", "exact", yes_no),
            ("svc_projected_seconds", "SVC, projected", seconds),
            ("ratio", "ratio", times),
        ],
        rows,
        [
            "whole call of certify: validation, estimate, walk, witnesses checked; compiled before",
            "SVC, projected: median time of one fit at that m, times the number of labellings; one core, no scores",
            "Free: share of labels in that state, at the clean labels and on average over 200 random labellings",
        ],
    )


def by_workers(quick: bool) -> Section:
    """(c) Scaling with cores."""
    m, n = (14, 120) if quick else (20, 1200)
    repeats = 1 if quick else 3
    rows = [
        row
        for k in worker_counts()
        for row in measure("certificate", m=m, n=n, max_flips=None, workers=k, repeats=repeats)
    ]
    for row in rows:
        row["ratio"] = rows[0]["seconds"] / row["seconds"]
    return Section(
        "workers",
        f"(c) with cores: m = {m}, all flips, {count(n)} test nodes",
        [
            ("workers", "workers", str),
            ("seconds", "time", seconds),
            ("per_second", "trainings per second", count),
            ("ratio", "speed-up", times),
            ("peak_bytes", "peak memory", memory),
        ],
        rows,
    )


def by_nodes(quick: bool) -> Section:
    """(d) Scaling with test nodes."""
    m = 12 if quick else 20
    rows = [
        row for n in (1, 120, 1200, 12000) for row in measure("certificate", m=m, n=n, max_flips=None, workers=None)
    ]
    for row in rows:
        row["ratio"] = row["seconds"] / rows[0]["seconds"]
    return Section(
        "nodes",
        f"(d) with test nodes: m = {m}, all flips, {cores()} workers",
        [
            ("nodes", "test nodes", count),
            ("seconds", "time", seconds),
            ("per_second", "trainings per second", count),
            ("ratio", "time, relative", times),
            ("peak_bytes", "peak memory", memory),
        ],
        rows,
    )


def kernel_ridge(quick: bool) -> Section:
    """(e) Kernel ridge regression."""
    m, n = (200, 1000) if quick else (2000, 10000)
    return Section(
        "ridge",
        "(e) kernel ridge regression, every budget",
        [
            ("m", "m", count),
            ("nodes", "test nodes", count),
            ("radii_exact", "radii exact", yes_no),
            ("seconds_for_radii", "sorting alone", seconds),
            ("seconds_without_curve", "all radii", seconds),
            ("seconds", "whole call", seconds),
            ("curve_exact_to", "curve exact up to", str),
            ("peak_bytes", "peak memory", memory),
        ],
        measure("ridge", m=m, n=n, workers=None),
        [
            "all radii: validation, factorisation, clean predictions, sorting, witnesses checked; "
            "the whole call adds the collective curve"
        ],
    )


def first_call(quick: bool) -> Section:
    """(f) Compilation."""
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for cache in ("empty", "filled by the first"):
            (row,) = measure("first_call", environment={"NUMBA_CACHE_DIR": folder})
            rows.append({"cache": cache, **row})
    for row in rows:
        row["ratio"] = rows[0]["seconds"] / row["seconds"]
    return Section(
        "first_call",
        "(f) first call ever: import and one small certificate in a fresh process",
        [
            ("cache", "compilation cache", str),
            ("import_seconds", "import", seconds),
            ("seconds", "import and certify", seconds),
            ("cpu_seconds", "processor time", seconds),
            ("ratio", "speed-up", times),
        ],
        rows,
    )


def kernels(quick: bool) -> Section:
    """(g) Kernels of infinite-width models."""
    full = [("gcn", {}), ("gcn", {"depth": 4}), ("sgc", {}), ("graphsage", {}), ("gin", {}), ("gcn-skip-pc", {})]
    full += [("gcn-skip-alpha", {}), ("appnp", {}), ("ppnp", {}), ("mlp", {})]
    blocks = [
        ("gcn", {}),
        ("gcn", {"depth": 2}),
        ("sgc", {"depth": 2}),
        ("graphsage", {"depth": 2}),
        ("gin", {"depth": 2}),
    ]
    blocks += [("gcn-skip-pc", {}), ("gcn-skip-alpha", {}), ("appnp", {})]
    small, large = (300, 1000) if quick else (2810, 20000)
    rows = []
    for model, options in full:
        (row,) = measure("kernel", model=model, options=options, n=small, edges=3 * small, labeled=0, test=0)
        rows.append({"block": "all nodes", **row})
    for model, options in blocks:
        sizes = {"n": large, "edges": 3 * large, "labeled": large // 143, "test": large // 20}
        (row,) = measure("kernel", model=model, options=options, **sizes)
        rows.append({"block": f"{sizes['labeled']} labelled, {sizes['test']} test", **row})
    return Section(
        "kernels",
        "(g) kernels: random graphs of mean degree 6, 1,500 sparse features",
        [
            ("model", "model", str),
            ("nodes", "nodes", count),
            ("block", "computed", str),
            ("seconds", "time", seconds),
            ("peak_bytes", "peak memory", memory),
        ],
        rows,
    )


def linear(quick: bool) -> Section:
    """(h) Estimators that are linear in their labels, beside scikit-learn's fit."""
    rows = [in_a_process("estimators", **options) for options in estimator_runs(20 if quick else 1)]
    return Section(
        "linear",
        "(h) RidgeClassifier: the curve, and which labels to confirm",
        [
            ("asks", "asked for", str),
            ("labels", "labels", count),
            ("features", "features", count),
            ("flips", "flips", flips),
            ("answer", "answer", str),
            ("seconds", "time", seconds),
            ("fit", "scikit-learn's fit", seconds),
            ("memory", "memory", memory),
        ],
        rows,
        ["two Gaussian blobs, 5 % of the labels wrong; all flips at once change between the two numbers of nodes"],
    )


SECTIONS: dict[str, Callable[[bool], Section]] = {
    "throughput": throughput,
    "scaling": scaling,
    "workers": by_workers,
    "nodes": by_nodes,
    "ridge": kernel_ridge,
    "first_call": first_call,
    "kernels": kernels,
    "linear": linear,
}
