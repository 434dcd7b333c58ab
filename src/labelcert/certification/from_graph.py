"""The one way from a graph and a model to certificates: models, command line and studies all take it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from labelcert.arrays import Float, Int, Values
from labelcert.certificate import Surroundings
from labelcert.certificate.metric import Metric
from labelcert.certification.facades import certify
from labelcert.engines.freezing import Names
from labelcert.errors import InvalidInput
from labelcert.graphs import UNLABELED, Graph
from labelcert.graphs.checks import as_indices
from labelcert.losses.cross_validation import CHOSEN

LARGEST_KEPT_GRAPH = 200_000
"""Certificates keep graphs with no more edges than this, for pictures."""


LIMIT = "certified is the infinitely wide network; labelcert.stress(train, cert) tests how much of it holds for yours"
"""What certificates of infinitely wide networks say."""


class KernelModel(Protocol):
    """What is certified: a kernel between nodes, and the regularisation of the machine that is trained on it."""

    @property
    def C(self) -> float | str:  # noqa: N802 (the name that everybody gives it)
        """Regularisation of the machine; ``"cv"``: to be chosen by cross-validation."""

    def kernel_blocks(
        self, graph: Any, labeled: npt.ArrayLike, test: npt.ArrayLike, *, inductive: bool = False
    ) -> tuple[Float, Float]:
        """Kernel among labelled nodes, and between test nodes and labelled ones."""


class GraphCertifier:
    """Certificates for several sets of test nodes on one graph, from one kernel.

    The names of a Graph carry over to certificates; anything else with adjacency, features and labels will do.
    ``tests`` are all sets that will be asked for. ``inductive``: each set joins after training, on its own. ``chosen``:
    the model's C comes from cross-validation over the labels.
    """

    def __init__(
        self,
        model: KernelModel,
        graph: Any,
        labeled: npt.ArrayLike,
        tests: Sequence[npt.ArrayLike],
        *,
        inductive: bool = False,
        chosen: bool = False,
    ) -> None:
        if not hasattr(getattr(graph, "adjacency", None), "shape"):
            raise InvalidInput(
                f"expected a labelcert.Graph, got {type(graph).__module__}.{type(graph).__name__}; make one with "
                "Graph.from_pyg(data), Graph.from_networkx(graph) or labelcert.graph_from_files(...)"
            )
        self._model, self._graph, self._inductive, self._chosen = model, graph, inductive, chosen
        self.labeled: Int = self._indices(labeled, "labeled")
        self.labels = self._labels()
        self._prepare(tests)

    def _prepare(self, tests: Sequence[npt.ArrayLike]) -> None:
        """Compute what all sets of test nodes share."""
        if not self._inductive:
            self._nodes = np.unique(np.concatenate([self._indices(test, "test") for test in tests]))
            self._blocks = self._model.kernel_blocks(self._graph, self.labeled, self._nodes, inductive=False)

    def certify(
        self, test: npt.ArrayLike, *, C: float | str | None = None, using: Callable[..., Any] = certify, **options: Any
    ) -> Any:
        """The certificate of one set of test nodes, or whatever ``using`` makes of the arrays, C and options."""
        nodes: Int = self._indices(test, "test")
        both = np.intersect1d(nodes, self.labeled)
        if both.size:
            name = self._graph.names(both[:1])[0] if isinstance(self._graph, Graph) else str(both[0])
            raise InvalidInput(
                f"test nodes must not be labelled ones, but {both.size} of {nodes.size} are (such as {name}); leave "
                "them out of `test`, or certify the arrays of model.kernel_blocks"
            )
        K_train, K_test = self.blocks(nodes)
        C = self._model.C if C is None else C
        options = self._with_truth(nodes, options)
        return using(K_train, self.labels, K_test, C, names=self._names(nodes, C), **options)

    def _indices(self, nodes: npt.ArrayLike, what: str) -> Int:
        graph = self._graph
        if isinstance(graph, Graph):
            return graph.indices(nodes, what=what)
        return as_indices(nodes, n_nodes=int(graph.adjacency.shape[0]), what=what)

    @property
    def graph(self) -> Any:
        """The graph, as it was given."""
        return self._graph

    def blocks(self, nodes: Int) -> tuple[Float, Float]:
        """The kernel among the labelled nodes, and between one set of test nodes and them."""
        if self._inductive:
            return self._model.kernel_blocks(self._graph, self.labeled, nodes, inductive=True)
        return self._blocks[0], self._blocks[1][np.searchsorted(self._nodes, nodes)]

    def _with_truth(self, nodes: Int, options: dict[str, Any]) -> dict[str, Any]:
        """The options, with true classes for metrics that have none."""
        if not options.get("metrics"):
            return options
        truth, known = self._truth(nodes), [Metric.of(one) for one in options["metrics"]]
        filled = [one if one.true_labels is not None else replace(one, true_labels=truth) for one in known]
        return {**options, "metrics": filled}

    def _truth(self, nodes: Int) -> Values:
        """True classes of test nodes, as far as the graph knows them."""
        graph = self._graph
        return graph.named_labels(nodes) if isinstance(graph, Graph) else np.asarray(graph.labels)[nodes]

    def _labels(self) -> Values:
        graph, codes = self._graph, np.asarray(self._graph.labels)[self.labeled]
        without = self.labeled[codes == UNLABELED]
        if without.size:
            name = graph.names(without[:1])[0] if isinstance(graph, Graph) else str(without[0])
            raise InvalidInput(
                f"every labelled node needs a label, but {without.size} of {codes.size} have none (such as {name}); "
                "leave them out"
            )
        return graph.named_labels(self.labeled) if isinstance(graph, Graph) else codes

    def _names(self, nodes: Int, C: float | str) -> Names:
        graph, labeled = self._graph, self.labeled
        named = repr(self._model).replace(f"C={self._model.C!r}", f"C={C!r}", 1)
        model = "; ".join([named, *getattr(graph, "notes", ())])
        remarks: tuple[str, ...] = (LIMIT,) if getattr(self._model, "has_network", False) else ()
        remarks += (CHOSEN,) if self._chosen else ()
        if not isinstance(graph, Graph):
            return Names(label_keys=labeled.astype(np.str_), model=model, remarks=remarks)
        around: Surroundings | None = None
        if graph.n_edges <= LARGEST_KEPT_GRAPH:
            around = Surroundings(
                names=np.array(graph.names(np.arange(graph.n_nodes))),
                edges=graph.edges.astype(np.int32),
                labeled=labeled,
                tested=nodes,
                truth=np.array(graph.named_labels(nodes), dtype=np.str_),
            )
        test, labels = np.array(graph.names(nodes)), np.array(graph.names(labeled))
        classes = np.array(graph.class_names)
        return Names(model=model, remarks=remarks, around=around, test=test, labels=labels, class_list=classes)
