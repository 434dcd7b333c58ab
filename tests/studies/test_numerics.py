"""Results that are kept in journals, and the version of the engine that computed them.

Studies reuse results of the same version. So whoever changes numbers has to raise it: this test notices.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from labelcert._version import NUMERICS
from labelcert.studies import Store, expand, parse_study, run_plan

GOLDEN = Path(__file__).parent / "golden" / "numbers.json"
STUDY = """
seeds = [0]
flips = [0, 1, 2, 3]
certificates = ["accuracy", "collective"]

[[datasets]]
name = "karate"

[[datasets]]
name = "csbm"
per_class = 4
parameters = { n = 60 }

[[models]]
name = "gcn"

[[models]]
name = "gcn"
label = "deep"
depth = 3
normalization = "symmetric"
C = 0.3

[[models]]
name = "sgc"
loss = "logistic"
C = 0.5

[[models]]
name = "appnp"
loss = "square"
C = "cross-validate"

[[models]]
name = "gin"
parts = 3
C = 1.0

[[models]]
name = "graphsage"
loss = "squared_hinge"
C = 0.1

[[models]]
name = "mlp"
C = 2.0
verify = 2

[[models]]
name = "gcn-skip-pc"
C = 0.2
"""


def computed(folder: Path) -> dict[str, Any]:
    """What the study finds, by the names of its cells."""
    plan = expand(parse_study(STUDY, name="numbers"))
    with Store(folder, write=True) as store:
        assert run_plan(plan, store, workers=1).failed == 0
        results = {key: store.records[key]["result"] for key in plan.keys}
    kept = ("C", "n_test", "correct", "survive_lower", "survive_upper", "changed_lower", "changed_upper")
    return {key: {name: result[name] for name in kept} for key, result in results.items()}


def test_the_version_rises_when_numbers_change(tmp_path: Path) -> None:
    golden, found = json.loads(GOLDEN.read_text()), computed(tmp_path)
    assert golden["numerics"] == NUMERICS, "record the numbers of this version: python -m tests.studies.test_numerics"
    assert golden["results"] == found, (
        "numbers of studies have changed: raise NUMERICS in labelcert/_version.py, then record them with "
        "python -m tests.studies.test_numerics"
    )


if __name__ == "__main__":
    import tempfile

    with tempfile.TemporaryDirectory() as name:
        GOLDEN.write_text(json.dumps({"numerics": NUMERICS, "results": computed(Path(name))}, indent=1) + "\n")
