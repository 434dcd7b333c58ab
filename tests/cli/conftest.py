from __future__ import annotations

import sys
from pathlib import Path

import pytest
from tests.helpers.command_line import Call
from tests.helpers.local_data import data_folder

from labelcert.cli import main


@pytest.fixture
def call(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Call:
    """The command line in this process, in an empty folder: exit code, standard output, standard error."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("LABELCERT_DATA_DIR", raising=False)

    def inner(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["labelcert", *arguments])
        capsys.readouterr()
        with pytest.raises(SystemExit) as stop:
            main()
        captured = capsys.readouterr()
        return int(stop.value.code or 0), captured.out, captured.err

    return inner


@pytest.fixture
def dataset_folder() -> Path:
    return data_folder()
