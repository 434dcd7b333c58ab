"""Trains the models of a black box, wherever there is room, and keeps what each of them says."""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import pickle
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from labelcert.arrays import Int, Signs, Values
from labelcert.engines.control import Control
from labelcert.engines.pools import in_order, pool_in_force
from labelcert.errors import InvalidInput
from labelcert.files import write_archive
from labelcert.reading import UNREADABLE, Archive

Train = Callable[[Int, Values], Any]
"""``train(indices, labels)`` returns predictions or scores for all test points."""


class Chunk(NamedTuple):
    """One model to train: its labels, by index, and what they are."""

    number: int
    indices: Int
    codes: Int


class TrainTask(NamedTuple):
    """What any worker needs to train a model."""

    train: Any
    """The function, or its pickle."""
    classes: Values
    n_test: int
    ranked: bool
    """Whether all classes are needed in order, and not the best one alone."""
    may_leave: bool

    def for_device(self) -> None:
        """No device knows the function."""

    def new_worker(self) -> Train:
        """The function itself."""
        found: Train = pickle.loads(self.train) if isinstance(self.train, bytes) else self.train
        return found

    def walk(self, chunk: Chunk, worker: Train, flag: Signs) -> Int | None:
        """What one model says; None where the run is over."""
        if flag[0]:
            return None
        return self.ranks(worker(chunk.indices.copy(), self.classes[chunk.codes]))

    def ranks(self, said: Any) -> Int:
        """What a model says, as ranks."""
        return ranks(said, self.classes, self.n_test, ranked=self.ranked)


def ranks(said: Any, classes: Values, n: int, *, ranked: bool) -> Int:
    """(n, R) classes from the best one on, from predictions (R = 1) or from scores."""
    found = np.asarray(said.detach().cpu() if hasattr(said, "detach") else said)
    if found.shape == (n, classes.size) and found.dtype.kind in "biuf":
        if not np.isfinite(found).all():
            raise InvalidInput("train returned scores that are not finite; a model without an answer may return zeros")
        order = np.argsort(-found.astype(np.float64), axis=1, kind="stable").astype(np.int64)
        return order if ranked else order[:, :1]
    if found.shape != (n,):
        raise InvalidInput(
            f"train must return {n} predictions, or scores of shape ({n}, {classes.size}) with a column for each of "
            f"the classes {classes.tolist()}, got an array of shape {found.shape}"
        )
    if ranked:
        raise InvalidInput(
            f"combine='run-off' asks each model which of two classes it prefers: train must return scores of shape "
            f"({n}, {classes.size}), got predictions; or use combine='votes'"
        )
    if not np.isin(found, classes).all():
        strange = found[~np.isin(found, classes)][0]
        raise InvalidInput(f"train predicted {strange!r}, but the classes are {classes.tolist()}")
    return np.searchsorted(classes, found)[:, None].astype(np.int64)


def portable(train: Train) -> bytes:
    """A function that any process can unpickle, also where it belongs to a script or a notebook."""
    try:
        return bytes(_pickler().dumps(train))
    except Exception as error:
        raise InvalidInput(
            f"train cannot be sent to other processes ({type(error).__name__}: {error}); leave out the scheduler"
        ) from None


def _pickler() -> Any:
    """What pickles functions by value: scikit-learn's joblib needs it, and older versions bring it along."""
    for name in ("cloudpickle", "joblib.externals.cloudpickle"):
        with contextlib.suppress(ImportError):
            return importlib.import_module(name)
    return pickle


@dataclass(frozen=True, eq=False)
class Trainer:
    """Trains models in order of their numbers, and remembers what it can find in a folder."""

    task: TrainTask
    folder: Path | None

    @classmethod
    def of(cls, train: Train, classes: Values, n_test: int, *, ranked: bool, folder: Path | None) -> Trainer:
        """For threads of this process, or for the pool that is in force."""
        leaves = pool_in_force() is not None
        task = TrainTask(portable(train) if leaves else train, classes, n_test, ranked, leaves)
        return cls(task, folder)

    def stored(self, chunk: Chunk) -> Int | None:
        """What a model said when it was trained before."""
        if self.folder is None:
            return None
        path = self._path(chunk)
        try:
            with Archive(path) as archive:
                found = archive.array("ranks") if archive.damaged() is None else np.zeros(0)
        except (FileNotFoundError, *UNREADABLE):
            return None
        K = self.task.classes.size
        fits = found.dtype.kind in "iu" and found.shape == (self.task.n_test, K if self.task.ranked else 1)
        known = fits and bool(np.all((found >= 0) & (found < K)))
        return found.astype(np.int64) if known else None

    def trained(self, chunks: Sequence[Chunk], control: Control, *, keep: bool = True) -> Iterator[tuple[Chunk, Int]]:
        """What models say, one after the other; ends early where the run is over.

        In this process, one at a time: random numbers and threads of most frameworks belong to the whole process.
        """
        own = replace(control, workers=1, parent=control)
        for chunk, found in in_order(self.task, iter(chunks), own, patient=False):
            if found is None:
                return
            if keep and self.folder is not None:
                write_archive(self._path(chunk), {"ranks": found.astype(np.int16)})
            yield chunk, found

    def _path(self, chunk: Chunk) -> Path:
        """By all that decides what a model says, but for the function."""
        assert self.folder is not None
        h = hashlib.sha256(repr((self.task.classes.tolist(), self.task.n_test, self.task.ranked)).encode())
        h.update(chunk.indices.astype("<i8").tobytes() + b"|" + chunk.codes.astype("<i8").tobytes())
        return self.folder / f"model-{h.hexdigest()[:32]}.npz"
