"""The base class of models: a kernel, the blocks of it that an SVM needs, and a certificate.

Throughout, n is the number of nodes, d of features and m of labelled nodes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, Protocol, Self, get_args

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from labelcert.arrays import Float, Int
from labelcert.checking import in_short, one_of, real_number, whole_number
from labelcert.errors import InvalidInput
from labelcert.graphs import Graph
from labelcert.graphs.checks import as_indices
from labelcert.losses import get_loss
from labelcert.losses.cross_validation import CROSS_VALIDATED, best_C
from labelcert.models.activations import ACTIVATIONS
from labelcert.models.features import Features, as_features
from labelcert.models.layers import Architecture
from labelcert.models.networks.network import Network
from labelcert.models.propagation import NORMALIZATIONS

if TYPE_CHECKING:
    from labelcert.certificate import Certificate
    from labelcert.labelnoise import Noise
    from labelcert.rechecking import Recheck

Variant = Literal["exact", "published"]
VARIANTS: tuple[str, ...] = get_args(Variant)


class GraphLike(Protocol):
    """The parts of a graph that a model reads; `labelcert.graphs.Graph` has them."""

    @property
    def adjacency(self) -> sp.csr_array:
        """Edge weights, shape (n, n)."""

    @property
    def features(self) -> Features:
        """Node features X, shape (n, d)."""

    @property
    def labels(self) -> Int:
        """Classes, −1 if unknown, shape (n,)."""


@dataclass(frozen=True)
class View:
    """A graph as a model sees it, and some of its nodes, by their indices, in any order."""

    adjacency: sp.csr_array
    features: Features
    nodes: Int


@dataclass(frozen=True, kw_only=True)
class Model(ABC):
    r"""An infinitely wide network, or a plain kernel, with the SVM trained on top of it.

    Options mean the same in every model that has them:

    - ``C``: regularisation of the SVM, the cap on its dual variables; ``"cv"``: chosen by cross-validation;
    - ``depth``: hidden layers L, at least 1;
    - ``normalization``: ``"row"``, ``"symmetric"`` or ``"none"``, how :math:`\beta A + I` is normalised to S;
    - ``edge_weight``: β, the weight of edges relative to self-loops;
    - ``activation``: ``"relu"``, ``"linear"``, ``"erf"``, ``"gelu"`` or ``"tanh"``;
    - ``variant``: ``"exact"``, the kernel of the network, or ``"published"``, the one that the published code computes.
    """

    C: float | str = CROSS_VALIDATED

    def __post_init__(self) -> None:
        for option in fields(self):
            if option.name in SHARED_OPTIONS:
                SHARED_OPTIONS[option.name](option.name, getattr(self, option.name))
        published = getattr(self, "variant", "exact") == "published"
        require(
            not published or getattr(self, "activation", "relu") in ("relu", "linear"),
            "the published code knows the activations 'relu' and 'linear' alone; use variant='exact'",
        )
        self._check()

    def _check(self) -> None:  # noqa: B027 (most models only have shared options)
        """Refuse bad values of the options that only this model has; shared options are already checked."""

    @abstractmethod
    def _square(self, view: View) -> Float:
        """Return the kernel among the nodes of a view, exactly symmetric."""

    @abstractmethod
    def _pair(self, train: View, test: View, *, same_graph: bool) -> tuple[Float, Float]:
        """Return the kernel among the nodes of `train`, and between those of `test` (rows) and `train` (columns)."""

    def kernel(self, graph: GraphLike) -> Float:
        """Compute the kernel between all n nodes of a graph: shape (n, n), float64, symmetric.

        Examples
        --------
        >>> import numpy as np
        >>> from labelcert import Graph, Linear
        >>> graph = Graph(np.zeros((2, 2)), [[1.0], [2.0]], [0, 1])
        >>> Linear().kernel(graph).tolist()
        [[1.0, 2.0], [2.0, 4.0]]
        """
        n = int(graph.adjacency.shape[0])
        return self._square(View(graph.adjacency, as_features(graph.features, n), np.arange(n)))

    def kernel_blocks(
        self, graph: GraphLike, labeled: npt.ArrayLike, test: npt.ArrayLike, *, inductive: bool = False
    ) -> tuple[Float, Float]:
        r"""Compute only the two blocks of the kernel that an SVM needs.

        Parameters
        ----------
        graph
            Graph with n nodes.
        labeled, test
            Node indices, names of nodes, or boolean masks of length n. The blocks keep their order.
        inductive
            False: labelled and test nodes are in one graph, which is known in training. True: all test nodes
            join together after training. Training then sees the graph :math:`G` without them, and the trained
            network is evaluated on the whole graph :math:`G'`. The score of test node t changes with the
            weights along :math:`\nabla f_{G'}(t)`, while training moved them along the
            :math:`\nabla f_G(i)`. Hence :math:`k_t(i) = \langle \nabla f_{G'}(t), \nabla f_G(i) \rangle`,
            the kernel between two graphs that share their weights.

        Returns
        -------
        tuple of ndarray
            K_train of shape (m, m), symmetric, and K_test of shape (number of test nodes, m).

        Examples
        --------
        >>> import numpy as np
        >>> from labelcert import SGC, Graph
        >>> graph = Graph([[0, 1, 0], [1, 0, 1], [0, 1, 0]], np.eye(3), [0, 1, -1])
        >>> K_train, K_test = SGC(depth=1).kernel_blocks(graph, [0, 1], [2])
        >>> K_train.shape, K_test.shape
        ((2, 2), (1, 2))
        """
        before, after = self._views(graph, labeled, test, inductive=inductive)
        return self._pair(before, after, same_graph=not inductive)

    def _views(
        self, graph: GraphLike, labeled: npt.ArrayLike, test: npt.ArrayLike, *, inductive: bool = False
    ) -> tuple[View, View]:
        """Labelled nodes in the graph of training, and test nodes in the whole graph."""
        n = int(graph.adjacency.shape[0])
        features = as_features(graph.features, n)
        rows = as_nodes(graph, labeled, "labeled")
        columns = as_nodes(graph, test, "test")
        after = View(graph.adjacency, features, columns)
        if not inductive:
            return View(graph.adjacency, features, rows), after
        both = np.intersect1d(rows, columns)
        require(
            len(both) == 0,
            f"inductive test nodes join after training, so none may be labelled, but {len(both)} of them are "
            f"(nodes {', '.join(map(str, both[:5]))}); remove them from one of the two sets",
        )
        kept = np.setdiff1d(np.arange(n), columns)
        before = View(
            sp.csr_array(graph.adjacency[kept][:, kept]), features[kept], np.searchsorted(kept, rows).astype(np.int64)
        )
        return before, after

    def settled(
        self, graph: GraphLike, labeled: npt.ArrayLike, test: npt.ArrayLike, *, inductive: bool = False
    ) -> Self:
        """The model with a number as C: its own, or what cross-validation chooses on these nodes, as in `certify`."""
        if self.C != CROSS_VALIDATED:
            return self
        K, _ = self.kernel_blocks(graph, labeled, test, inductive=inductive)
        labels = np.asarray(graph.labels)[as_nodes(graph, labeled, "labeled")]
        return replace(self, C=best_C(K, labels, get_loss("hinge")))

    @property
    def has_network(self) -> bool:
        """Whether this is the limit of a network."""
        return type(self)._architecture is not Model._architecture

    def _architecture(self, adjacency: sp.csr_array) -> Architecture:
        """The network on a graph, at any width."""
        raise InvalidInput(f"networks of finite width are not there for {type(self).__name__}; use another model")

    def network(
        self, width: int, seed: int = 0, *, recipe: Literal["theory", "practice"] = "theory", device: str = "auto"
    ) -> Network:
        """The model's network at finite width, in PyTorch: ``pip install 'labelcert[torch]'``.

        Parameters
        ----------
        width
            Units of every hidden layer.
        seed
            Of the initial weights.
        recipe
            ``"theory"``: trained as the theory assumes, so that it becomes this model as the width grows.
            ``"practice"``: with cross-entropy, Adam and early stopping.
        device
            ``"cpu"``, ``"gpu"``, or ``"auto"``.

        Returns
        -------
        Network
            Its method ``train`` takes the arguments of `kernel_blocks`, and labels.
        """
        return Network(self, width, seed, recipe, device)

    def certify(
        self, graph: GraphLike, labeled: npt.ArrayLike, test: npt.ArrayLike, *, inductive: bool = False, **options: Any
    ) -> Certificate:
        """Certify the model's predictions for the test nodes against changed labels.

        Predictions and witnesses are in the names of the graph's classes.

        Parameters
        ----------
        graph
            Graph with n nodes and the labels of the labelled ones.
        labeled, test, inductive
            As in `kernel_blocks`.
        **options
            Passed to `labelcert.certify`: ``threat``, ``max_flips``, ``engine``, ``time_limit``, ``workers``,
            ``progress``, ``loss``, ``collective``, or another ``C`` than the model's.

        Returns
        -------
        Certificate
            Test nodes in the order of `test`.

        Examples
        --------
        >>> from labelcert.graphs import karate
        >>> from labelcert.models import SGC
        >>> SGC(C=1.0).certify(karate(), [0, 1, 32, 33], [5, 30]).predictions.tolist()
        ['Mr. Hi', 'Officer']
        """
        from labelcert.certification import GraphCertifier

        found: Certificate = GraphCertifier(self, graph, labeled, [test], inductive=inductive).certify(test, **options)
        return found

    def recheck(
        self, graph: GraphLike, labeled: npt.ArrayLike, test: npt.ArrayLike, *, inductive: bool = False, **options: Any
    ) -> Recheck:
        """Which labels to confirm, so that as many predictions for the test nodes as possible survive wrong labels.

        The graph and its nodes are given as in `certify`. Options are those of `labelcert.recheck`: ``flips``,
        ``confirm`` or ``until``, ``objective``, ``threat``, and so on.

        Examples
        --------
        >>> from labelcert.graphs import karate
        >>> from labelcert.models import SGC
        >>> advice = SGC(C=0.1).recheck(karate(), [0, 1, 2, 31, 32, 33], [5, 30, 9], flips=1, confirm=1)
        >>> advice.names, advice.before, advice.after
        (['0'], 0.0, [0.3333333333333333])
        """
        from labelcert.certification import GraphCertifier
        from labelcert.rechecking import recheck

        certifier = GraphCertifier(self, graph, labeled, [test], inductive=inductive)
        found: Recheck = certifier.certify(test, using=recheck, **options)
        return found

    def noise(
        self, graph: GraphLike, labeled: npt.ArrayLike, test: npt.ArrayLike, *, inductive: bool = False, **options: Any
    ) -> Noise:
        """How probable it is that each prediction for the test nodes changes, where labels are wrong by chance.

        The graph and its nodes are given as in `certify`. Options are those of `labelcert.noise`: ``wrong``, ``loss``,
        ``time_limit``, ``seed``, and so on.

        Examples
        --------
        >>> from labelcert.graphs import karate
        >>> from labelcert.models import SGC
        >>> found = SGC(C=0.1).noise(karate(), [0, 1, 2, 31, 32, 33], [5, 30, 9], wrong=0.1)
        >>> found.probability.round(3).tolist(), found.proved
        ([0.106, 0.244, 0.231], True)
        """
        from labelcert.certification import GraphCertifier
        from labelcert.labelnoise import noise

        certifier = GraphCertifier(self, graph, labeled, [test], inductive=inductive)
        found: Noise = certifier.certify(test, using=noise, **options)
        return found


def require(condition: bool, message: str) -> None:
    """Raise `InvalidInput` with this message unless the condition holds."""
    if not condition:
        raise InvalidInput(message)


def require_positive(name: str, value: float) -> None:
    """Refuse anything but a positive finite number."""
    number = real_number(value)
    require(number is not None and number > 0.0, f"{name} must be a positive finite number, got {in_short(value)}")


def _check_C(name: str, value: float | str) -> None:  # noqa: N802 (the name that everybody gives it)
    """Refuse what is neither a positive finite number nor a word for cross-validation."""
    if not (isinstance(value, str) and value == CROSS_VALIDATED):
        number = real_number(value)
        good = number is not None and number > 0.0
        advice = "cross-validation chooses it with C='cv'"
        require(good, f"{name} must be a positive finite number, got {in_short(value)}; {advice}")


def require_between(name: str, value: float, low: float, high: float) -> None:
    """Refuse a number outside a closed interval."""
    number = real_number(value)
    within = number is not None and low <= number <= high
    require(within, f"{name} must lie between {low:g} and {high:g}, got {in_short(value)}")


SHARED_OPTIONS: dict[str, Callable[[str, Any], object]] = {
    "C": _check_C,
    "depth": partial(whole_number, least=1, remark="hidden layers"),
    "normalization": partial(one_of, choices=NORMALIZATIONS),
    "activation": partial(one_of, choices=ACTIVATIONS),
    "edge_weight": partial(require_between, low=0.0, high=1e6),
    "variant": partial(one_of, choices=VARIANTS),
}
"""Options that mean the same in every model that has them, and the check of each."""


def as_nodes(graph: GraphLike, nodes: npt.ArrayLike, name: str) -> Int:
    """Return node indices from indices, a boolean mask or names; refuse repeated, unknown or no nodes."""
    if isinstance(graph, Graph):
        index = graph.indices(nodes, what=name)
    else:
        index = as_indices(nodes, n_nodes=int(graph.adjacency.shape[0]), what=name)
    require(index.size > 0, f"{name}: expected at least one node, got none")
    return index
