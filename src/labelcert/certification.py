"""``certify``: from arrays to a certificate."""

from __future__ import annotations

import os
import platform
import time
from dataclasses import replace
from typing import Any

import numba
import numpy as np
import numpy.typing as npt
import scipy

from labelcert._version import __version__
from labelcert.certificate import Certificate, SetList
from labelcert.engines import Control, Findings, Question, plan
from labelcert.engines.base import reconciled
from labelcert.errors import InvalidInput
from labelcert.milp.solvers import SOLVERS
from labelcert.multiclass import certify_classes
from labelcert.problem import Problem
from labelcert.progress import progress_report
from labelcert.svm.scoring import EXACT_LIMIT, HingeScorer, Scorer
from labelcert.threat import Threat

Int = npt.NDArray[np.int64]


def certify(
    K_train: npt.ArrayLike,
    labels: npt.ArrayLike,
    K_test: npt.ArrayLike,
    C: float,
    *,
    threat: Threat | None = None,
    max_flips: int | None = None,
    engine: str = "auto",
    time_limit: float | None = None,
    workers: int | None = None,
    progress: bool = False,
    loss: str = "hinge",
    collective: bool = True,
    solver: str = "highs",
    node_time_limit: float | None = None,
) -> Certificate:
    """Certify every test prediction of a bias-free kernel machine against label flips, at every budget at once.

    Parameters
    ----------
    K_train : (m, m) array
        Kernel between labelled points: symmetric, positive semidefinite. Certificates are exact for these
        float64 numbers.
    labels : (m,) array
        Two classes or more, of any type. More than two: one model per class against the rest, and the highest
        score decides.
    K_test : (n, m) array
        Kernel between test nodes and labelled points.
    C : float
        Regularisation: the model minimises ``½‖w‖² + C Σ loss``.
    threat : Threat, optional
        What the adversary may change; by default any label, one unit each.
    max_flips : int, optional
        Largest budget (in cost units, with costs); all labels by default.
    engine : {"auto", "closed-form", "enumerate", "milp", "milp-paper", "relaxed"}
        How; ``"auto"`` plans over the first four: the closed form where it applies, enumeration where it fits, and
        with a time limit that enumeration would exceed, the compact mixed-integer program for what is left.
        ``"relaxed"``, for more than two classes only, is a fast incomplete certificate: it proves lower bounds on
        radii, and nothing else.
    time_limit : float, optional
        Seconds. What is not proved by then comes as intervals. Ctrl-C does the same at any moment.
    workers : int, optional
        Threads; all cores by default.
    progress : bool
        Show a progress bar on standard error.
    loss : {"hinge", "square"}
        Support vector machine, or kernel ridge regression with ``λ = 1/(2C)``.
    collective : bool
        False: radii alone are asked for. The curve then is as it comes, and may be an interval.
    solver : {"highs", "scip", "gurobi"}
        Who solves mixed-integer programs. SCIP and Gurobi are extras.
    node_time_limit : float, optional
        Seconds that a mixed-integer program may take for one node, or for one budget of the curve.

    Returns
    -------
    Certificate

    Raises
    ------
    InvalidInput
        The input is refused; the message says why and what to do.
    WorkTooLarge
        Exact work would take too long; the message says what would fit.

    Examples
    --------
    >>> import numpy as np
    >>> points = np.array([-2.0, -1.0, 1.0, 2.0])
    >>> K = np.outer(points, points)
    >>> cert = certify(K, ["low", "low", "high", "high"], np.outer([-3.0, 1.5], points), C=0.01)
    >>> cert
    Certificate(2 test nodes, 4 labels, budgets 0..4, exact, engine='closed-form')
    >>> cert.predictions.tolist(), cert.radius_lower.tolist()
    (['low', 'high'], [2, 2])
    """
    control = Control(
        workers=_check_workers(workers),
        time_limit=_check_seconds("time_limit", time_limit),
        collective=bool(collective),
        solver=_check_solver(solver),
        node_time_limit=_check_seconds("node_time_limit", node_time_limit),
    )
    problem = Problem.build(K_train, labels, K_test, C, threat=threat, max_flips=max_flips, loss=loss)
    started = time.perf_counter()
    several = problem.n_classes > 2
    if engine == "relaxed" and not several:
        raise InvalidInput(
            "engine='relaxed' is for more than two classes, whose scores it bounds one by one; "
            "with two there is one score and nothing to relax: use engine='auto'"
        )
    ran: list[dict[str, Any]] = []
    with progress_report("certifying", progress) as show, control.running():
        control.report, control.note = show.report, show.note
        if several:
            answer = certify_classes(problem, engine, control)
            ran.append({"engine": answer.engine, "statistics": answer.findings.statistics})
            return answer.certificate(_settings(problem, control, engine, ran, started))
        stages, question = plan(engine, problem, control)
        control.start_clock()
        findings = Findings.nothing(question)
        for stage in stages:
            if ran and (control.over() or findings.settled(control.collective)):
                break
            findings = stage.run(question, control, findings)
            ran.append({"engine": stage.engine.name, "max_flips": stage.max_flips, "statistics": findings.statistics})
        findings = check_witnesses(question, findings)
    return compose(question, findings, _settings(problem, control, engine, ran, started))


def _settings(
    problem: Problem, control: Control, asked: str, ran: list[dict[str, Any]], started: float
) -> dict[str, Any]:
    """How a certificate came about, in plain JSON values."""
    return {
        "engine": " + ".join(stage["engine"] for stage in ran),
        "engine_asked": asked,
        "stopped": control.stop.value,
        "loss": problem.loss,
        "C": problem.C,
        "kernel_shift": problem.shift,
        "threat": problem.threat.describe(),
        "time_limit": control.time_limit,
        "node_time_limit": control.node_time_limit,
        "collective": control.collective,
        "solver": control.solver,
        "workers": control.workers,
        "problem_sha256": problem.digest(),
        "seconds": time.perf_counter() - started,
        "statistics": ran[0]["statistics"],
        "later_stages": ran[1:],
        "versions": versions(),
    }


def versions() -> dict[str, str]:
    """Versions that a result depends on."""
    return {
        "labelcert": __version__,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "scipy": scipy.__version__,
        "numba": numba.__version__,
    }


def check_witnesses(question: Question, findings: Findings) -> Findings:
    """Retrain on every witness and keep only what it proves.

    A witness that does not check is dropped, its interval opened and a warning raised: it would be a bug.
    """
    problem = question.problem
    checker: Scorer = question.scorer
    if problem.loss == "hinge" and problem.m <= EXACT_LIMIT and not isinstance(checker, HingeScorer):
        checker = HingeScorer(problem)
    never = problem.adversary.never
    radius_upper = findings.radius_upper.copy()
    radius_sets = list(findings.radius_sets)
    by_set: dict[bytes, list[int]] = {}
    for t, flips in enumerate(radius_sets):
        if flips is not None:
            by_set.setdefault(flips.tobytes(), []).append(t)
    bad = 0
    for members in by_set.values():
        flips = radius_sets[members[0]]
        assert flips is not None
        cost = int(problem.adversary.costs[flips].sum())
        changed, _ = checker.changed(question.flip(flips), question.nodes[members])
        for t, ok in zip(members, changed, strict=True):
            if not ok or cost > radius_upper[t]:
                radius_upper[t], radius_sets[t] = never, None
                bad += 1
    curve_lower = findings.curve_lower.copy()
    curve_sets = list(findings.curve_sets)
    counts: dict[bytes, int] = {}
    for b, flips in enumerate(curve_sets):
        key = flips.tobytes()
        if key not in counts:
            changed, _ = checker.changed(question.flip(flips), question.nodes)
            counts[key] = int(changed.sum())
        cost = int(problem.adversary.costs[flips].sum())
        if counts[key] < curve_lower[b] or cost > b:
            curve_lower[b], curve_sets[b] = 0, np.zeros(0, dtype=np.int64)
            bad += 1
    radius_lower, curve_upper = reconciled(findings.radius_lower, radius_upper, curve_lower, findings.curve_upper, bad)
    return replace(
        findings,
        radius_lower=radius_lower,
        curve_upper=curve_upper,
        radius_upper=radius_upper,
        radius_sets=radius_sets,
        curve_lower=curve_lower,
        curve_sets=curve_sets,
    )


def compose(question: Question, findings: Findings, settings: dict[str, Any]) -> Certificate:
    """Put the nodes without a clean prediction back in, and freeze the result."""
    problem, scorer = question.problem, question.scorer
    n = problem.n_test
    tied = scorer.clean == 0
    open_ = np.abs(scorer.clean) > 1
    lower = np.zeros(n, dtype=np.int64)
    upper = np.where(tied, 0, problem.adversary.never).astype(np.int64)
    lower[question.nodes] = findings.radius_lower
    upper[question.nodes] = findings.radius_upper
    empty = np.zeros(0, dtype=np.int64)
    index = problem.adversary.labels
    node_sets = [empty] * n
    for t, flips in zip(question.nodes, findings.radius_sets, strict=True):
        if flips is not None:
            node_sets[t] = index[flips]
    distinct: dict[bytes, int] = {}
    curve_sets: list[Int] = []
    set_of = np.empty(problem.max_flips + 1, dtype=np.int64)
    for b, flips in enumerate(findings.curve_sets):
        key = flips.tobytes()
        if key not in distinct:
            distinct[key] = len(curve_sets)
            curve_sets.append(index[flips])
        set_of[b] = distinct[key]
    radius_by, curve_by = findings.radius_by, findings.curve_by
    if radius_by is None or curve_by is None:  # one engine did it all
        radius_by = np.full(question.nodes.size, settings["engine"])
        curve_by = np.full(problem.max_flips + 1, settings["engine"])
    proved_by = np.where(tied, "clean score", "")
    proved_by = proved_by.astype("U32")
    proved_by[question.nodes] = radius_by
    positive = np.where(np.abs(scorer.clean) > 1, scorer.decision >= 0, scorer.clean >= 0)
    arrays: dict[str, npt.NDArray[Any]] = {
        "predictions": np.where(positive, problem.classes[1], problem.classes[0]),
        "decision_values": scorer.decision,
        "radius_lower": lower,
        "radius_upper": upper,
        "collective_lower": findings.curve_lower + int(tied.sum()),
        "collective_upper": findings.curve_upper + int(tied.sum() + open_.sum()),
        "labels": problem.labels,
        "classes": problem.classes,
        "curve_set_of": set_of,
        "radius_proved_by": proved_by,
        "collective_proved_by": curve_by,
    }
    for array in arrays.values():
        array.setflags(write=False)
    return Certificate(
        **arrays,
        max_flips=problem.max_flips,
        never=problem.adversary.never,
        settings=settings,
        node_sets=SetList.pack(node_sets),
        curve_sets=SetList.pack(curve_sets),
    )


def _check_workers(workers: int | None) -> int:
    if workers is None:
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if isinstance(workers, bool) or not isinstance(workers, int | np.integer) or workers < 1:
        raise InvalidInput(f"workers must be a whole number of at least 1, got {workers!r}")
    return int(workers)


def _check_seconds(name: str, seconds: float | None) -> float | None:
    if seconds is None:
        return None
    number = not isinstance(seconds, bool) and isinstance(seconds, int | float | np.number)
    if not number or not 0 < seconds < float("inf"):
        raise InvalidInput(f"{name} must be a positive number of seconds, got {seconds!r}")
    return float(seconds)


def _check_solver(solver: str) -> str:
    if solver not in SOLVERS:
        raise InvalidInput(f"solver must be one of {', '.join(SOLVERS)}, got {solver!r}")
    return solver
