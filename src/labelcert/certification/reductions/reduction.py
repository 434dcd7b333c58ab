"""What a reduction is: it turns a task into another one, and the other one's certificate back."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from labelcert.certificate import Certificate
from labelcert.certification.task import Task


class Reduction(ABC):
    """One step from what the user asks towards what an engine answers."""

    @abstractmethod
    def accepts(self, task: Task) -> bool:
        """Whether a task has what this reduction takes away."""

    @abstractmethod
    def apply(self, task: Task) -> tuple[Task, Any]:
        """The task without it, and whatever :meth:`invert` needs to know."""

    def invert(self, cert: Certificate, undo: Any) -> Certificate:
        """The certificate of the task as it was: the same one, if only other words for the same question were found."""
        return cert
