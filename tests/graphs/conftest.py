"""Fixtures that several tests share: local datasets, a local server, pickles as Python 2 wrote them."""

from __future__ import annotations

import os
import struct
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

NAMED_FOLDER = os.environ.get("LABELCERT_DATA_DIR")
SHARED_FOLDER = Path(__file__).resolve().parents[2].parent / "shared" / "datasets"


@pytest.fixture
def dataset_folder() -> Path:
    """Folder with local copies of the real graphs; tests that need it are skipped if there is none."""
    for folder in (NAMED_FOLDER, SHARED_FOLDER):
        if folder and (Path(folder) / "cora_ml.npz").is_file():
            return Path(folder)
    pytest.skip("no local copies of the datasets: name a folder in LABELCERT_DATA_DIR")


@pytest.fixture(autouse=True)
def _nothing_from_this_user(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for variable in ("LABELCERT_DATA_DIR", "LABELCERT_MIRROR"):
        monkeypatch.delenv(variable, raising=False)
    for variable in ("XDG_CACHE_HOME", "LOCALAPPDATA", "HOME"):
        monkeypatch.setenv(variable, str(tmp_path / "home"))
    for variable in ("NO_PROXY", "no_proxy"):
        monkeypatch.setenv(variable, "127.0.0.1")


@dataclass
class LocalServer:
    """A server on this machine, its files, and the requests that it received."""

    url: str
    files: dict[str, bytes] = field(default_factory=dict)
    announced_length: dict[str, int] = field(default_factory=dict)
    requests: list[str] = field(default_factory=list)


@pytest.fixture
def server() -> Iterator[LocalServer]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            name = self.path.rsplit("/", 1)[-1]
            local.requests.append(name)
            if name not in local.files:
                self.send_error(404)
                return
            content = local.files[name]
            self.send_response(200)
            self.send_header("Content-Length", str(local.announced_length.get(name, len(content))))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: Any) -> None:
            pass

    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    local = LocalServer(f"http://127.0.0.1:{http.server_address[1]}")
    thread = threading.Thread(target=http.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    yield local
    http.shutdown()
    http.server_close()
    thread.join()


@pytest.fixture(scope="session")
def python2_pickle() -> Callable[[Any], bytes]:
    """Writes data as Python 2's cPickle did (protocol 2): byte strings, old module names, memo entries."""
    return lambda value: b"\x80\x02" + _instructions(value) + b"."


def _instructions(value: Any) -> bytes:
    if isinstance(value, int):
        return b"J" + struct.pack("<i", value) if not 0 <= value < 256 else b"K" + bytes([value])
    if isinstance(value, bytes):
        return b"T" + struct.pack("<i", len(value)) + value
    if isinstance(value, str):
        return b"U" + bytes([len(value)]) + value.encode("ascii") + b"q\x07"
    if isinstance(value, list):
        return b"](" + b"".join(map(_instructions, value)) + b"e"
    if isinstance(value, tuple):
        return b"(" + b"".join(map(_instructions, value)) + b"t"
    if isinstance(value, defaultdict):
        return b"ccollections\ndefaultdict\nq\x01c__builtin__\nlist\nq\x02\x85R" + _items(value)
    if isinstance(value, dict):
        return b"}" + _items(value)
    if isinstance(value, np.dtype):
        code = _instructions(value.str[1:]) + b"K\x00K\x01\x87R"
        return b"cnumpy\ndtype\n" + code + b"(K\x03U\x01<NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb"
    if isinstance(value, np.ndarray):
        start = b"cnumpy.core.multiarray\n_reconstruct\nq\x03cnumpy\nndarray\nK\x00\x85U\x01b\x87R"
        state = _instructions(value.shape) + _instructions(value.dtype) + b"\x89" + _instructions(value.tobytes())
        return start + b"(K\x01" + state + b"tb"
    if sp.issparse(value):
        state = {"_shape": tuple(map(int, value.shape)), "maxprint": 50}
        arrays = {part: getattr(value, part) for part in ("indptr", "indices", "data")}
        return b"cscipy.sparse.csr\ncsr_matrix\nq\x04)\x81}" + _items({**state, **arrays}) + b"b"
    raise TypeError(type(value))


def _items(value: dict[Any, Any]) -> bytes:
    return b"(" + b"".join(_instructions(k) + _instructions(v) for k, v in value.items()) + b"u"
