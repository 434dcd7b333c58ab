"""Certificates stay what they were: see ``golden/generate.py``."""

from __future__ import annotations

import json
import warnings
from typing import Any

import numpy as np
import pytest
from tests.certificate.golden.generate import ENDS, HERE, problems

from labelcert.engines.registry import AUTO, ENGINES
from labelcert.errors import MilpWarning
from labelcert.problem import Problem

PROBLEMS = problems()


def golden(name: str) -> dict[str, Any]:
    return json.loads((HERE / f"{name}.json").read_text(encoding="utf-8"))


def applicable(*, searching: bool) -> list[tuple[str, str]]:
    """Problems with the engines that can answer them."""
    pairs = []
    for name, (K_train, labels, K_test, C, options) in PROBLEMS.items():
        problem = Problem.build(K_train, labels, K_test, C, **options)
        pairs += [
            (name, engine.name)
            for engine in ENGINES.values()
            if engine.capabilities.searches == searching and engine.refuses(problem) is None
        ]
    return pairs


def test_every_problem_has_its_file() -> None:
    assert {path.stem for path in HERE.glob("*.json")} == set(PROBLEMS)


def test_they_are_worth_keeping() -> None:
    """Small and large radii, survivors, ties and curves that are no straight lines."""
    radii = {name: np.array(golden(name)["radius_lower"]) for name in PROBLEMS}
    assert any(np.any(radius == 0) for radius in radii.values())
    assert sum(np.unique(radius).size >= 2 for radius in radii.values()) >= 10
    assert max(int(radius.max()) for radius in radii.values()) >= 5


@pytest.mark.parametrize(("name", "engine"), [*((name, AUTO) for name in PROBLEMS), *applicable(searching=False)])
def test_unchanged(name: str, engine: str) -> None:
    kept, cert = golden(name), PROBLEMS[name].certify(engine)
    assert cert.predictions.tolist() == kept["predictions"]
    if cert.run.finds_attacks:
        assert {end: getattr(cert, end).tolist() for end in ENDS} == {end: kept[end] for end in ENDS}
    else:
        assert np.all(cert.radius_lower <= kept["radius_lower"])
        assert np.all(cert.collective_upper >= kept["collective_upper"])
        # A node that one flip changes, or that is tied, leaves nothing to lose.
        assert np.all(cert.radius_lower >= np.minimum(kept["radius_lower"], 1))


@pytest.mark.long
@pytest.mark.parametrize(("name", "engine"), applicable(searching=True))
def test_solvers_contradict_nothing(name: str, engine: str) -> None:
    kept = golden(name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MilpWarning)
        cert = PROBLEMS[name].certify(engine, time_limit=5)
    assert cert.predictions.tolist() == kept["predictions"]
    assert np.all(cert.radius_lower <= kept["radius_lower"])
    assert np.all(cert.radius_upper >= kept["radius_upper"])
    assert np.all(cert.collective_lower <= kept["collective_lower"])
    assert np.all(cert.collective_upper >= kept["collective_upper"])
