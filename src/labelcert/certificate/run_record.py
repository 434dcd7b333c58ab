"""How a certificate came about."""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import msgspec

command_line: ContextVar[str] = ContextVar("command_line", default="")
"""The command line that is being carried out; certificates record it."""


class Stop(StrEnum):
    """Why a run ended."""

    FINISHED = "finished"
    TIME_LIMIT = "time limit"
    INTERRUPTED = "interrupted"
    MEMORY = "memory limit"


@dataclass(frozen=True)
class StageRecord:
    """One engine's part of a run.

    Attributes
    ----------
    engine : str
    max_flips : int
        Largest budget that it was asked about.
    statistics : dict
        Plain numbers about its work.
    """

    engine: str
    max_flips: int
    statistics: dict[str, Any]


@dataclass(frozen=True)
class RunRecord:
    """Everything about a run that is worth keeping.

    Attributes
    ----------
    engine_asked : str
        The engine that the user named.
    stages : tuple of StageRecord
        The engines that ran, in order.
    finds_attacks : bool
        False: lower ends of radii were all that was asked for.
    stopped : Stop
    loss : str
    C : float
    kernel_shift : float
        Added to the kernel's diagonal because it missed positive semidefiniteness by rounding.
    threat : dict
        The adversary, in plain values.
    time_limit, node_time_limit : float or None
    collective : bool
        Whether the collective curve was asked for.
    solver : str
    trust_solver : bool
        Whether a solver's claims were asked to count as proofs.
    workers : int
    problem_sha256 : str
        Hash of the problem: :meth:`labelcert.problem.Problem.digest`.
    seconds : float
    spendable : int or None
        The most that the adversary can spend: no larger budget changes anything.
    budget_note : str
        Why the largest budget is what it is, where nobody gave it and not all are answered.
    remarks : tuple of str
        What is different about what was asked: see the page "What goes with what".
    device : str
        Where labellings were trained on: the CPU, or the name of a GPU.
    margin : float, or tuple of float
        Predictions count as changed once their lead falls to this; one number for each test node, where they differ.
    margin_from : str
        Where the margins come from, if somebody measured them.
    versions : dict
    model : str
        What was certified, as Python writes it; empty where arrays were given.
    command : str
        The command line that was given, if there was one.
    """

    engine_asked: str
    stages: tuple[StageRecord, ...]
    finds_attacks: bool
    stopped: Stop
    loss: str
    C: float
    kernel_shift: float
    threat: dict[str, Any]
    time_limit: float | None
    node_time_limit: float | None
    collective: bool
    solver: str
    trust_solver: bool
    workers: int
    problem_sha256: str
    seconds: float
    spendable: int | None = None
    budget_note: str = ""
    remarks: tuple[str, ...] = ()
    device: str = "cpu"
    margin: float | tuple[float, ...] = 0.0
    margin_from: str = ""
    versions: dict[str, str] = field(default_factory=dict)
    model: str = ""
    command: str = field(default_factory=lambda: command_line.get())

    @property
    def engine(self) -> str:
        """The engines that ran, in one word or joined by plus signs."""
        return " + ".join(stage.engine for stage in self.stages)

    @property
    def margin_text(self) -> str:
        """The margin, or the range of margins."""
        if isinstance(self.margin, tuple):
            return f"{min(self.margin):.4g} to {max(self.margin):.4g}"
        return f"{self.margin:g}"

    @property
    def unit(self) -> str:
        """What budgets and radii count."""
        return "flips" if self.threat.get("costs") is None else "cost units"

    def amount(self, budget: int) -> str:
        """A budget in words."""
        return f"{budget} {self.unit.removesuffix('s') if budget == 1 else self.unit}"

    def plain(self) -> dict[str, Any]:
        """In plain JSON values; empty values that older versions did not know are left out, as their files do."""
        plain = {"engine": self.engine, **msgspec.to_builtins(self)}
        return {key: value for key, value in plain.items() if value or key not in ("model", "command", "remarks")}

    @classmethod
    def from_plain(cls, values: dict[str, Any]) -> RunRecord:
        """From what :meth:`plain` returned; raises ``ValueError`` where a value is missing or of the wrong kind."""
        try:
            return msgspec.convert({"command": "", **{k: v for k, v in values.items() if k != "engine"}}, cls)
        except msgspec.MsgspecError as error:
            raise ValueError(str(error)) from None
