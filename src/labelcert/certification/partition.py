"""``certify_partition``: certificates of an ensemble that is trained on parts of the labels."""

from __future__ import annotations

import hashlib
import time
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from labelcert.arrays import Float, Int
from labelcert.certificate import Certificate, StageRecord
from labelcert.certification import support
from labelcert.certification.from_arrays import record
from labelcert.certification.margins import noting_margin
from labelcert.certification.places import walked_by
from labelcert.checking import whole_number
from labelcert.engines.base import Findings, Question
from labelcert.engines.checking import check
from labelcert.engines.control import Control
from labelcert.engines.freezing import Names, freeze
from labelcert.engines.partition.engine import Partition, black_box_radii
from labelcert.engines.partition.ensemble import COMBINATIONS, Votes
from labelcert.engines.partition.parts import Part, assign, cut
from labelcert.errors import InvalidInput
from labelcert.problem import Problem, Threat
from labelcert.problem.budget import largest_budget
from labelcert.problem.margin import Margins, check_margin
from labelcert.problem.validation import check_seconds, check_workers
from labelcert.progress import progress_report


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
    collective: bool = True,
    margin: npt.ArrayLike | Margins = 0.0,
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
        Number of parts, whose sizes differ by one at most; or the part of each label, which no label may influence.
    seed : int
        Of the hash.
    combine : {"mean", "votes"}
        The class with the highest mean score is predicted, or the one that most parts predict. A rival with as many
        votes counts as a change. A part whose highest score is shared votes as the adversary likes.
    threat, max_flips : optional
        As in :func:`labelcert.certify`, for all labels together.
    max_fraction : float, optional
        The largest budget as a fraction of the labels (of their total cost, with costs).
    part_flips : int, optional
        Largest cost of an attack on one part that is looked at; the worst is assumed of larger ones. All by default.
    time_limit, workers, progress, loss, names
        As in :func:`labelcert.certify`.
    scheduler : str, optional
        ``"processes"`` walks the labellings of parts on ``workers`` local processes instead of threads, the address of
        a Dask scheduler on its workers. Where one dies, its work is done again, and the answers are the same.
    device : {"auto", "cpu", "gpu"}
        Whether enumeration trains on the GPUs of this machine (``pip install 'labelcert[gpu]'``). By default it does
        where there is one and the work is large enough. The answers are the same.
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
    control = Control(
        workers=check_workers(workers), time_limit=check_seconds("time_limit", time_limit), collective=bool(collective)
    )
    if combine not in COMBINATIONS:
        raise InvalidInput(f"combine must be one of {', '.join(map(repr, COMBINATIONS))}, got {combine!r}")
    costs = threat.costs if isinstance(threat, Threat) else None  # anything else is refused below
    max_flips = largest_budget(max_flips, max_fraction, np.ones(np.size(labels)) if costs is None else costs)
    problem = Problem.unsettled(K_train, labels, K_test, C, threat=threat, max_flips=max_flips, loss=loss)
    if part_flips is not None:
        whole_number("part_flips", part_flips)
    source = str(margin) if isinstance(margin, Margins) else ""
    margins = check_margin(margin.margins if isinstance(margin, Margins) else margin, problem.n_test)
    known = names or Names()
    asked = support.Request(
        predictor=support.VOTES if combine == "votes" else support.MEAN,
        loss=problem.loss,
        classes=problem.n_classes,
        threat=support.kinds_of(problem.threat),
        margin=bool(margins.any()),
        asks=support.CURVE if collective else support.RADII,
        place=support.place_of(scheduler, device),
        limited=time_limit is not None,
    )
    control.remarks = tuple(support.require(asked))
    part_of = check_parts(problem, parts, seed, known)
    dealt = f"{parts!r} parts (seed {seed})" if np.ndim(parts) == 0 else f"{np.unique(part_of).size} given parts"
    known = replace(known, model=f"{dealt}, {combine}: {known.model or 'kernel'}")
    with progress_report("certifying", progress) as show:
        control.report, control.note = show.report, show.note
        with walked_by(scheduler, control.workers, device):
            cert = _answer(problem, part_of, combine, Partition(part_flips), control, known, margins)
    return noting_margin(cert, margins, source)


def check_parts(problem: Problem, parts: int | npt.ArrayLike, seed: int, names: Names) -> Int:
    """(m,) part of each label; refuses numbers of parts, and losses, with which there is no ensemble."""
    support.require(support.Request(predictor=support.MEAN, loss=problem.loss, classes=problem.n_classes))
    if np.ndim(parts):
        part_of = np.asarray(parts)
        if part_of.shape != (problem.m,) or not np.issubdtype(part_of.dtype, np.integer):
            raise InvalidInput(f"parts must be a number of parts, or {problem.m} whole numbers, the part of each label")
        return part_of.astype(np.int64)
    count = whole_number("parts", parts, 1, problem.m, "one label each")
    return assign(names.keys(problem.m), count, whole_number("seed", seed, None))


def divide(problem: Problem, part_of: Int) -> tuple[Problem, list[Part]]:
    """The parts of a problem whose kernel is not settled, and the problem with the kernels that they settled on."""
    parts = cut(problem, part_of)
    return _shifted(problem, parts), parts


def _answer(
    problem: Problem, part_of: Int, combine: str, engine: Partition, control: Control, names: Names, margins: Float
) -> Certificate:
    started = time.perf_counter()
    with control.running():
        problem, parts = divide(problem, part_of)
        ensemble = COMBINATIONS[combine](problem, parts, margins)
        votes = ensemble if isinstance(ensemble, Votes) else Votes(problem, parts)
        question = Question.ask(ensemble)
        name = engine.name(ensemble)
        control.start_clock()
        findings = Findings.nothing(question).refined(engine.run(question, control), name)
        checked = check(question, findings)
    about: dict[str, Any] = {
        **findings.statistics,
        "combine": combine,
        "part_of": part_of.tolist(),
        "black_box_radius": black_box_radii(votes).tolist(),
    }
    stage = StageRecord(name, problem.max_flips, about)
    run = record(problem, control, "partition", [stage], time.perf_counter() - started)
    return freeze(question, checked, replace(run, problem_sha256=partition_digest(problem, part_of, combine)), names)


def _shifted(problem: Problem, parts: list[Part]) -> Problem:
    """The problem with the kernel that is certified: that of every part, bit for bit."""
    K = problem.K_train.copy()
    for part in parts:
        K[np.ix_(part.index, part.index)] = part.problem.K_train
    for array in (K, problem.K_test, problem.labels, problem.classes, problem.codes):
        array.setflags(write=False)
    return replace(problem, K_train=K, shift=max(part.problem.shift for part in parts))


def partition_digest(problem: Problem, part_of: Int, combine: str) -> str:
    """SHA-256 over everything that decides the answer."""
    h = hashlib.sha256(problem.digest().encode())
    h.update(np.ascontiguousarray(part_of, dtype="<i8").tobytes() + combine.encode())
    return h.hexdigest()
