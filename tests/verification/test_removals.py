"""Certificates whose adversary removes labels: honest ones are accepted, lies are not."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tests.verification.test_losses import larger_radius, problem

from labelcert import Threat, certify, verify
from labelcert.certificate import RelabellingList
from labelcert.verification import CheckStatus

THREATS = [
    Threat(removable=True, changes=False),
    Threat(removable=np.arange(8) > 2, costs=np.arange(8) % 2 + 1),
    Threat(
        removable=True, groups=["a", "b", None, "a", "b", "a", "b", None], group_budgets=1, trusted=np.arange(8) < 2
    ),
]


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge", "logistic", "square", "square_intercept", "cross_entropy"])
@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("threat", THREATS, ids=repr)
def test_every_loss_and_threat(loss: str, classes: int, threat: Threat) -> None:
    K, y, rows = problem(classes)
    cert = certify(K, y, rows, 1.0, loss=loss, threat=threat, max_flips=2)
    found = verify(cert, K, y, rows)
    assert found.complete, found
    lie = larger_radius(cert)
    assert lie is None or not verify(lie, K, y, rows).accepted


def test_margins() -> None:
    K, y, rows = problem(3)
    cert = certify(K, y, rows, 1.0, threat=THREATS[0], max_flips=2, margin=0.05)
    assert verify(cert, K, y, rows).complete


def test_a_witness_that_changes_a_label_instead() -> None:
    K, y, rows = problem(2)
    cert = certify(K, y, rows, 1.0, threat=THREATS[0], max_flips=3)
    attacks = cert.node_attacks
    lie = replace(cert, node_attacks=RelabellingList(attacks.starts, attacks.labels, attacks.targets * 0))
    assert not verify(replace(lie, checksum=lie.computed_checksum()), K, y, rows).accepted


def test_many_relabellings_are_looked_at_where_somebody_asks_for_a_share() -> None:
    K, y, rows = problem(2, 16)
    cert = certify(K, y, rows, 1.0, threat=THREATS[0])
    found = verify(cert, K, y, rows)
    status = {check.what: check.status for check in found.checks}
    assert found.accepted
    assert status["witnesses"] is CheckStatus.PROVED
    assert status["radii"] is CheckStatus.NOT_CHECKED
    some = verify(cert, K, y, rows, share=0.002)
    assert {check.what: check.status for check in some.checks}["radii"] is CheckStatus.SAMPLED
