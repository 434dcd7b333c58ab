"""Signatures of files: who passes a certificate on can show that it comes from them (Ed25519, RFC 8032).

A checksum that is part of a file says that nothing was damaged. Whoever changes the file can compute it anew. A
signature stands beside the file, ``FILE.sig``, and only the holder of the private key can make it.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from labelcert.errors import InvalidInput, MissingExtra
from labelcert.files import replacing

if TYPE_CHECKING:
    from types import ModuleType

SUFFIX = ".sig"
"""A file and the signature of all its bytes stand side by side: ``FILE`` and ``FILE.sig``."""

SIZE = 64
"""Bytes of a signature."""

LARGEST_KEY = 65_536
"""Bytes of a key file; Ed25519 keys take some hundred."""


def sign(path: str | os.PathLike[str], private_key: str | os.PathLike[str]) -> Path:
    """Sign a file; returns the path of the signature, which stands beside it.

    Needs ``pip install 'labelcert[sign]'``. ``openssl genpkey -algorithm ed25519 -out key.pem`` makes a key, and
    ``openssl pkey -in key.pem -pubout -out public.pem`` what others need to check signatures.

    Parameters
    ----------
    path : path
        A certificate, or any other file.
    private_key : path
        An Ed25519 private key in PEM format, without a password.
    """
    key = _key(private_key, "private")
    target = signature_of(path)
    with replacing(target) as partial:
        partial.write_bytes(key.sign(_bytes(path)))
    return target


def signed(path: str | os.PathLike[str], public_key: str | os.PathLike[str]) -> bool:
    """Whether the signature beside a file is that of this key for exactly these bytes.

    Parameters
    ----------
    path : path
    public_key : path
        An Ed25519 public key in PEM format.
    """
    key = _key(public_key, "public")
    signature = _bytes(signature_of(path), SIZE + 1)
    if len(signature) != SIZE:
        return False
    try:
        key.verify(signature, _bytes(path))
    except _cryptography().exceptions.InvalidSignature:
        return False
    return True


def signature_of(path: str | os.PathLike[str]) -> Path:
    """Where the signature of a file is.

    Examples
    --------
    >>> signature_of("pets.cert").name
    'pets.cert.sig'
    """
    return Path(os.fspath(path) + SUFFIX)


def _cryptography() -> ModuleType:
    try:
        import cryptography.exceptions
        import cryptography.hazmat.primitives.asymmetric.ed25519
        import cryptography.hazmat.primitives.serialization
    except ImportError:
        raise MissingExtra("cryptography", "sign", "signing certificates") from None
    return cryptography


def _key(path: str | os.PathLike[str], kind: str) -> Any:
    """A private or public key from a file."""
    primitives = _cryptography().hazmat.primitives
    kinds = primitives.asymmetric.ed25519
    content = _bytes(path, LARGEST_KEY)
    try:
        if kind == "private":
            key = primitives.serialization.load_pem_private_key(content, password=None)
        else:
            key = primitives.serialization.load_pem_public_key(content)
    except Exception as error:  # cryptography raises many kinds, also for passwords and unknown algorithms
        raise InvalidInput(f"{os.fspath(path)} must be an Ed25519 {kind} key in PEM format ({error})") from None
    if not isinstance(key, kinds.Ed25519PrivateKey if kind == "private" else kinds.Ed25519PublicKey):
        raise InvalidInput(f"{os.fspath(path)} must be an Ed25519 {kind} key, got one of another kind")
    return key


def _bytes(path: str | os.PathLike[str], most: int = -1) -> bytes:
    """The first bytes of a file, or all."""
    try:
        with open(path, "rb") as file:
            return file.read(most)
    except OSError as error:
        raise InvalidInput(f"{os.fspath(path)} cannot be read: {error.strerror}") from None
