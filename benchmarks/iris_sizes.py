"""Exact certificates of tables as small as Iris: ``python -m benchmarks.iris_sizes``.

Programs that encode the steps of gradient descent are solved for data of this size. Here the model is trained to the
end; each row is one certificate, with all test rows, all budgets up to the largest one, and the curve.
"""

from __future__ import annotations

import time

import click
import numpy as np
from sklearn.datasets import load_breast_cancer, load_iris, load_wine, make_moons
from sklearn.preprocessing import StandardScaler

import labelcert
from labelcert.arrays import Float, Int
from labelcert.cli.printing import print_table
from labelcert.report.tables import listing

LOSSES = {"square": 1.0, "hinge": 1.0, "logistic": 1.0}
"""What is trained, and its C."""

BUDGETS = (1, 2, 3, 5, 10)


def _iris(classes: int) -> tuple[Float, Int]:
    X, y = load_iris(return_X_y=True)
    return (X, y) if classes == 3 else (X[y > 0], y[y > 0])


DATA = {
    "Iris, two classes": lambda: _iris(2),
    "Iris, three classes": lambda: _iris(3),
    "half moons": lambda: make_moons(150, noise=0.2, random_state=0),
    "wine": lambda: load_wine(return_X_y=True),
    "breast cancer": lambda: load_breast_cancer(return_X_y=True),
}


@click.command(help=__doc__)
@click.option("--time-limit", default=20.0, show_default=True, help="Seconds for each certificate.")
@click.option("--data", "chosen", multiple=True, type=click.Choice(list(DATA)), help="[default: all]")
@click.option("--train", "share", default=0.7, show_default=True, help="Share of rows that are trained on.")
def main(time_limit: float, chosen: tuple[str, ...], share: float) -> None:
    """One table."""
    rows = []
    for name in chosen or DATA:
        X, y = DATA[name]()
        order = np.random.default_rng(0).permutation(len(y))
        m = int(share * len(y))
        scaled = StandardScaler().fit(X[order[:m]]).transform(X[order])
        scaled = np.hstack([scaled, np.ones((len(y), 1))])
        train, test, labels = scaled[:m], scaled[m:], y[order]
        for loss, C in LOSSES.items():
            arrays, how = (train @ train.T, labels[:m], test @ train.T, C), {"loss": loss, "time_limit": time_limit}
            labelcert.certify(*arrays, max_flips=2, **how)  # compiled first
            started = time.perf_counter()
            cert = labelcert.certify(*arrays, max_flips=BUDGETS[-1], **how)
            seconds = time.perf_counter() - started
            shares = (_range(cert, labels[m:], b) for b in BUDGETS)
            rows.append([name, f"{m} × {X.shape[1]}", str(len(test)), loss, *shares, f"{seconds:.1f}"])
    headings = ("data", "labels × features", "test rows", "loss", *(f"{b} flips" for b in BUDGETS), "seconds")
    print_table(listing("Certified accuracy of single rows in %", headings, rows))


def _range(cert: labelcert.Certificate, truth: Int, flips: int) -> str:
    low, high = (100 * cert.certified_accuracy(truth, flips=flips, bound=end) for end in ("lower", "upper"))
    return f"{low:.1f}" if low == high else f"{low:.1f} to {high:.1f}"


if __name__ == "__main__":
    main()
