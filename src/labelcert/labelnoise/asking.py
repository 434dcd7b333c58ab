"""``noise``: from arrays, and rates of wrong labels, to the probability that each prediction changes."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from labelcert.arrays import Float
from labelcert.certification import GivenKernel, GivenRows, Names, Task, support
from labelcert.certification.reductions import margins_of, posed, reduced, unfinished
from labelcert.checking import flag, in_short, real_number, whole_number
from labelcert.engines.control import Control
from labelcert.engines.row_blocks import ROW_BLOCKS
from labelcert.errors import InvalidInput
from labelcert.labelnoise.answering import Asked
from labelcert.labelnoise.rates import odds_of
from labelcert.labelnoise.result import SAMPLES, Noise
from labelcert.labelnoise.sampling import needed
from labelcert.prediction.by_features import ByFeatures
from labelcert.problem import Problem, Threat
from labelcert.problem.ballots import Votes
from labelcert.problem.validation import check_seconds, check_workers
from labelcert.progress import progress_report

ROUNDS = 20
"""In so many rounds samples are taken where they are kept in a file."""


def noise(
    K_train: npt.ArrayLike,
    labels: npt.ArrayLike,
    K_test: npt.ArrayLike,
    C: float | str,
    *,
    wrong: float | npt.ArrayLike | Mapping[Any, float],
    annotators: npt.ArrayLike | Votes | None = None,
    loss: str = "hinge",
    intercept: bool = False,
    width: float = 0.02,
    confidence: float = 0.95,
    time_limit: float | None = None,
    workers: int | None = None,
    seed: int = 0,
    progress: bool = False,
    resume: Noise | None = None,
    keep: str | os.PathLike[str] | None = None,
    names: Names | None = None,
) -> Noise:
    """How probable it is that each prediction changes, where each label is wrong by chance.

    Labels are wrong independently of each other. The answer is proved where all labellings can be walked, and where
    scores are linear in the labels. Elsewhere, it comes from models that are retrained on sampled labellings, with an
    interval for each prediction at the stated confidence.

    Parameters
    ----------
    K_train, labels, K_test, C, loss, intercept, names
        As in :func:`labelcert.certify`.
    wrong : float, (m,) array, mapping or (K, K) array
        One rate for all labels; one for each; one for each annotator, by name; or a confusion matrix whose row for a
        label holds the probabilities of all true classes, in the order of the sorted classes. A rate is shared equally
        by the other classes.
    annotators : (m,) array or Votes, optional
        Who gave each label, where ``wrong`` is a mapping; or all votes, which say by Bayes' rule how probable each
        class is for each label.
    width : float
        Sampled intervals are to be no wider.
    confidence : float
        Of each sampled interval, for itself.
    time_limit : float, optional
        Seconds. What was sampled by then counts; Ctrl-C does the same at any moment.
    workers : int, optional
        Threads; all cores by default. Answers do not depend on it.
    seed : int
        Of the sampled labellings.
    progress : bool
        Show a progress bar on standard error.
    resume : Noise, optional
        An answer to the same question that was stopped, or is not narrow enough: its samples count.
    keep : path, optional
        A file that is written every now and then with what was sampled so far, as :meth:`Noise.save` does. Where it
        is there already, it is resumed: a run that was killed goes on if it is started again.

    Returns
    -------
    Noise

    Raises
    ------
    InvalidInput
        The input is refused; the message says why and what to do.
    WorkTooLarge
        Sampling would take too long; the message says what would fit.

    Examples
    --------
    >>> import labelcert
    >>> from labelcert.examples import two_clouds
    >>> data = two_clouds()
    >>> labelcert.noise(data.K_train, data.labels, data.K_test, C=1.0, wrong=0.05)
    Noise(12 predictions, 16 labels, 0.03865 expected changes, all labellings, proved)
    """
    task = Task(GivenKernel(K_train, K_test, C, loss, intercept), labels, names=names or Names())
    return noise_of(
        task,
        wrong=wrong,
        annotators=annotators,
        width=width,
        confidence=confidence,
        time_limit=time_limit,
        workers=workers,
        seed=seed,
        progress=progress,
        resume=resume,
        keep=keep,
    )


def noise_linear(H: Any, labels: npt.ArrayLike, *, names: Names | None = None, **how: Any) -> Noise:
    """The same for a model whose scores are ``H @ one-hot(labels)``, as in :func:`labelcert.certify_linear`.

    Intervals are proved at any number of labels, as long as no label is wrong with a probability above about 0.4.

    Parameters
    ----------
    H, labels, names
        As in :func:`labelcert.certify_linear`.
    **how
        ``wrong``, ``annotators``, ``width``, ``confidence``, ``time_limit``, ``workers``, ``seed``, ``progress``,
        ``resume`` and ``keep``, as in :func:`noise`.

    Examples
    --------
    >>> import labelcert
    >>> found = labelcert.noise_linear([[0.5, 0.5, 0, 0, 0], [0, 0, 0.5, 0, 0.5]], ["a", "a", "b", "b", "b"], wrong=0.1)
    >>> found.probability.round(6).tolist(), found.proved
    ([0.19, 0.19], True)
    """
    return noise_of(Task(GivenRows(H), labels, names=names or Names()), **how)


def noise_of(
    task: Task,
    *,
    wrong: Any,
    annotators: Any = None,
    width: float = 0.02,
    confidence: float = 0.95,
    time_limit: float | None = None,
    workers: int | None = None,
    seed: int = 0,
    progress: bool = False,
    resume: Noise | None = None,
    keep: str | os.PathLike[str] | None = None,
) -> Noise:
    """The same about any task."""
    width, confidence = _share("width", width), _share("confidence", confidence)
    whole_number("seed", seed)
    control = Control(workers=check_workers(workers), time_limit=check_seconds("time_limit", time_limit))
    given = posed(task).posed
    support.require(_request(task, given))
    odds = odds_of(wrong, given.codes, given.classes, annotators)
    possible = replace(task, threat=_possible(odds, given), max_flips=None)
    with progress_report("noise", flag("progress", progress)) as show, control.running():
        control.report, control.note = show.report, show.note
        control.start_clock()
        simple = reduced(possible)[0]
        asked = Asked(possible, simple.posed, odds, width, confidence, seed, control, settled=not unfinished(simple))
        return asked.answer(resume) if keep is None else _kept(asked, resume, Path(keep))


def _kept(asked: Asked, resume: Noise | None, path: Path) -> Noise:
    """The answer in rounds, each of which goes on from the one before, and is written down."""
    if path.exists():
        resume = Noise.load(path)
    for left in range(ROUNDS, 0, -1):
        width = min(0.9, asked.width * math.sqrt(ROUNDS / (ROUNDS + 1 - left)))
        if left > 1 and resume is not None and resume.changed_drawn.size >= needed(width, asked.confidence):
            continue
        resume = replace(asked, width=width).answer(resume)
        resume.save(path)
        if resume.method != SAMPLES or resume.stopped:
            break
    assert resume is not None
    return resume


def _share(name: str, value: Any) -> float:
    number = real_number(value)
    if number is None or not 0.0 < number < 1.0:
        raise InvalidInput(f"{name} must lie between 0 and 1, got {in_short(value)}")
    return number


def _request(task: Task, problem: Problem) -> support.Request:
    """What the table of combinations is asked."""
    features = problem.by if isinstance(problem.by, ByFeatures) else None
    predictor = support.MAP if problem.kind == ROW_BLOCKS else support.FEATURES if features else support.MACHINE
    if task.parts is not None:
        predictor = support.VOTES if task.parts.combine == "votes" else support.MEAN
    return support.Request(
        predictor=predictor,
        loss=None if predictor == support.MAP else problem.loss,
        classes=problem.n_classes,
        labels=problem.m,
        threat=support.kinds_of(problem.threat),
        margin=predictor != support.MAP and bool(margins_of(posed(task))[0].any()),
        weights=features is not None and features.weights is not None,
        asks=support.NOISE,
    )


def _possible(odds: Float, problem: Problem) -> Threat | None:
    """A threat that admits the relabellings that have a chance; None for all."""
    if np.all(odds > 0.0):
        return None
    return Threat(allowed_targets=[problem.classes[own > 0.0].tolist() for own in odds])
