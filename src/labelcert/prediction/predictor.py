"""What every predictor offers: clean predictions, and which of them a relabelling provably changes."""

from __future__ import annotations

import contextlib
import copy
from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import ClassVar

import numpy as np

from labelcert.arrays import Bool, Float, Index, Int
from labelcert.losses.solutions import Interval
from labelcert.prediction.fewer import Fewer
from labelcert.prediction.scoring import EXACT_LIMIT, LinearScorer, RetrainingScorer, Scorer
from labelcert.prediction.without import Without
from labelcert.problem import Problem, Relabelling
from labelcert.stopping import stopped_by
from labelcert.svm.pivoting import UNIT_ROUNDOFF

MODELS_KEPT = 64
"""Models of the labels that are left, where some are removed."""

TIED, OPEN = -1, -2
"""Clean prediction of a node whose highest score is shared, and of one that cannot be decided."""

SHOWN = 1e-6
"""A proved error beyond this share of the largest clean score would show: then scores come from exact solutions."""


class Predictor(ABC):
    """The model that is certified, trained on any labels.

    Parameters
    ----------
    problem : Problem
    linear : bool
        Scores are linear in the labels: see :meth:`labelcert.problem.Problem.is_linear`.

    Attributes
    ----------
    scorer : Scorer
    predicted : (n,) array
        Clean prediction of each test node, as a position in ``classes``; ``TIED`` or ``OPEN`` where there is none.
    shown : (n,) array
        The class to show as the prediction, also where there is none.
    decision : (n,) or (n, K) array
        Clean scores, for information.
    contrary : (n,) array or None
        Nodes whose prediction was given and is not the model's own: see :meth:`with_predictions`.
    unsure : (n,) array or None
        Nodes that are not proved to keep their prediction with the clean labels: the model is not quite known.
    """

    tie_note: ClassVar[str]
    """Who settled the radius of a node without a clean prediction, in a certificate's words."""

    enumerated: ClassVar[str] = "answers"
    """What has to be enumerated: all ``"labellings"`` (one score), ``"toggled sets"`` (one model per class), or all
    ``"relabellings"`` (one model of all classes), or the ``"answers"`` of any predictor."""

    one_score: ClassVar[bool] = False
    """Whether the sign of one score decides."""

    problem: Problem
    linear: bool
    scorer: Scorer
    predicted: Int
    shown: Int
    decision: Float
    contrary: Bool | None = None
    unsure: Bool | None = None

    def __init__(self, problem: Problem, *, linear: bool) -> None:
        self.problem = problem
        self.linear = linear
        self._on_fewer: dict[bytes, Predictor] = {}
        self._on_left: OrderedDict[bytes, Without] = OrderedDict()
        self.scorer = LinearScorer(problem) if linear else RetrainingScorer(problem)

    @property
    def together(self) -> int:
        """How many relabellings it is best asked about at once, by :meth:`changed_by`."""
        return 32

    def fewer(self, codes: Int) -> Fewer | Without | None:
        """Who predicts instead: where labels are removed, or a class that is dropped has no labels in ``codes``."""
        left = self.without(codes)
        if left is not None:
            return left
        if not self.problem.emptied:
            return None
        present = np.flatnonzero(np.bincount(codes, minlength=self.problem.n_classes))
        if present.size == self.problem.n_classes:
            return None
        key = present.tobytes()
        if present.size > 1 and key not in self._on_fewer:
            with stopped_by(lambda: False):  # all that was found so far counts
                self._on_fewer[key] = self.of(self.problem.remaining(codes))
        return Fewer(self, present, self._on_fewer.get(key))

    def without(self, codes: Int) -> Without | None:
        """The model of the labels that are left, where some are removed; the last few are kept."""
        if not (self.problem.adversary.removes and (codes == self.problem.n_classes).any()):
            return None
        left = np.flatnonzero(codes < self.problem.n_classes)
        key = left.tobytes()
        found = self._on_left.get(key)
        if found is None:
            found = self._on_left[key] = Without(self, left)
            with contextlib.suppress(KeyError):  # another thread may have been faster
                while len(self._on_left) > MODELS_KEPT:
                    self._on_left.popitem(last=False)
        return found

    def of(self, problem: Problem) -> Predictor:
        """The same kind of model for some of the classes."""
        return type(self)(problem, linear=self.linear)

    @abstractmethod
    def changed(self, codes: Int, nodes: Index) -> tuple[Bool, Bool]:
        """Nodes provably changed by labels ``codes``, and nodes provably unchanged (both False: undecided).

        A node is changed where another class reaches the score of its predicted class.
        """

    def changed_by(self, changes: Sequence[Relabelling], nodes: Index) -> tuple[Bool, Bool]:
        """(B, n) the same for some relabellings."""
        found = [self.changed(self.problem.relabelled(change), nodes) for change in changes]
        changed, unchanged = zip(*found, strict=True)
        return np.array(changed), np.array(unchanged)

    @abstractmethod
    def margins(self, codes: Int, nodes: Index) -> Float:
        """(n,) score of the predicted class minus the highest other one under labels ``codes``, in float64.

        In units of the scaled rows; good for finding attacks, not for proofs.
        """

    @abstractmethod
    def becomes(self, codes: Int, node: int) -> int:
        """The class other than the predicted one with the highest score under labels ``codes``."""

    def become(self, codes: Int, nodes: Index) -> Int:
        """(n,) the same for some nodes."""
        return np.array([self.becomes(codes, t) for t in nodes.tolist()], dtype=np.int64)

    def class_scores(self, codes: Int, nodes: Index) -> tuple[Float, Float]:
        """(K, n) scores of some scaled rows under labels ``codes``, and bounds on their errors that fit the shape."""
        raise NotImplementedError(f"{type(self).__name__} has no scores of classes")

    def leading(self, codes: Int, nodes: Index) -> tuple[Bool, Bool]:
        """(K, n) which classes have the highest score under labels ``codes``: provably, and possibly.

        Several where it is shared; where that cannot be said, all are possible.
        """
        found = np.array([self.predicts(codes, int(t)) for t in nodes], dtype=np.int64)
        sure = found[None, :] == np.arange(self.problem.n_classes)[:, None]
        return sure, sure | (found < 0)

    def exact_difference(self, codes: Int, t: int, c: int, r: int) -> Callable[[int], Interval | None] | None:
        """Score of class ``c`` minus that of ``r`` for node ``t``, by level of precision; None where out of reach."""
        raise NotImplementedError(f"{type(self).__name__} has no scores of classes")

    def scaled_scores(self, codes: Int, nodes: Index) -> tuple[Float, Float]:
        """(K, n) scores of some nodes under labels ``codes``, and bounds on their errors."""
        (p, tau), scale = self.class_scores(codes, nodes), self.scorer.scale[nodes]
        # A little more than the bound, so that a sum of two of them may be rounded.
        return p * scale, (1.01 * tau + 8 * UNIT_ROUNDOFF * np.abs(p)) * scale

    def signed_rows(self, nodes: Index) -> Float:
        """(m, n) scaled rows of some nodes, transposed, times the sign of their clean prediction.

        Where the sign of one score decides, a node is changed where its signed score is at most 0.
        """
        return np.ascontiguousarray((self.scorer.rows[nodes] * self._sides(nodes)[:, None]).T)

    def _sides(self, nodes: Index) -> Float:
        return np.where(self.predicted[nodes] == 1, 1.0, -1.0)

    def predicts(self, codes: Int, node: int) -> int:
        """The class that alone has the highest score under labels ``codes``, provably; else ``TIED`` or ``OPEN``."""
        return OPEN

    def challengers(self, node: int) -> list[int]:
        """The classes that can replace the prediction of a node, the closest first: of two, the other one."""
        return [1 - int(self.predicted[node])]

    def retrained(self) -> Predictor:
        """The same model without the shortcut of linear scores, where retraining can be decided exactly."""
        if not self.linear or self.problem.trained_with.always_linear or self.problem.m > EXACT_LIMIT:
            return self
        fresh = type(self)(self.problem, linear=False)
        return fresh if self.contrary is None else fresh.with_predictions(self.predicted)

    def with_predictions(self, predicted: Int) -> Predictor:
        """The same model under the assumption that its clean predictions are these.

        A node whose given prediction is not the model's own, or shares the highest score, counts as changed by the
        clean labels already. A node without a given prediction has none. Where several classes are too close to tell
        which one leads, it is enough to know whether one of them is ahead of the given one; if not, the node is open.
        """
        twin = copy.copy(self)
        twin.predicted = predicted.copy()
        twin.contrary = (predicted >= 0) & (predicted != self.predicted)
        unclear = np.flatnonzero((self.predicted == OPEN) & (predicted >= 0))
        if unclear.size:
            changed, unchanged = twin.changed(self.problem.codes, unclear)
            twin.contrary[unclear] = changed
            twin.predicted[unclear[~(changed | unchanged)]] = OPEN
        twin.shown = np.where(twin.predicted < 0, self.shown, twin.predicted)
        return twin
