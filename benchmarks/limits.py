"""Whether time limits hold, and how soon Ctrl-C is answered: functions, losses, label counts and classes.

``python -m benchmarks.limits`` asks every function for a time limit, sends Ctrl-C to others, and prints what each took:
compilation left out, in some eight minutes. Nothing else should run at the same time. ``--full`` takes all sizes for
all functions.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import lru_cache
from typing import Any

import click
import numpy as np

from benchmarks.problems import citation_like, clouds
from labelcert import (
    GCN,
    Certificate,
    attack,
    certify,
    certify_linear,
    certify_partition,
    from_sklearn,
    harden,
    noise,
    recheck,
    verify,
)
from labelcert.certification.from_graph import GraphCertifier
from labelcert.cli.printing import print_table
from labelcert.compiling import compiling_clock
from labelcert.errors import LabelcertError
from labelcert.graphs import Graph
from labelcert.report.tables import listing

LOSSES = ("hinge", "squared_hinge", "logistic", "cross_entropy", "square")
TEST_NODES = 100
WARM_LABELS, WARM_SECONDS = 320, 1.0
"""A small call first: what it compiles, no other one has to."""
INTERRUPTS = (0.03, 0.1, 1.0)
"""Seconds after the call at which Ctrl-C comes, in turn."""

Call = Callable[[float | None], Any]

_clouds = lru_cache(maxsize=4)(clouds)


def linear(loss: str, m: int, classes: int) -> Call:
    """Scores that are linear in the labels."""
    rng = np.random.default_rng(0)
    H, labels = rng.normal(size=(TEST_NODES, m)) / np.sqrt(m), rng.integers(classes, size=m)
    return lambda limit: certify_linear(H, labels, time_limit=limit)


def probe(estimator: str, m: int, classes: int) -> Call:
    """An estimator of scikit-learn on features."""
    from sklearn.linear_model import LogisticRegression, RidgeClassifier
    from sklearn.neighbors import KNeighborsClassifier
    from sklearn.svm import SVC, LinearSVC

    known = (LogisticRegression(max_iter=1000), LinearSVC(), RidgeClassifier(), KNeighborsClassifier(), SVC())
    rng = np.random.default_rng(0)
    X, labels = rng.normal(size=(m, 64)), rng.integers(classes, size=m)
    T = rng.normal(size=(TEST_NODES, 64))
    model = from_sklearn(next(one for one in known if type(one).__name__ == estimator))
    return lambda limit: model.certify(X, labels, T, time_limit=limit)


def verified(loss: str, m: int, classes: int) -> Call:
    """The check of a certificate at one flip."""
    arrays = _clouds(m, TEST_NODES, classes)
    cert = certify(*arrays, loss=loss, max_flips=1, time_limit=3.0)
    return lambda limit: verify(cert, *arrays[:3], time_limit=limit)


@lru_cache(maxsize=2)
def _graph(nodes: int, classes: int) -> Graph:
    """A citation network, about as large as CoraML or PubMed."""
    plain = citation_like(nodes, 4 * nodes)
    return Graph(plain.adjacency, plain.features, np.arange(nodes) % classes)


def on_graph(loss: str, m: int, classes: int) -> Call:
    """A graph of 18,333 nodes, after its kernel, which no limit counts."""
    test = np.arange(m, m + 3000)
    certifier = GraphCertifier(GCN(C=1.0), _graph(18_333, classes), np.arange(m), [test])
    return lambda limit: certifier.certify(test, loss=loss, time_limit=limit)


def hardened(loss: str, m: int, classes: int) -> Call:
    """One candidate beside the default one."""
    graph = _graph(3000, classes)
    how: dict[str, Any] = {"flips": 3, "models": {"sgc": {}}, "losses": [loss], "C": [1.0], "workers": 1}
    return lambda limit: harden(graph, np.arange(m), np.arange(m, m + TEST_NODES), time_limit=limit, **how)


def on_arrays(function: Callable[..., Any], **options: Any) -> Callable[[str, int, int], Call]:
    """A function of a kernel, labels, test rows and C."""

    def prepared(loss: str, m: int, classes: int) -> Call:
        arrays = _clouds(m, TEST_NODES, classes)
        return lambda limit: function(*arrays, loss=loss, time_limit=limit, **options)

    return prepared


def chosen(loss: str, m: int, classes: int) -> Call:
    """C by cross-validation over the labels."""
    arrays = _clouds(m, TEST_NODES, classes)[:3]
    return lambda limit: certify(*arrays, "cv", loss=loss, time_limit=limit)


FUNCTIONS: dict[str, Callable[[str, int, int], Call]] = {
    "certify": on_arrays(certify),
    "certify (C chosen)": chosen,
    "certify_partition": on_arrays(certify_partition, parts=20),
    "attack": on_arrays(attack, max_flips=5),
    "recheck": on_arrays(recheck, flips=1, confirm=3),
    "noise": on_arrays(noise, wrong=0.05),
    "verify": verified,
    "certify_linear": linear,
    "from_sklearn": probe,
    "GCN.certify": on_graph,
    "harden": hardened,
}
SIZES = {
    "certify": [(m, k) for m in (500, 2000, 5000) for k in (2, 7)],
    "verify": [(150, 2), (250, 7), (2000, 2)],
    "GCN.certify": [(300, 15)],
    "harden": [(60, 3)],
}
"""Labels and classes that are tried; of all others, :data:`TWO_SIZES`."""
TWO_SIZES = [(2000, 7), (5000, 2)]
TRAINED_WITH = {
    "certify_linear": ("linear",),
    "from_sklearn": ("LogisticRegression", "LinearSVC", "RidgeClassifier", "KNeighborsClassifier"),
    "harden": ("hinge", "square"),
}
"""In place of losses."""


def cases(functions: tuple[str, ...], losses: tuple[str, ...], limit: float, *, full: bool) -> Iterator[dict[str, Any]]:
    """All rows: time limits first, then Ctrl-C, at the first of the sizes."""
    for function in functions:
        trained = TRAINED_WITH.get(function, losses)
        sizes = SIZES["certify"] if full and function not in SIZES else SIZES.get(function, TWO_SIZES)
        for loss in trained:
            for m, k in sizes:
                yield {"function": function, "loss": loss, "m": m, "classes": k, "limit": limit, "after": None}
        for turn, loss in enumerate(trained):
            m, k = sizes[0]
            after = INTERRUPTS[turn % len(INTERRUPTS)]
            yield {"function": function, "loss": loss, "m": m, "classes": k, "limit": limit, "after": after}


_warm = set[tuple[str, str, bool]]()


def _warmed(case: dict[str, Any]) -> None:
    kind = (case["function"], case["loss"], case["classes"] > 2)
    if kind not in _warm and case["m"] > WARM_LABELS:
        _warm.add(kind)
        FUNCTIONS[case["function"]](case["loss"], WARM_LABELS, case["classes"])(WARM_SECONDS)


def one(case: dict[str, Any]) -> dict[str, Any]:
    """One call in this process: the seconds that it took, or that the answer to Ctrl-C took, and what came of it."""
    with suppress(LabelcertError):  # refused, as the call itself will be
        _warmed(case)
    call = FUNCTIONS[case["function"]](case["loss"], case["m"], case["classes"])
    limit, after = case["limit"], case["after"]
    at: dict[str, float] = {}

    def ring() -> None:
        at.update(wall=time.perf_counter(), cpu=time.process_time())
        if after is not None:
            os.kill(os.getpid(), signal.SIGINT)

    timer = threading.Timer(limit if after is None else after, ring)
    timer.start()
    started = time.perf_counter()
    with compiling_clock() as compiling:
        try:
            found = call(limit if after is None else None)
            answer = found.state if isinstance(found, Certificate) else repr(found)
        except KeyboardInterrupt:
            answer = "KeyboardInterrupt"
        except LabelcertError as error:  # a refusal, too, is an answer
            answer = f"{type(error).__name__}: {error}"
        ended, cpu = time.perf_counter(), time.process_time()
    timer.cancel()
    seconds = ended - (started if after is None else at.get("wall", ended)) - compiling()
    return {
        **case,
        "seconds": max(0.0, seconds),
        "cpu": max(0.0, cpu - at.get("cpu", cpu)),
        "answer": answer[:60] if after is None or "wall" in at else "finished before",
    }


def measured(function: str, rows: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """The rows of one function, in a process of its own; where it dies, the rest go on in another one."""
    while rows:
        command = [sys.executable, "-m", "benchmarks.limits", "--one", json.dumps(rows)]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert process.stdout is not None
        assert process.stderr is not None
        for line in process.stdout:
            yield json.loads(line)
            rows = rows[1:]
        if process.wait() and rows:
            died = (process.stderr.read().strip().splitlines() or ["died"])[-1]
            yield {**rows[0], "seconds": 0.0, "cpu": 0.0, "answer": f"{function}: {died}"[:60], "died": True}
            rows = rows[1:]


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--limit", default=2.0, show_default=True, help="Seconds to ask for.")
@click.option("--loss", "losses", multiple=True, type=click.Choice(LOSSES), default=LOSSES)
@click.option("--function", "functions", multiple=True, type=click.Choice(list(FUNCTIONS)), default=tuple(FUNCTIONS))
@click.option("--full", is_flag=True, help="All sizes for all functions.")
@click.option("--one", "single", hidden=True)
def main(limit: float, losses: tuple[str, ...], functions: tuple[str, ...], full: bool, single: str | None) -> None:
    """Time limits and Ctrl-C: exit code 1 where a limit is missed by more than 2 s and 10 %, or Ctrl-C by 1 s."""
    if single is not None:
        signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background ignores Ctrl-C
        for case in json.loads(single):
            click.echo(json.dumps(one(case)))
        return
    rows, missed = [], 0
    for function in functions:
        for found in measured(function, list(cases((function,), losses, limit, full=full))):
            interrupt = found["after"] is not None
            over = found["seconds"] - (0.0 if interrupt else limit)
            late = over > (1.0 if interrupt else max(2.0, 0.1 * limit)) or "died" in found
            missed += late
            asked = f"Ctrl-C at {found['after']:g} s" if interrupt else f"{limit:g} s"
            words = [found["function"], found["loss"], f"{found['m']:,}", str(found["classes"]), asked]
            numbers = [f"{found['seconds']:.2f} s", f"{over:+.2f} s" + (" !" if late else ""), f"{found['cpu']:.2f} s"]
            rows.append([*words, *numbers, found["answer"]])
            click.echo(" ".join(rows[-1]), err=True)
    headings = ("function", "trained with", "labels", "classes", "asked", "taken", "over", "CPU after that", "answer")
    print_table(listing("Time limits and Ctrl-C", headings, rows))
    click.echo(f"{len(rows)} rows, {missed} late")
    sys.exit(1 if missed else 0)


if __name__ == "__main__":
    main()
