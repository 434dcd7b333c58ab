"""A model with everything that its training needs: options and C, the loss, and the parts of an ensemble."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from inspect import signature
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy.typing as npt

from labelcert.certification import GraphCertifier, certify, certify_partition
from labelcert.checking import one_of, whole_number
from labelcert.errors import InvalidInput
from labelcert.models.base import GraphLike, Model
from labelcert.models.by_name import name_of

if TYPE_CHECKING:
    from labelcert.certificate import Certificate

Combination = Literal["mean", "votes"]
COMBINATIONS: tuple[str, ...] = get_args(Combination)


@dataclass(frozen=True)
class Recipe:
    """What to train, and how it came to be chosen."""

    model: Model
    """With its options and C."""
    loss: str = "hinge"
    parts: int | None = None
    """Trained as an ensemble, with one member for each of this many parts of the labels."""
    seed: int = 0
    """Of the hash that deals out the labels to parts."""
    combine: Combination = "mean"
    source: str = "given"
    """Where C comes from: "given", "paper", "default" (of this package for the dataset) or "cross-validation"."""
    accuracy: float | None = None
    """Its cross-validated accuracy, where that was measured."""
    deviation: float | None = None
    """Of that accuracy: its standard deviation over the folds or, from `labelcert.harden`, its standard error."""

    @property
    def name(self) -> str:
        """The model's, as in `labelcert models`."""
        return name_of(self.model)

    @property
    def C(self) -> float:  # noqa: N802 (the name that everybody gives it)
        """Regularisation of the model's SVM, once it is chosen."""
        return float(self.model.C)

    @property
    def has_C(self) -> bool:  # noqa: N802
        """Whether it is regularised by a C."""
        return True

    @property
    def options(self) -> dict[str, Any]:
        """All options of the model but C."""
        return {key: value for key, value in asdict(self.model).items() if key != "C"}

    @property
    def changed(self) -> dict[str, Any]:
        """Options that differ from the model's defaults."""
        defaults = type(self.model)()
        return {key: value for key, value in self.options.items() if value != getattr(defaults, key)}

    @property
    def label(self) -> str:
        """The model's name, its unusual options and the parts, for headings: "gcn depth=2 30 parts mean"."""
        return " ".join([*self._words(), *([] if self.parts is None else [f"{self.parts} parts {self.combine}"])])

    @property
    def full_label(self) -> str:
        """The label with C and the loss, which tells all recipes of a search apart."""
        words = [*self._words(), f"C={self.C:g}"]
        words += [] if self.loss == "hinge" else [self.loss.replace("_", " ")]
        return " ".join([*words, *([] if self.parts is None else [f"{self.parts} parts"])])

    @property
    def slug(self) -> str:
        """The label as part of a file name."""
        return re.sub(r"[^a-z0-9.]+", "-", self.label.lower())

    @property
    def command(self) -> str:
        """The options of ``labelcert certify`` that name it."""
        words = [f"--model {self.name}", f"--C {self.C!r}", f"--loss {self.loss}"]
        for key, value in self.changed.items():
            words.append(f"--{key.replace('_', '-')}" + ("" if value is True else f" {value}"))
        if self.parts is not None:
            words.append(f"--parts {self.parts}" + ("" if self.combine == "mean" else f" --combine {self.combine}"))
        return " ".join(words)

    @property
    def extra(self) -> dict[str, Any] | None:
        """What else decides what is trained, in plain values."""
        return None

    @property
    def trained(self) -> Model | Partition:
        """What is certified: the model itself, or an ensemble of it."""
        return self.model if self.parts is None else Partition(self.model, self.parts, self.seed, self.combine)

    def certifier(
        self, graph: GraphLike, labeled: npt.ArrayLike, tests: Sequence[npt.ArrayLike], *, inductive: bool = False
    ) -> GraphCertifier:
        """What certifies it, and whatever has the same kernel, on a graph; parameters as of `GraphCertifier`."""
        chosen = self.source == "cross-validation"
        return GraphCertifier(self.model, graph, labeled, tests, inductive=inductive, chosen=chosen)

    def certify(
        self, certifier: GraphCertifier, test: npt.ArrayLike, *, using: Callable[..., Any] | None = None, **options: Any
    ) -> Any:
        """The certificate of some test nodes, or what else is asked about them.

        Models, studies, `labelcert.harden` and the command line all certify recipes here. `using` takes the arrays: by
        default it is `labelcert.certify` or, for parts, `labelcert.certify_partition`. Options are those of that
        function.
        """
        if using is None:
            using = certify
            if self.parts is not None:
                unknown = [option for option in options if option not in signature(certify_partition).parameters]
                if unknown:
                    raise InvalidInput(f"ensembles on parts of the labels have no option {unknown[0]}; leave one out")
                using = partial(certify_partition, parts=self.parts, seed=self.seed, combine=self.combine)
        return certifier.certify(test, C=self.model.C, using=using, loss=self.loss, **options)

    def beside(self, graph: GraphLike, labeled: npt.ArrayLike, test: npt.ArrayLike) -> dict[str, Any]:
        """The arrays that `labelcert verify` asks for where a certificate does not hold its kernels."""
        return {}

    def _words(self) -> list[str]:
        return [self.name, *(f"{key}={value}" for key, value in self.changed.items())]


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
        one_of("combine", self.combine, COMBINATIONS)

    def certify(
        self, graph: GraphLike, labeled: npt.ArrayLike, test: npt.ArrayLike, *, inductive: bool = False, **options: Any
    ) -> Certificate:
        """Certify the ensemble's predictions for the test nodes, in their order, against changed labels.

        Parameters
        ----------
        graph, labeled, test, inductive
            As in `Model.certify`.
        **options
            Passed to `labelcert.certify_partition`: ``threat``, ``max_flips``, ``part_flips``, ``time_limit``,
            ``workers``, ``progress``, ``loss``, ``collective``.
        """
        recipe = Recipe(self.model, str(options.pop("loss", "hinge")), self.parts, self.seed, self.combine)
        certifier = recipe.certifier(graph, labeled, [test], inductive=inductive)
        found: Certificate = recipe.certify(certifier, test, **options)
        return found
