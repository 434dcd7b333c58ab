"""``solve``: the one way from a task to its certificate."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace

from labelcert.certificate import Certificate, RunRecord, StageRecord
from labelcert.certificate.metric import CountedMetric
from labelcert.certification import support
from labelcert.certification.advice import advise
from labelcert.certification.asked_metrics import Walked, in_numbers, with_worst_values
from labelcert.certification.places import CPU, gpu_remark, walked_by
from labelcert.certification.reductions import margins_of, recorded, reduced, unfinished
from labelcert.certification.task import GivenKernel, Run, Task
from labelcert.certification.versions import versions
from labelcert.compiling import compiling_clock
from labelcert.engines.attacking import upper_ends
from labelcert.engines.base import Findings, Question
from labelcert.engines.control import Control
from labelcert.engines.final_check import check
from labelcert.engines.freezing import freeze
from labelcert.engines.observers.worst_metrics import WorstMetrics
from labelcert.engines.planning import Plan, nothing_known, plan
from labelcert.engines.pools import pool_in_force
from labelcert.engines.registry import AUTO
from labelcert.engines.voting import BLACK_BOX
from labelcert.prediction.by_features import FEATURES, WEIGHTED
from labelcert.prediction.neighbours import NEIGHBOURS
from labelcert.problem.problem import ONE_MODEL, Problem
from labelcert.problem.validation import check_seconds, check_workers
from labelcert.progress import progress_report
from labelcert.stopping import Stopped, stopped_by

SHARE_FOR_UPPER_ENDS = 0.3
"""Part of the time for a first attack on every node, where not all can be proved in time."""


def solve(task: Task, run: Run, control: Control | None = None) -> Certificate:
    """Reduce, plan, run, check, freeze and restore; a ``control`` brings a clock and a stop flag of its own.

    Examples
    --------
    >>> import numpy as np
    >>> from labelcert.certification import GivenKernel, Run, Task, solve
    >>> points = np.array([-2.0, -1.0, 1.0, 2.0])
    >>> model = GivenKernel(np.outer(points, points), np.outer([-3.0, 1.5], points), C=0.01)
    >>> solve(Task(model, ["low", "low", "high", "high"]), Run(engine="enumerate"))
    Certificate(2 test nodes, 4 labels of 2 classes, budgets 0..4, exact, engine='enumerate')
    """
    started = time.perf_counter()
    control = _control(task, run) if control is None else control

    def supported(task: Task) -> None:
        asked = _request(task, run)
        control.remarks = (*support.require(asked), *gpu_remark(asked, run.scheduler, run.device))

    with ExitStack() as inside:
        inside.enter_context(control.running())
        compiling = inside.enter_context(compiling_clock())
        control.start_clock()
        simple, restored = reduced(task, supported)
        show = inside.enter_context(progress_report("certifying", run.progress))
        inside.enter_context(walked_by(run.scheduler, control.workers, run.device))
        if run.progress:
            control.report, control.note = show.report, show.note
            for remark in control.remarks:
                control.note(remark)
        asked = _metrics(simple, task)
        planned = _planned(simple, task, run, control, asked)
        # Attacks are checked with a model of their own, which takes as long to set up as the first one did.
        control.reserve(planned.seconds_to_set_up)
        question, findings, stages = _staged(planned, control)
        control.remarks = tuple(dict.fromkeys([*control.remarks, *_remarks(planned, stages, control)]))
        late = control.while_checking()
        with stopped_by(late):
            checked = check(question, findings, late)
            walked = _walked(question)
        if control.trust_solver:
            checked = replace(checked, findings=checked.findings.trusting())
        record = _record(run.engine, planned, question, findings, control, stages)
        # From here on inside, as neither Ctrl-C nor the clock must take away what is known by now.
        inside.enter_context(stopped_by(lambda: False))
        advice = advise(question, checked.findings, control, bool(planned.budget_note), task.adviser)
        note = planned.budget_note or simple.budget_note
        seconds = max(0.0, time.perf_counter() - started - compiling())
        record = replace(record, seconds=seconds, compiling=compiling(), budget_note=note, advice=advice)
        cert = freeze(question, checked, record, simple.names)
        # Where the run was over before margins became part of the problem, nothing is claimed, with or without them.
        cert = restored(recorded(cert, *margins_of(simple)) if unfinished(simple) else cert)
        asked = asked or in_numbers(task, cert.n_test, cert.classes)
        return with_worst_values(cert, asked, walked, question.problem)


def _request(task: Task, run: Run) -> support.Request:
    """What the table of what goes with what is asked, before work starts."""
    problem, own = task.posed, run.engine.partition(":")[0]
    single = task.parts is None and problem.kind == ONE_MODEL
    kinds = {FEATURES: support.FEATURES, WEIGHTED: support.FEATURES, BLACK_BOX: support.UNKNOWN}
    kinds[NEIGHBOURS] = support.NEIGHBOURS
    predictor = support.MACHINE if single else kinds.get(problem.kind, support.MAP)
    if task.parts is not None:
        predictor = support.VOTES if task.parts.combine == "votes" else support.MEAN
    asks = {"attack": support.ATTACK, "baseline": support.BASELINE}.get(own)
    return support.Request(
        predictor=predictor,
        loss=None if predictor in (support.MAP, support.UNKNOWN, support.NEIGHBOURS) else problem.loss,
        classes=problem.n_classes,
        labels=problem.m,
        threat=support.kinds_of(problem.threat),
        margin=bool(margins_of(task)[0].any()),
        uncertain=isinstance(task.model, GivenKernel) and not task.model.exact,
        metrics=bool(task.metrics),
        asks=asks or (support.CURVE if task.collective else support.RADII),
        engine=run.engine if single and asks is None else AUTO,
        place=support.place_of(run.scheduler, run.device),
        limited=run.time_limit is not None,
    )


def _remarks(planned: Plan, ran: Sequence[StageRecord], control: Control) -> list[str]:
    """What is different about engines that ran, and were not asked for."""
    problem = planned.question.problem
    if problem.kind != ONE_MODEL:
        return []
    request = support.Request(
        loss=problem.loss, classes=problem.n_classes, labels=problem.m, limited=control.time_limit is not None
    )
    engines = [stage.engine for stage, _ in zip(planned.stages, ran, strict=False)]
    names = [engine.name for engine in engines if engine.capabilities.advertised]
    return [note for name in names for note in support.notes(replace(request, engine=name))]


def _dropped(problem: Problem) -> list[str]:
    """What the certificate says about classes that lose all of their labels."""
    if not problem.emptied:
        return []
    least = min(problem.adversary.cost(change) for change in problem.emptied.values())
    return [
        f"from a budget of {least} on, a class can lose all of its labels; it is then dropped, as the estimator does, "
        "and where one class alone is left, that one is predicted"
    ]


def _control(task: Task, run: Run) -> Control:
    """A clock that is not started, and a flag that is not set."""
    return Control(
        workers=check_workers(run.workers),
        time_limit=check_seconds("time_limit", run.time_limit),
        collective=bool(task.collective),
        solver=run.solver,
        trust_solver=bool(run.trust_solver),
        node_time_limit=check_seconds("node_time_limit", run.node_time_limit),
        chooses_budget=task.problem is None
        and task.max_flips is None
        and task.max_fraction is None
        and run.time_limit is None,
    )


def _metrics(simple: Task, task: Task) -> list[CountedMetric]:
    """The metrics of a task, where the number of test nodes is known; rows that are read once are counted later."""
    return in_numbers(task, simple.posed.n_test, simple.posed.classes) if simple.posed.kind == ONE_MODEL else []


def _planned(simple: Task, task: Task, run: Run, control: Control, metrics: Sequence[CountedMetric]) -> Plan:
    """The plan for a task that is reduced, unless the run was over before that was done."""
    problem = simple.posed
    if unfinished(simple):
        return nothing_known(problem)
    asked = AUTO if problem.threat.owns_annotators else run.engine  # façades of linear maps name their own
    try:
        return plan(
            *(asked, problem, control, simple.predicted), observers=task.observers, metrics=metrics, options=run.options
        )
    except Stopped:
        return nothing_known(problem)


def _walked(question: Question) -> Walked:
    """What a walk found about metrics, with attacks that are trained on again."""
    if not isinstance(question.counting, WorstMetrics):
        return ()
    return question.counting.found(replace(question, predictor=question.predictor.retrained()))


def _staged(planned: Plan, control: Control) -> tuple[Question, Findings, list[StageRecord]]:
    """What all stages find, and the question as it turned out."""
    question, ran = planned.question, list[StageRecord]()
    findings = Findings.nothing(question)
    trained = question.problem.kind == ONE_MODEL and not question.observers and planned.finds_attacks
    if planned.attacks_first and not control.over():
        found = upper_ends(question, control.part(SHARE_FOR_UPPER_ENDS))
        findings = findings.refined(found, planned.stages[0].name(question.problem))
    for stage in planned.stages:
        if ran and (control.over() or not stage.needed(question, control, findings)):
            continue
        if trained and not ran and findings.settled(control.collective):  # clean predictions are all that was asked for
            return question, findings, [StageRecord(stage.name(question.problem), stage.max_flips, {})]
        with suppress(Stopped):
            findings = stage.run(question, control, findings)
        ran.append(StageRecord(stage.name(question.problem), stage.max_flips, findings.statistics))
    return (question if findings.read is None else findings.read.question), findings, ran


def _record(
    asked: str, planned: Plan, question: Question, findings: Findings, control: Control, ran: Sequence[StageRecord]
) -> RunRecord:
    """All about a run that is worth keeping."""
    problem = question.problem
    return RunRecord(
        engine_asked=asked,
        stages=tuple(ran),
        finds_attacks=planned.finds_attacks,
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
        problem_sha256=findings.sha256 or problem.digest(),
        seconds=0.0,
        spendable=problem.adversary.spendable,
        remarks=(*control.remarks, *_dropped(problem)),
        drops_to=problem.drops_to,
        weights=str(weights) if (weights := getattr(problem.by, "weights", None)) else "",
        device=CPU if (pool := pool_in_force()) is None else pool.device,
        versions=versions(),
    )
