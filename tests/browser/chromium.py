"""A headless Chromium, if there is one."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator
from importlib.util import find_spec
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")


def found() -> str | None:
    """The browser's program, or None."""
    return os.environ.get("LABELCERT_CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)


def missing() -> str:
    """What is missing, in words; empty if nothing is."""
    if find_spec("playwright") is None:
        return "Playwright is not installed: `make test-browser` does that"
    return "" if found() else "there is no Chromium on the path: `make test-browser` installs one"


@contextlib.contextmanager
def browser() -> Iterator[Any]:
    """A browser that is closed in the end."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as play:
        # Chromium's own sandbox cannot be set up by root, as whom containers run. The pages are our own.
        chromium = play.chromium.launch(executable_path=found(), args=["--no-sandbox", "--disable-gpu"])
        try:
            yield chromium
        finally:
            chromium.close()
