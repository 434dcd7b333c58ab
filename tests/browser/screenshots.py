"""The pictures of the report in the documentation: ``python -m tests.browser.screenshots --data-dir FOLDER``."""

from __future__ import annotations

import tempfile
from pathlib import Path

import click

import labelcert
from labelcert.pipeline import choose_model
from tests.browser.chromium import browser

IMAGES = Path(__file__).parents[2] / "docs" / "images"


@click.command()
@click.option("--data-dir", type=click.Path(path_type=Path), help="Folder with local copies of the datasets.")
def main(data_dir: Path | None) -> None:
    graph = labelcert.load_dataset("cora-ml-b", data_dir=data_dir)
    split = labelcert.published_split(graph, seed=0)
    models = [choose_model(name, graph, split.labeled) for name in ("gcn", "appnp")]
    certs = {choice.label: choice.model.certify(graph, split.labeled, split.pool) for choice in models}
    with tempfile.TemporaryDirectory() as folder, browser() as chromium:
        path = Path(folder) / "report.html"
        labelcert.write_report(certs, path, title="Cora-ML, two classes", budget=2)
        page = chromium.new_page(viewport={"width": 1300, "height": 1180})
        page.goto(path.as_uri())
        page.wait_for_timeout(1000)
        page.screenshot(path=IMAGES / "report.png")
        page.locator("#node-table tbody tr").nth(4).click()
        page.select_option("#graph-hops", "2")
        page.locator("#nodes").evaluate("(section) => section.scrollIntoView()")
        page.wait_for_timeout(700)
        page.screenshot(path=IMAGES / "report-nodes.png", clip={"x": 0, "y": 0, "width": 1300, "height": 900})
        for _ in range(3):
            page.locator("#trust-next").click()
        page.locator("#labels").evaluate("(section) => section.scrollIntoView()")
        page.wait_for_timeout(300)
        page.screenshot(path=IMAGES / "report-labels.png", clip={"x": 0, "y": 0, "width": 1300, "height": 760})
        page.emulate_media(color_scheme="dark")
        page.locator("#compare-section").evaluate("(section) => section.scrollIntoView()")
        page.wait_for_timeout(500)
        page.screenshot(path=IMAGES / "report-compare.png", clip={"x": 0, "y": 0, "width": 1300, "height": 620})


if __name__ == "__main__":
    main()
