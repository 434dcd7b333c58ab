"""Tables that do not fit into memory are made for a block of test nodes at a time."""

from __future__ import annotations

import numpy as np
import pytest
from tests.helpers.problems import blobs

from labelcert import Threat, certify
from labelcert.engines.tables import sizes
from labelcert.errors import WorkTooLarge


@pytest.mark.parametrize("threat", [Threat(), Threat(costs=[1, 2, 1, 1, 2, 1, 1, 3, 1])])
@pytest.mark.parametrize("C", [0.5, 3.0])
def test_blocks_agree_with_all_nodes_at_once(threat: Threat, C: float, monkeypatch: pytest.MonkeyPatch) -> None:
    K, labels, rows = blobs(9, 12, classes=3)
    whole = certify(K, labels, rows, C, threat=threat, max_flips=3, engine="enumerate", workers=1)
    assert sizes.memory_nodes(np.array(100.0)) > 1e3
    monkeypatch.setattr("labelcert.engines.tables.table_method.memory_nodes", lambda slots: np.full_like(slots, 5.0))
    parts = certify(K, labels, rows, C, threat=threat, max_flips=3, engine="enumerate", workers=1)
    trainings = [cert.run.stages[0].statistics["trainings"] for cert in (whole, parts)]
    assert trainings[1] > 2 * trainings[0]
    assert np.array_equal(parts.radius_lower, whole.radius_lower)
    assert np.array_equal(parts.radius_upper, whole.radius_upper)
    assert np.all(parts.collective_lower <= whole.collective_lower)
    assert np.all(parts.collective_upper >= whole.collective_upper)
    assert parts.collective_upper[1] - parts.collective_lower[1] <= 4


def test_large_work_names_the_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    K, labels, rows = blobs(40, 12, classes=3)
    monkeypatch.setattr("labelcert.engines.tables.table_method.memory_nodes", lambda slots: np.full_like(slots, 5.0))
    with pytest.raises(WorkTooLarge, match="3 blocks of test nodes"):
        certify(K, labels, rows, 1.0, max_flips=30, engine="enumerate", workers=1)
