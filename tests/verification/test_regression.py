"""Certificates of regressions are solved again in whole numbers: honest ones are accepted, and lies are not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression, Ridge

from labelcert import InvalidInput, RegressionCertificate, Threat, certify_regression, verify_regression
from labelcert.verification.verdict import CheckStatus


def problem(seed: int) -> dict[str, Any]:
    """Rounded numbers, so that thresholds are met exactly now and then."""
    rng = np.random.default_rng(seed)
    m, d = int(rng.integers(5, 12)), int(rng.integers(1, 4))
    X, T = np.round(rng.normal(size=(m, d)), 1), np.round(rng.normal(size=(4, d)), 1)
    y = np.round(2 * X[:, 0] + rng.normal(size=m))
    change: Any = 1.0 if seed % 3 else (rng.integers(0, 3, m).astype(float), rng.integers(0, 2, m).astype(float))
    return {"X": X, "y": y, "T": T, "change": change, "alpha": float(seed % 2), "intercept": seed % 4 < 2}


def certified(given: dict[str, Any], **options: Any) -> RegressionCertificate:
    kind = Ridge(given["alpha"]) if given["alpha"] else LinearRegression()
    model = kind.set_params(fit_intercept=given["intercept"])
    return certify_regression(
        model, given["X"], given["y"], given["T"], change=given["change"], threshold=1.0, **options
    )


def verified(cert: RegressionCertificate, given: dict[str, Any], **options: Any) -> Any:
    how = {name: given[name] for name in ("alpha", "intercept")}
    return verify_regression(cert, given["X"], given["T"], **{**how, **options})


@pytest.mark.parametrize("seed", range(24))
def test_honest_ones_are_proved(seed: int) -> None:
    given = problem(seed)
    found = verified(certified(given), given)
    assert found.complete, found
    H = np.random.default_rng(seed).integers(-3, 4, (5, given["y"].size)) / 4
    mapped = certify_regression(H=H, y=given["y"], change=given["change"], threshold=np.arange(5) - 2.0)
    found = verify_regression(mapped, H=H)
    assert found.complete, found
    later = np.minimum(mapped.radius_lower + 1, mapped.max_changes + 1)
    lie = replace(mapped, radius_lower=later, radius_upper=np.full(5, mapped.never))
    assert verify_regression(lie, H=H).accepted == np.array_equal(later, mapped.radius_lower)


def lies(cert: RegressionCertificate) -> dict[str, RegressionCertificate]:
    """Every number that is claimed, changed to something else that is no contradiction in itself."""
    changed: dict[str, Any] = {}
    for name in ("predictions", "coefficients"):
        changed[name] = getattr(cert, name) + 0.01
    for name in ("shift_up", "shift_down", "coefficient_shift_up", "coefficient_shift_down"):
        changed[name] = 0.9 * getattr(cert, name)
    changed["slack"] = cert.slack - 0.1
    changed["shift_up, far too large"] = cert.shift_up + 0.1
    changed["radius_lower"] = np.where(cert.radius_upper < cert.never, cert.radius_upper + 1, cert.max_changes + 1)
    changed["targets"] = cert.targets + np.eye(cert.targets.size)[0]
    changed["up"], changed["down"] = cert.up + 1.0, cert.down + 1.0
    changed["moved_to"] = cert.moved_to + np.sign(cert.moved_to - cert.targets[cert.moved_targets])
    changed["moved_to, less"] = cert.targets[cert.moved_targets].copy()
    changed["radius_upper"] = np.where(cert.radius_upper < cert.never, 1, cert.radius_upper)
    out = {}
    for name, value in changed.items():
        field = name.split(",")[0]
        own = {field: value}
        if field == "radius_lower":
            own["radius_upper"] = np.full(cert.n_test, cert.never)
        if field == "radius_upper":
            own["radius_lower"] = np.minimum(cert.radius_lower, value)
        out[name] = replace(cert, **own)
    return out


def test_lies_are_rejected() -> None:
    given = problem(1)
    cert = certified(given)
    assert (cert.radius_upper[cert.radius_upper < cert.never] > 1).any()
    for name, lie in lies(cert).items():
        assert not verified(lie, given).accepted, name
    for name in ("predictions", "targets", "up", "slack", "threshold", "moved_to"):
        assert not verified(replace(cert, **{name: getattr(cert, name) + np.inf}), given).accepted or name == "slack"
    for name, other in {"alpha": 2.0, "intercept": not given["intercept"]}.items():
        assert not verified(cert, given, **{name: other}).accepted


def test_what_is_not_checked_is_said() -> None:
    given = problem(1)
    found = verified(certified(given, threat=Threat(trusted=np.arange(given["y"].size) < 2)), given)
    assert found.accepted
    assert {check.what for check in found.checks if check.status is CheckStatus.NOT_CHECKED} == {
        f"{what}: {name}" for what in ("predictions", "coefficients") for name in ("moves", "radii")
    }
    assert not verified(certified(given), given, time_limit=1e-9).complete
    twice = {**given, "X": np.repeat(given["X"][:, :1], 2, axis=1), "T": np.repeat(given["T"][:, :1], 2, axis=1)}
    assert not verified(certified({**twice, "alpha": 1.0}), {**twice, "alpha": 0.0}).complete
    for options in ({"alpha": -1.0}, {"H": np.ones((4, given["y"].size))}):
        with pytest.raises(InvalidInput):
            verified(certified(given), given, **options)
    with pytest.raises(InvalidInput, match="X_train must have"):
        verify_regression(certified(given), given["X"][1:], given["T"])
