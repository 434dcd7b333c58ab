"""Which model to train: among those that are accurate enough, the one that certifies the most."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.figure import Figure
from sklearn.linear_model import LogisticRegression

import labelcert
from labelcert import Graph, InvalidInput, harden
from labelcert.graphs import csbm, karate, published_split
from labelcert.hardening import Contest
from labelcert.hardening.candidates import settings, within_reach
from labelcert.jobs.runner import run_plan
from labelcert.models import name_of
from labelcert.studies import Store, expand
from labelcert.studies.study_files import parse_study
from labelcert.studies.tidy_tables import tidy

mpl.use("Agg")

SMALL: dict[str, Any] = {
    "models": {"gcn": {"depth": [1, 2]}, "sgc": {"depth": [1, 2]}},
    "losses": ["hinge", "square"],
    "C": [0.01, 0.1, 1.0],
    "time_limit": None,
    "model_time_limit": None,
    "workers": 1,
}


def asked(seed: int = 0) -> tuple[Graph, Any, Any]:
    graph = csbm(seed=seed)
    split = published_split(graph, seed=seed)
    return graph, split.labeled, split.pool[:40]


@pytest.mark.parametrize("flips", [1, 2])
def test_the_best_of_all_that_are_accurate_enough(flips: int) -> None:
    graph, labeled, test = asked()
    found = harden(graph, labeled, test, flips=flips, **SMALL)
    assert len(found.candidates) == 25  # 4 settings, 2 losses, 3 values of C, and the default
    top = max(found.candidates, key=lambda c: c.accuracy)
    assert found.threshold == pytest.approx(top.accuracy - top.deviation)
    # Whatever was dropped early certifies no more: certify every candidate that is accurate enough.
    for candidate in found.candidates:
        cert = candidate.model.certify(graph, labeled, test, max_flips=flips, loss=candidate.loss)
        share = cert.certified_ratio(flips=flips)
        if candidate in found.certified:
            assert found.certified[candidate] == (share, share)
        if candidate.accuracy >= found.threshold:
            assert share <= found.certified[found.chosen][0]
    assert found.certificate.certified_ratio(flips=flips) == found.certified[found.chosen][0]
    again = found.best.certify(graph, labeled, test, max_flips=flips, loss=found.best_loss)
    assert np.array_equal(again.radius_lower, found.certificate.radius_lower)


def test_labels_of_test_nodes_do_not_matter() -> None:
    graph, labeled, test = asked()
    hidden = graph.labels.copy()
    hidden[test] = -1
    blind = Graph(graph.adjacency, graph.features, hidden, class_names=graph.class_names, name=graph.name)
    one, two = (harden(g, labeled, test, flips=1, **SMALL) for g in (graph, blind))
    assert one.chosen.label == two.chosen.label
    assert [c.accuracy for c in one.candidates] == [c.accuracy for c in two.candidates]


def test_a_front_a_table_and_a_picture() -> None:
    graph, labeled, test = asked(1)
    found = harden(graph, labeled, test, flips=1, **SMALL)
    front = found.pareto
    for candidate in found.certified:
        assert not any(
            candidate.accuracy > f.accuracy and found.certified[candidate][0] > found.certified[f][0] for f in front
        )
    assert [c.accuracy for c in front] == sorted((c.accuracy for c in front), reverse=True)
    table = found.table
    assert table["chosen"].sum() == 1
    assert len(table) == len(found.candidates)
    assert table["pareto"].sum() == len(front)
    axes = Figure().subplots()
    assert found.plot(axes) is axes
    assert found.chosen.label in found.summary()
    assert found.chosen.label in found._repr_html_()


def test_what_was_certified_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    graph, labeled, test = asked()
    first = harden(graph, labeled, test, flips=2, out=tmp_path, **SMALL)
    seen = []
    module = sys.modules["labelcert.hardening.model_search"]
    real = module.run_plan
    monkeypatch.setattr(module, "run_plan", lambda *args, **how: seen.append(real(*args, **how)) or seen[-1])
    second = harden(graph, labeled, test, flips=2, out=tmp_path, **SMALL)
    assert sum(outcome.computed for outcome in seen) == 0
    assert second.chosen.label == first.chosen.label


def test_processes_give_the_same() -> None:
    graph, labeled, test = asked()
    one = harden(graph, labeled, test, flips=1, **SMALL)
    two = harden(graph, labeled, test, flips=1, **{**SMALL, "workers": 2})
    assert [(c.label, v) for c, v in one.certified.items()] == [(c.label, v) for c, v in two.certified.items()]


def test_parts_and_many_labels() -> None:
    assert within_reach("hinge", 20, 20)
    assert within_reach("hinge", 600, 2)
    assert not within_reach("hinge", 600, 3)
    assert within_reach("square", 600, 15)
    graph, _, _ = asked()
    labeled, test = np.arange(0, 200, 2), np.arange(1, 40, 2)
    found = harden(
        graph, labeled, test, flips=1, models={"sgc": {}}, losses=["hinge"], C=[0.1], parts=[5], workers=1, floor=0.0
    )
    assert {c.parts for c in found.candidates} >= {None, 5}
    ensemble = next(c for c in found.certified if c.parts == 5)
    assert found.certified[ensemble][0] >= 0
    assert "--parts 5" in ensemble.command
    many = harden(graph, labeled, test, flips=10, models={"sgc": {}}, C=[0.01, 0.1], workers=1)
    assert {c.loss for c in many.candidates if c is not many.default} == {"square"}
    with pytest.raises(InvalidInput, match="too many for these losses"):
        harden(graph, labeled, test, flips=10, models={"sgc": {}}, losses=["hinge"], C=[0.1], workers=1)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"flips": 99}, "flips must be a whole number between 0 and 8"),
        ({"flips": 1, "floor": 2.0}, "floor must be an accuracy"),
        ({"flips": 1, "losses": ["log"]}, "log"),
        ({"flips": 1, "models": {"gcn": {"alpha": [1]}}}, "gcn has no option 'alpha' to search"),
        ({"flips": 1, "models": {"gcn": {"depth": 1}}}, "must be a list of values, got 1"),
        ({"flips": 1, "models": ["gnc"]}, "gnc"),
        ({"flips": 1, "models": {}}, "at least one model"),
    ],
)
def test_bad_input(options: dict[str, Any], message: str) -> None:
    club = karate()
    labeled = [0, 1, 2, 3, 30, 31, 32, 33]
    with pytest.raises(InvalidInput, match=message):
        harden(club, labeled, [5, 9], **options)
    with pytest.raises(InvalidInput, match=r"expected a labelcert.Graph"):
        harden(object(), labeled, [5, 9], flips=1)  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match=r"no model reaches a cross-validated accuracy of 100.0 %"):
        harden(club, labeled, [5, 9], flips=1, floor=1.0, models={"mlp": {}}, losses=["hinge"], C=[0.01], workers=1)


def test_settings() -> None:
    assert len(settings({"gcn": {"depth": [1, 2], "normalization": ["row", "symmetric"]}})) == 4
    assert {name_of(model) for model in settings(["gcn", "rbf"])} == {"gcn", "rbf"}
    assert len(settings(None)) > 15
    assert "harden" in labelcert.__all__


def test_a_study_searches_as_harden_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("labelcert.hardening.candidates.MODELS", {"gcn": {}, "sgc": {"depth": (1, 2)}})
    text = """flips = [1, 2]
seeds = [0]
certificates = ["ratio"]
[[datasets]]
name = "karate"
[[models]]
name = "gcn"
[[models]]
name = "gcn"
label = "searched"
search = true
"""
    plan = expand(parse_study(text, name="searching"))
    with Store(tmp_path, write=True) as store:
        assert run_plan(plan, store, workers=1).failed == 0
        rows = tidy(plan, store)
    job = plan.jobs[0]
    found = harden(job.graph, job.labeled, job.cells[0].test, flips=2, workers=1)
    searched = rows[rows["model"] == "searched"].set_index("flips")["lower"]
    assert searched[2] == found.certified[found.chosen][0]
    assert searched[1] == found.certificate.certified_ratio(flips=1)
    with pytest.raises(InvalidInput, match="leave out parts"):
        expand(parse_study(text + "parts = 2\n", name="searching"))


def stops(monkeypatch: pytest.MonkeyPatch, after: int, how: type[BaseException] = KeyboardInterrupt) -> None:
    """End a search after so many records."""
    left = iter(range(after))
    real = Store.append

    def append(self: Store, record: Any) -> None:
        real(self, record)
        if next(left, None) is None:
            raise how

    monkeypatch.setattr(Store, "append", append)


def test_a_search_that_is_stopped_anywhere_ends_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    graph, labeled, test = asked()
    whole = harden(graph, labeled, test, flips=2, **SMALL)
    for moment, known in ((3, False), (12, True), (11, True)):
        with monkeypatch.context() as patched:
            stops(patched, moment)
            if not known:
                with pytest.raises(KeyboardInterrupt):
                    harden(graph, labeled, test, flips=2, out=tmp_path, **SMALL)
                continue
            found = harden(graph, labeled, test, flips=2, out=tmp_path, **SMALL)
            assert not found.complete
            assert found.summary().endswith("the search was interrupted: other models may certify more")
            assert len(found.certified) < len(whole.certified)
            again = found.best.certify(graph, labeled, test, max_flips=2, loss=found.best_loss)
            assert np.array_equal(found.certificate.radius_lower, again.radius_lower)  # computed when asked for
    resumed = harden(graph, labeled, test, flips=2, out=tmp_path, **SMALL)
    assert resumed.complete
    assert resumed.table.to_csv() == whole.table.to_csv()
    assert resumed.summary() == whole.summary()


def test_time_for_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    graph, labeled, test = asked()
    with pytest.raises(InvalidInput, match="give a larger time_limit"):
        harden(graph, labeled, test, flips=2, **{**SMALL, "time_limit": 0.01})
    with pytest.raises(InvalidInput, match="model_time_limit"):
        harden(graph, labeled, test, flips=1, **{**SMALL, "model_time_limit": -1.0})
    monkeypatch.setattr(Contest, "left", lambda self: 1000.0 if len(self.certified) < 3 else 0.0)
    for workers in (1, 2):
        found = harden(graph, labeled, test, flips=2, **{**SMALL, "workers": workers, "time_limit": 1000.0})
        assert not found.complete
        assert found.summary().endswith("time was over before the search was: other models may certify more")
        assert {"gcn C=0.01", found.default.full_label} >= {c.full_label for c in found.certified if c.loss == "hinge"}
        assert found.certificate.certified_ratio(flips=2) == found.certified[found.chosen][0]


def test_ensembles_of_a_learner_of_ones_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    graph, labeled, test = asked()
    asking = {**SMALL, "models": {"mlp": {}}, "losses": ["square"], "C": [0.1], "parts": [3, 6], "floor": 0.0}
    asking |= {"learner": LogisticRegression(C=0.5), "out": tmp_path, "flips": 1}
    found = harden(graph, labeled, test, **asking)
    own = [c for c in found.candidates if c.name == "LogisticRegression"]
    assert [(c.parts, c.options["combine"]) for c in own] == [
        (k, rule) for k in (3, 6) for rule in ("votes", "run-off")
    ]
    for recipe in own:
        model = recipe.trained.fit(graph.features[labeled], graph.named_labels(labeled))
        cert = model.certify(graph.features[test], max_flips=1, attempts=0)
        assert found.certified[recipe][0] == cert.certified_ratio(flips=1)
        assert cert.correct(graph.named_labels(test)).sum() > 0
    assert len(found.plot_parts(Figure().subplots()).lines) == 6
    assert found.total == len(found.candidates) == 3 + 4 + 1
    monkeypatch.setattr("labelcert.hardening.learners.LearnerRecipe.accuracies", None)
    assert harden(graph, labeled, test, **asking).table.to_csv() == found.table.to_csv()
    monkeypatch.undo()
    other = replace(found, chosen=max(own, key=lambda c: found.certified[c][0]))
    assert other.command == ""
    assert other.certificate.part_votes is not None
    assert other.certificate.certified_ratio(flips=1) == found.certified[other.chosen][0]
    with pytest.raises(InvalidInput, match=r"learner must be a classifier of scikit-learn, got str"):
        harden(graph, labeled, test, **{**asking, "learner": "forest"})


def test_what_is_shown_meanwhile(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("labelcert.hardening.showing.SELDOM", 0.0)
    monkeypatch.setattr("labelcert.hardening.contest.FIRST", 1)
    graph, labeled, test = asked()
    found = harden(graph, labeled, test, flips=1, progress=True, **SMALL)
    shown = capsys.readouterr().err
    assert "25 models: 4 settings of 2 architectures, 2 losses, 3 values of C; cheap ones come first" in shown
    assert "best so far" in shown
    assert "of 25 models cross-validated, the others in about" in shown
    assert found.total == len(found.candidates) == 25


def test_kernels_and_accuracies_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    graph, labeled, test = asked()
    first = harden(graph, labeled, test, flips=1, out=tmp_path, **SMALL)
    kept = sorted((tmp_path / "kernels").iterdir())
    assert len(kept) == 4
    kept[0].write_bytes(kept[0].read_bytes()[:-200])  # damaged files are computed again
    with Store(tmp_path) as store:
        records = len(store.records)
        assert sum("validated" in record for record in store.records.values()) == 9
    monkeypatch.setattr("labelcert.hardening.validation.accuracies", None)
    assert harden(graph, labeled, test, flips=1, out=tmp_path, **SMALL).table.to_csv() == first.table.to_csv()
    with Store(tmp_path) as store:
        assert len(store.records) == records


def test_every_certificate_has_the_threat(tmp_path: Path) -> None:
    graph, labeled, test = asked()
    trusted = np.arange(len(labeled)) < 4
    asking = {**SMALL, "models": {"sgc": {}}, "threat": labelcert.Threat(trusted=trusted)}
    found = harden(graph, labeled, test, flips=1, collective=False, out=tmp_path, **asking)
    assert found.certificate.run.threat["trusted"] == [0, 1, 2, 3]
    assert not found.certificate.run.collective
    for recipe, (low, high) in found.certified.items():
        how = {"max_flips": 1, "loss": recipe.loss, "threat": asking["threat"]}
        share = recipe.trained.certify(graph, labeled, test, **how).certified_ratio(flips=1)
        assert (low, high) == (share, share)
    # Certificates against another adversary are other ones.
    with Store(tmp_path) as store:
        before = len(store.records)
    harden(graph, labeled, test, flips=1, collective=False, out=tmp_path, **{**asking, "threat": None})
    with Store(tmp_path) as store:
        certificates = [record for record in store.records.values() if "result" in record]
        assert len(certificates) == 2 * (before - (len(store.records) - len(certificates)))


def test_what_is_left_out_is_told() -> None:
    club = karate()
    asking: dict[str, Any] = {"models": {"mlp": {}}, "C": [0.01], "workers": 1, "floor": 0.0}
    labeled = [0, 1, 2, 3, 30, 31, 32, 33]
    found = harden(club, labeled, [5, 9], flips=1, losses=["square", "logistic_intercept"], parts=[2], **asking)
    assert "parts with the loss logistic_intercept were left out" in found.summary()
    assert not [c for c in found.candidates if c.parts is not None and c.loss == "logistic_intercept"]


def test_the_way_to_make_labels_of_votes_is_chosen_too() -> None:
    graph, nodes = labelcert.load_dataset("karate"), [0, 1, 2, 3, 30, 31, 32, 33]
    names = [graph.class_names[graph.labels[i]] for i in nodes]
    rng = np.random.default_rng(0)
    rows = [(k, str(who), names[k]) for k in range(8) for who in rng.choice(list("abcd"), 3, replace=False)]
    rows += [(k, "liar", names[7 - k]) for k in range(8)]
    rules = {"liar alone": labelcert.Votes(rows, weights={"liar": 9}), "majority": labelcert.Votes(rows)}
    how = {"models": {"sgc": {"depth": [2]}}, "losses": ["square"], "C": [0.1], "workers": 1, "flips": 1}
    found = labelcert.harden(graph, nodes, [8, 9, 13, 19, 27, 28], votes=rules, **how)
    assert found.rule == "majority"
    assert found.certificate.run.unit == "annotators"
    own = labelcert.harden(graph, nodes, [8, 9, 13], threat=labelcert.Threat(votes=rules["majority"]), **how)
    assert own.certificate.labels.tolist() == found.certificate.labels.tolist()
    with pytest.raises(labelcert.InvalidInput, match="8 labelled nodes"):
        labelcert.harden(graph, nodes, [8], votes={"few": labelcert.Votes(rows[:3])}, **how)
    with pytest.raises(labelcert.InvalidInput, match="votes to harden alone"):
        labelcert.harden(graph, nodes, [8], votes=rules, threat=labelcert.Threat(votes=rules["majority"]), **how)
