"""Raw graphs by name: from a local copy, or from their public address, checked and converted once.

A local copy is one npz in the normalised format. Downloaded files are checked against the checksums that are
known for them; what comes out of the conversion, like every local copy, against the raw graph's fingerprint.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from labelcert.errors import DataUnavailable, InvalidInput
from labelcert.graphs.graph import Graph
from labelcert.graphs.local_data import DATA_DIR_VARIABLE, data_folder, user_cache
from labelcert.graphs.published_formats import (
    PLANETOID_PARTS,
    archive_members,
    edge_npz_graph,
    planetoid_graph,
    sparse_npz_graph,
    table_graph,
    wiki_cs_graph,
)

MIRROR_VARIABLE = "LABELCERT_MIRROR"
"""Environment variable with a base address that replaces the public ones, file names staying the same."""
TIMEOUT_SECONDS = 30
"""How long a server may stay silent."""

_CHUNK = 1 << 20


@dataclass(frozen=True)
class RemoteFile:
    """A published file: its address and the checksum that is known for it, if any."""

    url: str
    sha256: str | None = None
    git_sha1: str | None = None

    @property
    def file_name(self) -> str:
        """Last part of the address."""
        return self.url.rsplit("/", 1)[-1]


@dataclass(frozen=True)
class RawSource:
    """Where a raw graph comes from: published files, how they become a graph, and its fingerprint."""

    file_name: str
    files: tuple[RemoteFile, ...]
    convert: Callable[[Mapping[str, bytes]], Graph]
    fingerprint: str | None
    directed: bool


def _planetoid(name: str, fingerprint: str) -> RawSource:
    base = "https://github.com/kimiyoung/planetoid/raw/master/data"
    return RawSource(
        file_name=f"{name}.npz",
        files=tuple(RemoteFile(f"{base}/ind.{name}.{part}") for part in PLANETOID_PARTS),
        convert=lambda found: planetoid_graph(
            {part: found[f"ind.{name}.{part}"] for part in PLANETOID_PARTS}, name=name
        ),
        fingerprint=fingerprint,
        directed=False,
    )


_POLBLOGS_TABLES = {
    "adjacency.tsv": "ee273f75175cb33c53f115bad3924af56b490c6de056c6666503f437b8ca915b",
    "labels.tsv": "6d53ecdabe0c41da893d7115f4d1cf8fd5488e5d3b9998a2f070e1dbfeaee896",
}


def _polblogs(found: Mapping[str, bytes]) -> Graph:
    tables = archive_members(found["polblogs.tar.gz"], tuple(_POLBLOGS_TABLES), name="polblogs")
    for table, sha256 in _POLBLOGS_TABLES.items():
        _require_checksum(hashlib.sha256(tables[table]).hexdigest(), sha256, f"{table} in polblogs.tar.gz")
    return table_graph(tables["adjacency.tsv"], tables["labels.tsv"], name="polblogs")


RAW_SOURCES: dict[str, RawSource] = {
    "cora-ml": RawSource(
        file_name="cora_ml.npz",
        files=(
            RemoteFile(
                "https://github.com/gasteigerjo/ppnp/raw/master/ppnp/data/cora_ml.npz",
                sha256="e3439bfd32c4a962d5c56a4f313793baee39181c208c90a3915b61183d3e1cda",
            ),
        ),
        convert=lambda found: sparse_npz_graph(found["cora_ml.npz"], name="cora-ml"),
        fingerprint="32518818cb9cdbf483a158d7dda18f6ebf11779d260d35777505bc810079aa19",
        directed=True,
    ),
    "citeseer": _planetoid("citeseer", "e5f2fb57e56652ee214f8d7128fc1768dfeffc6c925fa1e9608cac6a4a81662f"),
    "cora": _planetoid("cora", "866a1a147bdda65e98cfeb5cb2811f67f5301c05064329535d8d4b4461521c3b"),
    "polblogs": RawSource(
        file_name="polblogs.npz",
        files=(RemoteFile("https://netset.telecom-paris.fr/datasets/polblogs.tar.gz"),),
        convert=_polblogs,
        fingerprint="feb8f58845b93cc7416d3304059df9b086f175c472b62af94eb8b1c43a173f11",
        directed=True,
    ),
    "chameleon": RawSource(
        file_name="chameleon.npz",
        files=(
            RemoteFile(
                "https://github.com/yandex-research/heterophilous-graphs/raw/main/data/chameleon_filtered.npz",
                sha256="bf46f07e1fb5249280447e5fe3100f3e82fc4b93ad1e13ffcfdec924b6ac0bb5",
            ),
        ),
        convert=lambda found: edge_npz_graph(found["chameleon_filtered.npz"], name="chameleon"),
        fingerprint="cb1cca13ca571d2a850d80b4eae3bec7ef206383a6c34a4fdea00ca900d1b1d7",
        directed=False,
    ),
    "wiki-cs": RawSource(
        file_name="wiki_cs.npz",
        files=(
            RemoteFile(
                "https://github.com/pmernyei/wiki-cs-dataset/raw/master/dataset/data.json",
                git_sha1="f1b743119df1a7a3bca449039c54034ae623a756",
            ),
        ),
        convert=lambda found: wiki_cs_graph(found["data.json"], name="wiki-cs"),
        fingerprint=None,
        directed=True,
    ),
}
"""The raw graphs that can be had by name."""


def raw_graph(name: str, *, data_dir: str | os.PathLike[str] | None = None, mirror: str | None = None) -> Graph:
    """Raw graph `name` as published: full graph, source node order, nothing selected.

    Taken from `<name>.npz` in the data folder or in the user's cache; where neither has it, downloaded,
    checked, converted and kept in the data folder (in the user's cache, if that folder cannot be written to).

    Parameters
    ----------
    name : str
        A key of `RAW_SOURCES`.
    data_dir : path, optional
        The data folder; else what LABELCERT_DATA_DIR names, else the user's cache.
    mirror : str, optional
        Base address that replaces the public ones; else what LABELCERT_MIRROR names.

    Examples
    --------
    >>> raw_graph("citeseer").n_nodes  # doctest: +SKIP
    3327
    """
    source = RAW_SOURCES[name]
    folder = data_folder(data_dir)
    for place in dict.fromkeys((folder, user_cache())):
        copy = place / source.file_name
        if copy.is_file():
            return _checked_copy(copy, name)
    graph = _download(name, mirror or os.environ.get(MIRROR_VARIABLE))
    target = _writable(folder) or _writable(user_cache())
    if target is not None:
        graph.to_npz(target / source.file_name)
    return graph


def _checked_copy(path: Path, name: str) -> Graph:
    source = RAW_SOURCES[name]
    try:
        graph = Graph.from_npz(path, name=name, directed=source.directed)
    except InvalidInput as error:
        # What ends such a message is advice on files of one's own; here it is another.
        problem = str(error).rpartition("; ")[0] or str(error)
        raise DataUnavailable(
            f"the local copy of {name} cannot be used: {problem}; delete {path}, so that it is downloaded "
            f"again, or name a folder with an intact copy in {DATA_DIR_VARIABLE}"
        ) from error
    if source.fingerprint is not None:
        found = graph.fingerprint()
        _require_checksum(found, source.fingerprint, f"the local copy {path}", remedy=f"delete {path}")
    return graph


def _download(name: str, mirror: str | None) -> Graph:
    source = RAW_SOURCES[name]
    found: dict[str, bytes] = {}
    with tempfile.TemporaryDirectory() as scratch:
        for remote in source.files:
            url = f"{mirror.rstrip('/')}/{remote.file_name}" if mirror else remote.url
            path = Path(scratch) / remote.file_name
            _transfer(url, path, name)
            content = path.read_bytes()
            if remote.sha256 is not None:
                _require_checksum(hashlib.sha256(content).hexdigest(), remote.sha256, url)
            if remote.git_sha1 is not None:
                _require_checksum(git_blob_sha1(content), remote.git_sha1, url)
            found[remote.file_name] = content
    try:
        graph = source.convert(found)
    except DataUnavailable as error:
        raise DataUnavailable(f"{error}; {_ways_out(name)}") from error
    if source.fingerprint is not None:
        _require_checksum(graph.fingerprint(), source.fingerprint, f"the graph made of the files of {name}")
    return graph


def _transfer(url: str, path: Path, name: str) -> None:
    import pooch
    import requests

    try:
        pooch.HTTPDownloader(timeout=TIMEOUT_SECONDS, chunk_size=_CHUNK)(url, str(path), None)
    except requests.HTTPError as error:
        raise DataUnavailable(f"{url} cannot be had ({error}); {_ways_out(name)}") from error
    except (requests.exceptions.ChunkedEncodingError, requests.exceptions.ContentDecodingError) as error:
        raise DataUnavailable(f"the transfer of {url} broke off ({error}); {_ways_out(name)}") from error
    except requests.RequestException as error:
        reason = "timed out" if isinstance(error, requests.Timeout) else type(error).__name__
        raise DataUnavailable(f"{url} cannot be reached ({reason}); {_ways_out(name)}") from error


def git_blob_sha1(content: bytes) -> str:
    """SHA-1 that git gives to a file with this content.

    Examples
    --------
    >>> git_blob_sha1(b"")
    'e69de29bb2d1d6434b8b29ae775ad8c2e48c5391'
    """
    header = b"blob %d\0" % len(content)
    return hashlib.sha1(header + content, usedforsecurity=False).hexdigest()


def _require_checksum(found: str, expected: str, what: str, *, remedy: str | None = None) -> None:
    if found != expected:
        raise DataUnavailable(
            f"{what} has the wrong checksum: expected {expected}, got {found}; "
            f"{remedy or 'try again later'}, or name a folder with an intact copy in {DATA_DIR_VARIABLE}"
        )


def _ways_out(name: str) -> str:
    file_name = RAW_SOURCES[name].file_name
    return f"try again with a network, or put {file_name} into a folder and name it in {DATA_DIR_VARIABLE}"


def _writable(folder: Path) -> Path | None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return None
    return folder if os.access(folder, os.W_OK) else None
