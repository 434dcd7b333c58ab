"""Attacks on an ensemble of models that nobody knows: some labels are changed, and what is trained on them is counted.

Training on changed labels is all that there is to learn about such a model. Each trial changes a few labels of one
bucket. Trials that touch different models can be made together, and are then known to do together what each does.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np

from labelcert.arrays import Bool, Float, Int
from labelcert.engines.base import Attacks, Question
from labelcert.engines.control import Control
from labelcert.engines.voting.dealing import Dealt
from labelcert.engines.voting.rules import RUN_OFF, Ballots, leaders
from labelcert.engines.voting.training import Chunk, Trainer
from labelcert.problem import Problem, Relabelling
from labelcert.problem.owners import OwnerAdversary, VotedRelabelling

RIVALS = 2
"""So many rivals of a prediction are tried, those with the most votes first."""


@dataclass(frozen=True, eq=False)
class Trial:
    """What models say once a few labels change: ``ranks[k]`` (n, R) of model number k."""

    change: Relabelling
    cost: int
    ranks: dict[int, Int]


@dataclass(frozen=True, eq=False)
class Combined:
    """Trials that are made together."""

    change: Relabelling
    changed: Bool
    becomes: Int


def trials(
    problem: Problem, weak: Int, dealt: Dealt, trainer: Trainer, attempts: int, seed: int, control: Control
) -> Iterator[Trial]:
    """As many trainings on changed labels as are allowed: of single buckets, or of single annotators.

    A bucket has one changed label, then two, and so on.

    ``weak`` (w, 2): predictions that may be within reach, each with its closest rival. Labels of the one become the
    other, where a bucket has such labels.
    """
    planned = (_owned if isinstance(problem.adversary, OwnerAdversary) else _dealt)(
        problem, weak, dealt, attempts, seed
    )
    asked = [
        (
            change,
            [
                chunk_of(dealt, problem.relabelled(change), k)
                for k in dealt.models_of(problem.adversary.labels[change.positions]).tolist()
            ],
        )
        for change in planned
    ]
    trained = trainer.trained([chunk for _, chunks in asked for chunk in chunks], control)
    for change, chunks in asked:
        found = {chunk.number: said for chunk, (_, said) in zip(chunks, trained, strict=False)}
        if len(found) < len(chunks):
            return
        yield Trial(change, problem.adversary.cost(change), found)


def _dealt(problem: Problem, weak: Int, dealt: Dealt, attempts: int, seed: int) -> Iterator[Relabelling]:
    """Changes of labels of single buckets."""
    a, rng = problem.adversary, np.random.default_rng([seed, 1])
    buckets = [np.flatnonzero(dealt.bucket_of[a.labels] == b) for b in range(dealt.members.shape[0])]
    spread = int(dealt.members[0].sum())
    for q in range(attempts // spread):
        own = rng.permutation(buckets[q % len(buckets)])
        was, rival = rng.choice(weak) if len(weak) else (-1, -1)
        hopeful = (problem.codes[a.labels[own]] == was) & a.targets[own, rival]
        positions = np.sort(own[np.argsort(~hopeful, kind="stable")][: 1 + q // len(buckets)])
        if positions.size == 0 or not a.affords(positions, problem.max_flips):
            continue
        targets = [rival if a.targets[p, rival] else int(rng.choice(np.flatnonzero(a.targets[p]))) for p in positions]
        yield Relabelling(positions.astype(np.int64), np.array(targets, dtype=np.int64))


def _owned(problem: Problem, weak: Int, dealt: Dealt, attempts: int, seed: int) -> Iterator[Relabelling]:
    """Changes that annotators make: one of them after the other, then sets of more; all of their labels at once.

    As long as the models that they reach are no more than the attempts; one change in any case.
    """
    a, rng, left = cast(OwnerAdversary, problem.adversary), np.random.default_rng([seed, 1]), attempts
    for price in range(1, problem.max_flips + 1):
        for owners in itertools.islice(a.sets_of(price), max(attempts, 1)):
            members = a.members([owners])
            may = a.attainable(members)[0]
            was, rival = rng.choice(weak)
            positions = np.flatnonzero((problem.codes[a.labels] == was) & may[:, rival])
            if positions.size == 0:
                continue
            change = Relabelling(positions.astype(np.int64), np.full(positions.size, rival, dtype=np.int64))
            voted = a.voted(change, members[0])
            if voted is None or not a.admits(voted, problem.max_flips):
                continue
            reached = dealt.models_of(a.labels[positions]).size
            if reached > left < attempts:
                return
            left -= reached
            yield voted


def _together(changes: Sequence[Relabelling]) -> Relabelling:
    """Changes of different labels, and the votes that make them."""
    if not isinstance(changes[0], VotedRelabelling):
        return Relabelling.of({k: v for change in changes for k, v in change.moves.items()})
    voted = cast(Sequence[VotedRelabelling], changes)
    positions, votes = (np.concatenate([getattr(one, name) for one in voted]) for name in ("positions", "votes"))
    targets, says = (np.concatenate([getattr(one, name) for one in voted]) for name in ("targets", "says"))
    first, then = np.argsort(positions), np.argsort(votes)
    return VotedRelabelling(positions[first], targets[first], votes[then], says[then])


def chunk_of(dealt: Dealt, codes: Int, model: int) -> Chunk:
    """A model, to be trained on labels ``codes`` (m,)."""
    indices = dealt.labels_of(model)
    return Chunk(model, indices, codes[indices])


def search(
    question: Question, ballots: Ballots, lower: Int, known: Sequence[Trial], control: Control
) -> tuple[Attacks, Int, dict[Relabelling, Bool]]:
    """Attacks made of trials, what each node's one turns it into, and which nodes the attacks of the curve change."""
    attacks, becomes = Attacks(question), np.full(question.nodes.size, -1, dtype=np.int64)
    changed: dict[Relabelling, Bool] = {}
    if not known:
        return attacks, becomes, changed
    book = _Book(question, ballots, known)

    def take(chosen: Sequence[int]) -> None:
        made = book.made(chosen)
        if made.change in changed or not question.problem.adversary.admits(made.change, question.budget):
            return
        changed[made.change] = made.changed
        closer = made.changed & (question.problem.adversary.cost(made.change) < attacks.radius)
        becomes[closer] = made.becomes[closer]
        attacks.take(made.change, made.changed)

    for chosen in book.strongest():
        if control.over():
            break
        take(chosen)
    for t in np.flatnonzero(lower <= question.budget).tolist():
        if control.over():
            break
        for chosen in book.against(t):
            take(chosen)
    return attacks, becomes, changed


class _Book:
    """What each trial does to each node."""

    def __init__(self, question: Question, ballots: Ballots, known: Sequence[Trial]) -> None:
        self._question, self._ballots, self._known = question, ballots, known
        self._own = question.predicted
        self._models = [frozenset(trial.ranks) for trial in known]
        self._costs = np.array([trial.cost for trial in known])

    def made(self, chosen: Sequence[int]) -> Combined:
        """What some trials do together, counted from what their models say."""
        ranks = self._ballots.ranks.copy()
        for q in chosen:
            for k, said in self._known[q].ranks.items():
                ranks[:, k] = said[self._question.nodes]
        winners = replace(self._ballots, ranks=ranks).winners()
        return Combined(_together([self._known[q].change for q in chosen]), winners != self._own, winners)

    def strongest(self) -> Iterator[list[int]]:
        """Trials one by one, and then more and more of those that take most votes from predictions."""
        n = self._own.size
        first, second = leaders(self._ballots.counts)
        rival = np.where(first == self._own, second, first)
        worth = np.array([self._gain(q, np.arange(n), rival).sum() for q in range(len(self._known))])
        yield from ([q] for q in range(len(self._known)))
        chosen: list[int] = []
        for q in self._in_order(worth):
            chosen = [*chosen, q]
            yield chosen

    def against(self, t: int) -> Iterator[list[int]]:
        """Trials that take the votes of one node over to a rival, until they do."""
        own, here = int(self._own[t]), self._ballots.of(np.array([t]))
        counts = here.counts[0].copy()
        counts[own] = -1
        for r in np.argsort(-counts, kind="stable")[: min(RIVALS, counts.size - 1)].tolist():
            rival = np.array([r])
            worth = np.array([self._gain(q, np.array([t]), rival)[0] for q in range(len(self._known))], dtype=float)
            ranks, chosen, spent = here.ranks.copy(), list[int](), 0
            for q in self._in_order(worth):
                spent += int(self._costs[q])
                if spent > self._question.budget:
                    break
                chosen.append(q)
                for k, said in self._known[q].ranks.items():
                    ranks[0, k] = said[self._question.nodes[t]]
                if replace(here, ranks=ranks).winners()[0] != own:
                    yield chosen
                    break

    def _in_order(self, worth: Float) -> Iterator[int]:
        """Trials by what they are worth for their cost, each model in one at most."""
        taken: set[int] = set()
        for q in np.argsort(-worth / self._costs, kind="stable").tolist():
            if worth[q] <= 0:
                return
            if taken.isdisjoint(self._models[q]):
                taken |= self._models[q]
                yield q

    def _gain(self, q: int, at: Int, rival: Int) -> Int:
        """How far a trial brings rivals (n,) closer to the predictions of some nodes."""
        own, total = self._own[at], np.zeros(at.size, dtype=np.int64)
        for k, said in self._known[q].ranks.items():
            before, after = self._ballots.ranks[at, k], said[self._question.nodes[at]]
            total += self._for(before, own, rival) - self._for(after, own, rival)
        return total

    def _for(self, ranks: Int, own: Int, rival: Int) -> Any:
        """(n,) what one model adds to the lead of a prediction over its rival."""
        lead = (ranks[:, 0] == own).astype(np.int64) - (ranks[:, 0] == rival)
        if self._ballots.rule != RUN_OFF:
            return lead
        at_own = (ranks == own[:, None]).argmax(axis=1)
        return lead + np.where(at_own < (ranks == rival[:, None]).argmax(axis=1), 1, -1)
