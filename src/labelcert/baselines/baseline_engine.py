"""Baselines at work: engines that prove lower ends of radii, and ``certify_baseline``, which asks for one of them."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from labelcert.baselines.proving import Proved
from labelcert.baselines.registry import BASELINES, BaselineInfo, baseline_named
from labelcert.certificate import Certificate
from labelcert.certification import GivenKernel, Names, Parts, Run, Task, solve, support
from labelcert.certification.places import CPU
from labelcert.checking import whole_number
from labelcert.engines.base import Capabilities, Findings, PlainEngine, Question, within_reach
from labelcert.engines.control import Control
from labelcert.engines.partition.engine import ENSEMBLE
from labelcert.engines.registry import AUTO, register
from labelcert.losses import LOSSES
from labelcert.prediction import Predictor
from labelcert.problem import Problem, Threat
from labelcert.problem.problem import ONE_MODEL

MARK = "baseline:"
"""Before the name of a baseline, where that of an engine would stand."""


def certify_baseline(
    K_train: npt.ArrayLike,
    labels: npt.ArrayLike,
    K_test: npt.ArrayLike,
    C: float | str,
    *,
    using: str,
    max_flips: int | None = None,
    max_fraction: float | None = None,
    loss: str | None = None,
    seed: int = 0,
    threat: Threat | None = None,
    time_limit: float | None = None,
    workers: int | None = None,
    progress: bool = False,
    names: Names | None = None,
    **options: Any,
) -> Certificate:
    """Certify with a method of other authors, for comparison.

    A baseline proves lower ends of radii. It looks for no attacks, so all upper ends stay open. Some baselines speak
    of another classifier than :func:`labelcert.certify`: see the documentation.

    Parameters
    ----------
    K_train, labels, K_test, C
        As in :func:`labelcert.certify`.
    using : {"smoothing", "tighter-smoothing", "partition-votes", "sensitivity"}
        Which baseline.
    max_flips : int, optional
        Largest budget; all labels by default.
    max_fraction : float, optional
        The same as a share of the labels.
    loss : str, optional
        What the model is trained with. Each baseline has its own default, and refuses what it cannot do.
    seed : int
        Of the hash that deals out labels to parts.
    threat : Threat, optional
        Only one that restricts nothing: any label may change, at one unit each.
    time_limit, workers : optional
        Recorded. Baselines take seconds, on one thread.
    progress : bool
        Show a progress bar on standard error.
    names : Names, optional
        What test nodes, labelled nodes and classes are called.
    **options
        ``noise`` (of the smoothing baselines): the probability that a label is replaced, 0.1 by default.
        ``parts`` (of ``"partition-votes"``): the number of parts, 30 by default. ``per_label`` (of
        ``"sensitivity"``): whether each label has a sensitivity of its own, True by default.

    Returns
    -------
    Certificate
        With lower ends alone: ``radius_upper`` is ``never``, but for a node whose clean votes or scores are tied.

    Examples
    --------
    >>> import numpy as np
    >>> from labelcert import certify_baseline
    >>> points = np.array([-3.0, -2.5, -2.0, -1.5, -1.0, 1.0, 1.5, 2.0, 2.5, 3.0])
    >>> K = np.outer(points, points)
    >>> cert = certify_baseline(K, points > 0, np.outer([-3.0, 1.5], points), C=0.01, using="tighter-smoothing")
    >>> cert
    Certificate(2 test nodes, 10 labels of 2 classes, budgets 0..10, lower bounds, engine='baseline:tighter-smoothing')
    >>> cert.predictions.tolist(), cert.radius_lower.tolist()
    ([False, True], [2, 2])
    """
    info = baseline_named(using)
    loss = info.losses[0] if loss is None else loss
    if loss in LOSSES:
        support.require(
            support.Request(
                predictor=support.MEAN if options.get("combine") == "mean" else support.MACHINE,
                loss=loss,
                margin="margin" in options,
                asks=support.BASELINE,
                engine=options.get("engine", AUTO),
                place=support.place_of(options.get("scheduler"), options.get("device", "auto")),
            )
        )
    info.check(loss, options)
    seed = whole_number("seed", seed, None)
    own = {name: np.asarray(value).item() for name, value in {**options, "seed": seed}.items()}
    run = Run(f"{MARK}{using}", own, time_limit=time_limit, workers=workers, progress=progress, device=CPU)
    parts = Parts({**info.options, **options}["parts"], seed, "votes") if info.deals_out else None
    model = GivenKernel(K_train, K_test, C, loss)
    return solve(Task(model, labels, threat, max_flips, max_fraction, parts, names=names or Names()), run)


@dataclass
class BaselineEngine(PlainEngine):
    """One certificate from the literature, with its own options and the seed."""

    info: BaselineInfo
    options: Mapping[str, Any] = field(default_factory=dict)
    _proved: Proved | None = None

    @property
    def name(self) -> str:
        """As certificates call it."""
        return f"{MARK}{self.info.name}"

    @property
    def capabilities(self) -> Capabilities:
        """Lower ends alone, for the losses that it knows."""
        kind = ENSEMBLE if self.info.deals_out else ONE_MODEL
        return Capabilities(
            finds_attacks=False, advertised=False, predictors=frozenset({kind}), losses=self.info.losses
        )

    def configured(self, **options: Any) -> BaselineEngine:
        """With its options, for one run."""
        return BaselineEngine(self.info, options)

    def predictor(self, problem: Problem) -> Predictor:
        """The classifier that the baseline speaks of: some are only known with what is proved about them."""
        given = {name: value for name, value in self.options.items() if name != "seed"}
        self._proved = self.info.prove(problem, **given)
        return self._proved.predictor

    def run(self, question: Question, control: Control, known: Findings) -> Findings:
        """No attack is known, and the curve follows from the radii."""
        assert self._proved is not None
        lower = np.minimum(self._proved.lower[question.nodes], question.budget + 1)
        plain = replace(question.problem, by=None).digest()
        return replace(
            known,
            radius_lower=lower,
            curve_upper=within_reach(lower, question.budget),
            statistics={**self._proved.statistics, "options": dict(self.options)},
            sha256=hashlib.sha256(f"{plain} {self.name} {sorted(self.options.items())}".encode()).hexdigest(),
        )


for _info in BASELINES.values():
    register(BaselineEngine(_info))
