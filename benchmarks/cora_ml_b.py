"""The paper's Cora-MLb table beside ours: collective certified ratios, published kernels, seeds 0 to 4.

Run with ``python -m benchmarks.cora_ml_b --data-dir FOLDER``. The paper's numbers are those of its appendix (full
certified-ratio tables), for budgets of 1 to 6 of 20 labels.
"""

from __future__ import annotations

import time
from pathlib import Path

import click
import numpy as np

from labelcert.cli.printing import print_table
from labelcert.graphs import load_dataset
from labelcert.tables import listing
from labelcert.workflow import certify_targets, choose_model, choose_split, choose_targets

EPSILONS = (0.05, 0.10, 0.15, 0.20, 0.25, 0.30)
GCN = (86.4, 55.6, 46.8, 43.6, 43.6, 41.6)
DIFFERENCE_TO_GCN = {
    "gcn": (0.0, 0.0, 0.0, 0.0, 0.0, 0.0),
    "sgc": (2.4, 7.6, 2.8, 2.4, 1.6, 0.4),
    "appnp": (3.2, 6.8, -1.2, -0.8, -1.6, -2.8),
    "gin": (-4.8, 6.0, -2.0, -5.6, -6.8, -8.0),
    "graphsage": (-6.0, 1.2, 1.6, 1.6, -1.2, -4.0),
    "gcn-skip-alpha": (-1.2, 1.6, 0.8, 0.8, 0.0, -0.4),
    "gcn-skip-pc": (-2.0, 2.4, 2.4, 1.6, 0.0, -2.4),
    "mlp": (-20.4, -11.6, -6.8, -4.8, -6.0, -7.2),
}
SEEDS = range(5)
NODES = 50 * len(SEEDS)


@click.command()
@click.option("--data-dir", type=click.Path(path_type=Path), help="Folder with local copies of the datasets.")
@click.option(
    "--model",
    "names",
    multiple=True,
    type=click.Choice(tuple(DIFFERENCE_TO_GCN)),
    default=("sgc", "appnp", "gcn"),
    show_default=True,
)
@click.option("--variant", type=click.Choice(("published", "exact")), default="published", show_default=True)
def main(data_dir: Path | None, names: tuple[str, ...], variant: str) -> None:
    """Print the comparison and count cells that are equal, within one node of 250, and further off."""
    graph = load_dataset("cora-ml-b", data_dir=data_dir)
    started = time.perf_counter()
    rows, equal, close, off = [], 0, 0, 0
    for name in names:
        survive = np.zeros(len(EPSILONS), dtype=np.int64)
        for seed in SEEDS:
            split = choose_split(graph, seed=seed)
            targets = choose_targets(graph, split, test="collective", seed=seed)
            choice = choose_model(name, graph, split.labeled, variant=variant)
            [result] = certify_targets(choice, graph, split.labeled, targets, max_flips=len(EPSILONS))
            cert = result.certificate
            if not cert.exact:
                raise SystemExit(f"{name}, seed {seed}: the certificate has open intervals")
            survive += cert.n_test - cert.collective_lower[1:]
        cells = []
        for b in range(len(EPSILONS)):
            paper = round((GCN[b] + DIFFERENCE_TO_GCN[name][b]) / 100 * NODES)
            distance = int(survive[b]) - paper
            equal, close, off = equal + (distance == 0), close + (abs(distance) == 1), off + (abs(distance) > 1)
            mark = "=" if distance == 0 else f"{distance:+d} node{'' if abs(distance) == 1 else 's'}"
            cells.append(f"{100 * survive[b] / NODES:.1f} / {100 * paper / NODES:.1f} {mark}")
        rows.append((name, *cells))
    print_table(
        listing(
            f"Cora-MLb, {variant} kernels, certified ratio in % over {NODES} nodes: labelcert / paper",
            ("model", *(f"ε = {epsilon:.2f}" for epsilon in EPSILONS)),
            rows,
        )
    )
    click.echo(
        f"{equal} cells equal, {close} within one node of {NODES}, {off} further off; "
        f"{len(names) * len(SEEDS)} certificates in {time.perf_counter() - started:.1f} s"
    )


if __name__ == "__main__":
    main()
