from __future__ import annotations

import io

import pytest
from rich.console import Console
from rich.table import Table

import labelcert
from labelcert.examples import two_clouds
from labelcert.graphs import karate
from labelcert.models import SGC
from labelcert.report import tables


def text(table: Table) -> str:
    console = Console(file=io.StringIO(), width=200)
    console.print(table)
    return console.file.getvalue()  # type: ignore[attr-defined]


@pytest.fixture(scope="module")
def named() -> labelcert.Certificate:
    return SGC(C=0.1).certify(karate(), [0, 1, 32, 33], [5, 30])


def test_names_come_from_the_certificate(named: labelcert.Certificate) -> None:
    assert named.test_names is not None
    assert named.label_names is not None
    shown = text(tables.node_table(named))
    witness = named.witness(0)
    assert witness
    first = next(iter(witness))
    assert f"{named.label_names[first]} → {witness[first]}" in shown
    assert all(f" {name} " in shown for name in named.test_names)
    assert "Mr. Hi" in text(tables.budget_table(named))


def test_takeovers_are_shown_for_two_classes(named: labelcert.Certificate) -> None:
    shown = text(tables.takeover_table(named))
    assert "Mr. Hi: 1" in shown
    assert "Officer: 1" in shown


def test_without_names_numbers() -> None:
    example = two_clouds(n_labels=8, n_test=6)
    cert = labelcert.certify(example.K_train, example.labels, example.K_test, example.C)
    shown = text(tables.node_table(cert, limit=2))
    assert "the 2 weakest of 6 nodes" in shown
    assert "→ fraud" in shown or "→ fine" in shown


def test_units_are_those_of_the_run() -> None:
    example = two_clouds(n_labels=8, n_test=6)
    costs = labelcert.Threat(costs=[2] * 8)
    cert = labelcert.certify(example.K_train, example.labels, example.K_test, example.C, threat=costs)
    assert cert.run.unit == "cost units"
    assert "of total" in text(tables.budget_table(cert))
    assert "cost units" in (str(tables.takeover_table(cert).title))


def test_short_lines() -> None:
    assert tables.flips_text({3: "fine", 7: "fraud"}) == "3 → fine, 7 → fraud"
    assert tables.class_counts(["spam", "ham", "spam"]) == "ham (1), spam (2)"
    assert tables.listing("Models", ("name", "what it is"), [("gcn", "a network")]).row_count == 1
