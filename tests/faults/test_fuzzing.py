"""A few hundred tries for every reader, and all that was ever found."""

from __future__ import annotations

import itertools

import pytest

from tests.faults.fuzzing import CORPUS, READERS, attempt, tries

TRIES = 250


@pytest.mark.parametrize("name", READERS)
def test_readers_read_or_refuse(name: str) -> None:
    for data in itertools.islice(tries(name, seed=2026), TRIES):
        attempt(name, data)


@pytest.mark.parametrize("path", sorted(CORPUS.glob("*/*")), ids=lambda path: f"{path.parent.name}/{path.name}")
def test_what_was_found_stays_mended(path: object) -> None:
    attempt(path.parent.name, path.read_bytes())  # type: ignore[attr-defined]
