"""One GPU beside two CPU cores: the same certificates, from one run.

Run with ``python -m benchmarks.gpu --data-dir FOLDER`` on a machine with a GPU and ``labelcert[gpu]``. Times of the CPU
are measured where that takes less than 20 seconds; elsewhere they follow from a sample of labellings (marked ``~``).
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import numpy as np

from benchmarks.real import cora_ml_b
from labelcert import Certificate, certify, certify_partition
from labelcert.certification.places import walked_by
from labelcert.cli.printing import print_table, say
from labelcert.engines.base import Question
from labelcert.engines.cube.labellings import CubeTask, count_stops, cube_chunks, make_walk, seconds_per_stop
from labelcert.engines.enumerate import Enumerate
from labelcert.engines.gpu.device import devices
from labelcert.engines.gpu.pool import DeviceChunks
from labelcert.graphs import load_dataset, multi_class_targets
from labelcert.jobs.runner import run_plan
from labelcert.jobs.store import Store
from labelcert.paper.paper_studies import paper_study
from labelcert.pipeline import choose_model, choose_split
from labelcert.problem import Problem
from labelcert.report.tables import listing
from labelcert.studies.expansion import Graphs, expand

CORES = 2
WORTH_MEASURING = 20.0
"""Longest estimated time on the CPU that is measured."""

PAPER = ("cora-ml-b", "citeseer-b", "polblogs", "cora-b", "chameleon-b", "csbm", "cba")
UNCLAIMED = ("attack", "correct_after")
"""They depend on which of several equally strong attacks was found."""

Row = tuple[str, ...]


@click.command()
@click.option("--data-dir", type=click.Path(path_type=Path), help="Folder with local copies of the datasets.")
@click.option("--section", "names", multiple=True, help="Only these sections.")
def main(data_dir: Path | None, names: tuple[str, ...]) -> None:
    """Print one table for each section."""
    say(f"{devices()[0].name}; {CORES} CPU cores beside it")
    for name, section in SECTIONS.items():
        if not names or name in names:
            section(data_dir)


def cubes(data_dir: Path | None) -> None:
    """All labellings."""
    rows = [_rate(cora_ml_b(20, data_dir=data_dir, nodes=1, max_flips=20))]
    for m, nodes in ((20, 50), (20, None), (30, 50), (32, 50)):
        problem = (
            _cora_ml_b(m, data_dir) if nodes is None else cora_ml_b(m, data_dir=data_dir, nodes=nodes, max_flips=m)
        )
        rows.append(_beside(problem, f"all labellings of {m} labels, {problem.n_test} nodes"))
    _show("All labellings: every radius and the curve", rows)


def levels(data_dir: Path | None) -> None:
    """All sets of so many flips."""
    rows = []
    for m, flips in ((40, 5), (40, 8), (70, 4), (70, 5), (100, 3), (100, 4), (100, 5), (300, 2), (300, 3)):
        problem = cora_ml_b(m, data_dir=data_dir, nodes=50, max_flips=flips)
        rows.append(_beside(problem, f"{m} labels, up to {flips} flips, 50 nodes"))
    _show("All sets of flips: every radius and the curve", rows)


def classes(data_dir: Path | None) -> None:
    """Cora-ML with seven classes."""
    graph = load_dataset("cora-ml", data_dir=data_dir)
    split = choose_split(graph, seed=0)
    nodes = multi_class_targets(graph, split, seed=0)
    model = choose_model("gcn", graph, split.labeled, variant="exact").model
    K_train, K_test = model.kernel_blocks(graph, split.labeled, nodes)
    rows = []
    for flips, collective in ((3, True), (4, True), (5, False)):

        def run(device: str, workers: int | None, flips: int = flips, collective: bool = collective) -> Certificate:
            return certify(
                K_train,
                graph.labels[split.labeled],
                K_test,
                model.C,
                max_flips=flips,
                engine="enumerate",
                collective=collective,
                device=device,
                workers=workers,
            )

        gpu, gpu_seconds = _timed(lambda run=run: run("gpu", None))
        statistics = gpu.run.stages[0].statistics
        what = f"{len(split.labeled)} labels, 7 classes, up to {flips} flips" + ("" if collective else ", no curve")
        cpu: Row = ("", "")
        if flips <= 4:
            there, seconds = _timed(lambda run=run: run("cpu", CORES))
            cpu = (f"{seconds:.1f}", f"{seconds / gpu_seconds:.1f}")
            _compare(gpu, there)
        rows.append((what, f"{statistics['toggled_sets']:,}", f"{gpu_seconds:.2f}", *cpu, str(gpu.exact)))
        say(
            f"{what}: tables {statistics['seconds_for_tables']:.1f} s, radii {statistics['seconds_for_radii']:.1f} s, "
            f"curve {statistics['seconds_for_curve']:.1f} s"
        )
    _show("More than two classes (Cora-ML); sets are toggled sets", rows)


def parts(data_dir: Path | None) -> None:
    """An ensemble of a thousand parts."""
    rng = np.random.default_rng(0)
    count, size, nodes = 1000, 20, 200
    m = count * size
    centres = rng.normal(size=(m + nodes, 4))
    labels = (centres[:, 0] + 0.6 * rng.normal(size=m + nodes) > 0).astype(int)
    squares = np.sum(centres**2, axis=1)
    K = np.exp(-(squares[:, None] + squares[None, :m] - 2 * centres @ centres[:m].T) / 4)
    K[:m] = (K[:m] + K[:m].T) / 2
    np.fill_diagonal(K[:m], 1.0)
    rows = []
    for combine in ("mean", "votes"):
        options: dict[str, Any] = {"parts": count, "combine": combine, "max_flips": 60}
        cert, seconds = _timed(
            lambda options=options: certify_partition(K[:m], labels[:m], K[m:], 1.0, device="gpu", **options), once=True
        )
        trainings = cert.run.stages[0].statistics["trainings"]
        rows.append((f"{count:,} parts of {size} labels, {nodes} nodes, {combine}", f"{trainings:,}", f"{seconds:.1f}"))
        own = cert.run.stages[0].statistics["seconds"]
        say(f"{combine}: {own:.1f} of {seconds:.1f} s for tables, knapsack and attacks; {cert!r}")
    print_table(listing("Ensembles", ("what", "trainings", "GPU seconds"), rows))


def paper(data_dir: Path | None) -> None:
    """Every collective certificate of the paper, here and there."""
    rows = []
    for name in PAPER:
        plan = expand(paper_study(name), graphs=Graphs(data_dir))
        found = []
        for device in ("cpu", "gpu"):
            with tempfile.TemporaryDirectory() as folder, Store(Path(folder), write=True) as store:
                started = time.perf_counter()
                if device == "cpu":
                    run_plan(plan, store)
                else:
                    with walked_by(None, 1, "gpu"):
                        run_plan(plan, store, workers=1)
                seconds = time.perf_counter() - started
                done = {key: store.records[key] for key in plan.keys if store.done(key)}
                found.append(({key: _claims(record) for key, record in done.items()}, seconds))
        (here, _), (there, seconds) = found
        walked = sum(_enumerated(record) for record in done.values())
        differing = sum(here[key] != there.get(key) for key in here)
        rows.append((name, str(len(here)), str(walked), str(differing), f"{seconds:.1f}"))
        say(" ".join(rows[-1]))
    heads = ("study", "certificates", "of them by enumeration", "that differ", "seconds with the GPU, kernels included")
    print_table(listing("The paper's certificates on CPU and GPU", heads, rows))


def _claims(record: Any) -> dict[str, Any]:
    """What a certificate claims, without times and statistics."""
    return {key: value for key, value in record["result"].items() if key not in UNCLAIMED}


def _enumerated(record: Any) -> bool:
    return "enumerate" in str(record["result"].get("engine", ""))


SECTIONS: dict[str, Callable[[Path | None], None]] = {
    "cubes": cubes,
    "levels": levels,
    "classes": classes,
    "parts": parts,
    "paper": paper,
}


def _cora_ml_b(m: int, data_dir: Path | None) -> Problem:
    """With all nodes."""
    graph = load_dataset("cora-ml-b", data_dir=data_dir)
    split = choose_split(graph, seed=0)
    labeled = split.labeled[:m]
    nodes = np.setdiff1d(np.arange(graph.n_nodes), labeled)[:1200]
    model = choose_model("gcn", graph, labeled).model
    K_train, K_test = model.kernel_blocks(graph, labeled, nodes)
    return Problem.build(K_train, graph.labels[labeled], K_test, model.C, max_flips=m)


def _rate(problem: Problem) -> Row:
    """Trainings a second, proved, of the walk alone."""
    walk = make_walk(Question.ask(Enumerate().predictor(problem)))
    task = CubeTask(walk)
    pool = DeviceChunks(lambda: devices()[:1])
    chunk = next(cube_chunks(walk, 1 << 19))
    seconds = []
    for _ in range(20):
        started = time.perf_counter()
        pool.submit(task, [chunk], np.zeros(1, dtype=np.int8)).result()
        seconds.append((time.perf_counter() - started) / chunk.stops)
    best = min(seconds)
    pool.close()
    _, cpu_seconds = _timed(lambda: _certify(problem, "cpu", CORES))
    cpu = cpu_seconds / chunk.stops
    return (
        f"{problem.m} labels, 1 node: {1 / best:.3g} trainings a second",
        f"{chunk.stops:,}",
        f"{best * chunk.stops:.4f}",
        f"{cpu_seconds:.2f}",
        f"{cpu / best:.0f}",
        "",
    )


def _beside(problem: Problem, what: str) -> Row:
    question = Question.ask(Enumerate().predictor(problem))
    stops = count_stops(question, problem.max_flips)
    estimate = stops * seconds_per_stop(make_walk(question)) / CORES
    gpu, gpu_seconds = _timed(lambda: _certify(problem, "gpu", None))
    cpu_seconds, mark = estimate, "~"
    if estimate < WORTH_MEASURING:
        there, cpu_seconds = _timed(lambda: _certify(problem, "cpu", CORES), once=estimate > 5)
        mark = ""
        _compare(gpu, there)
    own = gpu.run.stages[0].statistics["seconds"]
    say(
        f"{what}: {own * 1e3:.1f} ms of {gpu_seconds * 1e3:.1f} for the walk; "
        f"doubts {gpu.run.stages[0].statistics['doubtful_labellings']}, {gpu!r}"
    )
    return (
        what,
        f"{stops:,.0f}",
        f"{gpu_seconds:.3f}",
        f"{mark}{cpu_seconds:,.1f}",
        f"{cpu_seconds / gpu_seconds:,.0f}",
        str(gpu.exact),
    )


def _certify(problem: Problem, device: str, workers: int | None) -> Certificate:
    return certify(
        problem.K_train,
        problem.codes,
        problem.K_test,
        problem.C,
        max_flips=problem.max_flips,
        engine="enumerate",
        device=device,
        workers=workers,
    )


def _timed(work: Callable[[], Certificate], once: bool = False) -> tuple[Certificate, float]:
    """The second of two runs: the first one compiles."""
    seconds = 0.0
    for _ in range(1 if once else 2):
        started = time.perf_counter()
        found = work()
        seconds = time.perf_counter() - started
        if seconds > 20:
            break
    return found, seconds


def _compare(one: Certificate, other: Certificate) -> None:
    for name in ("radius_lower", "radius_upper", "collective_lower", "collective_upper"):
        if not np.array_equal(getattr(one, name), getattr(other, name)):
            raise SystemExit(f"GPU and CPU disagree about {name}")


def _show(title: str, rows: list[Row]) -> None:
    heads = ("what", "labellings", "GPU seconds", f"CPU seconds ({CORES} cores)", "ratio", "exact")
    print_table(listing(title, heads, rows))


if __name__ == "__main__":
    main()
