"""PyTorch, imported when somebody asks for it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

from labelcert.checking import one_of
from labelcert.errors import InvalidInput, MissingExtra


@cache
def torch() -> Any:
    """The package ``torch``, or an error that says how to install it."""
    try:
        import torch as found
    except ImportError:
        raise MissingExtra("torch", "torch", "a network of finite width") from None
    return found


@contextmanager
def threads(count: int | None) -> Iterator[None]:
    """Have PyTorch use this many threads; None leaves it as it is."""
    before = torch().get_num_threads()
    try:
        torch().set_num_threads(before if count is None else count)
        yield
    finally:
        torch().set_num_threads(before)


def check_device(device: str) -> str:
    """A device that is here: ``"cpu"``, or ``"gpu"`` where PyTorch finds one; ``"auto"`` takes the better one."""
    one_of("device", device, ("auto", "cpu", "gpu"))
    found = device != "cpu" and torch().cuda.is_available()
    if device == "gpu" and not found:
        raise InvalidInput("device='gpu' needs a GPU that PyTorch can use, and it finds none; use device='cpu'")
    return "cuda" if found else "cpu"
