"""The report in a real browser: what it says is what the certificate says, and everything in it works."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse

import labelcert
from labelcert.certificate import Certificate
from labelcert.certificate.answer import answer
from labelcert.graphs import Graph
from labelcert.rechecking.listing import listed_attacks
from tests.helpers.local_data import data_folder

HOSTILE = [
    "</script><script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "ليلى",
    "😀 {{data}}",
    "a & b's \\ <!--",
    "\u202eturned",
    "x\u2028y",
    "normal",
]


def karate(name: str = "gcn", **options: Any) -> Certificate:
    graph = labelcert.load_dataset("karate")
    split = labelcert.published_split(graph, seed=0)
    model = labelcert.model_from_name(name, normalization="row", C=0.1)
    cert: Certificate = model.certify(graph, split.labeled, split.pool, **options)
    return cert


@pytest.fixture(scope="module")
def club(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Certificate]]:
    certs = {"GCN": karate(), "SGC": karate("sgc")}
    path = tmp_path_factory.mktemp("pages") / "karate.html"
    labelcert.write_report(certs, path, title="Zachary's karate club", budget=1)
    return path, certs


def dataset(name: str) -> Graph:
    return labelcert.load_dataset(name, data_dir=data_folder())


def slide(page: Any, budget: int) -> None:
    page.locator("#budget").evaluate(
        "(slider, b) => { slider.value = b; slider.dispatchEvent(new Event('input')); }", budget
    )


def share_in(page: Any, place: str) -> float:
    """The first number in bold, in per cent."""
    return float(page.locator(f"{place} strong").first.inner_text().removesuffix(" %"))


def rows(page: Any, place: str = "#node-table") -> list[str]:
    return page.locator(f"{place} tbody tr th").all_inner_texts()


def test_what_it_says_is_what_the_certificate_says(opened: Callable[..., Any], club: Any) -> None:
    path, certs = club
    page = opened(path)
    for k, cert in enumerate(certs.values()):
        page.select_option("#model", str(k))
        for b in range(cert.last_flips + 1):
            slide(page, b)
            assert page.locator("#safe-figure strong").inner_text() == f"{(cert.radius_lower > b).sum()}"
            assert page.locator("#worst-figure strong").inner_text() == f"{cert.collective_lower[b]}"
            told = [page.locator(f"#{tile}-words").inner_text() for tile in ("safe", "worst", "next")]
            assert "\n".join(told) == str(answer(cert, b, listed_attacks(cert)))
            for word in ("robust", "vulnerable", "open"):
                page.select_option("#show-verdict", word)
                named = {"open": "unknown"}.get(word, word)
                count = int((cert.verdicts(flips=b) == named).sum())
                text = page.locator("#node-table .pager span").inner_text()
                assert text == "no rows" if count == 0 else text.endswith(f"of {count}")
            takeovers = cert.takeovers(flips=b)
            shown = [int(cell) for cell in page.locator("#takeovers button.heat").all_inner_texts()]
            assert shown == [int(takeovers.iloc[0, 1]), int(takeovers.iloc[1, 0])]


def test_tables_sort_search_and_turn_pages(opened: Callable[..., Any], club: Any) -> None:
    page = opened(club[0])
    radius = page.locator("#node-table thead button", has_text="radius").first
    for direction in ("descending", "ascending"):
        radius.click()
        heading = page.locator("#node-table thead th", has_text="radius").first
        assert heading.get_attribute("aria-sort") == direction
        column = page.locator("#node-table thead th").all_inner_texts().index(heading.inner_text())
        shown = [int(text) for text in page.locator(f"#node-table tbody td:nth-child({column + 1})").all_inner_texts()]
        assert shown == sorted(shown, reverse=direction == "descending")
    first = rows(page)
    page.get_by_role("button", name="next page").first.click()
    assert len(rows(page)) == 26 - 15
    assert not set(first) & set(rows(page))
    page.fill("#search", "officer")
    everywhere = page.locator("#node-table tbody tr").all_inner_texts()
    assert everywhere
    assert all("Officer" in text for text in everywhere)
    page.fill("#search", "nobody is called so")
    assert rows(page) == []


def test_a_click_shows_the_witness(opened: Callable[..., Any], club: Any) -> None:
    path, certs = club
    cert = certs["GCN"]
    page = opened(path)
    name = rows(page)[0]
    page.locator("#node-table tbody tr").first.click()
    assert page.locator("#detail h3").inner_text() == name
    flips = cert.witness(name, names=True)
    assert flips is not None
    told = page.locator("#detail ul li").all_inner_texts()
    assert told == [
        f"{label} becomes {new} instead of {cert.labels[cert.label_names.tolist().index(label)]}"
        for label, new in flips.items()
    ]
    page.select_option("#graph-hops", "1")
    assert "nodes" in page.locator("#graph").get_attribute("aria-label")
    around = int(re.search(r"(\d+) nodes", page.locator("#graph").get_attribute("aria-label"))[1])
    assert 1 < around < 34
    page.locator("#graph").press("Escape")
    assert page.locator("#detail h3").count() == 0


@pytest.mark.parametrize("k", [0, 1])
def test_trust_switches_tell_what_a_certificate_would(opened: Callable[..., Any], club: Any, k: int) -> None:
    path, certs = club
    name, cert = list(certs.items())[k]
    page = opened(path)
    page.select_option("#model", str(k))
    slide(page, 2)
    trusted = np.zeros(cert.labels.size, dtype=bool)
    for i in (4, 0, 6):
        page.locator(f'#label-table [data-label="{i}"]').click()
        trusted[i] = True
        again = karate(name.lower(), threat=labelcert.Threat(trusted=trusted), max_flips=2)
        assert "This is exact" in page.locator("#trust-result").inner_text()
        assert share_in(page, "#trust-result") == pytest.approx(100 * again.certified_ratio(flips=2), abs=0.1)
        together = float(re.search(r"alone, ([\d.]+) % all at once", page.locator("#trust-result").inner_text())[1])
        assert together == pytest.approx(100 * again.certified_ratio(flips=2, collective=True), abs=0.1)
    page.locator("#trust-none").click()
    assert page.locator("#label-table [data-label]:checked").count() == 0


def test_the_label_to_verify_next_is_the_best_one(opened: Callable[..., Any], club: Any) -> None:
    path, certs = club
    page = opened(path)
    page.select_option("#model", "1")
    slide(page, 1)
    page.locator("#trust-next").click()
    cert = certs["SGC"]
    best = labelcert.recheck(cert, flips=1, verify=1)
    assert share_in(page, "#trust-result") == pytest.approx(100 * best.after[-1], abs=0.1)


def test_what_is_not_all_listed_is_an_interval(opened: Callable[..., Any], tmp_path: Path) -> None:
    """Without kernels, only witnesses are known: then the truth lies between the ends that are shown."""
    cert = karate("sgc")
    cert.save(tmp_path / "bare.cert")
    labelcert.load(tmp_path / "bare.cert").report(tmp_path / "bare.html", budget=2)
    page = opened(tmp_path / "bare.html")
    trusted = np.zeros(cert.labels.size, dtype=bool)
    for i in (1, 4):
        page.locator(f'#label-table [data-label="{i}"]').click()
        trusted[i] = True
    assert "Approximate" in page.locator("#trust-result").inner_text()
    text = page.locator("#trust-result strong").first.inner_text()
    low, high = [float(part.removesuffix(" %")) for part in (text.split(" to ") * 2)[:2]]
    truth = 100 * karate("sgc", threat=labelcert.Threat(trusted=trusted), max_flips=2).certified_ratio(flips=2)
    assert low - 0.1 <= truth <= high + 0.1


def test_an_undecided_prediction_is_never_called_exact(opened: Callable[..., Any], tmp_path: Path) -> None:
    """A tie of logistic scores cannot be decided: it stays open, whichever labels are verified."""
    K = np.eye(4) + 1.0
    rows = np.array([[1.0, 1.0, 1.0, 1.0], [2.0, 1.0, 1.0, 1.0], [1.0, 1.0, 1.0, 2.0]])
    cert = labelcert.certify(K, ["a", "a", "b", "b"], rows, C=1.0, loss="logistic", max_flips=1)
    assert cert.radius_upper[0] == cert.never
    assert cert.radius_lower[0] == 0
    cert.report(tmp_path / "open.html")
    page = opened(tmp_path / "open.html")
    page.locator('#label-table [data-label="0"]').click()
    assert "This is exact" not in page.locator("#trust-result").inner_text()
    page.locator("#node-table tbody tr", has_text="open").first.click()
    assert "not known" in page.locator("#detail").inner_text()


def test_an_ensemble_promises_nothing_about_single_labels(opened: Callable[..., Any], tmp_path: Path) -> None:
    graph = labelcert.load_dataset("karate")
    split = labelcert.published_split(graph, seed=0)
    cert = labelcert.Partition(labelcert.GCN(C=0.1), parts=3).certify(graph, split.labeled, split.pool)
    cert.report(tmp_path / "parts.html", budget=2)
    page = opened(tmp_path / "parts.html")
    heads = " ".join(page.locator("#label-table thead th").all_inner_texts())
    assert "in open witnesses" in heads
    assert "secures" not in heads
    assert "if the parts voted" in " ".join(page.locator("#node-table thead th").all_inner_texts())


def test_a_margin_is_not_called_a_change(opened: Callable[..., Any], tmp_path: Path) -> None:
    karate(margin=0.005).report(tmp_path / "margin.html", budget=1)
    page = opened(tmp_path / "margin.html")
    assert "and takes the margin of" in page.locator("#worst-words").inner_text()
    page.locator("#node-table tbody tr").last.click()
    assert "It changes" not in page.locator("#detail").inner_text()
    assert "prediction that loses its margin" in page.locator("#legend").inner_text()


def test_models_with_other_nodes_and_budgets(opened: Callable[..., Any], tmp_path: Path) -> None:
    graph = labelcert.load_dataset("karate")
    split = labelcert.published_split(graph, seed=0)
    half = len(split.pool) // 2
    model = labelcert.GCN(normalization="row", C=0.1)
    trusted = labelcert.Threat(trusted=np.arange(8) < 6)
    certs = {
        "first": model.certify(graph, split.labeled, split.pool[: half + 3]),
        "second": model.certify(graph, split.labeled, split.pool[half:]),
        "trusting": model.certify(graph, split.labeled, split.pool[half:], threat=trusted),
    }
    assert certs["trusting"].last_flips == 2 < certs["trusting"].max_flips
    labelcert.write_report(certs, tmp_path / "three.html", budget=5)
    page = opened(tmp_path / "three.html")
    assert "not asked for" not in page.locator("#compare-table").inner_text()
    assert page.locator("#compare-notes li").count() == 2
    shared, alone = certs["first"].test_names[-1], certs["first"].test_names[0]
    for name, stays in ((shared, True), (alone, False)):
        page.select_option("#model", "0")
        page.fill("#search", name)
        page.locator("#node-table tbody tr", has=page.get_by_role("button", name=name, exact=True)).click()
        page.fill("#search", "")
        page.select_option("#model", "1")
        assert page.locator("#detail h3").all_inner_texts() == ([name] if stays else [])


def test_no_share_is_negative_and_ties_are_named(opened: Callable[..., Any], tmp_path: Path) -> None:
    cert = labelcert.certify([[2, 0], [0, 2]], ["cat", "dog"], [[1, 1], [1, 2]], C=1.0)
    cert.report(tmp_path / "tie.html", budget=0)
    page = opened(tmp_path / "tie.html")
    for b in range(3):
        slide(page, b)
        assert "-0" not in page.locator("main").inner_text()
        assert page.locator("#safe-figure").inner_text() == f"{(cert.radius_lower > b).sum()} of 2"


def test_a_large_graph_is_shown_around_a_node(opened: Callable[..., Any], tmp_path: Path) -> None:
    n = 6100
    ring = scipy.sparse.diags_array([np.ones(n - 1), np.ones(n - 1)], offsets=[-1, 1]).tocsr()
    graph = Graph(ring, np.eye(n, 3), np.arange(n) % 2)
    cert = labelcert.GCN(C=1.0).certify(graph, [0, 1, 2, 3], [4, 5, 6, 7], max_flips=1)
    cert.report(tmp_path / "large.html")
    page = opened(tmp_path / "large.html")
    assert page.locator("#graph-large").is_visible()
    page.locator("#node-table tbody tr").first.click()
    assert not page.locator("#graph-large").is_visible()
    page.wait_for_function(PAINTED)


PAINTED = """() => {
  const canvas = document.querySelector("#graph canvas"), copy = document.createElement("canvas");
  [copy.width, copy.height] = [canvas.width, canvas.height];
  const context = copy.getContext("2d", { willReadFrequently: true });
  context.drawImage(canvas, 0, 0);
  const { data } = context.getImageData(0, 0, copy.width, copy.height);
  return data.filter((value, k) => k % 4 === 3 && value > 0).length > 100;
}"""


def test_the_graph_follows_the_chosen_node(opened: Callable[..., Any], club: Any) -> None:
    page = opened(club[0])
    page.select_option("#graph-hops", "1")
    for k in range(4):
        page.locator("#node-table tbody tr").nth(k).click()
        page.wait_for_timeout(100)
        page.wait_for_function(PAINTED)


def test_keyboard_alone(opened: Callable[..., Any], club: Any) -> None:
    page = opened(club[0])
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.locator("#budget").focus()
    page.keyboard.press("ArrowRight")
    assert page.locator("#budget-text").inner_text() == "2 wrong labels"
    assert page.locator("#budget").get_attribute("aria-valuetext") == "2 wrong labels"
    page.locator("#node-table tbody button").first.focus()
    page.keyboard.press("Enter")
    assert page.locator("#detail h3").count() == 1
    assert page.evaluate("document.activeElement.closest('tr') !== null")
    page.locator('#label-table [data-label="0"]').focus()
    page.keyboard.press("Space")
    assert "1 label verified" in page.locator("#trust-result").inner_text()
    assert page.evaluate("document.activeElement.dataset.label") == "0"
    page.locator("#graph").focus()
    for key in ("ArrowLeft", "+", "-", "0"):
        page.keyboard.press(key)


def test_everything_has_a_name(opened: Callable[..., Any], club: Any) -> None:
    """No control without a name, no image without a text, one heading of the first order, and no jump among others."""
    page = opened(club[0])
    assert (
        page.evaluate(
            """[...document.querySelectorAll("button, input, select, [role=img], [role=region]")].filter((element) =>
            element.offsetParent && !element.getAttribute("aria-label") && !element.closest("label")
            && !element.textContent.trim()
        ).map((element) => element.outerHTML)"""
        )
        == []
    )
    levels = page.evaluate("[...document.querySelectorAll('h1, h2, h3')].map((heading) => Number(heading.tagName[1]))")
    assert levels.count(1) == 1
    assert all(after - before <= 1 for before, after in itertools.pairwise(levels))
    assert page.evaluate("document.documentElement.lang") == "en"


def luminance(colour: str) -> float:
    parts = [int(part) / 255 for part in re.findall(r"\d+", colour)[:3]]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_light_and_dark_have_enough_contrast(opened: Callable[..., Any], club: Any, scheme: str) -> None:
    page = opened(club[0], color_scheme=scheme)
    style = "(place) => getComputedStyle(document.querySelector(place))"
    paper = luminance(page.evaluate(f"({style})('body').backgroundColor"))
    assert (paper > 0.5) == (scheme == "light")
    for place in ("body", "a", ".muted", ".verdict.vulnerable", "caption", "footer"):
        ink = luminance(page.evaluate(f"({style})('{place}').color"))
        assert (max(ink, paper) + 0.05) / (min(ink, paper) + 0.05) >= 4.5, place
    # The button goes through all themes, whatever the system says.
    seen = set()
    for _ in range(3):
        page.locator("#theme").click()
        seen.add((page.locator("#theme").inner_text(), page.evaluate(f"({style})('body').backgroundColor")))
    assert len({text for text, _ in seen}) == 3
    assert len({background for _, background in seen}) == 2


def test_long_names_and_narrow_screens(opened: Callable[..., Any], tmp_path: Path) -> None:
    n = 8
    ring = np.roll(np.eye(n), 1, axis=0) + np.roll(np.eye(n), -1, axis=0)
    names = tuple(f"{i}{'x' * 400}" for i in range(n))
    graph = Graph(ring, np.eye(n), np.arange(n) % 2, class_names=("a" * 200, "b" * 200), node_names=names)
    labelcert.GCN(C=1.0).certify(graph, [0, 1, 2, 3], [4, 5, 6, 7]).report(tmp_path / "long.html")
    for width in (1400, 400):
        page = opened(tmp_path / "long.html")
        page.set_viewport_size({"width": width, "height": 800})
        page.wait_for_timeout(200)
        assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_it_prints(opened: Callable[..., Any], club: Any) -> None:
    page = opened(club[0], color_scheme="dark")
    assert len(page.pdf()) > 20_000
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert len(rows(page)) == 20
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert len(rows(page)) == 15
    page.emulate_media(media="print")
    assert not page.locator("#toolbar").is_visible()
    assert page.locator("#safe-words").is_visible()
    page.locator("#do-next").evaluate("(button) => button.click()")
    assert page.locator("#plan-words").is_visible()


def test_names_never_become_markup(opened: Callable[..., Any], tmp_path: Path) -> None:
    n = len(HOSTILE)
    ring = np.roll(np.eye(n), 1, axis=0) + np.roll(np.eye(n), -1, axis=0)
    graph = Graph(
        ring, np.eye(n), np.arange(n) % 2, class_names=(HOSTILE[0], HOSTILE[4]), node_names=tuple(HOSTILE), name="<b>"
    )
    cert = labelcert.GCN(C=1.0).certify(graph, [0, 1, 2, 3], [4, 5, 6, 7])
    threat = labelcert.Threat(groups=[HOSTILE[0]] * 4, group_budgets={HOSTILE[0]: 1})
    limited = labelcert.GCN(C=1.0).certify(graph, [0, 1, 2, 3], [4, 5, 6, 7], threat=threat)
    path = tmp_path / "hostile.html"
    labelcert.write_report(
        {HOSTILE[1]: cert, HOSTILE[0]: limited}, path, title=HOSTILE[0], files={HOSTILE[1]: HOSTILE[0]}
    )
    page = opened(path)
    page.on("dialog", lambda dialog: pytest.fail("a name ran as a script"))
    for k in range(2):
        page.select_option("#model", str(k))
        page.locator("#node-table tbody tr").first.click()
        assert page.locator("img").count() == 0
        assert page.locator("script").count() == 4
    shown = set(rows(page))
    assert {HOSTILE[4], "normal"} <= shown
    assert "\\u202eturned" in shown
    assert page.locator("h1").inner_text() == HOSTILE[0]
    assert page.evaluate("[...document.querySelectorAll('#node-table th[scope=row] bdi')].length") == 4


def test_two_models_on_a_real_graph(opened: Callable[..., Any], tmp_path: Path) -> None:
    graph = dataset("cora-ml-b")
    split = labelcert.published_split(graph, seed=0)
    certs = {
        "GCN": labelcert.GCN(normalization="row", C=0.075).certify(graph, split.labeled, split.pool),
        "APPNP": labelcert.APPNP(C=0.0075).certify(graph, split.labeled, split.pool),
    }
    path = tmp_path / "cora.html"
    labelcert.write_report(certs, path, budget=2)
    assert path.stat().st_size < 3e6
    page = opened(path)
    told = [page.locator(f"#{tile}-words").inner_text() for tile in ("safe", "worst", "next")]
    documented = Path(__file__).parents[2].joinpath("docs", "report.md").read_text(encoding="utf-8")
    assert " ".join(told) in re.sub(r"\s+", " ", documented)
    assert told == str(answer(certs["GCN"], 2, listed_attacks(certs["GCN"]))).split("\n")
    assert page.locator("#compare-table tbody tr").count() == 2
    assert "1,235 nodes, 2,500 edges" in page.locator("#graph").get_attribute("aria-label")
    page.select_option("#graph-colour", "radius")
    page.mouse.move(1000, 700)
    page.mouse.wheel(0, -300)
    names = [name for name, _ in zip(page.locator("#compare-table tbody th").all_inner_texts(), certs, strict=True)]
    assert names == list(certs)


def test_many_classes_on_a_real_graph(opened: Callable[..., Any], tmp_path: Path) -> None:
    graph = dataset("cora-ml")
    split = labelcert.published_split(graph, seed=0)
    cert = labelcert.GCN(C=0.05).certify(graph, split.labeled, split.pool, max_flips=1)
    path = tmp_path / "many.html"
    cert.report(path)
    assert path.stat().st_size < 3e6
    page = opened(path)
    page.select_option("#graph-colour", "class")
    assert page.locator("#takeovers tbody tr").count() == 7
    counts = cert.takeovers(flips=1).to_numpy()
    shown = [int(text.replace(",", "")) for text in page.locator("#takeovers .heat").all_inner_texts()]
    assert shown == counts[~np.eye(7, dtype=bool)].tolist()


def test_an_ensemble_on_600_labels(opened: Callable[..., Any], tmp_path: Path) -> None:
    graph = dataset("cora-ml-b")
    rng = np.random.default_rng(0)
    labeled, test = np.split(rng.permutation(graph.n_nodes)[:700], [600])
    ensemble = labelcert.Partition(labelcert.GCN(C=0.075), parts=30, combine="votes")
    cert = ensemble.certify(graph, labeled, test, max_flips=10)
    path = tmp_path / "parts.html"
    cert.report(path, name="30 parts", budget=5)
    page = opened(path)
    assert "by votes" in " ".join(page.locator("#node-table thead th").all_inner_texts())
    assert page.locator("#label-table .pager span").inner_text().endswith("of 600")
    assert page.locator("#trust-note").is_visible()


def test_a_study(opened: Callable[..., Any], tmp_path: Path) -> None:
    from labelcert.studies import Store, expand, run_plan
    from labelcert.studies.report import make_report
    from labelcert.studies.study_files import parse_study

    text = """
    title = "Karate <b>"
    budgets = [0.1, 0.3]
    seeds = [0, 1]
    certificates = ["ratio", "collective"]
    [[datasets]]
    name = "karate"
    [[models]]
    name = "gcn"
    C = 0.1
    [[models]]
    name = "sgc"
    C = 0.1
    """
    plan = expand(parse_study(text, name="club"))
    with Store(tmp_path, write=True) as store:
        run_plan(plan, store, workers=1)
        report = make_report(plan, store, tmp_path / "club", pictures=False, page=True)
    assert report.files[-1].name == "report.html"
    page = opened(report.files[-1])
    assert page.locator("#study-title").inner_text() == "Karate <b>"
    assert page.locator("#sheets table").count() == len(report.sheets) == 2
    assert page.locator("#panel option").count() == 2
    page.select_option("#panel", "1")
    assert not page.locator("#toolbar").count()


def test_switches_of_annotators(opened: Callable[..., Any], tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    rows = [(i, "abcdef"[a], int(rng.integers(2))) for i in range(10) for a in rng.choice(6, 3, replace=False)]
    votes = labelcert.Votes(rows)
    H = rng.integers(-2, 5, size=(20, 10)).astype(float)
    threat = labelcert.Threat(votes=votes)
    cert = labelcert.certify_linear(H, votes.labels, threat=threat, max_flips=3)
    labelcert.write_report({"crowd": cert}, tmp_path / "crowd.html", budget=1)
    page = opened(tmp_path / "crowd.html")
    assert page.locator("#crowd").is_visible()
    assert page.locator("#budget-text").inner_text() == "1 dishonest annotator"
    assert share_in(page, "#audit-result") == pytest.approx(100 * np.mean(cert.radius_lower > 1), abs=0.1)
    page.locator("#audit-next").click()
    chosen = page.locator("#crowd-table input:checked").get_attribute("data-annotator")
    known = labelcert.Threat(votes=votes, trusted_annotators=[votes.annotators[int(chosen)]])
    then = labelcert.certify_linear(H, votes.labels, threat=known, max_flips=1)
    assert share_in(page, "#audit-result") == pytest.approx(100 * np.mean(then.radius_lower > 1), abs=0.1)
    page.locator("#audit-none").click()
    assert share_in(page, "#audit-result") == pytest.approx(100 * np.mean(cert.radius_lower > 1), abs=0.1)


def test_worst_cases_follow_the_slider(opened: Callable[..., Any], tmp_path: Path) -> None:
    plain, asked = karate(max_flips=2), karate(max_flips=2, metrics=["accuracy", labelcert.Metric("recall")])
    labelcert.write_report({"plain": plain, "asked": asked}, tmp_path / "worst.html", budget=1)
    page = opened(tmp_path / "worst.html")
    assert page.locator("#worst").is_hidden()
    page.select_option("#model", "1")
    for b in range(3):
        slide(page, b)
        rows = page.locator("#worst-table tbody tr").all_inner_texts()
        for text, worst in zip(rows, asked.worst_cases, strict=True):
            assert text.startswith(worst.title)
            cells = text.split("\t")
            assert cells[1:3] == [worst.text(0), worst.text(b)]
            told = [f"{asked.label_names[i]}: {asked.labels[i]} → {name}" for i, name in worst.witness(b).items()]
            assert cells[3] == (", ".join(told) or "none")


def test_worst_cases_show_any_names_as_text(opened: Callable[..., Any], tmp_path: Path) -> None:
    data = labelcert.examples.two_clouds(n_labels=6, n_test=4)
    names = np.array([HOSTILE[1], HOSTILE[0]])
    labels, truth = (names[(values == "fraud").astype(int)] for values in (data.labels, data.truth))
    metric = labelcert.Metric("accuracy", truth, groups=["a", "b", "a", "b"])
    cert = labelcert.certify(
        data.K_train,
        labels,
        data.K_test,
        C=1.0,
        max_flips=2,
        metrics=[labelcert.Metric("recall", truth, positive=names[0]), metric],
    )
    labelcert.write_report({"names": cert}, tmp_path / "names.html", budget=2)
    page = opened(tmp_path / "names.html")
    assert names[0] in page.locator("#worst-table").inner_text()
    assert page.locator("#worst img").count() == page.locator("#worst script").count() == 0
