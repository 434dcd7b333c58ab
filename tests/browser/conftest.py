"""Pages opened in a real browser, which must neither complain nor reach for anything outside."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.browser import chromium


@pytest.fixture(scope="session")
def chrome() -> Iterator[Any]:
    if why := chromium.missing():
        pytest.skip(why)
    with chromium.browser() as found:
        yield found


@pytest.fixture
def opened(chrome: Any) -> Iterator[Callable[..., Any]]:
    """Opens a file; afterwards, nothing may have gone wrong in it."""
    contexts, wrong = [], []

    def open_page(path: Path, **options: Any) -> Any:
        context = chrome.new_context(viewport={"width": 1400, "height": 1000}, **options)
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(20_000)
        page.on("console", lambda message: wrong.append(f"console: {message.text}"))
        page.on("pageerror", lambda error: wrong.append(f"error: {error}"))
        page.on("request", lambda request: request.url == path.as_uri() or wrong.append(f"request: {request.url}"))
        page.goto(path.as_uri())
        page.wait_for_function("document.documentElement.dataset.ready")
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert wrong == []
