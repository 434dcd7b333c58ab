"""Tables of other people's making: each from its file to an answer with one command, and the same answer in Python."""

from __future__ import annotations

import json
import shlex
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from tests.helpers.command_line import Call
from tests.helpers.local_data import data_folder

from labelcert import graph_from_files
from labelcert.certificate import load
from labelcert.estimators import from_sklearn


def _iris(folder: Path) -> tuple[str, ...]:
    load_iris(as_frame=True).frame.to_csv(folder / "iris.csv", index=False)
    return "iris.csv", "--label", "target"


def _wine(folder: Path) -> tuple[str, ...]:
    load_wine(as_frame=True).frame.to_csv(folder / "wine.csv")  # with an index
    return "wine.csv", "--label", "target", "--model", "ridge"


def _cancer(folder: Path) -> tuple[str, ...]:
    frame = load_breast_cancer(as_frame=True).frame
    frame.iloc[:400].to_csv(folder / "cancer.csv", index=False)
    frame.iloc[400:].drop(columns="target").to_csv(folder / "new.csv", index=False)
    return "cancer.csv", "--label", "target", "--model", "svm", "--test", "new.csv"


def _digits(folder: Path) -> tuple[str, ...]:
    load_digits(as_frame=True).frame.iloc[:900].to_csv(folder / "digits.csv.gz", index=False)
    return "digits.csv.gz", "--label", "target", "--model", "knn", "--neighbors", "3"


def titanic(rows: int = 300) -> pd.DataFrame:
    """Passengers as they are often given: an id, names, tickets, classes as numbers, blanks, and a label for most."""
    rng = np.random.default_rng(0)
    sex, kind = rng.choice(["male", "female"], rows), rng.integers(1, 4, rows)
    age = np.where(rng.random(rows) < 0.2, np.nan, rng.normal(30, 12, rows).clip(1).round(1))
    survived = ((sex == "female") ^ (rng.random(rows) < 0.2)).astype(int).astype(str)
    return pd.DataFrame(
        {
            "PassengerId": np.arange(1, rows + 1),
            "Survived": np.where(np.arange(rows) % 10 == 9, "", survived),
            "Pclass": kind,
            "Name": [f"Passenger, Mr. No {i} (born {1900 - i})" for i in range(rows)],
            "Sex": sex,
            "Age": age,
            "Fare": (rng.gamma(2, 60, rows) / kind).round(4),
            "Cabin": np.where(rng.random(rows) < 0.8, "", [f"C{i}" for i in range(rows)]),
            "Embarked": rng.choice(["S", "C", "Q", ""], rows, p=[0.7, 0.19, 0.1, 0.01]),
            "Booked": pd.date_range("1912-01-01", periods=rows, freq="6h").strftime("%Y-%m-%d %H:%M"),
        }
    )


def _titanic(folder: Path) -> tuple[str, ...]:
    titanic().to_csv(folder / "titanic.csv", index=False)
    return "titanic.csv", "--label", "Survived"


def _excel(folder: Path) -> tuple[str, ...]:
    rows = [
        f"K{i:03d};{i % 50 + 18};{1200 + 37 * (i % 31)},{i % 10}0;{'Köln' if i % 3 else 'Zürich'};" for i in range(60)
    ]
    labels = [("Betrug" if i % 2 else "ehrlich") if i < 50 else "" for i in range(60)]
    text = "\r\n".join(["sep=;", "Kunde;Alter;Betrag;Stadt;Urteil", *map("".join, zip(rows, labels, strict=True))])
    (folder / "export.csv").write_bytes(text.encode("cp1252"))
    return "export.csv", "--label", "Urteil", "--node-column", "Kunde", "--model", "ridge"


def _music(_: Path) -> tuple[str, ...]:
    folder = data_folder("music/songs.csv.gz") / "music"
    votes = ("--votes", str(folder / "votes.csv.gz"), "--max-annotators", "1")
    how = ("--label", "genre", "--node-column", "item", "--test", "split=test", "--model", "ridge", "--no-collective")
    return str(folder / "songs.csv.gz"), *how, *votes


def _types(folder: Path) -> tuple[str, ...]:
    pairs = [(i, (i + d) % 20, kind) for i in range(20) for d, kind in ((1, "friend"), (1, "family"), (2, "friend"))]
    pd.DataFrame(pairs, columns=["from", "to", "type"]).to_csv(folder / "edges.csv", index=False)
    (folder / "labels.csv").write_text(
        "node,label\n" + "".join(f"{i},{'a' if i < 10 else 'b'}\n" for i in range(0, 20, 3))
    )
    return "--edges", "edges.csv", "--labels", "labels.csv", "--model", "sgc", "--C", "1"


def _zeros(folder: Path) -> tuple[str, ...]:
    names = [f"{i:05d}" for i in range(12)]
    edges = [f"{names[i]}\t{names[(i * 5 + 1) % 12]}\t{1 + i % 3}" for i in range(12)]
    (folder / "edges.tsv").write_text("\n".join(["src\tdst\tweight", *edges]))
    # A spreadsheet took the ids for numbers.
    (folder / "labels.csv").write_text("node,label\n" + "".join(f"{i}.0,{'xy'[i % 2]}\n" for i in range(8)))
    return "--edges", "edges.tsv", "--labels", "labels.csv", "--fix", "--model", "sgc", "--C", "1"


def _utf16(folder: Path) -> tuple[str, ...]:
    rows = [
        f"{i}\t{i * i}\t{'да' if i % 2 else 'нет'}\t{'?' if i > 30 else 'ja' if i > 15 else 'nein'}" for i in range(40)
    ]
    (folder / "umfrage.txt").write_bytes("\n".join(["nr\tpunkte\tantwort\turteil", *rows]).encode("utf-16"))
    return "umfrage.txt", "--label", "urteil", "--missing", "?", "--model", "knn"


def _parquet(folder: Path) -> tuple[str, ...]:
    pytest.importorskip("pyarrow")
    frame = titanic(80).assign(Survived=lambda t: t["Survived"].replace("", None).astype("category"))
    frame.assign(Booked=pd.to_datetime(frame["Booked"])).to_parquet(folder / "t.parquet")
    return "t.parquet", "--label", "Survived", "--drop", "Cabin,Name", "--model", "ridge"


TABLES: dict[str, tuple[Callable[[Path], tuple[str, ...]], str, int]] = {
    "iris": (_iris, "30 that --seed 0 draws are held out and tested", 30),
    "wine, with an index": (_wine, "left out Unnamed: 0 (one number for each row", 36),
    "breast cancer, and new rows": (_cancer, "cancer.csv: scaled", 169),
    "digits": (_digits, "0 and 1 kept: pixel_0_0", 180),
    "Titanic": (
        _titanic,
        "scaled to mean 0 and deviation 1: Pclass, Age, Fare; one-hot Sex (2 values), Embarked (4 values); "
        "blanks filled with the median, or a category of their own: Age (57), Embarked (5); "
        "left out PassengerId (one number for each row, by its name an id), Name, Cabin (names or free text), Booked "
        "(dates)",
        30,
    ),
    "Excel in German": (_excel, "export.csv is read as Windows-1252 (Latin-1), separated by semicolons", 10),
    "music votes": (_music, "202 labels of songs.csv.gz differ from the majority of votes", 300),
    "edges with types": (_types, "20 edges come again with another type, which counts once (--edge-types chooses", 13),
    "ids with leading zeros": (_zeros, "'0.0' in line 2 of labels.csv is taken for '00000'", 4),
    "UTF-16 with tabs": (_utf16, "umfrage.txt is read as UTF-16", 9),
    "Parquet": (_parquet, "left out PassengerId (one number for each row, by its name an id), Booked (dates)", 8),
}


@pytest.mark.parametrize("name", TABLES)
def test_from_file_to_answer(name: str, call: Call, tmp_path: Path) -> None:
    make, said, tested = TABLES[name]
    arguments = make(tmp_path)
    budget = ("--time-limit", "5") if "--votes" in arguments else ("--max-flips", "1")
    code, out, err = call("certify", *arguments, *budget, "--json")
    assert code == 0, err
    assert said in err
    [found] = json.loads(out)["results"][0]["certificates"]
    assert found["n_test"] == tested
    assert all(node["radius_lower"] >= 1 for node in found["nodes"]) or "--edges" in arguments


def test_the_same_radii_in_python(call: Call, tmp_path: Path) -> None:
    """`from_sklearn` with the same columns in scikit-learn's own words certifies the same model."""
    titanic(90).to_csv(tmp_path / "titanic.csv", index=False)
    own = ("titanic.csv", "--label", "Survived", "--max-flips", "1")
    assert call("certify", *own, "--out", "o", "--no-pictures")[0] == 0
    cert = load(tmp_path / "o" / "logistic-rows.cert")
    assert "one-hot Sex" in cert.run.model
    frame = pd.read_csv("titanic.csv", dtype={"Survived": str})
    known = frame["Survived"].notna()
    number = make_pipeline(SimpleImputer(strategy="median"), StandardScaler())
    word = make_pipeline(SimpleImputer(strategy="constant", fill_value=""), OneHotEncoder(drop="if_binary"))
    columns = make_column_transformer((number, ["Pclass", "Age", "Fare"]), (word, ["Sex"]), (word, ["Embarked"]))
    model = from_sklearn(make_pipeline(columns, LogisticRegression(max_iter=10_000)))
    same = model.certify(frame[known], frame["Survived"][known].to_numpy(), frame[~known], max_flips=1)
    np.testing.assert_array_equal(same.predictions, cert.predictions)
    np.testing.assert_array_equal(same.radius_lower, cert.radius_lower)
    np.testing.assert_array_equal(same.radius_upper, cert.radius_upper)


def test_other_questions_about_a_plain_table(call: Call, tmp_path: Path) -> None:
    """The same table and models for `recheck`, `noise`, threats and kernels; labels have no say in the features."""
    rows = titanic(60)
    rows["Survived"] = rows["Survived"].replace("", "?")
    rows.to_csv(tmp_path / "t.csv", index=False)
    own = ("t.csv", "--label", "Survived", "--missing", "?")
    for arguments in (
        ("recheck", "--flips", "1", "--confirm", "2", "--model", "ridge"),
        ("noise", "--wrong", "0.05", "--model", "knn"),
        ("certify", "--model", "linear", "--C", "1", "--max-flips", "1", "--trusted", "1,2,3", "--no-pictures"),
        ("certify", "--model", "ridge", "--C", "cv", "--max-flips", "1", "--report", "r.html", "--no-pictures"),
        ("certify", "--model", "ensemble", "--parts", "7", "--max-flips", "1", "--no-pictures"),
    ):
        code, out, err = call(arguments[0], *own, *arguments[1:])
        assert (code, "6 rows" in out) == (0, True), err
    code, out, err = call("harden", *own, "--flips", "1", "--loss", "square", "--workers", "1", "--no-pictures")
    assert (code, "gcn" in out) == (0, False), err
    advised = shlex.split(out.split("certify it:")[1].splitlines()[0])
    assert call(*advised[1:], "--no-pictures")[0] == 0
    for refused in (("recheck", "--flips", "1", "--confirm", "1"), ("noise", "--wrong", "0.1")):
        code, _, err = call(refused[0], *own, *refused[1:], "--model", "ensemble")
        assert code == 2
        assert "does not know this one" in err


def test_columns_as_they_are_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "f.csv"
    path.write_text(
        "node,day,kind,size,zip\n"
        + "".join(f"n{i},2024-01-{i + 1:02d},{'ab'[i % 2]},{i}e3,0{i % 3}1\n" for i in range(12))
    )

    def read(**how: Any) -> Any:
        with warnings.catch_warnings(record=True) as notes:
            warnings.simplefilter("always")
            return graph_from_files(features=path, **how), " ".join(str(note.message) for note in notes)

    graph, said = read()
    assert graph.n_features == 1 + 1 + 3  # size, kind, zip
    assert "left out day (dates)" in said
    assert graph.notes == (said,)
    graph, said = read(columns=["day", "size"])
    np.testing.assert_allclose(graph.features[:, 0], graph.features[:, 1])  # both grow evenly, and are scaled
    assert read(drop=["zip", "day", "kind"])[0].features[:3, 0].tolist() == [0.0, 1000.0, 2000.0]
    assert read(columns=["size"], raw=False)[0].features.mean() == pytest.approx(0.0)
    graph, said = read(columns=["size"], transform=StandardScaler())
    assert said == "f.csv: features by StandardScaler, fitted without labels"
    frame = pd.read_csv(path, dtype={"zip": str})
    assert graph_from_files(features=frame, columns=["size"], raw=True).node_names == graph.node_names
    with pytest.warns(UserWarning, match="the data frame of features: scaled"):
        assert graph_from_files(features=frame.set_index("node")).fingerprint() == read()[0].fingerprint()


def test_labels_have_no_say_in_features(tmp_path: Path) -> None:
    """Whatever the labels are, features are the same, bit by bit; the transformer that sees labels is refused."""
    from sklearn.feature_selection import SelectKBest

    from labelcert.errors import InvalidInput
    from labelcert.graphs.plain_tables import PlainTable

    frame = titanic(50)
    found = []
    for labels in (frame["Survived"], frame["Survived"].replace({"0": "1", "1": "0"})):
        with pytest.warns(UserWarning, match="one-hot"):
            found.append(PlainTable.read(frame.assign(Survived=labels), label="Survived").graph)
    np.testing.assert_array_equal(found[0].features, found[1].features)
    assert found[0].fingerprint() != found[1].fingerprint()
    with pytest.raises(InvalidInput, match=r"SelectKBest cannot make features .* without labels"):
        PlainTable.read(frame[["Survived", "Fare", "Pclass"]], label="Survived", transform=SelectKBest(k=1))


def test_ridge_of_a_plain_table_against_scikit_learn(call: Call, tmp_path: Path) -> None:
    """Brute force: every single flipped label, trained anew by scikit-learn."""
    rng = np.random.default_rng(1)
    frame = pd.DataFrame({"x": rng.normal(0, 1, 18), "y": rng.normal(0, 500, 18), "label": ["a", "b", ""] * 6})
    frame.to_csv(tmp_path / "t.csv", index=False)
    code, out, _ = call("certify", "t.csv", "--model", "ridge", "--max-flips", "1", "--json")
    assert code == 0
    nodes = json.loads(out)["results"][0]["certificates"][0]["nodes"]
    known = frame["label"] != ""
    scale = StandardScaler().fit(frame.loc[known, ["x", "y"]])
    X, T = scale.transform(frame.loc[known, ["x", "y"]]), scale.transform(frame.loc[~known, ["x", "y"]])
    y = frame.loc[known, "label"].to_numpy()
    before = RidgeClassifier().fit(X, y).predict(T)
    breaks = np.zeros(len(T), dtype=bool)
    for i in range(len(y)):
        other = y.copy()
        other[i] = "b" if y[i] == "a" else "a"
        breaks |= RidgeClassifier().fit(X, other).predict(T) != before
    assert [node["prediction"] for node in nodes] == before.tolist()
    assert [node["radius_lower"] == 1 for node in nodes] == breaks.tolist()


@pytest.mark.parametrize("model", ["logistic", "ridge", "knn", "ensemble"])
def test_saved_certificates_of_plain_tables_are_verified(model: str, call: Call, tmp_path: Path) -> None:
    """With the arrays beside them where they hold no kernels; scores of neighbours begin with a fraction of a vote."""
    titanic(40).to_csv(tmp_path / "t.csv", index=False)
    own = ("t.csv", "--label", "Survived", "--model", model, "--scaled", "--no-pictures", "--max-flips", "1")
    assert call("certify", *own, "--out", "o")[0] == 0
    beside = ("--problem", f"o/{model}-rows.npz") if (tmp_path / "o" / f"{model}-rows.npz").exists() else ()
    assert bool(beside) == (model == "ridge")
    if model != "knn":
        assert call("verify", f"o/{model}-rows.cert", *beside)[0] == 0
