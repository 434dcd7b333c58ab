from __future__ import annotations

import pytest

from labelcert.studies import StudyPlan, expand, parse_study

SMALL = """
title = "A small study"
seeds = [0, 1]
budgets = [0.1, 0.3]
certificates = ["collective", "accuracy"]

[[datasets]]
name = "csbm"
parameters = { n = 60 }

[[models]]
name = "gcn"
label = "GCN"

[[models]]
name = "appnp"
label = "APPNP"
C = 0.5

[[models]]
name = "linear"
C = "cross-validate"
"""


@pytest.fixture
def small_text() -> str:
    return SMALL


@pytest.fixture
def small_plan() -> StudyPlan:
    return expand(parse_study(SMALL, name="small"))
