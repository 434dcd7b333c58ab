"""The attacks behind a certificate as a list, for a report in which readers verify labels themselves."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np

from labelcert.certificate import Certificate, ListedAttacks
from labelcert.engines.base import Question
from labelcert.engines.control import Control
from labelcert.errors import InvalidInput
from labelcert.prediction import predictor_for
from labelcert.problem import Problem, Threat
from labelcert.rechecking.attacks import list_attacks

LISTED_BYTES, LISTED_TRAININGS, LISTED_SECONDS = 400_000, 20_000, 20.0
"""Limits of a list, with one bit for each node of each set."""


def problem_of(cert: Certificate) -> Problem:
    """The problem that a certificate answers, from the kernels that it holds."""
    if cert.K_train is None or cert.K_test is None:
        raise InvalidInput(
            "the certificate does not hold its kernels; save it with save(path, problem=True), or give the arrays"
        )
    if cert.run.margin:
        raise InvalidInput("the certificate has a margin, which is not known here; certify without one")
    try:
        threat = Threat.from_plain(cert.run.threat, cert.labels, cert.classes)
        problem = Problem.build(
            cert.K_train,
            cert.labels,
            cert.K_test,
            cert.run.C,
            threat=threat,
            max_flips=cert.max_flips,
            loss=cert.run.loss,
        )
    except (KeyError, InvalidInput):
        problem = None
    if problem is None or problem.digest() != cert.run.problem_sha256:
        raise InvalidInput(
            "the certificate is not one of certify alone (but of an ensemble, or of given predictions), or its threat "
            "cannot be read back; give the arrays and the threat"
        )
    return problem


def listed_attacks(cert: Certificate) -> ListedAttacks | None:
    """All attacks up to the largest budget at which that takes little time and room.

    None where not even single changes can be listed: without kernels, for ensembles, with a margin.

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
        problem = problem_of(cert)
    except InvalidInput:
        return None
    a, n = problem.adversary, problem.n_test
    options = a.targets.sum(axis=1)

    def fits(budget: int) -> bool:
        return a.count_sets(budget) * n <= 8 * LISTED_BYTES and a.count_sets(budget, options) <= LISTED_TRAININGS

    fitting = list(itertools.takewhile(fits, range(1, cert.last_flips + 1)))
    for budget in fitting[:-3:-1]:
        if (found := _listed(replace(problem, max_flips=budget))) is not None:
            return found
    return None


def _listed(problem: Problem) -> ListedAttacks | None:
    """All attacks within the problem's budget; None if that takes too long, or some are not decided."""
    a, n = problem.adversary, problem.n_test
    question = Question.ask(predictor_for(problem, linear=problem.is_linear(strict=True)))
    control = Control(workers=1, time_limit=LISTED_SECONDS)
    control.start_clock()
    with control.running():
        found = list_attacks(question, np.ones(question.nodes.size), control, strongest=True)
    if not found.complete:
        return None
    bits = np.unpackbits(found.sets.view(np.uint8), axis=1, bitorder="little")[:, : a.labels.size].astype(bool)
    overturned = np.zeros((len(bits), n), dtype=bool)
    overturned[:, question.nodes] = found.overturned
    return ListedAttacks(
        flips=problem.max_flips,
        starts=np.concatenate([[0], np.cumsum(bits.sum(axis=1))]).astype(np.int64),
        labels=a.labels[np.nonzero(bits)[1]],
        costs=(bits @ a.costs).astype(np.int64),
        overturned=overturned,
        strongest=found.strongest.astype(np.int64),
    )
