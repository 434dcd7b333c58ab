"""``recheck``: from arrays, or a certificate, to the labels that are worth a second look by a person."""

from __future__ import annotations

import itertools
import time
from typing import Any

import numpy as np
import numpy.typing as npt

from labelcert.arrays import Bool, Float, Int
from labelcert.certificate import Certificate
from labelcert.certification import GivenKernel, Names, Parts, Task, support
from labelcert.certification.places import walked_by
from labelcert.checking import whole_number
from labelcert.engines.base import WORK_LIMIT_SECONDS, Question
from labelcert.engines.control import Control
from labelcert.engines.planning import duration
from labelcert.errors import InvalidInput, WorkTooLarge
from labelcert.problem import Problem, Threat
from labelcert.problem.budget import flips_for_fraction
from labelcert.problem.lowering import MeasuredMargins
from labelcert.problem.validation import check_seconds, check_workers
from labelcert.progress import progress_report
from labelcert.rechecking.advice import COLLECTIVE, EACH, OBJECTIVES, Recheck
from labelcert.rechecking.attacks import AttackList, list_attacks
from labelcert.rechecking.best_labels import AllAtOnce, Chosen, EachAlone, Goal, LabelSearch, choose, choose_until
from labelcert.rechecking.gains import applies, choose_by_gains
from labelcert.rechecking.subject import Subject

LISTED_SECONDS = 120.0
"""Attacks are listed where that takes no longer than this, or as long as a time limit allows."""


def recheck(
    K_train: npt.ArrayLike | Certificate,
    labels: npt.ArrayLike | None = None,
    K_test: npt.ArrayLike | None = None,
    C: float | str | None = None,
    *,
    flips: int | None = None,
    fraction: float | None = None,
    confirm: int | None = None,
    until: float | None = None,
    objective: str = EACH,
    weights: npt.ArrayLike | None = None,
    confirm_costs: npt.ArrayLike | None = None,
    threat: Threat | None = None,
    loss: str = "hinge",
    margin: npt.ArrayLike | MeasuredMargins = 0.0,
    parts: int | npt.ArrayLike | None = None,
    seed: int = 0,
    combine: str = "mean",
    time_limit: float | None = None,
    workers: int | None = None,
    device: str = "auto",
    scheduler: str | None = None,
    progress: bool = False,
    names: Names | None = None,
    verify: int | None = None,
    verify_costs: npt.ArrayLike | None = None,
) -> Recheck:
    """Which labels to have confirmed, so that as many predictions as possible survive wrong ones among the others.

    A label that a person confirmed cannot be wrong any more, so every attack that needs it is gone. The answer ranks
    labels by what depends on them, not by how likely they are wrong.

    Parameters
    ----------
    K_train, labels, K_test, C
        As in :func:`labelcert.certify`; or a certificate that holds its kernels, alone: then the threat, the loss, the
        margin and the parts are the certificate's.
    flips : int
        How many wrong labels to survive (in cost units, with costs).
    fraction : float, optional
        The same as a share of the labels (of their total cost, with costs).
    confirm : int, optional
        How many labels people can confirm, or what may be paid for that with ``confirm_costs``.
    until : float, optional
        Instead: confirm as few labels as it takes until this share of predictions survives.
    objective : {"each", "collective"}
        Count predictions each of which faces its own worst attack, or those that survive one attack on all.
    weights : (n,) array, optional
        What each prediction counts, for the objective ``"each"``.
    confirm_costs : (m,) integer array, optional
        What confirming each label costs: scores of its quality, say, so that doubtful labels are cheap.
    margin : float, (n,) array, or FiniteMargin
        As in :func:`labelcert.certify`: a prediction survives as long as its lead is above this.
    parts, seed, combine : optional
        As in :func:`labelcert.certify_partition`, for an ensemble on parts of the labels.
    threat, loss, time_limit, workers, device, scheduler, progress, names
        As in :func:`labelcert.certify`.
    verify, verify_costs : optional
        Older names of ``confirm`` and ``confirm_costs``.

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
    >>> advice = recheck(data.K_train, data.labels, data.K_test, C=1.0, flips=2, confirm=2)
    >>> advice
    Recheck(confirm [13, 3]: 50.0% -> 83.3% survive 2 flips)
    >>> advice.optimal
    True
    """
    confirm, confirm_costs = (
        _renamed("confirm", confirm, verify),
        _renamed("confirm_costs", confirm_costs, verify_costs),
    )
    if objective not in OBJECTIVES:
        raise InvalidInput(f"objective must be 'each' or 'collective', got {objective!r}")
    if (confirm is None) == (until is None):
        raise InvalidInput("say how many labels to confirm (confirm=5), or what to reach (until=0.9), not both")
    if until is not None and not 0 <= until <= 1:
        raise InvalidInput(f"until must be a share between 0 and 1, got {until!r}")
    control = Control(workers=check_workers(workers), time_limit=check_seconds("time_limit", time_limit))
    if isinstance(K_train, Certificate):
        subject = Subject.of(K_train)
    elif labels is None or K_test is None or C is None:
        raise InvalidInput("give K_train, labels, K_test and C, or a certificate that holds its kernels")
    else:
        dealt = None if parts is None else Parts(parts, seed, combine)
        task = Task(
            GivenKernel(K_train, K_test, C, loss),
            labels,
            threat=threat,
            max_flips=0,
            margin=margin,
            parts=dealt,
            names=names or Names(),
        )
        subject = Subject(task)
    subject = subject.within(_budget(subject.problem, flips, fraction))
    given = _weights(weights, subject.problem.n_test, objective)
    price = _costs(confirm_costs, subject.problem.m)[subject.problem.adversary.labels]
    pays = int(price.sum()) if confirm is None else whole_number("confirm", confirm)
    support.require(subject.request(support.place_of(scheduler, device)))
    with progress_report("listing attacks", progress) as show, walked_by(scheduler, control.workers, device):
        question = subject.question()
        control.start_clock()
        with control.running():
            control.report, control.note = show.report, show.note
            found = _Advice(subject, question, given, price, objective, control)
            chosen = found.choose(pays, until)
        return found.result(chosen)


class _Advice:
    """One question, and how its attacks are known: as a list, by gains, or in part."""

    def __init__(
        self, subject: Subject, question: Question, weights: Float, price: Int, objective: str, control: Control
    ) -> None:
        self._subject, self._flips = subject, subject.problem.max_flips
        self._question, self._all_weights, self._price = question, weights, price
        self._objective, self._control = objective, control
        self._weights = weights[question.nodes]
        self._search: LabelSearch | None = None
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
        self._search = LabelSearch(kind(self.attacks, self._weights), price, control)

    def choose(self, budget: int, until: float | None) -> Chosen:
        """The labels to confirm, for a price or until a share is reached."""
        if self._search is None:
            return choose_by_gains(self._question, self._weights, self._price, budget, self._control, until)
        if until is None:
            return choose(self._search, budget)
        return choose_until(self._search, until, budget)

    def _certified(self, trusted: list[int], share: float) -> Certificate:
        """A certificate with some more labels that cannot be changed, in a share of the time that is left."""
        deadline = self._control.deadline
        return self._subject.certify(
            trusted,
            time_limit=None if deadline is None else max(1.0, share * (deadline - time.monotonic())),
            workers=self._control.workers,
            collective=self._objective == COLLECTIVE,
        )

    def result(self, chosen: Chosen) -> Recheck:
        """Evaluate the choice with certificates of its own."""
        labels = self._question.problem.adversary.labels
        order = [int(labels[i]) for i in chosen.order]
        known = self.attacks is not None and self.attacks.complete
        certificates = [
            self._certified(order[:k], 1 / (len(order) + 1 - k))
            for k in range(len(order) + 1)
            if not known or k == len(order)
        ]
        final = certificates[-1]
        low, high = ([self._share(cert, end) for cert in certificates] for end in ("lower", "upper"))
        safe: list[Bool] = []
        if known:
            assert self._search is not None
            proved = self._search.value(chosen.order)
            if not low[-1] - 1e-9 <= proved <= high[-1] + 1e-9:
                raise RuntimeError("the attacks that were listed and the certificate contradict each other")
            low = high = [self._search.value(chosen.order[:k]) for k in range(len(order) + 1)]
        if self._objective == EACH:
            safe = [
                self._safe(chosen.order[:k]) if known else certificates[k].radius_lower > self._flips
                for k in range(len(order) + 1)
            ]
        gains = np.full(self._subject.problem.m, 0.0 if known else np.nan)
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
            flips=self._flips,
            objective=self._objective,
            certificate=final,
            complete=self.attacks is None or self.attacks.complete,
        )

    def _safe(self, chosen: list[int]) -> Bool:
        assert self._search is not None
        safe = np.zeros(self._question.problem.n_test, dtype=bool)
        safe[self._question.nodes] = self._search.safe(chosen)
        return safe

    def _share(self, cert: Certificate, end: str) -> float:
        if self._objective == COLLECTIVE:
            return cert.certified_ratio(flips=self._flips, collective=True, bound=end)
        radius = cert.radius_lower if end == "lower" else cert.radius_upper
        return float(self._all_weights[radius > self._flips].sum())


def _budget(problem: Problem, flips: int | None, fraction: float | None) -> int:
    """How many wrong labels to survive."""
    if flips is not None and fraction is None:
        return flips
    if fraction is None or flips is not None:
        raise InvalidInput("say how many wrong labels to survive: flips=2, or fraction=0.1")
    costs = problem.threat.costs
    return flips_for_fraction(fraction, problem.m if costs is None else int(np.sum(np.asarray(costs))))


def _renamed(name: str, value: Any, older: Any) -> Any:
    """The value of an option that has an older name, too."""
    if value is not None and older is not None:
        raise InvalidInput(f"{name} has an older name, verify{name.removeprefix('confirm')}: give one of them")
    return older if value is None else value


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
        raise InvalidInput(f"confirm_costs must be {m} whole numbers of at least 1, one per label")
    return array.astype(np.int64)
