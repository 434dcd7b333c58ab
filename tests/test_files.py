"""Files that appear whole, and are read within limits."""

from __future__ import annotations

import gzip
import os
import zipfile
from pathlib import Path

import numpy as np
import pytest

from labelcert import Graph, InvalidInput
from labelcert.checking import whole_number
from labelcert.files import replacing, write_archive, write_text
from labelcert.reading import Archive, read_bytes, read_text


def test_links_and_devices_stay_what_they_are(tmp_path: Path) -> None:
    (tmp_path / "real.txt").write_text("old")
    (tmp_path / "link.txt").symlink_to("real.txt")
    write_text(tmp_path / "link.txt", "new")
    assert (tmp_path / "link.txt").is_symlink()
    assert (tmp_path / "real.txt").read_text() == "new"
    os.mkfifo(tmp_path / "pipe")
    reading = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    write_text(tmp_path / "pipe", "through")
    assert os.read(reading, 100) == b"through"
    os.close(reading)
    assert not (tmp_path / "pipe").is_file()


def test_nothing_is_left_of_a_file_that_failed(tmp_path: Path) -> None:
    (tmp_path / "a.txt.partial").write_text("somebody's own")
    with pytest.raises(UnicodeEncodeError), replacing(tmp_path / "a.txt") as partial:
        partial.write_text("half \udc80", encoding="utf-8")
    assert [path.name for path in tmp_path.iterdir()] == ["a.txt.partial"]
    write_text(tmp_path / ("x" * 250), "long names, too")


def test_what_packs_well_is_read_again(tmp_path: Path) -> None:
    zeros = np.zeros(60_000_000)
    write_archive(tmp_path / "a.npz", {"zeros": zeros, "few": np.arange(3)})
    with Archive(tmp_path / "a.npz") as archive:
        assert archive.array("zeros").shape == zeros.shape
    n = 2500
    graph = Graph(np.zeros((n, n)), np.eye(n), np.arange(n) % 2)
    assert Graph.from_npz(graph.to_npz(tmp_path / "graph.npz")).fingerprint() == graph.fingerprint()


def test_small_packed_files_take_little_memory(tmp_path: Path) -> None:
    with gzip.open(tmp_path / "a.csv.gz", "wb") as stream:
        stream.write(b"a,b\n1,2\n")
    assert read_text(tmp_path / "a.csv.gz") == "a,b\n1,2\n"
    (tmp_path / "large").write_bytes(bytes(4096))
    with pytest.raises(OSError, match="has 4,096 bytes, more than the 10"):
        read_bytes(tmp_path / "large", most=10)


def test_a_directory_that_lies_about_its_size(tmp_path: Path) -> None:
    path = tmp_path / "bomb.npz"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive, archive.open("a.npy", "w") as part:
        for _ in range(300):
            part.write(bytes(1 << 20))
    content = bytearray(path.read_bytes())
    directory = content.rindex(b"PK\x01\x02")
    content[directory + 20 : directory + 24] = (2**31 - 1).to_bytes(4, "little")
    path.write_bytes(bytes(content))
    with pytest.raises(ValueError, match="unpack"):
        Archive(path)


@pytest.mark.parametrize("value", [2.0, True, np.True_, np.array(2), np.array(2.0), np.array("a"), "2", None])
def test_what_is_no_whole_number(value: object) -> None:
    with pytest.raises(InvalidInput, match="n must be a whole number of at least 0"):
        whole_number("n", value)
    assert whole_number("n", np.int8(2)) == 2
