"""An independent checker: it shares no arithmetic with the engines, and needs no solver.

Read it in this order: ``statement`` (what is certified), ``arithmetic`` (whole numbers instead of floats), ``machines``
(training from scratch, with an error bound), ``linear_radii``, ``relabellings`` and ``trees`` (three ways to prove that
nothing changes), ``verify`` (what is checked).
"""

from labelcert.verification.verdict import Check, CheckStatus, Verification
from labelcert.verification.verify import verify

__all__ = ["Check", "CheckStatus", "Verification", "verify"]
