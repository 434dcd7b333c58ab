"""The checks of certificates whose budgets count annotators: what a set of them does, and not what none can do."""

from __future__ import annotations

import numpy as np

from labelcert.verification.checker import Checker
from labelcert.verification.verdict import CheckStatus
from labelcert.verification.vote_checker import VoteChecker


class CrowdChecker(Checker):
    """One verification of a certificate whose budgets count annotators: clean predictions, and every witness."""

    trains_as_one = False

    def bounds(self) -> None:
        """Lower ends of radii rest on sets of annotators, which nobody goes through again."""
        cert = self._cert
        if np.any(cert.radius_lower > cert.max_flips + 1):
            self._wrong("radii", "a radius is claimed beyond the largest budget")
            return
        for what in ("radii", "curve"):
            why = "what no set of annotators can do; votes, prices and witnesses are checked"
            self._out.add(what, CheckStatus.NOT_CHECKED, why)


class CrowdVoteChecker(CrowdChecker, VoteChecker):
    """The same of an ensemble that counts votes of parts."""
