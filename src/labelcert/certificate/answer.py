"""The answer first: how many predictions are safe, what the worst attack does, what to do next, a sentence for each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from labelcert.checking import whole_number
from labelcert.errors import InvalidInput
from labelcert.problem.relabelling import REMOVED
from labelcert.text import per_cent, printable

if TYPE_CHECKING:
    from labelcert.arrays import Bool, Float, Int
    from labelcert.certificate.certificate import Certificate, ListedAttacks

NAMED = 3
"""Labels that a sentence names."""

UNITS = {
    "flips": ("wrong label", "wrong labels"),
    "labels": ("wrong or removed label", "wrong or removed labels"),
    "removals": ("removed label", "removed labels"),
    "annotators": ("dishonest annotator", "dishonest annotators"),
    "samples": ("sample that comes or goes", "samples that come or go"),
}
"""What budgets count, as a reader would say it; other units are words already."""


@dataclass(frozen=True)
class Answer:
    """What a certificate says about one budget, for somebody who reads nothing else.

    Attributes
    ----------
    flips : int
        The budget.
    safe : str
        How many predictions are safe.
    worst : str
        What the worst attack does, and to which labels.
    next : str
        What to do next.
    """

    flips: int
    safe: str
    worst: str
    next: str

    @property
    def sentences(self) -> tuple[str, str, str]:
        """All three, in order."""
        return self.safe, self.worst, self.next

    def __str__(self) -> str:
        return "\n".join(self.sentences)


def answer(cert: Certificate, flips: int | None = None, attacks: ListedAttacks | None = None) -> Answer:
    """Three sentences about a budget; by default, about the smallest that changes a prediction.

    With a list of all ``attacks``, they say what verifying a label secures; without, only in how many of the cheapest
    known attacks it takes part.

    Examples
    --------
    >>> import labelcert
    >>> from labelcert.certificate.answer import answer
    >>> from labelcert.examples import two_clouds
    >>> data = two_clouds()
    >>> print(answer(labelcert.certify(data.K_train, data.labels, data.K_test, C=1.0), 2))
    6 of 12 predictions (50.0 %) are proved safe from up to 2 wrong labels.
    The worst attack changes label 1 (fraud → fine) and label 3 (fraud → fine), and with them 3 predictions.
    Check label 1 first: the cheapest known attack on 4 predictions needs it.
    """
    b = opening_budget(cert) if flips is None else flips
    whole_number("flips", b)
    if b > cert.last_flips:
        raise InvalidInput(f"flips must be at most {cert.last_flips}, the largest that is worth asking, got {b}")
    return Answer(b, _safe(cert, b), _worst(cert, b), _next(cert, b, attacks))


def opening_budget(cert: Certificate) -> int:
    """The budget to speak of first: the smallest at which anything is known to change."""
    changed = np.flatnonzero(cert.collective_lower > cert.collective_lower[0])
    return min(int(changed[0]) if changed.size else 1, cert.last_flips)


def wrong(cert: Certificate, b: int) -> str:
    """A budget as a reader would say it.

    Examples
    --------
    >>> import labelcert
    >>> from labelcert.certificate.answer import wrong
    >>> wrong(labelcert.certify([[2, 0], [0, 2]], ["cat", "dog"], [[1, 0]], C=1.0), 2)
    '2 wrong labels'
    """
    one, many = unit_words(cert)
    return _count(b, one, many)


def unit_words(cert: Certificate) -> tuple[str, str]:
    """What budgets count, as a reader would say it: one, and several."""
    unit = cert.run.unit
    return UNITS.get(unit, (unit.removesuffix("s"), unit))


def proved_nothing(cert: Certificate) -> bool:
    """Whether the certificate says nothing that was not clear before: no attack, and nothing safe from any."""
    known = cert.radius_upper[cert.radius_upper > 0] < cert.never
    return not (cert.exact or known.any() or np.any(cert.radius_lower > 1))


def _safe(cert: Certificate, b: int) -> str:
    n, low = cert.n_test, int(np.sum(cert.radius_lower > b))
    lost = int(np.sum(cert.radius_upper <= b))
    if proved_nothing(cert):
        return f"Nothing was proved in {cert.run.seconds:.1f} s."
    proved = "safe, if the solver is right," if cert.trusts_solver else "proved safe"
    keep = " and keep their margin" if cert.run.margin else ""
    among = f"{low:,} of {_count(n, 'prediction', 'predictions')} ({per_cent(low / n)} %)"
    rest = n - low - lost
    still = f"; {rest:,} more {_is(rest)} open" if rest else ""
    if b == 0:
        return f"{among} {_is(low)} settled with all labels right{still}."
    return f"{among} {_is(low)} {proved} from up to {wrong(cert, b)}{keep}{still}."


def _worst(cert: Certificate, b: int) -> str:
    least, most = int(cert.collective_lower[b]), int(cert.collective_upper[b])
    steps, trusting = _steps(cert, b), _if_right(cert)
    others = "" if least == most or most == cert.n_test else f"; no attack can do so to more than {most:,}{trusting}"
    if not cert.run.collective and least < most:
        others = "; whether another one does more was not asked"
    if not steps:
        if most <= int(cert.collective_lower[0]) and cert.run.collective:
            return (
                f"No attack with up to {wrong(cert, b)} changes a prediction{trusting}."
                if b
                else "Nothing changes while all labels are right."
            )
        limit = f"; one could change at most {most:,} predictions{trusting}" if most < cert.n_test else ""
        return f"No attack is known{limit}."
    known = "The worst attack" if least == most and not trusting else "The strongest attack known"
    verb = "is by" if cert.run.counts_annotators else "changes"
    return f"{known} {verb} {steps}, {_acts(cert, b)} {_count(least, 'prediction', 'predictions')}{others}."


def _acts(cert: Certificate, b: int) -> str:
    """What an attack does to predictions."""
    if cert.run.margin:
        return "and takes the margin of"
    if cert.run.counts_annotators:
        return "and changes"
    return "and with them" if len(cert.collective_witness(b)) > 1 else "and with it"


def _if_right(cert: Certificate) -> str:
    """What upper ends of the curve, and lower ends of radii, rest on where a solver is trusted."""
    return ", if the solver is right" if cert.trusts_solver else ""


def _steps(cert: Certificate, b: int) -> str:
    """The labels, or annotators, of the strongest attack that is known."""
    if not cert.run.finds_attacks:
        return ""
    if cert.run.counts_annotators:
        found = [printable(str(who)) for who in cert.collective_votes(b)]
    else:
        found = [
            f"{label_name(cert, i)} "
            + ("(removed)" if new == REMOVED else f"({printable(str(cert.labels[i]))} → {printable(str(new))})")
            for i, new in cert.collective_witness(b).items()
        ]
    return listing(found)


def _next(cert: Certificate, b: int, attacks: ListedAttacks | None) -> str:
    if proved_nothing(cert):
        return _more(cert)
    if cert.run.counts_annotators:
        return _audit(cert, b)
    if np.all(cert.radius_lower[cert.radius_upper > 0] > b):
        return (
            f"Nothing has to be verified against {wrong(cert, b)}{_if_right(cert)}."
            if b
            else "Ask about more wrong labels."
        )
    if attacks is not None and b <= attacks.flips:
        alone, promise = worth(cert, attacks, b)
        best = max(range(alone.size), key=lambda i: (alone[i], promise[i], -i))
        if alone[best]:
            safe = _count(int(alone[best]), "prediction", "predictions")
            return f"Verify {label_name(cert, best)} first: that alone makes {safe} safe."
        if promise[best]:
            return f"Verify {label_name(cert, best)} first: no label takes part in more of the attacks."
    part = np.zeros(cert.labels.size, dtype=np.int64)
    for t in np.flatnonzero((cert.radius_upper > 0) & (cert.radius_upper <= b)).tolist():
        part[cert.node_attacks[t][0]] += 1
    if not part.any():
        return _more(cert)
    best = int(part.argmax())
    on = _count(int(part[best]), "prediction", "predictions")
    return f"Check {label_name(cert, best)} first: the cheapest known attack on {on} needs it."


def _more(cert: Certificate) -> str:
    """How to have more proved: as a command, where one is known."""
    limit, command = cert.run.time_limit, printable(cert.run.command)
    options = [f"--time-limit {max(10.0, 10 * limit):g}"] if limit else []
    options += [f"--max-flips {cert.max_flips // 2}"] if cert.max_flips > 1 else []
    if not options:
        return "Try another engine: `labelcert engines` lists them."
    # Of an option that is given twice, the last one counts.
    return f"Try `{command} {' '.join(options)}`." if command else f"Try {' or '.join(options)}."


def _audit(cert: Certificate, b: int) -> str:
    """Whom to audit: who alone puts most at risk that nobody else does."""
    try:
        table = cert.annotators()
    except InvalidInput:
        return "Give the certificate more time, so that it looks at each annotator."
    table = table[~table["trusted"]]
    if not b or table.empty or not table["alone_upper"].max():
        return _audit_several(cert, b)
    best = table.sort_values(["only", "alone_upper"], ascending=False, kind="stable").index[0]
    alone, only = (int(table.loc[best, column]) for column in ("alone_upper", "only"))
    name, rest = printable(str(best)), f", {only:,} of which nobody else does" if only else ""
    return f"Audit {name} first: {name} alone puts {_count(alone, 'prediction', 'predictions')} at risk{rest}."


def _audit_several(cert: Certificate, b: int) -> str:
    """Whom to audit where nobody changes a prediction alone: who takes part in most attacks."""
    at_risk = np.flatnonzero((cert.radius_upper > 0) & (cert.radius_upper <= b)).tolist()
    part = Counter(who for t in at_risk for who in cert.witness_votes(t) or {})
    if not part:
        return "Nobody has to be audited: no attack is known."
    best = min(part, key=lambda who: (-part[who], who))
    on, name = _count(part[best], "prediction", "predictions"), printable(str(best))
    return f"Audit {name} first: {name} takes part in the cheapest known attack on {on}."


def worth(cert: Certificate, attacks: ListedAttacks, b: int) -> tuple[Int, Float]:
    """For each label, how many predictions become safe once it is verified; and its part in the attacks on others.

    All attacks on a prediction must need a label for it to secure the prediction alone.
    """
    m = cert.labels.size
    needs: Bool = np.zeros((attacks.costs.size, m), dtype=bool)
    needs[np.repeat(np.arange(attacks.costs.size), np.diff(attacks.starts)), attacks.labels] = True
    use = (attacks.costs <= b) & attacks.overturned.any(axis=1)
    needs, overturned = needs[use], attacks.overturned[use].astype(np.int64)
    through, of = overturned.T @ needs.astype(np.int64), overturned.sum(axis=0)
    alone = np.sum((through == of[:, None]) & (of > 0)[:, None], axis=0)
    part = np.sum(through / np.maximum(of, 1)[:, None] ** 2, axis=0)
    return alone.astype(np.int64), np.round(part, 9)


def label_name(cert: Certificate, i: int) -> str:
    """What a label is called in a sentence."""
    name = str(i) if cert.label_names is None else printable(str(cert.label_names[i]))
    return f"label {name}" if name.isdigit() else name


def listing(words: Sequence[str]) -> str:
    """A few words in a row, and how many more there are.

    Examples
    --------
    >>> from labelcert.certificate.answer import listing
    >>> listing(["a"]), listing(["a", "b", "c"]), listing("abcde")
    ('a', 'a, b and c', 'a, b, c and 2 more')
    """
    shown = list(words[:NAMED]) + ([f"{len(words) - NAMED} more"] if len(words) > NAMED else [])
    return " and ".join(filter(None, (", ".join(shown[:-1]), shown[-1]))) if shown else ""


def _is(count: int) -> str:
    return "is" if count == 1 else "are"


def _count(count: int, one: str, many: str) -> str:
    return f"{count:,} {one if count == 1 else many}"
