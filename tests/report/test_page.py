"""The page of a report without a browser: what is in the file, and what is refused."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import labelcert
from labelcert import Threat, certify
from labelcert.certificate.run_record import RunRecord, command_line
from labelcert.cli import cli
from labelcert.examples import several_clouds, two_clouds
from labelcert.rechecking.listing import listed_attacks
from labelcert.report.layout import layout
from labelcert.report.page import html as page_html
from labelcert.report.page.payload import Shown, certificates_page, comparability, exactness

PAGE = Path(page_html.__file__).parent


def karate(**options: object) -> labelcert.Certificate:
    graph = labelcert.load_dataset("karate")
    split = labelcert.published_split(graph, seed=0)
    return labelcert.GCN(normalization="row", C=0.1).certify(graph, split.labeled, split.pool, **options)


class Reader(HTMLParser):
    """All tags with their attributes, and the data."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.data = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        if self.tags and self.tags[-1][1].get("id") == "data":
            self.data += data


def read(path: Path) -> tuple[Reader, dict[str, object]]:
    reader = Reader(path.read_text(encoding="utf-8"))
    return reader, json.loads(reader.data)


def test_vendored_files_are_the_published_ones() -> None:
    listed = {}
    for library in json.loads((PAGE / "vendor" / "vendored.json").read_text(encoding="utf-8")):
        assert library["integrity"].startswith("sha512-")
        assert (
            f"{library['package']} {library['version']}".lower()
            in (PAGE / "vendor" / "LICENSES.txt").read_text().lower()
        )
        listed |= library["sha256"]
    found = {
        path.relative_to(PAGE / "vendor").as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in (PAGE / "vendor").glob("*/*")
    }
    assert found == listed


def test_the_page_is_complete_and_reaches_for_nothing(tmp_path: Path) -> None:
    cert = karate()
    cert.report(tmp_path / "one.html")
    cert.report(tmp_path / "two.html")
    reader, data = read(tmp_path / "one.html")
    assert not [tag for tag, attributes in reader.tags if {"src", "srcset", "background"} & set(attributes)]
    assert not [tag for tag, _ in reader.tags if tag in ("link", "img", "iframe", "object", "base")]
    assert {attributes["href"][:1] for tag, attributes in reader.tags if tag == "a"} == {"#"}
    policy = next(a["content"] for _, a in reader.tags if a.get("http-equiv") == "Content-Security-Policy")
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    assert "unsafe" not in policy.partition("style-src")[0]
    assert {"models", "graphs", "budget"} <= set(data)
    assert (tmp_path / "one.html").read_bytes() == (tmp_path / "two.html").read_bytes()


def test_surroundings_are_saved_and_checked(tmp_path: Path) -> None:
    cert = karate()
    cert.save(tmp_path / "a.cert", problem=True)
    again = labelcert.load(tmp_path / "a.cert")
    assert again.checksum == again.computed_checksum()
    assert again.around is not None
    assert again.around.names[again.around.tested].tolist() == again.test_names.tolist()
    assert len(again.around.edges) == 78
    assert again.run.model.startswith("GCN(")
    assert labelcert.verify(again).accepted
    with pytest.raises(labelcert.InvalidInput, match="the graph"):
        replace(cert, around=replace(cert.around, tested=cert.around.tested + 30))


def test_graphs_of_margins_and_ensembles_come_along(tmp_path: Path) -> None:
    graph = labelcert.load_dataset("karate")
    split = labelcert.published_split(graph, seed=0)
    for k, cert in enumerate(
        (
            karate(margin=0.005),
            labelcert.Partition(labelcert.GCN(C=0.1), parts=3).certify(graph, split.labeled, split.pool),
        )
    ):
        cert.report(tmp_path / f"{k}.html")
        _, data = read(tmp_path / f"{k}.html")
        [model] = data["models"]
        assert model["around"]["labeled"] == split.labeled.tolist()
        assert (model["listed"] is None) == (not cert.exact)  # the curve of an ensemble is an interval


def test_the_command_is_recorded_and_not_made_up() -> None:
    token = command_line.set("labelcert certify karate")
    try:
        cert = karate(max_flips=1)
    finally:
        command_line.reset(token)
    assert cert.run.command == "labelcert certify karate"
    old = {key: value for key, value in cert.run.plain().items() if key not in ("command", "model")}
    token = command_line.set("labelcert show old.cert")
    try:
        again = RunRecord.from_plain(old)
        assert (again.command, again.model) == ("", "")
        assert again.plain() == old  # or the checksums of older files would not match
    finally:
        command_line.reset(token)


@pytest.mark.parametrize("example", [two_clouds(), several_clouds(n_labels=9, n_test=6)], ids=["two", "several"])
@pytest.mark.parametrize("costs", [False, True])
def test_listed_attacks_are_all_of_them(example: object, costs: bool) -> None:
    """With any labels verified, the list leaves what a certificate of that threat leaves."""
    m, rng = example.labels.size, np.random.default_rng(0)
    price = rng.integers(1, 3, size=m) if costs else None
    cert = labelcert.certify(
        example.K_train, example.labels, example.K_test, example.C, threat=labelcert.Threat(costs=price), max_flips=3
    )
    listed = listed_attacks(cert)
    assert listed is not None
    for _ in range(5):
        trusted = rng.random(m) < 0.3
        alive = np.array(
            [not trusted[listed.labels[a:b]].any() for a, b in zip(listed.starts, listed.starts[1:], strict=False)]
        )
        threat = labelcert.Threat(costs=price, trusted=trusted)
        for b in range(1, listed.flips + 1):
            again = labelcert.certify(
                example.K_train, example.labels, example.K_test, example.C, threat=threat, max_flips=b
            )
            use = alive & (listed.costs <= b)
            assert (~listed.overturned[use].any(axis=0)).tolist() == (again.radius_lower > b).tolist()
            assert listed.strongest[use].max(initial=0) == again.collective_lower[b]


def test_what_is_refused(tmp_path: Path) -> None:
    cert = karate(max_flips=1)
    for given, message in (
        ([cert], "map names"),
        ({"a": 3}, "'a' must be a certificate, got int"),
        ({}, "at least one certificate"),
    ):
        with pytest.raises(labelcert.InvalidInput, match=message):
            labelcert.write_report(given, tmp_path / "x.html")
    with pytest.raises(labelcert.InvalidInput, match="is a folder"):
        labelcert.write_report({"a": cert}, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_margin_is_rechecked_and_listed() -> None:
    cert = karate(margin=0.005)
    advice = labelcert.recheck(cert, flips=1, confirm=1)
    assert advice.before == pytest.approx(np.mean(cert.radius_lower > 1))
    assert advice.certificate.run.margin == 0.005
    listed = listed_attacks(cert)
    assert listed is not None
    assert np.array_equal(listed.overturned.any(axis=0), cert.radius_upper <= listed.flips)


def test_worst_cases_are_those_of_the_certificate(tmp_path: Path) -> None:
    cert = karate(
        max_flips=3, metrics=["accuracy", labelcert.Metric("recall"), labelcert.Metric("false_positive_rate")]
    )
    for given, asked in ((karate(max_flips=1), []), (cert, cert.worst_cases)):
        given.report(tmp_path / "a.html")
        [model] = read(tmp_path / "a.html")[1]["models"]
        shown = model["worst"]
        assert [row["title"] for row in shown["rows"]] == [one.title for one in asked]
        for row, one in zip(shown["rows"], asked, strict=True):
            for b in range(given.last_flips + 1):
                assert row["values"][b] == one.text(b)
                k, starts = row["attackOf"][b], shown["attacks"]["starts"]
                labels = shown["attacks"]["labels"][starts[k] : starts[k + 1]]
                assert sorted(labels) == sorted(one.witness(b))


def test_large_graphs_come_without_places() -> None:
    places = layout(300, np.array([[i, i + 1] for i in range(200)]))
    assert places.shape == (300, 2)
    assert np.isfinite(places).all()
    assert np.abs(places).max() <= 1.0


def run(*words: str) -> object:
    return CliRunner().invoke(cli, list(words), catch_exceptions=True)


def test_commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert run("certify", "karate", "--no-pictures", "--report", "a.html", "--out", "files").exit_code == 0
    assert run("report", *map(str, Path("files").glob("*.cert")), "--out", "b.html", "--verify").exit_code == 0
    _, data = read(Path("b.html"))
    assert sorted(model["name"] for model in data["models"]) == ["gcn-all", "sgc-all"]
    assert "accepted" in data["models"][0]["verification"]
    assert data["models"][0]["verifyCommand"].startswith("labelcert verify files/")
    assert run("recheck", "karate", "--flips", "1", "--verify", "2", "--report", "c.html").exit_code == 0
    _, data = read(Path("c.html"))
    assert [model["fixed"].count(1) for model in data["models"]] == [0, 2]
    words = ("harden", "karate", "--flips", "1", "-m", "gcn", "-m", "sgc", "--loss", "hinge", "--no-pictures")
    assert run(*words, "--workers", "1", "--report", "d.html").exit_code == 0
    _, data = read(Path("d.html"))
    assert [model["name"].partition(":")[0] for model in data["models"]] == ["train", "default"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("certify", "karate", "--report", "page.pdf"), "must end in .html"),
        (("certify", "karate", "--report", "no/such/folder/page.html"), "into a folder that exists"),
        (("report", "none.cert"), "there is no file none.cert"),
        (("report", "a.cert", "b.cert", "--name", "one"), "2 files, 1 names"),
        (("report", "a.cert", "a.cert"), "different names"),
    ],
)
def test_commands_refuse(words: tuple[str, ...], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    result = run(*words)
    assert message in str(result.exception)
    assert list(tmp_path.iterdir()) == []


def test_a_certificate_that_was_changed_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    cert = karate(max_flips=1)
    replace(cert, radius_lower=np.minimum(cert.radius_lower, 0)).save("forged.cert")
    result = run("report", "forged.cert")
    assert result.exit_code == 1
    assert "Do not rely on it" in Path("report.html").read_text(encoding="utf-8")


def test_what_to_keep_in_mind_when_comparing() -> None:
    graph = labelcert.load_dataset("karate")
    split = labelcert.published_split(graph, seed=0)
    one = karate(max_flips=1)
    assert comparability([one, one]) == []
    less = labelcert.GCN(C=0.1).certify(graph, split.labeled, split.pool[:9], max_flips=1)
    costs = karate(max_flips=1, threat=labelcert.Threat(costs=np.full(8, 2)))
    assert "different predictions" in comparability([one, less])[0]
    units, threats = comparability([one, costs])
    assert "cost units" in units
    assert "adversaries differ" in threats
    data = two_clouds()
    bare = labelcert.certify(data.K_train, data.labels, data.K_test, C=1.0)
    assert "no names" in comparability([bare, bare])[0]


def test_exactness_in_words() -> None:
    data = two_clouds()
    given = (data.K_train, data.labels, data.K_test, 1.0)
    told = {
        "exact": exactness(labelcert.certify(*given)),
        "radii": exactness(labelcert.certify(*given, collective=False, max_flips=2)),
        "attack": exactness(labelcert.attack(*given, using="greedy", max_flips=2)),
        "bound": exactness(labelcert.certify_baseline(*given, using="sensitivity")),
        "parts": exactness(labelcert.certify_partition(*given, parts=4)),
    }
    assert told["exact"] == ["Everything up to 16 flips is exact. Nothing is open."]
    assert told["radii"][0].startswith("Every radius up to 2 flips")
    assert "an attack proves upper ends alone" in told["attack"][0]
    assert "sensitivity proves lower ends alone" in told["bound"][0]
    assert "the curve of an ensemble is a bound" in " ".join(told["parts"])


def test_names_cannot_leave_their_place() -> None:
    page = page_html.render({"models": []}, title="</title><b>", summary="nothing")
    assert "<b>" not in page
    assert "&lt;/title&gt;&lt;b&gt;" in page
    assert page_html.inert_json("</script>&") == r'"\u003c/script\u003e\u0026"'


def test_annotators_are_in_the_page_and_attacks_on_single_labels_are_not() -> None:
    labels, who = ["a", "a", "b", "b"], ["ann", "ann", "bob", "cy"]
    K = np.eye(4) + 0.2
    threat = Threat(annotators=who, trusted_annotators=["cy"])
    cert = certify(K, labels, K[:2], 1.0, threat=threat)
    assert cert.exact
    assert listed_attacks(cert) is None
    crowd = certificates_page([Shown("crowd", cert)], budget=None)["models"][0]["crowd"]
    assert crowd["names"] == ["ann", "bob", "cy"]
    assert crowd["votes"] == [2, 1, 1]
    assert crowd["prices"] == [1, 1, 0]
    assert len(crowd["owners"]) == 2
    assert certificates_page([Shown("x", certify(K, labels, K[:2], 1.0))], budget=None)["models"][0]["crowd"] is None
