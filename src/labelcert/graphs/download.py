"""Raw graphs, read from a local copy or downloaded from their public address.

A local copy is one npz in the format of `Graph.to_npz`. A downloaded file is checked against its known checksum,
and every raw graph, local or converted, against its known fingerprint.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import platformdirs

from labelcert.errors import DataUnavailable, InvalidInput
from labelcert.graphs.graph import Graph

DATA_DIR_VARIABLE = "LABELCERT_DATA_DIR"
"""Environment variable that names the folder with local copies of the datasets."""
MIRROR_VARIABLE = "LABELCERT_MIRROR"
"""Environment variable with a base address that replaces the public ones; file names stay the same."""
TIMEOUT_SECONDS = 30
"""How long a server may stay silent."""

_CHUNK = 1 << 20


@dataclass(frozen=True)
class RemoteFile:
    """A published file: its address and, if known, its checksum."""

    url: str
    sha256: str | None = None
    git_sha1: str | None = None

    @property
    def file_name(self) -> str:
        """Last part of the address."""
        return self.url.rsplit("/", 1)[-1]


@dataclass(frozen=True)
class RawSource:
    """Where a raw graph comes from."""

    name: str
    files: tuple[RemoteFile, ...]
    convert: Callable[[Mapping[str, bytes]], Graph]
    """Turns the contents of the published files, by file name, into the graph."""
    directed: bool
    fingerprint: str | None
    """`Graph.fingerprint` of the raw graph, if known."""

    @property
    def copy_name(self) -> str:
        """File name of the local copy."""
        return f"{self.name.replace('-', '_')}.npz"


def data_folder(data_dir: str | os.PathLike[str] | None = None) -> Path:
    """Return `data_dir` if given, else the folder that LABELCERT_DATA_DIR names, else the user's cache."""
    named = data_dir if data_dir is not None else os.environ.get(DATA_DIR_VARIABLE)
    return Path(named).expanduser() if named else user_cache()


def user_cache() -> Path:
    """Return the folder in the user's cache that holds downloaded datasets."""
    return platformdirs.user_cache_path("labelcert", appauthor=False, opinion=False)


def raw_graph(source: RawSource, *, data_dir: str | os.PathLike[str] | None = None, mirror: str | None = None) -> Graph:
    """Return the raw graph as published: the full graph, nodes in their original order.

    The graph is read from its local copy in the data folder (see `data_folder`) or in the user's cache. Without a
    copy, it is downloaded from `mirror`, from the one that LABELCERT_MIRROR names or from the public addresses. It is
    checked, converted and stored in the data folder, or in the user's cache if that folder is not writable.
    """
    folder = data_folder(data_dir)
    for place in dict.fromkeys((folder, user_cache())):
        copy = place / source.copy_name
        if copy.is_file():
            return _checked_copy(copy, source)
    graph = _download(source, mirror or os.environ.get(MIRROR_VARIABLE))
    target = _writable(folder) or _writable(user_cache())
    if target is not None:
        graph.to_npz(target / source.copy_name)
    return graph


def require_checksum(found: str, expected: str, what: str, *, remedy: str = "try again later") -> None:
    """Refuse data whose checksum is not the known one."""
    if found != expected:
        raise DataUnavailable(
            f"{what} has the wrong checksum: expected {expected}, got {found}; "
            f"{remedy}, or name a folder with an intact copy in {DATA_DIR_VARIABLE}"
        )


def git_blob_sha1(content: bytes) -> str:
    """Return the SHA-1 that git gives to a file with this content."""
    header = b"blob %d\0" % len(content)
    return hashlib.sha1(header + content, usedforsecurity=False).hexdigest()


def _checked_copy(path: Path, source: RawSource) -> Graph:
    try:
        graph = Graph.from_npz(path, name=source.name, directed=source.directed)
    except InvalidInput as error:
        # The message ends with advice for the user's own files, which does not apply to a dataset.
        problem = str(error).rpartition("; ")[0] or str(error)
        raise DataUnavailable(
            f"the local copy of {source.name} cannot be used: {problem}; delete {path} to download it again, "
            f"or name a folder with an intact copy in {DATA_DIR_VARIABLE}"
        ) from error
    if source.fingerprint is not None:
        require_checksum(graph.fingerprint(), source.fingerprint, f"the local copy {path}", remedy=f"delete {path}")
    return graph


def _download(source: RawSource, mirror: str | None) -> Graph:
    found: dict[str, bytes] = {}
    with tempfile.TemporaryDirectory() as scratch:
        for remote in source.files:
            url = f"{mirror.rstrip('/')}/{remote.file_name}" if mirror else remote.url
            path = Path(scratch) / remote.file_name
            _transfer(url, path, source)
            content = path.read_bytes()
            if remote.sha256 is not None:
                require_checksum(hashlib.sha256(content).hexdigest(), remote.sha256, url)
            if remote.git_sha1 is not None:
                require_checksum(git_blob_sha1(content), remote.git_sha1, url)
            found[remote.file_name] = content
    try:
        graph = source.convert(found)
    except DataUnavailable as error:
        raise DataUnavailable(f"{error}; {_ways_out(source)}") from error
    if source.fingerprint is not None:
        require_checksum(graph.fingerprint(), source.fingerprint, f"the graph built from the files of {source.name}")
    return graph


def _transfer(url: str, path: Path, source: RawSource) -> None:
    import pooch
    import requests

    try:
        pooch.HTTPDownloader(timeout=TIMEOUT_SECONDS, chunk_size=_CHUNK)(url, str(path), None)
    except requests.HTTPError as error:
        raise DataUnavailable(f"{url} is not available ({error}); {_ways_out(source)}") from error
    except (requests.exceptions.ChunkedEncodingError, requests.exceptions.ContentDecodingError) as error:
        raise DataUnavailable(f"the transfer of {url} broke off ({error}); {_ways_out(source)}") from error
    except requests.RequestException as error:
        reason = "timed out" if isinstance(error, requests.Timeout) else type(error).__name__
        raise DataUnavailable(f"{url} cannot be reached ({reason}); {_ways_out(source)}") from error


def _ways_out(source: RawSource) -> str:
    return (
        f"try again with a network connection, or put {source.copy_name} into a folder and name that folder in "
        f"{DATA_DIR_VARIABLE}"
    )


def _writable(folder: Path) -> Path | None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return None
    return folder if os.access(folder, os.W_OK) else None
