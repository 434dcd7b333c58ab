"""Certified ensembles of any learner: ``python -m benchmarks.ensembles rules``, ``graphs`` and ``scale`` print each."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import click
import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits, load_wine
from sklearn.decomposition import TruncatedSVD
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import labelcert
from benchmarks.child import Row
from benchmarks.linear import blobs
from labelcert.cli.printing import print_table
from labelcert.files import write_archive
from labelcert.reading import Archive
from labelcert.report.tables import listing

DATA: dict[str, tuple[Any, int, tuple[int, ...]]] = {
    "digits": (load_digits, 1400, (25, 50, 100)),
    "breast cancer": (load_breast_cancer, 400, (15, 25, 50)),
    "wine": (load_wine, 120, (8, 15, 25)),
}
"""Each set of data, with how many rows are trained on, and numbers of parts."""

LEARNERS: dict[str, Any] = {
    "forest": RandomForestClassifier(n_estimators=50, random_state=0),
    "logistic regression": make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000)),
}

RULES: dict[str, dict[str, Any]] = {
    "votes": {},
    "run-off": {"combine": "run-off"},
    "votes, spread 2": {"spread": 2},
    "run-off, spread 2": {"combine": "run-off", "spread": 2},
}

BUDGETS = (0, 1, 3, 5, 10, 15, 20)


@click.group(help=__doc__)
def main() -> None:
    """All tables."""


@main.command()
@click.option("--data", "chosen", multiple=True, type=click.Choice(list(DATA)), help="[default: all]")
@click.option("--seeds", default=1, show_default=True, help="How often rows are dealt out anew.")
def rules(chosen: tuple[str, ...], seeds: int) -> None:
    """Certified accuracy of rules side by side, by number of parts; and plurality with the published formula."""
    rows: list[Row] = []
    for name in chosen or DATA:
        load, m, counts = DATA[name]
        X, y = load(return_X_y=True)
        order = np.random.default_rng(0).permutation(len(y))
        X, T, labels, truth = X[order[:m]], X[order[m:]], y[order[:m]], y[order[m:]]
        for learner, estimator in LEARNERS.items():
            whole = float(np.mean(estimator.fit(X, labels).predict(T) == truth))
            rows.append({"data": name, "model": learner, "parts": "one", "rule": "none", "0": f"{100 * whole:.1f}"})
            for parts in counts:
                rows += _compared({"data": name, "model": learner, "parts": parts}, (X, labels, T, truth), seeds)
    _print("Certified accuracy in %, by number of wrong labels", rows)


def _print(title: str, rows: list[Row]) -> None:
    """A table with all columns of all rows."""
    columns = list(dict.fromkeys(name for row in rows for name in row))
    print_table(listing(title, columns, [[str(row.get(name, "")) for name in columns] for row in rows]))


def _compared(about: Row, data: tuple[Any, Any, Any, Any], seeds: int) -> list[Row]:
    """All rules on the same number of parts, means over seeds."""
    X, labels, T, truth = data
    found: dict[str, list[list[float]]] = {"votes, as published": []}
    for seed in range(seeds):
        for rule, how in RULES.items():
            model = labelcert.CertifiedEnsemble(LEARNERS[about["model"]], about["parts"], seed=seed, **how)
            most = min(BUDGETS[-1], about["parts"])
            cert = model.fit(X, labels).certify(T, max_flips=most, attempts=0, collective=False, twice=1)
            found.setdefault(rule, []).append([_accuracy(cert, truth, b) for b in BUDGETS])
            if not how:
                published = _published(cert)
                right = cert.predictions == truth
                found["votes, as published"].append([float(np.mean(right & (published >= b))) for b in BUDGETS])
    return [
        {
            **about,
            "rule": rule,
            **{str(b): f"{100 * a:.1f}" for b, a in zip(BUDGETS, np.mean(each, axis=0), strict=True)},
        }
        for rule, each in found.items()
    ]


def _accuracy(cert: labelcert.Certificate, truth: Any, b: int) -> float:
    """Beyond the largest budget, nothing is certified."""
    return cert.certified_accuracy(truth, flips=b) if b <= cert.max_flips else 0.0


def _published(cert: labelcert.Certificate) -> Any:
    """(n,) how many wrong labels SS-DPA certifies: half the lead over each rival, rounded down (ties by index)."""
    assert cert.part_votes is not None
    votes, K = cert.part_votes[:, :, 0], cert.n_classes
    counts = np.stack([(votes == c).sum(axis=1) for c in range(K)], axis=1)
    own = np.searchsorted(cert.classes, cert.predictions)
    gaps = counts[np.arange(own.size), own][:, None] - counts - (np.arange(K) < own[:, None])
    gaps[np.arange(own.size), own] = 2 * votes.shape[1]
    return gaps.min(axis=1) // 2


GRAPHS = {"cora-ml": "cora_ml", "coauthor-cs": "coauthor_cs", "amazon-photo": "amazon_photo"}
"""Each graph, with the name of its file."""

MANY_NODES = 10_000
"""With more, kernels of many steps take minutes, since ten steps reach every node."""

EPOCHS, HIDDEN, FEATURES = 50, 32, 128
"""How each GCN of PyTorch Geometric is trained: with Adam, rate 0.01, weight decay 0.0005, dropout 0.5.

Features are reduced by a singular value decomposition of all nodes, which looks at no label.
"""


@main.command()
@click.option("--data-dir", required=True, type=click.Path(path_type=Path), help="Folder with the graphs as npz files.")
@click.option("--data", "chosen", multiple=True, type=click.Choice(list(GRAPHS)), help="[default: all]")
@click.option("--per-class", default=100, show_default=True, help="Labels of each class; at most half of the class.")
@click.option("--parts", "counts", multiple=True, type=int, default=(20, 50), show_default=True)
@click.option("--test", default=500, show_default=True, help="Test nodes, drawn at random.")
@click.option("--store", type=click.Path(path_type=Path), help="Keeps what each network says, to go on after a stop.")
def graphs(
    data_dir: Path, chosen: tuple[str, ...], per_class: int, counts: tuple[int, ...], test: int, store: Path | None
) -> None:
    """A GCN of PyTorch Geometric in parts, beside exact certificates of kernel models on all labels."""
    rows: list[Row] = []
    started = time.perf_counter()
    for name in chosen or GRAPHS:
        path = data_dir / f"{GRAPHS[name]}.npz"
        graph = labelcert.load_dataset(name, data_dir=data_dir) if name == "cora-ml" else _undirected(path)
        rng = np.random.default_rng(0)
        shuffled = [rng.permutation(np.flatnonzero(graph.labels == c)) for c in range(graph.n_classes)]
        labeled = np.sort(np.concatenate([own[: min(per_class, own.size // 2)] for own in shuffled]))
        tested = rng.permutation(np.setdiff1d(np.arange(graph.n_nodes), labeled))[:test]
        labels, truth = graph.named_labels(labeled), graph.named_labels(tested)
        about: Row = {"data": name, "labels": labeled.size}
        folder = None if store is None else store / f"{name}-{per_class}-{test}"
        train = _kept(_gcn(graph, labeled, tested), folder)
        whole = np.argmax(train(np.arange(labeled.size), labels), axis=1)
        right = float(np.mean(np.unique(labels)[whole] == truth))
        rows.append({**about, "model": "GCN (PyG)", "parts": "one", "rule": "none", "0": f"{100 * right:.1f}"})
        for parts in counts:
            how: dict[str, Any] = {"n_test": tested.size, "parts": parts, "attempts": 0, "collective": False}
            how["max_flips"] = min(BUDGETS[-1], parts)
            for rule in ("votes", "run-off"):
                cert = labelcert.certify_votes(train, labels, combine=rule, twice=0, **how)
                if cert.part_votes is None:
                    raise SystemExit("stopped before all networks were trained; with the same --store, it goes on")
                own = {**about, "model": "GCN (PyG)", "parts": parts}
                if rule == "votes":
                    right = cert.predictions == truth
                    published = {str(b): np.mean(right & (_published(cert) >= b)) for b in BUDGETS}
                    rows.append({**own, "rule": "votes, as published", **_per_cent(published)})
                rows.append({**own, "rule": rule, **_per_cent({str(b): _accuracy(cert, truth, b) for b in BUDGETS})})
        rows += [{**about, "parts": "one", **row} for row in _exact(graph, labeled, tested, truth)]
        _print(f"Certified accuracy in %, by number of wrong labels ({time.perf_counter() - started:.0f} s)", rows)


def _kept(train: Any, folder: Path | None) -> Any:
    """The same function, whose scores are kept for another rule and, in a folder, for another run.

    What it trains first is trained twice: votes prove nothing unless training is deterministic.
    """
    said: dict[str, Any] = {}

    def trained(indices: Any, labels: Any) -> Any:
        name = hashlib.sha256(indices.tobytes()).hexdigest()[:32]
        path = None if folder is None else folder / f"{name}.npz"
        if name not in said and path is not None and path.exists():
            with Archive(path) as archive:
                said[name] = archive.array("scores")
        if name not in said:
            found = train(indices, labels)
            if not said and not np.array_equal(found, train(indices, labels)):
                raise SystemExit("training is not deterministic")
            said[name] = found
            if path is not None:
                path.parent.mkdir(parents=True, exist_ok=True)
                write_archive(path, {"scores": found})
        return said[name]

    return trained


def _per_cent(shares: dict[str, Any]) -> Row:
    """Shares as they are shown."""
    return {name: f"{100 * share:.1f}" for name, share in shares.items()}


def _undirected(path: Path) -> labelcert.Graph:
    """A graph whose edges go both ways."""
    graph = labelcert.Graph.from_npz(path)
    both = ((graph.adjacency + graph.adjacency.T) > 0).astype(np.float64)
    return labelcert.Graph(both, graph.features, graph.labels, name=path.stem)


def _gcn(graph: labelcert.Graph, labeled: Any, tested: Any) -> Any:
    """How practitioners train: (n, K) scores of the test nodes."""
    import torch
    from torch.nn import functional
    from torch_geometric.nn import GCNConv
    from torch_geometric.utils import from_scipy_sparse_matrix

    torch.set_num_threads(1)
    reduced = TruncatedSVD(FEATURES, random_state=0).fit_transform(graph.features)
    x = torch.tensor(reduced / reduced.std(), dtype=torch.float32)
    edges, _ = from_scipy_sparse_matrix(graph.adjacency.tocsr().copy())
    classes = np.unique(graph.named_labels(labeled))

    def fitted(indices: Any, labels: Any) -> Any:
        first = GCNConv(x.shape[1], HIDDEN, cached=True)
        second = GCNConv(HIDDEN, classes.size, cached=True)
        nodes, y = torch.tensor(labeled[indices]), torch.tensor(np.searchsorted(classes, labels))
        adam = torch.optim.Adam([*first.parameters(), *second.parameters()], lr=0.01, weight_decay=5e-4)

        def scores(dropout: bool) -> Any:
            return second(functional.dropout(functional.relu(first(x, edges)), training=dropout), edges)

        for _ in range(EPOCHS):
            adam.zero_grad()
            functional.cross_entropy(scores(True)[nodes], y).backward()
            adam.step()
        return scores(False).detach()[torch.tensor(tested)].numpy()

    return labelcert.seeded(fitted)


def _exact(graph: labelcert.Graph, labeled: Any, tested: Any, truth: Any) -> list[Row]:
    """Kernel models on all labels: lower ends of what they certify."""
    models, steps = labelcert.models, 10 if graph.n_nodes <= MANY_NODES else 2
    asked: list[tuple[str, Any, str, float | None]] = [
        ("GCN kernel, hinge (20 s)", models.GCN(C=0.1), "hinge", 20.0),
        ("GCN kernel, ridge", models.GCN(C=0.1), "square", None),
        ("GCN kernel, ridge, C = 0.001", models.GCN(C=0.001), "square", None),
        (f"SGC kernel of {steps} steps, ridge, C = 0.001", models.SGC(depth=steps, C=0.001), "square", None),
    ]
    rows: list[Row] = []
    for name, model, loss, limit in asked:
        how: dict[str, Any] = {"loss": loss, "time_limit": limit, "collective": False, "max_flips": BUDGETS[-1]}
        cert = model.certify(graph, labeled, tested, **how)
        rows.append({"model": name, "rule": "none", **_per_cent({str(b): _accuracy(cert, truth, b) for b in BUDGETS})})
    return rows


@main.command()
@click.option("--labels", default=50_000, show_default=True)
@click.option("--parts", default=500, show_default=True)
@click.option("--test", default=2_000, show_default=True)
@click.option("--scheduler", default="processes", show_default=True)
@click.option("--kill-at", default=0.4, show_default=True, help="Share of the models after which the run is killed.")
def scale(labels: int, parts: int, test: int, scheduler: str, kill_at: float) -> None:
    """A forest on many rows in many parts: killed once, resumed, and compared with a run that was left alone."""
    with tempfile.TemporaryDirectory() as folder:
        asked = [labels, parts, test, scheduler]
        first = _child([*asked, f"{folder}/kept"])
        while first.poll() is None and _models_in(f"{folder}/kept") < kill_at * parts:
            time.sleep(0.1)
        os.kill(first.pid, signal.SIGKILL)
        first.wait()
        rows: list[Row] = [{"run": "killed", "models": _models_in(f"{folder}/kept")}]
        for run, store in (("resumed", "kept"), ("left alone", "other")):
            done = _child([*asked, f"{folder}/{store}"])
            out, _ = done.communicate()
            rows.append({"run": run, **json.loads(out.splitlines()[-1])})
        _print(f"{parts} parts of a forest on {labels:,} rows, with 50 trees each", rows)
        print("the same certificate:", rows[1]["sha256"] == rows[2]["sha256"])


def _models_in(folder: str) -> int:
    """Models in a folder."""
    return len(list(Path(folder).glob("model-*.npz")))


def _child(arguments: list[Any]) -> subprocess.Popen[str]:
    """One run in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.ensembles", "one", *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


@main.command(hidden=True)
@click.argument("labels", type=int)
@click.argument("parts", type=int)
@click.argument("test", type=int)
@click.argument("scheduler")
@click.argument("store")
def one(labels: int, parts: int, test: int, scheduler: str, store: str) -> None:
    """Train and certify, and print what came out."""
    X, y, T, truth = blobs(labels, test, 5, 20, 6.0)

    def train(indices: Any, given: Any) -> Any:
        forest = RandomForestClassifier(n_estimators=50, random_state=0).fit(X[indices], given)
        scores = np.zeros((len(T), 5))
        scores[:, forest.classes_] = forest.predict_proba(T)
        return scores

    place = {} if scheduler == "none" else {"scheduler": scheduler}
    how: dict[str, Any] = {"n_test": test, "parts": parts, "store": store, "rows": X, "max_flips": 50, "attempts": 0}
    cert = labelcert.certify_votes(train, y, **how, **place)
    plain = {**cert.settings, "seconds": 0}
    stage = plain["stages"][0]["statistics"]
    same = [
        cert.predictions.tolist(),
        cert.radius_lower.tolist(),
        cert.collective_upper.tolist(),
        plain["problem_sha256"],
    ]
    found = {
        "models": stage["models"],
        "stored": stage["stored"],
        "seconds": round(cert.run.seconds, 1),
        **{f"{b} wrong": f"{100 * cert.certified_accuracy(truth, flips=b):.1f}" for b in (0, 10, 50)},
        "sha256": _digest(same),
    }
    print(json.dumps(found))


def _digest(values: list[Any]) -> str:
    """A hash of plain values."""
    return hashlib.sha256(json.dumps(values).encode()).hexdigest()[:12]


if __name__ == "__main__":
    main()
