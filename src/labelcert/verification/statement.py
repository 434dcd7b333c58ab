"""What a certificate is about: the problem, rebuilt from the user's arrays and from what the certificate records."""

from __future__ import annotations

import hashlib
import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from labelcert.arrays import Bool, Float, Int, Values
from labelcert.certificate import Certificate
from labelcert.checking import as_labels, real_array
from labelcert.errors import InvalidInput
from labelcert.memory import require_memory
from labelcert.verification.ballots import ModelVotes
from labelcert.verification.crowds import Cast, Crowd, whole
from labelcert.verification.shift import candidates

LINEAR = "linear"
"""In place of a loss: nothing is trained, and the test rows are those of ``H`` in ``H @ one-hot(labels)``."""

UNKNOWN = "unknown"
"""In place of a loss: votes of models are counted that nobody knows."""

LOSSES = (
    *("hinge", "squared_hinge", "logistic", "cross_entropy", "square", LINEAR, UNKNOWN),
    *("logistic_intercept", "cross_entropy_intercept", "square_intercept"),
)
"""Losses whose models the verifier trains, and what stands in their place where it trains nothing."""

MEAN, VOTES = "mean", "votes"
"""How an ensemble combines its parts."""

BASELINE = "baseline:"
"""Before the name of a baseline, where that of an engine would stand."""

BYTES_OF_WHOLE = 250
"""Memory for all that is computed from one entry of a linear map."""

MOST_SHIFTS = 2000
"""Ways to add something to the diagonals of parts that are tried."""

LARGEST_GROUP_BUDGET = 100_000
"""Group budgets beyond this are no limits; the hash of a problem has this number in their place."""


@dataclass(frozen=True, eq=False)
class Statement:
    """One certification problem. m labels, n test nodes, K classes.

    Attributes
    ----------
    K_train, K_test : (m, m) and (n, m) arrays
    classes : (K,) array
    codes : (m,) array
        Class of each label.
    C : float
    loss : str
    budget : int
        Largest budget.
    allowed : (m, K) array
        What each label may become; (m, K + 1) where labels may be removed, which is the last column.
    costs : (m,) array
    groups : (m,) array
        Position of each label's group in ``caps``; -1 without one.
    caps : (G,) array
        Most that may be spent inside each group.
    shift : float
        What is added to the diagonal of the given kernel, or is said to have been added to that of the file.
    from_file : bool
        Whether the kernels are those that the certificate was saved with.
    part_of : (m,) array or None
        Which part each label is in, of an ensemble.
    features : pair of arrays or None
        (m, d) and (n, d) features of labelled points and test nodes, whose products are the kernels, and of which
        ``K_test`` is known up to rounding.
    combine : str
        How an ensemble combines its parts.
    drops_to : str
        Where a class without labels is dropped, what a model with two classes left is trained with; else empty.
    """

    K_train: Float
    K_test: Float
    classes: Values
    codes: Int
    C: float
    loss: str
    budget: int
    allowed: Bool
    costs: Int
    groups: Int
    caps: Int
    shift: float = 0.0
    from_file: bool = True
    part_of: Int | None = None
    features: tuple[Float, Float] | None = None
    combine: str = MEAN
    drops_to: str = ""
    baseline: str = ""
    """Of a baseline: its name and options, as its hash has them."""
    crowd: Crowd | None = None
    """Where budgets count annotators: their votes, and who of them costs what."""
    ballots: ModelVotes | None = None
    """Where votes of models are counted that nobody knows: what they say."""

    @classmethod
    def of(
        cls,
        cert: Certificate,
        K_train: npt.ArrayLike | None,
        labels: npt.ArrayLike | None,
        K_test: npt.ArrayLike | None,
        H: object = None,
        features: tuple[npt.ArrayLike, npt.ArrayLike] | None = None,
        votes: npt.ArrayLike | None = None,
    ) -> Statement:
        """From the user's arrays or, where they are None, from those that the certificate was saved with."""
        cert.check_record()
        if cert.run.loss == UNKNOWN:
            return cls._of_votes(cert, labels, votes)
        if cert.run.loss == LINEAR:
            if cert.run.threat.get("removable") is not None:
                raise InvalidInput(
                    "verify does not know nearest neighbours whose rows are removed; to check a witness, fit the "
                    "estimator again without the rows that it removes"
                )
            return cls._of_map(cert, labels, H)
        if features is not None:
            return cls._of_features(cert, labels, features)
        given = (K_train, labels, K_test)
        if all(array is None for array in given):
            if cert.K_train is None or cert.K_test is None:
                raise InvalidInput(
                    "the certificate does not hold its kernels: pass K_train, labels and K_test, or save it with "
                    "cert.save(path, problem=True); of a model by its features, pass X_train, labels and X_test"
                )
            kernel, rows, values = cert.K_train, cert.K_test, cert.labels
        elif any(array is None for array in given):
            raise InvalidInput("pass all of K_train, labels and K_test, or none of them")
        else:
            kernel, rows, values = real_array("K_train", K_train), real_array("K_test", K_test), _labels(labels)
        m = values.size
        if kernel.shape != (m, m) or rows.ndim != 2 or rows.shape[1] != m:
            raise InvalidInput(
                f"{m} labels need K_train of shape ({m}, {m}) and K_test with {m} columns, "
                f"got {kernel.shape} and {rows.shape}"
            )
        from_file = K_train is None
        if not from_file:
            kernel = (kernel + kernel.T) / 2
        if not all(np.isfinite(array).all() for array in (kernel, rows)):
            raise InvalidInput("K_train and K_test must be finite")
        classes, codes = np.unique(values, return_inverse=True)
        allowed, costs, groups, caps = _threat(cert.run.threat, classes, codes)
        crowd = _crowd(cert, classes, codes, allowed)
        statement = cls(
            K_train=np.ascontiguousarray(kernel),
            K_test=np.ascontiguousarray(rows),
            classes=classes,
            codes=codes.astype(np.int64),
            C=cert.run.C,
            loss=cert.run.loss,
            budget=cert.max_flips,
            allowed=allowed,
            costs=costs,
            groups=groups,
            caps=caps,
            shift=cert.run.kernel_shift,
            from_file=from_file,
            **_parts(cert, m),
            drops_to=cert.run.drops_to,
            baseline=_baseline(cert),
            crowd=crowd,
        )
        return statement if from_file else statement.shifted_as(cert)

    @classmethod
    def _of_map(cls, cert: Certificate, labels: npt.ArrayLike | None, H: Any) -> Statement:
        """Of a model whose scores are ``H @ one-hot(labels)``."""
        if H is None:
            raise InvalidInput(
                "a certificate of certify_linear does not hold its rows: pass H=, and labels if you like"
            )
        values = cert.labels if labels is None else _labels(labels)
        require_memory(
            cert.n_test * values.size * BYTES_OF_WHOLE,
            f"verifying {cert.n_test:,} rows of {values.size:,} labels in whole numbers",
            "certify and verify fewer rows at a time",
        )
        rows = _rows(H)
        if rows.ndim != 2 or rows.shape[1] != values.size or not np.isfinite(rows).all():
            raise InvalidInput(
                f"{values.size} labels need a finite H with {values.size} columns, got shape {rows.shape}"
            )
        classes, codes = np.unique(values, return_inverse=True)
        allowed, costs, groups, caps = _threat(cert.run.threat, classes, codes)
        crowd = _crowd(cert, classes, codes, allowed)
        return cls(
            K_train=np.zeros((0, 0)),
            K_test=np.ascontiguousarray(rows),
            classes=classes,
            codes=codes.astype(np.int64),
            C=cert.run.C,
            loss=LINEAR,
            budget=cert.max_flips,
            allowed=allowed,
            costs=costs,
            groups=groups,
            caps=caps,
            drops_to=cert.run.drops_to,
            crowd=crowd,
        )

    @classmethod
    def _of_votes(cls, cert: Certificate, labels: npt.ArrayLike | None, votes: npt.ArrayLike | None) -> Statement:
        """Of models that nobody knows."""
        values = cert.labels if labels is None else np.asarray(labels)
        ballots = ModelVotes.of(cert, votes)
        if values.shape != cert.labels.shape:
            raise InvalidInput(f"the certificate is about {cert.labels.size} labels, got {values.size}")
        classes, codes = np.unique(values, return_inverse=True)
        allowed, costs, groups, caps = _threat(cert.run.threat, classes, codes)
        return cls(
            K_train=np.zeros((0, 0)),
            K_test=np.zeros((cert.n_test, 0)),
            classes=classes,
            codes=codes.astype(np.int64),
            C=cert.run.C,
            loss=UNKNOWN,
            budget=cert.max_flips,
            allowed=allowed,
            costs=costs,
            groups=groups,
            caps=caps,
            crowd=_crowd(cert, classes, codes, allowed),
            ballots=ballots,
        )

    @classmethod
    def _of_features(
        cls, cert: Certificate, labels: npt.ArrayLike | None, features: tuple[npt.ArrayLike, npt.ArrayLike]
    ) -> Statement:
        """Of a linear model, trained on features."""
        X, T = (real_array(name, rows) for name, rows in zip(("X_train", "X_test"), features, strict=True))
        values = cert.labels if labels is None else _labels(labels)
        m, n = values.size, cert.n_test
        fit = X.ndim == T.ndim == 2 and X.shape[1] == T.shape[1] and (len(X), len(T)) == (m, n)
        if not fit or not (np.isfinite(X).all() and np.isfinite(T).all()):
            raise InvalidInput(
                f"{m} labels and {n} test nodes need finite X_train with {m} rows and X_test with {n} rows, of as "
                f"many columns, got shapes {X.shape} and {T.shape}"
            )
        require_memory(8 * 8 * m * (n + X.shape[1]), f"verifying {n:,} test nodes against {m:,} labels")
        classes, codes = np.unique(values, return_inverse=True)
        allowed, costs, groups, caps = _threat(cert.run.threat, classes, codes)
        return cls(
            K_train=np.zeros((0, 0)),
            K_test=T @ X.T,
            classes=classes,
            codes=codes.astype(np.int64),
            C=cert.run.C,
            loss=cert.run.loss,
            budget=cert.max_flips,
            allowed=allowed,
            costs=costs,
            groups=groups,
            caps=caps,
            features=(X, T),
            drops_to="" if cert.run.loss.endswith("_intercept") else cert.run.drops_to,
        )

    def shifted_as(self, cert: Certificate) -> Statement:
        """With as much on the diagonal of the given kernel as the hash of the certificate says.

        That is what the certificate records, or what would have to be added: whoever certifies a kernel that was
        settled before records that nothing was added to it.
        """
        parts = self.blocks
        none = [0.0] if len(parts) > 1 else []  # each part has a shift of its own
        options = [dict.fromkeys([self.shift, *none, *candidates(self.K_train[np.ix_(part, part)])]) for part in parts]
        for shifts in itertools.islice(itertools.product(*options), MOST_SHIFTS):
            added = np.zeros(self.m)
            for part, shift in zip(parts, shifts, strict=True):
                added[part] = shift
            other = replace(self, K_train=self.K_train + np.diag(added), shift=max(shifts))
            if other.digest() == cert.run.problem_sha256:
                return other
        return replace(self, K_train=self.K_train + self.shift * np.eye(self.m))

    def only(self, nodes: Int) -> Statement:
        """The problem of some test nodes alone."""
        features = None if self.features is None else (self.features[0], self.features[1][nodes])
        return replace(self, K_test=self.K_test[nodes], features=features)

    def lowered(self, predicted: Int, margin: Float) -> Statement:
        """The problem in which a prediction changes where its lead falls to its margin here.

        There is one more label of each class. Nobody can change it, no other label sees it, and its dual variable is
        the same in every training. What it adds to the row of a test node lowers the lead of the predicted class.

        Parameters
        ----------
        predicted : (n,) array
            Predicted classes, as positions.
        margin : (n,) array
        """
        m, K = self.m, self.n_classes
        own = 2.0 ** math.floor(math.log2(min(0.5 / self.C, float(np.diag(self.K_train).mean()) or 1.0)))
        kernel, rows = np.zeros((m + K, m + K)), np.zeros((self.n, m + K))
        kernel[:m, :m], rows[:, :m] = self.K_train, self.K_test
        np.fill_diagonal(kernel[m:, m:], own)
        rows[np.arange(self.n), m + predicted] = -margin / lead_of_one(self.loss, own, self.C, K)
        return replace(
            self,
            K_train=kernel,
            K_test=rows,
            codes=np.concatenate([self.codes, np.arange(K)]),
            allowed=np.concatenate([self.allowed, np.zeros((K, self.allowed.shape[1]), dtype=bool)]),
            costs=np.concatenate([self.costs, np.zeros(K, dtype=np.int64)]),
            groups=np.concatenate([self.groups, np.full(K, -1, dtype=np.int64)]),
        )

    @property
    def rows_off(self) -> Float:
        """(n, m) how far the test rows can be from those that are meant."""
        if self.features is None:
            return np.zeros(self.K_test.shape)
        X, T = self.features
        return np.asarray(2.0**-53 * 1.02 * (X.shape[1] + 3) * (np.abs(T) @ np.abs(X).T) + 1e-300)

    @property
    def m(self) -> int:
        """Number of labels."""
        return int(self.codes.size)

    @property
    def n(self) -> int:
        """Number of test nodes."""
        return int(self.K_test.shape[0])

    @property
    def n_classes(self) -> int:
        """Number of classes."""
        return int(self.classes.size)

    @property
    def removes(self) -> bool:
        """Whether labels may be removed."""
        return bool(self.allowed.shape[1] > self.n_classes)

    @property
    def movable(self) -> Int:
        """Labels that may change."""
        return np.flatnonzero(self.allowed.any(axis=1))

    @property
    def never(self) -> int:
        """The radius that means that no change is known."""
        return (int(self.costs.sum()) if self.crowd is None else self.crowd.total) + 1

    def in_blocks(self) -> Statement:
        """The problem with the kernel of all parts side by side: its scores are the sums of theirs.

        Losses and norms are sums over labels and parts, so that each part is trained as if it were alone.
        """
        if self.part_of is None or self.combine == VOTES:
            return self
        together = self.part_of[:, None] == self.part_of[None, :]
        return replace(self, K_train=np.where(together, self.K_train, 0.0))

    @property
    def blocks(self) -> list[Int]:
        """The labels of each part; of a single model, all of them."""
        if self.part_of is None:
            return [np.arange(len(self.K_train))]
        return [np.flatnonzero(self.part_of == part) for part in np.unique(self.part_of)]

    def digest(self) -> str:
        """The hash that a certificate of this problem names."""
        if self.ballots is not None:
            return self.ballots.digest(self._finished)
        one = self._digest_of_one()
        if self.features is not None:
            h = hashlib.sha256(one.encode())
            for array in self.features:
                ones = np.ones((len(array), int(self.loss.endswith("_intercept"))))
                whole = np.hstack([array, ones])
                h.update(repr(whole.shape).encode() + np.ascontiguousarray(whole, dtype="<f8").tobytes())
            return h.hexdigest()
        if self.baseline:
            return hashlib.sha256(f"{one} {self.baseline}".encode()).hexdigest()
        if self.part_of is None:
            return one
        h = hashlib.sha256(one.encode())
        h.update(self.part_of.astype("<i8").tobytes() + self.combine.encode())
        return h.hexdigest()

    def _digest_of_one(self) -> str:
        """The same without parts."""
        by_rows = self.loss == LINEAR and self.crowd is None
        h = hashlib.sha256(b"linear" if by_rows else b"")
        rows = self.K_test if self.features is None else np.zeros((self.n, 0))
        for array in (self.K_train, rows) if not by_rows else ():
            h.update(repr(array.shape).encode())
            h.update(array.astype("<f8").tobytes())
        for row in self.K_test if by_rows else ():
            at = np.flatnonzero(row)
            h.update(b"full" if at.size == row.size else b"part" + at.astype("<i8").tobytes())
            h.update(row[at].astype("<f8").tobytes() + b"|")
        return self._finished(h)

    def _finished(self, h: hashlib._Hash) -> str:
        """A hash that has taken in what predicts, with the labels and the threat."""
        i = self.movable
        for numbers in (self.codes, i, self.costs[i], self.groups[i], self.caps, self.allowed[i]):
            h.update(np.ascontiguousarray(numbers, dtype="<i8").tobytes() + b"|")
        h.update(b"removable" if self.removes else b"" if self.crowd is None else self.crowd.digest())
        h.update(repr((float(self.C).hex(), self.loss, self.budget, self.classes.tolist())).encode())
        h.update(self.drops_to.encode() if self.drops_a_class else b"")
        return h.hexdigest()

    @property
    def out_of_reach(self) -> str:
        """Why the verifier cannot train the models that the certificate is about, in words; empty where it can."""
        coupled = self.loss.startswith("cross_entropy") and self.n_classes > 2
        if self.drops_a_class and (coupled or self.drops_to != self.loss):
            return "a class can lose its last label, and the verifier does not train this loss on fewer classes"
        if "smoothing" in self.baseline:
            return "the classifier of this baseline predicts under random labels, and the verifier does not train it"
        return ""

    @cached_property
    def emptying(self) -> Int:
        """(K,) what it costs to take all labels from a class that is then dropped; beyond all budgets where none is."""
        out = np.full(self.n_classes, np.iinfo(np.int64).max)
        for c in range(self.n_classes if self.drops_to else 0):
            own = np.flatnonzero(self.codes == c)
            if self.allowed[own].any(axis=1).all() and self.within_caps(own):
                out[c] = self.cost(own)
        return out

    @property
    def drops_a_class(self) -> bool:
        """Whether some class can lose its last label within the budget, and is then dropped."""
        return bool((self.emptying <= self.budget).any())

    @property
    def spendable(self) -> int:
        """The most that the adversary can spend: no larger budget changes anything."""
        if self.crowd is not None:
            return int(self.crowd.prices.sum())
        costs = np.where(self.allowed.any(axis=1), self.costs, 0)
        inside = np.array([costs[self.groups == g].sum() for g in range(self.caps.size)], dtype=np.int64)
        return int(costs[self.groups < 0].sum() + np.minimum(inside, self.caps).sum())

    def cost(self, labels: Int) -> int:
        """What it costs to change some labels."""
        return int(self.costs[labels].sum())

    def price(self, labels: Int, targets: Int, votes: Cast | None = None) -> int | None:
        """What a relabelling costs, by such votes where budgets count annotators; None where the threat forbids it."""
        if np.unique(labels).size != labels.size or not self.allowed[labels, targets].all():
            return None
        if self.crowd is not None:
            return None if votes is None else self.crowd.price(labels, targets, *votes)
        return self.cost(labels) if self.within_caps(labels) else None

    def within_caps(self, labels: Int) -> bool:
        """Whether the groups' budgets pay for changing some labels."""
        spent = np.zeros(self.caps.size, dtype=np.int64)
        grouped = labels[self.groups[labels] >= 0]
        np.add.at(spent, self.groups[grouped], self.costs[grouped])
        return bool(np.all(spent <= self.caps))

    def relabelled(self, labels: Int, targets: Int) -> Int:
        """(m,) classes after a relabelling."""
        codes = self.codes.copy()
        codes[labels] = targets
        return codes


def _crowd(cert: Certificate, classes: Values, codes: Int, allowed: Bool) -> Crowd | None:
    """Where budgets count annotators, their votes; labels on which none of them votes are no longer ``allowed``."""
    crowd = Crowd.of(cert, classes, codes)
    if crowd is not None:
        allowed[[not crowd.touches(i) for i in range(codes.size)]] = False
    return crowd


def _labels(given: npt.ArrayLike | None) -> Values:
    """Labels as they were given to whoever certified."""
    labels = as_labels(given)
    if labels.ndim != 1:
        raise InvalidInput(f"labels must be a flat sequence, one per training point, got shape {labels.shape}")
    return labels


def _rows(H: Any) -> Float:
    """A map, given as an array, a sparse matrix, or an iterable of blocks of rows."""
    whole = hasattr(H, "toarray") or hasattr(H, "__array__")
    try:
        blocks = [
            real_array("H", block.toarray() if hasattr(block, "toarray") else block) for block in ([H] if whole else H)
        ]
        return np.vstack(blocks)
    except InvalidInput:
        raise
    except (TypeError, ValueError) as error:
        raise InvalidInput(
            f"H must be a matrix, or an iterable of blocks of rows as wide as each other: {error}"
        ) from None


def _parts(cert: Certificate, m: int) -> dict[str, Any]:
    """Of an ensemble: the part of each label, and how parts are combined."""
    asked = cert.run.engine_asked
    if asked not in ("partition", f"{BASELINE}partition-votes"):
        return {}
    about = cert.run.stages[0].statistics if cert.run.stages else {}
    combine = about.get("combine", VOTES if asked.startswith(BASELINE) else None)
    if combine not in (MEAN, VOTES) or len(about.get("part_of", [])) != m:
        raise InvalidInput("the certificate of an ensemble does not say which part each label is in")
    return {"part_of": np.array(about["part_of"], dtype=np.int64), "combine": combine}


def _baseline(cert: Certificate) -> str:
    """Of a baseline: its name and options."""
    if not cert.run.engine_asked.startswith(BASELINE):
        return ""
    about = cert.run.stages[0].statistics if cert.run.stages else {}
    options = about.get("options", {})
    return f"{cert.run.engine_asked} {sorted(options.items()) if isinstance(options, dict) else options}"


def lead_of_one(loss: str, own: float, C: float, K: int) -> float:
    """How much a label that sees no other adds to the lead of its class, for each unit in the row of a node.

    Parameters
    ----------
    loss : str
    own : float
        Its entry of the kernel.
    C : float
    K : int
        Number of classes.
    """
    if loss in ("square", "squared_hinge", "hinge"):
        dual = C if loss == "hinge" else 1.0 / (own + 1.0 / (2.0 * C))
        return dual if K == 2 else 2.0 * dual
    # z = C·(share of the other classes), where its own class leads by own·lead: the lead is found by halving.
    rivals = K - 1 if loss == "cross_entropy" else 1
    both = 2.0 if (loss == "cross_entropy" or K > 2) else 1.0
    scale = C * (1.0 + 1.0 / rivals) if loss == "cross_entropy" else C * both
    gain = own if loss == "cross_entropy" else own / both
    low, high = 0.0, scale
    while True:
        lead = (low + high) / 2
        if lead in (low, high):
            return lead
        if lead < scale * rivals / (rivals + math.exp(gain * lead)):
            low = lead
        else:
            high = lead


def _threat(threat: dict[str, Any], classes: Values, codes: Int) -> tuple[Bool, Int, Int, Int]:
    """``(allowed, costs, groups, caps)`` from a certificate's record of the threat."""
    m, names = codes.size, [str(c) for c in classes.tolist()]
    costs = np.ones(m, dtype=np.int64) if threat["costs"] is None else whole(threat["costs"])
    allowed = np.arange(classes.size)[None, :] != codes[:, None]
    if threat["trusted"] is not None:
        allowed[threat["trusted"]] = False
    if threat["allowed_flips"] is not None:
        flips = np.zeros((classes.size, classes.size), dtype=bool)
        for source, targets in threat["allowed_flips"]:
            flips[names.index(source), [names.index(t) for t in targets]] = True
        allowed &= flips[codes]
    for i, targets in enumerate(threat["allowed_targets"] or []):
        if targets is not None:
            allowed[i] &= np.isin(names, targets)
    if not threat.get("changes", True):
        allowed[:] = False
    if threat.get("removable") is not None:
        removable = np.zeros(m, dtype=bool)
        removable[slice(None) if threat["removable"] is True else threat["removable"]] = True
        removable[threat["trusted"] or []] = False
        allowed = np.column_stack([allowed, removable])
    groups, caps = _groups(threat, m)
    return allowed, costs, groups, caps


def _groups(threat: dict[str, Any], m: int) -> tuple[Int, Int]:
    owners: Sequence[Any] = threat["groups"] or [None] * m
    budgets = threat["group_budgets"]
    groups, caps = np.full(m, -1, dtype=np.int64), list[int]()
    for name in dict.fromkeys(g for g in owners if g is not None):
        cap = budgets.get(name) if isinstance(budgets, dict) else budgets
        if cap is not None:
            groups[[g == name for g in owners]] = len(caps)
            caps.append(min(int(cap), LARGEST_GROUP_BUDGET))
    return groups, np.array(caps, dtype=np.int64)
