"""The page of a report in a real browser: first paint, slider steps, switches and size, at the sizes that people have.

``python -m benchmarks.report`` needs Chromium and Playwright: ``make test-browser`` installs both.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from pathlib import Path

import numpy as np
from tests.browser.chromium import browser

import labelcert
from benchmarks.machine import facts
from labelcert.cli.printing import print_table
from labelcert.report.tables import listing

STEPS = """
async () => {
  const slider = document.getElementById("budget"), taken = [];
  for (let round = 0; round < 4; round++) {
    for (let b = 0; b <= Number(slider.max); b++) {
      const started = performance.now();
      slider.value = b;
      slider.dispatchEvent(new Event("input"));
      await new Promise((done) => requestAnimationFrame(() => setTimeout(done, 0)));
      taken.push(performance.now() - started);
    }
  }
  return taken;
}
"""

SWITCHES = """
async () => {
  const taken = [];
  for (let i = 0; i < 8; i++) {
    const started = performance.now();
    document.querySelector(`[data-label="${i}"]`).click();
    await new Promise((done) => requestAnimationFrame(() => setTimeout(done, 0)));
    taken.push(performance.now() - started);
  }
  return taken;
}
"""


def main() -> None:
    rows = []
    with tempfile.TemporaryDirectory() as folder, browser() as chromium:
        for nodes in (300, 1000, 3000):
            path = Path(folder) / f"{nodes}.html"
            cert = certificate(nodes)
            started = time.perf_counter()
            cert.report(path, name="GCN")
            written = time.perf_counter() - started
            page = chromium.new_page()
            page.goto(path.as_uri())
            page.wait_for_function("document.documentElement.dataset.ready")
            painted = page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime")
            ready = page.evaluate("performance.getEntriesByName('labelcert-ready')[0].startTime")
            page.wait_for_timeout(500)
            steps, switches = page.evaluate(STEPS), page.evaluate(SWITCHES)
            rows.append(
                (
                    f"{nodes:,}",
                    f"{path.stat().st_size / 1e6:.2f} MB",
                    f"{written:.1f} s",
                    f"{painted:.0f} ms",
                    f"{ready:.0f} ms",
                    f"{statistics.median(steps):.0f} ms",
                    f"{np.quantile(steps, 0.95):.0f} ms",
                    f"{max(switches):.0f} ms",
                )
            )
            page.close()
    headings = (
        "nodes",
        "size",
        "written in",
        "first paint",
        "all drawn",
        "slider step, median",
        "95 %",
        "slowest switch",
    )
    print(facts())
    print_table(listing("The page of a GCN on a random graph, 20 labels, in headless Chromium", headings, rows))


def certificate(nodes: int) -> labelcert.Certificate:
    """A GCN on a graph of two communities, some five neighbours each."""
    graph = labelcert.load_dataset("csbm", n=nodes + 20)
    split = labelcert.published_split(graph, seed=0)
    return labelcert.GCN(C=0.1).certify(graph, split.labeled, split.pool, max_flips=5)


if __name__ == "__main__":
    main()
