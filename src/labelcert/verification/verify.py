"""``verify``: check a certificate without the code that made it."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from labelcert.arrays import Bool, Int
from labelcert.certificate import Certificate
from labelcert.errors import InvalidInput
from labelcert.verification.linear_radii import always_at_cap, proved_radii
from labelcert.verification.machines import LinearTrainer, SVMTrainer, Trained, Trainer
from labelcert.verification.relabellings import TIED, Claims, Walk, WalkOutcome, count_relabellings, random_relabellings
from labelcert.verification.statement import Statement
from labelcert.verification.trees import Trees

SCORE_TOLERANCE = 1e-6
"""How far a score that is shown may be off, as a share of the largest score that the labels could give."""


class CheckStatus(StrEnum):
    """How one check ended."""

    PROVED = "proved"
    SAMPLED = "sampled"
    NOT_CHECKED = "not checked"
    WRONG = "WRONG"


@dataclass(frozen=True)
class Check:
    """One line of a verification: what was checked, how it ended, and how it was done or what is wrong."""

    what: str
    status: CheckStatus
    how: str


@dataclass
class Verification:
    """What a verification found.

    Attributes
    ----------
    checks : list of Check

    Examples
    --------
    >>> import labelcert
    >>> cert = labelcert.certify([[2, 0], [0, 2]], ["cat", "dog"], [[1, 0], [1, 2]], C=1.0)
    >>> found = labelcert.verify(cert)
    >>> found.accepted, found.complete, found.checks[0].what
    (True, True, 'contents')
    """

    checks: list[Check] = field(default_factory=list)

    @property
    def wrong(self) -> list[Check]:
        """The checks that found something wrong."""
        return [check for check in self.checks if check.status is CheckStatus.WRONG]

    @property
    def accepted(self) -> bool:
        """Whether nothing is wrong."""
        return not self.wrong

    @property
    def complete(self) -> bool:
        """Whether everything that the certificate claims is proved."""
        return all(check.status is CheckStatus.PROVED for check in self.checks)

    def __str__(self) -> str:
        width = max((len(check.what) for check in self.checks), default=0)
        lines = [f"{check.what:<{width}}  {check.status.value:<11}  {check.how}" for check in self.checks]
        return "\n".join([*lines, self.summary])

    @property
    def summary(self) -> str:
        """What was found, in one sentence."""
        if not self.accepted:
            return f"rejected: {self.wrong[0].what}: {self.wrong[0].how}"
        if self.complete:
            return "accepted: everything that the certificate claims is proved"
        open_ = [check.what for check in self.checks if check.status is not CheckStatus.PROVED]
        return f"nothing is wrong, but not everything is proved: {', '.join(open_)}"

    def add(self, what: str, status: CheckStatus, how: str) -> None:
        """Add the result of one check."""
        self.checks.append(Check(what, status, how))

    def require(self, what: str, holds: bool, how: str, wrong: str) -> None:
        """A line that is proved, or wrong."""
        self.add(what, CheckStatus.PROVED if holds else CheckStatus.WRONG, how if holds else wrong)


def verify(
    cert: Certificate,
    K_train: npt.ArrayLike | None = None,
    labels: npt.ArrayLike | None = None,
    K_test: npt.ArrayLike | None = None,
    *,
    share: float | None = None,
    seed: int = 0,
    time_limit: float | None = None,
    report: Callable[[str], None] = lambda text: None,
) -> Verification:
    """Check a certificate without the code that made it, in exact arithmetic.

    The problem must be the one that the certificate names by its hash. Every witness is admissible, and training from
    scratch on it changes what it should. Every lower end of a radius and every upper end of the curve has a proof,
    which is evaluated again: closed forms where scores are linear in the labels, the stored tree of a search with its
    multipliers, and a walk through all admissible relabellings otherwise.

    Parameters
    ----------
    cert : Certificate
    K_train, labels, K_test : arrays, optional
        As they were given to :func:`labelcert.certify`; a certificate that was saved with ``problem=True`` has them.
    share : float, optional
        Look only at this share of the relabellings, drawn at random, instead of walking through all: no proof.
    seed : int
        For the random share.
    time_limit : float, optional
        Seconds for the walk; what is left then is not checked.
    report : callable
        Told from time to time what is going on.

    Returns
    -------
    Verification

    Examples
    --------
    >>> import labelcert
    >>> K, labels, rows = [[2, 0], [0, 2]], ["cat", "dog"], [[1, 0], [1, 2]]
    >>> cert = labelcert.certify(K, labels, rows, C=1.0)
    >>> labelcert.verify(cert, K, labels, rows).summary
    'accepted: everything that the certificate claims is proved'
    >>> labelcert.verify(cert, K, ["dog", "cat"], rows).accepted
    False
    """
    if share is not None and not 0.0 < share <= 1.0:
        raise InvalidInput(f"share must be above 0 and at most 1, got {share!r}")
    if cert.run.loss == "linear":
        raise InvalidInput("verify checks certificates of kernel machines; this one is of certify_linear")
    if cert.run.loss not in KNOWN_LOSSES:
        raise InvalidInput(
            f"verify knows the losses {' and '.join(KNOWN_LOSSES)}; this certificate is about loss={cert.run.loss!r}. "
            "`labelcert selfcheck` compares the engines behind it with brute force"
        )
    if cert.run.engine_asked == "partition":
        raise InvalidInput(
            "the certificate is about an ensemble on parts of the labels, which verify does not know; "
            "it checks certificates of single models"
        )
    if cert.run.engine_asked.startswith("baseline:"):
        raise InvalidInput(
            "the certificate is that of a baseline, which verify does not know; it checks those of labelcert.certify"
        )
    statement = Statement.of(cert, K_train, labels, K_test)
    out = Verification()
    out.require(
        "contents",
        cert.checksum == cert.computed_checksum(),
        "the numbers are those that were sealed when the certificate was made",
        "the certificate's numbers do not match its checksum: something was changed",
    )
    out.require(
        "problem",
        _same_problem(cert, statement),
        f"kernels, labels, threat, C and loss have the hash {cert.run.problem_sha256[:12]}…",
        f"their hash is {statement.digest()[:12]}…, the certificate names {cert.run.problem_sha256[:12]}…",
    )
    if not out.accepted:
        return out
    given = statement
    if cert.run.margin:
        margins = np.broadcast_to(np.asarray(cert.run.margin, dtype=np.float64), statement.n)
        statement = statement.lowered(np.searchsorted(statement.classes, cert.predictions), margins)
    linear = statement.loss == "square" or always_at_cap(statement)
    report("kernel")
    machine = _machine(statement, linear)
    how = "positive semidefinite" if linear else "positive semidefinite, and test rows in its range"
    out.require("kernel", not machine.problems, f"{how}, by exact elimination", "; ".join(machine.problems))
    for what in machine.unchecked:
        out.add("kernel", CheckStatus.NOT_CHECKED, what)
    if not out.accepted or machine.unchecked:
        return out
    shown = (given, machine if given is statement else _machine(given, linear))
    checker = _Checker(cert, statement, machine, shown, out, report)
    report("witnesses")
    checker.clean()
    checker.witnesses()
    checker.attacks_of_curve()
    if out.accepted:
        checker.bounds(share, np.random.default_rng(seed), time_limit)
    return out


def _machine(statement: Statement, linear: bool) -> Trainer:
    return LinearTrainer(statement) if linear else SVMTrainer(statement)


KNOWN_LOSSES = ("hinge", "square")
"""Losses whose models are checked here."""


def _same_problem(cert: Certificate, statement: Statement) -> bool:
    return bool(
        statement.digest() == cert.run.problem_sha256
        and np.array_equal(statement.classes, cert.classes)
        and np.array_equal(statement.classes[statement.codes], cert.labels)
        and statement.never == cert.never
        and statement.n == cert.n_test
        and 0 <= statement.budget < statement.never
    )


class _Checker:
    """One verification, step by step."""

    def __init__(
        self,
        cert: Certificate,
        statement: Statement,
        machine: Trainer,
        shown: tuple[Statement, Trainer],
        out: Verification,
        report: Callable[[str], None],
    ) -> None:
        self._shown = shown
        self._cert, self._statement, self._machine, self._out, self._report = cert, statement, machine, out, report
        self._walk = Walk(statement, machine)
        self._predicted = np.searchsorted(statement.classes, cert.predictions)

    def clean(self) -> None:
        """Predictions and scores before any change."""
        cert, statement, walk = self._cert, self._statement, self._walk
        codes = statement.codes[None, :]
        models = walk.trained(codes)
        yes, decided = (array[0] for array in walk.changed(codes, self._predicted, models))
        wrong = np.flatnonzero((cert.radius_lower > 0) & (yes | ~decided))
        self._out.require(
            "predictions",
            not wrong.size,
            f"{int((cert.radius_lower > 0).sum())} clean predictions, by training from scratch",
            f"the clean prediction of node {wrong[0] if wrong.size else 0} is another one, or tied",
        )
        for t in np.flatnonzero(yes & (cert.radius_upper == 0)).tolist():
            own = int(self._predicted[t])
            ahead = [walk.compare(statement.codes, t, own, c) for c in range(statement.n_classes) if c != own]
            if None not in ahead and min(a for a in ahead if a is not None) == 0:
                self._predicted[t] = TIED
        plain, its_machine = self._shown
        if plain is not statement:
            models = Walk(plain, its_machine).trained(plain.codes[None, :])
        far = [t for t in range(statement.n) if not self._shown_rightly(t, models)]
        self._out.require(
            "decision values",
            not far,
            f"within {SCORE_TOLERANCE:g} of what the labels could give",
            f"the score of node {far[0] if far else 0} is another one",
        )

    def _shown_rightly(self, t: int, models: list[Trained]) -> bool:
        """Whether the clean scores of one node are close to those that the certificate shows."""
        cert, (statement, machine) = self._cert, self._shown
        shown = (
            cert.decision_values[t]
            if cert.decision_values.ndim == 2
            else [-cert.decision_values[t], cert.decision_values[t]]
        )
        close = SCORE_TOLERANCE * 2.0 * statement.C * float(np.abs(statement.K_test[t]).sum()) + 1e-290
        for c, one in enumerate(models):
            score, error = machine.shown(np.array([one.value[0, t], one.error[0, t]], dtype=object))
            if error > close:
                solved = machine.exact(np.where(statement.codes == c, 1.0, -1.0))
                if solved is None:
                    continue
                score = machine.shown(np.array([Fraction(int(solved[0][t]), solved[1])], dtype=object))[0]
            if not abs(score - shown[c]) <= close + error:
                return False
        return True

    def witnesses(self) -> None:
        """The attack on each node."""
        cert, statement = self._cert, self._statement
        attacks = [cert.node_attacks[t] for t in range(statement.n)]
        claimed = np.flatnonzero(cert.radius_upper < statement.never)
        for t in range(statement.n):
            labels, targets = attacks[t]
            if t not in claimed and (labels.size or cert.new_classes[t] != -1):
                self._wrong("witnesses", f"node {t} has a witness, but no upper end of its radius")
            elif t in claimed and not statement.admits(labels, targets, int(cert.radius_upper[t])):
                self._wrong("witnesses", f"the threat does not admit the witness of node {t} within its radius")
            elif t in claimed and statement.cost(labels) != cert.radius_upper[t]:
                self._wrong("witnesses", f"the witness of node {t} costs less than its radius")
        if not claimed.size or not self._out.accepted:
            return
        codes = np.array([statement.relabelled(*attacks[t]) for t in claimed])
        models = self._walk.trained(codes)
        yes, _ = self._walk.changed(codes, self._predicted, models)
        for k, t in enumerate(claimed.tolist()):
            if not yes[k, t]:
                self._wrong("witnesses", f"the witness of node {t} does not change it")
            elif cert.radius_upper[t] > 0 and not self._takes_over(codes[k], models, k, t):
                self._wrong("witnesses", f"the witness of node {t} does not turn it into the class that is named")
        if self._out.accepted:
            self._out.add(
                "witnesses", CheckStatus.PROVED, f"{claimed.size} attacks on single nodes, by training from scratch"
            )

    def attacks_of_curve(self) -> None:
        """The attacks behind the lower curve."""
        cert, statement = self._cert, self._statement
        codes = [statement.relabelled(*cert.curve_attacks[k]) for k in range(len(cert.curve_attacks))]
        yes, decided = self._changed(np.array(codes))
        for b, k in enumerate(cert.curve_attack_of.tolist()):
            if not statement.admits(*cert.curve_attacks[k], b):
                self._wrong("collective attacks", f"the threat does not admit the attack for budget {b}")
            elif int(yes[k].sum()) < cert.collective_lower[b]:
                self._wrong("collective attacks", f"the attack for budget {b} changes only {int(yes[k].sum())} nodes")
        for k in range(len(codes)):
            if np.any(cert.curve_changed[k] & ~yes[k]) or np.any(~cert.curve_changed[k] & yes[k] & decided[k]):
                self._wrong("collective attacks", f"attack {k} of the curve changes other nodes than those named")
        if self._out.accepted:
            self._out.add("collective attacks", CheckStatus.PROVED, f"{len(codes)} attacks, by training from scratch")

    def bounds(self, share: float | None, rng: np.random.Generator, time_limit: float | None) -> None:
        """Lower ends of radii and upper ends of the curve."""
        cert, statement, out = self._cert, self._statement, self._out
        lower, most = cert.radius_lower, cert.collective_upper
        if np.any(lower > statement.budget + 1):
            self._wrong("radii", "a radius is claimed beyond the largest budget")
            return
        if np.any(np.diff(most) < 0) or np.any(np.diff(cert.collective_lower) < 0):
            self._wrong("curve", "a larger budget is said to change fewer nodes")
            return
        proved = np.minimum(lower, 1)
        ways: list[str] = []
        if isinstance(self._machine, LinearTrainer):
            self._report("closed form")
            exact = np.minimum(lower, proved_radii(statement, self._machine, self._predicted))
            ways += [f"{int((exact > proved).sum())} by closed form"] * bool((exact > proved).any())
            proved = np.maximum(proved, exact)
        trees = Trees(cert, statement, self._machine, self._predicted, self._report)
        by_tree = np.minimum(lower, trees.proved_radii())
        ways += [f"{int((by_tree > proved).sum())} by stored search trees"] * bool((by_tree > proved).any())
        proved = np.maximum(proved, by_tree)
        curve = np.array([int((lower <= b).sum()) for b in range(statement.budget + 1)])
        curve = np.minimum(curve, trees.proved_curve())
        curve = np.minimum.accumulate(curve[::-1])[::-1]
        open_radii, open_curve = proved < lower, most < curve
        if not open_radii.any() and not open_curve.any():
            out.add("radii", CheckStatus.PROVED, self._radii_text(lower, ways))
            out.add("curve", CheckStatus.PROVED, self._curve_text(trees.used))
            return
        claims = Claims(
            predicted=self._predicted,
            reach=np.where(open_radii, lower - 1, -1),
            most=np.minimum.accumulate(np.where(open_curve, most, statement.n)[::-1])[::-1],
        )
        self._by_walking(claims, share, rng, time_limit, (ways, trees.used))

    def _by_walking(
        self,
        claims: Claims,
        share: float | None,
        rng: np.random.Generator,
        time_limit: float | None,
        before: tuple[list[str], str],
    ) -> None:
        statement, out = self._statement, self._out
        total = count_relabellings(statement, claims.budget)[0][claims.budget]
        started = time.monotonic()

        def over(visited: int) -> bool:
            self._report(f"walk: {visited:,} of at most {total:,} relabellings")
            return time_limit is not None and time.monotonic() - started > time_limit

        if share is None:
            found = self._walk.prove(claims, over=over)
            how = f"a walk through all {total:,} relabellings, {found.visited:,} of them trained on"
        else:
            count = max(1, round(share * total))
            found = self._walk.sample(claims, random_relabellings(statement, claims.budget, count, rng), over=over)
            how = f"{found.visited:,} of {total:,} relabellings, drawn at random"
        status = self._status(found, share)
        radii, curve = claims.reach >= 0, claims.most < statement.n
        ways, tree_text = before
        if status is CheckStatus.WRONG:
            out.add("radii" if radii.any() else "curve", status, found.contradictions[0])
            return
        if status is CheckStatus.NOT_CHECKED:
            how = f"{how}; {found.undecided} comparisons or parts of the walk are open"
        text = self._radii_text(self._cert.radius_lower, [*ways, f"{int(radii.sum())} by {how}"])
        out.add(
            "radii",
            status if radii.any() else CheckStatus.PROVED,
            text if radii.any() else self._radii_text(radii, ways),
        )
        # The curve rests on the radii: it is proved no better than they are.
        out.add("curve", status, how if curve.any() else self._curve_text(tree_text))

    @staticmethod
    def _status(found: WalkOutcome, share: float | None) -> CheckStatus:
        if found.contradictions:
            return CheckStatus.WRONG
        if found.undecided:
            return CheckStatus.NOT_CHECKED
        return CheckStatus.PROVED if share is None else CheckStatus.SAMPLED

    def _radii_text(self, lower: Int | Bool, ways: list[str]) -> str:
        return f"{lower.size} lower ends: {', '.join(ways)}" if ways else f"{lower.size} lower ends, by clean training"

    def _curve_text(self, tree_text: str) -> str:
        return f"upper ends, from the radii{tree_text}"

    def _changed(self, codes: Int) -> tuple[Bool, Bool]:
        return self._walk.changed(codes, self._predicted)

    def _takes_over(self, codes: Int, models: list[Trained], k: int, t: int) -> bool:
        """Whether no class but the predicted one has a higher score than the one that a witness is said to lead to."""
        own, new = int(self._predicted[t]), int(self._cert.new_classes[t])
        if new in (-1, own):
            return False
        for c in range(self._statement.n_classes):
            ahead, doubt = (
                models[new].value[k, t] - models[c].value[k, t],
                models[new].error[k, t] + models[c].error[k, t],
            )
            if c not in (new, own) and ahead <= doubt and (self._walk.compare(codes, t, new, c) or 0) < 0:
                return False
        return True

    def _wrong(self, what: str, why: str) -> None:
        self._out.add(what, CheckStatus.WRONG, why)
