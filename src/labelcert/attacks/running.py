"""Attacks at work: engines that look for attacks and prove nothing else, and ``attack``, which asks for one of them."""

from __future__ import annotations

import itertools
import time
from concurrent.futures import ThreadPoolExecutor
from contextvars import Context, copy_context
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from labelcert.attacks.registry import ATTACKS, Attack, get_attack
from labelcert.certificate import Certificate
from labelcert.certification import GivenKernel, Names, Run, Task, solve
from labelcert.certification.places import CPU
from labelcert.checking import whole_number
from labelcert.engines.base import Attacks, Capabilities, Findings, PlainEngine, Question
from labelcert.engines.control import Control
from labelcert.engines.registry import register
from labelcert.prediction import Predictor, predictor_for
from labelcert.problem import Problem, Relabelling, Threat
from labelcert.problem.lowering import MeasuredMargins

MARK = "attack:"
"""What the names of attacks start with, where that of an engine would stand."""


def attack(
    K_train: npt.ArrayLike,
    labels: npt.ArrayLike,
    K_test: npt.ArrayLike,
    C: float | str,
    *,
    using: str = "greedy",
    threat: Threat | None = None,
    max_flips: int | None = None,
    max_fraction: float | None = None,
    loss: str = "hinge",
    intercept: bool = False,
    seed: int = 0,
    targeted: bool = False,
    margin: npt.ArrayLike | MeasuredMargins = 0.0,
    names: Names | None = None,
    time_limit: float | None = None,
    workers: int | None = None,
    progress: bool = False,
) -> Certificate:
    """Attack the predictions of a kernel machine with one heuristic, at every budget.

    What comes back has the form of a certificate, and every attack in it is retrained and proved to work. But it
    proves nothing about robustness: it has upper ends of radii and lower ends of the collective curve. Exact ones are
    in the certificate of the same arguments, and the difference is what the heuristic misses.

    Parameters
    ----------
    K_train, labels, K_test, C, threat, max_fraction, loss, intercept, margin, names, progress
        As in :func:`labelcert.certify`.
    using : str
        Which attack: "random", "nearest", "furthest", "alfa", "biggio", "ridge-gradient", "label-propagation", "lafak"
        or "greedy". See :data:`labelcert.attacks.ATTACKS`.
    max_flips : int, optional
        Largest budget (in cost units, with costs). By default it is all labels. Larger budgets than one at which all
        predictions change are not tried.
    seed : int
        Of everything random. The same seed has the same result, whatever the number of workers.
    targeted : bool
        Whether every test node is attacked alone, too, at rising budgets until its prediction changes. What
        such an attack does to other nodes does not count.
    time_limit : float, optional
        Seconds; attacks that were found by then count.
    workers : int, optional
        Threads; all cores by default.

    Examples
    --------
    >>> from labelcert import attack
    >>> from labelcert.examples import two_clouds
    >>> data = two_clouds()
    >>> found = attack(data.K_train, data.labels, data.K_test, data.C, using="alfa", max_flips=3)
    >>> found.engine, found.collective_lower.tolist()
    ('attack:alfa', [0, 0, 1, 3])
    """
    options = {"seed": whole_number("seed", seed), "targeted": targeted}
    name = f"{MARK}{get_attack(using).name}"
    run = Run(name, options, time_limit=time_limit, workers=workers, progress=progress, device=CPU)
    model = GivenKernel(K_train, K_test, C, loss, intercept)
    task = Task(model, labels, threat, max_flips, max_fraction, margin=margin, names=names or Names())
    return solve(task, run)


@dataclass(frozen=True)
class AttackEngine(PlainEngine):
    """One heuristic, at rising budgets; if targeted, against every node alone, too."""

    using: str
    seed: int = 0
    targeted: bool = False
    capabilities = Capabilities(advertised=False)

    @property
    def name(self) -> str:
        """As certificates call it."""
        return f"{MARK}{self.using}"

    def configured(self, *, seed: int = 0, targeted: bool = False) -> AttackEngine:
        """The same attack with these options, for one run."""
        return replace(self, seed=seed, targeted=targeted)

    def predictor(self, problem: Problem) -> Predictor:
        """Retraining, or linear maps where that is proved to be the same."""
        return predictor_for(problem, linear=problem.is_linear())

    def run(self, question: Question, control: Control, known: Findings) -> Findings:
        """All nodes at once, then each of them alone if that is asked for."""
        running, began = _Running(question, get_attack(self.using).function, self.seed, control), time.perf_counter()
        targeted = self.targeted and question.nodes.size > 0
        if question.nodes.size:
            running.attack_all()
        if targeted:
            running.attack_each()
        found, seconds = running.attacks, time.perf_counter() - began
        return replace(
            known,
            radius_upper=found.radius,
            radius_changes=found.radius_changes,
            curve_lower=found.curve,
            curve_changes=found.curve_changes,
            statistics={"seed": self.seed, "attacks": running.calls, "targeted": targeted, "seconds": seconds},
        )


for _name in ATTACKS:
    register(AttackEngine(_name))


class _Running:
    """One attack at work.

    Every call has random numbers of its own, so that the order of calls does not matter.
    """

    def __init__(self, question: Question, function: Attack, seed: int, control: Control) -> None:
        self._question, self._function, self._seed, self._control = question, function, seed, control
        self._problem = question.problem.with_rows(question.problem.K_test[question.nodes])
        self.attacks, self.calls = Attacks(question), 0

    def attack_all(self) -> None:
        """All nodes at once, at rising budgets, until all of them change."""
        n = self._question.nodes.size

        def found_at(budget: int) -> Relabelling:
            return self._function(self._problem, budget, np.random.default_rng([self._seed, budget]))

        budgets = iter(range(1, self._question.budget + 1))
        with ThreadPoolExecutor(self._control.workers) as pool:
            while batch := list(itertools.islice(budgets, self._control.workers)):
                # In the context of the run: what stops it stops attacks on threads, too.
                for change in pool.map(Context.run, [copy_context() for _ in batch], itertools.repeat(found_at), batch):
                    if self._control.over() or self.attacks.curve[-1] == n:
                        return
                    self.calls += 1
                    self.attacks.enter(change)

    def attack_each(self) -> None:
        """Every node alone, at rising budgets below its known radius, until it changes."""
        nodes, known = range(self._question.nodes.size), self.attacks.radius.copy()
        with ThreadPoolExecutor(self._control.workers) as pool:
            for t, (change, calls) in enumerate(pool.map(lambda t: self._first(t, int(known[t])), nodes)):
                self.calls += calls
                if change is not None:
                    self.attacks.take(change, np.arange(len(nodes)) == t)

    def _first(self, t: int, known: int) -> tuple[Relabelling | None, int]:
        """The first attack on one node that changes it, and the number of attacks that were tried."""
        alone, calls = self._problem.with_rows(self._problem.K_test[t : t + 1]), 0
        for budget in range(1, min(self._question.budget + 1, known)):
            if self._control.over():
                break
            calls += 1
            change = self._function(alone, budget, np.random.default_rng([self._seed, budget, t + 1]))
            if self._question.changed(change, np.array([t]))[0][0]:
                return change, calls
        return None, calls
