"""Walks that stop prove what bounds say about the rest, and no more than is true."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from labelcert import Threat, certify
from labelcert.certificate import Stop
from labelcert.engines.cube import labellings, unvisited
from labelcert.engines.search import branching
from labelcert.examples import two_clouds

THREATS = {
    "any label": Threat(),
    "trusted": Threat(trusted=[i in (1, 4) for i in range(12)]),
    "costs": Threat(costs=[1, 2, 1, 1, 2, 1] * 2),
    "groups": Threat(groups=list("aabbab") * 2, group_budgets={"a": 2}),
}


@pytest.mark.parametrize("leaf", [4, 300_000], ids=["bounds", "leaves"])
@pytest.mark.parametrize("threat", THREATS)
def test_stopped_at_many_moments(threat: str, leaf: int, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("WORTH_SECONDS", 0.0), ("LEAST_SECONDS", 0.0), ("SHARE", 1e9), ("LEFT", 0.9)):
        monkeypatch.setattr(unvisited, name, value)
    monkeypatch.setattr(branching, "LEAF_SETS", leaf)
    monkeypatch.setattr(labellings, "LONG", 0.0)
    monkeypatch.setattr(labellings, "CHUNK_STOPS", 4)
    beyond = 0
    for seed, C in ((0, 0.5), (1, 3.0)):
        data = two_clouds(n_labels=12, n_test=8, seed=seed)
        arrays = data.K_train, data.labels, data.K_test
        asked: dict[str, Any] = {"threat": THREATS[threat], "max_flips": 2, "engine": "enumerate", "workers": 1}
        exact = certify(*arrays, C, **asked)
        for moment in (3, 5, 7, 9, 11):
            with monkeypatch.context() as stopping:
                stop_at(moment, stopping)
                cert = certify(*arrays, C, **asked)
            assert np.all(cert.radius_lower <= np.minimum(exact.radius_lower, exact.radius_upper))
            assert np.all(cert.radius_upper >= exact.radius_upper)
            assert np.all(cert.collective_upper >= exact.collective_upper)
            assert np.all(cert.collective_lower <= exact.collective_lower)
            walked = cert.run.stages[0].statistics["trainings"]
            if walked < exact.run.stages[0].statistics["trainings"]:
                beyond += int((cert.radius_lower > 2).sum())
    assert beyond > 0 or threat == "costs"


def stop_at(moment: int, patched: pytest.MonkeyPatch) -> None:
    """Let time end with a chunk."""
    collect, chunks = labellings.CubeLedger.collect, 0

    def counted(self: Any, found: Any, chunk: Any) -> None:
        nonlocal chunks
        chunks += self.question.prover is not None  # the prover walks, too
        if chunks == moment and self.question.prover is not None:
            self._control.end(Stop.TIME_LIMIT)
        collect(self, found, chunk)

    patched.setattr(labellings.CubeLedger, "collect", counted)
