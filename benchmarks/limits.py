"""Whether time limits hold, and how soon Ctrl-C is answered: losses, label counts and functions.

``python -m benchmarks.limits`` asks every function for a time limit and prints what it took, compilation left out.
``--interrupts`` sends Ctrl-C instead, some time after each call, and prints how long the answer takes. Nothing else
should run at the same time.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import click
import numpy as np

from benchmarks.problems import clouds
from labelcert import attack, certify, certify_linear, certify_partition, from_sklearn, recheck, verify
from labelcert.cli.printing import print_table
from labelcert.report.tables import listing

LOSSES = ("hinge", "squared_hinge", "logistic", "cross_entropy", "square")
TEST_NODES = 100

Call = Callable[[float | None], Any]


def linear(loss: str, m: int, classes: int) -> Call:
    """Scores that are linear in the labels."""
    rng = np.random.default_rng(0)
    H, labels = rng.normal(size=(TEST_NODES, m)) / np.sqrt(m), rng.integers(classes, size=m)
    return lambda limit: certify_linear(H, labels, time_limit=limit)


def probe(loss: str, m: int, classes: int) -> Call:
    """A linear model of scikit-learn on features."""
    from sklearn.linear_model import LogisticRegression

    rng = np.random.default_rng(0)
    X, labels = rng.normal(size=(m, 64)), rng.integers(classes, size=m)
    T, model = rng.normal(size=(TEST_NODES, 64)), from_sklearn(LogisticRegression(max_iter=1000))
    return lambda limit: model.certify(X, labels, T, time_limit=limit)


def verified(loss: str, m: int, classes: int) -> Call:
    """The check of a certificate at one flip."""
    arrays = clouds(m, TEST_NODES, classes)
    cert = certify(*arrays, loss=loss, max_flips=1, time_limit=20.0)
    return lambda limit: verify(cert, *arrays[:3], time_limit=limit)


def on_arrays(function: Callable[..., Any], **options: Any) -> Callable[[str, int, int], Call]:
    """A function of a kernel, labels, test rows and C."""

    def prepared(loss: str, m: int, classes: int) -> Call:
        arrays = clouds(m, TEST_NODES, classes)
        return lambda limit: function(*arrays, loss=loss, time_limit=limit, **options)

    return prepared


FUNCTIONS: dict[str, Callable[[str, int, int], Call]] = {
    "certify": on_arrays(certify),
    "certify (C chosen)": lambda *case: (
        lambda limit: certify(*clouds(case[1], TEST_NODES, case[2])[:3], "cv", loss=case[0], time_limit=limit)
    ),
    "certify_partition": on_arrays(certify_partition, parts=20),
    "attack": on_arrays(attack, max_flips=5),
    "recheck": on_arrays(recheck, flips=1, confirm=3),
    "verify": verified,
    "certify_linear": linear,
    "from_sklearn": probe,
}
WITHOUT_LOSS = {"certify_linear": "linear", "from_sklearn": "logistic"}


def one(case: dict[str, Any]) -> dict[str, Any]:
    """One call in this process: a small one first, which compiles; then the seconds that it took, and its answer."""
    prepare = FUNCTIONS[case["function"]]
    prepare(case["loss"], 320, case["classes"])(2.0)
    call = prepare(case["loss"], case["m"], case["classes"])
    if case["after"] is None:
        started = time.perf_counter()
        answer = call(case["limit"])
        return {**case, "seconds": time.perf_counter() - started, "answer": repr(answer)[:90]}
    sent: list[float] = []

    def send() -> None:
        sent.append(time.perf_counter())
        os.kill(os.getpid(), signal.SIGINT)

    timer = threading.Timer(case["after"], send)
    timer.start()
    try:
        answer = repr(call(None))[:90]
    except KeyboardInterrupt:
        answer = "KeyboardInterrupt"
    ended = time.perf_counter()
    timer.cancel()
    return {**case, "seconds": ended - sent[0] if sent else 0.0, "answer": answer if sent else "finished before"}


def measured(case: dict[str, Any]) -> dict[str, Any]:
    """The same in a process of its own; an error is its answer."""
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.limits", "--one", json.dumps(case)], capture_output=True, text=True
    )
    if done.returncode:
        return {**case, "seconds": 0.0, "answer": (done.stderr.strip().splitlines() or ["died"])[-1][:90]}
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--limit", default=5.0, show_default=True, help="Seconds to ask for.")
@click.option("--labels", "counts", multiple=True, type=int, default=(500, 2000, 5000), show_default=True)
@click.option("--classes", "classes", multiple=True, type=int, default=(2, 7), show_default=True)
@click.option("--loss", "losses", multiple=True, type=click.Choice(LOSSES), default=LOSSES)
@click.option("--function", "functions", multiple=True, type=click.Choice(list(FUNCTIONS)), default=tuple(FUNCTIONS))
@click.option("--interrupts", is_flag=True, help="Send Ctrl-C 0.01, 0.1 and 2 seconds after each call instead.")
@click.option("--one", "single", hidden=True)
def main(
    limit: float,
    counts: tuple[int, ...],
    classes: tuple[int, ...],
    losses: tuple[str, ...],
    functions: tuple[str, ...],
    interrupts: bool,
    single: str | None,
) -> None:
    """Time limits and Ctrl-C: exit code 1 where a limit is missed by more than 2 s and 10 %, or Ctrl-C by 1 s."""
    if single is not None:
        click.echo(json.dumps(one(json.loads(single))))
        return
    cases = [
        {"function": f, "loss": WITHOUT_LOSS.get(f, loss), "m": m, "classes": k, "limit": limit, "after": after}
        for f in functions
        for loss in (losses[:1] if f in WITHOUT_LOSS else losses)
        for m in counts
        for k in classes
        for after in ((0.01, 0.1, 2.0) if interrupts else (None,))
    ]
    rows, missed = [], 0
    for case in cases:
        found = measured(case)
        over = found["seconds"] - (0.0 if interrupts else limit)
        late = over > (1.0 if interrupts else max(2.0, 0.1 * limit))
        missed += late
        asked = f"after {case['after']:g} s" if interrupts else f"{limit:g} s"
        words = [case["function"], case["loss"], f"{case['m']:,}", str(case["classes"]), asked]
        rows.append([*words, f"{found['seconds']:.2f} s", f"{over:+.2f} s" + (" !" if late else ""), found["answer"]])
        click.echo(" ".join(rows[-1]), err=True)
    headings = ("function", "loss", "labels", "classes", "asked", "taken", "over", "answer")
    print_table(listing("Ctrl-C" if interrupts else "Time limits", headings, rows))
    sys.exit(1 if missed else 0)


if __name__ == "__main__":
    main()
