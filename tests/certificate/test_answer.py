"""The three sentences that come first say what the certificate says."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

import labelcert
from labelcert.certificate.answer import answer, opening_budget, proved_nothing, worth
from labelcert.examples import several_clouds, two_clouds
from labelcert.rechecking.listing import listed_attacks


def certificate(**options: object) -> labelcert.Certificate:
    data = two_clouds()
    return labelcert.certify(data.K_train, data.labels, data.K_test, C=1.0, **options)


def numbers(sentence: str) -> list[int]:
    return [int(found.replace(",", "")) for found in re.findall(r"(?<![\d.])\d[\d,]*(?![\d.,]*\s*%)(?!\d)", sentence)]


def test_sentences_say_what_the_certificate_says() -> None:
    cert = certificate()
    for b in (2, 3, 4):
        said = answer(cert, b)
        assert numbers(said.safe)[:2] == [int((cert.radius_lower > b).sum()), 12]
        named = re.findall(r"label (\d+) \(", said.worst)
        assert set(named) <= set(map(str, cert.collective_witness(b)))
        assert f"{cert.collective_lower[b]} prediction" in said.worst
        part = [sum(i in (cert.witness(t) or {}) for t in range(12) if cert.radius_upper[t] <= b) for i in range(16)]
        best, on = re.match(r"Check label (\d+) first: .* on (\d+) prediction", said.next).groups()
        assert part[int(best)] == max(part) == int(on)
    assert answer(cert).flips == opening_budget(cert)
    with pytest.raises(labelcert.InvalidInput, match="flips must be at most 16"):
        answer(cert, 17)


@pytest.mark.parametrize("data", [two_clouds(), several_clouds(n_labels=9, n_test=6)], ids=["two", "several"])
def test_what_verifying_secures_is_what_a_certificate_would_say(data: object) -> None:
    given = (data.K_train, data.labels, data.K_test)
    cert = labelcert.certify(*given, C=1.0, max_flips=2)
    attacks = listed_attacks(cert)
    for b in (1, 2):
        alone, _ = worth(cert, attacks, b)
        for i in range(data.labels.size):
            threat = labelcert.Threat(trusted=np.arange(data.labels.size) == i)
            then = labelcert.certify(*given, C=1.0, max_flips=b, threat=threat)
            assert alone[i] == (then.radius_lower > b).sum() - (cert.radius_lower > b).sum()
        if alone.any():
            best = alone.argmax()
            assert f"makes {alone[best]} prediction" in answer(cert, b, attacks).next


def test_what_was_not_proved_is_said_and_what_to_try() -> None:
    cert = certificate(max_flips=4)
    n, never = cert.n_test, cert.never
    nothing = replace(
        cert,
        radius_lower=np.ones(n, dtype=np.int64),
        radius_upper=np.full(n, never),
        node_attacks=type(cert.node_attacks).pack([[]] * n, [[]] * n),
        collective_upper=np.array([0, n, n, n, n]),
        collective_lower=np.zeros(5, dtype=np.int64),
        run=replace(cert.run, time_limit=3.0, seconds=3.0, command="labelcert certify karate"),
    )
    assert proved_nothing(nothing)
    assert not proved_nothing(cert)
    said = answer(nothing, 1)
    assert said.safe == "Nothing was proved in 3.0 s."
    assert said.next == "Try `labelcert certify karate --time-limit 30 --max-flips 2`."


def test_annotators_are_named_instead_of_labels() -> None:
    K = np.eye(4) + 0.2
    threat = labelcert.Threat(annotators=["ann", "ann", "bob", "cy"], trusted_annotators=["cy"])
    said = answer(labelcert.certify(K, ["a", "a", "b", "b"], K[:2], 1.0, threat=threat), 1)
    assert said.safe == "0 of 2 predictions (0.0 %) are proved safe from up to 1 dishonest annotator."
    assert said.worst == "The worst attack is by ann, and changes 2 predictions."
    assert said.next == "Audit ann first: ann alone puts 2 predictions at risk, 2 of which nobody else does."


def test_whom_to_audit_where_it_takes_several() -> None:
    votes = labelcert.Votes([(i, who, int(i > 2)) for i in range(6) for who in "abc"])
    cert = labelcert.certify_linear(np.eye(4, 6) + 0.3, votes.labels, threat=labelcert.Threat(votes=votes))
    said = answer(cert, 2)
    assert (cert.radius_upper == 2).all()
    name, count = re.match(r"Audit (\w) first: \w takes part in .* on (\d) predictions\.", said.next).groups()
    assert int(count) == sum(name in cert.witness_votes(t) for t in range(4))


def test_what_rests_on_a_solver_says_so() -> None:
    data = two_clouds(n_labels=6, n_test=4)
    kernel = data.K_train, data.labels, data.K_test, 1.0
    trusting = labelcert.certify(*kernel, engine="milp-paper", max_flips=2, trust_solver=True)
    assert trusting.trusts_solver
    exact = labelcert.certify(*kernel, max_flips=2)
    for b in (1, 2):
        words = str(answer(trusting, b))
        assert "if the solver is right" in words
        assert "The worst attack" not in words
        assert "solver" not in str(answer(exact, b))
