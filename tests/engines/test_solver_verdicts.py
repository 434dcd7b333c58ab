"""Problems on which a mixed-integer solver's verdict was once believed and was wrong."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from labelcert import Certificate, Threat, certify
from labelcert.errors import MilpWarning, WorkTooLarge

FILE = Path(__file__).parent / "data" / "solver_verdicts.jsonl"
"""One problem a line; numbers in hexadecimal, keys of a threat as text, the truth as radii and curve."""

PROBLEMS = [json.loads(line) for line in FILE.read_text(encoding="utf-8").splitlines()]


def numbers(rows: Any) -> np.ndarray:
    return np.array([[float.fromhex(v) for v in row] for row in rows])


def threat_of(record: dict[str, Any]) -> Threat:
    """Keys of dictionaries are labels, or groups: text in the file."""
    options = dict(record["threat"])
    names = {str(v): v for v in (*record["labels"], *options.get("groups", ()))}
    for option in ("allowed_flips", "group_budgets"):
        if isinstance(options.get(option), dict):
            options[option] = {names.get(key, key): value for key, value in options[option].items()}
    return Threat(**options)


def certify_record(record: dict[str, Any], engine: str, **options: Any) -> Certificate:
    return certify(
        numbers(record["K"]),
        record["labels"],
        numbers(record["K_test"]),
        float.fromhex(record["C"]),
        loss=record["loss"],
        max_flips=record["max_flips"],
        threat=threat_of(record),
        engine=engine,
        **options,
    )


def check(cert: Certificate, record: dict[str, Any], *, exact: bool) -> None:
    budget = cert.max_flips
    radius, curve = np.array(record["radius"]), np.array(record["curve"])[: budget + 1]
    assert np.all(cert.radius_lower <= radius)
    assert np.all((radius <= cert.radius_upper) | (radius > budget))
    assert np.all(cert.collective_lower <= curve)
    assert np.all(curve <= cert.collective_upper)
    if exact:
        assert cert.exact
        assert np.array_equal(np.minimum(cert.radius_lower, budget + 1), np.minimum(radius, budget + 1))
        assert np.array_equal(cert.collective_lower, curve)
        assert np.array_equal(cert.collective_upper, curve)


@pytest.mark.parametrize("engine", ["auto", "enumerate", "milp"])
@pytest.mark.parametrize("record", PROBLEMS, ids=range(len(PROBLEMS)))
def test_exact_and_right_now(record: dict[str, Any], engine: str) -> None:
    try:
        cert = certify_record(record, engine, workers=1)
    except WorkTooLarge as error:
        pytest.skip(str(error))
    check(cert, record, exact=True)


@pytest.mark.parametrize("k", [k for k, record in enumerate(PROBLEMS) if "milp-paper" in record["engines"]])
def test_the_papers_program_proves_nothing_wrong(k: int) -> None:
    """Its solver still claims what it claimed."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MilpWarning)
        cert = certify_record(PROBLEMS[k], "milp-paper", workers=1)
    check(cert, PROBLEMS[k], exact=False)
