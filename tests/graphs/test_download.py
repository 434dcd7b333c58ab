from __future__ import annotations

import hashlib
import json
import os
import socket
from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from labelcert.errors import DataUnavailable
from labelcert.graphs import Graph, dataset_info, load_dataset
from labelcert.graphs.datasets import DATASETS
from labelcert.graphs.download import RawSource, RemoteFile, data_folder, git_blob_sha1, raw_graph, user_cache
from labelcert.graphs.preprocessing import symmetrize, two_largest_classes
from labelcert.graphs.published_datasets import CHAMELEON, CORA, CORA_ML, POLBLOGS, WIKI_CS, prepared
from labelcert.graphs.published_formats import wiki_cs_graph

DOCUMENT = json.dumps(
    {"features": [[1, 0], [0, 1], [1, 1], [0, 0]], "labels": [4, 4, 1, 1], "links": [[1, 2], [0], [3], []]}
).encode()


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch, server: Any) -> Any:
    """A tiny stand-in for Wiki-CS on the local server, with the checksums of its own content."""
    file = RemoteFile("https://example.org/never/asked/data.json", git_sha1=git_blob_sha1(DOCUMENT))
    fingerprint = wiki_cs_graph(DOCUMENT, name="wiki-cs").fingerprint()
    source = replace(WIKI_CS, files=(file,), fingerprint=fingerprint)
    monkeypatch.setenv("LABELCERT_MIRROR", server.url)
    server.files["data.json"] = DOCUMENT
    return source


def planetoid_files(raw: Graph, name: str, pickled: Callable[[Any], bytes]) -> dict[str, bytes]:
    """The files that Planetoid would have published for a raw graph."""
    rng = np.random.default_rng(0)
    X = sp.csr_matrix(raw.features, dtype=np.float32)
    described = np.flatnonzero(np.diff(X.indptr) > 0)
    n_train = min(raw.n_nodes - 1000, np.setdiff1d(np.arange(raw.n_nodes), described).min(initial=raw.n_nodes))
    test = rng.permutation(described[described >= n_train])
    Y = np.eye(raw.n_classes, dtype=np.int32)[raw.labels]
    neighbors = defaultdict(list)
    for i in range(raw.n_nodes):
        neighbors[i] = raw.adjacency.indices[raw.adjacency.indptr[i] : raw.adjacency.indptr[i + 1]].tolist()
    return {
        f"ind.{name}.allx": pickled(X[:n_train]),
        f"ind.{name}.ally": pickled(Y[:n_train]),
        f"ind.{name}.tx": pickled(X[test]),
        f"ind.{name}.ty": pickled(Y[test]),
        f"ind.{name}.graph": pickled(neighbors),
        f"ind.{name}.test.index": "\n".join(map(str, test)).encode(),
    }


@pytest.mark.parametrize(("name", "nodes", "edges"), [("citeseer", 2110, 3668), ("cora", 2485, 5069)])
def test_planetoid_from_download_to_statistics(
    dataset_folder: Path,
    server: Any,
    tmp_path: Path,
    python2_pickle: Callable[[Any], bytes],
    name: str,
    nodes: int,
    edges: int,
) -> None:
    server.files.update(planetoid_files(Graph.from_npz(dataset_folder / f"{name}.npz"), name, python2_pickle))
    graph = load_dataset(name, data_dir=tmp_path / "new", mirror=server.url)
    assert (graph.n_nodes, graph.n_edges) == (nodes, edges)
    assert len(server.requests) == 6
    assert [p.name for p in (tmp_path / "new").iterdir()] == [f"{name}.npz"]
    again = load_dataset(f"{name}-b", data_dir=tmp_path / "new", mirror=server.url)
    assert again.n_classes == 2
    assert len(server.requests) == 6


def test_planetoid_files_with_other_content_are_refused(
    dataset_folder: Path, server: Any, tmp_path: Path, python2_pickle: Callable[[Any], bytes]
) -> None:
    raw = Graph.from_npz(dataset_folder / "cora.npz")
    tampered = replace(raw, labels=np.where(np.arange(raw.n_nodes) == 5, 0, raw.labels))
    server.files.update(planetoid_files(tampered, "cora", python2_pickle))
    with pytest.raises(DataUnavailable, match=r"graph built from the files of cora has the wrong checksum"):
        raw_graph(CORA, data_dir=tmp_path, mirror=server.url)
    assert not list(tmp_path.glob("*.npz"))


def test_download_convert_keep(small: Any, server: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = raw_graph(small, data_dir=tmp_path)
    assert (graph.n_nodes, graph.n_edges, graph.directed) == (4, 4, True)
    assert (tmp_path / "wiki_cs.npz").is_file()
    server.files.clear()
    assert raw_graph(small, data_dir=tmp_path).fingerprint() == graph.fingerprint()
    assert server.requests == ["data.json"]
    binary = prepared(small, symmetrize, two_largest_classes)
    monkeypatch.setitem(DATASETS, "wiki-cs-b", (dataset_info("wiki-cs-b"), binary))
    assert load_dataset("wiki-cs-b", data_dir=tmp_path).class_names == ("1", "4")


def test_without_a_folder_the_users_cache_is_used(small: Any, server: Any) -> None:
    raw_graph(small)
    assert (user_cache() / "wiki_cs.npz").is_file()
    raw_graph(small)
    assert len(server.requests) == 1


def test_a_folder_that_cannot_be_written_to(
    small: Any, server: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "read-only"
    folder.mkdir()
    allowed = os.access
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path) != folder and allowed(path, mode))
    raw_graph(small, data_dir=folder)
    raw_graph(small, data_dir=folder)
    assert not list(folder.iterdir())
    assert len(server.requests) == 1


def test_wrong_checksum(small: Any, server: Any, tmp_path: Path) -> None:
    server.files["data.json"] = DOCUMENT + b" "
    with pytest.raises(DataUnavailable, match=r"data\.json has the wrong checksum.*LABELCERT_DATA_DIR"):
        raw_graph(small, data_dir=tmp_path)
    assert not list(tmp_path.glob("*.npz"))


@pytest.mark.parametrize("source", [CORA_ML, CHAMELEON, WIKI_CS], ids=lambda source: source.name)
def test_the_public_files_have_known_checksums(server: Any, tmp_path: Path, source: RawSource) -> None:
    server.files[source.files[0].file_name] = b"something else"
    with pytest.raises(DataUnavailable, match="wrong checksum"):
        raw_graph(source, data_dir=tmp_path, mirror=server.url)


def test_sha256_of_a_file(small: Any, server: Any, tmp_path: Path) -> None:
    for content, fits in ((DOCUMENT, True), (b"{}", False)):
        file = replace(small.files[0], git_sha1=None, sha256=hashlib.sha256(content).hexdigest())
        source = replace(small, files=(file,))
        folder = tmp_path / str(fits)
        if fits:
            assert raw_graph(source, data_dir=folder).n_nodes == 4
        else:
            with pytest.raises(DataUnavailable, match="wrong checksum"):
                raw_graph(source, data_dir=folder)


def test_broken_transfer(small: Any, server: Any, tmp_path: Path) -> None:
    server.announced_length["data.json"] = len(DOCUMENT) + 1000
    with pytest.raises(DataUnavailable, match=r"transfer of http.*broke off.*LABELCERT_DATA_DIR"):
        raw_graph(small, data_dir=tmp_path)
    assert not list(tmp_path.glob("*.npz"))


def test_file_gone(small: Any, server: Any, tmp_path: Path) -> None:
    server.files.clear()
    with pytest.raises(DataUnavailable, match=r"404.*put wiki_cs.npz into a folder.*LABELCERT_DATA_DIR"):
        raw_graph(small, data_dir=tmp_path)


def test_no_network(small: Any, tmp_path: Path) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{unused.getsockname()[1]}"
    with pytest.raises(DataUnavailable, match=r"cannot be reached \(ConnectionError\).*LABELCERT_DATA_DIR"):
        raw_graph(small, data_dir=tmp_path, mirror=address)


def test_a_file_that_is_not_what_it_says(small: Any, server: Any, tmp_path: Path) -> None:
    source = replace(small, files=(replace(small.files[0], git_sha1=None),))
    server.files["data.json"] = b"<html>please log in</html>"
    with pytest.raises(DataUnavailable, match=r"wiki-cs is damaged.*LABELCERT_DATA_DIR"):
        raw_graph(source, data_dir=tmp_path)


def test_local_copies_are_checked(dataset_folder: Path, tmp_path: Path) -> None:
    copy = tmp_path / "chameleon.npz"
    raw = Graph.from_npz(dataset_folder / "chameleon.npz")
    replace(raw, labels=raw.labels[::-1]).to_npz(copy)
    with pytest.raises(DataUnavailable, match=r"local copy .*chameleon\.npz has the wrong checksum"):
        load_dataset("chameleon", data_dir=tmp_path)
    copy.write_bytes(b"damaged")
    with pytest.raises(DataUnavailable, match="local copy of chameleon cannot be used"):
        load_dataset("chameleon", data_dir=tmp_path)


def test_which_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert data_folder() == user_cache()
    monkeypatch.setenv("LABELCERT_DATA_DIR", str(tmp_path / "named"))
    assert data_folder() == tmp_path / "named"
    assert data_folder(tmp_path / "given") == tmp_path / "given"


def test_advice_on_a_damaged_copy(tmp_path: Path) -> None:
    copy = Graph(np.zeros((2, 2)), np.eye(2), [0, 1]).to_npz(tmp_path / "cora.npz")
    with pytest.raises(DataUnavailable, match=r"cora\.npz has the wrong checksum.*delete .*cora\.npz"):
        load_dataset("cora", data_dir=tmp_path)
    content = copy.read_bytes()
    copy.write_bytes(content[:60] + b"\xff" * 20 + content[80:])
    with pytest.raises(DataUnavailable, match=r"local copy of cora cannot be used.*delete .*cora\.npz") as caught:
        load_dataset("cora", data_dir=tmp_path)
    assert "to_npz" not in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_bad_archive_is_reported_in_one_line(server: Any, tmp_path: Path) -> None:
    server.files["polblogs.tar.gz"] = b"<html>please log in</html>"
    with pytest.raises(DataUnavailable, match="archive of polblogs is damaged") as caught:
        raw_graph(POLBLOGS, data_dir=tmp_path, mirror=server.url)
    assert "\n" not in str(caught.value)
