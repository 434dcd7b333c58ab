"""What the text of the paper claims, judged by our own certificates: verdict, number and command for each claim.

A claim is broken down into comparisons of two of our numbers, or of one of ours with a printed one. It *holds* if at
least 95 % of them are as claimed, does *not* if fewer than half are, and holds *partly* otherwise.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from labelcert.paper.collapse_report import CollapsedCurve
from labelcert.paper.moving import ALONE_ENOUGH, NODES
from labelcert.studies.report import Sheet
from labelcert.studies.tidy_tables import each_row

if TYPE_CHECKING:
    import pandas as pd

ALMOST_ALL, HALF = 0.95, 0.5
"""Shares of comparisons from which on a claim holds, or holds partly."""

SLACK = 1e-6
"""Means that differ by less are equal: they are sums of the same counts in another order."""

WEAK, INTERMEDIATE, STRONG = (0.05, 0.1), (0.15, 0.2, 0.25, 0.3), (0.5,)
SHOWN = (*WEAK, *INTERMEDIATE, *STRONG)
GRAPHS = {
    **dict.fromkeys(("Cora-MLb", "Citeseerb", "CSBM"), "ranks"),
    **{"Polblogs": "polblogs", "Corab": "cora-b", "Chameleonb": "chameleon-b", "CBA": "cba"},
}
"""Datasets, and the study that has all their architectures."""

ALONE = {
    **{"Cora-MLb": "accuracy-cora-ml-b", "Citeseerb": "accuracy-citeseer-b", "CSBM": "accuracy-csbm"},
    **{"CBA": "accuracy-cba", "Polblogs": "accuracy-polblogs"},
}
"""Datasets, and the study with their sample-wise certified accuracy."""


class Check(NamedTuple):
    """One comparison: by how much a claim is met, in points; negative where it is not."""

    what: str
    by: float


@dataclass(frozen=True)
class Found:
    """The means of all studies in percent, and the curves with their plateaus."""

    means: Mapping[tuple[str, str, str, str, float], float]
    """By study, dataset, model, certificate and budget."""
    curves: Sequence[CollapsedCurve] = ()
    moved: Mapping[tuple[str, str], Counter[str]] = field(default_factory=dict)
    """What cheapest attacks do to labels, by dataset and model."""

    @classmethod
    def of(
        cls,
        summaries: Mapping[str, pd.DataFrame],
        curves: Sequence[CollapsedCurve] = (),
        moved: Mapping[tuple[str, str], Counter[str]] | None = None,
    ) -> Found:
        """From the means of each study."""
        means = {}
        for study, summary in summaries.items():
            for row in each_row(summary):
                at = row.flips if np.isnan(row.epsilon) else round(row.epsilon, 6)
                means[study, row.dataset, row.model, str(row.certificate), at] = (
                    row.mean_lower if row.seeds_missing == 0 else np.nan
                )
        return cls(means, curves, moved or {})

    def at(self, study: str, dataset: str, model: str, at: float, certificate: str = "collective") -> float:
        """One mean; NaN where it is not there."""
        return self.means.get((study, dataset, model, certificate, at), np.nan)

    def models(self, study: str, dataset: str) -> list[str]:
        """Models of a study on one dataset."""
        return list(dict.fromkeys(m for s, d, m, _, _ in self.means if (s, d) == (study, dataset)))

    def rank(self, study: str, dataset: str, model: str, budgets: Iterable[float], certificate: str) -> float:
        """Mean rank of a model among all of the study, the best one first."""
        ranks = []
        for b in budgets:
            own = self.at(study, dataset, model, b, certificate)
            others = [self.at(study, dataset, other, b, certificate) for other in self.models(study, dataset)]
            ranks.append(np.nan if np.isnan(own) else 1 + sum(other > own + SLACK for other in others))
        return float(np.mean(ranks))


@dataclass(frozen=True)
class Claim:
    """One claim of the paper's text."""

    text: str
    where: str
    studies: tuple[str, ...]
    checks: Callable[[Found], Iterator[Check]]

    def judged(self, found: Found) -> tuple[str, str]:
        """The verdict, and what it rests on."""
        everything = list(self.checks(found))
        checks = [check for check in everything if not np.isnan(check.by)]
        if not checks:
            return "not computed", ""
        met = [check for check in checks if check.by >= -SLACK]
        share = len(met) / len(checks)
        verdict = "holds" if share >= ALMOST_ALL else "partly" if share >= HALF else "not"
        words = f"{len(met)} of {len(checks)} comparisons"
        if len(met) < len(checks):
            worst = min(checks, key=lambda check: check.by)
            words += f"; furthest off: {worst.what} ({worst.by:+.1f})"
        elif len(checks) <= 4:
            words = "; ".join(f"{check.what} ({check.by:+.1f})" for check in checks)
        left = len(everything) - len(checks)
        return verdict, f"{words}; {left} not computed" if left else words


def claims_sheet(found: Found) -> Sheet:
    """All claims with their verdicts."""
    rows = [
        (str(k), claim.text, claim.where, *claim.judged(found), ", ".join(claim.studies))
        for k, claim in enumerate(CLAIMS, start=1)
    ]
    headings = ("", "the paper says", "where", "verdict", "our numbers", "labelcert reproduce ...")
    return Sheet("Claims of the paper", headings, tuple(rows))


def _above(
    found: Found, pairs: Iterable[tuple[str, str, str, str]], budgets: Iterable[float], certificate: str = "collective"
) -> Iterator[Check]:
    """The first model is certified at least as much as the second, at each budget."""
    for (study, dataset, better, worse), b in itertools.product(list(pairs), list(budgets)):
        by = found.at(study, dataset, better, b, certificate) - found.at(study, dataset, worse, b, certificate)
        yield Check(f"{better} over {worse} on {dataset} at ε = {b:g}", by)


def _near(what: str, ours: float, printed: float, within: float) -> Check:
    return Check(f"{what}: {ours:.1f}, printed {printed:g}", within - abs(ours - printed))


def _hierarchy(found: Found) -> Iterator[Check]:
    for dataset, study in ALONE.items():
        pairs = itertools.combinations(found.models(study, dataset), 2)
        for one, other in pairs:
            gaps = [
                found.at(study, dataset, one, b, "accuracy") - found.at(study, dataset, other, b, "accuracy")
                for b in (*WEAK, 0.15)
            ]
            if not abs(gaps[0]) <= SLACK:
                yield Check(f"{one} and {other} on {dataset}", min(np.sign(gaps[0]) * gap for gap in gaps))


def _best_alone(found: Found) -> Iterator[Check]:
    for dataset, best in (("Cora-MLb", "APPNP"), ("Citeseerb", "GCN Skip-PC"), ("CSBM", "SGC")):
        for other in found.models(ALONE[dataset], dataset):
            if other != best:
                yield from _above(found, [(ALONE[dataset], dataset, best, other)], (0.05,), "accuracy")


def _printed_accuracies(found: Found) -> Iterator[Check]:
    for model, printed in (("APPNP", 79.1), ("GraphSAGE", 52.8), ("MLP", 22.7)):
        yield _near(model, found.at(ALONE["Cora-MLb"], "Cora-MLb", model, 0.05, "accuracy"), printed, 1.0)


def _nothing_left_alone(found: Found) -> Iterator[Check]:
    limits = {("Cora-MLb", ""): 0.2, ("Citeseerb", ""): 0.15, ("CSBM", ""): 0.2}
    limits |= {("CSBM", "GCN Skip-PC"): 0.25, ("CSBM", "SGC"): 0.3}
    for dataset in ("Cora-MLb", "Citeseerb", "CSBM"):
        for model in found.models(ALONE[dataset], dataset):
            at = limits.get((dataset, model), limits[dataset, ""])
            yield Check(f"{model} on {dataset}", -found.at(ALONE[dataset], dataset, model, at, "accuracy"))


def _contrast(found: Found) -> Iterator[Check]:
    study = "sample-wise-and-collective"
    for model in found.models(study, "Cora-MLb"):
        yield Check(f"{model}, collective", found.at(study, "Cora-MLb", model, 0.2) - 40)
        yield Check(f"{model}, each alone", -found.at(study, "Cora-MLb", model, 0.2, "ratio"))


def _other_best(found: Found) -> Iterator[Check]:
    yield from (c for c in _best_alone_at(found, "APPNP"))
    others = [m for m in found.models("ranks", "Cora-MLb") if m != "SGC"]
    yield from _above(found, [("ranks", "Cora-MLb", "SGC", other) for other in others], (0.1,))


def _best_alone_at(found: Found, best: str) -> Iterator[Check]:
    study = ALONE["Cora-MLb"]
    others = [m for m in found.models(study, "Cora-MLb") if m != best]
    return _above(found, [(study, "Cora-MLb", best, other) for other in others], (0.1,), "accuracy")


def _drops(found: Found) -> Iterator[Check]:
    steps = [("SGC", 0.2, 0.25, 0.8), ("APPNP", 0.2, 0.25, 0.8), ("SGC", 0.05, 0.1, 25.6), ("APPNP", 0.05, 0.1, 27.2)]
    for model, a, b, printed in (*steps, ("GCN", 0.2, 0.25, 0.0)):
        drop = found.at("ranks", "Cora-MLb", model, a) - found.at("ranks", "Cora-MLb", model, b)
        yield _near(f"{model} from {a:g} to {b:g}", drop, printed, 1.0)


def _waits(found: Found) -> Iterator[Check]:
    for c in found.curves:
        yield Check(f"{c.model} on {c.dataset}, seed {c.seed}", c.near - 2.0)


def _polblogs(found: Found) -> Iterator[Check]:
    lengths = {d: np.mean([c.near for c in found.curves if c.dataset == d]) for d in {c.dataset for c in found.curves}}
    for dataset in sorted(lengths):
        if dataset != "Polblogs" and "Polblogs" in lengths:
            yield Check(f"budgets near, Polblogs over {dataset}", float(lengths["Polblogs"] - lengths[dataset]))


def _csbm_plateaus(found: Found) -> Iterator[Check]:
    own = [c for c in found.curves if c.dataset == "CSBM"]
    for model in dict.fromkeys(c.model for c in own):
        length = float(np.mean([c.near for c in own if c.model == model]))
        sign = -1 if model in ("SGC", "GCN Skip-PC") else 1
        yield Check(f"{model} is near for {length:.1f} budgets, 1.5 as limit", sign * (length - 1.5))


def _provoked(found: Found) -> Iterator[Check]:
    for study, more, less in (
        ("csbm-density", "density ×2", "density ×0.5"),
        ("csbm-homophily", "homophily 2p", "homophily 0.5p"),
    ):
        for model in ("GCN", "SGC"):
            drop = [found.at(study, d, model, 0.2) - found.at(study, d, model, 0.3) for d in (less, more)]
            yield Check(f"{model}: drop from ε = 0.2 to 0.3, {less} over {more}", drop[0] - drop[1])


def _mlp_constant(found: Found) -> Iterator[Check]:
    drop = found.at("ranks", "CSBM", "MLP", 0.15) - found.at("ranks", "CSBM", "MLP", 0.2)
    yield Check(f"drop of {drop:.1f} points, 2.0 as limit", 2.0 - drop)


def _mlp_least(budgets: Sequence[float]) -> Callable[[Found], Iterator[Check]]:
    def checks(found: Found) -> Iterator[Check]:
        for dataset, study in ALONE.items():
            others = [m for m in found.models(study, dataset) if m != "MLP"]
            yield from _above(found, [(study, dataset, other, "MLP") for other in others], budgets, "accuracy")

    return checks


def _mlp_least_collective(found: Found) -> Iterator[Check]:
    for dataset, study in GRAPHS.items():
        others = [m for m in found.models(study, dataset) if m != "MLP"]
        yield from _above(found, [(study, dataset, other, "MLP") for other in others], WEAK)


def _linear_ranks(names: Sequence[str]) -> Callable[[Found], Iterator[Check]]:
    def checks(found: Found) -> Iterator[Check]:
        for dataset in names:
            sgc, gcn = (found.rank(GRAPHS[dataset], dataset, m, SHOWN, "collective") for m in ("SGC", "GCN"))
            yield Check(f"{dataset}: rank {sgc:.2f} of SGC, {gcn:.2f} of GCN", gcn - sgc)

    return checks


def _normalisations(found: Found) -> Iterator[Check]:
    for model in ("GCN", "SGC"):
        gaps = [
            np.mean(
                [
                    found.at("normalization", d, f"{model}, row", b)
                    - found.at("normalization", d, f"{model}, symmetric", b)
                    for b in (*WEAK, *INTERMEDIATE)
                ]
            )
            for d in ("Cora-MLb", "Citeseerb")
        ]
        by = float(abs(gaps[0] - gaps[1]) - 1.0)
        yield Check(f"{model}: row over symmetric by {gaps[0]:+.1f} and {gaps[1]:+.1f} points", by)


def _deeper(models: Sequence[str], study: str) -> Callable[[Found], Iterator[Check]]:
    def checks(found: Found) -> Iterator[Check]:
        for dataset, model, deep in itertools.product(("Cora-MLb", "CSBM", "CBA"), models, (2, 4)):
            pair = (study, dataset, f"{model}, L = 1", f"{model}, L = {deep}")
            if pair[2] in found.models(study, dataset):
                yield from _above(found, [pair], (*WEAK, *INTERMEDIATE))

    return checks


def _skips(found: Found) -> Iterator[Check]:
    for dataset, depth, skip in itertools.product(
        ("Cora-MLb", "CSBM", "CBA"), (1, 2, 4), ("GCN Skip-PC", "GCN Skip-α")
    ):
        pair = ("skip-connections", dataset, f"{skip}, L = {depth}", f"GCN, L = {depth}")
        yield from _above(found, [pair], (*WEAK, *INTERMEDIATE))


def _fourth_layer(found: Found) -> Iterator[Check]:
    yield from _above(found, [("depth", "Cora-MLb", "GCN, L = 4", "GCN, L = 1")], WEAK)
    yield from _above(found, [("depth", "Cora-MLb", "GCN, L = 1", "GCN, L = 2")], WEAK)


def _graph_information(found: Found, budgets: Sequence[float], *, helps: bool) -> Iterator[Check]:
    alphas = [f"APPNP, α = {a}" for a in ("0.0", "0.1", "0.2", "0.3", "0.5")]
    steps = [("appnp-alpha", d, *pair) for d in ("Cora-MLb", "CSBM", "CBA") for pair in itertools.pairwise(alphas)]
    weights = ["GCN", "GCN, 0.75A", "GCN, 0.5A", "GCN, 0.25A"]
    steps += [("edge-weight", "Cora-MLb", *pair) for pair in itertools.pairwise(weights)]
    yield from _above(found, steps if helps else [(s, d, b, a) for s, d, a, b in steps], budgets)


def _connected(budgets: Sequence[float], *, helps: bool) -> Callable[[Found], Iterator[Check]]:
    def checks(found: Found) -> Iterator[Check]:
        for study, names in (
            ("csbm-density", ("density ×2", "density ×1", "density ×0.5")),
            ("csbm-homophily", ("homophily 2p", "homophily p", "homophily 0.5p")),
            ("cba-density", ("4 edges per node", "2 edges per node", "1 edge per node")),
        ):
            for (more, less), model, b in itertools.product(itertools.pairwise(names), ("GCN", "SGC"), budgets):
                by = found.at(study, more, model, b) - found.at(study, less, model, b)
                yield Check(f"{model}, {more} over {less} at ε = {b:g}", by if helps else -by)

    return checks


def _connected_alone(found: Found) -> Iterator[Check]:
    study = "csbm-structure-sample-wise"
    for more, less in (("density ×2", "density ×0.5"), ("homophily 2p", "homophily 0.5p")):
        for model, b in itertools.product(found.models(study, more), WEAK):
            by = found.at(study, more, model, b, "accuracy") - found.at(study, less, model, b, "accuracy")
            yield Check(f"{model}, {more} over {less} at ε = {b:g}", by)


def _same_order(study: str, dataset: str, other: tuple[str, str]) -> Callable[[Found], Iterator[Check]]:
    """Two models that are apart by at least one point on one graph are in the same order on another."""

    def checks(found: Found) -> Iterator[Check]:
        for one, two in itertools.combinations(found.models(study, dataset), 2):
            gaps = [
                found.at(s, d, one, 0.05, "accuracy") - found.at(s, d, two, 0.05, "accuracy")
                for s, d in ((study, dataset), other)
            ]
            if not abs(gaps[0]) < 1.0:
                yield Check(f"{one} and {two}", float(np.sign(gaps[0]) * gaps[1]))

    return checks


def _no_best(found: Found) -> Iterator[Check]:
    best = {}
    for dataset, study in GRAPHS.items():
        ranks = {m: found.rank(study, dataset, m, SHOWN, "collective") for m in found.models(study, dataset)}
        if ranks:
            best[dataset] = min(ranks, key=lambda m: ranks[m])
    if best:
        words = ", ".join(f"{model} on {dataset}" for dataset, model in best.items())
        yield Check(f"most robust: {words}", len(set(best.values())) - 2.0)


def _relaxed(found: Found) -> Iterator[Check]:
    for model, b in itertools.product(found.models("tightness", "Citeseer"), (0.01, 0.02, 0.03, 0.05)):
        exact, relaxed = (found.at("tightness", "Citeseer", model, b, c) for c in ("accuracy", "relaxed accuracy"))
        yield Check(f"{model} at ε = {b:g}: {relaxed:.1f} of {exact:.1f}", 1.0 - (exact - relaxed))


def _runner_up(found: Found) -> Iterator[Check]:
    for (dataset, model), counts in found.moved.items():
        enough, nodes = counts[ALONE_ENOUGH], counts[NODES]
        yield Check(f"{model} on {dataset}: enough for {enough} of {nodes} nodes", 100 * enough / nodes - 95)


def _inductive(found: Found) -> Iterator[Check]:
    for model, b in itertools.product(found.models("inductive", "Cora-MLb"), SHOWN):
        gap = found.at("inductive", "Cora-MLb", model, b) - found.at("ranks", "Cora-MLb", model, b)
        yield Check(f"{model} at ε = {b:g}: {gap:+.1f} points", 5.0 - abs(gap))


def _nothing_at_one(found: Found) -> Iterator[Check]:
    for c in found.curves:
        left = 100.0 * float(c.n - c.changed[-1]) / c.n
        yield Check(f"{c.model} on {c.dataset}, seed {c.seed}", -left if c.changed.size > c.m else np.nan)


def _strong_and_medium(found: Found) -> Iterator[Check]:
    for model, medium, strong in (("GIN", 17.6, 22.4), ("MLP", 10.4, 14.4)):
        a, b, c = (found.at("ranks", "Citeseerb", model, e) for e in (0.1, 0.3, 0.5))
        yield _near(f"{model} from 0.1 to 0.3", a - b, medium, 1.0)
        yield _near(f"{model} from 0.3 to 0.5", b - c, strong, 1.0)


def _karate(found: Found) -> Iterator[Check]:
    gcn = [found.at("fig1-karate", "Karate club", "GCN", b, "accuracy") for b in (0.0, 1.0)]
    sgc = found.at("fig1-karate", "Karate club", "SGC", 1.0, "accuracy")
    yield Check(f"one flip, each node alone: {sgc:.1f} for SGC, {gcn[1]:.1f} for GCN", sgc - gcn[1])


def _collective_over_alone(found: Found) -> Iterator[Check]:
    study = "sample-wise-and-collective"
    for dataset in ("Cora-MLb", "Citeseerb", "CSBM"):
        for model, b in itertools.product(found.models(study, dataset), (*WEAK, *INTERMEDIATE)):
            by = found.at(study, dataset, model, b) - found.at(study, dataset, model, b, "ratio")
            yield Check(f"{model} on {dataset} at ε = {b:g}", by - 5.0)


_MAIN, _OTHERS = ("Cora-MLb", "Citeseerb", "CSBM"), ("Polblogs", "Corab", "Chameleonb", "CBA")
_ALL = tuple(dict.fromkeys(GRAPHS.values()))
_ALL_ALONE = tuple(ALONE.values())

CLAIMS = (
    Claim("One flip hits a GCN harder than an SGC on the karate club", "Fig. 1", ("fig1-karate",), _karate),
    Claim("Sample-wise, a nearly consistent order of models emerges across budgets", "4.1 (i)", _ALL_ALONE, _hierarchy),
    Claim(
        "Cora-MLb at ε = 0.05: APPNP 79.1, GraphSAGE 52.8, MLP 22.7 % certified accuracy (within a point)",
        "4.1",
        (ALONE["Cora-MLb"],),
        _printed_accuracies,
    ),
    Claim(
        "Sample-wise, the most robust model is APPNP on Cora-MLb, Skip-PC on Citeseerb, SGC on CSBM",
        "4.1 (ii)",
        _ALL_ALONE[:3],
        _best_alone,
    ),
    Claim("From a threshold on, no prediction is certified alone", "4.1 (iii)", _ALL_ALONE[:3], _nothing_left_alone),
    Claim(
        "Cora-MLb at ε = 0.2: over 40 % certified collectively, nothing sample-wise",
        "4.1",
        ("sample-wise-and-collective",),
        _contrast,
    ),
    Claim(
        "Collective ratios are far above sample-wise ones (by 5 points or more)",
        "4.1",
        ("sample-wise-and-collective",),
        _collective_over_alone,
    ),
    Claim(
        "Cora-MLb at ε = 0.1: APPNP is best sample-wise, SGC collectively",
        "4.1",
        (ALONE["Cora-MLb"], "ranks"),
        _other_best,
    ),
    Claim(
        "Cora-MLb: ratios fall by 0.8, 0.8 and 0 points at the plateau, by 25.6 and 27.2 before (within a point)",
        "4.1",
        ("ranks",),
        _drops,
    ),
    Claim(
        "Ratios plateau at intermediate budgets, for all datasets and architectures (each seed is near its plateau "
        "for two budgets or more)",
        "abstract",
        ("collapse",),
        _waits,
    ),
    Claim("Polblogs has the strongest plateau", "app., plateaus", ("collapse",), _polblogs),
    Claim("On CSBM, SGC and Skip-PC have no plateau, all others do", "4.1", ("collapse",), _csbm_plateaus),
    Claim("Denser graphs provoke a plateau on CSBM", "4.1", ("csbm-density", "csbm-homophily"), _provoked),
    Claim("An MLP is nearly constant on CSBM from ε = 0.15 to 0.2", "4.1", ("ranks",), _mlp_constant),
    Claim(
        "Citeseerb: GIN falls by 17.6 and 22.4 points, MLP by 10.4 and 14.4 (within a point)",
        "app., plateaus",
        ("ranks",),
        _strong_and_medium,
    ),
    Claim("An MLP is always the least accurate model without wrong labels", "4.1", _ALL_ALONE, _mlp_least((0.0,))),
    Claim("An MLP is less robust sample-wise than graph networks", "4.1", _ALL_ALONE, _mlp_least(WEAK)),
    Claim("An MLP is the least robust model collectively at weak budgets", "4.1", _ALL, _mlp_least_collective),
    Claim(
        "SGC is better ranked than GCN on all datasets: on the paper's three",
        "4.2 (I)",
        ("ranks",),
        _linear_ranks(_MAIN),
    ),
    Claim("The same on the other four", "4.2 (I)", _ALL[1:], _linear_ranks(_OTHERS)),
    Claim(
        "Whether row or symmetric normalisation is better depends on the data (by a point or more)",
        "4.2 (II)",
        ("normalization",),
        _normalisations,
    ),
    Claim(
        "Depth does not help networks with skip connections",
        "4.2 (III)",
        ("skip-connections",),
        _deeper(("GCN Skip-PC", "GCN Skip-α"), "skip-connections"),
    ),
    Claim("Depth in general hurts GCN and SGC", "app., depth", ("depth",), _deeper(("GCN", "SGC"), "depth")),
    Claim(
        "On Cora-MLb at weak budgets, a GCN with L = 4 is better than with L = 1, and L = 2 worse",
        "app., depth",
        ("depth",),
        _fourth_layer,
    ),
    Claim(
        "Skip connections are at least as robust as the GCN at every depth",
        "app., depth",
        ("skip-connections",),
        _skips,
    ),
    Claim(
        "More graph information helps up to intermediate budgets",
        "4.2",
        ("appnp-alpha", "edge-weight"),
        lambda found: _graph_information(found, (*WEAK, 0.15, 0.2), helps=True),
    ),
    Claim(
        "More graph information hurts at strong budgets",
        "4.2",
        ("appnp-alpha", "edge-weight"),
        lambda found: _graph_information(found, STRONG, helps=False),
    ),
    Claim(
        "Density and homophily help",
        "4.2",
        ("csbm-density", "csbm-homophily", "cba-density"),
        _connected((*WEAK, 0.15), helps=True),
    ),
    Claim(
        "With an inflection point at strong budgets, where they hurt",
        "4.2",
        ("csbm-density", "csbm-homophily", "cba-density"),
        _connected(STRONG, helps=False),
    ),
    Claim(
        "Sample-wise, density and homophily help all models",
        "app., connectivity",
        ("csbm-structure-sample-wise",),
        _connected_alone,
    ),
    Claim(
        "The order of models is the same on denser graphs",
        "app., connectivity",
        ("csbm-structure-sample-wise",),
        _same_order("csbm-structure-sample-wise", "density ×0.5", ("csbm-structure-sample-wise", "density ×2")),
    ),
    Claim(
        "The order of models is the same with 20 labels per class",
        "app., graph size",
        ("graph-size", "accuracy-csbm"),
        _same_order("accuracy-csbm", "CSBM", ("graph-size", "CSBM, 20 labels per class")),
    ),
    Claim("No architecture is the most robust everywhere", "conclusion", _ALL, _no_best),
    Claim("No prediction is certified collectively at ε = 1", "app., plateaus", ("collapse",), _nothing_at_one),
    Claim(
        "The relaxed multi-class certificate is nearly as tight as the exact one (within a point)",
        "app., multi-class",
        ("tightness",),
        _relaxed,
    ),
    Claim(
        "That is because the best attack turns labels of the predicted class into the runner-up's (for 95 % of nodes)",
        "app., multi-class",
        ("moves",),
        _runner_up,
    ),
    Claim(
        "Nodes that join later leave collective ratios comparable (within 5 points)",
        "app., dynamic graphs",
        ("inductive", "ranks"),
        _inductive,
    ),
)
"""In the order of the paper."""

NEEDED = tuple(dict.fromkeys(name for claim in CLAIMS for name in claim.studies))
"""All studies that claims rest on."""
