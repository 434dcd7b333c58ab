"""Every example in the README and the documentation runs, every command and link is right, and every name is covered.

``python -m tests.test_docs`` draws the pictures of the gallery again (``make gallery``).
"""

from __future__ import annotations

import contextlib
import doctest
import importlib.util
import inspect
import io
import os
import re
import shlex
import shutil
import tempfile
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import click
import numpy as np
import pytest

import labelcert
from labelcert.cli import cli
from labelcert.extensions import load_extensions

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]
GALLERY = DOCS / "gallery.md"
TRAINED = DOCS / "certify-the-gcn-you-trained.md"
PICTURES = DOCS / "images" / "gallery"
EXTRAS = {
    "torch_geometric": "torch_geometric",
    "fitted(": "torch_geometric",
    "finite_margin(": "torch",
    ".network(": "torch",
}
BLOCK = re.compile(r"```python\n(?P<code>.*?)```(?:\s*```text\n(?P<output>.*?)```)?", re.DOTALL)
FILE = re.compile(r"`(?P<name>\w+\.(?P<kind>csv|toml))`:\s*```(?P=kind)\n(?P<content>.*?)```", re.DOTALL)
CONSOLE = re.compile(r"```console\n(.*?)```", re.DOTALL)
FENCED = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"\]\((?!\w+:)(?P<path>[^)#\s]*)(?:#(?P<anchor>[^)\s]+))?\)")


def named(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def data_folder() -> Path | None:
    given = os.environ.get("LABELCERT_DATA_DIR")
    folder = Path(given) if given else ROOT.parent / "shared" / "datasets"
    return folder if folder.is_dir() else None


def run(page: Path, folder: Path) -> None:
    """Execute a page in a folder, where its files are and its pictures go."""
    text = page.read_text(encoding="utf-8")
    shared = (DOCS / "bring-your-own-graph.md").read_text(encoding="utf-8")
    for file in FILE.finditer(shared + "\n" + text):
        (folder / file["name"]).write_text(file["content"], encoding="utf-8")
    namespace: dict[str, object] = {}
    with contextlib.chdir(folder):
        for block in BLOCK.finditer(text):
            if any(mark in block["code"] and find_spec(package) is None for mark, package in EXTRAS.items()):
                if page.name == "README.md" or page == TRAINED:
                    continue  # nothing else there builds on it
                pytest.skip("PyTorch, or PyTorch Geometric, is not installed: `make test-torch` does that")
            printed = io.StringIO()
            with contextlib.redirect_stdout(printed):
                exec(compile(block["code"], page.name, "exec"), namespace)
            if block["output"] is not None:
                assert printed.getvalue() == block["output"]


@pytest.mark.parametrize(
    "page",
    # 64 networks take minutes where PyTorch is installed.
    [
        pytest.param(page, marks=pytest.mark.timeout(900)) if page == TRAINED else page
        for page in PAGES
        if page != GALLERY
    ],
    ids=named,
)
def test_examples_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if re.search(r'load_dataset\("(?!karate|csbm|cba)', page.read_text(encoding="utf-8")):
        if data_folder() is None:
            pytest.skip("the page uses a dataset that is not here; set LABELCERT_DATA_DIR")
        monkeypatch.setenv("LABELCERT_DATA_DIR", str(data_folder()))
    run(page, tmp_path)


def test_gallery_shows_what_its_code_draws(tmp_path: Path) -> None:
    from PIL import Image

    run(GALLERY, tmp_path)
    drawn = {path.name for path in tmp_path.glob("*.png")}
    shown = re.findall(r"!\[.+\]\(images/gallery/(.+)\)", GALLERY.read_text(encoding="utf-8"))
    assert drawn == set(shown) == {path.name for path in PICTURES.iterdir()}
    for name in shown:
        now, then = (Image.open(folder / name) for folder in (tmp_path, PICTURES))
        assert now.size == then.size, f"{name}: run `make gallery`"
        if now.info["Software"] == then.info["Software"]:  # other versions place letters and lines elsewhere
            apart = np.abs(np.asarray(now, dtype=float) - np.asarray(then, dtype=float)).mean()
            assert apart < 1.0, f"{name}: run `make gallery`"


def commands() -> Iterator[tuple[str, list[str]]]:
    for page in (*PAGES, ROOT / "CONTRIBUTING.md"):
        for block in CONSOLE.finditer(page.read_text(encoding="utf-8")):
            for line in block[1].splitlines():
                words = shlex.split(line, comments=True)
                if words[:2] == ["$", "labelcert"]:
                    end = words.index("|") if "|" in words else len(words)
                    yield f"{named(page)}: {line}", words[2:end]


def test_commands_parse() -> None:
    load_extensions()
    lines = list(commands())
    assert len(lines) > 30
    for where, words in lines:
        command: click.Command = cli
        while isinstance(command, click.Group) and words and not words[0].startswith("-"):
            found = command.get_command(click.Context(command), words.pop(0))
            assert found is not None, where
            command = found
        try:
            command.make_context("labelcert", words)
        except click.exceptions.Exit:  # --help and --version
            pass
        except click.ClickException as error:
            raise AssertionError(f"{where}: {error.format_message()}") from None


def anchors(page: Path) -> set[str]:
    """Of all headings, as they are called on the site and where the repository is shown."""
    text = FENCED.sub("", page.read_text(encoding="utf-8"))
    words = (re.sub(r"[^\w\s-]", "", heading).strip().lower() for heading in re.findall(r"^#+ (.*)$", text, re.M))
    return {re.sub(r"\s+", "-", heading) for heading in words}


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md", "CHANGELOG.md"])
def test_links_lead_somewhere(name: str) -> None:
    for link in LINK.finditer(FENCED.sub("", (ROOT / name).read_text(encoding="utf-8"))):
        target = ROOT / (link["path"] or name)
        assert target.exists(), link[0]
        assert link["anchor"] is None or link["anchor"] in anchors(target), link[0]


def test_reference_has_every_public_name() -> None:
    pages = "".join(page.read_text(encoding="utf-8") for page in (DOCS / "reference").glob("*.md"))
    shown = re.findall(r"^::: labelcert\.(?:\w+\.)*(\w+)$", pages, re.M)
    assert len(shown) == len(set(shown))
    assert set(shown) >= set(labelcert._HOME_OF)
    assert "labelcert.__version__" in pages


@pytest.mark.parametrize("name", sorted(labelcert._HOME_OF))
def test_public_names_have_examples_that_run_alone(name: str) -> None:
    if name == "finite_margin" and find_spec("torch") is None:
        pytest.skip("PyTorch is not installed")
    text = inspect.cleandoc(getattr(labelcert, name).__doc__ or "")
    examples = doctest.DocTestParser().get_doctest(text.partition("\nExamples\n--------\n")[2], {}, name, None, None)
    assert examples.examples
    told: list[str] = []
    doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS).run(examples, out=told.append)
    assert not told, "".join(told)


def test_pages_are_in_the_navigation_once() -> None:
    navigation = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").split("\nnav:\n")[1].split("\nvalidation:\n")[0]
    listed = re.findall(r"^ *- .+: (\S+\.(?:md|ipynb))$", navigation, re.M)
    pages = [page.relative_to(DOCS).as_posix() for kind in ("md", "ipynb") for page in DOCS.rglob(f"*.{kind}")]
    assert sorted(listed) == sorted(pages)


def test_site_would_refuse_what_it_loads_from_elsewhere() -> None:
    pytest.importorskip("mkdocs", reason="the site is built with mkdocs")
    spec = importlib.util.spec_from_file_location("hooks", DOCS / "hooks.py")
    assert spec is not None
    assert spec.loader is not None
    hooks = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(hooks)
    for loads in (
        '<script src="https://example.org/x.js">',
        "<img alt='a' src=//example.org/x.png>",
        '<link rel="stylesheet" href="https://example.org/x.css">',
        "@font-face { src: url(https://example.org/x.woff2) }",
        '@import "https://example.org/x.css"',
        '<script type="module">await import("https://example.org/x.mjs")</script>',
    ):
        assert hooks.outside(loads)
    for loads_not in (
        '<script src="assets/x.js">',
        '<img src="data:image/png;base64,AA//">',
        '<a href="https://example.org">',
        '<link rel="canonical" href="https://example.org">',
        '<svg xmlns="http://www.w3.org/2000/svg">',
    ):
        assert not hooks.outside(loads_not)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        run(GALLERY, Path(folder))
        for picture in Path(folder).glob("*.png"):
            shutil.copy(picture, PICTURES)
