"""Cora-MLb (or another graph) with hundreds of labels: ensembles on parts of them, by votes and by mean scores.

Run with ``python -m benchmarks.partition --data-dir FOLDER``. The number of votes alone (the black-box bound of
partition aggregation) stands beside both.
"""

from __future__ import annotations

import time
from pathlib import Path

import click
import numpy as np

from labelcert import Certificate, Partition
from labelcert.cli.printing import print_table
from labelcert.graphs import load_dataset, published_split
from labelcert.pipeline import choose_model
from labelcert.report.tables import listing

FLIPS = (0, 5, 10, 15, 20, 30)


@click.command()
@click.option("--data-dir", type=click.Path(path_type=Path), help="Folder with local copies of the datasets.")
@click.option("--dataset", default="cora-ml-b", show_default=True)
@click.option("--labels", "m", default=600, show_default=True, help="Labelled nodes.")
@click.option("--nodes", default=200, show_default=True, help="Test nodes.")
@click.option("--parts", multiple=True, type=int, default=(30, 50, 100), show_default=True)
@click.option("--combine", "combinations", multiple=True, default=("votes", "mean"), show_default=True)
@click.option("--model", "name", default="gcn", show_default=True)
@click.option("--seed", default=0, show_default=True, help="Of the split and of the parts.")
@click.option("--max-flips", default=60, show_default=True)
@click.option("--part-flips", type=int, help="Largest attack on one part that is looked at.")
@click.option("--workers", type=int, help="Threads. [default: all cores]")
def main(
    data_dir: Path | None,
    dataset: str,
    m: int,
    nodes: int,
    parts: tuple[int, ...],
    combinations: tuple[str, ...],
    name: str,
    seed: int,
    max_flips: int,
    part_flips: int | None,
    workers: int | None,
) -> None:
    """One row per ensemble: certified accuracy at some budgets, and seconds."""
    graph = load_dataset(dataset, data_dir=data_dir)
    # As many nodes again are for validation.
    split = published_split(graph, seed=seed, per_class=-(-m // (2 * len(graph.class_names))))
    labeled = split.labeled[:m]
    rng = np.random.default_rng(seed)
    test = np.sort(rng.permutation(np.setdiff1d(split.pool, labeled))[:nodes])
    model = choose_model(name, graph, labeled).model
    truth = graph.named_labels(test)
    budgets = [b for b in FLIPS if b <= max_flips]
    rows: list[tuple[str, ...]] = []
    for count in parts:
        for combine in combinations:
            ensemble = Partition(model, parts=count, seed=seed, combine=combine)  # type: ignore[arg-type]
            started = time.perf_counter()
            cert = ensemble.certify(
                graph, labeled, test, max_flips=max_flips, part_flips=part_flips, workers=workers, progress=False
            )
            seconds = time.perf_counter() - started
            rows.append((str(count), combine, *_cells(cert, truth, budgets), f"{seconds:.1f}"))
            click.echo(f"{count} parts, {combine}: {cert!r} in {seconds:.1f} s", err=True)
            if combine == "votes":
                rows.append((str(count), "votes, counted alone", *_counted(cert, truth, budgets), ""))
    print_table(
        listing(
            f"{dataset}, {name}, C = {model.C:g}, {m} labels, {test.size} nodes: certified accuracy in %",
            ("parts", "combined by", *(f"{b} flips" for b in budgets), "exact radii", "collective at 10", "seconds"),
            rows,
        )
    )


def _cells(cert: Certificate, truth: np.ndarray, budgets: list[int]) -> tuple[str, ...]:
    accuracy = [
        _interval(*(100 * cert.certified_accuracy(truth, flips=b, bound=bound) for bound in ("lower", "upper")))
        for b in budgets
    ]
    settled = (cert.radius_lower == cert.radius_upper) | (cert.radius_lower > cert.max_flips)
    ratio = [100 * cert.certified_ratio(flips=10, collective=True, bound=bound) for bound in ("lower", "upper")]
    return (*accuracy, f"{int(settled.sum())} of {cert.n_test}", _interval(*ratio))


def _counted(cert: Certificate, truth: np.ndarray, budgets: list[int]) -> tuple[str, ...]:
    """What the numbers of votes say, without looking into the parts."""
    radius = cert.black_box_radius
    assert radius is not None
    correct = cert.correct(truth)
    return (*(f"{100 * np.mean(correct & (radius > b)):.1f}" for b in budgets), "", "")


def _interval(lower: float, upper: float) -> str:
    return f"{lower:.1f}" if lower == upper else f"{lower:.1f} to {upper:.1f}"


if __name__ == "__main__":
    main()
