"""The answer to the question which model to train."""

from __future__ import annotations

import html
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from labelcert.certificate import Certificate, Stop
from labelcert.certificate.run_record import amount
from labelcert.models import Recipe
from labelcert.text import per_cent

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

    from labelcert.models import Model, Partition

CAVEAT = (
    "The certificate holds for this model with these parameters. They were chosen with the labels, so that wrong "
    "labels could have led to another choice."
)


def accuracy(recipe: Recipe) -> float:
    """The cross-validated accuracy, which every recipe of a search has."""
    assert recipe.accuracy is not None
    return recipe.accuracy


@dataclass(frozen=True, eq=False)
class Hardened:
    """The most certified model among those that are accurate enough.

    Attributes
    ----------
    chosen : Recipe
        The model that certifies the most at the budget.
    default : Recipe
        What would have been trained otherwise: a GCN (or the first of the models that were asked for) with the
        paper's C, or C by cross-validation.
    certified : dict
        For each candidate that was certified: the share of predictions that survive, as (lower, upper).
    candidates : tuple of Recipe
        All, with their cross-validated accuracies.
    threshold : float
        Accuracies from here on are good enough.
    flips, seed : int
    stopped : Stop
        Why the search ended. Where that was before all models were looked at, others may certify more.
    certify : callable
        Makes the certificate of a recipe.
    total : int
        How many models there are to search.
    unit : str
        What budgets count.
    notes : tuple of str
        What was left out of the search, and why.
    rule : str
        Which of several ways to make labels of votes was chosen; empty where there was no choice.

    Examples
    --------
    >>> import labelcert
    >>> graph = labelcert.load_dataset("karate")
    >>> found = labelcert.harden(graph, [0, 1, 2, 3, 30, 31, 32, 33], [8, 9, 13, 19, 27, 28], flips=1, workers=1,
    ...                          models={"sgc": {"depth": [1, 2]}}, losses=["hinge"], C=[0.01, 1.0])
    >>> found.command, found.complete
    ('--model sgc --C 0.001 --loss hinge --max-flips 1', True)
    """

    chosen: Recipe
    default: Recipe
    certified: dict[Recipe, tuple[float, float]]
    candidates: tuple[Recipe, ...]
    threshold: float
    flips: int
    seed: int
    stopped: Stop
    certify: Callable[[Recipe], Certificate]
    total: int
    unit: str = "flips"
    notes: tuple[str, ...] = ()
    rule: str = ""

    @cached_property
    def certificate(self) -> Certificate:
        """Of the chosen model; after Ctrl-C, it is computed when it is asked for."""
        return self.certify(self.chosen)

    @property
    def complete(self) -> bool:
        """Whether the search ran to its end."""
        return self.stopped is Stop.FINISHED and self.certificate.run.stopped is not Stop.INTERRUPTED

    @property
    def best(self) -> Model | Partition:
        """The chosen model, ready to certify or to be looked at; train it with ``best_loss``.

        Of a learner of the user's own, the :class:`labelcert.CertifiedEnsemble`, to be fitted.
        """
        return self.chosen.trained

    @property
    def best_loss(self) -> str:
        """The loss of the chosen model."""
        return self.chosen.loss

    @property
    def command(self) -> str:
        """The options of ``labelcert certify`` that certify the chosen model; empty for a learner of the user's own."""
        if not self.chosen.command:
            return ""
        seed = f" --seed {self.seed}" if self.chosen.parts is not None and self.seed else ""
        return f"{self.chosen.command} --max-flips {self.flips}{seed}"

    @property
    def pareto(self) -> list[Recipe]:
        """Recipes that no other one beats in both accuracy and what is certified, the most accurate first."""
        ranked = sorted(self.certified, key=lambda c: (-accuracy(c), -self.certified[c][0]))
        front: list[Recipe] = []
        for candidate in ranked:
            if not front or self.certified[candidate][0] > self.certified[front[-1]][0]:
                front.append(candidate)
        return front

    @property
    def table(self) -> pd.DataFrame:
        """All candidates: what they are, their accuracy, whether that is enough, and what is certified."""
        import pandas as pd

        front = set(self.pareto)
        rows = [
            {
                "model": c.name,
                "options": c.changed,
                "C": c.C,
                "loss": c.loss,
                "parts": c.parts,
                "accuracy": c.accuracy,
                "error": c.deviation,
                "accurate": accuracy(c) >= self.threshold,
                "certified": self.certified.get(c, (float("nan"),) * 2)[0],
                "certified_upper": self.certified.get(c, (float("nan"),) * 2)[1],
                "pareto": c in front,
                "chosen": c == self.chosen,
            }
            for c in self.candidates
        ]
        return pd.DataFrame(rows).sort_values(["certified", "accuracy"], ascending=False, ignore_index=True)

    def plot(self, ax: Axes | None = None, **style: Any) -> Axes:
        """Draw what is certified over cross-validated accuracy, with the Pareto front; returns the axes."""
        if ax is None:
            import matplotlib.pyplot as plt

            ax = plt.gca()
        points = [(100 * accuracy(c), 100 * low) for c, (low, _) in self.certified.items()]
        ax.scatter(*zip(*points, strict=True), **{"s": 14, "alpha": 0.5, "color": "tab:gray", **style})
        front = [(100 * accuracy(c), 100 * self.certified[c][0]) for c in self.pareto]
        ax.plot(*zip(*front, strict=True), marker="o", color="tab:blue", label="no model is better in both")
        for candidate, colour, text in ((self.default, "tab:red", "default"), (self.chosen, "tab:green", "chosen")):
            at = (100 * accuracy(candidate), 100 * self.certified[candidate][0])
            ax.scatter(*at, s=60, color=colour, zorder=5, label=f"{text}: {candidate.full_label}")
        ax.axvline(100 * self.threshold, linestyle=":", color="black", linewidth=1)
        ax.set_xlabel("cross-validated accuracy (%)")
        ax.set_ylabel(f"predictions that survive {amount(self.flips, self.unit)} (%)")
        ax.legend(frameon=False, fontsize="small")
        return ax

    def plot_parts(self, ax: Axes | None = None) -> Axes:
        """Draw accuracy and what is certified over the number of parts of ensembles; returns the axes."""
        if ax is None:
            import matplotlib.pyplot as plt

            ax = plt.gca()
        kinds = dict.fromkeys((c.name, c.C, c.loss, c.options.get("combine", c.combine)) for c in self._ensembles)
        for kind in kinds:
            own = [c for c in self._ensembles if (c.name, c.C, c.loss, c.options.get("combine", c.combine)) == kind]
            own.sort(key=lambda c: c.parts or 1)
            parts = [c.parts or 1 for c in own]
            [line] = ax.plot(
                parts, [100 * accuracy(c) for c in own], linestyle="--", label=f"{kind[0]}, {kind[3]}: right"
            )
            survive = [100 * self.certified[c][0] if c in self.certified else float("nan") for c in own]
            words = f"{kind[0]}, {kind[3]}: survive {amount(self.flips, self.unit)}"
            ax.plot(parts, survive, marker="o", color=line.get_color(), label=words)
        ax.set_xlabel("parts")
        ax.set_ylabel("cross-validated, and predictions that survive (%)")
        ax.legend(frameon=False, fontsize="small")
        return ax

    @property
    def _ensembles(self) -> list[Recipe]:
        """Candidates that are trained on parts of the labels."""
        return [c for c in self.candidates if c.parts is not None]

    def summary(self) -> str:
        """What to train instead, and what that changes."""
        tried = "" if len(self.candidates) == self.total else f"{len(self.candidates)} of "
        lines = [
            f"{tried}{self.total} models, {sum(accuracy(c) >= self.threshold for c in self.candidates)} of them "
            f"accurate enough (at least {per_cent(self.threshold)} %)",
            *(
                f"{what + ':':9} {c.full_label}\n          {self._share(c)} of predictions survive "
                f"{amount(self.flips, self.unit)}, cross-validated accuracy {per_cent(accuracy(c))} %"
                for what, c in (("default", self.default), ("train", self.chosen))
            ),
        ]
        lines += self.notes
        if self.stopped is Stop.TIME_LIMIT:
            lines.append("time was over before the search was: other models may certify more")
        elif not self.complete:
            lines.append("the search was interrupted: other models may certify more")
        return "\n".join(lines)

    def _share(self, recipe: Recipe) -> str:
        """What survives, in words."""
        known = self.certified[recipe] != (0.0, 1.0)
        return f"{per_cent(self.certified[recipe][0])} %" if known else "an unknown share"

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(self.summary())}</pre>"

    def __repr__(self) -> str:
        now, then = self.certified[self.default][0], self.certified[self.chosen][0]
        words = amount(self.flips, self.unit)
        return f"Hardened({self.chosen.full_label!r}: {per_cent(now)} % -> {per_cent(then)} % survive {words})"
