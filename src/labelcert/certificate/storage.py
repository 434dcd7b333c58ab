"""Certificates in files: a zip archive of ``.npy`` arrays and one JSON text, readable without labelcert."""

from __future__ import annotations

import hashlib
import json
import os
import zipfile
import zlib
from typing import Any

import numpy as np

from labelcert.arrays import Values
from labelcert.certificate.certificate import Certificate, RelabellingList, frozen
from labelcert.certificate.proofs import KINDS, Proofs
from labelcert.certificate.run_record import RunRecord
from labelcert.certificate.surroundings import Surroundings
from labelcert.checking import whole_number
from labelcert.errors import CertificateFileError, InvalidInput
from labelcert.files import write_archive
from labelcert.reading import Archive

SCHEMA = "labelcert-certificate"
SCHEMA_VERSION = 4

ARRAYS = (
    *("predictions", "decision_values", "radius_lower", "radius_upper", "collective_lower", "collective_upper"),
    *("labels", "classes", "curve_attack_of", "curve_changed", "radius_proved_by", "collective_proved_by"),
    *("new_classes", "radius_claimed", "collective_claimed"),
)
OPTIONAL_ARRAYS = ("test_names", "label_names", "class_list")
PROBLEM_ARRAYS = ("K_train", "K_test")
ATTACKS = ("node_attacks", "curve_attacks")
ATTACK_PARTS = ("starts", "labels", "targets")
AROUND = ("names", "edges", "labeled", "tested", "truth")


def write(certificate: Certificate, target: str, *, problem: bool) -> None:
    """Write a certificate; the file appears under its name only when it is complete."""
    metadata = {"schema": SCHEMA, "schema_version": SCHEMA_VERSION, **_claims(certificate)}
    metadata["checksum"] = certificate.checksum
    arrays = _arrays(certificate)
    if problem:
        if certificate.K_train is None:
            raise InvalidInput("the certificate was loaded from a file without its kernels, so it cannot store them")
        arrays.update({name: getattr(certificate, name) for name in PROBLEM_ARRAYS})
    texts = {"metadata.json": json.dumps(metadata, indent=1, allow_nan=False).encode()}
    if certificate.proofs is not None:
        texts["proofs.json"], found = certificate.proofs.pack()
        arrays.update({f"proofs_{kind}": array for kind, array in found.items()})
    write_archive(target, arrays, texts)


def checksum(certificate: Certificate) -> str:
    """SHA-256 over everything in a certificate but its kernels and proofs."""
    h = hashlib.sha256(json.dumps(_claims(certificate), sort_keys=True, allow_nan=False).encode())
    for name, array in sorted(_arrays(certificate).items()):
        h.update(f"{name} {array.shape}".encode())
        text = array.dtype.kind in "US"
        h.update(json.dumps(array.astype(str).tolist()).encode() if text else _little(array).tobytes())
    return h.hexdigest()


def _little(array: Values) -> Values:
    """In a byte order, and a width of whole numbers, that is the same on all machines."""
    return np.ascontiguousarray(array, dtype="<f8" if array.dtype.kind == "f" else "<i8")


def _claims(certificate: Certificate) -> dict[str, Any]:
    return {"max_flips": certificate.max_flips, "never": certificate.never, "run": certificate.run.plain()}


def _arrays(certificate: Certificate) -> dict[str, Values]:
    arrays = {name: getattr(certificate, name) for name in (*ARRAYS, *OPTIONAL_ARRAYS)}
    for name in ATTACKS:
        arrays.update({f"{name}_{part}": getattr(getattr(certificate, name), part) for part in ATTACK_PARTS})
    if certificate.around is not None:
        arrays.update({f"graph_{part}": getattr(certificate.around, part) for part in AROUND})
    return {name: array for name, array in arrays.items() if array is not None}


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
    name = os.fspath(path)
    try:
        with Archive(name) as archive:
            damaged = archive.damaged()
            if damaged is not None:
                raise CertificateFileError(f"{name} is damaged: its part {damaged} does not match its checksum")
            return _Reader(name, archive).certificate()
    except CertificateFileError:
        raise
    except FileNotFoundError:
        raise CertificateFileError(f"there is no file {name}") from None
    except (zipfile.BadZipFile, zlib.error, OSError, EOFError, NotImplementedError, RuntimeError, ValueError) as error:
        raise CertificateFileError(f"{name} is not a labelcert certificate, or is damaged: {error}") from None


def _not_finite(word: str) -> float:
    raise ValueError(f"{word} is no number")


class _Reader:
    """Reads one archive and says what is wrong with it."""

    def __init__(self, name: str, archive: Archive) -> None:
        self._name = name
        self._archive = archive

    def certificate(self) -> Certificate:
        metadata = self._metadata()
        arrays: dict[str, Any] = {name: self._array(name) for name in ARRAYS}
        optional = [name for name in (*OPTIONAL_ARRAYS, *PROBLEM_ARRAYS) if f"{name}.npy" in self._archive]
        arrays.update({name: self._array(name) for name in optional})
        attacks: dict[str, Any] = {
            name: RelabellingList(*(self._array(f"{name}_{part}") for part in ATTACK_PARTS)) for name in ATTACKS
        }
        try:
            found = Certificate(
                max_flips=whole_number("max_flips", metadata["max_flips"]),
                never=whole_number("never", metadata["never"]),
                run=RunRecord.from_plain(metadata["run"]),
                checksum=str(metadata["checksum"]),
                proofs=self._proofs(),
                around=self._around(),
                **arrays,
                **attacks,
            )
            found.check_record()
            return found
        except InvalidInput as error:
            raise self._damaged(str(error)) from None
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError, IndexError) as error:
            raise self._damaged(f"metadata.json lacks or garbles {error}") from None

    def _around(self) -> Surroundings | None:
        if f"graph_{AROUND[0]}.npy" not in self._archive:
            return None
        return Surroundings(*(self._array(f"graph_{part}") for part in AROUND))

    def _proofs(self) -> Proofs | None:
        if "proofs.json" not in self._archive:
            return None
        arrays = {kind: self._array(f"proofs_{kind}") for kind in KINDS}
        return Proofs.unpack(self._archive.read("proofs.json"), arrays)

    def _metadata(self) -> dict[str, Any]:
        if "metadata.json" not in self._archive:
            raise CertificateFileError(
                f"{self._name} is a zip archive, but not a labelcert certificate: no metadata.json"
            )
        try:
            metadata = json.loads(self._archive.read("metadata.json"), parse_constant=_not_finite)
        except (ValueError, RecursionError) as error:
            raise self._damaged(f"metadata.json is not JSON ({error})") from None
        if not isinstance(metadata, dict) or metadata.get("schema") != SCHEMA:
            raise CertificateFileError(f"{self._name} is not a labelcert certificate: its schema is not {SCHEMA!r}")
        if metadata.get("schema_version") != SCHEMA_VERSION:
            raise CertificateFileError(
                f"{self._name} has certificate schema version {metadata.get('schema_version')!r}, this labelcert reads "
                f"version {SCHEMA_VERSION}: use the labelcert that wrote it, or certify again"
            )
        return metadata

    def _array(self, part: str) -> Values:
        if f"{part}.npy" not in self._archive:
            raise CertificateFileError(f"{self._name} is incomplete: {part}.npy is missing")
        try:
            return frozen(self._archive.array(part))
        except ValueError as error:
            raise self._damaged(f"{part}.npy cannot be read ({error})") from None

    def _damaged(self, why: str) -> CertificateFileError:
        return CertificateFileError(f"{self._name} is damaged: {why}")
