"""Chooses C, and any other option, by cross-validation over the labelled nodes, as in the paper."""

from __future__ import annotations

import html
import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from labelcert.checking import one_of, whole_number
from labelcert.losses import get_loss
from labelcert.losses.cross_validation import C_GRID, accuracies, stratified_folds
from labelcert.models.base import GraphLike, Model, as_nodes, require
from labelcert.models.recipe import Recipe

if TYPE_CHECKING:
    import pandas as pd

Rule = Literal["best", "smallest"]
RULES: tuple[str, ...] = get_args(Rule)


@dataclass(frozen=True)
class Selection:
    """Outcome of a cross-validation: the model that was chosen among the candidates.

    Every point of the grid is a candidate, in the order of the grid, with its ``model``, ``accuracy`` (averaged over
    the folds) and ``deviation`` (over the folds).
    """

    model: Model
    candidates: tuple[Recipe, ...]

    @property
    def accuracy(self) -> float:
        """Cross-validated accuracy of the model that was chosen."""
        return next(c.accuracy for c in self.candidates if c.model == self.model and c.accuracy is not None)

    def to_frame(self) -> pd.DataFrame:
        """One row per point of the grid: options that differ, accuracy and its deviation over the folds."""
        import pandas as pd

        settings = [asdict(candidate.model) for candidate in self.candidates]
        searched = [name for name in settings[0] if len({str(setting[name]) for setting in settings}) > 1]
        rows = [
            {
                **{name: setting[name] for name in searched},
                "accuracy": candidate.accuracy,
                "deviation": candidate.deviation,
                "chosen": candidate.model == self.model,
            }
            for setting, candidate in zip(settings, self.candidates, strict=True)
        ]
        return pd.DataFrame(rows)

    def _repr_html_(self) -> str:
        table = self.to_frame().to_html(index=False, float_format="{:.3f}".format)
        return f"<div><strong>{html.escape(repr(self.model))}</strong>{table}</div>"


def select(
    model: Model,
    graph: GraphLike,
    labeled: npt.ArrayLike,
    *,
    seed: int,
    C: Sequence[float] = C_GRID,
    grid: Mapping[str, Sequence[Any]] | None = None,
    loss: str = "hinge",
    rule: Rule = "best",
    folds: int | None = None,
    joining: npt.ArrayLike | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Selection:
    """Choose C, and other options if a grid for them is given, by stratified cross-validation.

    The kernel is computed once per combination of options and serves all C and all folds.

    Parameters
    ----------
    model
        The model; options that are not searched keep its values.
    graph
        Graph with n nodes and the labels of the labelled ones.
    labeled
        Labelled nodes: indices, names or a boolean mask. Their order affects how scikit-learn shuffles them into folds.
    seed
        Seed of that shuffle; the paper uses the seed of the split.
    C
        Values of C to try.
    grid
        Values of other options to try, by name, such as ``{"alpha": (0.0, 0.1, 0.2)}``.
    loss
        What the model is trained with, as in `certify`.
    rule
        ``"best"``: the highest accuracy; among equals, the earliest in the grid. ``"smallest"``: the smallest C
        whose accuracy is at most one standard deviation of the best candidate below the best; among equals, the
        more accurate.
    folds
        Number of folds; 4 by default, or as many as the smallest class has labels.
    joining
        Nodes that join the graph after training, which certificates call inductive; models are chosen without them.
    progress
        Called after each evaluation with the number done and the total.

    Examples
    --------
    >>> import numpy as np
    >>> from labelcert import Graph, Linear, select
    >>> x = [[1.0], [2.0], [3.0], [4.0], [-1.0], [-2.0], [-3.0], [-4.0]]
    >>> graph = Graph(np.zeros((8, 8)), x, [1, 1, 1, 1, 0, 0, 0, 0])
    >>> select(Linear(), graph, np.arange(8), seed=0, C=(0.1, 1.0), rule="smallest").model
    Linear(C=0.1, bias=False)
    """
    one_of("rule", rule, RULES)
    trained_with = get_loss(loss)
    whole_number("seed", seed, 0, 2**32 - 1)
    require(len(C) > 0, "C must hold at least one value to try, got none")
    searched = variants(model, {name: tuple(values) for name, values in (grid or {}).items()}, type(model).__name__)
    nodes = as_nodes(graph, labeled, "labeled")
    labels = np.asarray(graph.labels)[nodes]
    require(
        bool((labels >= 0).all()),
        f"every node in `labeled` needs a label, but {int((labels < 0).sum())} of {len(labels)} have none",
    )
    parts = stratified_folds(labels, folds=folds, seed=seed)
    total, trained = len(searched) * len(C) * len(parts), itertools.count(1)

    def count() -> None:
        if progress is not None:
            progress(next(trained), total)

    candidates: list[Recipe] = []
    for variant in searched:
        tested = nodes[:1] if joining is None else joining
        K = variant.kernel_blocks(graph, nodes, tested, inductive=joining is not None)[0]
        for value, found in zip(C, accuracies(K, labels, C, parts, trained_with, count), strict=True):
            measured: dict[str, Any] = {"accuracy": float(np.mean(found)), "deviation": float(np.std(found))}
            candidates.append(Recipe(replace(variant, C=value), loss, source="cross-validation", **measured))
    return Selection(choose(candidates, rule), tuple(candidates))


def variants(model: Model, grid: Mapping[str, Sequence[Any]], name: str, fixed: Sequence[str] = ("C",)) -> list[Model]:
    """A model with every combination of the options in a grid, in its order; the name is for messages."""
    known = {field.name for field in fields(model)}.difference(fixed)
    for option, values in grid.items():
        require(option in known, f"{name} has no option {option!r} to search; it has {', '.join(sorted(known))}")
        listed = isinstance(values, Sequence) and not isinstance(values, str) and len(values) > 0
        require(
            listed, f"the grid for {option!r} must hold at least one value: it must be a list of values, got {values!r}"
        )
    return [replace(model, **dict(zip(grid, values, strict=True))) for values in itertools.product(*grid.values())]


def choose(candidates: Sequence[Recipe], rule: Rule) -> Model:
    """The model that a rule chooses among candidates with accuracies and deviations: see `select`."""
    scored = [(c.accuracy or 0.0, c.deviation or 0.0, c.model) for c in candidates]
    best, deviation, model = max(scored, key=lambda each: each[0])
    if rule == "best":
        return model
    # Accuracies are means of ratios of small integers. Without slack, rounding would decide ties.
    close = [
        (model.C, -accuracy, k) for k, (accuracy, _, model) in enumerate(scored) if accuracy >= best - deviation - 1e-12
    ]
    return scored[min(close)[2]][2]
