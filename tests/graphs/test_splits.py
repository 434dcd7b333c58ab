from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from labelcert.errors import InvalidInput
from labelcert.graphs import (
    Graph,
    Split,
    balanced_split,
    cba,
    collective_targets,
    csbm,
    exhaustive_split,
    karate,
    load_dataset,
    multi_class_targets,
    own_split,
    published_split,
)


def test_citeseer_b_seed_1_is_the_recorded_split(dataset_folder: Path) -> None:
    graph = load_dataset("citeseer-b", data_dir=dataset_folder)
    split = balanced_split(graph, per_class=5, seed=1)
    assert split.train.tolist() == [246, 447, 879, 555, 791, 895, 290, 198, 522, 697]
    assert split.validation.tolist() == [1008, 806, 1134, 563, 950, 604, 672, 616, 1135, 807]
    assert collective_targets(split, seed=1)[:8].tolist() == [1010, 404, 26, 635, 676, 491, 686, 1136]
    assert len(collective_targets(split, seed=1)) == 50


def test_citeseer_seed_0_is_the_recorded_split(dataset_folder: Path) -> None:
    graph = load_dataset("citeseer", data_dir=dataset_folder)
    split = balanced_split(graph, per_class=5, seed=0)
    assert split.train[:6].tolist() == [1683, 271, 442, 1073, 1310, 1513]
    assert split.validation[:6].tolist() == [864, 1597, 1735, 1027, 1245, 178]
    assert multi_class_targets(graph, split, seed=0)[1] == 658


@pytest.mark.parametrize(("name", "labeled"), [("cora-ml-b", 20), ("cora-ml", 70), ("citeseer", 120), ("polblogs", 20)])
def test_number_of_labels_in_the_paper(dataset_folder: Path, name: str, labeled: int) -> None:
    graph = load_dataset(name, data_dir=dataset_folder)
    split = published_split(graph, seed=0)
    assert len(split.labeled) == labeled
    assert set(np.bincount(graph.labels[split.labeled])) == {labeled // graph.n_classes}
    sizes = np.bincount(graph.labels)
    assert len(split.test) == np.ceil(0.1 * sizes).sum()
    assert len(split.labeled) + len(split.pool) == graph.n_nodes


@pytest.mark.parametrize("model", [csbm, cba])
def test_random_graphs_are_split_without_rest(model: Any) -> None:
    graph = model(seed=2)
    split = published_split(graph, seed=2)
    assert (len(split.train), len(split.validation), len(split.test), len(split.unlabeled)) == (10, 10, 180, 0)
    assert graph.labels[split.train].tolist() == [0] * 5 + [1] * 5
    first = np.random.Generator(np.random.PCG64(2)).permutation(np.count_nonzero(graph.labels == 0))
    assert split.train[:5].tolist() == first[:5].tolist()
    larger = published_split(graph, seed=2, per_class=10)
    assert (len(larger.labeled), len(larger.pool)) == (40, 160)


def test_karate_has_eight_labels() -> None:
    split = published_split(karate())
    assert len(split.labeled) == 8
    assert len(collective_targets(split)) == 26
    assert collective_targets(split).tolist() == split.pool.tolist()


def test_every_part_is_disjoint_and_nothing_is_lost() -> None:
    graph = Graph(np.zeros((40, 40)), np.eye(40), np.repeat([0, 1, -1, 2], 10))
    for split in (balanced_split(graph, per_class=3, seed=5), exhaustive_split(graph, per_class=3, seed=5)):
        everything = np.concatenate((split.labeled, split.pool))
        assert sorted(everything) == list(range(40))
        assert np.all(graph.labels[split.labeled] >= 0)
        assert set(range(20, 30)) <= set(split.unlabeled)


def test_multi_class_targets_are_of_each_class_in_turn() -> None:
    graph = Graph(np.zeros((30, 30)), np.eye(30), np.arange(30) % 3)
    split = balanced_split(graph, per_class=2, seed=1)
    targets = multi_class_targets(graph, split, count=10, seed=1)
    assert graph.labels[targets].tolist() == [0, 1, 2, 0, 1, 2, 0, 1, 2, 0]
    assert len(set(targets)) == 10
    assert set(targets) <= set(split.pool)


def test_own_indices_and_masks() -> None:
    graph = karate()
    mask = np.zeros(34, dtype=bool)
    mask[[3, 9]] = True
    split = own_split(graph, train=[33, 0], validation=mask)
    assert split.labeled.tolist() == [33, 0, 3, 9]
    assert len(split.test) == 30
    assert split.unlabeled.size == 0


def test_a_split_cannot_be_changed() -> None:
    split = own_split(karate(), train=[0, 33])
    with pytest.raises(ValueError, match="read-only"):
        split.train[0] = 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"train": []}, "at least one labelled node"),
        ({"train": [34]}, "train nodes: expected indices in 0..33, got 34"),
        ({"train": [0], "validation": [0]}, "disjoint sets of nodes, got node 0"),
        ({"train": [0, 33], "test": [33]}, "disjoint sets of nodes, got node 33"),
        ({"train": [0, 33], "test": [1.5]}, "test nodes: expected integer"),
        ({"train": [True, False]}, "each of the 34 nodes"),
    ],
)
def test_bad_own_splits(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        own_split(karate(), **arguments)


def test_labelled_nodes_need_labels() -> None:
    graph = Graph(np.zeros((3, 3)), np.eye(3), [0, 1, -1])
    with pytest.raises(InvalidInput, match="node 2 of 'graph' has none"):
        own_split(graph, train=[0, 1, 2])


def test_impossible_requests() -> None:
    graph = karate()
    with pytest.raises(InvalidInput, match=r"at least 20 nodes in every class .* got 17 in class 'Officer'"):
        balanced_split(graph, per_class=10)
    with pytest.raises(InvalidInput, match=r"per_class must be .*, got 0"):
        exhaustive_split(graph, per_class=0)
    with pytest.raises(InvalidInput, match="seed must be a whole number of at least 0, got -1"):
        balanced_split(graph, seed=-1)
    with pytest.raises(InvalidInput, match="no node of 'graph' has one"):
        balanced_split(Graph(np.zeros((2, 2)), np.eye(2), [-1, -1]))
    split = balanced_split(graph, per_class=2)
    with pytest.raises(InvalidInput, match=r"count must be .*, got 0"):
        collective_targets(split, count=0)
    with pytest.raises(InvalidInput, match="ask for at most 26 targets"):
        multi_class_targets(graph, split, count=27)
    with pytest.raises(InvalidInput, match="got node 33 in it"):
        multi_class_targets(graph.subgraph(range(10)), split)
    with pytest.raises(InvalidInput, match="unlabeled nodes: expected"):
        Split(train=[0], validation=[], test=[], unlabeled=[-3])


def test_counts_must_be_whole_numbers() -> None:
    graph = karate()
    for split in (balanced_split, exhaustive_split):
        for per_class in (1.5, 2.0, True, "2"):
            with pytest.raises(InvalidInput, match=r"per_class must be a whole number"):
                split(graph, per_class=per_class)
    with pytest.raises(InvalidInput, match=r"count must be a whole number .*, got 2.5"):
        collective_targets(balanced_split(graph, per_class=2), count=2.5)  # type: ignore[arg-type]


def test_targets_in_a_graph_without_labels() -> None:
    graph = Graph(np.zeros((3, 3)), np.eye(3), [-1, -1, -1])
    with pytest.raises(InvalidInput, match="no node of 'graph' has one"):
        multi_class_targets(graph, Split(train=[], validation=[], test=[0, 1], unlabeled=[2]), count=1)
