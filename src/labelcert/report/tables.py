"""Certificates as text: tables that are coloured in a terminal and plain when piped."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.table import Table

from labelcert.certificate import TRUSTED_SOLVER, Certificate
from labelcert.certificate.comparison import Comparison
from labelcert.certificate.display import NOT_ASKED, interval, share, telling_budgets
from labelcert.text import between, per_cent, printable

if TYPE_CHECKING:
    from labelcert.rechecking import Recheck


BAR = ""
"""The heading of a column that is a picture."""

SOME = 6
"""Labels of an attack that are named."""

TEXTS = (
    BAR,
    "prediction",
    "predicted",
    "can become",
    "flips that do it",
    "by flipping",
    "confirm",
    "labelled",
    "secures",
)
"""Columns of text; all others hold numbers, which stand to the right."""


def _table(title: str, *headings: str, cert: Certificate | None = None) -> Table:
    """An empty table; the title says what counts as changed, where that is unusual."""
    margin = f" (margin {cert.run.margin_text})" if cert is not None and cert.run.margin else ""
    margin += f" ({cert.run.error_text})" if cert is not None and cert.run.error_text else ""
    table = Table(title=f"{title}{margin}", title_justify="left")
    for heading in headings:
        table.add_column(heading, justify="left" if heading in TEXTS else "right")
    return table


def _one(cert: Certificate) -> str:
    """What a test node is called: a row, where the graph has no edges."""
    return "row" if cert.around is not None and cert.around.edges.size == 0 else "node"


def node_table(
    cert: Certificate, *, limit: int | None = None, title: str = "Fewest flipped labels that change each prediction"
) -> Table:
    """One row per test node: prediction, radius, and the flips that change it; the ``limit`` weakest nodes."""
    table = _table(title, _one(cert), "prediction", "radius", "flips that do it", cert=cert)
    order = sorted(range(cert.n_test), key=lambda t: (cert.radius_lower[t], cert.radius_upper[t], t))
    for t in order[:limit]:
        lower, upper, claimed = (int(ends[t]) for ends in (cert.radius_lower, cert.radius_upper, cert.radius_claimed))
        radius = interval(lower, upper, cert.never)
        radius += _by_solver(cert.radius_proved_by[t], claimed > lower, interval(claimed, upper, cert.never))
        name = str(t) if cert.test_names is None else str(cert.test_names[t])
        tie = "" if cert.radius_upper[t] else " (within the margin)" if cert.run.margin else " (tie)"
        table.add_row(name, f"{cert.predictions[t]}{tie}", radius, _witness_text(cert, t))
    if limit is not None and cert.n_test > limit:
        table.caption = f"the {limit} weakest of {cert.n_test} {_one(cert)}s"
    return table


def budget_table(
    cert: Certificate,
    *,
    budgets: Sequence[int] | None = None,
    named: int = SOME,
    title: str = "Predictions that provably survive",
) -> Table:
    """One row per budget, by default where something changes: what survives each alone and all at once, and how.

    ``named`` labels at most are named of each attack.
    """
    of_labels = {unit: (unit, "of labels") for unit in ("flips", "labels", "removals")}
    units = {**of_labels, "annotators": ("annotators", "of all")}.get(cert.run.unit, ("cost", "of total"))
    counted = cert.black_box_radius
    votes = () if counted is None else ("counting votes",)
    worst = cert.worst_cases
    asked = (*votes, "all at once", "changed", *(one.title for one in worst))
    table = _table(title, *units, BAR, "each alone", *asked, "by flipping", cert=cert)
    total, shown = cert.never - 1, telling_budgets(cert) if budgets is None else list(budgets)
    for b in shown:
        lower, upper, claimed = (
            int(ends[b]) for ends in (cert.collective_lower, cert.collective_upper, cert.collective_claimed)
        )
        changed = str(lower) if lower == upper else f"{lower} to {upper}"
        changed = changed if cert.run.collective else NOT_ASKED
        changed += _by_solver(cert.collective_proved_by[b], claimed < upper, f"at most {claimed}")
        table.add_row(
            str(b),
            f"{b / total:.0%}",
            _bar(cert.certified_ratio(flips=b), cert.certified_ratio(flips=b, bound="upper")),
            f"{share(cert, b, False)} %",
            *([] if counted is None else [f"{per_cent(float(np.mean(counted > b)))} %"]),
            f"{share(cert, b, True)} %" if cert.run.collective else NOT_ASKED,
            changed,
            *(one.text(b) for one in worst),
            flips_text(cert.collective_witness(b, names=True), named),
        )
    between_rows = [b for b in telling_budgets(cert) if b not in shown]
    if between_rows:
        table.caption = f"something changes at {len(between_rows)} more: --all"
    return table


def _bar(low: float, high: float) -> str:
    """Ten signs for a share: what is proved is full, what is open is half."""
    proved, possible = int(10 * low + 1e-9), int(10 * high + 1e-9)
    return "█" * proved + "▒" * (possible - proved) + "░" * (10 - possible)


def takeover_table(cert: Certificate, *, title: str | None = None) -> Table:
    """Which class is taken over by which: one row per predicted class, and how many of its nodes become what."""
    counts = cert.takeovers(flips=cert.max_flips)
    title = title or f"What predictions become within {cert.max_flips} {cert.run.unit}"
    table = _table(title, "predicted", f"{_one(cert)}s", "can become")
    for name in counts.index:
        becomes = [(int(counts.loc[name, other]), str(other)) for other in counts.columns]
        most = sorted((pair for pair in becomes if pair[0]), key=lambda pair: -pair[0])
        predicted = int(np.sum(cert.predictions == name))
        table.add_row(str(name), str(predicted), ", ".join(f"{other}: {count}" for count, other in most) or "–")
    return table


def annotator_table(cert: Certificate, *, limit: int, title: str = "Annotators") -> Table:
    """Of each annotator, how many votes there are, and how many predictions change alone."""
    frame = cert.annotators().head(limit)
    rows = [
        (str(name), str(row.votes), str(row.alone), str(row.only), "yes" if row.trusted else "")
        for name, row in zip(frame.index, frame.itertuples(), strict=True)
    ]
    return listing(title, ("annotator", "votes", "changes alone", "nobody else does", "trusted"), rows)


def comparison_table(certificates: Sequence[tuple[str, Certificate]], *, budgets: Sequence[int] | None = None) -> Table:
    """Several models on the same test nodes side by side: one row per budget that all of them cover."""
    columns = [f"{name}, {kind}" for kind in ("each alone", "all at once") for name, _ in certificates]
    table = _table("Models compared: predictions that provably survive", "flips", *columns)
    for row in Comparison(tuple(certificates)).rows(budgets):
        table.add_row(row[0], *(f"{cell} %" for cell in row[1:]))
    trusting = [name for name, cert in certificates if cert.trusts_solver]
    table.caption = f"trusting the solver: {', '.join(trusting)}" if trusting else None
    return table


def recheck_table(advice: Recheck, *, title: str = "Labels to confirm") -> Table:
    """One row per label, or annotator: who or what it is, what survives then, and the nodes that it secures."""
    secures = advice.objective == "each"
    then = f"survive then, {'each alone' if secures else 'all at once'}"
    table = _table(
        title,
        "",
        *(("confirm", "labelled") if advice.annotators is None else ("audit", "votes")),
        then,
        "worth alone",
        *(["secures"] if secures else []),
    )
    frame = advice.to_frame()
    what, about = frame.columns[:2]
    for step, row in frame.iterrows():
        low, high, n = row["after"], row["after_upper"], advice.certificate.n_test
        share = between(low, high, " %")
        share = f"{round(low * n)} of {n} ({share})" if low == high else share
        alone = "not known" if np.isnan(row["gain_alone"]) else f"+{round(row['gain_alone'] * n)}"
        names = [str(name) for name in row["secures"]]
        shown = ", ".join(names[:5]) + (f", … ({len(names)} nodes)" if len(names) > 5 else "")
        shown = shown or "none by itself"
        table.add_row(str(step), str(row[what]), str(row[about]), share, alone, *([shown] if secures else []))
    return table


def listing(title: str, headings: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    """A plain table of text."""
    table = Table(*headings, title=title, title_justify="left")
    for row in rows:
        table.add_row(*row)
    return table


def _witness_text(cert: Certificate, t: int) -> str:
    """The flips that change a node, and by whom, where budgets count annotators."""
    text, said = flips_text(cert.witness(t, names=True)), cert.witness_votes(t) if cert.run.counts_annotators else None
    return f"{', '.join(said)}: {text}" if said else text


def flips_text(witness: dict[Any, Any] | None, most: int = SOME) -> str:
    """A witness in one short line."""
    if witness is None:
        return "none known"
    if not witness:
        return "–"
    shown = [f"{i} → {label}" for i, label in list(witness.items())[:most]]
    return ", ".join(shown) + (f", … ({len(witness)})" if len(witness) > most else "")


def summary(cert: Certificate) -> str:
    """One line on how the certificate came about."""
    return "; ".join([origin(cert), *notes(cert)])


def origin(cert: Certificate) -> str:
    """What worked it out, and in what time."""
    how = ", then ".join(_how(stage.statistics) for stage in cert.run.stages)
    shown = "" if not how or (how == CLOSED and cert.engine == ENGINE_IN_CLOSED_FORM) else f": {how}"
    return f"{cert.state}; engine {cert.engine}{shown} in {cert.run.seconds:.2f} s{cert.run.compiling_text}"


CLOSED, ENGINE_IN_CLOSED_FORM = "closed form", "closed-form"


def notes(cert: Certificate) -> list[str]:
    """What a reader has to know besides, and what would prove more."""
    return [note for note in (cert.run.budget_note, *cert.run.remarks, *cert.run.advice) if note]


def _how(statistics: Mapping[str, Any]) -> str:
    if "proved_by_relaxation" in statistics:
        solves = statistics.get("solves")
        searched = f"{len(solves)} searches" if solves else f"{statistics.get('subtrees', 0)} subtrees"
        return f"{statistics['proved_by_relaxation']} proofs by relaxation, {searched}"
    trainings = statistics.get("trainings", 0)
    return f"{trainings:,} models retrained" if trainings else CLOSED


def _by_solver(proved_by: str, claims_more: bool, claim: str) -> str:
    """What to add to an end that is a solver's claim, or about which it claims more than is proved."""
    if claims_more:
        return f" ({claim} claimed by the solver)"
    return " (trusting the solver)" if proved_by == TRUSTED_SOLVER else ""


def class_counts(labels: Iterable[Any]) -> str:
    """How many labels there are of each class, in one line."""
    counts = Counter(printable(str(label)) for label in labels)
    return ", ".join(f"{name} ({counts[name]})" for name in sorted(counts))
