"""What a walk that stops has not visited, as a question of its own: the same one, with more trusted labels.

Sets of one size are walked in lexicographic order. Once all that begin with one of the first labels are done, those
that are left of this size contain none of these labels. A prover that bounds what the other labels can do together
settles nodes long before the walk ends. See :class:`~labelcert.engines.ledger.Ledger` for what follows.
"""

from __future__ import annotations

import math
import time
from dataclasses import replace
from typing import Any

import numpy as np

from labelcert.engines.base import Findings, Question
from labelcert.engines.control import Control
from labelcert.engines.cube.cutting import LabellingChunk, LevelChunk
from labelcert.engines.cube.recording import CubeSummary, CubeWork
from labelcert.engines.ledger import Ledger
from labelcert.engines.walks import Collector

WORTH_SECONDS = 10.0
"""Shorter walks do without."""

SHARE = 0.1
"""Part of the time so far that proofs may take in all."""

LEAST_SECONDS = 0.2
"""Less than this is not worth a start."""

LEFT = 0.1
"""Proofs are tried again whenever no more than this part is left of what was left the last time."""


class Unvisited(Collector):
    """Has nodes proved as the walk goes on, so that whatever stops it finds them proved.

    ``proved``: how many nodes, at the size that was walked last.
    """

    def __init__(self, question: Question, control: Control, ledger: Ledger, task: CubeWork) -> None:
        self._question, self._control, self._ledger, self._task = question, control, ledger, task
        self._began, self._spent = time.monotonic(), 0.0
        self._size, self._left, self._over = 0, 1.0, False
        self.proved = 0

    def unvisited(self, cost: int) -> None:
        """What comes after a chunk that was not finished says nothing about what came before."""
        self._over = True

    def collect(self, found: CubeSummary, chunk: LabellingChunk) -> None:
        """Before this chunk, all sets of its size that begin with an earlier label than its first set were walked."""
        if self._over or not isinstance(chunk, LevelChunk) or chunk.parents.shape[1] == 0 or self._control.over():
            return
        size, first, labels = chunk.parents.shape[1] + 1, int(chunk.parents[0, 0]), int(self._task.affordable.size)
        if size != self._size:
            self._size, self._left, self.proved = size, 1.0, 0
        left, now = math.comb(labels - first, size) / math.comb(labels, size), time.monotonic()
        seconds = SHARE * (now - self._began) - self._spent
        if left > LEFT * self._left or now - self._began < WORTH_SECONDS or seconds < LEAST_SECONDS:
            return
        self._left = left
        self._prove(first, size, seconds)
        self._spent += time.monotonic() - now

    def _prove(self, first: int, size: int, seconds: float) -> None:
        """Ask about sets of this size and more, of labels from the ``first`` one on."""
        question, task, ledger = self._question, self._task, self._ledger
        cheapest = np.append(np.cumsum(np.sort(task.costs[task.affordable])), question.budget + 1)
        least, budget = int(cheapest[size - 1]), min(question.budget, int(cheapest[size]) - 1)
        open_ = (ledger.radius > budget) & (ledger.beyond <= budget)
        if question.prover is None or not open_.any():
            return
        adversary = question.problem.adversary.only(np.sort(task.affordable[first:]))
        problem = replace(question.problem, max_flips=budget, adversary=adversary)
        asked = replace(question, problem=problem, observers=(), counting=None, prover=None)
        known = replace(Findings.nothing(asked), radius_lower=np.where(open_, least, budget + 1))
        quiet: dict[str, Any] = {"report": lambda done, total: None, "note": lambda text: None}
        control = replace(self._control.part(1.0), collective=False, **quiet)
        control.deadline = min(control.deadline or math.inf, time.monotonic() + seconds)
        found = question.prover.run(asked, control, known)
        ledger.beyond[open_ & (found.radius_lower > budget)] = budget + 1
        self.proved = int((ledger.beyond > budget).sum())
