"""Answers whose fields are arrays and plain values, in files: ``.npy`` arrays and ``metadata.json`` in an archive."""

from __future__ import annotations

import json
import os
import zipfile
import zlib
from dataclasses import fields
from typing import Any, TypeVar

import numpy as np

from labelcert.arrays import Values
from labelcert.errors import CertificateFileError, InvalidInput
from labelcert.files import write_archive
from labelcert.reading import Archive

Answer = TypeVar("Answer")

_DAMAGE = (
    *(zipfile.BadZipFile, zlib.error, OSError, EOFError, KeyError, TypeError, ValueError, AttributeError),
    *(RuntimeError, InvalidInput),
)


def save_fields(answer: Any, path: str | os.PathLike[str], schema: str, version: int) -> None:
    """Write all fields of a dataclass."""
    arrays, plain = dict[str, Values](), dict[str, Any]()
    for each in fields(answer):
        value = getattr(answer, each.name)
        if isinstance(value, np.ndarray):
            arrays[each.name] = value
        else:
            plain[each.name] = value
    metadata = {"schema": schema, "schema_version": version, **plain}
    write_archive(path, arrays, {"metadata.json": json.dumps(metadata, indent=1, allow_nan=False).encode()})


def schema_of(path: str | os.PathLike[str]) -> str:
    """What kind of answer a file holds; nothing where that cannot be read."""
    try:
        with Archive(os.fspath(path)) as archive:
            return str(json.loads(archive.read("metadata.json"))["schema"])
    except (FileNotFoundError, *_DAMAGE):
        return ""


def load_fields(
    kind: type[Answer],
    path: str | os.PathLike[str],
    schema: str,
    version: int,
    maker: str,
    tuples: tuple[str, ...] = (),
) -> Answer:
    """Read what :func:`save_fields` wrote; ``tuples`` are fields that JSON makes lists of."""
    try:
        with Archive(os.fspath(path)) as archive:
            if (part := archive.damaged()) is not None:
                raise CertificateFileError(f"{path} is damaged: its part {part} does not match its checksum")
            plain = json.loads(archive.read("metadata.json"))
            if plain.pop("schema", None) != schema or plain.pop("schema_version", None) != version:
                raise CertificateFileError(f"{path} holds no answer of {maker} of this version")
            plain |= {name: tuple(plain[name]) for name in tuples}
            names = [each.name for each in fields(kind) if each.name not in plain]  # type: ignore[arg-type]
            return kind(**{**plain, **{name: archive.array(name) for name in names}})
    except FileNotFoundError:
        raise CertificateFileError(f"there is no file {path}") from None
    except CertificateFileError:
        raise
    except _DAMAGE as error:
        raise CertificateFileError(f"{path} is not an answer of {maker}, or is damaged: {error}") from None
