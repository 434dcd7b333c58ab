from __future__ import annotations

import json
import zipfile
from pathlib import Path

import numpy as np
import pytest
from tests.multiclass.test_engines import blobs

from labelcert import CertificateFileError, InvalidInput, Threat, certify, load
from labelcert.certificate import Certificate
from labelcert.pictures import radius_figure, ratio_figure, takeover_figure
from labelcert.tables import takeover_table

NAMES = np.array(["ant", "bee", "cat", "dog"])


@pytest.fixture(scope="module")
def cert() -> Certificate:
    K, y, rows = blobs(12, 30)
    return certify(K, NAMES[y], rows, 5.0, max_flips=2)


def test_saved_and_loaded(cert: Certificate, tmp_path: Path) -> None:
    cert.save(tmp_path / "a.cert")
    again = load(tmp_path / "a.cert")
    for name, array in cert._arrays().items():
        assert np.array_equal(array, again._arrays()[name]), name
    assert repr(again) == repr(cert)
    assert [again.witness(t) for t in range(30)] == [cert.witness(t) for t in range(30)]
    assert again.takeovers(flips=2).equals(cert.takeovers(flips=2))
    with zipfile.ZipFile(tmp_path / "a.cert") as archive:
        assert json.loads(archive.read("metadata.json"))["schema_version"] == 2


def test_files_of_the_first_version_are_read(tmp_path: Path) -> None:
    K, y, rows = blobs(8, 3)
    cert = certify(K, y % 2, rows, 5.0)
    cert.save(tmp_path / "new.cert")
    with (
        zipfile.ZipFile(tmp_path / "new.cert") as source,
        zipfile.ZipFile(tmp_path / "old.cert", "w") as target,
    ):
        assert "node_targets.npy" not in source.namelist()
        for name in source.namelist():
            if name == "metadata.json":
                target.writestr(name, json.dumps({**json.loads(source.read(name)), "schema_version": 1}))
            elif not name.endswith("_proved_by.npy"):
                target.writestr(name, source.read(name))
    old = load(tmp_path / "old.cert")
    assert np.array_equal(old.radius_lower, cert.radius_lower)
    assert set(old.radius_proved_by) == {cert.engine}


@pytest.mark.parametrize("part", ["node_targets", "new_classes", "decision_values"])
def test_damaged_files_are_refused(cert: Certificate, tmp_path: Path, part: str) -> None:
    cert.save(tmp_path / "a.cert")
    with (
        zipfile.ZipFile(tmp_path / "a.cert") as source,
        zipfile.ZipFile(tmp_path / "bad.cert", "w") as target,
    ):
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
    assert "4 classes" in repr(cert)


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


def test_pictures_and_tables(cert: Certificate) -> None:
    assert takeover_table(cert).row_count == 4
    assert takeover_figure(cert, flips=1).axes[0].get_ylabel() == "predicted (nodes)"
    nothing = certify(np.eye(3), ["x", "y", "z"], np.eye(3), 1.0, threat=Threat(trusted=[True] * 3))
    takeover_figure(nothing, title="nothing changes")
    ratio_figure([("a", cert)])
    radius_figure([("a", cert)])


@pytest.mark.parametrize(
    ("threat", "message"),
    [
        (Threat(allowed_targets=[["ant"]]), r"one entry per label \(12\).*got 1 entries"),
        (Threat(allowed_targets={"ant": ["bee"]}), r"one entry per label.*got dict"),  # type: ignore[arg-type]
        (Threat(allowed_targets=[["eel"]] + [None] * 11), r"names the label 'eel'"),
        (Threat(allowed_flips={"ant": ["eel"]}), r"names the label 'eel'"),
    ],
)
def test_targets_are_checked(threat: Threat, message: str) -> None:
    K, y, rows = blobs(12, 3)
    with pytest.raises(InvalidInput, match=message):
        certify(K, NAMES[y], rows, 5.0, threat=threat, max_flips=1)


def test_allowed_targets_with_two_classes() -> None:
    K, y, rows = blobs(8, 10)
    two = y % 2
    some = Threat(allowed_targets=[[1]] * 4 + [None] * 4)
    may = np.array([*(two[:4] == 0), *[True] * 4])
    same = certify(K, two, rows, 5.0, threat=Threat(trusted=~may))
    assert np.array_equal(certify(K, two, rows, 5.0, threat=some).radius_lower, same.radius_lower)
    assert "allowed_targets=4 lists" in repr(some)
    assert certify(K, two, rows, 5.0, threat=some).settings["threat"]["allowed_targets"][0] == ["1"]


def test_regression_targets_are_refused() -> None:
    rng = np.random.default_rng(0)
    with pytest.raises(InvalidInput, match="regression targets"):
        certify(np.eye(60), rng.normal(size=60), np.eye(60), 1.0)
