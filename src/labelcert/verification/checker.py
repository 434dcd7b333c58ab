"""The checks of one certificate, in their order: kernel, clean predictions, attacks, and what bounds them."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from fractions import Fraction

import numpy as np

from labelcert.arrays import Bool, Int
from labelcert.certificate import Certificate
from labelcert.verification.linear_radii import proved_radii
from labelcert.verification.machines import LinearTrainer, Trained, Trainer
from labelcert.verification.pacing import Pace
from labelcert.verification.record import WORST_VALUES
from labelcert.verification.relabellings import (
    BELOW,
    EQUAL,
    TIED,
    UNDECIDED,
    Claims,
    Walk,
    WalkOutcome,
    count_relabellings,
    every_relabelling,
    random_relabellings,
)
from labelcert.verification.statement import LINEAR, VOTES, Statement
from labelcert.verification.trainers import is_linear, machine_of
from labelcert.verification.trees import Trees
from labelcert.verification.verdict import CheckStatus, Verification
from labelcert.verification.worst_values import CLOSE, MetricClaim

SCORE_TOLERANCE = 1e-6
"""How far a score that is shown may be off, as a share of the largest score that the labels could give."""

MOST_LOOKED_AT = 20_000
"""Relabellings that are all looked at where nothing is bounded; for radii beyond that, somebody asks for a share."""

TOGETHER = 64
"""Witnesses that are trained on at a time, each for its own node."""


class Checker:
    """One verification, step by step.

    Attributes
    ----------
    steps : list
        The lines that each step adds, and the step.
    stuck : bool
        Whether nothing more can be checked.
    """

    trains_as_one = True
    """Whether one model is trained again on a relabelling, and nothing else decides what it predicts."""

    def __init__(
        self,
        cert: Certificate,
        statement: Statement,
        out: Verification,
        pace: Pace,
        share: float | None,
        rng: np.random.Generator,
    ) -> None:
        self._cert, self._out, self._pace, self._share, self._rng = cert, out, pace, share, rng
        statement = statement.in_blocks()
        self._given = self._statement = statement
        self._predicted = np.searchsorted(statement.classes, cert.predictions)
        if cert.run.margin and statement.combine != VOTES:
            margins = np.broadcast_to(np.asarray(cert.run.margin, dtype=np.float64), statement.n)
            self._statement = statement.lowered(self._predicted, len(statement.blocks) * margins)  # of sums, not means
        self._claimed = np.flatnonzero(cert.radius_upper < statement.never)
        self._uncertain = (cert.radius_lower == 0) & (cert.radius_upper == statement.never)
        self.stuck = False
        pace.total = 3 * statement.n + self._claimed.size + len(cert.curve_attacks) + statement.budget + 1
        self.steps: list[tuple[tuple[str, ...], Callable[[], None]]] = [
            (("kernel",), self.kernel),
            (("predictions",), self.predictions),
            (("decision values",), self.scores),
            (("witnesses",), self.witnesses),
            (("collective attacks",), self.attacks_of_curve),
            (("radii", "curve"), self.bounds),
        ]
        self._metrics = MetricClaim.all_of(cert) if self.trains_as_one else []
        self.steps += [(("metrics",), self.metrics)] if self._metrics else []

    def kernel(self) -> None:
        """Whether there is a model at all; prepares its training."""
        self._pace.begin("kernel")
        if why := self._given.out_of_reach:
            self._out.add("kernel", CheckStatus.NOT_CHECKED, why)
            self.stuck = True
            return
        if not np.array_equal(self._statement.K_train, self._statement.K_train.T):
            self._wrong("kernel", "K_train is not symmetric")
            return
        self._prepare()

    def _prepare(self) -> None:
        """Everything that training needs."""
        linear = is_linear(self._statement, self._pace)
        machine = self._machine = machine_of(self._statement, linear, self._pace)
        if not self._sound([machine]):
            return
        plain = machine if self._given is self._statement else machine_of(self._given, linear, self._pace)
        self._walk, self._plain = Walk(self._statement, machine), Walk(self._given, plain)
        self._shown: Trainer = plain
        codes = self._given.codes[None, :]
        self._models = self._plain.trained(codes)

    def _sound(self, machines: list[Trainer]) -> bool:
        """Whether kernels are kernels, as far as machines could check it; says so."""
        problems = [what for machine in machines for what in machine.problems]
        about = dict.fromkeys(machine.about for machine in machines)
        self._out.require("kernel", not problems, "; ".join(about), "; ".join(problems))
        for what in dict.fromkeys(what for machine in machines for what in machine.unchecked):
            self._out.add("kernel", CheckStatus.NOT_CHECKED, what)
            self.stuck = True
        return not self.stuck and not problems

    def predictions(self) -> None:
        """Clean predictions: no class has a higher score, and leads are what radii of 0 and more say."""
        cert, statement, out = self._cert, self._statement, self._out
        self._pace.begin("predictions")
        standing = self._plain.standing(self._given.codes, self._predicted, self._models)
        tie = standing == EQUAL
        # Of two classes, the second one is shown where the score is 0.
        misshown = tie & (self._predicted == 0) & (statement.n_classes == 2)
        wrong = (standing == BELOW) | (tie & (cert.radius_lower > 0)) | misshown
        open_ = (standing == UNDECIDED) & ~self._uncertain
        if statement is not self._given:
            yes, decided = (a[0] for a in self._walk.changed(statement.codes[None, :], self._predicted))
            leads = cert.radius_lower > 0
            wrong |= leads & yes
            open_ |= leads & ~decided
        if wrong.any():
            self._wrong("predictions", f"the clean prediction of node {int(wrong.argmax())} is another one, or tied")
            return
        # A tie that is claimed, and that arithmetic cannot decide.
        self._doubtful = (standing == UNDECIDED) & (cert.radius_upper == 0) & (cert.new_classes == -1)
        self._predicted = np.where((tie & (cert.radius_upper == 0)) | self._doubtful, TIED, self._predicted)
        text = f"{statement.n - int(open_.sum())} clean predictions, by training from scratch"
        if self._uncertain.any():
            text += f"; {int(self._uncertain.sum())} are not certain, as the certificate says"
        out.add("predictions", CheckStatus.NOT_CHECKED if open_.any() else CheckStatus.PROVED, text)
        self._pace(done=statement.n - int(open_.sum()))

    def scores(self) -> None:
        """Clean scores that are shown."""
        far = []
        self._pace.begin("decision values")
        for t in range(self._given.n):
            if not self._shown_rightly(t, self._models):
                far.append(t)
            self._pace(done=1)
        self._out.require(
            "decision values",
            not far,
            f"within {SCORE_TOLERANCE:g} of what the labels could give",
            f"the score of node {far[0] if far else 0} is another one",
        )

    def _shown_rightly(self, t: int, models: list[Trained]) -> bool:
        """Whether the clean scores of one node are close to those that the certificate shows."""
        cert, statement, machine = self._cert, self._given, self._shown
        one = cert.decision_values[t]
        shown = one if cert.decision_values.ndim == 2 else np.array([-one, one])
        if statement.part_of is not None:
            shown = len(statement.blocks) * shown  # means, of sums
        if statement.loss == LINEAR and cert.decision_values.ndim == 2:
            shown = 2.0 * shown - statement.K_test[t].sum()  # models are trained on ±1, and scores count ones
        close = self._close(t)
        for c, model in enumerate(models):
            score, error = machine.shown(np.array([model.value[0, t], model.error[0, t]], dtype=object))
            if error > close:
                solved = machine.exact(np.where(statement.codes == c, 1.0, -1.0))
                if solved is None:
                    continue
                score = machine.shown_exactly(Fraction(int(solved[0][t]), solved[1]))
                error = 0.0
            if not abs(score - shown[c]) <= close + error:
                return False
        return True

    def witnesses(self) -> None:
        """The attack on each node."""
        cert, statement, claimed = self._cert, self._statement, self._claimed
        self._pace.begin("witnesses")
        attacks = [cert.node_attacks[t] for t in range(statement.n)]
        for t in range(statement.n):
            if wrong := self._misfit(t, *attacks[t]):
                self._wrong("witnesses", wrong)
                return
        open_ = 0
        alike = sorted(claimed.tolist(), key=lambda t: attacks[t][0].tolist())  # each labelling is trained on once
        for start in range(0, claimed.size, TOGETHER):
            nodes = np.array(alike[start : start + TOGETHER])
            walk = self._walk.only(nodes)
            codes = np.array([statement.relabelled(*attacks[t]) for t in nodes])
            models = walk.trained(codes)
            own, unnamed = np.eye(nodes.size, dtype=bool), np.zeros(nodes.size, dtype=bool)
            yes, decided = (np.diagonal(a) for a in walk.changed(codes, self._predicted[nodes], models, at=own))
            for k, t in enumerate(nodes.tolist()):
                if not yes[k] and decided[k]:
                    self._wrong("witnesses", f"the witness of node {t} does not change it")
                    continue
                named = cert.new_classes[t] < 0 or self._takes_over(walk, codes[k], models, k, t)
                if named is False:
                    self._wrong("witnesses", f"the witness of node {t} does not turn it into the class that is named")
                unnamed[k] = named is None
            open_ += int(((~yes & ~decided) | self._doubtful[nodes] | unnamed).sum())
            if not self._out.accepted:
                return
            self._pace(done=int((yes & ~self._doubtful[nodes]).sum()))
        if claimed.size:
            how = f"{claimed.size - open_} attacks on single nodes, by training from scratch"
            self._out.add("witnesses", CheckStatus.NOT_CHECKED if open_ else CheckStatus.PROVED, how)

    def _misfit(self, t: int, labels: Int, targets: Int) -> str:
        """What the witness of a node has against its radius, without any training."""
        cert, statement = self._cert, self._statement
        radius, named = int(cert.radius_upper[t]), int(cert.new_classes[t]) != -1
        if radius == statement.never:
            return f"node {t} has a witness, but no upper end of its radius" if labels.size or named else ""
        spent = statement.price(labels, targets, None if cert.node_votes is None else cert.node_votes[t])
        if spent is None or spent > radius:
            return f"the threat does not admit the witness of node {t} within its radius"
        if spent != radius:
            return f"the witness of node {t} costs less than its radius"
        if named == (self._predicted[t] == TIED):
            return f"the witness of node {t} names {'a' if named else 'no'} class that it is turned into"
        return ""

    def attacks_of_curve(self) -> None:
        """The attacks behind the lower curve."""
        cert, statement = self._cert, self._statement
        self._pace.begin("collective attacks")
        codes = np.array([statement.relabelled(*cert.curve_attacks[k]) for k in range(len(cert.curve_attacks))])
        self._fit_curve()
        open_ = 0
        for k in range(len(codes)):
            if not self._out.accepted:
                return
            yes, decided = (a[0] for a in self._walk.changed(codes[k : k + 1], self._predicted))
            named, sure = cert.curve_changed[k], decided & ~self._uncertain
            if np.any(named & ~yes & sure):
                self._wrong("collective attacks", f"attack {k} of the curve changes other nodes than those named")
            # Nodes of which whoever certified was not certain may change beside them, as far as the upper end says.
            most = cert.collective_upper[cert.curve_attack_of == k].min(initial=statement.n)
            if np.sum(yes & sure) > most:
                self._wrong("collective attacks", f"attack {k} of the curve changes more nodes than {most}")
            open_ += int(np.sum(named & (~yes | self._doubtful)))
            self._pace(done=1)
        if self._out.accepted:
            how = f"{len(codes)} attacks, by training from scratch"
            how += f"; of {open_} nodes, nothing proves that they change" if open_ else ""
            self._out.add("collective attacks", CheckStatus.NOT_CHECKED if open_ else CheckStatus.PROVED, how)

    def _fit_curve(self) -> None:
        """What attacks cost and how many nodes they are said to change, without any training."""
        cert = self._cert
        counts = cert.curve_changed.sum(axis=1)
        for b, k in enumerate(cert.curve_attack_of.tolist()):
            votes = None if cert.curve_votes is None else cert.curve_votes[k]
            spent = self._statement.price(*cert.curve_attacks[k], votes)
            if spent is None or spent > b:
                self._wrong("collective attacks", f"the threat does not admit the attack for budget {b}")
            elif counts[k] != cert.collective_lower[b]:
                self._wrong("collective attacks", f"the attack for budget {b} changes {counts[k]} nodes")

    def bounds(self) -> None:
        """Lower ends of radii and upper ends of the curve."""
        cert, statement, out = self._cert, self._statement, self._out
        lower, most = cert.radius_lower, cert.collective_upper
        self._pace.begin("radii")
        if np.any(lower > statement.budget + 1):
            self._wrong("radii", "a radius is claimed beyond the largest budget")
            return
        if np.any(np.diff(most) < 0) or np.any(np.diff(cert.collective_lower) < 0):
            self._wrong("curve", "a larger budget is said to change fewer nodes")
            return
        proved = np.minimum(lower, 1)
        ways: list[str] = []
        if isinstance(self._machine, LinearTrainer):
            exact = np.minimum(lower, proved_radii(statement, self._machine, self._predicted, self._pace))
            ways += [f"{int((exact > proved).sum())} by closed form"] * bool((exact > proved).any())
            proved = np.maximum(proved, exact)
        emptied = statement.emptying[self._predicted]  # at this cost, a class can be dropped
        proved = np.minimum(proved, np.maximum(emptied, 1))
        trees = Trees(cert, statement, self._machine, self._predicted, self._pace)
        by_tree = np.minimum(np.minimum(lower, emptied), trees.proved_radii())
        ways += [f"{int((by_tree > proved).sum())} by stored search trees"] * bool((by_tree > proved).any())
        proved = np.maximum(proved, by_tree)
        curve = np.array([int((lower <= b).sum()) for b in range(statement.budget + 1)])
        kept = np.arange(statement.budget + 1) < statement.emptying.min()
        curve = np.where(kept, np.minimum(curve, trees.proved_curve()), curve)
        curve = np.minimum.accumulate(curve[::-1])[::-1]
        open_radii, open_curve = proved < lower, most < curve
        self._pace(done=int((~open_radii).sum()) + (0 if open_radii.any() else int((~open_curve).sum())))
        if not open_radii.any() and not open_curve.any():
            out.add("radii", CheckStatus.PROVED, self._radii_text(lower, ways))
            out.add("curve", CheckStatus.PROVED, self._curve_text(trees.used))
            return
        claims = Claims(
            predicted=self._predicted,
            reach=np.where(open_radii, lower - 1, -1),
            most=np.minimum.accumulate(np.where(open_curve, most, statement.n)[::-1])[::-1],
        )
        self._by_walking(claims, ways, trees.used)

    def metrics(self) -> None:
        """Worst values of metrics: what attacks come to, and that none is worse."""
        self._pace.begin("metrics")
        for why in [claim.nonsense for claim in self._metrics if claim.nonsense]:
            self._wrong("metrics", why)
            return
        open_ = self._reached()
        if not self._out.accepted:
            return
        ways, left = self._no_worse()
        if not self._out.accepted:
            return
        words = f"{sum(claim.reached.size for claim in self._metrics)} worst values: attacks by training from scratch"
        text = "what bounds them is only stated" if left else f"what bounds them {ways}"
        self._out.add("metrics", CheckStatus.NOT_CHECKED if open_ else CheckStatus.PROVED, f"{words}, {text}")
        if not left and self._cert.metrics is not None and len(self._metrics) == self._cert.metrics.names.size:
            self._out.stated.remove(WORST_VALUES)

    def _reached(self) -> int:
        """Whether each attack comes to the end that it stands for; of how many, that is open."""
        cert, open_ = self._cert, 0
        attacks = (
            []
            if cert.metric_attacks is None
            else list(map(cert.metric_attacks.__getitem__, range(len(cert.metric_attacks))))
        )
        for k, attack in enumerate(attacks):
            cost, codes = self._statement.price(*attack), self._statement.relabelled(*attack)[None]
            for claim in self._metrics:
                budgets = np.flatnonzero(claim.attack_of == k)
                if not budgets.size:
                    continue
                if cost is None or cost > budgets[0]:
                    self._wrong(
                        "metrics", f"the threat does not admit the attack on {claim.name} for budget {budgets[0]}"
                    )
                    return 0
                sure, perhaps = (float(a[0]) for a in claim.under(self._walk, codes, self._predicted, self._unknown))
                if perhaps > claim.reached[budgets].min() + CLOSE:
                    self._wrong(
                        "metrics", f"the attack on {claim.name} for budget {budgets[0]} does not come to its value"
                    )
                    return 0
                if sure < claim.proved[cost:].max() - CLOSE:
                    self._wrong("metrics", f"an attack on {claim.name} that costs {cost} is worse than what is proved")
                    return 0
                open_ += sure > claim.reached[budgets].min() + CLOSE
            self._pace()
        return open_

    @property
    def _unknown(self) -> Bool:
        """(n,) nodes of which nothing is certain."""
        return np.asarray(self._uncertain | self._doubtful)

    def _no_worse(self) -> tuple[str, bool]:
        """How it is proved that no attack is worse, and whether it is not."""
        cert = self._cert
        sound = {c.what: c.status for c in self._out.checks}
        known = all(sound.get(what) is CheckStatus.PROVED for what in ("radii", "curve"))
        clean = np.searchsorted(self._statement.classes, cert.predictions)
        most = cert.collective_upper
        if known and not self._unknown.any():
            bounds = [claim.from_radii(clean, cert.radius_lower, most) for claim in self._metrics]
            if all(np.all(claim.proved <= bound + CLOSE) for claim, bound in zip(self._metrics, bounds, strict=True)):
                return "by radii and curve", False
        total = count_relabellings(self._statement, self._statement.budget)[0][self._statement.budget]
        if self._share is not None or total > MOST_LOOKED_AT:
            return "", True
        relabellings, looked, unsure = every_relabelling(self._statement, self._statement.budget), 0, False
        while batch := list(itertools.islice(relabellings, self._walk.batch)):
            codes = np.array(batch)
            cost = np.where(codes != self._statement.codes, self._statement.costs, 0).sum(axis=1)
            looked += len(batch)
            for claim in self._metrics:
                sure, perhaps = claim.under(self._walk, codes, self._predicted, self._unknown)
                # A larger budget allows all that a smaller one does.
                room = np.maximum.accumulate(claim.proved[::-1])[::-1][cost]
                if np.any(sure < room - CLOSE):
                    self._wrong("metrics", f"a relabelling makes {claim.name} worse than what is proved")
                    return "", True
                unsure |= bool(np.any(perhaps < room - CLOSE))
            self._pace(f"looked at {looked:,} of at most {total:,} relabellings")
        return f"by a look at all {looked:,} relabellings", unsure

    def _by_walking(self, claims: Claims, ways: list[str], tree_text: str) -> None:
        statement, out, share = self._statement, self._out, self._share
        radii, curve = claims.reach >= 0, claims.most < statement.n
        if not radii.any():  # whatever becomes of the curve
            out.add("radii", CheckStatus.PROVED, self._radii_text(self._cert.radius_lower, ways))
        total = count_relabellings(statement, claims.budget)[0][claims.budget]
        outcome = WalkOutcome()

        def told(text: str) -> None:
            self._pace(f"walked through {text} of at most {total:,}")

        if share is None:
            for budget in range(claims.budget + 1):
                outcome = self._walk.prove(claims.within(budget), told)
                if outcome.undecided or outcome.contradictions:
                    break
                self._pace.done += int(np.sum((claims.reach > 0) & (claims.reach == budget)))
            how = f"a walk through all {total:,} relabellings, {outcome.visited:,} of them trained on"
        else:
            count = max(1, round(share * total))
            relabellings = random_relabellings(statement, claims.budget, count, self._rng)
            outcome = self._walk.sample(claims, relabellings, told)
            how = f"{outcome.visited:,} of {total:,} relabellings, drawn at random"
        status = self._status(outcome)
        if status is CheckStatus.WRONG:
            out.add("radii" if radii.any() else "curve", status, outcome.contradictions[0])
            return
        if status is CheckStatus.NOT_CHECKED:
            how = f"{outcome.visited:,} of {total:,} relabellings, some of which nothing decides"
        if radii.any():
            out.add("radii", status, self._radii_text(self._cert.radius_lower, [*ways, f"{int(radii.sum())} by {how}"]))
        # The curve rests on the radii: it is proved no better than they are.
        out.add("curve", status, how if curve.any() else self._curve_text(tree_text))

    def _status(self, found: WalkOutcome) -> CheckStatus:
        if found.contradictions:
            return CheckStatus.WRONG
        if found.undecided:
            return CheckStatus.NOT_CHECKED
        return CheckStatus.PROVED if self._share is None else CheckStatus.SAMPLED

    def _radii_text(self, lower: Int | Bool, ways: list[str]) -> str:
        return f"{lower.size} lower ends: {', '.join(ways)}" if ways else f"{lower.size} lower ends, by clean training"

    def _curve_text(self, tree_text: str) -> str:
        return f"upper ends, from the radii{tree_text}"

    def _takes_over(self, walk: Walk, codes: Int, models: list[Trained], k: int, t: int) -> bool | None:
        """Whether no class but the predicted one has a clearly higher score than the one that is named."""
        own, new = int(self._predicted[t]), int(self._cert.new_classes[t])
        if new == own:
            return False
        sure = True
        gone = walk.gone(codes[None])[:, 0]
        if gone[new]:
            return False
        for c in set(np.flatnonzero(~gone).tolist()) - {new, own}:
            one, other = models[new], models[c]
            apart = [one.value[k, k] - other.value[k, k], one.error[k, k] + other.error[k, k]]
            ahead, doubt = self._shown.shown(np.array(apart, dtype=object))
            if doubt > self._close(t) and (lead := walk.lead(codes, k, new, c)) is not None:
                ahead, doubt = self._shown.shown_exactly(lead), 0.0
            if ahead < -doubt - self._close(t):
                return False
            sure &= doubt <= self._close(t)
        return True if sure else None

    def _close(self, t: int) -> float:
        """Scores of a node that differ by less look alike."""
        size = self._shown.largest_dual * float(np.abs(self._given.K_test[t]).sum()) + self._shown.intercept
        return SCORE_TOLERANCE * size + 1e-290

    def _wrong(self, what: str, why: str) -> None:
        self._out.add(what, CheckStatus.WRONG, why)
