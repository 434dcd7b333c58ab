"""Label sanitation before training (Paudice et al. 2019), as a part of the model that is certified.

A label that too many of its nearest neighbours contradict becomes theirs. The rule is deterministic, so the defended
model is a function of the given labels, and every admissible relabelling can be asked what it does to it: the adversary
knows the defence, and plays against both. Many relabellings are cleaned to the same labels, which are trained on once.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from labelcert.arrays import Bool, Float, Index, Int
from labelcert.certificate import Certificate
from labelcert.certification import Names, Run, Task, solve
from labelcert.certification.places import CPU
from labelcert.checking import whole_number
from labelcert.engines.asking import AskingEngine
from labelcert.engines.base import Capabilities
from labelcert.engines.registry import register
from labelcert.errors import InvalidInput
from labelcert.losses.solutions import Interval
from labelcert.prediction import Predictor, kind_for
from labelcert.problem import Problem, Relabelling, Threat

SANITIZED = "one model on sanitised labels"
"""Who predicts."""

ASKED_TOGETHER = 4096
"""Relabellings that are cleaned at once."""

MODELS_KEPT = 1 << 16
"""Cleaned labels whose answer is kept."""


def certify_sanitized(
    K_train: npt.ArrayLike,
    labels: npt.ArrayLike,
    K_test: npt.ArrayLike,
    C: float,
    *,
    neighbors: int = 5,
    agreement: int | None = None,
    rounds: int = 1,
    max_flips: int | None = None,
    threat: Threat | None = None,
    loss: str = "hinge",
    seed: int = 0,
    time_limit: float | None = None,
    workers: int | None = None,
    collective: bool = True,
    names: Names | None = None,
) -> Certificate:
    """Certify a kernel machine that is trained on sanitised labels, exactly: every relabelling is asked about.

    Parameters
    ----------
    K_train, labels, K_test, C, max_flips, threat, loss, time_limit, workers, collective, names
        As in :func:`labelcert.certify`. Some 20 labels, or few flips of more, can be enumerated.
    neighbors : int
        How many of the other labels are asked about each label: the nearest ones by the angle between their points in
        the kernel's space, which the adversary cannot change.
    agreement : int, optional
        How many of them have to be of one class for the label to become that class; by default more than half.
    rounds : int
        How often all labels are cleaned, each time at once.
    seed : int
        Of no meaning: nothing is random.

    Returns
    -------
    Certificate
        Of predictions for the test nodes after training on cleaned labels; budgets count given labels. `verify` knows
        no cleaning, and does not accept it.

    Examples
    --------
    >>> import numpy as np
    >>> from labelcert.baselines import certify_sanitized
    >>> x = np.array([-3.0, -2.5, -2.0, 2.0, 2.5, 3.0])
    >>> plain, test = np.outer(x, x), np.outer([-1.0, 1.0], x)
    >>> certify_sanitized(plain, x > 0, test, C=0.01, neighbors=1, max_flips=3).radius_lower.tolist()
    [2, 2]
    """
    problem = Problem.build(K_train, labels, K_test, C, threat=threat, max_flips=max_flips, loss=loss)
    if problem.trained_with.needs_both_sides:
        raise InvalidInput(
            f"cleaned labels may be of one class alone, which loss={loss!r} cannot be trained on with its intercept; "
            "use the loss without intercept"
        )
    if problem.threat.removes or problem.threat.owns_annotators or problem.threat.samples:
        raise InvalidInput(
            "sanitised labels are certified against changed labels; leave out removable, annotators, votes and samples"
        )
    count = whole_number("neighbors", neighbors, 1, problem.m - 1, "the other labels")
    most = count // 2 + 1
    votes = most if agreement is None else whole_number("agreement", agreement, most, count, "more than half of them")
    by = Sanitizer(_nearest(problem.K_train, count), votes, whole_number("rounds", rounds, 1))
    task = Task(labels=labels, collective=collective, names=names or Names(), problem=replace(problem, by=by))
    return solve(task, Run(time_limit=time_limit, workers=workers, device=CPU))


def _nearest(K: Float, count: int) -> Int:
    """(m, count) the labels whose points are at the smallest angle from each label's, nearest first."""
    norms = np.sqrt(np.maximum(np.diag(K), 0.0))
    sizes = np.outer(norms, norms)
    cosine = np.divide(K, sizes, out=np.zeros_like(sizes), where=sizes > 0.0)
    order = np.argsort(-cosine, axis=1, kind="stable")
    return np.array([row[row != i][:count] for i, row in enumerate(order)], dtype=np.int64)


@dataclass(frozen=True, eq=False)
class Sanitizer:
    """Turns labels into what ``votes`` of their ``neighbors`` (m, k) say, in some rounds."""

    neighbors: Int
    votes: int
    rounds: int = 1
    kind: str = SANITIZED

    def cleaned(self, codes: Int, classes: int) -> Int:
        """(B, m) labels, cleaned."""
        for _ in range(self.rounds):
            said = codes[:, self.neighbors]
            for c in range(classes):  # at most one class has more than half of the votes
                codes = np.where((said == c).sum(axis=2) >= self.votes, c, codes)
        return codes

    def predictor(self, problem: Problem) -> Predictor:
        """The machine, trained on cleaned labels."""
        return Sanitized(problem, self)

    def digest(self, sha256: str) -> str:
        """With the rule."""
        told = f"{sha256} {self.votes} {self.rounds} {self.neighbors.tolist()}"
        return hashlib.sha256(told.encode()).hexdigest()


@dataclass
class _Answers:
    """What cleaned labels do to some nodes."""

    nodes: Index
    known: dict[bytes, tuple[Bool, Bool]] = field(default_factory=dict)


class Sanitized(Predictor):
    """A model that is trained on cleaned labels; the one inside never sees others."""

    tie_note = "clean scores"

    def __init__(self, problem: Problem, sanitizer: Sanitizer, inside: Predictor | None = None) -> None:
        self.problem, self.linear, self._sanitizer = problem, False, sanitizer
        if inside is None:
            clean = self._cleaned(problem.codes)
            own = replace(problem, by=None, codes=clean, labels=problem.classes[clean])
            inside = kind_for(problem)(own, linear=own.is_linear())
        self._inside, self.scorer, self._answers = inside, inside.scorer, _Answers(np.zeros(0, dtype=np.int64))
        self._on_fewer = {}
        self.predicted, self.shown, self.decision = inside.predicted, inside.shown, inside.decision

    def _cleaned(self, codes: Int) -> Int:
        found: Int = self._sanitizer.cleaned(codes[None], self.problem.n_classes)[0]
        return found

    @property
    def together(self) -> int:
        """Cleaning is one operation on many."""
        return ASKED_TOGETHER

    def changed(self, codes: Int, nodes: Index) -> tuple[Bool, Bool]:
        """What the cleaned labels change."""
        return self._inside.changed(self._cleaned(codes), nodes)

    def changed_by(self, changes: Sequence[Relabelling], nodes: Index) -> tuple[Bool, Bool]:
        """(B, n) the same for some relabellings: each set of cleaned labels is trained on once."""
        if not np.array_equal(self._answers.nodes, nodes) or len(self._answers.known) > MODELS_KEPT:
            self._answers = _Answers(nodes)
        given = np.array([self.problem.relabelled(change) for change in changes])
        clean, which = np.unique(self._sanitizer.cleaned(given, self.problem.n_classes), axis=0, return_inverse=True)
        known, found = self._answers.known, []
        for codes in clean:
            key = codes.tobytes()
            if key not in known:
                known[key] = self._inside.changed(codes, nodes)
            found.append(known[key])
        changed, unchanged = (np.array(each)[which.ravel()] for each in zip(*found, strict=True))
        return changed, unchanged

    def margins(self, codes: Int, nodes: Index) -> Float:
        """Those of the cleaned labels."""
        return self._inside.margins(self._cleaned(codes), nodes)

    def becomes(self, codes: Int, node: int) -> int:
        """What the cleaned labels make of it."""
        return self._inside.becomes(self._cleaned(codes), node)

    def predicts(self, codes: Int, node: int) -> int:
        """The leader after training on cleaned labels."""
        return self._inside.predicts(self._cleaned(codes), node)

    def leading(self, codes: Int, nodes: Index) -> tuple[Bool, Bool]:
        """The leaders after training on cleaned labels."""
        return self._inside.leading(self._cleaned(codes), nodes)

    def class_scores(self, codes: Int, nodes: Index) -> tuple[Float, Float]:
        """Those of the cleaned labels."""
        return self._inside.class_scores(self._cleaned(codes), nodes)

    def exact_difference(self, codes: Int, t: int, c: int, r: int) -> Callable[[int], Interval | None] | None:
        """That of the cleaned labels."""
        return self._inside.exact_difference(self._cleaned(codes), t, c, r)

    def retrained(self) -> Predictor:
        """With the model inside retrained."""
        return Sanitized(self.problem, self._sanitizer, self._inside.retrained())


class TrainSanitized(AskingEngine):
    """Asks about every relabelling; cleaned labels are trained on once."""

    name = "enumerate"
    capabilities = Capabilities(automatic=True, advertised=False, predictors=frozenset({SANITIZED}), observes=True)


register(TrainSanitized())
