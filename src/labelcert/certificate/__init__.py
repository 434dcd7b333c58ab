"""The answer: proved intervals with checked witnesses, detached from the problem, and how they are stored."""

from labelcert.certificate.certificate import TRUSTED_SOLVER, Certificate, RelabellingList, Verdict
from labelcert.certificate.comparison import Comparison, compare
from labelcert.certificate.run_record import RunRecord, StageRecord, Stop
from labelcert.certificate.storage import load

__all__ = [
    "TRUSTED_SOLVER",
    "Certificate",
    "Comparison",
    "RelabellingList",
    "RunRecord",
    "StageRecord",
    "Stop",
    "Verdict",
    "compare",
    "load",
]
