"""Engines: each takes a question and returns findings. A new engine is one file and one line in ``ENGINES``."""

from __future__ import annotations

from labelcert.engines.base import Control, Engine, Findings, Question, Stop, Work
from labelcert.engines.closed_form import ClosedForm
from labelcert.engines.enumerate import Enumerate
from labelcert.errors import InvalidInput, WorkTooLarge
from labelcert.problem import Problem

ENGINES: tuple[Engine, ...] = (ClosedForm(), Enumerate())
"""All engines, cheapest first: ``engine="auto"`` takes the first that can do the work."""


def choose(name: str, problem: Problem, control: Control) -> tuple[Engine, Question]:
    """The engine to run and the question to run it on.

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
    refusals: list[str] = []
    for engine in ENGINES:
        if name not in ("auto", engine.name):
            continue
        refusal = engine.refuses(problem)
        if refusal is not None:
            if name == engine.name:
                raise InvalidInput(f"engine={name!r} does not apply: {refusal}")
            continue
        question = Question.ask(problem, engine.scorer(problem))
        work = engine.estimate(question, control)
        if work.advice is None:
            return engine, question
        refusals.append(
            f"engine={engine.name!r} would take about {duration(work.seconds)} ({work.reason}); {work.advice}"
        )
    raise WorkTooLarge("the work is too large: " + "; ".join(refusals))


def duration(seconds: float) -> str:
    """A time in the unit that reads best."""
    for unit, length in (("years", 31557600.0), ("days", 86400.0), ("hours", 3600.0), ("minutes", 60.0)):
        if seconds >= 2 * length:
            return f"{seconds / length:.3g} {unit}"
    return f"{seconds:.0f} seconds"


__all__ = ["ENGINES", "Control", "Engine", "Findings", "Question", "Stop", "Work", "choose", "duration"]
