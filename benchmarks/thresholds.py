"""From which budget on no prediction on CSBM is certified on its own, with other settings than the paper's.

Run with ``python -m benchmarks.thresholds --data-dir FOLDER``. This prints the certified accuracy and the certified
ratio of single nodes, averaged over seeds 0 to 4. Options change one setting each. With ``--recorded``, the certified
accuracies are compared with those that the published code has in one of its notebooks, for the setting of its runs.
"""

from __future__ import annotations

from pathlib import Path

import click
import numpy as np

from labelcert import certify
from labelcert.arrays import Float
from labelcert.cli.printing import print_table
from labelcert.graphs import csbm
from labelcert.models import model_from_name
from labelcert.paper.published_code import diagonal_shift
from labelcert.pipeline import choose_split
from labelcert.pipeline.settings import known_setting
from labelcert.problem.budget import flips_for_fraction
from labelcert.report.tables import listing

MODELS = ("gcn", "sgc", "appnp", "gin", "graphsage", "gcn-skip-alpha", "gcn-skip-pc", "mlp")
BUDGETS = (0.05, 0.1, 0.15, 0.2, 0.25, 0.3)
SEEDS = range(5)
RECORDED_NODES = 180
RECORDED = {
    "gcn": (581, 251, 11, 0, 0, 0),
    "sgc": (708, 605, 438, 268, 119, 17),
    "appnp": (568, 181, 6, 1, 2, 3),
    "gin": (468, 189, 28, 1, 0, 0),
    "graphsage": (503, 174, 11, 0, 0, 0),
    "gcn-skip-alpha": (575, 271, 41, 0, 0, 0),
    "gcn-skip-pc": (625, 443, 227, 74, 1, 0),
    "mlp": (274, 14, 0, 0, 0, 0),
}
"""Nodes (of 5 · 180) that are predicted correctly and certified at each budget: the means in
``notebooks/label_certification_onenode_binary/sbm_n10.ipynb`` of the published code, times 900."""


def certified(
    name: str,
    seed: int,
    data_dir: Path | None,
    *,
    variant: str,
    per_class: int,
    first: int,
    limit: float,
    margin: float = 0.0,
    **changed: object,
) -> Float:
    """(2, 2, budgets) shares of nodes: certified and correct, then certified; of each a lower and an upper bound."""
    graph = csbm(seed=seed, order="published", data_dir=data_dir)
    split = choose_split(graph, seed=seed, per_class=per_class)
    test = np.arange(first) if first else split.pool
    setting = known_setting("csbm", name)
    assert setting is not None
    model = model_from_name(name, **{"C": setting.C, **setting.options, "variant": variant, **changed})
    K_train, K_test = model.kernel_blocks(graph, split.labeled, test)
    if variant == "published":
        K_train = K_train + diagonal_shift(K_train) * np.eye(len(K_train))
    flips = [flips_for_fraction(epsilon, len(split.labeled)) for epsilon in BUDGETS]
    how = {"max_flips": flips[-1], "margin": margin, "collective": False, "time_limit": limit, "device": "cpu"}
    cert = certify(K_train, graph.labels[split.labeled], K_test, model.C, **how)
    correct = cert.correct(graph.labels[test])
    survive = [[radius > b for b in flips] for radius in (cert.radius_lower, cert.radius_upper)]
    return np.array([[[np.mean(chosen & alive) for alive in bound] for bound in survive] for chosen in (correct, True)])


def percent(lower: float, upper: float) -> str:
    return f"{100 * lower:.1f}" if np.isclose(lower, upper) else f"{100 * lower:.1f} to {100 * upper:.1f}"


@click.command()
@click.option("--data-dir", type=click.Path(path_type=Path), help="Folder with local copies of the datasets.")
@click.option("--model", "models", multiple=True, type=click.Choice(MODELS), default=MODELS, help="May be repeated.")
@click.option("--variant", type=click.Choice(["exact", "published"]), default="exact", show_default=True)
@click.option("--labels", default=20, show_default=True, help="Number of labels, of both classes together.")
@click.option("--first", default=0, help="Test nodes 0, 1, 2 and so on, instead of those without a label: so many.")
@click.option("--margin", default=0.0, help="A prediction counts as changed once its lead falls to this.")
@click.option("--C", "C", type=float, help="Instead of the paper's.")
@click.option("--normalization", type=click.Choice(["row", "symmetric"]), help="For models that have it.")
@click.option("--limit", default=10.0, show_default=True, help="Seconds for one graph.")
@click.option("--recorded", is_flag=True, help="Compare with the published runs: published kernels, nodes 0 to 179.")
def main(
    data_dir: Path | None,
    models: tuple[str, ...],
    variant: str,
    labels: int,
    first: int,
    margin: float,
    C: float | None,
    normalization: str | None,
    limit: float,
    recorded: bool,
) -> None:
    """Print one row for each model."""
    if recorded:
        variant, first = "published", RECORDED_NODES
    changed = {key: value for key, value in (("C", C), ("normalization", normalization)) if value is not None}
    how = {"variant": variant, "per_class": labels // 4, "first": first, "limit": limit, "margin": margin, **changed}
    rows = []
    for name in models:
        accuracy, ratio = np.mean([certified(name, seed, data_dir, **how) for seed in SEEDS], axis=0)
        cells = [f"{percent(*a)} / {percent(*r)}" for a, r in zip(accuracy.T, ratio.T, strict=True)]
        if recorded:
            ours = np.rint(len(SEEDS) * RECORDED_NODES * accuracy[0]).astype(int)
            cells = [f"{n} / {m}{' =' if n == m else ''}" for n, m in zip(ours, RECORDED[name], strict=True)]
        rows.append((name, *cells))
    what = "nodes of 900 / recorded ones" if recorded else "certified accuracy / certified ratio of single nodes in %"
    print_table(listing(f"CSBM, {labels} labels: {what}", ("model", *(f"ε = {e:g}" for e in BUDGETS)), rows))


if __name__ == "__main__":
    main()
