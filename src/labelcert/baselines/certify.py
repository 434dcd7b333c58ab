"""``certify_baseline``: from arrays to the certificate of a baseline."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import numpy.typing as npt

from labelcert.baselines.proving import Asked, lower_ends
from labelcert.baselines.registry import baseline_named
from labelcert.certificate import Certificate
from labelcert.certification import support
from labelcert.checking import whole_number
from labelcert.engines.control import Control
from labelcert.engines.freezing import Names
from labelcert.losses import LOSSES
from labelcert.problem import Problem, Threat
from labelcert.problem.validation import check_seconds, check_workers


def certify_baseline(
    K_train: npt.ArrayLike,
    labels: npt.ArrayLike,
    K_test: npt.ArrayLike,
    C: float | str,
    *,
    using: str,
    max_flips: int | None = None,
    loss: str | None = None,
    seed: int = 0,
    threat: Threat | None = None,
    time_limit: float | None = None,
    workers: int | None = None,
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
    loss : str, optional
        What the model is trained with. Each baseline has its own default, and refuses what it cannot do.
    seed : int
        Of the hash that deals out labels to parts.
    threat : Threat, optional
        Only one that restricts nothing: any label may change, at one unit each.
    time_limit, workers : optional
        Recorded. Baselines take seconds, on one thread.
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

    Raises
    ------
    InvalidInput
        The input is refused; the message says why and what to do.

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
    started = time.perf_counter()
    info = baseline_named(using)
    loss = info.losses[0] if loss is None else loss
    if loss in LOSSES:
        asked = support.Request(
            predictor=support.MEAN if options.get("combine") == "mean" else support.MACHINE,
            loss=loss,
            margin="margin" in options,
            asks=support.BASELINE,
            engine=options.get("engine", "auto"),
            place=support.place_of(options.get("scheduler"), options.get("device", "auto")),
        )
        support.require(asked)
    info.check(loss, options)
    control = Control(workers=check_workers(workers), time_limit=check_seconds("time_limit", time_limit))
    problem = Problem.unsettled(K_train, labels, K_test, C, threat=threat, max_flips=max_flips, loss=loss)
    support.require(replace(asked, classes=problem.n_classes, threat=support.kinds_of(problem.threat)))
    known = names or Names()
    proved = info.prove(Asked(problem, known, whole_number("seed", seed, None)), **options)
    decides = {**options, "seed": int(seed)}
    return lower_ends(proved, using, control, time.perf_counter() - started, known, decides)
