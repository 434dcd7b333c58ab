"""Files that somebody made to harm: bombs, devices, lies in headers."""

from __future__ import annotations

import gzip
import io
import json
import shutil
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import labelcert
from labelcert._version import NUMERICS
from labelcert.examples import two_clouds
from labelcert.jobs.store import JOURNAL, _line
from tests.faults.registry import fault, program

STUDY = 'flips = [1]\nseeds = [0]\n[[datasets]]\nname = "karate"\n[[models]]\nname = "gcn"\nC = 0.1\n'


def npy(array: Any, header: bytes | None = None) -> bytes:
    """An array as a file, with another header if one is given."""
    stream = io.BytesIO()
    np.lib.format.write_array(stream, np.asarray(array))
    content = stream.getvalue()
    if header is None:
        return content
    start = 10 + int.from_bytes(content[8:10], "little")
    padded = header + b" " * (-(len(header) + 11) % 64) + b"\n"
    return content[:8] + len(padded).to_bytes(2, "little") + padded + content[start:]


def rewritten(source: Path, target: Path, change: Mapping[str, Callable[[bytes], bytes]]) -> None:
    """A copy of an archive in which some members are others; all checksums of the archive are valid."""
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(target, "w") as new:
        for name in old.namelist():
            content = old.read(name)
            new.writestr(name, change[name](content) if name in change else content)


def certificate(folder: Path) -> Path:
    """A file with a certificate."""
    data = two_clouds()
    labelcert.certify(data.K_train, data.labels, data.K_test, C=1.0, max_flips=3).save(folder / "good.cert")
    return folder / "good.cert"


def with_array(name: str, change: Callable[[Any], Any]) -> dict[str, Callable[[bytes], bytes]]:
    """One array of a certificate is another."""
    return {f"{name}.npy": lambda content: npy(change(np.lib.format.read_array(io.BytesIO(content))))}


def with_metadata(**values: Any) -> dict[str, Callable[[bytes], bytes]]:
    """Some entries of a certificate's metadata are others; None removes one."""

    def change(content: bytes) -> bytes:
        metadata = json.loads(content)
        for name, value in values.items():
            where, _, key = name.rpartition("__")
            place = metadata[where] if where else metadata
            if value is None:
                del place[key]
            else:
                place[key] = value
        return json.dumps(metadata).encode()

    return {"metadata.json": change}


NONSENSE: dict[str, dict[str, Callable[[bytes], bytes]]] = {
    "a radius of -3": with_array("radius_lower", lambda r: r * 0 - 3),
    "a radius of 1.5": with_array("radius_lower", lambda r: r * 0 + 1.5),
    "a radius above never": with_array("radius_upper", lambda r: r + 99),
    "never = -5": with_metadata(never=-5),
    "never = 2.5": with_metadata(never=2.5),
    "a curve above n": with_array("collective_upper", lambda c: c + 60),
    "a curve that falls": with_array("collective_upper", lambda c: c[::-1].copy()),
    "max_flips = Infinity": with_metadata(max_flips=float("inf")),
    "max_flips = true": with_metadata(max_flips=True),
    "no settings": with_metadata(run=None),
    "no engine": with_metadata(run__stages=None),
    "a list of settings": with_metadata(run=[]),
    "C = text": with_metadata(run__C="large"),
    "an unknown reason to stop": with_metadata(run__stopped="bored"),
    "a header of 10^12 entries": {
        "radius_lower.npy": lambda c: npy([1], b"{'descr': '<i8', 'fortran_order': False, 'shape': (1000000000000,), }")
    },
    "a header of nothing, 10^12 times": {
        "radius_proved_by.npy": lambda c: npy(
            [1], b"{'descr': '<U0', 'fortran_order': False, 'shape': (1000000000000,), }"
        )
    },
    "a pickled object": {"labels.npy": lambda c: npy([1], b"{'descr': '|O', 'fortran_order': False, 'shape': (1,), }")},
    "numbers instead of engines": with_array("radius_proved_by", lambda p: np.zeros(p.shape)),
    "classes twice": with_array("classes", lambda c: c[[0, 0]]),
    "labels of no class": with_array("labels", lambda y: np.full(y.shape, "nobody")),
    "an attack on label 10^9": with_array("node_attacks_labels", lambda a: a + 10**9),
    "an attack that changes nothing": with_array("curve_changed", lambda c: c & False),
    "metadata nested 10^5 deep": {"metadata.json": lambda c: b"[" * 10**5},
    "metadata that is no text": {"metadata.json": lambda c: b"\xff\xfe"},
}


@fault("radius −3 or 1.5, never = −5, a ratio of −9.0 loaded; Infinity, missing settings, 10¹² entries crashed")
def nonsense_in_certificates(folder: Path) -> str:
    """Certificates with valid checksums and nonsense inside."""
    good = certificate(folder)
    for what, change in NONSENSE.items():
        rewritten(good, folder / "bad.cert", change)
        with pytest.raises(labelcert.CertificateFileError) as refused:
            labelcert.load(folder / "bad.cert")
        assert "\n" not in str(refused.value), what
    rewritten(good, folder / "bad.cert", NONSENSE["a curve above n"])
    said = program("show", "bad.cert", cwd=folder).refused("the curve")
    return f"all {len(NONSENSE)} kinds refused; {said}"


@fault("the second one counted")
def a_member_twice(folder: Path) -> str:
    """A certificate with two radii."""
    shutil.copy(certificate(folder), folder / "bad.cert")
    with zipfile.ZipFile(folder / "bad.cert", "a") as archive:
        archive.writestr("radius_lower.npy", npy(np.zeros(12, dtype=int)))
    return program("show", "bad.cert", cwd=folder).refused("twice")


@fault("read without end")
def a_device_as_a_certificate(folder: Path) -> str:
    """`labelcert show /dev/zero`."""
    program("study", "check", "/dev/zero", cwd=folder).refused("a device")
    program("certify", "--edges", "/dev/zero", cwd=folder).refused()
    return program("show", "/dev/zero", cwd=folder).refused("a device")


@fault("unpacked into memory")
def a_gzip_bomb(folder: Path) -> str:
    """A table of 3 MB that unpacks to 3 GB."""
    with gzip.open(folder / "edges.csv.gz", "wb", compresslevel=9) as stream:
        stream.write(b"source,target\n")
        for _ in range(3 * 1024 if (folder / "large").exists() else 400):
            stream.write(b"a,b\n" * (1 << 18))
    return program("certify", "--edges", "edges.csv.gz", cwd=folder).refused("unpack")


@fault("unpacked into memory")
def a_zip_bomb(folder: Path) -> str:
    """A certificate, and a graph, that unpack to 4 GB."""
    with zipfile.ZipFile(folder / "bomb.npz", "w", zipfile.ZIP_DEFLATED) as archive, archive.open("a.npy", "w") as part:
        for _ in range(400):
            part.write(bytes(1 << 20))
    shutil.copy(folder / "bomb.npz", folder / "bomb.cert")
    program("certify", "./bomb.npz", cwd=folder).refused("unpack")
    return program("show", "bomb.cert", cwd=folder).refused("unpack")


def study(folder: Path, text: str, name: str = "study.toml") -> Path:
    """A study file."""
    (folder / name).write_text(text)
    return folder / name


@fault("a traceback")
def toml_nested_deeply(folder: Path) -> str:
    """A study nested 10⁵ deep."""
    path = study(folder, STUDY.replace("[1]", "[" * 10**5 + "]" * 10**5))
    return program("study", "check", path, cwd=folder).refused("nested too deeply")


@fault("13 GB of memory")
def toml_keys_of_many_parts(folder: Path) -> str:
    """A study with a key of 10⁵ parts."""
    path = study(folder, ".".join("a" * 10**5) + " = 1\n" + STUDY)
    return program("study", "check", path, cwd=folder).refused("parts")


@fault("minutes of planning")
def too_many_seeds(folder: Path) -> str:
    """A study with 200,000 seeds, and one with a grid of 10⁹ models."""
    grid = STUDY.replace("C = 0.1", f"C = {[float(k + 1) for k in range(1000)]}\ndepth = {list(range(1, 1001))}")
    program("study", "check", study(folder, grid + "edge_weight = [0.1, 0.2]\n"), cwd=folder).refused("models")
    path = study(folder, STUDY.replace("[0]", str(list(range(200_001)))))
    return program("study", "check", path, cwd=folder).refused()


@fault("written beside the folder of results")
def a_report_that_leaves_its_folder(folder: Path) -> str:
    """A study file named `...toml`, and one whose name leads elsewhere."""
    out = folder / "a" / "results"
    program("study", "run", study(folder, 'name = "../out"\n' + STUDY), "--out", out, cwd=folder).refused("name")
    said = program("study", "run", study(folder, STUDY, "...toml"), "--out", out, cwd=folder).refused("name")
    assert not (folder / "a").exists()
    return said


@fault("hundreds of gigabytes asked for")
def a_random_graph_that_is_too_large(folder: Path) -> str:
    """csbm with 200,000 nodes under `study check`."""
    path = study(folder, STUDY.replace('name = "karate"', 'name = "csbm"\nparameters = { n = 200000 }'))
    return program("study", "check", path, cwd=folder).refused("memory", code=3)


@fault("a traceback")
def hostile_journals(folder: Path) -> str:
    """Journals with deeply nested lines, and with valid records that are empty."""
    path, out = study(folder, STUDY), folder / "results"
    assert program("study", "run", path, "--out", out, "--no-pictures", cwd=folder).code == 0
    journal = out / JOURNAL
    record = json.loads(journal.read_text())["record"]
    hostile = (
        b"[" * 10**5 + b"\n",
        _line({**record, "result": {}}),
        _line({**record, "run": {"numerics": NUMERICS}}),
        b"\xff\n",
    )
    journal.write_bytes(b"".join(hostile))
    for what in ("status", "export"):
        ran = program("study", what, path, "--out", out, cwd=folder)
        assert (ran.code, "4 damaged records" in ran.err) == (0, True), ran.err
        assert "Traceback" not in ran.err
    ran = program("study", "run", path, "--out", out, "--no-pictures", cwd=folder)
    assert ran.code == 0, ran.err
    return "damaged records are named, ignored, and computed again"


@fault("reused silently")
def results_of_another_engine(folder: Path) -> str:
    """A folder with results of another version of the engine."""
    path, out = study(folder, STUDY), folder / "results"
    assert program("study", "run", path, "--out", out, "--no-pictures", cwd=folder).code == 0
    record = json.loads((out / JOURNAL).read_text())["record"]
    record["run"]["numerics"] = 0
    (out / JOURNAL).write_bytes(_line(record))
    kept = program("study", "run", path, "--out", out, "--no-pictures", "--keep-old", cwd=folder)
    assert "1 more were reused" in kept.out, kept.out
    again = program("study", "run", path, "--out", out, "--no-pictures", cwd=folder)
    assert "1 results in" in again.err, again.err
    assert "0 more were reused" in again.out, again.out
    return f"computed again: {again.err.strip().splitlines()[0].replace(str(out), 'results')}"
