"""The answer: proved intervals with checked witnesses, detached from the problem, and how they are stored."""

from labelcert.certificate.certificate import TRUSTED_SOLVER, Certificate, ListedAttacks, RelabellingList, Verdict
from labelcert.certificate.comparison import Comparison, compare
from labelcert.certificate.loading import load
from labelcert.certificate.metric import Metric
from labelcert.certificate.run_record import RunRecord, StageRecord, Stop
from labelcert.certificate.surroundings import Surroundings
from labelcert.certificate.worst_case import WorstCase

__all__ = ["TRUSTED_SOLVER", "Certificate", "Comparison", "Metric", "Verdict", "WorstCase", "compare", "load"]
__all__ += ["ListedAttacks", "RelabellingList", "RunRecord", "StageRecord", "Stop", "Surroundings"]
