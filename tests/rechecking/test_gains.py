"""recheck where scores are linear in the labels: secured counts are those of certificates with trusted labels."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse

import labelcert
from labelcert import InvalidInput, Threat, certify_linear, recheck
from labelcert.rechecking import advising

GROUPS = {"groups": ["a", "b", None] * 3, "group_budgets": {"a": 1, "b": 2}}


def problem(seed: int, m: int = 9, n: int = 7) -> tuple[Any, Any, dict[str, Any]]:
    """Rows, a third of them full of ties; labels of two classes or three; costs, groups, or neither."""
    rng = np.random.default_rng(seed)
    K = 2 + seed % 2
    H = rng.normal(size=(n, m)) if seed % 3 else rng.integers(0, 3, (n, m)) / 2.0
    labels = np.r_[np.arange(K), rng.integers(0, K, m - K)]
    threat = [{}, {}, {"costs": rng.integers(1, 3, m)}, GROUPS][seed // 2 % 4]
    return scipy.sparse.csr_array(H) if seed % 5 == 0 else H, labels, threat


def certified(H: Any, labels: Any, threat: dict[str, Any], trusted: list[int], flips: int) -> float:
    mask = np.isin(np.arange(labels.size), trusted)
    cert = certify_linear(H, labels, threat=Threat(trusted=mask, **threat), max_flips=flips, collective=False)
    return cert.certified_ratio(flips=flips)


@pytest.mark.parametrize("seed", range(24))
def test_secured_counts_are_those_of_certificates(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(advising, "LINEAR_LISTED_SECONDS", -1.0)
    H, labels, threat = problem(seed)
    advice = recheck(labels=labels, H=H, flips=2, confirm=3, threat=Threat(**threat))
    low, high = [advice.before, *advice.after], [advice.before, *advice.after_upper]
    for k in range(len(low)):
        truth = certified(H, labels, threat, advice.labels[:k], 2)
        assert low[k] == pytest.approx(truth)
        assert high[k] >= truth - 1e-12
    monkeypatch.undo()
    listed = recheck(labels=labels, H=H, flips=2, confirm=3, threat=Threat(**threat))
    assert low[-1] <= max([listed.before, *listed.after]) + 1e-12 <= advice.best_possible + 2e-12


def test_prices_are_any_positive_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    H, labels, _ = problem(4, m=30, n=20)
    prices = np.random.default_rng(0).uniform(0.1, 2.0, 30)
    for seconds in (2.0, -1.0):
        monkeypatch.setattr(advising, "LINEAR_LISTED_SECONDS", seconds)
        advice = recheck(labels=labels, H=H, flips=1, confirm=3.5, confirm_costs=prices)
        assert prices[advice.labels].sum() <= 3.5
        assert advice.after[-1] > advice.before
        reached = recheck(labels=labels, H=H, flips=1, until=advice.after[-1], confirm_costs=prices)
        assert reached.after[-1] >= advice.after[-1] - 1e-12


def test_many_labels_whose_gains_are_not_all_kept() -> None:
    rng = np.random.default_rng(1)
    H, labels = rng.random((40, 3000)) ** 400, rng.integers(0, 2, 3000)
    H[:, labels == 1] *= 1.02
    advice = recheck(labels=labels, H=H, flips=3, confirm=20)
    truth = certified(H, labels, {}, advice.labels, 3)
    assert advice.before < advice.after[-1] == pytest.approx(truth)


def test_the_certificate_of_a_map_with_its_rows() -> None:
    H, labels, _ = problem(1)
    cert = certify_linear(H, labels, max_flips=3)
    assert recheck(cert, H=H, flips=2, confirm=2).labels == recheck(labels=labels, H=H, flips=2, confirm=2).labels
    with pytest.raises(InvalidInput, match="give them again"):
        recheck(cert, flips=2, confirm=2)
    with pytest.raises(InvalidInput, match="not what the certificate is about"):
        recheck(cert, H=2 * H, flips=2, confirm=2)
    with pytest.raises(InvalidInput, match="more than once"):
        recheck(labels=labels, H=iter([H]), flips=2, confirm=2)
    with pytest.raises(InvalidInput, match="by its rows and its labels alone"):
        recheck(H, labels, H=H, flips=2, confirm=2)


@pytest.mark.parametrize("name", ["RidgeClassifier", "KNeighborsClassifier", "LabelPropagation"])
def test_estimators(name: str) -> None:
    from sklearn.linear_model import RidgeClassifier
    from sklearn.neighbors import KNeighborsClassifier
    from sklearn.semi_supervised import LabelPropagation

    made = {"RidgeClassifier": RidgeClassifier(), "KNeighborsClassifier": KNeighborsClassifier(5)}
    estimator = made.get(name, LabelPropagation(gamma=2))
    rng = np.random.default_rng(0)
    X, T = rng.normal(size=(40, 2)), rng.normal(size=(12, 2))
    y = X[:, 0] + 0.3 * rng.normal(size=40) > 0
    model = labelcert.from_sklearn(estimator)
    advice = model.recheck(X, y, T, flips=2, confirm=4)
    trusted = Threat(trusted=np.isin(np.arange(40), advice.labels))
    cert = model.certify(X, y, T, threat=trusted, max_flips=2, collective=False)
    assert advice.certificate.certified_ratio(flips=2) == cert.certified_ratio(flips=2)
    assert max([advice.before, *advice.after]) == pytest.approx(cert.certified_ratio(flips=2))
