"""What ``labelcert certify`` leaves behind: files, pictures, tables or JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from labelcert._version import __version__
from labelcert.certificate.answer import opening_budget, proved_nothing
from labelcert.certificate.display import telling_budgets
from labelcert.cli.option_groups import DEFAULT_FOLDER, GRAPH_OPTIONS, NODE_OPTIONS, THREAT_OPTIONS
from labelcert.cli.printing import MOST_BUDGETS, print_json, print_table, say, say_notes, say_prose, say_written, show
from labelcert.cli.reporting import deliver_report
from labelcert.models import Recipe
from labelcert.pipeline import COLLECTIVE, CertifiedTargets, Targets, certificate_file, save_results
from labelcert.report import tables
from labelcert.text import per_cent


def deliver(results: list[CertifiedTargets], given: dict[str, Any]) -> None:
    """Write files and pictures, then print tables or JSON."""
    # Files come first: what is printed may have no reader.
    out: Path | None = given["out"]
    written = [] if out is None else save_results(results, out)
    if given["pictures"] or (given["pictures"] is None and out is not None):
        written += draw(results, out or DEFAULT_FOLDER, attack=given["attack"])
    sets = len(_by_targets(results))
    named = {r.recipe.label if sets == 1 else f"{r.recipe.label}, {r.targets.title}": r for r in results}
    files = {} if out is None else {name: certificate_file(result, out) for name, result in named.items()}
    certificates = {name: result.certificate for name, result in named.items()}
    title = results[0].graph.name
    deliver_report(certificates, given["report"], title=title, quiet=given["quiet"], files=files)
    if given["as_json"]:
        print_json(_as_json(results, given))
    else:
        _print(results, given)
    say_written(written, given["quiet"])


def _print(results: list[CertifiedTargets], given: dict[str, Any]) -> None:
    first, full = results[0], given["everything"]
    graph = first.graph
    size = f"{graph.n_nodes:,} nodes, {graph.n_edges:,} edges" if graph.n_edges else f"{graph.n_nodes:,} rows"
    say_prose(f"{graph.name}: {size}; {len(first.labeled)} labels: {tables.class_counts(first.certificate.labels)}")
    groups = _by_targets(results)
    brief = any(len(group) > 1 for group in groups) and given["limit"] is None and not full and not given["metrics"]
    for place, (recipe, of_recipe) in enumerate(_by_recipe(results)):
        for result in of_recipe:
            if place:
                say()
            # The nodes of the collective test are among all nodes: their radii have been shown.
            limit = 0 if result.targets.name == COLLECTIVE and len(of_recipe) > 1 else given["limit"]
            heading = f"{recipe.label}, {result.targets.title} ({_model_text(recipe, full)})"
            beside = next(group for group in groups if result in group)
            flips = min(opening_budget(one.certificate) for one in beside)
            how = {"limit": limit, "full": full, "brief": brief, "flips": flips}
            show(result.certificate, of=heading, more=_accuracies(result), **how)
    for group in groups:
        if len(group) > 1:
            say()
            pairs = [(result.recipe.label, result.certificate) for result in group]
            most = None if full else MOST_BUDGETS
            budgets = sorted({b for _, cert in pairs for b in telling_budgets(cert, most)})
            table = tables.comparison_table(pairs, budgets=budgets)
            table.title = f"Compared: predictions that provably survive, {group[0].targets.title}"
            print_table(table)
    if brief:
        say_notes([result.certificate for result in results])
    if following := _next_command(first, given):
        say(following)


def _next_command(result: CertifiedTargets, given: dict[str, Any]) -> str:
    """What to ask next, about the first model: which labels to confirm, at the budget that the answer is about."""
    cert, recipe = result.certificate, result.recipe
    flips = opening_budget(cert)
    if result.recipe.parts is not None or given["poison_features"] or not flips or not recipe.command:
        return ""
    if proved_nothing(cert) or np.all(cert.radius_lower[cert.radius_upper > 0] > flips):
        return ""
    named = [word for group in (GRAPH_OPTIONS, NODE_OPTIONS, THREAT_OPTIONS) for word in group.words(given)]
    what = "audit" if cert.run.counts_annotators else "confirm"
    words = [*named, recipe.command, f"--flips {flips} --{what} 3"]
    lead = "Whom to audit:" if what == "audit" else "Which labels to check:"
    return f"{lead}  labelcert recheck {' '.join(words)}"


def _accuracies(result: CertifiedTargets) -> str:
    """On test nodes where their labels are known, and by cross-validation over the labelled ones."""
    known = {} if result.correct is None else {"accuracy": float(result.correct.mean())}
    if result.recipe.accuracy is not None:
        known["cross-validated"] = result.recipe.accuracy
    text = ", ".join(f"{name} {per_cent(value)} %" for name, value in known.items())
    return f"; {text}" if text else ""


def draw(results: Sequence[CertifiedTargets], folder: Path, *, attack: int) -> list[Path]:
    """All pictures of a run as files; returns them."""
    from labelcert.report import pictures

    folder.mkdir(parents=True, exist_ok=True)
    written: list[Path] = []
    for group in _by_targets(results):
        pairs = [(result.recipe.label, result.certificate) for result in group]
        title = f"{group[0].graph.name}, {group[0].targets.title}"
        where = group[0].targets.name
        drawn = {
            "ratio": pictures.ratio_figure(pairs, title=title),
            "radius": pictures.radius_figure(pairs, title=title),
        }
        for result in group:
            if result.certificate.run.finds_attacks:
                drawn[f"takeovers-{result.recipe.slug}"] = pictures.takeover_figure(result.certificate)
        if group[0].graph.n_nodes <= pictures.LARGEST_DRAWN_GRAPH:
            drawn["graph"] = pictures.graph_figure([result.attack_panel(attack) for result in group])
        for name, figure in drawn.items():
            written += pictures.save_figure(figure, folder / f"{name}-{where}")
    return written


def _as_json(results: Sequence[CertifiedTargets], given: dict[str, Any]) -> dict[str, Any]:
    first = results[0]
    graph = first.graph
    labeled = graph.names(first.labeled), first.labeled, first.certificate.labels
    return {
        "labelcert": __version__,
        "graph": {
            "name": graph.name,
            "nodes": graph.n_nodes,
            "edges": graph.n_edges,
            "features": graph.n_features,
            "classes": list(graph.class_names),
            "fingerprint": graph.fingerprint(),
        },
        "seed": given["seed"],
        "inductive": first.inductive,
        "labeled": [
            {"node": name, "index": int(node), "label": label.item()}
            for name, node, label in zip(*labeled, strict=True)
        ],
        "results": [
            {
                "model": recipe.name,
                "options": asdict(recipe.model),
                "C_from": recipe.source,
                "cross_validated_accuracy": recipe.accuracy,
                "certificates": [result.describe() for result in of_recipe],
            }
            for recipe, of_recipe in _by_recipe(results)
        ],
    }


def _model_text(recipe: Recipe, full: bool) -> str:
    """Its C and where that comes from, and its options: those that are not the default ones, or all if ``full``."""
    sources = {
        "given": "as given",
        "paper": "the paper's",
        "default": "the graph's default",
        "cross-validation": "from cross-validation",
        "scikit-learn": "scikit-learn's default",
    }
    options = [f"{name} {value}" for name, value in (recipe.options if full else recipe.changed).items()]
    return ", ".join([*([f"C = {recipe.C:g}, {sources[recipe.source]}"] if recipe.has_C else []), *options])


def _by_recipe(results: Sequence[CertifiedTargets]) -> list[tuple[Recipe, list[CertifiedTargets]]]:
    recipes = dict.fromkeys(result.recipe for result in results)
    return [(recipe, [r for r in results if r.recipe == recipe]) for recipe in recipes]


def _by_targets(results: Sequence[CertifiedTargets]) -> list[list[CertifiedTargets]]:
    sets: dict[int, tuple[Targets, list[CertifiedTargets]]] = {}
    for result in results:
        sets.setdefault(id(result.targets), (result.targets, []))[1].append(result)
    return [group for _, group in sets.values()]
