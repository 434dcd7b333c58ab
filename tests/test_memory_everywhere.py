"""With little free memory, every engine and loss answers or refuses in words; none runs out of it."""

from __future__ import annotations

from contextlib import suppress

import pytest

from labelcert import certify, memory
from labelcert.engines.registry import ENGINES, engine_names
from labelcert.errors import InvalidInput, WorkTooLarge
from labelcert.losses import loss_names
from tests.helpers.problems import blobs

DATA = blobs(64, 8, classes=4)


def _allow(monkeypatch: pytest.MonkeyPatch, free: int) -> None:
    monkeypatch.setattr(memory, "_CONTROL_GROUPS", ())
    monkeypatch.setattr(memory, "_machine_bytes", lambda: free)


@pytest.mark.parametrize("free", [100_000, 2_000_000])
@pytest.mark.parametrize("loss", loss_names())
def test_every_engine_answers_or_refuses(loss: str, free: int, monkeypatch: pytest.MonkeyPatch) -> None:
    _allow(monkeypatch, free)
    K, labels, rows = DATA
    for engine in engine_names():
        if engine in ENGINES and ENGINES[engine].capabilities.searches:
            continue  # solvers bring memory of their own
        with suppress(WorkTooLarge, InvalidInput):  # anything else, and above all MemoryError, fails
            cert = certify(K, labels, rows, 1.0, loss=loss, max_flips=1, engine=engine, workers=1, time_limit=5)
            assert cert.radius_lower.min() >= 0


def test_large_problems_are_refused_before_anything_is_allocated(monkeypatch: pytest.MonkeyPatch) -> None:
    _allow(monkeypatch, 100_000)
    K, labels, rows = DATA
    with pytest.raises(WorkTooLarge, match="loss='square' retrains nothing"):
        certify(K, labels, rows, 1.0, max_flips=1)
    assert certify(K, labels, rows, 1.0, loss="square", max_flips=1).engine == "closed-form"
