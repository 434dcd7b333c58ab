"""Studies: many certificates from one small file, the paper's among them.

A study file (`schema`) is expanded into cells (`cells`), one certificate each; the runner (`runner`) computes those
that are missing in the store (`store`); reports (`report`) read tables and pictures off it, beside the published
numbers (`published`, `compare`).
"""

from labelcert.studies.cells import Graphs, Plan, expand
from labelcert.studies.reading import parse_study, read_study
from labelcert.studies.runner import Outcome, run_plan
from labelcert.studies.schema import Study
from labelcert.studies.store import Store

__all__ = ["Graphs", "Outcome", "Plan", "Store", "Study", "expand", "parse_study", "read_study", "run_plan"]
