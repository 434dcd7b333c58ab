"""The answer: radii and collective curve as proved intervals, with checked witnesses.

A certificate is detached from the problem that it answers (it holds a hash of it), immutable, and can be saved
in an open format: a zip archive of ``.npy`` arrays and one JSON text, readable without labelcert.
"""

from __future__ import annotations

import json
import os
import zipfile
import zlib
from collections.abc import Sequence
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
SCHEMA_VERSION = 2

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
        shows ``classes[1]`` here, has radius 0, and counts as changed at every budget (the paper's footnote 1).
    decision_values : (n,) array
        Clean scores (float64, for information; exactly 0 only where that is proved).
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

    def witness(self, t: int) -> dict[int, Any] | None:
        """The flips that realise ``radius_upper[t]``: ``{index of label: new label}``; None where none is known.

        They have been checked: training on these labels provably changes the prediction of node ``t``.
        """
        if not -self.n_test <= t < self.n_test:
            raise InvalidInput(f"there is no test node {t}: nodes are 0 to {self.n_test - 1}")
        t %= self.n_test
        if self.radius_upper[t] >= self.never:
            return None
        return self._relabelled(self.node_sets[t])

    def collective_witness(self, b: int) -> dict[int, Any]:
        """Flips within budget ``b`` that provably change ``collective_lower[b]`` predictions at once."""
        if not 0 <= b <= self.max_flips:
            raise InvalidInput(f"the certificate covers budgets 0 to {self.max_flips}, got {b}")
        return self._relabelled(self.curve_sets[int(self.curve_set_of[b])])

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

    def to_frame(self) -> pd.DataFrame:
        """One row per node: prediction, score, radius (as an interval, and whether it is exact) and witness."""
        import pandas as pd

        return pd.DataFrame(
            {
                "prediction": self.predictions,
                "decision_value": self.decision_values,
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
        state = "exact" if self.exact else f"intervals ({self.settings.get('stopped', 'finished')})"
        return (
            f"Certificate({self.n_test} test nodes, {self.labels.size} labels, budgets 0..{self.max_flips}, "
            f"{state}, engine={self.engine!r})"
        )

    def _relabelled(self, flips: Int) -> dict[int, Any]:
        other = {self.classes[0]: self.classes[1], self.classes[1]: self.classes[0]}
        return {int(i): other[self.labels[i]].item() for i in flips}

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
    if metadata.get("schema_version") != SCHEMA_VERSION:
        raise CertificateFileError(
            f"{name} has certificate schema version {metadata.get('schema_version')!r}, "
            f"this labelcert reads version {SCHEMA_VERSION}: use the labelcert that wrote it, or a newer one"
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
            radius_proved_by=array("radius_proved_by"),
            collective_proved_by=array("collective_proved_by"),
        )
    except (KeyError, TypeError, ValueError) as error:
        if isinstance(error, CertificateFileError):
            raise
        raise CertificateFileError(f"{name} is damaged: metadata.json lacks or garbles {error}") from None
    _check_consistent(name, certificate)
    return certificate


def _read_array(name: str, part: str, member: IO[bytes]) -> npt.NDArray[Any]:
    try:
        return np.asarray(np.lib.format.read_array(member, allow_pickle=False))
    except ValueError as error:
        raise CertificateFileError(f"{name} is damaged: {part}.npy cannot be read ({error})") from None


def _check_consistent(name: str, c: Certificate) -> None:
    n, budgets = c.radius_lower.shape, (c.max_flips + 1,)
    consistent = (
        c.predictions.shape == c.decision_values.shape == c.radius_upper.shape == c.radius_proved_by.shape == n
        and c.collective_lower.shape == c.collective_upper.shape == c.curve_set_of.shape == budgets
        and c.collective_proved_by.shape == budgets
        and len(c.node_sets) == c.n_test
        and all(_well_formed(s, c.labels.size) for s in (c.node_sets, c.curve_sets))
        and bool(np.all((c.curve_set_of >= 0) & (c.curve_set_of < len(c.curve_sets))))
        and bool(np.all(c.radius_lower <= c.radius_upper))
        and bool(np.all(c.collective_lower <= c.collective_upper))
        and c.classes.size == 2
    )
    if not consistent:
        raise CertificateFileError(f"{name} is damaged: its arrays contradict each other")


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
