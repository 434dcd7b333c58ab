"""What people get wrong at first: one clear line each, which says what to do, and exit code 2."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.helpers.command_line import Call

EDGES = "source,target\na,b\nb,c\nc,d\nd,e\n"
LABELS = "node,label\na,x\nb,x\nd,y\n"
TABLE = "age,income,fraud\n" + "".join(f"{20 + i},{i * 1000},{('yes', 'no', '')[i % 3]}\n" for i in range(12))
GRAPH = ("certify", "--edges", "edges.csv", "--labels", "labels.csv", "--C", "1")
PLAIN = ("certify", "t.csv", "--label", "fraud")

MISTAKES: dict[str, tuple[dict[str, str | bytes], tuple[str, ...], str]] = {
    "a file that is not there": ({}, ("certify", "absent.csv", "--label", "x"), "no file absent.csv; check the path"),
    "a column that is not there": ({}, ("certify", "t.csv"), "say which one it is as --label NAME"),
    "a column in other letters": ({}, ("certify", "t.csv", "--label", "Fraud"), "'age', 'income', 'fraud'"),
    "an Excel workbook": ({"t.xlsx": b"PK\x03\x04"}, ("certify", "t.xlsx"), "save it as CSV"),
    "a workbook called CSV": (
        {"t.csv": b"PK\x03\x04\x14\0\0"},
        PLAIN,
        "a workbook or an archive, not text; save it as CSV",
    ),
    "UTF-16 without a mark": ({"t.csv": TABLE.encode("utf-16-le")}, PLAIN, "save it as UTF-8"),
    "an empty file": ({"t.csv": ""}, PLAIN, "an empty file"),
    "? in the labels": (
        {"t.csv": TABLE.replace("yes", "?")},
        PLAIN,
        '(and 3 other rows), which may stand for no label; if so, say --missing "?"',
    ),
    "unknown in the labels": (
        {"labels.csv": LABELS + "e,unknown\n"},
        GRAPH,
        '--missing unknown or leave the field empty; if it is a class, say --missing ""',
    ),
    "n/a in the labels": ({"labels.csv": LABELS + "e,n/a\n"}, GRAPH, '--missing "n/a"'),
    "-1 in the labels": ({"labels.csv": "node,label\na,0\nb,1\nc,-1\n"}, GRAPH, "--missing -1"),
    "numbers to predict": (
        {"t.csv": "x,y\n" + "".join(f"{i},{i * 1.37}\n" for i in range(60))},
        ("certify", "t.csv", "--label", "y"),
        "60 different values for 48 rows",
    ),
    "one class alone": ({"t.csv": TABLE.replace("yes", "no")}, PLAIN, "at least two classes"),
    "no label at all": ({"t.csv": TABLE.replace("yes", "").replace("no", "")}, PLAIN, "no row of t.csv has a label"),
    "no column but the label": ({"t.csv": "fraud\nyes\nno\nyes\n"}, PLAIN, "no column but 'fraud'"),
    "words among numbers": (
        {"t.csv": TABLE.replace("25,", "old,")},
        PLAIN,
        "such as 'old' for node '6' (line 7 of t.csv); correct that, or leave the column out as --drop",
    ),
    "infinite numbers": ({"t.csv": TABLE.replace("25,", "inf,")}, PLAIN, "such as inf for node '6'"),
    "a column to drop that is not there": (
        {},
        (*PLAIN, "--drop", "Age"),
        "--drop names 'Age', but the columns of features in t.csv are age, income",
    ),
    "a column to take that is not there": ({}, (*PLAIN, "--columns", "height"), "--columns names 'height'"),
    "nothing but dates": (
        {"t.csv": "day,fraud\n" + "".join(f"2024-01-{i + 10},{'yn'[i % 2]}\n" for i in range(9))},
        PLAIN,
        "day (dates); name those that are to be features as --columns",
    ),
    "raw words": (
        {"t.csv": "kind,fraud\n" + "a,yes\nb,no\nc,\n"},
        (*PLAIN, "--raw"),
        "3 of 3 rows hold something else, such as 'a'",
    ),
    "test rows without a column": (
        {"new.csv": "age\n3\n"},
        (*PLAIN, "--test", "new.csv"),
        "new.csv lacks columns of t.csv: income; add them",
    ),
    "a value that no row has": ({}, (*PLAIN, "--test", "age=99"), "no row of t.csv has '99' in the column 'age'"),
    "a loss beside a classifier": (
        {},
        (*PLAIN, "--loss", "square"),
        "logistic has a loss of its own; leave out --loss square",
    ),
    "C of neighbours": ({}, (*PLAIN, "--model", "knn", "--C", "1"), "knn has no C"),
    "neighbours of something else": ({}, (*PLAIN, "--neighbors", "3"), "'neighbors': logistic has C"),
    "poisoned features of a classifier": (
        {},
        (*PLAIN, "--poison-features", "all", "--radius", "0.1"),
        "poisoned features",
    ),
    "a model that there is not": ({}, (*PLAIN, "--model", "xgboost"), "logistic"),
    "a table of a graph as a plain one": ({}, ("certify", "t.csv", "--edges", "edges.csv"), "leave out --edges"),
    "labels alone": ({}, ("certify", "--labels", "labels.csv"), "`labelcert certify data.csv --label NAME`"),
    "no header": (
        {"edges.csv": "1,2\n2,3\n"},
        GRAPH,
        "expected a header in edges.csv, got 1, 2 as the names of its columns",
    ),
    "no header with names": ({"edges.csv": "a,b\nb,c\n"}, GRAPH, "expected a header in edges.csv"),
    "two headers at once": (
        {"edges.csv": "x,y,z\na,b,c\n", "labels.csv": "id,label\na,x\n"},
        GRAPH,
        "--source-column NAME, --target-column NAME\n  expected a column 'node' in labels.csv",
    ),
    "ids with and without decimals": (
        {"edges.csv": "source,target\n0,1\n1,2\n", "labels.csv": "node,label\n0.0,x\n2.0,y\n"},
        GRAPH,
        "line 2 of labels.csv, where another table has '0'; write them alike, or read the tables with --fix",
    ),
    "ids without their zeros": (
        {"edges.csv": "source,target\n007,008\n008,009\n", "labels.csv": "node,label\n7,x\n009,y\n"},
        GRAPH,
        "where another table has '007'",
    ),
    "costs of nobody": (
        {"costs.csv": "node,cost\na,2\nzoe,1\n"},
        (*GRAPH, "--costs", "costs.csv"),
        "got 'zoe' in column 'node', line 3 of costs.csv; the nodes of 'edges.csv' are called a, b, c",
    ),
    "costs without a column of nodes": (
        {"costs.csv": "id,cost\na,2\n"},
        (*GRAPH, "--costs", "costs.csv"),
        "'id', 'cost'; rename one, or say which one it is as --node-column NAME",
    ),
    "groups without their column": (
        {"labels.csv": LABELS.replace("label", "label,who").replace("x", "x,m").replace("y", "y,t")},
        (*GRAPH, "--group-column", "by"),
        "say which one it is as --group-column NAME",
    ),
    "votes without annotators": (
        {"votes.csv": "node,who,label\na,m,x\n"},
        (*GRAPH, "--votes", "votes.csv"),
        "--annotator-column NAME",
    ),
    "a type that no edge has": (
        {"edges.csv": "source,target,type\na,b,u\nb,c,u\nc,d,v\n"},
        (*GRAPH, "--edge-types", "w"),
        "has the type 'w'; there are u, v",
    ),
    "the same edge twice": (
        {"edges.csv": EDGES + "a,b\n"},
        GRAPH,
        "line 6 of edges.csv (first in line 2 of edges.csv); remove one of them, or read the tables with --fix",
    ),
    "a report as PDF": ({}, (*PLAIN, "--report", "x.pdf"), "must end in .html"),
}


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("mistake", MISTAKES)
def test_one_clear_line(mistake: str, call: Call) -> None:
    files, arguments, advice = MISTAKES[mistake]
    for name, text in {"edges.csv": EDGES, "labels.csv": LABELS, "t.csv": TABLE, **files}.items():
        Path(name).write_bytes(text if isinstance(text, bytes) else text.encode())
    code, out, err = call(*arguments)
    assert (code, out) == (2, "")
    assert advice in err
    said = [line for line in err.splitlines() if " held out " not in line and ": scaled " not in line]
    assert len(said) == 1 or said[0].endswith(f"{len(said) - 1} problems:")
    assert "Traceback" not in err


def test_other_names_of_nodes_hold_for_all_tables(call: Call) -> None:
    """`--node-column` is that of costs, groups, annotators and votes as well; plain `node` will do, too."""
    Path("edges.csv").write_text(EDGES)
    Path("labels.csv").write_text("id,label,who\na,x,m\nb,x,t\nd,y,m\n")
    Path("costs.csv").write_text("id;cost\na;2,5\nd;2\n")
    Path("votes.csv").write_text("node,annotator,label\na,m,x\nb,t,x\nd,m,y\n")
    own = (
        "certify",
        "--edges",
        "edges.csv",
        "--labels",
        "labels.csv",
        "--node-column",
        "id",
        "--C",
        "1",
        "--no-pictures",
    )
    for more in (
        ("--costs", "costs.csv"),
        ("--group-column", "who"),
        ("--annotator-column", "who"),
        ("--votes", "votes.csv"),
    ):
        code, _, err = call(*own, *more)
        assert code == 0, err
