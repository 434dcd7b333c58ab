"""Whether a solver's tolerance can explain a published number that is lower than the exact one.

Run with ``python -m benchmarks.near_misses --data-dir FOLDER``. For every cell of a published collective table that
differs from ours (with published kernels) this prints by how little the score of one more node misses under the best
attack: with a margin below the tolerance, a solver may count that node as changed. Where that explains the cell, the
mean and the deviation over seeds with this node changed are the printed ones.
"""

from __future__ import annotations

import itertools
from pathlib import Path

import click
import numpy as np

from labelcert.cli.printing import print_table
from labelcert.models import model_from_name
from labelcert.problem import Problem
from labelcert.report.tables import listing
from labelcert.studies import Graphs, expand
from labelcert.studies.catalogue import paper_study
from labelcert.studies.cells import Job
from labelcert.studies.published import certified
from labelcert.studies.published_code import diagonal_shift, published_predictions
from labelcert.svm import train

STUDIES = ("cora-ml-b", "citeseer-b", "polblogs", "cora-b", "chameleon-b")


def near_misses(job: Job, largest: int) -> tuple[list[int], list[float]]:
    """For each number of flips: most nodes changed, and the least score at which one more would be."""
    [cell] = job.cells
    model = model_from_name(job.model, **job.options)
    K_train, K_test = model.kernel_blocks(job.graph, job.labeled, cell.test)
    K_train = K_train + diagonal_shift(K_train) * np.eye(len(K_train))
    assert cell.C is not None
    problem = Problem.build(K_train, job.graph.labels[job.labeled], K_test, cell.C)
    y = problem.y
    sign = np.where(published_predictions(problem) == 1, 1.0, -1.0)
    most, margins = [0] * (largest + 1), [np.inf] * (largest + 1)
    ordered = []
    for size in range(largest + 1):
        for flips in itertools.combinations(range(len(y)), size):
            flipped = y.copy()
            flipped[list(flips)] *= -1.0
            scores = np.sort(sign * (K_test @ train(K_train, flipped, cell.C)))
            ordered.append(scores)
            most[size] = max(most[size], int((scores <= 0).sum()))
        most[size] = max(most[: size + 1])
        if most[size] < len(sign):
            margins[size] = float(min(scores[most[size]] for scores in ordered))
    return most, margins


@click.command()
@click.option("--data-dir", type=click.Path(path_type=Path), help="Folder with local copies of the datasets.")
@click.option("--study", type=click.Choice(STUDIES), default=STUDIES[0], show_default=True)
@click.option("--flips", default=4, show_default=True, help="Largest number of flips (of 20 labels).")
def main(data_dir: Path | None, study: str, flips: int) -> None:
    """Print one row for each cell that differs."""
    plan = expand(paper_study(study).changed(variant="published"), graphs=Graphs(data_dir))
    [table] = plan.study.compare
    rows = []
    for name in dict.fromkeys(job.model for job in plan.jobs):
        found = [near_misses(job, flips) for job in plan.jobs if job.model == name]
        for b in range(1, flips + 1):
            counts = [50 - most[b] for most, _ in found]
            ours = 2 * float(np.mean(counts))
            number = next(n for n in certified() if (n.table, n.model, n.epsilon) == (table, name, b / 20))
            if abs(ours - number.mean) < 0.05:
                continue
            margins = [margin[b] for _, margin in found]
            seed = int(np.argmin(margins))
            lowered = [2.0 * (count - (k == seed)) for k, count in enumerate(counts)]
            rows.append(
                (
                    name,
                    f"{b / 20:g}",
                    f"{ours:.1f} ± {2 * np.std(counts):.1f}",
                    f"{number.mean:.1f} ± {number.std:.1f}",
                    f"{margins[seed]:.1e} (seed {seed})",
                    f"{np.mean(lowered):.1f} ± {np.std(lowered):.1f}",
                )
            )
    headings = ("model", "ε", "ours", "paper", "least margin of one more node", "with that node changed")
    print_table(listing(f"{study}, published kernels: cells that differ", headings, rows))


if __name__ == "__main__":
    main()
