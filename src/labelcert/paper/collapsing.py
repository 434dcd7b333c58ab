r"""Why the collective curve waits: what the worst attacks do to both classes, for every budget.

An attack that changes predictions of one class only changes at most as many as the larger class has. To change more,
it has to *swap*: to turn nodes of both classes at once. `swap_budgets` proves, where scores are linear in the labels,
how many flips a swap of two given nodes takes at least, by sorting. With scores :math:`p_u = \sum_i M_{ui} \tilde y_i`,
nodes t and s of different classes, and any weights :math:`\lambda, \mu \ge 0`, both can only change if
:math:`|D| = |\lambda p_t - \mu p_s|` falls to zero or turns, and every flip takes at most
:math:`2 |\lambda M_{ti} - \mu M_{si}|` away from it. What moves all nodes alike cancels: this is why a swap is dear.

No attack changes both nodes of a pair that cannot be swapped. So if many such pairs can be formed, each node in one
pair at most, each of them keeps a prediction: `ceiling` counts them by matching. It is a bound on the collective curve
that takes polynomial time.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import maximum_bipartite_matching

from labelcert.arrays import Float, Int, Values
from labelcert.certificate import Certificate
from labelcert.certification import GraphCertifier, certify
from labelcert.errors import InvalidInput
from labelcert.jobs.cells import CELLS, Answer, Cell, Job
from labelcert.problem import Problem, Threat

MIXES = (0.0, 0.25, 0.4, 0.5, 0.6, 0.75, 1.0)
"""Weights of one node of a pair against the other, whose rows are scaled alike. Each proves; more prove more."""

ROUNDING = 1e-9
"""Of sums of at most some hundred entries, relative to the sum of their sizes; far more than float64 loses."""


def swap_budgets(M: Float, y: Float) -> tuple[Int, Int, Int]:
    """Least numbers of flips that a swap may take, (a, b), with the a nodes and the b nodes of both classes.

    ``M`` are the (n, m) rows of scores ``M @ y``. Fewer flips provably change at most one node of the pair.

    Examples
    --------
    >>> import numpy as np
    >>> same, other = 1.0, 0.5
    >>> y = np.repeat([1.0, -1.0], 4)
    >>> M = np.where(np.equal.outer(np.array([1.0, -1.0]), y), same, other)
    >>> swap_budgets(M, y)[0].tolist()  # half of eight labels, though two flips change either node
    [[4]]
    """
    scale = np.abs(M).sum(axis=1, keepdims=True)
    M = np.divide(M, scale, out=np.zeros_like(M), where=scale > 0.0)
    scores = M @ y
    plus, minus = np.flatnonzero(scores > ROUNDING), np.flatnonzero(scores < -ROUNDING)
    least = np.zeros((plus.size, minus.size), dtype=np.int64)
    for k, t in enumerate(plus):
        for mix in MIXES:
            rows = mix * M[t] - (1.0 - mix) * M[minus]
            lead = mix * scores[t] - (1.0 - mix) * scores[minus]
            taken = np.cumsum(-np.sort(-np.maximum(2.0 * rows * y, 0.0), axis=1), axis=1)
            least[k] = np.maximum(least[k], 1 + (taken < lead[:, None] - ROUNDING).sum(axis=1))
    return least, plus, minus


def ceiling(M: Float, y: Float, budget: int) -> list[int]:
    """Most predictions that any attack may change, for budgets 0..``budget``: all but one of each matched pair.

    A node that cannot change alone is in no pair, and counts as kept.
    """
    least, plus, minus = swap_budgets(M, y)
    alone = _changes_alone(M, y)
    found = []
    for flips in range(budget + 1):
        open_plus, open_minus = alone[plus] <= flips, alone[minus] <= flips
        apart = sp.csr_array(least[np.ix_(open_plus, open_minus)] > flips)
        pairs = int((maximum_bipartite_matching(apart, perm_type="column") >= 0).sum()) if apart.nnz else 0
        found.append(int((alone <= flips).sum()) - pairs)
    return found


def _changes_alone(M: Float, y: Float) -> Int:
    """(n,) least numbers of flips that may change each node."""
    scale = np.abs(M).sum(axis=1)
    sides = np.where(M @ y >= 0.0, 1.0, -1.0)
    taken = np.cumsum(-np.sort(-np.maximum(2.0 * M * y * sides[:, None], 0.0), axis=1), axis=1)
    left = np.abs(M @ y) - ROUNDING * scale
    least: Int = np.where(left <= 0.0, 0, 1 + (taken < left[:, None]).sum(axis=1))
    return least


def influence_across(K_test: Float, y: Float, predicted: Int) -> float:
    r"""Compute :math:`\rho`: how much a label of the other class adds to a score, for each unit of one of its own.

    Means of kernel entries, over all nodes and the labels of the class that is predicted, and of the other one.
    """
    of = np.array([K_test[:, y < 0].mean(axis=1), K_test[:, y > 0].mean(axis=1)])
    nodes = np.arange(len(K_test))
    return float(of[1 - predicted, nodes].mean() / of[predicted, nodes].mean())


@dataclass(frozen=True, eq=False, kw_only=True)
class CollapseCell(Cell):
    """A certificate for two classes, and what its worst attacks do to both."""

    def decides(self, job: Job) -> dict[str, Any]:
        """With what is looked at."""
        return {**super().decides(job), "collapse": True}

    def answer(self, job: Job, certifier: GraphCertifier, workers: int | None) -> Answer:
        """Certify, and look."""
        looked: dict[str, Any] = {}
        cell = replace(self, using=partial(_look, looked))
        return super(CollapseCell, cell).answer(job, certifier, workers)[0], {"collapse": looked}


def _look(
    looked: dict[str, Any], K_train: Float, labels: Values, K_test: Float, C: float, **options: Any
) -> Certificate:
    cert = certify(K_train, labels, K_test, C, **options)
    if cert.n_classes != 2:
        raise InvalidInput(f"report = 'collapse' is about two classes, got {cert.n_classes}; use report = 'certified'")
    classes = cert.classes.tolist()
    predicted = np.searchsorted(cert.classes, cert.predictions)
    budgets = range(cert.max_flips + 1)
    flips, after = [], []
    for b in budgets:
        flipped = labels[list(cert.collective_witness(b))]
        flips.append([int((flipped == c).sum()) for c in classes])
        changed = np.where(cert.collective_changed(b), 1 - predicted, predicted)
        after.append(np.bincount(changed, minlength=2).tolist())
    sides = []
    for c, other in (classes, classes[::-1]):
        alone = certify(K_train, labels, K_test, C, threat=Threat(allowed_flips={c: [other]}), **options)
        ends = np.pad(alone.collective_upper, (0, len(budgets)), mode="edge")
        sides.append([int(v) for v in ends[: len(budgets)]])
    problem = Problem.build(K_train, labels, K_test, C, max_flips=cert.max_flips, loss=options["loss"])
    looked |= {
        "classes": [str(c) for c in classes],
        "predicted": np.bincount(predicted, minlength=2).tolist(),
        "flips": flips,
        "after": after,
        "one_sided": sides,
        "across": influence_across(problem.K_test, problem.y, predicted),
        "ceiling": ceiling(problem.C * problem.K_test, problem.y, cert.max_flips) if _linear(problem) else [],
    }
    return cert


def _linear(problem: Problem) -> bool:
    """Whether scores are ``C K_test @ y``, whatever the labels."""
    return problem.loss == "hinge" and problem.is_linear()


CELLS["collapse"] = CollapseCell
