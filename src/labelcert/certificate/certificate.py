"""The answer: radii and collective curve as proved intervals, with checked witnesses."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from labelcert.arrays import Bool, Float, Int, Text, Values, frozen
from labelcert.certificate import display, owners, storage, worst_case
from labelcert.certificate.metric import CountedMetric, Measure, Metric, codes_of, true_values
from labelcert.certificate.proofs import Proofs
from labelcert.certificate.run_record import RunRecord, Stop
from labelcert.certificate.surroundings import Surroundings
from labelcert.certificate.worst_case import AskedMetrics, WorstCase
from labelcert.checking import whole_number
from labelcert.errors import InvalidInput
from labelcert.extensions import load_extensions
from labelcert.problem.budget import flips_for_fraction
from labelcert.problem.relabelling import REMOVED

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes


TRUSTED_SOLVER = "a trusted solver"
"""Stands where an engine's name would, behind an end that is a solver's claim and was asked to count as a proof."""

PAGE_WRITERS: list[Callable[..., bool]] = []
"""What writes certificates as a page: the extension `labelcert.pages` puts itself here when it is loaded."""


class Verdict(StrEnum):
    """What is known about one node at one budget."""

    ROBUST = "robust"
    VULNERABLE = "vulnerable"
    UNKNOWN = "unknown"


@dataclass(frozen=True, eq=False)
class RelabellingList:
    """Many relabellings in flat arrays: number k changes ``labels[starts[k]:starts[k + 1]]``, each to its target."""

    starts: Int
    labels: Int
    targets: Int

    @classmethod
    def pack(cls, labels: Sequence[Int], targets: Sequence[Int]) -> RelabellingList:
        """From one array of label indices, and one of classes, for each relabelling."""
        starts = np.zeros(len(labels) + 1, dtype=np.int64)
        np.cumsum([len(part) for part in labels], out=starts[1:])
        none = np.zeros(0, dtype=np.int64)
        parts = (np.concatenate([none, *flat]).astype(np.int64) for flat in (labels, targets))
        return cls(*(frozen(array) for array in (starts, *parts)))

    def __getitem__(self, k: int) -> tuple[Int, Int]:
        part = slice(self.starts[k], self.starts[k + 1])
        return self.labels[part], self.targets[part]

    def __len__(self) -> int:
        return int(self.starts.size - 1)

    def fits(self, m: int, K: int) -> bool:
        """Whether it is well formed and speaks of m labels and K classes."""
        starts, labels, targets = self.starts, self.labels, self.targets
        return bool(
            all(array.ndim == 1 and np.issubdtype(array.dtype, np.integer) for array in (starts, labels, targets))
            and starts.size >= 1
            and starts[0] == 0
            and starts[-1] == labels.size == targets.size
            and np.all(np.diff(starts) >= 0)
            and np.all((labels >= 0) & (labels < m))
            and np.all((targets >= 0) & (targets < K))
        )


@dataclass(frozen=True, eq=False)
class ListedAttacks:
    """Sets of labels whose change overturns predictions; verifying a label removes all sets that hold it.

    Set k of N holds the labels ``labels[starts[k]:starts[k + 1]]``, by their indices.
    """

    flips: int
    """No set within this budget is missing."""
    starts: Int
    labels: Int
    costs: Int
    """(N,) what changing each set costs."""
    overturned: Bool
    """(N, n) nodes that a change of exactly this set provably overturns, and that of no smaller one."""
    strongest: Int
    """(N,) the most nodes that one change of the set overturns at once."""
    at_once: Bool
    """(N, n) which nodes that change provably overturns."""


@dataclass(frozen=True, eq=False)
class Certificate:
    """What label flips can and cannot do to the predictions of one model.

    n test nodes, m labels, K classes, budgets 0..B with B = ``max_flips``. With label costs, "flips" reads "cost
    units". A certificate is detached from the problem that it answers (it holds a hash of it), immutable, and checks
    itself on construction.

    Attributes
    ----------
    predictions : (n,) array
        Clean predictions, in the labels' own values. A node whose highest score is shared has no prediction; one of
        the classes that share it is shown here, its radius is 0, and it counts as changed at every budget (the paper's
        footnote 1). With two classes that is a score of exactly 0, and ``classes[1]`` is shown.
    decision_values : (n,) array, or (n, K) for K > 2 classes
        Clean scores (float64, for information; for two classes exactly 0 only where that is proved).
    radius_lower, radius_upper : (n,) arrays
        The fewest flips that change each prediction lie between these. ``never`` (m + 1 by default) in
        ``radius_upper``: no change is known. Beyond ``max_flips`` nothing is claimed: a node that survives
        every attack within it has ``radius_lower = max_flips + 1``. A node whose clean score is too close to 0 to
        be decided at all has the interval from 0 to ``never``, and its prediction is not certain.
    collective_lower, collective_upper : (B + 1,) arrays
        The most predictions that one attack of at most b flips changes, index b.
    radius_claimed : (n,) array
        Lower ends of radii if a solver's own word counts, which proves nothing; ``radius_lower`` where it claims no
        more. Only the engine ``"milp-paper"`` makes such claims. With ``trust_solver=True`` they are in
        ``radius_lower``.
    collective_claimed : (B + 1,) array
        Upper ends of the curve, in the same way.
    labels, classes : arrays
        Training labels and their distinct values.
    radius_proved_by : (n,) array
        Which engine proved each ``radius_lower`` (empty: none had to; "a trusted solver": it is a claim).
    collective_proved_by : (B + 1,) array
        Which engine proved each ``collective_upper``.
    new_classes : (n,) array
        Position in ``classes`` of what each node's witness turns it into (-1: there is no witness).
    max_flips, never : int
    run : RunRecord
        How it was computed: engines, statistics, versions, hash of the problem, why it stopped.
    node_attacks, curve_attacks : RelabellingList
        The witness of each node, and the distinct witnesses of the curve.
    curve_attack_of : (B + 1,) array
        Which of the latter belongs to each budget.
    curve_changed : (N, n) array
        Which nodes each distinct witness of the curve changes.
    test_names, label_names : (n,) and (m,) arrays of str, or None
        What test nodes and labelled nodes are called.
    class_list : array of str, or None
        All class names of the graph, in the order of its class codes.
    around : Surroundings or None
        The graph, for pictures of it.
    K_train, K_test : arrays or None
        The kernels that were certified; None after loading a file that does not hold them.
    node_votes, curve_votes : RelabellingList or None
        Where budgets count annotators: the votes that each of these attacks changes, by their positions in
        ``run.threat``, and what they are for then.
    part_votes : (n, k, R) array or None
        Of models that nobody knows: the classes that each of k models ranks first to last for each test point, as
        positions in ``classes``; R is 1 where votes alone count. Predictions and radii follow from them.
    metrics : AskedMetrics or None
        Metrics that were asked for with the certificate, and their worst values: see :meth:`worst_case`.
    metric_attacks : RelabellingList or None
        The distinct attacks behind these.
    proofs : Proofs or None
        What a search proved, in a form that :func:`labelcert.verify` can check.
    checksum : str
        SHA-256 over all of it but kernels and proofs: see :meth:`computed_checksum`.

    Examples
    --------
    >>> import labelcert
    >>> cert = labelcert.certify([[2, 0], [0, 2]], ["cat", "dog"], [[1, 0], [1, 2]], C=1.0)
    >>> cert.predictions.tolist(), cert.radius_lower.tolist(), cert.collective_lower.tolist()
    (['cat', 'dog'], [1, 1], [0, 1, 2])
    >>> cert.witness(1)
    {1: 'cat'}
    """

    predictions: Values
    decision_values: Float
    radius_lower: Int
    radius_upper: Int
    radius_claimed: Int
    collective_lower: Int
    collective_upper: Int
    collective_claimed: Int
    labels: Values
    classes: Values
    max_flips: int
    never: int
    run: RunRecord
    node_attacks: RelabellingList
    curve_attacks: RelabellingList
    curve_attack_of: Int
    curve_changed: Bool
    radius_proved_by: Text
    collective_proved_by: Text
    new_classes: Int
    test_names: Text | None = None
    label_names: Text | None = None
    class_list: Text | None = None
    around: Surroundings | None = None
    K_train: Float | None = None
    K_test: Float | None = None
    proofs: Proofs | None = None
    node_votes: RelabellingList | None = None
    curve_votes: RelabellingList | None = None
    part_votes: Int | None = None
    metrics: AskedMetrics | None = None
    metric_attacks: RelabellingList | None = None
    checksum: str = ""

    def __post_init__(self) -> None:
        if wrong := self._contradiction():
            raise InvalidInput(f"the fields of a certificate contradict each other: {wrong}")

    @property
    def n_classes(self) -> int:
        """Number of classes K, of the labels that were trained on."""
        return int(self.classes.size)

    @property
    def n_test(self) -> int:
        """Number of test nodes."""
        return int(self.radius_lower.size)

    @property
    def engine(self) -> str:
        """The engines that proved it."""
        return self.run.engine

    @property
    def last_flips(self) -> int:
        """The largest budget worth showing: ``max_flips``, or less where the adversary cannot spend so much."""
        return self.max_flips if self.run.spendable is None else min(self.max_flips, self.run.spendable)

    @property
    def black_box_radius(self) -> Int | None:
        """(n,) radii of an ensemble on parts of the labels that follow from counting votes alone; None without parts.

        They are about votes, also where mean scores are certified.
        """
        found = [
            stage.statistics["black_box_radius"] for stage in self.run.stages if "black_box_radius" in stage.statistics
        ]
        return np.array(found[0], dtype=np.int64) if found else None

    @property
    def settings(self) -> dict[str, Any]:
        """The run record in plain JSON values: engine, why it stopped, seconds, kernel shift, and so on."""
        return self.run.plain()

    @property
    def exact(self) -> bool:
        """Whether nothing within ``max_flips`` is open: every radius up to it and, if asked for, the whole curve."""
        curve = np.array_equal(self.collective_lower, self.collective_upper)
        return bool(self.settled.all() and (curve or not self.run.collective))

    @property
    def settled(self) -> Bool:
        """(n,) for which nodes nothing within ``max_flips`` is open."""
        return np.asarray((self.radius_lower == self.radius_upper) | (self.radius_lower > self.max_flips))

    @property
    def state(self) -> str:
        """In words: exact, or why not; and whether a solver is trusted, or claims more."""
        if self.exact:
            return "exact, trusting the solver" if self.trusts_solver else "exact"
        if self.run.finds_attacks:
            trusting = ", trusting the solver" if self.trusts_solver else ""
            return f"intervals ({self.run.stopped}{self._claims}){trusting}"
        return "lower bounds" if self.run.stopped is Stop.FINISHED else f"lower bounds ({self.run.stopped})"

    @property
    def trusts_solver(self) -> bool:
        """Whether anything rests on claims of a solver: then ``trust_solver=True`` was asked for."""
        return TRUSTED_SOLVER in self.radius_proved_by or TRUSTED_SOLVER in self.collective_proved_by

    @property
    def _claims(self) -> str:
        radii = int(np.sum(self.radius_claimed > self.radius_lower))
        points = int(np.sum(self.collective_claimed < self.collective_upper))
        if radii + points == 0:
            return ""
        return f"; claimed by the solver: {radii} of {self.n_test} radii, {points} of {self.max_flips + 1} curve points"

    def witness(self, t: int | str, *, names: bool = False) -> dict[Any, Any] | None:
        """The flips that realise ``radius_upper[t]``: ``{index of label: new label}``; None where none is known.

        They have been checked: training on these labels provably changes the prediction of node ``t``.

        Parameters
        ----------
        t : int or str
            The test node: its index, or its name.
        names : bool
            Whether to name labels instead of counting them, where they have names.

        Examples
        --------
        >>> import labelcert
        >>> cert = labelcert.certify([[2, 0], [0, 2]], ["cat", "dog"], [[1, 0], [1, 2]], C=1.0)
        >>> cert.witness(0)
        {0: 'dog'}
        """
        t = self.node(t)
        if self.radius_upper[t] >= self.never:
            return None
        return self.in_labels(self.node_attacks, t, names)

    def collective_witness(self, b: int, *, names: bool = False) -> dict[Any, Any]:
        """Flips within budget ``b`` that provably change ``collective_lower[b]`` predictions at once.

        Labels are named as in :meth:`witness`.

        Examples
        --------
        >>> import labelcert
        >>> cert = labelcert.certify([[2, 0], [0, 2]], ["cat", "dog"], [[1, 0], [1, 2]], C=1.0)
        >>> cert.collective_witness(1), cert.collective_changed(1).tolist()
        ({0: 'dog'}, [True, False])
        """
        return self.in_labels(self.curve_attacks, self._attack_at(b), names)

    def witness_votes(self, t: int | str) -> dict[str, dict[Any, Any]] | None:
        """Who says what in the witness of node ``t``: ``{annotator: {index of label: what they vote for}}``.

        Only where budgets count annotators. None where no witness is known.

        Examples
        --------
        >>> import labelcert
        >>> threat = labelcert.Threat(annotators=["ann", "bob", "cy", "cy"])
        >>> H = [[1, 1, 0, 1], [1, 0, 1, 0.5]]
        >>> cert = labelcert.certify_linear(H, ["a", "a", "b", "b"], threat=threat)
        >>> cert.radius_lower.tolist(), cert.witness_votes(0)
        ([1, 1], {'ann': {0: 'b'}})
        """
        t = self.node(t)
        return None if self.radius_upper[t] >= self.never else self._votes(self.node_votes, t)

    def collective_votes(self, b: int) -> dict[str, dict[Any, Any]]:
        """Who says what in the attack of :meth:`collective_witness`, as in :meth:`witness_votes`."""
        return self._votes(self.curve_votes, self._attack_at(b))

    def _votes(self, attacks: RelabellingList | None, k: int) -> dict[str, dict[Any, Any]]:
        if attacks is None:
            raise InvalidInput("the certificate counts labels, not annotators; use witness or collective_witness")
        ballots, found = owners.ballots(self.run), dict[str, dict[Any, Any]]()
        for vote, c in zip(*attacks[k], strict=True):
            i, who, _ = ballots[vote]
            found.setdefault(str(who), {})[i] = self.classes[c].item()
        return found

    def annotators(self) -> pd.DataFrame:
        """One row for each annotator, by influence; only where budgets count annotators.

        ``votes`` is how many there are; ``alone``, how many predictions the annotator provably changes without anybody
        else (``alone_upper``, with those that are open); ``only``, how many of these nobody else changes alone: they
        survive any single annotator once this one is known to be honest.

        Examples
        --------
        >>> import labelcert
        >>> threat = labelcert.Threat(annotators=["ann", "bob", "cy", "cy"])
        >>> H = [[1, 1, 0, 1], [1, 0, 1, 0.5]]
        >>> cert = labelcert.certify_linear(H, ["a", "a", "b", "b"], threat=threat)
        >>> cert.annotators()["alone"].to_dict()
        {'cy': 1, 'ann': 1, 'bob': 1}
        """
        return owners.table(self.run, self.radius_upper == 0)

    def audit(self, count: int = 3, *, order: Sequence[str] | None = None) -> pd.DataFrame:
        """Whom to audit first: in which order annotators make most predictions survive any other one alone.

        One row for each of at most ``count`` annotators, chosen one after the other, with the number (``survive``) and
        share of predictions that no single annotator changes who is not above. It is proved for each row; no claim is
        made that no other choice of as many annotators would do better. With an ``order`` of annotators, what that one
        comes to instead.

        Examples
        --------
        >>> import labelcert
        >>> threat = labelcert.Threat(annotators=["ann", "bob", "cy", "cy"])
        >>> H = [[1, 1, 0, 1], [1, 0, 1, 0.5]]
        >>> cert = labelcert.certify_linear(H, ["a", "a", "b", "b"], threat=threat)
        >>> cert.audit(3)["survive"].to_dict(), cert.audit(order=["ann"])["survive"].to_dict()
        ({'cy': 1, 'ann': 1, 'bob': 2}, {'ann': 0})
        """
        return owners.audit(self.run, self.radius_upper == 0, whole_number("count", count, 1), order)

    def node(self, t: int | str) -> int:
        """The index of a test node, from its index or its name."""
        if isinstance(t, str):
            found = [] if self.test_names is None else np.flatnonzero(self.test_names == t).tolist()
            if len(found) != 1:
                known = "they have no names" if self.test_names is None else f"such as {self.test_names[0]!r}"
                raise InvalidInput(
                    f"{'several' if found else 'no'} test nodes are called {t!r} ({known}); give an index"
                )
            return int(found[0])
        whole_number("a test node", t, None)
        if not -self.n_test <= t < self.n_test:
            raise InvalidInput(f"there is no test node {t}: nodes are 0 to {self.n_test - 1}")
        return t % self.n_test

    def collective_changed(self, b: int) -> Bool:
        """(n,) which predictions the attack of :meth:`collective_witness` provably changes."""
        changed: Bool = self.curve_changed[self._attack_at(b)]
        return changed

    def verdicts(self, budget: float | None = None, *, flips: int | None = None, fraction: float | None = None) -> Text:
        """``"robust"``, ``"vulnerable"`` or ``"unknown"`` for each node at one budget: see :class:`Verdict`.

        Parameters
        ----------
        budget : int or float
            A whole number of flips, or (as a float) a fraction of the labels; or give ``flips=`` or ``fraction=``.

        Examples
        --------
        >>> import labelcert
        >>> cert = labelcert.certify([[2, 0], [0, 2]], ["cat", "dog"], [[1, 0], [1, 2]], C=1.0)
        >>> cert.verdicts(flips=0).tolist(), cert.verdicts(flips=1).tolist()
        (['robust', 'robust'], ['vulnerable', 'vulnerable'])
        """
        b = self._budget(budget, flips, fraction)
        out = np.where(self.radius_upper <= b, Verdict.VULNERABLE.value, Verdict.UNKNOWN.value)
        return np.where(self.radius_lower > b, Verdict.ROBUST.value, out)

    def certified_ratio(
        self,
        budget: float | None = None,
        *,
        flips: int | None = None,
        fraction: float | None = None,
        collective: bool = False,
        bound: str = "lower",
    ) -> float:
        """Share of predictions that provably survive a budget.

        Parameters
        ----------
        budget : int or float
            A whole number of flips, or (as a float) a fraction ε of the labels, ⌊εm⌋ flips; or give ``flips=`` or
            ``fraction=``.
        collective : bool
            False: each node faces its own worst attack. True: one attack for all nodes.
        bound : {"lower", "upper"}
            What is proved to survive, or what is not proved to fail; equal for exact certificates.

        Examples
        --------
        >>> import labelcert
        >>> cert = labelcert.certify([[2, 0], [0, 2]], [0, 1], [[1, 0], [1, 2]], C=1.0)
        >>> cert.certified_ratio(flips=1), cert.certified_ratio(fraction=0.5, collective=True)
        (0.0, 0.5)
        """
        b = self._budget(budget, flips, fraction)
        radius = self._radius(bound)
        if collective:
            changed = self.collective_upper if bound == "lower" else self.collective_lower
            return 1.0 - float(changed[b]) / self.n_test
        return float(np.mean(radius > b))

    def certified_accuracy(
        self,
        true_labels: npt.ArrayLike,
        budget: float | None = None,
        *,
        flips: int | None = None,
        fraction: float | None = None,
        bound: str = "lower",
    ) -> float:
        """Share of nodes that are predicted correctly and provably stay so under a budget.

        Parameters
        ----------
        true_labels : (n,) array
            In the labels' own values.
        budget, flips, fraction, bound
            As in :meth:`certified_ratio`.
        """
        b = self._budget(budget, flips, fraction)
        return float(np.mean(self.correct(true_labels) & (self._radius(bound) > b)))

    def _radius(self, bound: str) -> Int:
        if bound not in ("lower", "upper"):
            raise InvalidInput(f"bound must be 'lower' or 'upper', got {bound!r}")
        return self.radius_lower if bound == "lower" else self.radius_upper

    def correct(self, true_labels: npt.ArrayLike) -> Bool:
        """(n,) which clean predictions are right; a node without one is wrong.

        Parameters
        ----------
        true_labels : (n,) array
            In the labels' own values, or as the class codes of the graph that was certified (negative: not known).
        """
        return np.asarray(
            (true_values(true_labels, self.n_test, self.classes, self.class_list) == self.predictions)
            & (self.radius_upper > 0)
        )

    def worst_case(
        self,
        metric: str | Measure | Metric = "accuracy",
        true_labels: npt.ArrayLike | None = None,
        *,
        positive: Any = None,
        groups: npt.ArrayLike | None = None,
    ) -> WorstCase:
        """The worst value of a metric over all changes of labels within each budget, as proved intervals.

        A metric that was asked for with the certificate (``certify(..., metrics=[...])``) is exact where labellings
        were walked. Of others, radii and the curve prove an interval.

        Parameters
        ----------
        metric : {"accuracy", "recall", "precision", "false_positive_rate"}, callable or Metric
            As in :class:`labelcert.Metric`.
        true_labels : (n,) array, optional
            As in :meth:`correct`; by default those that were given with the same metric, or those of the graph.
        positive, groups
            As in :class:`labelcert.Metric`.

        Examples
        --------
        >>> import labelcert
        >>> cert = labelcert.certify([[2, 0], [0, 2]], ["cat", "dog"], [[1, 0], [1, 2]], C=1.0)
        >>> worst = cert.worst_case("accuracy", ["cat", "dog"])
        >>> worst.lower.tolist(), worst.upper.tolist(), worst.witness(1)
        ([1.0, 0.5, 0.0], [1.0, 0.5, 0.0], {0: 'dog'})
        """
        if self.run.margin:
            raise InvalidInput("a metric is about predictions, and not about margins; certify without margin")
        alone = true_labels is None and positive is None and groups is None
        if not isinstance(metric, Metric):
            metric = Metric(metric, true_labels, positive=positive, groups=groups)
        elif not alone:
            raise InvalidInput("give true_labels, positive and groups to the Metric, or give its name alone")
        stored = [] if self.metrics is None else self.metrics.called(metric.name, self.n_classes)
        if alone and metric.true_labels is None and len(stored) == 1:
            return worst_case.shown(self, stored[0])
        return worst_case.shown(self, self._counted(metric, stored))

    @property
    def worst_cases(self) -> list[WorstCase]:
        """The worst values of all metrics that were asked for with the certificate."""
        asked = [] if self.metrics is None else self.metrics.asked(self.n_classes)
        return [worst_case.shown(self, one) for one in asked]

    def _counted(self, metric: Metric, stored: Sequence[CountedMetric]) -> CountedMetric:
        """A metric in numbers, with the true classes that are known."""
        if metric.true_labels is not None:
            truth = true_values(metric.true_labels, self.n_test, self.classes, self.class_list)
        elif stored:
            return metric.counted(stored[0].truth, self.classes)
        elif self.around is not None:
            truth = self.around.truth
        else:
            raise InvalidInput(f"give the true labels of the test nodes, as true_labels, to ask for {metric.name}")
        return metric.counted(codes_of(truth, self.classes), self.classes)

    def takeovers(
        self, budget: float | None = None, *, flips: int | None = None, fraction: float | None = None
    ) -> pd.DataFrame:
        """Which class is taken over by which: counts of nodes by predicted class (rows) and what they become (columns).

        Counts the nodes that a budget, given as in :meth:`certified_ratio`, provably changes, each under its own
        cheapest known attack; the new class is the one with the highest score among the others. Nodes without a clean
        prediction are left out.

        Examples
        --------
        >>> import labelcert
        >>> cert = labelcert.certify([[2, 0], [0, 2]], ["cat", "dog"], [[1, 0], [1, 2]], C=1.0)
        >>> cert.takeovers(flips=1).loc["cat", "dog"].item()
        1
        """
        import pandas as pd

        b = self._budget(budget, flips, fraction)
        index, columns = (pd.Index(self.classes.tolist(), name=name) for name in ("prediction", "becomes"))
        counts = np.zeros((self.n_classes, self.n_classes), dtype=np.int64)
        changed = (self.radius_upper > 0) & (self.radius_upper <= b)
        np.add.at(counts, (self._predicted[changed], self.new_classes[changed]), 1)
        return pd.DataFrame(counts, index=index, columns=columns)

    def radii_in_words(self) -> list[str]:
        """Each radius in words: a number, an interval, "≥ 3" where nothing larger is known, or "never"."""
        ends = zip(self.radius_lower.tolist(), self.radius_upper.tolist(), strict=True)
        return [display.interval(lower, upper, self.never) for lower, upper in ends]

    def runners_up(self) -> Values:
        """(n,) the class with the second highest clean score."""
        scores = self._class_scores.copy()
        scores[np.arange(self.n_test), self._predicted] = -np.inf
        return np.asarray(self.classes[scores.argmax(axis=1)])

    @property
    def top_scores(self) -> Float:
        """(n,) the clean score: that of the predicted class where there is one for each class."""
        if self.decision_values.ndim == 1:
            return self.decision_values
        return self.decision_values[np.arange(self.n_test), self._predicted]

    @cached_property
    def _predicted(self) -> Int:
        return np.searchsorted(self.classes, self.predictions)

    @property
    def _class_scores(self) -> Float:
        """(n, K): with one score, the model of the other class has the negative one."""
        one = self.decision_values
        return np.column_stack([-one, one]) if one.ndim == 1 else one

    def to_frame(self) -> pd.DataFrame:
        """One row per node: prediction, score, runner-up, radius, witness and what it does, all in names.

        ``radius`` is in words. ``exact`` says whether nothing within ``max_flips`` is open.

        Examples
        --------
        >>> import labelcert
        >>> cert = labelcert.certify([[2, 0], [0, 2]], ["cat", "dog"], [[1, 0], [1, 2]], C=1.0)
        >>> cert.to_frame()[["prediction", "radius", "witness"]].iloc[0].tolist()
        ['cat', '1', {0: 'dog'}]
        """
        import pandas as pd

        becomes = [None if k < 0 else self.classes[k].item() for k in self.new_classes]
        counted = self.black_box_radius
        named = self.test_names
        index = pd.RangeIndex(self.n_test, name="node") if named is None else pd.Index(named, dtype=object, name="node")
        return pd.DataFrame(
            {
                "prediction": self.predictions,
                "decision_value": self.top_scores,
                "runner_up": self.runners_up(),
                "becomes": pd.Series(becomes, dtype=object, index=index),
                "radius": self.radii_in_words(),
                "radius_lower": self.radius_lower,
                "radius_upper": self.radius_upper,
                "radius_claimed": self.radius_claimed,
                **({} if counted is None else {"black_box_radius": counted}),
                "exact": self.settled,
                "proved_by": self.radius_proved_by,
                "witness": [self.witness(t, names=True) for t in range(self.n_test)],
            },
            index=index,
        )

    def curve_frame(self) -> pd.DataFrame:
        """One row per budget: certified ratios, sample-wise and collective, and the collective attack.

        Examples
        --------
        >>> import labelcert
        >>> cert = labelcert.certify([[2, 0], [0, 2]], ["cat", "dog"], [[1, 0], [1, 2]], C=1.0)
        >>> cert.curve_frame()["collective_ratio_lower"].tolist()
        [1.0, 0.5, 0.0]
        """
        import pandas as pd

        budgets = range(self.max_flips + 1)

        def ratios(bound: str, collective: bool) -> list[float]:
            return [self.certified_ratio(flips=b, bound=bound, collective=collective) for b in budgets]

        return pd.DataFrame(
            {
                "ratio_lower": ratios("lower", False),
                "ratio_upper": ratios("upper", False),
                "changed_lower": self.collective_lower,
                "changed_upper": self.collective_upper,
                "changed_claimed": self.collective_claimed,
                "collective_ratio_lower": ratios("lower", True),
                "collective_ratio_upper": ratios("upper", True),
                "proved_by": self.collective_proved_by,
                "witness": [self.collective_witness(b, names=True) for b in budgets],
            },
            index=pd.RangeIndex(self.max_flips + 1, name="flips"),
        )

    def save(self, path: str | os.PathLike[str], *, problem: bool = False) -> None:
        """Write to a file: a zip archive of ``.npy`` arrays and ``metadata.json``.

        The file appears under its name only when it is complete.

        Parameters
        ----------
        path : path
        problem : bool
            Store the kernels, too, so that the file alone can be verified.

        Examples
        --------
        >>> import tempfile
        >>> import labelcert
        >>> cert = labelcert.certify([[2, 0], [0, 2]], ["cat", "dog"], [[1, 0], [1, 2]], C=1.0)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     cert.save(f"{folder}/pets.cert", problem=True)
        ...     labelcert.verify(labelcert.load(f"{folder}/pets.cert")).accepted
        True
        """
        arrays = self._stored_arrays()
        if problem:
            if self.K_train is None or self.K_test is None:
                raise InvalidInput(
                    "the certificate was loaded from a file without its kernels, so it cannot store them"
                )
            arrays |= {"K_train": self.K_train, "K_test": self.K_test}
        proofs = None if self.proofs is None else self.proofs.pack()
        storage.write(os.fspath(path), {**self._stored_claims(), "checksum": self.checksum}, arrays, proofs)

    def report(self, path: str | os.PathLike[str], *, name: str = "model", **options: Any) -> None:
        """Write one HTML page to click through: curves, nodes, labels, the graph, classes and where it comes from.

        The page needs no network, and no other file.

        Parameters
        ----------
        path : path
        name : str
            What to call the model there.
        **options
            Of :func:`labelcert.write_report`.

        Examples
        --------
        >>> import labelcert, pathlib, tempfile
        >>> cert = labelcert.certify([[2, 0], [0, 2]], ["cat", "dog"], [[1, 0], [1, 2]], C=1.0)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     cert.report(f"{folder}/report.html")
        ...     pathlib.Path(f"{folder}/report.html").read_text(encoding="utf-8")[:15]
        '<!DOCTYPE html>'
        """
        if not PAGE_WRITERS:
            load_extensions()
        PAGE_WRITERS[0]({name: self}, path, **options)

    def computed_checksum(self) -> str:
        """SHA-256 over all numbers and texts of the certificate: ``checksum`` as it should be."""
        return storage.checksum(self._stored_claims(), self._stored_arrays())

    def _stored_claims(self) -> dict[str, Any]:
        """What a file holds in words and numbers, but for the checksum."""
        return {"max_flips": self.max_flips, "never": self.never, "run": self.run.plain()}

    def _stored_arrays(self) -> dict[str, Values]:
        """What a file holds in arrays, but for kernels and proofs."""
        arrays = {name: getattr(self, name) for name in (*storage.ARRAYS, *storage.OPTIONAL_ARRAYS)}
        for name in (*storage.ATTACKS, *storage.OPTIONAL_ATTACKS):
            if (attacks := getattr(self, name)) is not None:
                arrays |= {f"{name}_{part}": getattr(attacks, part) for part in storage.ATTACK_PARTS}
        if self.around is not None:
            arrays |= {f"graph_{part}": getattr(self.around, part) for part in storage.AROUND}
        if self.metrics is not None:
            arrays |= {f"metric_{part}": getattr(self.metrics, part) for part in storage.METRICS}
        return {name: array for name, array in arrays.items() if array is not None}

    def summary(self) -> str:
        """The answer in three sentences, then what survives a few budgets, in at most 80 columns.

        Examples
        --------
        >>> import labelcert
        >>> cert = labelcert.certify([[2, 0], [0, 2]], ["cat", "dog"], [[1, 0], [1, 2]], C=1.0)
        >>> print(cert.summary().splitlines()[0])
        0 of 2 predictions (0.0 %) are proved safe from up to 1 wrong label.
        """
        return display.summary(self)

    def plot(self, ax: Axes | None = None, *, collective: bool = True, **style: Any) -> Axes:
        """Draw the certified ratio over the budget; returns the axes.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; by default, the current axes of pyplot.
        collective : bool
            Against one attack on all nodes, or on each node alone.
        **style
            Of the line, as in ``Axes.plot``.

        Examples
        --------
        >>> import labelcert
        >>> cert = labelcert.certify([[2, 0], [0, 2]], ["cat", "dog"], [[1, 0], [1, 2]], C=1.0)
        >>> from matplotlib.figure import Figure
        >>> cert.plot(Figure().subplots()).get_xlabel()
        'flips (of 2 labels)'
        """
        if ax is None:
            import matplotlib.pyplot as plt

            ax = plt.gca()
        display.draw_ratio(ax, self, collective=collective, **style)
        ax.set_xlabel(f"{self.run.unit} (of {self.labels.size} labels)")
        ax.set_ylabel("predictions that survive (%)")
        ax.set_ylim(-3, 103)
        return ax

    def to_latex(self) -> str:
        """The table of :meth:`summary` for LaTeX."""
        return display.as_latex(self)

    def _repr_html_(self) -> str:
        return display.as_html(self)

    def __repr__(self) -> str:
        return (
            f"Certificate({self.n_test} test nodes, {self.labels.size} labels of {self.n_classes} classes, "
            f"budgets 0..{self.max_flips}, {self.state}, engine={self.engine!r}"
            + (f", margin={self.run.margin_text}" if self.run.margin else "")
            + (f", {self.run.error_text})" if self.run.error_text else ")")
        )

    def in_labels(self, attacks: RelabellingList, k: int, names: bool) -> dict[Any, Any]:
        """A change of labels, in the labels' own values, by their indices or names."""
        labels, targets = attacks[k]
        keys = labels if self.label_names is None or not names else self.label_names[labels]
        names_of = [*self.classes.tolist(), REMOVED]
        return {i: names_of[c] for i, c in zip(keys.tolist(), targets, strict=True)}

    def _attack_at(self, b: int) -> int:
        if not 0 <= whole_number("a budget", b, None) <= self.max_flips:
            raise InvalidInput(f"the certificate covers budgets 0 to {self.max_flips}, got {b}")
        return int(self.curve_attack_of[b])

    def _budget(self, budget: float | None, flips: int | None, fraction: float | None) -> int:
        given = [v for v in (budget, flips, fraction) if v is not None]
        if len(given) != 1:
            raise InvalidInput("give one budget: flips=2, say, or fraction=0.1")
        if budget is not None:
            if isinstance(budget, int | np.integer) and not isinstance(budget, bool):
                flips = int(budget)
            else:
                fraction = budget
        if fraction is not None:
            flips = flips_for_fraction(fraction, self.never - 1)
        flips = whole_number("flips", flips, least=None)
        if not 0 <= flips <= self.max_flips:
            raise InvalidInput(
                f"the certificate covers budgets 0 to {self.max_flips}, got {flips}; "
                "certify again with a larger max_flips"
            )
        return flips

    def check_record(self) -> None:
        """Refuse a record of a run that cannot be one of a run about these labels: from a file, it can be anything."""
        names = [str(name) for name in self.classes.tolist()]
        if wrong := self.run.contradiction(names, int(self.labels.size), self.never):
            raise InvalidInput(f"the record of a certificate contradicts itself or its labels: {wrong}")

    def _contradiction(self) -> str:
        """What does not fit, in words; empty where shapes, types and values of all fields fit each other."""
        n, m, K, budgets = self.radius_lower.shape, self.labels.shape, self.n_classes, (self.max_flips + 1,)
        ends = (self.radius_lower, self.radius_upper, self.radius_claimed)
        curve = (self.collective_lower, self.collective_upper, self.collective_claimed)
        texts = (self.radius_proved_by, self.collective_proved_by, self.test_names, self.label_names, self.class_list)
        checks: dict[str, Callable[[], Any]] = {
            "the budgets": lambda: 0 <= self.max_flips < self.never,
            "the labels": lambda: (
                len(m) == 1
                and K >= 2
                and np.array_equal(np.unique(self.classes), self.classes)
                and np.isin(self.labels, self.classes).all()
            ),
            "the shapes of arrays": lambda: (
                len(n) == 1
                and all(a.shape == n for a in (*ends, self.predictions, self.radius_proved_by, self.new_classes))
                and all(a.shape == budgets for a in (*curve, self.collective_proved_by, self.curve_attack_of))
                and self.decision_values.shape == (n if K == 2 else (*n, K))
                and self.curve_changed.shape == (len(self.curve_attacks), *n)
                and (self.test_names is None or self.test_names.shape == n)
                and (self.label_names is None or self.label_names.shape == m)
                and (self.class_list is None or self.class_list.ndim == 1)
                and (self.K_train is None or self.K_train.shape == (*m, *m))
                and (self.K_test is None or self.K_test.shape == (*n, *m))
            ),
            "the types of arrays": lambda: (
                all(a.dtype.kind in "iu" for a in (*ends, *curve, self.new_classes, self.curve_attack_of))
                and all(a is None or a.dtype.kind == "U" for a in texts)
                and all(a is None or a.dtype.kind == "f" for a in (self.decision_values, self.K_train, self.K_test))
                and self.curve_changed.dtype == np.bool_
            ),
            "the numbers": lambda: all(_finite(a) for a in (self.decision_values, self.K_train, self.K_test)),
            "the predictions": lambda: np.isin(self.predictions, self.classes).all(),
            "the margins": lambda: (
                np.shape(self.run.margin) in ((), n)
                and np.isfinite(self.run.margin).all()
                and np.all(np.asarray(self.run.margin) >= 0)
            ),
            "the kernel errors": lambda: (
                len(self.run.kernel_error) == (2 if self.run.kernel_error_sha256 else 0)
                and all(0.0 <= error < np.inf for error in self.run.kernel_error)
            ),
            "the radii": lambda: (
                _in_order(self.radius_lower, self.radius_claimed, self.radius_upper)
                and np.all((self.radius_lower >= 0) & (self.radius_upper <= self.never))
            ),
            "the curve": lambda: (
                _in_order(self.collective_lower, self.collective_claimed, self.collective_upper)
                and np.all((self.collective_lower >= 0) & (self.collective_upper <= self.n_test))
                and np.all(np.diff(self.collective_lower) >= 0)
                and np.all(np.diff(self.collective_upper) >= 0)
            ),
            "the attacks": lambda: (
                len(self.node_attacks) == self.n_test
                and self.node_attacks.fits(m[0], K + self.run.removes)
                and self.curve_attacks.fits(m[0], K + self.run.removes)
                and np.all((self.curve_attack_of >= 0) & (self.curve_attack_of < len(self.curve_attacks)))
                and np.all((self.new_classes >= -1) & (self.new_classes < K))
                and np.all(self.curve_changed.sum(axis=1)[self.curve_attack_of] >= self.collective_lower)
            ),
            "the record of annotators": lambda: not self.run.counts_annotators or self.run.threat_is_readable,
            "the votes": lambda: all(
                (votes is not None) == self.run.counts_annotators
                and (votes is None or (len(votes) == len(attacks) and votes.fits(len(owners.ballots(self.run)), K)))
                for votes, attacks in ((self.node_votes, self.node_attacks), (self.curve_votes, self.curve_attacks))
            ),
            "the votes of models": lambda: (
                self.part_votes is None
                or (
                    self.part_votes.ndim == 3
                    and self.part_votes.shape[0] == n[0]
                    and self.part_votes.shape[2] in (1, K)
                    and self.part_votes.dtype.kind in "iu"
                    and np.all((self.part_votes >= 0) & (self.part_votes < K))
                )
            ),
            "the metrics": lambda: (
                (self.metrics is None) == (self.metric_attacks is None)
                and (
                    self.metrics is None
                    or self.metric_attacks is None
                    or (
                        self.metric_attacks.fits(m[0], K + self.run.removes)
                        and self.metrics.fits(n[0], K, *budgets, len(self.metric_attacks))
                    )
                )
            ),
            "the graph": lambda: self.around is None or self.around.fits(m[0], n[0]),
            "the radii of votes": lambda: self.black_box_radius is None or self.black_box_radius.shape == n,
        }
        return next((what for what, holds in checks.items() if not holds()), "")


def _finite(array: Float | None) -> bool:
    """Whether all numbers are finite, without a copy of the array."""
    return array is None or array.size == 0 or bool(np.isfinite([array.min(), array.max()]).all())


def _in_order(lower: Int, between: Int, upper: Int) -> bool:
    return bool(np.all((lower <= between) & (between <= upper)))
