"""No field of a certificate can say something else in silence."""

from __future__ import annotations

import pytest
from tests.verification.mutations import ACCEPTED, GIVEN, KINDS, honest, table

from labelcert import verify

OPEN = (
    *("kernel errors", "models", "certified parts", "run-off", "stopped", "over at once", "annotators"),
    "table of votes",
)
"""Kinds of which not everything can be proved, and the verdict says so."""


@pytest.mark.parametrize("kind", KINDS)
def test_honest_ones_are_accepted(kind: str) -> None:
    found = verify(honest(kind), **GIVEN.get(kind, {}))
    assert found.accepted, found
    assert found.complete or kind in OPEN


@pytest.mark.parametrize("kind", KINDS)
def test_no_lie_is_accepted_in_silence(kind: str) -> None:
    found = table(kind)
    silent = [path for path, seen in found.items() if ACCEPTED in seen]
    assert not silent, f"{kind}: {silent}"
    assert sum(map(len, found.values())) > 50
