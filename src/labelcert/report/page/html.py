"""From plain data to one HTML file: style, scripts and data in it, and nothing from outside."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any

from labelcert._version import __version__
from labelcert.text import printable

APP = (
    *("core", "whatif", "export", "tables", "curves", "verdict", "plan", "nodes", "graph", "labels", "worst", "crowd"),
    *("classes", "compare", "provenance", "study", "address", "main"),
)
"""Our scripts, in the order in which they build on each other."""

LIBRARIES = ("uplot/uPlot.iife.min.js", "force-graph/force-graph.min.js")


def render(data: Mapping[str, Any], *, title: str, summary: str) -> str:
    """The page, from plain JSON values as its scripts read them; readers without JavaScript see the summary alone."""
    own = "\n".join(_asset(f"app/{name}.js") for name in APP)
    scripts = [*(_asset(f"vendor/{name}") for name in LIBRARIES), f'(() => {{\n"use strict";\n{own}}})();']
    parts = {
        "policy": _policy(scripts),
        "version": __version__,
        "title": html.escape(printable(title)),
        "style": _asset("vendor/uplot/uPlot.min.css") + _asset("style.css"),
        "summary": f"<pre>{html.escape(summary)}</pre>",
        "licences": html.escape(_asset("vendor/LICENSES.txt")),
        "data": inert_json(data),
        "scripts": "\n".join(f"<script>{script}</script>" for script in scripts),
    }
    return re.sub(r"\{\{(\w+)\}\}", lambda found: parts[found[1]], _asset("template.html"))


def inert_json(data: Any) -> str:
    """JSON that is inert inside of a page: no character in it can end a script or begin a tag."""
    text = json.dumps(data, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return re.sub("[<>&]", lambda found: f"\\u{ord(found[0]):04x}", text)


def _policy(scripts: list[str]) -> str:
    """Nothing is loaded or sent, and no script runs but these."""
    hashes = [base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts]
    allowed = " ".join(f"'sha256-{value}'" for value in hashes)
    return (
        f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; img-src data: blob:; "
        "base-uri 'none'; form-action 'none'"
    )


@cache
def _asset(name: str) -> str:
    return files("labelcert.report.page").joinpath(name).read_text(encoding="utf-8")
