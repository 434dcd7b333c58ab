"""Every Python example in the README and the documentation runs, and prints what the page says it prints."""

from __future__ import annotations

import contextlib
import io
import os
import re
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
EXTRAS = {"torch_geometric": "torch_geometric", "finite_margin": "torch", ".network(": "torch"}
BLOCK = re.compile(r"```python\n(?P<code>.*?)```(?:\s*```text\n(?P<output>.*?)```)?", re.DOTALL)
FILE = re.compile(r"`(?P<name>\w+\.(?P<kind>csv|toml))`:\s*```(?P=kind)\n(?P<content>.*?)```", re.DOTALL)


def data_folder() -> Path | None:
    named = os.environ.get("LABELCERT_DATA_DIR")
    folder = Path(named) if named else ROOT.parent / "shared" / "datasets"
    return folder if folder.is_dir() else None


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_examples_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = page.read_text(encoding="utf-8")
    if re.search(r'load_dataset\("(?!karate|csbm|cba)', text):
        if data_folder() is None:
            pytest.skip("the page uses a dataset that is not here; set LABELCERT_DATA_DIR")
        monkeypatch.setenv("LABELCERT_DATA_DIR", str(data_folder()))
    monkeypatch.chdir(tmp_path)
    shared = (ROOT / "docs" / "bring-your-own-graph.md").read_text(encoding="utf-8")
    for file in FILE.finditer(shared + "\n" + text):
        (tmp_path / file["name"]).write_text(file["content"], encoding="utf-8")
    namespace: dict[str, object] = {}
    for block in BLOCK.finditer(text):
        if any(mark in block["code"] and find_spec(package) is None for mark, package in EXTRAS.items()):
            if page.name == "README.md":
                continue  # nothing else there builds on it
            pytest.skip("PyTorch, or PyTorch Geometric, is not installed: `make test-torch` does that")
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(block["code"], page.name, "exec"), namespace)
        if block["output"] is not None:
            assert printed.getvalue() == block["output"]
