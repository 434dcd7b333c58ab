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
from sklearn.neighbors import KNeighborsClassifier

import labelcert
from labelcert import Metric, Threat
from labelcert.certification import GivenFeatures, Run, Task, places, solve
from labelcert.certification.support import FEATURES, NEIGHBOURS, UNKNOWN
from labelcert.engines.pools import ChunkPool, read_only_arrays, walk_batch
from labelcert.losses.weighted import Weights

MARGIN = 0.0625

KERNEL_ERROR = 1e-9
"""So small that it changes no radius."""

WRONG = 0.1
"""Rate of wrong labels."""


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


def flips(request: Any) -> int:
    """An intercept is lost with all labels of a class: of three classes, there are two of each."""
    return 1 if request.classes > 2 and request.loss is not None and "intercept" in request.loss else 2


def cap(request: Any) -> float:
    """So small for closed forms that every label stays at its cap."""
    return 0.05 if request.engine == "closed-form" else 1.0


def threat(request: Any) -> Threat:
    """What restricts the adversary."""
    options: dict[str, Any] = {
        "trusted labels": {"trusted": [True, *[False] * 5]},
        "costs": {"costs": [1, 2, 1, 2, 1, 1]},
        "groups": {"groups": list("aabbab"), "group_budgets": {"a": 1}},
        "annotators": {"annotators": list("abcdef")},
        "removed labels": {"removable": [True, False, True, True, True, True]},
        "samples": {"samples": True},
        "directions": {"allowed_flips": {0: [1], 1: [0]} if request.classes == 2 else {0: [1], 1: [2]}},
    }
    return Threat(**{name: value for kind in request.threat for name, value in options[kind].items()})


def options(request: Any) -> dict[str, Any]:
    """What a function is given beside the arrays, where it is not the plainest."""
    where: dict[str, Any] = {
        "GPU": {"device": "gpu"},
        "processes": {"scheduler": "processes"},
        "Dask": {"scheduler": "-"},
    }
    given = {
        "threat": threat(request) if request.threat else None,
        "loss": request.loss,
        "margin": MARGIN if request.margin else None,
        "kernel_error": KERNEL_ERROR if request.uncertain else None,
        "test_kernel_error": KERNEL_ERROR if request.uncertain else None,
        "metrics": [Metric("accuracy", arrays(request)[1][:3])] if request.metrics else None,
        "engine": None if request.engine == "auto" else request.engine,
        "time_limit": 0.5 if request.limited else None,
        **where.get(request.place, {}),
    }
    return {"workers": 1, **{name: value for name, value in given.items() if value is not None}}


def ask(request: Any, folder: Path, confirm: str = "confirm") -> Any:
    """What a request returns; raises TypeError where a function has no such option."""
    K, labels, rows = arrays(request)
    kernel, how = (K, labels, rows, cap(request)), options(request)
    parts = {"parts": 2, "combine": "votes" if request.predictor.startswith("votes") else "mean"}
    ensemble = parts if request.predictor.endswith("parts") else {}
    if (request.predictor == UNKNOWN or request.uncertain) and request.asks in (
        "noise",
        "attack",
        "baseline",
        "recheck",
    ):
        raise TypeError("these train models of their own, and know no kernel errors")
    if request.asks == "noise":
        where = (rows, labels) if request.predictor == "linear map" else kernel
        using = labelcert.noise_linear if request.predictor == "linear map" else labelcert.noise
        return using(*where, wrong=WRONG, **how, **ensemble)
    if request.predictor == "linear map":
        if request.asks in ("attack", "baseline"):
            raise TypeError("these take kernels alone")
    elif request.asks == "attack":
        return labelcert.attack(*kernel, max_flips=flips(request), **how, **ensemble)
    elif request.asks == "baseline":
        return baseline(request, kernel, how)
    elif request.asks == "recheck" and request.predictor != FEATURES:
        return labelcert.recheck(*kernel, flips=1, **{confirm: 1}, **how, **ensemble)
    how |= {"max_flips": flips(request), "collective": request.asks != "radii"}
    if request.predictor == UNKNOWN:
        how |= {"parts": 2, "rows": K, "names": None}
        cert = labelcert.certify_votes(Nearest(rows), labels, n_test=len(rows), **how)
        then = {"verify": labelcert.verify, "report": lambda found: bool(found.report(folder / "r.html") is None)}
        return then.get(request.asks, lambda found: found)(cert)
    if request.predictor in ("linear map", NEIGHBOURS):
        cert = by_linear_map(request, K, labels, rows, how)
    elif request.predictor == FEATURES:
        cert = by_features(request, labels, rows @ K, how)
    elif ensemble:
        cert = labelcert.certify_partition(*kernel, **how, **ensemble)
    else:
        cert = labelcert.certify(*kernel, **how)
    then: dict[str, Any] = {
        "verify": lambda: labelcert.verify(cert, **({"H": rows} if request.predictor == "linear map" else {})),
        "report": lambda: labelcert.write_report({"model": cert}, folder / "report.html"),
        "recheck": lambda: labelcert.recheck(
            cert,
            flips=1,
            **{confirm: 1},
            **({"H": rows} if request.predictor == "linear map" else {"X_train": K, "X_test": rows @ K}),
        ),
    }
    return then.get(request.asks, lambda: cert)()


def by_linear_map(request: Any, K: Any, labels: Any, rows: Any, how: dict[str, Any]) -> Any:
    """Scores that are linear in the labels, or votes of neighbours some of which go."""
    if request.predictor == NEIGHBOURS:
        return labelcert.from_sklearn(KNeighborsClassifier(2)).certify(K, labels, rows @ K, **how)
    return labelcert.certify_linear(rows, labels, **how)


class Nearest:
    """Trains nothing: the label of the nearest point is the prediction."""

    def __init__(self, rows: Any) -> None:
        self._rows = rows

    def __call__(self, indices: Any, labels: Any) -> Any:
        """The labels of those with the largest kernel."""
        return labels[self._rows[:, indices].argmax(axis=1)]


def by_features(request: Any, labels: Any, T: Any, how: dict[str, Any]) -> Any:
    """Of a linear model on a few features."""
    K, _, _ = arrays(request)
    weights = Weights(np.arange(1.0, labels.size + 1)) if request.weights else None
    model = GivenFeatures(K, T, 1.0, request.loss, weights=weights, enumerated=request.weights)
    named = ("max_flips", "collective", "margin", "threat", "metrics")
    asked = {name: value for name, value in how.items() if name in named}
    run = {name: value for name, value in how.items() if name not in (*asked, "loss")}
    return solve(Task(model, labels, **asked), Run(**run))


def baseline(request: Any, kernel: Any, how: dict[str, Any]) -> Any:
    """One that knows the loss, and the predictor."""
    if request.predictor == "kernel machine" and request.loss in ("hinge", "square"):
        return labelcert.certify_baseline(*kernel, using="sensitivity", max_flips=flips(request), **how)
    scores = {"combine": "mean"} if request.predictor.startswith("mean") else {}
    return labelcert.certify_baseline(
        *kernel, using="partition-votes", max_flips=flips(request), parts=2, **how, **scores
    )


class Elsewhere(ChunkPool):
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
        mock.patch.object(places, "devices", return_value=(device,)),
    ):
        yield
