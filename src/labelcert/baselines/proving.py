"""What a baseline is asked, what it proves, and how that becomes a certificate."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

import numpy as np

from labelcert.arrays import Int
from labelcert.certificate import Certificate, StageRecord
from labelcert.certification.from_arrays import record
from labelcert.engines.base import Findings, Question, within_reach
from labelcert.engines.checking import Checked
from labelcert.engines.control import Control
from labelcert.engines.freezing import Names, freeze
from labelcert.prediction import Predictor
from labelcert.problem import NOTHING, Problem

MARK = "baseline:"
"""Before the name of a baseline, where that of an engine would stand."""


@dataclass(frozen=True, eq=False)
class Asked:
    """What a baseline has to answer.

    Attributes
    ----------
    problem : Problem
        Its kernel is not settled yet, since an ensemble settles those of its parts.
    names : Names
    seed : int
        Of everything random.
    """

    problem: Problem
    names: Names
    seed: int


@dataclass(frozen=True, eq=False)
class Proved:
    """What a baseline proves.

    Attributes
    ----------
    predictor : Predictor
        The clean predictions of the model that it speaks of, and that model's problem.
    lower : (n,) array
        Lower ends of the radii of all test nodes. Those of nodes without a prediction do not count.
    statistics : dict
        Plain values about the run.
    """

    predictor: Predictor
    lower: Int
    statistics: dict[str, Any]


def lower_ends(
    proved: Proved, name: str, control: Control, seconds: float, names: Names, decides: dict[str, Any]
) -> Certificate:
    """The certificate of lower ends: no attack is known, and the curve follows from the radii.

    Parameters
    ----------
    proved : Proved
    name : str
        Of the baseline.
    control : Control
    seconds : float
    names : Names
    decides : dict
        What decides the answer beside the problem.
    """
    engine, problem = f"{MARK}{name}", proved.predictor.problem
    question = Question.ask(proved.predictor)
    nothing = Findings.nothing(question)
    lower = np.minimum(proved.lower[question.nodes], question.budget + 1)
    found = Findings(
        radius_lower=lower,
        radius_upper=nothing.radius_upper,
        radius_changes=nothing.radius_changes,
        curve_lower=nothing.curve_lower,
        curve_upper=within_reach(lower, question.budget),
        curve_changes=nothing.curve_changes,
        statistics={},
    )
    n = question.nodes.size
    checked = Checked(nothing.refined(found, engine), np.full(n, -1), {NOTHING: np.zeros(n, dtype=bool)})
    stage = StageRecord(engine, problem.max_flips, {"seconds": seconds, **proved.statistics})
    sha256 = hashlib.sha256(f"{problem.digest()} {engine} {sorted(decides.items())}".encode()).hexdigest()
    run = record(problem, control, engine, [stage], seconds, finds_attacks=False, sha256=sha256)
    return freeze(question, checked, run, names)
