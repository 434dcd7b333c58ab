"""Every error that labelcert raises on purpose.

Messages say what was expected, what came, and what to do next. The command line prints them in one line.
"""

from __future__ import annotations


class LabelcertError(Exception):
    """Base of all errors that labelcert raises on purpose."""


class InvalidInput(LabelcertError, ValueError):
    """The input is refused before any work starts."""


class WorkTooLarge(LabelcertError, RuntimeError):
    """The request would take too long; the message says how long and what would fit."""


class CertificateFileError(LabelcertError, ValueError):
    """A file is not a labelcert certificate, or it is damaged."""


class DataUnavailable(LabelcertError, RuntimeError):
    """A dataset cannot be had here: no network, a wrong checksum, a missing file."""


class ClusterLost(DataUnavailable):
    """The connection to a cluster broke; what arrived before is kept."""


class MissingExtra(LabelcertError, ImportError):
    """An optional dependency is missing; the message names the exact install command."""

    def __init__(self, package: str, extra: str, purpose: str) -> None:
        super().__init__(
            f"{purpose} needs the package {package!r}, which is not installed; "
            f"install it with: pip install 'labelcert[{extra}]'"
        )
