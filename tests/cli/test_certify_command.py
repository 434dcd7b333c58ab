from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.helpers.command_line import Call, run
from tests.helpers.local_data import ROOT

import labelcert
from labelcert.certificate import Stop
from labelcert.cli import command_certify as certify_module
from labelcert.engines.registry import engine_names
from labelcert.graphs import Graph, karate
from labelcert.pipeline import CertifiedTargets, certify_targets


def test_demo_prints_both_tables_and_saves(tmp_path: Path) -> None:
    out = tmp_path / "demo.cert"
    result = run("demo", "--labels", "10", "--nodes", "4", "--out", str(out))
    assert result.returncode == 0, result.stderr
    assert "Fewest flipped labels" in result.stdout
    assert "Predictions that provably survive" in result.stdout
    assert "\x1b[" not in result.stdout
    shown = run("show", str(out))
    assert shown.returncode == 0
    assert shown.stdout == result.stdout


def test_a_solvers_claims_are_shown_and_trusted_on_request(call: Call, tmp_path: Path) -> None:
    asked = ("certify", "karate", "--model", "sgc", "--engine", "milp-paper", "--max-flips", "1", "--test", "0,23")
    code, shown, _ = call(*asked, "--no-pictures", "--out", "o")
    assert code == 0
    assert "≥ 1 (≥ 2 claimed by the solver)" in shown
    assert "0 to 2 (at most 0 claimed by the solver)" in shown
    assert "intervals (finished; claimed by the solver: 2 of 2 radii, 1 of 2 curve points)" in shown
    assert "radius_claimed" in (tmp_path / "o" / "sgc-own-nodes.csv").read_text()
    assert "changed_claimed" in (tmp_path / "o" / "sgc-own-budgets.csv").read_text()
    code, shown, _ = call(*asked, "--no-pictures", "--trust-solver", "--out", "o")
    assert code == 0
    assert "≥ 2 (trusting the solver)" in shown
    assert "0 (trusting the solver)" in shown
    assert "exact, trusting the solver; engine milp-paper" in shown
    assert "a trusted solver" in (tmp_path / "o" / "sgc-own-nodes.csv").read_text()
    assert "a trusted solver" in (tmp_path / "o" / "sgc-own-budgets.csv").read_text()
    code, printed, _ = call(*asked, "--json")
    assert code == 0
    [cert] = json.loads(printed)["results"][0]["certificates"]
    assert cert["settings"]["trust_solver"] is cert["exact"] is False
    assert [(row["radius_lower"], row["radius_claimed"]) for row in cert["nodes"]] == [(1, 2), (1, 2)]
    assert [(row["changed_upper"], row["changed_claimed"]) for row in cert["budgets"]] == [(0, 0), (2, 0)]


def test_errors_are_one_line_with_exit_codes(tmp_path: Path) -> None:
    missing = run("show", str(tmp_path / "nothing"))
    assert missing.returncode == 2
    assert missing.stderr.count("\n") == 1
    assert "Traceback" not in missing.stderr
    most = ",".join(str(node) for node in range(1, 33))
    large = run("certify", "karate", "--labeled", most, "--C", "50", "--engine", "enumerate", "--beside", "none")
    assert large.returncode == 3
    assert "--max-flips " in large.stderr
    assert run("demo", "--labels", "many").returncode == 2


def test_selfcheck_command() -> None:
    result = run("selfcheck", "--problems", "5", "--largest", "5")
    assert result.returncode == 0
    assert result.stdout == "5 problems, every engine against brute force: 0 contradictions\n"
    alone = run("selfcheck", "--problems", "2", "--largest", "4", "--seed", "3", "--first", "17", "--workers", "2")
    assert alone.returncode == 0
    assert alone.stdout.startswith("2 problems")
    assert run("selfcheck", "--workers", "0").returncode == 2


def test_karate_end_to_end_when_piped(tmp_path: Path) -> None:
    result = run("certify", "karate", "--model", "gcn", "--pictures", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert "\x1b[" not in result.stdout
    assert "…" not in result.stdout  # no column is cut
    # Figure 1: one flip, GCN beside SGC.
    compared = result.stdout[result.stdout.index("Compared:") :]
    assert "1 0.0 % 53.8 % 46.1 % 80.7 %" in squeezed(compared)
    assert "labelcert-out" in result.stderr.splitlines()[-1]  # below what long work says now and then
    assert "gcn, all 26 unlabelled nodes" in result.stdout
    pictures = {path.name for path in (tmp_path / "labelcert-out").iterdir()}
    kinds = ("ratio", "radius", "graph", "takeovers-gcn", "takeovers-sgc")
    assert pictures == {f"{kind}-all.{end}" for kind in kinds for end in ("png", "svg")}


def test_out_writes_certificates_tables_and_pictures(call: Call, tmp_path: Path) -> None:
    code, _, err = call("certify", "karate", "--model", "gcn", "--beside", "none", "--out", "deep/results", "-q")
    assert (code, err) == (0, "")
    folder = tmp_path / "deep" / "results"
    cert = labelcert.load(folder / "gcn-all.cert")
    assert cert.collective_lower[1] == 14
    assert set(cert.classes.tolist()) == {"Mr. Hi", "Officer"}
    assert cert.test_names is not None
    heading, *rows = (folder / "gcn-all-nodes.csv").read_text().splitlines()
    assert len(rows) == 26
    assert {"runner_up", "becomes", "radius_upper"} <= set(heading.split(","))
    assert "radius_claimed" not in heading  # nothing is claimed
    assert len((folder / "gcn-all-budgets.csv").read_text().splitlines()) == 10
    assert (folder / "graph-all.png").stat().st_size > 10_000


def test_json_is_the_certificate(call: Call, tmp_path: Path) -> None:
    code, out, _ = call("certify", "karate", "--model", "gcn", "--seed", "1", "--json")
    assert code == 0
    answer = json.loads(out)
    assert list(tmp_path.iterdir()) == []
    assert answer["seed"] == 1
    assert len(answer["labeled"]) == 8
    [result] = answer["results"]
    assert (result["model"], result["options"]["C"]) == ("gcn", 0.001)
    [cert] = result["certificates"]
    assert cert["exact"]
    assert len(cert["nodes"]) == 26
    assert [row["flips"] for row in cert["budgets"]] == list(range(9))
    first = cert["nodes"][0]
    assert set(first["flips"]) <= {row["node"] for row in answer["labeled"]}
    assert first["radius_lower"] == len(first["flips"])
    assert cert["classes"] == ["Mr. Hi", "Officer"]
    assert "positive_class" not in cert
    assert {first["prediction"], first["runner_up"]} == set(cert["classes"])
    assert first["becomes"] == first["runner_up"]
    changed = [row for row in cert["nodes"] if 0 < row["radius_upper"] < cert["never"]]
    assert sum(entry["nodes"] for entry in cert["takeovers"]) == len(changed)


def test_json_with_open_intervals(call: Call) -> None:
    code, out, _ = call("certify", "csbm", "--C", "5", "--engine", "enumerate", "--time-limit", "0.001", "--json")
    assert code == 0
    answer = json.loads(out)
    [cert] = answer["results"][0]["certificates"]
    assert not cert["exact"]
    assert cert["stopped"] == "time limit"
    assert any(row["flips"] is None for row in cert["nodes"])


def test_interrupted_runs_print_what_is_proved(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    def stopped(*arguments: Any, **options: Any) -> list[CertifiedTargets]:
        [result] = certify_targets(*arguments, **options)
        cert = result.certificate
        return [replace(result, certificate=replace(cert, run=replace(cert.run, stopped=Stop.INTERRUPTED)))]

    monkeypatch.setattr(certify_module, "certify_targets", stopped)
    code, out, err = call("certify", "karate", "-m", "gcn", "-m", "sgc", "--json")
    assert code == 130
    assert len(json.loads(out)["results"]) == 1
    assert err == "interrupted: what was proved until then is shown\n"


def test_ctrl_c_elsewhere_has_its_exit_code(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(certify_module.inputs, "choose_model", interrupt)
    code, _, err = call("certify", "karate")
    assert code == 130
    assert err.strip() == "interrupted"


def test_models_compared_take_the_options_they_have(call: Call) -> None:
    code, out, _ = call(
        "certify", "karate", "-m", "gcn", "-m", "appnp", "--alpha", "0.2", "--C", "1", "--test", "0,33", "--json"
    )
    assert code == 0
    options = [result["options"] for result in json.loads(out)["results"]]
    assert "alpha" not in options[0]
    assert options[1]["alpha"] == 0.2
    assert [choice["C"] for choice in options] == [1.0, 1.0]


def test_budget_split_and_inductive(call: Call) -> None:
    code, out, _ = call(
        *("certify", "karate", "--labeled", "0,1,32,33", "--test", "2,8", "--inductive", "--C", "0.5"),
        *("--max-fraction", "0.5", "--json"),
    )
    assert code == 0
    answer = json.loads(out)
    [cert] = answer["results"][0]["certificates"]
    assert answer["inductive"]
    assert (cert["test"], cert["max_flips"]) == ("own", 2)
    assert [row["index"] for row in cert["nodes"]] == [2, 8]


def test_npz_and_parameters(call: Call, tmp_path: Path) -> None:
    graph = karate()
    path = replace(graph, name="club").to_npz(tmp_path / "club.npz")
    code, out, _ = call("certify", str(path), "--per-class", "2", "--C", "0.001", "--json")
    assert code == 0
    assert json.loads(out)["results"][0]["certificates"][0]["budgets"][1]["changed_lower"] == 14
    code, out, _ = call("certify", "karate", "-p", "weighted=true", "--json")
    assert json.loads(out)["results"][0]["certificates"][0]["budgets"][1]["changed_lower"] == 13


def test_every_option_of_every_model_can_be_given(call: Call) -> None:
    code, out, _ = call(
        "certify", "karate", "-m", "rbf", "-m", "linear", "--gamma", "0.5", "--bias", "--C", "1", "--json"
    )
    assert code == 0
    rbf, linear = (result["options"] for result in json.loads(out)["results"])
    assert (rbf["gamma"], linear["bias"]) == (0.5, True)


def test_activations_and_images_are_options_that_records_keep(call: Call, tmp_path: Path) -> None:
    given = ("--activation", "tanh", "--image", "17", "2", "1", "--pooling", "flatten", "--filter", "1", "--C", "0.1")
    code, out, _ = call("certify", "karate", "-m", "gcn", "-m", "cnn", *given, "--json", "--out", str(tmp_path))
    assert code == 0
    gcn, cnn = (result["options"] for result in json.loads(out)["results"])
    assert gcn["activation"] == cnn["activation"] == "tanh"
    assert (cnn["image"], cnn["pooling"], cnn["filter"]) == ([17, 2, 1], "flatten", 1)
    for path in tmp_path.glob("*.cert"):
        code, out, _ = call("verify", str(path))
        assert (code, "activation='tanh'" in labelcert.load(path).run.model) == (0, True)


def test_collective_test_of_random_graphs_takes_all_nodes(call: Call) -> None:
    code, out, _ = call("certify", "csbm", "--test", "collective", "--max-flips", "1", "--json")
    assert code == 0
    result = json.loads(out)["results"][0]
    assert result["certificates"][0]["n_test"] == 180
    assert (result["options"]["C"], result["C_from"]) == (0.001, "paper")


def test_cross_validation(call: Call) -> None:
    code, out, _ = call("certify", "karate", "--C", "cv", "--rule", "smallest", "--json")
    assert code == 0
    assert json.loads(out)["results"][0]["C_from"] == "cross-validation"


def test_poisoned_features(call: Call) -> None:
    asked = ("certify", "karate", "--model", "gcn", "--max-flips", "1", "--beside", "none", "--json")
    found = []
    for more in ((), ("--radius", "0"), ("--radius", "0.002"), ("--radius", "1", "--norm", "0")):
        code, printed, _ = call(*asked, *(("--poison-features", "labeled", *more) if more else ()))
        assert code == 0
        [result] = json.loads(printed)["results"]
        found.append([row["radius_lower"] for row in result["certificates"][0]["nodes"]])
    assert found[0] == found[1]
    assert sum(found[1]) >= sum(found[2]) > sum(found[3])
    code, printed, _ = call(*asked, "--poison-features", "10%", "--radius", "0.001")
    assert code == 0
    assert "features of 3 nodes may change by 0.001 in the inf-norm" in printed


def test_groups_and_their_budgets(call: Call, tmp_path: Path) -> None:
    nodes = [row["node"] for row in json.loads(call("certify", "karate", "--json")[1])["labeled"]]
    (tmp_path / "groups.csv").write_text("node,group\n" + "".join(f"{node},alice\n" for node in nodes))
    code, out, _ = call("certify", "karate", "--groups", "groups.csv", "--group-budget", "alice=0", "--json")
    assert code == 0
    [cert] = json.loads(out)["results"][0]["certificates"]
    assert cert["budgets"][-1]["changed_upper"] == 0
    assert cert["nodes"][0]["radius_upper"] == cert["never"]


def write(folder: Path) -> None:
    """Small files, good and bad, that the tests below name."""
    texts = {
        "edges.csv": "source,target\na,b\nb,c\nc,d\nd,a\n",
        "labels.csv": "node,label\na,x\nb,y\n",
        "three.csv": "node,label\na,x\nb,y\nc,z\n",
        "unknown.csv": "node,label\na,x\nzoe,y\n",
        "all.csv": "node,label\na,x\nb,y\nc,x\nd,y\n",
        "words.csv": "node,size\na,1\nb,two\nc,3\nd,4\n",
        "costs.csv": "node,cost\na,some\n",
        "stranger.csv": "node,cost\nzoe,1\n",
        "twice.csv": "node,cost\na,1\na,2\n",
        "columns.csv": "who,price\na,1\n",
        "empty.csv": "",
        "groups.csv": "node,group\na,alice\n",
        "notes.txt": "# nothing\n",
    }
    for name, text in texts.items():
        (folder / name).write_text(text)
    (folder / "binary.csv").write_bytes(bytes(range(128, 256)) * 8)
    (folder / "broken.npz").write_bytes(b"no archive")
    (folder / "occupied").write_text("a file where a folder should be")


OWN = ("--edges", "edges.csv", "--labels", "labels.csv", "--C", "1")


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        ((), 2, "expected the name of a dataset"),
        (("karte",), 2, "did you mean 'karate'"),
        (("karate", "--edges", "edges.csv"), 2, "leave one out"),
        (("--labels", "labels.csv"), 2, "--edges or --features"),
        (("missing.npz",), 2, "missing.npz"),
        (("broken.npz",), 2, "broken.npz"),
        (("karate", "--model", "gcnn"), 2, "did you mean 'gcn'"),
        (("karate", "--beside", "gcnn"), 2, "did you mean 'gcn'"),
        (("karate", "--alpha", "0.1"), 2, "no model that was asked for has the option 'alpha'"),
        (("karate", "--depth", "0"), 2, "depth must be"),
        (("karate", "--radius", "0.1"), 2, "and --radius belong together"),
        (("karate", "--poison-features", "x%", "--radius", "0.1"), 2, "a share between 0% and 100%"),
        (("karate", "--poison-features", "nobody", "--radius", "0.1"), 2, "no such node"),
        (("karate", "--poison-features", "all", "--radius", "-1"), 2, "radius must be"),
        (("karate", "--poison-features", "all", "--radius", "1", "--width", "64"), 2, "leave out --poison-features"),
        (("karate", "--depth", "deep"), 2, "'deep' is not a valid integer"),
        (("karate", "--activation", "sine"), 2, "sine"),
        (("karate", "--C", "much"), 2, "--C must be a positive number or cv"),
        (("karate", "--C", "-1"), 2, "C must be a positive finite number"),
        (("karate", "-p", "weighted"), 2, "NAME=VALUE"),
        (("karate", "-p", "wait=true"), 2, "'wait'"),
        (("karate", "--seed", "-1"), 2, "seed"),
        (("karate", "--per-class", "9"), 2, "lower --per-class"),
        (("karate", "--per-class", "2", "--labeled", "0,33"), 2, "not both"),
        (("karate", "--labeled", "0,99"), 2, "'99'"),
        (("karate", "--labeled", "notes.txt"), 2, "at least one node for --labeled"),
        (("karate", "--labeled", "0,1", "--C", "1"), 2, "labels must hold at least two classes"),
        (("karate", "--labeled", "0,33", "--model", "appnp"), 2, "give C as a number"),
        (("karate", "--test", "all,0"), 2, "'all'"),
        (("karate", "--labeled", "0,33", "--test", "0", "--C", "1"), 2, "must not be labelled"),
        (("karate", "--max-flips", "99"), 2, "--max-flips"),
        (("karate", "--max-flips", "1", "--max-fraction", "0.1"), 2, "not both"),
        (("karate", "--max-fraction", "2"), 2, "between 0 and 1"),
        (("karate", "--trusted", "0"), 2, "is not labelled"),
        (("karate", "--trusted", "nobody"), 2, "'nobody'"),
        (("karate", "--allow", "Officer"), 2, "--allow must be written"),
        (("karate", "--allow", "Officer->Boss"), 2, "'Boss'"),
        (("karate", "--costs", "absent.csv"), 2, "no file absent.csv"),
        (("karate", "--costs", "columns.csv"), 2, "expected the columns 'node' and 'cost'"),
        (("karate", "--costs", "empty.csv"), 2, "an empty file"),
        (("karate", "--costs", "binary.csv"), 2, "cannot be read"),
        (("karate", "--group-budget", "1"), 2, "--group-budget needs groups"),
        ((*OWN, "--group-budget", "alice"), 2, "--group-budget must be"),
        ((*OWN, "--groups", "groups.csv", "--group-budget", "bob=1"), 2, "'bob'"),
        ((*OWN, "--costs", "costs.csv"), 2, "positive number"),
        ((*OWN, "--costs", "stranger.csv"), 2, "'zoe'"),
        ((*OWN, "--costs", "twice.csv"), 2, "one row per node"),
        (("karate", "--engine", "magic"), 2, "magic"),
        (("karate", "--loss", "log"), 2, "log"),
        (("karate", "--time-limit", "-1"), 2, "--time-limit"),
        (("karate", "--workers", "0"), 2, "workers"),
        (("karate", "--nodes", "-1"), 2, "is not in the range x>=0"),
        (("karate", "--out", "occupied"), 2, "occupied"),
        (("karate", "--nonsense"), 2, "--nonsense"),
        (("--edges", "edges.csv", "--labels", "unknown.csv"), 2, "zoe"),
        (("--edges", "edges.csv", "--labels", "absent.csv"), 2, "absent.csv"),
        (("--edges", "binary.csv"), 2, "binary.csv"),
        (("--edges", "edges.csv", "--features", "words.csv", "--labels", "labels.csv"), 2, "two"),
        (("--edges", "edges.csv", "--source-column", "from"), 2, "from"),
        (("--edges", "edges.csv"), 2, "label"),
        (("--edges", "edges.csv", "--labels", "all.csv", "--labeled", "a,b,c,d", "--C", "1"), 2, "none is left"),
        (("cora-ml-b", "--data-dir", "nowhere"), 3, "--data-dir"),
        (("csbm", "--per-class", "40", "--C", "10", "--engine", "enumerate"), 3, "--max-flips "),
    ],
    ids=lambda value: " ".join(value)[:60] if isinstance(value, tuple) else None,
)
def test_bad_input(call: Call, tmp_path: Path, arguments: tuple[str, ...], code: int, message: str) -> None:
    write(tmp_path)
    found, out, err = call("certify", *arguments)
    assert found == code, err
    assert message in err
    assert out == ""
    [said] = [line for line in err.splitlines() if not line.startswith("compiling for this machine")]
    assert said.startswith("labelcert: ")


def test_no_download_without_a_network(call: Call, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("LABELCERT_MIRROR", "http://127.0.0.1:9")
    for variable in ("XDG_CACHE_HOME", "LOCALAPPDATA", "HOME"):
        monkeypatch.setenv(variable, str(tmp_path / "home"))
    (tmp_path / "data").mkdir()
    code, _, err = call("certify", "cora-ml-b", "--data-dir", "data")
    assert code == 3
    assert err.count("\n") == 1


def test_alone_it_prints_its_help(call: Call) -> None:
    code, out, _ = call()
    assert code == 0
    assert "Commands:" in out


def test_listings(call: Call) -> None:
    code, out, _ = call("datasets")
    assert code == 0
    assert "cora-ml-b" in out
    names = [row["name"] for row in json.loads(call("datasets", "--json")[1])]
    assert names[0] == "karate"
    code, out, _ = call("models")
    assert code == 0
    assert "gcn-skip-alpha" in out
    options = {row["name"]: row["options"] for row in json.loads(call("models", "--json")[1])}
    assert options["appnp"]["alpha"] == 0.1


@pytest.mark.parametrize(
    "command", [(), ("certify",), ("study",), ("datasets",), ("models",), ("show",), ("demo",), ("selfcheck",)]
)
def test_help(call: Call, command: tuple[str, ...]) -> None:
    code, out, _ = call(*command, "--help")
    assert code == 0
    _, _, below = out.partition("\n")
    assert not re.search(r"[.]{3}$|…", below, re.MULTILINE)  # whole sentences
    assert "Usage: " in out
    if command == ("certify",):
        assert "labelcert certify karate --model gcn" in out


def test_a_reader_that_goes_away(tmp_path: Path) -> None:
    code = "from labelcert.cli import main; main()"
    process = subprocess.Popen(
        [sys.executable, "-c", code, "certify", "karate", "--no-pictures", "-q", "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=tmp_path,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    assert process.stderr.read() == b""
    process.stderr.close()
    assert process.wait(timeout=120) == 0


def test_files_are_complete_when_the_reader_goes_away(tmp_path: Path) -> None:
    """As in `labelcert certify karate --out o | head -1`."""
    code = "from labelcert.cli import main; main()"
    with subprocess.Popen(
        [sys.executable, "-c", code, "certify", "karate", "--out", "o"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=tmp_path,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert b"karate" in process.stdout.readline()
        process.stdout.close()
        errors = process.stderr.read().decode()
        assert process.wait(timeout=120) == 0, errors
        assert "Traceback" not in errors
    names = {path.name for path in (tmp_path / "o").iterdir()}
    files = {f"{model}-all{end}" for model in ("gcn", "sgc") for end in (".cert", "-nodes.csv", "-budgets.csv")}
    kinds = ("ratio", "radius", "graph", "takeovers-gcn", "takeovers-sgc")
    assert names == files | {f"{kind}-all.{end}" for kind in kinds for end in ("png", "svg")}
    assert labelcert.load(tmp_path / "o" / "sgc-all.cert").exact


def test_engines_are_those_that_there_are(call: Call) -> None:
    code, out, _ = call("engines")
    assert code == 0
    assert all(f"\n{name}  " in out for name in engine_names())
    code, out, _ = call("losses")
    assert code == 0
    assert all(f"\n{name}  " in out for name in ("hinge", "cross_entropy"))
    code, _, err = call("certify", "karate", "--engine", "magic")
    assert code == 2
    assert all(repr(name) in err for name in engine_names())


def squeezed(printed: str) -> str:
    """One blank between words, so that tables of any width are alike."""
    return "\n".join(" ".join(line.split()) for line in printed.splitlines())


def page_blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", page, flags=re.DOTALL)


def test_bring_your_own_graph_page(call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = (ROOT / "docs" / "bring-your-own-graph.md").read_text(encoding="utf-8")
    for name, text in re.findall(r"`(\w+\.csv)`:\n\n```csv\n(.*?)```", page, flags=re.DOTALL):
        (tmp_path / name).write_text(text)
    commands = [block.strip().removeprefix("$ ") for block in page_blocks(page, "console")]
    assert len(commands) == 3
    printed = ""
    for command in commands:
        program, *arguments = shlex.split(command)
        assert program == "labelcert"
        code, out, err = call(*arguments)
        assert code == 0, err
        printed += squeezed(out + err)
    for row in "".join(page_blocks(page, "text")).splitlines():
        assert squeezed(row) in printed
    for name in ("gcn-all.cert", "gcn-all-nodes.csv", "gcn-all-budgets.csv", "graph-all.png", "graph-all.svg"):
        assert f"`{name}`" in page or name.startswith("graph")
        assert (tmp_path / "results" / name).is_file()
    [example] = page_blocks(page, "python")
    scope: dict[str, Any] = {}
    exec(example, scope)
    saved = labelcert.load(tmp_path / "results" / "gcn-all.cert")
    assert np.array_equal(scope["certificate"].radius_lower, saved.radius_lower)


def test_start_page(call: Call, tmp_path: Path) -> None:
    page = (ROOT / "docs" / "start.md").read_text(encoding="utf-8")
    for name, text in re.findall(r"`(\w+\.csv)`:\n\n```csv\n(.*?)```", page, flags=re.DOTALL):
        (tmp_path / name).write_text(text)
    lines = [line.removeprefix("$ ") for block in page_blocks(page, "console") for line in block.splitlines()]
    printed = ""
    for program, *arguments in map(shlex.split, lines):
        if program == "labelcert":
            code, out, err = call(*arguments)
            assert code == 0, err
            printed += squeezed(out)
    # What Python prints is checked with all pages.
    blocks = re.findall(r"```console\n(?:(?!```).)*```\n\n(?:(?!```)[^\n]*\n)*```text\n(.*?)```", page, flags=re.DOTALL)
    rows = [squeezed(row) for block in blocks for row in block.splitlines()]
    assert len(rows) > 10
    for row in rows:
        assert re.sub(r"in [\d.]+ s$", "", row) in printed
    assert (tmp_path / "first" / "graph-all.png").is_file()
    # The same in Python.
    scope: dict[str, object] = {}
    for block in page_blocks(page, "python"):
        exec(block, scope)
    _, shown, _ = call(*shlex.split(next(line for line in lines if "accounts.html" in line))[1:-2], "--json")
    [certified] = json.loads(shown)["results"][0]["certificates"]
    assert [row["radius_lower"] for row in certified["nodes"]] == scope["cert"].radius_lower.tolist()
    graph = karate()
    split = labelcert.published_split(graph, seed=0, per_class=4)
    for name, model in (("gcn", labelcert.models.GCN(C=10.0)), ("appnp", labelcert.models.APPNP(C=10.0))):
        saved = labelcert.load(tmp_path / "first" / f"{name}-all.cert")
        assert np.array_equal(saved.radius_lower, model.certify(graph, split.labeled, split.pool).radius_lower)
    owned = labelcert.graph_from_files("edges.csv", features="features.csv", labels="labels.csv")
    nodes = owned.labels >= 0, owned.labels < 0
    for advice in (
        labelcert.models.GCN().recheck(owned, *nodes, flips=1, confirm=2),
        labelcert.models.GCN(C=10.0).recheck(graph, split.labeled, split.pool, flips=2, confirm=3),
    ):
        assert all(re.search(rf"^\d {name} ", printed, re.MULTILINE) for name in advice.names)


def test_own_graph_that_is_called_like_a_dataset(call: Call, tmp_path: Path) -> None:
    graph: Graph = karate()
    rows, columns = graph.adjacency.nonzero()
    lines = [f"{i},{j}\n" for i, j in zip(rows, columns, strict=True) if i < j]
    (tmp_path / "karate.csv").write_text("source,target\n" + "".join(lines))
    (tmp_path / "labels.csv").write_text("node,label\n0,in\n1,in\n32,out\n33,out\n")
    code, out, _ = call("certify", "--edges", "karate.csv", "--labels", "labels.csv", "--C", "1", "--json")
    assert code == 0
    answer = json.loads(out)
    assert answer["graph"]["name"] == "karate.csv"
    assert len(answer["labeled"]) == 4


def test_cora_ml_b_with_both_sets_of_nodes(call: Call, dataset_folder: Path) -> None:
    code, out, _ = call(
        *("certify", "cora-ml-b", "--model", "gcn", "--variant", "published", "--max-flips", "2"),
        *("--data-dir", str(dataset_folder), "--json"),
    )
    assert code == 0
    [result] = json.loads(out)["results"]
    assert (result["options"]["C"], result["C_from"]) == (0.075, "paper")
    everything, some = result["certificates"]
    assert (everything["test"], some["test"]) == ("all", "collective")
    assert (everything["n_test"], some["n_test"]) == (1215, 50)
    radius = {row["node"]: row["radius_lower"] for row in everything["nodes"]}
    assert all(radius[row["node"]] == row["radius_lower"] for row in some["nodes"])


def test_three_classes_of_ones_own(call: Call, tmp_path: Path) -> None:
    graph: Graph = karate()
    rows, columns = graph.adjacency.nonzero()
    lines = [f"{i},{j}\n" for i, j in zip(rows, columns, strict=True) if i < j]
    (tmp_path / "edges.csv").write_text("source,target\n" + "".join(lines))
    (tmp_path / "labels.csv").write_text("node,label\n0,in\n1,in\n32,out\n33,out\n5,new\n6,new\n")
    own = ("certify", "--edges", "edges.csv", "--labels", "labels.csv")
    code, out, _ = call(*own, "--C", "1", "--json")
    assert code == 0
    [cert] = json.loads(out)["results"][0]["certificates"]
    assert (cert["classes"], cert["max_flips"], cert["exact"]) == (["in", "new", "out"], 6, True)
    assert "positive_class" not in cert
    changed = [row for row in cert["nodes"] if row["radius_upper"] < cert["never"]]
    assert sum(entry["nodes"] for entry in cert["takeovers"]) == len([row for row in changed if row["radius_upper"]])
    assert all(row["becomes"] != row["prediction"] for row in changed)
    code, out, err = call(*own, "--max-flips", "1", "--out", "results", "--all", "-q")
    assert (code, err) == (0, "")
    assert "What predictions become within 1 flips" in out
    assert (tmp_path / "results" / "takeovers-gcn-all.png").is_file()
    assert labelcert.load(tmp_path / "results" / "gcn-all.cert").n_classes == 3
    code, out, _ = call(*own, "--C", "1", "--engine", "relaxed", "--no-pictures", "-q")
    assert code == 0
    assert "lower bounds; engine relaxed" in out


def test_citeseer_on_the_nodes_of_the_paper(call: Call, dataset_folder: Path) -> None:
    code, out, _ = call(
        *("certify", "citeseer", "--model", "gcn", "--variant", "published", "--max-flips", "1"),
        *("--data-dir", str(dataset_folder), "--json"),
    )
    assert code == 0
    [result] = json.loads(out)["results"]
    [cert] = result["certificates"]
    assert (result["options"]["C"], cert["test"], cert["n_test"], cert["n_labels"]) == (1e-4, "multi-class", 50, 120)
    assert [row["accuracy_lower"] for row in cert["budgets"]] == [0.7, 0.14]
    assert cert["exact"]


def test_parts(call: Call, tmp_path: Path) -> None:
    asked = ("certify", "karate", "--model", "sgc", "--C", "0.5", "--parts", "3", "--combine", "votes", "--no-pictures")
    code, shown, _ = call(*asked, "--out", "o")
    assert code == 0
    assert "engine partition (votes)" in shown
    saved = labelcert.load(tmp_path / "o" / "sgc-3-parts-votes-all.cert")
    graph = karate()
    split = labelcert.published_split(graph, seed=0)
    ensemble = labelcert.Partition(labelcert.SGC(C=0.5, normalization="row"), parts=3, combine="votes")
    cert = ensemble.certify(graph, split.labeled, split.pool)
    assert np.array_equal(saved.radius_lower, cert.radius_lower)
    code, printed, _ = call(*asked, "--part-flips", "1", "--max-flips", "3", "--json")
    assert code == 0
    [certificate] = json.loads(printed)["results"][0]["certificates"]
    assert certificate["settings"]["stages"][0]["statistics"]["part_flips"] == 1
    assert call(*asked, "--engine", "milp")[0] == 2
    assert call("certify", "karate", "--part-flips", "1")[0] == 2
    assert call("certify", "karate", "--parts", "9")[0] == 2


def test_help_shows_what_matters_first(call: Call) -> None:
    code, shown, _ = call("certify", "--help-all")
    assert code == 0
    headings = re.findall(r"^([A-Z][\w ]+):$", shown, re.MULTILINE)
    assert headings[:8] == [
        *("The options that matter most", "Your tables and datasets", "Models", "Nodes", "The adversary"),
        *("What is asked", "How it is computed", "Output"),
    ]
    first = shown.split("Your tables and datasets")[0]
    assert first.count("\n  -") == 10
    code, short, _ = call("certify", "--help")
    assert code == 0
    assert first in short
    assert short.count("\n  -") == 10
    assert "--help-all" in short
    assert max(map(len, shown.splitlines())) <= 110


def test_errors_speak_of_options(call: Call) -> None:
    for given, expected in (
        (("--max-flips", "99"), "labelcert: --max-flips must be a whole number between 0 and 8"),
        (("--group-budget", "1"), "labelcert: --group-budget needs groups: give the group of each label as --groups"),
        (("--C", "-1"), "C must be a positive"),
    ):
        code, _, said = call("certify", "karate", *given)
        assert code == 2
        assert expected in said
    Path("edges.csv").write_text("source,target\na,b\nb,c\nc,d\n")
    Path("labels.csv").write_text("node,class\na,x\nd,y\n")
    code, _, said = call("certify", "--edges", "edges.csv", "--labels", "labels.csv")
    assert said.endswith("say which one it is as --label NAME\n")
    code, _, said = call("certify", "edges.csv")
    assert "give the edges of a graph as --edges" in said


def test_groups_from_the_label_table(call: Call) -> None:
    Path("edges.csv").write_text("source,target\na,b\nb,c\nc,d\nd,e\na,b\n")
    Path("labels.csv").write_text("node,label,annotator\na,x,ann\nb,x,bob\nd,y,ann\ne,y,bob\n")
    own = ("certify", "--edges", "edges.csv", "--labels", "labels.csv", "--no-pictures")
    code, _, said = call(*own)
    assert (code, "--fix" in said) == (2, True)
    code, shown, said = call(*own, "--fix", "--group-column", "annotator", "--group-budget", "ann=0")
    assert code == 0
    assert "left out a - b again in line 6" in said
    assert "cross-validated" in shown
    flips = [line.split()[0] for line in shown.splitlines() if re.match(r" +\d  ", line) and "%" in line]
    assert flips == ["0", "1"]  # two of the four labels are not Ann's, and nothing changes at 2
    code, _, said = call(*own, "--fix", "--group-column", "annotater")
    assert said.splitlines()[-1].endswith("say which one it is as --group-column NAME")


def test_all_problems_of_a_table_one_line_each(call: Call) -> None:
    Path("costs.csv").write_text("node,cost\n0,1\n99,1\n1,much\n0,2\n")
    code, _, said = call("certify", "karate", "--costs", "costs.csv")
    assert code == 2
    assert said.splitlines()[0] == "labelcert: 3 problems:"
    for line, number in zip(said.splitlines()[1:], (5, 3, 4), strict=True):
        assert f"line {number} of costs.csv" in line


def test_both_accuracies_are_printed(call: Call) -> None:
    code, shown, _ = call("certify", "karate", "--beside", "none", "--no-pictures")
    assert code == 0
    assert re.search(r"accuracy [\d.]+ %, cross-validated [\d.]+ %", shown)


@pytest.mark.parametrize("width", [50, 80, 120])
def test_tables_fit_the_terminal(width: int) -> None:
    script = "labelcert certify karate --model gcn --model sgc --model appnp --no-pictures -q"
    command = [sys.executable, "-c", "import pty, sys; sys.exit(pty.spawn(sys.argv[1:]))"]
    inner = [sys.executable, "-c", "from labelcert.cli import main; main()", *shlex.split(script)[1:]]
    done = subprocess.run(
        [*command, *inner],
        capture_output=True,
        text=True,
        timeout=200,
        check=True,
        env={**os.environ, "COLUMNS": str(width), "TERM": "xterm"},
    )
    lines = [re.sub(r"\x1b\[[\d;]*m", "", line) for line in done.stdout.splitlines()]
    assert len(lines) > 30
    assert max(len(line) for line in lines if "labelcert recheck" not in line) <= width


def test_a_reader_may_go_away(tmp_path: Path) -> None:
    code = "from labelcert.cli import main; main()"
    command = f"{sys.executable} -c '{code}' certify karate --no-pictures --out o | head -1"
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", command], capture_output=True, text=True, cwd=tmp_path, timeout=200
    )
    assert (done.returncode, done.stdout.count("\n")) == (0, 1)
    assert "Traceback" not in done.stderr
    assert list((tmp_path / "o").glob("*.cert"))


def test_votes_and_annotators(call: Call, tmp_path: Path) -> None:
    labels = {i: "fine" if i % 2 else "fraud" for i in range(12)}
    (tmp_path / "edges.csv").write_text("source,target\n" + "".join(f"{i},{(i + 2) % 24}\n" for i in range(24)))
    (tmp_path / "labels.csv").write_text("node,label,by\n" + "".join(f"{i},{c},{i % 3}\n" for i, c in labels.items()))
    votes = [(i, "abcd"[(i + k) % 4], c) for i, c in labels.items() for k in range(1 + i % 3)]
    (tmp_path / "votes.csv").write_text("node,annotator,label\n" + "".join(f"{i},{a},{c}\n" for i, a, c in votes))
    own = ("certify", "--edges", "edges.csv", "--labels", "labels.csv", "--model", "sgc", "--C", "1", "--no-pictures")
    for options, expected in (("--votes votes.csv", "abcd"), ("--annotator-column by", "012")):
        code, out, err = call(*own, *options.split(), "--max-annotators", "2", "-q")
        assert (code, err) == (0, "")
        table = squeezed(out[out.index("Annotators, by what they change alone") :])
        assert all(f"\n{name} " in table for name in expected)
        assert "Fewest annotators that change each prediction" in out
    asked = ("recheck", *own[1:-1], "--votes", "votes.csv", "--max-annotators", "1")
    for options, verb in (("--audit 2", "audit"), ("--confirm 2", "confirm")):
        code, out, err = call(*asked, *options.split(), "--report", "r.html", "-q")
        assert (code, err) == (0, "")
        assert verb in out
        assert "survive 1 annotator now" in out
    code, out, _ = call(*asked, "--audit", "2", "--json")
    assert (code, all("audit" in row for row in json.loads(out)["labels"])) == (0, True)
    code, _, err = call(*own, "--max-annotators", "2")
    assert code == 2
    assert "--max-annotators needs annotators" in err
    (tmp_path / "votes.csv").write_text("node,annotator,label\n0,a,fraud\n")
    code, _, err = call(*own, "--votes", "votes.csv")
    assert code == 2
    assert "has no vote in votes.csv" in err


def test_removed_labels(call: Call) -> None:
    code, out, err = call("certify", "karate", "--removal-only", "--max-flips", "2", "--beside", "none", "-q")
    assert (code, err) == (0, "")
    assert "Fewest removals that change each prediction" in out
    assert "→ removed" in out
    some = call(
        "certify", "karate", "--removable", "4,5", "--removal-only", "--max-flips", "2", "--beside", "none", "-q"
    )[1]
    assert "15 → removed" not in some
    code, _, err = call("certify", "karate", "--removable", "9", "--max-flips", "1")
    assert code != 0
    assert "--removable names the node '9', which is not labelled" in err
    assert call("recheck", "karate", "--removable", "all", "--flips", "1", "--confirm", "2", "-q")[0] == 0


def test_worst_values_of_metrics(call: Call, tmp_path: Path) -> None:
    (tmp_path / "edges.csv").write_text("source,target\na,b\nb,c\nc,d\nd,e\na,c\n")
    (tmp_path / "labels.csv").write_text("node,label\na,x\nb,x\nd,y\ne,y\n")
    (tmp_path / "truth.csv").write_text("node,label\nc,y\n")
    own = ("certify", "--edges", "edges.csv", "--labels", "labels.csv", "--no-pictures", "--metric", "accuracy")
    code, _, said = call(*own)
    assert code == 2
    assert "are not known; give them as --true-labels" in said
    code, shown, said = call(*own, "--true-labels", "truth.csv", "--json")
    assert code == 0, said
    assert '"lowest accuracy from": ' in shown
    code, shown, _ = call(
        "certify", "karate", "--metric", "recall", "--positive", "Mr. Hi", "--no-pictures", "--out", "o"
    )
    assert code == 0
    assert "lowest recall (Mr. Hi)" in shown
    assert "lowest recall (Mr. Hi) from" in (tmp_path / "o" / "gcn-all-budgets.csv").read_text()
    code, _, said = call(*own, "--positive", "x")
    assert code == 2
    assert "--positive is about recall" in said
