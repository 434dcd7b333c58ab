"""Fuzzing of every reader: whatever is in a file, it is read or clearly refused.

``python -m tests.faults.fuzzing`` tries all readers for a while each; ``--seconds 600 certificate`` one of them for ten
minutes. With atheris installed (``pip install atheris``), coverage guides the search. What was found is kept in the
folder ``corpus`` and tried again by every test run.

A try is a string of bytes, from which all choices are made: which part of a valid file to change, and how. Checksums of
archives and journals are computed afterwards, so that changes reach what lies behind them.
"""

from __future__ import annotations

import argparse
import gc
import hashlib
import io
import json
import random
import sys
import tempfile
import time
import traceback
import warnings
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from types import FunctionType
from typing import Any, TypeVar

import numpy as np

import labelcert
from labelcert.cli.inputs import _table
from labelcert.errors import LabelcertError
from labelcert.examples import two_clouds
from labelcert.graphs import Graph, graph_from_files, karate
from labelcert.graphs.plain_tables import PlainTable
from labelcert.graphs.safe_pickle import read_pickled_data
from labelcert.jobs.store import JOURNAL, _line
from labelcert.report import tables
from labelcert.studies import Store, StudyPlan, expand, parse_study, run_plan
from labelcert.studies.report import make_report

CORPUS = Path(__file__).parent / "corpus"
SLOW = 10.0
"""Seconds after which a try counts as a way to block a program."""

TOKENS = (
    *(b"0", b"-1", b"1e400", b"NaN", b"Infinity", b"null", b"true", b'""', b"''", b"[]", b"{}", b"9" * 30, b"1.5"),
    *(b"\0", b"\n", b"\r\n", b",", b'"', b"=", b".", b"[[", b"]]", b"\xff", b"\xef\xbb\xbf", b"\xc3\xa9", b"\x1b[31m"),
    *(b"<U0", b"|O", b"<i8", b"<f8", b"(1000000000000,)", b"(-1,)", b"()", b"[" * 300, b"a." * 40, b"../", b"\\"),
)
Item = TypeVar("Item")


class Choices:
    """Choices that are made by bytes; zeros follow when these end."""

    def __init__(self, data: bytes) -> None:
        self._stream = io.BytesIO(data)

    def number(self, below: int) -> int:
        """A number from 0 on."""
        return int.from_bytes(self._stream.read(4).ljust(4, b"\0"), "little") % max(1, below)

    def pick(self, items: Sequence[Item]) -> Item:
        """One of these."""
        return items[self.number(len(items))]

    def blob(self, most: int) -> bytes:
        """Some bytes."""
        return self._stream.read(self.number(most + 1))

    def mutated(self, content: bytes) -> bytes:
        """The content after a few changes."""
        out = bytearray(content)
        for _ in range(1 + self.number(6)):
            at, to = sorted((self.number(len(out) + 1), self.number(len(out) + 1)))
            match self.number(8):
                case 0 if out:
                    out[at % len(out)] ^= 1 << self.number(8)
                case 1 if out:
                    out[at % len(out)] = self.number(256)
                case 2:
                    out[at:at] = self.pick(TOKENS)
                case 3:
                    out[at : at + len(token)] = (token := self.pick(TOKENS))
                case 4:
                    del out[at : min(to, at + 64)]
                case 5:
                    out[at:at] = out[at : min(to, at + 64)]
                case 6:
                    out[at:at] = self.blob(16)
                case _:
                    del out[at + 1 + self.number(1 << 16) :]
        return bytes(out)

    def json(self, value: Any) -> Any:
        """A JSON value in which one entry is another, or is gone."""
        if isinstance(value, dict) and value and self.number(8):
            key = self.pick(sorted(value))
            if not self.number(8):
                return {k: v for k, v in value.items() if k != key}
            return {**value, key: self.json(value[key])}
        if isinstance(value, list) and value and self.number(8):
            at = self.number(len(value))
            return [*value[:at], self.json(value[at]), *value[at + 1 :]] if self.number(6) else value[:at]
        odd: list[Any] = [None, True, -1, 0, 1, 1.5, 2**70, 1e300, "", "text", "\x1b[0m", [], {}, [0] * 9, {"a": 1}]
        return self.pick(odd)


@dataclass(frozen=True)
class Reader:
    """One kind of file: ``attempt`` makes one of it in a folder, reads it, and uses what was read."""

    name: str
    attempt: Callable[[Choices, Path], None]


READERS: dict[str, Reader] = {}


def reader(attempt: Callable[[Choices, Path], None]) -> Callable[[Choices, Path], None]:
    """Add a function to the list, under its name."""
    READERS[attempt.__name__] = Reader(attempt.__name__, attempt)
    return attempt


def archive(choices: Choices, members: dict[str, bytes]) -> bytes:
    """An archive in which members are others, twice there or missing; sometimes it is damaged itself."""
    members = dict(members)
    for _ in range(1 + choices.number(3)):
        name = choices.pick(sorted(members))
        kind = choices.number(10)
        if kind == 0 and len(members) > 1:
            del members[name]
        elif name.endswith(".json") and kind < 8:
            members[name] = json.dumps(choices.json(json.loads(members[name] or b"{}"))).encode()
        elif name.endswith(".npy") and kind < 6:
            members[name] = array(choices, members[name])
        else:
            members[name] = choices.mutated(members[name])
        if name.endswith(".json"):
            try:
                json.loads(members.get(name, b""))
            except ValueError:
                break
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as made:
        for name, content in members.items():
            made.writestr(name, content)
    return stream.getvalue() if choices.number(12) else choices.mutated(stream.getvalue())


def array(choices: Choices, content: bytes) -> bytes:
    """An array in which some entries are others, or of another type or shape."""
    try:
        values = np.lib.format.read_array(io.BytesIO(content)).copy()
    except Exception:
        return choices.mutated(content)
    match choices.number(7):
        case 0:
            kind = choices.pick(["<f8", "<i8", "<U4", "?", "<i1", ">i8", "<c16", "<M8[s]", "<u8"])
            plain = values.dtype.kind in "biuf"
            values = values.astype(kind) if plain else np.zeros(values.shape, kind)
        case 1:
            values = values[: choices.number(values.shape[0] + 1)] if values.ndim else values
        case 2:
            values = np.concatenate([values, values]) if values.ndim else values.reshape(1)
        case 3:
            values = values.reshape(-1, 1)
        case _ if values.size:
            odd: list[Any] = [0, 1, -1, 2, -3, 7, 10**6, 2**62, float("nan"), float("inf"), 1.5, "x", "", "\x1b"]
            for _ in range(1 + choices.number(3)):
                try:
                    values.flat[choices.number(values.size)] = choices.pick(odd)
                except (ValueError, OverflowError, TypeError):
                    continue
    stream = io.BytesIO()
    np.lib.format.write_array(stream, values)
    return stream.getvalue()


def members_of(path: Path) -> dict[str, bytes]:
    """What is in an archive."""
    with zipfile.ZipFile(path) as found:
        return {name: found.read(name) for name in found.namelist()}


@cache
def certificates() -> list[dict[str, bytes]]:
    """Members of a few certificates: of two classes and of three, with kernels, names, costs and proofs."""
    data = two_clouds()
    rng = np.random.default_rng(0)
    X = rng.normal(size=(12, 3))
    K = X @ X.T
    votes = [(i, who, label) for i, label in enumerate("aabbaabab") for who in "xyz"[: 1 + i % 3]]
    found = [
        labelcert.certify(data.K_train, data.labels, data.K_test, C=1.0, max_flips=3),
        labelcert.certify(data.K_train, data.labels, data.K_test, C=1.0, max_flips=2, engine="milp"),
        labelcert.certify(K[:9, :9], list("aabbccabc"), K[9:, :9], C=0.5, threat=labelcert.Threat(costs=[1, 2, 1] * 3)),
        labelcert.GCN(C=0.1).certify(karate(), [0, 1, 2, 32, 33, 30], [5, 6, 9, 28]),
        labelcert.certify_partition(K[:9, :9], list("aabbaabab"), K[9:, :9], C=0.5, parts=3),
        labelcert.certify(
            K[:9, :9], list("aabbaabab"), K[9:, :9], 0.5, metrics=[labelcert.Metric("recall", list("aba"))]
        ),
        *(
            labelcert.certify(K[:9, :9], list("aabbaabab"), K[9:, :9], C=0.5, threat=labelcert.Threat(**owners))
            for owners in ({"annotators": list("xyzxyzxyz")}, {"votes": votes, "prices": {"x": 2, "y": 1, "z": 1}})
        ),
    ]
    with tempfile.TemporaryDirectory() as folder:
        for k, cert in enumerate(found):
            cert.save(Path(folder) / f"{k}", problem=k != 1)
            _compile(labelcert.load(Path(folder) / f"{k}"), Path(folder) / "report.html", verify=k != 1)
        return [members_of(Path(folder) / f"{k}") for k in range(len(found))]


def _compile(cert: labelcert.Certificate, path: Path, *, verify: bool) -> None:
    """Load what is compiled from its cache, also for graphs that are not connected and arrays as a file holds them."""
    cert.report(path, verify=verify)
    for copied in (True, False) if cert.around is not None else ():
        edges = cert.around.edges[:20].astype(np.int64)
        edges.setflags(write=copied)
        replace(cert, around=replace(cert.around, edges=edges)).report(path)


@reader
def certificate(choices: Choices, folder: Path) -> None:
    """A certificate, all that is shown of it, and what the verifier says."""
    path = folder / "some.cert"
    path.write_bytes(archive(choices, choices.pick(certificates())))
    cert = labelcert.load(path)
    shown = (cert.summary(), repr(cert), cert._repr_html_(), cert.to_latex(), tables.summary(cert))
    assert all(isinstance(text, str) for text in shown)
    cert.to_frame()
    cert.curve_frame()
    cert.verdicts(flips=cert.max_flips)
    tables.node_table(cert, limit=5)
    tables.budget_table(cert, budgets=[0, cert.last_flips])
    if cert.run.finds_attacks:
        tables.takeover_table(cert)
    resealed = replace(cert, checksum=cert.computed_checksum()) if choices.number(2) else cert
    resealed.report(folder / "report.html", verify=bool(choices.number(2)))
    labelcert.verify(resealed, time_limit=SLOW / 4)
    cert.save(folder / "again.cert")
    assert labelcert.load(folder / "again.cert").computed_checksum() == cert.computed_checksum()


@cache
def regressions() -> list[dict[str, bytes]]:
    """Members of an answer about numbers."""
    H = np.random.default_rng(0).normal(size=(3, 6))
    with tempfile.TemporaryDirectory() as folder:
        labelcert.certify_regression(H=H, y=H[0], change=1.0, threshold=0.5).save(Path(folder) / "some.cert")
        return [members_of(Path(folder) / "some.cert")]


@reader
def regression(choices: Choices, folder: Path) -> None:
    """What wrong targets do, and all that is shown of it."""
    path = folder / "some.cert"
    path.write_bytes(archive(choices, choices.pick(regressions())))
    cert = labelcert.RegressionCertificate.load(path)
    labelcert.verify_regression(cert, H=np.random.default_rng(0).normal(size=(3, 6)), time_limit=SLOW / 4)
    assert isinstance(cert.summary() + repr(cert), str)
    cert.to_frame()
    cert.coefficient_frame()
    cert.interval(cert.max_changes)


@cache
def graphs() -> list[dict[str, bytes]]:
    """Members of a few graphs."""
    own = Graph([[0, 2], [2, 0]], [[1.0], [2.0]], [0, 1], class_names=("a", "b"), node_names=("x", "y"))
    with tempfile.TemporaryDirectory() as folder:
        return [members_of(graph.to_npz(Path(folder) / f"{graph.name}.npz")) for graph in (own, karate())]


@reader
def npz(choices: Choices, folder: Path) -> None:
    """A graph in an archive of arrays."""
    path = folder / "graph.npz"
    path.write_bytes(archive(choices, choices.pick(graphs())))
    graph = Graph.from_npz(path)
    graph.fingerprint()
    repr(graph)


EDGES = b"source,target,weight\nann,bob,1\nbob,cleo,2.5\ncleo,dan,1\n"
FEATURES = b"node,height,age,label\nann,1.5,3,cat\nbob,2,4,dog\ncleo,3,1,\ndan,0,0,cat\n"
LABELS = b'node,label\nann,cat\nbob,dog\ncleo,"a, ""b"""\n'


@reader
def table(choices: Choices, folder: Path) -> None:
    """Tables of edges, features and labels."""
    given: dict[str, Path] = {}
    for kind, content in (("edges", EDGES), ("features", FEATURES), ("labels", LABELS)):
        if kind == "edges" or choices.number(2):
            given[kind] = folder / f"{kind}.{choices.pick(['csv', 'csv', 'tsv'])}"
            text = content if given[kind].suffix == ".csv" else content.replace(b",", b"\t")
            given[kind].write_bytes(choices.mutated(text) if choices.number(3) else text)
    graph = graph_from_files(given.pop("edges"), directed=bool(choices.number(2)), **given)  # type: ignore[arg-type]
    graph.fingerprint()


@reader
def plain_table(choices: Choices, folder: Path) -> None:
    """A table without a graph: any columns, encodings and separators."""
    rows = [f"{i % 7},{'ab?'[i % 3]},{i}.5,2024-0{1 + i % 9}-11,{'yn'[i % 2]}" for i in range(12)]
    text = "\n".join(["x,kind,size,day,label", *rows]).replace(",", choices.pick([",", ";", "\t"]))
    path = folder / "t.csv"
    path.write_bytes(choices.mutated(text.encode(choices.pick(["utf-8", "utf-16", "cp1252"]))))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        PlainTable.read(path, raw=choices.pick([None, True, False]), missing=choices.pick([None, ["?"]]))


@reader
def label_table(choices: Choices, folder: Path) -> None:
    """A table with what each label costs, or who gave it."""
    path = folder / "costs.csv"
    path.write_bytes(choices.mutated(b"node,cost,group\n0,3,ann\n1,2,bob\n33,1,ann\n"))
    _table(karate(), path, choices.pick(["cost", "group"]), number=bool(choices.number(2)))


STUDY = b"""title = "A study"
note = 'what for'
seeds = [0, 1]
budgets = [0.1, 0.3]
certificates = ["collective", { kind = "accuracy", engine = "auto", test = "all" }]
losses = ["hinge", "square"]
time_limit = 5.0

[[datasets]]
name = "csbm"
label = "CSBM"
per_class = 5
parameters = { n = 60, order = "stable" }
models.gcn = { C = 0.3 }

[[models]]
name = "gcn"
depth = [1, 2]

[[models]]
name = "appnp"
alpha = 0.1
C = "cross-validate"
verify = 2
"""


@reader
def toml(choices: Choices, folder: Path) -> None:
    """A study."""
    content = choices.mutated(STUDY)
    parse_study(content.decode("utf-8", "ignore"), name="fuzzed", folder=folder)


@cache
def journal_seed() -> tuple[StudyPlan, list[dict[str, Any]]]:
    """A small study, and the records of its cells."""
    head = 'flips = [1]\nseeds = [0, 1]\nreport = "attack"\n'
    plan = expand(
        parse_study(head + '[[datasets]]\nname = "karate"\n[[models]]\nname = "gcn"\nC = 0.1\n', name="fuzzed")
    )
    with tempfile.TemporaryDirectory() as folder, Store(Path(folder), write=True) as store:
        run_plan(plan, store, workers=1)
        return plan, list(store.records.values())


@reader
def journal(choices: Choices, folder: Path) -> None:
    """Results of a study, and the report on them."""
    plan, records = journal_seed()
    lines = []
    for record in records:
        changed = choices.json(json.loads(json.dumps(record))) if choices.number(4) else record
        try:
            line = _line(changed)
        except (ValueError, TypeError):
            line = _line(record)
        lines.append(line if choices.number(5) else choices.mutated(line))
    (folder / JOURNAL).write_bytes(b"".join(lines))
    with Store(folder, keep_old=bool(choices.number(2))) as store:
        make_report(plan, store, folder / "report", pictures=False)


@cache
def pickles() -> list[bytes]:
    """Pickles as datasets are published in."""
    import pickle
    from collections import defaultdict

    from scipy.sparse import csr_matrix

    neighbors: Any = defaultdict(list)
    neighbors[0] = [1, 2]
    values = [
        np.arange(6.0).reshape(2, 3),
        csr_matrix(np.eye(3)),
        neighbors,
        {"a": [1, 2.5, "x", None, True]},
        (1, b"x"),
    ]
    return [pickle.dumps(value, protocol=protocol) for value in values for protocol in (0, 1, 2, 3)]


@reader
def pickled(choices: Choices, folder: Path) -> None:
    """Pickled data, which are never executed."""
    read_pickled_data(choices.mutated(choices.pick(pickles())))


@contextmanager
def _nothing_is_executed() -> Iterator[None]:
    """Fail if anything that a file could want to start is called."""
    import os
    import pickle
    import subprocess

    def caught(*_: Any, **__: Any) -> None:
        raise AssertionError("a file was executed")

    places = [(os, "system"), (subprocess, "Popen"), (pickle, "load"), (pickle, "loads"), (pickle, "Unpickler")]
    before = [(module, name, getattr(module, name)) for module, name in places]
    for module, name in places:
        setattr(module, name, caught)
    try:
        yield
    finally:
        for module, name, value in before:
            setattr(module, name, value)


def attempt(name: str, data: bytes) -> None:
    """One try: read, or refuse clearly, in bounded time."""
    for prepare in (certificates, graphs, journal_seed, pickles):
        prepare()
    started = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder, _nothing_is_executed(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            READERS[name].attempt(Choices(data), Path(folder))
        except LabelcertError as refusal:
            if not str(refusal).strip():
                raise RuntimeError("a refusal without a word") from None
    assert time.perf_counter() - started < SLOW, "it took too long"


def tries(name: str, seed: int) -> Iterator[bytes]:
    """Random tries, without end."""
    rng = random.Random(f"{name} {seed}")
    while True:
        yield rng.randbytes(rng.choice((16, 64, 160)))


def search(name: str, seconds: float, seed: int = 0) -> list[Path]:
    """Try for a while; returns what broke, as files in the corpus."""
    attempt(name, b"")  # what is compiled or cached does not count
    deadline, found, count = time.monotonic() + seconds, list[Path](), 0
    kinds: set[str] = set()
    for data in tries(name, seed):
        if time.monotonic() > deadline:
            break
        count += 1
        try:
            attempt(name, data)
        except Exception:
            last = traceback.format_exc().strip().splitlines()
            where = [line for line in last if line.strip().startswith("File")][-1] + last[-1][:80]
            if where not in kinds:
                kinds.add(where)
                found.append(_keep(name, data))
                print(f"{name}: {found[-1].name}: {where}", flush=True)
    print(f"{name}: {count:,} tries in {seconds:g} s, {len(found)} kinds of failure", flush=True)
    return found


def _keep(name: str, data: bytes) -> Path:
    path = CORPUS / name / hashlib.sha256(data).hexdigest()[:16]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


def guided(name: str, seconds: float) -> None:
    """Let coverage guide the search; stops at the first failure, which it leaves as a file."""
    import atheris  # type: ignore[import-not-found, unused-ignore]

    attempt(name, b"")
    for function in gc.get_objects():
        if isinstance(function, FunctionType) and (function.__module__ or "").startswith("labelcert"):
            atheris.instrument_func(function)
    with tempfile.TemporaryDirectory() as seeds:
        for k, data in zip(range(200), tries(name, 1), strict=False):
            (Path(seeds) / str(k)).write_bytes(data)
        limits = [f"-max_total_time={seconds:.0f}", "-max_len=400", "-rss_limit_mb=8000", "-print_final_stats=1"]
        atheris.Setup([sys.argv[0], seeds, *limits], lambda data: attempt(name, data))
        atheris.Fuzz()


def main() -> None:
    """Fuzz some readers, or all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="READER", help=f"among {', '.join(READERS)}; all by default")
    parser.add_argument("--seconds", type=float, default=60.0, help="for each reader")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--guided", action="store_true", help="by coverage; one reader at a time")
    given = parser.parse_args()
    names = given.names or list(READERS)
    if given.guided:
        guided(names[0], given.seconds)
        return
    found = [search(name, given.seconds, given.seed) for name in names]
    sys.exit(1 if any(found) else 0)


if __name__ == "__main__":
    main()
