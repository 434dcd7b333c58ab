"""Compiling is told apart from work."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import numba
import pytest

import labelcert
from labelcert.compiling import compiling_clock
from labelcert.engines.closed_form import ClosedForm
from labelcert.report.tables import summary


def compiles() -> None:
    numba.njit(lambda x: x + 1)(1)


def test_the_clock_runs_while_something_compiles() -> None:
    with compiling_clock() as outer:
        compiles()
        with compiling_clock() as inner:
            time.sleep(0.01)
            assert inner() == 0.0
        once = outer()
        assert once > 0.0
        compiles()
        assert outer() > once


def test_certificates_say_what_compiling_took(monkeypatch: pytest.MonkeyPatch) -> None:
    real = ClosedForm.run
    cases = ([[1.0, 0.0], [0.0, 1.0]], ["a", "b"])

    def run(self: Any, *arguments: Any) -> Any:
        compiles()
        return real(self, *arguments)

    monkeypatch.setattr(ClosedForm, "run", run)
    cert = labelcert.certify(cases[0], cases[1], [[1.0, 0.5]], C=0.1, engine="closed-form")
    assert cert.run.compiling > 0.0
    assert labelcert.verify(cert, cases[0], cases[1], [[1.0, 0.5]]).complete
    long = replace(cert, run=replace(cert.run, seconds=0.25, compiling=20.4))
    assert "in 0.25 s (and 20 s of compiling)" in summary(long)
    assert "0.2 s (and 20 s of compiling)" in long.summary()
