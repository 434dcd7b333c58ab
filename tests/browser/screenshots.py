"""The pictures of the report in the documentation: ``python -m tests.browser.screenshots --data-dir FOLDER``."""

from __future__ import annotations

import itertools
import tempfile
from pathlib import Path

import click

import labelcert
from labelcert.pipeline import choose_model
from tests.browser.chromium import browser
from tests.browser.test_whatif import kinds as every_kind

IMAGES = Path(__file__).parents[2] / "docs" / "images"
WIDTHS = {1400: 900, 800: 900, 400: 800}


@click.command()
@click.option("--data-dir", type=click.Path(path_type=Path), help="Folder with local copies of the datasets.")
@click.option("--kinds", type=click.Path(path_type=Path), help="Instead: a folder for all kinds, at all widths.")
def main(data_dir: Path | None, kinds: Path | None) -> None:
    with tempfile.TemporaryDirectory() as folder, browser() as chromium:
        if kinds is not None:
            kinds.mkdir(parents=True, exist_ok=True)
            for path, (width, height) in itertools.product(every_kind(Path(folder)), WIDTHS.items()):
                page = chromium.new_page(viewport={"width": width, "height": height})
                page.goto(path.as_uri())
                page.wait_for_timeout(700)
                page.screenshot(path=kinds / f"{path.stem}-{width}.png", full_page=True)
                page.close()
            return
        graph = labelcert.load_dataset("cora-ml-b", data_dir=data_dir)
        split = labelcert.published_split(graph, seed=0)
        models = [choose_model(name, graph, split.labeled) for name in ("gcn", "appnp")]
        certs = {choice.label: choice.model.certify(graph, split.labeled, split.pool) for choice in models}
        path = Path(folder) / "report.html"
        labelcert.write_report(certs, path, title="Cora-ML, two classes", budget=2)

        def shoot(name: str, view: str, place: str, width: int, height: int, scheme: str = "light") -> None:
            page = chromium.new_page(
                viewport={"width": width, "height": height}, color_scheme=scheme, device_scale_factor=0.75
            )
            page.goto(f"{path.as_uri()}#b=2&{view}")
            page.wait_for_timeout(1200)
            if place:
                page.locator(place).evaluate("(section) => section.scrollIntoView()")
            page.wait_for_timeout(400)
            page.screenshot(path=IMAGES / name, type="jpeg", quality=48)
            page.close()

        shoot("report.jpg", "", "", 1300, 900)
        shoot("report-narrow.jpg", "", "", 400, 800)
        shoot("report-plan.jpg", "verified=573,998,336", "", 1300, 900)
        shoot("report-nodes.jpg", "node=305", "#nodes", 1300, 760)
        shoot("report-compare.jpg", "verified=573,998,336", "#compare-section", 1300, 560, "dark")


if __name__ == "__main__":
    main()
