"""Linear models on embeddings, thousands of labels and large graphs: a certificate beside the fit of the same model.

``python -m benchmarks.probes`` prints a table for each part, some 30 minutes on two idle cores; ``--only PART`` (may be
repeated) a part alone. ``--other PYTHON`` asks the interpreter of another installation of labelcert the same, each for
at most ``--patience`` seconds. Every row is measured in a process of its own; one that fails says so, and stops none.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.child import Row, peak_memory

NODES = 1000
GIB = 2.0**30


def blobs(m: int, classes: int, features: int, n: int = NODES) -> tuple[Any, Any, Any]:
    """Rows around some centres, two of them four apart: labelled rows, their classes, test rows."""
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(classes, features))
    centres *= 4.0 / np.linalg.norm(centres[0] - centres[1])
    codes, truth = rng.integers(0, classes, m), rng.integers(0, classes, n)
    return centres[codes] + rng.normal(size=(m, features)), codes, centres[truth] + rng.normal(size=(n, features))


def embeddings(m: int, classes: int, features: int) -> tuple[Any, Any, Any]:
    """The same with norm 1, as text embeddings are."""
    X, y, T = blobs(m, classes, features)
    return X / np.linalg.norm(X, axis=1)[:, None], y, T / np.linalg.norm(T, axis=1)[:, None]


def digits() -> tuple[Any, Any, Any]:
    """Scikit-learn's digits, 1,200 of them labelled."""
    from sklearn.datasets import load_digits

    X, y = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(y.size)
    X, y = X[order] / 16.0, y[order]
    return X[:1200], y[:1200], X[1200:]


def estimator(name: str) -> Any:
    """As scikit-learn has it, but trained until nothing changes, so that refits can be compared."""
    from sklearn.linear_model import LogisticRegression, RidgeClassifier
    from sklearn.svm import LinearSVC

    if name == "LogisticRegression":
        return LogisticRegression(tol=1e-9, max_iter=10_000)
    if name == "RidgeClassifier":
        return RidgeClassifier()
    loss = {"LinearSVC": "squared_hinge", "LinearSVC (hinge)": "hinge"}[name]
    return LinearSVC(loss=loss, tol=1e-9, max_iter=100_000, random_state=0)


def replayed(model: Any, X: Any, y: Any, T: Any, cert: Any, most: int) -> tuple[int, int]:
    """How many of some witnesses change their prediction when the estimator is fitted again, and of how many."""
    attacks: dict[tuple[tuple[int, Any], ...], list[int]] = {}
    for t in range(T.shape[0]):
        change = cert.witness(t)
        if change:
            attacks.setdefault(tuple(sorted(change.items())), []).append(t)
    found = tried = 0
    for changes, nodes in list(attacks.items())[:most]:
        z = y.copy()
        for position, label in changes:
            z[position] = label
        found += int((model.fit(X, z).predict(T[nodes]) != cert.predictions[nodes]).sum())
        tried += len(nodes)
    return found, tried


def probe(
    name: str, m: int, features: int, classes: int, flips: int | None, time_limit: float | None, refits: int
) -> Row:
    """One certificate; ``features = 0`` stands for the digits."""
    from labelcert import from_sklearn

    X, y, T = embeddings(m, classes, features) if features else digits()
    model = estimator(name)
    from_sklearn(estimator(name)).certify(X[:700, :5], y[:700] % 2, T[:3, :5], max_flips=2, time_limit=20.0)  # compiles
    started = time.perf_counter()
    model.fit(X, y)
    fit = time.perf_counter() - started
    asked = {"max_flips": flips} if flips is not None else {}
    started, spent = time.perf_counter(), time.process_time()
    cert = from_sklearn(model).certify(X, y, T, time_limit=time_limit, **asked)
    seconds, cpu, peak = time.perf_counter() - started, time.process_time() - spent, peak_memory()
    found, tried = replayed(model, X, y, T, cert, refits)
    return {
        "certificate": round(seconds, 2),
        "processor": round(cpu, 2),
        "one fit": round(fit, 2),
        "exact": "yes" if cert.exact else "no",
        "median radius": f"{np.median(cert.radius_lower):g} to {np.median(cert.radius_upper):g}",
        "without an attack": int((cert.radius_upper > y.size).sum()),
        "replayed by refits": f"{found} of {tried}",
        "GiB": round(peak / GIB, 2),
    }


def rival(loss: str) -> Any:
    """The estimator of scikit-learn with a loss, on a kernel's features."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.svm import SVC, LinearSVC

    if loss == "hinge":
        return SVC(kernel="precomputed")
    return LinearSVC() if loss == "squared_hinge" else LogisticRegression(fit_intercept=False, max_iter=1000)


def usual(call: Callable[[], Any]) -> float:
    """Seconds, the median of three calls."""
    found = []
    for _ in range(3):
        started = time.perf_counter()
        call()
        found.append(time.perf_counter() - started)
    return sorted(found)[1]


def zero(loss: str, m: int) -> Row:
    """Train, predict and prove at budget 0 on an RBF kernel; one fit of the same model; Cholesky factorisations."""
    import scipy.linalg
    from sklearn.kernel_ridge import KernelRidge
    from sklearn.metrics.pairwise import rbf_kernel

    import labelcert

    X, y, T = blobs(m, 3 if loss == "cross_entropy" else 2, 64, n=200)
    K, rows = rbf_kernel(X, gamma=0.002), rbf_kernel(T, X, gamma=0.002)
    labelcert.certify(K[:400, :400], y[:400], rows[:, :400], 1.0, loss=loss, max_flips=0)  # compiles
    whole = K + np.eye(m)
    features = scipy.linalg.cholesky(K + 1e-9 * np.eye(m), lower=True)  # with the same kernel

    def fit_once() -> None:
        if loss == "square":
            KernelRidge(alpha=0.5, kernel="precomputed").fit(K, 2.0 * y - 1.0)
        else:
            rival(loss).fit(K if loss == "hinge" else features, y)

    seconds = usual(lambda: labelcert.certify(K, y, rows, 1.0, loss=loss, max_flips=0))
    cert, peak = labelcert.certify(K, y, rows, 1.0, loss=loss, max_flips=0), peak_memory()
    factor = usual(lambda: scipy.linalg.cholesky(whole, lower=True, check_finite=False))
    fit = usual(fit_once)
    return {
        "train and prove": round(seconds, 2),
        "proved": f"{(cert.radius_lower >= 1).mean():.1%}",
        "one fit": round(fit, 3),
        "one Cholesky": round(factor, 3),
        "times": f"{seconds / fit:.1f} fits, {seconds / factor:.1f} factorisations",
        "holds": "yes" if seconds <= max(10.0 * fit, 5.0 * factor) else "NO",
        "GiB": round(peak / GIB, 2),
    }


def interrupted(loss: str, m: int, after: float) -> Row:
    """Seconds from Ctrl-C to its answer, where somebody presses it so long after the call."""
    from sklearn.metrics.pairwise import rbf_kernel

    import labelcert

    X, y, T = blobs(m, 2, 64, n=200)
    K, rows = rbf_kernel(X, gamma=0.002), rbf_kernel(T, X, gamma=0.002)
    labelcert.certify(K[:400, :400], y[:400], rows[:, :400], 1.0, loss=loss, time_limit=5.0)  # compiles
    sent: list[float] = []

    def send() -> None:
        sent.append(time.perf_counter())
        os.kill(os.getpid(), signal.SIGINT)

    timer = threading.Timer(after, send)
    timer.start()
    try:
        answer = repr(labelcert.certify(K, y, rows, 1.0, loss=loss))
    except KeyboardInterrupt:
        answer = "KeyboardInterrupt"
    timer.cancel()
    seconds = time.perf_counter() - sent[0] if sent else 0.0
    said, holds = answer[:60] if sent else "ended before", "yes" if seconds <= 1.0 else "NO"
    return {"answered after": round(seconds, 2), "answer": said, "holds": holds}


def coauthors(loss: str, time_limit: float, path: str) -> Row:
    """Authors and their papers: 15 classes, 20 labels of each; whole call after the kernel."""
    import scipy.sparse as sp

    import labelcert
    from benchmarks.problems import clouds

    with np.load(path) as data:
        adjacency, X = (
            sp.csr_array((values, data[f"{a}_indices"], data[f"{a}_indptr"]), shape=tuple(data[f"{a}_shape"]))
            for a, values in (("adj", np.ones(data["adj_indices"].size)), ("x", data["x_data"].astype(np.float64)))
        )
        y = data["labels"]
    rng = np.random.default_rng(0)
    labeled = np.concatenate([rng.permutation(np.flatnonzero(y == c))[:20] for c in range(15)])
    test = np.setdiff1d(np.arange(y.size), labeled)
    labelcert.certify(*clouds(60, 40, 3), loss=loss, max_flips=2, time_limit=10.0)  # compiles
    started = time.perf_counter()
    K, rows = labelcert.GCN().kernel_blocks(labelcert.Graph(adjacency, X, y), labeled, test)
    kernel = time.perf_counter() - started
    started = time.perf_counter()
    cert = labelcert.certify(K, y[labeled], rows, 1.0, loss=loss, time_limit=time_limit)
    seconds, peak = time.perf_counter() - started, peak_memory()
    proved, attacked = cert.radius_lower > 2, cert.radius_upper <= 2
    share = proved.sum() / max(1, (~attacked).sum())
    return {
        "kernel": round(kernel, 1),
        "certificate": round(seconds, 1),
        "accurate": f"{(cert.predictions == y[test]).mean():.1%}",
        "certified at 1": f"{(cert.radius_lower > 1).mean():.1%}",
        "at 2": f"{proved.mean():.1%} to {(~attacked).mean():.1%}",
        "of those without an attack": f"{share:.1%}",
        "advice": "; ".join(getattr(cert.run, "advice", ())),
        "GiB": round(peak / GIB, 2),
    }


def refits(problems: int) -> Row:
    """Small problems against refits on every labelling within the budget."""
    command = [sys.executable, "-m", "tests.estimators.test_small_probes", str(problems)]
    started = time.perf_counter()
    single = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}  # more only wait for each other on small problems
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **single})
    return {
        "verdicts": "; ".join(" ".join(line.split()) for line in done.stdout.splitlines()),
        "seconds": round(time.perf_counter() - started),
        "holds": "yes" if done.returncode == 0 else "NO",
    }


def ridge(m: int, flips: int, features: int) -> Row:
    """RidgeClassifier with its collective curve."""
    from sklearn.linear_model import RidgeClassifier

    from labelcert import from_sklearn

    X, y, T = blobs(m, 2, features)
    model = from_sklearn(RidgeClassifier())
    model.certify(X[:60], y[:60], T[:20], max_flips=5)  # compiles
    started = time.perf_counter()
    RidgeClassifier().fit(X, y).predict(T)
    fit = time.perf_counter() - started
    started = time.perf_counter()
    cert = model.certify(X, y, T, max_flips=flips)
    seconds = time.perf_counter() - started
    low, high = int(cert.collective_lower[-1]), int(cert.collective_upper[-1])
    holds = seconds <= 15.0 and high - low <= 0.1 * NODES
    return {
        "certificate": round(seconds, 2),
        "one fit": round(fit, 3),
        "changed at once": f"{low} to {high} of {NODES}",
        "GiB": round(peak_memory() / GIB, 2),
        "holds": "yes" if holds else "NO",
    }


def nodes(n: int, predictions: int, labels: int, flips: int) -> Row:
    """A random graph of mean degree 6 with sparse features: kernel blocks and certificate of a GCN."""
    import labelcert
    from benchmarks.problems import citation_like

    made = citation_like(n, 3 * n)
    order = np.random.default_rng(0).permutation(n)
    labelcert.certify(*_small(), max_flips=2)  # compiles
    started = time.perf_counter()
    K, rows = labelcert.GCN().kernel_blocks(made, order[:labels], order[labels : labels + predictions])
    kernel = time.perf_counter() - started
    started = time.perf_counter()
    cert = labelcert.certify(K, made.labels[order[:labels]], rows, 1.0, max_flips=flips)
    return {
        "kernel": round(kernel, 1),
        "certificate": round(time.perf_counter() - started, 1),
        "exact": "yes" if cert.exact else "no",
        "GiB": round(peak_memory() / GIB, 2),
    }


def _small() -> tuple[Any, Any, Any, float]:
    K = np.exp(-0.1 * (np.arange(20.0)[:, None] - np.arange(20.0)) ** 2)
    return K, np.arange(20) // 10, K[:5], 1.0


LOSSES = ("hinge", "squared_hinge", "logistic", "cross_entropy", "square")
SIZES = (2000, 10_000, 50_000)

Case = tuple[str, dict[str, Any], str]


def _probe(name: str, m: int, features: int, classes: int, flips: int | None, limit: float | None, must: str) -> Case:
    options = {"name": name, "m": m, "features": features, "classes": classes, "flips": flips, "time_limit": limit}
    return "probe", {**options, "refits": 50 if m <= 2000 else 10 if m <= 10_000 else 3}, must


PARTS: dict[str, list[Case]] = {
    "flips": [
        _probe("LogisticRegression", 2000, 384, 2, 1, None, "exact in 10 s"),
        _probe("LogisticRegression", 10_000, 384, 2, 1, None, "exact in 60 s"),
        _probe("LogisticRegression", 50_000, 384, 2, 1, None, "exact in 300 s and 4 GiB"),
        _probe("LogisticRegression", 1200, 0, 10, 1, None, "exact in 30 s"),
        _probe("LogisticRegression", 2000, 384, 20, 1, 60.0, "60 s and 4 GiB"),
    ],
    "limited": [
        _probe("LogisticRegression", 2000, 384, 2, None, 30.0, "33 s, median at least 2"),
        _probe("LogisticRegression", 2000, 64, 2, None, 30.0, "33 s, median at least 3"),
    ],
    "zero": [("zero", {"loss": loss, "m": m}, "10 fits or 5 Cholesky") for loss in LOSSES for m in (2000, 5000)],
    "interrupts": [
        ("interrupted", {"loss": loss, "m": 5000, "after": after}, "1 s") for loss in LOSSES for after in (0.1, 3.0)
    ],
    "graph": [
        ("coauthors", {"loss": "hinge", "time_limit": 60.0}, "63 s, half of those without an attack"),
        ("coauthors", {"loss": "square", "time_limit": 60.0}, ""),
    ],
    "refits": [("refits", {"problems": 2000}, "no radius wrong")],
    "ridge": [("ridge", {"m": 2000, "flips": 50, "features": d}, "15 s, 10 % wide") for d in (384, 64)],
    "nodes": [("nodes", {"n": n, "predictions": 100_000, "labels": 20, "flips": 5}, "") for n in (200_000, 1_000_000)],
    "labels": [
        *(_probe("LinearSVC", m, 384, 2, 1, 120.0, "") for m in SIZES),
        *(_probe("RidgeClassifier", m, 384, 2, 20, None, "") for m in SIZES),
        _probe("LinearSVC (hinge)", 2000, 384, 2, 1, 120.0, ""),
    ],
}
"""For each part: what is measured, with which options, and what it must show. Labels to 50,000 of the logistic loss
are in the first part."""

QUICK: dict[str, dict[str, Any]] = {
    "probe": {"m": 800, "features": 8, "classes": 2, "time_limit": 3.0, "refits": 3},
    "zero": {"m": 500},
    "interrupted": {"m": 600},
    "refits": {"problems": 10},
    "ridge": {"m": 100, "features": 16, "flips": 5},
    "nodes": {"n": 2000, "predictions": 200},
}
"""Small sizes, to see whether all of it runs."""

TASKS: dict[str, Callable[..., Row]] = {
    "probe": probe,
    "zero": zero,
    "interrupted": interrupted,
    "coauthors": coauthors,
    "refits": refits,
    "ridge": ridge,
    "nodes": nodes,
}


def measured(case: Case, python: str, patience: float) -> Row:
    """One row, measured by an interpreter in a process of its own; what went wrong otherwise."""
    task, options, must = case
    words = ", ".join(str(value) for name, value in options.items() if name not in ("refits", "path") and value)
    row: Row = {"task": task, "asked": words, "must show": must}
    command = [python, "-W", "ignore", "-m", "benchmarks.probes", "--one", json.dumps([task, options])]
    environment = dict(os.environ)
    if python != sys.executable:
        environment.pop("PYTHONPATH", None)
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=patience, env=environment)
    except subprocess.TimeoutExpired:
        return {**row, "answer": f"nothing in {patience:g} s"}
    if done.returncode:
        return {**row, "answer": (done.stderr.strip().splitlines() or [f"died ({done.returncode})"])[-1][:100]}
    return {**row, **json.loads(done.stdout.splitlines()[-1])}


def show(title: str, rows: list[Row]) -> None:
    """One table, with the columns of all rows."""
    columns = list(dict.fromkeys(name for row in rows for name in row if name != "task"))
    cells = [[str(row.get(name, "")) for name in columns] for row in rows]
    widths = [max(len(text) for text in column) for column in zip(columns, *cells, strict=True)]
    print(f"\n### {title}\n")
    for line in (columns, ["-" * width for width in widths], *cells):
        print("| " + " | ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)) + " |", flush=True)


def main() -> None:
    """All parts, or some."""
    import argparse

    about = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    about.add_argument("--only", action="append", choices=list(PARTS), help="this part alone; may be repeated")
    about.add_argument("--quick", action="store_true", help="small sizes: whether it runs; not for quoting")
    about.add_argument("--other", metavar="PYTHON", help="the interpreter of another installation, asked the same")
    about.add_argument("--patience", type=float, default=900.0, help="seconds for each row (default 900)")
    about.add_argument("--data-dir", type=Path, help="folder with coauthor_cs.npz, for the part 'graph'")
    about.add_argument("--json", type=Path, help="store all rows here")
    about.add_argument("--one", help=argparse.SUPPRESS)
    given = about.parse_args()
    if given.one is not None:
        warnings.simplefilter("ignore")
        task, options = json.loads(given.one)
        print(json.dumps(TASKS[task](**options)))
        return
    from benchmarks.machine import facts

    print(json.dumps(facts()))
    found: dict[str, list[Row]] = {}
    for part, cases in PARTS.items():
        if given.only and part not in given.only:
            continue
        if part == "graph":
            if given.data_dir is None:
                print("\n### graph\n\nleft out: give --data-dir FOLDER with coauthor_cs.npz")
                continue
            path = str(given.data_dir / "coauthor_cs.npz")
            cases = [(task, {**options, "path": path}, must) for task, options, must in cases]
        if given.quick:
            cases = [(task, {**options, **QUICK.get(task, {})}, must) for task, options, must in cases[:2]]
        started, found[part] = time.perf_counter(), []
        for case in cases:
            for python in [sys.executable, *([given.other] if given.other else [])]:
                row = measured(case, python, given.patience)
                found[part].append({**({"version": python} if given.other else {}), **row})
        show(f"{part} ({time.perf_counter() - started:.0f} s)", found[part])
        if given.json is not None:
            given.json.write_text(json.dumps({"machine": facts(), "rows": found}, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
