"""Signatures: made and checked, and refused for every other byte, key and kind of key."""

from __future__ import annotations

import builtins
import subprocess
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import labelcert
from labelcert.cli import cli
from labelcert.errors import InvalidInput, MissingExtra
from labelcert.signing import sign, signature_of, signed


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """A folder with a certificate and two pairs of keys."""
    pytest.importorskip("cryptography")
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    for name in ("mine", "other"):
        key = Ed25519PrivateKey.generate()
        pem, plain = serialization.Encoding.PEM, serialization.NoEncryption()
        private = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, plain)
        (tmp_path / f"{name}.pem").write_bytes(private)
        public = key.public_key().public_bytes(pem, serialization.PublicFormat.SubjectPublicKeyInfo)
        (tmp_path / f"{name}.pub.pem").write_bytes(public)
    cert = labelcert.certify([[2, 0], [0, 2]], ["cat", "dog"], [[1, 0], [1, 2]], C=1.0)
    cert.save(tmp_path / "pets.cert", problem=True)
    return tmp_path


def test_sign_and_check(files: Path) -> None:
    cert = files / "pets.cert"
    assert sign(cert, files / "mine.pem") == signature_of(cert)
    assert signed(cert, files / "mine.pub.pem")
    assert not signed(cert, files / "other.pub.pem")
    content = cert.read_bytes()
    cert.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    assert not signed(cert, files / "mine.pub.pem")
    cert.write_bytes(content)
    signature_of(cert).write_bytes(b"short")
    assert not signed(cert, files / "mine.pub.pem")
    signature_of(cert).unlink()
    with pytest.raises(InvalidInput, match=r"pets\.cert\.sig cannot be read"):
        signed(cert, files / "mine.pub.pem")


def test_other_keys_are_refused(files: Path) -> None:
    cert = files / "pets.cert"
    for key in ("mine.pub.pem", "pets.cert", "none.pem"):
        with pytest.raises(InvalidInput):
            sign(cert, files / key)
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key

    pem, plain = serialization.Encoding.PEM, serialization.NoEncryption()
    key = generate_private_key(SECP256R1()).private_bytes(pem, serialization.PrivateFormat.PKCS8, plain)
    (files / "ec.pem").write_bytes(key)
    with pytest.raises(InvalidInput, match="another kind"):
        sign(cert, files / "ec.pem")


def test_commands(files: Path) -> None:
    cert, run = str(files / "pets.cert"), CliRunner().invoke
    assert run(cli, ["sign", cert, "--key", str(files / "mine.pem")]).exit_code == 0
    found = run(cli, ["verify", cert, "--key", str(files / "mine.pub.pem")])
    assert found.exit_code == 0
    assert found.output.startswith("signed by the holder of")
    assert found.output.endswith("accepted: everything that the certificate claims is proved\n")
    found = run(cli, ["verify", cert, "--key", str(files / "other.pub.pem")])
    assert found.exit_code == 1
    assert found.output.startswith("rejected: ")


def test_openssl_agrees(files: Path) -> None:
    cert = files / "pets.cert"
    sign(cert, files / "mine.pem")
    command = ["openssl", "pkeyutl", "-verify", "-pubin", "-inkey", str(files / "mine.pub.pem"), "-rawin"]
    try:
        done = subprocess.run([*command, "-in", str(cert), "-sigfile", str(signature_of(cert))], capture_output=True)
    except FileNotFoundError:
        pytest.skip("openssl is not installed")
    if b"rawin" in done.stderr:
        pytest.skip("this openssl cannot")
    assert done.returncode == 0, done.stderr


def test_without_the_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    there = builtins.__import__

    def without(name: str, *rest: Any, **more: Any) -> Any:
        if name.startswith("cryptography"):
            raise ImportError(name)
        return there(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(MissingExtra, match=r"pip install 'labelcert\[sign\]'"):
        sign(tmp_path / "a", tmp_path / "b")
