"""A certificate in which any single number was changed is rejected.

Numbers are changed in two ways: with the checksum left as it was, which alone gives them away, and with a new one, so
that only the proofs can.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache, partial
from typing import Any

import numpy as np
import pytest

from labelcert import Certificate, InvalidInput, verify
from labelcert.certificate import RelabellingList
from labelcert.selfcheck.brute_force import Truth, brute_force
from labelcert.selfcheck.cases import Case, nasty_case

Rng = np.random.Generator
Tamper = Callable[[Certificate, Truth, Rng], Certificate | None]

PROBLEMS = 30


@cache
def problem(k: int) -> tuple[Case, Truth, dict[str, Certificate]]:
    number = k + k // 9  # every tenth one is too large for this
    case = nasty_case(np.random.default_rng([23, number]), number, 6)
    engines = ("auto", "enumerate", "milp", "relaxed")
    return case, brute_force(case), {engine: case.certify(engine, workers=1) for engine in engines}


def bumped(array: Any, index: Any, by: int) -> Any:
    out = array.copy()
    out[index] += by
    return out


def some(rng: Rng, where: Any) -> int | None:
    return int(rng.choice(np.flatnonzero(where))) if np.any(where) else None


def radius_up(cert: Certificate, truth: Truth, rng: Rng) -> Certificate | None:
    t = some(rng, (cert.radius_lower == cert.radius_upper) & (cert.radius_lower <= cert.max_flips))
    if t is None:
        return None
    upper = bumped(cert.radius_upper, t, 1)
    return replace(cert, radius_lower=bumped(cert.radius_lower, t, 1), radius_upper=upper, **claimed(cert, t))


def claimed(cert: Certificate, t: int) -> dict[str, Any]:
    return {"radius_claimed": bumped(cert.radius_claimed, t, 1)}


def lower_end_up(cert: Certificate, truth: Truth, rng: Rng) -> Certificate | None:
    radius = np.array(truth.radius)
    t = some(rng, (cert.radius_lower == radius) & (cert.radius_lower < cert.radius_upper) & (radius <= cert.max_flips))
    if t is None:
        return None
    return replace(cert, radius_lower=bumped(cert.radius_lower, t, 1), **claimed(cert, t))


def upper_end_down(cert: Certificate, truth: Truth, rng: Rng) -> Certificate | None:
    t = some(rng, (cert.radius_upper > 0) & (cert.radius_upper <= cert.never))
    if t is None:
        return None
    lower = np.minimum(cert.radius_lower, cert.radius_upper - 1)
    new = {"radius_lower": np.where(np.arange(cert.n_test) == t, lower, cert.radius_lower)}
    return replace(cert, radius_upper=bumped(cert.radius_upper, t, -1), radius_claimed=new["radius_lower"], **new)


def upper_end_up(cert: Certificate, truth: Truth, rng: Rng) -> Certificate | None:
    t = some(rng, (cert.radius_upper < cert.never - 1) & (cert.radius_upper > 0))
    return None if t is None else replace(cert, radius_upper=bumped(cert.radius_upper, t, 1))


def curve_down(cert: Certificate, truth: Truth, rng: Rng) -> Certificate | None:
    b = some(rng, (cert.collective_upper == np.array(truth.curve)) & (cert.collective_upper > 0))
    if b is None:
        return None
    upper = bumped(cert.collective_upper, b, -1)
    return replace(
        cert,
        collective_upper=upper,
        collective_lower=np.minimum(cert.collective_lower, upper),
        collective_claimed=np.minimum(cert.collective_claimed, upper),
    )


def curve_up(cert: Certificate, truth: Truth, rng: Rng) -> Certificate | None:
    b = some(rng, (cert.collective_lower == np.array(truth.curve)) & (cert.collective_lower < cert.n_test))
    if b is None:
        return None
    lower = bumped(cert.collective_lower, b, 1)
    most = {name: np.maximum(getattr(cert, name), lower) for name in ("collective_upper", "collective_claimed")}
    return replace(cert, collective_lower=lower, **most)


def witness_swapped(cert: Certificate, truth: Truth, rng: Rng) -> Certificate | None:
    a, b = (int(t) for t in rng.integers(cert.n_test, size=2))
    other = cert.node_attacks[b]
    costs = cert.run.threat["costs"] or [1] * cert.labels.size
    named = {int(i): cert.classes[c].item() for i, c in zip(*other, strict=True)}
    right = sum(costs[i] for i in named) == cert.radius_upper[a] and truth.changed(named)[a]
    if cert.radius_upper[a] >= cert.never or right:
        return None  # that one is a witness, too
    attacks = [other if t == a else cert.node_attacks[t] for t in range(cert.n_test)]
    return replace(cert, node_attacks=RelabellingList.pack(*map(list, zip(*attacks, strict=True))))


def witness_moved(cert: Certificate, truth: Truth, rng: Rng) -> Certificate | None:
    t = some(rng, (cert.radius_upper < cert.never) & (cert.radius_upper > 0))
    if t is None:
        return None
    attacks = [cert.node_attacks[k] for k in range(cert.n_test)]
    labels = attacks[t][0].copy()
    labels[0] = (labels[0] + 1) % cert.labels.size
    attacks[t] = labels, attacks[t][1]
    new = {int(i): cert.classes[c].item() for i, c in zip(*attacks[t], strict=True)}
    if truth.changed(new)[t] and len(new) == labels.size:
        return None
    return replace(cert, node_attacks=RelabellingList.pack(*map(list, zip(*attacks, strict=True))))


def label_changed(cert: Certificate, truth: Truth, rng: Rng) -> Certificate | None:
    i = int(rng.integers(cert.labels.size))
    labels = cert.labels.copy()
    labels[i] = cert.classes[(np.searchsorted(cert.classes, labels[i]) + 1) % cert.n_classes]
    return replace(cert, labels=labels)


def prediction_changed(cert: Certificate, truth: Truth, rng: Rng) -> Certificate | None:
    t = some(rng, cert.radius_lower > 0)
    if t is None:
        return None
    predictions = cert.predictions.copy()
    predictions[t] = cert.classes[(np.searchsorted(cert.classes, predictions[t]) + 1) % cert.n_classes]
    return replace(cert, predictions=predictions)


def score_changed(cert: Certificate, truth: Truth, rng: Rng) -> Certificate | None:
    scores = cert.decision_values.copy()
    scores.flat[int(rng.integers(scores.size))] += 1e3 * (1.0 + np.abs(scores).max())
    return replace(cert, decision_values=scores)


def count_changed(cert: Certificate, truth: Truth, rng: Rng) -> Certificate | None:
    k, t = int(rng.integers(len(cert.curve_attacks))), int(rng.integers(cert.n_test))
    if truth.predicted[t] is None:
        return None
    changed = cert.curve_changed.copy()
    changed[k, t] ^= True
    return replace(cert, curve_changed=changed)


def new_class_changed(cert: Certificate, truth: Truth, rng: Rng) -> Certificate | None:
    t = some(rng, (cert.new_classes >= 0) & (cert.radius_upper > 0))
    if t is None:
        return None
    news = truth.new_classes(cert.witness(t) or {}, t)
    wrong = [k for k in range(cert.n_classes) if k not in news]
    new = cert.new_classes.copy()
    new[t] = rng.choice([*wrong, -1])
    return replace(cert, new_classes=new)


def record_changed(cert: Certificate, truth: Truth, rng: Rng) -> Certificate | None:
    m = cert.labels.size
    threat = dict(cert.run.threat)
    what = rng.choice(["C", "hash", "loss", "trusted", "costs", "never"])
    if what == "C":
        return replace(cert, run=replace(cert.run, C=cert.run.C * 2))
    if what == "hash":
        return replace(cert, run=replace(cert.run, problem_sha256="0" * 64))
    if what == "loss":
        other = "square" if cert.run.loss == "hinge" else "hinge"
        return replace(cert, run=replace(cert.run, loss=other))
    if what == "never":
        return replace(cert, never=cert.never + 1)
    if what == "trusted":
        before = set(threat["trusted"] or [])
        threat["trusted"] = sorted(before ^ {int(rng.integers(m))})
    else:
        threat["costs"] = bumped(np.array(threat["costs"] or [1] * m), int(rng.integers(m)), 1).tolist()
    return replace(cert, run=replace(cert.run, threat=threat))


TAMPERS: list[Tamper] = [
    *(radius_up, lower_end_up, upper_end_down, upper_end_up, curve_down, curve_up, witness_swapped, witness_moved),
    *(label_changed, prediction_changed, score_changed, count_changed, new_class_changed, record_changed),
]


def rejected(case: Case, tampered: Callable[[], Certificate | None]) -> bool | None:
    """Whether a changed certificate is rejected; None where nothing could be changed."""
    try:
        cert = tampered()
        return None if cert is None else not verify(cert, case.K_train, case.labels, case.K_test).accepted
    except InvalidInput:
        return True


def sealed(tamper: Tamper, cert: Certificate, truth: Truth, rng: Rng) -> Certificate | None:
    changed = tamper(cert, truth, rng)
    return None if changed is None else replace(changed, checksum=changed.computed_checksum())


def test_the_proofs_give_it_away() -> None:
    tried = 0
    for k in range(PROBLEMS):
        case, truth, certs = problem(k)
        for n, tamper in enumerate(TAMPERS):
            rng = np.random.default_rng([k, n])
            engine, cert = list(certs.items())[int(rng.integers(len(certs)))]

            found = rejected(case, partial(sealed, tamper, cert, truth, rng))
            if tamper is record_changed and found is False:
                continue  # the same problem in other words: a label is trusted that could not change anyway
            assert found is not False, f"problem {k}: {tamper.__name__} of {engine} is accepted"
            tried += found is True
    assert tried >= 200


@pytest.mark.parametrize("k", range(5))
def test_the_checksum_gives_it_away(k: int) -> None:
    case, truth, certs = problem(k)
    for n, tamper in enumerate(TAMPERS):
        rng = np.random.default_rng([k, n, 1])
        found = rejected(case, partial(tamper, certs["auto"], truth, rng))
        assert found is not False, tamper.__name__


def test_weaker_statements_are_changes_too() -> None:
    case, _, certs = problem(0)
    cert = certs["enumerate"]
    t = int(cert.radius_lower.argmax())
    weaker = replace(cert, radius_lower=bumped(cert.radius_lower, t, -1))
    assert not verify(weaker, case.K_train, case.labels, case.K_test).accepted
