"""Certificates from files."""

from __future__ import annotations

import os
from typing import Any

from labelcert.certificate import storage
from labelcert.certificate.certificate import Certificate, RelabellingList
from labelcert.certificate.proofs import Proofs
from labelcert.certificate.run_record import RunRecord
from labelcert.certificate.surroundings import Surroundings
from labelcert.certificate.worst_case import AskedMetrics
from labelcert.checking import whole_number


def load(path: str | os.PathLike[str]) -> Certificate:
    """Read a certificate that :meth:`Certificate.save` wrote.

    Raises
    ------
    CertificateFileError
        The file is not a certificate, is damaged, or was written by another version.

    Examples
    --------
    >>> import tempfile
    >>> import labelcert
    >>> cert = labelcert.certify([[2, 0], [0, 2]], ["cat", "dog"], [[1, 0], [1, 2]], C=1.0)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     cert.save(f"{folder}/pets.cert")
    ...     labelcert.load(f"{folder}/pets.cert")
    Certificate(2 test nodes, 2 labels of 2 classes, budgets 0..2, exact, engine='enumerate')
    """
    return storage.read(os.fspath(path), _certificate)


def _certificate(stored: storage.Stored) -> Certificate:
    metadata, arrays = stored.metadata, stored.arrays
    own = (name for name in (*storage.ARRAYS, *storage.OPTIONAL_ARRAYS, *storage.PROBLEM_ARRAYS) if name in arrays)
    fields: dict[str, Any] = {name: arrays[name] for name in own}
    given = (name for name in storage.OPTIONAL_ATTACKS if f"{name}_{storage.ATTACK_PARTS[0]}" in arrays)
    for name in (*storage.ATTACKS, *given):
        fields[name] = RelabellingList(*(arrays[f"{name}_{part}"] for part in storage.ATTACK_PARTS))
    if f"graph_{storage.AROUND[0]}" in arrays:
        fields["around"] = Surroundings(*(arrays[f"graph_{part}"] for part in storage.AROUND))
    if f"metric_{storage.METRICS[0]}" in arrays:
        fields["metrics"] = AskedMetrics(*(arrays[f"metric_{part}"] for part in storage.METRICS))
    found = Certificate(
        max_flips=whole_number("max_flips", metadata["max_flips"]),
        never=whole_number("never", metadata["never"]),
        run=RunRecord.from_plain(metadata["run"]),
        checksum=str(metadata["checksum"]),
        proofs=None if stored.proofs is None else Proofs.unpack(*stored.proofs),
        **fields,
    )
    found.check_record()
    return found
