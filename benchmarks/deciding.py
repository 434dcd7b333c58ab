"""What verifying labels, and choosing models by what they certify, is worth on real graphs.

python -m benchmarks.deciding recheck --data-dir FOLDER
python -m benchmarks.deciding harden --data-dir FOLDER [--dataset cora-ml-b --flips 3 --per-class 5]
python -m benchmarks.deciding arrives [--time-limit 180]
python -m benchmarks.deciding picture --data-dir FOLDER
"""

from __future__ import annotations

import argparse
import math
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse

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
        found = labelcert.harden(graph, labeled, test, flips=flips, seed=seed, time_limit=None)
        seconds = time.perf_counter() - started
        default = found.default.trained.certify(
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


def annotated_graph() -> tuple[labelcert.Graph, Any, Any, Threat]:
    """3,000 nodes of three classes, 150 labels that 15 annotators gave, and all other nodes to test."""
    rng, n, m = np.random.default_rng(0), 3000, 150
    y = rng.integers(0, 3, n)
    features = np.eye(3)[y] @ rng.normal(size=(3, 30)) / 2 + rng.normal(size=(n, 30))
    a, b = rng.integers(0, n, (2, 10 * n))
    kept = (a != b) & (rng.random(a.size) < np.where(y[a] == y[b], 0.5, 0.05))
    adjacency = scipy.sparse.csr_array((np.ones(kept.sum()), (a[kept], b[kept])), shape=(n, n))
    graph = labelcert.Graph(((adjacency + adjacency.T) > 0).astype(float), features, y, name="annotated")
    labeled = np.sort(rng.permutation(n)[:m])
    annotators = [f"annotator {i}" for i in rng.integers(0, 15, m)]
    return graph, labeled, np.setdiff1d(np.arange(n), labeled), Threat(annotators=annotators)


def one_search(out: Path, limit: float) -> None:
    """A search that others may kill; its last line says what came out."""
    graph, labeled, test, threat = annotated_graph()
    found = labelcert.harden(graph, labeled, test, flips=1, threat=threat, out=out, time_limit=limit, progress=True)
    share = found.certified[found.chosen][0]
    print(
        f"{found.chosen.full_label}: {share:.3f} certified, {found.chosen.accuracy:.3f} accurate; {found.stopped.value}"
    )


def arrives(limit: float) -> None:
    """When there is something to see, and whether a search that was killed three times ends as one that was not."""
    command = [sys.executable, "-u", "-m", "benchmarks.deciding", "search", "--time-limit", str(limit), "--out"]
    with tempfile.TemporaryDirectory() as folder:
        ends = []
        for name, moments in (("left alone", []), ("killed", [0.1, 0.2, 0.3])):
            for moment in [*moments, None]:
                started, first = time.perf_counter(), None
                own = [*command, f"{folder}/{name}"]
                with subprocess.Popen(own, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as child:
                    if moment is not None:
                        time.sleep(moment * limit)
                        child.kill()
                        print(f"{name} after {moment * limit:.0f} s")
                        continue
                    assert child.stderr is not None
                    assert child.stdout is not None
                    for line in child.stderr:
                        if first is None and "best so far" in line:
                            first = time.perf_counter() - started
                    ends.append(child.stdout.read().strip().splitlines()[-1])
                seconds = time.perf_counter() - started
                print(f"{name}: first table after {first or math.nan:.0f} s, end after {seconds:.0f} s")
                print(f"  {ends[-1]}")
        print("the same end:", ends[0].split(";")[0] == ends[1].split(";")[0])


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
    labelcert.harden(graph, labeled, test, flips=flips, time_limit=None).plot(right)
    figure.savefig("deciding.png", dpi=110)
    print("wrote deciding.png")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["recheck", "harden", "arrives", "search", "picture"])
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--dataset", default="cora-ml-b")
    parser.add_argument("--flips", type=int, default=3)
    parser.add_argument("--per-class", type=int)
    parser.add_argument("--time-limit", type=float, default=180.0)
    parser.add_argument("--out", type=Path, help="of one search")
    given = parser.parse_args()
    if given.what == "search":
        one_search(given.out, given.time_limit)
        return
    print(facts())
    if given.what == "recheck":
        recheck_table(given.data_dir, given.dataset)
    elif given.what == "arrives":
        arrives(given.time_limit)
    elif given.what == "picture":
        picture(given.data_dir, given.dataset, given.flips)
    else:
        harden_table(given.data_dir, given.dataset, given.flips, given.per_class)


if __name__ == "__main__":
    main()
