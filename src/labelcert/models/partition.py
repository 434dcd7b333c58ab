"""An ensemble of one model, trained on parts of the labels."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy.typing as npt

from labelcert.checking import whole_number
from labelcert.models.base import GraphLike, Model, require_choice

if TYPE_CHECKING:
    from labelcert.certificate import Certificate

Combination = Literal["mean", "votes"]
COMBINATIONS: tuple[str, ...] = get_args(Combination)


@dataclass(frozen=True)
class Partition:
    """An ensemble whose members are trained on parts of the labels, each on the kernel of the whole graph.

    Parameters
    ----------
    model
        The model that each part trains.
    parts
        Number of parts. A hash of their names deals out the labelled nodes; no label has any influence.
    seed
        Of the hash.
    combine
        The class with the highest mean score is predicted, or the one that most parts predict.

    Examples
    --------
    >>> from labelcert import Partition
    >>> from labelcert.graphs import karate
    >>> from labelcert.models import SGC
    >>> ensemble = Partition(SGC(C=1.0), parts=3, combine="votes")
    >>> ensemble.certify(karate(), [0, 1, 2, 3, 32, 33, 30, 29, 27], [5, 28]).predictions.tolist()
    ['Mr. Hi', 'Officer']
    """

    model: Model
    parts: int = 30
    seed: int = 0
    combine: Combination = "mean"

    def __post_init__(self) -> None:
        whole_number("parts", self.parts, least=1)
        whole_number("seed", self.seed, least=None)
        require_choice("combine", self.combine, COMBINATIONS)

    @property
    def label(self) -> str:
        """What is behind the model's name in tables."""
        return f"{self.parts} parts {self.combine}"

    def certify(
        self, graph: GraphLike, labeled: npt.ArrayLike, test: npt.ArrayLike, *, inductive: bool = False, **options: Any
    ) -> Certificate:
        """Certify the ensemble's predictions for the test nodes against changed labels.

        Parameters
        ----------
        graph, labeled, test, inductive
            As in `Model.certify`.
        **options
            Passed to `labelcert.certify_partition`: ``threat``, ``max_flips``, ``part_flips``, ``time_limit``,
            ``workers``, ``progress``, ``loss``, ``collective``, ``margin``.

        Returns
        -------
        Certificate
            Test nodes in the order of `test`.
        """
        from labelcert.certification import GraphCertifier

        certifier = GraphCertifier(self.model, graph, labeled, [test], inductive=inductive)
        found: Certificate = certifier.certify(test, using=self.using(), **options)
        return found

    def using(self) -> Any:
        """What certifies the arrays of a graph: `labelcert.certify_partition` with this ensemble's options."""
        from labelcert.certification import certify_partition

        return partial(certify_partition, parts=self.parts, seed=self.seed, combine=self.combine)
