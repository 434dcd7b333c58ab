"""How compiled walks retrain, whatever the loss: the type of the machine chooses the code.

A walk flips labels (:func:`relabel`), trains (:func:`settle`), and asks how far the result can be from the optimum
(:func:`bound`). With many labels it solves the neighbours of a labelling from its solution, which they share
(:func:`solve_child`). Each kind of machine brings its own functions. The choice is made when a walk is compiled,
so that it costs nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from numba.extending import overload

from labelcert.arrays import Float, Int
from labelcert.losses import newton
from labelcert.svm import error_bound, pivoting, walking


class Retraining(NamedTuple):
    """The compiled functions of one kind of machine."""

    relabel: Callable[..., None]
    settle: Callable[..., int]
    bound: Callable[..., tuple[float, int]]
    relabel_all: Callable[..., None]
    solve_child: Callable[..., tuple[float, int]]
    solve_descendant: Callable[..., tuple[float, int]]


RETRAINING: dict[type, Retraining] = {
    pivoting.Machine: Retraining(
        relabel=pivoting.relabel,
        settle=pivoting.settle,
        bound=error_bound.bound,
        relabel_all=pivoting.relabel_all,
        solve_child=walking.solve_child,
        solve_descendant=walking.solve_descendant,
    ),
    newton.LogisticMachine: Retraining(
        relabel=newton.relabel,
        settle=newton.settle,
        bound=newton.bound,
        relabel_all=newton.relabel_all,
        solve_child=newton.solve_child,
        solve_descendant=newton.solve_descendant,
    ),
}
"""A kind of machine is one line here."""


def relabel(machine: Any, s: Any, y: Float, i: int) -> None:
    """Flip label ``i`` of ``y``; the solution at hand is where the next training starts."""
    RETRAINING[type(machine)].relabel(machine, s, y, i)


def settle(machine: Any, s: Any, y: Float) -> int:
    """Train on labels ``y`` from what is at hand; returns the rounds it took, negative where it did not converge."""
    return RETRAINING[type(machine)].settle(machine, s, y)


def bound(machine: Any, s: Any, y: Float, sharp: bool) -> tuple[float, int]:
    """Proved error bound on ``k·z`` for every row with ``‖k‖₂ ≤ 1``, and how it was proved."""
    return RETRAINING[type(machine)].bound(machine, s, y, sharp)


def relabel_all(machine: Any, s: Any, y: Float, flips: Int) -> None:
    """Flip several labels."""
    RETRAINING[type(machine)].relabel_all(machine, s, y, flips)


def solve_child(machine: Any, parent: Any, own: Any, y: Float, i: int) -> tuple[float, int]:
    """Flip label ``i`` of a solved parent without changing it: error bound and proof, infinite where that fails."""
    return RETRAINING[type(machine)].solve_child(machine, parent, own, y, i)


def solve_descendant(machine: Any, parent: Any, own: Any, y: Float, flips: Int) -> tuple[float, int]:
    """The same with several flips."""
    return RETRAINING[type(machine)].solve_descendant(machine, parent, own, y, flips)


_OPTIONS: Any = {"_nrt": False}
"""As in :mod:`~labelcert.compiling`."""


def _of(machine: Any) -> Retraining:
    return RETRAINING[machine.instance_class]


@overload(relabel, jit_options=_OPTIONS, strict=False)
def _relabel(machine: Any, s: Any, y: Any, i: Any) -> Any:
    chosen = _of(machine).relabel
    return lambda machine, s, y, i: chosen(machine, s, y, i)


@overload(settle, jit_options=_OPTIONS, strict=False)
def _settle(machine: Any, s: Any, y: Any) -> Any:
    chosen = _of(machine).settle
    return lambda machine, s, y: chosen(machine, s, y)


@overload(bound, jit_options=_OPTIONS, strict=False)
def _bound(machine: Any, s: Any, y: Any, sharp: Any) -> Any:
    chosen = _of(machine).bound
    return lambda machine, s, y, sharp: chosen(machine, s, y, sharp)


@overload(solve_child, jit_options=_OPTIONS, strict=False)
def _solve_child(machine: Any, parent: Any, own: Any, y: Any, i: Any) -> Any:
    chosen = _of(machine).solve_child
    return lambda machine, parent, own, y, i: chosen(machine, parent, own, y, i)
