"""``recheck``: from arrays, or a certificate, to the labels that are worth verifying."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from labelcert.arrays import Bool, Float, Int
from labelcert.certificate import Certificate
from labelcert.certification import GivenKernel, Names, Task, certify
from labelcert.certification.reductions import reduced
from labelcert.checking import whole_number
from labelcert.engines.base import WORK_LIMIT_SECONDS, Question
from labelcert.engines.control import Control
from labelcert.engines.planning import duration
from labelcert.errors import InvalidInput, WorkTooLarge
from labelcert.prediction import predictor_for
from labelcert.problem import Problem, Threat
from labelcert.problem.validation import check_seconds, check_workers
from labelcert.progress import progress_report
from labelcert.rechecking.attacks import AttackList, list_attacks
from labelcert.rechecking.choosing import AllAtOnce, Chosen, EachAlone, Goal, Search, choose, choose_until
from labelcert.rechecking.gains import applies, choose_by_gains
from labelcert.rechecking.listing import problem_of
from labelcert.rechecking.result import COLLECTIVE, EACH, OBJECTIVES, Recheck

LISTED_SECONDS = 120.0
"""Attacks are listed where that takes no longer than this, or as long as a time limit allows."""


def recheck(
    K_train: npt.ArrayLike | Certificate,
    labels: npt.ArrayLike | None = None,
    K_test: npt.ArrayLike | None = None,
    C: float | str | None = None,
    *,
    flips: int,
    verify: int | None = None,
    until: float | None = None,
    objective: str = EACH,
    weights: npt.ArrayLike | None = None,
    verify_costs: npt.ArrayLike | None = None,
    threat: Threat | None = None,
    loss: str = "hinge",
    time_limit: float | None = None,
    workers: int | None = None,
    progress: bool = False,
    names: Names | None = None,
) -> Recheck:
    """Which labels to verify, so that as many predictions as possible survive the wrong labels among the others.

    A verified label cannot be wrong any more, so every attack that needs it is gone. The answer ranks labels by what
    depends on them, not by how likely they are wrong.

    Parameters
    ----------
    K_train, labels, K_test, C
        As in :func:`labelcert.certify`; or a certificate that holds its kernels, alone.
    flips : int
        How many wrong labels to survive (in cost units, with costs).
    verify : int, optional
        How many labels can be verified, or what may be paid for that with ``verify_costs``.
    until : float, optional
        Instead: verify as few labels as it takes until this share of predictions survives.
    objective : {"each", "collective"}
        Count predictions each of which faces its own worst attack, or those that survive one attack on all.
    weights : (n,) array, optional
        What each prediction counts, for the objective ``"each"``.
    verify_costs : (m,) integer array, optional
        What verifying each label costs: scores of its quality, say, so that doubtful labels are cheap.
    threat, loss, time_limit, workers, progress, names
        As in :func:`labelcert.certify`.

    Returns
    -------
    Recheck
        ``labels`` in order, ``before``, ``after`` each, ``gains``, and a bound on what any choice could reach.

    Raises
    ------
    InvalidInput
        The input is refused; the message says why and what to do.
    WorkTooLarge
        There are too many attacks to list; the message says what would fit.

    Examples
    --------
    >>> from labelcert import recheck
    >>> from labelcert.examples import two_clouds
    >>> data = two_clouds()
    >>> advice = recheck(data.K_train, data.labels, data.K_test, C=1.0, flips=2, verify=2)
    >>> advice
    Recheck(verify [13, 3]: 50.0% -> 83.3% survive 2 flips)
    >>> advice.optimal
    True
    """
    if isinstance(K_train, Certificate):
        cert = K_train
        return _again(
            cert,
            flips=flips,
            verify=verify,
            until=until,
            objective=objective,
            weights=weights,
            verify_costs=verify_costs,
            time_limit=time_limit,
            workers=workers,
            progress=progress,
        )
    if labels is None or K_test is None or C is None:
        raise InvalidInput("give K_train, labels, K_test and C, or a certificate that holds its kernels")
    if objective not in OBJECTIVES:
        raise InvalidInput(f"objective must be 'each' or 'collective', got {objective!r}")
    if (verify is None) == (until is None):
        raise InvalidInput("say how many labels to verify (verify=5), or what to reach (until=0.9), not both")
    control = Control(workers=check_workers(workers), time_limit=check_seconds("time_limit", time_limit))
    problem = reduced(Task(GivenKernel(K_train, K_test, C, loss), labels, threat, flips))[0].posed
    given = _weights(weights, problem.n_test, objective)
    price = _costs(verify_costs, problem.m)[problem.adversary.labels]
    budget = int(price.sum()) if verify is None else whole_number("verify", verify)
    if until is not None and not 0 <= until <= 1:
        raise InvalidInput(f"until must be a share between 0 and 1, got {until!r}")
    question = Question.ask(predictor_for(problem, linear=problem.is_linear(strict=True)))
    control.start_clock()

    def certified(trusted: list[int], share: float = 1.0) -> Certificate:
        limit = None if control.deadline is None else max(1.0, share * (control.deadline - time.monotonic()))
        return certify(
            problem.K_train,
            problem.labels,
            problem.K_test,
            problem.C,
            threat=_trusting(problem, trusted),
            max_flips=flips,
            loss=loss,
            time_limit=limit,
            workers=workers,
            collective=objective == COLLECTIVE,
            names=names,
        )

    with progress_report("listing attacks", progress) as show, control.running():
        control.report, control.note = show.report, show.note
        found = _Advice(question, given, price, objective, control)
        chosen = found.choose(budget, until)
    return found.result(chosen, flips, certified)


class _Advice:
    """One question, and how its attacks are known: as a list, by gains, or in part."""

    def __init__(self, question: Question, weights: Float, price: Int, objective: str, control: Control) -> None:
        self._question, self._all_weights, self._price = question, weights, price
        self._objective, self._control = objective, control
        self._weights = weights[question.nodes]
        self._search: Search | None = None
        self.attacks: AttackList | None = None
        problem, a = question.problem, question.problem.adversary
        count = a.count_sets(question.budget, a.targets.sum(axis=1))
        seconds = count * _seconds_per_attack(question)
        linear = question.predictor.linear and objective == EACH and question.nodes.size > 0 and applies(problem)
        if seconds > LISTED_SECONDS and linear:
            return
        if seconds > WORK_LIMIT_SECONDS and control.time_limit is None:
            raise WorkTooLarge(
                f"listing {count:,.6g} attacks would take about {duration(seconds)}; ask for fewer flips, trust some "
                "labels (labelcert.Threat), or give time_limit=SECONDS for what can be proved in that time"
            )
        part = control.part(0.5) if control.time_limit is not None else control
        self.attacks = list_attacks(question, self._weights, part, strongest=objective == COLLECTIVE)
        kind: type[Goal] = EachAlone if objective == EACH else AllAtOnce
        self._search = Search(kind(self.attacks, self._weights), price, control)

    def choose(self, budget: int, until: float | None) -> Chosen:
        """The labels to verify, for a price or until a share is reached."""
        if self._search is None:
            return choose_by_gains(self._question, self._weights, self._price, budget, self._control, until)
        if until is None:
            return choose(self._search, budget)
        return choose_until(self._search, until, budget)

    def result(self, chosen: Chosen, flips: int, certified: Callable[..., Certificate]) -> Recheck:
        """Evaluate the choice with certificates of its own."""
        labels = self._question.problem.adversary.labels
        order = [int(labels[i]) for i in chosen.order]
        known = self.attacks is not None and self.attacks.complete
        certificates = [
            certified(order[:k], 1 / (len(order) + 1 - k))
            for k in range(len(order) + 1)
            if not known or k == len(order)
        ]
        final = certificates[-1]
        low, high = ([self._share(cert, flips, end) for cert in certificates] for end in ("lower", "upper"))
        safe: list[Bool] = []
        if known:
            assert self._search is not None
            proved = self._search.value(chosen.order)
            if not low[-1] - 1e-9 <= proved <= high[-1] + 1e-9:
                raise RuntimeError("the attacks that were listed and the certificate contradict each other")
            low = high = [self._search.value(chosen.order[:k]) for k in range(len(order) + 1)]
        if self._objective == EACH:
            safe = [
                self._safe(chosen.order[:k]) if known else certificates[k].radius_lower > flips
                for k in range(len(order) + 1)
            ]
        gains = np.full(self._question.problem.m, 0.0 if known else np.nan)
        if known and self._search is not None:
            gains[labels] = self._search.alone()
        bound = chosen.bound if self.attacks is None or self.attacks.complete else 1.0
        return Recheck(
            labels=order,
            before=low[0],
            after=low[1:],
            after_upper=high[1:],
            best_possible=max(bound, low[-1]),
            gains=gains,
            secures=[np.flatnonzero(b & ~a) for a, b in itertools.pairwise(safe)],
            flips=flips,
            objective=self._objective,
            certificate=final,
            complete=self.attacks is None or self.attacks.complete,
        )

    def _safe(self, chosen: list[int]) -> Bool:
        assert self._search is not None
        safe = np.zeros(self._question.problem.n_test, dtype=bool)
        safe[self._question.nodes] = self._search.safe(chosen)
        return safe

    def _share(self, cert: Certificate, flips: int, end: str) -> float:
        if self._objective == COLLECTIVE:
            return cert.certified_ratio(flips=flips, collective=True, bound=end)
        radius = cert.radius_lower if end == "lower" else cert.radius_upper
        return float(self._all_weights[radius > flips].sum())


def _again(cert: Certificate, **options: Any) -> Recheck:
    """The same question about the problem of a certificate."""
    problem = problem_of(cert)
    names = Names(
        test=cert.test_names,
        labels=cert.label_names,
        class_list=cert.class_list,
        model=cert.run.model,
        around=cert.around,
    )
    K_train, K_test = problem.kernels
    assert K_train is not None
    return recheck(
        K_train, problem.labels, K_test, problem.C, loss=problem.loss, threat=problem.threat, names=names, **options
    )


def _trusting(problem: Problem, labels: list[int]) -> Threat:
    """The problem's threat, with some labels more that cannot be changed."""
    trusted = np.zeros(problem.m, dtype=bool) if problem.threat.trusted is None else np.array(problem.threat.trusted)
    trusted[labels] = True
    return replace(problem.threat, trusted=trusted)


def _seconds_per_attack(question: Question) -> float:
    """Measured on a few single changes."""
    a = question.problem.adversary
    some = [change for change, _ in zip(a.relabellings(1, question.budget), range(6), strict=False)]
    if len(some) < 2:
        return 0.0
    question.changed(some[0])  # compiled first
    started = time.perf_counter()
    for change in some[1:]:
        question.changed(change)
    return (time.perf_counter() - started) / (len(some) - 1)


def _weights(weights: npt.ArrayLike | None, n: int, objective: str) -> Float:
    if weights is None:
        return np.full(n, 1.0 / n)
    if objective == COLLECTIVE:
        raise InvalidInput("weights are for the objective 'each'; the collective curve counts every node once")
    array = np.asarray(weights, dtype=np.float64)
    if array.shape != (n,) or not np.isfinite(array).all() or (array < 0).any() or array.sum() <= 0:
        raise InvalidInput(f"weights must be {n} numbers of at least 0, one per test node, not all of them 0")
    return np.asarray(array / array.sum())


def _costs(costs: npt.ArrayLike | None, m: int) -> Int:
    if costs is None:
        return np.ones(m, dtype=np.int64)
    array = np.asarray(costs)
    if array.shape != (m,) or not np.issubdtype(array.dtype, np.integer) or (array < 1).any():
        raise InvalidInput(f"verify_costs must be {m} whole numbers of at least 1, one per label")
    return array.astype(np.int64)
