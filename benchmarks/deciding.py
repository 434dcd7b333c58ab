"""What verifying labels, and choosing models by what they certify, is worth on real graphs.

python -m benchmarks.deciding recheck --data-dir FOLDER
python -m benchmarks.deciding harden --data-dir FOLDER [--dataset cora-ml-b --flips 3 --per-class 5]
python -m benchmarks.deciding picture --data-dir FOLDER
"""

from __future__ import annotations

import argparse
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

import labelcert
from benchmarks.machine import facts
from labelcert import Threat
from labelcert.report.pictures import new_figure

SEEDS = range(5)
RANDOM_SETS = 30


def split_of(name: str, seed: int, folder: Path | None, per_class: int | None = None) -> tuple[Any, Any, Any]:
    graph = labelcert.load_dataset(name, data_dir=folder, seed=seed)
    split = labelcert.published_split(graph, seed=seed, per_class=per_class)
    return graph, split.labeled, split.pool


def recheck_table(folder: Path | None, dataset: str) -> None:
    """Now, five labels at random, those in most witnesses, and ours."""
    model = labelcert.GCN(depth=1, normalization="row", C=0.075)
    rows: dict[tuple[int, int], list[list[float]]] = {}
    slowest = 0.0
    for seed in SEEDS:
        graph, labeled, test = split_of(dataset, seed, folder)
        K, rows_of_test = model.kernel_blocks(graph, labeled, test)
        labels = graph.named_labels(labeled)
        m = len(labeled)

        def ratio(trusted: Any, flips: int, K: Any = K, labels: Any = labels, tested: Any = rows_of_test) -> float:
            mask = np.isin(np.arange(len(labels)), trusted)
            cert = labelcert.certify(
                K, labels, tested, model.C, threat=Threat(trusted=mask), max_flips=flips, collective=False
            )
            return cert.certified_ratio(flips=flips)

        rng = np.random.default_rng(seed)
        for flips in (1, 2, 3):
            cert = labelcert.certify(K, labels, rows_of_test, model.C, max_flips=flips)
            seen = Counter(i for t in range(cert.n_test) for i in cert.witness(t) or {})
            for verify in (1, 3, 5):
                random = np.mean([ratio(rng.permutation(m)[:verify], flips) for _ in range(RANDOM_SETS)])
                counted = ratio([i for i, _ in seen.most_common(verify)], flips)
                started = time.perf_counter()
                advice = labelcert.recheck(K, labels, rows_of_test, model.C, flips=flips, verify=verify)
                slowest = max(slowest, time.perf_counter() - started)
                assert advice.optimal
                rows.setdefault((flips, verify), []).append([advice.before, random, counted, advice.after[-1]])
    print("| flips | verified | now | at random | most witnesses | ours (optimal) |\n|---|---|---|---|---|---|")
    for (flips, verify), values in rows.items():
        now, random, counted, ours = 100 * np.mean(values, axis=0)
        print(f"| {flips} | {verify} | {now:.1f} | {random:.1f} | {counted:.1f} | **{ours:.1f}** |")
    print(f"\nslowest advice: {slowest:.1f} s")


def harden_table(folder: Path | None, dataset: str, flips: int, per_class: int | None) -> None:
    """The default GCN, and the chosen model, with the labels of test nodes that the search never saw."""
    print("| seed | default: clean | certified | chosen model | clean | certified | seconds |")
    print("|---|---|---|---|---|---|---|")
    means = []
    for seed in SEEDS:
        graph, labeled, test = split_of(dataset, seed, folder, per_class)
        truth = graph.labels[test]
        started = time.perf_counter()
        found = labelcert.harden(graph, labeled, test, flips=flips, seed=seed)
        seconds = time.perf_counter() - started
        default = found.default.trained(seed).certify(
            graph, labeled, test, max_flips=flips, loss=found.default.loss, collective=False, time_limit=60
        )
        values = [
            100 * value
            for cert in (default, found.certificate)
            for value in (cert.correct(truth).mean(), cert.certified_accuracy(truth, flips=flips))
        ]
        means.append(values)
        print(
            f"| {seed} | {values[0]:.1f} | {values[1]:.1f} | {found.chosen.label} | {values[2]:.1f} | {values[3]:.1f} "
            f"| {seconds:.0f} |",
            flush=True,
        )
    mean = np.mean(means, axis=0)
    print(f"| mean | {mean[0]:.1f} | {mean[1]:.1f} | | {mean[2]:.1f} | {mean[3]:.1f} | |")


def picture(folder: Path | None, dataset: str, flips: int) -> None:
    """The README's picture, for seed 0: what verifying secures, and models by accuracy and certificates."""
    graph, labeled, test = split_of(dataset, 0, folder)
    model = labelcert.GCN(depth=1, normalization="row", C=0.075)
    K, tested = model.kernel_blocks(graph, labeled, test)
    labels, m, verify = graph.named_labels(labeled), len(labeled), 5

    def ratio(trusted: Any) -> float:
        threat = Threat(trusted=np.isin(np.arange(m), trusted))
        cert = labelcert.certify(K, labels, tested, model.C, threat=threat, max_flips=2, collective=False)
        return 100 * cert.certified_ratio(flips=2)

    figure = new_figure(11.0, 4.2)
    left, right = figure.subplots(1, 2)
    model.recheck(graph, labeled, test, flips=2, verify=verify).plot(left, color="tab:green", label="the best five")
    rng = np.random.default_rng(0)
    orders = [rng.permutation(m)[:verify] for _ in range(20)]
    random = np.mean([[ratio(order[:k]) for k in range(verify + 1)] for order in orders], axis=0)
    left.plot(range(verify + 1), random, marker="o", color="tab:gray", label="five at random (mean of 20)")
    left.set_xlabel("labels verified, one after the other (best first)")
    left.set_ylim(0, 100)
    left.legend(frameon=False)
    labelcert.harden(graph, labeled, test, flips=flips).plot(right)
    figure.savefig("deciding.png", dpi=110)
    print("wrote deciding.png")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["recheck", "harden", "picture"])
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--dataset", default="cora-ml-b")
    parser.add_argument("--flips", type=int, default=3)
    parser.add_argument("--per-class", type=int)
    given = parser.parse_args()
    print(facts())
    if given.what == "recheck":
        recheck_table(given.data_dir, given.dataset)
    elif given.what == "picture":
        picture(given.data_dir, given.dataset, given.flips)
    else:
        harden_table(given.data_dir, given.dataset, given.flips, given.per_class)


if __name__ == "__main__":
    main()
