"""The paper's mixed-integer program beside the compact one, with the same solver, and beside enumeration.

Run with ``python -m benchmarks.milp --data-dir FOLDER``: Cora-MLb, GCN, 20 labels.
"""

from __future__ import annotations

import time
import warnings
from dataclasses import replace
from pathlib import Path

import click
import numpy as np

from benchmarks.machine import facts
from benchmarks.real import cora_ml_b
from labelcert import certify
from labelcert.certificate import Verdict
from labelcert.cli.printing import print_table
from labelcert.engines.base import Findings, Question
from labelcert.engines.control import Control
from labelcert.engines.search import MilpWarning, PaperProgram, Search, relaxation
from labelcert.engines.search.judging import Judge
from labelcert.engines.search.programs import Program, compact_program, paper_program
from labelcert.engines.search.searching import Searching
from labelcert.engines.search.solvers import SOLVERS, get_solver
from labelcert.errors import LabelcertError
from labelcert.prediction import Sign
from labelcert.problem import Problem, Relabelling
from labelcert.report.tables import listing

M = 20
BUDGETS = (1, 2, 3)


@click.command()
@click.option("--data-dir", type=click.Path(path_type=Path), help="Folder with local copies of the datasets.")
@click.option("--nodes", default=3, show_default=True, help="Test nodes for the sample-wise part.")
@click.option("--node-limit", default=60.0, show_default=True, help="Seconds for one program.")
@click.option("--collective-limit", default=300.0, show_default=True, help="Seconds for a collective program.")
@click.option("--solver", "solvers", multiple=True, type=click.Choice(SOLVERS), default=("highs", "gurobi"))
def main(
    data_dir: Path | None, nodes: int, node_limit: float, collective_limit: float, solvers: tuple[str, ...]
) -> None:
    """Print both tables."""
    warnings.simplefilter("ignore", MilpWarning)
    machine = facts()
    click.echo(f"{machine['cpu']}, {machine['cores']} cores, load {machine['load_at_start']} at the start")
    problem = cora_ml_b(M, data_dir=data_dir, nodes=50, max_flips=max(BUDGETS))
    certify(problem.K_train, problem.labels, problem.K_test, problem.C, max_flips=1)  # compiled before the clock runs
    rows = []
    for name in solvers:
        try:
            get_solver(name)
        except LabelcertError as error:
            click.echo(f"{name} is left out: {error}")
            continue
        ratios: list[float] = []
        rows += [sample_wise(problem, name, budget, nodes, node_limit, ratios) for budget in BUDGETS]
        click.echo(f"{name}: the compact engine is {geometric_mean(ratios):.1f} times faster (geometric mean)")
        rows.append(collective(problem, name, collective_limit))
    print_table(
        listing(
            f"Cora-MLb, GCN, m = {M}: seconds (geometric mean over nodes; > : some undecided within the limit)",
            ("solver", "certificate", "paper's program", "compact program", "compact engine", "paper / compact engine"),
            rows,
        )
    )
    began = time.perf_counter()
    certify(problem.K_train, problem.labels, problem.K_test, problem.C)
    click.echo(
        f"enumeration, for comparison: 50 nodes and the curve, all {M} budgets, {time.perf_counter() - began:.2f} s"
    )


def sample_wise(
    problem: Problem, solver: str, budget: int, nodes: int, limit: float, ratios: list[float]
) -> tuple[str, ...]:
    """One row: the same nodes by the paper's program, the compact program alone, and the whole engine."""
    part = replace(problem, max_flips=budget)
    question = Question.ask(Sign(part, linear=False))
    control = Control(workers=1, node_time_limit=limit)
    began = time.perf_counter()
    ranges, _ = relaxation.proved_ranges(part, budget)
    shared = (time.perf_counter() - began) / question.nodes.size
    programs = {"paper": paper_program(part, budget), "compact": compact_program(part, ranges)}
    times: dict[str, list[float]] = {"paper": [], "compact": [], "engine": []}
    undecided = dict.fromkeys(times, 0)
    for t in range(nodes):
        for name, program in programs.items():
            search = Searching(question, control, Findings.nothing(question), Judge(get_solver(solver), control))
            began = time.perf_counter()
            verdict = decide(search, program, t, budget)
            times[name].append(time.perf_counter() - began + (shared if name == "compact" else 0.0))
            undecided[name] += verdict is Verdict.UNKNOWN
        one = replace(question, nodes=question.nodes[[t]])
        known = replace(Findings.nothing(one), radius_lower=np.array([budget]))
        one_node = Control(workers=1, node_time_limit=limit, solver=solver, collective=False)
        began = time.perf_counter()
        found = Search().run(one, one_node, known)
        times["engine"].append(time.perf_counter() - began)
        undecided["engine"] += bool(found.radius_lower[0] <= budget < found.radius_upper[0])
        ratios.append(times["paper"][-1] / times["engine"][-1])
    cells = [f"{'> ' if undecided[k] else ''}{geometric_mean(v):.2f}" for k, v in times.items()]
    ratio = geometric_mean([a / b for a, b in zip(times["paper"], times["engine"], strict=True)])
    return solver, f"sample-wise, {budget} flip{'s' * (budget > 1)}, {nodes} nodes", *cells, f"{ratio:.1f}"


def decide(search: Searching, program: Program, t: int, budget: int) -> Verdict:
    """What a program alone says about one node."""
    question = search.question
    assert isinstance(question.predictor, Sign)
    row = question.predictor.signed_rows(question.nodes[[t]])[:, 0]

    def value(change: Relabelling) -> float:
        margin = question.predictor.margins(question.problem.relabelled(change), question.nodes[[t]])
        return float(margin[0]) / program.unit

    return search.solve(program, program.score_cost(row), t, budget, search.judge.deadline(), value=value).verdict


def collective(problem: Problem, solver: str, limit: float) -> tuple[str, ...]:
    """One row: 50 nodes, one flip, radii given (as both programs can use them)."""
    part = replace(problem, max_flips=1)
    cells, seconds = [], []
    for engine in (PaperProgram(), Search()):
        question = Question.ask(Sign(part, linear=False))
        control = Control(workers=1, solver=solver, node_time_limit=limit)
        known = replace(Findings.nothing(question), radius_lower=np.full(question.nodes.size, 1, dtype=np.int64))
        began = time.perf_counter()
        found = engine.curve_alone(question, control, known)
        seconds.append(time.perf_counter() - began)
        closed = found.curve_lower[1] == found.curve_upper[1]
        cells.append(f"{'' if closed else '> '}{seconds[-1]:.2f}")
    return solver, "collective, 1 flip, 50 nodes", cells[0], cells[1], cells[1], f"{seconds[0] / seconds[1]:.1f}"


def geometric_mean(values: list[float]) -> float:
    return float(np.exp(np.mean(np.log(values))))


if __name__ == "__main__":
    main()
