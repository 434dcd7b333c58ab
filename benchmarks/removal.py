"""How many labels would have to go? Exact answers, and the first-order approximation beside them.

``python -m benchmarks.removal [--data-dir FOLDER]`` prints every figure of the page "Removed labels". The approximation
adds up what each label alone does to first order, with everything else held fixed, and takes the strongest labels until
their sum changes the prediction.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.datasets import load_digits
from sklearn.neighbors import KNeighborsClassifier

from labelcert import Certificate, Threat, certify, from_sklearn
from labelcert.graphs import load_dataset, published_split
from labelcert.pipeline import choose_model

Float = npt.NDArray[np.float64]

REMOVAL = Threat(removable=True, changes=False)


def first_order(effect: Float, score: Float) -> list[list[int]]:
    """For each node, the labels that are enough if their effects, (n, m), add up; empty where all are not."""
    sides = np.where(score > 0, 1.0, -1.0)
    found = []
    for row, margin in zip(effect * -sides[:, None], np.abs(score), strict=True):
        order = np.argsort(-row)
        total = np.cumsum(np.maximum(row[order], 0.0))
        enough = np.flatnonzero(total >= margin)
        found.append(np.sort(order[: enough[0] + 1]).tolist() if enough.size else [])
    return found


def compared(cert: Certificate, guesses: list[list[int]], flips: Callable[[int, list[int]], bool]) -> str:
    """How often the approximation is wrong, within the budget of a certificate."""
    settled = np.flatnonzero(cert.settled)
    size = np.array([len(guess) or cert.never for guess in guesses])
    size = np.where(size > cert.max_flips, cert.max_flips + 1, size)
    exact = cert.radius_lower
    high, low = int(np.sum(size[settled] > exact[settled])), int(np.sum(size[settled] < exact[settled]))
    named = [t for t in settled.tolist() if size[t] <= cert.max_flips]
    wrong = sum(not flips(t, guesses[t]) for t in named)
    return (
        f"first order: of {settled.size} numbers, {high} too high (a smaller set is enough), {low} too low; "
        f"of {len(named)} sets that it names, {wrong} change nothing"
    )


def shown(what: str, cert: Certificate, seconds: float) -> None:
    """Radii, and how long they took."""
    counts = {int(r): int(c) for r, c in zip(*np.unique(cert.radius_lower, return_counts=True), strict=True)}
    print(f"{what}: {cert.state}, {seconds:.1f} s; predictions by the fewest labels that have to go: {counts}")


def hinge(data_dir: Path | None) -> None:
    """Cora-MLb, 20 labels, every other node: all sets."""
    graph = load_dataset("cora-ml-b", data_dir=data_dir)
    split = published_split(graph, seed=0)
    model = choose_model("gcn", graph, split.labeled).model
    K, rows = model.kernel_blocks(graph, split.labeled, split.pool)
    labels = graph.labels[split.labeled]
    certify(K, labels, rows[:2], model.C, threat=REMOVAL, max_flips=3)  # compiled first
    started = time.perf_counter()
    cert = certify(K, labels, rows, model.C, threat=REMOVAL, max_flips=labels.size)
    shown(f"hinge, m = {labels.size}, {len(rows)} nodes, all 2^{labels.size} sets", cert, time.perf_counter() - started)
    y = np.where(labels == cert.classes[1], 1.0, -1.0)
    both = certify(K, labels, rows, model.C, threat=Threat(removable=True), max_flips=3)
    flips = certify(K, labels, rows, model.C, max_flips=3)
    for b in (1, 2, 3):
        print(
            f"  {b}: {cert.certified_ratio(flips=b):.1%} survive removals, {flips.certified_ratio(flips=b):.1%} flips, "
            f"{both.certified_ratio(flips=b):.1%} both"
        )

    def retrained(left: Any) -> Float:
        from labelcert.svm import train

        z = np.zeros(labels.size)
        z[left] = train(np.ascontiguousarray(K[np.ix_(left, left)]), y[left], model.C)
        return z

    z = retrained(np.arange(labels.size))
    free = np.flatnonzero((np.abs(z) > 1e-9) & (np.abs(z) < model.C * (1 - 1e-9)))
    response = np.zeros((labels.size, labels.size))  # how other labels make up for one: free ones keep their margins
    response[free] = -np.linalg.solve(K[np.ix_(free, free)], K[free])
    direction = np.eye(labels.size) + np.where(np.isin(np.arange(labels.size), free), -np.eye(labels.size), response)
    for i in free:
        others = free[free != i]
        direction[:, i] = np.eye(labels.size)[i]
        direction[others, i] = -np.linalg.solve(K[np.ix_(others, others)], K[others, i])
    effect = -(rows @ direction) * z
    guesses = first_order(effect, rows @ z)

    def does(t: int, guess: list[int]) -> bool:
        left = np.setdiff1d(np.arange(labels.size), guess)
        return bool((rows[t] @ retrained(left)) * (rows[t] @ z) <= 0)

    print(f"  {compared(cert, guesses, does)}")


def ridge(m: int, n: int, most: int) -> None:
    """Odd and even digits, kernel ridge regression, the n weakest predictions: all sets of up to so many rows."""
    digits = load_digits()
    order = np.random.default_rng(0).permutation(len(digits.data))
    X, y = digits.data[order] / 16.0, np.where(digits.target[order] % 2 == 1, "odd", "even")
    squares = (X**2).sum(axis=1)
    K = np.exp(-(squares[:, None] + squares - 2.0 * X @ X.T) / 8.0)
    C = 0.5
    signs, A = np.where(y[:m] == "odd", 1.0, -1.0), K[:m, :m] + np.eye(m) / (2.0 * C)
    alpha = np.linalg.solve(A, signs)
    weak = m + np.argsort(np.abs(K[m:, :m] @ alpha))[:n]
    arrays = K[:m, :m], y[:m], K[weak, :m]
    certify(*arrays, C, loss="square", threat=REMOVAL, max_flips=1)  # compiled first
    started = time.perf_counter()
    cert = certify(*arrays, C, loss="square", threat=REMOVAL, max_flips=most, time_limit=600)
    shown(
        f"ridge, m = {m}, the {n} weakest of {len(X) - m} test points, all sets of up to {most} rows",
        cert,
        time.perf_counter() - started,
    )
    H = np.linalg.solve(A, arrays[2].T).T

    def does(t: int, guess: list[int]) -> bool:
        left = np.setdiff1d(np.arange(m), guess)
        score = arrays[2][t, left] @ np.linalg.solve(A[np.ix_(left, left)], signs[left])
        return bool(score * (arrays[2][t] @ alpha) <= 0)

    score = arrays[2] @ alpha
    own = np.diag(np.linalg.inv(A))
    for name, effect in (("influence function", -H * alpha / (2.0 * C)), ("with leverage", -H * alpha / own)):
        print(f"  {name}, {compared(cert, first_order(effect, score), does)}")


def neighbours(m: int) -> None:
    """Ten digits, 5 nearest neighbours, all other rows: every budget up to 1,000, and whether fits agree."""
    digits = load_digits()
    X, y, T = digits.data[:m], digits.target[:m], digits.data[m:]
    model = KNeighborsClassifier(5)
    from_sklearn(model).certify(X, y, T[:2], threat=REMOVAL, max_flips=2)  # compiled first
    started = time.perf_counter()
    cert = from_sklearn(model).certify(X, y, T, threat=REMOVAL, collective=False)
    seconds = time.perf_counter() - started
    known = [(t, sorted(found)) for t in range(cert.n_test) if (found := cert.witness(t))]
    kept = [(t, np.setdiff1d(np.arange(m), gone)) for t, gone in known]
    works = sum(model.fit(X[left], y[left]).predict(T[[t]])[0] != cert.predictions[t] for t, left in kept)
    print(
        f"neighbours, m = {m}, {cert.n_test} test points, ten classes: {int(cert.settled.sum())} exact (others have "
        f"ties of distances), {seconds:.1f} s; radii from {cert.radius_lower.min()} to {cert.radius_lower.max()}, "
        f"{np.median(cert.radius_lower):g} in the median; {works} of {len(known)} witnesses work once fitted again"
    )


def main() -> None:
    """Print all figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--quick", action="store_true", help="small sizes, to see whether it runs")
    given = parser.parse_args()
    hinge(given.data_dir)
    ridge(200 if given.quick else 1000, 50, 3)
    neighbours(300 if given.quick else 1500)


if __name__ == "__main__":
    main()
