"""Clocks, and places that cannot be written to."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

import labelcert
from tests.faults.registry import fault, program


@fault("35 s; minutes for 1,000 labels", long=True)
def a_time_limit_on_many_labels(folder: Path) -> str:
    """time_limit=3 on a hinge SVM with 300 labels, and with 1,000."""
    labelcert.certify([[2, 0], [0, 2]], [0, 1], [[1, 0], [1, 2]], C=1.0)  # compiled before
    took = []
    for m in (300, 1000):
        rng = np.random.default_rng(0)
        X = rng.normal(size=(m + 50, 5))
        K, y = np.exp(-((X[:, None] - X[None]) ** 2).sum(axis=2) / 4), (X[:m, 0] > 0).astype(int)
        for _ in range(2):  # the first one compiles
            started = time.perf_counter()
            cert = labelcert.certify(K[:m, :m], y, K[m:, :m], C=1.0, time_limit=3)
            seconds = time.perf_counter() - started
        assert cert.run.stopped.value in ("time limit", "finished")
        took.append(f"{seconds:.1f} s with {m} labels")
    return ", ".join(took)


@fault("a Numba traceback, even for --version", long=True)
def a_read_only_installation(folder: Path) -> str:
    """A read-only installation without a writable cache."""
    copy = folder / "installed"
    shutil.copytree(Path(labelcert.__file__).parent, copy / "labelcert", ignore=shutil.ignore_patterns("__pycache__"))
    blocked = {"PYTHONPATH": str(copy), "NUMBA_CACHE_DIR": "", "HOME": "/proc", "XDG_CACHE_HOME": "/proc"}
    said = []
    for path in [copy, *copy.rglob("*")]:
        path.chmod(0o555 if path.is_dir() else 0o444)
    try:
        for words in (("--version",), ("certify", "karate", "--max-flips", "1", "--no-pictures", "--beside", "none")):
            if os.geteuid() == 0:  # to whom no file is read-only: a cache in a place that cannot exist
                blocked["NUMBA_CACHE_DIR"] = "/proc/none"
            ran = program(*words, cwd=folder, env=blocked)
            assert ran.code == 0, ran.err
            assert "Traceback" not in ran.err
            said.append(ran.err.strip())
    finally:
        for path in [copy, *copy.rglob("*")]:
            path.chmod(0o755 if path.is_dir() else 0o644)
    assert said[0] == ""
    return "everything works; without a place for compiled code, each start compiles again"


@fault("half a second of imports, and compilation")
def version_and_show_compile_nothing(folder: Path) -> str:
    """--version and show need nothing compiled."""
    labelcert.certify([[2, 0], [0, 2]], [0, 1], [[1, 0], [1, 2]], C=1.0).save(folder / "a.cert")
    cache = folder / "cache"
    cache.mkdir()
    for words in (("--version",), ("show", "a.cert")):
        assert program(*words, cwd=folder, env={"NUMBA_CACHE_DIR": str(cache)}).code == 0
    assert not [path for path in cache.rglob("*") if path.is_file()]
    code = "import sys, labelcert; print([name for name in ('numba', 'scipy', 'numpy') if name in sys.modules])"
    seen = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()
    assert seen == "[]"
    return "nothing is compiled; importing labelcert imports neither Numba nor NumPy"
