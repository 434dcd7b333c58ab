"""Commands without a graph: what there is, the demo, saved certificates and their verification, the self-check."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import asdict, fields
from functools import partial
from pathlib import Path
from typing import Any

import click

from labelcert import selfcheck as checks
from labelcert.certificate import Certificate, load
from labelcert.certificate.plain_archives import schema_of
from labelcert.certification import certify
from labelcert.certification.places import CPU, GPU, walked_by
from labelcert.cli.command_regression import show_moves
from labelcert.cli.exits import EXIT_FAILED, EXIT_INTERRUPTED
from labelcert.cli.option_groups import SHOWN
from labelcert.cli.options import FILE, option
from labelcert.cli.printing import print_json, print_table, say, show
from labelcert.engines.registry import ENGINES, engine_names
from labelcert.errors import InvalidInput
from labelcert.examples import several_clouds, two_clouds
from labelcert.graphs.datasets import datasets
from labelcert.losses import LOSSES, loss_names
from labelcert.models import models
from labelcert.pipeline.table_models import TABLE_MODELS, TableModel
from labelcert.progress import progress_report
from labelcert.reading import UNREADABLE, Archive
from labelcert.rechecking import recheck
from labelcert.regression import RegressionCertificate
from labelcert.regression.result import SCHEMA as REGRESSION
from labelcert.report import tables
from labelcert.signing import sign, signature_of, signed
from labelcert.text import printable
from labelcert.verification import verify
from labelcert.verification.statement import LINEAR
from labelcert.verification.targets import verify_regression

LARGE = 1_000_000
"""Bytes of a certificate whose check takes a while: something is said at once."""


@click.command("datasets")
@option("--json as_json", bool, "Print JSON.")
def datasets_command(as_json: bool) -> None:
    """List the graphs that there are by name."""
    if as_json:
        print_json([asdict(info) for info in datasets()])
        return
    rows = [
        (info.name, _size(info.n_nodes), _size(info.n_edges), str(info.n_classes), info.source, info.description)
        for info in datasets()
    ]
    print_table(tables.listing("Datasets", ("name", "nodes", "edges", "classes", "source", "what it is"), rows))
    say("Downloads are kept in the folder given as --data-dir, or named by LABELCERT_DATA_DIR, or in the cache.")


def plain_losses() -> list[str]:
    """Losses by name; those with an intercept are options of these."""
    return [name for name in loss_names() if not LOSSES[name].intercept]


@click.command("models")
@option("--json as_json", bool, "Print JSON.")
def models_command(as_json: bool) -> None:
    """List the models that there are by name, with their options and defaults."""
    known: dict[Any, dict[str, Any]] = {info: {f.name: f.default for f in fields(info.model)} for info in models()}
    known |= {i: {name: getattr(TableModel(C=i.C), name) for name in i.options} for i in TABLE_MODELS.values()}
    if as_json:
        found = known.items()
        print_json([{"name": i.name, "description": i.description, "options": options} for i, options in found])
        return
    rows = []
    for info, options in known.items():
        words = (f"{name.replace('_', '-')}={default}" for name, default in options.items() if name != "C")
        rows.append((info.name, info.description, ", ".join(words)))
    print_table(tables.listing("Models", ("name", "what it is", "options and defaults"), rows))


@click.command("losses")
def losses_command() -> None:
    """List the losses that models can be trained with."""
    rows = []
    for name in plain_losses():
        loss = LOSSES[name]
        formula, _, model = loss.formula.partition(": ")
        intercept = "with --intercept, too" if loss.may_have_intercept else "none"
        rows.append((name, formula, model, intercept, "are decided" if loss.rational else "stay open"))
    heading = "loss", "of a label y = ±1 with the score f", "the trained model", "intercept", "exact ties"
    print_table(tables.listing("Losses", heading, rows))
    say("`labelcert certify ... --loss square` takes one. The default is hinge, the paper's.")


@click.command("engines")
def engines_command() -> None:
    """List the engines that compute certificates."""
    rows = [("auto", "the closed form where it applies, else enumeration; in limited time, searches for what is open")]
    for name in engine_names():
        if name in ENGINES:
            what = str(ENGINES[name].__doc__).splitlines()[0].rstrip(".")
            rows.append((name, what[0].lower() + what[1:]))
    print_table(tables.listing("Engines", ("engine", "what it does"), rows))
    say("Leave --engine at auto unless you know better: it says in each certificate who proved what.")


def _size(count: int | None) -> str:
    return "varies" if count is None else str(count)


@click.command()
@option("--labels n_labels", int, "Number of labelled points.", 16)
@option("--nodes n_test", int, "Number of test points.", 12)
@option("--seed", int, default=0)
@option("--out", FILE, "Save the certificate to this file.")
def demo(n_labels: int, n_test: int, seed: int, out: Path | None) -> None:
    """Certify a small built-in problem: points in the plane, labelled fraud or fine."""
    example = two_clouds(n_labels=n_labels, n_test=n_test, seed=seed)
    cert = certify(example.K_train, example.labels, example.K_test, example.C, progress=True)
    show(cert)
    if out is not None:
        cert.save(out, problem=True)


@click.command("show")
@click.argument("file", type=FILE)
@SHOWN[0]
@SHOWN[1]
def show_file(file: Path, limit: int | None, everything: bool) -> None:
    """Print a saved certificate."""
    if schema_of(file) == REGRESSION:
        show_moves(RegressionCertificate.load(file), 20 if limit is None else limit)
    else:
        show(load(file), limit=limit, full=everything)


@click.command("verify")
@click.argument("file", type=FILE)
@option(
    "--problem",
    FILE,
    "The arrays K_train, labels and K_test (of certify_linear: H and labels; of a model by its features: X_train, "
    "labels and X_test; of a regression: what `labelcert regression --problem` wrote), for a certificate without them.",
    metavar="FILE.npz",
)
@option("--share", float, "Look at this share of the relabellings only, drawn at random: no proof.")
@option("--seed", int, "Seed for --share.", 0)
@option("--time-limit", float, "Seconds; what is not checked by then is said.")
@option("--key", FILE, "Check the signature FILE.sig, too: an Ed25519 public key.", metavar="PUBLIC.pem")
def verify_file(
    file: Path, problem: Path | None, share: float | None, seed: int, time_limit: float | None, key: Path | None
) -> None:
    """Check a saved certificate without the code that made it, in exact arithmetic.

    It prints what was checked, how, and what was not. The exit code is 1 if something is wrong.
    """
    if key is not None and not signed(file, key):
        say(f"rejected: {signature_of(file)} is not the signature of this file by the holder of {key}")
        sys.exit(EXIT_FAILED)
    terminal = sys.stderr.isatty()
    with progress_report("verifying", terminal) as show_progress:
        told = show_progress.note if terminal else _less_and_less(0.3 if file.stat().st_size < LARGE else 0.0)
        if schema_of(file) == REGRESSION:
            moves = RegressionCertificate.load(file)
            found = verify_regression(moves, **_of_regression(problem), time_limit=time_limit, report=told)
        else:
            cert = load(file)
            arrays = {} if problem is None else _arrays(problem, cert)
            found = verify(cert, **arrays, share=share, seed=seed, time_limit=time_limit, report=told)
    if key is not None:
        say(f"signed by the holder of {key}")
    say(str(found))
    if not found.accepted:
        sys.exit(EXIT_FAILED)


def _less_and_less(due: float) -> Callable[[str], None]:
    """Where no bar can be shown: a line on standard error, and the next one after twice the time, and so on."""
    started = time.monotonic()

    def tell(text: str) -> None:
        nonlocal due
        passed = time.monotonic() - started
        if passed >= due:
            due = 2.0 * passed
            click.echo(f"verifying: {printable(text)}", err=True)

    return tell


def _of_regression(path: Path | None) -> dict[str, Any]:
    """What a regression was trained on, from an archive."""
    if path is None:
        raise InvalidInput("a regression is solved again from its features: give --problem FILE.npz")
    try:
        with Archive(path) as given:
            if "H.npy" in given:
                return {"H": given.array("H")}
            names = ("X_train", "X_test", "alpha", "intercept")
            X_train, X_test, alpha, intercept = (given.array(name) for name in names)
            return {"X_train": X_train, "X_test": X_test, "alpha": float(alpha), "intercept": bool(intercept)}
    except InvalidInput:
        raise
    except UNREADABLE as error:
        raise InvalidInput(
            f"{path} must hold the arrays X_train, X_test, alpha and intercept, or H ({error})"
        ) from None


def _arrays(path: Path, cert: Certificate) -> dict[str, Any]:
    """The problem of a certificate, from an archive."""
    try:
        with Archive(path) as given:
            names: tuple[str, ...] = ("K_train", "labels", "K_test")
            if "X_train.npy" in given:
                names = ("X_train", "labels", "X_test")
            elif cert.run.loss == LINEAR:
                names = ("H", "labels")
            missing = [name for name in names if f"{name}.npy" not in given]
            if missing:
                wanted = f"{', '.join(names[:-1])} and {names[-1]}"
                raise InvalidInput(f"{path} must hold the arrays {wanted}; {missing[0]} is missing")
            return {name: given.array(name) for name in names}
    except InvalidInput:
        raise
    except UNREADABLE as error:
        raise InvalidInput(f"{path} cannot be read as an archive of arrays ({error})") from None


@click.command("sign")
@click.argument("file", type=FILE)
@option("--key", FILE, "Ed25519 private key.", metavar="KEY.pem", required=True)
def sign_file(file: Path, key: Path) -> None:
    """Sign a saved certificate: writes FILE.sig, which `labelcert verify FILE --key PUBLIC.pem` checks.

    Make a key with `openssl genpkey -algorithm ed25519 -out KEY.pem`, and what others need with `openssl pkey -in
    KEY.pem -pubout -out PUBLIC.pem`.
    """
    load(file)  # what is no certificate is not signed by mistake
    say(f"wrote {sign(file, key)}")


@click.command()
@option("--problems", click.IntRange(min=1), "Random problems.", 500)
@option("--seed", click.IntRange(min=0), default=0)
@option(
    "--first", click.IntRange(min=0), "Number of the first problem: --first 17 --problems 1 is problem 17 again.", 0
)
@option("--largest", click.IntRange(min=2), "Largest number of labels, usually.", 8)
@option("--seconds", click.FloatRange(min=0, min_open=True), "Time limit of each search.", checks.SECONDS)
@option("--workers", int, "Processes. [default: all cores]")
@option("--device", (CPU, GPU), "Where enumeration trains.", CPU)
def selfcheck(
    problems: int, seed: int, first: int, largest: int, seconds: float, workers: int | None, device: str
) -> None:
    """Compare every engine with brute force in rational arithmetic on random small problems.

    Degenerate kernels, ties, extreme parameters and all threat models are among them. A quarter of the problems has
    kernels that mislead arithmetic with tolerances. Every problem goes to every engine that applies. The engines that
    search have a time limit; what they leave open is no contradiction.
    """
    how: dict[str, Any] = {"first": first, "largest": largest, "seconds": seconds, "workers": workers}
    with progress_report("checking", True) as show, walked_by(None, 1, device):
        outcome = checks.run(problems, seed, **how, device=device, report=show.report)
    for line in outcome.wrong:
        say(line)
    say(f"{outcome.problems} problems, every engine against brute force: {len(outcome.wrong)} contradictions")
    if outcome.wrong:
        sys.exit(EXIT_FAILED)
    if outcome.interrupted:
        say(f"interrupted after {outcome.problems} of {problems} problems", error=True)
        sys.exit(EXIT_INTERRUPTED)


@click.command()
@click.argument("losses", nargs=-1, type=click.Choice(loss_names()), metavar="[LOSS]...")
def warm(losses: tuple[str, ...]) -> None:
    """Compile ahead, so that no later command has to.

    Compiled code is kept on this machine until labelcert is updated. Name losses to compile for these alone.
    """
    examples = {"two classes": two_clouds(), "three classes": several_clouds()}
    jobs: list[tuple[str, Callable[[], Any]]] = []
    for loss in losses or plain_losses():
        for classes, e in examples.items():
            arrays = e.K_train, e.labels, e.K_test, e.C
            jobs.append((f"{loss}, {classes}", partial(certify, *arrays, loss=loss, max_flips=2)))
            jobs.append((f"{loss}, {classes}, advice", partial(recheck, *arrays, loss=loss, flips=1, confirm=1)))
    e = two_clouds(n_labels=40)
    searched = partial(certify, e.K_train, e.labels, e.K_test, e.C, engine="milp", max_flips=1, time_limit=5.0)
    jobs.append(("searches", searched))
    with progress_report("compiling", True) as show_progress:
        for done, (what, job) in enumerate(jobs):
            show_progress.note(what)
            show_progress.report(done, len(jobs))
            job()
    say("compiled: no command has to wait for that until labelcert is updated")


WITHOUT_GRAPH = (
    *(datasets_command, models_command, losses_command, engines_command),
    *(demo, show_file, verify_file, sign_file, selfcheck, warm),
)
