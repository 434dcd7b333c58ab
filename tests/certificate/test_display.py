"""A certificate at a glance: summary, HTML, LaTeX, and a plot into given axes."""

from __future__ import annotations

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.figure import Figure
from tests.helpers.problems import blobs, gaussian

import labelcert
from labelcert import Certificate, Threat, certify
from labelcert.certification import Names

mpl.use("Agg")


def certificates() -> list[Certificate]:
    K, y, rows = gaussian(9, 5)
    return [
        certify(K, y, rows, 1.0),
        certify(*blobs(9, 5, classes=3), 1.0, max_flips=2, loss="cross_entropy"),
        certify(K, y, rows, 1.0, threat=Threat(costs=[3] * 9)),
        certify(K, y, rows, 1.0, engine="relaxed"),
        certify(K, y, rows, 1.0, threat=Threat(trusted=[True] * 9)),
    ]


@pytest.mark.parametrize("k", range(5))
def test_summaries_fit_and_hold_the_numbers(k: int) -> None:
    cert = certificates()[k]
    text = cert.summary()
    assert all(len(line) <= 80 for line in text.splitlines())
    shown = f"{100 * cert.certified_ratio(flips=1):.1f}"
    assert all(shown in page for page in (text, cert._repr_html_(), cert.to_latex()))


def test_names_are_shown_and_escaped() -> None:
    K, y, rows = gaussian(9, 5)
    names = Names(test=np.array([f"<b>node {t}" for t in range(5)]), labels=np.array([f"ann {i}" for i in range(9)]))
    cert = certify(K, y, rows, 1.0, names=names)
    assert "ann " in cert.summary()
    assert "<b>" in cert.summary()
    assert "<b>" not in cert._repr_html_()
    assert cert.to_frame().index[0] == "<b>node 0"


def test_plot_draws_into_given_axes() -> None:
    cert = certificates()[0]
    axes = Figure().subplots()
    assert cert.plot(axes, collective=False, color="black", label="alone") is axes
    assert cert.plot(axes).get_lines()[0].get_color() == "black"
    assert axes.get_legend_handles_labels()[1][0] == "alone"
    assert labelcert.certify([[2, 0], [0, 2]], [0, 1], [[1, 0]], C=1.0).plot() is not None
