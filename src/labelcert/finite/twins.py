"""A network of finite width and the kernel machine that it becomes, trained on the same labels."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from labelcert.arrays import Float, Int
from labelcert.errors import InvalidInput
from labelcert.losses import LOSSES
from labelcert.models import Model
from labelcert.models.base import GraphLike
from labelcert.models.networks.network import Recipe
from labelcert.problem.problem import signs_of

HINGE = LOSSES["hinge"]


@dataclass(frozen=True, eq=False)
class Twins:
    """A model, a graph and its nodes; both sides are trained on any labels.

    The labels of validation nodes decide when training stops, where practitioners train.
    """

    model: Model
    graph: GraphLike
    labeled: npt.ArrayLike
    test: npt.ArrayLike
    inductive: bool = False
    device: str = "auto"
    validation: npt.ArrayLike | None = None

    @cached_property
    def kernels(self) -> tuple[Float, Float]:
        """``(K_train, K_test)`` of the infinitely wide network."""
        return self.model.kernel_blocks(self.graph, self.labeled, self.test, inductive=self.inductive)

    @cached_property
    def C(self) -> float:  # noqa: N802 (the name that everybody gives it)
        """Regularisation of both."""
        return float(self.model.settled(self.graph, self.labeled, self.test, inductive=self.inductive).C)

    @cached_property
    def labels(self) -> Int:
        """(m,) clean class codes."""
        codes: Int = np.asarray(self.graph.labels, dtype=np.int64)[np.asarray(self.labeled)]
        if np.unique(codes).size < 2 or codes.min() < 0:
            raise InvalidInput("labeled nodes must have known labels of at least two classes")
        return codes

    @cached_property
    def classes(self) -> Int:
        """(K,) the distinct class codes of the labels."""
        return np.unique(self.labels)

    @cached_property
    def predicted(self) -> Int:
        """(n,) clean predictions of the kernel machine, as positions among the classes."""
        scores = self.machine(self.labels[None])[0]
        return np.asarray(scores > 0 if self.classes.size == 2 else scores.argmax(axis=1), dtype=np.int64)

    def machine(self, labels: Int) -> Float:
        """Scores of the kernel machine for B sets of labels: (B, n), or (B, n, K) for more than two classes."""
        K, rows = self.kernels
        codes = np.searchsorted(self.classes, labels)
        C, count = self.C, self.classes.size
        if count == 2:
            return np.stack([rows @ HINGE.train(K, signs_of(one, 1), C) for one in codes])
        return np.stack([rows @ HINGE.train_classes(K, one, count, C).T for one in codes])

    def network(self, labels: Int, width: int, seed: int, recipe: Recipe = "theory") -> Float:
        """Scores of a network for B sets of labels, in the same form."""
        network = replace(self.model, C=self.C).network(width, seed, recipe=recipe, device=self.device)
        trained = network.train(
            self.graph, self.labeled, self.test, labels=labels, validation=self.validation, inductive=self.inductive
        )
        return trained.scores

    def leads(self, scores: Float) -> Float:
        """(B, n) score of the machine's clean prediction minus the highest other one; of two classes, signed score."""
        if self.classes.size == 2:
            return scores * np.where(self.predicted == 1, 1.0, -1.0)
        own = np.take_along_axis(scores, self.predicted[None, :, None], axis=2)[:, :, 0]
        rivals = scores.copy()
        np.put_along_axis(rivals, np.broadcast_to(self.predicted[None, :, None], (*own.shape, 1)), -np.inf, axis=2)
        return np.asarray(own - rivals.max(axis=2))

    def flipped(self, rng: np.random.Generator, flips: int, count: int) -> Int:
        """(count, m) labels, with ``flips`` of them changed at random in each row."""
        labels = np.repeat(self.labels[None], count, axis=0)
        for row in labels:
            for i in rng.choice(row.size, flips, replace=False):
                row[i] = rng.choice(self.classes[self.classes != row[i]])
        return labels

    def single_flips(self, rng: np.random.Generator, most: int = 200) -> Int:
        """All labellings with one label changed, or ``most`` of them drawn at random."""
        moves = [(i, c) for i in range(self.labels.size) for c in self.classes if c != self.labels[i]]
        if len(moves) > most:
            moves = [moves[k] for k in sorted(rng.choice(len(moves), most, replace=False))]
        labels = np.repeat(self.labels[None], len(moves), axis=0)
        for row, (i, c) in zip(labels, moves, strict=True):
            row[i] = c
        return labels
