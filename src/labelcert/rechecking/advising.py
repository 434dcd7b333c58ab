"""``recheck``: from arrays, or a certificate, to the labels that are worth a second look by a person."""

from __future__ import annotations

import itertools
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from labelcert.arrays import Bool, Float, Int
from labelcert.certificate import Certificate, Stop
from labelcert.certification import GivenKernel, Names, Parts, Task, support
from labelcert.certification.places import walked_by
from labelcert.checking import real_array, whole_number
from labelcert.engines.base import WORK_LIMIT_SECONDS, Question
from labelcert.engines.control import GRACE_ON_INTERRUPT, Control
from labelcert.engines.planning import duration
from labelcert.errors import InvalidInput, WorkTooLarge
from labelcert.problem import Problem, Threat
from labelcert.problem.budget import flips_for_fraction
from labelcert.problem.lowering import MeasuredMargins
from labelcert.problem.owners import OwnerAdversary
from labelcert.problem.validation import check_seconds, check_workers
from labelcert.progress import progress_report
from labelcert.rechecking.advice import COLLECTIVE, EACH, OBJECTIVES, Recheck
from labelcert.rechecking.attacks import list_attacks, seconds_to_list
from labelcert.rechecking.best_labels import AllAtOnce, EachAlone, Goal, LabelSearch, choose, choose_until
from labelcert.rechecking.crowds import what_to_confirm, whom_to_audit
from labelcert.rechecking.gains import GainsChosen, Leads, affordable, choose_by_gains
from labelcert.rechecking.subject import Subject
from labelcert.stopping import Stopped

LINEAR_LISTED_SECONDS = 2.0
"""Attacks on linear scores are listed where that takes no longer than this; gains tell what matters otherwise."""

DENSE_CELLS = 4e6
"""Test nodes times labels up to which the rows of a linear map are looked at together."""

MOST_CONFIRMED = 1000
"""The most labels that are confirmed one after the other with gains known exactly; bounds stand for those behind."""


def recheck(
    K_train: npt.ArrayLike | Certificate | Task | None = None,
    labels: npt.ArrayLike | None = None,
    K_test: npt.ArrayLike | None = None,
    C: float | str | None = None,
    *,
    flips: int | None = None,
    fraction: float | None = None,
    confirm: int | None = None,
    audit: int | None = None,
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
    H: object = None,
    X_train: npt.ArrayLike | None = None,
    X_test: npt.ArrayLike | None = None,
) -> Recheck:
    """Which labels to have confirmed, so that as many predictions as possible survive wrong ones among the others.

    A label that a person confirmed cannot be wrong any more, so every attack that needs it is gone. The answer ranks
    labels by what depends on them, not by how likely they are wrong.

    Parameters
    ----------
    K_train, labels, K_test, C
        As in :func:`labelcert.certify`; or a certificate that holds its kernels, alone: then the threat, the loss, the
        margin and the parts are the certificate's. For a linear map of the labels, ``labels`` and ``H`` instead, or its
        certificate and ``H``. Or a task, alone (:class:`labelcert.certification.Task`).
    flips : int
        How many wrong labels to survive (in cost units, with costs).
    fraction : float, optional
        The same as a share of the labels (of their total cost, with costs).
    confirm : int, optional
        How many labels people can confirm, or what may be paid for that with ``confirm_costs`` (any number then).
    audit : int, optional
        Instead, where budgets count annotators: whom to audit, so many of them, who are then known to be honest.
    until : float, optional
        Instead: confirm as few labels as it takes until this share of predictions survives.
    objective : {"each", "collective"}
        Count predictions each of which faces its own worst attack, or those that survive one attack on all.
    weights : (n,) array, optional
        What each prediction counts, for the objective ``"each"``.
    confirm_costs : (m,) array, optional
        What confirming each label costs, any positive numbers: scores of its quality, say, so that doubtful labels are
        cheap.
    margin : float, (n,) array, or FiniteMargin
        As in :func:`labelcert.certify`: a prediction survives as long as its lead is above this.
    parts, seed, combine : optional
        As in :func:`labelcert.certify_partition`, for an ensemble on parts of the labels.
    threat, loss, time_limit, workers, device, scheduler, progress, names
        As in :func:`labelcert.certify`.
    verify, verify_costs : optional
        Older names of ``confirm`` and ``confirm_costs``.
    H : (n, m) array or SciPy sparse matrix, optional
        The rows of a linear map, as in :func:`labelcert.certify_linear`.
    X_train, X_test : (m, d) and (n, d) arrays, optional
        With the certificate of a linear model that was trained on its features: these, as in :func:`labelcert.verify`.

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
    Recheck(confirm [13, 3]: 50.0 % -> 83.3 % survive 2 flips)
    >>> advice.optimal
    True
    """
    confirm, confirm_costs = (
        _renamed("confirm", confirm, verify),
        _renamed("confirm_costs", confirm_costs, verify_costs),
    )
    _check_wish(objective, confirm, audit, until)
    control = Control(workers=check_workers(workers), time_limit=check_seconds("time_limit", time_limit))
    control.start_clock()
    if (X_train is None) != (X_test is None) or (X_train is not None and not isinstance(K_train, Certificate)):
        raise InvalidInput("X_train and X_test are given together, beside a certificate")
    if isinstance(K_train, Certificate):
        subject = Subject.of(K_train, H, None if X_train is None or X_test is None else (X_train, X_test))
    elif isinstance(K_train, Task):
        subject = Subject(K_train)
    elif H is not None:
        if labels is None or not (K_train is None and K_test is None and C is None):
            raise InvalidInput(
                "a linear map is given by its rows and its labels alone: recheck(labels=labels, H=H, ...)"
            )
        subject = Subject.of_rows(H, labels, threat, names or Names())
    elif K_train is None or labels is None or K_test is None or C is None:
        raise InvalidInput("give K_train, labels, K_test and C, or labels and H, or a certificate")
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
    prices = _costs(confirm_costs, subject.problem.m)
    pays = float(prices.sum()) if confirm is None else _payment(confirm, confirm_costs)
    crowd = isinstance(subject.problem.adversary, OwnerAdversary)
    if not crowd and audit is not None:
        raise InvalidInput("audit is about annotators: give Threat(annotators=...) or votes, or use confirm")
    support.require(subject.request(support.place_of(scheduler, device)))
    asked = _Asked(
        subject,
        _weights(weights, subject.n, objective),
        prices[subject.problem.adversary.labels],
        objective,
        pays,
        until,
        control,
    )
    with progress_report("listing attacks", progress) as show, walked_by(scheduler, control.workers, device):
        with control.running():
            control.report, control.note = show.report, show.note
            try:
                if crowd:
                    return _of_crowd(asked, audit)
                chosen = _by_gains(asked) or _Listed(asked)
            except Stopped:
                return _nothing_known(asked)
        return chosen.result() if isinstance(chosen, _Listed) else _gained(asked, chosen)


def _nothing_known(asked: _Asked) -> Recheck:
    """No label is named, since the run was over before anything was known of any."""
    final = asked.certified([], 1.0)
    return Recheck(
        labels=[],
        before=asked.share(final, "lower"),
        after=[],
        after_upper=[],
        best_possible=1.0,
        gains=np.full(asked.subject.problem.m, np.nan),
        secures=[],
        flips=asked.flips,
        objective=asked.objective,
        certificate=final,
        complete=False,
    )


def _of_crowd(asked: _Asked, audit: int | None) -> Recheck:
    """Which items to annotate again, or whom to audit, checked by a certificate."""
    if asked.objective != EACH:
        raise InvalidInput("where budgets count annotators, recheck counts predictions one by one: objective='each'")
    question, control, m = asked.question, asked.control, asked.subject.problem.m
    weights, a = asked.weights[question.nodes], cast(OwnerAdversary, asked.subject.problem.adversary)
    names, order, gains = list[str](), list[int](), np.full(m, np.nan)
    if audit is None:
        found = what_to_confirm(question, weights, asked.prices, asked.pays, control, asked.until)
        order, gains[asked.labels] = asked.labels[found.order].tolist(), found.alone
    else:
        found = whom_to_audit(question, weights, float(audit), control)
        names = [str(a.ballots.annotators[k]) for k in a.buyable[found.order]]
        gains = found.alone[found.order]
    final = asked.certified(order, 1.0, names)
    low, high = ([float(weights[safe].sum()) for safe in known] for known in (found.safe, found.possible))
    nodes = question.nodes
    if (final.radius_upper[nodes[found.safe[-1]]] <= asked.flips).any() or (
        final.radius_lower[nodes[~found.possible[-1]]] > asked.flips
    ).any():
        raise RuntimeError("what sets of annotators can do and the certificate contradict each other")
    return Recheck(
        labels=order,
        before=low[0],
        after=low[1:],
        after_upper=high[1:],
        best_possible=max(found.bound, low[-1]),
        gains=gains,
        secures=[np.sort(nodes[new & ~old]) for old, new in itertools.pairwise(found.safe)],
        flips=asked.flips,
        objective=EACH,
        certificate=final,
        complete=found.complete,
        annotators=None if audit is None else names,
    )


@dataclass(frozen=True, eq=False)
class _Asked:
    """One question, and what may be paid for the answer."""

    subject: Subject
    weights: Float
    prices: Float
    """Of the labels that may be changed."""
    objective: str
    pays: float
    until: float | None
    control: Control

    @property
    def flips(self) -> int:
        """What the adversary has."""
        return self.subject.problem.max_flips

    @cached_property
    def question(self) -> Question:
        """All test nodes, and all labels."""
        return self.subject.question()

    @property
    def labels(self) -> Int:
        """(ν,) those that may be changed."""
        return self.subject.problem.adversary.labels

    def certified(self, trusted: list[int], share: float, honest: Sequence[str] = ()) -> Certificate:
        """With some more labels that cannot be changed, and honest annotators, in a share of the time that is left."""
        deadline = self.control.deadline
        seconds = None if deadline is None else max(0.5, share * (deadline - time.monotonic()))
        return self.subject.certify(
            trusted,
            honest,
            time_limit=GRACE_ON_INTERRUPT if self.control.stop is Stop.INTERRUPTED else seconds,
            workers=self.control.workers,
            collective=self.objective == COLLECTIVE,
        )

    def share(self, cert: Certificate, end: str) -> float:
        """What survives, by a certificate."""
        if self.objective == COLLECTIVE:
            return cert.certified_ratio(flips=self.flips, collective=True, bound=end)
        radius = cert.radius_lower if end == "lower" else cert.radius_upper
        return float(self.weights[radius > self.flips].sum())

    def attacks(self) -> float:
        """How many there are."""
        a = self.subject.problem.adversary
        return a.count_sets(self.flips, a.targets.sum(axis=1))


def _by_gains(asked: _Asked) -> GainsChosen | None:
    """The labels to confirm where scores are linear and attacks are many; None where attacks are to be listed."""
    subject, problem = asked.subject, asked.subject.problem
    small = subject.rows is None or float(subject.n) * problem.m <= DENSE_CELLS
    if asked.objective != EACH or not asked.labels.size or not subject.n or problem.emptied:
        if not small:
            raise WorkTooLarge(
                f"{subject.n:,} rows of {problem.m:,} labels are rechecked with objective='each' alone, and where no "
                "class can lose its last label; ask for that, or about fewer rows"
            )
        return None
    if small and (
        not asked.question.predictor.linear
        or asked.attacks() * _seconds_per_attack(asked.question) <= LINEAR_LISTED_SECONDS
    ):
        return None
    a = problem.adversary
    confirmed = min(a.labels.size, affordable(asked.prices, asked.pays), MOST_CONFIRMED)
    leads = Leads(subject.blocks(), a, asked.flips, subject.n, confirmed)
    return choose_by_gains(leads, asked.weights, asked.prices, asked.pays, asked.control, asked.until)


def _gained(asked: _Asked, chosen: GainsChosen) -> Recheck:
    """The answer, checked by a certificate."""
    order = [int(asked.labels[i]) for i in chosen.order]
    final = asked.certified(order, 1.0)
    low, high = ([float(asked.weights[nodes].sum()) for nodes in found] for found in (chosen.safe, chosen.possible))
    if (final.radius_upper[chosen.safe[-1]] <= asked.flips).any() or (
        final.radius_lower[~chosen.possible[-1]] > asked.flips
    ).any():
        raise RuntimeError("the gains of labels and the certificate contradict each other")
    gains = np.zeros(asked.subject.problem.m)
    gains[asked.labels] = chosen.alone
    return Recheck(
        labels=order,
        before=low[0],
        after=low[1:],
        after_upper=high[1:],
        best_possible=max(chosen.bound, low[-1]),
        gains=gains,
        secures=[np.flatnonzero(new & ~old) for old, new in itertools.pairwise(chosen.safe)],
        flips=asked.flips,
        objective=EACH,
        certificate=final,
    )


class _Listed:
    """One question, whose attacks are listed, all or in part."""

    def __init__(self, asked: _Asked) -> None:
        self._asked, self._question = asked, asked.question
        control, weights = asked.control, asked.weights[asked.question.nodes]
        seconds = seconds_to_list(self._question, control)
        if seconds > WORK_LIMIT_SECONDS and control.time_limit is None:
            raise WorkTooLarge(
                f"listing {asked.attacks():,.6g} attacks would take about {duration(seconds)}; ask for fewer flips, "
                "trust some labels (labelcert.Threat), or give time_limit=SECONDS for what can be proved in that time"
            )
        part = control.part(0.5) if control.time_limit is not None else control
        self._attacks = list_attacks(self._question, weights, part, strongest=asked.objective == COLLECTIVE)
        kind: type[Goal] = EachAlone if asked.objective == EACH else AllAtOnce
        self._search = LabelSearch(kind(self._attacks, weights), asked.prices, control)
        self._chosen = (
            choose(self._search, asked.pays)
            if asked.until is None
            else choose_until(self._search, asked.until, asked.pays)
        )

    def result(self) -> Recheck:
        """Evaluate the choice with certificates of its own."""
        asked, chosen = self._asked, self._chosen
        order = [int(asked.labels[i]) for i in chosen.order]
        known = self._attacks.complete
        certificates = [
            asked.certified(order[:k], 1 / (len(order) + 1 - k))
            for k in range(len(order) + 1)
            if not known or k == len(order)
        ]
        final = certificates[-1]
        low, high = ([asked.share(cert, end) for cert in certificates] for end in ("lower", "upper"))
        safe: list[Bool] = []
        if known:
            proved = self._search.value(chosen.order)
            if not low[-1] - 1e-9 <= proved <= high[-1] + 1e-9:
                raise RuntimeError("the attacks that were listed and the certificate contradict each other")
            low = high = [self._search.value(chosen.order[:k]) for k in range(len(order) + 1)]
        if asked.objective == EACH:
            safe = [
                self._safe(chosen.order[:k]) if known else certificates[k].radius_lower > asked.flips
                for k in range(len(order) + 1)
            ]
        gains = np.full(asked.subject.problem.m, 0.0 if known else np.nan)
        if known:
            gains[asked.labels] = self._search.alone()
        return Recheck(
            labels=order,
            before=low[0],
            after=low[1:],
            after_upper=high[1:],
            best_possible=max(chosen.bound if known else 1.0, low[-1]),
            gains=gains,
            secures=[np.flatnonzero(b & ~a) for a, b in itertools.pairwise(safe)],
            flips=asked.flips,
            objective=asked.objective,
            certificate=final,
            complete=known,
        )

    def _safe(self, chosen: list[int]) -> Bool:
        safe = np.zeros(self._asked.subject.n, dtype=bool)
        safe[self._question.nodes] = self._search.safe(chosen)
        return safe


def _check_wish(objective: str, confirm: int | None, audit: int | None, until: float | None) -> None:
    """What is wanted, and for what."""
    if objective not in OBJECTIVES:
        raise InvalidInput(f"objective must be 'each' or 'collective', got {objective!r}")
    if sum(given is not None for given in (confirm, audit, until)) != 1:
        raise InvalidInput(
            "say how many labels to confirm (confirm=5), what to reach (until=0.9), or how many annotators to audit "
            "(audit=3): one of these"
        )
    if audit is not None:
        whole_number("audit", audit, 1)
    if until is not None and not 0 <= until <= 1:
        raise InvalidInput(f"until must be a share between 0 and 1, got {until!r}")


def _budget(problem: Problem, flips: int | None, fraction: float | None) -> int:
    """How many wrong labels to survive."""
    if flips is not None and fraction is None:
        return flips
    if fraction is None or flips is not None:
        raise InvalidInput("say how many wrong labels to survive: flips=2, or fraction=0.1")
    return flips_for_fraction(fraction, problem.adversary.never - 1)


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
    array = real_array("weights", weights)
    if array.shape != (n,) or not np.isfinite(array).all() or (array < 0).any() or array.sum() <= 0:
        raise InvalidInput(f"weights must be {n} numbers of at least 0, one per test node, not all of them 0")
    return np.asarray(array / array.sum())


def _payment(confirm: float, costs: npt.ArrayLike | None) -> float:
    """How many labels to confirm, or what may be paid."""
    if costs is None:
        return whole_number("confirm", confirm)
    if isinstance(confirm, bool) or not isinstance(confirm, int | float | np.number) or not 0 <= confirm < np.inf:
        raise InvalidInput(f"confirm must be a number of at least 0, what may be paid, got {confirm!r}")
    return float(confirm)


def _costs(costs: npt.ArrayLike | None, m: int) -> Float:
    if costs is None:
        return np.ones(m)
    array = real_array("confirm_costs", costs)
    if array.shape != (m,) or not ((array > 0) & (array < np.inf)).all():
        raise InvalidInput(f"confirm_costs must be {m} positive numbers, one per label")
    return array
