"""With a deadline, the progress of a search is the time until then."""

from __future__ import annotations

from tests.helpers.problems import gaussian

from labelcert.certification import Run, Task, solve
from labelcert.engines.control import Control
from labelcert.problem import Problem


def test_the_remaining_time_is_shown() -> None:
    seen: list[tuple[float, float]] = []
    notes: list[str] = []
    control = Control(
        workers=1, time_limit=3.0, report=lambda done, total: seen.append((done, total)), note=notes.append
    )
    solve(Task(problem=Problem.build(*gaussian(40, 4), 1.0)), Run("milp"), control)
    assert "attacks on single nodes" in notes
    elapsed = [done for done, total in seen if total < 4.0]
    assert elapsed
    assert elapsed == sorted(elapsed)
