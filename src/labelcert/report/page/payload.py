"""Certificates and studies in plain values, as the page's scripts read them."""

from __future__ import annotations

import base64
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from labelcert.arrays import Bool, Text, Values
from labelcert.certificate import Certificate, ListedAttacks, RelabellingList, Stop, Surroundings, WorstCase, owners
from labelcert.certificate.answer import Answer, answer, opening_budget, proved_nothing, unit_words
from labelcert.certificate.display import BUDGETS, headline, telling_budgets
from labelcert.errors import InvalidInput
from labelcert.problem.ballots import whole_multiples
from labelcert.problem.relabelling import REMOVED
from labelcert.problem.threat import Threat
from labelcert.report.layout import layout
from labelcert.text import printable

LARGEST_LAYOUT = 6000
"""Larger graphs are shown around one node at a time."""


@dataclass(frozen=True, eq=False)
class Shown:
    """One certificate in a report."""

    name: str
    certificate: Certificate
    attacks: ListedAttacks | None = None
    """For switches that verify labels; without them, what these show is approximate."""
    verification: str = ""
    """What ``labelcert verify`` said."""
    rejected: bool = False
    file: str = ""


def certificates_page(shown: Sequence[Shown], *, budget: int | None, opens: int = 0) -> dict[str, Any]:
    """A page about certificates that opens with one of them, at ``budget``, or at the smallest that changes anything.

    What labels or annotators a later certificate knows to be right, and the first one does not, is called a plan.
    """
    if not shown:
        raise InvalidInput("there is nothing to report: give at least one certificate")
    graphs: list[Surroundings] = []
    models = [_model(one, graphs) for one in shown]
    first = shown[0].certificate
    if budget is None:
        budget = opening_budget(first)
    elif budget > first.last_flips:
        raise InvalidInput(
            f"budget must be at most {first.last_flips}, the largest that is worth showing, got {budget}"
        )
    notes = comparability([one.certificate for one in shown])
    return {"models": models, "graphs": [_graph(g) for g in graphs], "budget": budget, "opens": opens, "notes": notes}


def _model(shown: Shown, graphs: list[Surroundings]) -> dict[str, Any]:
    cert, run = shown.certificate, shown.certificate.run
    m, names = int(cert.labels.size), [printable(str(value)) for value in cert.classes.tolist()]
    around, every = _around(cert, graphs, names)
    return {
        "name": printable(shown.name),
        "headline": headline(cert),
        "state": cert.state,
        "unit": run.unit,
        "words": unit_words(cert),
        "provedNothing": proved_nothing(cert),
        "answers": [_answer(answer(cert, b, shown.attacks)) for b in range(cert.last_flips + 1)],
        "n": cert.n_test,
        "m": m,
        "classes": names,
        "becomes": [*names, str(REMOVED)],
        "allClasses": every,
        "labels": _codes(cert.labels, cert.classes),
        "labelNames": _names(cert.label_names),
        "testNames": _names(cert.test_names),
        "predicted": _codes(cert.predictions, cert.classes),
        "scores": [float(f"{score:.4g}") for score in cert.top_scores.tolist()],
        "lower": cert.radius_lower.tolist(),
        "upper": cert.radius_upper.tolist(),
        "never": cert.never,
        "maxFlips": cert.max_flips,
        "exact": cert.exact,
        "trusts": cert.trusts_solver,
        "lastFlips": cert.last_flips,
        "newClass": cert.new_classes.tolist(),
        "provedBy": cert.radius_proved_by.tolist(),
        "votes": None if cert.black_box_radius is None else cert.black_box_radius.tolist(),
        "voting": any(stage.statistics.get("combine") == "votes" for stage in run.stages),
        "margin": bool(run.margin),
        "collective": run.collective,
        "finds": run.finds_attacks,
        "seconds": run.seconds,
        "witness": _relabellings(cert.node_attacks),
        "curve": {
            "lower": cert.collective_lower.tolist(),
            "upper": cert.collective_upper.tolist(),
            "attackOf": cert.curve_attack_of.tolist(),
            "attacks": _relabellings(cert.curve_attacks),
            "changed": [_bits(row) for row in cert.curve_changed],
        },
        "worst": _worst(cert),
        "crowd": _crowd(cert),
        "listed": None if shown.attacks is None else _listed(shown.attacks),
        "threat": _threat(cert),
        "fixed": _fixed(cert),
        "exactness": exactness(cert),
        "around": around,
        "provenance": [[key, printable(value)] for key, value in provenance(cert).items()],
        "command": printable(run.command),
        "verifyCommand": f"labelcert verify {shlex.quote(printable(shown.file))}" if shown.file else "",
        "verification": printable(shown.verification)
        or "Not verified for this page: labelcert verify checks a certificate without the code that made it.",
        "warning": warning(shown),
    }


def exactness(cert: Certificate) -> list[str]:
    """What is open, and why, a sentence for each."""
    run, last = cert.run, cert.run.amount(cert.max_flips)
    reason = {
        Stop.FINISHED: _one_sided(cert),
        Stop.TIME_LIMIT: "the time limit was reached",
        Stop.INTERRUPTED: "the run was interrupted",
        Stop.MEMORY: "the memory limit was reached",
    }[run.stopped]
    words = []
    if cert.exact:
        what = "Everything" if run.collective else "Every radius"
        words.append(
            f"{what} up to {last} is settled, if the solver is right."
            if cert.trusts_solver
            else f"{what} up to {last} is exact. Nothing is open."
        )
    else:
        open_radii = int(np.sum(~cert.settled))
        open_points = int(np.sum(cert.collective_lower != cert.collective_upper))
        if open_radii:
            words.append(f"{open_radii} of {cert.n_test} radii are intervals: {reason}.")
        if run.collective and open_points:
            words.append(
                f"{open_points} of {cert.max_flips + 1} points of the collective curve are intervals: {reason}."
            )
    if not run.collective:
        words.append("The collective curve was not asked for.")
    if not run.finds_attacks:
        words.append("No attacks were looked for.")
    if cert.trusts_solver:
        words.append("Some verdicts rest on a solver's word, which proves nothing.")
    words += [
        f"{note[0].upper()}{note[1:].rstrip('.')}." for note in (run.budget_note, *run.remarks, *run.advice) if note
    ]
    if run.margin:
        source = f" ({run.margin_from})" if run.margin_from else ""
        words.append(f"A prediction counts as changed once its lead falls to {run.margin_text}{source}.")
    return [printable(line) for line in words]


def _one_sided(cert: Certificate) -> str:
    """Why a run that finished left something open."""
    asked = cert.run.engine_asked
    if asked.startswith("attack:"):
        return "an attack proves upper ends alone"
    if not cert.run.finds_attacks:
        return f"{asked.removeprefix('baseline:')} proves lower ends alone"
    if asked == "partition":
        return "the curve of an ensemble is a bound"
    return "the engine could not prove more"


def warning(shown: Shown) -> str:
    """What is wrong with the certificate; empty if nothing is known to be."""
    if shown.certificate.checksum != shown.certificate.computed_checksum():
        return "This certificate was changed after it was made: its checksum does not match. Do not rely on it."
    return f"This certificate is wrong. {shown.verification}" if shown.rejected else ""


def comparability(certs: Sequence[Certificate]) -> list[str]:
    """What to keep in mind when certificates are compared, a sentence for each."""
    notes = []
    if len({cert.run.unit for cert in certs}) > 1:
        notes.append("Budgets count different things: wrong labels, annotators or cost units.")
    names = [None if cert.test_names is None else tuple(sorted(cert.test_names.tolist())) for cert in certs]
    if len({cert.n_test for cert in certs}) > 1 or len(set(names)) > 1:
        notes.append("The models were certified on different predictions, so their percentages cannot be compared.")
    elif None in names and len(certs) > 1:
        notes.append("Predictions have no names, so nobody checked that they are the same.")
    known = [None if cert.label_names is None else tuple(sorted(cert.label_names.tolist())) for cert in certs]
    if len({cert.labels.size for cert in certs}) > 1 or len(set(known)) > 1:
        notes.append("The models are trained on different labels.")
    if len({str(cert.run.threat) for cert in certs}) > 1:
        notes.append("The adversaries differ: see what each may do.")
    if len({cert.run.margin_text for cert in certs}) > 1:
        notes.append("The margins differ.")
    return notes


def _by_budget(cert: Certificate, worst: WorstCase) -> str:
    """The worst value of a metric at a few budgets."""
    return ", ".join(f"{worst.text(b)} at {cert.run.amount(b)}" for b in telling_budgets(cert, BUDGETS))


def provenance(cert: Certificate) -> dict[str, str]:
    """How the certificate came about: what is worth writing down to get it again."""
    run = cert.run
    facts = {
        "model": run.model,
        "loss": run.loss,
        "C": repr(run.C),
        "engine": f"{cert.engine} (asked for: {run.engine_asked})",
        "budgets": f"0 to {cert.max_flips}",
        **{one.title: _by_budget(cert, one) for one in cert.worst_cases},
        "ended": run.stopped.value,
        "seconds": f"{run.seconds:.2f}",
        "seconds of compiling, not counted": f"{run.compiling:.2f}" if run.compiling_text else "",
        "device": run.device,
        "workers": str(run.workers),
        "time limit": "" if run.time_limit is None else f"{run.time_limit:g} s",
        "time limit for each node": "" if run.node_time_limit is None else f"{run.node_time_limit:g} s",
        "solver": f"{run.solver}{', trusted' if run.trust_solver else ''}" if run.engine_asked == "milp-paper" else "",
        "added to the kernel's diagonal": f"{run.kernel_shift:g}" if run.kernel_shift else "",
        "versions": ", ".join(f"{name} {version}" for name, version in run.versions.items()),
        "problem (SHA-256)": run.problem_sha256,
        "certificate (SHA-256)": cert.checksum,
        "checksum": "matches" if cert.checksum == cert.computed_checksum() else "DOES NOT MATCH: something was changed",
    }
    return {key: value for key, value in facts.items() if value}


def _around(
    cert: Certificate, graphs: list[Surroundings], classes: list[str]
) -> tuple[dict[str, Any] | None, list[str]]:
    """Where labels and test nodes are in the graph, which is kept once, and all classes that the truth speaks of."""
    around = cert.around
    if around is None:
        return None, classes
    same = [
        k
        for k, g in enumerate(graphs)
        if np.array_equal(g.edges, around.edges) and np.array_equal(g.names, around.names)
    ]
    if not same:
        graphs.append(around)
    truth = [printable(name) for name in around.truth.tolist()]
    every = [*classes, *sorted(set(truth) - {*classes, ""})]
    code = {**{name: k for k, name in enumerate(every)}, "": -1}
    place = {
        "graph": same[0] if same else len(graphs) - 1,
        "labeled": around.labeled.tolist(),
        "tested": around.tested.tolist(),
        "truth": [code[name] for name in truth],
    }
    return place, every


def _answer(told: Answer) -> list[str]:
    return [told.safe, told.worst, told.next]


def _graph(around: Surroundings) -> dict[str, Any]:
    n = int(around.names.size)
    places = None if n > LARGEST_LAYOUT else np.rint(5000 * (layout(n, around.edges) + 1)).astype(int)
    return {
        "names": _names(around.names),
        "edges": around.edges.ravel().tolist(),
        "x": None if places is None else places[:, 0].tolist(),
        "y": None if places is None else places[:, 1].tolist(),
    }


def _threat(cert: Certificate) -> dict[str, Any]:
    plain = cert.run.threat
    try:
        words = Threat.from_plain(plain, cert.labels, cert.classes).in_words()
    except (KeyError, InvalidInput):
        words = ["What the adversary may do cannot be read back from the certificate."]
    groups = plain.get("groups")
    return {
        "words": [printable(line) for line in words],
        "costs": plain.get("costs"),
        "groups": None if groups is None else [None if g is None else printable(str(g)) for g in groups],
    }


def _crowd(cert: Certificate) -> dict[str, Any] | None:
    """Where budgets count annotators: what each changes alone, and who is behind every known attack."""
    run, n = cert.run, cert.n_test
    if not run.counts_annotators:
        return None
    names, rows = owners.names(run), [who for _, who, _ in owners.ballots(run)]
    try:
        sure, maybe = owners.alone(run, n)
    except InvalidInput:
        sure, maybe = np.zeros((len(names), n), dtype=bool), np.ones((len(names), n), dtype=bool)
    given, honest = run.threat.get("prices") or {}, run.threat.get("trusted_annotators") or []
    prices, _ = whole_multiples("prices", [given.get(name, 1) for name in names])

    def behind(said: dict[str, Any] | None) -> list[int] | None:
        return None if said is None else [names.index(who) for who in said]

    return {
        "names": [printable(name) for name in names],
        "votes": [rows.count(name) for name in names],
        "prices": [0 if name in honest else int(price) for name, price in zip(names, prices, strict=True)],
        "sure": [_bits(row) for row in sure],
        "maybe": [_bits(row) for row in maybe],
        "owners": [behind(cert.witness_votes(t)) for t in range(n)],
        "together": [behind(cert.collective_votes(b)) for b in range(cert.max_flips + 1)],
    }


def _worst(cert: Certificate) -> dict[str, Any]:
    """The worst values of metrics in words, for each budget, and which attack comes to them."""
    if cert.metrics is None or cert.metric_attacks is None:
        return {"rows": [], "attacks": None}
    budgets = range(cert.last_flips + 1)
    rows = [
        {
            "title": printable(one.title),
            "values": [one.text(b) for b in budgets],
            "attackOf": attack_of[: len(budgets)].tolist(),
        }
        for one, attack_of in zip(cert.worst_cases, cert.metrics.attack_of, strict=True)
    ]
    return {"rows": rows, "attacks": _relabellings(cert.metric_attacks)}


def _fixed(cert: Certificate) -> list[int]:
    """(m,) 1 where a label is trusted already."""
    trusted = np.zeros(cert.labels.size, dtype=np.int64)
    trusted[cert.run.threat.get("trusted") or []] = 1
    return trusted.tolist()


def _listed(attacks: ListedAttacks) -> dict[str, Any]:
    return {
        "flips": attacks.flips,
        "starts": attacks.starts.tolist(),
        "labels": attacks.labels.tolist(),
        "costs": attacks.costs.tolist(),
        "strongest": attacks.strongest.tolist(),
        "atOnce": [_bits(row) if row.any() else "" for row in attacks.at_once],
        "rows": [_bits(row) if row.any() else "" for row in attacks.overturned],
    }


def _relabellings(attacks: RelabellingList) -> dict[str, list[int]]:
    return {part: getattr(attacks, part).tolist() for part in ("starts", "labels", "targets")}


def _bits(row: Bool) -> str:
    return base64.b64encode(np.packbits(row, bitorder="little").tobytes()).decode()


def _codes(values: Values, classes: Values) -> list[int]:
    return [int(code) for code in np.searchsorted(classes, values)]


def _names(names: Text | None) -> list[str] | None:
    return None if names is None else [printable(name) for name in names.tolist()]
