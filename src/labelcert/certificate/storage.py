"""The format of certificates in files: a zip archive of ``.npy`` arrays and one JSON text, readable without labelcert.

Here they are words, numbers and arrays; :mod:`labelcert.certificate.loading` makes certificates of them.
"""

from __future__ import annotations

import hashlib
import json
import zipfile
import zlib
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import numpy as np

from labelcert.arrays import Values, frozen
from labelcert.certificate.proofs import KINDS
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
OPTIONAL_ARRAYS = ("test_names", "label_names", "class_list", "part_votes")
PROBLEM_ARRAYS = ("K_train", "K_test")
ATTACKS = ("node_attacks", "curve_attacks")
OPTIONAL_ATTACKS = ("node_votes", "curve_votes", "metric_attacks")
ATTACK_PARTS = ("starts", "labels", "targets")
AROUND = ("names", "edges", "labeled", "tested", "truth")
METRICS = ("names", "positive", "truth", "groups", "lower", "upper", "attack_of")


Packed = tuple[bytes, dict[str, Values]]
"""Proofs as :meth:`.Proofs.pack` returns them: a JSON text, and an array of each kind."""

Made = TypeVar("Made")


class Stored(NamedTuple):
    """What a file holds: metadata, of which only schema and version are checked, and read-only arrays by name."""

    metadata: dict[str, Any]
    arrays: dict[str, Values]
    proofs: Packed | None


def write(target: str, claims: dict[str, Any], arrays: dict[str, Values], proofs: Packed | None) -> None:
    """Write a certificate; the file appears under its name only when it is complete.

    Claims are plain JSON values, among them the checksum. Of the arrays, :data:`OPTIONAL_ARRAYS`,
    :data:`PROBLEM_ARRAYS` and the graph may be missing.
    """
    metadata = {"schema": SCHEMA, "schema_version": SCHEMA_VERSION, **claims}
    texts = {"metadata.json": json.dumps(metadata, indent=1, allow_nan=False).encode()}
    if proofs is not None:
        texts["proofs.json"], found = proofs
        arrays = {**arrays, **{f"proofs_{kind}": array for kind, array in found.items()}}
    write_archive(target, arrays, texts)


def checksum(claims: dict[str, Any], arrays: dict[str, Values]) -> str:
    """SHA-256 over what a certificate claims and its arrays."""
    h = hashlib.sha256(json.dumps(claims, sort_keys=True, allow_nan=False).encode())
    for name, array in sorted(arrays.items()):
        h.update(f"{name} {array.shape}".encode())
        text = array.dtype.kind in "US"
        h.update(json.dumps(array.astype(str).tolist()).encode() if text else _little(array).tobytes())
    return h.hexdigest()


def _little(array: Values) -> Values:
    """In a byte order, and a width of whole numbers, that is the same on all machines."""
    return np.ascontiguousarray(array, dtype="<f8" if array.dtype.kind == "f" else "<i8")


def read(name: str, make: Callable[[Stored], Made]) -> Made:
    """Read a file that :func:`write` wrote, and make something of it.

    What `make` raises about contents that make no sense is reported as damage to the file, as is everything else, in a
    `CertificateFileError`.
    """
    try:
        with Archive(name) as archive:
            part = archive.damaged()
            if part is not None:
                raise CertificateFileError(f"is damaged: its part {part} does not match its checksum")
            return _made(Stored(_metadata(archive), _arrays(archive), _proofs(archive)), make)
    except CertificateFileError as error:
        raise CertificateFileError(f"{name} {error}") from None
    except FileNotFoundError:
        raise CertificateFileError(f"there is no file {name}") from None
    except (zipfile.BadZipFile, zlib.error, OSError, EOFError, NotImplementedError, RuntimeError, ValueError) as error:
        raise CertificateFileError(f"{name} is not a labelcert certificate, or is damaged: {error}") from None


def _made(stored: Stored, make: Callable[[Stored], Made]) -> Made:
    try:
        return make(stored)
    except InvalidInput as error:
        raise CertificateFileError(f"is damaged: {error}") from None
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError, IndexError) as error:
        raise CertificateFileError(f"is damaged: metadata.json lacks or garbles {error}") from None


def _metadata(archive: Archive) -> dict[str, Any]:
    if "metadata.json" not in archive:
        raise CertificateFileError("is a zip archive, but not a labelcert certificate: no metadata.json")
    try:
        metadata = json.loads(archive.read("metadata.json"), parse_constant=_not_finite)
    except (ValueError, RecursionError) as error:
        raise CertificateFileError(f"is damaged: metadata.json is not JSON ({error})") from None
    if not isinstance(metadata, dict) or metadata.get("schema") != SCHEMA:
        raise CertificateFileError(f"is not a labelcert certificate: its schema is not {SCHEMA!r}")
    if metadata.get("schema_version") != SCHEMA_VERSION:
        raise CertificateFileError(
            f"has certificate schema version {metadata.get('schema_version')!r}, this labelcert reads version "
            f"{SCHEMA_VERSION}: use the labelcert that wrote it, or certify again"
        )
    return metadata


def _not_finite(word: str) -> float:
    raise ValueError(f"{word} is no number")


def _arrays(archive: Archive) -> dict[str, Values]:
    names = [*ARRAYS, *(name for name in (*OPTIONAL_ARRAYS, *PROBLEM_ARRAYS) if f"{name}.npy" in archive)]
    lists = [*ATTACKS, *(name for name in OPTIONAL_ATTACKS if f"{name}_{ATTACK_PARTS[0]}.npy" in archive)]
    names += [f"{name}_{part}" for name in lists for part in ATTACK_PARTS]
    if f"graph_{AROUND[0]}.npy" in archive:
        names += [f"graph_{part}" for part in AROUND]
    if f"metric_{METRICS[0]}.npy" in archive:
        names += [f"metric_{part}" for part in METRICS]
    return {name: _array(archive, name) for name in names}


def _proofs(archive: Archive) -> Packed | None:
    if "proofs.json" not in archive:
        return None
    return archive.read("proofs.json"), {kind: _array(archive, f"proofs_{kind}") for kind in KINDS}


def _array(archive: Archive, part: str) -> Values:
    if f"{part}.npy" not in archive:
        raise CertificateFileError(f"is incomplete: {part}.npy is missing")
    try:
        return frozen(archive.array(part))
    except ValueError as error:
        raise CertificateFileError(f"is damaged: {part}.npy cannot be read ({error})") from None
