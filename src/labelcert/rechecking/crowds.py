"""Where budgets count annotators: which items to annotate again, and whom to audit.

An audited annotator is no longer in any set of liars. So whom to audit is the question which labels to confirm, with
annotators in the place of labels, and the sets that change a prediction in the place of attacks. A confirmed item takes
away what sets of annotators gain by it; in an ensemble, a label that they reach in one part. Where models are
retrained, all that sets can do is listed instead.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import cast

import numpy as np

from labelcert.arrays import Bool, Float, Int
from labelcert.engines.annotators.engine import sets_of_annotators
from labelcert.engines.annotators.ensembles import PartOwners
from labelcert.engines.annotators.linear import LinearOwners
from labelcert.engines.annotators.retrained import RetrainedOwners
from labelcert.engines.base import Question
from labelcert.engines.control import Control
from labelcert.engines.partition.engine import ENSEMBLE
from labelcert.errors import WorkTooLarge
from labelcert.problem.owners import OwnerAdversary
from labelcert.rechecking.attacks import AttackList, bits, list_attacks, packed
from labelcert.rechecking.best_labels import Chosen, EachAlone, LabelSearch, choose, choose_until
from labelcert.rechecking.gains import affordable

MOST_SETS = 20_000
"""Sets of annotators within the budget."""

MOST_STEPS = 24
"""How often it is found out what sets can still do: beyond so many items to confirm, several are taken at a time."""

BOUND_CELLS = 2e8
"""Sets times nodes times items up to which it is found out what no choice of items can secure."""


@dataclass(frozen=True, eq=False)
class Advised(Chosen):
    """A choice of items or annotators, by position among those that there are, and what is known after each.

    Attributes
    ----------
    safe, possible : lists of (n,) arrays
        Nodes that provably survive before the first step and after each, and those for which that is not excluded.
    alone : (ν,) array
        What each secures, if it is the only one; NaN where that is not known.
    complete : bool
        Whether all that sets of annotators can do was known.
    """

    safe: list[Bool]
    possible: list[Bool]
    alone: Float
    complete: bool


def whom_to_audit(question: Question, weights: Float, count: float, control: Control) -> Advised:
    """The annotators that secure the most predictions once they are known to be honest."""
    a, sets = _sets(question)
    sure, maybe = (found.T for found in _owners(question, control).of_sets(sets))
    attacks = _listed(sets[:, a.buyable], maybe, question.contrary)
    complete = not control.over()
    search = LabelSearch(EachAlone(attacks, weights), np.ones(a.buyable.size), control)
    chosen = choose(search, count)

    def left(found: Bool, known: list[int]) -> Bool:
        alive = ~sets[:, a.buyable[known]].any(axis=1)
        return np.asarray(~(found[alive].any(axis=0) | question.contrary))

    steps = [chosen.order[:k] for k in range(len(chosen.order) + 1)]
    return Advised(
        chosen.order,
        chosen.value,
        chosen.bound if not (maybe & ~sure).any() else float(weights[left(sure, list(range(a.buyable.size)))].sum()),
        [left(maybe, known) for known in steps],
        [left(sure, known) for known in steps],
        search.alone(),
        complete,
    )


def what_to_confirm(
    question: Question, weights: Float, costs: Float, budget: float, control: Control, until: float | None
) -> Advised:
    """The items whose labels secure the most predictions once they are confirmed."""
    if question.predictor.linear or question.problem.kind == ENSEMBLE:
        return _by_gains(question, weights, costs, budget, control, until)
    return _by_lists(question, weights, costs, budget, control, until)


def _owners(question: Question, control: Control) -> LinearOwners | RetrainedOwners | PartOwners:
    """What finds out what sets of annotators can do."""
    return PartOwners(question, control) if question.problem.kind == ENSEMBLE else sets_of_annotators(question, control)


def _sets(question: Question) -> tuple[OwnerAdversary, Bool]:
    """The adversary, and all sets of annotators within the budget, (s, A)."""
    a = cast(OwnerAdversary, question.problem.adversary)
    count = float(a.count_sets_by_price(question.budget).sum())
    if count > MOST_SETS:
        raise WorkTooLarge(
            f"recheck looks at all sets of annotators within the budget: {count:,.0f}, and {MOST_SETS:,} at most; ask "
            "about fewer of them, or name some who are trusted (trusted_annotators)"
        )
    prices = range(1, question.budget + 1)
    return a, a.members([one for price in prices for one in a.sets_of(price)])


def _listed(sets: Bool, overturned: Bool, clean: Bool) -> AttackList:
    """Sets as attacks, without what smaller ones do; the empty set first."""
    known = {row.tobytes(): hits for row, hits in zip(sets, overturned, strict=True)}
    kept = [(np.zeros(sets.shape[1], dtype=bool), clean)]
    for row in sets:
        new = known[row.tobytes()] & ~clean
        for k in np.flatnonzero(row).tolist():
            smaller = row.copy()
            smaller[k] = False
            new = new & ~known.get(smaller.tobytes(), clean)
        if new.any():
            kept.append((row, new))
    return AttackList(
        packed(np.array([row for row, _ in kept])), np.array([new for _, new in kept]), np.zeros(len(kept)), True, 0
    )


def _by_lists(
    question: Question, weights: Float, costs: Float, budget: float, control: Control, until: float | None
) -> Advised:
    """All relabellings that sets of annotators can make, as attacks on their labels."""
    a, sets = _sets(question)
    method, nu, clean = RetrainedOwners(question, control), a.labels.size, question.contrary
    found, complete = [(np.zeros((1, nu), dtype=bool), clean[None])], a.wrong_votes is None
    for owners in sets:
        at = np.flatnonzero(a.attainable(owners[None])[0].any(axis=1))
        walked = method.walkable(owners) if at.size else None
        if walked is not None:
            listed = list_attacks(walked, weights, control, strongest=False)
            complete &= listed.complete
            some = np.zeros((listed.strongest.size, nu), dtype=bool)
            some[:, at] = bits(listed.sets, at.size)
            found.append((some[1:], listed.overturned[1:]))
        if at.size and (walked is None or not complete):  # any of these labels may do anything
            complete = False
            found.append((np.eye(nu, dtype=bool)[at], np.broadcast_to(method.flips <= at.size, (at.size, clean.size))))
    labels, overturned = (np.concatenate(parts) for parts in zip(*found, strict=True))
    attacks = AttackList(packed(labels), overturned, np.zeros(len(labels)), complete, 0)
    search = LabelSearch(EachAlone(attacks, weights), costs, control)
    chosen = choose(search, budget) if until is None else choose_until(search, until, budget)
    safe = [search.safe(chosen.order[:k]) for k in range(len(chosen.order) + 1)]
    possible = safe if complete else [np.ones_like(clean)] * len(safe)
    alone = search.alone() if complete else np.full(nu, np.nan)
    bound = chosen.bound if complete else float(weights.sum())
    return Advised(chosen.order, chosen.value, bound, safe, possible, alone, complete)


def _by_gains(
    question: Question, weights: Float, costs: Float, budget: float, control: Control, until: float | None
) -> Advised:
    """One item after the other: the one that takes most, for its price, from what sets gain beyond what they need."""
    a, sets = _sets(question)
    left, order, free = budget, list[int](), np.arange(a.labels.size)
    many = max(1, affordable(costs, budget) // MOST_STEPS)
    safe, possible = list[Bool](), list[Bool]()
    bound, parts = float(weights.sum()), None if question.predictor.linear else PartOwners(question, control)
    while True:
        limited = replace(question, problem=replace(question.problem, adversary=a.only(free)))
        method = LinearOwners(limited, control) if parts is None else parts.knowing(free)
        sure, maybe = method.of_sets(sets)
        # Of several items that are taken together, nothing is known in between but that they do no harm.
        steps = len(order) + 1 - len(safe)
        safe += [*([safe[-1]] * (steps - 1) if safe else []), np.asarray(~maybe.any(axis=1))]
        possible += [np.asarray(~sure.any(axis=1))] * (len(safe) - len(possible))
        few = a.wrong_votes is None and len(sets) * maybe.shape[0] * free.size <= BOUND_CELLS
        if not order and free.size and few and isinstance(method, LinearOwners):
            bound = float(weights[method.gains.savable(sets, affordable(costs, budget)) & ~question.contrary].sum())
        if control.over() or (until is not None and float(weights[safe[-1]].sum()) >= until - 1e-12):
            break
        open_ = np.flatnonzero(maybe.any(axis=1) & ~question.contrary)
        relief = method.gains.relief if isinstance(method, LinearOwners) else method.relief
        worth = _worth(relief, free.size, sets, maybe, open_, weights) / costs[free]
        ranked = [k for k in np.argsort(-worth, kind="stable").tolist() if worth[k] > 0]
        chosen = list[int]()
        for k in ranked:
            if len(chosen) < many and costs[free[k]] <= left + 1e-9:
                chosen.append(k)
                left -= float(costs[free[k]])
        if not chosen:
            break
        order += free[chosen].tolist()
        free = np.delete(free, chosen)
        control.report(len(order), len(order) + affordable(costs[free], left))
    while order and float(weights[safe[-2]].sum()) >= float(weights[safe[-1]].sum()):
        for known in (order, safe, possible):  # it would secure nothing
            known.pop()
    value = float(weights[safe[-1]].sum())
    alone = np.full(a.labels.size, np.nan)
    return Advised(order, value, max(bound, value), safe, possible, alone, True)


def _worth(
    relief: Callable[[Bool, Int, Float], Float], count: int, sets: Bool, maybe: Bool, nodes: Int, weights: Float
) -> Float:
    """(ν,) what confirming each item is worth to nodes that some sets may change: most to those that few may."""
    if nodes.size == 0:
        return np.zeros(count)
    hit = maybe[nodes]
    useful = np.flatnonzero(hit.any(axis=0))
    shares = weights[nodes] / hit.sum(axis=1) ** 2
    return relief(sets[useful], nodes, hit[:, useful] * shares[:, None])
