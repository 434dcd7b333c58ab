from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import labelcert
from labelcert import pictures
from labelcert.examples import two_clouds
from labelcert.graphs import Graph, karate
from labelcert.workflow import Certified, certify_targets, choose_model, choose_split, choose_targets

PNG = b"\x89PNG"


def certified(name: str) -> Certified:
    graph = karate()
    split = choose_split(graph)
    choice = choose_model(name, graph, split.labeled)
    return certify_targets(choice, graph, split.labeled, choose_targets(graph, split))[0]


@pytest.fixture(scope="module")
def pair() -> list[Certified]:
    return [certified("gcn"), certified("sgc")]


def open_certificate() -> labelcert.Certificate:
    example = two_clouds(n_labels=18, n_test=30)
    return labelcert.certify(example.K_train, example.labels, example.K_test, 1.0, engine="enumerate", time_limit=1e-4)


def test_files_are_written_and_repeatable(pair: list[Certified], tmp_path: Path) -> None:
    for result in (tmp_path / "a", tmp_path / "b"):
        result.mkdir()
        png, svg = pictures.save_figure(pictures.graph_figure(pair), result / "graph")
        assert png.read_bytes().startswith(PNG)
        assert b"<svg" in svg.read_bytes()
    assert (tmp_path / "a" / "graph.svg").read_bytes() == (tmp_path / "b" / "graph.svg").read_bytes()


def test_ratio_lines_show_the_certificate(pair: list[Certified]) -> None:
    figure = pictures.ratio_figure([(result.choice.label, result.certificate) for result in pair])
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


def test_graph_view_marks_the_attack(pair: list[Certified]) -> None:
    gcn = pair[0]
    assert int(gcn.changed(1).sum()) == gcn.certificate.collective_lower[1] == 14
    assert len(gcn.flipped(1)) == 1
    accuracy = gcn.accuracy_after(1)
    assert accuracy is not None
    assert 0.45 < accuracy < 0.47
    figure = pictures.graph_figure(pair, flips=1)
    titles = [axes.get_title() for axes in figure.axes]
    assert "14 of 26 predictions change" in titles[1]
    assert "5 of 26 predictions change" in titles[2]
    [legend] = figure.legends
    assert {text.get_text() for text in legend.get_texts()} == set(pictures.NODE_STYLE)


def test_kinds_of_nodes_differ_in_colour_and_shape() -> None:
    styles = pictures.NODE_STYLE.values()
    assert len({style["marker"] for style in styles}) == len(styles)
    assert len({style["facecolor"] for style in styles}) == len(styles)


@pytest.mark.parametrize("count", [1, 2, 3, 30])
def test_graphs_with_loose_parts_are_laid_out(count: int) -> None:
    adjacency = np.zeros((count + 6, count + 6))
    adjacency[0, 1] = adjacency[1, 0] = adjacency[1, 2] = adjacency[2, 1] = 1
    graph = Graph(adjacency, np.eye(count + 6), np.arange(count + 6) % 2)
    positions = pictures._layout(graph, 0)
    assert np.isfinite(positions).all()
    assert len(np.unique(positions.round(6), axis=0)) == count + 6


def test_nothing_to_draw_and_too_much(pair: list[Certified]) -> None:
    with pytest.raises(labelcert.InvalidInput, match="at least one certificate"):
        pictures.ratio_figure([])
    with pytest.raises(labelcert.InvalidInput, match="at least one certificate"):
        pictures.radius_figure([])
    with pytest.raises(labelcert.InvalidInput, match="at least one result"):
        pictures.graph_figure([])
