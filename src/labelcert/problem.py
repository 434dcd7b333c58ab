"""The question that every engine answers: a validated, immutable certification problem."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from labelcert import validation
from labelcert.errors import InvalidInput
from labelcert.threat import Adversary, Threat

Float = npt.NDArray[np.float64]

LOSSES = ("hinge", "square")


@dataclass(frozen=True, eq=False)
class Problem:
    """Kernel, labels, test rows and adversary of one certificate.

    Build it with :meth:`build`, which validates. m labels, n test nodes.

    Attributes
    ----------
    K_train : (m, m) array
        The kernel that is certified, bit for bit: the given one plus ``shift`` on its diagonal.
    K_test : (n, m) array
    labels : (m,) array
        In the user's own values; ``classes`` are the K distinct ones.
    y : (m,) array
        Codes: ±1 for two classes (+1: ``classes[1]``), positions in ``classes`` for more.
    C : float
    loss : {"hinge", "square"}
    threat : Threat
    adversary : Adversary
    max_flips : int
        Largest budget asked for, in cost units.
    shift : float
        0 unless the given kernel missed positive semidefiniteness by rounding.
    min_eig : float
        Proved lower bound on the smallest eigenvalue of ``K_train`` (0: only semidefiniteness is known).
    """

    K_train: Float
    K_test: Float
    labels: npt.NDArray[Any]
    classes: npt.NDArray[Any]
    y: Float
    C: float
    loss: str
    threat: Threat
    adversary: Adversary
    max_flips: int
    shift: float
    min_eig: float

    @classmethod
    def build(
        cls,
        K_train: npt.ArrayLike,
        labels: npt.ArrayLike,
        K_test: npt.ArrayLike,
        C: float,
        *,
        threat: Threat | None = None,
        max_flips: int | None = None,
        loss: str = "hinge",
    ) -> Problem:
        """Validate everything, before any work starts.

        Examples
        --------
        >>> problem = Problem.build([[1.0, 0.0], [0.0, 1.0]], ["cat", "dog"], [[1.0, 0.2]], C=1.0)
        >>> problem.y, problem.max_flips
        (array([-1.,  1.]), 2)
        """
        if loss not in LOSSES:
            raise InvalidInput(f"loss must be one of {', '.join(LOSSES)}, got {loss!r}")
        values, classes, y = validation.check_labels(labels)
        Q = validation.check_train_kernel(K_train, y.size)
        rows = validation.check_test_kernel(K_test, y.size)
        cap = validation.check_cap(C)
        threat = Threat() if threat is None else threat
        if not isinstance(threat, Threat):
            raise InvalidInput(f"threat must be a labelcert.Threat, got {type(threat).__name__}")
        adversary = threat.resolve(values, classes)
        budget = validation.check_budget("max_flips", max_flips, adversary.full_budget)
        Q, shift, min_eig = validation.settle_kernel(Q, rows)
        for array in (Q, rows, values, classes, y):
            array.setflags(write=False)
        return cls(
            K_train=Q,
            K_test=rows,
            labels=values,
            classes=classes,
            y=y,
            C=cap,
            loss=loss,
            threat=threat,
            adversary=adversary,
            max_flips=budget,
            shift=shift,
            min_eig=min_eig,
        )

    @property
    def m(self) -> int:
        """Number of labels."""
        return int(self.y.size)

    @property
    def n_test(self) -> int:
        """Number of test nodes."""
        return int(self.K_test.shape[0])

    @property
    def n_classes(self) -> int:
        """Number K of classes."""
        return int(self.classes.size)

    @property
    def codes(self) -> npt.NDArray[np.int64]:
        """(m,) class of each label, as a position in ``classes``."""
        return (self.y > 0 if self.n_classes == 2 else self.y).astype(np.int64)

    def one_vs_rest(self, c: int) -> Problem:
        """The two-class problem of class ``c`` (+1) against the rest (-1), under the same adversary.

        Its flippable labels are those that a relabelling can toggle: labels of ``c``, and labels that may become it.

        Examples
        --------
        >>> problem = Problem.build(np.eye(3), ["a", "b", "c"], np.eye(3), C=1.0)
        >>> problem.one_vs_rest(2).y
        array([-1., -1.,  1.])
        """
        y = np.where(self.codes == c, 1.0, -1.0)
        y.setflags(write=False)
        return replace(
            self,
            y=y,
            classes=np.array([False, True]),
            labels=self.codes == c,
            adversary=self.adversary.toggling(self.codes, c),
        )

    def digest(self) -> str:
        """SHA-256 over everything that decides the answer."""
        h = hashlib.sha256()
        for array in (self.K_train, self.K_test, self.y):
            h.update(repr(array.shape).encode())
            h.update(np.ascontiguousarray(array, dtype="<f8").tobytes())
        a = self.adversary
        targets = [a.targets] if self.n_classes > 2 else []
        for whole in (a.labels, a.costs, a.groups, a.group_caps, *targets):
            h.update(np.ascontiguousarray(whole, dtype="<i8").tobytes() + b"|")
        h.update(repr((float(self.C).hex(), self.loss, self.max_flips, self.classes.tolist())).encode())
        return h.hexdigest()
