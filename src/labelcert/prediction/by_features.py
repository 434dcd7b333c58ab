"""Linear models by their features: who predicts where no kernel is formed, whatever the number of labels."""

from __future__ import annotations

import hashlib
from abc import abstractmethod
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from labelcert.arrays import Bool, Float, Index, Int
from labelcert.blas import one_thread_each
from labelcert.losses.hessian_norm import HessianNorm, norm_of
from labelcert.losses.primal import (
    BATCH_BYTES,
    NO_CHANGES,
    Changes,
    LogisticSlopes,
    PrimalMachine,
    Slopes,
    SoftmaxSlopes,
    SquaredHingeSlopes,
    bytes_to_train,
)
from labelcert.losses.weighted import SquareSlopes, WeightedMachine, Weights
from labelcert.memory import require_memory
from labelcert.prediction.fewer import dropping
from labelcert.prediction.predictor import OPEN, Predictor
from labelcert.problem import NOTHING, Problem, Relabelling
from labelcert.svm.pivoting import UNIT_ROUNDOFF

FEATURES = "linear models by their features"
"""Who predicts: a model that is trained on features, not on their kernel."""

ENOUGH = 1e-5
"""Accuracy of first trainings, as a share of the lead that the median prediction has."""

NEAR = 1e-4
"""The same where distances are bounded in the norm of the Hessian, which says much more."""

WEIGHTED = "linear models with weights of labels"
"""Who predicts: such a model, if a change of labels may change the weights of labels, or labels are few."""

HURRY = 50.0
"""How much less accurate solutions may be where only most attacks have to be judged."""

KEPT_BYTES = 2e8
"""Memory for solutions that trainings may go on from."""

_SLOPES: dict[str, Slopes] = {
    "logistic": LogisticSlopes(),
    "cross_entropy": LogisticSlopes(),
    "squared_hinge": SquaredHingeSlopes(),
    "square": SquareSlopes(),
}

LOSSES_BY_FEATURES = tuple(_SLOPES)
"""Kinds of losses that have a primal form here."""


@dataclass(frozen=True, eq=False)
class ByFeatures:
    """Features of labelled points and test nodes, a column of ones for an intercept included.

    Attributes
    ----------
    X : (m, p) array
    T : (n, p) array
    free : bool
        Whether the last column is that of an intercept, which is not regularised.
    weights : Weights or None
    """

    X: Float
    T: Float
    free: bool = False
    weights: Weights | None = None
    kind: str = FEATURES

    def predictor(self, problem: Problem) -> FeaturePredictor:
        """One training for all classes, or one for each against the rest."""
        alone = problem.n_classes > 2 and not problem.coupled
        return OneForEachClass(problem, self) if alone else OneForAll(problem, self)

    def digest(self, sha256: str) -> str:
        """With the features."""
        h = hashlib.sha256(sha256.encode())
        for array in (self.X, self.T):
            h.update(repr(array.shape).encode())
            h.update(np.ascontiguousarray(array, dtype="<f8").tobytes())
        if self.weights is not None:
            h.update(repr((self.free, self.weights.described())).encode())
        return h.hexdigest()


class Judged(NamedTuple):
    """What B relabellings do to n nodes.

    Attributes
    ----------
    changed, unchanged : (n, B) arrays
        Provably.
    margins : (n, B) array
        Score of the predicted class minus the highest other one.
    rivals : (n, B) array
        The class of the latter.
    """

    changed: Bool
    unchanged: Bool
    margins: Float
    rivals: Int


class Ruler(NamedTuple):
    """The norm of one machine's Hessian, and how long the test rows are in it.

    Attributes
    ----------
    norm : HessianNorm
    lengths : (K, n) array
    """

    norm: HessianNorm
    lengths: Float


class FeaturePredictor(Predictor):
    """Scores of test rows after training on any labels, many labellings at once.

    Attributes
    ----------
    machines : list of PrimalMachine
    norms : (n,) array
        Of the test rows.
    """

    tie_note: ClassVar[str] = "clean scores"

    def __init__(self, problem: Problem, features: ByFeatures) -> None:
        self.problem, self.linear, self.features = problem, False, features
        self._on_fewer = {}
        self.norms = np.linalg.norm(features.T, axis=1) * (1.0 + 8 * UNIT_ROUNDOFF * features.T.shape[1])
        require_memory(
            bytes_to_train(problem.m, features.X.shape[1], problem.n_classes),
            f"training on {features.X.shape[1]:,} features",
            "use fewer features (scikit-learn: PCA or TruncatedSVD), or fewer labels and certify() on their kernel",
        )
        self.machines = self._machines()
        norms = [norm_of(machine) for machine in self.machines]
        self._rulers = [None if norm is None else Ruler(norm, norm.lengths(features.T).T) for norm in norms]
        self._known: dict[Relabelling, Judged] = {}
        self._solutions: dict[tuple[int, Relabelling], Float] = {}
        self._enough = 0.0
        scores, errors = (array[:, :, 0] for array in self.class_batch([NOTHING]))
        columns = np.arange(problem.n_test)
        self.shown = scores.argmax(axis=0).astype(np.int64)
        low = scores[self.shown, columns] - errors[self.shown, columns]
        others = scores + errors
        others[self.shown, columns] = -np.inf
        self.predicted = np.where(low > others.max(axis=0), self.shown, OPEN)
        self.decision = scores[1].copy() if problem.n_classes == 2 else np.ascontiguousarray(scores.T)
        self.gaps = scores, errors
        leads = np.diff(np.sort(scores, axis=0)[-2:], axis=0)[0]
        # Most predictions are decided by solutions that are this accurate; where that does not do, more is asked for.
        lead = float(np.median(leads))
        self._enough = ENOUGH * lead / max(float(np.median(self.norms)), 1e-300)
        self._near = [
            0.0 if ruler is None else NEAR * lead / max(float(np.median(ruler.lengths)), 1e-300)
            for ruler in self._rulers
        ]

    def machine(self, codes: Int, outputs: int, member: int | None = None) -> PrimalMachine:
        """One training on clean labels; of one class (a ``member``) against the rest, or of all."""
        problem, X, weights = self.problem, self.features.X, self.features.weights
        penalty = np.ones(X.shape[1])
        if self.features.free:
            penalty[-1] = 0.0
        slopes = SoftmaxSlopes() if outputs > 1 else _SLOPES[problem.trained_with.kind]
        if weights is None:
            return PrimalMachine(X, codes, np.full(problem.m, self.C), penalty, slopes, outputs)
        c = self.C * weights.of(problem.codes[:, None], problem.classes, member)[:, 0]
        return WeightedMachine(X, codes, c, penalty, slopes, outputs, self.C * weights.most(problem.n_classes))

    @property
    def C(self) -> float:  # noqa: N802 (as everywhere)
        """What a label of weight 1 has; a softmax over two classes is a logistic loss of twice the score."""
        doubled = self.problem.trained_with.kind == "cross_entropy" and self.problem.n_classes == 2
        return self.problem.C * (2.0 if doubled else 1.0)

    def weighted(self, found: Changes, changes: Sequence[Relabelling], member: int | None = None) -> Changes:
        """The same with what labels weigh after each relabelling, where they have weights."""
        weights = self.features.weights
        if weights is None:
            return found
        codes = np.array([self.problem.relabelled(change) for change in changes], dtype=np.int64)
        return found._replace(c=self.C * weights.of(codes.reshape(-1, self.problem.m).T, self.problem.classes, member))

    def trained(self, c: int, changes: Sequence[Relabelling], sets: Changes, enough: float) -> Float:
        """(p, K, B) solutions of one machine, so far from the optimum at most; from what is known of them."""
        machine = self.machines[c]
        start = machine.start(sets)
        for b, change in enumerate(changes):
            if (c, change) in self._solutions:
                start[:, :, b] = self._solutions[c, change]
        near = self._near[c] * enough / self._enough if enough > 0.0 else 0.0
        W = machine.train(sets, start, enough * machine.firm, near)
        if enough > self._enough:
            if len(self._solutions) * 8.0 * machine.p * machine.outputs > KEPT_BYTES:
                self._solutions.clear()
            self._solutions.update({(c, change): W[:, :, b].copy() for b, change in enumerate(changes)})
        return W

    @abstractmethod
    def _machines(self) -> list[PrimalMachine]:
        """Trained on the clean labels."""

    @abstractmethod
    def class_batch(self, changes: Sequence[Relabelling], enough: float = 0.0) -> tuple[Float, Float]:
        """(K, n, B) scores of all classes, and bounds on their errors.

        Solutions may be ``enough`` away from the optimum, or so; at 0, they are as accurate as float64 allows.
        """

    @abstractmethod
    def values(self, node: Int, rival: Int, changes: Sequence[Relabelling]) -> Float:
        """(B, ν, K) what each move should take off the margin of a node against a rival, beside another change each."""

    def of(self, problem: Problem) -> Predictor:
        """A model of some of the classes, on the same features."""
        return self.features.predictor(problem)

    def relabelled_labels(self, change: Relabelling) -> tuple[Int, Int]:
        """Labels that a relabelling changes, and their classes."""
        return self.problem.adversary.labels[change.positions], change.targets

    def until(self, over: Callable[[], bool]) -> None:
        """Trainings end where there is no more time."""
        for machine in self.machines:
            machine.over = over

    def batch_size(self) -> int:
        """How many relabellings are trained on together: scores of all labels and all nodes take memory."""
        of_nodes = BATCH_BYTES / (8 * max(1, self.problem.n_test) * self.problem.n_classes)
        return max(1, min(int(of_nodes), *(machine.batch_size() for machine in self.machines)))

    def judge(
        self, changes: Sequence[Relabelling], *, keep: bool = False, workers: int = 1, hurry: bool = False
    ) -> Judged:
        """What some relabellings do, batches side by side.

        Judgements are kept for the final check if asked for; in a hurry, more of them may be open, and solutions are
        kept for trainings that go on from there.
        """
        if self.features.weights is not None and self.problem.emptied:
            return self._judge_fewer(changes, keep=keep, workers=workers, hurry=hurry)
        return self._judge_all(changes, keep=keep, workers=workers, hurry=hurry)

    @property
    def together(self) -> int:
        """As many as share large products of matrices, and end within a moment."""
        return min(256, self.batch_size())

    def changed_by(self, changes: Sequence[Relabelling], nodes: Index) -> tuple[Bool, Bool]:
        """All in batches; classes without labels are dropped, where models drop them."""
        judged = self._judge_fewer(changes) if self.problem.emptied else self.judge(changes)
        return judged.changed[nodes].T, judged.unchanged[nodes].T

    def _judge_fewer(
        self, changes: Sequence[Relabelling], *, keep: bool = False, workers: int = 1, hurry: bool = False
    ) -> Judged:
        """The same where relabellings may leave classes without labels, which are dropped then."""
        n, everyone = self.problem.n_test, np.arange(self.problem.n_test)
        others = [self.fewer(self.problem.relabelled(change)) for change in changes]
        whole = [b for b, fewer in enumerate(others) if fewer is None]
        out = Judged(*(np.zeros((n, len(changes)), dtype) for dtype in (bool, bool, float, np.int64)))
        if whole:
            judged = self._judge_all([changes[b] for b in whole], keep=keep, workers=workers, hurry=hurry)
            for array, part in zip(out, judged, strict=True):
                array[:, whole] = part
        for b, fewer in enumerate(others):
            if fewer is not None:
                codes = self.problem.relabelled(changes[b])
                out.changed[:, b], out.unchanged[:, b] = fewer.changed(codes, everyone)
                out.margins[:, b] = fewer.margins(codes, everyone)
        return out

    def _judge_all(self, changes: Sequence[Relabelling], *, keep: bool, workers: int, hurry: bool) -> Judged:
        """By models of all classes."""
        judge = self._judge_in_a_hurry if hurry else self._judge
        # All that is trained on at a time, by however many threads, is no more than two batches.
        size = max(1, min(self.batch_size() * min(2, workers) // workers, -(-len(changes) // workers)))
        batches = [changes[start : start + size] for start in range(0, len(changes), size)]
        if len(batches) > 1 and workers > 1:
            with one_thread_each(), ThreadPoolExecutor(workers) as pool:
                parts = list(pool.map(judge, batches))
        else:
            parts = [judge(batch) for batch in batches]
        found = (
            parts[0]
            if len(parts) == 1
            else Judged._make(np.concatenate(own, axis=1) for own in zip(*parts, strict=True))
        )
        for b, change in enumerate(changes if keep else ()):
            self.keep(change, found, b)
        return found

    def keep(self, change: Relabelling, judged: Judged, b: int) -> None:
        """Remember what one relabelling does, beside what was decided about it before."""
        found = Judged._make(array[:, b : b + 1].copy() for array in judged)
        if change in self._known:
            before = self._known[change]
            found = found._replace(changed=found.changed | before.changed, unchanged=found.unchanged | before.unchanged)
        self._known[change] = found

    def _judge(self, changes: Sequence[Relabelling]) -> Judged:
        """First in a hurry, and accurately where that leaves a doubt."""
        found = self._judge_to(changes, self._enough)
        doubtful = ~(found.changed | found.unchanged)[self.predicted >= 0].all(axis=0)
        if doubtful.any():
            better = self._judge_to([changes[b] for b in np.flatnonzero(doubtful).tolist()], 0.0)
            for array, other in zip(found, better, strict=True):
                array[:, doubtful] = other
        return found

    def _judge_in_a_hurry(self, changes: Sequence[Relabelling]) -> Judged:
        return self._judge_to(changes, HURRY * self._enough)

    def _judge_to(self, changes: Sequence[Relabelling], enough: float) -> Judged:
        scores, errors = self.class_batch(changes, enough)
        own = np.maximum(self.predicted, 0)
        columns = np.arange(own.size)
        mine, wrong = scores[own, columns].copy(), errors[own, columns].copy()
        scores[own, columns] = -np.inf
        gap, error = mine - scores, 1.01 * (wrong + errors) + 1e-290
        error[own, columns] = 0.0
        with np.errstate(invalid="ignore"):
            changed: Bool = np.any(gap < -error, axis=0)
            unchanged: Bool = np.all(gap > error, axis=0)
        rivals = scores.argmax(axis=0)
        return Judged(changed, unchanged, mine - scores.max(axis=0), rivals)

    def _found(self, codes: Int) -> Judged:
        labels = self.problem.adversary.labels
        positions = np.flatnonzero(codes[labels] != self.problem.codes[labels]).astype(np.int64)
        change = Relabelling(positions, codes[labels[positions]])
        return self._known[change] if change in self._known else self.judge([change], keep=True)

    @dropping
    def changed(self, codes: Int, nodes: Index) -> tuple[Bool, Bool]:
        """Another class is ahead, or none is."""
        found = self._found(codes)
        return found.changed[nodes, 0], found.unchanged[nodes, 0]

    @dropping
    def margins(self, codes: Int, nodes: Index) -> Float:
        """The score of the predicted class minus that of its strongest rival."""
        return self._found(codes).margins[nodes, 0]

    @dropping
    def becomes(self, codes: Int, node: int) -> int:
        """The strongest rival."""
        return int(self._found(codes).rivals[node, 0])

    def _errors(self, c: int, W: Float, found: Changes) -> Float:
        """(K, n, B) bounds on the errors of scores by one machine: of solutions, and of the products with them."""
        machine, ruler = self.machines[c], self._rulers[c]
        G, wrong, F = machine.gradient(W, found)
        errors = (self.norms[:, None] * machine.bounded(G, wrong, F, found))[None]
        if ruler is not None:
            near = ruler.norm.near(W, G, wrong, F, found)
            errors = np.fmin(errors, ruler.lengths[:, :, None] * near)
        norm = np.sqrt((W * W).sum(axis=(0, 1)))
        return np.asarray(1.01 * (errors + UNIT_ROUNDOFF * (W.shape[0] + 4) * self.norms[:, None] * norm[None, :]))


class OneForAll(FeaturePredictor):
    """One training: the sign of one score, or the highest output of a softmax."""

    def _machines(self) -> list[PrimalMachine]:
        K = self.problem.n_classes
        return [self.machine(self.problem.codes, 1 if K == 2 else K)]

    def _direction(self, own: Int, rival: Int) -> Float:
        """(K, B) multiples of the outputs that make the score of a class minus that of a rival."""
        if self.problem.n_classes == 2:
            return np.where(own == 1, 2.0, -2.0)[None, :]
        out = np.zeros((self.problem.n_classes, own.size))
        out[own, np.arange(own.size)] += 1.0
        out[rival, np.arange(own.size)] -= 1.0
        return out

    def _solved(self, changes: Sequence[Relabelling], enough: float) -> tuple[Float, Changes]:
        found = self.weighted(Changes.of([self.relabelled_labels(change) for change in changes]), changes)
        return self.trained(0, changes, found, enough), found

    def class_batch(self, changes: Sequence[Relabelling], enough: float = 0.0) -> tuple[Float, Float]:
        """Outputs, and of two classes the negative of the only one, too."""
        machine, T = self.machines[0], self.features.T
        if len(changes) == 1 and len(changes[0]) == 0:
            W, found = machine.w[:, :, None], NO_CHANGES
        else:
            W, found = self._solved(changes, enough)
        errors = self._errors(0, W, found)
        scores = (T @ W.reshape(machine.p, -1)).reshape(T.shape[0], machine.outputs, -1).transpose(1, 0, 2)
        if machine.outputs == 1:
            scores = np.concatenate([-scores, scores])
        return np.ascontiguousarray(scores), np.ascontiguousarray(np.broadcast_to(errors, scores.shape))

    def values(self, node: Int, rival: Int, changes: Sequence[Relabelling]) -> Float:
        """By the influence of labels on the difference of two scores."""
        machine, a = self.machines[0], self.problem.adversary
        W, _ = self._solved(changes, HURRY * self._enough)
        direction = self._direction(self.predicted[node], rival)
        V = self.features.T[node].T[:, None, :] * direction[None, :, :]
        reach, F = machine.influence(W, V)
        reach, F = reach[a.labels], F[a.labels]
        out = np.zeros((node.size, *a.targets.shape))
        for k in range(self.problem.n_classes):
            pulls = machine.pull(F, np.full(a.labels.size, k), a.labels)
            out[:, :, k] = -np.einsum("nkb,nkb->bn", pulls, reach)
        return out


class OneForEachClass(FeaturePredictor):
    """One training for each class against the rest."""

    def _machines(self) -> list[PrimalMachine]:
        K = self.problem.n_classes
        return [self.machine((self.problem.codes == c).astype(np.int64), 1, c) for c in range(K)]

    def toggled(self, change: Relabelling, c: int) -> tuple[Int, Int]:
        """Labels that enter or leave a class, and whether they are in it then."""
        labels, targets = self.relabelled_labels(change)
        inside = (targets == c).astype(np.int64)
        kept = inside != (self.problem.codes[labels] == c)
        return labels[kept], inside[kept]

    def _solved(self, changes: Sequence[Relabelling], c: int, enough: float) -> tuple[Float, Changes, Int]:
        """Solutions of one class for all relabellings that concern it, and which these are."""
        sets = [self.toggled(change, c) for change in changes]
        weights = self.features.weights
        shared = weights is not None and not weights.one_sided  # what a label weighs is the same in all models
        concerned = np.array([b for b, (labels, _) in enumerate(sets) if labels.size or shared], dtype=np.int64)
        own = [changes[b] for b in concerned.tolist()]
        found = self.weighted(Changes.of([sets[b] for b in concerned]), own, c)
        W = self.trained(c, own, found, enough) if own else np.zeros((self.machines[c].p, 1, 0))
        return W, found, concerned

    def class_batch(self, changes: Sequence[Relabelling], enough: float = 0.0) -> tuple[Float, Float]:
        """Only the classes that labels enter or leave are trained anew."""
        T, K, B = self.features.T, self.problem.n_classes, len(changes)
        scores, errors = np.empty((K, T.shape[0], B)), np.empty((K, T.shape[0], B))
        for c, machine in enumerate(self.machines):
            clean = machine.w[:, :, None]
            scores[c] = T @ machine.w
            errors[c] = self._errors(c, clean, NO_CHANGES)[0]
            W, found, concerned = self._solved(changes, c, enough)
            if concerned.size:
                scores[c][:, concerned] = T @ W[:, 0]
                errors[c][:, concerned] = self._errors(c, W, found)[0]
        return scores, errors

    def values(self, node: Int, rival: Int, changes: Sequence[Relabelling]) -> Float:
        """By the influence of labels on both scores."""
        a, out = self.problem.adversary, np.zeros((node.size, *self.problem.adversary.targets.shape))
        source = self.problem.codes[a.labels]
        for c, machine in enumerate(self.machines):
            for classes, sign in ((self.predicted[node], 1.0), (rival, -1.0)):
                at = np.flatnonzero(classes == c)
                if at.size == 0:
                    continue
                own = [changes[b] for b in at.tolist()]
                W = np.repeat(machine.w[:, :, None], at.size, axis=2)
                solved, _, concerned = self._solved(own, c, HURRY * self._enough)
                W[:, :, concerned] = solved
                reach, F = machine.influence(W, self.features.T[node[at]].T[:, None, :])
                inside = (source == c).astype(np.int64)
                pulls = machine.pull(F[a.labels], 1 - inside, a.labels)
                effect = -sign * (pulls * reach[a.labels])[:, 0].T
                out[at, :, c] += np.where(inside == 0, effect, 0.0)
                out[np.ix_(at, np.flatnonzero(inside))] += effect[:, inside == 1][:, :, None]
        return out
