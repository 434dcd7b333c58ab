"""The engine of the documentation's section "Add an engine": one class, one line."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from tests.helpers.certificates import contains
from tests.helpers.problems import blobs, gaussian
from tests.helpers.strategies import cases

import labelcert
from labelcert import selfcheck
from labelcert.engines.registry import engine_names
from labelcert.selfcheck import Case

PAGE = Path(__file__).parents[2] / "docs" / "engines.md"


def code() -> str:
    """The section's first block of code: everything that an engine takes."""
    section = PAGE.read_text(encoding="utf-8").split("## Add an engine\n")[1]
    found = re.search(r"```python\n(.*?)```", section, re.DOTALL)
    assert found is not None
    return found[1]


@pytest.fixture(autouse=True)
def _toy() -> None:
    """Registered for each test; the shared fixture takes it out again."""
    exec(compile(code(), PAGE.name, "exec"), {})


def test_it_is_short() -> None:
    assert len(re.findall(r"^ +\S", code(), re.MULTILINE)) <= 40


def test_one_line_makes_it_known() -> None:
    assert code().rstrip().endswith("register(ToyEngine())")
    assert engine_names()[-1] == "toy"
    with pytest.raises(labelcert.InvalidInput, match=r"milp-paper, toy, got 'magic'"):
        labelcert.certify(*gaussian(6, 3), 1.0, engine="magic")


@pytest.mark.parametrize(("make", "C"), [(gaussian, 0.5), (blobs, 5.0)], ids=["two classes", "more"])
def test_it_certifies(make: object, C: float) -> None:
    arrays = make(9, 20)  # type: ignore[operator]
    toy, full = (labelcert.certify(*arrays, C, max_flips=2, engine=name) for name in ("toy", "enumerate"))
    contains(toy, full)
    assert np.array_equal(toy.radius_upper == 1, full.radius_upper == 1)
    assert np.array_equal(toy.collective_lower[:2], full.collective_lower[:2])
    assert toy.engine == "toy"
    assert "toy" in toy.radius_proved_by


@settings(max_examples=60, deadline=None)
@given(cases())
def test_it_contradicts_nothing(case: Case) -> None:
    assert selfcheck.compare(case, selfcheck.brute_force(case), "toy", may_be_open=True, workers=1) == []
