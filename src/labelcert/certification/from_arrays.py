"""``certify``: from arrays to a certificate."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from labelcert.arrays import Int
from labelcert.certificate import Certificate, RunRecord, StageRecord
from labelcert.certification import support
from labelcert.certification.margins import restored
from labelcert.certification.places import CPU, gpu_remark, walked_by
from labelcert.certification.versions import versions
from labelcert.engines.base import Findings
from labelcert.engines.checking import check
from labelcert.engines.control import Control
from labelcert.engines.freezing import Names, freeze
from labelcert.engines.planning import Plan, plan
from labelcert.engines.pools import pool_in_force
from labelcert.engines.search.solvers import check_solver
from labelcert.prediction import predictor_for
from labelcert.problem import Problem, Threat
from labelcert.problem.budget import largest_budget
from labelcert.problem.margin import Margins, check_margin, lowered
from labelcert.problem.validation import check_seconds, check_workers
from labelcert.progress import progress_report


def certify(
    K_train: npt.ArrayLike,
    labels: npt.ArrayLike,
    K_test: npt.ArrayLike,
    C: float | str,
    *,
    threat: Threat | None = None,
    max_flips: int | None = None,
    max_fraction: float | None = None,
    engine: str = "auto",
    time_limit: float | None = None,
    workers: int | None = None,
    progress: bool = False,
    loss: str = "hinge",
    collective: bool = True,
    solver: str = "highs",
    trust_solver: bool = False,
    node_time_limit: float | None = None,
    scheduler: str | None = None,
    device: str = "auto",
    margin: npt.ArrayLike | Margins = 0.0,
    names: Names | None = None,
) -> Certificate:
    """Certify every test prediction of a bias-free kernel machine against label flips, at every budget at once.

    Parameters
    ----------
    K_train : (m, m) array
        Kernel between labelled points: symmetric, positive semidefinite. Certificates are exact for these
        float64 numbers.
    labels : (m,) array
        Two classes or more, of any type. With more than two, there is one model per class against the rest (unless the
        loss couples them), and the highest score decides.
    K_test : (n, m) array
        Kernel between test nodes and labelled points.
    C : float or "cv"
        Regularisation: the model minimises ``½‖w‖² + C Σ loss``. With ``"cv"`` it is chosen by cross-validation over
        the labels as they are (``cert.run.C``); the certificate is then about that one value.
    threat : Threat, optional
        What the adversary may change; by default any label, one unit each.
    max_flips : int, optional
        Largest budget (in cost units, with costs). By default it is all labels or, where that would take longer than
        about half a minute and no ``time_limit`` is given, the largest budget that fits: ``cert.run.budget_note`` says
        so.
    max_fraction : float, optional
        The same as a share of the labels (of their total cost, with costs).
    engine : {"auto", "closed-form", "enumerate", "relaxed", "milp", "milp-paper"}
        How to compute it. ``"auto"`` takes the closed form where it applies and enumeration elsewhere. With a time
        limit that enumeration would exceed, it hands over what is left to ``"milp"``. ``"relaxed"`` is a fast
        incomplete certificate: it proves lower bounds on radii, and nothing else.
    time_limit : float, optional
        Seconds. What is not proved by then comes as intervals. Ctrl-C does the same at any moment.
    workers : int, optional
        Threads; all cores by default.
    progress : bool
        Show a progress bar on standard error.
    loss : {"hinge", "squared_hinge", "logistic", "cross_entropy", "square"}
        What the model is trained with: a support vector machine, the same with squared slacks, logistic regression,
        the softmax over all classes in one problem, or kernel ridge regression with ``λ = 1/(2C)``. Exact ties of the
        logistic loss and of cross-entropy cannot be proved, and stay open.
    collective : bool
        Whether the collective curve is asked for. Without it, the curve is whatever the search happened to find, and
        may be an interval.
    solver : {"highs", "scip", "gurobi"}
        Which solver runs the paper's mixed-integer programs. SCIP and Gurobi are extras.
    trust_solver : bool
        Whether what a solver claims counts as proved. By default it does not: the robust verdicts of ``"milp-paper"``
        are then in ``radius_claimed`` and ``collective_claimed`` alone.
    node_time_limit : float, optional
        Seconds that a search may take for one node, or for one budget of the curve.
    scheduler : str, optional
        Where enumeration trains: ``"processes"`` on local processes, the address of a Dask scheduler on its workers.
        Where one dies, its work is done again, and the answers are the same. By default on threads.
    device : {"auto", "cpu", "gpu"}
        Whether enumeration trains on the GPUs of this machine (``pip install 'labelcert[gpu]'``). By default it does
        where there is one and the work is large enough. The answers are the same.
    margin : float, (n,) array, or FiniteMargin
        Count a prediction as changed once its lead falls to this (a number for each test node, or one for all), not to
        zero: of two classes, the signed score; of more, the score of the predicted class minus the highest other one.
        Scores are in units in which labels are trained to ±1. :func:`labelcert.finite_margin` measures such margins.
    names : Names, optional
        What test nodes, labelled nodes and classes are called; graphs fill this in.

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
    >>> from labelcert import certify
    >>> points = np.array([-2.0, -1.0, 1.0, 2.0])
    >>> K = np.outer(points, points)
    >>> cert = certify(K, ["low", "low", "high", "high"], np.outer([-3.0, 1.5], points), C=0.01)
    >>> cert
    Certificate(2 test nodes, 4 labels of 2 classes, budgets 0..4, exact, engine='closed-form')
    >>> cert.predictions.tolist(), cert.radius_lower.tolist()
    (['low', 'high'], [2, 2])
    """
    control = Control(
        workers=check_workers(workers),
        time_limit=check_seconds("time_limit", time_limit),
        collective=bool(collective),
        solver=check_solver(solver),
        trust_solver=bool(trust_solver),
        node_time_limit=check_seconds("node_time_limit", node_time_limit),
        chooses_budget=max_flips is None and max_fraction is None and time_limit is None,
    )
    costs = threat.costs if isinstance(threat, Threat) else None  # anything else is refused below
    max_flips = largest_budget(max_flips, max_fraction, np.ones(np.size(labels)) if costs is None else costs)
    problem = Problem.unsettled(K_train, labels, K_test, C, threat=threat, max_flips=max_flips, loss=loss)
    source = str(margin) if isinstance(margin, Margins) else ""
    margins = check_margin(margin.margins if isinstance(margin, Margins) else margin, problem.n_test)
    asked = support.Request(
        loss=problem.loss,
        classes=problem.n_classes,
        labels=problem.m,
        threat=support.kinds_of(problem.threat),
        margin=bool(margins.any()),
        asks=support.CURVE if collective else support.RADII,
        engine=engine,
        place=support.place_of(scheduler, device),
        limited=time_limit is not None,
    )
    control.remarks = (*support.require(asked), *gpu_remark(asked, scheduler, device))
    problem = problem.settled()
    with progress_report("certifying", progress) as show, walked_by(scheduler, control.workers, device):
        control.report, control.note = show.report, show.note
        for remark in control.remarks:
            control.note(remark)
        if not margins.any():
            return answer(problem, engine, control, names=names)
        clean = predictor_for(problem, linear=problem.trained_with.always_linear)
        own_names = names or Names()
        cert = answer(
            lowered(problem, clean.shown, margins),
            engine,
            control,
            names=replace(own_names, labels=None, label_keys=None, around=None),
            predicted=clean.predicted,
        )
        return restored(cert, problem, clean, margins, own_names, source)


def answer(
    problem: Problem, engine: str, control: Control, *, names: Names | None = None, predicted: Int | None = None
) -> Certificate:
    """Plan, run, check and freeze.

    Parameters
    ----------
    problem : Problem
    engine : str
    control : Control
    names : Names, optional
    predicted : (n,) array, optional
        Clean predictions to assume instead of the model's own, as positions among the classes.
    """
    started = time.perf_counter()
    control.start_clock()
    with control.running():
        planned = plan(engine, problem, control, predicted)
        control.remarks = tuple(dict.fromkeys([*control.remarks, *_remarks(planned, control)]))
        # Attacks are checked with a model of their own, which takes as long to set up as the first one did.
        control.reserve(planned.seconds_to_set_up)
        question = planned.question
        findings = Findings.nothing(question)
        ran: list[StageRecord] = []
        for stage in planned.stages:
            if ran and (control.over() or findings.settled(control.collective)):
                break
            findings = stage.run(question, control, findings)
            ran.append(StageRecord(stage.engine.name, stage.max_flips, findings.statistics))
        checked = check(question, findings)
    if control.trust_solver:
        checked = replace(checked, findings=checked.findings.trusting())
    run = record(
        question.problem,
        control,
        engine,
        ran,
        time.perf_counter() - started,
        finds_attacks=planned.finds_attacks,
        budget_note=planned.budget_note,
    )
    return freeze(question, checked, run, names or Names())


def _remarks(planned: Plan, control: Control) -> list[str]:
    """What is different about engines that were chosen, and not asked for."""
    problem, limited = planned.question.problem, control.time_limit is not None
    request = support.Request(
        loss=problem.loss, classes=problem.n_classes, labels=problem.m, limited=limited, place=support.THREADS
    )
    engines = [stage.engine.name for stage in planned.stages]
    return [note for name in engines for note in support.notes(replace(request, engine=name))]


def record(
    problem: Problem,
    control: Control,
    asked: str,
    ran: Sequence[StageRecord],
    seconds: float,
    *,
    finds_attacks: bool = True,
    budget_note: str = "",
    sha256: str | None = None,
) -> RunRecord:
    """All about a run that is worth keeping."""
    return RunRecord(
        engine_asked=asked,
        stages=tuple(ran),
        finds_attacks=finds_attacks,
        stopped=control.stop,
        loss=problem.loss,
        C=problem.C,
        kernel_shift=problem.shift,
        threat=problem.threat.describe(),
        time_limit=control.time_limit,
        node_time_limit=control.node_time_limit,
        collective=control.collective,
        solver=control.solver,
        trust_solver=control.trust_solver,
        workers=control.workers,
        problem_sha256=problem.digest() if sha256 is None else sha256,
        seconds=seconds,
        spendable=problem.adversary.spendable,
        budget_note=budget_note,
        remarks=control.remarks,
        device=CPU if (pool := pool_in_force()) is None else pool.device,
        versions=versions(),
    )
