"""Certified ratios under poisoned features and wrong labels: QPCert's settings, and both kinds of poison together.

``python -m benchmarks.features`` prints a table for CSBM and one for Cora-MLb (where its data are there). The share of
predictions that provably survive, for each δ and number of wrong labels; behind them, at 0 wrong labels, what QPCert's
program proves on the same kernel bounds, how many nodes an attack on features changes, and seconds.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import click
import numpy as np

from labelcert import APPNP, GCN, SGC, attack_features, certify_features
from labelcert.errors import DataUnavailable
from labelcert.graphs import load_dataset, published_split
from labelcert.graphs.random_models import csbm
from labelcert.models.poisoned import FeatureBall
from labelcert.paper.milp.qpcert import least_score
from labelcert.poisoning import FeaturePoison

FLIPS = 3
CSBM_DELTAS = (0.01, 0.05, 0.1, 0.2, 0.5, 1.0)
"""Of twice the first entry of the class mean."""
CORA_DELTAS = (0.0005, 0.001, 0.002, 0.005, 0.01)


def program(model: Any, graph: Any, labeled: Any, test: Any, poison: FeaturePoison) -> tuple[float, float]:
    """The share of predictions that QPCert's program certifies without wrong labels, and seconds."""
    K, rows = model.kernel_blocks(graph, labeled, test)
    errors = poison.kernel_errors(model, graph, labeled, test)
    cert = model.certify(graph, labeled, test, max_flips=0)
    classes = np.unique(graph.labels[labeled])
    y = np.where(graph.labels[labeled] == classes[1], 1.0, -1.0)
    (below, above), (test_below, test_above) = errors["kernel_error"], errors["test_kernel_error"]
    began, sure = time.perf_counter(), 0
    for t, value in enumerate(cert.decision_values):
        row = (rows[t] - test_below[t], rows[t] + test_above[t])
        sure += least_score((K - below, K + above), row, y, model.C, sign=float(np.sign(value)), seconds=10) > 1e-6
    return sure / len(rows), time.perf_counter() - began


def line(
    model: Any, graph: Any, labeled: Any, test: Any, poisoned: Any, delta: float, *, compare: int, **how: Any
) -> str:
    """One row of a table."""
    ball = FeatureBall(delta)
    began = time.perf_counter()
    cert = certify_features(model, graph, labeled, test, poisoned=poisoned, radius=delta, flips=FLIPS, **how)
    took = time.perf_counter() - began
    ratios = [float(np.mean(cert.radius_lower > b)) for b in range(FLIPS + 1)]
    words = [*(f"{100 * ratio:6.1f}" for ratio in ratios), f"{took:7.2f} s"]
    if compare:
        few = np.asarray(test)[:compare]
        theirs, seconds = program(model, graph, labeled, few, FeaturePoison(poisoned, ball))
        ours = float(np.mean(cert.radius_lower[:compare] > 0))
        found = attack_features(model, graph, labeled, few, poisoned=poisoned, radius=delta, steps=1)
        words.append(f"| first {compare}: ours {100 * ours:.1f}, QPCert {100 * theirs:.1f} in {seconds:.1f} s, ")
        words.append(f"attacked {int(found.changed.sum())}")
    return " ".join(words)


@click.command()
@click.option("--compare", type=int, help="Test nodes for QPCert's program and the attack. [default: CSBM 10, Cora 0]")
@click.option("--only", type=click.Choice(["csbm", "cora"]), help="One of the two tables.")
@click.option(
    "--backdoor", type=click.Choice(["no", "each", "all"]), default="no", help="Test nodes, alone or at once."
)
@click.option("--engine", default="auto", help="As in certify_features.")
def main(compare: int | None, only: str | None, backdoor: str, engine: str) -> None:
    """Print both tables."""
    how = {"backdoor": backdoor == "each", "engine": engine}
    plain = backdoor == "no" and engine == "auto"
    heading = "δ".rjust(8) + "".join(f"{b} flips".rjust(7) for b in range(FLIPS + 1))
    if only != "cora":
        graph, rng = csbm(seed=0), np.random.default_rng(0)
        labeled = np.concatenate([rng.permutation(np.flatnonzero(graph.labels == c))[:20] for c in (0, 1)])
        test = np.setdiff1d(np.arange(graph.n_nodes), labeled)[:120]
        poisoned = rng.permutation(labeled)[:4]
        poisoned = np.union1d(poisoned, test) if backdoor == "all" else poisoned
        scale = 1.5 / np.sqrt(graph.features.shape[1])
        models = [GCN(C=0.01), GCN(C=0.01, normalization="symmetric"), SGC(C=0.01), APPNP(C=0.01)]
        for model in [*models, *(replace(models[0], C=C) for C in (0.05, 0.25))]:
            print(f"CSBM, seed 0, 40 labels, 120 test nodes, 4 poisoned, {model}\n{heading}")
            for share in CSBM_DELTAS:
                many = 10 * plain if compare is None else compare
                row = line(model, graph, labeled, test, poisoned, share * scale, compare=many, **how)
                print(f"{share:8g}" + row, flush=True)
    if only == "csbm":
        return
    try:
        graph = load_dataset("cora-ml-b")
    except DataUnavailable as error:
        print(error)
        return
    labeled = published_split(graph, seed=0).labeled
    rest = np.setdiff1d(np.arange(graph.n_nodes), labeled)
    test, poisoned = np.random.default_rng(0).permutation(rest)[:50], labeled[:10]
    poisoned = np.union1d(poisoned, test) if backdoor == "all" else poisoned
    print(f"Cora-MLb, seed 0, 20 labels, 50 test nodes, 10 poisoned, {GCN(C=0.75)}\n{heading}")
    for delta in CORA_DELTAS:
        row = line(GCN(C=0.75), graph, labeled, test, poisoned, delta, compare=compare or 0, **how)
        print(f"{delta:8g}" + row, flush=True)


if __name__ == "__main__":
    main()
