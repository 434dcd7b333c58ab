"""Linear models whose labels weigh what their classes do: a change of labels changes weights, too.

With ``"balanced"``, a class weighs ``m / (K n)``, where n counts its labels after the change. So each labelling has its
own ``c_i`` for all labels. Solutions of :mod:`~labelcert.losses.primal` and their error bounds ask for the gradient
alone, and take it as it is there.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass

import numpy as np

from labelcert.arrays import Float, Int, Values
from labelcert.losses.primal import Changes, PrimalMachine, Slopes

BALANCED = "balanced"
"""In place of weights of classes: one over how frequent they are."""


class SquareSlopes(Slopes):
    """``c (y − f)²`` of one output; code 1 is the class whose score it is."""

    steepest = 2.0
    alike = False

    def residual(self, F: Float, codes: Int, c: Float) -> Float:
        """``2 c (f − y)``."""
        return np.asarray(2.0 * c[:, None, :] * (F - (2.0 * codes - 1.0)[:, None, :]))

    def product(self, F: Float, P: Float, codes: Int, c: Float) -> Float:
        """``2 c P``."""
        return np.asarray(2.0 * c[:, None, :] * P)

    def least(self, F: Float, c: Float) -> Float:
        """The only one."""
        return np.broadcast_to(2.0 * c, (F.shape[0], F.shape[2]))

    def hessian(self, F: Float, codes: Int, c: Float) -> Float:
        """``2 c``."""
        return np.broadcast_to(2.0 * c, F.shape)[:, :, None]


@dataclass(frozen=True, eq=False)
class Weights:
    """What labels weigh in a training: their own weight, times that of their class.

    Attributes
    ----------
    own : (m,) array
    by_class : mapping, "balanced" or None
        Classes that a mapping does not name weigh 1.
    one_sided : bool
        Of more than two classes, the model of one class against the rest weighs that class alone (LIBLINEAR).
    """

    own: Float
    by_class: Mapping[Hashable, float] | str | None = None
    one_sided: bool = False

    def of(self, codes: Int, classes: Values, member: int | None = None) -> Float:
        """(m, B) the weights in B labellings (m, B), in the model of one class or of all."""
        weight = self._of_classes(codes, classes)
        if self.one_sided and member is not None:
            weight = np.where(codes == member, weight, 1.0)
        return np.asarray(self.own[:, None] * weight)

    def _of_classes(self, codes: Int, classes: Values) -> Float:
        if self.by_class == BALANCED:
            counts = np.array([(codes == k).sum(axis=0) for k in range(len(classes))])
            present = (counts > 0).sum(axis=0)
            balanced = codes.shape[0] / (present * np.maximum(counts, 1))
            return np.asarray(np.take_along_axis(balanced, codes, axis=0))
        given = self.by_class if isinstance(self.by_class, Mapping) else {}
        return np.array([float(given.get(value, 1.0)) for value in classes.tolist()])[codes]

    def most(self, classes: int) -> float:
        """No label weighs more, whatever the labels are."""
        if self.by_class == BALANCED:
            return float(self.own.max()) * self.own.size
        given = self.by_class.values() if isinstance(self.by_class, Mapping) else []
        return float(self.own.max()) * max([1.0, *given])

    def __str__(self) -> str:
        given = [] if self.by_class is None else [f"class_weight={self.by_class!r}"]
        return " and ".join([*given, *(["sample_weight"] if np.any(self.own != 1.0) else [])])

    def described(self) -> str:
        """All that decides an answer."""
        named = self.by_class if isinstance(self.by_class, str | None) else sorted(map(str, self.by_class.items()))
        return repr((self.own.tolist(), named, self.one_sided))


class WeightedMachine(PrimalMachine):
    """One model on given features that is trained on labels with weights of their own in each labelling.

    Parameters
    ----------
    most : float
        No label has a larger c in any labelling.
    """

    def __init__(
        self, X: Float, codes: Int, c: Float, penalty: Float, slopes: Slopes, outputs: int, most: float
    ) -> None:
        super().__init__(X, codes, c, penalty, slopes, outputs)
        self._weight, self._weighted = (1.01 * most * float((self.norms**power).sum()) for power in (1, 2))

    def impulses(self, changes: Changes) -> Float:
        """By minus the gradient at the clean solution."""
        W = np.repeat(self.w[:, :, None], changes.size, axis=2)
        return -self._gradient(W, changes)[0]

    def _least(self, F: Float, changes: Changes) -> Float:
        return self._least_with(F, self.c[:, None] if changes.c is None else changes.c)

    def _residuals(self, F: Float, changes: Changes) -> Float:
        if changes.c is None:
            return super()._residuals(F, changes)
        r = self.slopes.residual(F, self.codes[:, None], changes.c)
        label, batch = changes.label, changes.batch
        c = changes.c[label, batch][:, None]
        r[label, :, batch] = self.slopes.residual(F[label, :, batch][:, :, None], changes.code[:, None], c)[:, :, 0]
        return r
