"""Every engine against brute force."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from labelcert.certificate import Certificate
from labelcert.engines.registry import AUTO, ENGINES
from labelcert.engines.search import MilpWarning
from labelcert.selfcheck.brute_force import Truth, brute_force
from labelcert.selfcheck.cases import Case, nasty_case

SECONDS_PER_PROGRAM = 2.0
"""Limit of a solver for one node and budget; what it leaves open is no contradiction."""

LARGEST_PAPER_PROGRAM = 15
"""The paper's program with more labels than this, times the number of models, is not asked."""


def compare(case: Case, truth: Truth, engine: str, *, may_be_open: bool = False, **options: Any) -> list[str]:
    """Everything in one engine's certificate that contradicts the truth (empty: nothing).

    Parameters
    ----------
    may_be_open : bool
        Intervals that contain the truth are no contradiction: for engines that search.
    """
    cert = case.certify(engine, **options)
    wrong = []
    for t in range(cert.n_test):
        wrong += [f"node {t}: {line}" for line in _about_node(cert, truth, t, may_be_open)]
    for b, changed in enumerate(truth.curve):
        got = (int(cert.collective_lower[b]), int(cert.collective_upper[b]))
        must_be_exact = not may_be_open and cert.run.finds_attacks
        if not got[0] <= changed <= got[1] or (must_be_exact and got[0] != got[1]):
            wrong.append(f"budget {b}: curve {got}, truth {changed}")
        witness = frozenset(cert.collective_witness(b).items())
        hits = truth.changed_by.get(witness, ([], []))[0]
        if sum(hits) < got[0]:
            wrong.append(f"budget {b}: collective witness {sorted(witness)} does not change {got[0]}")
        if np.any(cert.collective_changed(b) & ~np.array([*hits, *[False] * (cert.n_test - len(hits))])):
            wrong.append(f"budget {b}: collective witness {sorted(witness)} does not change all that it should")
    return [f"{engine}, {case.kind}: {line}" for line in wrong]


def _about_node(cert: Certificate, truth: Truth, t: int, may_be_open: bool) -> list[str]:
    budget, never, classes = cert.max_flips, cert.never, cert.classes.tolist()
    radius, clean = truth.radius[t], truth.predicted[t]
    got = (int(cert.radius_lower[t]), int(cert.radius_upper[t]))
    wrong = []
    if clean is not None and cert.predictions[t] != classes[clean]:
        wrong.append(f"prediction {cert.predictions[t]}, truth {classes[clean]}")
    if not cert.run.finds_attacks and clean is not None:
        high, low = truth.relaxed[t]
        if not (low <= got[0] <= high and got[0] <= radius and got[1] == never):
            wrong.append(f"relaxed radius {got}, truth {low} to {high} (exact: {radius})")
        return wrong
    expected = (radius, radius) if radius <= budget else (budget + 1, never)
    if got != expected and not (may_be_open and got[0] <= expected[0] and expected[1] <= got[1]):
        wrong.append(f"radius {got}, truth {expected}")
    witness = cert.witness(t)
    if (witness is None) != (got[1] >= never):
        wrong.append(f"witness {witness} for radius {radius}")
    elif witness is not None and clean is not None:
        hits, news = truth.changed_by.get(frozenset(witness.items()), ([False] * (t + 1), []))
        if not hits[t]:
            wrong.append(f"witness {witness} does not change it")
        elif len(news[t]) == 1 and classes[cert.new_classes[t]] not in news[t]:
            wrong.append(f"becomes {classes[cert.new_classes[t]]}, truth {news[t]}")
    return wrong


def engines_for(case: Case, *, searching: bool = False) -> list[str]:
    """Names of the engines that answer a case: those that search, or the others with ``"auto"`` among them."""
    problem = case.build()
    names = [
        name
        for name, engine in ENGINES.items()
        if engine.capabilities.searches == searching and engine.refuses(problem) is None
    ]
    return names if searching else [AUTO, *names]


def check(case: Case, *, milp: bool = False, **options: Any) -> list[str]:
    """Everything in any engine's certificate of a case that contradicts brute force.

    Parameters
    ----------
    milp : bool
        Ask the engines that search, too; they may leave something open.
    """
    truth = brute_force(case)
    wrong = [line for engine in engines_for(case) for line in compare(case, truth, engine, workers=1, **options)]
    if not milp:
        return wrong
    models = np.unique(case.labels).size - 1
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MilpWarning)
        limits = {"node_time_limit": SECONDS_PER_PROGRAM, **options}
        for engine in engines_for(case, searching=True):
            if ENGINES[engine].capabilities.continues or models * case.labels.size <= LARGEST_PAPER_PROGRAM:
                wrong += compare(case, truth, engine, may_be_open=True, workers=1, **limits)
    return wrong


def run(
    problems: int, seed: int, *, largest: int = 8, report: Callable[[float, float], None] = lambda a, b: None
) -> list[str]:
    """Compare all engines with brute force on random problems; returns every contradiction found.

    Every fifth problem goes to the engines that search, too.
    """
    wrong: list[str] = []
    for k in range(problems):
        rng = np.random.default_rng([seed, k])
        wrong += [f"problem {k}: {line}" for line in check(nasty_case(rng, k, largest), milp=k % 5 == 0)]
        report(k + 1, problems)
    return wrong
