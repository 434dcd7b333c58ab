"""The question that every engine answers: a validated, immutable certification problem."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Protocol

import numpy as np
import numpy.typing as npt

from labelcert.arrays import Float, Int, Values
from labelcert.errors import InvalidInput
from labelcert.losses import LINEAR, LOSSES, Loss, get_loss
from labelcert.problem import validation
from labelcert.problem.relabelling import Relabelling
from labelcert.problem.threat import Adversary, Threat

if TYPE_CHECKING:
    from labelcert.prediction import Predictor

ONE_MODEL = "one model"
"""The kind of predictor that nothing else is said about: one model, trained on all labels."""


class Predicting(Protocol):
    """Who predicts, where that is not one model that is trained on all labels.

    Attributes
    ----------
    kind : str
        What engines call it when they say whom they can answer for.
    """

    @property
    def kind(self) -> str: ...  # noqa: D102 (said above)

    def predictor(self, problem: Problem) -> Predictor:
        """Whose predictions are certified."""

    def digest(self, sha256: str) -> str:
        """The hash of a problem, with everything else that decides the answer."""


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
    codes : (m,) array
        Class of each label, as a position in ``classes``.
    C : float
    loss : str
        The name of :attr:`trained_with`, which says whether there is an intercept. With ``"linear"``, the rows of
        ``K_test`` are those of ``H`` in ``H @ one-hot(labels)``, and there is no kernel.
    threat : Threat
    adversary : Adversary
    max_flips : int
        Largest budget asked for, in cost units.
    shift : float
        0 unless the given kernel missed positive semidefiniteness by rounding.
    min_eig : float
        Proved lower bound on the smallest eigenvalue of ``K_train`` (0: only semidefiniteness is known; minus infinity:
        nothing is known yet).
    by : Predicting or None
        Who predicts; None for one model that is trained on all labels.
    """

    K_train: Float
    K_test: Float
    labels: Values
    classes: Values
    codes: Int
    C: float
    loss: str
    threat: Threat
    adversary: Adversary
    max_flips: int
    shift: float
    min_eig: float
    by: Predicting | None = None

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
        intercept: bool = False,
    ) -> Problem:
        """Validate everything, before any work starts.

        Examples
        --------
        >>> problem = Problem.build([[1.0, 0.0], [0.0, 1.0]], ["cat", "dog"], [[1.0, 0.2]], C=1.0)
        >>> problem.codes, problem.max_flips
        (array([0, 1]), 2)
        """
        given = cls.unsettled(
            K_train, labels, K_test, C, threat=threat, max_flips=max_flips, loss=loss, intercept=intercept
        )
        return given.settled()

    @classmethod
    def unsettled(
        cls,
        K_train: npt.ArrayLike,
        labels: npt.ArrayLike,
        K_test: npt.ArrayLike,
        C: float,
        *,
        threat: Threat | None = None,
        max_flips: int | None = None,
        loss: str = "hinge",
        intercept: bool = False,
    ) -> Problem:
        """The same without :meth:`settled`: nothing says yet that the kernel is positive semidefinite."""
        trained_with = get_loss(loss, intercept=intercept)
        values, classes, codes = validation.check_labels(labels)
        Q = validation.check_train_kernel(K_train, codes.size)
        rows = validation.check_test_kernel(K_test, codes.size)
        constant = validation.check_cap(C)
        threat, adversary = _resolved(threat, values, classes)
        budget = validation.check_budget("max_flips", max_flips, adversary.full_budget)
        if trained_with.intercept:
            budget = _while_all_classes_last(codes, classes, adversary, budget, chosen=max_flips is not None)
        return cls(
            K_train=Q,
            K_test=rows,
            labels=values,
            classes=classes,
            codes=codes,
            C=constant,
            loss=trained_with.name,
            threat=threat,
            adversary=adversary,
            max_flips=budget,
            shift=0.0,
            min_eig=-np.inf,
        )

    def settled(self) -> Problem:
        """With a kernel that is positive semidefinite, and scores that are well defined: see `settle_kernel`."""
        # Where the dual solution is unique, scores do not ask where the test rows lie.
        anywhere: Callable[[], bool] = (
            (lambda: True) if self.trained_with.defined_anywhere else partial(self.is_linear, strict=True)
        )
        Q, shift, min_eig = validation.settle_kernel(self.K_train, self.K_test, anywhere)
        for array in (Q, self.K_test, self.labels, self.classes, self.codes):
            array.setflags(write=False)
        return replace(self, K_train=Q, shift=shift, min_eig=min_eig)

    def restricted(self, index: Int) -> Problem:
        """The problem of some labels alone: their kernel, and what the adversary may do to them.

        All classes stay, also those that none of these labels has. Group budgets stay as they are.

        Parameters
        ----------
        index : array
            Indices of labels, ascending.
        """
        a = self.adversary
        part = a.only(np.flatnonzero(np.isin(a.labels, index)).astype(np.int64))
        adversary = replace(
            part,
            m=int(index.size),
            labels=np.searchsorted(index, part.labels).astype(np.int64),
            never=int(part.costs.sum()) + 1,
        )
        return replace(
            self,
            K_train=np.ascontiguousarray(self.K_train[np.ix_(index, index)]),
            K_test=np.ascontiguousarray(self.K_test[:, index]),
            labels=self.labels[index],
            codes=self.codes[index],
            adversary=adversary,
            max_flips=min(self.max_flips, adversary.full_budget),
        )

    @classmethod
    def linear(
        cls,
        labels: npt.ArrayLike,
        *,
        threat: Threat | None = None,
        max_flips: int | None = None,
        usual: int | None = None,
        loss: str = LINEAR,
        C: float = 1.0,
        intercept: bool = False,
    ) -> Problem:
        """Labels and adversary of a model without a kernel: still without a row of ``H`` in ``H @ one-hot(labels)``.

        Parameters
        ----------
        labels, threat, max_flips
            As in :meth:`build`.
        usual : int, optional
            Where no ``max_flips`` is given: at most this.
        loss, C, intercept
            As in :meth:`build`, of a model that is trained on features.

        Examples
        --------
        >>> problem = Problem.linear(["cat", "dog", "dog"], usual=2)
        >>> problem.max_flips, problem.with_rows([[0.5, 0.25, 0.25]]).n_test
        (2, 1)
        """
        values, classes, codes = validation.check_labels(labels)
        threat, adversary = _resolved(threat, values, classes)
        budget = validation.check_budget("max_flips", max_flips, adversary.full_budget)
        if max_flips is None and usual is not None:
            budget = min(budget, usual)
        trained_with = get_loss(loss, intercept=intercept) if loss != LINEAR else LOSSES[LINEAR]
        if trained_with.intercept:
            budget = _while_all_classes_last(codes, classes, adversary, budget, chosen=max_flips is not None)
        for array in (values, classes, codes):
            array.setflags(write=False)
        return cls(
            K_train=np.zeros((0, 0)),
            K_test=np.zeros((0, codes.size)),
            labels=values,
            classes=classes,
            codes=codes,
            C=validation.check_cap(C),
            loss=trained_with.name,
            threat=threat,
            adversary=adversary,
            max_flips=budget,
            shift=0.0,
            min_eig=0.0,
        )

    def with_rows(self, rows: npt.ArrayLike, columns: Int | None = None) -> Problem:
        """The same about other test rows; of a linear problem, about the labels of some columns alone.

        Labels whose entries are all zero change nothing, so their columns can be left out.

        Parameters
        ----------
        rows : (n, m) array, or (n, k) for k columns
        columns : (k,) array, optional
            Ascending.
        """
        given = np.asarray(rows, dtype=np.float64)
        if columns is None:
            return replace(self, K_test=given)
        positions = np.flatnonzero(np.isin(self.adversary.labels, columns)).astype(np.int64)
        kept = self.adversary.only(positions)
        adversary = replace(kept, m=columns.size, labels=np.searchsorted(columns, kept.labels).astype(np.int64))
        return replace(self, K_test=given, labels=self.labels[columns], codes=self.codes[columns], adversary=adversary)

    @property
    def kind(self) -> str:
        """Who predicts, as engines call it."""
        return ONE_MODEL if self.by is None else self.by.kind

    @property
    def trained_with(self) -> Loss:
        """The loss itself, of which the problem holds the name."""
        return LOSSES[self.loss]

    @property
    def intercept(self) -> bool:
        """Whether the model has an intercept that is not regularised."""
        return self.trained_with.intercept

    @property
    def test_rows(self) -> Float:
        """What the solution of a training is multiplied by."""
        return self.trained_with.rows(self.K_test)

    @property
    def coupled(self) -> bool:
        """Whether the scores of all classes come from one training."""
        return self.trained_with.coupled and self.n_classes > 2

    @property
    def kernels(self) -> tuple[Float, Float] | tuple[None, None]:
        """What a certificate may keep of the problem: ``K_train`` and ``K_test``, where there is a kernel."""
        return (self.K_train, self.K_test) if self.K_train.size else (None, None)

    @property
    def m(self) -> int:
        """Number m of labels."""
        return int(self.codes.size)

    @property
    def n_test(self) -> int:
        """Number of test nodes."""
        return int(self.K_test.shape[0])

    @property
    def n_classes(self) -> int:
        """Number K of classes."""
        return int(self.classes.size)

    @property
    def y(self) -> Float:
        """(m,) labels of a two-class problem as signs: +1 for ``classes[1]``."""
        return signs_of(self.codes, 1)

    def relabelled(self, change: Relabelling) -> Int:
        """(m,) class of each label after a change."""
        codes = self.codes.copy()
        codes[self.adversary.labels[change.positions]] = change.targets
        return codes

    def after(self, change: Relabelling, free: Int) -> Problem | None:
        """What is left to attack once a relabelling is made and, of the other labels, only some may still change.

        Parameters
        ----------
        change : Relabelling
        free : position array
            The labels that may still change.

        Returns
        -------
        Problem or None
            None where the budgets do not pay for the relabelling.
        """
        a = self.adversary
        caps = a.group_caps.copy()
        groups = a.groups[change.positions]
        np.subtract.at(caps, groups[groups >= 0], a.costs[change.positions][groups >= 0])
        budget = self.max_flips - a.cost(change)
        if budget < 0 or np.any(caps < 0):
            return None
        codes = self.relabelled(change)
        adversary = replace(a.only(free), group_caps=caps)
        return replace(self, codes=codes, labels=self.classes[codes], adversary=adversary, max_flips=budget)

    def one_vs_rest(self, c: int) -> Problem:
        """The two-class problem of class ``c`` (+1) against the rest (-1), under the same adversary.

        Its flippable labels are those that a relabelling can toggle: labels of ``c``, and labels that may become it.

        Examples
        --------
        >>> problem = Problem.build(np.eye(3), ["a", "b", "c"], np.eye(3), C=1.0)
        >>> problem.one_vs_rest(2).y
        array([-1., -1.,  1.])
        """
        member = self.codes == c
        return replace(
            self,
            labels=member,
            classes=np.array([False, True]),
            codes=member.astype(np.int64),
            adversary=self.adversary.toggling(self.codes, c),
        )

    def is_linear(self, *, strict: bool = False) -> bool:
        """Whether all scores are provably linear in the labels, for every admissible relabelling.

        With the hinge loss, that is where every label of every model stays at its cap. With ``strict``, no other dual
        solution exists beside it, so that scores are well defined whatever the test rows.
        """
        if self.trained_with.always_linear:
            return True
        if self.coupled:
            return False
        # Of two classes, one model is the negative of the other.
        models = range(1 if self.n_classes == 2 else self.n_classes)
        return all(self.one_vs_rest(c)._is_linear(strict) for c in models)

    def _is_linear(self, strict: bool) -> bool:
        movable = np.zeros(self.m, dtype=bool)
        movable[self.adversary.labels] = True
        flips = self.adversary.most_flips(self.max_flips)
        return self.trained_with.is_linear(self.K_train, self.y, self.C, movable, flips, strict=strict)

    def digest(self) -> str:
        """SHA-256 over everything that decides the answer."""
        h = hashlib.sha256()
        for array in (self.K_train, self.K_test):
            h.update(repr(array.shape).encode())
            h.update(np.ascontiguousarray(array, dtype="<f8").tobytes())
        return self.finish_digest(h) if self.by is None else self.by.digest(self.finish_digest(h))

    def finish_digest(self, h: hashlib._Hash) -> str:
        """The same, from a hash that has taken in the kernels (or whatever stands for them)."""
        a = self.adversary
        for whole in (self.codes, a.labels, a.costs, a.groups, a.group_caps, a.targets):
            h.update(np.ascontiguousarray(whole, dtype="<i8").tobytes() + b"|")
        h.update(repr((float(self.C).hex(), self.loss, self.max_flips, self.classes.tolist())).encode())
        return h.hexdigest()


def _while_all_classes_last(codes: Int, classes: Values, adversary: Adversary, budget: int, *, chosen: bool) -> int:
    """The largest budget at which no class can lose all of its labels: an intercept needs both sides.

    Refuses a larger one that the user chose. Group budgets are not looked at.
    """
    position = np.full(codes.size, -1)
    position[adversary.labels] = np.arange(adversary.labels.size)
    last = budget
    for c in range(classes.size):
        for members in (np.flatnonzero(codes == c), np.flatnonzero(codes != c)):
            # All labels of a class become others, or all others become it.
            if members.size and np.all(position[members] >= 0):
                last = min(last, int(adversary.costs[position[members]].sum()) - 1)
    if chosen and last < budget:
        raise InvalidInput(
            f"max_flips must be at most {last} with an intercept that is not regularised, got {budget}: more could "
            "leave labels of one class alone, and then there is no best intercept. Trust a label of each class, or use "
            "a loss without an intercept"
        )
    return last


def _resolved(threat: Threat | None, labels: Values, classes: Values) -> tuple[Threat, Adversary]:
    threat = Threat() if threat is None else threat
    if not isinstance(threat, Threat):
        raise InvalidInput(f"threat must be a labelcert.Threat, got {type(threat).__name__}")
    return threat, threat.resolve(labels, classes)


def signs_of(codes: Int, c: int) -> Float:
    """(m,) labels of class ``c`` against the rest: +1 and -1."""
    return np.where(codes == c, 1.0, -1.0)
