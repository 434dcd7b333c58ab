"""The paper's mixed-integer program beside our search, and beside enumeration.

Run with ``python -m benchmarks.milp --data-dir FOLDER``: Cora-MLb, GCN, 20 labels. The paper's program counts as
decided where its solver claims so.
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
from labelcert.cli.printing import print_table
from labelcert.engines.base import Engine, Findings, Question
from labelcert.engines.control import SOLVERS, Control
from labelcert.engines.enumerate import Enumerate
from labelcert.engines.search import BranchAndBound
from labelcert.errors import LabelcertError, MilpWarning
from labelcert.paper.milp import PaperProgram
from labelcert.paper.milp.solvers import get_solver
from labelcert.prediction import Sign
from labelcert.problem import Problem
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
        click.echo(f"{name}: the search is {geometric_mean(ratios):.1f} times faster (geometric mean)")
        rows.append(collective(problem, name, collective_limit))
    print_table(
        listing(
            f"Cora-MLb, GCN, m = {M}: seconds (geometric mean over nodes; > : some undecided within the limit)",
            ("solver", "certificate", "paper's program", "our search", "paper / ours"),
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
    """One row: the same nodes at one budget by the paper's program and by our search."""
    question = Question.ask(Sign(replace(problem, max_flips=budget), linear=False))
    times: dict[str, list[float]] = {}
    undecided: dict[str, int] = {}
    for engine in (PaperProgram(), BranchAndBound()):
        for t in range(nodes):
            one = replace(question, nodes=question.nodes[[t]])
            known = replace(Findings.nothing(one), radius_lower=np.array([budget]))
            found, seconds = timed(engine, one, known, solver, limit, collective=False)
            times.setdefault(engine.name, []).append(seconds)
            is_open = bool(found.claimed_radii[0] <= budget < found.radius_upper[0])
            undecided[engine.name] = undecided.get(engine.name, 0) + is_open
    own = [a / b for a, b in zip(*times.values(), strict=True)]
    ratios += own
    cells = [f"{'> ' if undecided[k] else ''}{geometric_mean(v):.2f}" for k, v in times.items()]
    what = f"sample-wise, {budget} flip{'s' * (budget > 1)}, {nodes} nodes"
    return solver, what, *cells, f"{geometric_mean(own):.1f}"


def collective(problem: Problem, solver: str, limit: float) -> tuple[str, ...]:
    """One row: 50 nodes, one flip, radii given."""
    question = Question.ask(Sign(replace(problem, max_flips=1), linear=False))
    nothing = Findings.nothing(question)
    found = nothing.refined(Enumerate().run(question, Control(workers=1), nothing), "enumerate")
    known = replace(found, curve_lower=nothing.curve_lower, curve_upper=nothing.curve_upper)
    cells, seconds = [], []
    for engine in (PaperProgram(), BranchAndBound()):
        answer, spent = timed(engine, question, known, solver, limit, collective=True)
        closed = answer.curve_lower[1] == answer.claimed_curve[1]
        seconds.append(spent)
        cells.append(f"{'' if closed else '> '}{spent:.2f}")
    return solver, "collective, 1 flip, 50 nodes", *cells, f"{seconds[0] / seconds[1]:.1f}"


def timed(
    engine: Engine, question: Question, known: Findings, solver: str, limit: float, *, collective: bool
) -> tuple[Findings, float]:
    """What an engine finds on one worker, and how long it takes."""
    control = Control(workers=1, node_time_limit=limit, solver=solver, collective=collective)
    began = time.perf_counter()
    return engine.run(question, control, known), time.perf_counter() - began


def geometric_mean(values: list[float]) -> float:
    return float(np.exp(np.mean(np.log(values))))


if __name__ == "__main__":
    main()
