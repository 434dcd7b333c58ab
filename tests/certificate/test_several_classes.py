from __future__ import annotations

import json
import zipfile
from pathlib import Path

import numpy as np
import pytest
from tests.helpers.problems import blobs

from labelcert import Certificate, CertificateFileError, InvalidInput, certify, load
from labelcert.certificate import storage

NAMES = np.array(["ant", "bee", "cat", "dog"])


@pytest.fixture(scope="module")
def cert() -> Certificate:
    K, y, rows = blobs(12, 30)
    return certify(K, NAMES[y], rows, 5.0, max_flips=2)


def test_saved_and_loaded(cert: Certificate, tmp_path: Path) -> None:
    cert.save(tmp_path / "a.cert")
    again = load(tmp_path / "a.cert")
    for name in (*storage.ARRAYS, *storage.OPTIONAL_ARRAYS):
        assert np.array_equal(getattr(cert, name), getattr(again, name)), name
    assert again.run == cert.run
    assert repr(again) == repr(cert)
    assert [again.witness(t) for t in range(30)] == [cert.witness(t) for t in range(30)]
    assert again.takeovers(flips=2).equals(cert.takeovers(flips=2))
    with zipfile.ZipFile(tmp_path / "a.cert") as archive:
        assert json.loads(archive.read("metadata.json"))["schema_version"] == 4


def test_files_of_another_version_are_refused(cert: Certificate, tmp_path: Path) -> None:
    cert.save(tmp_path / "new.cert")
    with zipfile.ZipFile(tmp_path / "new.cert") as source, zipfile.ZipFile(tmp_path / "old.cert", "w") as target:
        for name in source.namelist():
            if name == "metadata.json":
                target.writestr(name, json.dumps({**json.loads(source.read(name)), "schema_version": 1}))
            else:
                target.writestr(name, source.read(name))
    with pytest.raises(CertificateFileError, match=r"schema version 1.*reads version 4.*certify again"):
        load(tmp_path / "old.cert")


@pytest.mark.parametrize("part", ["node_attacks_targets", "new_classes", "decision_values"])
def test_damaged_files_are_refused(cert: Certificate, tmp_path: Path, part: str) -> None:
    cert.save(tmp_path / "a.cert")
    with zipfile.ZipFile(tmp_path / "a.cert") as source, zipfile.ZipFile(tmp_path / "bad.cert", "w") as target:
        for name in source.namelist():
            if name == f"{part}.npy":
                with target.open(name, "w") as member:
                    np.lib.format.write_array(member, np.full(30, 9), allow_pickle=False)
            else:
                target.writestr(name, source.read(name))
    with pytest.raises(CertificateFileError, match="contradict"):
        load(tmp_path / "bad.cert")


def test_scores_and_frames(cert: Certificate) -> None:
    assert cert.decision_values.shape == (30, 4)
    assert np.array_equal(cert.classes[cert.decision_values.argmax(axis=1)], cert.predictions)
    frame = cert.to_frame()
    assert np.array_equal(frame["decision_value"], cert.decision_values.max(axis=1))
    assert np.all(frame["runner_up"] != frame["prediction"])
    assert len(cert.curve_frame()) == 3
    assert cert.certified_accuracy(cert.predictions, flips=0) == 1.0
    assert "12 labels of 4 classes" in repr(cert)


def test_takeovers_count_vulnerable_nodes(cert: Certificate) -> None:
    for b in range(3):
        counts = cert.takeovers(flips=b)
        assert counts.to_numpy().sum() == np.sum(cert.radius_upper <= b)
        assert np.all(np.diag(counts.to_numpy()) == 0)
        assert list(counts.index) == list(counts.columns) == NAMES.tolist()
    by_row = cert.takeovers(flips=2).sum(axis=1)
    for name in NAMES:
        assert by_row[name] == np.sum((cert.predictions == name) & (cert.radius_upper <= 2))
    with pytest.raises(InvalidInput):
        cert.takeovers(flips=9)
