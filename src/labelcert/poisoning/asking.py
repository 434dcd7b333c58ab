"""Certificates of graph models whose nodes may have poisoned features."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NotRequired, TypedDict

import numpy as np
import numpy.typing as npt

from labelcert.arrays import Bool, Float, Values
from labelcert.certificate import Certificate
from labelcert.certification import GraphCertifier
from labelcert.certification.facades import certify
from labelcert.checking import flag, in_short, real_number, whole_number
from labelcert.engines.freezing import Names
from labelcert.errors import InvalidInput
from labelcert.graphs.checks import as_indices
from labelcert.memory import require_memory
from labelcert.models import Model
from labelcert.models.base import GraphLike
from labelcert.models.poisoned import FeatureBall, Interval, PoisonedViews
from labelcert.problem.validation import check_seconds

EVERYBODY = {"all": "all nodes", "labeled": "the labelled nodes", "test": "the test nodes"}
"""Words for groups of nodes."""

NAMES = ("kernel_error", "test_kernel_error")

SHARE_OF_BOUNDS = 0.4
"""Of the time, what bounds of kernels may take where each test node has its own."""

LEAST_SECONDS = 0.1
"""What is left for the certificate at least."""


class PoisonOptions(TypedDict):
    """Options of `certify_features` that say who is poisoned."""

    poisoned: Any
    radius: float
    norm: NotRequired[str]
    seed: NotRequired[int]
    backdoor: NotRequired[bool]


@dataclass(frozen=True)
class FeaturePoison:
    """Who may have poisoned features, and by how much they may differ.

    Parameters
    ----------
    nodes : indices, mask, word, or number
        Nodes of the graph; ``"all"``, ``"labeled"`` or ``"test"``; a number of nodes that are drawn at random, or a
        share of them below 1.
    ball : FeatureBall
    seed : int
        Of nodes that are drawn.
    backdoor : bool
        Whether the features of each test node may change, too, of one test node at a time.

    Examples
    --------
    >>> from labelcert.models.poisoned import FeatureBall
    >>> from labelcert.poisoning import FeaturePoison
    >>> FeaturePoison("test", FeatureBall(0.1)).mask(4, [0, 1], [3]).tolist()
    [False, False, False, True]
    """

    nodes: Any
    ball: FeatureBall
    seed: int = 0
    backdoor: bool = False

    def __post_init__(self) -> None:
        flag("backdoor", self.backdoor)

    @classmethod
    def of(cls, given: PoisonOptions) -> FeaturePoison:
        """From the options of `certify_features`."""
        ball = FeatureBall(given["radius"], given.get("norm", "inf"))
        return cls(given["poisoned"], ball, given.get("seed", 0), given.get("backdoor", False))

    def mask(self, n: int, labeled: npt.ArrayLike, test: npt.ArrayLike) -> Bool:
        """(n,) which nodes are poisoned."""
        given = self.nodes
        if isinstance(given, str):
            if given not in EVERYBODY:
                words = ", ".join(map(repr, EVERYBODY))
                raise InvalidInput(f"poisoned must be nodes, a number of nodes, or one of {words}, got {given!r}")
            if given == "all":
                return np.ones(n, dtype=bool)
            given = labeled if given == "labeled" else test
        elif np.ndim(given) == 0:
            count = self._count(given, n)
            given = np.random.default_rng(whole_number("seed", self.seed)).permutation(n)[:count]
        out = np.zeros(n, dtype=bool)
        array = np.asarray(given)
        if array.size:
            out[as_indices(given, n_nodes=n, what="poisoned")] = True
        return out

    def _count(self, given: Any, n: int) -> int:
        number = real_number(given)
        if number is not None and 0.0 <= number < 1.0:
            return int(number * n)
        if number is None or number != int(number) or not 0 <= number <= n:
            raise InvalidInput(
                f"poisoned must be nodes, a word, a number of nodes up to {n}, or a share below 1, "
                f"got {in_short(given)}"
            )
        return int(number)

    def kernel_errors(
        self,
        model: Model,
        graph: GraphLike,
        labeled: npt.ArrayLike,
        test: npt.ArrayLike,
        *,
        inductive: bool = False,
        blocks: tuple[Float, Float] | None = None,
        seconds: float = np.inf,
    ) -> dict[str, Float]:
        """How far the kernel may be below and above that of the given features: options of `labelcert.certify`.

        The given kernel is computed where nobody hands over its ``blocks``. Backdoors have a kernel for each test node;
        those whose turn does not come within some seconds are bounded all at once.
        """
        poisoned = self.mask(int(graph.adjacency.shape[0]), labeled, test)
        K, rows = blocks or model.kernel_blocks(graph, labeled, test, inductive=inductive)
        if self.ball.radius == 0.0 or not (poisoned.any() or self.backdoor):
            return dict(zip(NAMES, (np.zeros((2, *K.shape)), np.zeros((2, *rows.shape))), strict=True))
        views = PoisonedViews.of(model, graph, labeled, test, inductive=inductive)
        if not self.backdoor:
            train, own = views.bounds(poisoned, self.ball, np.arange(len(rows)))
            return dict(zip(NAMES, (_off(K, train), _off(rows, own)), strict=True))
        require_memory(2 * 8 * len(rows) * K.size, "bounds of a kernel for each test node")
        trains, owns = np.zeros((2, len(rows), *K.shape)), np.zeros((2, *rows.shape))
        end = time.monotonic() + seconds
        for t, (train, own) in enumerate(views.each_alone(poisoned, self.ball)):
            trains[:, t], owns[:, t] = _off(K, train), _off(rows[t], own)[:, 0]
            if time.monotonic() > end and t + 1 < len(rows):
                rest = np.arange(t + 1, len(rows))
                poisoned[views.origin[views.test[rest]]] = True
                train, own = views.bounds(poisoned, self.ball, rest)
                trains[:, rest], owns[:, rest] = _off(K, train)[:, None], _off(rows[rest], own)
                break
        return dict(zip(NAMES, (trains, owns), strict=True))

    def using(
        self, model: Model, graph: GraphLike, labeled: npt.ArrayLike, test: npt.ArrayLike, *, inductive: bool = False
    ) -> Callable[..., Certificate]:
        """`labelcert.certify` with what these features do to the kernel: for `GraphCertifier.certify`."""
        count = int(self.mask(int(graph.adjacency.shape[0]), labeled, test).sum())

        def certified(
            K_train: Float,
            labels: Values,
            K_test: Float,
            C: float | str,
            *,
            names: Names,
            time_limit: float | None = None,
            **options: Any,
        ) -> Certificate:
            check_seconds("time_limit", time_limit)
            began = time.monotonic()
            seconds = np.inf if time_limit is None else SHARE_OF_BOUNDS * time_limit
            errors: dict[str, Any] = self.kernel_errors(
                model, graph, labeled, test, inductive=inductive, blocks=(K_train, K_test), seconds=seconds
            )
            if time_limit is not None:
                time_limit = max(time_limit - (time.monotonic() - began), LEAST_SECONDS)
            named = replace(names, model=f"{names.model}; {self.described(count)}")
            return certify(K_train, labels, K_test, C, names=named, time_limit=time_limit, **errors, **options)

        return certified

    def described(self, count: int) -> str:
        """In a few words."""
        unit = "entries" if self.ball.norm == "0" else f"in the {self.ball.norm}-norm"
        whose = EVERYBODY[self.nodes] if isinstance(self.nodes, str) else f"{count} nodes"
        if self.backdoor:
            whose += " and of each test node"
        return f"features of {whose} may change by {self.ball.radius:g} {unit}"


def _off(given: Float, bound: Interval) -> Float:
    """(2, ...) how far entries are below and above."""
    return np.asarray(np.maximum(np.array([given - bound.low, bound.high - given]), 0.0) * (1.0 + 1e-15))


def certify_features(
    model: Model,
    graph: GraphLike,
    labeled: npt.ArrayLike,
    test: npt.ArrayLike,
    *,
    poisoned: Any,
    radius: float,
    norm: str = "inf",
    flips: int = 0,
    seed: int = 0,
    backdoor: bool = False,
    inductive: bool = False,
    **options: Any,
) -> Certificate:
    """Certify predictions for test nodes against poisoned features and wrong labels at once.

    A prediction with a radius above b is the same for all features that the adversary may bring about, together with
    any b wrong labels: its radius is above 0 where poisoned features alone never change it. Upper ends of radii are
    those of wrong labels alone; :func:`labelcert.poisoning.attack_features` looks for features that change predictions.

    Parameters
    ----------
    model : Model
        Of a network: ``GCN``, ``SGC``, ``GraphSAGE``, ``GIN``, ``APPNP``, ``PPNP``, the skip connections, ``MLP``, or
        ``Linear``.
    graph, labeled, test, inductive
        As in `Model.certify`.
    poisoned : indices, mask, word, or number
        Nodes whose features may change: labelled ones (poisoning), test nodes (backdoors, or evasion), any others;
        ``"all"``, ``"labeled"`` or ``"test"``; how many nodes are drawn at random, or which share of all. All of them
        may change at once.
    radius : float
        By how much the features of each may change. With norm "0", how many entries may change by at most 1, as those
        of binary features.
    norm : {"inf", "2", "1", "0"}
        In which norm.
    flips : int
        Largest number of wrong labels.
    seed : int
        Of nodes that are drawn.
    backdoor : bool
        Whether the features of the test node may change, too: each prediction withstands that of its own node, and not
        of the other test nodes.
    **options
        As in `labelcert.certify`: ``threat``, ``margin``, ``engine``, ``time_limit``, ``loss``, ``C``, and so on.

    Returns
    -------
    Certificate

    Examples
    --------
    >>> import numpy as np
    >>> from labelcert import GCN, Graph
    >>> from labelcert import certify_features
    >>> chain = np.diag(np.ones(5), 1) + np.diag(np.ones(5), -1)
    >>> graph = Graph(chain, [[3, 0], [2, 0], [2, 1], [1, 2], [0, 2], [0, 3]], [0, 0, 0, 1, 1, 1])
    >>> for radius in (0.0, 0.5, 2.0):
    ...     cert = certify_features(GCN(C=0.02), graph, [0, 1, 4, 5], [2, 3], poisoned=[1], radius=radius, flips=1)
    ...     print(radius, cert.radius_lower.tolist())
    0.0 [1, 1]
    0.5 [0, 1]
    2.0 [0, 0]
    """
    poison = FeaturePoison(poisoned, FeatureBall(radius, norm), seed, backdoor)
    certifier = GraphCertifier(model, graph, labeled, [test], inductive=inductive)
    found: Certificate = certifier.certify(
        test, using=poison.using(model, graph, labeled, test, inductive=inductive), max_flips=flips, **options
    )
    return found
