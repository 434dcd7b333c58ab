"""What a verification found: one line for each thing that was checked."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum


class CheckStatus(StrEnum):
    """How one check ended."""

    PROVED = "proved"
    SAMPLED = "sampled"
    STATED = "stated"
    NOT_CHECKED = "not checked"
    WRONG = "WRONG"


@dataclass(frozen=True)
class Check:
    """One line of a verification: what was checked, how it ended, and how it was done or what is wrong."""

    what: str
    status: CheckStatus
    how: str


@dataclass
class Verification:
    """What a verification found.

    Attributes
    ----------
    checks : list of Check
    stated : list of str
        What the certificate says beside its claims, such as names and times: nobody checked it.
    counted : str
        How many claims are checked, in words.
    interrupted : bool
        Whether Ctrl-C ended it.

    Examples
    --------
    >>> import labelcert
    >>> cert = labelcert.certify([[2, 0], [0, 2]], ["cat", "dog"], [[1, 0], [1, 2]], C=1.0)
    >>> found = labelcert.verify(cert)
    >>> found.accepted, found.complete, found.checks[0].what
    (True, True, 'contents')
    """

    checks: list[Check] = field(default_factory=list)
    stated: list[str] = field(default_factory=list)
    counted: str = ""
    interrupted: bool = False

    @property
    def wrong(self) -> list[Check]:
        """Checks that failed."""
        return [check for check in self.checks if check.status is CheckStatus.WRONG]

    @property
    def accepted(self) -> bool:
        """Whether nothing is wrong."""
        return not self.wrong

    @property
    def complete(self) -> bool:
        """Whether everything that the certificate claims is proved: predictions, scores, radii, curve and attacks."""
        return not self._open

    @property
    def _open(self) -> list[Check]:
        return [check for check in self.checks if check.status not in (CheckStatus.PROVED, CheckStatus.STATED)]

    def __str__(self) -> str:
        width = max((len(check.what) for check in self.checks), default=0)
        lines = [f"{check.what:<{width}}  {check.status.value:<11}  {check.how}" for check in self.checks]
        return "\n".join([*lines, self.summary])

    @property
    def summary(self) -> str:
        """The verdict in one sentence, which says what is proved and what is not."""
        if not self.accepted:
            return f"rejected: {self.wrong[0].what}: {self.wrong[0].how}"
        if self.complete:
            return "accepted: everything that the certificate claims is proved"
        open_ = dict.fromkeys(check.what for check in self._open)
        counted = f" ({self.counted})" if self.counted else ""
        return f"nothing is wrong, but not everything is proved: {', '.join(open_)}{counted}"

    def add(self, what: str, status: CheckStatus, how: str) -> None:
        """Add a line for one check."""
        self.checks.append(Check(what, status, how))

    def require(self, what: str, holds: bool, how: str, wrong: str) -> None:
        """A line that is proved, or wrong."""
        self.add(what, CheckStatus.PROVED if holds else CheckStatus.WRONG, how if holds else wrong)
