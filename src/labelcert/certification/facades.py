"""From arrays to certificates: of kernel machines, of linear maps of the labels, and of ensembles on parts of them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy.typing as npt

from labelcert.arrays import Float
from labelcert.certificate import Certificate
from labelcert.certificate.metric import Measure, Metric
from labelcert.certification.places import CPU
from labelcert.certification.solve import solve
from labelcert.certification.task import GivenFeatures, GivenKernel, GivenRows, GivenVotes, Run, Task
from labelcert.engines.closed_form import ClosedForm
from labelcert.engines.freezing import Names
from labelcert.engines.partition.engine import PartEngine, Parts
from labelcert.engines.voting import VoteEngine
from labelcert.errors import InvalidInput
from labelcert.problem import Threat
from labelcert.problem.lowering import MeasuredMargins


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
    intercept: bool = False,
    collective: bool = True,
    solver: str = "highs",
    trust_solver: bool = False,
    node_time_limit: float | None = None,
    scheduler: str | None = None,
    device: str = "auto",
    margin: npt.ArrayLike | MeasuredMargins = 0.0,
    kernel_error: npt.ArrayLike = 0.0,
    test_kernel_error: npt.ArrayLike = 0.0,
    metrics: Sequence[Metric | str | Measure] = (),
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
    intercept : bool
        Whether the model has an intercept that is not regularised, with the logistic loss, cross-entropy and the square
        loss.
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
        zero: with two classes, the signed score; with more, the predicted class's score minus the highest other one.
        Scores are in units in which labels are trained to ±1. :func:`labelcert.finite_margin` measures such margins.
    kernel_error : float, (m, m) array, (2, m, m) array, or (2, n, m, m) array
        How far each entry of ``K_train`` may be from the kernel that is meant; two numbers for each entry say how far
        it may be below and above, and with four axes each test node has errors of its own. Radii then hold for every
        positive semidefinite kernel within these errors. Upper ends are those of the given kernel. For the hinge and
        the square loss.
    test_kernel_error : float, (n, m) array, or (2, n, m) array
        The same for ``K_test``.
    metrics : sequence of Metric
        Whose worst values are wanted, for :meth:`Certificate.worst_case`: exact where labellings are enumerated, else
        proved bounds.
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
    run = Run(
        engine,
        time_limit=time_limit,
        workers=workers,
        progress=progress,
        scheduler=scheduler,
        device=device,
        solver=solver,
        trust_solver=trust_solver,
        node_time_limit=node_time_limit,
    )
    model = GivenKernel(
        K_train, K_test, C, loss, intercept, kernel_error=kernel_error, test_kernel_error=test_kernel_error
    )
    known = names or Names()
    task = Task(
        model,
        labels,
        threat,
        max_flips,
        max_fraction,
        margin=margin,
        collective=collective,
        metrics=metrics,
        names=known,
    )
    return solve(task, run)


def certify_on_features(
    X_train: Float,
    labels: npt.ArrayLike,
    X_test: Float,
    C: float,
    *,
    loss: str = "logistic",
    intercept: bool = False,
    threat: Threat | None = None,
    max_flips: int | None = None,
    max_fraction: float | None = None,
    time_limit: float | None = None,
    workers: int | None = None,
    progress: bool = False,
    collective: bool = True,
    metrics: Sequence[Metric | str | Measure] = (),
    names: Names | None = None,
) -> Certificate:
    """Certify a linear model by the features of its points, without a kernel: for thousands of labels."""
    run = Run(time_limit=time_limit, workers=workers, progress=progress, device=CPU)
    model = GivenFeatures(X_train, X_test, C, loss, intercept)
    known = names or Names()
    return solve(
        Task(model, labels, threat, max_flips, max_fraction, collective=collective, metrics=metrics, names=known), run
    )


def certify_linear(
    H: npt.ArrayLike | Iterable[Any],
    labels: npt.ArrayLike,
    *,
    threat: Threat | None = None,
    max_flips: int | None = None,
    max_fraction: float | None = None,
    time_limit: float | None = None,
    workers: int | None = None,
    progress: bool = False,
    collective: bool = True,
    metrics: Sequence[Metric | str | Measure] = (),
    names: Names | None = None,
) -> Certificate:
    """Certify a model whose scores are ``H @ one-hot(labels)``: the score of class c is a sum over labels of class c.

    Kernel ridge regression, Gaussian-process regression, k nearest neighbours, Nadaraya–Watson, label propagation and
    label spreading are of this kind. The highest score decides. Radii are exact for the float64 numbers in ``H``.

    Parameters
    ----------
    H : (n, m) array, SciPy sparse matrix, or iterable of blocks of rows
        What each label adds to the score of its class, for each test node. It must not depend on the labels. Blocks
        are dense or sparse, with m columns; they are read once and not kept, so memory does not grow with n.
    labels : (m,) array
        Two classes or more, of any type.
    threat, max_fraction, workers, progress, metrics, names
        As in :func:`labelcert.certify`.
    max_flips : int, optional
        Largest budget (in cost units, with costs); by default all labels, but at most 1,000.
    time_limit : float, optional
        As in :func:`labelcert.certify`. Clean predictions are always computed for all rows.
    collective : bool
        Whether the collective curve is asked for. Without it, the curve is the number of nodes within reach.

    Returns
    -------
    Certificate
        Its curve is an interval, where the problem is too large for an exact one.

    Raises
    ------
    InvalidInput
        The input is refused; the message says why and what to do.
    WorkTooLarge
        Costs are so large that the knapsacks would take too long, and there is no time limit.

    Examples
    --------
    Two nearest neighbours of two points on a line, among five labelled points:

    >>> from labelcert import certify_linear
    >>> H = [[0.5, 0.5, 0, 0, 0], [0, 0, 0.5, 0, 0.5]]
    >>> cert = certify_linear(H, ["a", "a", "b", "b", "b"])
    >>> cert
    Certificate(2 test nodes, 5 labels of 2 classes, budgets 0..5, exact, engine='closed-form')
    >>> cert.predictions.tolist(), cert.radius_lower.tolist(), cert.witness(0)
    (['a', 'b'], [1, 1], {0: 'b'})
    """
    run = Run(ClosedForm.name, time_limit=time_limit, workers=workers, progress=progress, device=CPU)
    known = names or Names()
    task = Task(
        GivenRows(H), labels, threat, max_flips, max_fraction, collective=collective, metrics=metrics, names=known
    )
    return solve(task, run)


def certify_partition(
    K_train: npt.ArrayLike,
    labels: npt.ArrayLike,
    K_test: npt.ArrayLike,
    C: float | str,
    *,
    parts: int | npt.ArrayLike,
    seed: int = 0,
    combine: str = "mean",
    threat: Threat | None = None,
    max_flips: int | None = None,
    max_fraction: float | None = None,
    part_flips: int | None = None,
    time_limit: float | None = None,
    workers: int | None = None,
    scheduler: str | None = None,
    device: str = "auto",
    progress: bool = False,
    loss: str = "hinge",
    intercept: bool = False,
    collective: bool = True,
    margin: npt.ArrayLike | MeasuredMargins = 0.0,
    metrics: Sequence[Metric | str | Measure] = (),
    names: Names | None = None,
) -> Certificate:
    """Certify an ensemble whose members are trained on parts of the labels, at every budget at once.

    The labels are dealt out to parts by a hash of their names, which no label influences. Each part trains a model of
    its own, on its own labels. An attack on one part touches no other, so that exact answers about the parts combine
    to exact answers about the ensemble.

    Parameters
    ----------
    K_train, labels, K_test, C
        As in :func:`labelcert.certify`. Only the kernel inside the parts matters.
    parts : int or (m,) array
        Number of parts, whose sizes differ by at most one; or the part of each label, which no label may influence.
    seed : int
        Of the hash.
    combine : {"mean", "votes"}
        The class with the highest mean score is predicted, or the one that most parts predict. A rival with as many
        votes counts as a change. A part whose highest score is shared votes as the adversary likes.
    threat, max_flips, max_fraction
        As in :func:`labelcert.certify`, for all labels together.
    part_flips : int, optional
        Largest cost of an attack on one part that is looked at; the worst is assumed of larger ones. All by default.
    time_limit, workers, scheduler, device, progress, loss, intercept, metrics, names
        As in :func:`labelcert.certify`.
    collective : bool
        Whether the collective curve counts as asked for. It is an interval: see the documentation.
    margin : float, (n,) array, or FiniteMargin
        As in :func:`labelcert.certify`, in units of ``decision_values``: mean scores, or shares of the votes (of two
        classes, half the lead).

    Returns
    -------
    Certificate
        Its run record has the number and sizes of parts and the part of each label (``part_of``). The radii that
        follow from counting votes alone are in ``black_box_radius``.

    Raises
    ------
    InvalidInput
        The input is refused; the message says why and what to do.
    WorkTooLarge
        The parts are too large; the message says what would fit.

    Examples
    --------
    >>> import numpy as np
    >>> from labelcert import certify_partition
    >>> points = np.array([-4.0, -3.0, -2.0, -1.0, 1.0, 2.0, 3.0, 4.0, 5.0])
    >>> K = np.outer(points, points)
    >>> cert = certify_partition(K, points > 0, np.outer([-3.0, 1.5], points), C=1.0, parts=3, combine="votes")
    >>> cert.predictions.tolist(), cert.radius_lower.tolist()
    ([False, True], [2, 2])
    """
    asked, limit = PartEngine.name, time_limit
    run = Run(asked, time_limit=limit, workers=workers, progress=progress, scheduler=scheduler, device=device)
    dealt, known = Parts(parts, seed, combine, part_flips), names or Names()
    known = replace(known, model=dealt.described(known.model))
    model = GivenKernel(K_train, K_test, C, loss, intercept)
    task = Task(
        model,
        labels,
        threat,
        max_flips,
        max_fraction,
        dealt,
        margin,
        collective=collective,
        metrics=metrics,
        names=known,
    )
    return solve(task, run)


LABELS, SAMPLES = "labels", "samples"
"""Words for a threat: any label may change; or whole samples may."""


def certify_votes(
    train: Callable[..., Any],
    labels: npt.ArrayLike,
    *,
    n_test: int,
    parts: int | npt.ArrayLike = 50,
    combine: str = "votes",
    spread: int = 1,
    seed: int = 0,
    rows: Any = None,
    threat: Threat | str | None = None,
    max_flips: int | None = None,
    max_fraction: float | None = None,
    attempts: int | None = None,
    twice: int = 2,
    certify_part: Callable[..., Certificate | None] | None = None,
    store: str | os.PathLike[str] | None = None,
    time_limit: float | None = None,
    workers: int | None = None,
    scheduler: str | None = None,
    progress: bool = False,
    collective: bool = True,
    metrics: Sequence[Metric | str | Measure] = (),
    names: Names | None = None,
) -> Certificate:
    """Certify any learner: train it on parts of the labels, and count how many votes an adversary could buy.

    A label is in one part alone (or in a few: ``spread``), and whoever changes it changes the votes of that part's
    model, whatever the learner is. Lower ends of radii are proved, provided that training is deterministic; upper ends
    are changes of labels after which the retrained models were seen to predict something else.

    Parameters
    ----------
    train : callable
        ``train(indices, labels)`` trains on the points ``indices`` with these labels, and returns ``n_test``
        predictions, or scores of shape (n_test, K) with a column for each class in ascending order. It is called with
        ascending indices, may meet labels of one class alone, and must return the same each time: see
        :func:`labelcert.seeded`.
    labels : (m,) array
        Two classes or more, of any type.
    n_test : int
    parts : int or (m,) array
        Number of parts, or the part of each label, which no label may influence.
    combine : {"votes", "run-off"}
        The class with the most votes is predicted; or, of the two with the most votes, the one that more models score
        higher. Ties go to the class that comes first.
    spread : int
        With d, there are d times as many models, and each label is in d of them (finite aggregation).
    seed : int
        Of the hash that deals labels out, and of the search for attacks.
    rows : array, sparse matrix or data frame, optional
        One row for each label, its features, say: what the hash reads. By default it reads names, or positions.
    threat : Threat, "labels" or "samples", optional
        What the adversary may change; by default any label. With ``"samples"`` (:class:`labelcert.Threat` with
        ``samples=True``), samples may come and go as well: parts are by a hash of ``rows`` alone.
    max_flips : int, optional
        Largest budget; by default the number of models.
    max_fraction, time_limit, scheduler, progress, collective, metrics, names
        As in :func:`labelcert.certify`. A model that is being trained when time is over is not waited for.
    attempts : int, optional
        Trainings on changed labels that look for attacks; by default as many as there are models.
    twice : int
        So many models are trained twice. Where one says something else then, the certificate is refused.
    certify_part : callable, optional
        ``certify_part(indices, labels)`` returns a certificate, against any changed labels, of the model that ``train``
        returns for these labels and all test points, where an engine knows it; None for other models. Then that many
        labels have to change before the part votes for another class, and not one. With ``combine="votes"``.
    store : path, optional
        A folder for what each model says. Who comes back to it trains only what is missing.
    workers : int, optional
        Processes, with ``scheduler="processes"``. In this process, one model is trained at a time.

    Returns
    -------
    Certificate
        With the votes of all models in ``part_votes``.

    Raises
    ------
    InvalidInput
        The input is refused, or training is not deterministic; the message says why and what to do.

    Examples
    --------
    >>> import numpy as np
    >>> from labelcert import certify_votes
    >>> X, T = np.array([-4.0, -3, -2, -1, 1, 2, 3, 4, 5]), np.array([-3.0, 1.5])
    >>> def nearest(indices, labels):
    ...     return labels[np.abs(X[indices] - T[:, None]).argmin(axis=1)]
    >>> cert = certify_votes(nearest, X > 0, n_test=2, parts=3)
    >>> cert.predictions.tolist(), cert.radius_lower.tolist()
    ([False, True], [2, 2])
    """
    if isinstance(threat, str):
        if threat not in (LABELS, SAMPLES):
            raise InvalidInput(f"threat must be a labelcert.Threat, {LABELS!r} or {SAMPLES!r}, got {threat!r}")
        threat = Threat(samples=True) if threat == SAMPLES else None
    run = Run(
        VoteEngine.name, time_limit=time_limit, workers=workers, progress=progress, scheduler=scheduler, device=CPU
    )
    how: dict[str, Any] = {"twice": twice, "attempts": attempts, "certify_part": certify_part}
    model = GivenVotes(train, n_test, parts, combine, spread, seed, rows, store, **how)
    known = names or Names()
    known = replace(known, model=", ".join(words for words in (known.model, model.described) if words))
    task = Task(model, labels, threat, max_flips, max_fraction, collective=collective, metrics=metrics, names=known)
    return solve(task, run)
