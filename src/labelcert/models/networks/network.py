"""Networks of finite width: the documented ones, trained on clean and on poisoned labels."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from labelcert.arrays import Float, Int
from labelcert.checking import one_of, whole_number
from labelcert.errors import InvalidInput
from labelcert.models.layers import Architecture
from labelcert.models.networks import practice, theory
from labelcert.models.networks.torch_extra import check_device, torch
from labelcert.models.networks.wiring import Place, Tensor, Weights, Wired

if TYPE_CHECKING:
    from labelcert.models.base import GraphLike, Model, View

Recipe = Literal["theory", "practice"]
RECIPES: tuple[str, ...] = get_args(Recipe)

MEMORY = {"cpu": 2e7, "cuda": 8e9}
"""Bytes that trainings side by side take, by device; a processor is fastest where they fit into its cache."""


@dataclass(frozen=True, eq=False)
class TrainedNetwork:
    """What a network says about some test nodes after each of B trainings."""

    scores: Float
    """(B, n) with two classes, the scores of the second one; else (B, n, K). One training without the first axis."""
    classes: Int
    """Class codes of the graph, as in `scores`."""
    moved: Float | None = None
    """(B,) with ``recipe="theory"``, how much the scores of labelled nodes moved in the last step."""
    epochs: Float | None = None
    """(B,) with ``recipe="practice"``, the epoch that was kept."""

    @property
    def predictions(self) -> Int:
        """Predicted class codes, (B, n) or (n,)."""
        if len(self.classes) == 2:
            return np.asarray(self.classes[(self.scores > 0).astype(np.int64)])
        return np.asarray(self.classes[self.scores.argmax(axis=-1)])


@dataclass(frozen=True)
class Network:
    """A model's network at finite width, with random initial weights; options as of :meth:`.Model.network`.

    With ``"theory"``, the objective is the hinge loss plus half the squared distance from the initial weights, the
    initial function subtracted, to convergence; this becomes the kernel machine as the width grows. ``"practice"`` is
    cross-entropy, the usual small initial weights, biases, Adam, and early stopping where there are validation nodes.

    Examples
    --------
    >>> from labelcert.graphs import karate
    >>> from labelcert.models import GCN
    >>> network = GCN(C=1.0).network(64, seed=0)  # doctest: +SKIP
    >>> network.train(karate(), [0, 1, 32, 33], [5, 30]).predictions.tolist()  # doctest: +SKIP
    [0, 1]
    """

    model: Model
    width: int
    seed: int = 0
    recipe: Recipe = "theory"
    device: str = "auto"

    def __post_init__(self) -> None:
        whole_number("width", self.width, least=1, remark="units of every hidden layer")
        whole_number("seed", self.seed)
        one_of("recipe", self.recipe, RECIPES)
        if getattr(self.model, "variant", "exact") != "exact":
            raise InvalidInput("the published variant of a kernel belongs to no network; use variant='exact'")
        self._place  # noqa: B018 (a missing device or package is told now)

    @cached_property
    def _place(self) -> Place:
        return Place(check_device(self.device), torch().float32)

    def train(
        self,
        graph: GraphLike,
        labeled: npt.ArrayLike,
        test: npt.ArrayLike,
        *,
        labels: npt.ArrayLike | None = None,
        validation: npt.ArrayLike | None = None,
        inductive: bool = False,
    ) -> TrainedNetwork:
        """Train, and score the test nodes.

        Parameters
        ----------
        graph
            Graph with n nodes.
        labeled, test, inductive
            As in `Model.kernel_blocks`.
        labels
            Class codes to train on instead of the graph's own, in the order of `labeled`: shape (m,), or (B, m) for B
            trainings from the same initial weights.
        validation
            Nodes whose labels in the graph decide when training stops, with ``recipe="practice"``; the theory knows no
            such thing. None of them may be a test node with ``inductive=True``.
        """
        before, after = self.model._views(graph, labeled, test, inductive=inductive)
        self.model._architecture(before.adjacency)  # plain kernels are refused before C is chosen
        own = np.asarray(graph.labels)[self.model._views(graph, labeled, test)[0].nodes]
        classes = np.unique(own)
        if classes.size < 2 or classes[0] < 0:
            raise InvalidInput("labeled nodes must have known labels of at least two classes")
        given = own if labels is None else np.asarray(labels)
        if given.ndim not in (1, 2) or given.shape[-1] != own.size or not np.isin(given, classes).all():
            raise InvalidInput(
                f"labels must be class codes {', '.join(map(str, classes.tolist()))}, shape ({own.size},) or "
                f"(trainings, {own.size}), got shape {given.shape}"
            )
        codes = np.searchsorted(classes, np.atleast_2d(given)).astype(np.int64)
        checks = np.zeros(0, dtype=np.int64)
        if validation is not None and self.recipe == "practice":
            extra, _ = self.model._views(graph, validation, test, inductive=inductive)
            truth = np.asarray(graph.labels)[self.model._views(graph, validation, test)[0].nodes]
            if not np.isin(truth, classes).all():
                raise InvalidInput("validation nodes must have known labels of the classes of the labelled nodes")
            before = replace(before, nodes=np.concatenate([before.nodes, extra.nodes]))
            checks = np.searchsorted(classes, truth).astype(np.int64)
        network = self
        if self.recipe == "theory":
            network = replace(self, model=self.model.settled(graph, labeled, test, inductive=inductive))
        scores, moved = _Trainer(network, before, after, len(classes)).run(codes, checks)
        scores = scores[:, :, 0] if len(classes) == 2 else scores
        scores = scores if given.ndim == 2 else scores[0]
        last = {"moved" if self.recipe == "theory" else "epochs": moved}
        return TrainedNetwork(scores, classes.astype(np.int64), **last)

    def tangent_kernel(self, graph: GraphLike, labeled: npt.ArrayLike, test: npt.ArrayLike) -> tuple[Float, Float]:
        """Inner products of the gradients of one output at the start: both blocks of `Model.kernel_blocks`.

        They become those of the model as the width grows. For ``recipe="theory"``.
        """
        before, after = self.model._views(graph, labeled, test)
        both, m = replace(before, nodes=np.concatenate([before.nodes, after.nodes])), before.nodes.size
        K = _Trainer(replace(self, recipe="theory"), both, after, 2).start()
        return K[:m, :m], K[m:, :m]


class _Trainer:
    """One network on the graph that it is trained on, and on the one that it is tested on."""

    def __init__(self, network: Network, before: View, after: View, n_classes: int) -> None:
        self._network, self._place = network, network._place
        self._standard = network.recipe == "practice"
        self._outputs = 1 if n_classes == 2 else n_classes
        architecture = self._architecture(before)
        self._weights = Weights(
            architecture,
            int(before.features.shape[1]),
            network.width,
            self._outputs,
            network.seed,
            self._place,
            standard=self._standard,
        )
        wanted = np.unique(before.nodes)
        self._order = np.searchsorted(wanted, before.nodes)
        train = Wired(self._weights, architecture, before.features, wanted)
        basis = None if self._standard else train.span()
        self._train = train if basis is None else Wired(self._weights, architecture, before.features, wanted, basis)
        rows = architecture.propagation_rows(wanted)
        self._rows = None if rows is None else self._place.put(rows)
        self._after = after
        self._target = self._architecture(after)
        self._test = Wired(self._weights, self._target, after.features, np.unique(after.nodes), basis)
        self._shapes = self._weights.shapes(self._train.first_inputs)

    def _architecture(self, view: View) -> Architecture:
        """The network on a graph; practitioners have biases everywhere."""
        own = self._network.model._architecture(view.adjacency)
        return replace(own, bias=own.bias or self._standard)

    def run(self, codes: Int, checks: Int) -> tuple[Float, Float]:
        """(B, n, outputs) scores, and (B,) how much they moved in the last step, or the epoch that was kept."""
        at_once = self._at_once()
        nothing = [self._place.put(np.zeros((1, *shape))) for shape in self._shapes]
        start = None if self._standard else self._scores(nothing)
        signs = np.where(codes[:, :, None] == np.arange(self._outputs), 1.0, -1.0)
        if self._outputs == 1:
            signs = np.where(codes[:, :, None] == 1, 1.0, -1.0)
        K = None
        if not self._standard:
            K = self._tangent(at_once)
        scores, moved = [], []
        for first in range(0, len(codes), at_once):
            part = slice(first, first + at_once)
            if self._weights.start is not None:
                moves, left = practice.train(self._labeled, self._weights.start, codes[part], checks)
            else:
                assert K is not None
                C = float(self._network.model.C)
                moves, left = theory.train(self._labeled, self._shapes, signs[part], C, K, self._place)
            for b in range(left.size):
                found = self._scores([move[b : b + 1] for move in moves])
                scores.append(found if start is None else found - start)
            moved.append(left)
        return np.stack(scores), np.concatenate(moved)

    def start(self) -> Float:
        """(m, m) the tangent kernel of the first output among the nodes that are trained on."""
        return np.asarray(self._tangent(self._at_once())[0])

    def _tangent(self, at_once: int) -> Float:
        return theory.tangent_kernel(self._labeled, self._shapes, self._order.size, self._outputs, self._place, at_once)

    def _labeled(self, moves: Any) -> Tensor:
        """Outputs of labelled nodes (and of validation nodes), in their order: (B, m, outputs)."""
        out = self._train.outputs(moves)
        return (out if self._rows is None else self._rows @ out)[:, self._order]

    def _scores(self, moves: Any) -> Float:
        """Outputs of test nodes after one training, in their order: (n, outputs)."""
        with torch().no_grad():
            out = self._test.outputs(moves)[0].double().cpu().numpy()
        propagate = self._target.propagate
        if propagate is not None:
            return np.asarray(propagate(out)[self._after.nodes])
        return np.asarray(out[np.searchsorted(self._test.nodes, self._after.nodes)])

    def _at_once(self) -> int:
        """How many trainings fit into memory side by side."""
        hidden = self._train.base.numel() * len(self._target.layers)
        numbers = 3 * sum(int(np.prod(shape)) for shape in self._shapes) + 4 * hidden
        return max(1, int(MEMORY[self._place.device] // (numbers * 4)))
