"""Nothing of the paper without a row: figures, tables, theorems and appendices are listed, and rows lead somewhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from labelcert.paper.commands import CLAIMED, CROSS_VALIDATED
from labelcert.paper.paper_studies import ORDER

DOCS = Path(__file__).parents[2] / "docs"
HEADING = "## Nothing of the paper without a row"
COUNTS = {"Figure": 16, "Table": 13, "Theorem": 4}
"""How many the paper has, appendix included."""

ELSEWHERE = (*(f"App. {letter}" for letter in "ABCDEFGH"), "Section 2", "Section 4", "Section 5")


def rows() -> list[tuple[str, str]]:
    lines = (DOCS / "claims.md").read_text(encoding="utf-8").partition(HEADING)[2].splitlines()
    cells = [line.strip("| ").split(" | ") for line in lines if line.startswith("|")][2:]
    return [(what, " | ".join(where)) for what, *where in cells]


def numbers(text: str) -> list[int]:
    """The numbers that "Tables 6 to 12" or "Figures 8, 9" stand for."""
    found: list[int] = []
    for low, high in re.findall(r"(\d+)(?: to (\d+))?", text):
        found += range(int(low), int(high or low) + 1)
    return found


@pytest.mark.parametrize("kind", COUNTS)
def test_every_number_has_a_row(kind: str) -> None:
    listed = [n for what, _ in rows() if what.startswith(kind) for n in numbers(what.partition(":")[0])]
    assert sorted(listed) == list(range(1, COUNTS[kind] + 1))


def test_every_part_of_the_text_has_a_row() -> None:
    whole = "\n".join(what for what, _ in rows())
    letters = set(re.findall(r"\b[A-H]\b", "\n".join(w for w in whole.splitlines() if w.startswith("App."))))
    for part in ELSEWHERE:
        assert part in whole or part[-1] in letters, part


def test_rows_lead_to_commands_and_pages() -> None:
    known = {*ORDER, CLAIMED, CROSS_VALIDATED}
    for what, where in rows():
        links = re.findall(r"\]\(([\w.-]+)(?:#([\w-]+))?\)", where)
        words = [w for code in re.findall(r"`([^`]+)`", where) for w in code.split()]
        commands = [w for w in words if w in known]
        assert links or commands, f"{what}: no command, no page"
        assert all(w in known or w in ("reproduce", "labelcert", "datasets") or "." in w for w in words), (what, words)
        for page, anchor in links:
            text = (DOCS / page).read_text(encoding="utf-8")
            headings = {re.sub(r"[^\w\s-]", "", h.lower()).strip() for h in re.findall(r"^#+ (.*)$", text, re.M)}
            assert not anchor or anchor in {re.sub(r"\s+", "-", h) for h in headings}, f"{what}: {page}#{anchor}"
