from __future__ import annotations

import io
import json
import pickle
import zipfile
from pathlib import Path

import numpy as np
import pytest
from tests.helpers.problems import gaussian

import labelcert
from labelcert import CertificateFileError, certify
from labelcert.graphs import karate
from labelcert.models import SGC


def test_numpy_options_can_be_saved(tmp_path: Path) -> None:
    K, y, rows = gaussian(8, 5)
    threat = labelcert.Threat(groups=np.arange(8) % 2, group_budgets=np.int64(1))
    made = certify(K, y, rows, 2.0, threat=threat, time_limit=np.float32(5))
    made.save(tmp_path / "result.cert")
    assert labelcert.load(tmp_path / "result.cert").run == made.run


def test_round_trip(cert: labelcert.Certificate, tmp_path: Path) -> None:
    path = tmp_path / "result.cert"
    cert.save(path)
    again = labelcert.load(path)
    for name in (
        "predictions",
        "radius_lower",
        "radius_upper",
        "collective_lower",
        "collective_upper",
        "labels",
        "new_classes",
        "curve_changed",
    ):
        assert np.array_equal(getattr(again, name), getattr(cert, name))
    assert again.run == cert.run
    assert again.settings == cert.settings
    assert [again.witness(t) for t in range(25)] == [cert.witness(t) for t in range(25)]
    assert again.collective_witness(3) == cert.collective_witness(3)
    assert again.test_names is None
    assert not list(tmp_path.glob("*.partial"))


def test_names_are_kept(tmp_path: Path) -> None:
    made = SGC(C=0.1).certify(karate(), [0, 1, 32, 33], [5, 30])
    made.save(tmp_path / "result.cert")
    again = labelcert.load(tmp_path / "result.cert")
    for name in ("test_names", "label_names", "class_list"):
        assert np.array_equal(getattr(again, name), getattr(made, name))


def test_readable_without_labelcert(cert: labelcert.Certificate, tmp_path: Path) -> None:
    path = tmp_path / "result.cert"
    cert.save(path)
    with np.load(path, allow_pickle=False) as arrays:
        assert np.array_equal(arrays["radius_lower"], cert.radius_lower)
    with zipfile.ZipFile(path) as archive:
        metadata = json.loads(archive.read("metadata.json"))
    assert (metadata["schema"], metadata["schema_version"]) == ("labelcert-certificate", 4)
    assert metadata["run"]["stopped"] == "finished"


def damage(path: Path, how: str) -> None:
    data = path.read_bytes()
    if how == "truncated":
        path.write_bytes(data[: len(data) // 2])
    elif how == "flipped byte":
        middle = data.index(b"radius_lower.npy") + 40
        path.write_bytes(data[:middle] + bytes([data[middle] ^ 0xFF]) + data[middle + 1 :])
    elif how == "text":
        path.write_text("hello")
    elif how == "empty":
        path.write_bytes(b"")
    elif how == "foreign zip":
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("a.txt", "b")
    else:
        damage_inside(path, how)


def damage_inside(path: Path, how: str) -> None:
    with zipfile.ZipFile(path) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    metadata = json.loads(parts["metadata.json"])
    if how == "newer":
        metadata["schema_version"] = 99
    elif how == "foreign schema":
        metadata["schema"] = "something-else"
    elif how == "older":
        metadata["schema_version"] = 2
    elif how == "no run":
        del metadata["run"]
    elif how == "garbled run":
        metadata["run"]["stopped"] = "tired"
    elif how == "missing array":
        del parts["radius_upper.npy"]
    elif how == "contradiction":
        parts["radius_upper.npy"] = parts["collective_lower.npy"]
    elif how == "pickle":
        buffer = io.BytesIO()
        np.lib.format.write_array(buffer, np.array([{}], dtype=object), allow_pickle=True)
        parts["labels.npy"] = buffer.getvalue()
        assert pickle.PROTO in buffer.getvalue()
    parts["metadata.json"] = json.dumps(metadata).encode()
    with zipfile.ZipFile(path, "w") as archive:
        for name, part in parts.items():
            archive.writestr(name, part)


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ("truncated", "not a labelcert certificate, or is damaged"),
        ("flipped byte", "damaged"),
        ("text", "not a labelcert certificate, or is damaged"),
        ("empty", "not a labelcert certificate, or is damaged"),
        ("foreign zip", "no metadata.json"),
        ("foreign schema", "schema is not"),
        ("newer", "schema version 99"),
        ("older", "schema version 2"),
        ("no run", "lacks or garbles 'run'"),
        ("garbled run", "lacks or garbles"),
        ("missing array", "radius_upper.npy is missing"),
        ("contradiction", "contradict each other"),
        ("pickle", "labels.npy cannot be read"),
    ],
)
def test_damaged_files(cert: labelcert.Certificate, tmp_path: Path, how: str, message: str) -> None:
    path = tmp_path / "result.cert"
    cert.save(path)
    damage(path, how)
    with pytest.raises(CertificateFileError, match=message):
        labelcert.load(path)


def test_random_damage_is_always_a_clear_error(cert: labelcert.Certificate, tmp_path: Path) -> None:
    path = tmp_path / "result.cert"
    cert.save(path)
    data = bytearray(path.read_bytes())
    rng = np.random.default_rng(0)
    for _ in range(300):
        broken = data.copy()
        for position in rng.integers(0, len(data), 3):
            broken[position] = rng.integers(0, 256)
        path.write_bytes(broken)
        try:
            again = labelcert.load(path)
        except CertificateFileError:
            continue
        assert np.array_equal(again.radius_lower, cert.radius_lower)


def test_missing_file(tmp_path: Path) -> None:
    with pytest.raises(CertificateFileError, match="there is no file"):
        labelcert.load(tmp_path / "nothing")
