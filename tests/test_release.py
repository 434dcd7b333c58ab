"""The release: its archives, its metadata, and an installation of it in an environment of its own.

The archives are built with the packages that are installed here. Only the installation needs a package index.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
import venv
import zipfile
from email.message import Message
from email.parser import Parser
from pathlib import Path

import pytest

import labelcert

for needed in ("build", "hatchling", "twine"):
    pytest.importorskip(needed, reason="a release needs build, hatchling and twine: `pip install '.[test]'`")

ROOT = Path(__file__).parents[1]
VERSION = labelcert.__version__


def run(*command: str | Path, cwd: Path) -> str:
    """What a command prints, away from the checkout; it must succeed."""
    outside = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run([str(part) for part in command], cwd=cwd, env=outside, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def archives(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The source archive, and the wheel that is built from it."""
    folder = tmp_path_factory.mktemp("release")
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", folder, ROOT, cwd=folder)
    (source,), (wheel,) = folder.glob("*.tar.gz"), folder.glob("*.whl")
    return source, wheel


@pytest.fixture(scope="module")
def metadata(archives: tuple[Path, Path]) -> Message:
    with zipfile.ZipFile(archives[1]) as wheel:
        return Parser().parsestr(wheel.read(f"labelcert-{VERSION}.dist-info/METADATA").decode())


@pytest.fixture(scope="module")
def installed(archives: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs of a new environment with labelcert and its dependencies."""
    folder = tmp_path_factory.mktemp("installed")
    ask = ["-m", "pip", "download", "--quiet", "--no-deps", "--retries", "0", "--timeout", "10", "click"]
    if subprocess.run([sys.executable, *ask], cwd=folder, capture_output=True).returncode:
        pytest.skip("no package index can be reached, so that labelcert cannot be installed with its dependencies")
    venv.create(folder / "environment", with_pip=True)
    programs = folder / "environment" / ("Scripts" if os.name == "nt" else "bin")
    run(programs / "python", "-m", "pip", "install", "--quiet", "--no-compile", archives[1], cwd=folder)
    return programs


def test_the_version_is_the_same_everywhere() -> None:
    cited = re.search(r"^version: (\S+)\ndate-released: (\S+)$", (ROOT / "CITATION.cff").read_text("utf-8"), re.M)
    changed = re.search(r"^## (\S+) \((\S+)\)$", (ROOT / "CHANGELOG.md").read_text("utf-8"), re.M)
    assert cited is not None
    assert changed is not None
    assert cited.groups() == changed.groups()
    assert cited[1] == VERSION


def test_python_m_labelcert(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-m", "labelcert", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout == f"labelcert, version {VERSION}\n"


def test_the_wheel_holds_the_package_and_nothing_else(archives: tuple[Path, Path]) -> None:
    package = ROOT / "src" / "labelcert"
    files = {path.relative_to(ROOT / "src").as_posix() for path in package.rglob("*") if path.is_file()}
    wanted = {name for name in files if not re.search(r"__pycache__|\.py[co]$|\.nb[ic]$", name)}
    with zipfile.ZipFile(archives[1]) as wheel:
        held = {name for name in wheel.namelist() if not name.startswith(f"labelcert-{VERSION}.dist-info/")}
    assert held == wanted
    assert "labelcert/py.typed" in held


def test_the_source_archive_holds_what_the_readme_speaks_of(archives: tuple[Path, Path]) -> None:
    with tarfile.open(archives[0]) as source:
        held = {name.partition("/")[2] for name in source.getnames()}
    linked = re.findall(r"\]\(([\w./-]+)", (ROOT / "README.md").read_text("utf-8"))
    assert {*linked, "pyproject.toml", "LICENSE", "CHANGELOG.md", "Makefile"} <= held
    assert not [name for name in held if re.search(r"__pycache__|\.nb[ic]$|^\.venv|^site/", name)]


def test_metadata(metadata: Message) -> None:
    assert (metadata["Name"], metadata["Version"]) == ("labelcert", VERSION)
    assert (metadata["License-Expression"], metadata.get_all("License-File")) == ("MIT", ["LICENSE"])
    assert metadata["Requires-Python"] == ">=3.11"
    assert metadata["Description-Content-Type"] == "text/markdown"
    assert "Development Status :: 4 - Beta" in metadata.get_all("Classifier", [])
    assert {"dask", "gpu", "pyg", "torch"} <= set(metadata.get_all("Provides-Extra", []))


def test_an_index_accepts_both_archives(archives: tuple[Path, Path], tmp_path: Path) -> None:
    run(sys.executable, "-m", "twine", "check", "--strict", *archives, cwd=tmp_path)


@pytest.mark.long
def test_installed_in_a_new_environment(installed: Path, tmp_path: Path) -> None:
    python = installed / "python"
    assert run(python, "-m", "labelcert", "--version", cwd=tmp_path) == f"labelcert, version {VERSION}\n"
    assert run(installed / "labelcert", "--version", cwd=tmp_path) == f"labelcert, version {VERSION}\n"
    code = (
        "import labelcert; from labelcert.studies.study_files import find_study; find_study('losses'); "
        "[getattr(labelcert, name) for name in labelcert.__all__]; print(labelcert.__file__)"
    )
    assert str(installed.parent) in run(python, "-c", code, cwd=tmp_path)
    printed = run(installed / "labelcert", "certify", "karate", "--model", "gcn", "--no-pictures", cwd=tmp_path)
    assert "predictions (0.0 %) are proved safe from up to 1 wrong label" in printed
    run(python, "-m", "pip", "check", cwd=tmp_path)
