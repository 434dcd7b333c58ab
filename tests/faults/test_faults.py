"""All attacks, as tests."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tests.faults.collected import FAULTS, Fault

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="signals, limits and /proc as Linux has them")


@pytest.mark.parametrize(
    "attack", [pytest.param(one, id=one.name, marks=[pytest.mark.long] if one.long else []) for one in FAULTS]
)
def test_fault(attack: Fault, tmp_path: Path) -> None:
    if attack.attack.__module__.endswith("clusters"):
        pytest.importorskip("distributed", reason="Dask is not installed: pip install 'labelcert[dask]'")
    before = set(os.listdir("/proc/self/fd"))
    assert attack.attack(tmp_path)
    assert len(set(os.listdir("/proc/self/fd")) - before) <= 2
