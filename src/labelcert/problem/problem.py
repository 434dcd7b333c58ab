"""The question that every engine answers: a validated, immutable certification problem."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt

from labelcert.arrays import Float, Int, Values, frozen
from labelcert.checking import whole_number
from labelcert.errors import InvalidInput
from labelcert.losses import LINEAR, LOSSES, Loss, get_loss
from labelcert.problem import validation
from labelcert.problem.owners import resolved
from labelcert.problem.relabelling import Relabelling
from labelcert.problem.threat import Adversary, Threat

if TYPE_CHECKING:
    from labelcert.prediction import Predictor

ONE_MODEL = "one model"
"""The kind of predictor that nothing else is said about: one model, trained on all labels."""


class Predicting(Protocol):
    """Who predicts, where that is not one model that is trained on all labels."""

    @property
    def kind(self) -> str:
        """What engines call it when they say whom they can answer for."""

    def predictor(self, problem: Problem) -> Predictor:
        """Whose predictions are certified."""

    def digest(self, sha256: str) -> str:
        """The hash of a problem, with everything else that decides the answer."""


@dataclass(frozen=True, eq=False)
class Problem:
    """Kernel, labels, test rows and adversary of one certificate: m labels, n test nodes.

    Build it with :meth:`build`, which validates.
    """

    K_train: Float
    """(m, m) the kernel that is certified, bit for bit: the given one plus ``shift`` on its diagonal."""
    K_test: Float
    labels: Values
    """(m,) in the user's own values; ``classes`` are the K distinct ones."""
    classes: Values
    codes: Int
    """(m,) class of each label, as a position in ``classes``."""
    C: float
    loss: str
    """The name of :attr:`trained_with`, which says whether there is an intercept. With ``"linear"``, the rows of
    ``K_test`` are those of ``H`` in ``H @ one-hot(labels)``, and there is no kernel."""
    threat: Threat
    adversary: Adversary
    max_flips: int
    """Largest budget asked for, in cost units."""
    shift: float
    """0 unless the given kernel missed positive semidefiniteness by rounding."""
    min_eig: float
    """Proved lower bound on the smallest eigenvalue of ``K_train`` (0: only semidefiniteness is known; minus infinity:
    nothing is known yet)."""
    by: Predicting | None = None
    """Who predicts; None for one model that is trained on all labels."""
    drops_to: str = ""
    """Where a class without labels is dropped, as estimators of scikit-learn do, the name of the loss of a model with
    two classes left; empty: such a class stays, and can be predicted."""

    @classmethod
    def build(cls, *arrays: Any, **options: Any) -> Problem:
        """Validate everything, before any work starts; arguments as of :meth:`unsettled`."""
        return cls.unsettled(*arrays, **options).settled()

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
        drops_to: str = "",
    ) -> Problem:
        """The same without :meth:`settled`: nothing says yet that the kernel is positive semidefinite."""
        trained_with = get_loss(loss, intercept=intercept)
        asked = cls.linear(labels, threat=threat, max_flips=max_flips, loss=trained_with.name, C=C, drops_to=drops_to)
        return replace(
            asked,
            K_train=validation.check_train_kernel(K_train, asked.m),
            K_test=validation.check_test_kernel(K_test, asked.m),
            min_eig=-np.inf,
        )

    def settled(self) -> Problem:
        """With a kernel that is positive semidefinite, and scores that are well defined: see `settle_kernel`."""
        # Where the dual solution is unique, scores do not ask where the test rows lie.
        anywhere: Callable[[], bool] = (
            (lambda: True) if self.trained_with.defined_anywhere else partial(self.is_linear, strict=True)
        )
        roughly = self.max_flips == 0  # nothing is trained but the clean labels
        Q, shift, min_eig = validation.settle_kernel(self.K_train, self.K_test, anywhere, roughly=roughly)
        return replace(self, K_train=frozen(Q), K_test=frozen(self.K_test), shift=shift, min_eig=min_eig)

    def restricted(self, index: Int) -> Problem:
        """The problem of some labels alone, by ascending indices: their kernel, and what the adversary may do to them.

        All classes stay, also those that none of these labels has. Group budgets stay as they are.
        """
        part = self._adversary_of(index)
        adversary = replace(part, never=int(part.costs.sum()) + 1)
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
        drops_to: str = "",
    ) -> Problem:
        """Labels and adversary of a model without a kernel: still without a row of ``H`` in ``H @ one-hot(labels)``.

        Where no ``max_flips`` is given, it is at most `usual`.
        """
        values, classes, codes = validation.check_labels(labels)
        threat = Threat() if threat is None else threat
        if not isinstance(threat, Threat):
            raise InvalidInput(f"threat must be a labelcert.Threat, got {type(threat).__name__}")
        adversary = resolved(threat, values, classes)
        most = adversary.full_budget
        if max_flips is None:
            budget = most if usual is None else min(most, usual)
        else:
            budget = whole_number("max_flips", max_flips, 0, most, "all labels")
        asked = cls(
            K_train=np.zeros((0, 0)),
            K_test=np.zeros((0, codes.size)),
            labels=frozen(values),
            classes=frozen(classes),
            codes=frozen(codes),
            C=validation.check_cap(C),
            loss=loss,
            threat=threat,
            adversary=adversary,
            max_flips=budget,
            shift=0.0,
            min_eig=0.0,
            drops_to=drops_to,
        )
        both = asked.trained_with.needs_both_sides and (asked.n_classes == 2 or not drops_to)
        if both or (drops_to and adversary.removes):
            return replace(asked, max_flips=_while_all_classes_last(asked, chosen=max_flips is not None))
        return asked

    def with_rows(self, rows: npt.ArrayLike, columns: Int | None = None) -> Problem:
        """The same about other test rows; of a linear problem, about the labels of some columns alone, ascending.

        Labels whose entries are all zero change nothing, so their columns can be left out.
        """
        given = np.asarray(rows, dtype=np.float64)
        if columns is None:
            return replace(self, K_test=given)
        adversary = self._adversary_of(columns)
        return replace(self, K_test=given, labels=self.labels[columns], codes=self.codes[columns], adversary=adversary)

    def _adversary_of(self, index: Int) -> Adversary:
        """Who may do to some labels what the adversary may do to all."""
        return self.adversary.among(index)

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
        """What is left to attack once a relabelling is made and, of the other labels, only those at `free` may change.

        None where the budgets do not pay for the relabelling.
        """
        a = self.adversary
        caps, budget = a.group_caps - a.spent(change.positions), self.max_flips - a.cost(change)
        if budget < 0 or np.any(caps < 0):
            return None
        codes = self.relabelled(change)
        adversary = replace(a.only(free), group_caps=caps)
        return replace(self, codes=codes, labels=self.classes[codes], adversary=adversary, max_flips=budget)

    def one_vs_rest(self, c: int) -> Problem:
        """The two-class problem of class ``c`` (+1) against the rest (-1), under the same adversary.

        Its flippable labels are those that a relabelling can toggle: labels of ``c``, and labels that may become it.
        """
        member = self.codes == c
        return replace(
            self,
            labels=member,
            classes=np.array([False, True]),
            codes=member.astype(np.int64),
            adversary=self.adversary.toggling(self.codes, c),
            drops_to="",
        )

    @cached_property
    def emptied(self) -> dict[int, Relabelling]:
        """How the budget pays for taking the last label from a class, for each class where it does.

        Only where classes without labels are dropped.
        """
        a, found = self.adversary, dict[int, Relabelling]()
        for c in range(self.n_classes if self.drops_to else 0):
            members = np.flatnonzero(self.codes == c)
            positions = np.flatnonzero(np.isin(a.labels, members)).astype(np.int64)
            if 0 < members.size == positions.size and a.affords(positions, self.max_flips):
                found[c] = a.flipped(positions)
        return found

    def remaining(self, codes: Int) -> Problem:
        """The problem of the classes that still have labels."""
        present, own = np.unique(codes, return_inverse=True)
        loss = self.loss if present.size > 2 else self.drops_to
        classes, labels = self.classes[present], self.classes[codes]
        return replace(self, labels=labels, classes=classes, codes=own.astype(np.int64), loss=loss, drops_to="")

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
        h.update(a.digested())
        h.update(repr((float(self.C).hex(), self.loss, self.max_flips, self.classes.tolist())).encode())
        if self.emptied:
            h.update(self.drops_to.encode())
        return h.hexdigest()


def _while_all_classes_last(problem: Problem, *, chosen: bool) -> int:
    """The largest budget at which no class can lose all of its labels: an intercept needs both sides.

    So does who drops classes without labels, where labels may be removed: no engine knows both. A larger budget that
    the user chose is refused. Group budgets are not looked at.
    """
    codes, adversary, budget = problem.codes, problem.adversary, problem.max_flips
    position = np.full(codes.size, -1)
    position[adversary.labels] = np.arange(adversary.labels.size)
    last = budget
    for c in range(problem.n_classes):
        for members in (np.flatnonzero(codes == c), np.flatnonzero(codes != c)):
            # All labels of a class become others, or all others become it.
            if members.size and np.all(position[members] >= 0):
                last = min(last, adversary.least_cost(position[members]) - 1)
    if chosen and last < budget and not problem.trained_with.needs_both_sides:
        raise InvalidInput(
            f"max_flips must be at most {last} where labels may be removed, got {budget}: more could take the last "
            "label from a class, which this model then drops. Trust a label of each class"
        )
    if chosen and last < budget:
        raise InvalidInput(
            f"max_flips must be at most {last} with an intercept that is not regularised, got {budget}: more could "
            "leave labels of one class alone, and then there is no best intercept. Trust a label of each class, or use "
            "a loss without an intercept"
        )
    return last


def signs_of(codes: Int, c: int) -> Float:
    """(m,) labels of class ``c`` against the rest: +1 and -1."""
    return np.where(codes == c, 1.0, -1.0)
