"""Reports: certificates, and what is worth knowing beside them, as one HTML page."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from labelcert.certificate import Certificate
from labelcert.certificate.certificate import PAGE_WRITERS
from labelcert.checking import whole_number
from labelcert.errors import InvalidInput
from labelcert.files import write_text
from labelcert.rechecking.listing import listed_attacks
from labelcert.report.page import Shown, certificates_page, render, warning
from labelcert.verification.verify import verify as verified


def write_report(
    certificates: Mapping[str, Certificate],
    path: str | os.PathLike[str],
    *,
    title: str | None = None,
    budget: int | None = None,
    verify: bool = False,
    files: Mapping[str, str | os.PathLike[str]] | None = None,
    opens: str | None = None,
) -> bool:
    """Write certificates as one HTML page to click through; several models stand side by side.

    The page holds everything that it needs. It loads nothing and sends nothing.

    Parameters
    ----------
    certificates : mapping from names to certificates
    path : path
        Where to write the page.
    title : str, optional
    budget : int, optional
        Where the slider stands first; by default at the smallest budget that changes a prediction.
    verify : bool
        Check each certificate with :func:`labelcert.verify`, and say on the page what that found.
    files : mapping from names to paths, optional
        Where certificates are stored, for the command that verifies them.
    opens : str, optional
        The name of the certificate that is shown first; by default, the first one. What it knows to be right, and the
        first one does not, is shown as a plan.

    Returns
    -------
    bool
        False if a certificate is wrong, as far as that was checked: its checksum, and what ``verify`` found. The page
        says so.

    Examples
    --------
    >>> import pathlib, tempfile, labelcert
    >>> from labelcert.examples import two_clouds
    >>> data = two_clouds()
    >>> certs = {f"C = {C}": labelcert.certify(data.K_train, data.labels, data.K_test, C=C) for C in (0.1, 1.0)}
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = labelcert.write_report(certs, f"{folder}/report.html")
    ...     (pathlib.Path(folder) / "report.html").stat().st_size < 3e6
    True
    """
    if Path(path).suffix.lower() not in (".html", ".htm", ""):
        raise InvalidInput(
            f"a report is a page, so its name must end in .html, got {path}; for a PDF, open the page and print it"
        )
    if not isinstance(certificates, Mapping):
        raise InvalidInput(
            f"certificates must map names to certificates, as in {{'GCN': cert}}, got {type(certificates).__name__}"
        )
    for name, cert in certificates.items():
        if not isinstance(cert, Certificate):
            raise InvalidInput(f"{name!r} must be a certificate, got {type(cert).__name__}")
    if budget is not None:
        whole_number("budget", budget)
    if opens is not None and opens not in certificates:
        raise InvalidInput(f"opens must name a certificate of the report, got {opens!r}")
    target = Path(path)
    if target.is_dir():
        raise InvalidInput(f"the report must be a file such as report.html, but {target} is a folder")
    shown = [
        Shown(
            name=str(name),
            certificate=cert,
            # What a list proves beyond a certificate would contradict the rest of the page.
            attacks=listed_attacks(cert) if cert.exact else None,
            **(_verification(cert) if verify else {}),
            file="" if files is None or name not in files else os.fspath(files[name]),
        )
        for name, cert in certificates.items()
    ]
    first = 0 if opens is None else list(certificates).index(opens)
    data = certificates_page(shown, budget=budget, opens=first)
    summary = "\n\n".join(f"{one.name}\n{one.certificate.summary()}" for one in shown)
    write_text(target, render(data, title=title or _title(shown), summary=summary))
    return not any(map(warning, shown))


def _title(shown: list[Shown]) -> str:
    names = [one.name for one in shown]
    return "Which predictions survive wrong labels?" if names == ["model"] else ", ".join(names[:4])


def _verification(cert: Certificate) -> dict[str, Any]:
    try:
        found = verified(cert)
    except InvalidInput as error:
        return {"verification": f"labelcert verify cannot check this certificate: {error}"}
    stated = f" Only stated, and not checked: {', '.join(found.stated)}." if found.stated else ""
    return {"verification": f"labelcert verify: {found.summary}.{stated}", "rejected": not found.accepted}


PAGE_WRITERS.append(write_report)
