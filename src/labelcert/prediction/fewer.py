"""A class without labels is dropped, as estimators of scikit-learn do: a model on the other classes predicts.

One class alone is predicted everywhere.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np

from labelcert.arrays import Bool, Float, Index, Int

if TYPE_CHECKING:
    from labelcert.prediction.predictor import Predictor


F = TypeVar("F", bound=Callable[..., Any])


def dropping(method: F) -> F:
    """A predictor's method that takes labels, answered by the classes that have some."""

    @functools.wraps(method)
    def answered(self: Predictor, codes: Int, *rest: Any) -> Any:
        fewer = self.fewer(codes)
        return method(self, codes, *rest) if fewer is None else getattr(fewer, method.__name__)(codes, *rest)

    return cast(F, answered)


def leaving(method: F) -> F:
    """The same for labels that are removed alone: classes without labels stay."""

    @functools.wraps(method)
    def answered(self: Predictor, codes: Int, *rest: Any) -> Any:
        left = self.without(codes)
        return method(self, codes, *rest) if left is None else getattr(left, method.__name__)(codes, *rest)

    return cast(F, answered)


class Fewer:
    """What a predictor says where some classes have no labels left.

    Parameters
    ----------
    whole : Predictor
    present : (k,) array
        The classes that have labels.
    model : Predictor or None
        Of these classes; None where there is one.
    """

    def __init__(self, whole: Predictor, present: Int, model: Predictor | None) -> None:
        self._present = present
        self._place = np.full(whole.problem.n_classes, -1)
        self._place[present] = np.arange(present.size)
        self._own = np.where(whole.predicted >= 0, self._place[whole.predicted], -1)
        self._model = copy.copy(model)
        if self._model is not None:
            self._model.predicted = self._own

    def changed(self, codes: Int, nodes: Index) -> tuple[Bool, Bool]:
        """Those whose class is gone, and what the model says of the others."""
        here = self._own[nodes] >= 0
        yes, no = ~here, here.copy()
        if self._model is not None:
            yes[here], no[here] = self._model.changed(self._place[codes], nodes[here])
        return yes, no

    def margins(self, codes: Int, nodes: Index) -> Float:
        """Infinite where there is a class alone, or one that is gone."""
        here = self._own[nodes] >= 0
        found = np.where(here, np.inf, -np.inf)
        if self._model is not None:
            found[here] = self._model.margins(self._place[codes], nodes[here])
        return found

    def becomes(self, codes: Int, node: int) -> int:
        """The first of the other classes that the model prefers."""
        if self._model is None:
            return int(self._present[0])
        if self._own[node] >= 0:
            return int(self._present[self._model.becomes(self._place[codes], node)])
        return int(self._present[max(0, self._model.predicts(self._place[codes], node))])

    def predicts(self, codes: Int, node: int) -> int:
        """The model's leader."""
        found = 0 if self._model is None else self._model.predicts(self._place[codes], node)
        return int(self._present[found]) if found >= 0 else found
