"""Asks what a cell of the table "what goes with what" is about, on a problem that takes a moment."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

import labelcert
from labelcert import Threat
from labelcert.certification import places
from labelcert.engines.pools import Processors, read_only_arrays, walk_batch

FLIPS = 2
MARGIN = 0.0625


def arrays(request: Any) -> tuple[Any, Any, Any]:
    """Six labels of two or three classes, three test nodes."""
    m = max(6, request.labels)
    rng = np.random.default_rng(5)
    points = rng.normal(size=(m + 3, 2))
    labels = np.arange(m) % request.classes
    points[:m] += 1.5 * np.array([[0, 0], [1, 1], [-1, 1]])[labels]
    points[m:] += 1.5 * np.array([[0, 0], [1, 1], [-1, 1]])[np.arange(3) % request.classes]
    K = np.exp(-((points[:, None] - points[None]) ** 2).sum(axis=2) / 4)
    return K[:m, :m], labels, K[m:, :m]


def cap(request: Any) -> float:
    """So small for closed forms that every label stays at its cap."""
    return 0.05 if request.engine == "closed-form" else 1.0


def threat(request: Any) -> Threat:
    """What restricts the adversary."""
    options: dict[str, Any] = {
        "trusted labels": {"trusted": [True, *[False] * 5]},
        "costs": {"costs": [1, 2, 1, 2, 1, 1]},
        "groups": {"groups": list("aabbab"), "group_budgets": {"a": 1}},
        "directions": {"allowed_flips": {0: [1], 1: [0]} if request.classes == 2 else {0: [1], 1: [2]}},
    }
    return Threat(**{name: value for kind in request.threat for name, value in options[kind].items()})


def ask(request: Any, folder: Path, confirm: str = "confirm") -> Any:
    """What a request returns; options are given only where they are not the plainest.

    Raises TypeError where a function has no such option.
    """
    K, labels, rows = arrays(request)
    how: dict[str, Any] = {"workers": 1}
    if request.threat:
        how["threat"] = threat(request)
    if request.loss is not None:
        how["loss"] = request.loss
    if request.margin:
        how["margin"] = MARGIN
    if request.engine != "auto":
        how["engine"] = request.engine
    if request.limited:
        how["time_limit"] = 0.5
    how |= {
        "threads": {},
        "GPU": {"device": "gpu"},
        "processes": {"scheduler": "processes"},
        "Dask": {"scheduler": "-"},
    }[request.place]
    ensemble = {"parts": 2, "combine": "votes" if request.predictor.startswith("votes") else "mean"}
    alone, is_map = request.predictor == "kernel machine", request.predictor == "linear map"
    kernel = (K, labels, rows, cap(request))
    if request.asks in ("attack", "baseline") and is_map:
        raise TypeError("these take kernels alone")
    if request.asks == "attack":
        return labelcert.attack(*kernel, max_flips=FLIPS, **how, **({} if alone else ensemble))
    if request.asks == "baseline":
        if alone and request.loss in ("hinge", "square"):
            return labelcert.certify_baseline(*kernel, using="sensitivity", max_flips=FLIPS, **how)
        if request.predictor != "mean scores of parts":
            ensemble.pop("combine")
        return labelcert.certify_baseline(*kernel, using="partition-votes", max_flips=FLIPS, **how, **ensemble)
    if request.asks == "recheck" and not is_map:
        return labelcert.recheck(*kernel, flips=1, **{confirm: 1}, **how, **({} if alone else ensemble))
    how |= {"max_flips": FLIPS, "collective": request.asks != "radii"}
    if is_map:
        cert = labelcert.certify_linear(rows, labels, **how)
    elif alone:
        cert = labelcert.certify(*kernel, **how)
    else:
        cert = labelcert.certify_partition(*kernel, **how, **ensemble)
    if request.asks == "verify":
        return labelcert.verify(cert)
    if request.asks == "report":
        return labelcert.write_report({"model": cert}, folder / "report.html")
    if request.asks == "recheck":
        return labelcert.recheck(cert, flips=1, **{confirm: 1})
    return cert


class Elsewhere(Processors):
    """Walks what went through a pickle, as if it came to another process."""

    def __init__(self, *_: Any) -> None:
        self.batch, self.ahead = 1, 1

    def submit(self, task: Any, chunks: Any, flag: Any) -> Future[list[Any]]:
        """Walk at once."""
        promise: Future[list[Any]] = Future()
        promise.set_result(walk_batch(*pickle.loads(pickle.dumps((task, read_only_arrays(task), list(chunks))))))
        return promise

    def close(self) -> None:
        """Nothing is open."""


@contextmanager
def emulated(device: Any) -> Iterator[None]:
    """Processes, a cluster and a GPU, all of them here."""

    @contextmanager
    def connected(address: str) -> Iterator[None]:
        yield None

    with (
        mock.patch.object(places, "ProcessChunks", Elsewhere),
        mock.patch.object(places, "ClusterChunks", Elsewhere),
        mock.patch.object(places, "connected", connected),
        mock.patch.object(places, "devices", lambda: (device,)),
    ):
        yield
