"""Verified labels and trusted annotators: the whole page shows what a fresh certificate would, or bounds around it."""

from __future__ import annotations

import csv
import io
import re
import xml.etree.ElementTree as ET
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import labelcert
from labelcert import Threat
from labelcert.certificate import Certificate
from labelcert.certificate.answer import answer
from labelcert.cli import cli
from labelcert.examples import several_clouds, two_clouds
from tests.browser.test_report import karate, slide

TWO, THREE = two_clouds(), several_clouds(n_labels=9, n_test=6)
COSTS = np.arange(TWO.labels.size) % 2 + 1
THREATS: dict[str, tuple[Any, dict[str, Any]]] = {
    "flips": (TWO, {}),
    "costs": (TWO, {"costs": COSTS}),
    "some trusted": (TWO, {"trusted": np.arange(TWO.labels.size) < 4}),
    "removed": (TWO, {"removable": True, "allowed_flips": {}}),
    "three classes": (THREE, {}),
}


def certified(data: Any, threat: dict[str, Any], flips: int = 3) -> Certificate:
    cert: Certificate = labelcert.certify(
        data.K_train, data.labels, data.K_test, 1.0, threat=Threat(**threat), max_flips=flips
    )
    return cert


def text(page: Any, place: str) -> str:
    found: str = page.locator(place).inner_text()
    return found


def column(page: Any, name: str) -> list[str]:
    """A column of the table of predictions, by its rows."""
    heads = [head.split(" ▲")[0].split(" ▼")[0] for head in page.locator("#node-table thead th").all_inner_texts()]
    k = heads.index(name)
    cells = page.locator("#node-table tbody tr").evaluate_all(
        "(rows, k) => rows.map((row) => [Number(row.dataset.row), row.children[k].innerText])", k
    )
    return [cell for _, cell in sorted(cells)]


def ends(shown: str, never: int) -> tuple[int, int]:
    """Both ends of a radius."""
    if shown == "never":
        return never, never
    low, _, high = shown.removeprefix("≥ ").partition(" to ")
    return int(low), never if shown.startswith("≥") else int(high or low)


@pytest.mark.parametrize("kind", THREATS)
@pytest.mark.parametrize("listed", [True, False], ids=["listed", "bare"])
def test_every_figure_is_that_of_a_fresh_certificate(
    opened: Callable[..., Any], tmp_path: Path, kind: str, listed: bool
) -> None:
    """With all attacks listed, exactly; without, the truth is never outside of what is shown."""
    data, threat = THREATS[kind]
    cert, m = certified(data, threat), data.labels.size
    cert.save(tmp_path / "bare.cert")
    given = cert if listed else labelcert.load(tmp_path / "bare.cert")
    labelcert.write_report({"one": given}, tmp_path / "page.html", budget=cert.last_flips)
    page, trusted = opened(tmp_path / "page.html"), np.array(threat.get("trusted", np.zeros(m, dtype=bool)))
    for i in [i for i in (1, 5, 3) if not trusted[i]]:
        page.locator(f'#label-table [data-label="{i}"]').click()
        trusted[i] = True
        fresh = certified(data, {**threat, "trusted": trusted.copy()})
        for b in range(1, cert.last_flips + 1):
            slide(page, b)
            worst = page.locator("#worst-figure strong").inner_text()
            least, most = (int(part) for part in (worst.split(" to ") * 2)[:2])
            assert least <= fresh.collective_lower[min(b, fresh.last_flips)] <= most
            story = text(page, "#story")
            assert not [k for k in np.flatnonzero(trusted) if re.search(rf"label {k}: ", story)]
            if listed:
                assert text(page, "#safe-words") == answer(fresh, min(b, fresh.last_flips)).safe.replace(
                    answer_unit(fresh, min(b, fresh.last_flips)), answer_unit(fresh, b)
                )
                assert least == most
                shares = [row.split("\t") for row in page.locator("#fates tbody tr").all_inner_texts()]
                robust = [int(np.sum((fresh.predictions == c) & (fresh.radius_lower > b))) for c in cert.classes]
                assert [int(row[2]) for row in shares] == robust
        for t, (low, high) in enumerate(ends(shown, cert.never) for shown in column(page, "radius")):
            assert low <= fresh.radius_upper[t] or fresh.radius_upper[t] == fresh.never
            assert high >= min(fresh.radius_lower[t], cert.never)
            if listed and fresh.radius_upper[t] <= cert.last_flips:
                assert low == high == fresh.radius_upper[t]
    page.locator("#plan-none").click()
    assert text(page, "#safe-words") == answer(cert, cert.last_flips).safe


def answer_unit(cert: Certificate, b: int) -> str:
    from labelcert.certificate.answer import wrong

    return wrong(cert, b)


def test_trusted_annotators_drive_the_whole_page(opened: Callable[..., Any], tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    rows = [(i, "abcdef"[a], int(rng.integers(2))) for i in range(10) for a in rng.choice(6, 3, replace=False)]
    votes, H = labelcert.Votes(rows), np.random.default_rng(4).integers(-2, 5, size=(12, 10)).astype(float)
    cert = labelcert.certify_linear(H, votes.labels, threat=Threat(votes=votes), max_flips=3)
    labelcert.write_report({"crowd": cert}, tmp_path / "crowd.html", budget=1)
    page = opened(tmp_path / "crowd.html")
    assert [text(page, f"#{tile}-words") for tile in ("safe", "worst", "next")] == str(answer(cert, 1)).split("\n")
    page.locator("#do-next").click()
    who = text(page, "#plan-words").split(":")[0].removeprefix("Audit ")
    known = Threat(votes=votes, trusted_annotators=[who])
    fresh = labelcert.certify_linear(H, votes.labels, threat=known, max_flips=3)
    assert text(page, "#safe-words") == answer(fresh, 1).safe
    assert not re.search(rf"\b{who} lies", text(page, "#story"))
    for t, shown in enumerate(column(page, "radius")):
        low, high = ends(shown, cert.never)
        assert low <= fresh.radius_upper[t] or fresh.radius_upper[t] == fresh.never
        assert high >= min(fresh.radius_lower[t], cert.never)


@pytest.fixture(scope="module")
def club(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Certificate]]:
    certs = {"GCN": karate(), "SGC": karate("sgc")}
    path = tmp_path_factory.mktemp("plans") / "karate.html"
    labelcert.write_report(certs, path, title="club", budget=2)
    return path, certs


def test_an_address_restores_the_view(opened: Callable[..., Any], club: Any) -> None:
    path, _ = club
    page = opened(path)
    page.select_option("#model", "1")
    slide(page, 3)
    page.locator("#node-table tbody tr").nth(3).locator("button").click()
    page.locator('#label-table [data-label="2"]').click()
    page.locator("#do-next").click()
    page.locator("#strip .piece").last.click()
    page.locator("h1").hover()
    page.wait_for_function("() => location.hash.includes('only')")
    address = page.url.partition("#")[2]
    assert re.match(r"b=3&model=SGC&node=\d+&only=radius:[\d.]+&verified=[^&]+,[^&]+$", address)
    other = opened(path)
    other.evaluate("(hash) => { location.hash = hash; }", address)
    other.wait_for_function("() => document.getElementById('budget').value === '3'")
    assert text(other, "main") == text(page, "main")
    # Links within the page leave the view alone, and nonsense opens the page as it is.
    page.locator('#toolbar a[href="#labels"]').click()
    assert page.url.partition("#")[2] == address
    other.evaluate("location.hash = 'b=x&model=none&node=%E0%A4&only=odd:1&verified=%E0%A4,nobody'")
    other.wait_for_function("() => document.getElementById('budget').value === '2'")
    assert "Your plan" not in text(other, "#toolbar")


def saved(page: Any, place: str, ending: str) -> bytes:
    with page.expect_download() as download:
        page.locator(f"{place} button.save", has_text=ending.upper()).first.click()
    assert download.value.suggested_filename.endswith(f".{ending}")
    return Path(download.value.path()).read_bytes()


def test_what_is_saved_is_what_is_shown(opened: Callable[..., Any], club: Any) -> None:
    path, certs = club
    page, cert = opened(path), certs["GCN"]
    page.locator("#do-next").click()
    table = list(csv.reader(io.StringIO(saved(page, "#nodes", "csv").decode())))
    assert len(table) == 1 + cert.n_test
    assert table[0][:2] == ["node", "predicted"]
    assert {row[0]: row[1] for row in table[1:]} == dict(
        zip(cert.test_names.tolist(), cert.predictions.tolist(), strict=True)
    )
    curve = list(csv.reader(io.StringIO(saved(page, "#curves", "csv").decode())))
    assert "each alone, before (%)" in curve[0]
    before = [float(row[curve[0].index("each alone, before (%)")]) for row in curve[1:]]
    assert before == pytest.approx([100 * cert.certified_ratio(flips=b) for b in range(cert.last_flips + 1)], abs=1e-3)
    for place in ("#curves", "#graph-export"):
        assert ET.fromstring(saved(page, place, "svg")).tag.endswith("svg")
        assert saved(page, place, "png").startswith(b"\x89PNG")
    with page.expect_download() as download:
        page.locator("#plan-csv").click()
    steps = list(csv.reader(io.StringIO(Path(download.value.path()).read_text())))
    assert [row[3] for row in steps[1:]] == [
        str((cert.radius_lower > 2).sum()),
        text(page, "#safe-figure strong").replace(",", ""),
    ]


def test_spreadsheets_calculate_nothing(opened: Callable[..., Any], tmp_path: Path) -> None:
    names = np.array(["=1+1", "@x"])
    cert = labelcert.certify([[2, 0], [0, 2]], names, [[1, 0], [1, 2]], C=1.0)
    cert.report(tmp_path / "names.html")
    table = list(csv.reader(io.StringIO(saved(opened(tmp_path / "names.html"), "#nodes", "csv").decode())))
    assert {row[1] for row in table[1:]} <= {"'=1+1", "'@x"}


def test_recheck_opens_with_its_plan(opened: Callable[..., Any], tmp_path: Path) -> None:
    page_file = str(tmp_path / "recheck.html")
    words = ["recheck", "karate", "--flips", "2", "--confirm", "2", "--model", "sgc", "--report", page_file]
    assert CliRunner().invoke(cli, words).exit_code == 0
    page = opened(tmp_path / "recheck.html")
    assert text(page, "#budget-text") == "2 wrong labels"
    found = re.match(r"Verify \d+, \d+: (\d+) → (\d+) of \d+ safe", text(page, "#plan-words"))
    assert found
    assert text(page, "#safe-figure strong") == found[2]
    page.select_option("#model", "0")
    assert text(page, "#safe-figure strong") == found[1]


def test_the_story_plays_through_budgets(opened: Callable[..., Any], club: Any) -> None:
    page = opened(club[0])
    page.clock.install()
    slide(page, 0)
    page.locator("#play").click()
    counts = []
    for b in range(1, 4):
        page.clock.run_for(1300)
        assert text(page, "#budget-text").startswith(str(b))
        counts.append(int(re.search(r"(\d+) predictions? changed", text(page, "#story"))[1]))
    assert counts == club[1]["GCN"].collective_lower[1:4].tolist()
    page.locator("#play").click()
    page.clock.run_for(5000)
    assert text(page, "#budget-text").startswith("3")


def kinds(folder: Path) -> list[Path]:
    """A report of each kind."""
    graph = labelcert.load_dataset("karate")
    split = labelcert.published_split(graph, seed=0)
    nothing = karate(max_flips=4, time_limit=1e-4)
    votes = labelcert.Votes([(i, who, int(i > 2)) for i in range(6) for who in "abc"])
    certs = {
        "two models": {"GCN": karate(), "SGC": karate("sgc")},
        "margin": {"model": karate(margin=0.005)},
        "nothing": {"model": nothing},
        "metrics": {"model": karate(max_flips=2, metrics=["accuracy"])},
        "parts": {
            "model": labelcert.Partition(labelcert.GCN(C=0.1), parts=3).certify(graph, split.labeled, split.pool)
        },
        "bounds": {"model": karate(engine="relaxed", max_flips=2)},
        "no graph": {"model": certified(THREE, {})},
        "annotators": {"model": labelcert.certify_linear(np.eye(4, 6) + 0.3, votes.labels, threat=Threat(votes=votes))},
    }
    for name, found in certs.items():
        labelcert.write_report(found, folder / f"{name}.html")
    return [folder / f"{name}.html" for name in certs]


def test_each_kind_is_accessible_prints_on_six_pages_and_answers_on_its_first_screen(
    chrome: Any, opened: Callable[..., Any], tmp_path: Path
) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright")
    for path in kinds(tmp_path):
        for scheme in ("light", "dark"):
            page = opened(path, color_scheme=scheme, bypass_csp=True, has_touch=True)
            found = axe.Axe().run(page).response["violations"]
            assert [(one["id"], one["nodes"][0]["html"]) for one in found] == [], (path.name, scheme)
        assert len(re.findall(rb"/Type\s*/Page[^s]", page.pdf())) <= 6
        for width, height in ((1400, 900), (800, 900), (400, 800)):
            page.set_viewport_size({"width": width, "height": height})
            page.evaluate("scrollTo(0, 0)")
            for tile in ("safe", "worst", "next"):
                box = page.locator(f"#{tile}-words").bounding_box()
                assert box["y"] + box["height"] <= height, (path.name, tile, width)
                assert text(page, f"#{tile}-words")
        # At 400 pixels: what matters is on the screen, and fingers find explanations.
        for place in ("#node-table tbody tr:first-child .verdict", "#label-table tbody tr:first-child input"):
            if not page.locator(place).is_visible():  # where nothing was proved
                continue
            box = page.locator(place).bounding_box()
            assert box["x"] + box["width"] <= 381, (path.name, place)
        page.locator("#safe-title .term").tap()
        assert page.locator("#safe-title .explained").is_visible()
        if "no graph" in path.name:
            assert not re.search(r"\b(nodes?|graphs?)\b", text(page, "main"), re.IGNORECASE)
        if path.name in ("nothing.html", "bounds.html"):  # a relaxation alone proves nothing of so small a club
            assert re.match(r"Nothing was proved in [\d.]+ s\.", text(page, "#safe-words"))
            assert text(page, "#next-words").startswith("Try ")
            assert not page.locator("#curves").is_visible()
        else:
            assert page.locator("#safe-figure strong").count() == 1


def test_the_wheel_scrolls_the_page_over_the_graph(opened: Callable[..., Any], club: Any) -> None:
    page = opened(club[0])
    page.locator("#graph").scroll_into_view_if_needed()
    box, before = page.locator("#graph").bounding_box(), page.evaluate("scrollY")
    page.mouse.move(box["x"] + 100, box["y"] + 100)
    page.mouse.wheel(0, 300)
    page.wait_for_function("(before) => scrollY !== before", arg=before)


def test_the_graph_shows_what_the_pointer_is_on(opened: Callable[..., Any], club: Any) -> None:
    page = opened(club[0])
    page.wait_for_timeout(500)
    picture = "() => document.querySelector('#graph canvas').toDataURL()"
    before = page.evaluate(picture)
    page.locator("#label-table tbody tr").first.hover()
    page.wait_for_function("(before) => document.querySelector('#graph canvas').toDataURL() !== before", arg=before)
