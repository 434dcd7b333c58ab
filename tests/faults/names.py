"""Names that a user chose: brackets, control characters, formulas."""

from __future__ import annotations

import csv
import json
import re
import xml.dom.minidom
from pathlib import Path

from tests.faults.registry import fault, program

NAMES = ["server[prod]", "server[test]", "h[/]", "\x1b[31mred", "a$b$", "c$x", "=1+1", "_u", ":smile:", "l\u202eift"]
CLASSES = ("good[/]", "b\x1b]0;title\x07")
UNSEEN = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]")


def tables(folder: Path, names: list[str] = NAMES) -> tuple[str, ...]:
    """A graph with these nodes, as options of the command line."""
    with (folder / "edges.csv").open("w", newline="") as stream:
        csv.writer(stream).writerows([("source", "target"), *zip(names, [*names[1:], names[0]], strict=True)])
    with (folder / "labels.csv").open("w", newline="") as stream:
        rows = [(name, CLASSES[k % 2]) for k, name in enumerate(names[:6])]
        csv.writer(stream).writerows([("node", "label"), *rows])
    return ("--edges", "edges.csv", "--labels", "labels.csv", "--max-flips", "2")


@fault("`server[prod]` and `server[test]` both shown as `server`; `h[/]` ended in a traceback, with nothing saved")
def markup_in_names(folder: Path) -> str:
    """Nodes named server[prod], h[/], c$x."""
    names = [*reversed(NAMES)]
    ran = program("certify", *tables(folder, names), "--out", "o", cwd=folder)
    assert ran.code == 0, ran.err
    for name in ("server[test]", "server[prod]", "h[/]", "good[/]"):
        assert name in ran.out
    with (folder / "o" / "gcn-all-nodes.csv").open(newline="") as stream:
        assert {row["node"] for row in csv.DictReader(stream)} == {
            "server[test]",
            "server[prod]",
            "h[/]",
            "\\x1b[31mred",
        }
    return "shown, drawn and saved as they are"


@fault("raw in the terminal, in messages and in CSV; invalid XML in pictures")
def control_characters_in_names(folder: Path) -> str:
    """Nodes and classes with control characters."""
    ran = program("certify", *tables(folder), "--out", "o", cwd=folder)
    assert ran.code == 0, ran.err
    assert not UNSEEN.search(ran.out + ran.err)
    assert r"b\x1b]0;title\x07" in ran.out
    for path in (folder / "o").glob("*.csv"):
        assert not UNSEEN.search(path.read_text(encoding="utf-8")), path
    for path in (folder / "o").glob("*.svg"):
        xml.dom.minidom.parse(str(path))
    printed = program("certify", *tables(folder), "--json", cwd=folder)
    assert not UNSEEN.search(printed.out)
    assert json.loads(printed.out)["graph"]["classes"] == sorted(CLASSES)
    wrong = program("certify", *tables(folder), "--labeled", "\x1b[31mnobody", cwd=folder)
    assert not UNSEEN.search(wrong.err)
    wrong.refused("nobody")
    return r"written out, as \x1b, everywhere but in certificates; JSON has its own way"


@fault("accepted")
def nul_in_a_table(folder: Path) -> str:
    """A NUL character in a field of a table."""
    options = tables(folder)
    (folder / "labels.csv").write_bytes(b"node,label\nserver[prod],go\0od\nserver[test],b\n")
    return program("certify", *options, cwd=folder).refused("line 2 holds a NUL character")


@fault("not decided")
def formulas_in_tables(folder: Path) -> str:
    """A node named =1+1, and a spreadsheet that reads the results."""
    ran = program("certify", *tables(folder), "--test", "=1+1", "--out", "o", "--no-pictures", cwd=folder)
    assert ran.code == 0, ran.err
    assert "\n=1+1," in (folder / "o" / "gcn-own-nodes.csv").read_text()
    return "kept as it is: a name has to be found again; import such columns as text (documented)"
