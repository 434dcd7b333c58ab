"""Which labels to confirm: against brute force over all sets of labels, with every threat option and loss."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure
from tests.helpers.problems import blobs, gaussian

import labelcert
from labelcert import CertifiedClassifier, InvalidInput, Threat, WorkTooLarge, certify, recheck
from labelcert.certification import Names
from labelcert.examples import two_clouds
from labelcert.rechecking import advising
from labelcert.stopping import Stopped


def brute_force(
    K: Any, y: Any, rows: Any, C: float, flips: int, confirm: int, threat: Threat, using: Any = certify, **options: Any
) -> dict[str, float]:
    """The best share over all sets of labels, by a certificate of each, for both objectives."""
    costs, weights = options.pop("confirm_costs", None), options.pop("weights", None)
    m = len(y)
    price = np.ones(m, dtype=int) if costs is None else np.asarray(costs)
    trusted = np.zeros(m, dtype=bool) if threat.trusted is None else np.asarray(threat.trusted)
    best = {"each": 0.0, "collective": 0.0}
    for size in range(confirm + 1):
        for chosen in itertools.combinations(np.flatnonzero(~trusted).tolist(), size):
            if price[list(chosen)].sum() > confirm:
                continue
            now = trusted.copy()
            now[list(chosen)] = True
            cert = using(K, y, rows, C, threat=replace(threat, trusted=now), max_flips=flips, workers=1, **options)
            w = np.ones(len(rows)) if weights is None else np.asarray(weights)
            best["each"] = max(best["each"], float(w[cert.radius_lower > flips].sum() / w.sum()))
            best["collective"] = max(best["collective"], cert.certified_ratio(flips=flips, collective=True))
    return best


THREATS = {
    "any label": Threat(),
    "trusted": Threat(trusted=[i in (1, 4) for i in range(8)]),
    "costs": Threat(costs=[1, 2, 1, 1, 2, 1, 1, 2]),
    "groups": Threat(groups=list("aabbaabb"), group_budgets={"a": 1}),
}


@pytest.mark.parametrize("threat", THREATS)
@pytest.mark.parametrize("classes", [2, 3])
def test_equal_to_brute_force(classes: int, threat: str) -> None:
    for seed in range(2):
        K, y, rows = gaussian(8, 9, seed=seed) if classes == 2 else blobs(8, 9, classes=classes, seed=seed)
        for flips, confirm in ((1, 1), (2, 2)):
            best = brute_force(K, y, rows, 2.0, flips, confirm, THREATS[threat])
            for objective in ("each", "collective"):
                asked = {"threat": THREATS[threat], "objective": objective}
                advice = recheck(K, y, rows, 2.0, flips=flips, confirm=confirm, **asked)
                assert advice.optimal
                assert advice.after[-1:] == [pytest.approx(advice.best_possible)] or not advice.after
                assert (advice.after[-1] if advice.after else advice.before) == pytest.approx(best[objective])
                assert sorted([advice.before, *advice.after]) == [advice.before, *advice.after]
                trusted = THREATS[threat].trusted
                assert trusted is None or not np.asarray(trusted)[advice.labels].any()


@pytest.mark.parametrize("loss", ["square", "squared_hinge", "logistic", "cross_entropy"])
def test_every_loss(loss: str) -> None:
    K, y, rows = blobs(6, 6, classes=3)
    advice = recheck(K, y, rows, 0.5, flips=1, confirm=2, loss=loss)
    best = brute_force(K, y, rows, 0.5, 1, 2, Threat(), loss=loss)["each"]
    assert (advice.after[-1] if advice.after else advice.before) == pytest.approx(best)


def test_weights_and_costs() -> None:
    K, y, rows = gaussian(8, 9, seed=3)
    asked: dict[str, Any] = {"weights": np.arange(9) + 0.5, "confirm_costs": [1, 2, 3, 1, 2, 3, 1, 2]}
    advice = recheck(K, y, rows, 2.0, flips=2, confirm=4, **asked)
    assert sum(asked["confirm_costs"][i] for i in advice.labels) <= 4
    assert advice.after[-1] == pytest.approx(brute_force(K, y, rows, 2.0, 2, 4, Threat(), **asked)["each"])


def test_what_is_secured_and_what_each_label_is_worth() -> None:
    K, y, rows = gaussian(8, 9, seed=1)
    names = Names(test=np.array([f"n{t}" for t in range(9)]), labels=np.array([f"ann {i}" for i in range(8)]))
    advice = recheck(K, y, rows, 2.0, flips=1, confirm=3, names=names)
    shares = np.array([advice.before, *advice.after])
    assert np.allclose(np.diff(shares), [len(nodes) / 9 for nodes in advice.secures])
    for i in range(8):
        trusted = Threat(trusted=np.arange(8) == i)
        alone = certify(K, y, rows, 2.0, threat=trusted, max_flips=1).certified_ratio(flips=1)
        assert advice.gains[i] == pytest.approx(alone - advice.before)
    frame = advice.to_frame()
    assert frame["confirm"].str.startswith("ann ").all()
    assert all(name.startswith("n") for nodes in frame["secures"] for name in nodes)
    assert all(len(line) <= 80 for line in advice.summary().splitlines())
    assert "ann" in advice._repr_html_()
    axes = Figure().subplots()
    assert advice.plot(axes) is axes
    assert axes.get_lines()[0].get_ydata().tolist() == pytest.approx(100 * shares)  # type: ignore[union-attr]
    assert advice.certificate.exact


def test_until_a_share_is_reached() -> None:
    K, y, rows = gaussian(8, 9, seed=1)
    advice = recheck(K, y, rows, 2.0, flips=1, until=0.9)
    assert advice.after[-1] >= 0.9
    fewer = recheck(K, y, rows, 2.0, flips=1, confirm=len(advice.labels) - 1)
    assert fewer.best_possible < 0.9
    assert recheck(K, y, rows, 2.0, flips=1, until=0.0).labels == []


def test_certificates_files_and_models_ask_the_same(tmp_path: Path) -> None:
    K, y, rows = gaussian(8, 9, seed=1)
    threat = Threat(
        trusted=[True] + [False] * 7, allowed_flips={0: [1], 1: [0]}, groups=list("abababab"), group_budgets=1
    )
    asked = recheck(K, y, rows, 2.0, flips=2, confirm=2, threat=threat)
    cert = certify(K, y, rows, 2.0, threat=threat, max_flips=1)
    cert.save(tmp_path / "c.cert", problem=True)
    for source in (cert, labelcert.load(tmp_path / "c.cert")):
        assert recheck(source, flips=2, confirm=2).labels == asked.labels
    cert.save(tmp_path / "bare.cert")
    with pytest.raises(InvalidInput, match="does not hold its kernels"):
        recheck(labelcert.load(tmp_path / "bare.cert"), flips=1, confirm=1)
    X = np.random.default_rng(0).normal(size=(12, 2))
    model = CertifiedClassifier().fit(X, X[:, 0] > 0)
    assert model.recheck(X[:4], flips=1, confirm=1).flips == 1


def test_many_labels_by_gains() -> None:
    K, y, rows = gaussian(300, 60, seed=2)
    advice = recheck(K, y, rows, 0.05, flips=8, confirm=12, loss="square")
    assert len(advice.labels) == 11  # the best twelfth would secure nothing
    assert advice.before < advice.after[-1] <= advice.best_possible
    assert sorted(advice.after) == advice.after
    some = np.random.default_rng(0).permutation(300)[:12]
    random = certify(K, y, rows, 0.05, loss="square", max_flips=8, threat=Threat(trusted=np.isin(np.arange(300), some)))
    assert advice.after[-1] > random.certified_ratio(flips=8)
    reached = recheck(K, y, rows, 0.05, flips=8, until=advice.after[5], loss="square")
    assert len(reached.labels) <= 6


@pytest.mark.parametrize("classes", [2, 4])
def test_gains_beside_the_list(classes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    K, y, rows = gaussian(10, 12, seed=4) if classes == 2 else blobs(10, 12, classes=classes, seed=4)
    listed = recheck(K, y, rows, 0.5, flips=2, confirm=2, loss="square")
    monkeypatch.setattr(advising, "LINEAR_LISTED_SECONDS", -1.0)
    gained = recheck(K, y, rows, 0.5, flips=2, confirm=2, loss="square")
    assert gained.before == pytest.approx(listed.before)
    assert gained.after[-1] <= listed.after[-1] + 1e-12
    assert gained.best_possible >= listed.after[-1] - 1e-12


def test_a_list_that_is_not_complete_gives_intervals() -> None:
    K, y, rows = gaussian(40, 30, seed=2)
    with pytest.raises(WorkTooLarge, match="time_limit=SECONDS"):
        recheck(K, y, rows, 5.0, flips=14, confirm=2)
    advice = recheck(K, y, rows, 5.0, flips=4, confirm=2, time_limit=3)
    assert advice.best_possible == 1.0 or advice.optimal
    assert all(low <= high for low, high in zip(advice.after, advice.after_upper, strict=True))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"confirm": 1, "until": 0.5}, "one of these"),
        ({}, "say how many labels to confirm"),
        ({"confirm": -1}, "confirm must be a whole number"),
        ({"until": 2.0}, "until must be a share"),
        ({"confirm": 1, "objective": "all"}, "'each' or 'collective'"),
        ({"confirm": 1, "weights": [1.0]}, "weights must be 9 numbers"),
        ({"confirm": 1, "weights": [1.0] * 9, "objective": "collective"}, "weights are for the objective 'each'"),
        ({"confirm": 1, "confirm_costs": [0] * 8}, "confirm_costs must be 8 positive numbers"),
    ],
)
def test_bad_input(options: dict[str, Any], message: str) -> None:
    K, y, rows = gaussian(8, 9)
    with pytest.raises(InvalidInput, match=message):
        recheck(K, y, rows, 1.0, flips=1, **options)
    with pytest.raises(InvalidInput, match="or a certificate"):
        recheck(K, flips=1, confirm=1)


def test_no_label_may_change() -> None:
    K, y, rows = gaussian(8, 9)
    advice = recheck(K, y, rows, 1.0, flips=2, confirm=2, threat=Threat(trusted=[True] * 8))
    assert (advice.labels, advice.before) == ([], 1.0)


@pytest.mark.parametrize("threat", THREATS)
@pytest.mark.parametrize("classes", [2, 3])
def test_margins_against_brute_force(classes: int, threat: str) -> None:
    K, y, rows = gaussian(8, 9, seed=1) if classes == 2 else blobs(8, 9, classes=classes, seed=1)
    asked: dict[str, Any] = {"threat": THREATS[threat], "margin": np.linspace(0.0, 0.4, 9)}
    best = brute_force(K, y, rows, 2.0, 2, 2, **asked)
    for objective in ("each", "collective"):
        advice = recheck(K, y, rows, 2.0, flips=2, confirm=2, objective=objective, **asked)
        assert advice.optimal
        assert (advice.after[-1] if advice.after else advice.before) == pytest.approx(best[objective])
    cert = certify(K, y, rows, 2.0, threat=THREATS[threat], margin=asked["margin"])
    assert recheck(cert, flips=2, confirm=2).labels == recheck(cert, flips=2, verify=2).labels


@pytest.mark.parametrize("loss", ["square", "logistic", "squared_hinge", "cross_entropy"])
def test_margins_of_every_loss(loss: str) -> None:
    K, y, rows = blobs(6, 6, classes=3)
    advice = recheck(K, y, rows, 0.5, flips=1, confirm=2, loss=loss, margin=0.1)
    best = brute_force(K, y, rows, 0.5, 1, 2, Threat(), loss=loss, margin=0.1)["each"]
    assert (advice.after[-1] if advice.after else advice.before) == pytest.approx(best)


def test_margins_by_gains(monkeypatch: pytest.MonkeyPatch) -> None:
    K, y, rows = gaussian(10, 12, seed=4)
    asked: dict[str, Any] = {"flips": 2, "confirm": 2, "loss": "square", "margin": 0.05}
    listed = recheck(K, y, rows, 0.5, **asked)
    monkeypatch.setattr(advising, "LINEAR_LISTED_SECONDS", -1.0)
    gained = recheck(K, y, rows, 0.5, **asked)
    assert gained.before == pytest.approx(listed.before)
    assert gained.best_possible >= listed.after[-1] - 1e-12 >= gained.after[-1] - 2e-12


@pytest.mark.parametrize(
    ("classes", "combine", "margin"),
    [
        *[(2, "votes", 0.0), (2, "mean", 0.1), (3, "votes", 0.1), (3, "mean", 0.0)],
        *[pytest.param(*rest, marks=pytest.mark.long) for rest in ((2, "votes", 0.1), (2, "mean", 0.0))],
        *[pytest.param(*rest, marks=pytest.mark.long) for rest in ((3, "votes", 0.0), (3, "mean", 0.1))],
    ],
)
def test_ensembles_against_brute_force(classes: int, combine: str, margin: float) -> None:
    K, y, rows = gaussian(8, 9, seed=1) if classes == 2 else blobs(8, 9, classes=classes, seed=1)
    asked: dict[str, Any] = {"parts": 3, "combine": combine, "margin": margin, "seed": 4}
    for threat in THREATS.values():
        advice = recheck(K, y, rows, 2.0, flips=2, confirm=2, threat=threat, **asked)
        best = brute_force(K, y, rows, 2.0, 2, 2, threat, using=labelcert.certify_partition, **asked)["each"]
        assert (advice.after[-1] if advice.after else advice.before) == pytest.approx(best)
        assert advice.certificate.run.engine_asked == "partition"
    cert = labelcert.certify_partition(K, y, rows, 2.0, threat=threat, max_flips=3, **asked)
    assert recheck(cert, flips=2, confirm=2).labels == advice.labels


def test_budgets_as_a_share_and_older_names() -> None:
    K, y, rows = gaussian(8, 9, seed=1)
    costs = Threat(costs=[1, 2, 1, 1, 2, 1, 1, 1])
    advice = recheck(K, y, rows, 2.0, fraction=0.2, confirm=2, threat=costs)
    assert advice.flips == 2
    older = recheck(K, y, rows, 2.0, flips=2, verify=2, threat=costs, verify_costs=[1] * 8)
    assert older.labels == advice.labels
    for wrong in ({}, {"flips": 1, "fraction": 0.2}):
        with pytest.raises(InvalidInput, match="how many wrong labels to survive"):
            recheck(K, y, rows, 2.0, confirm=2, **wrong)
    with pytest.raises(InvalidInput, match="older name"):
        recheck(K, y, rows, 2.0, flips=1, confirm=2, verify=1)


def test_on_processes() -> None:
    K, y, rows = gaussian(8, 9, seed=1)
    here = recheck(K, y, rows, 2.0, flips=2, confirm=2)
    there = recheck(K, y, rows, 2.0, flips=2, confirm=2, scheduler="processes", workers=1)
    assert (there.labels, there.after) == (here.labels, here.after)


def test_certificates_of_other_models_are_refused() -> None:
    data = two_clouds()
    arrays = (data.K_train, data.labels, data.K_test, 1.0)
    baseline = labelcert.certify_baseline(*arrays, using="partition-votes", parts=3, max_flips=2)
    with pytest.raises(InvalidInput, match="not one of certify or certify_partition"):
        recheck(baseline, flips=1, confirm=1)
    K, y, rows = gaussian(8, 9)
    cert = certify(K, np.where(np.asarray(y) == 1, 1.0, -1.0), rows, 1.0, threat=Threat(allowed_flips={-1: [1]}))
    with pytest.raises(InvalidInput, match="threat cannot be read back"):
        recheck(cert, flips=1, confirm=1)
    spam = Threat(allowed_flips={"spam": "ham"})
    cert = certify(K, np.where(np.asarray(y) == 1, "spam", "ham"), rows, 1.0, threat=spam)
    assert recheck(cert, flips=1, confirm=1).flips == 1


def test_the_collective_objective_is_never_bounded_by_single_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(advising, "LINEAR_LISTED_SECONDS", -1.0)
    for seed in range(3):
        K, y, rows = gaussian(9, 8, seed=seed)
        advice = recheck(K, y, rows, 0.5, flips=2, confirm=2, loss="square", objective="collective")
        best = brute_force(K, y, rows, 0.5, 2, 2, Threat(), loss="square")["collective"]
        assert advice.best_possible >= best - 1e-12


def test_what_is_not_known_is_not_told() -> None:
    data = two_clouds()
    advice = recheck(data.K_train, data.labels, data.K_test, C=1.0, flips=3, confirm=2, time_limit=0.01)
    if not advice.complete:
        assert np.isnan(advice.gains).all()
        assert "not all attacks" in advice.summary()


def test_a_run_that_is_over_before_anything_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    def over(*_: object) -> float:
        raise Stopped

    monkeypatch.setattr(advising, "_Listed", over)
    K, y, rows = gaussian(9, 5)
    advice = recheck(K, y, rows, 1.0, flips=1, confirm=2)
    assert (advice.labels, advice.after, advice.complete) == ([], [], False)
    assert advice.before == certify(K, y, rows, 1.0, max_flips=1).certified_ratio(flips=1)
