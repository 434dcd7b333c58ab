"""Studies: many certificates from one small file, the paper's among them.

A study file (`schema`, `study_files`) is expanded into cells, one certificate each (`expansion`). Those that a store
does not have are run as jobs. A `report` turns the store into tables and pictures, beside printed numbers.
"""

from labelcert.jobs.runner import RunOutcome, run_plan
from labelcert.jobs.store import Store
from labelcert.studies.expansion import Graphs, StudyPlan, expand
from labelcert.studies.schema import Study
from labelcert.studies.study_files import parse_study, read_study

__all__ = ["Graphs", "RunOutcome", "Store", "Study", "StudyPlan", "expand", "parse_study", "read_study", "run_plan"]
