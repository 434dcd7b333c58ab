"""Answers at the label counts that people have: exact where it can be, intervals within a time limit elsewhere.

Run with ``python -m benchmarks.label_counts --data-dir FOLDER``. With ``--other PYTHON``, the interpreter of another
installation of labelcert answers the second table, too. Nothing else should run at the same time.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import click
import numpy as np

from benchmarks.machine import facts
from benchmarks.problems import Arrays, clouds, dense
from benchmarks.real import cora_ml_b
from labelcert import Certificate, certify
from labelcert.cli.printing import print_table
from labelcert.report.tables import listing

SECONDS = 60.0
SHORT = 10.0

ANSWER = """
import json, sys, time
import numpy as np
import labelcert
path, seconds = sys.argv[1], float(sys.argv[2])
with np.load(path) as data:
    arrays = data["K_train"], data["labels"], data["K_test"], float(data["C"])
labelcert.certify(np.diag([1.0, 2.0, 3.0]), [0, 1, 0], np.eye(3), 1.0)
started = time.perf_counter()
cert = labelcert.certify(*arrays, time_limit=seconds)
spent = time.perf_counter() - started
print(json.dumps([labelcert.__version__, spent, cert.radius_lower.tolist(), cert.radius_upper.tolist()]))
"""


def compile_all() -> None:
    """Compile every engine, so that no measurement has to."""
    for classes in (2, 3):
        arrays = clouds(80, 5, classes)
        certify(*arrays, max_flips=1)
        certify(*arrays, max_flips=2, engine="milp", time_limit=5.0)


def widths(lower: Any, upper: Any, m: int) -> dict[str, Any]:
    """How good intervals of radii are."""
    low, high = np.asarray(lower), np.asarray(upper)
    return {
        "with an upper end": f"{int((high <= m).sum())} of {high.size}",
        "exact": int((low == high).sum()),
        "median width": float(np.median(high - low)),
        "least lower end of open radii": int(low[low < high].min()) if (low < high).any() else "-",
    }


def timed(arrays: Arrays, **options: Any) -> tuple[Certificate, float]:
    """One certificate and its seconds."""
    started = time.perf_counter()
    cert = certify(*arrays, **options)
    return cert, time.perf_counter() - started


def exact_rows() -> list[dict[str, Any]]:
    """Whole calls that end with an exact certificate."""
    cases: list[tuple[str, Arrays, dict[str, Any]]] = [
        ("1,000 labels, 200 nodes, 1 flip", clouds(1000, 200, 2), {"max_flips": 1}),
        ("300 labels, 200 nodes, 2 flips", clouds(300, 200, 2), {"max_flips": 2}),
        ("140 labels of 7 classes, 1,000 nodes, 2 flips", clouds(140, 1000, 7), {"max_flips": 2}),
        ("20 labels, 1,200 nodes, all flips", dense(20, 1200), {}),
        ("20 labels, 12,000 nodes, all flips", dense(20, 12000), {}),
    ]
    rows = []
    for name, arrays, options in cases:
        cert, seconds = timed(arrays, **options)
        rows.append({"hinge loss": name, "exact": "yes" if cert.exact else "no", "seconds": round(seconds, 2)})
    return rows


def limited_rows(data_dir: Path | None, other: str | None, seconds: float) -> list[dict[str, Any]]:
    """The GCN on Cora-MLb, 50 nodes, with a time limit and no other option."""
    rows = []
    for m in (200, 500):
        p = cora_ml_b(m, data_dir=data_dir, nodes=50, max_flips=m)
        for python in (sys.executable, other):
            if python is None:
                continue
            with tempfile.TemporaryDirectory() as folder:
                path = Path(folder, "problem.npz")
                np.savez(path, K_train=p.K_train, labels=p.labels, K_test=p.K_test, C=p.C)
                command = [python, "-W", "ignore", "-c", ANSWER, str(path), str(seconds)]
                answer = subprocess.run(command, capture_output=True, text=True, check=True).stdout
            version, spent, lower, upper = json.loads(answer.splitlines()[-1])
            rows.append({"labels": m, "version": version, **widths(lower, upper, m), "seconds": round(spent, 1)})
    return rows


def short_rows(seconds: float) -> list[dict[str, Any]]:
    """A short time limit on large problems."""
    cases: list[tuple[str, Arrays, str]] = [
        ("hinge, 300 labels, 50 nodes", clouds(300, 50, 2), "hinge"),
        ("hinge, 1,000 labels, 50 nodes", clouds(1000, 50, 2), "hinge"),
        ("hinge, 140 labels of 7 classes, 1,000 nodes", clouds(140, 1000, 7), "hinge"),
        ("ridge, 5,000 labels, 200 nodes", clouds(5000, 200, 2), "square"),
        ("hinge, 20 labels, 50,000 nodes", clouds(20, 50000, 2), "hinge"),
    ]
    rows = []
    for name, arrays, loss in cases:
        cert, spent = timed(arrays, loss=loss, time_limit=seconds)
        found = widths(cert.radius_lower, cert.radius_upper, arrays.labels.size)
        rows.append({"problem": name, **found, "seconds": round(spent, 1)})
    return rows


def show(title: str, rows: list[dict[str, Any]]) -> None:
    """Print a table."""
    print_table(listing(title, list(rows[0]), [[str(value) for value in row.values()] for row in rows]))


@click.command()
@click.option("--data-dir", type=click.Path(path_type=Path), help="Folder with local copies of the datasets.")
@click.option("--other", metavar="PYTHON", help="Interpreter of another installation, for comparison.")
@click.option("--only", multiple=True, type=click.Choice(["exact", "limited", "short"]), help="One table alone.")
@click.option("--seconds", default=SECONDS, show_default=True, help="Time limit of the second table.")
def main(data_dir: Path | None, other: str | None, only: tuple[str, ...], seconds: float) -> None:
    """Three tables: exact answers, a time limit of a minute, a time limit of ten seconds."""
    machine = facts()
    click.echo(f"{machine['cpu']}, {machine['cores']} cores, load {machine['load_at_start']} at the start\n")
    compile_all()
    if not only or "exact" in only:
        show("exact", exact_rows())
    if not only or "limited" in only:
        show(f"time_limit={seconds:g}, GCN on Cora-MLb", limited_rows(data_dir, other, seconds))
    if not only or "short" in only:
        show(f"time_limit={SHORT:g}", short_rows(SHORT))


if __name__ == "__main__":
    main()
