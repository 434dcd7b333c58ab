"""The answer: proved intervals with checked witnesses, detached from the problem, and how they are stored."""

from labelcert.certificate.certificate import TRUSTED_SOLVER, Certificate, RelabellingList, Verdict
from labelcert.certificate.comparison import Comparison, compare
from labelcert.certificate.listed_attacks import ListedAttacks
from labelcert.certificate.loading import load
from labelcert.certificate.run_record import RunRecord, StageRecord, Stop
from labelcert.certificate.surroundings import Surroundings

__all__ = [
    "TRUSTED_SOLVER",
    "Certificate",
    "Comparison",
    "ListedAttacks",
    "RelabellingList",
    "RunRecord",
    "StageRecord",
    "Stop",
    "Surroundings",
    "Verdict",
    "compare",
    "load",
]
