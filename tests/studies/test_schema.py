from __future__ import annotations

from pathlib import Path

import pytest

from labelcert.errors import InvalidInput
from labelcert.graphs import karate, load_dataset
from labelcert.paper import paper_studies
from labelcert.paper.paper_studies import ORDER, paper_study
from labelcert.studies import parse_study, read_study
from labelcert.studies.expansion import expand
from labelcert.studies.schema import PAPER_BUDGETS

DATASET = '[[datasets]]\nname = "karate"\n'
MODEL = '[[models]]\nname = "gcn"\n'


def test_defaults_are_the_paper_s() -> None:
    study = parse_study(DATASET + MODEL, name="mine")
    assert study.name == "mine"
    assert study.budgets == PAPER_BUDGETS
    assert study.seeds == (0, 1, 2, 3, 4)
    assert [c.label for c in study.certificates] == ["collective"]
    assert study.hyperparameters == "paper"


def test_overrides_of_one_dataset_reach_one_model() -> None:
    text = DATASET + "models.gcn = { C = 0.5, depth = 2 }\n" + MODEL + '[[models]]\nname = "sgc"\n'
    study = parse_study(text, name="mine")
    gcn, sgc = (model.on(study.datasets[0]) for model in study.models)
    assert (gcn.C, dict(gcn.options)) == (0.5, {"depth": 2})
    assert (sgc.C, dict(sgc.options)) == (None, {})


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("seeds = [0", ["mine.toml is not TOML"]),
        (MODEL, ["datasets", "[[datasets]]"]),
        (DATASET, ["models", "[[models]]"]),
        ("budget = [0.1]\n" + DATASET + MODEL, ["budget", "did you mean 'budgets'"]),
        ("budgets = [1.5]\n" + DATASET + MODEL, ["budgets", "between 0 and 1", "1.5"]),
        ("budgets = [0.1]\nflips = [1]\n" + DATASET + MODEL, ["budgets", "not both"]),
        ("seeds = [-1]\n" + DATASET + MODEL, ["seeds", "-1"]),
        ("seeds = [1, 1]\n" + DATASET + MODEL, ["seeds", "each once"]),
        ("seeds = 3\n" + DATASET + MODEL, ["seeds", "a list"]),
        ('variant = "best"\n' + DATASET + MODEL, ["variant", "exact, published", "'best'"]),
        ('certificates = ["all"]\n' + DATASET + MODEL, ["certificates[0].kind", "collective", "'all'"]),
        ("inductive = 1\n" + DATASET + MODEL, ["inductive", "true or false"]),
        ("time_limit = -1\n" + DATASET + MODEL, ["time_limit", "positive"]),
        ('[[datasets]]\nname = "karat"\n' + MODEL, ["datasets[0].name", "did you mean 'karate'"]),
        ("[[datasets]]\n" + MODEL, ["datasets[0]", "name"]),
        ('[[datasets]]\nedges = "no.csv"\n' + MODEL, ["datasets[0].edges", "no.csv"]),
        (DATASET + "per_class = 0\n" + MODEL, ["datasets[0].per_class", "at least 1"]),
        (DATASET + "models.sgc = { C = 1.0 }\n" + MODEL, ["datasets[0].models.sgc", "gcn"]),
        (DATASET + "models.gcn = 1\n" + MODEL, ["datasets[0].models", "a table of options", "'gcn': 1"]),
        (DATASET + "directed = false\n" + MODEL, ["datasets[0].directed", "your own tables"]),
        (DATASET + "per_clas = 3\n" + MODEL, ["datasets[0].per_clas", "did you mean 'per_class'"]),
        (DATASET + "labeled = [1, '1']\n" + MODEL, ["datasets[0].labeled", "each once"]),
        (DATASET + "labeled = [true]\n" + MODEL, ["datasets[0].labeled[0]", "name of a node", "True"]),
        (DATASET + "[[models]]\ndepth = 1\n", ["models[0].name", "name of a model", "nothing"]),
        ("models = [1]\n" + DATASET, ["models[0]", "a table", "got 1"]),
        ("seeds = [1.0]\n" + DATASET + MODEL, ["seeds[0]", "a whole number", "1.0"]),
        ("up_to = nan\n" + DATASET + MODEL, ["up_to", "between 0 and 1", "nan"]),
        ("time_limit = inf\n" + DATASET + MODEL, ["time_limit", "positive", "inf"]),
        (DATASET + DATASET + MODEL, ["datasets", "'karate' twice"]),
        (DATASET + '[[models]]\nname = "gcnn"\n', ["models[0].name", "did you mean 'gcn'"]),
        (DATASET + MODEL + "depth = 0\n", ["models[0]", "depth", "at least 1"]),
        (DATASET + MODEL + "alpha = 0.1\n", ["models[0].alpha", "depth"]),
        (DATASET + MODEL + 'C = "cv"\n', ["models[0].C", "cross-validate"]),
        (DATASET + MODEL + "C = -1.0\n", ["models[0]", "C must be a positive"]),
    ],
)
def test_a_mistake_is_named_with_file_key_and_what_was_expected(text: str, parts: list[str]) -> None:
    with pytest.raises(InvalidInput) as error:
        parse_study(text, name="mine", file="mine.toml")
    assert "mine.toml" in str(error.value)
    for part in parts:
        assert part in str(error.value)


def test_a_missing_file_is_an_error_in_plain_words(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="no study file"):
        read_study(tmp_path / "none.toml")


@pytest.mark.parametrize("name", ORDER)
def test_the_paper_s_studies_are_valid(name: str) -> None:
    study = paper_study(name)
    assert study.name == name
    assert study.title
    assert study.where


def test_every_shipped_file_is_in_the_catalogue() -> None:
    folder = Path(paper_studies.__file__).parent / "studies"
    assert {path.stem for path in folder.glob("*.toml")} == set(ORDER)


def test_an_unknown_study_of_the_paper() -> None:
    with pytest.raises(InvalidInput, match="did you mean 'cora-ml-b'"):
        paper_study("cora-mlb")


def test_lists_of_options_are_grids(tmp_path: Path) -> None:
    text = """
flips = [1]
[[datasets]]
name = "karate"
[[models]]
name = "gcn"
depth = [1, 2]
C = [0.01, 0.1]
[[models]]
name = "sgc"
label = "simple"
C = [0.1, 1.0]
"""
    study = parse_study(text, name="grid")
    assert [model.label for model in study.models] == [
        *("gcn depth=1 C=0.01", "gcn depth=1 C=0.1", "gcn depth=2 C=0.01", "gcn depth=2 C=0.1"),
        *("simple C=0.1", "simple C=1.0"),
    ]
    assert [model.C for model in study.models[:2]] == [0.01, 0.1]
    with pytest.raises(InvalidInput, match="depth: expected at least one value in the list"):
        parse_study(text.replace("[1, 2]", "[]"), name="grid")
    with pytest.raises(InvalidInput, match="depth must be a whole number"):
        parse_study(text.replace("[1, 2]", '[1, "x"]'), name="grid")


def test_a_graph_of_ones_own(tmp_path: Path) -> None:
    karate().to_npz(tmp_path / "club.npz")
    text = 'flips = [1]\nseeds = [0]\n[[datasets]]\nname = "club.npz"\n[[models]]\nname = "sgc"\nC = 0.1'
    study = parse_study(text, name="own", folder=tmp_path)
    assert study.datasets[0].label == "club.npz"
    assert load_dataset(str(tmp_path / "club.npz")).fingerprint() == karate().fingerprint()
    assert len(expand(study).jobs) == 1
    with pytest.raises(InvalidInput, match=r"datasets\[0\].name: expected the path of an .npz file"):
        parse_study(text.replace("club", "clubs"), name="own", folder=tmp_path)
