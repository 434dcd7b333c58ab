"""Which engines run, in which order, on which budgets."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from labelcert.arrays import Int
from labelcert.certificate import Stop
from labelcert.certificate.metric import CountedMetric
from labelcert.engines.base import Engine, Findings, Question, Work
from labelcert.engines.control import Control
from labelcert.engines.emptied import classes_dropped
from labelcert.engines.observers.worst_metrics import with_metrics
from labelcert.engines.observing import Observer
from labelcert.engines.registry import AUTO, engines_for, get_engine
from labelcert.errors import InvalidInput, WorkTooLarge
from labelcert.prediction import Unknown
from labelcert.problem import Problem
from labelcert.problem.owners import OwnerAdversary
from labelcert.problem.problem import ONE_MODEL
from labelcert.stopping import Stopped
from labelcert.svm.pivoting import LARGEST_COLD

USUAL_SECONDS = 30.0
"""Where neither a largest budget nor a time limit is given, ``"auto"`` answers the budgets that fit into about this."""

SHARE_OF_FIRST = 0.4
"""Part of the time limit into which the first engine should fit where all of its work would not."""

FIRST_AT_MOST = 0.6
"""Part of the time that is left when it has to stop, should the estimate be wrong: the rest is for what it leaves."""

SHARE_OF_NEXT = 0.8
"""Part of what is left then for each engine that goes on, but for the last, which gets all."""


@dataclass(frozen=True)
class Stage:
    """One engine's part of a plan: which budgets it covers, and its share of the time that is left.

    With ``counts``, it only shows relabellings to the question's counter, where nobody else has shown as many.
    """

    engine: Engine
    max_flips: int
    share: float = 1.0
    counts: bool = False

    def needed(self, question: Question, control: Control, known: Findings) -> bool:
        """Whether there is anything left for it to find."""
        if self.counts:
            return question.counting is not None and question.counting.reach <= self.max_flips
        return not known.settled(control.collective)

    def run(self, question: Question, control: Control, known: Findings) -> Findings:
        """What is known after this stage."""
        part = _up_to(question, self.max_flips)
        if not self.engine.capabilities.observes:
            part = replace(part, counting=None)
        own = control if self.share == 1.0 else control.part(self.share)
        found = classes_dropped(part, self.engine.run(part, own, known), own)
        if found.read is not None:
            known = Findings.nothing(found.read.question)
        return known.refined(found, self.name(part.problem))

    def name(self, problem: Problem) -> str:
        """What certificates call the engine."""
        own = getattr(self.engine, "stage_name", None)
        return self.engine.name if own is None else str(own(problem))


@dataclass(frozen=True, eq=False)
class Plan:
    """Stages to run one after the other on one question.

    Attributes
    ----------
    stages : tuple of Stage
    question : Question
    seconds_to_set_up : float
        How long it took to set up the predictor.
    budget_note : str
        Why the question is about fewer budgets than were asked for; empty where it is about all.
    """

    stages: tuple[Stage, ...]
    question: Question
    seconds_to_set_up: float
    budget_note: str = ""

    @property
    def finds_attacks(self) -> bool:
        """Whether upper ends of radii are asked for."""
        return any(stage.engine.capabilities.finds_attacks for stage in self.stages)

    @property
    def attacks_first(self) -> bool:
        """Whether there may be no time for more than attacks: several engines share it, and one finds attacks at last.

        They know nothing of models of all classes at once, of models trained on features, or of removed labels.
        """
        problem = self.question.problem
        limited = len(self.stages) > 1 and any(stage.engine.capabilities.searches for stage in self.stages)
        return limited and problem.kind == ONE_MODEL and not (problem.coupled or problem.adversary.removes)


def plan(
    name: str,
    problem: Problem,
    control: Control,
    predicted: Int | None = None,
    *,
    observers: Sequence[Observer] = (),
    metrics: Sequence[CountedMetric] = (),
    options: Mapping[str, Any] | None = None,
) -> Plan:
    """Plan a run.

    ``"auto"`` takes the first automatic engine that can do the work: the closed form where scores are linear, else
    enumeration. With a time limit that it would exceed, it covers small budgets, and an engine that can go on from
    there covers the rest. Where it may choose the largest budget, it chooses one that takes about half a minute.

    Parameters
    ----------
    name : str
    problem : Problem
    control : Control
    predicted : (n,) array, optional
        Clean predictions to assume instead of the model's own.
    observers : sequence of Observer
        Who else wants to know what relabellings do.
    metrics : sequence of CountedMetric
        Whose worst values are wanted, exactly where relabellings are walked anyway.
    options : mapping, optional
        Of the named engine.

    Raises
    ------
    InvalidInput
        Unknown name, or the named engine does not apply.
    WorkTooLarge
        No engine can do it in reasonable time; the message says how large the work is and what would fit.
    """
    if name == AUTO:
        candidates = [engine for engine in engines_for(problem.kind) if engine.capabilities.automatic]
    else:
        candidates = [get_engine(name, problem.kind, **(options or {}))]
    too_large, refusal = [], None
    for engine in candidates:
        refusal = _refusal(engine, problem, observing=bool(observers))
        if refusal is not None:
            continue
        began = time.monotonic()
        predictor = engine.predictor(problem)
        took = time.monotonic() - began
        if predicted is not None:
            predictor = predictor.with_predictions(predicted)
        question = replace(Question.ask(predictor), observers=observers, prover=_prover(problem))
        question = with_metrics(question, metrics)
        # Of rows that are read in blocks, nobody knows how many there are before they are read.
        if control.over() and problem.m > LARGEST_COLD and predictor.predicted.size:
            return Plan((), question, took)
        if problem.max_flips == 0 and problem.kind == ONE_MODEL:  # clean predictions are all that is asked for
            return Plan((Stage(engine, 0),), question, took)
        try:
            work = engine.estimate(question, control)
            if _interrupted(question, control):
                return Plan((), question, took)
            if name == AUTO and control.chooses_budget and (work.advice is not None or work.seconds > USUAL_SECONDS):
                return _in_usual_time(engine, question, control, took)
            if work.advice is None:
                answering = _stages(engine, question, control, work) if name == AUTO else None
                return Plan(answering or (Stage(engine, problem.max_flips),), question, took)
        except Stopped:  # clean predictions are known by now
            return Plan((), question, took)
        too_large.append(
            f"engine={engine.name!r} would take about {duration(work.seconds)} ({work.reason}); {work.advice}"
        )
    if too_large:
        raise WorkTooLarge("the work is too large: " + "; ".join(too_large))
    raise InvalidInput(f"engine={name!r} does not apply: {refusal or f'no engine answers for {problem.kind}'}")


def nothing_known(problem: Problem) -> Plan:
    """What is left to do where the run is over before there is a model: nothing."""
    return Plan((), Question.ask(Unknown(problem)), 0.0)


def _interrupted(question: Question, control: Control) -> bool:
    """Whether Ctrl-C came while work was estimated, and clean predictions of many labels are all that is known."""
    known = question.problem.m > LARGEST_COLD and question.predictor.predicted.size > 0
    return known and control.over() and control.stop is Stop.INTERRUPTED


def _refusal(engine: Engine, problem: Problem, *, observing: bool) -> str | None:
    """Why an engine cannot answer such a question at all; None where it can."""
    able = engine.capabilities
    if able.owners != isinstance(problem.adversary, OwnerAdversary):
        return "it is for budgets that count " + ("annotators" if able.owners else "labels; leave out engine")
    if problem.adversary.removes and not able.removes:
        return "it knows no removed labels; leave out engine"
    if observing and not able.observes:
        return "it does not show the relabellings that it visits to observers; use engine='enumerate'"
    if not able.applies(problem.loss, problem.coupled):
        return able.why(problem.loss)
    return engine.refuses(problem)


def _prover(problem: Problem) -> Engine | None:
    """Who proves something about what a walk leaves: a search that goes on from there, where it proves anything."""
    for engine in engines_for(problem.kind):
        able = engine.capabilities
        fits = able.continues and able.proved_losses and able.proves(problem.loss) and problem.m <= able.most_labels
        if fits and _refusal(engine, problem, observing=False) is None:
            return engine
    return None


def _in_usual_time(engine: Engine, question: Question, control: Control, took: float) -> Plan:
    """The largest budget that takes about half a minute; the smallest one takes no longer either, with intervals."""
    problem = question.problem
    fits = engine.reach(question, control, USUAL_SECONDS)
    if _interrupted(question, control):
        return Plan((), question, took)
    chosen, more = (_up_to(question, max(1, fits) + k) for k in (0, 1))
    beyond = engine.estimate(more, control)
    note = (
        f"budgets up to {chosen.budget} of {problem.max_flips} are answered, which takes about half a minute; "
        f"{more.budget} would take about {duration(beyond.seconds)} ({beyond.reason}). "
        "Ask for more with max_flips, or for what a time limit allows with time_limit"
    )
    if fits < 1:
        control.limit(USUAL_SECONDS)
    return Plan(_stages(engine, chosen, control, engine.estimate(chosen, control)), chosen, took, note)


def _up_to(question: Question, budget: int) -> Question:
    problem = question.problem
    return replace(question, problem=replace(problem, max_flips=min(budget, problem.max_flips)))


def _stages(engine: Engine, question: Question, control: Control, work: Work) -> tuple[Stage, ...]:
    """Stages that answer the question, and one that counts beside them what can be counted in a moment."""
    stages = _answering(engine, question, control, work)
    for other in engines_for(question.problem.kind) if question.counting is not None else ():
        soon = getattr(other, "counted_soon", None)
        if soon is not None and (budget := soon(question)) >= 0:
            return (*stages, Stage(other, budget, counts=True))
    return stages


def _answering(engine: Engine, question: Question, control: Control, work: Work) -> tuple[Stage, ...]:
    most = question.budget
    in_time = control.time_limit is None or work.seconds <= control.time_limit
    continuing = range(1, question.problem.n_classes + 1)
    able = [engine for engine in engines_for(question.problem.kind) if engine.capabilities.continues in continuing]
    observing = bool(question.observers)
    followers = [engine for engine in able if _refusal(engine, question.problem, observing=observing) is None]
    if in_time or question.predictor.linear or not followers:
        return (Stage(engine, most),)
    assert control.time_limit is not None
    for follower in followers:
        follower.estimate(question, control)  # fails now, and not after the first stage, where a solver is missing
    first = engine.reach(question, control, SHARE_OF_FIRST * control.time_limit)
    *before, final = followers
    return (
        Stage(engine, first, FIRST_AT_MOST),
        *(Stage(follower, most, SHARE_OF_NEXT) for follower in before),
        Stage(final, most),
    )


def duration(seconds: float) -> str:
    """A time in the unit that reads best.

    Examples
    --------
    >>> duration(90), duration(7200)
    ('90 seconds', '2 hours')
    """
    for unit, length in (("years", 31557600.0), ("days", 86400.0), ("hours", 3600.0), ("minutes", 60.0)):
        if seconds >= 2 * length:
            return f"{seconds / length:.3g} {unit}"
    return f"{seconds:.0f} seconds"
