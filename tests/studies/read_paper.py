"""The numbers that the paper prints, read from its LaTeX source.

``python tests/studies/read_paper.py paper.tex src/labelcert/studies/published`` writes the package's data files. If
the paper's source is available, a test reads it again and compares.
"""

from __future__ import annotations

import csv
import re
import sys
from collections.abc import Iterator
from pathlib import Path

CERTIFIED = ("table", "dataset", "model", "certificate", "epsilon", "printed", "mean", "std", "rounding")
RANKS = ("table", "dataset", "model", "epsilons", "rank")
DIFFERENCES = ("where", "dataset", "model", "from_epsilon", "to_epsilon", "drop")
STATISTICS = ("dataset", "nodes", "edges", "edges_std", "classes")
THRESHOLDS = ("where", "dataset", "model", "above", "at_most")

COLLECTIVE_TABLES = {
    "app_tab:coramlb_rel": "cora-ml-b",
    "app_tab:citeseerb_rel": "citeseer-b",
    "app_tab:wikicsb_rel": "wiki-cs-b",
    "app_tab:polblogs_rel": "polblogs",
    "app_tab:corab_rel": "cora-b",
    "app_tab:chameleonb_rel": "chameleon-b",
    "app_tab:csbm_rel": "csbm",
}
TITLES = {
    "Cora-ML": "cora-ml",
    "Cora-MLb": "cora-ml-b",
    "Citeseer": "citeseer",
    "Citeseerb": "citeseer-b",
    "Wiki-CSb": "wiki-cs-b",
    "Polblogs": "polblogs",
    "Corab": "cora-b",
    "Chameleonb": "chameleon-b",
    "CSBM": "csbm",
    "CBA": "cba",
}
MODELS = {
    "GCN": "gcn",
    "SGC": "sgc",
    "APPNP": "appnp",
    "GIN": "gin",
    "GraphSAGE": "graphsage",
    "GCN Skip-α": "gcn-skip-alpha",
    "GCN Skip-PC": "gcn-skip-pc",
    "GCN SkipPC": "gcn-skip-pc",
    "MLP": "mlp",
}
ROUNDING = 0.05
"""Half a unit of the last printed digit."""

Row = tuple[object, ...]


def read_paper(source: str) -> dict[str, list[Row]]:
    """All tables, by the name of their data file."""
    return {
        "certified.csv": [*_collective(source), *_table_one(source), *_tightness(source), *_certified_in_text(source)],
        "ranks.csv": list(_ranks(source)),
        "differences.csv": list(_differences(source)),
        "statistics.csv": list(_statistics(source)),
        "thresholds.csv": list(_thresholds(source)),
    }


HEADINGS = {
    "certified.csv": CERTIFIED,
    "ranks.csv": RANKS,
    "differences.csv": DIFFERENCES,
    "statistics.csv": STATISTICS,
    "thresholds.csv": THRESHOLDS,
}


def _collective(source: str) -> Iterator[Row]:
    for label, dataset in COLLECTIVE_TABLES.items():
        rows = _rows(_table(source, label))
        epsilons = [float(cell) for cell in rows[0][1:]]
        gcn: list[float] = []
        for name, *cells in rows[1:]:
            if MODELS[name] == "gcn":
                if gcn:
                    continue  # one table prints the row twice
                gcn = [_mean_std(cell)[0] for cell in cells]
            for epsilon, base, cell in zip(epsilons, gcn, cells, strict=True):
                yield _certified(label, dataset, MODELS[name], epsilon, cell, base)


def _table_one(source: str) -> Iterator[Row]:
    rows = _rows(_table(source, "tab:coramlb_rel"))
    datasets = [TITLES[title] for title in rows[0] if title]
    epsilons = [float(cell) for cell in rows[1][1:] if cell]
    columns = list(zip([d for d in datasets for _ in range(3)], epsilons, strict=True))
    gcn: list[float] = []
    for name, *cells in rows[2:]:
        filled = [cell for cell in cells if cell]
        gcn = gcn or [_mean_std(cell)[0] for cell in filled]
        for (dataset, epsilon), base, cell in zip(columns, gcn, filled, strict=True):
            yield _certified("tab:coramlb_rel", dataset, MODELS[name], epsilon, cell, base)


def _certified(table: str, dataset: str, model: str, epsilon: float, cell: str, base: float) -> Row:
    mean, std = _mean_std(cell)
    relative = model != "gcn"
    value = round(base + mean, 1) if relative else mean
    rounding = 2 * ROUNDING if relative else ROUNDING
    return (table, dataset, model, "collective", epsilon, cell.split("±")[0].strip(), value, std, rounding)


def _tightness(source: str) -> Iterator[Row]:
    rows = _rows(_table(source, "app_tab:multiclass_tightness"))
    epsilons = [float(cell.split()[0]) for cell in rows[0][2:]]
    name = ""
    for first, kind, *cells in rows[1:]:
        name = first or name
        certificate = "accuracy" if kind == "Exact" else "relaxed accuracy"
        for epsilon, cell in zip(epsilons, cells, strict=True):
            mean, std = _mean_std(cell)
            printed = cell.split("±")[0].strip()
            row = ("app_tab:multiclass_tightness", "citeseer", MODELS[name], certificate, epsilon, printed)
            yield (*row, mean, std, ROUNDING)


def _certified_in_text(source: str) -> Iterator[Row]:
    """Certified accuracies that the text gives for Cora-MLb at ε = 0.05."""
    [found] = re.findall(
        r"APPNP is most robust achieving a certified accuracy of \$(\S+?)\\pm(\S+?)\$.*?GraphSAGE\s+"
        r"achieves only \$(\S+?)\\pm(\S+?)\$.*?MLP even drops to \$(\S+?)\\pm(\S+?)\$",
        source,
        re.DOTALL,
    )
    for k, model in enumerate(("appnp", "graphsage", "mlp")):
        mean, std = found[2 * k], found[2 * k + 1]
        yield ("text", "cora-ml-b", model, "accuracy", 0.05, mean, float(mean), float(std), ROUNDING)


def _ranks(source: str) -> Iterator[Row]:
    rows = _rows(_table(source, "tab:model_rank"))
    datasets = [TITLES[title] for title in rows[0] if title]
    ranges = [cell for cell in rows[1][1:] if cell]
    columns = list(zip([d for d in datasets for _ in range(4)], ranges, strict=True))
    for name, *cells in rows[2:]:
        for (dataset, epsilons), cell in zip(columns, [cell for cell in cells if cell], strict=True):
            yield ("tab:model_rank", dataset, MODELS[name], epsilons, float(cell))


def _differences(source: str) -> Iterator[Row]:
    """The plateau: drops of the mean collective ratio that the text gives (it misprints ε = 0.1 as 0.01 once)."""
    [flat] = re.findall(r"from \$\\epsilon=0\.2\$ to \$\\epsilon=0\.25\$ reduces by only (\S+?)\\%", source)
    [steep] = re.findall(r"to \$\\epsilon=0\.01\$ is \$(\S+?)\$\\% and \$(\S+?)\$\\%", source)
    for model, drop in zip(("sgc", "appnp"), steep, strict=True):
        yield ("section 4.1", "cora-ml-b", model, 0.2, 0.25, float(flat))
        yield ("section 4.1", "cora-ml-b", model, 0.05, 0.1, float(drop))
    yield ("section 4.1", "cora-ml-b", "gcn", 0.2, 0.25, 0.0)
    found = re.findall(
        r"for (GIN|MLP) \$\\Delta_\{med\}=(\S+?)\$\\% compared to \$\\Delta_\{strong\}=(\S+?)\$\\%", source
    )
    for name, medium, strong in found:
        yield ("appendix", "citeseer-b", MODELS[name], 0.1, 0.3, float(medium))
        yield ("appendix", "citeseer-b", MODELS[name], 0.3, 0.5, float(strong))


def _statistics(source: str) -> Iterator[Row]:
    for name, nodes, edges, classes in _rows(_table(source, "tab:csbm_dataset_statistics"))[1:]:
        mean, _, std = edges.replace(",", "").partition("±")
        yield (TITLES[name], int(nodes.replace(",", "")), int(mean), int(std) if std else "", int(classes))


def _thresholds(source: str) -> Iterator[Row]:
    """The smallest budget beyond which no prediction is certified, each node alone, as the text gives it."""
    interval = r"\$\(([\d.]+),([\d.]+)\]\$"
    [found] = re.findall(
        rf"the thresholds for Cora-MLb is {interval}, for Citeseerb is {interval}, and for CSBM is {interval} "
        rf"except for GCN Skip-PC at {interval} and SGC at {interval}",
        source,
    )
    places = (("cora-ml-b", ""), ("citeseer-b", ""), ("csbm", ""), ("csbm", "gcn-skip-pc"), ("csbm", "sgc"))
    for k, (dataset, model) in enumerate(places):
        yield ("section 4.1", dataset, model, float(found[2 * k]), float(found[2 * k + 1]))


def _table(source: str, label: str) -> str:
    for block in re.findall(r"\\begin\{table\}.*?\\end\{table\}", source, re.DOTALL):
        if f"\\label{{{label}}}" in block:
            return str(re.search(r"\\begin\{tabular\}\{\w+\}(.*?)\\end\{tabular\}", block, re.DOTALL)[1])  # type: ignore[index]
    raise LookupError(f"the paper has no table {label}")


def _rows(table: str) -> list[list[str]]:
    text = re.sub(r"\\(toprule|midrule|bottomrule|hline)", "", table)
    text = re.sub(r"\\multicolumn\{\d+\}\{\w+\}", "", text)
    text = re.sub(r"\\cellcolor\{[^}]*\}", "", text)
    text = re.sub(r"\\textcolor\{red\}", "", text)
    text = text.replace(r"\pm", "±").replace(r"\alpha", "α").replace(r"\epsilon", "ε").replace(r"\#", "#")
    text = re.sub(r"\\(textbf|mathbf|scriptsize)", "", text)
    text = re.sub(r"[${}]", "", text)
    rows = [[" ".join(cell.split()) for cell in line.split("&")] for line in text.split(r"\\")]
    return [row for row in rows if any(row)]


def _mean_std(cell: str) -> tuple[float, float]:
    mean, std = cell.replace(" ", "").split("±")
    return float(mean), float(std)


def main(paper: Path, folder: Path) -> None:
    """Write the data files."""
    for name, rows in read_paper(paper.read_text(encoding="utf-8")).items():
        with (folder / name).open("w", newline="", encoding="utf-8") as stream:
            writer = csv.writer(stream, lineterminator="\n")
            writer.writerow(HEADINGS[name])
            writer.writerows(rows)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
