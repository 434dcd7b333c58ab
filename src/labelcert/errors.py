"""Every error that labelcert raises on purpose.

Messages say what was expected, what came, and what to do next. The command line prints them in one line.
"""

from __future__ import annotations


class LabelcertError(Exception):
    """Base of all errors that labelcert raises on purpose.

    Examples
    --------
    >>> import labelcert
    >>> try:
    ...     labelcert.certify([[1.0]], ["cat", "dog"], [[1.0]], C=1.0)
    ... except labelcert.LabelcertError as error:
    ...     print(type(error).__name__)
    InvalidInput
    """


class InvalidInput(LabelcertError, ValueError):
    """The input is refused before any work starts.

    Examples
    --------
    >>> import labelcert
    >>> labelcert.certify([[1.0]], ["cat"], [[1.0]], C=-1.0)
    Traceback (most recent call last):
    ...
    labelcert.errors.InvalidInput: ...
    """


class WorkTooLarge(LabelcertError, RuntimeError):
    """The request would take too long; the message says how long and what would fit.

    Examples
    --------
    >>> import labelcert
    >>> from labelcert.examples import two_clouds
    >>> data = two_clouds(n_labels=60)
    >>> try:
    ...     labelcert.certify(data.K_train, data.labels, data.K_test, C=1.0, max_flips=60)
    ... except labelcert.WorkTooLarge as error:
    ...     print("time_limit=" in str(error))
    True
    """


class CertificateFileError(LabelcertError, ValueError):
    """A file is not a labelcert certificate, or it is damaged.

    Examples
    --------
    >>> import labelcert
    >>> labelcert.load("missing.cert")
    Traceback (most recent call last):
    ...
    labelcert.errors.CertificateFileError: there is no file missing.cert
    """


class DataUnavailable(LabelcertError, RuntimeError):
    """A dataset cannot be had here: no network, a wrong checksum, a missing file.

    Examples
    --------
    >>> import labelcert
    >>> raise labelcert.DataUnavailable("cora-ml is not here, and there is no network")
    Traceback (most recent call last):
    ...
    labelcert.errors.DataUnavailable: cora-ml is not here, and there is no network
    """


class ClusterLost(DataUnavailable):
    """The connection to a cluster broke; what arrived before is kept."""


class WorkersUnavailable(LabelcertError, RuntimeError):
    """Worker processes cannot be started on this machine."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"no worker process can be started here ({reason}); with workers=1, none is needed")


class MissingExtra(LabelcertError, ImportError):
    """An optional dependency is missing; the message names the exact install command.

    Examples
    --------
    >>> import labelcert
    >>> raise labelcert.MissingExtra("torch", "torch", "a network of finite width")
    Traceback (most recent call last):
    ...
    labelcert.errors.MissingExtra: a network of finite width needs the package 'torch', which is not installed; ...
    """

    def __init__(self, package: str, extra: str, purpose: str) -> None:
        super().__init__(
            f"{purpose} needs the package {package!r}, which is not installed; "
            f"install it with: pip install 'labelcert[{extra}]'"
        )
