"""``labelcert regression``: how far a few wrong targets move predictions and coefficients."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click
import numpy as np

from labelcert.cli import inputs
from labelcert.cli.options import FILE, OptionGroup, grouped, option
from labelcert.cli.printing import print_json, print_table, say
from labelcert.errors import InvalidInput
from labelcert.files import write_archive
from labelcert.graphs.csv_and_parquet import numbers_from_file
from labelcert.report import tables

if TYPE_CHECKING:
    from labelcert.regression import RegressionCertificate

EXAMPLES = """\b
Examples:
  labelcert regression prices.csv --target price --change 50
      How far wrong prices, each off by at most 50, move the predictions of ridge regression, and its coefficients.
  labelcert regression prices.csv --target price --change 50 --test new.csv --threshold 900 --max-changes 20
      Predictions for other rows, and how many wrong prices take each of them to 900.
  labelcert regression prices.csv --target price --change 50 --out prices.cert --problem prices.npz
  labelcert verify prices.cert --problem prices.npz
      A certificate, and its check by other code."""

_OPTIONS = OptionGroup(
    "Regression",
    click.argument("train", type=FILE, metavar="TRAIN.csv"),
    option("--target", str, "The column with the numbers that are predicted; all others are features."),
    option("--change", float, "How far wrong targets are off, at most."),
    option("--test", FILE, "Rows to predict, with the same features. [default: the training rows]"),
    option("--threshold", float, "Also the fewest wrong targets that take each prediction to this number."),
    option("--max-changes", int, "Largest number of wrong targets. [default: all, but at most 1000]"),
    option("--alpha", float, "Of ridge regression; 0: least squares.", 1.0),
    option("--intercept/--no-intercept fit_intercept", bool, "An intercept, which is not regularised.", True),
    option("--standardize", bool, "Give all features mean 0 and variance 1 first."),
    option("--row-column", str, "The column that names rows, and is no feature."),
    option("--time-limit", float, "What is not reached by then stays open.", metavar="SECONDS"),
    option("--rows limit", int, "Show at most this many rows.", 20),
    option("--json as_json", bool, "Print one JSON object instead of tables."),
    option("--out", FILE, "Write the certificate into a file.", metavar="FILE.cert"),
    option("--problem", FILE, "Write what `labelcert verify` asks for into a file.", metavar="FILE.npz"),
)


@grouped("regression", EXAMPLES, _OPTIONS)
def regression_command(**given: Any) -> None:
    """How far a few wrong targets move each prediction and each coefficient of a ridge regression: exactly.

    TRAIN.csv is a table of numbers, one column of which is the target.
    """
    from sklearn.linear_model import LinearRegression, Ridge
    from sklearn.preprocessing import StandardScaler

    from labelcert.estimators import certify_regression

    if given["target"] is None or given["change"] is None:
        raise InvalidInput("say which column is the target, and how far it may be off: --target price --change 50")
    with inputs.noted(given):
        table = numbers_from_file(given["train"], names=given["row_column"])
        tested = table if given["test"] is None else numbers_from_file(given["test"], names=given["row_column"])
    features = [name for name in table.columns if name != given["target"]]
    _require(table, [given["target"], *features[:1]] if features else [given["target"], "a feature"], given["train"])
    _require(tested, features, given["test"])
    X, y, T = table[features], table[given["target"]].to_numpy(), tested[features]
    if given["standardize"]:
        scaler = StandardScaler().set_output(transform="pandas").fit(X)
        X, T = scaler.transform(X), scaler.transform(T)
    alpha, intercept = given["alpha"], given["fit_intercept"]
    model = Ridge(alpha, fit_intercept=intercept) if alpha else LinearRegression(fit_intercept=intercept)
    how = {name: given[name] for name in ("change", "max_changes", "threshold", "time_limit")}
    cert = certify_regression(model, X, y, T, **how)
    if given["out"] is not None:
        cert.save(given["out"])
    if given["problem"] is not None:
        plain = {"alpha": np.array(alpha), "intercept": np.array(intercept)}
        write_archive(given["problem"], {"X_train": X.to_numpy(), "X_test": T.to_numpy(), **plain})
    if given["as_json"]:
        found = {name: frame.reset_index() for name, frame in _frames(cert).items()}
        print_json({"unit": cert.unit, "max_changes": cert.max_changes, "stopped": cert.stopped}
                   | {name: _plain(frame) for name, frame in found.items()})  # fmt: skip
        return
    show_moves(cert, given["limit"])


def show_moves(cert: RegressionCertificate, limit: int) -> None:
    """Tables of the first values, and the summary."""
    for name, frame in _frames(cert).items():
        shown = frame.head(limit).drop(columns=["radius_lower", "radius_upper", "witness"], errors="ignore")
        rows = [
            [str(index), *(one if isinstance(one, str) else f"{one:.4g}" for one in row)]
            for index, row in zip(shown.index, shown.itertuples(index=False), strict=True)
        ]
        print_table(tables.listing(f"{name}: value, and how far wrong targets move it", [name, *shown.columns], rows))
    say(cert.summary())


def _require(table: Any, columns: list[str], where: object) -> None:
    missing = next((name for name in columns if name not in table.columns), None)
    if missing is not None:
        raise InvalidInput(f"expected the column {missing!r} in {where}, got {', '.join(table.columns)}")


def _frames(cert: RegressionCertificate) -> dict[str, Any]:
    """The tables to show."""
    return {"predictions": cert.to_frame(), "coefficients": cert.coefficient_frame()}


def _plain(frame: Any) -> list[dict[str, Any]]:
    """Rows as JSON has them: witnesses by the names of targets, and nothing that is no number."""
    rows: list[dict[str, Any]] = frame.astype(object).to_dict("records")
    for row in rows:
        for name, value in row.items():
            if isinstance(value, dict):
                row[name] = {str(i): new for i, new in value.items()}
            elif isinstance(value, float) and not np.isfinite(value):
                row[name] = None
    return rows
