from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import labelcert
from labelcert.examples import several_clouds, two_clouds
from labelcert.graphs import Graph, karate
from labelcert.pipeline import CertifiedTargets, certify_targets, choose_model, choose_split, choose_targets
from labelcert.report import pictures
from labelcert.report.layout import layout
from labelcert.report.pictures import Curve, CurvePanel, GraphPanel

PNG = b"\x89PNG"


def certified(name: str) -> CertifiedTargets:
    graph = karate()
    split = choose_split(graph)
    choice = choose_model(name, graph, split.labeled)
    return certify_targets(choice, graph, split.labeled, choose_targets(graph, split))[0]


@pytest.fixture(scope="module")
def pair() -> list[CertifiedTargets]:
    return [certified("gcn"), certified("sgc")]


def open_certificate() -> labelcert.Certificate:
    example = two_clouds(n_labels=40, n_test=30)
    return labelcert.certify(example.K_train, example.labels, example.K_test, 1.0, engine="enumerate", time_limit=1e-4)


def test_files_are_written_and_repeatable(pair: list[CertifiedTargets], tmp_path: Path) -> None:
    panels = [result.attack_panel(1) for result in pair]
    for folder in (tmp_path / "a", tmp_path / "b"):
        folder.mkdir()
        png, svg = pictures.save_figure(pictures.graph_figure(panels), folder / "graph")
        assert png.read_bytes().startswith(PNG)
        assert b"<svg" in svg.read_bytes()
    assert (tmp_path / "a" / "graph.svg").read_bytes() == (tmp_path / "b" / "graph.svg").read_bytes()


def test_ratio_lines_show_the_certificate(pair: list[CertifiedTargets]) -> None:
    figure = pictures.ratio_figure([(result.recipe.label, result.certificate) for result in pair])
    for axes, collective in zip(figure.axes, (False, True), strict=True):
        assert len(axes.lines) == 2
        for line, result in zip(axes.lines, pair, strict=True):
            cert = result.certificate
            ratios = [cert.certified_ratio(flips=b, collective=collective) for b in range(cert.max_flips + 1)]
            assert np.allclose(np.asarray(line.get_ydata()), 100 * np.array(ratios))


def test_open_intervals_have_bands_and_hatches() -> None:
    cert = open_certificate()
    assert not cert.exact
    figure = pictures.ratio_figure([("open", cert)])
    assert any(axes.collections for axes in figure.axes)
    bars = pictures.radius_figure([("open", cert)]).axes[0].patches
    assert any(bar.get_hatch() for bar in bars)
    assert sum(bar.get_height() for bar in bars) == cert.n_test  # type: ignore[attr-defined]


def test_graph_view_marks_the_attack(pair: list[CertifiedTargets]) -> None:
    figure = pictures.graph_figure([result.attack_panel(1) for result in pair])
    titles = [axes.get_title() for axes in figure.axes]
    assert "14 of 26 predictions change" in titles[1]
    assert "5 of 26 predictions change" in titles[2]
    [legend] = figure.legends
    assert {text.get_text() for text in legend.get_texts()} == set(pictures.NODE_STYLE)


def test_each_kind_of_node_is_drawn_once() -> None:
    panel = GraphPanel("one flip", karate(), np.array([0, 1, 32, 33]), np.array([1]), np.array([3, 7]))
    figure = pictures.graph_figure([panel])
    counts = [[len(np.asarray(c.get_offsets())) for c in axes.collections[1:]] for axes in figure.axes]
    # Kinds come in the order of NODE_STYLE; what a panel does not have is left out, and the legend's marks are empty.
    assert counts[0][:2] == [30, 4]
    assert counts[1][:4] == [28, 3, 2, 1]


def test_curves_of_a_study() -> None:
    x = np.array([0.1, 0.2, 0.3])
    exact = Curve("exact", x, *2 * (np.array([80.0, 50.0, 20.0]),), np.ones(3))
    open_ = Curve("open", x, np.array([80.0, 40.0, 20.0]), np.array([80.0, 60.0, 20.0]), np.zeros(3))
    panels = [CurvePanel("CSBM", (exact,)), CurvePanel("Cora", (exact, open_))]
    figure = pictures.curves_figure(panels, xlabel="budget", ylabel="certified (%)", title="A study")
    assert [axes.get_title() for axes in figure.axes] == ["CSBM", "Cora"]
    # Only what is not decided has a band, and no line goes through bounds.
    lines = figure.axes[1].containers[1].lines[0]  # type: ignore[attr-defined]
    assert np.isnan(np.asarray(lines.get_ydata())).tolist() == [False, True, False]


def test_takeovers_of_two_and_of_three_classes() -> None:
    for example in (two_clouds(n_labels=8, n_test=6), several_clouds(n_labels=9, n_test=6)):
        cert = labelcert.certify(example.K_train, example.labels, example.K_test, example.C, max_flips=1)
        axes = pictures.takeover_figure(cert).axes[0]
        assert [text.get_text() for text in axes.get_xticklabels()] == cert.classes.tolist()


def test_kinds_of_nodes_differ_in_colour_and_shape() -> None:
    styles = pictures.NODE_STYLE.values()
    assert len({style["marker"] for style in styles}) == len(styles)
    assert len({style["facecolor"] for style in styles}) == len(styles)


@pytest.mark.parametrize("count", [1, 2, 3, 30])
def test_graphs_with_loose_parts_are_laid_out(count: int) -> None:
    adjacency = np.zeros((count + 6, count + 6))
    adjacency[0, 1] = adjacency[1, 0] = adjacency[1, 2] = adjacency[2, 1] = 1
    graph = Graph(adjacency, np.eye(count + 6), np.arange(count + 6) % 2)
    positions = layout(graph.n_nodes, graph.edges)
    assert np.isfinite(positions).all()
    assert len(np.unique(positions.round(6), axis=0)) == count + 6


def test_nothing_to_draw_and_too_much() -> None:
    with pytest.raises(labelcert.InvalidInput, match="at least one result"):
        pictures.ratio_figure([])
    with pytest.raises(labelcert.InvalidInput, match="at least one result"):
        pictures.radius_figure([])
    with pytest.raises(labelcert.InvalidInput, match="at least one result"):
        pictures.graph_figure([])
    with pytest.raises(labelcert.InvalidInput, match="at least one result"):
        pictures.curves_figure([], xlabel="x", ylabel="y")
    graph = Graph(np.zeros((401, 401)), np.eye(401), np.arange(401) % 2)
    none = np.zeros(0, dtype=np.int64)
    with pytest.raises(labelcert.InvalidInput, match="401 nodes"):
        pictures.graph_figure([GraphPanel("too many", graph, none, none, none)])
