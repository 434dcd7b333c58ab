from __future__ import annotations

from pathlib import Path

import pytest

from labelcert import memory


def test_limits_of_a_container_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    limit, used = tmp_path / "max", tmp_path / "current"
    limit.write_text("1000000\n")
    used.write_text("400000\n")
    monkeypatch.setattr(memory, "_CONTROL_GROUPS", ((str(limit), str(used)),))
    assert memory.available_bytes() == 600000
    limit.write_text("max\n")
    assert memory.available_bytes() != 600000
