"""``verify_regression``: check what wrong targets can do to a regression, in whole numbers.

Ridge and linear regression are solved again, exactly: with centred features A in whole numbers, coefficients are
``(AᵀA + αI)⁻¹Aᵀ`` times the targets. What a target can add to a value is then a fraction, and so are their sums.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from labelcert.errors import InvalidInput
from labelcert.verification.arithmetic import Elimination, Whole, whole
from labelcert.verification.pacing import OutOfTime, Pace
from labelcert.verification.verdict import CheckStatus, Verification

if TYPE_CHECKING:
    from labelcert.regression import RegressionCertificate

CENTRED = Fraction(1, 10**9)
"""What comparisons leave to an estimator that centres its features in float64, as a share of what targets could give;
nothing where the map is given."""

CLOSE = 1e-8
"""How far a value that is shown may be off, as a share of what the targets could give."""

STATED = "names, model, wording of the threat, unit, time"


class Exactly(NamedTuple):
    """Values ``(rows @ targets) / scale``, in whole numbers."""

    rows: Whole  # (n, m)
    scale: int
    doubt: Fraction  # of all comparisons, as a share of what the targets could give


def verify_regression(
    cert: RegressionCertificate,
    X_train: npt.ArrayLike | None = None,
    X_test: npt.ArrayLike | None = None,
    *,
    alpha: float = 0.0,
    intercept: bool = True,
    H: npt.ArrayLike | None = None,
    time_limit: float | None = None,
    report: Callable[[str], None] = lambda text: None,
) -> Verification:
    """Check a certificate of :func:`labelcert.certify_regression` without the code that made it.

    The model is solved again in exact arithmetic, no move is larger than what is claimed, no fewer wrong targets reach
    a threshold, and every witness reaches it: to nine digits, since estimators centre their features in float64, and
    exactly where H is given. The targets and how far they may be off are those that the certificate names. Where not
    just any targets may be wrong, values and witnesses alone are checked.

    Parameters
    ----------
    cert : RegressionCertificate
    X_train, X_test : (m, d) and (n, d) arrays
        As ridge or linear regression sees them: after the transformers of a pipeline.
    alpha : float
        Of ridge regression; 0 is linear regression.
    intercept : bool
        Whether there is one, which is not regularised.
    H : (n, m) array
        Instead of them, for a certificate of a given map.
    time_limit : float, optional
        Seconds; what is left then is not checked.
    report : callable
        Told each second what is going on.

    Returns
    -------
    Verification

    Examples
    --------
    >>> import labelcert
    >>> from sklearn.linear_model import Ridge
    >>> X, y = [[0.0], [1.0], [2.0], [3.0]], [0.0, 1.0, 2.0, 3.0]
    >>> cert = labelcert.certify_regression(Ridge(alpha=1.0), X, y, [[4.0]], change=1.0, threshold=2.0)
    >>> labelcert.verify_regression(cert, X, [[4.0]], alpha=1.0).summary
    'accepted: everything that the certificate claims is proved'
    >>> labelcert.verify_regression(cert, X, [[4.0]], alpha=2.0).accepted
    False
    """
    if (H is None) == (X_train is None or X_test is None):
        raise InvalidInput("give both of X_train and X_test, or H")
    if not (np.isfinite(alpha) and alpha >= 0):
        raise InvalidInput(f"alpha must be a number of at least 0, got {alpha!r}")
    out, pace = Verification(stated=STATED.split(", ")), Pace(report, time_limit)
    if strange := _not_numbers(cert):
        out.add("record", CheckStatus.WRONG, f"{strange} must hold numbers")
        return out
    try:
        pace.begin("the model")
        values = _given(cert, H) if H is not None else _solved(cert, X_train, X_test, alpha, intercept, pace)
        if isinstance(values, str):
            out.add("model", CheckStatus.NOT_CHECKED, values)
        else:
            _checked(cert, values, out, pace)
    except OutOfTime:
        out.add("the rest", CheckStatus.NOT_CHECKED, "it was not reached within the time limit")
    out.add("record", CheckStatus.STATED, f"not checked: {STATED}")
    return out


def _not_numbers(cert: RegressionCertificate) -> str:
    """The first of the fields that are not what they are in any certificate."""
    finite = ("predictions", "coefficients", "targets", "up", "down", "moved_to")
    some = ("slack", "coefficient_slack")
    wrong = [name for name in finite if not np.isfinite(getattr(cert, name)).all()]
    wrong += [name for name in some if np.isnan(getattr(cert, name)).any()]
    return (wrong + ["threshold"] * bool(np.isinf(cert.threshold).any()) + [""])[0]


def _table(name: str, given: npt.ArrayLike | None, rows: int, columns: int | None) -> npt.NDArray[np.float64]:
    table = np.asarray(given, dtype=np.float64)
    if table.ndim != 2 or table.shape[0] != rows or columns not in (None, table.shape[1]):
        raise InvalidInput(f"{name} must have {rows} rows{f' of {columns} numbers' if columns else ''}: {table.shape}")
    if not np.isfinite(table).all():
        raise InvalidInput(f"{name} must not hold missing or infinite values")
    return table


def _given(cert: RegressionCertificate, H: npt.ArrayLike) -> list[Exactly]:
    if cert.coefficients.size:
        raise InvalidInput("the certificate has coefficients, about which H says nothing; give X_train and X_test")
    rows, by = whole(_table("H", H, cert.n_test, cert.targets.size))
    return [Exactly(rows, 1 << by, Fraction(0)), Exactly(rows[:0], 1, Fraction(0))]


def _solved(
    cert: RegressionCertificate,
    X_train: npt.ArrayLike | None,
    X_test: npt.ArrayLike | None,
    alpha: float,
    intercept: bool,
    pace: Pace,
) -> list[Exactly] | str:
    """Predictions and coefficients of ridge regression; why not, where it is not unique.

    With u the unit of the centred features, ``V = u·(AᵀA + αI)⁻¹Aᵀ`` solves a system of whole numbers; coefficients are
    ``V/u``, and a prediction for the centred row b is ``bV``, plus the mean.
    """
    m, d = cert.targets.size, cert.coefficients.size
    train, test = _table("X_train", X_train, m, d), _table("X_test", X_test, cert.n_test, d)
    numbers, by = whole(np.concatenate([train, test]))
    factor = m if intercept else 1
    centred = factor * numbers - (numbers[:m].sum(axis=0) if intercept else 0)
    A, B = centred[:m], centred[m:]
    ridge, by_alpha = whole(alpha)
    eye = np.zeros((d, d), dtype=object)
    np.fill_diagonal(eye, int(ridge) * factor * factor << 2 * by)
    found = Elimination((A.T @ A << by_alpha) + eye, A.T << by_alpha, pace)
    if not np.all((found.solution != 0).any(axis=1)):
        return "features depend on each other, so that coefficients are not unique"
    V, scale = found.solution, found.scale
    rows = B @ V * factor + (scale if intercept else 0)
    return [Exactly(rows, scale * factor, CENTRED), Exactly(V * factor << by, scale, CENTRED)]


def _checked(cert: RegressionCertificate, values: list[Exactly], out: Verification, pace: Pace) -> None:
    """Predictions, whose thresholds are given, and coefficients, whose threshold is 0."""
    n = cert.n_test
    for what, exactly, offset in (("prediction", values[0], 0), ("coefficient", values[1], n)):
        count = len(exactly.rows)
        head = "" if what == "prediction" else "coefficient_"
        shown = cert.predictions if not head else cert.coefficients
        up, down, slack, lower, upper = (
            getattr(cert, head + name) for name in ("shift_up", "shift_down", "slack", "radius_lower", "radius_upper")
        )
        aims = cert.threshold if not head else np.zeros(count)
        wrong: dict[str, str] = {}
        for k in range(count):
            pace(f"{what} {k + 1} of {count}")
            one = _Value(cert, exactly, k)
            if not one.is_close(float(shown[k])):
                wrong.setdefault("values", f"{what} {k} is another one")
            if one.any_targets and not (one.bounded(1, up[k], slack[k]) and one.bounded(-1, down[k], slack[k])):
                wrong.setdefault("moves", f"{what} {k} moves farther than it is said to, or by far not so far")
            aim = float(aims[k])
            move = slice(int(cert.move_starts[offset + k]), int(cert.move_starts[offset + k + 1]))
            if np.isnan(aim):
                if lower[k] > 0 or upper[k] < cert.never:
                    wrong.setdefault("radii", f"{what} {k} has a radius, but no threshold")
                continue
            if one.any_targets and lower[k] > min(one.radius(aim), cert.max_changes + 1):
                wrong.setdefault("radii", f"{what} {k} reaches its threshold with fewer wrong targets")
            if upper[k] < cert.never and not one.reached(aim, int(upper[k]), move):
                wrong.setdefault("witnesses", f"the wrong targets of {what} {k} do not take it to its threshold")
        if count:
            _said(cert, f"{what}s", count, wrong, out)


def _said(cert: RegressionCertificate, what: str, count: int, wrong: dict[str, str], out: Verification) -> None:
    how = {
        "values": f"{count}, solved again exactly",
        "moves": f"{count} at {cert.max_changes + 1} budgets, by sorting whole numbers",
        "radii": f"{count} lower ends, by sorting whole numbers",
        "witnesses": "wrong targets reach thresholds",
    }
    for name, text in how.items():
        if name not in wrong and cert.threat and name in ("moves", "radii"):
            out.add(f"{what}: {name}", CheckStatus.NOT_CHECKED, "only where any targets may be wrong")
        else:
            out.require(f"{what}: {name}", name not in wrong, text, wrong.get(name, ""))


class _Value:
    """One prediction or coefficient, and what each target can do to it."""

    def __init__(self, cert: RegressionCertificate, exactly: Exactly, k: int) -> None:
        self._cert, self._row, self._scale = cert, exactly.rows[k].tolist(), exactly.scale
        self.any_targets = not cert.threat
        numbers, by = whole(np.stack([cert.targets, cert.up, cert.down]))
        self._y, self._up, self._down = numbers.tolist()
        self._unit = Fraction(1, exactly.scale << by)
        self.value = sum(h * y for h, y in zip(self._row, self._y, strict=True)) * self._unit
        self._size = sum(abs(h * y) for h, y in zip(self._row, self._y, strict=True)) * self._unit
        limits = list(zip(self._row, self._up, self._down, strict=True))
        self._best = {1: self._sums([max(h * u, -h * d) for h, u, d in limits])}
        self._best[-1] = self._sums([max(h * d, -h * u) for h, u, d in limits])
        self._doubt = exactly.doubt * (self._size + max(self._best[1][-1], self._best[-1][-1]))

    def _sums(self, gains: list[int]) -> list[Fraction]:
        """By how much so many targets move the value at most."""
        sums = [0]
        for gain in sorted(gains, reverse=True)[: self._cert.max_changes]:
            sums.append(sums[-1] + gain)
        return [one * self._unit for one in sums] + [sums[-1] * self._unit] * (self._cert.max_changes + 1 - len(sums))

    def is_close(self, shown: float) -> bool:
        """Whether a value that is shown is this one."""
        return bool(np.isfinite(shown) and abs(Fraction(shown) - self.value) <= Fraction(CLOSE) * self._size)

    def bounded(self, side: int, claimed: npt.NDArray[np.float64], slack: float) -> bool:
        """Whether no move is larger than what is claimed, which is not much larger than the largest; infinite: open."""
        for best, one in zip(self._best[side], claimed.tolist(), strict=True):
            if np.isfinite(one):
                room = Fraction(slack) + Fraction(CLOSE) * (best + self._size) if np.isfinite(slack) else None
                if Fraction(one) < best - self._doubt or (room is not None and Fraction(one) > best + room):
                    return False
            elif not one > 0:
                return False
        return True

    def radius(self, aim: float) -> int:
        """The fewest wrong targets that reach a threshold; one more than the largest budget where none do."""
        distance = Fraction(aim) - self.value
        best = self._best[1 if distance > 0 else -1]
        return next((b for b, one in enumerate(best) if one >= abs(distance) + self._doubt), len(best))

    def reached(self, aim: float, radius: int, move: slice) -> bool:
        """Whether the witness takes the value there: with targets as far off as they may be, but for rounding."""
        cert = self._cert
        targets, become = cert.moved_targets[move].tolist(), cert.moved_to[move].tolist()
        if len(set(targets)) < len(targets) or (self.any_targets and len(targets) > radius):
            return False
        there = self.value
        for i, new in zip(targets, become, strict=True):
            y, limits = float(cert.targets[i]), (Fraction(float(cert.up[i])), -Fraction(float(cert.down[i])))
            by, rounding = Fraction(new) - Fraction(y), Fraction(float(np.spacing(abs(new))))
            by = next((limit for limit in limits if abs(by - limit) <= rounding), by)
            if not limits[1] <= by <= limits[0]:
                return False
            there += by * self._row[i] / self._scale
        sign = 1 if Fraction(aim) > self.value else -1
        return bool(sign * (there - Fraction(aim)) >= -self._doubt)
