"""How many parts an ensemble should have: accuracy against certified accuracy, by cross-validation."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import clone
from sklearn.model_selection import check_cv, cross_val_score
from sklearn.utils import _safe_indexing

from labelcert.arrays import Float
from labelcert.checking import whole_number
from labelcert.engines.voting.rules import RULES
from labelcert.errors import InvalidInput
from labelcert.progress import progress_report
from labelcert.text import per_cent

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes


@dataclass(frozen=True, eq=False)
class ComparedEnsembles:
    """Ensembles of one estimator, by number of parts and rule: see ``CertifiedEnsemble.compare``.

    Attributes
    ----------
    candidates : list of (int, str)
        Number of parts and rule.
    shares : (candidates, flips + 1) array
        Certified accuracy at every budget, a mean over folds; at 0, accuracy.
    errors : (candidates, flips + 1) array
        Standard errors of these means.
    alone : float
        Accuracy of the estimator itself, trained on all rows: what an ensemble is measured against.
    chosen : int
        The candidate with the highest certified accuracy at the largest budget, of those that are accurate enough; of
        equally good ones, the most accurate.
    best : CertifiedEnsemble
        That one, to be fitted.
    """

    candidates: list[tuple[int, str]]
    shares: Float
    errors: Float
    alone: float
    chosen: int
    best: Any

    @property
    def flips(self) -> int:
        """The largest budget."""
        return int(self.shares.shape[1]) - 1

    def to_frame(self) -> pd.DataFrame:
        """One row for each candidate: accuracy, certified accuracy at the largest budget, and their standard errors."""
        import pandas as pd

        index = pd.MultiIndex.from_tuples(self.candidates, names=["parts", "combine"])
        columns = {
            "accuracy": self.shares[:, 0],
            "accuracy_error": self.errors[:, 0],
            "certified": self.shares[:, -1],
            "certified_error": self.errors[:, -1],
            "chosen": np.arange(len(self.candidates)) == self.chosen,
        }
        return pd.DataFrame(columns, index=index)

    def summary(self) -> str:
        """What to choose, and what it costs."""
        parts, rule = self.candidates[self.chosen]
        clean, certified = self.shares[self.chosen, [0, -1]]
        return (
            f"{parts} parts, {rule}: {per_cent(clean)} % right, {per_cent(certified)} % whichever {self.flips} labels "
            f"are wrong; the estimator alone: {per_cent(self.alone)} % right"
        )

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw accuracy and certified accuracy over the number of parts; returns the axes."""
        if ax is None:
            import matplotlib.pyplot as plt

            ax = plt.gca()
        colours = dict(zip(RULES, ("tab:blue", "tab:orange"), strict=True))
        for rule in dict.fromkeys(rule for _, rule in self.candidates):
            own = sorted((parts, k) for k, (parts, name) in enumerate(self.candidates) if name == rule)
            x, at = [parts for parts, _ in own], [k for _, k in own]
            for b, style, what in ((0, "--", "right"), (self.flips, "-", f"right with any {self.flips} wrong")):
                how: Any = {"linestyle": style, "color": colours[rule], "marker": "o", "markersize": 4, "capsize": 2}
                ax.errorbar(x, 100 * self.shares[at, b], 100 * self.errors[at, b], label=f"{rule}: {what}", **how)
        ax.axhline(100 * self.alone, color="black", linestyle=":", linewidth=1, label="the estimator alone")
        ax.axvline(self.candidates[self.chosen][0], color="tab:green", linewidth=1, zorder=0, label="chosen")
        ax.set_xlabel("parts")
        ax.set_ylabel("cross-validated, %")
        ax.legend(frameon=False, fontsize="small")
        return ax


def compared(
    ensemble: Any,
    alone: Any,
    X: Any,
    y: Any,
    flips: int,
    parts: Sequence[int],
    combine: Sequence[str],
    floor: float,
    cv: Any,
    progress: bool,
) -> ComparedEnsembles:
    """Fit and certify every candidate on every fold; ``alone`` is the estimator that they are copies of."""
    flips = whole_number("flips", flips, 1)
    candidates = list(
        dict.fromkeys((whole_number("parts", k, 1), rule) for k, rule in itertools.product(parts, combine))
    )
    if not candidates:
        raise InvalidInput("parts and combine must name at least one number and one rule each")
    if not 0.0 <= floor <= 1.0:
        raise InvalidInput(f"floor must be an accuracy between 0 and 1, got {floor!r}")
    y = np.asarray(y)
    folds = list(check_cv(cv, y, classifier=True).split(X, y))
    found = np.zeros((len(candidates), len(folds), flips + 1))
    models = [clone(ensemble).set_params(parts=count, combine=rule) for count, rule in candidates]
    with progress_report("comparing", progress) as show:
        for done, (k, f) in enumerate(itertools.product(range(len(candidates)), range(len(folds)))):
            fit, held = folds[f]
            member = models[k].fit(_safe_indexing(X, fit), y[fit])
            most = min(flips, len(member.estimators_))  # whoever reaches every member changes everything
            cert = member.certify(_safe_indexing(X, held), max_flips=most, attempts=0, twice=1, collective=False)
            found[k, f, : most + 1] = [cert.certified_accuracy(y[held], flips=b) for b in range(most + 1)]
            show.report(done + 1, len(candidates) * len(folds))
    shares, errors = found.mean(axis=1), found.std(axis=1) / np.sqrt(len(folds))
    enough = [k for k in range(len(candidates)) if shares[k, 0] >= floor - 1e-12]
    if not enough:
        top = float(shares[:, 0].max())
        raise InvalidInput(f"no ensemble reaches an accuracy of {per_cent(floor)} %; the best has {per_cent(top)} %")
    chosen = max(enough, key=lambda k: (shares[k, -1], shares[k, 0]))
    whole = float(np.mean(cross_val_score(alone, X, y, cv=folds)))
    return ComparedEnsembles(candidates, shares, errors, whole, chosen, clone(models[chosen]))
