"""Engines: each takes a question and returns findings. A new engine is one file and one line in ``ENGINES``."""

from __future__ import annotations

from dataclasses import dataclass, replace

from labelcert.engines.base import Control, Engine, Findings, Question, Stop, Work
from labelcert.engines.closed_form import ClosedForm
from labelcert.engines.enumerate import Enumerate
from labelcert.engines.milp import LEAF_SETS, Milp
from labelcert.errors import InvalidInput, WorkTooLarge
from labelcert.milp.judging import MilpWarning
from labelcert.problem import Problem

ENGINES: tuple[Engine, ...] = (ClosedForm(), Enumerate(), Milp("milp"), Milp("milp-paper", faithful=True))
"""All engines by name. ``engine="auto"`` plans over them: see :func:`plan`."""

SHARE_FOR_ENUMERATION = 0.4
"""Of a time limit that enumeration alone would exceed; the rest is for what it leaves open."""


@dataclass(frozen=True)
class Stage:
    """One engine's part of a plan: which budgets it covers."""

    engine: Engine
    max_flips: int

    def run(self, question: Question, control: Control, known: Findings) -> Findings:
        """What is known after this stage."""
        part = replace(question, problem=replace(question.problem, max_flips=self.max_flips))
        return known.refined(self.engine.run(part, control, known), self.engine.name)


def plan(name: str, problem: Problem, control: Control) -> tuple[list[Stage], Question]:
    """Which engines to run, in which order, on which question.

    ``"auto"``: the closed form where scores are linear; enumeration where it fits; with a time limit that it would
    exceed, enumeration of small budgets and then, for what is still open, the compact program.

    Raises
    ------
    InvalidInput
        Unknown name, or the named engine does not apply.
    WorkTooLarge
        No engine can do it in reasonable time; the message says how large the work is and what would fit.
    """
    names = ["auto", *(engine.name for engine in ENGINES)]
    if name not in names:
        raise InvalidInput(f"engine must be one of {', '.join(names)}, got {name!r}")
    if name != "auto":
        [engine] = [engine for engine in ENGINES if engine.name == name]
        refusal = engine.refuses(problem)
        if refusal is not None:
            raise InvalidInput(f"engine={name!r} does not apply: {refusal}")
        question = Question.ask(problem, engine.scorer(problem))
        work = engine.estimate(question, control)
        if work.advice is not None:
            raise WorkTooLarge(f"the work is too large: {_refusal(engine, work)}")
        return [Stage(engine, problem.max_flips)], question
    closed_form, enumerate_ = ClosedForm(), Enumerate()
    refusals = []
    if closed_form.refuses(problem) is None:
        question = Question.ask(problem, closed_form.scorer(problem))
        work = closed_form.estimate(question, control)
        if work.advice is None:
            return [Stage(closed_form, problem.max_flips)], question
        refusals.append(_refusal(closed_form, work))
    question = Question.ask(problem, enumerate_.scorer(problem))
    work = enumerate_.estimate(question, control)
    if work.advice is not None:
        raise WorkTooLarge("the work is too large: " + "; ".join([*refusals, _refusal(enumerate_, work)]))
    if control.time_limit is None or work.seconds <= control.time_limit or problem.loss != "hinge":
        return [Stage(enumerate_, problem.max_flips)], question
    first = enumerate_.reach(question, control, SHARE_FOR_ENUMERATION * control.time_limit)
    stages = [Stage(enumerate_, first), Stage(Milp("milp", leaf_sets=LEAF_SETS), problem.max_flips)]
    return stages, question


def _refusal(engine: Engine, work: Work) -> str:
    return f"engine={engine.name!r} would take about {duration(work.seconds)} ({work.reason}); {work.advice}"


def duration(seconds: float) -> str:
    """A time in the unit that reads best."""
    for unit, length in (("years", 31557600.0), ("days", 86400.0), ("hours", 3600.0), ("minutes", 60.0)):
        if seconds >= 2 * length:
            return f"{seconds / length:.3g} {unit}"
    return f"{seconds:.0f} seconds"


__all__ = [
    "ENGINES",
    "Control",
    "Engine",
    "Findings",
    "MilpWarning",
    "Question",
    "Stage",
    "Stop",
    "Work",
    "duration",
    "plan",
]
