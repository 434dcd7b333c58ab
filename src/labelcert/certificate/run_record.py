"""How a certificate came about."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated, Any

import msgspec

from labelcert.errors import InvalidInput
from labelcert.problem.ballots import whole_multiples

command_line: ContextVar[str] = ContextVar("command_line", default="")
"""The command line that is being carried out; certificates record it."""


class Stop(StrEnum):
    """Why a run ended."""

    FINISHED = "finished"
    TIME_LIMIT = "time limit"
    INTERRUPTED = "interrupted"
    MEMORY = "memory limit"


OFTEN_EMPTY = (
    *("model", "command", "remarks", "advice", "drops_to", "weights", "compiling"),
    *("kernel_error", "kernel_error_sha256"),
)
"""What records leave out where it is empty, as older ones do."""

Count = Annotated[int, msgspec.Meta(ge=0, le=2**53)]
Cost = Annotated[float, msgspec.Meta(gt=0, le=2**53)]


class _Votes(msgspec.Struct, forbid_unknown_fields=True):
    """What the record of votes looks like."""

    votes: list[tuple[Count, str, str]]
    ties: str | list[str]
    weights: dict[str, float] | None
    aggregate: bool


class _Threat(msgspec.Struct, forbid_unknown_fields=True):
    """What the record of a threat looks like."""

    trusted: list[Count] | None
    costs: list[Cost] | None
    allowed_flips: list[tuple[str, list[str]]] | None
    allowed_targets: list[list[str] | None] | None
    groups: list[str | None] | None
    group_budgets: dict[str, Count] | Count | None
    annotators: list[str | None] | None = None
    votes: _Votes | None = None
    prices: dict[str, Cost] | None = None
    trusted_annotators: list[str] | None = None
    wrong_votes: Count | None = None
    removable: list[Count] | bool | None = None
    changes: bool = True
    samples: bool = False

    @property
    def names(self) -> set[str]:
        """The annotators."""
        of_votes = () if self.votes is None else (who for _, who, _ in self.votes.votes)
        return {who for who in (*(self.annotators or ()), *of_votes) if who is not None}

    def most(self, m: int) -> int:
        """The total cost of everything that the adversary could buy."""
        if self.annotators is None and self.votes is None:
            return m if self.costs is None else int(whole_multiples("costs", self.costs)[0].sum())
        prices = self.prices or {}
        return int(whole_multiples("prices", [prices.get(who, 1) for who in self.names])[0].sum())

    def fits(self, classes: Sequence[str], m: int, never: int) -> bool:
        """Whether it speaks of m labels of some classes, whose total cost is one less than ``never``."""
        named = [name for source, targets in self.allowed_flips or [] for name in (source, *targets)]
        named += [name for targets in self.allowed_targets or [] for name in targets or []]
        lists = (self.costs, self.allowed_targets, self.groups, self.annotators)
        votes = [] if self.votes is None else self.votes.votes
        return (
            all(one is None or len(one) == m for one in lists)
            and all(i < m for i in self.trusted or [])
            and (self.changes or self.removable is not None)
            and self.removable is not False
            and (not isinstance(self.removable, list) or max(self.removable, default=0) < m)
            and set(named) <= set(classes)
            and all(i < m and label in classes for i, _, label in votes)
            and (self.votes is None or self.votes.ties == "first" or set(classes) <= set(self.votes.ties))
            and {*(self.prices or ()), *(self.trusted_annotators or ())} <= self.names
            and never == 1 + self.most(m)
        )


class _Statistics(msgspec.Struct):
    """The statistics that are shown; all others are plain values."""

    trainings: Count = 0
    solves: list[Any] = []
    proved_by_relaxation: Count = 0
    black_box_radius: list[Count] = []
    part_of: list[Count] = []
    part_radii: list[list[Count]] = []
    alone: list[list[Count]] = []
    perhaps_alone: list[list[Count]] = []
    combine: str = ""


@dataclass(frozen=True)
class StageRecord:
    """One engine's part of a run: the largest budget that it was asked about, and plain numbers about its work."""

    engine: str
    max_flips: int
    statistics: dict[str, Any]

    def plausible(self, m: int) -> bool:
        """Whether the statistics can be those of a run about m labels."""
        shown = msgspec.convert(self.statistics, _Statistics)
        complete = "solves" not in self.statistics or "proved_by_relaxation" in self.statistics
        return complete and self.max_flips >= 0 and len(shown.part_of) in (0, m)


@dataclass(frozen=True)
class RunRecord:
    """Everything about a run that is worth keeping."""

    engine_asked: str
    """The engine that the user named."""
    stages: tuple[StageRecord, ...]
    """The engines that ran, in order."""
    finds_attacks: bool
    """False: lower ends of radii were all that was asked for."""
    stopped: Stop
    loss: str
    C: float
    kernel_shift: float
    """Added to the kernel's diagonal because it missed positive semidefiniteness by rounding."""
    threat: dict[str, Any]
    """The adversary, in plain values."""
    time_limit: float | None
    node_time_limit: float | None
    collective: bool
    solver: str
    trust_solver: bool
    """Whether a solver's claims were asked to count as proofs."""
    workers: int
    problem_sha256: str
    """:meth:`labelcert.problem.Problem.digest`."""
    seconds: float
    """What the answer took, apart from compiling."""
    spendable: int | None = None
    """The most that the adversary can spend: no larger budget changes anything."""
    budget_note: str = ""
    """Why the largest budget is what it is, where nobody gave it and not all are answered."""
    remarks: tuple[str, ...] = ()
    """What is different about what was asked: see the page "What goes with what"."""
    advice: tuple[str, ...] = ()
    """What would prove more, where proofs ended early, and how accurate it is."""
    device: str = "cpu"
    """Where labellings were trained on: the CPU, or the name of a GPU."""
    margin: float | tuple[float, ...] = 0.0
    """Predictions count as changed once their lead falls to this; one number for each test node, where they differ."""
    margin_from: str = ""
    """Where the margins come from, if somebody measured them."""
    kernel_error: tuple[float, ...] = ()
    """How far entries of the kernel may be off, at most: among labels, and between test nodes and labels; or empty."""
    kernel_error_sha256: str = ""
    """Hash of all kernel errors; empty where the kernel is known exactly."""
    drops_to: str = ""
    """Where a class without labels is dropped, what a model with two classes left is trained with; else empty."""
    weights: str = ""
    """What gives labels weights, where they have some: ``sample_weight``, ``class_weight``."""
    compiling: float = 0.0
    """Seconds of compiling hot loops, or of reading what was kept of that: mostly the first run's."""
    versions: dict[str, str] = field(default_factory=dict)
    model: str = ""
    """What was certified, as Python writes it; empty where arrays were given."""
    command: str = field(default_factory=lambda: command_line.get())

    @property
    def engine(self) -> str:
        """The engines that ran, in one word or joined by plus signs; the one that was asked for, if none had time."""
        return " + ".join(dict.fromkeys(stage.engine for stage in self.stages)) or self.engine_asked

    @property
    def margin_text(self) -> str:
        """The margin, or the range of margins."""
        if isinstance(self.margin, tuple):
            return f"{min(self.margin):.4g} to {max(self.margin):.4g}"
        return f"{self.margin:g}"

    @property
    def error_text(self) -> str:
        """The largest kernel errors; empty where the kernel is known exactly."""
        if not self.kernel_error:
            return ""
        return "kernel errors up to " + " and ".join(f"{error:.3g}" for error in dict.fromkeys(self.kernel_error))

    @property
    def compiling_text(self) -> str:
        """Behind the seconds, where compiling took many more."""
        return f" (and {self.compiling:.0f} s of compiling)" if self.compiling >= 1.0 else ""

    @property
    def unit(self) -> str:
        """What budgets and radii count."""
        return unit_of(self.threat)

    @property
    def removes(self) -> bool:
        """Whether labels may be removed."""
        return self.threat.get("removable") is not None

    @property
    def counts_annotators(self) -> bool:
        """Whether budgets and radii count annotators."""
        return _owned(self.threat)

    @property
    def threat_is_readable(self) -> bool:
        """Whether the record of the threat has the form of one, whatever it says."""
        try:
            msgspec.convert(self.threat, _Threat)
        except msgspec.ValidationError:
            return False
        return True

    def amount(self, budget: int) -> str:
        """A budget in words."""
        return amount(budget, self.unit)

    def contradiction(self, classes: Sequence[str], m: int, never: int) -> str:
        """What cannot be, in words; empty where the record may be one of m labels of these classes.

        ``never`` is the radius that means that no change is known: the total cost of all labels, plus 1.
        """
        checks: dict[str, Callable[[], bool]] = {
            "the numbers of the run": lambda: (
                _finite(msgspec.to_builtins(self))
                and self.C > 0
                and min(self.seconds, self.compiling, self.kernel_shift, self.spendable or 0) >= 0
                and all(limit is None or limit > 0 for limit in (self.time_limit, self.node_time_limit))
                and self.workers >= 1
            ),
            "the threat": lambda: msgspec.convert(self.threat, _Threat).fits(classes, m, never),
            "the statistics": lambda: all(stage.plausible(m) for stage in self.stages),
        }
        for what, holds in checks.items():
            try:
                if not holds():
                    return what
            except (msgspec.ValidationError, InvalidInput) as error:
                return f"{what} ({error})"
        return ""

    def plain(self) -> dict[str, Any]:
        """In plain JSON values; empty values that older versions did not know are left out, as their files do."""
        plain = {"engine": self.engine, **msgspec.to_builtins(self)}
        return {key: value for key, value in plain.items() if value or key not in OFTEN_EMPTY}

    @classmethod
    def from_plain(cls, values: dict[str, Any]) -> RunRecord:
        """From what :meth:`plain` returned; raises ``ValueError`` where a value is missing or of the wrong kind."""
        try:
            return msgspec.convert({"command": "", **{k: v for k, v in values.items() if k != "engine"}}, cls)
        except msgspec.MsgspecError as error:
            raise ValueError(str(error)) from None


def _finite(value: Any) -> bool:
    """Whether a plain value holds no float that is infinite or no number."""
    if isinstance(value, dict):
        return all(map(_finite, value.values()))
    if isinstance(value, list | tuple):
        return all(map(_finite, value))
    return not isinstance(value, float) or math.isfinite(value)


def unit_of(threat: Mapping[str, Any]) -> str:
    """What budgets against a threat count, from its record."""
    if threat.get("samples"):
        return "samples"
    if _owned(threat):
        return "annotators" if threat.get("prices") is None else "cost units"
    removes = threat.get("removable") is not None
    counted = "flips" if not removes else "labels" if threat.get("changes", True) else "removals"
    return counted if threat.get("costs") is None else "cost units"


def amount(budget: int, unit: str) -> str:
    """A budget in words."""
    return f"{budget} {unit.removesuffix('s') if budget == 1 else unit}"


def _owned(threat: Mapping[str, Any]) -> bool:
    """Whether budgets count annotators."""
    return threat.get("annotators") is not None or threat.get("votes") is not None
