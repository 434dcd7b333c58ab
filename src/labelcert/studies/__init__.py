"""Studies: many certificates from one small file, the paper's among them.

A study file (`schema`, `reading`) is expanded into `cells`, one certificate each. The `runner` computes those that
are missing in the `store`. A `report` turns the store into tables and pictures, beside the `published` numbers.
"""

from labelcert.studies.cells import Graphs, Plan, expand
from labelcert.studies.reading import parse_study, read_study
from labelcert.studies.runner import Outcome, run_plan
from labelcert.studies.schema import Study
from labelcert.studies.store import Store

__all__ = ["Graphs", "Outcome", "Plan", "Store", "Study", "expand", "parse_study", "read_study", "run_plan"]
