from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.helpers.command_line import Call
from tests.helpers.problems import gaussian

import labelcert


@pytest.fixture
def bare(tmp_path: Path) -> tuple[str, str]:
    """A certificate without its kernels, and a file with the problem's arrays."""
    K, y, rows = gaussian(9, 6, seed=43)
    labelcert.certify(K, y, rows, 2.0).save(tmp_path / "bare.cert")
    np.savez(tmp_path / "problem.npz", K_train=K, labels=y, K_test=rows)
    return "bare.cert", "problem.npz"


def test_what_certify_writes_can_be_verified(call: Call) -> None:
    assert call("certify", "karate", "--model", "gcn", "--no-pictures", "--out", "o")[0] == 0
    for file in sorted(Path("o").glob("*.cert")):
        code, shown, _ = call("verify", str(file))
        assert code == 0
        assert shown.endswith("accepted: everything that the certificate claims is proved\n")


def test_the_arrays_can_come_from_another_file(call: Call, bare: tuple[str, str]) -> None:
    code, shown, _ = call("verify", bare[0], "--problem", bare[1])
    assert code == 0
    assert "accepted" in shown
    code, _, error = call("verify", bare[0])
    assert code == 2
    assert "does not hold its kernels" in error


def test_a_wrong_problem_fails(call: Call, bare: tuple[str, str], tmp_path: Path) -> None:
    with np.load(bare[1]) as arrays:
        given = dict(arrays)
    np.savez(tmp_path / "other.npz", **{**given, "K_test": given["K_test"][::-1]})
    code, shown, _ = call("verify", bare[0], "--problem", "other.npz")
    assert code == 1
    assert "problem" in shown
    assert "rejected" in shown
    np.savez(tmp_path / "less.npz", K_train=given["K_train"], labels=given["labels"])
    code, _, error = call("verify", bare[0], "--problem", "less.npz")
    assert code == 2
    assert "K_test is missing" in error


def test_a_share_is_no_proof(call: Call, bare: tuple[str, str]) -> None:
    code, shown, _ = call("verify", bare[0], "--problem", bare[1], "--share", "0.5", "--seed", "1")
    assert code == 0
    assert "not everything is proved" in shown


@pytest.mark.parametrize(
    "study",
    [
        ("cora-ml-b", "--model", "gcn", "--test", "collective", "--max-flips", "2"),
        ("citeseer", "--model", "sgc", "--test", "multi-class", "--max-flips", "1"),
        ("cora-ml-b", "--model", "sgc", "--test", "collective", "--max-flips", "2", "--engine", "milp"),
    ],
    ids=lambda study: f"{study[0]} {study[2]}",
)
def test_certificates_of_the_papers_studies(call: Call, dataset_folder: Path, study: tuple[str, ...]) -> None:
    data = ("--data-dir", str(dataset_folder))
    assert call("certify", *study, "--seed", "0", *data, "--no-pictures", "--out", "o")[0] == 0
    (file,) = Path("o").glob("*.cert")
    code, shown, _ = call("verify", str(file))
    assert code == 0
    assert shown.endswith("accepted: everything that the certificate claims is proved\n")
