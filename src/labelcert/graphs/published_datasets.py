"""The published graphs of the paper: where each comes from, and the steps that prepare it."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping
from dataclasses import replace

import scipy.sparse as sp

from labelcert.graphs import preprocessing as step
from labelcert.graphs import published_formats as formats
from labelcert.graphs.download import RawSource, RemoteFile, raw_graph, require_checksum
from labelcert.graphs.graph import Graph

_POLBLOGS_TABLES = {
    "adjacency.tsv": "ee273f75175cb33c53f115bad3924af56b490c6de056c6666503f437b8ca915b",
    "labels.tsv": "6d53ecdabe0c41da893d7115f4d1cf8fd5488e5d3b9998a2f070e1dbfeaee896",
}


def prepared(source: RawSource, *steps: Callable[[Graph], Graph]) -> Callable[..., Graph]:
    """Return a function that loads the raw graph of a source and applies the steps to it, in order."""

    def build(*, data_dir: str | os.PathLike[str] | None = None, mirror: str | None = None) -> Graph:
        graph = raw_graph(source, data_dir=data_dir, mirror=mirror)
        for apply in steps:
            graph = apply(graph)
        return graph

    return build


def _planetoid(name: str, fingerprint: str) -> RawSource:
    base = "https://github.com/kimiyoung/planetoid/raw/master/data"
    files = {part: RemoteFile(f"{base}/ind.{name}.{part}") for part in formats.PLANETOID_PARTS}

    def convert(found: Mapping[str, bytes]) -> Graph:
        return formats.planetoid_graph({part: found[file.file_name] for part, file in files.items()}, name=name)

    return RawSource(name, tuple(files.values()), convert, directed=False, fingerprint=fingerprint)


def _one_file(
    name: str, file: RemoteFile, read: Callable[..., Graph], *, directed: bool, fingerprint: str | None
) -> RawSource:
    return RawSource(name, (file,), lambda found: read(found[file.file_name], name=name), directed, fingerprint)


def _polblogs_graph(found: Mapping[str, bytes]) -> Graph:
    tables = formats.archive_members(found["polblogs.tar.gz"], tuple(_POLBLOGS_TABLES), name="polblogs")
    for table, sha256 in _POLBLOGS_TABLES.items():
        require_checksum(hashlib.sha256(tables[table]).hexdigest(), sha256, f"{table} in polblogs.tar.gz")
    return formats.table_graph(tables["adjacency.tsv"], tables["labels.tsv"], name="polblogs")


CORA_ML = _one_file(
    "cora-ml",
    RemoteFile(
        "https://github.com/gasteigerjo/ppnp/raw/master/ppnp/data/cora_ml.npz",
        sha256="e3439bfd32c4a962d5c56a4f313793baee39181c208c90a3915b61183d3e1cda",
    ),
    formats.sparse_npz_graph,
    directed=True,
    fingerprint="32518818cb9cdbf483a158d7dda18f6ebf11779d260d35777505bc810079aa19",
)
cora_ml = prepared(CORA_ML, step.binarize_features, step.symmetrize, step.largest_component)
cora_ml_b = prepared(CORA_ML, step.binarize_features, step.symmetrize, step.two_largest_classes)

CITESEER = _planetoid("citeseer", "e5f2fb57e56652ee214f8d7128fc1768dfeffc6c925fa1e9608cac6a4a81662f")
citeseer = prepared(CITESEER, step.drop_self_loops, step.drop_nodes_without_features, step.largest_component)
citeseer_b = prepared(CITESEER, step.drop_self_loops, step.drop_nodes_without_features, step.two_largest_classes)

CORA = _planetoid("cora", "866a1a147bdda65e98cfeb5cb2811f67f5301c05064329535d8d4b4461521c3b")
cora = prepared(CORA, step.drop_self_loops, step.drop_nodes_without_features, step.largest_component)
cora_b = prepared(CORA, step.drop_self_loops, step.drop_nodes_without_features, step.two_largest_classes)

POLBLOGS = RawSource(
    name="polblogs",
    files=(RemoteFile("https://netset.telecom-paris.fr/datasets/polblogs.tar.gz"),),
    convert=_polblogs_graph,
    directed=True,
    fingerprint="feb8f58845b93cc7416d3304059df9b086f175c472b62af94eb8b1c43a173f11",
)
polblogs = prepared(
    POLBLOGS,
    *(step.drop_self_loops, step.largest_component, step.symmetrize),
    lambda graph: replace(
        graph, features=sp.eye_array(graph.n_nodes, format="csr"), class_names=("liberal", "conservative")
    ),
)

CHAMELEON = _one_file(
    "chameleon",
    RemoteFile(
        "https://github.com/yandex-research/heterophilous-graphs/raw/main/data/chameleon_filtered.npz",
        sha256="bf46f07e1fb5249280447e5fe3100f3e82fc4b93ad1e13ffcfdec924b6ac0bb5",
    ),
    formats.edge_npz_graph,
    directed=False,
    fingerprint="cb1cca13ca571d2a850d80b4eae3bec7ef206383a6c34a4fdea00ca900d1b1d7",
)
chameleon = prepared(CHAMELEON, step.drop_nodes_without_features, step.largest_component)
chameleon_b = prepared(CHAMELEON, step.drop_nodes_without_features, step.two_largest_classes)

WIKI_CS = _one_file(
    "wiki-cs",
    RemoteFile(
        "https://github.com/pmernyei/wiki-cs-dataset/raw/master/dataset/data.json",
        git_sha1="f1b743119df1a7a3bca449039c54034ae623a756",
    ),
    formats.wiki_cs_graph,
    directed=True,
    fingerprint=None,
)
wiki_cs = prepared(WIKI_CS, step.symmetrize, step.largest_component)
wiki_cs_b = prepared(WIKI_CS, step.symmetrize, step.two_largest_classes)
