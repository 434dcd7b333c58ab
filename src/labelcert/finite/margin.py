"""How far networks of some width stray from the kernel machine: the margin that a certificate for them needs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from labelcert.arrays import Float
from labelcert.checking import whole_number
from labelcert.errors import InvalidInput
from labelcert.finite.twins import Twins
from labelcert.models import Model
from labelcert.models.base import GraphLike
from labelcert.progress import progress_report

LABELLINGS = 10
"""Sets of labels with random flips that each network is trained on, where flips are asked for."""


@dataclass(frozen=True, eq=False)
class FiniteMargin:
    """Margins that networks of one width need.

    Attributes
    ----------
    margins : (n,) array
        One for each test node, for ``certify(margin=...)``.
    quantile : float
        Share of the test nodes whose scores stray by less than their margin.
    confidence : float
        About how probable it is that this holds for another network of the same width, trained on such labels.
    width, networks, flips, seed : int
        Of the networks that were trained.
    deviations : (networks, n) array
        How far the score of each node strayed in each network: with two classes, the signed score; with more, the lead
        of the predicted class.

    Examples
    --------
    >>> import numpy as np
    >>> import labelcert
    >>> found = labelcert.FiniteMargin(margins=np.array([0.1, 0.2]), quantile=0.95, confidence=0.95, width=1024,
    ...                                networks=19, flips=1, seed=0, deviations=np.full((19, 2), 0.05))
    >>> found
    FiniteMargin(width 1024: a typical score strays by 0.05; margins 0.1 to 0.2 cover 95 % of 2 nodes with 95 % ...)
    >>> cert = labelcert.certify([[2, 0], [0, 2]], ["cat", "dog"], [[1, 0], [1, 2]], C=1.0, margin=found)
    >>> cert.radius_lower.tolist()
    [1, 1]
    """

    margins: Float
    quantile: float
    confidence: float
    width: int
    networks: int
    flips: int
    seed: int
    deviations: Float

    def __repr__(self) -> str:
        return (
            f"FiniteMargin(width {self.width}: a typical score strays by {np.median(self.deviations):.3g}; "
            f"margins {self.margins.min():.3g} to {self.margins.max():.3g} cover {100 * self.quantile:g} % of "
            f"{self.margins.size} nodes with {100 * self.confidence:.3g} % confidence, {self.networks} networks)"
        )


def finite_margin(
    model: Model,
    graph: GraphLike,
    width: int,
    labeled: npt.ArrayLike,
    test: npt.ArrayLike,
    *,
    quantile: float = 0.95,
    networks: int = 19,
    flips: int = 1,
    seed: int = 0,
    inductive: bool = False,
    device: str = "auto",
    progress: bool = False,
) -> FiniteMargin:
    """Measure the margin that makes a certificate hold for networks of finite width.

    Networks of this width are trained as the theory assumes, and their scores are compared with those of the kernel
    machine. The margin of a node is proportional to how far its own score strays in these networks, by a factor that
    covers a share of all nodes. This needs PyTorch: ``pip install 'labelcert[torch]'``.

    Parameters
    ----------
    model : Model
    graph : Graph
    width : int
        Units of every hidden layer.
    labeled, test : indices or masks
    quantile : float
        Share of the nodes to cover.
    networks : int
        How many networks to train, each from its own initial weights. The factor is the largest that any of them
        needs, so that another network needs a larger one with a probability of about 1 in ``networks + 1``.
    flips : int
        Number of labels that are changed at random, again and again: networks are trained on such labels, too, and
        the largest deviation counts. 0: clean labels alone.
    seed : int
        Of initial weights and flips.
    inductive : bool
        Test nodes join the graph after training.
    device : {"auto", "cpu", "gpu"}
        Where to train.
    progress : bool
        Show a progress bar on standard error.

    Returns
    -------
    FiniteMargin
        Hand it to ``model.certify(graph, labeled, test, margin=...)``.

    Examples
    --------
    >>> from labelcert import finite_margin
    >>> from labelcert.graphs import karate
    >>> from labelcert.models import SGC
    >>> found = finite_margin(SGC(C=0.5), karate(), 64, [0, 1, 2, 31, 32, 33], [5, 30], networks=2, device="cpu")
    >>> found.margins.shape, bool((found.margins > 0).all())
    ((2,), True)
    """
    pair = Twins(model, graph, labeled, test, inductive, device)
    return measured(pair, width, quantile, networks=networks, flips=flips, seed=seed, progress=progress)


def measured(
    pair: Twins, width: int, quantile: float = 0.95, *, networks: int, flips: int, seed: int, progress: bool = False
) -> FiniteMargin:
    """The margin of a pair: see :func:`finite_margin`."""
    whole_number("networks", networks, least=2)
    whole_number("seed", seed)
    if not 0.0 < quantile < 1.0:
        raise InvalidInput(f"quantile must lie between 0 and 1, got {quantile!r}")
    whole_number("flips", flips, 0, pair.labels.size, "labels")
    deviations = []
    with progress_report("training networks", progress) as show:
        for k in range(networks):
            rng = np.random.default_rng([seed, k])
            labels = pair.labels[None]
            if flips:
                labels = np.concatenate([labels, pair.flipped(rng, flips, LABELLINGS)])
            finite = pair.leads(pair.network(labels, width, _seed(seed, k)))
            deviations.append(np.abs(finite - pair.leads(pair.machine(labels))).max(axis=0))
            show.report(k + 1, networks)
    found, confidence = np.stack(deviations), networks / (networks + 1)
    margins = _scale(found) * _factor(found, quantile)
    return FiniteMargin(margins, quantile, confidence, width, networks, flips, seed, deviations=found)


def _seed(seed: int, k: int) -> int:
    """Of the k-th network; far from the small numbers that users give to their own."""
    return int(np.random.SeedSequence([seed, k]).generate_state(1)[0]) + 2**20


def _scale(deviations: Float) -> Float:
    """(n,) how far the score of each node strays, in the root mean square."""
    return np.asarray(np.sqrt((deviations**2).mean(axis=0)))


def _factor(deviations: Float, quantile: float) -> float:
    """The largest quantile of any network's deviations, each in units of what the others say about its nodes."""
    worst = 0.0
    for k, own in enumerate(deviations):
        others = _scale(np.delete(deviations, k, axis=0))
        ratio = np.divide(own, others, out=np.where(own > 0, np.inf, 0.0), where=others > 0)
        worst = max(worst, float(np.quantile(ratio, quantile, method="higher")))
    if not np.isfinite(worst):
        raise InvalidInput("the deviations of these networks cannot be compared; train more networks")
    return worst
