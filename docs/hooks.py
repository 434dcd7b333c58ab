"""What the site has beside its pages: a live report, formulas, and the promise that it loads nothing from elsewhere."""

from __future__ import annotations

import functools
import html
import re
import tempfile
from pathlib import Path
from typing import Any

from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files

ROLE = re.compile(r":(?P<role>\w+):<code>(?P<text>[^<]+)</code>")
DIAGRAMS = re.compile(r'<script type="module">(?:(?!</script>).)*mermaid(?:(?!</script>).)*</script>', re.DOTALL)
OUTSIDE = re.compile(
    r"""<(?:script|img|iframe|source|video|audio|embed)\b[^>]*?\ssrc=["']?(?:https?:)?//[^\s"'>]+"""
    r"""|<link\b(?![^>]*\brel=["']?canonical)[^>]*?\shref=["']?(?:https?:)?//[^\s"'>]+"""
    r"""|url\(["']?(?:https?:)?//[^)"']+|@import\s+["'](?:https?:)?//[^"']+|\bimport\(["']https?://[^"']+""",
    re.IGNORECASE,
)


def on_files(files: Files, config: Any) -> Files:
    """Add the report that the first page embeds."""
    files.append(File.generated(config, "reports/karate.html", content=karate_report()))
    return files


@functools.cache
def karate_report() -> str:
    """Two models on the karate club, side by side."""
    import labelcert

    graph = labelcert.load_dataset("karate")
    split = labelcert.published_split(graph, seed=0, per_class=4)
    models = {"GCN": labelcert.models.GCN(C=10.0), "APPNP": labelcert.models.APPNP(C=10.0)}
    certificates = {name: model.certify(graph, split.labeled, split.pool) for name, model in models.items()}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "karate.html"
        labelcert.write_report(certificates, path, title="Zachary's karate club", budget=1)
        return path.read_text(encoding="utf-8")


def on_page_content(content: str, **_: Any) -> str:
    """Show the roles of docstrings (``:math:``, ``:func:``), and drop what notebooks would load to draw diagrams."""
    return ROLE.sub(_role, DIAGRAMS.sub("", content))


def _role(found: re.Match[str]) -> str:
    text = html.unescape(found["text"])
    if found["role"] == "math":
        from latex2mathml.converter import convert

        return str(convert(text))
    return f'<autoref identifier="{html.escape(text)}" optional><code>{found["text"]}</code></autoref>'


def on_post_build(config: Any) -> None:
    """Refuse a site that loads anything from elsewhere."""
    site = Path(config.site_dir)
    for path in (*site.rglob("*.html"), *site.rglob("*.css")):
        found = outside(path.read_text(encoding="utf-8"))
        if found:
            raise PluginError(f"{path.relative_to(site)} loads something from elsewhere: {found[0]}")


def outside(text: str) -> list[str]:
    """Scripts, styles, fonts, pictures and frames that a page or a style sheet would load from elsewhere."""
    return OUTSIDE.findall(text)
