"""One rival at a time: bounds that hold for any multipliers, and moves that are dropped only where they are useless."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from tests.helpers.small_problems import CLASS_THREATS, all_relabellings, class_problem, margin, mixed_problem

from labelcert import Threat
from labelcert.engines.search import relaxation
from labelcert.engines.search.margin_ranges import trivial_ranges
from labelcert.engines.search.relaxation import Bounds, multipliers
from labelcert.engines.search.rivalry import PairRelaxation, Rivalry, least_margins, narrowed
from labelcert.problem import Problem


def pair_of(p: Problem, own: int, rival: int, budget: int, *, tight: bool = True) -> Rivalry:
    parts = {c: p.one_vs_rest(c) for c in (own, rival)}
    ranges = {
        c: relaxation.proved_ranges(part, budget)[0] if tight else trivial_ranges(part, budget)
        for c, part in parts.items()
    }
    return Rivalry.of(p, own, rival, parts, ranges)


@pytest.mark.parametrize("threat", CLASS_THREATS, ids=repr)
@pytest.mark.parametrize("tight", [False, True])
def test_any_multipliers_give_lower_bounds(threat: Threat, tight: bool) -> None:
    """Over all relabellings, and over those with a given move."""
    p = class_problem(threat)
    row = p.K_test[0]
    for own, rival in ((0, 1), (2, 0)):
        values = {change: margin(p, change, row, own, [rival]) for change in all_relabellings(p, 2)}
        pair = pair_of(p, own, rival, 2, tight=tight)
        rng = np.random.default_rng(0)
        suggested = PairRelaxation(pair, row).suggest(pair.left, 10.0)
        random = [multipliers(pair.models[k], s * row, rng.normal(size=6)) for k, s in ((0, 1.0), (1, -1.0))]
        for mus in (suggested, random):
            bound, with_move = least_margins(pair, mus)
            assert bound * p.C <= min(values.values()) + 1e-12
            for change, value in values.items():
                for i, target in change.moves.items():
                    move = pair.move(i, target)
                    if move is not None:
                        assert with_move[i, move] * p.C <= value + 1e-12


@pytest.mark.parametrize("C", [0.3, 3.0])
def test_narrowing_keeps_successful_relabellings(C: float) -> None:
    p = class_problem(m=9, max_flips=1, C=C)
    every = all_relabellings(p, 1)
    parts = {c: p.one_vs_rest(c) for c in range(3)}
    ranges = {c: relaxation.proved_ranges(part, 1)[0] for c, part in parts.items()}
    excluded = dropped = 0
    for t, own, rival in itertools.product(range(4), range(3), range(3)):
        if own == rival:
            continue
        row = p.K_test[t]
        pair = Rivalry.of(p, own, rival, parts, ranges)
        found = narrowed(pair, row, lambda: 60.0, [], root=True)
        hits = [change for change in every if margin(p, change, row, own, [rival]) < -1e-9]
        if found is None:
            excluded += 1
            assert hits == []
            continue
        dropped += int(pair.left.sum() - found.left.sum())
        for change in hits:
            for i, target in change.moves.items():
                move = found.move(i, target)
                assert move is None or found.left[i, move]
    assert excluded > 0
    assert dropped > 0


@pytest.mark.parametrize("threat", CLASS_THREATS, ids=repr)
def test_screening_keeps_successful_relabellings(threat: Threat) -> None:
    p = class_problem(threat, max_flips=1, C=0.5)
    every = all_relabellings(p, 1)
    excluded = dropped = 0
    for own, rival in itertools.permutations(range(3), 2):
        pair = pair_of(p, own, rival, 1)
        for row in p.K_test[:2]:
            screened = narrowed(pair, row, lambda: 60.0, [], root=False)
            hits = [change for change in every if margin(p, change, row, own, [rival]) < -1e-9]
            if screened is None:
                excluded += 1
                assert hits == []
                continue
            dropped += int(pair.left.sum() - screened.left.sum())
            for change in hits:
                moves = [(i, screened.move(i, target)) for i, target in change.moves.items()]
                assert all(screened.left[i, move] for i, move in moves if move is not None)
    assert excluded + dropped > 0


def test_suggested_multipliers_are_better_than_none() -> None:
    p = class_problem(m=9, max_flips=2)
    row, nothing = p.K_test[0], np.zeros(9)
    gains = []
    for own, rival in itertools.permutations(range(3), 2):
        pair = pair_of(p, own, rival, 2)
        bound, _ = least_margins(pair, PairRelaxation(pair, row).suggest(pair.left, 10.0))
        plain = [multipliers(pair.models[k], s * row, nothing) for k, s in ((0, 1.0), (1, -1.0))]
        gains.append(bound - least_margins(pair, plain)[0])
    assert min(gains) >= -1e-9
    assert max(gains) > 1e-3


def test_multipliers_for_another_purpose_prove_nothing() -> None:
    p = class_problem()
    pair = pair_of(p, 0, 1, 2)
    row = p.K_test[0]
    own, rival = PairRelaxation(pair, row).suggest(pair.left, 10.0)
    bound, with_move = least_margins(pair, [replace(own, empty=np.array([True])), rival])
    assert bound == -np.inf
    assert np.all(with_move[pair.left] == -np.inf)


@pytest.mark.parametrize("tight", [False, True])
def test_two_classes_are_a_pair_with_one_model(tight: bool) -> None:
    """Its bounds are those of the model alone, and hold for any multipliers."""
    p = mixed_problem(2, max_flips=2)
    model = p.one_vs_rest(1)
    ranges = relaxation.proved_ranges(model, 2)[0] if tight else trivial_ranges(model, 2)
    rng = np.random.default_rng(0)
    for own, row in itertools.product((0, 1), p.K_test[:3]):
        pair = Rivalry.of(p, own, 1 - own, {1: model}, {1: ranges})
        assert len(pair.models) == 1
        values = {change: margin(p, change, row, own, [1 - own]) / 2.0 for change in all_relabellings(p, 2)}
        suggested = PairRelaxation(pair, row).suggest(pair.left, 10.0)
        for mus in (suggested, [multipliers(model, pair.signs[0] * row, rng.normal(size=p.m))]):
            bound, with_move = least_margins(pair, mus)
            assert bound == pytest.approx(Bounds(model, ranges).evaluate(mus[0])[0], abs=1e-9)
            assert bound * p.C <= min(values.values()) + 1e-12
            for change, value in values.items():
                for i, target in change.moves.items():
                    move = pair.move(i, target)
                    assert move is not None
                    assert with_move[i, move] * p.C <= value + 1e-12
