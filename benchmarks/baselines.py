"""Certificates of other authors on one graph: what noise, regularisation and sensitivities do to them.

Run with ``python -m benchmarks.baselines --data-dir FOLDER`` (a part of it: ``--only smoothing``, ``sensitivity`` or
``intervals``).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import numpy as np

from labelcert import Certificate, certify, certify_baseline
from labelcert.certification import GraphCertifier
from labelcert.cli.printing import print_table
from labelcert.graphs import load_dataset, published_split
from labelcert.models import model_from_name
from labelcert.report.tables import listing

FLIPS = (0, 1, 2, 3, 5, 10, 20, 30)
VALUES = (0.0001, 0.001, 0.01, 0.1, 1.0)
NOISE = (0.02, 0.05, 0.1, 0.2, 0.3)
PARTS = ("smoothing", "sensitivity", "intervals")


class Setting:
    """One graph, split and model."""

    def __init__(self, dataset: str, per_class: int | None, name: str, seed: int, data_dir: Path | None) -> None:
        graph = load_dataset(dataset, data_dir=data_dir)
        split = published_split(graph, seed=seed, per_class=per_class)
        self.test, self.m = split.pool, len(split.labeled)
        self.truth = graph.named_labels(self.test)
        self._certifier = GraphCertifier(model_from_name(name), graph, split.labeled, [self.test])
        self.title = f"{dataset}, {name}, {self.m} labels, {self.test.size} nodes"

    def certified(self, C: float, using: Callable[..., Any], **options: Any) -> Any:
        """What some function says about the arrays."""
        return self._certifier.certify(self.test, C=C, using=using, **options)

    def row(self, *words: str, C: float, method: str | None, **options: Any) -> tuple[str, ...]:
        """Certified accuracy at all budgets, and seconds."""
        flips = min(self.m, FLIPS[-1])

        def baseline(*arrays: Any, **given: Any) -> Certificate:
            return certify_baseline(*arrays, using=str(method), **given)

        started = time.perf_counter()
        if method is None:
            cert = self.certified(C, certify, max_flips=flips, collective=False, **options)
        else:
            cert = self.certified(C, baseline, max_flips=flips, **options)
        seconds = time.perf_counter() - started
        shares = (100 * cert.certified_accuracy(self.truth, flips=b) for b in FLIPS if b <= flips)
        return (*words, f"{C:g}", *(f"{share:.1f}" for share in shares), f"{seconds:.1f}")

    def headings(self, *words: str) -> tuple[str, ...]:
        """Of a table of such rows."""
        return (*words, "C", *(f"{b} flips" for b in FLIPS if b <= self.m), "seconds")


def smoothing(setting: Setting) -> None:
    """The exact ridge certificate beside both smoothing baselines."""
    rows = []
    for C in VALUES:
        rows.append(setting.row("exact ridge", "", C=C, method=None, loss="square"))
        rows += [
            setting.row(method, f"{noise:g}", C=C, method=method, noise=noise)
            for noise in NOISE
            for method in ("smoothing", "tighter-smoothing")
        ]
    title = f"{setting.title}: certified accuracy in %"
    print_table(listing(title, setting.headings("certificate", "noise"), rows))


def sensitivity(setting: Setting) -> None:
    """Sensitivities beside scores, for both losses, and what they certify."""
    rows, sizes = [], []
    for loss in ("hinge", "square"):
        for C in VALUES:
            cert = setting.certified(C, certify_baseline_sensitivity, loss=loss, max_flips=1)
            score = float(np.median(np.abs(cert.decision_values)))
            most = cert.run.stages[0].statistics["median_sensitivity"]
            sizes.append((loss, f"{C:g}", f"{score:.3g}", f"{most:.3g}", f"{score / most:.2f}"))
            for each in (True, False):
                words = (loss, "each label" if each else "the largest")
                rows.append(setting.row(*words, C=C, method="sensitivity", loss=loss, per_label=each))
    headings = ("loss", "C", "median score", "median sensitivity", "ratio")
    print_table(listing(f"{setting.title}: scores, and the most that one label moves them", headings, sizes))
    title = f"{setting.title}: certified accuracy in %"
    print_table(listing(title, setting.headings("loss", "sensitivity of"), rows))


def certify_baseline_sensitivity(*arrays: Any, **given: Any) -> Certificate:
    """The certificate by sensitivities."""
    return certify_baseline(*arrays, using="sensitivity", **given)


def intervals(setting: Setting) -> None:
    """Whether intervals stay bounded when gradient descent on the dual is run on them, and what they certify then.

    An interval of width w becomes one of width ``|I − ηA| w`` in a step of length η, plus what the changed label adds.
    Some step contracts if and only if ``D⁻¹|A − D|`` has a spectral radius below 1, where D is the diagonal of A.
    """
    rows = []
    for C in VALUES:
        K, codes, K_test = setting.certified(C, lambda K, labels, rows, C, names: (K, labels, rows))
        y = np.where(codes == np.unique(codes)[0], -1.0, 1.0)
        A = K + np.eye(y.size) / (2 * C)
        off = np.abs(A) - np.diag(np.diag(A))
        radius = float(np.abs(np.linalg.eigvals(off / np.diag(A)[:, None])).max())
        exact = setting.certified(C, certify, loss="square", max_flips=1, collective=False)
        share = "unbounded"
        if radius < 1:
            width = np.linalg.solve(np.diag(np.diag(A)) - off, 2 * np.eye(y.size))  # of z, for each changed label
            H = np.linalg.solve(A, K_test.T).T
            scores = H @ y
            centres = np.sign(scores)[:, None] * (scores[:, None] - H * y)  # the changed label is between -1 and 1
            share = f"{100 * np.mean((centres > np.abs(K_test) @ width / 2).all(axis=1)):.1f}"
        rows.append((f"{C:g}", f"{radius:.2f}", share, f"{100 * exact.certified_ratio(flips=1):.1f}"))
    headings = ("C", "spectral radius", "certified by intervals in %", "by the exact certificate in %")
    print_table(listing(f"{setting.title}: ridge, one flip", headings, rows))


@click.command()
@click.option("--data-dir", type=click.Path(path_type=Path), help="Folder with local copies of the datasets.")
@click.option("--dataset", default="cora-ml-b", show_default=True)
@click.option("--per-class", type=int, help="Training nodes of each class, and again for validation.")
@click.option("--model", "name", default="gcn", show_default=True)
@click.option("--seed", default=0, show_default=True)
@click.option("--only", type=click.Choice(PARTS), help="One part.")
def main(data_dir: Path | None, dataset: str, per_class: int | None, name: str, seed: int, only: str | None) -> None:
    """Tables of all parts, or of one."""
    setting = Setting(dataset, per_class, name, seed, data_dir)
    for part in PARTS:
        if only in (None, part):
            {"smoothing": smoothing, "sensitivity": sensitivity, "intervals": intervals}[part](setting)


if __name__ == "__main__":
    main()
