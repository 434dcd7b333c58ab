"""What it costs to change an election, against all elections that somebody could make of it."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from labelcert.engines.voting.prices import NEVER, Reach, costs_of, most_changed
from labelcert.engines.voting.rules import RUN_OFF, VOTES, Ballots


def elected(ballots: list[tuple[int, ...]], K: int, rule: str) -> int:
    """Who wins, one ballot after the other."""
    counts = [sum(ballot[0] == c for ballot in ballots) for c in range(K)]
    order = sorted(range(K), key=lambda c: (-counts[c], c))
    if rule == VOTES:
        return order[0]
    a, b = sorted(order[:2])
    for_a = sum(ballot.index(a) < ballot.index(b) for ballot in ballots)
    return a if 2 * for_a >= len(ballots) else b


def cheapest(ballots: list[tuple[int, ...]], K: int, rule: str, reach: Reach) -> int:
    """The least that changes the winner, through all purchases and all that the models could say then."""
    own, best = elected(ballots, K, rule), NEVER
    says = list(itertools.permutations(range(K))) if rule == RUN_OFF else [(c,) for c in range(K)]
    seen: set[tuple[int, ...]] = set()
    bought = [
        s for size in range(1, reach.prices.size + 1) for s in itertools.combinations(range(reach.prices.size), size)
    ]
    for some in sorted(bought, key=lambda s: int(reach.prices[list(s)].sum())):
        models = tuple(np.flatnonzero(reach.touches[list(some)].any(axis=0)).tolist())
        if int(reach.prices[list(some)].sum()) >= best or models in seen:
            continue
        seen.add(models)
        for new in itertools.product(says, repeat=len(models)):
            changed = list(ballots)
            for j, one in zip(models, new, strict=True):
                changed[j] = one
            if elected(changed, K, rule) != own:
                best = int(reach.prices[list(some)].sum())
                break
    return best


def elections(rng: Any, rule: str, count: int) -> Iterator[tuple[Ballots, list[list[tuple[int, ...]]]]]:
    """Small ones, of all shapes: with few models, ties and models that nobody can reach."""
    for _ in range(count):
        K, k = int(rng.integers(2, 5)), int(rng.integers(1, 6 if rule == VOTES else 5))
        says = [rng.permutation(K) for _ in range(int(rng.integers(1, 4)))]  # few opinions, so that elections are close
        ranks = np.array([[says[rng.integers(len(says))] for _ in range(k)] for _ in range(3)])
        ranks = ranks if rule == RUN_OFF else ranks[:, :, :1]
        yield Ballots(ranks, K, rule, np.ones(k, dtype=bool)), [[tuple(b.tolist()) for b in row] for row in ranks]


def reaches(rng: Any, k: int) -> Iterator[tuple[Reach, bool]]:
    """Models that are bought one by one, at one price and at several, and models that are bought together."""
    yield Reach.of(np.ones(k, dtype=np.int64), np.eye(k, dtype=bool)), True
    some = rng.random(k) < 0.8
    yield Reach.of(np.full(int(some.sum()), 2), np.eye(k, dtype=bool)[some]), True
    yield Reach.of(rng.integers(1, 4, k), np.eye(k, dtype=bool)), False
    yield Reach.of(rng.integers(1, 3, 4), rng.random((4, k)) < 0.5), False


@pytest.mark.parametrize("rule", [VOTES, RUN_OFF])
@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.long)])
def test_nothing_cheaper_changes_a_winner(rule: str, seed: int) -> None:
    rng, exact = np.random.default_rng(seed), 0
    for ballots, plain in elections(rng, rule, 60 if seed == 0 else 600):
        own = ballots.winners()
        assert own.tolist() == [elected(row, ballots.classes, rule) for row in plain]
        for reach, tight in reaches(rng, ballots.ranks.shape[1]):
            book = Ballots(ballots.ranks, ballots.classes, rule, reach.takeable)
            found = costs_of(book, own, reach, shares=True)
            truth = [cheapest(row, ballots.classes, rule, reach) for row in plain]
            assert np.all(np.minimum(found.least, NEVER) <= truth)
            exact += found.least.tolist() == truth
            if tight or (rule == VOTES and reach.alone):
                assert [min(one, NEVER) for one in found.least.tolist()] == truth
            for budget in range(1, int(reach.prices.sum()) + 1):
                assert most_changed(found, reach.prices, budget) <= np.sum(found.least <= budget)
    assert exact > 100


def test_the_curve_counts_no_attack_too_little() -> None:
    rng = np.random.default_rng(3)
    gained = 0
    for _ in range(60):
        k, n = 5, 8
        ballots = Ballots(rng.integers(0, 2, (n, k, 1)), 2, VOTES, np.ones(k, dtype=bool))
        touches = rng.random((4, k)) < 0.4
        reach = Reach.of(rng.integers(1, 3, 4), touches)
        ballots = Ballots(ballots.ranks, 2, VOTES, reach.takeable)
        own = ballots.winners()
        found = costs_of(ballots, own, reach, shares=True)
        for budget in range(1, int(reach.prices.sum()) + 1):
            most = 0
            for size in range(reach.prices.size + 1):
                for some in itertools.combinations(range(reach.prices.size), size):
                    if reach.prices[list(some)].sum() <= budget:
                        taken = reach.touches[list(some)].any(axis=0)
                        worst = np.where(taken, 1 - own[:, None], ballots.votes)
                        winners = Ballots(worst[:, :, None], 2, VOTES, reach.takeable).winners()
                        most = max(most, int((winners != own).sum()))
            bound = most_changed(found, reach.prices, budget)
            assert most <= bound <= int((found.least <= budget).sum())
            gained += bound < int((found.least <= budget).sum())
    assert gained > 0


def published_votes(counts: list[int], own: int) -> int:
    """SS-DPA (Levine and Feizi, 2021): so many changed labels leave the winner where it is."""
    return min((counts[own] - counts[c] - (c < own)) // 2 for c in range(len(counts)) if c != own)


def published_overlapping(votes: Any, own: int, K: int, touches: Any) -> int:
    """Finite aggregation (Wang, Levine and Feizi, 2022): buckets by what they take from the lead at most."""
    certified = []
    for c in set(range(K)) - {own}:
        gap = int((votes == own).sum() - (votes == c).sum()) - (c < own)
        power = np.sort(touches @ np.where(votes == own, 2, np.where(votes == c, 0, 1)))[::-1]
        certified.append(int((np.cumsum(power) <= gap).sum()))
    return min(certified)


def published_run_off(ballots: Any, own: int, K: int) -> int:
    """Run-off election (Rezaei et al., 2023) over parts: the smaller of what both rounds take."""
    votes = ballots[:, 0]
    counts = [int((votes == c).sum()) for c in range(K)]

    def gap(a: int, b: int) -> int:
        return counts[a] - counts[b] + (b > a)

    def second(c: int) -> int:
        prefer = int(sum(list(one).index(own) < list(one).index(c) for one in ballots))
        heads = -(-(2 * prefer - len(ballots) + (c > own)) // 2)
        reached = [max(0, -(-gap(s, c) // 2)) for s in set(range(K)) - {own, c}]
        return max([heads, *reached])

    def both(a: int, b: int) -> int:
        """The fewest models with which two gaps close: a table over both of them."""
        top, table = max(gap(own, a), 0), {}
        for i, j in itertools.product(range(top + 1), range(max(gap(own, b), 0) + 1)):
            steps = [(2, 1), (1, 2)]
            table[i, j] = 0 if i == j == 0 else 1 + min(table[max(i - x, 0), max(j - y, 0)] for x, y in steps)
        return int(table[top, max(gap(own, b), 0)])

    rivals = sorted(set(range(K)) - {own})
    pairs = [both(a, b) for a, b in itertools.combinations(rivals, 2)]
    return min([second(c) for c in rivals] + pairs) - 1


def test_at_least_as_much_as_published() -> None:
    rng = np.random.default_rng(5)
    for _ in range(150):
        K, k = int(rng.integers(2, 6)), int(rng.integers(5, 15))
        odds = rng.dirichlet(np.full(K, 0.6))
        ranks = np.array([[rng.permutation(K) for _ in range(k)]])
        lead = rng.choice(K, size=k, p=odds)
        for j in range(k):  # the class that is drawn comes first
            ranks[0, j] = [lead[j], *(c for c in ranks[0, j] if c != lead[j])]
        alone = Reach.of(np.ones(k, dtype=np.int64), np.eye(k, dtype=bool))
        ballots = Ballots(ranks, K, VOTES, alone.takeable)
        own = ballots.winners()
        survived = int(costs_of(ballots, own, alone, shares=False).least[0]) - 1
        assert survived >= published_votes(ballots.counts[0].tolist(), int(own[0]))
        shifts = (np.arange(k)[:, None] + np.array([0, 1, 3])) % k
        touches = np.zeros((k, k), dtype=bool)
        touches[np.arange(k)[:, None], shifts] = True
        wide = Reach.of(np.ones(k, dtype=np.int64), touches)
        overlapping = int(costs_of(ballots, own, wide, shares=False).least[0]) - 1
        assert overlapping >= published_overlapping(ballots.votes[0], int(own[0]), K, touches)
        run_off = Ballots(ranks, K, RUN_OFF, alone.takeable)
        own = run_off.winners()
        survived = int(costs_of(run_off, own, alone, shares=False).least[0]) - 1
        assert survived >= published_run_off(ranks[0], int(own[0]), K)
