"""labelcert: exact certificates against corrupted training labels.

Data flows one way: graph → kernel → problem → engine → certificate → report.
"""

from labelcert._version import __version__
from labelcert.certificate import Certificate, load
from labelcert.certification import certify
from labelcert.errors import (
    CertificateFileError,
    DataUnavailable,
    InvalidInput,
    LabelcertError,
    MissingExtra,
    WorkTooLarge,
)
from labelcert.threat import Threat

__all__ = [
    "Certificate",
    "CertificateFileError",
    "DataUnavailable",
    "InvalidInput",
    "LabelcertError",
    "MissingExtra",
    "Threat",
    "WorkTooLarge",
    "__version__",
    "certify",
    "load",
]
