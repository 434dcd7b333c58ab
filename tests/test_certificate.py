from __future__ import annotations

import json
import zipfile
from pathlib import Path

import numpy as np
import pytest

import labelcert
from labelcert import CertificateFileError, InvalidInput, certify
from tests.problems import gaussian


@pytest.fixture(scope="module")
def cert() -> labelcert.Certificate:
    K, y, rows = gaussian(10, 25)
    return certify(K, np.array(["no", "yes"])[y], rows, 2.0)


def test_ratios_follow_from_radii_and_curve(cert: labelcert.Certificate) -> None:
    for b in range(11):
        assert cert.certified_ratio(b) == cert.certified_ratio(flips=b) == np.mean(cert.radius_lower > b)
        assert cert.certified_ratio(flips=b, collective=True) == 1 - cert.collective_lower[b] / 25
    assert cert.certified_ratio(0.1) == cert.certified_ratio(fraction=0.1) == cert.certified_ratio(flips=1)
    truth = cert.predictions.copy()
    truth[:5] = np.where(truth[:5] == "no", "yes", "no")
    expected = np.mean((cert.radius_lower > 1) & (np.arange(25) >= 5))
    assert cert.certified_accuracy(truth, flips=1) == expected


def test_verdicts(cert: labelcert.Certificate) -> None:
    verdicts = cert.verdicts(flips=1)
    assert set(verdicts) <= {"robust", "vulnerable"}
    assert np.array_equal(verdicts == "robust", cert.radius_lower > 1)


def test_collective_is_bounded_by_sample_wise(cert: labelcert.Certificate) -> None:
    for b in range(11):
        assert cert.collective_lower[b] <= np.sum(cert.radius_lower <= b)
    assert np.all(np.diff(cert.collective_lower) >= 0)


def test_frame(cert: labelcert.Certificate) -> None:
    frame = cert.to_frame()
    assert list(frame.columns) == [
        "prediction",
        "decision_value",
        "radius_lower",
        "radius_upper",
        "exact",
        "proved_by",
        "witness",
    ]
    assert len(frame) == 25
    assert len(cert.curve_frame()) == 11


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "give one budget"),
        ({"flips": 1, "fraction": 0.1}, "give one budget"),
        ({"flips": 11}, "covers budgets 0 to 10, got 11"),
        ({"flips": 1, "bound": "middle"}, "bound must be"),
        ({"fraction": 2.0}, "between 0 and 1"),
    ],
)
def test_bad_budgets(cert: labelcert.Certificate, options: dict[str, object], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        cert.certified_ratio(**options)  # type: ignore[arg-type]


def test_bad_queries(cert: labelcert.Certificate) -> None:
    with pytest.raises(InvalidInput, match="no test node 25"):
        cert.witness(25)
    with pytest.raises(InvalidInput, match="covers budgets"):
        cert.collective_witness(11)
    with pytest.raises(InvalidInput, match="one entry per test node"):
        cert.certified_accuracy(["no"], flips=1)
    with pytest.raises(InvalidInput, match="labels' own values"):
        cert.certified_accuracy(np.zeros(25, dtype=int), flips=1)


def test_the_labels_given_stay_the_callers() -> None:
    K, y, rows = gaussian(8, 5)
    labels = y.copy()
    made = certify(K, labels, rows, 2.0)
    before = [made.witness(t) for t in range(5)]
    labels[:] = 1 - labels
    assert [made.witness(t) for t in range(5)] == before


def test_numpy_options_can_be_saved(tmp_path: Path) -> None:
    K, y, rows = gaussian(8, 5)
    threat = labelcert.Threat(groups=np.arange(8) % 2, group_budgets=np.int64(1))
    made = certify(K, y, rows, 2.0, threat=threat, time_limit=np.float32(5))
    made.save(tmp_path / "result.cert")
    assert labelcert.load(tmp_path / "result.cert").settings == made.settings


def test_arrays_are_read_only(cert: labelcert.Certificate) -> None:
    with pytest.raises(ValueError, match="read-only"):
        cert.radius_lower[0] = 5


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
    ):
        assert np.array_equal(getattr(again, name), getattr(cert, name))
    assert again.settings == cert.settings
    assert [again.witness(t) for t in range(25)] == [cert.witness(t) for t in range(25)]
    assert again.collective_witness(3) == cert.collective_witness(3)
    assert not list(tmp_path.glob("*.partial"))


def test_settings_are_recorded(cert: labelcert.Certificate) -> None:
    assert cert.settings["versions"]["labelcert"] == labelcert.__version__
    assert len(cert.settings["problem_sha256"]) == 64
    assert cert.settings["stopped"] == "finished"
    K, y, rows = gaussian(10, 25)
    other = certify(K, np.array(["no", "yes"])[y], rows, 2.0, max_flips=3)
    assert other.settings["problem_sha256"] != cert.settings["problem_sha256"]


def test_readable_without_labelcert(cert: labelcert.Certificate, tmp_path: Path) -> None:
    path = tmp_path / "result.cert"
    cert.save(path)
    with np.load(path, allow_pickle=False) as arrays:
        assert np.array_equal(arrays["radius_lower"], cert.radius_lower)
    with zipfile.ZipFile(path) as archive:
        assert json.loads(archive.read("metadata.json"))["schema"] == "labelcert-certificate"


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
        with zipfile.ZipFile(path) as archive:
            parts = {name: archive.read(name) for name in archive.namelist()}
        metadata = json.loads(parts["metadata.json"])
        if how == "newer":
            metadata["schema_version"] = 99
        elif how == "foreign schema":
            metadata["schema"] = "something-else"
        elif how == "no settings":
            del metadata["settings"]
        elif how == "missing array":
            del parts["radius_upper.npy"]
        elif how == "contradiction":
            parts["radius_upper.npy"] = parts["collective_lower.npy"]
        elif how == "pickle":
            import io
            import pickle

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
        ("no settings", "lacks or garbles 'settings'"),
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
