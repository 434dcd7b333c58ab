"""The paper's multi-class Citeseer table beside ours: certified accuracy, exact and relaxed, seeds 0 to 2.

Run with ``python -m benchmarks.citeseer_multi_class --data-dir FOLDER``. The paper's numbers are those of its table on
the tightness of the incomplete certificate, for 0, 1, 2, 3 and 6 of 120 labels.
"""

from __future__ import annotations

import time
from pathlib import Path

import click
import numpy as np
from threadpoolctl import threadpool_limits

from labelcert import certify
from labelcert.cli.printing import print_table
from labelcert.graphs import load_dataset, multi_class_targets
from labelcert.pipeline import choose_model, choose_split
from labelcert.report.tables import listing

EPSILONS = {0.0: 0, 0.01: 1, 0.02: 2, 0.03: 3, 0.05: 6}
PAPER = {
    "gcn": {"exact": (66.0, 10.7, 0.0, 0.0, 0.0), "relaxed": (66.0, 10.7, 0.0, 0.0, 0.0)},
    "sgc": {"exact": (65.3, 35.3, 9.3, 0.7, 0.0), "relaxed": (65.3, 34.7, 8.7, 0.7, 0.0)},
    "gcn-skip-alpha": {"exact": (63.3, 20.0, 2.0, 0.0, 0.0), "relaxed": (63.3, 20.0, 2.0, 0.0, 0.0)},
    "gcn-skip-pc": {"exact": (66.7, 20.3, 0.7, 0.0, 0.0), "relaxed": (66.7, 20.3, 0.7, 0.0, 0.0)},
}
SEEDS = range(3)


@click.command()
@click.option("--data-dir", type=click.Path(path_type=Path), help="Folder with local copies of the datasets.")
@click.option(
    "--model", "names", multiple=True, type=click.Choice(tuple(PAPER)), default=tuple(PAPER), show_default=True
)
@click.option("--variant", type=click.Choice(("published", "exact")), default="published", show_default=True)
@threadpool_limits.wrap(limits=1)  # matrices of 120 rows are too small to be worth several threads
def main(data_dir: Path | None, names: tuple[str, ...], variant: str) -> None:
    """Print the comparison and count the cells that round to the paper's numbers."""
    graph = load_dataset("citeseer", data_dir=data_dir)
    kernels = {}
    started = time.perf_counter()
    for name in names:
        for seed in SEEDS:
            split = choose_split(graph, seed=seed)
            nodes = multi_class_targets(graph, split, seed=seed)
            model = choose_model(name, graph, split.labeled, variant=variant).model
            arrays = model.kernel_blocks(graph, split.labeled, nodes)
            kernels[name, seed] = arrays, graph.labels[split.labeled], graph.labels[nodes], model.C
    for_kernels = time.perf_counter() - started
    certify(np.eye(3), [0, 1, 2], np.eye(3), 0.1)  # compiles
    started = time.perf_counter()
    rows, equal, cells, without = [], 0, 0, 0
    for name in names:
        for kind in ("exact", "relaxed"):
            shares = []
            for seed in SEEDS:
                (K_train, K_test), labels, truth, C = kernels[name, seed]
                cert = certify(
                    K_train,
                    labels,
                    K_test,
                    C,
                    max_flips=max(EPSILONS.values()),
                    engine="auto" if kind == "exact" else "relaxed",
                    collective=False,
                )
                if kind == "exact":
                    without += int(np.sum((cert.radius_lower != cert.radius_upper) & (cert.radius_lower <= 6)))
                shares.append([100 * cert.certified_accuracy(truth, flips=b) for b in EPSILONS.values()])
            mean, deviation = np.mean(shares, axis=0), np.std(shares, axis=0)
            texts = []
            for ours, spread, paper in zip(mean, deviation, PAPER[name][kind], strict=True):
                same = abs(ours - paper) <= 0.05 + 1e-9
                equal, cells = equal + same, cells + 1
                texts.append(f"{ours:.1f} ± {spread:.1f} / {paper:.1f}{'' if same else ' differs'}")
            rows.append((name, kind, *texts))
    seconds = time.perf_counter() - started
    print_table(
        listing(
            f"Citeseer, {variant} kernels, 120 labels of 6 classes, certified accuracy in %: labelcert / paper",
            ("model", "certificate", *(f"ε = {epsilon:.2f}" for epsilon in EPSILONS)),
            rows,
        )
    )
    click.echo(
        f"{equal} of {cells} cells equal; {without} radii open; {2 * len(kernels)} certificates of 50 nodes "
        f"in {seconds:.1f} s, kernels in {for_kernels:.1f} s"
    )


if __name__ == "__main__":
    main()
