"""From a graph, a model and a choice of nodes to certificates, their rows and their files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from labelcert.arrays import Bool, Int
from labelcert.certificate import Certificate, Stop
from labelcert.files import write_archive, write_csv
from labelcert.finite import finite_margin
from labelcert.graphs import UNLABELED, Graph
from labelcert.models import Recipe
from labelcert.pipeline.choices import Targets
from labelcert.poisoning import FeaturePoison
from labelcert.report.pictures import GraphPanel
from labelcert.text import per_cent

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, eq=False)
class CertifiedTargets:
    """A certificate, and what its indices mean in the graph."""

    graph: Graph
    recipe: Recipe
    labeled: Int
    """(m,) in the certificate's order, as are the targets."""
    targets: Targets
    inductive: bool
    certificate: Certificate
    """In the names of nodes and classes."""

    @cached_property
    def correct(self) -> Bool | None:
        """Which clean predictions are right, or None where the truth is not known for all test nodes."""
        truth = self.graph.labels[self.targets.nodes]
        return None if np.any(truth == UNLABELED) else self.certificate.correct(truth)

    def attack_panel(self, flips: int) -> GraphPanel:
        """What the strongest known attack within a budget does, for a picture of the graph."""
        cert = self.certificate
        b = min(flips, cert.max_flips)
        changed = cert.collective_changed(b)
        text = f"{b} flip{'' if b == 1 else 's'}: {int(changed.sum())} of {cert.n_test} predictions change"
        if self.correct is not None:
            before, after = (per_cent(float(right.mean())) for right in (self.correct, self.correct & ~changed))
            text += f"\ncorrect before {before} %, still correct {after} %"
        return GraphPanel(
            title=f"{self.recipe.label}\n{text}",
            graph=self.graph,
            labeled=self.labeled,
            flipped=self.labeled[list(cert.collective_witness(b))],
            changed=self.targets.nodes[changed],
        )

    def node_rows(self) -> list[dict[str, Any]]:
        """One row per test node in plain values: names, prediction, radius, flips that change it."""
        cert = self.certificate
        names = range(cert.n_test) if cert.test_names is None else cert.test_names.tolist()
        truth = self.graph.named_labels(self.targets.nodes).tolist()
        rows = []
        for t, row in enumerate(_rows(cert.to_frame())):
            flips = row.pop("witness")
            about = {"node": str(names[t]), "index": int(self.targets.nodes[t]), "true_label": truth[t] or None}
            rows.append({**about, **row, "flips": flips})
        return rows

    def budget_rows(self) -> list[dict[str, Any]]:
        """One row per budget in plain values: certified ratios, accuracy, and the collective attack."""
        cert, correct = self.certificate, self.correct
        rows, worst = [], cert.worst_cases
        for b, row in enumerate(_rows(cert.curve_frame())):
            attack = row.pop("witness")
            for one in worst:
                ends = {f"{one.title} from": float(one.lower[b]), f"{one.title} to": float(one.upper[b])}
                row |= {name: value if np.isfinite(value) else None for name, value in ends.items()}
            if correct is not None:
                row["accuracy_lower"] = float(np.mean(correct & (cert.radius_lower > b)))
                row["accuracy_upper"] = float(np.mean(correct & (cert.radius_upper > b)))
            rows.append({"flips": b, **row, "attack": attack})
        return rows

    def describe(self) -> dict[str, Any]:
        """Everything in plain JSON values."""
        cert = self.certificate
        return {
            "test": self.targets.name,
            "n_test": cert.n_test,
            "n_labels": int(cert.labels.size),
            "max_flips": cert.max_flips,
            "never": cert.never,
            "exact": cert.exact,
            "stopped": cert.run.stopped.value,
            "classes": cert.classes.tolist(),
            "takeovers": self._takeovers(),
            "settings": cert.settings,
            "nodes": self.node_rows(),
            "budgets": self.budget_rows(),
        }

    def _takeovers(self) -> list[dict[str, Any]]:
        """Counts at the largest budget, without zeros."""
        counts = self.certificate.takeovers(flips=self.certificate.max_flips)
        return [
            {"prediction": old, "becomes": new, "nodes": int(counts.loc[old, new])}
            for old in counts.index
            for new in counts.columns
            if counts.loc[old, new]
        ]


def certify_targets(
    recipe: Recipe,
    graph: Graph,
    labeled: Int,
    targets: Sequence[Targets],
    *,
    inductive: bool = False,
    width: int | None = None,
    poison: FeaturePoison | None = None,
    **options: Any,
) -> list[CertifiedTargets]:
    """One certificate for each set of test nodes, from one kernel; stops early when interrupted.

    With ``width``, predictions keep the margin that networks of this width need: see `labelcert.finite_margin`. With
    ``poison``, the features of some nodes may change, too: see `labelcert.poisoning.certify_features`. Further
    options are those of `labelcert.certify` or, for an ensemble, of `labelcert.certify_partition`.
    """
    certifier = recipe.certifier(graph, labeled, [t.nodes for t in targets], inductive=inductive)
    results: list[CertifiedTargets] = []
    for wanted in targets:
        if width is not None:
            how = {word: options[word] for word in ("device", "progress") if word in options}
            nodes = labeled, wanted.nodes
            options["margin"] = finite_margin(recipe.model, graph, width, *nodes, inductive=inductive, **how)
        if poison is not None:
            options["using"] = poison.using(recipe.model, graph, labeled, wanted.nodes, inductive=inductive)
        certificate = recipe.certify(certifier, wanted.nodes, **options)
        results.append(CertifiedTargets(graph, recipe, labeled, wanted, inductive, certificate))
        if certificate.run.stopped is Stop.INTERRUPTED:
            break
    return results


def certificate_file(result: CertifiedTargets, folder: Path) -> Path:
    """Where :func:`save_results` writes a certificate."""
    return folder / f"{result.recipe.slug}-{result.targets.name}.cert"


def save_results(results: Sequence[CertifiedTargets], folder: Path) -> list[Path]:
    """Write certificates, with an ``*.npz`` where verification asks for one, ``*-nodes.csv`` and ``*-budgets.csv``."""
    import pandas as pd

    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for result in results:
        written.append(path := certificate_file(result, folder))
        held = result.certificate.K_train is not None
        result.certificate.save(path, problem=held)
        arrays = {} if held else result.recipe.beside(result.graph, result.labeled, result.targets.nodes)
        if arrays:
            written.append(beside := path.with_suffix(".npz"))
            write_archive(beside, arrays)
        for kind, rows, column in (("nodes", result.node_rows(), "flips"), ("budgets", result.budget_rows(), "attack")):
            frame = pd.DataFrame(rows)
            if kind == "nodes":  # where no attack is known, there is no upper end
                upper = frame["radius_upper"].astype("Int64")
                frame["radius_upper"] = upper.where(upper < result.certificate.never)
            for claim, proof in (("radius_claimed", "radius_lower"), ("changed_claimed", "changed_upper")):
                if claim in frame and np.array_equal(frame[claim], frame[proof]):
                    frame = frame.drop(columns=claim)
            witnesses = (row[column] or {} for row in rows)
            frame[column] = ["; ".join(f"{node} -> {label}" for node, label in each.items()) for each in witnesses]
            written.append(table := folder / f"{path.stem}-{kind}.csv")
            write_csv(frame, table)
    return written


def _rows(frame: pd.DataFrame) -> list[dict[str, Any]]:
    return [
        dict(zip(map(str, frame.columns), row, strict=True)) for row in frame.astype(object).itertuples(index=False)
    ]
