"""A study's results as tidy tables: one row per place and budget, and means over seeds."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from labelcert.files import replacing, write_csv
from labelcert.jobs.store import Store
from labelcert.studies.expansion import StudyPlan
from labelcert.studies.schema import Kind

if TYPE_CHECKING:
    import pandas as pd

MISSING = "not computed"


def tidy(plan: StudyPlan, store: Store) -> pd.DataFrame:
    """One row per dataset, model, certificate, seed and budget, with bounds on a share between 0 and 1."""
    import pandas as pd

    return pd.DataFrame(list(_rows(plan, store)))


def means(frame: pd.DataFrame) -> pd.DataFrame:
    """Means over seeds in percent, the standard deviation of the lower bound, and the number of seeds.

    ``nodes`` counts the test nodes of all seeds, so one node is worth ``100 / nodes`` points.
    """
    import pandas as pd

    rows = []
    keys = ["dataset", "dataset_name", "model", "model_name", "certificate", "kind", "epsilon"]
    if frame["epsilon"].isna().all():
        keys[-1] = "flips"
    for values, group in frame.groupby(keys, sort=False, dropna=False):
        done = group[group["lower"].notna()]
        row = dict(zip(keys, values, strict=True))
        row.update(
            flips=int(group["flips"].iloc[0]),
            epsilon=group["epsilon"].iloc[0],
            mean_lower=100 * done["lower"].mean(),
            mean_upper=100 * done["upper"].mean(),
            std=100 * done["lower"].std(ddof=0),
            seeds=len(done),
            seeds_missing=len(group) - len(done),
            nodes=int(done["n_test"].sum()),
            reason="; ".join(dict.fromkeys(group["reason"][group["lower"].isna()])),
        )
        rows.append(row)
    return pd.DataFrame(rows)


def each_row(frame: pd.DataFrame) -> Iterator[Any]:
    """Rows with their columns as attributes."""
    return iter(frame.itertuples(index=False))


def write_frame(frame: pd.DataFrame, stem: Path) -> list[Path]:
    """Write CSV, and Parquet if pyarrow is installed."""
    stem.parent.mkdir(parents=True, exist_ok=True)
    written = [stem.with_suffix(".csv")]
    write_csv(frame, written[0])
    if has_parquet():
        written.append(stem.with_suffix(".parquet"))
        with replacing(written[-1]) as partial:
            frame.to_parquet(partial, index=False)
    return written


def has_parquet() -> bool:
    """Whether Parquet can be written (the extra ``labelcert[parquet]``)."""
    from importlib.util import find_spec

    return find_spec("pyarrow") is not None


def _rows(plan: StudyPlan, store: Store) -> Iterator[dict[str, Any]]:
    for place in plan.places:
        record = store.records.get(place.cell, {"status": MISSING, "reason": MISSING})
        what = {key: value for key, value in asdict(place).items() if key not in ("cell", "budgets")}
        for epsilon, flips in place.budgets:
            result, (lower, upper) = record.get("result", {}), (math.nan, math.nan)
            if result:
                lower, upper = bounds(result, place.kind, flips, (place.metric, place.positive))
            run = record.get("run", {"seconds": math.nan, "versions": {"labelcert": ""}})
            yield {
                "study": plan.study.name,
                "variant": plan.study.variant,
                **what,
                "kind": place.kind.value,
                "epsilon": math.nan if epsilon is None else epsilon,
                "flips": flips,
                "lower": lower,
                "upper": upper,
                "n_test": result.get("n_test", math.nan),
                "labels": result.get("labels", math.nan),
                "C": result.get("C", math.nan),
                "engine": result.get("engine", ""),
                "exact": (lower == upper if place.metric else result.get("exact", False))
                and flips <= result["max_flips"],
                "status": str(record["status"]),
                "reason": record.get("reason", ""),
                "seconds": run["seconds"],
                "labelcert": run["versions"].get("labelcert", ""),
                "cell": place.cell,
            }


def bounds(result: dict[str, Any], kind: Kind, flips: int, metric: tuple[str, str] = ("", "")) -> tuple[float, float]:
    """Certified ratio, accuracy or metric at one budget, as an interval; beyond the largest, the worse end is open."""
    n, at = result["n_test"], min(flips, result["max_flips"])
    if kind in (Kind.LOWEST, Kind.HIGHEST):
        worst = next(w for w in result["worst"] if (w["metric"], w["positive"]) == metric)
        lower, upper = worst["lower"][at], worst["upper"][at]
        if kind is Kind.HIGHEST:
            return lower, (upper if at == flips else 1.0)
    elif kind is Kind.COLLECTIVE:
        lower, upper = 1 - result["changed_upper"][at] / n, 1 - result["changed_lower"][at] / n
    else:
        what = "correct" if kind is Kind.ACCURACY else "survive"
        lower, upper = result[f"{what}_lower"][at] / n, result[f"{what}_upper"][at] / n
    return (lower if at == flips else 0.0), upper
