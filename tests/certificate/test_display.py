"""A certificate at a glance: summary, HTML, LaTeX, and a plot into given axes."""

from __future__ import annotations

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.figure import Figure
from tests.helpers.problems import blobs, gaussian

import labelcert
from labelcert import Certificate, Threat, certify
from labelcert.certificate import display
from labelcert.certificate.display import telling_budgets
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


def test_budgets_that_tell_something() -> None:
    H = np.repeat(np.eye(12), np.arange(1, 13), axis=1)  # node t has t + 1 labels of its own
    cert = labelcert.certify_linear(H, ["a"] * 77 + ["b"])
    shown = [b for b in range(cert.last_flips) if cert.certified_ratio(flips=b) != cert.certified_ratio(flips=b + 1)]
    found = telling_budgets(cert)
    assert {b + 1 for b in shown} | {0, 1} <= set(found)
    ends = [display.share(cert, b, True) for b in range(cert.last_flips + 1)]
    radii = {*cert.radius_lower.tolist(), *cert.radius_upper.tolist()}
    assert all(b in (0, 1) or b in radii or ends[b] != ends[b - 1] for b in found)
    few = telling_budgets(cert, 6)
    assert len(few) == 6
    assert set(few) <= set(found)
    assert (few[:3], few[-1]) == (found[:3], found[-1])


def test_names_are_shown_and_escaped() -> None:
    K, y, rows = gaussian(9, 5)
    names = Names(test=np.array([f"<b>node {t}" for t in range(5)]), labels=np.array([f"<b>ann {i}" for i in range(9)]))
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


def test_names_in_witnesses_and_frames() -> None:
    K, y, rows = gaussian(9, 5)
    names = Names(test=np.array([f"n{t}" for t in range(5)]), labels=np.array([f"ann {i}" for i in range(9)]))
    named, plain = (certify(K, y, rows, 1.0, max_flips=2, names=given) for given in (names, None))
    t = int(np.flatnonzero(plain.radius_upper <= 2)[0])
    assert named.witness(f"n{t}") == named.witness(t) == plain.witness(t)
    expected = {f"ann {i}": label for i, label in plain.witness(t).items()}  # type: ignore[union-attr]
    assert named.witness(t, names=True) == named.to_frame()["witness"].iloc[t] == expected
    assert named.collective_witness(2, names=True) == named.curve_frame()["witness"][2]
    assert plain.witness(t, names=True) == plain.witness(t)
    for cert, name, message in ((named, "n9", "no test nodes are called 'n9'"), (plain, "n0", "they have no names")):
        with pytest.raises(labelcert.InvalidInput, match=message):
            cert.witness(name)


def test_what_is_settled_is_exact_in_tables_too() -> None:
    K, y, rows = gaussian(9, 25)
    cert = certify(K, y, rows, 1.0, max_flips=1)
    frame = cert.to_frame()
    assert cert.exact
    assert frame["exact"].all()
    assert set(frame["radius"]) == {"1", "≥ 2"}


def test_budgets_that_cannot_be_spent_are_not_shown() -> None:
    K, y, rows = gaussian(9, 5)
    threat = Threat(trusted=[True] * 4 + [False] * 5, groups=list("aaaaabbbb"), group_budgets={"b": 2})
    cert = certify(K, y, rows, 1.0, threat=threat)
    assert (cert.max_flips, cert.last_flips) == (9, 3)
    assert len(cert.summary().splitlines()) < len(certify(K, y, rows, 1.0).summary().splitlines())


def test_comparisons() -> None:
    K, y, rows = gaussian(9, 5)
    certs = {"a_b": certify(K, y, rows, 1.0), "<i>": certify(K, y, rows, 1.0, max_flips=2, engine="relaxed")}
    both = labelcert.compare(certs)
    assert both.to_frame().shape == (3, 4)
    assert both.to_frame()["each alone"]["a_b"][2] == 100 * certs["a_b"].certified_ratio(flips=2)
    assert "a\\_b" in both.to_latex()
    assert "<i>" not in both._repr_html_()
    assert len({len(line) for line in str(both).splitlines()[1:]}) == 1
    axes = Figure().subplots()
    assert both.plot(axes) is axes
    assert len(both.plot().get_lines()) >= 2
    with pytest.raises(labelcert.InvalidInput, match="at least one certificate"):
        labelcert.compare({})
    with pytest.raises(labelcert.InvalidInput, match="same test nodes, got 3, 5 nodes"):
        labelcert.compare({"a": certs["a_b"], "b": certify(K, y, rows[:3], 1.0)})


def test_c_by_cross_validation() -> None:
    K, y, rows = gaussian(16, 5)
    cert = certify(K, y, rows, "cv", max_flips=1)
    assert cert.run.C in labelcert.models.C_GRID
    assert np.array_equal(cert.radius_lower, certify(K, y, rows, cert.run.C, max_flips=1).radius_lower)
    with pytest.raises(labelcert.InvalidInput, match="some class has a single one; give C as a number"):
        certify(K[:3, :3], [0, 1, 1], rows[:, :3], "cv")
    with pytest.raises(labelcert.InvalidInput, match="C must be"):
        certify(K, y, rows, "cross-validate")
    graph = labelcert.load_dataset("karate")
    split = labelcert.published_split(graph, seed=0)
    chosen = labelcert.select(labelcert.SGC(), graph, split.labeled, seed=0)
    assert labelcert.SGC().certify(graph, split.labeled, split.pool, C="cv").run.C == chosen.model.C
    assert chosen.to_frame()["chosen"].sum() == 1
    assert "accuracy" in chosen._repr_html_()


def test_graphs_and_threats_in_notebooks() -> None:
    graph = labelcert.Graph(np.zeros((2, 2)), np.eye(2), [0, -1], class_names=("<b>",), name="<i>")
    for page in (graph._repr_html_(), Threat(allowed_flips={"<b>": ["<i>"]})._repr_html_()):
        assert "<b>" not in page
        assert "&lt;b&gt;" in page
    threat = Threat(
        trusted=[True, False], costs=[1, 3], allowed_targets=[None, ["x"]], groups=["a", "b"], group_budgets={"a": 1}
    )
    assert " ".join(threat.in_words()) == (
        "1 of 2 labels is trusted: it cannot be changed. Changing a label costs 1 to 3 units. 1 labels have a list of "
        "their own of what they may become. Labels come from 2 groups. At most 1 may be spent in group a."
    )
    assert Threat(groups=["a"], group_budgets=2).in_words()[-1] == "At most 2 may be spent in each group."
