"""Certificates in files: a zip archive of ``.npy`` arrays and one JSON text, readable without labelcert."""

from __future__ import annotations

import json
import os
import zipfile
import zlib
from typing import Any

import numpy as np

from labelcert.arrays import Values
from labelcert.certificate.certificate import Certificate, RelabellingList, frozen
from labelcert.certificate.run_record import RunRecord
from labelcert.errors import CertificateFileError, InvalidInput

SCHEMA = "labelcert-certificate"
SCHEMA_VERSION = 4

ARRAYS = (
    *("predictions", "decision_values", "radius_lower", "radius_upper", "collective_lower", "collective_upper"),
    *("labels", "classes", "curve_attack_of", "curve_changed", "radius_proved_by", "collective_proved_by"),
    *("new_classes", "radius_claimed", "collective_claimed"),
)
OPTIONAL_ARRAYS = ("test_names", "label_names", "class_list")
ATTACKS = ("node_attacks", "curve_attacks")
ATTACK_PARTS = ("starts", "labels", "targets")


def write(certificate: Certificate, target: str) -> None:
    """Write a certificate; the file appears under its name only when it is complete."""
    metadata = {
        "schema": SCHEMA,
        "schema_version": SCHEMA_VERSION,
        "max_flips": certificate.max_flips,
        "never": certificate.never,
        "run": certificate.run.plain(),
    }
    arrays = {name: getattr(certificate, name) for name in (*ARRAYS, *OPTIONAL_ARRAYS)}
    for name in ATTACKS:
        arrays.update({f"{name}_{part}": getattr(getattr(certificate, name), part) for part in ATTACK_PARTS})
    partial = f"{target}.partial"
    with zipfile.ZipFile(partial, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("metadata.json", json.dumps(metadata, indent=1, allow_nan=False))
        for name, array in arrays.items():
            if array is not None:
                with archive.open(f"{name}.npy", "w") as member:
                    np.lib.format.write_array(member, array, allow_pickle=False)
    os.replace(partial, target)


def load(path: str | os.PathLike[str]) -> Certificate:
    """Read a certificate that :meth:`Certificate.save` wrote.

    Raises
    ------
    CertificateFileError
        The file is not a certificate, is damaged, or was written by another version.
    """
    name = os.fspath(path)
    try:
        with zipfile.ZipFile(name) as archive:
            damaged = archive.testzip()
            if damaged is not None:
                raise CertificateFileError(f"{name} is damaged: its part {damaged} does not match its checksum")
            return _Reader(name, archive).certificate()
    except FileNotFoundError:
        raise CertificateFileError(f"there is no file {name}") from None
    except (zipfile.BadZipFile, zlib.error, OSError, EOFError, NotImplementedError, RuntimeError) as error:
        raise CertificateFileError(f"{name} is not a labelcert certificate, or is damaged: {error}") from None


class _Reader:
    """Reads one archive and says what is wrong with it."""

    def __init__(self, name: str, archive: zipfile.ZipFile) -> None:
        self._name = name
        self._archive = archive
        self._members = set(archive.namelist())

    def certificate(self) -> Certificate:
        metadata = self._metadata()
        arrays: dict[str, Any] = {name: self._array(name) for name in ARRAYS}
        arrays.update({name: self._array(name) for name in OPTIONAL_ARRAYS if f"{name}.npy" in self._members})
        attacks: dict[str, Any] = {
            name: RelabellingList(*(self._array(f"{name}_{part}") for part in ATTACK_PARTS)) for name in ATTACKS
        }
        try:
            return Certificate(
                max_flips=int(metadata["max_flips"]),
                never=int(metadata["never"]),
                run=RunRecord.from_plain(metadata["run"]),
                **arrays,
                **attacks,
            )
        except InvalidInput as error:
            raise self._damaged(str(error)) from None
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError, IndexError) as error:
            raise self._damaged(f"metadata.json lacks or garbles {error}") from None

    def _metadata(self) -> dict[str, Any]:
        if "metadata.json" not in self._members:
            raise CertificateFileError(
                f"{self._name} is a zip archive, but not a labelcert certificate: no metadata.json"
            )
        try:
            metadata = json.loads(self._archive.read("metadata.json"))
        except ValueError as error:
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
        if f"{part}.npy" not in self._members:
            raise CertificateFileError(f"{self._name} is incomplete: {part}.npy is missing")
        with self._archive.open(f"{part}.npy") as member:
            try:
                return frozen(np.asarray(np.lib.format.read_array(member, allow_pickle=False)))
            except ValueError as error:
                raise self._damaged(f"{part}.npy cannot be read ({error})") from None

    def _damaged(self, why: str) -> CertificateFileError:
        return CertificateFileError(f"{self._name} is damaged: {why}")
