"""Certificates of any learner: models on parts of the labels are trained, and their votes counted in the worst case."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

import numpy as np

from labelcert.arrays import Float, Int, Values
from labelcert.certificate import Certificate
from labelcert.engines.base import Capabilities, Findings, PlainEngine, Question, ReadOnce, Work, within_reach
from labelcert.engines.control import Control
from labelcert.engines.voting.attacks import Trial, chunk_of, search, trials
from labelcert.engines.voting.dealing import Dealt
from labelcert.engines.voting.prices import ROUNDS, Costs, Reach, costs_of, most_changed
from labelcert.engines.voting.rules import RUN_OFF, VOTES, Ballots, leaders
from labelcert.engines.voting.training import Chunk, Train, Trainer
from labelcert.errors import InvalidInput
from labelcert.memory import require_memory
from labelcert.prediction import Gathered, Predictor, Unknown
from labelcert.problem import NOTHING, Problem
from labelcert.problem.owners import OwnerAdversary

BLACK_BOX = "votes of a black box"
"""Who predicts: models of which nothing is known but what they say after training."""

CURVE_WORK = 2e9
"""Numbers that are looked at for the upper end of the curve; with more, fewer of its budgets are bounded."""

SHARES = 25_000_000
"""Largest table of what purchases add to changes, for the curve."""

BYTES = 40
"""Memory for each class that a model ranks for a test point."""


@dataclass(frozen=True, eq=False)
class BlackBox:
    """Models that any function trains, each on labels that are dealt out to it, and a rule that counts their votes."""

    train: Train
    dealt: Dealt
    rule: str = VOTES
    folder: Path | None = None
    twice: int = 2
    """So many models are trained twice, to see whether training is deterministic."""
    attempts: int | None = None
    """Trainings on changed labels that look for attacks; None: as many as there are models."""
    seed: int = 0
    known: Mapping[int, Any] = field(default_factory=dict)
    """What models say that are trained already, by their numbers."""
    certify_part: Callable[[Int, Values], Certificate | None] | None = None
    """Certificates of the models that an exact engine knows."""
    kind: str = BLACK_BOX

    def predictor(self, problem: Problem) -> Predictor:
        """Nobody knows before the models are trained."""
        return Unknown(problem)

    def digest(self, sha256: str) -> str:
        """Votes that are not there yet are in no hash."""
        return sha256


class VoteEngine(PlainEngine):
    """Trains all models, counts how many anybody would have to take over, and tries some changes of labels."""

    name = "votes"
    capabilities = Capabilities(automatic=True, advertised=False, predictors=frozenset({BLACK_BOX}))

    def stage_name(self, problem: Problem) -> str:
        """With the rule."""
        return "votes (run-off)" if cast(BlackBox, problem.by).rule == RUN_OFF else "votes (plurality)"

    def estimate(self, question: Question, control: Control) -> Work:
        """As long as training takes; memory is known."""
        box, problem = cast(BlackBox, question.problem.by), question.problem
        ranks = box.dealt.models * (problem.n_classes if box.rule == RUN_OFF else 1)
        require_memory(
            problem.n_test * ranks * BYTES,
            f"the votes of {box.dealt.models} models for {problem.n_test:,} test points",
            "use fewer parts, or certify fewer test points at a time",
        )
        return Work("training, which takes as long as it takes")

    def run(self, question: Question, control: Control, known: Findings) -> Findings:
        """Radii from votes; the curve from radii and multipliers; attacks from trials."""
        return _Count(question, control).findings(known)


class OwnedVoteEngine(VoteEngine):
    """The same where budgets count annotators, each of whom reaches all models with one of their labels."""

    name = "votes of annotators"
    capabilities = replace(VoteEngine.capabilities, owners=True)


class _Count:
    """One run of the engine."""

    def __init__(self, question: Question, control: Control) -> None:
        self._problem, self._control = question.problem, control
        self._box = cast(BlackBox, question.problem.by)
        self._started = time.perf_counter()
        self._trained = self._stored = self._repeated = 0
        self._folder = self._box.folder
        if self._folder is not None:
            self._folder.mkdir(parents=True, exist_ok=True)
        self._trainer = Trainer.of(
            self._box.train,
            self._problem.classes,
            self._problem.n_test,
            ranked=self._box.rule == RUN_OFF,
            folder=self._folder,
        )

    def findings(self, known: Findings) -> Findings:
        """Nothing, where the run is over before all models are trained; what is stored is stored."""
        said = self._all()
        if said is None:
            return replace(known, statistics=self._statistics([]))
        problem, box = self._problem, self._box
        least = self._least_labels(said[:, :, 0])
        reach = box.dealt.reach(problem.adversary, problem.threat.samples, least)
        ballots = Ballots(said, problem.n_classes, box.rule, reach.takeable)
        winners = ballots.winners()
        question = Question.ask(Gathered(problem, winners, winners, decision(ballots.strength())))
        ballots = ballots.of(question.nodes)
        wanted = self._control.collective and question.nodes.size * reach.prices.size <= SHARES
        costs = costs_of(ballots, question.predicted, reach.at(question.nodes), shares=wanted)
        lower = np.minimum(costs.least, question.budget + 1)
        if not isinstance(problem.adversary, OwnerAdversary):
            lower = problem.adversary.next_payable(question.budget)[lower]
        first, second = leaders(ballots.counts)
        rivals = np.where(first == question.predicted, second, first)
        tried = self._trials(question, np.column_stack([question.predicted, rivals])[lower <= question.budget])
        attacks, becomes, changed = search(question, ballots, lower, tried, self._control)
        if least is not None and np.any(attacks.radius < lower):
            raise InvalidInput(
                "fewer labels than the certificates of parts say were changed, and turned a prediction; certify_part "
                "must certify the very models that train returns"
            )
        statistics = self._statistics(tried)
        if least is not None:
            statistics |= {"part_radii": least.T.tolist(), "certified_parts": int((least > 1).any(axis=0).sum())}
        found = attacks.findings(lower, statistics, self._curve(lower, costs, reach, wanted))
        nobody = np.zeros(question.nodes.size, dtype=bool)
        used = {change: changed.get(change, nobody) for change in found.curve_changes}
        read = ReadOnce(question, becomes, {NOTHING: nobody, **used}, votes=said)
        return replace(found, read=read, sha256=self._digest(said, least))

    def _least_labels(self, votes: Int) -> Int | None:
        """(n, k) how many labels have to change before each model votes for another class; None where nobody asked.

        One, unless a certificate of the model says more: one of the same labels, of all classes, without limits on what
        may change. Of points where it predicts something else than the model, it says nothing.
        """
        box, problem = self._box, self._problem
        if box.certify_part is None:
            return None
        least = np.ones(votes.shape, dtype=np.int64)
        for j in range(box.dealt.models):
            chunk = chunk_of(box.dealt, problem.codes, j)
            if self._control.over() or np.unique(chunk.codes).size < problem.n_classes:
                continue  # a class that is not there yet may come: no certificate of the part knows of it
            labels = problem.classes[chunk.codes]
            cert = box.certify_part(chunk.indices.copy(), labels)
            self._control.report(j + 1, box.dealt.models)
            if cert is None:
                continue
            limited = any(value is not None for value in cert.run.threat.values())
            if cert.n_test != problem.n_test or limited or not np.array_equal(cert.labels, labels):
                raise InvalidInput(
                    f"certify_part must return a certificate of the {labels.size} labels that it was given and of all "
                    f"{problem.n_test} test points, against any changed labels; got {cert}"
                )
            agrees = np.searchsorted(problem.classes, cert.predictions) == votes[:, j]
            least[agrees, j] = np.maximum(cert.radius_lower[agrees], 1)
        return least

    def _all(self) -> Int | None:
        """(n, k, R) what all models say; None where the run was over before."""
        dealt, n, k = self._box.dealt, self._problem.n_test, self._box.dealt.models
        width = self._problem.n_classes if self._box.rule == RUN_OFF else 1
        said = np.zeros((n, k, width), dtype=np.int64)
        said[:] = np.arange(width)  # a model without a single sample says that
        chunks = [chunk_of(dealt, self._problem.codes, j) for j in range(k)]
        chunks = [chunk for chunk in chunks if chunk.indices.size]
        done: dict[int, Int] = {}
        for chunk in chunks:
            given = self._box.known.get(chunk.number)
            found = self._trainer.stored(chunk) if given is None else self._trainer.task.ranks(given)
            if found is not None:
                done[chunk.number] = found
        self._stored = len(done)
        # Those that are trained twice come first: nobody waits for hours to learn that all was in vain.
        often = min(self._box.twice, len(chunks))
        probes = [chunks[j] for j in np.linspace(0, len(chunks) - 1, often).astype(int)] if often else []
        if done and probes:
            probes[0] = next(chunk for chunk in chunks if chunk.number in done)
        if not self._train([chunk for chunk in probes if chunk.number not in done], done, len(chunks)):
            return None
        if not self._compare(probes, done):
            return None
        if not self._train([chunk for chunk in chunks if chunk.number not in done], done, len(chunks)):
            return None
        for j, found in done.items():
            said[:, j] = found
        return said

    def _train(self, chunks: list[Chunk], done: dict[int, Int], count: int) -> bool:
        """Train some models; whether there was time for all."""
        self._control.report(len(done), count)
        for chunk, found in self._trainer.trained(chunks, self._control):
            done[chunk.number] = found
            self._trained += 1
            self._control.note(f"{len(done)} of {count} models")
            self._control.report(len(done), count)
        return all(chunk.number in done for chunk in chunks)

    def _compare(self, probes: list[Chunk], done: dict[int, Int]) -> bool:
        """Train some models again, and refuse those that say something else; whether there was time."""
        for chunk, again in self._trainer.trained(probes, self._control, keep=False):
            self._trained, self._repeated = self._trained + 1, self._repeated + 1
            other = int((again != done[chunk.number]).any(axis=1).sum())
            if other:
                stored = f", or empty {self._folder} if the function or its data changed" if self._folder else ""
                raise InvalidInput(
                    f"training is not deterministic: model {chunk.number}, trained twice on the same "
                    f"{chunk.indices.size} labels, says something else about {other} of {again.shape[0]} test points. "
                    "Votes prove nothing then. Fix all seeds (random_state=0, labelcert.seeded(train)), train on the "
                    f"CPU where a GPU adds numbers up in random order{stored}"
                )
        return self._repeated == len(probes)

    def _trials(self, question: Question, weak: Int) -> list[Trial]:
        """Trainings on changed labels, as many as were asked for and as time allows."""
        box, problem = self._box, self._problem
        attempts = box.dealt.models if box.attempts is None else box.attempts
        if question.budget == 0 or attempts == 0 or not len(weak) or self._control.over():
            return []
        found: list[Trial] = []
        for trial in trials(problem, weak, box.dealt, self._trainer, attempts, box.seed, self._control):
            found.append(trial)
            self._trained += len(trial.ranks)
            self._control.note(f"{len(found)} changes of labels tried")
        return found

    def _curve(self, lower: Int, costs: Costs, reach: Reach, wanted: bool) -> Int:
        """(B + 1,) upper ends: predictions within reach, or fewer where multipliers say so."""
        upper = within_reach(lower, self._problem.max_flips)
        if not wanted or reach.prices.size == 0:
            return upper
        open_ = np.flatnonzero(upper)
        fit = int(CURVE_WORK / max(1, ROUNDS * costs.share.size))
        for b in open_[:: max(1, -(-open_.size // max(1, fit)))].tolist():
            if self._control.over():
                break
            upper[b] = min(upper[b], most_changed(costs, reach.prices, b))
        return np.minimum.accumulate(upper[::-1])[::-1].astype(np.int64)

    def _statistics(self, tried: list[Trial]) -> dict[str, Any]:
        box = self._box
        sizes = [box.dealt.labels_of(j).size for j in range(box.dealt.models)]
        return {
            "trainings": self._trained,
            "stored": self._stored,
            "trained_twice": self._repeated,
            "tried": len(tried),
            "models": len(sizes),
            "smallest_model": min(sizes),
            "largest_model": max(sizes),
            "combine": box.rule,
            "part_of": box.dealt.bucket_of.tolist(),
            "offsets": np.flatnonzero(box.dealt.members[0]).tolist(),
            "seconds": time.perf_counter() - self._started,
        }

    def _digest(self, said: Int, least: Int | None) -> str:
        """Everything that decides the answer, the votes included."""
        h = hashlib.sha256(f"{self._box.rule} {said.shape}".encode())
        radii = [] if least is None else [least.T]
        for array in (said, self._box.dealt.bucket_of, np.flatnonzero(self._box.dealt.members[0]), *radii):
            h.update(np.ascontiguousarray(array, dtype="<i8").tobytes() + b"|")
        h.update(b"samples" if self._problem.threat.samples else b"labels")
        return self._problem.finish_digest(h)


def decision(strength: Float) -> Float:
    """(n,) of two classes, half the lead of the second one; (n, K) of more."""
    return (strength[:, 1] - strength[:, 0]) / 2 if strength.shape[1] == 2 else strength
