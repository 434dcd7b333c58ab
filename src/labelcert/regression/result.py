"""What wrong targets can do to a regression: the answer."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from labelcert.arrays import Float, Int, Text
from labelcert.certificate.display import interval
from labelcert.certificate.plain_archives import load_fields, save_fields
from labelcert.checking import whole_number
from labelcert.errors import InvalidInput

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

SCHEMA, SCHEMA_VERSION = "labelcert-regression", 1

FEW = 5
"""Rows that a summary shows."""


@dataclass(frozen=True, eq=False)
class RegressionCertificate:
    """How far wrong targets can move predictions and coefficients, and how many turn them.

    n predictions, d coefficients (0 where the model has none), m targets, budgets 0..B with B = ``max_changes``.

    Attributes
    ----------
    predictions : (n,) array
        With the given targets.
    shift_up, shift_down : (n, B + 1) arrays
        No b wrong targets move a prediction farther, index b. They are rounded outwards, by at most ``slack``.
    slack : (n,) array
    threshold : (n,) array
        NaN where none was given.
    radius_lower, radius_upper : (n,) arrays
        The fewest wrong targets that take a prediction to its threshold or past it lie between these; as in a
        :class:`~labelcert.Certificate`, nothing is claimed beyond ``max_changes``, and ``never`` means that no change
        is known.
    coefficients : (d,) array
        As in the estimator's ``coef_``, of the features as they reach it in a pipeline.
    coefficient_shift_up, coefficient_shift_down : (d, B + 1) arrays
    coefficient_slack : (d,) array
    coefficient_radius_lower, coefficient_radius_upper : (d,) arrays
        The same for coefficients, whose threshold is 0: how many wrong targets change their sign.
    targets, down, up : (m,) arrays
        The targets, and how far each may be too high and too low.
    move_starts, moved_targets, moved_to : arrays
        For predictions, then coefficients: which targets are wrong in the witness of ``radius_upper``, and what they
        become.
    names, target_names, features : arrays of str, or None
    max_changes, never : int
    unit : str
        What budgets count: changes, cost units, or annotators.
    model, threat : str
    stopped : bool
        Whether time was up: then some moves are not bounded (infinite).
    seconds : float

    Examples
    --------
    >>> import labelcert
    >>> from sklearn.linear_model import LinearRegression
    >>> X, y = [[0.0], [1.0], [2.0], [3.0]], [0.0, 1.0, 2.0, 3.0]
    >>> cert = labelcert.certify_regression(LinearRegression(), X, y, [[4.0]], change=1.0, threshold=2.0)
    >>> cert.predictions.round(6).tolist(), cert.shift[0].round(6).tolist()
    ([4.0], [0.0, 1.0, 1.5, 2.0, 2.0])
    """

    predictions: Float
    shift_up: Float
    shift_down: Float
    slack: Float
    threshold: Float
    radius_lower: Int
    radius_upper: Int
    coefficients: Float
    coefficient_shift_up: Float
    coefficient_shift_down: Float
    coefficient_slack: Float
    coefficient_radius_lower: Int
    coefficient_radius_upper: Int
    targets: Float
    down: Float
    up: Float
    move_starts: Int
    moved_targets: Int
    moved_to: Float
    names: Text | None
    target_names: Text | None
    features: Text | None
    max_changes: int
    never: int
    unit: str
    model: str
    threat: str
    stopped: bool
    seconds: float

    def __post_init__(self) -> None:
        n, d, m, moved = map(np.size, (self.predictions, self.coefficients, self.targets, self.moved_to))
        whole = type(self.max_changes) is type(self.never) is int and 0 <= self.max_changes < self.never
        budgets = self.max_changes + 1 if whole else 0
        sizes = (
            *(("f", n, "predictions slack threshold"), ("f", d, "coefficients coefficient_slack")),
            *(("f", m, "targets down up"), ("f", moved, "moved_to"), ("i", moved, "moved_targets")),
            *(("i", n, "radius_lower radius_upper"), ("i", d, "coefficient_radius_lower coefficient_radius_upper")),
            *(("i", n + d + 1, "move_starts"), ("U", n, "names"), ("U", d, "features"), ("U", m, "target_names")),
        )
        arrays: list[tuple[str, str, tuple[int, ...]]] = [
            (name, kind, (size,)) for kind, size, names in sizes for name in names.split()
        ]
        arrays += [(f"shift_{side}", "f", (n, budgets)) for side in ("up", "down")]
        arrays += [(f"coefficient_shift_{side}", "f", (d, budgets)) for side in ("up", "down")]
        if not (
            whole
            and all(isinstance(getattr(self, name), str) for name in ("unit", "model", "threat"))
            and isinstance(self.stopped, bool)
            and isinstance(self.seconds, int | float)
            and all(self._fits(*array) for array in arrays)
            and self.move_starts[0] == 0
            and self.move_starts[-1] == self.moved_targets.size
            and np.all(np.diff(self.move_starts) >= 0)
            and np.all((self.moved_targets >= 0) & (self.moved_targets < m))
            and np.all(self.radius_lower <= self.radius_upper)
            and np.all(self.coefficient_radius_lower <= self.coefficient_radius_upper)
        ):
            raise InvalidInput("the fields of a regression certificate contradict each other")

    def _fits(self, name: str, kind: str, shape: tuple[int, ...]) -> bool:
        """Whether a field is an array of a kind and a shape; names may be missing."""
        array = getattr(self, name)
        if array is None:
            return kind == "U"
        return isinstance(array, np.ndarray) and array.dtype.kind == kind and array.shape == shape

    @property
    def n_test(self) -> int:
        """Number of predictions."""
        return int(self.predictions.size)

    @property
    def shift(self) -> Float:
        """(n, B + 1) the farthest that b wrong targets can move each prediction, up or down."""
        return np.maximum(self.shift_up, self.shift_down)

    @property
    def coefficient_shift(self) -> Float:
        """(d, B + 1) the same for each coefficient."""
        return np.maximum(self.coefficient_shift_up, self.coefficient_shift_down)

    def interval(self, changes: int) -> tuple[Float, Float]:
        """(n,) between which predictions stay, whatever so many targets become.

        Examples
        --------
        >>> import labelcert
        >>> cert = labelcert.certify_regression(H=[[0.5, 0.5]], y=[1.0, 3.0], change=1.0)
        >>> [end.round(6).tolist() for end in cert.interval(1)]
        [[1.5], [2.5]]
        """
        b = whole_number("changes", changes, 0, self.max_changes)
        return self.predictions - self.shift_down[:, b], self.predictions + self.shift_up[:, b]

    def witness(self, t: int) -> dict[Any, float] | None:
        """The wrong targets that take prediction ``t`` to its threshold: ``{index: new target}``; None if not known."""
        return self._move(int(t), self.n_test, self.radius_upper)

    def coefficient_witness(self, j: int | str) -> dict[Any, float] | None:
        """The wrong targets that change the sign of a coefficient, by its index or the name of its feature."""
        if isinstance(j, str):
            found = [] if self.features is None else np.flatnonzero(self.features == j).tolist()
            if len(found) != 1:
                raise InvalidInput(f"no feature is called {j!r}; give an index")
            j = found[0]
        return self._move(int(j), self.coefficients.size, self.coefficient_radius_upper, self.n_test)

    def _move(self, k: int, count: int, upper: Int, offset: int = 0) -> dict[Any, float] | None:
        if not 0 <= whole_number("an index", k, None) < count:
            raise InvalidInput(f"there is no value {k}: they are 0 to {count - 1}")
        if upper[k] >= self.never:
            return None
        part = slice(self.move_starts[offset + k], self.move_starts[offset + k + 1])
        return dict(zip(self.moved_targets[part].tolist(), self.moved_to[part].tolist(), strict=True))

    def to_frame(self) -> pd.DataFrame:
        """One row per prediction: value, threshold, radius, its ends, and how far the largest budget moves it."""
        import pandas as pd

        index = pd.RangeIndex(self.n_test, name="row") if self.names is None else pd.Index(self.names, name="row")
        given = (
            {}
            if np.isnan(self.threshold).all()
            else {
                "threshold": self.threshold,
                "radius": self._words(self.radius_lower, self.radius_upper),
                "radius_lower": self.radius_lower,
                "radius_upper": self.radius_upper,
                "witness": [self.witness(t) for t in range(self.n_test)],
            }
        )
        moved = {f"shift_{b}": self.shift[:, b] for b in sorted({min(1, self.max_changes), self.max_changes})}
        return pd.DataFrame({"prediction": self.predictions, **moved, **given}, index=index)

    def coefficient_frame(self) -> pd.DataFrame:
        """One row per coefficient: value, radius of its sign, and how far it moves.

        Examples
        --------
        >>> import labelcert
        >>> from sklearn.linear_model import Ridge
        >>> X, y = [[0.0, 1.0], [1.0, 1.0], [2.0, 0.0], [3.0, 0.0]], [0.0, 1.0, 2.0, 3.0]
        >>> cert = labelcert.certify_regression(Ridge(), X, y, X, change=1.0)
        >>> cert.coefficient_frame()["radius"].tolist()
        ['never', '1 to 2']
        """
        import pandas as pd

        d = self.coefficients.size
        index = pd.RangeIndex(d, name="feature") if self.features is None else pd.Index(self.features, name="feature")
        moved = {
            f"shift_{b}": self.coefficient_shift[:, b] for b in sorted({min(1, self.max_changes), self.max_changes})
        }
        radius = self._words(self.coefficient_radius_lower, self.coefficient_radius_upper)
        witness = [self.coefficient_witness(j) for j in range(d)]
        return pd.DataFrame(
            {"coefficient": self.coefficients, "radius": radius, **moved, "witness": witness}, index=index
        )

    def _words(self, lower: Int, upper: Int) -> list[str]:
        return [interval(low, high, self.never) for low, high in zip(lower.tolist(), upper.tolist(), strict=True)]

    def summary(self) -> str:
        """A few lines: how far predictions move, and which coefficients change their sign first."""
        lines = [f"{self.n_test} predictions, {self.targets.size} targets, up to {self.max_changes} {self.unit}"]
        for b in sorted({0, 1, 2, 5, 10, self.max_changes}):
            if 0 < b <= self.max_changes and self.n_test:
                most, median = self.shift[:, b].max(), np.median(self.shift[:, b])
                lines.append(f"{self._amount(b)}: predictions move by at most {most:.4g} ({median:.4g} in the median)")
        if not np.isnan(self.threshold).all():
            reach = int(np.sum(self.radius_lower > self.max_changes))
            who = "1 prediction does not reach its" if reach == 1 else f"{reach} predictions do not reach their"
            lines.append(f"{who} threshold within {self._amount(self.max_changes)}")
        words = self._words(self.coefficient_radius_lower, self.coefficient_radius_upper)
        for j in np.argsort(self.coefficient_radius_lower, kind="stable")[:FEW].tolist():
            name = str(j) if self.features is None else str(self.features[j])
            changes = "never changes its sign" if words[j] == "never" else f"changes its sign with {words[j]}"
            lines.append(f"coefficient {name} ({self.coefficients[j]:.4g}) {changes}")
        return "\n".join(lines)

    def _amount(self, budget: int) -> str:
        return f"{budget} {self.unit.removesuffix('s') if budget == 1 else self.unit}"

    def __repr__(self) -> str:
        return (
            f"RegressionCertificate({self.n_test} predictions, {self.coefficients.size} coefficients, "
            f"{self.targets.size} targets, budgets 0..{self.max_changes} {self.unit})"
        )

    def plot(self, ax: Axes | None = None, **style: Any) -> Axes:
        """Draw how far predictions can move over the budget: the median, and the band of all; returns the axes."""
        if ax is None:
            import matplotlib.pyplot as plt

            ax = plt.gca()
        budgets, far = np.arange(self.max_changes + 1), self.shift
        (line,) = ax.plot(budgets, np.median(far, axis=0), **style)
        ax.fill_between(budgets, far.min(axis=0), far.max(axis=0), color=line.get_color(), alpha=0.2, linewidth=0)
        ax.set_xlabel(f"{self.unit} (of {self.never - 1})")
        ax.set_ylabel("farthest move of a prediction")
        return ax

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write to a file: a zip archive of ``.npy`` arrays and ``metadata.json``; :meth:`load` reads it."""
        save_fields(self, path, SCHEMA, SCHEMA_VERSION)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> RegressionCertificate:
        """Read what :meth:`save` wrote.

        Examples
        --------
        >>> import tempfile
        >>> import labelcert
        >>> cert = labelcert.certify_regression(H=[[0.5, 0.5]], y=[1.0, 3.0], change=1.0)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     cert.save(f"{folder}/prices.cert")
        ...     labelcert.RegressionCertificate.load(f"{folder}/prices.cert")
        RegressionCertificate(1 predictions, 0 coefficients, 2 targets, budgets 0..2 changes)
        """
        return load_fields(cls, path, SCHEMA, SCHEMA_VERSION, "labelcert.certify_regression")
