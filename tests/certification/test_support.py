"""What goes with what: every cell agrees with brute force, or refuses in the table's own words."""

from __future__ import annotations

import functools
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom
from tests.engines.gpu.emulation import EmulatedDevice
from tests.engines.partition.test_small_ensembles import brute_force as ensemble_brute_force
from tests.helpers import cells

from labelcert import Certificate, InvalidInput, Noise, Recheck, certify, certify_baseline
from labelcert.certification import support
from labelcert.certification.support import FEATURES, GPU, MAP, UNKNOWN, VOTES, Request, Support
from labelcert.engines.partition.parts import assign
from labelcert.engines.voting.dealing import by_hash, row_keys
from labelcert.selfcheck import Case
from labelcert.selfcheck.brute_force import brute_force
from labelcert.selfcheck.cases import label_costs, relabellings
from labelcert.verification.verify import Verification

TRIPLES = [
    Request(loss="cross_entropy", classes=3, engine="relaxed"),
    Request(loss="cross_entropy", classes=3, engine="milp"),
    Request(loss="cross_entropy", classes=3, engine="enumerate"),
    Request(loss="cross_entropy", classes=3, place="processes"),
    Request(loss="cross_entropy", classes=3, margin=True),
    Request(predictor=VOTES, loss="cross_entropy", classes=3),
    Request(predictor=VOTES, classes=3, margin=True),
    Request(predictor=VOTES, asks="recheck", margin=True),
    Request(predictor=VOTES, loss="logistic", place=GPU),
    Request(predictor=VOTES, classes=3, place="processes"),
    Request(loss="square", margin=True, asks="recheck"),
    Request(margin=True, engine="milp", classes=3),
    Request(margin=True, asks="report", classes=3),
    Request(labels=513, place=GPU),
    Request(predictor=FEATURES, loss="logistic", threat=("annotators",)),
    Request(predictor=VOTES, threat=("annotators",), asks="recheck"),
    Request(predictor=FEATURES, loss="logistic", threat=("removed labels",)),
    Request(loss="cross_entropy", classes=3, threat=("removed labels",)),
    Request(loss="square", classes=3, threat=("removed labels",)),
    Request(classes=3, threat=("removed labels",), margin=True),
    Request(classes=3, threat=("removed labels",), asks="recheck"),
    Request(threat=("removed labels", "costs"), asks="verify"),
    Request(threat=("removed labels", "groups"), engine="enumerate"),
    Request(predictor=FEATURES, loss="logistic", margin=True),
    Request(predictor=FEATURES, loss="logistic", place="processes"),
    Request(predictor=FEATURES, loss="logistic", weights=True, asks="verify"),
    Request(predictor=FEATURES, loss="logistic", asks="recheck"),
    Request(predictor=VOTES, threat=("annotators",), asks="recheck"),
    Request(predictor=support.NEIGHBOURS, threat=("removed labels",), margin=True),
    Request(predictor=support.NEIGHBOURS, threat=("removed labels",), place="processes"),
    Request(predictor=FEATURES, loss="logistic", uncertain=True),
    Request(uncertain=True, classes=3, engine="milp"),
    Request(uncertain=True, classes=3, engine="closed-form", margin=True),
    Request(uncertain=True, engine="relaxed", margin=True),
    Request(uncertain=True, threat=("costs", "groups"), engine="enumerate", margin=True),
]
VISITED = [*support.cells(), *(("three", str(k), request) for k, request in enumerate(TRIPLES))]
LARGE = Request(labels=301, engine="milp", limited=True)


@functools.cache
def truth(request: Request) -> tuple[Any, Any, Any]:
    """All relabellings: which labels they change (R, m), what they cost (R,), and which nodes they change (R, n)."""
    K, labels, rows = cells.arrays(request)
    margin = cells.MARGIN if request.margin else 0.0
    loss = "hinge" if request.loss is None else request.loss
    threat, C = cells.threat(request), cells.cap(request)
    if request.predictor == FEATURES:  # the kernel serves as features
        K, rows, C = K @ K, rows @ K @ K, 1.0
    case = Case("cell", K, labels, rows, C, loss, threat, cells.flips(request), margin)
    if request.predictor in (support.MACHINE, FEATURES):
        found = brute_force(case)
        changes, hits = [dict(change) for change in found.rows], found.hits
    elif request.predictor == UNKNOWN:
        changes = list(relabellings(case, label_costs(case), cells.flips(request)))
        hits = np.array([by_retraining(case, change, content="samples" in request.threat) for change in changes])
    elif request.predictor == MAP:
        changes = list(relabellings(case, label_costs(case), cells.flips(request)))
        hits = np.array([by_adding_up(case, change) for change in changes])
    else:
        combine = "votes" if request.predictor == VOTES else "mean"
        parts = ensemble_brute_force(case, 2, combine, margin=Fraction(margin))
        changes, hits = parts.changes, parts.hits
    touched = np.array([[i in change for i in range(labels.size)] for change in changes])
    return touched, touched @ np.array(label_costs(case)), np.asarray(hits)


def by_adding_up(case: Case, change: dict[int, Any]) -> list[bool]:
    """Which predictions of a linear map of the labels a relabelling changes."""
    clean = case.labels.tolist()
    new = [change.get(i, label) for i, label in enumerate(clean)]

    def best(row: Any, labels: list[Any]) -> list[int]:
        sums = [
            sum(Fraction(v) for v, label in zip(row, labels, strict=True) if label == c) for c in sorted(set(clean))
        ]
        return [c for c, value in enumerate(sums) if value == max(sums)]

    return [best(row, new) != best(row, clean) or len(best(row, clean)) > 1 for row in case.K_test.tolist()]


def by_retraining(case: Case, change: dict[int, Any], *, content: bool) -> list[bool]:
    """Which votes of two nearest neighbours a relabelling changes; labels are dealt out by a hash of their rows."""
    keys = row_keys(case.K_train)
    part_of = by_hash(keys, 2, 0) if content else assign([key.hex() for key in keys], 2, 0)

    def winners(labels: Any) -> list[Any]:
        votes = [
            cells.Nearest(case.K_test)(own, labels[own]) for k in (0, 1) if (own := np.flatnonzero(part_of == k)).size
        ]
        votes += [np.zeros(len(case.K_test))] * (2 - len(votes))
        return np.minimum(*votes).tolist()  # of two votes that differ, the first class wins

    new = case.labels.copy()
    for i, label in change.items():
        new[i] = label
    return (np.array(winners(new)) != winners(case.labels)).tolist()


def known(request: Request, trusted: int | None = None) -> tuple[list[int], list[int]]:
    """Radii (a large number: beyond the budget) and the curve, whatever the engine, the place and the question."""
    engine = request.engine if request.engine == "closed-form" else "auto"  # it has a C of its own
    touched, costs, hits = truth(replace(request, engine=engine, place="threads", asks="radii", limited=False))
    if trusted is not None:
        left = ~touched[:, trusted]
        costs, hits = costs[left], hits[left]
    radii = [int(costs[hits[:, t]].min(initial=99)) for t in range(hits.shape[1])]
    return radii, [int(hits[costs <= b].sum(axis=1).max()) for b in range(cells.flips(request) + 1)]


@pytest.fixture(autouse=True, scope="module")
def places() -> Any:
    """All places, here."""
    with cells.emulated(EmulatedDevice()):
        yield


@pytest.mark.parametrize("request_", [pytest.param(r, id=f"{a}, {b}") for a, b, r in VISITED])
def test_cell(request_: Request, tmp_path: Path) -> None:
    request, refused = request_, support.refusal(request_)
    if refused is not None:
        with pytest.raises((InvalidInput, TypeError)) as error:
            cells.ask(request, tmp_path)
        assert isinstance(error.value, TypeError) or str(error.value) == refused
        return
    found = cells.ask(request, tmp_path)
    if isinstance(found, Verification):
        assert found.accepted
    elif isinstance(found, Recheck):
        shares = [np.mean([r > 1 for r in known(request, i)[0]]) for i in range(6)]
        assert found.before == pytest.approx(np.mean([r > 1 for r in known(request)[0]]))
        assert max([found.before, *found.after]) == pytest.approx(max([found.before, *shares]))
    elif isinstance(found, Noise):
        likely(found, request)
    elif isinstance(found, Certificate):
        agrees(found, request)
        assert set(support.notes(request)) <= set(found.run.remarks)
    else:
        assert found is True


def likely(found: Noise, request: Request) -> None:
    """At least as probable as what few errors change, and at most more by all labellings with more errors."""
    touched, _, hits = truth(replace(request, asks="radii"))
    wrong, m = touched.sum(axis=1), touched.shape[1]
    odds = (cells.WRONG / (request.classes - 1)) ** wrong * (1 - cells.WRONG) ** (m - wrong)
    more = binom.sf(cells.flips(request), m, cells.WRONG)
    assert np.all(odds @ hits <= found.upper + 1e-9)
    assert np.all(found.lower <= odds @ hits + more + 1e-9)


def agrees(cert: Certificate, request: Request) -> None:
    """With brute force."""
    if request.asks == "baseline":  # about another model, but for votes
        assert (cert.radius_upper >= cert.radius_lower).all()
        return
    if request.metrics:
        worst = cert.worst_case("accuracy")
        assert np.all(worst.lower <= worst.upper)
        assert worst.exact or any("worst values" in remark for remark in cert.run.remarks)
    radii, curve = known(request)
    for t, radius in enumerate(radii):
        assert min(cert.radius_lower[t], cert.max_flips + 1) <= radius
        assert radius <= cert.radius_upper[t] or cert.radius_upper[t] > cert.max_flips
    assert np.all(cert.collective_lower <= curve)
    assert np.all(curve <= cert.collective_upper)
    if request.asks != "attack" and request.engine not in ("relaxed", "milp-paper") and request.predictor != UNKNOWN:
        assert [min(r, cert.max_flips + 1) for r in cert.radius_lower.tolist()] == [
            min(r, cert.max_flips + 1) for r in radii
        ]
        if request.asks == "curve" and request.predictor in (support.MACHINE, MAP):
            assert cert.collective_lower.tolist() == curve


def test_every_rule_is_visited() -> None:
    seen = {rule for _, _, request in VISITED for rule in support.rules(request)}
    [large] = support.rules(LARGE)
    assert [rule for rule in support.RULES if rule not in {*seen, large}] == []


def test_searches_of_large_problems_say_that_they_prove_nothing() -> None:
    cert = certify(*cells.arrays(LARGE), 0.01, engine="milp", time_limit=0.1, max_flips=9, collective=False)
    assert list(cert.run.remarks) == support.notes(LARGE)
    assert support.notes(replace(LARGE, limited=False)) == support.notes(replace(LARGE, labels=300)) == []


def test_every_sentence_is_whole() -> None:
    for _, _, request in VISITED:
        for sentence in [support.refusal(request), *support.notes(request)]:
            assert sentence is None or not {"{", "}"} & set(sentence)
            assert sentence is None or not sentence.endswith(".")


def test_a_gpu_that_cannot_help_is_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    from labelcert.certification import places

    arrays = cells.arrays(Request())
    assert certify(*arrays, 1.0, loss="logistic", max_flips=1).run.remarks == ()
    monkeypatch.setattr(places, "find_spec", lambda name: True)
    [remark] = certify(*arrays, 1.0, loss="logistic", max_flips=1).run.remarks
    assert "was not used: device='gpu' trains with" in remark
    assert certify(*arrays, 1.0, max_flips=1).run.remarks == ()
    assert certify(*arrays, 1.0, max_flips=1, loss="logistic", device="cpu").run.remarks == ()


def test_engines_that_were_chosen_say_what_they_cannot() -> None:
    K, labels, rows = cells.arrays(Request(labels=24))
    cert = certify(K, labels, rows, 1.0, loss="logistic", time_limit=0.2)
    said = any("no proofs for loss='logistic'" in remark for remark in cert.run.remarks)
    assert said == ("milp" in cert.engine)


def test_baselines_refuse_threats() -> None:
    arrays = cells.arrays(Request())
    for kind in support.THREATS:
        with pytest.raises(InvalidInput, match="leave out threat"):
            certify_baseline(
                *arrays, 1.0, using="partition-votes", parts=2, threat=cells.threat(Request(threat=(kind,)))
            )


def test_the_page_shows_the_table() -> None:
    page = Path(__file__).parents[2] / "docs" / "what-goes-with-what.md"
    assert support.table() in page.read_text(encoding="utf-8"), "run `python -m labelcert.certification.support`"


def test_counts() -> None:
    counts = support.counts()
    assert sum(counts.values()) == sum(1 for _ in support.cells())
    assert counts[Support.WORKS] > 300
