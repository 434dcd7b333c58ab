"""The attacks behind a certificate as a list, for a report in which readers confirm labels themselves."""

from __future__ import annotations

import itertools

import numpy as np

from labelcert.certificate import Certificate, ListedAttacks
from labelcert.engines.control import Control
from labelcert.errors import InvalidInput
from labelcert.problem.owners import OwnerAdversary
from labelcert.rechecking.attacks import bits, list_attacks
from labelcert.rechecking.subject import Subject

LISTED_BYTES, LISTED_TRAININGS, LISTED_SECONDS = 400_000, 20_000, 20.0
"""Limits of a list, with two bits for each node of each set."""


def listed_attacks(cert: Certificate) -> ListedAttacks | None:
    """All attacks up to the largest budget at which that takes little time and room.

    None where not even single changes can be listed, as without kernels, and where budgets count annotators.

    Examples
    --------
    >>> import labelcert
    >>> from labelcert.examples import two_clouds
    >>> data = two_clouds()
    >>> found = listed_attacks(labelcert.certify(data.K_train, data.labels, data.K_test, C=1.0))
    >>> found.flips, found.labels[: found.starts[2]].tolist()
    (6, [1, 3])
    """
    try:
        subject = Subject.of(cert)
    except InvalidInput:
        return None
    a, n = subject.problem.adversary, subject.problem.n_test
    if isinstance(a, OwnerAdversary):  # attacks are sets of annotators, not of labels
        return None
    options = a.targets.sum(axis=1)

    def fits(budget: int) -> bool:
        return a.count_sets(budget) * n <= 8 * LISTED_BYTES and a.count_sets(budget, options) <= LISTED_TRAININGS

    fitting = list(itertools.takewhile(fits, range(1, cert.last_flips + 1)))
    for budget in fitting[:-3:-1]:
        if (found := _listed(subject.within(budget))) is not None:
            return found
    return None


def _listed(subject: Subject) -> ListedAttacks | None:
    """All attacks within the largest budget; None if that takes too long, or some are not decided."""
    a, n, question = subject.problem.adversary, subject.problem.n_test, subject.question()
    control = Control(workers=1, time_limit=LISTED_SECONDS)
    control.start_clock()
    with control.running():
        found = list_attacks(question, np.ones(question.nodes.size), control, strongest=True)
    if not found.complete or found.at_once is None:
        return None
    flipped = bits(found.sets, a.labels.size)
    overturned, at_once = np.zeros((2, len(flipped), n), dtype=bool)
    overturned[:, question.nodes] = found.overturned
    at_once[:, question.nodes] = bits(found.at_once, question.nodes.size)
    return ListedAttacks(
        flips=subject.problem.max_flips,
        starts=np.concatenate([[0], np.cumsum(flipped.sum(axis=1))]).astype(np.int64),
        labels=a.labels[np.nonzero(flipped)[1]],
        costs=(flipped @ a.costs).astype(np.int64),
        overturned=overturned,
        strongest=found.strongest.astype(np.int64),
        at_once=at_once,
    )
