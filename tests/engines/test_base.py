"""What engines share: findings that are refined, attacks that are kept."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tests.helpers.problems import blobs, gaussian

from labelcert.engines.base import Attacks, Findings, Question, running_best, within_reach
from labelcert.engines.control import Control
from labelcert.engines.enumerate import Enumerate
from labelcert.problem import NOTHING, Problem, Relabelling


def question(make: object, max_flips: int = 2) -> Question:
    problem = Problem.build(*make(9, 12), 1.0, max_flips=max_flips)  # type: ignore[operator]
    return Question.ask(Enumerate().predictor(problem))


@pytest.mark.parametrize("make", [gaussian, blobs])
def test_nodes_are_sorted_by_prediction(make: object) -> None:
    q = question(make)
    assert np.all(np.diff(q.predicted) >= 0)
    for c in range(q.problem.n_classes):
        assert np.all(q.predicted[q.segments[c] : q.segments[c + 1]] == c)
    assert sorted(q.nodes.tolist()) == np.flatnonzero(q.predictor.predicted >= 0).tolist()


@pytest.mark.parametrize("make", [gaussian, blobs])
def test_all_single_attacks_together_are_what_enumeration_finds(make: object) -> None:
    q = question(make, max_flips=1)
    a = q.problem.adversary
    attacks = Attacks(q)
    for i, k in np.argwhere(a.targets).tolist():
        count, decided = attacks.enter(Relabelling.of({i: k}))
        assert decided
        assert count == q.changed(Relabelling.of({i: k}))[0].sum()
    found = Enumerate().run(q, Control(workers=1), Findings.nothing(q))
    assert np.array_equal(attacks.radius, found.radius_upper)
    assert np.array_equal(attacks.curve, found.curve_lower)


def test_findings_take_the_tighter_end_and_say_whose_it_is() -> None:
    q = question(gaussian)
    n = q.nodes.size
    nothing = Findings.nothing(q)
    assert nothing.radius_lower.tolist() == [1] * n
    assert nothing.curve_upper.tolist() == [0, n, n]
    assert not nothing.settled()
    full = nothing.refined(Enumerate().run(q, Control(workers=1), nothing), "first")
    assert full.settled()
    assert full.radius_by is not None
    assert set(full.radius_by.tolist()) == {"first"}
    worse = replace(nothing, radius_lower=np.zeros(n, dtype=np.int64), statistics={"of": "second"})
    again = full.refined(worse, "second")
    for name in ("radius_lower", "radius_upper", "curve_lower", "curve_upper", "radius_by", "curve_by"):
        assert np.array_equal(getattr(again, name), getattr(full, name)), name
    assert again.statistics == {"of": "second"}


def test_findings_about_fewer_budgets_say_nothing_about_the_others() -> None:
    q = question(gaussian, max_flips=3)
    part = replace(q, problem=replace(q.problem, max_flips=1))
    nothing = Findings.nothing(q)
    some = nothing.refined(Enumerate().run(part, Control(workers=1), nothing), "part")
    full = Enumerate().run(q, Control(workers=1), nothing)
    assert np.array_equal(some.curve_lower[:2], full.curve_lower[:2])
    assert np.array_equal(some.curve_upper[:2], full.curve_upper[:2])
    assert np.all(some.curve_lower <= full.curve_lower)
    assert np.all(some.curve_upper >= full.curve_upper)
    assert np.all(some.radius_lower <= full.radius_lower)
    assert np.all(some.radius_upper >= full.radius_upper)


def test_claims_are_kept_beside_proofs_and_count_where_they_are_trusted() -> None:
    q = question(gaussian, max_flips=3)
    n = q.nodes.size
    nothing = Findings.nothing(q)
    claim = replace(nothing, radius_claimed=np.where(np.arange(n) < 2, 3, 1), curve_claimed=np.array([0, 5, n, n]))
    found = nothing.refined(claim, "first").refined(nothing, "second")
    assert np.array_equal(found.radius_lower, nothing.radius_lower)
    assert np.array_equal(found.curve_upper, nothing.curve_upper)
    assert found.claimed_radii.tolist() == [3, 3, *[1] * (n - 2)]
    assert found.claimed_curve.tolist() == [0, 5, n - 2, n]
    trusted = found.trusting()
    assert np.array_equal(trusted.radius_lower, found.claimed_radii)
    assert np.array_equal(trusted.curve_upper, found.claimed_curve)
    assert trusted.radius_by is not None
    assert trusted.curve_by is not None
    assert trusted.radius_by.tolist() == [*["a trusted solver"] * 2, *[""] * (n - 2)]
    assert trusted.curve_by.tolist() == ["", *["a trusted solver"] * 2, ""]
    # What is proved later is no claim any more.
    full = found.refined(Enumerate().run(q, Control(workers=1), nothing), "third")
    assert np.all(full.claimed_radii >= full.radius_lower)


def test_within_reach_counts_radii() -> None:
    assert within_reach(np.array([3, 1, 1, 5]), 4).tolist() == [0, 2, 2, 3, 3]


def test_running_best_keeps_the_cheapest_of_equals() -> None:
    one, two, three = (Relabelling.of({i: 0}) for i in range(3))
    most, changes = running_best(np.array([-1, 2, 2, 1, 4]), [NOTHING, one, two, two, three].__getitem__)
    assert most.tolist() == [0, 2, 2, 2, 4]
    assert changes == [NOTHING, one, one, one, three]
