from __future__ import annotations

import gzip
import io
import lzma
import os
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from labelcert.errors import InvalidInput, MissingExtra
from labelcert.graphs import Graph, graph_from_files, published_split

EDGES = "source,target\nn1,n2\nn2,n3\n"
FEATURES = "node,height,weight\nn3,1.5,2\nn1,0,1e3\nn2,-1,4\nalone,0,0\n"
LABELS = "node,label\nn1,dog\nn2,\nn3,cat\n"


@pytest.fixture
def write(tmp_path: Path) -> Any:
    def _write(**texts: str) -> dict[str, Path]:
        paths = {part: tmp_path / f"{part}.csv" for part in texts}
        for part, text in texts.items():
            paths[part].write_text(text)
        return paths

    return _write


def test_three_tables(write: Any) -> None:
    graph = graph_from_files(**write(edges=EDGES, features=FEATURES, labels=LABELS), name="mine", raw=True)
    assert graph.node_names == ("n3", "n1", "n2", "alone")
    assert graph.class_names == ("cat", "dog")
    assert graph.labels.tolist() == [0, 1, -1, -1]
    np.testing.assert_array_equal(graph.features, [[1.5, 2], [0, 1000], [-1, 4], [0, 0]])
    expected = np.zeros((4, 4))
    expected[[1, 2, 2, 0], [2, 1, 0, 2]] = 1
    np.testing.assert_array_equal(graph.adjacency.toarray(), expected)
    assert graph.name == "mine"


def test_edges_alone(write: Any) -> None:
    graph = graph_from_files(**write(edges=EDGES))
    assert graph.node_names == ("n1", "n2", "n3")
    np.testing.assert_array_equal(graph.features.toarray(), np.eye(3))
    assert graph.labels.tolist() == [-1, -1, -1]
    assert graph.name == "edges.csv"


def test_labels_beside_the_features_and_no_edges(write: Any) -> None:
    graph = graph_from_files(**write(features="node,label,x\n007,1,0.5\n8,,1\n9,0,2\n"))
    assert graph.node_names == ("007", "8", "9")
    assert (graph.labels.tolist(), graph.class_names) == ([1, -1, 0], ("0", "1"))
    assert (graph.n_features, graph.n_edges) == (1, 0)


def test_direction_and_weights(write: Any) -> None:
    paths = write(edges="source,target,weight\na,b,0.5\nb,a,0.5\nb,c,2\nc,c,1\n")
    graph = graph_from_files(**paths)
    np.testing.assert_array_equal(graph.adjacency.toarray(), [[0, 0.5, 0], [0.5, 0, 2], [0, 2, 1]])
    directed = graph_from_files(**paths, directed=True)
    np.testing.assert_array_equal(directed.adjacency.toarray(), [[0, 0.5, 0], [0.5, 0, 2], [0, 0, 1]])


def test_decimal_commas(write: Any) -> None:
    paths = write(edges="source;target;weight\na;b;0,5\nb;c;1.200,0\n", features="node;x\na;1,5\nb;2\nc;1.000\n")
    with pytest.warns(UserWarning, match="separated by semicolons"):
        graph = graph_from_files(**paths, raw=True)
    assert (graph.adjacency[0, 1], graph.adjacency[1, 2]) == (0.5, 1200.0)
    assert graph.features[:, 0].tolist() == [1.5, 2.0, 1000.0]


def test_own_names_of_columns(write: Any) -> None:
    paths = write(edges="from,to,w\na,b,2\n", features="id,x\na,1\nb,2\n", labels="id,kind\na,u\n")
    graph = graph_from_files(**paths, source="from", target="to", weight="w", node="id", label="kind")
    assert (graph.adjacency[0, 1], graph.class_names) == (2.0, ("u",))


def test_tabs_and_compression(tmp_path: Path) -> None:
    (tmp_path / "edges.tsv").write_text(EDGES.replace(",", "\t"))
    (tmp_path / "labels.csv.gz").write_bytes(gzip.compress(LABELS.encode()))
    graph = graph_from_files(tmp_path / "edges.tsv", labels=tmp_path / "labels.csv.gz")
    assert (graph.n_edges, graph.n_classes) == (2, 2)


def test_parquet(tmp_path: Path, write: Any) -> None:
    pytest.importorskip("pyarrow")
    csv = write(edges=EDGES, features=FEATURES, labels=LABELS)
    paths = {part: tmp_path / f"{part}.parquet" for part in csv}
    for part, path in csv.items():
        pd.read_csv(path).to_parquet(paths[part])
    assert graph_from_files(**paths, raw=True).fingerprint() == graph_from_files(**csv, raw=True).fingerprint()
    numbered = pd.DataFrame({"node": [10, 11], "x": [1, 2], "label": pd.array([1, None], dtype="Int64")})
    numbered.to_parquet(tmp_path / "numbered.parquet")
    graph = graph_from_files(features=tmp_path / "numbered.parquet")
    assert (graph.node_names, graph.class_names, graph.labels.tolist()) == (("10", "11"), ("1",), [0, -1])
    (tmp_path / "bad.parquet").write_text("text")
    with pytest.raises(InvalidInput, match="expected a Parquet file"):
        graph_from_files(tmp_path / "bad.parquet")


def test_parquet_without_pyarrow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "edges.parquet").write_bytes(b"")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingExtra, match=r"reading edges.parquet .*labelcert\[parquet\]"):
        graph_from_files(tmp_path / "edges.parquet")


def test_files_and_npz_agree(write: Any, tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match="scaled"):
        graph = graph_from_files(**write(edges=EDGES, features=FEATURES, labels=LABELS))
    again = Graph.from_npz(graph.to_npz(tmp_path / "mine.npz"))
    assert (again.fingerprint(), again.node_names) == (graph.fingerprint(), graph.node_names)
    assert "scaled" in again.notes[0]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"edges": "source,target\nn1,n9\n"}, "known nodes .* got 'n9' in column 'target', line 2 of edges.csv"),
        ({"labels": "node,label\nn1,a\nn9,b\n"}, "got 'n9' in column 'node', line 3 of labels.csv"),
        ({"edges": EDGES + "n1,n2\n"}, "every edge once, got n1 - n2 again in line 4 of edges.csv .*line 2"),
        ({"features": FEATURES + "n1,0,0\n"}, "got node 'n1' again in line 6 of features.csv .*line 3"),
        ({"labels": LABELS + "n3,dog\n"}, "got node 'n3' again in line 5 of labels.csv"),
        ({"features": FEATURES.replace("1e3", "tall")}, "column 'weight' .* such as 'tall' for node 'n1' .line 3"),
        ({"features": FEATURES.replace("1e3", "inf")}, "such as inf for node 'n1'"),
        ({"features": FEATURES.replace("1e3", "1,2,3")}, "equally many fields in every row"),
        ({"features": "node,x\nn1,1,5\nn2,2,6\nn3,3,7\n"}, "equally many fields in every row"),
        ({"features": "id,x\nn1,1\n"}, "column 'node' in features.csv, got the columns 'id', 'x'"),
        ({"edges": "a,b,c\nn1,n2,n3\n"}, "columns 'source' and 'target' in edges.csv"),
        ({"edges": "n1,n2\nn2,n3\n"}, "header in edges.csv, got n1, n2 as the names"),
        ({"edges": "1,2\n2,3\n"}, "expected a header in edges.csv"),
        ({"labels": "node,kind\nn1,x\n"}, "column 'label' in labels.csv"),
        ({"edges": "source,target\nn1,\n"}, "node id in column 'target', got an empty field in line 2"),
        ({"edges": "source,target,weight\nn1,n2,-1\n"}, "positive weights in column 'weight', got -1"),
        ({"edges": "source,target,weight\nn1,n2,much\n"}, "positive weights .* got 'much' in line 2"),
        (
            {"edges": "source,target,weight\nn1,n2,1\nn2,n1,2\n"},
            "same weight in both directions, got 2.0 for n2 - n1 in line 3 of edges.csv but 1.0 in line 2",
        ),
        ({"edges": ""}, "edges.csv cannot be read as one"),
        ({"features": "node,x\n"}, "at least one node"),
        ({"features": FEATURES.replace("height", "label")}, "labels in one place"),
        ({"labels": "node,label\nn1,a\nn2\n"}, "line 3 of labels.csv has 1 where the header has 2"),
        ({"labels": "node,label\nn1,a\n\n\nn9,b\n"}, "got 'n9' in column 'node', line 5 of labels.csv"),
        ({"labels": '\nnode,label\n"n1","two\nlines"\nn9,b\n'}, "got 'n9' in column 'node', line 5 of labels.csv"),
        ({"features": "node,x,x\nn1,1,2\n"}, "distinct columns, got 'x' more than once in the header of features.csv"),
    ],
)
def test_bad_tables(write: Any, changes: dict[str, str], message: str) -> None:
    paths = write(**{"edges": EDGES, "features": FEATURES, "labels": LABELS, **changes})
    with pytest.raises(InvalidInput, match=message):
        graph_from_files(**paths, raw=None)
    if "features" in changes:
        with pytest.raises(InvalidInput):
            graph_from_files(**paths, raw=True)


def test_bad_paths(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="an edge list or a feature table, got neither"):
        graph_from_files()
    with pytest.raises(InvalidInput, match="there is no file"):
        graph_from_files(tmp_path / "absent.csv")
    (tmp_path / "edges.xlsx").write_text("")
    with pytest.raises(InvalidInput, match=r"file ending in .csv, .*got edges.xlsx"):
        graph_from_files(tmp_path / "edges.xlsx")


@pytest.mark.parametrize("word", ["NA", "NaN", "nan", "None", "null", "NULL", "n/a", "-1", "-1.0"])
def test_words_for_a_missing_label_are_not_classes(write: Any, word: str) -> None:
    paths = write(edges=EDGES, labels=f"node,label\nn1,0\nn2,{word}\nn3,{word}\n")
    with pytest.raises(InvalidInput, match=f"got '{word}' in line 3 of labels.csv.*say missing='{word}'"):
        graph_from_files(**paths)


@pytest.mark.parametrize(
    ("labels", "classes"),
    [
        (("-1", "1", "+1", ""), ("-1", "1")),
        (("10", "2", "2.0", "1e1"), ("2", "10")),
        (("0.50", "0.5", "1", "01"), ("0.50", "1")),
        (("12345678901234567891", "12345678901234567890", "", ""), ("12345678901234567890", "12345678901234567891")),
        (("1", "1.0", "a", "b"), ("1", "1.0", "a", "b")),
        (("inf", "2", "10", "1_0"), ("10", "1_0", "2", "inf")),
    ],
)
def test_classes_that_are_numbers(write: Any, labels: tuple[str, ...], classes: tuple[str, ...]) -> None:
    rows = "".join(f"{node},{label}\n" for node, label in zip("abcd", labels, strict=True))
    graph = graph_from_files(**write(edges="source,target\na,b\nc,d\n", labels=f"node,label\n{rows}"))
    assert graph.class_names == classes


def test_the_order_of_classes_does_not_depend_on_the_hash_seed() -> None:
    code = (
        "from labelcert.graphs.class_coding import encode_classes; print(encode_classes('inf Infinity 1 b a'.split()))"
    )
    found = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": str(seed)},
            capture_output=True,
            check=True,
        ).stdout
        for seed in (1, 2, 3)
    }
    assert len(found) == 1


def test_damaged_compression(tmp_path: Path) -> None:
    two = io.BytesIO()
    with zipfile.ZipFile(two, "w") as archive:
        archive.writestr("a.csv", EDGES)
        archive.writestr("b.csv", EDGES)
    packed = gzip.compress(EDGES.encode())
    for name, content in {
        "cut.csv.gz": packed[:-12],
        "body.csv.gz": packed[:12] + b"\xff" * 8 + packed[20:],
        "plain.csv.gz": EDGES.encode(),
        "bad.csv.zip": b"PK no archive",
        "two.csv.zip": two.getvalue(),
        "bad.csv.xz": b"no xz",
        "cut.csv.xz": lzma.compress(EDGES.encode())[:-20],
        "bad.csv.bz2": b"no bz2",
    }.items():
        (tmp_path / name).write_bytes(content)
        with pytest.raises(InvalidInput, match=f"{name} cannot be read") as caught:
            graph_from_files(tmp_path / name)
        assert "\n" not in str(caught.value)


def test_every_compression(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "edges.csv.zip", "w") as archive:
        archive.writestr("edges.csv", EDGES)
    (tmp_path / "edges.csv.xz").write_bytes(lzma.compress(EDGES.encode()))
    for name in ("edges.csv.zip", "edges.csv.xz"):
        assert graph_from_files(tmp_path / name).n_edges == 2


def test_dates_are_not_numbers(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    for values in (pd.to_datetime(["2020-01-01", "2020-01-02"]), pd.to_timedelta([1, 2], unit="s")):
        pd.DataFrame({"node": ["a", "b"], "x": values}).to_parquet(tmp_path / "dates.parquet")
        with pytest.raises(InvalidInput, match=r"finite numbers as features .*'x'.* such as Time.* for node 'a'"):
            graph_from_files(features=tmp_path / "dates.parquet", raw=True)
        with pytest.raises(InvalidInput, match=r"at least one column .* x \(dates\)"):
            graph_from_files(features=tmp_path / "dates.parquet")
        with pytest.warns(UserWarning, match="dates as days: x"):
            graph = graph_from_files(features=tmp_path / "dates.parquet", columns=["x"])
        np.testing.assert_allclose(graph.features, [[-1.0], [1.0]])


def test_missing_labels_in_parquet(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    pd.DataFrame({"node": ["a", "b"], "x": [0, 1], "label": [0, -1]}).to_parquet(tmp_path / "t.parquet")
    with pytest.raises(InvalidInput, match=r"got '-1' in row 1 of t.parquet"):
        graph_from_files(features=tmp_path / "t.parquet")


def test_a_table_of_nodes_alone_has_identity_features(write: Any) -> None:
    graph = graph_from_files(**write(features="node,label\na,x\nb,y\n"))
    np.testing.assert_array_equal(graph.features.toarray(), np.eye(2))


def test_a_file_with_the_name_of_a_dataset_is_not_the_dataset(tmp_path: Path) -> None:
    rows = [f"{i},{i % 2},{i}\n" for i in range(40)]
    (tmp_path / "csbm.csv").write_text("node,label,x\n" + "".join(rows))
    graph = graph_from_files(features=tmp_path / "csbm.csv")
    assert len(published_split(graph).test) == 4
    np.savez(
        tmp_path / "csbm.npz",
        adj_indptr=np.zeros(41, dtype=int),
        adj_indices=[],
        adj_shape=[40, 40],
        labels=np.arange(40) % 2,
    )
    assert len(published_split(Graph.from_npz(tmp_path / "csbm.npz")).test) == 4


def test_all_problems_at_once(write: Any) -> None:
    paths = write(
        edges="source,target\nn1,n2\nn1,n9\nn1,n2\nn2,\n",
        features="node,x\nn1,tall\nn2,2\nn3,\nn1,4\n",
        labels="node,label\nn1,a\nn8,b\nn2,NA\n",
    )
    with pytest.raises(InvalidInput) as refused:
        graph_from_files(**paths, raw=True)
    lines = str(refused.value).splitlines()
    assert lines[0] == "7 problems:"
    for words in (
        *("'tall'", "an empty field for node 'n3'", "node 'n1' again in line 5", "got 'n9'"),
        *("an empty field in line 5 of edges.csv", "n1 - n2 again in line 4", "got 'n8'", "got 'NA' in line 4"),
    ):
        assert sum(words in line for line in lines) == 1, words


def test_many_problems_are_counted(write: Any) -> None:
    edges = "source,target\n" + "".join(f"n1,x{i}\n" for i in range(50))
    with pytest.raises(InvalidInput, match=r"(?s)50 problems:.*and 47 more like that$"):
        graph_from_files(**write(edges=edges, features="node,x\nn1,1\n"))


def test_harmless_problems_are_mended_on_request(write: Any) -> None:
    paths = write(edges="source , target\nn1,n2\nn1,n2\nn2,n3\n")
    with pytest.raises(InvalidInput, match=r"(?s)2 problems.*without blanks.*fix=True.*every edge once.*fix=True"):
        graph_from_files(**paths)
    with pytest.warns(UserWarning, match=r"'source ' of edges.csv is read as 'source'; left out n1 - n2 .* line 3"):
        graph = graph_from_files(**paths, fix=True)
    assert graph.n_edges == 2
    clash = write(edges="source,target,weight\nn1,n2,1\nn1,n2,2\n")
    with pytest.raises(InvalidInput, match="with another weight"):
        graph_from_files(**clash, fix=True)


def test_blank_ids_and_blanks_in_headers(write: Any) -> None:
    with pytest.raises(InvalidInput, match="node id in column 'source', got an empty field in line 2"):
        graph_from_files(**write(edges='source,target\n" ",b\nb,c\n'))
    with pytest.raises(InvalidInput, match="distinct columns, got 'x' more than once"):
        graph_from_files(**write(edges="source,target\na,b\n", features="node,x,x \na,1,2\nb,3,4\n"))
    with pytest.warns(UserWarning, match="is read as"):
        graph = graph_from_files(**write(edges="source ,target \n01,02\n02,03\n"), fix=True)
    assert graph.node_names == ("01", "02", "03")


def test_small_files_with_many_mistakes_take_moments(tmp_path: Path) -> None:
    (tmp_path / "d.csv.gz").write_bytes(gzip.compress(b"source,target\n" + b"a,b\n" * 400_000))
    with pytest.raises(
        InvalidInput, match=r"(?s)399999 problems:.*line 3 of d.csv.gz .*and 399996 more like that$"
    ) as refused:
        graph_from_files(tmp_path / "d.csv.gz")
    assert len(str(refused.value)) < 4000
    (tmp_path / "u.csv.gz").write_bytes(gzip.compress(b"source,target\n" + b"a\n" * 400_000))
    with pytest.raises(InvalidInput, match=r"400000 problems:"):
        graph_from_files(tmp_path / "u.csv.gz")


def test_small_files_that_unpack_to_much_are_refused(tmp_path: Path) -> None:
    for name, content in {
        "long.csv.gz": gzip.compress(b"source,target\n" + b"a,b\n" * 10_000_000, 1),
        "wide.csv": b"node," + b",".join(b"c%d" % i for i in range(60_000)) + b"\na" + b",1" * 60_000 + b"\n",
    }.items():
        (tmp_path / name).write_bytes(content)
        with pytest.raises(InvalidInput, match=r"holds more than 32 MiB|at most 50,000 columns, got 60,001"):
            graph_from_files(features=tmp_path / name)
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    constant = pyarrow.array(np.zeros(5_000_000, dtype=np.int8))
    parquet.write_table(pyarrow.table({"source": constant, "target": constant}), tmp_path / "e.parquet")
    with pytest.raises(InvalidInput, match="would unpack to 5,000,000 rows, far more than its size allows"):
        graph_from_files(tmp_path / "e.parquet")


def test_repeated_nodes_and_edges_in_all_their_forms(write: Any) -> None:
    loop = "source,target,weight\na,a,1\na,a,2\nb,a,1\na,b,1\na,b,1\na,b,3\n"
    with pytest.raises(InvalidInput, match=r"(?s)5 problems:.*a - b again in line 6.*line 3 .*line 7 .*same weight"):
        graph_from_files(**write(edges=loop))
    assert graph_from_files(**write(edges="source,target\nb,a\na,b\n")).n_edges == 1
    with pytest.raises(InvalidInput, match=r"^expected one row per node, got node 'a' again in line 3"):
        graph_from_files(**write(edges="source,target\na,b\n", features="node,label,x\na,u,1\na,v,1\nb,u,1\n"))
