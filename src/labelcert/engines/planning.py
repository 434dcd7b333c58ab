"""Which engines run, in which order, on which budgets."""

from __future__ import annotations

from dataclasses import dataclass, replace

from labelcert.arrays import Int
from labelcert.engines.base import Engine, Findings, Question, Work
from labelcert.engines.control import Control
from labelcert.engines.registry import AUTO, ENGINES, get_engine
from labelcert.errors import InvalidInput, WorkTooLarge
from labelcert.problem import Problem

SHARE_OF_FIRST = 0.4
"""Part of the time limit that the first engine gets where it alone would exceed it; the rest is for what it leaves."""


@dataclass(frozen=True)
class Stage:
    """One engine's part of a plan: which budgets it covers."""

    engine: Engine
    max_flips: int

    def run(self, question: Question, control: Control, known: Findings) -> Findings:
        """What is known after this stage."""
        part = replace(question, problem=replace(question.problem, max_flips=self.max_flips))
        return known.refined(self.engine.run(part, control, known), self.engine.name)


@dataclass(frozen=True, eq=False)
class Plan:
    """Stages to run one after the other on one question."""

    stages: tuple[Stage, ...]
    question: Question

    @property
    def finds_attacks(self) -> bool:
        """Whether upper ends of radii are asked for."""
        return any(stage.engine.capabilities.finds_attacks for stage in self.stages)


def plan(name: str, problem: Problem, control: Control, predicted: Int | None = None) -> Plan:
    """Plan a run.

    ``"auto"`` takes the first automatic engine that can do the work: the closed form where scores are linear, else
    enumeration. With a time limit that it would exceed, it covers small budgets, and an engine that can go on from
    there covers the rest.

    Parameters
    ----------
    name : str
    problem : Problem
    control : Control
    predicted : (n,) array, optional
        Clean predictions to assume instead of the model's own.

    Raises
    ------
    InvalidInput
        Unknown name, or the named engine does not apply.
    WorkTooLarge
        No engine can do it in reasonable time; the message says how large the work is and what would fit.
    """
    candidates = [e for e in ENGINES.values() if e.capabilities.automatic] if name == AUTO else [get_engine(name)]
    too_large = []
    for engine in candidates:
        refusal = engine.refuses(problem)
        if refusal is not None:
            if name != AUTO:
                raise InvalidInput(f"engine={name!r} does not apply: {refusal}")
            continue
        predictor = engine.predictor(problem)
        if predicted is not None:
            predictor = predictor.with_predictions(predicted)
        question = Question.ask(predictor)
        work = engine.estimate(question, control)
        if work.advice is None:
            stages = _stages(engine, question, control, work) if name == AUTO else (Stage(engine, problem.max_flips),)
            return Plan(stages, question)
        too_large.append(
            f"engine={engine.name!r} would take about {duration(work.seconds)} ({work.reason}); {work.advice}"
        )
    raise WorkTooLarge("the work is too large: " + "; ".join(too_large))


def _stages(engine: Engine, question: Question, control: Control, work: Work) -> tuple[Stage, ...]:
    most = question.budget
    in_time = control.time_limit is None or work.seconds <= control.time_limit
    followers = [e for e in ENGINES.values() if e.capabilities.continues and e.refuses(question.problem) is None]
    if in_time or question.predictor.linear or not followers:
        return (Stage(engine, most),)
    assert control.time_limit is not None
    for follower in followers:
        follower.estimate(question, control)  # fails now, and not after the first stage, where a solver is missing
    first = engine.reach(question, control, SHARE_OF_FIRST * control.time_limit)
    return (Stage(engine, first), *(Stage(follower, most) for follower in followers))


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
