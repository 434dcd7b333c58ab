"""The answer: radii and collective curve as proved intervals, with checked witnesses.

A certificate is detached from the problem that it answers (it holds a hash of it), immutable, and can be saved
in an open format: a zip archive of ``.npy`` arrays and one JSON text, readable without labelcert.
"""

from __future__ import annotations

import json
import os
import zipfile
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from labelcert.budget import flips_for_fraction
from labelcert.errors import CertificateFileError, InvalidInput

if TYPE_CHECKING:
    import pandas as pd

Int = npt.NDArray[np.int64]

SCHEMA = "labelcert-certificate"
SCHEMA_VERSION, READABLE_VERSIONS = 2, (1, 2)
"""Version 1 had two classes only and did not say which engine proved what."""

EXTRA_ARRAYS = ("node_targets", "curve_targets", "new_classes")
"""Arrays of certificates with more than two classes."""

ROBUST, VULNERABLE, UNKNOWN = "robust", "vulnerable", "unknown"


@dataclass(frozen=True, eq=False)
class SetList:
    """Many sets of label indices in two flat arrays: set k is ``indices[starts[k]:starts[k + 1]]``."""

    starts: Int
    indices: Int

    @classmethod
    def pack(cls, sets: Sequence[Int]) -> SetList:
        """From a list of index arrays."""
        starts = np.zeros(len(sets) + 1, dtype=np.int64)
        np.cumsum([len(s) for s in sets], out=starts[1:])
        flat = np.concatenate([np.zeros(0, dtype=np.int64), *sets])
        return cls(_frozen(starts), _frozen(flat.astype(np.int64)))

    def __getitem__(self, k: int) -> Int:
        return self.indices[self.starts[k] : self.starts[k + 1]]

    def __len__(self) -> int:
        return int(self.starts.size - 1)


@dataclass(frozen=True, eq=False)
class Certificate:
    """What label flips can and cannot do to the predictions of one model.

    n test nodes, m labels, budgets 0..B with B = ``max_flips``. With label costs, "flips" reads "cost units".

    Attributes
    ----------
    predictions : (n,) array
        Clean predictions, in the labels' own values. A node whose clean score is exactly 0 has no prediction; it
        shows ``classes[1]`` here, has radius 0, and counts as changed at every budget (the paper's footnote 1). With
        more than two classes the same holds where several share the highest score; the first of them is shown.
    decision_values : (n,) array, or (n, K) for K > 2 classes
        Clean scores (float64, for information; for two classes exactly 0 only where that is proved).
    radius_lower, radius_upper : (n,) arrays
        The fewest flips that change each prediction lie between these. ``never`` (m + 1 by default) in
        ``radius_upper``: no change is known. Beyond ``max_flips`` nothing is claimed: a node that survives
        every attack within it has ``radius_lower = max_flips + 1``. A node whose clean score is too close to 0 to
        be decided at all has the interval from 0 to ``never``, and its prediction is not certain.
    collective_lower, collective_upper : (B + 1,) arrays
        The most predictions that one attack of at most b flips changes, index b.
    labels, classes : arrays
        Training labels and their distinct values.
    radius_proved_by : (n,) array
        Which engine proved each ``radius_lower`` (empty: none had to).
    collective_proved_by : (B + 1,) array
        Which engine proved each ``collective_upper``.
    new_classes : (n,) array or None
        With more than two classes, the position in ``classes`` of what each node's witness turns it into (-1: none).
    max_flips, never : int
    settings : dict
        How it was computed: engine, statistics, versions, hash of the problem, why it stopped.

    Examples
    --------
    >>> import labelcert
    >>> cert = labelcert.certify([[2, 0], [0, 2]], ["cat", "dog"], [[1, 0], [1, 2]], C=1.0)
    >>> cert.predictions.tolist(), cert.radius_lower.tolist(), cert.collective_lower.tolist()
    (['cat', 'dog'], [1, 1], [0, 1, 2])
    >>> cert.witness(1)
    {1: 'cat'}
    """

    predictions: npt.NDArray[Any]
    decision_values: npt.NDArray[np.float64]
    radius_lower: Int
    radius_upper: Int
    collective_lower: Int
    collective_upper: Int
    labels: npt.NDArray[Any]
    classes: npt.NDArray[Any]
    max_flips: int
    never: int
    settings: dict[str, Any]
    node_sets: SetList
    curve_sets: SetList
    curve_set_of: Int
    radius_proved_by: npt.NDArray[np.str_]
    collective_proved_by: npt.NDArray[np.str_]
    node_targets: Int | None = None
    curve_targets: Int | None = None
    new_classes: Int | None = None

    @property
    def n_classes(self) -> int:
        """Number of classes."""
        return int(self.classes.size)

    @property
    def n_test(self) -> int:
        """Number of test nodes."""
        return int(self.radius_lower.size)

    @property
    def engine(self) -> str:
        """The engine that proved it."""
        return str(self.settings["engine"])

    @property
    def exact(self) -> bool:
        """Whether nothing within ``max_flips`` is open: every radius up to it and, if asked for, the whole curve."""
        settled = (self.radius_lower == self.radius_upper) | (self.radius_lower > self.max_flips)
        curve = np.array_equal(self.collective_lower, self.collective_upper)
        return bool(settled.all() and (curve or not self.settings.get("collective", True)))

    @property
    def state(self) -> str:
        """In words: exact, or why not."""
        if self.exact:
            return "exact"
        stopped = self.settings.get("stopped", "finished")
        if self.engine == "relaxed":
            return "lower bounds" if stopped == "finished" else f"lower bounds ({stopped})"
        return f"intervals ({stopped})"

    def witness(self, t: int) -> dict[int, Any] | None:
        """The flips that realise ``radius_upper[t]``: ``{index of label: new label}``; None where none is known.

        They have been checked: training on these labels provably changes the prediction of node ``t``.
        """
        if not -self.n_test <= t < self.n_test:
            raise InvalidInput(f"there is no test node {t}: nodes are 0 to {self.n_test - 1}")
        t %= self.n_test
        if self.radius_upper[t] >= self.never:
            return None
        return self._relabelled(self.node_sets, self.node_targets, t)

    def collective_witness(self, b: int) -> dict[int, Any]:
        """Flips within budget ``b`` that provably change ``collective_lower[b]`` predictions at once."""
        if not 0 <= b <= self.max_flips:
            raise InvalidInput(f"the certificate covers budgets 0 to {self.max_flips}, got {b}")
        return self._relabelled(self.curve_sets, self.curve_targets, int(self.curve_set_of[b]))

    def verdicts(
        self, budget: float | None = None, *, flips: int | None = None, fraction: float | None = None
    ) -> npt.NDArray[np.str_]:
        """``"robust"``, ``"vulnerable"`` or ``"unknown"`` for each node at one budget.

        Parameters
        ----------
        budget : int or float
            A whole number of flips, or (as a float) a fraction of the labels; or give ``flips=`` or ``fraction=``.
        """
        b = self._budget(budget, flips, fraction)
        return np.where(self.radius_lower > b, ROBUST, np.where(self.radius_upper <= b, VULNERABLE, UNKNOWN))

    def certified_ratio(
        self,
        budget: float | None = None,
        *,
        flips: int | None = None,
        fraction: float | None = None,
        collective: bool = False,
        bound: str = "lower",
    ) -> float:
        """Share of predictions that provably survive a budget.

        Parameters
        ----------
        budget : int or float
            A whole number of flips, or (as a float) a fraction ε of the labels, ⌊εm⌋ flips; or give ``flips=`` or
            ``fraction=``.
        collective : bool
            False: each node faces its own worst attack. True: one attack for all nodes.
        bound : {"lower", "upper"}
            What is proved to survive, or what is not proved to fail; equal for exact certificates.

        Examples
        --------
        >>> import labelcert
        >>> cert = labelcert.certify([[2, 0], [0, 2]], [0, 1], [[1, 0], [1, 2]], C=1.0)
        >>> cert.certified_ratio(flips=1), cert.certified_ratio(fraction=0.5, collective=True)
        (0.0, 0.5)
        """
        b = self._budget(budget, flips, fraction)
        if bound not in ("lower", "upper"):
            raise InvalidInput(f"bound must be 'lower' or 'upper', got {bound!r}")
        if collective:
            changed = self.collective_upper if bound == "lower" else self.collective_lower
            return 1.0 - float(changed[b]) / self.n_test
        radius = self.radius_lower if bound == "lower" else self.radius_upper
        return float(np.mean(radius > b))

    def certified_accuracy(
        self,
        true_labels: npt.ArrayLike,
        budget: float | None = None,
        *,
        flips: int | None = None,
        fraction: float | None = None,
        bound: str = "lower",
    ) -> float:
        """Share of nodes that are predicted correctly and provably stay so under a budget.

        Parameters
        ----------
        true_labels : (n,) array
            In the labels' own values.
        budget, flips, fraction, bound
            As in :meth:`certified_ratio`.
        """
        b = self._budget(budget, flips, fraction)
        truth = np.asarray(true_labels)
        if truth.shape != (self.n_test,):
            raise InvalidInput(
                f"true_labels must have one entry per test node, shape ({self.n_test},), got {truth.shape}"
            )
        if not np.isin(truth, self.classes).any():
            raise InvalidInput(
                f"true_labels must be given in the labels' own values {self.classes.tolist()}, "
                f"but none of them is: {truth[:3].tolist()}..."
            )
        if bound not in ("lower", "upper"):
            raise InvalidInput(f"bound must be 'lower' or 'upper', got {bound!r}")
        radius = self.radius_lower if bound == "lower" else self.radius_upper
        return float(np.mean((truth == self.predictions) & (radius > b)))

    def takeovers(
        self, budget: float | None = None, *, flips: int | None = None, fraction: float | None = None
    ) -> pd.DataFrame:
        """Which class is taken over by which: counts of nodes by predicted class and by what they become.

        Counts the nodes that a budget provably changes, each under its own cheapest known attack; the new class is the
        one with the highest score among the others. Nodes without a clean prediction are left out.

        Parameters
        ----------
        budget, flips, fraction
            As in :meth:`certified_ratio`.

        Returns
        -------
        DataFrame
            One row for each predicted class, one column for each new class.

        Examples
        --------
        >>> import labelcert
        >>> cert = labelcert.certify([[2, 0], [0, 2]], ["cat", "dog"], [[1, 0], [1, 2]], C=1.0)
        >>> cert.takeovers(flips=1).loc["cat", "dog"].item()
        1
        """
        import pandas as pd

        b = self._budget(budget, flips, fraction)
        K = self.n_classes
        names = pd.Index(self.classes.tolist(), name="prediction"), pd.Index(self.classes.tolist(), name="becomes")
        counts = np.zeros((K, K), dtype=np.int64)
        changed = (self.radius_upper > 0) & (self.radius_upper <= b)
        old = np.searchsorted(self.classes, self.predictions)
        new = 1 - old if self.new_classes is None else self.new_classes
        np.add.at(counts, (old[changed], new[changed]), 1)
        return pd.DataFrame(counts, index=names[0], columns=names[1])

    def runners_up(self) -> npt.NDArray[Any]:
        """(n,) the class with the second highest clean score, for more than two classes; else the other class."""
        old = np.searchsorted(self.classes, self.predictions)
        if self.n_classes == 2:
            return np.asarray(self.classes[1 - old])
        scores = self.decision_values.copy()
        scores[np.arange(self.n_test), old] = -np.inf
        return np.asarray(self.classes[scores.argmax(axis=1)])

    @property
    def top_scores(self) -> npt.NDArray[np.float64]:
        """(n,) the clean score: that of the predicted class where there are more than two."""
        if self.n_classes == 2:
            return self.decision_values
        return self.decision_values[np.arange(self.n_test), np.searchsorted(self.classes, self.predictions)]

    def to_frame(self) -> pd.DataFrame:
        """One row per node: prediction, score, radius (as an interval, and whether it is exact) and witness.

        With more than two classes the score is that of the predicted class, and the runner-up is shown beside it.
        """
        import pandas as pd

        return pd.DataFrame(
            {
                "prediction": self.predictions,
                "decision_value": self.top_scores,
                **({"runner_up": self.runners_up()} if self.n_classes > 2 else {}),
                "radius_lower": self.radius_lower,
                "radius_upper": self.radius_upper,
                "exact": self.radius_lower == self.radius_upper,
                "proved_by": self.radius_proved_by,
                "witness": [self.witness(t) for t in range(self.n_test)],
            },
            index=pd.RangeIndex(self.n_test, name="node"),
        )

    def curve_frame(self) -> pd.DataFrame:
        """One row per budget: certified ratios, sample-wise and collective, and the collective attack."""
        import pandas as pd

        budgets = range(self.max_flips + 1)
        return pd.DataFrame(
            {
                "ratio_lower": [self.certified_ratio(flips=b) for b in budgets],
                "ratio_upper": [self.certified_ratio(flips=b, bound="upper") for b in budgets],
                "changed_lower": self.collective_lower,
                "changed_upper": self.collective_upper,
                "collective_ratio_lower": [self.certified_ratio(flips=b, collective=True) for b in budgets],
                "collective_ratio_upper": [
                    self.certified_ratio(flips=b, collective=True, bound="upper") for b in budgets
                ],
                "witness": [self.collective_witness(b) for b in budgets],
            },
            index=pd.RangeIndex(self.max_flips + 1, name="flips"),
        )

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write to a file: a zip archive of ``.npy`` arrays and ``metadata.json``.

        The file appears under its name only when it is complete.
        """
        target = os.fspath(path)
        partial = f"{target}.partial"
        metadata = json.dumps(
            {
                "schema": SCHEMA,
                "schema_version": SCHEMA_VERSION,
                "max_flips": self.max_flips,
                "never": self.never,
                "settings": self.settings,
            },
            indent=1,
            allow_nan=False,
        )
        with zipfile.ZipFile(partial, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("metadata.json", metadata)
            for name, array in self._arrays().items():
                with archive.open(f"{name}.npy", "w") as member:
                    np.lib.format.write_array(member, array, allow_pickle=False)
        os.replace(partial, target)

    def __repr__(self) -> str:
        classes = "" if self.n_classes == 2 else f" of {self.n_classes} classes"
        return (
            f"Certificate({self.n_test} test nodes, {self.labels.size} labels{classes}, budgets 0..{self.max_flips}, "
            f"{self.state}, engine={self.engine!r})"
        )

    def _relabelled(self, sets: SetList, targets: Int | None, k: int) -> dict[int, Any]:
        if targets is not None:
            new = targets[sets.starts[k] : sets.starts[k + 1]]
            return {int(i): self.classes[c].item() for i, c in zip(sets[k], new, strict=True)}
        other = {self.classes[0]: self.classes[1], self.classes[1]: self.classes[0]}
        return {int(i): other[self.labels[i]].item() for i in sets[k]}

    def _budget(self, budget: float | None, flips: int | None, fraction: float | None) -> int:
        given = [v for v in (budget, flips, fraction) if v is not None]
        if len(given) != 1:
            raise InvalidInput("give one budget: flips=2, say, or fraction=0.1")
        if budget is not None:
            if isinstance(budget, int | np.integer) and not isinstance(budget, bool):
                flips = int(budget)
            else:
                fraction = budget
        if fraction is not None:
            flips = flips_for_fraction(fraction, self.never - 1)
        if isinstance(flips, bool) or not isinstance(flips, int | np.integer):
            raise InvalidInput(f"flips must be a whole number, got {flips!r}")
        if not 0 <= flips <= self.max_flips:
            raise InvalidInput(
                f"the certificate covers budgets 0 to {self.max_flips}, got {flips}; "
                "certify again with a larger max_flips"
            )
        return int(flips)

    def _arrays(self) -> dict[str, npt.NDArray[Any]]:
        return {
            "predictions": self.predictions,
            "decision_values": self.decision_values,
            "radius_lower": self.radius_lower,
            "radius_upper": self.radius_upper,
            "collective_lower": self.collective_lower,
            "collective_upper": self.collective_upper,
            "labels": self.labels,
            "classes": self.classes,
            "node_set_starts": self.node_sets.starts,
            "node_set_indices": self.node_sets.indices,
            "curve_set_starts": self.curve_sets.starts,
            "curve_set_indices": self.curve_sets.indices,
            "curve_set_of": self.curve_set_of,
            "radius_proved_by": self.radius_proved_by,
            "collective_proved_by": self.collective_proved_by,
            **({part: getattr(self, part) for part in EXTRA_ARRAYS} if self.n_classes > 2 else {}),
        }


def load(path: str | os.PathLike[str]) -> Certificate:
    """Read a certificate that :meth:`Certificate.save` wrote.

    Raises
    ------
    CertificateFileError
        The file is not a certificate, is damaged, or was written by a newer version.
    """
    name = os.fspath(path)
    try:
        with zipfile.ZipFile(name) as archive:
            damaged = archive.testzip()
            if damaged is not None:
                raise CertificateFileError(f"{name} is damaged: its part {damaged} does not match its checksum")
            return _read(name, archive)
    except FileNotFoundError:
        raise CertificateFileError(f"there is no file {name}") from None
    except (zipfile.BadZipFile, zlib.error, OSError, EOFError, NotImplementedError, RuntimeError) as error:
        raise CertificateFileError(f"{name} is not a labelcert certificate, or is damaged: {error}") from None


def _read(name: str, archive: zipfile.ZipFile) -> Certificate:
    members = set(archive.namelist())
    if "metadata.json" not in members:
        raise CertificateFileError(f"{name} is a zip archive, but not a labelcert certificate: no metadata.json")
    try:
        metadata = json.loads(archive.read("metadata.json"))
    except ValueError as error:
        raise CertificateFileError(f"{name} is damaged: metadata.json is not JSON ({error})") from None
    if not isinstance(metadata, dict) or metadata.get("schema") != SCHEMA:
        raise CertificateFileError(f"{name} is not a labelcert certificate: its schema is not {SCHEMA!r}")
    if metadata.get("schema_version") not in READABLE_VERSIONS:
        raise CertificateFileError(
            f"{name} has certificate schema version {metadata.get('schema_version')!r}, "
            f"this labelcert reads versions {' and '.join(map(str, READABLE_VERSIONS))}: "
            "use the labelcert that wrote it, or a newer one"
        )

    def array(part: str) -> npt.NDArray[Any]:
        if f"{part}.npy" not in members:
            raise CertificateFileError(f"{name} is incomplete: {part}.npy is missing")
        with archive.open(f"{part}.npy") as member:
            return _frozen(_read_array(name, part, member))

    try:
        certificate = Certificate(
            predictions=array("predictions"),
            decision_values=array("decision_values"),
            radius_lower=array("radius_lower"),
            radius_upper=array("radius_upper"),
            collective_lower=array("collective_lower"),
            collective_upper=array("collective_upper"),
            labels=array("labels"),
            classes=array("classes"),
            max_flips=int(metadata["max_flips"]),
            never=int(metadata["never"]),
            settings=dict(metadata["settings"]),
            node_sets=SetList(array("node_set_starts"), array("node_set_indices")),
            curve_sets=SetList(array("curve_set_starts"), array("curve_set_indices")),
            curve_set_of=array("curve_set_of"),
            **_proved_by(array, metadata),
            **({part: array(part) for part in EXTRA_ARRAYS} if f"{EXTRA_ARRAYS[0]}.npy" in members else {}),
        )
    except (KeyError, TypeError, ValueError) as error:
        if isinstance(error, CertificateFileError):
            raise
        raise CertificateFileError(f"{name} is damaged: metadata.json lacks or garbles {error}") from None
    _check_consistent(name, certificate)
    return certificate


def _proved_by(array: Callable[[str], npt.NDArray[Any]], metadata: dict[str, Any]) -> dict[str, Any]:
    """Which engine proved what; files of version 1 name one for all."""
    if metadata["schema_version"] > 1:
        return {part: array(part) for part in ("radius_proved_by", "collective_proved_by")}
    engine = str(metadata["settings"]["engine"])
    return {
        "radius_proved_by": _frozen(np.full(array("radius_lower").shape, engine)),
        "collective_proved_by": _frozen(np.full(array("collective_lower").shape, engine)),
    }


def _read_array(name: str, part: str, member: IO[bytes]) -> npt.NDArray[Any]:
    try:
        return np.asarray(np.lib.format.read_array(member, allow_pickle=False))
    except ValueError as error:
        raise CertificateFileError(f"{name} is damaged: {part}.npy cannot be read ({error})") from None


def _check_consistent(name: str, c: Certificate) -> None:
    n, budgets = c.radius_lower.shape, (c.max_flips + 1,)
    consistent = (
        c.predictions.shape == c.decision_values.shape[:1] == c.radius_upper.shape == c.radius_proved_by.shape == n
        and c.collective_lower.shape == c.collective_upper.shape == c.curve_set_of.shape == budgets
        and c.collective_proved_by.shape == budgets
        and len(c.node_sets) == c.n_test
        and all(_well_formed(s, c.labels.size) for s in (c.node_sets, c.curve_sets))
        and bool(np.all((c.curve_set_of >= 0) & (c.curve_set_of < len(c.curve_sets))))
        and bool(np.all(c.radius_lower <= c.radius_upper))
        and bool(np.all(c.collective_lower <= c.collective_upper))
        and (_binary(c) if c.node_targets is None else _multiclass(c))
    )
    if not consistent:
        raise CertificateFileError(f"{name} is damaged: its arrays contradict each other")


def _binary(c: Certificate) -> bool:
    return c.n_classes == 2 and c.decision_values.ndim == 1


def _multiclass(c: Certificate) -> bool:
    K = c.n_classes
    targets = (c.node_targets, c.node_sets), (c.curve_targets, c.curve_sets)
    return (
        K > 2
        and c.decision_values.shape == (c.n_test, K)
        and all(t is not None and t.shape == s.indices.shape and bool(np.all((t >= 0) & (t < K))) for t, s in targets)
        and c.new_classes is not None
        and c.new_classes.shape == (c.n_test,)
        and bool(np.all((c.new_classes >= -1) & (c.new_classes < K)))
    )


def _well_formed(sets: SetList, m: int) -> bool:
    starts, indices = sets.starts, sets.indices
    return bool(
        starts.ndim == 1
        and starts.size >= 1
        and np.issubdtype(starts.dtype, np.integer)
        and np.issubdtype(indices.dtype, np.integer)
        and starts[0] == 0
        and starts[-1] == indices.size
        and np.all(np.diff(starts) >= 0)
        and np.all((indices >= 0) & (indices < m))
    )


def _frozen(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    array.setflags(write=False)
    return array
