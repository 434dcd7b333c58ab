from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from tests.helpers.certificates import same

from labelcert import InvalidInput, Partition, certify_partition
from labelcert.engines.freezing import Names
from labelcert.graphs import karate, published_split
from labelcert.models import SGC


@pytest.mark.parametrize("inductive", [False, True])
@pytest.mark.parametrize("combine", ["votes", "mean"])
def test_an_ensemble_is_its_kernel_s(combine: str, inductive: bool) -> None:
    graph = karate()
    split = published_split(graph, seed=0)
    ensemble = Partition(SGC(C=0.5), parts=3, seed=5, combine=combine)  # type: ignore[arg-type]
    cert = ensemble.certify(graph, split.labeled, split.pool, inductive=inductive, workers=1)
    blocks = SGC(C=0.5).kernel_blocks(graph, split.labeled, split.pool, inductive=inductive)
    names = Names(labels=np.array(graph.names(split.labeled)))
    plain = certify_partition(
        blocks[0],
        graph.named_labels(split.labeled),
        blocks[1],
        0.5,
        parts=3,
        seed=5,
        combine=combine,
        names=names,
        workers=1,
    )
    same(cert, plain)
    assert cert.test_names is not None
    assert cert.test_names.tolist() == graph.names(split.pool)


def test_graphs_without_names_are_dealt_out_by_node() -> None:
    graph = karate()
    bare = SimpleNamespace(adjacency=graph.adjacency, features=graph.features, labels=graph.labels)
    labeled, test = np.array([0, 1, 2, 3, 32, 33, 30, 29]), [5, 28]
    ensemble = Partition(SGC(C=0.5), parts=3)
    named = dict(zip(labeled, parts_of(ensemble, bare, labeled, test), strict=True))
    turned = labeled[::-1]
    assert parts_of(ensemble, bare, turned, test) == [named[i] for i in turned]


def parts_of(ensemble: Partition, graph: object, labeled: object, test: object) -> list[int]:
    cert = ensemble.certify(graph, labeled, test, workers=1)  # type: ignore[arg-type]
    return list(cert.run.stages[0].statistics["part_of"])


def test_bad_options() -> None:
    with pytest.raises(InvalidInput, match="parts must be a whole number of at least 1"):
        Partition(SGC(), parts=0)
    with pytest.raises(InvalidInput, match="parts must be a whole number"):
        Partition(SGC(), parts=1.5)  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="combine must be one of"):
        Partition(SGC(), combine="median")  # type: ignore[arg-type]
