"""How far each engine gets: Cora-MLb, GCN, with 20 to 100 labels and growing budgets.

Run with ``python -m benchmarks.frontier --data-dir FOLDER``. One run per size and engine, from small to large budgets,
tells for every budget how many of the nodes are decided within the limits. For the paper's program, its
solver's claims count.
"""

from __future__ import annotations

import time
import warnings
from pathlib import Path

import click
import numpy as np

from benchmarks.machine import facts
from benchmarks.real import cora_ml_b
from labelcert import Certificate, certify
from labelcert.cli.printing import print_table
from labelcert.errors import MilpWarning
from labelcert.report.tables import listing

SIZES = (20, 40, 70, 100)
LARGEST = {20: 8, 40: 8, 70: 6, 100: 5}


@click.command()
@click.option("--data-dir", type=click.Path(path_type=Path), help="Folder with local copies of the datasets.")
@click.option("--labels", "sizes", multiple=True, type=int, default=SIZES, show_default=True)
@click.option("--nodes", default=50, show_default=True, help="Test nodes; the paper's program gets the first few.")
@click.option("--paper-nodes", default=2, show_default=True)
@click.option("--node-limit", default=60.0, show_default=True, help="Seconds for one node.")
@click.option("--limit", default=600.0, show_default=True, help="Seconds for all nodes.")
@click.option("--engine", "engines", multiple=True, default=("auto", "milp", "milp-paper"), show_default=True)
def main(
    data_dir: Path | None,
    sizes: tuple[int, ...],
    nodes: int,
    paper_nodes: int,
    node_limit: float,
    limit: float,
    engines: tuple[str, ...],
) -> None:
    """Print one table per size."""
    warnings.simplefilter("ignore", MilpWarning)
    machine = facts()
    click.echo(f"{machine['cpu']}, {machine['cores']} cores, load {machine['load_at_start']} at the start")
    certify(np.eye(2), [0, 1], np.eye(2), 2.0, engine="enumerate")  # compiled before the clock runs
    for m in sizes:
        largest = LARGEST.get(m, 4)
        rows = []
        for engine in engines:
            count = paper_nodes if engine == "milp-paper" else nodes
            problem = cora_ml_b(m, data_dir=data_dir, nodes=count, max_flips=largest)
            began = time.perf_counter()
            cert = certify(
                problem.K_train,
                problem.labels,
                problem.K_test,
                problem.C,
                max_flips=largest,
                engine=engine,
                time_limit=limit,
                node_time_limit=node_limit,
                trust_solver=True,
                collective=engine == "auto",
            )
            seconds = time.perf_counter() - began
            rows.append((engine, str(count), *decided(cert, largest), proved_by(cert), f"{seconds:.0f}"))
        print_table(
            listing(
                f"m = {m}: nodes decided at each budget within {limit:.0f} s for all and {node_limit:.0f} s for one; "
                "auto also has the collective curve (c: closed)",
                ("engine", "nodes", *(f"b = {b}" for b in range(1, largest + 1)), "lower radii proved by", "seconds"),
                rows,
            )
        )


def decided(cert: Certificate, largest: int) -> list[str]:
    """For each budget: how many verdicts stand, and whether the curve is closed there."""
    cells = []
    for b in range(1, largest + 1):
        known = int(np.sum(cert.verdicts(flips=b) != "unknown"))
        curve = cert.run.collective and cert.collective_lower[b] == cert.collective_upper[b]
        cells.append(f"{known}{' c' if curve else ''}")
    return cells


def proved_by(cert: Certificate) -> str:
    """How many radii each engine settled; of those of the search, how many without branching."""
    names, counts = np.unique(cert.radius_proved_by, return_counts=True)
    parts = [f"{name or 'witness'} {count}" for name, count in zip(names, counts, strict=True)]
    for stage in cert.run.stages:
        statistics = stage.statistics
        if "proved_by_relaxation" in statistics:
            parts.append(
                f"({statistics['proved_by_relaxation']} proofs by relaxation, {statistics['subtrees']} subtrees, "
                f"{statistics['leaves_retrained']} leaves retrained)"
            )
    return ", ".join(parts)


if __name__ == "__main__":
    main()
