"""What a certificate whose budgets count annotators says about each of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from labelcert.arrays import Bool
from labelcert.certificate.run_record import RunRecord
from labelcert.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd

COLUMNS = ("annotator", "votes", "alone", "alone_upper", "only", "trusted")


def ballots(run: RunRecord) -> list[tuple[int, str | None, str]]:
    """Item, annotator and label of each vote; with one vote for each label, it is the label, here empty."""
    votes = run.threat.get("votes")
    if votes is not None:
        return [(i, who, label) for i, who, label in votes["votes"]]
    annotators = run.threat.get("annotators")
    if annotators is None:
        raise InvalidInput(
            "the certificate counts labels, not annotators; certify with Threat(annotators=...) or votes"
        )
    return [(i, who, "") for i, who in enumerate(annotators)]


def names(run: RunRecord) -> list[str]:
    """All annotators, in the order in which statistics list them."""
    return sorted({who for _, who, _ in ballots(run) if who is not None})


def alone(run: RunRecord, n: int) -> tuple[Bool, Bool]:
    """(A, n) which predictions each annotator changes alone: provably, and possibly."""
    for stage in run.stages:
        if "alone" in stage.statistics:
            sure, maybe = (np.zeros((len(names(run)), n), dtype=bool) for _ in range(2))
            for k, (own, open_) in enumerate(
                zip(stage.statistics["alone"], stage.statistics["perhaps_alone"], strict=True)
            ):
                sure[k, own] = True
                maybe[k, [*own, *open_]] = True
            return sure, maybe
    if run.engine.startswith("votes"):
        raise InvalidInput(
            "what a single annotator changes is not known where votes of a black box are counted: the certificate "
            "bounds how many annotators it takes (radius_lower, verdicts). annotators() and audit() need a model that "
            "labelcert knows: a graph model, certify, certify_linear or an estimator from from_sklearn"
        )
    raise InvalidInput("the run was stopped before it looked at single annotators; certify again with more time")


def table(run: RunRecord, undecided: Bool) -> pd.DataFrame:
    """One row for each annotator, by what depends on them alone; predictions that are undecided count for nobody."""
    import pandas as pd

    sure, maybe = (own & ~undecided for own in alone(run, undecided.size))
    who = [name for _, name, _ in ballots(run)]
    trusted = run.threat.get("trusted_annotators") or []
    rows = [
        (
            name,
            who.count(name),
            int(sure[k].sum()),
            int(maybe[k].sum()),
            int((sure[k] & (maybe.sum(axis=0) == 1)).sum()),
            name in trusted,
        )
        for k, name in enumerate(names(run))
    ]
    frame = pd.DataFrame(rows, columns=list(COLUMNS))
    return frame.sort_values(["alone", "votes"], ascending=False, kind="stable").set_index("annotator")


def audit(run: RunRecord, undecided: Bool, count: int, order: Sequence[str] | None) -> pd.DataFrame:
    """Whom to audit next, so that the most predictions survive any other annotator; or what an order comes to."""
    import pandas as pd

    _, maybe = alone(run, undecided.size)
    left, rows, known = maybe.copy(), list[tuple[str, int, float]](), names(run)
    free = np.array(
        [not (run.threat.get("trusted_annotators") and name in run.threat["trusted_annotators"]) for name in known]
    )
    for step in range(min(count, int(free.sum())) if order is None else len(order)):
        if order is None:
            gained = (left & (left.sum(axis=0) == 1) & ~undecided).sum(axis=1)
            score: Any = np.where(free, gained * (left.size + 1) + left.sum(axis=1), -1)
            k = int(score.argmax())
        elif str(order[step]) not in known:
            raise InvalidInput(f"there is no annotator {order[step]!r}; they are called {', '.join(known[:3])}, ...")
        else:
            k = known.index(str(order[step]))
        left[k], free[k] = False, False
        survive = int((~left.any(axis=0) & ~undecided).sum())
        rows.append((known[k], survive, survive / undecided.size))
    return pd.DataFrame(rows, columns=["annotator", "survive", "share"]).set_index("annotator")
