from __future__ import annotations

import numpy as np
from tests.helpers.problems import gaussian

from labelcert import Threat, certify, verify


def test_trusted_labels_are_never_in_a_witness() -> None:
    K, y, rows = gaussian(10, 30)
    trusted = np.arange(10) < 4
    cert = certify(K, y, rows, 2.0, threat=Threat(trusted=trusted))
    used = set().union(*(w for t in range(30) if (w := cert.witness(t)) is not None))
    assert used
    assert min(used) >= 4
    assert np.all(cert.radius_lower >= certify(K, y, rows, 2.0).radius_lower)


def test_one_direction_only() -> None:
    K, y, rows = gaussian(10, 30)
    names = np.array(["ham", "spam"])[y]
    cert = certify(K, names, rows, 2.0, threat=Threat(allowed_flips={"spam": ["ham"]}))
    for t in range(30):
        assert set((cert.witness(t) or {}).values()) <= {"ham"}
    assert np.all(cert.radius_lower >= certify(K, names, rows, 2.0).radius_lower)


def test_costs_may_be_any_positive_numbers() -> None:
    for seed in range(6):
        K, y, rows = gaussian(8, 5, seed=seed)
        whole = np.random.default_rng(seed).integers(1, 5, 8)
        parts = Threat(costs=whole / 4)
        ours, theirs = (certify(K, y, rows, 2.0, threat=threat) for threat in (parts, Threat(costs=whole)))
        if np.gcd.reduce(np.append(whole, 4)) == 1:
            assert np.array_equal(ours.radius_lower, theirs.radius_lower)
            assert np.array_equal(ours.collective_upper, theirs.collective_upper)
            assert "units of 0.25" in parts.in_words()[0]
        assert verify(ours).complete
        half = certify(K, y, rows, 2.0, threat=parts, max_fraction=0.5)
        assert half.max_flips == (ours.never - 1) // 2


def test_costs_scale_radii() -> None:
    K, y, rows = gaussian(9, 20)
    plain = certify(K, y, rows, 2.0)
    tripled = certify(K, y, rows, 2.0, threat=Threat(costs=[3] * 9))
    finite = plain.radius_lower < plain.never
    assert np.array_equal(tripled.radius_lower[finite], 3 * plain.radius_lower[finite])
    assert tripled.never == 28
    assert np.array_equal(tripled.collective_lower[::3], plain.collective_lower)


def test_group_budgets_bind() -> None:
    K, y, rows = gaussian(10, 30)
    groups = ["ann"] * 5 + ["bob"] * 5
    cert = certify(K, y, rows, 2.0, threat=Threat(groups=groups, group_budgets={"ann": 1}))
    assert any(cert.witness(t) for t in range(30))
    for b in range(11):
        assert sum(i < 5 for i in cert.collective_witness(b)) <= 1


def test_all_labels_trusted() -> None:
    K, y, rows = gaussian(6, 5)
    cert = certify(K, y, rows, 2.0, threat=Threat(trusted=np.ones(6, dtype=bool)))
    assert cert.exact
    assert np.all(cert.radius_lower == 7)
    assert cert.collective_upper.max() == 0


def test_zero_budget() -> None:
    K, y, rows = gaussian(6, 5)
    cert = certify(K, y, rows, 2.0, max_flips=0)
    assert cert.exact
    assert cert.collective_lower.tolist() == [0]
    assert np.all(cert.radius_lower == 1)
    assert np.all(cert.radius_upper == 7)


def test_count_sets() -> None:
    labels = np.arange(10) % 2
    classes = np.array([0, 1])
    assert Threat().resolve(labels, classes).count_sets(2) == 1 + 10 + 45
    grouped = Threat(groups=[0] * 5 + [None] * 5, group_budgets=1).resolve(labels, classes)
    assert grouped.count_sets(2) == 1 + 10 + (10 + 25)
    priced = Threat(costs=[2] * 10).resolve(labels, classes)
    assert priced.count_sets(5) == 56
