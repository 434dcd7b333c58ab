"""Replays a certificate on a training function of the user, to see how much it says about that model."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from labelcert.arrays import Bool, Int, Values
from labelcert.certificate import Certificate
from labelcert.checking import whole_number
from labelcert.errors import InvalidInput
from labelcert.labelnoise.sampling import clopper_pearson
from labelcert.problem import NOTHING, Relabelling, Threat
from labelcert.problem.threat import Adversary
from labelcert.problem.validation import check_seconds
from labelcert.progress import progress_report
from labelcert.text import per_cent

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Share:
    """How many of some cases hold, and the interval of Clopper and Pearson for their share among all such cases."""

    what: str
    held: int
    of: int
    confidence: float

    @property
    def interval(self) -> tuple[float, float]:
        """Lower and upper end; 0 and 1 without a single case."""
        if self.of == 0:
            return 0.0, 1.0
        held = np.array([self.held])
        lower, upper = clopper_pearson(held, held, np.array([self.of]), self.confidence)
        return float(lower[0]), float(upper[0])

    def __str__(self) -> str:
        if self.of == 0:
            return f"{self.what}: none were tried"
        ends = f"{per_cent(self.interval[0])} to {per_cent(self.interval[1], up=True)}"
        return f"{self.what}: {self.held} of {self.of} ({per_cent(self.held / self.of)} %; {ends} %)"


@dataclass(frozen=True, eq=False)
class Stress:
    """What a training function did where a certificate says what another model does.

    Attributes
    ----------
    flips : int
        Budget of the certified predictions, and of the random changes.
    same : Share
        Test points about which both agree on the labels as they are.
    attacks : Share
        Attacks of the certificate, each on its test point, after which this model predicts something else, too. Only
        test points about which both agree count.
    certified : Share
        Predictions that the certificate calls robust at ``flips``, and that were never seen to break: this model
        predicts them, too, on the labels as they are and on all that were tried.
    relabellings : Share
        Random changes of ``flips`` labels after which all certified predictions were as certified.
    broken : (n,) array
        Certified predictions that broke.
    deterministic : bool
        Whether training twice on the same labels predicted the same.
    trainings : int
    stopped : bool
        Whether time was over, or Ctrl-C pressed, before everything was tried.

    Examples
    --------
    >>> import numpy as np
    >>> import labelcert
    >>> X, T = np.array([-4.0, -3, -1, 1, 2, 5]), np.array([-3.0, -0.5, 2.0])
    >>> cert = labelcert.certify(np.outer(X, X), X > 0, np.outer(T, X), C=1.0, max_flips=3)
    >>> def train(indices, labels):
    ...     return labels[indices][np.abs(X[indices] - T[:, None]).argmin(axis=1)]
    >>> print(labelcert.stress(train, cert).summary())
    same prediction: 3 of 3 (100.0 %; 29.2 to 100.0 %)
    attacks that work: 0 of 3 (0.0 %; 0.0 to 70.8 %)
    certified at 1 flip and not broken: 0 of 3 (0.0 %; 0.0 to 70.8 %)
    random changes of 1 flip that break no certified prediction: 3 of 6 (50.0 %; 11.8 to 88.2 %)
    """

    flips: int
    same: Share
    attacks: Share
    certified: Share
    relabellings: Share
    broken: Bool
    deterministic: bool
    trainings: int
    stopped: bool

    def summary(self) -> str:
        """A line for each share, and what else has to be known."""
        lines = [str(share) for share in (self.same, self.attacks, self.certified, self.relabellings)]
        if not self.deterministic:
            lines.append("trained twice on the same labels, this model predicts differently: some changes are chance")
        return "\n".join([*lines, "stopped before everything was tried"] if self.stopped else lines)

    def to_frame(self) -> pd.DataFrame:
        """One row for each share, with its interval."""
        import pandas as pd

        shares = (self.same, self.attacks, self.certified, self.relabellings)
        rows = [(one.held, one.of, *one.interval) for one in shares]
        index = pd.Index([one.what for one in shares], name="what")
        return pd.DataFrame(rows, columns=["held", "of", "lower", "upper"], index=index)


def stress(
    train: Callable[..., Any],
    cert: Certificate,
    *,
    flips: int = 1,
    attacks: int = 50,
    random: int = 50,
    seed: int = 0,
    confidence: float = 0.95,
    time_limit: float | None = None,
    progress: bool = False,
) -> Stress:
    """Replay a certificate on another model: its attacks, and random changes of labels.

    A certificate of an infinitely wide network is about that machine; how much of it carries over to the network that
    you train is a matter of measurement. This measures it: the model is trained on the labels as they are, on the
    certificate's attacks, and on random changes, and is asked to predict the same test points each time.

    Parameters
    ----------
    train : callable
        ``train(indices, labels)`` trains on all labelled points (``indices`` is 0 to m - 1, in the order of the
        certificate) and returns predictions for its test points in the labels' own values, or scores of shape (n, K).
    cert : Certificate
    flips : int
        Budget at which certified predictions are tried; at most ``cert.max_flips``.
    attacks : int
        Most attacks of the certificate to train on, drawn at random.
    random : int
        So many random changes of ``flips`` labels that the threat admits; of one flip, where there are no more, all.
    seed : int
        Of what is drawn.
    confidence : float
        Of the intervals. They take test points, attacks and changes as drawn from all that could be.
    time_limit : float, optional
        Seconds. What was tried until then is counted; Ctrl-C does the same.
    progress : bool
        Show a progress bar on standard error.

    Returns
    -------
    Stress

    Examples
    --------
    >>> import numpy as np
    >>> import labelcert
    >>> X, T = np.array([-4.0, -3, -1, 1, 2, 5]), np.array([-3.0, -0.5, 2.0])
    >>> cert = labelcert.certify(np.outer(X, X), X > 0, np.outer(T, X), C=1.0, max_flips=1)
    >>> def train(indices, labels):
    ...     return labels[np.abs(X[indices] - T[:, None]).argmin(axis=1)]
    >>> labelcert.stress(train, cert).same.held
    3
    """
    if not callable(train):
        raise InvalidInput(
            "train must be a function train(indices, labels) that returns predictions for the test nodes"
        )
    whole_number("flips", flips, 1, max(1, cert.max_flips), "what the certificate covers")
    for name, count in (("attacks", attacks), ("random", random)):
        whole_number(name, count)
    if not 0.0 < confidence < 1.0:
        raise InvalidInput(f"confidence must lie between 0 and 1, got {confidence!r}")
    limit = check_seconds("time_limit", time_limit)
    if cert.run.counts_annotators or cert.run.threat.get("samples"):
        raise InvalidInput("stress changes labels; the budgets of this certificate count annotators, or whole samples")
    run = _Replay(train, cert, flips, whole_number("seed", seed, None))
    known = run.attacks(attacks)
    tried = run.random(random)
    jobs = [NOTHING, NOTHING, *known, *tried]
    deadline = None if limit is None else time.monotonic() + limit
    stopped = False
    with progress_report("replaying", progress) as show:
        try:
            for k, change in enumerate(jobs):
                if deadline is not None and k and time.monotonic() > deadline:
                    stopped = True
                    break
                run.train(change)
                show.report(k + 1, len(jobs))
        except KeyboardInterrupt:
            stopped = True
            if not run.said:
                raise
    return run.result(known, tried, confidence, stopped)


class _Replay:
    """Trainings, and what they said."""

    def __init__(self, train: Callable[..., Any], cert: Certificate, flips: int, seed: int) -> None:
        self._train, self._cert, self._flips = train, cert, flips
        self._rng = np.random.default_rng(seed)
        threat = Threat.from_plain(cert.run.threat, cert.labels, cert.classes)
        self._adversary: Adversary = threat.resolve(cert.labels, cert.classes)
        self.said: dict[Relabelling, Values] = {}
        self.trainings, self.deterministic = 0, True

    def train(self, change: Relabelling) -> None:
        """Train after a change of labels, and remember what is predicted."""
        labels, left = self._cert.labels.copy(), np.ones(self._cert.labels.size, dtype=bool)
        moved, stays = self._adversary.labels[change.positions], change.targets < self._cert.n_classes
        labels[moved[stays]], left[moved[~stays]] = self._cert.classes[change.targets[stays]], False
        found = self._predictions(self._train(np.flatnonzero(left), labels[left]))
        self.trainings += 1
        if change in self.said:
            self.deterministic &= bool(np.array_equal(found, self.said[change]))
        self.said.setdefault(change, found)

    def _predictions(self, said: Any) -> Values:
        """(n,) predictions, from predictions or scores."""
        n, K = self._cert.n_test, self._cert.n_classes
        found = np.asarray(said.detach().cpu() if hasattr(said, "detach") else said)
        if found.shape == (n, K) and found.dtype.kind in "iuf":
            return np.asarray(self._cert.classes[found.argmax(axis=1)])
        if found.shape != (n,):
            raise InvalidInput(
                f"train must return {n} predictions, one for each test node of the certificate, or scores of shape "
                f"({n}, {K}), got an array of shape {found.shape}"
            )
        if not np.isin(found, self._cert.classes).all():
            raise InvalidInput(f"train must predict the certificate's classes {self._cert.classes.tolist()}")
        return found

    def attacks(self, most: int) -> list[Relabelling]:
        """Some of the certificate's attacks on single nodes."""
        nodes = np.flatnonzero((self._cert.radius_upper > 0) & (self._cert.radius_upper < self._cert.never))
        distinct = list(dict.fromkeys(self._attack(t) for t in nodes.tolist()))
        chosen = self._rng.permutation(len(distinct))[:most]
        return [distinct[k] for k in np.sort(chosen)]

    def _attack(self, t: int) -> Relabelling:
        labels, targets = self._cert.node_attacks[t]
        return Relabelling(np.searchsorted(self._adversary.labels, labels).astype(np.int64), targets)

    def random(self, count: int) -> list[Relabelling]:
        """Random changes within the budget; all of one label, where these are no more."""
        a = self._adversary
        alone = [NOTHING.plus(int(p), int(c)) for p, c in np.argwhere(a.targets)]
        alone = [change for change in alone if a.admits(change, self._flips)]
        if self._flips == 1 and len(alone) <= count:
            return alone
        return list(self._drawn(count)) if alone else []

    def _drawn(self, count: int) -> Iterator[Relabelling]:
        a = self._adversary
        for _ in range(count):
            taken = np.zeros(0, dtype=np.int64)
            for p in self._rng.permutation(a.labels.size).tolist():
                more = np.append(taken, p)
                if a.affords(more, self._flips):
                    taken = more
                if int(a.costs[taken].sum()) == self._flips:
                    break
            yield Relabelling.of({int(p): int(self._rng.choice(np.flatnonzero(a.targets[p]))) for p in taken})

    def result(self, known: list[Relabelling], tried: list[Relabelling], confidence: float, stopped: bool) -> Stress:
        """All counts."""
        cert, clean = self._cert, self.said[NOTHING]
        same = clean == cert.predictions
        certified = cert.radius_lower > self._flips
        within = [change for change in self.said if self._adversary.cost(change) <= self._flips]
        broken = certified & np.any([self.said[change] != cert.predictions for change in within], axis=0)
        worked, attacked, replayed = 0, 0, set(known)
        for t in np.flatnonzero(same & (cert.radius_upper > 0) & (cert.radius_upper < cert.never)).tolist():
            change = self._attack(t)
            if change in self.said and change in replayed:
                attacked += 1
                worked += bool(self.said[change][t] != clean[t])
        drawn = [change for change in tried if change in self.said]
        held = [not np.any(certified & (self.said[change] != cert.predictions)) for change in drawn]
        amount = cert.run.amount(self._flips)

        def share(what: str, count: Int | int, of: Int | int) -> Share:
            return Share(what, int(count), int(of), confidence)

        return Stress(
            flips=self._flips,
            same=share("same prediction", same.sum(), same.size),
            attacks=share("attacks that work", worked, attacked),
            certified=share(f"certified at {amount} and not broken", certified.sum() - broken.sum(), certified.sum()),
            relabellings=share(f"random changes of {amount} that break no certified prediction", sum(held), len(held)),
            broken=broken,
            deterministic=self.deterministic,
            trainings=self.trainings,
            stopped=stopped,
        )
