from __future__ import annotations

from pathlib import Path

import pytest

from labelcert import SGC
from labelcert.errors import InvalidInput
from labelcert.graphs import karate, published_split
from labelcert.studies import Graphs, Store, StudyPlan, expand, parse_study, run_plan
from labelcert.studies.study_files import MORE, find_study
from labelcert.studies.tidy_tables import tidy

BASE = 'seeds = [0]\nflips = [2]\n[[datasets]]\nname = "karate"\n[[models]]\nname = "gcn"\nC = 0.1\n'


def one_key(text: str) -> str:
    [key] = expand(parse_study(text, name="any")).keys
    return key


def test_the_same_question_has_the_same_hash_whatever_it_is_called() -> None:
    renamed = BASE.replace('name = "gcn"\n', 'name = "gcn"\nlabel = "other"\n').replace("flips = [2]", "flips = [1, 2]")
    assert one_key(BASE) == one_key('title = "x"\n' + renamed)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("seeds = [0]", "seeds = [1]"),
        ("flips = [2]", "flips = [3]"),
        ("C = 0.1", "C = 0.2"),
        ("C = 0.1", "C = 0.1\ndepth = 2"),
        ("C = 0.1", 'C = "cross-validate"'),
        ('"gcn"', '"sgc"'),
        ('"karate"', '"karate"\nparameters = { weighted = true }'),
        ("seeds", "inductive = true\nseeds"),
        ("seeds", 'variant = "published"\nseeds'),
        ("seeds", "time_limit = 5\nseeds"),
        ("seeds", 'certificates = [{ kind = "collective", engine = "enumerate" }]\nseeds'),
    ],
)
def test_whatever_decides_the_answer_changes_the_hash(old: str, new: str) -> None:
    assert one_key(BASE) != one_key(BASE.replace(old, new, 1))


def test_the_graph_s_content_counts_not_its_name(tmp_path: Path) -> None:
    text = (
        'seeds = [0]\nflips = [1]\n[[datasets]]\nedges = "e.csv"\nlabels = "l.csv"\n[[models]]\nname = "gcn"\nC = 1.0\n'
    )
    (tmp_path / "l.csv").write_text("node,label\na,x\nb,y\nc,x\nd,y\n")
    keys = []
    for last in ("d,e", "d,e", "c,e"):
        (tmp_path / "e.csv").write_text(f"source,target\na,b\nb,c\nc,d\n{last}\n")
        plan = expand(parse_study(text, name="any", folder=tmp_path))
        keys.append(plan.keys[0])
    assert keys[0] == keys[1] != keys[2]


def test_certificates_on_the_same_nodes_share_a_cell_and_models_a_kernel(small_plan: StudyPlan) -> None:
    assert len(small_plan.places) == 12
    assert len(small_plan.keys) == 6
    assert len(small_plan.jobs) == 6
    text = 'seeds = [0]\nflips = [1]\n[[datasets]]\nname = "karate"\n' + "".join(
        f'[[models]]\nname = "gcn"\nlabel = "C{C}"\nC = {C}\n' for C in (0.1, 0.2)
    )
    plan = expand(parse_study(text, name="any"))
    assert [len(job.cells) for job in plan.jobs] == [2]


def test_budgets_are_flips_of_the_labels_that_there_are(small_plan: StudyPlan) -> None:
    assert {place.budgets for place in small_plan.places} == {((0.1, 2), (0.3, 6))}
    assert {cell.max_flips for job in small_plan.jobs for cell in job.cells} == {6}


def test_data_that_is_not_here_does_not_stop_the_rest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LABELCERT_MIRROR", (tmp_path / "nowhere").as_uri())
    text = BASE.replace("[[models]]", '[[datasets]]\nname = "wiki-cs-b"\n[[models]]')
    plan = expand(parse_study(text, name="any"), graphs=Graphs(tmp_path))
    assert len(plan.jobs) == 1
    [(about, reason)] = plan.unavailable.values()
    assert about["dataset"] == "wiki-cs-b"
    assert reason.startswith("not available offline")


def test_the_paper_s_order_falls_back_with_a_note_but_not_for_the_published_variant(tmp_path: Path) -> None:
    text = BASE.replace('"karate"', '"csbm"\nparameters = { order = "published" }')
    plan = expand(parse_study(text, name="any"), graphs=Graphs(tmp_path))
    assert len(plan.jobs) == 1
    assert "node order" in plan.notes[0]
    published = parse_study(text, name="any").changed(variant="published")
    assert len(expand(published, graphs=Graphs(tmp_path)).unavailable) == 1


def test_a_node_that_does_not_exist_is_refused_before_work_starts() -> None:
    text = BASE.replace('"karate"', '"karate"\nlabeled = [0, 99]')
    with pytest.raises(InvalidInput, match="'99'"):
        expand(parse_study(text, name="any"))


def test_own_nodes_by_name() -> None:
    text = BASE.replace('"karate"', '"karate"\nlabeled = [0, 1, 32, 33]\ntest = [8, 30]')
    [job] = expand(parse_study(text, name="any")).jobs
    assert job.labeled.tolist() == [0, 1, 32, 33]
    assert job.cells[0].test.tolist() == [8, 30]


def test_accuracy_without_truth_is_refused(tmp_path: Path) -> None:
    (tmp_path / "e.csv").write_text("source,target\na,b\nb,c\n")
    (tmp_path / "l.csv").write_text("node,label\na,x\nb,y\n")
    text = 'flips = [1]\ncertificates = ["accuracy"]\n[[datasets]]\nedges = "e.csv"\nlabels = "l.csv"\n'
    text += '[[models]]\nname = "gcn"\nC = 1.0\n'
    with pytest.raises(InvalidInput, match="'ratio' instead"):
        expand(parse_study(text, name="any", folder=tmp_path))


def test_labels_can_be_verified_before(tmp_path: Path) -> None:
    text = """
flips = [1, 2]
seeds = [0]
certificates = ["ratio"]
[[datasets]]
name = "karate"
[[models]]
name = "sgc"
C = 0.1
verify = [0, 2]
[[models]]
name = "sgc"
C = 0.1
label = "random"
choose = "random"
verify = 2
"""
    plan = expand(parse_study(text, name="verify"))
    assert [place.model for place in plan.places] == ["sgc verify=0", "sgc verify=2", "random"]
    assert len(set(plan.keys)) == 3
    with Store(tmp_path, write=True) as store:
        run_plan(plan, store, workers=1)
        frame = tidy(plan, store).set_index(["model", "flips"])["lower"]
    graph = karate()
    split = published_split(graph, seed=0)
    advice = SGC(C=0.1).recheck(graph, split.labeled, split.pool, flips=2, verify=2)
    assert frame["sgc verify=0", 2] == pytest.approx(advice.before)
    assert frame["sgc verify=2", 2] == pytest.approx(advice.after[-1])
    assert frame["random", 2] <= frame["sgc verify=2", 2]
    with pytest.raises(InvalidInput, match="leave out parts or verify"):
        expand(parse_study(text.replace("verify = [0, 2]", "verify = 2\nparts = 2"), name="verify"))
    with pytest.raises(InvalidInput, match="verify must be at most the number of labels"):
        expand(parse_study(text.replace("[0, 2]", "99"), name="verify"))


def test_studies_of_our_own_can_be_read() -> None:
    for name in MORE:
        study = find_study(name)
        assert study.models
        assert study.title
