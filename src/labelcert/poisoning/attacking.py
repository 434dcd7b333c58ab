"""Attacks on features: gradients by finite differences through the kernel, and what they do to the exact pipeline."""

from __future__ import annotations

import itertools
import time
from dataclasses import dataclass
from typing import Any, Unpack

import numpy as np
import numpy.typing as npt

from labelcert.arrays import Bool, Float, Int, Values
from labelcert.certification import GraphCertifier
from labelcert.checking import whole_number
from labelcert.graphs.checks import as_indices
from labelcert.losses import get_loss
from labelcert.models import Model
from labelcert.models.base import GraphLike
from labelcert.models.poisoned import FeatureBall
from labelcert.poisoning.asking import FeaturePoison, PoisonOptions
from labelcert.problem.validation import check_seconds

STEP = 1e-3
"""Length of a finite difference, as a share of the radius."""

MOST_DIFFERENCES = 200
"""Entries of poisoned features up to which each has a finite difference of its own; beyond, a few directions do."""


@dataclass(frozen=True, eq=False)
class FeatureAttack:
    """Predictions that poisoned features change.

    Attributes
    ----------
    changed : (n,) array
        Test nodes whose prediction some features that were found change, by training on them from scratch.
    additions : list of (p, d) arrays
        What is added to the features of the poisoned nodes, in each attack; with backdoors, in the order of nodes, to
        those of the test node, too.
    attack_of : (n,) array
        Which attack changes each node; -1 for none.
    poisoned : (p,) array
        The poisoned nodes.
    tried : int
        Kernels that were trained on.

    Examples
    --------
    >>> import numpy as np
    >>> from labelcert import FeatureAttack
    >>> FeatureAttack(np.array([True, False]), [np.ones((1, 3))], np.array([0, -1]), np.array([7]), tried=5)
    FeatureAttack(1 of 2 predictions changed, 1 poisoned nodes, 5 kernels tried)
    """

    changed: Bool
    additions: list[Float]
    attack_of: Int
    poisoned: Int
    tried: int

    def __repr__(self) -> str:
        return (
            f"FeatureAttack({int(self.changed.sum())} of {self.changed.size} predictions changed, "
            f"{self.poisoned.size} poisoned nodes, {self.tried} kernels tried)"
        )


class _Attacked:
    """A graph with other features."""

    def __init__(self, graph: Any, features: Float) -> None:
        self.adjacency, self.labels, self.features = graph.adjacency, graph.labels, features


class _Contest:
    """One model on one graph, and what features do to the leads of its test nodes."""

    def __init__(self, model: Model, graph: GraphLike, labeled: Int, test: Int, inductive: bool) -> None:
        # C is chosen once, on the features as they are.
        self.model = model.settled(graph, labeled, test, inductive=inductive)
        self.graph, self.labeled, self.test = graph, labeled, test
        self.inductive, self.tried = inductive, 0
        given: Any = graph.features
        self.features: Float = np.array(given if isinstance(given, np.ndarray) else given.toarray(), dtype=np.float64)
        self.codes = np.unique(np.asarray(graph.labels)[labeled], return_inverse=True)[1]
        self.K = int(self.codes.max()) + 1
        self.nodes = np.zeros(0, dtype=np.int64)
        """Whose features are changed."""
        self.predicted = self._scores(self.nothing).argmax(axis=0)
        self.clean = self.predictions(self.nothing)

    @property
    def nothing(self) -> Float:
        """(p, d) no additions."""
        return np.zeros((self.nodes.size, self.features.shape[1]))

    def _other(self, additions: Float) -> _Attacked:
        features = self.features.copy()
        features[self.nodes] += additions
        return _Attacked(self.graph, features)

    def _scores(self, additions: Float) -> Float:
        K_train, K_test = self.model.kernel_blocks(
            self._other(additions), self.labeled, self.test, inductive=self.inductive
        )
        self.tried += 1
        return np.asarray(get_loss("hinge").train_classes(K_train, self.codes, self.K, float(self.model.C)) @ K_test.T)

    def leads(self, additions: Float) -> Float:
        """(n,) score of each clean prediction minus the highest other one."""
        scores, columns = self._scores(additions), np.arange(self.test.size)
        own = scores[self.predicted, columns].copy()
        scores[self.predicted, columns] = -np.inf
        return np.asarray(own - scores.max(axis=0))

    def predictions(self, additions: Float) -> Values:
        """(n,) by the exact pipeline; nothing for those that are tied or open."""
        certifier = GraphCertifier(
            self.model, self._other(additions), self.labeled, [self.test], inductive=self.inductive
        )
        cert = certifier.certify(self.test, max_flips=0, collective=False)
        decided = cert.radius_lower > 0
        return np.where(decided, np.searchsorted(cert.classes, cert.predictions), -1)

    def gradient(self, t: int, at: Float, ball: FeatureBall, rng: np.random.Generator, end: float) -> Float:
        """By finite differences: of all entries or, where these are many, along some directions for each node."""
        step = STEP * (ball.radius if ball.norm != "0" else 1.0)
        base, out = self.leads(at)[t], np.zeros_like(at)
        few = at.size <= MOST_DIFFERENCES
        for i, v in itertools.product(range(len(at)), np.eye(at.shape[1]) if few else self._directions(t, rng)):
            if time.monotonic() > end:
                break
            moved = at.copy()
            moved[i] += step * v
            out[i] += v * (self.leads(moved)[t] - base) / step
        return out

    def _directions(self, t: int, rng: np.random.Generator) -> list[Float]:
        """From the mean of a rival class to that of the predicted one; the test node itself."""
        own = self.features[self.labeled[self.codes == self.predicted[t]]].mean(axis=0)
        rest = self.features[self.labeled[self.codes != self.predicted[t]]].mean(axis=0)
        found = []
        for v in (own - rest, self.features[self.test[t]]):
            norm = float(np.linalg.norm(v))
            found.append(v / norm if norm > 0.0 else rng.normal(size=v.size) / np.sqrt(v.size))
        return found


def farthest(gradient: Float, ball: FeatureBall, X: Float) -> Float:
    """(p, d) the additions within the ball that lower a linear function the most."""
    if ball.norm == "inf":
        return -ball.radius * np.sign(gradient)
    if ball.norm == "2":
        norms = np.linalg.norm(gradient, axis=1, keepdims=True)
        return np.asarray(-ball.radius * np.divide(gradient, norms, out=np.zeros_like(gradient), where=norms > 0.0))
    out, rows = np.zeros_like(gradient), np.arange(len(gradient))
    if ball.norm == "1":
        best = np.abs(gradient).argmax(axis=1)
        out[rows, best] = -ball.radius * np.sign(gradient[rows, best])
        return out
    moves = 1.0 - 2.0 * X  # what is 1 becomes 0, and the other way round
    gains = -gradient * moves
    for i in rows.tolist():
        best = np.argsort(-gains[i])[: int(ball.radius)]
        best = best[gains[i, best] > 0.0]
        out[i, best] = moves[i, best]
    return out


def attack_features(
    model: Model,
    graph: GraphLike,
    labeled: npt.ArrayLike,
    test: npt.ArrayLike,
    *,
    steps: int = 2,
    inductive: bool = False,
    time_limit: float | None = None,
    **poison: Unpack[PoisonOptions],
) -> FeatureAttack:
    """Look for features that change predictions, where those of some nodes may change.

    For each test node, gradients of its lead lead to the border of the ball, some steps one after the other. What is
    found is judged by the exact pipeline, on the graph with these features; it may change other nodes, too.

    Parameters
    ----------
    model, graph, labeled, test, inductive
        As in :func:`certify_features`. The model is trained with the hinge loss.
    steps : int
        Gradients for each node.
    time_limit : float, optional
        Seconds; the most likely nodes come first.
    **poison
        Who is poisoned: ``poisoned``, ``radius``, ``norm``, ``seed`` and ``backdoor`` as in :func:`certify_features`.

    Returns
    -------
    FeatureAttack

    Examples
    --------
    >>> from labelcert import GCN, attack_features
    >>> from labelcert.graphs import karate
    >>> attack_features(GCN(C=0.1), karate(), [0, 1, 32, 33], [8, 9, 19], poisoned=[1], radius=2.0, steps=1)
    FeatureAttack(2 of 3 predictions changed, 1 poisoned nodes, 74 kernels tried)
    """
    whole_number("steps", steps, 1)
    check_seconds("time_limit", time_limit)
    who, n = FeaturePoison.of(poison), int(graph.adjacency.shape[0])
    rows, columns = as_indices(labeled, n_nodes=n, what="labeled"), as_indices(test, n_nodes=n, what="test")
    search = _Search(who, who.mask(n, rows, columns), _Contest(model, graph, rows, columns, inductive))
    end = np.inf if time_limit is None else time.monotonic() + time_limit
    for t in search.order():
        search.attack(t, steps, end)
    return search.result()


class _Search:
    """What was found so far."""

    def __init__(self, who: FeaturePoison, poisoned: Bool, contest: _Contest) -> None:
        self._who, self._poisoned, self._contest = who, poisoned, contest
        self._rng = np.random.default_rng(who.seed)
        self._attack_of, self._additions = np.full(contest.test.size, -1), list[Float]()

    def order(self) -> list[int]:
        """Test nodes, the most likely first; none, where nothing may change."""
        if self._who.ball.radius == 0.0 or not (self._poisoned.any() or self._who.backdoor):
            return []
        return list(np.argsort(self._contest.leads(self._contest.nothing)).tolist())

    def attack(self, t: int, steps: int, end: float) -> None:
        """Some steps for one test node, while it is not changed, and time is left."""
        contest, ball = self._contest, self._who.ball
        poisoned = self._poisoned.copy()
        poisoned[contest.test[t]] |= self._who.backdoor
        contest.nodes = np.flatnonzero(poisoned)
        at = contest.nothing
        for _ in range(steps):
            if self._attack_of[t] >= 0 or contest.clean[t] < 0 or time.monotonic() > end:
                return
            at = farthest(contest.gradient(t, at, ball, self._rng, end), ball, contest.features[contest.nodes])
            self._judge(t, at)

    def _judge(self, t: int, at: Float) -> None:
        """Keep what changes predictions by the exact pipeline; the features of a test node are its own matter."""
        contest = self._contest
        asked = (self._attack_of < 0) & (contest.clean >= 0)
        if self._who.backdoor:
            asked &= (np.arange(asked.size) == t) | self._poisoned[contest.test[t]]
        if not (asked & (contest.leads(at) <= 0.0)).any():
            return
        after = contest.predictions(at)
        changed = asked & (after != contest.clean) & (after >= 0)
        if changed.any():
            self._attack_of[changed] = len(self._additions)
            self._additions.append(at)

    def result(self) -> FeatureAttack:
        """All of it."""
        nodes = np.flatnonzero(self._poisoned)
        return FeatureAttack(self._attack_of >= 0, self._additions, self._attack_of, nodes, self._contest.tried)
