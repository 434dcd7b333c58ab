"""The paper's multi-class MILP beside ours, on the same nodes in the same run.

Run with ``python -m benchmarks.multi_class_milp --data-dir FOLDER``. Each method decides, for a few test nodes, whether
so many changed labels can change the prediction: the paper's program (3Km + K − 1 binaries) and our search, both with
a time limit per node, and the closed form or the tables. All times are whole calls for all of these nodes. Budgets are
asked from small to large, and a node that is left open at one budget is not asked about larger ones. Where scores are
linear, the search sorts. What the paper's program calls robust is what its solver claims.
"""

from __future__ import annotations

import time
import warnings
from pathlib import Path
from typing import NamedTuple

import click
import numpy as np

from labelcert import Certificate, certify
from labelcert.cli.printing import print_table
from labelcert.errors import MilpWarning
from labelcert.graphs import load_dataset, multi_class_targets
from labelcert.pipeline import choose_model, choose_split
from labelcert.report.tables import listing


class Setting(NamedTuple):
    """One row of nodes to certify."""

    dataset: str
    model: str
    variant: str
    flips: int


SETTINGS = {
    "citeseer-sgc-1": Setting("citeseer", "sgc", "published", 1),
    "citeseer-gcn-1": Setting("citeseer", "gcn", "published", 1),
    "cora-ml-gcn-1": Setting("cora-ml", "gcn", "exact", 1),
    "cora-ml-gcn-2": Setting("cora-ml", "gcn", "exact", 2),
}
METHODS = {"auto": "ours", "milp": "our search", "milp-paper": "paper's MILP"}


@click.command()
@click.option("--data-dir", type=click.Path(path_type=Path), help="Folder with local copies of the datasets.")
@click.option(
    "--setting",
    "names",
    multiple=True,
    type=click.Choice(tuple(SETTINGS)),
    default=("citeseer-sgc-1", "cora-ml-gcn-1", "cora-ml-gcn-2"),
    show_default=True,
)
@click.option("--nodes", default=3, show_default=True, help="Test nodes of each setting.")
@click.option("--time-limit", default=60.0, show_default=True, help="Seconds of a program for each node and budget.")
@click.option("--solver", default="highs", show_default=True)
@click.option("--workers", default=1, show_default=True)
def main(
    data_dir: Path | None, names: tuple[str, ...], nodes: int, time_limit: float, solver: str, workers: int
) -> None:
    """One row per setting and method: verdicts, seconds, and how much slower than ours."""
    certify(np.diag([1.0, 2.0, 3.0]), [0, 1, 2], np.eye(3), 10.0, workers=1)  # compiles
    rows = []
    for setting in (SETTINGS[name] for name in names):
        graph = load_dataset(setting.dataset, data_dir=data_dir)
        split = choose_split(graph, seed=0)
        model = choose_model(setting.model, graph, split.labeled, variant=setting.variant).model
        test = multi_class_targets(graph, split, seed=0)[:nodes]
        K_train, K_test = model.kernel_blocks(graph, split.labeled, test)
        ours = None
        for engine, method in METHODS.items():
            started = time.perf_counter()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", MilpWarning)  # counted as open
                cert = certify(
                    K_train,
                    graph.labels[split.labeled],
                    K_test,
                    model.C,
                    max_flips=setting.flips,
                    engine=engine,
                    solver=solver,
                    trust_solver=True,
                    node_time_limit=time_limit if engine != "auto" else None,
                    collective=False,
                    workers=workers,
                )
            seconds = time.perf_counter() - started
            ours = seconds if ours is None else ours
            name = f"{method} ({cert.engine})" if engine == "auto" else method
            what = f"{setting.dataset}, {setting.model}, m = {split.labeled.size}, {setting.flips} flips"
            solved = [solve["budget"] for solve in cert.run.stages[0].statistics.get("solves", [])]
            programs = f"{len(solved)}, up to {max(solved)} flips" if solved else "0"
            rows.append((what, name, *_verdicts(cert), programs, f"{seconds:.2f}", f"{seconds / ours:,.0f}×"))
            click.echo(f"{what}: {name}, {seconds:.1f} s", err=True)
    print_table(
        listing(
            f"{nodes} nodes of seed 0, {solver}, at most {time_limit:g} s a node and budget, {workers} workers",
            ("problem", "method", "robust", "vulnerable", "open", "programs", "seconds", "ratio"),
            rows,
        )
    )


def _verdicts(cert: Certificate) -> tuple[str, str, str]:
    robust = cert.radius_lower > cert.max_flips
    vulnerable = cert.radius_upper <= cert.max_flips
    return str(robust.sum()), str(vulnerable.sum()), str((~robust & ~vulnerable).sum())


if __name__ == "__main__":
    main()
