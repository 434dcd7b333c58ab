"""The observer of the documentation's section "Add an observer": one class."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.engines.test_observers import CASES, THREATS, ask

from labelcert.engines.control import Control
from labelcert.engines.enumerate import Enumerate

PAGE = Path(__file__).parents[2] / "docs" / "engines.md"


def code() -> str:
    """The section's first block of code: everything that an observer takes."""
    section = PAGE.read_text(encoding="utf-8").split("## Add an observer\n")[1]
    found = re.search(r"```python\n(.*?)```", section, re.DOTALL)
    assert found is not None
    return found[1]


def toy(n: int) -> Any:
    """The observer for some nodes."""
    names: dict[str, Any] = {}
    exec(compile(code(), PAGE.name, "exec"), names)
    return names["FallTogether"](n)


def test_it_is_short() -> None:
    assert len(re.findall(r"^ +\S", code(), re.MULTILINE)) <= 12


@pytest.mark.parametrize("threat", THREATS)
@pytest.mark.parametrize("case", CASES)
def test_it_agrees_with_brute_force(case: str, threat: str) -> None:
    arrays, options = CASES[case]
    n = ask(arrays, 1.0, threat=THREATS[threat], **options).nodes.size
    observer = toy(n)
    question = ask(arrays, 1.0, (observer,), threat=THREATS[threat], **options)
    Enumerate().run(question, Control(workers=1), None)  # type: ignore[arg-type]
    a, together = question.problem.adversary, np.zeros((n, n), dtype=int)
    for size in range(a.labels.size + 1):
        for change in a.relabellings(size, question.budget):
            changed = question.changed(change)[0].astype(int)
            together += np.outer(changed, changed)
    assert observer.complete
    assert observer.lower.tolist() == observer.upper.tolist() == together.tolist()
