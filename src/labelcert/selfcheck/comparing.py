"""Every engine against brute force."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from labelcert.certificate import Certificate, Stop
from labelcert.engines.registry import AUTO, engine_names, get_engine
from labelcert.engines.search import branching
from labelcert.errors import MilpWarning
from labelcert.problem.validation import check_workers
from labelcert.progress import Report
from labelcert.selfcheck.brute_force import Truth, brute_force
from labelcert.selfcheck.cases import Case, nasty_case, with_loss_in_turn, with_margin_in_turn, with_removal_in_turn
from labelcert.selfcheck.nasty_kernels import TREACHEROUS
from labelcert.workers import Workers

SECONDS = 0.03
"""Limit of one search for one problem; what it leaves open is no contradiction."""

WORTH_A_PROCESS = 20
"""Problems that take about as long as the start of a process."""

LEAVES = (1, 10)
"""Attacks in a leaf of branch and bound where it has to branch on small problems, too."""


def compare(case: Case, truth: Truth, engine: str, *, may_be_open: bool = False, **options: Any) -> list[str]:
    """All in a certificate that contradicts the truth; if it ``may_be_open``, intervals that contain it do not."""
    cert = case.certify(engine, **options)
    if cert.run.stopped is Stop.INTERRUPTED:
        raise KeyboardInterrupt  # whoever pressed Ctrl-C means the whole check, not this certificate
    wrong = []
    loose = case.kind in TREACHEROUS or case.build().intercept
    for t in range(cert.n_test):
        wrong += [f"node {t}: {line}" for line in _about_node(cert, truth, t, may_be_open, loose)]
    for b, changed in enumerate(truth.curve):
        got = (int(cert.collective_lower[b]), int(cert.collective_upper[b]))
        must_be_exact = not may_be_open and cert.run.finds_attacks
        if not got[0] <= changed <= got[1] or (must_be_exact and got[0] != got[1]):
            wrong.append(f"budget {b}: curve {got}, truth {changed}")
        witness = cert.collective_witness(b)
        hits = truth.changed(witness)
        if hits.sum() < got[0]:
            wrong.append(f"budget {b}: collective witness {witness} does not change {got[0]}")
        if np.any(cert.collective_changed(b) & ~hits):
            wrong.append(f"budget {b}: collective witness {witness} does not change all that it should")
    return [f"{engine}, {case.kind}: {line}" for line in wrong]


def _about_node(cert: Certificate, truth: Truth, t: int, may_be_open: bool, may_be_loose: bool) -> list[str]:
    budget, never, classes = cert.max_flips, cert.never, cert.classes.tolist()
    radius, clean = truth.radius[t], truth.predicted[t]
    got = (int(cert.radius_lower[t]), int(cert.radius_upper[t]))
    wrong = []
    nothing_claimed = may_be_open and got == (0, never)  # a search that ended before it knew predictions
    if clean is not None and not nothing_claimed and cert.predictions[t] != classes[clean]:
        wrong.append(f"prediction {cert.predictions[t]}, truth {classes[clean]}")
    if not cert.run.finds_attacks and clean is not None:
        high, low = truth.relaxed[t]
        # Where one node's numbers dwarf another's, the error bound that all share hides the latter: loose, not wrong.
        tight = may_be_open or may_be_loose or low <= got[0]
        # A prediction that has no margin at all is changed already.
        if not (tight and got[0] <= high and got[0] <= radius and got[1] in (never, *([0] if radius == 0 else []))):
            wrong.append(f"relaxed radius {got}, truth {low} to {high} (exact: {radius})")
        return wrong
    expected = (radius, radius) if radius <= budget else (budget + 1, never)
    if got != expected and not (may_be_open and got[0] <= expected[0] and expected[1] <= got[1]):
        wrong.append(f"radius {got}, truth {expected}")
    witness = cert.witness(t)
    if (witness is None) != (got[1] >= never):
        wrong.append(f"witness {witness} for radius {radius}")
    elif witness is not None and clean is not None:
        if not truth.changed(witness)[t]:
            wrong.append(f"witness {witness} does not change it")
        elif len(news := truth.new_classes(witness, t)) == 1 and cert.new_classes[t] != news[0]:
            wrong.append(f"becomes {classes[cert.new_classes[t]]}, truth {classes[news[0]]}")
    return wrong


def engines_for(case: Case, *, searching: bool = False) -> list[str]:
    """Names of the engines that answer a case: those that search, or the others with ``"auto"`` among them."""
    problem = case.build()
    names = [
        name
        for name, engine in ((name, get_engine(name)) for name in engine_names() if name != AUTO)
        if engine.capabilities.searches == searching
        and engine.refuses(problem) is None
        and (engine.capabilities.removes or not problem.adversary.removes)
    ]
    return names if searching else [AUTO, *names]


def check(case: Case, *, milp: bool = False, seconds: float = SECONDS, **options: Any) -> list[str]:
    """Everything in any engine's certificate of a case that contradicts brute force.

    With ``milp``, engines that search are asked, too, for some ``seconds`` each; they may leave something open. Branch
    and bound is asked twice: as it is, where a small problem is a single leaf, and with leaves so small that it has to
    branch.
    """
    truth = brute_force(case)
    # Ties of numbers that are not rational cannot be proved.
    open_too = truth.tied and not case.build().trained_with.rational
    with warnings.catch_warnings():
        # The final check warns where it withdraws what an engine proved, which is a bug even if nothing wrong is left.
        warnings.simplefilter("error", RuntimeWarning)
        warnings.simplefilter("ignore", MilpWarning)
        wrong = [
            line
            for engine in engines_for(case)
            for line in compare(case, truth, engine, may_be_open=open_too, workers=1, **options)
        ]
        return wrong + (_searched(case, truth, {"time_limit": seconds, "workers": 1, **options}) if milp else [])


def _searched(case: Case, truth: Truth, limits: dict[str, Any]) -> list[str]:
    """What contradicts the truth in the certificates of engines that search."""
    wrong = []
    for engine in engines_for(case, searching=True):
        wrong += compare(case, truth, engine, may_be_open=True, **limits)
        if get_engine(engine).capabilities.continues:
            leaf = LEAVES[case.labels.size % len(LEAVES)]
            with _leaves_of(leaf):
                found = compare(case, truth, engine, may_be_open=True, **limits)
            wrong += [f"leaves of {leaf}, {line}" for line in found]
    return wrong


@contextmanager
def _leaves_of(attacks: int) -> Iterator[None]:
    """Branch and bound meanwhile retrains subtrees of at most this many attacks, and branches on all others."""
    before = branching.LEAF_SETS, branching.LEAF_RELABELLINGS
    branching.LEAF_SETS = branching.LEAF_RELABELLINGS = attacks
    try:
        yield
    finally:
        branching.LEAF_SETS, branching.LEAF_RELABELLINGS = before


@dataclass(frozen=True)
class SelfCheck:
    """What a run found; Ctrl-C may have interrupted it."""

    problems: int
    wrong: list[str]
    """Every contradiction, with the seed and the number of its problem."""
    interrupted: bool = False


def run(
    problems: int,
    seed: int,
    *,
    first: int = 0,
    largest: int = 8,
    seconds: float = SECONDS,
    workers: int | None = None,
    device: str = "cpu",
    report: Report = lambda done, total: None,
) -> SelfCheck:
    """Compare all engines with brute force on random problems.

    A problem depends on the seed, its number and ``largest``, the most labels of most kernels, alone:
    ``first=k, problems=1`` is problem ``k`` again. The outcome does not depend on the number of processes, ``workers``,
    but for what searches leave open after their ``seconds``.
    """
    work = partial(_problem, seed=seed, largest=largest, seconds=seconds, device=device)
    processes = min(check_workers(workers), 1 + problems // WORTH_A_PROCESS)
    numbers, done, wrong = range(first, first + problems), 0, list[str]()
    try:
        with Workers(processes) if processes > 1 else nullcontext() as pool:
            for found in map(work, numbers) if pool is None else pool.map(work, numbers):
                done += 1
                wrong += found
                report(done, problems)
    except KeyboardInterrupt:
        return SelfCheck(done, wrong, interrupted=True)
    return SelfCheck(done, wrong)


def _problem(k: int, *, seed: int, largest: int, seconds: float, device: str) -> list[str]:
    """Every contradiction in one problem; an engine that raises contradicts itself."""
    try:
        case = with_loss_in_turn(nasty_case(np.random.default_rng([seed, k]), k, largest), k)
        case = with_margin_in_turn(with_removal_in_turn(case, k), k)
        found = check(case, milp=True, seconds=seconds, device=device)
    except Exception as error:
        found = [f"raises {type(error).__name__}: {error}"]
    return [f"seed {seed}, problem {k}: {line}" for line in found]
