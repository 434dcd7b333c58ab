"""How compiled walks retrain, whatever the loss.

A walk changes labels (:func:`relabel`; 0 is a label that takes no part), trains (:func:`settle`), and asks how far the
result can be from the optimum (:func:`bound`). With many labels it solves the neighbours of a labelling from its
solution, which they share (:func:`solve_child`). Each kind of machine brings its own functions. A walk holds their
addresses, so one compiled walk serves all losses.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numba import types

from labelcert.arrays import Float, Int
from labelcert.compiling import by_reference, compiled
from labelcert.compiling.references import Anything, Compiled, call
from labelcert.losses import conjugate, newton
from labelcert.svm import error_bound, many_labels, pivoting, walking
from labelcert.svm.pivoting import LARGEST_COLD
from labelcert.svm.walking import MANY_LABELS

SHARP: Any = np.bool_(True)
LOOSE: Any = np.bool_(False)
"""Whether :func:`bound` is to be sharp: numbers, since Numba compiles a function once for each literal."""


class Functions(NamedTuple):
    """The functions of one kind of machine, and whether GPUs have such functions, too.

    All are compiled but the last two, which are for many labels: they train from nothing, and prepare a solution for
    pivoting, by LAPACK and in steps that can be stopped.
    """

    on_device: bool
    relabel: Callable[..., None]
    settle: Callable[..., int]
    bound: Callable[..., tuple[float, int]]
    relabel_all: Callable[..., None]
    solve_child: Callable[..., tuple[float, int]]
    solve_descendant: Callable[..., tuple[float, int]]
    train_many: Callable[..., None]
    warm: Callable[..., None]


FUNCTIONS: dict[type, Functions] = {
    pivoting.Machine: Functions(
        on_device=True,
        relabel=pivoting.relabel,
        settle=pivoting.settle,
        bound=error_bound.bound,
        relabel_all=pivoting.relabel_all,
        solve_child=walking.solve_child,
        solve_descendant=walking.solve_descendant,
        train_many=many_labels.train,
        warm=many_labels.tableau,
    ),
    newton.LogisticMachine: Functions(
        on_device=False,
        relabel=newton.relabel,
        settle=newton.settle,
        bound=newton.bound,
        relabel_all=newton.relabel_all,
        solve_child=newton.solve_child,
        solve_descendant=newton.solve_descendant,
        train_many=conjugate.train_logistic,
        warm=conjugate.inverse,
    ),
}
"""A kind of machine is one line here."""


@by_reference
class Retraining(NamedTuple):
    """A machine, and where the compiled functions of its kind are."""

    machine: Any
    relabel: Any
    settle: Any
    bound: Any
    relabel_all: Any
    solve_child: Any
    solve_descendant: Any

    @property
    def on_device(self) -> bool:
        """Whether GPUs can train it."""
        return FUNCTIONS[type(self.machine.values)].on_device

    def __reduce__(self) -> Any:
        """Addresses mean nothing in another process."""
        return retraining, (self.machine.values,)


def retraining(machine: Any) -> Retraining:
    """What compiled walks take to retrain a machine; None where they have nothing to train.

    Nothing is compiled that they will not call.
    """
    functions: Functions | None = None if machine is None else FUNCTIONS[type(machine)]
    many = machine is not None and machine.Q.shape[0] > MANY_LABELS
    s, y, i, flips = pivoting.new_scratch(0), np.zeros(0), 0, np.zeros(0, dtype=np.int64)
    value = 0.0
    tau_and_proof = types.Tuple((types.float64, types.intp))

    def at(name: str, result: Any, *arguments: Any, needed: bool = True) -> Compiled:
        function = getattr(functions, name) if functions is not None and needed else None
        return Compiled(function, result, (machine, *arguments))

    return Retraining(
        machine=Anything(machine),
        relabel=at("relabel", types.none, s, y, i, value),
        settle=at("settle", types.intp, s, y),
        bound=at("bound", tau_and_proof, s, y, True),
        relabel_all=at("relabel_all", types.none, s, y, flips, y),
        solve_child=at("solve_child", tau_and_proof, s, s, y, i, value, needed=many),
        solve_descendant=at("solve_descendant", tau_and_proof, s, s, y, flips, y, needed=many),
    )


def train_many(r: Retraining, s: pivoting.Scratch, y: Float, start: Float | None = None) -> None:
    """Train on many labels, from the solution for similar ones or from nothing; what neighbours start from stays cold.

    Raises
    ------
    Stopped
        The run is over.
    """
    machine = r.machine.values
    FUNCTIONS[type(machine)].train_many(machine, s, y, start)


def warm(r: Retraining, s: pivoting.Scratch, y: Float) -> None:
    """Prepare a solution that :func:`train_many` found as the start of its neighbours'; may be stopped, too."""
    machine = r.machine.values
    FUNCTIONS[type(machine)].warm(machine, s, y)


def begin(r: Retraining, s: pivoting.Scratch, y: Float) -> None:
    """What :func:`settle` starts from: with many labels a solution that is ready, else nothing."""
    if y.size > LARGEST_COLD and s.v[pivoting.FLAGS, 0] != 0.0:
        train_many(r, s, y)
        warm(r, s, y)


@compiled()
def relabel(r: Any, s: Any, y: Float, i: int, value: float) -> None:
    """Change label ``i`` of ``y``; the solution at hand is where the next training starts."""
    call(r.relabel, (r.machine, s, y, i, value))


@compiled()
def settle(r: Any, s: Any, y: Float) -> int:
    """Train on labels ``y`` from what is at hand; returns the rounds it took, negative where it did not converge."""
    return call(r.settle, (r.machine, s, y))


@compiled()
def bound(r: Any, s: Any, y: Float, sharp: bool) -> tuple[float, int]:
    """Proved error bound on ``k·z`` for every row with ``‖k‖₂ ≤ 1``, and how it was proved."""
    return call(r.bound, (r.machine, s, y, sharp))


@compiled()
def relabel_all(r: Any, s: Any, y: Float, flips: Int, to: Float) -> None:
    """Change several labels at once to what they are in ``to``, with the machine's own function."""
    call(r.relabel_all, (r.machine, s, y, flips, to))


@compiled()
def solve_child(r: Any, parent: Any, own: Any, y: Float, i: int, value: float) -> tuple[float, int]:
    """Change label ``i`` of a solved parent without changing it: error bound and proof, infinite where that fails.

    More than ``MANY_LABELS`` labels are needed for this; ``own`` has the parent's tableau.
    """
    return call(r.solve_child, (r.machine, parent, own, y, i, value))


@compiled()
def solve_descendant(r: Any, parent: Any, own: Any, y: Float, flips: Int, to: Float) -> tuple[float, int]:
    """The same with several labels, to what they are in ``to``."""
    return call(r.solve_descendant, (r.machine, parent, own, y, flips, to))
