"""How far networks of finite width stray from the kernel machines that are certified in their place.

python -m benchmarks.finite rates --data-dir FOLDER [--width 64 --width 256 ...] [--vary activation ...]
python -m benchmarks.finite margins --data-dir FOLDER --margin-flips 0 [--model gin ...]
python -m benchmarks.finite kernels --data-dir FOLDER [--model gcn ...]

The first prints the median deviation of clean scores over the width, for every architecture of the paper, and for other
depths, activations and values of C, beside the two rates that the paper states; a GPU is used where there is one. The
second prints what networks do with certified predictions, with margins from clean labels alone (0) or also from labels
with so many random flips. The third compares margins with errors of kernels' entries, measured over random
initial weights.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import click
import numpy as np

import labelcert
from benchmarks.machine import facts
from labelcert.arrays import Float
from labelcert.cli.printing import print_table
from labelcert.finite.margin import measured
from labelcert.finite.transfer import MARGIN_NETWORKS, transfer
from labelcert.finite.twins import Twins
from labelcert.models import Model, model_from_name
from labelcert.models.activations import ACTIVATIONS
from labelcert.pipeline.settings import known_setting
from labelcert.report.tables import listing

MODELS = ("gcn", "sgc", "graphsage", "gin", "gcn-skip-pc", "gcn-skip-alpha", "mlp", "appnp")
VARIED = ("depth", "activation", "C")
DATASET = "cora-ml-b"
shared = [
    click.option("--data-dir", type=click.Path(path_type=Path), help="Folder with local copies of the datasets."),
    click.option("--width", "widths", multiple=True, type=int, default=(64, 256, 1024), show_default=True),
    click.option(
        "--model", "models", multiple=True, type=click.Choice(MODELS), default=MODELS, help="May be repeated."
    ),
    click.option("--networks", default=3, show_default=True, help="Networks of each kind."),
]


def pair_of(model: Model, folder: Path | None, seed: int = 0) -> Twins:
    graph = labelcert.load_dataset(DATASET, data_dir=folder)
    split = labelcert.published_split(graph, seed=seed)
    return Twins(model, graph, split.labeled, split.pool)


def paper_model(name: str) -> Model:
    setting = known_setting(DATASET, name)
    assert setting is not None
    return model_from_name(name, C=setting.C, **setting.options)


def variations(names: tuple[str, ...], vary: tuple[str, ...]) -> Iterator[tuple[str, Model]]:
    """Every architecture as in the paper, then with other options."""
    for name in names:
        base = paper_model(name)
        yield name, base
        options = {field.name for field in fields(base)}
        for depth in (2, 4) if "depth" in options and "depth" in vary else ():
            yield f"{name}, L = {depth}", replace(base, depth=depth)
        for activation in ACTIVATIONS[1:] if "activation" in options and "activation" in vary else ():
            if (name, activation) != ("gcn", "linear"):  # that is SGC
                yield f"{name}, {activation}", replace(base, activation=activation)
        for factor in (0.1, 10.0) if "C" in vary else ():
            yield f"{name}, C = {base.C * factor:g}", replace(base, C=base.C * factor)


def deviations(model: Model, widths: tuple[int, ...], networks: int, folder: Path | None) -> tuple[Float, float]:
    """(widths,) median distance of clean scores from the kernel machine's, and the median size of the latter."""
    pair = pair_of(model, folder)
    labels = pair.labels[None]
    clean = pair.leads(pair.machine(labels))[0]
    found = [
        np.mean([np.median(np.abs(pair.leads(pair.network(labels, w, k))[0] - clean)) for k in range(networks)])
        for w in widths
    ]
    return np.array(found), float(np.median(np.abs(clean)))


@click.group()
def main() -> None:
    """Networks of finite width."""


def command(function: Any) -> Any:
    for option in reversed(shared):
        function = option(function)
    return main.command()(function)


@command
@click.option("--vary", multiple=True, type=click.Choice(VARIED), default=VARIED, help="What else than the paper's.")
def rates(
    data_dir: Path | None, widths: tuple[int, ...], models: tuple[str, ...], networks: int, vary: tuple[str, ...]
) -> None:
    """Deviation over the width."""
    click.echo(facts())
    rows = []
    logs = np.log(np.array(widths, dtype=float))
    for label, model in variations(models, vary):
        found, size = deviations(model, widths, networks, data_dir)
        slope = np.polyfit(logs, np.log(np.maximum(found, 1e-12)), 1)[0]
        rows.append((label, f"{size:.3f}", *(f"{value:.4f}" for value in found), f"w^{slope:.2f}"))
    for label, rate in (("ln w / √w", 0.5), ("ln w / w", 1.0)):
        shape = np.array([math.log(w) / w**rate for w in widths])
        slope = np.polyfit(logs, np.log(shape), 1)[0]
        rows.append((f"stated: {label}", "–", *(f"{value / shape[0]:.4f}" for value in shape), f"w^{slope:.2f}"))
    columns = ("model", "median |score|", *(f"w = {w:,}" for w in widths), "fitted")
    print_table(
        listing(f"Median deviation of clean scores, {networks} networks each; stated rates start at 1", columns, rows)
    )


@command
@click.option("--margin-flips", default=0, show_default=True, help="Random flips in the labels that margins come from.")
@click.option("--seed", "seeds", multiple=True, type=int, default=(0, 1), show_default=True, help="Of the splits.")
def margins(
    data_dir: Path | None,
    widths: tuple[int, ...],
    models: tuple[str, ...],
    networks: int,
    margin_flips: int,
    seeds: tuple[int, ...],
) -> None:
    """Certified predictions that networks break, with margins."""
    click.echo(facts())
    rows = []
    for name in models:
        for width in widths:
            how = {"networks": networks, "margin_flips": margin_flips, "practical": False}
            counts = [
                transfer(pair_of(paper_model(name), data_dir, seed), width, seed=seed, **how).recipes["theory"]
                for seed in seeds
            ]
            nodes, certified, broken = (
                sum(getattr(c, key) for c in counts)
                for key in ("nodes", "certified_with_margin", "violated_with_margin")
            )
            rows.append(
                (name, f"{width:,}", f"{100 * certified / nodes:.1f}", f"{100 * broken / max(1, certified):.2f}")
            )
    columns = ("model", "width", "certified with margin %", "broken with margin %")
    print_table(listing(f"{networks} networks each, margins from {margin_flips} random flips", columns, rows))


def pieces(model: Model, folder: Path | None, width: int, seed: int, networks: int) -> dict[str, tuple[int, int]]:
    """How many of 50 nodes are certified at one flip, and how many of these some network breaks, by certificate."""
    whole = pair_of(model, folder, seed)
    pair = replace(whole, test=np.random.default_rng(seed).permutation(np.asarray(whole.test))[:50], device="cpu")
    K, rows = pair.kernels
    own = [
        model.network(width, 1000 + k, device="cpu").tangent_kernel(pair.graph, pair.labeled, pair.test)
        for k in range(MARGIN_NETWORKS)
    ]
    far, far_rows = (np.max([np.abs(one[side] - exact) for one in own], axis=0) for side, exact in ((0, K), (1, rows)))
    asked = {
        "limit": {},
        "margin": {"margin": measured(pair, width, networks=MARGIN_NETWORKS, flips=1, seed=seed)},
        "test rows": {"test_kernel_error": far_rows},
        "all entries": {"kernel_error": far, "test_kernel_error": far_rows},
    }
    labels = np.concatenate([pair.labels[None], pair.single_flips(np.random.default_rng(seed))])
    changed = [(pair.leads(pair.network(labels, width, k)) <= 0.0).any(axis=0) for k in range(networks)]
    found = {}
    for name, how in asked.items():
        kept = labelcert.certify(K, pair.labels, rows, pair.C, max_flips=1, collective=False, **how).radius_lower > 1
        found[name] = int(kept.sum()) * networks, sum(int((kept & broken).sum()) for broken in changed)
    return found


@command
@click.option("--seed", "seeds", multiple=True, type=int, default=(0, 1), show_default=True, help="Of the splits.")
def kernels(
    data_dir: Path | None, widths: tuple[int, ...], models: tuple[str, ...], networks: int, seeds: tuple[int, ...]
) -> None:
    """Certified predictions that networks break: with margins, and with errors of the kernel's entries."""
    click.echo(facts())
    rows = []
    for name in models:
        for width in widths:
            found = [pieces(paper_model(name), data_dir, width, seed, networks) for seed in seeds]
            cells = []
            for which in found[0]:
                certified, broken = (sum(one[which][k] for one in found) for k in (0, 1))
                cells.append(f"{2 * certified / networks / len(seeds):.1f} ({broken} of {certified})")
            rows.append((name, f"{width:,}", *cells))
            click.echo(" ".join(rows[-1]))
    columns = ("model", "width", *("limit", "with margin", "errors of test rows", "errors of all entries"))
    print_table(listing(f"Certified at one flip in % (broken), {networks} networks each, 50 nodes", columns, rows))


if __name__ == "__main__":
    main()
