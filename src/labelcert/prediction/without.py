"""A label that is removed: the model is trained on the labels that are left, and predicts the same test rows.

Classes stay, also those without labels, unless the problem says that they are dropped.
"""

from __future__ import annotations

import copy
from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from labelcert.arrays import Bool, Float, Index, Int
from labelcert.problem.problem import signs_of
from labelcert.stopping import Stopped
from labelcert.svm.pivoting import LARGEST_COLD

if TYPE_CHECKING:
    from labelcert.prediction.predictor import Predictor


GUARD = 1.0 + 1e-9
"""Covers the rounding of the comparisons themselves."""


class Without:
    """What a predictor says where some labels are removed.

    Parameters
    ----------
    whole : Predictor
    left : (k,) array
        The labels that are left, ascending.
    """

    def __init__(self, whole: Predictor, left: Int) -> None:
        self._whole, self._left = whole, left

    @cached_property
    def _model(self) -> Predictor | None:
        """None where no label is left."""
        if self._left.size == 0:
            return None
        model = copy.copy(self._whole.of(self._whole.problem.restricted(self._left)))
        model.predicted = self._whole.predicted
        return model

    def changed(self, codes: Int, nodes: Index) -> tuple[Bool, Bool]:
        """By training with labels that take no part, where that decides; else what the model says.

        Without any label all scores are zero, and every node is tied.
        """
        if self._left.size == 0:
            return np.ones(nodes.size, dtype=bool), np.zeros(nodes.size, dtype=bool)
        yes, no = self._at_once(codes, nodes)
        doubt = np.flatnonzero(~(yes | no))
        if doubt.size:
            with suppress(Stopped):  # what is not decided in time stays open
                assert self._model is not None
                yes[doubt], no[doubt] = self._model.changed(codes[self._left], nodes[doubt])
        return yes, no

    def _at_once(self, codes: Int, nodes: Index) -> tuple[Bool, Bool]:
        """The same by the machine of all labels, with 0 for those that are removed; neither where that is too close."""
        found, own = self._scores(codes, nodes), self._whole.predicted[nodes]
        if found is None:
            return np.zeros(nodes.size, dtype=bool), np.zeros(nodes.size, dtype=bool)
        p, tau = found
        lead, error = p[own, np.arange(nodes.size)] - p, GUARD * (tau[own] + tau[:, None])
        rival = own != np.arange(len(p))[:, None]
        return (rival & (lead < -error)).any(axis=0), (~rival | (lead > error)).all(axis=0)

    def _scores(self, codes: Int, nodes: Index) -> tuple[Float, Float] | None:
        """(K, n) scores of that machine, and (K,) bounds on their errors; None where there is none."""
        whole, K = self._whole, self._whole.problem.n_classes
        if not whole.scorer.trains_without or codes.size > LARGEST_COLD or whole.problem.coupled:
            return None
        p, tau = [], []
        for c in [1] if whole.one_score else range(K):
            training = whole.scorer.train(np.where(codes == K, 0.0, signs_of(codes, c)), sharp=False)
            p.append(whole.scorer.scores(training, nodes))
            tau.append(training.tau)
        return (np.array([-p[0], p[0]]), np.array(2 * tau)) if whole.one_score else (np.array(p), np.array(tau))

    def leading(self, codes: Int, nodes: Index) -> tuple[Bool, Bool]:
        """What the model says; without any label, all classes share the highest score."""
        if self._left.size == 0:
            return (np.ones((self._whole.problem.n_classes, nodes.size), dtype=bool),) * 2
        assert self._model is not None
        return self._model.leading(codes[self._left], nodes)

    def margins(self, codes: Int, nodes: Index) -> Float:
        """What the model says."""
        return np.zeros(nodes.size) if self._model is None else self._model.margins(codes[self._left], nodes)

    def becomes(self, codes: Int, node: int) -> int:
        """The class whose score is clearly the highest of the others, or what the model says.

        The first of the other classes where no label is left; -1 where the run is over.
        """
        own = int(self._whole.predicted[node])
        if self._whole.one_score or self._left.size == 0:
            return int(own == 0)
        found = self._scores(codes, np.array([node]))
        if found is not None:
            p, tau = found[0][:, 0], found[1]
            others = np.flatnonzero(np.arange(p.size) != own)
            best = int(others[p[others].argmax()])
            rest = others[others != best]
            if (p[best] - p[rest] > GUARD * (tau[best] + tau[rest])).all():
                return best
        with suppress(Stopped):
            assert self._model is not None
            return self._model.becomes(codes[self._left], node)
        return -1

    def predicts(self, codes: Int, node: int) -> int:
        """What the model says."""
        return -1 if self._model is None else self._model.predicts(codes[self._left], node)
