"""How many threads linear algebra takes, where it can be told: with what scikit-learn brings along."""

from __future__ import annotations

import functools
from contextlib import AbstractContextManager, nullcontext
from typing import Any


def one_thread_each() -> AbstractContextManager[Any]:
    """Inside, products of matrices run on the thread that asks for them.

    Where several threads multiply matrices at once, those of the library only wait for each other.
    """
    controller = _controller()
    return nullcontext() if controller is None else controller.limit(limits=1, user_api="blas")


@functools.cache
def _controller() -> Any:
    try:
        from threadpoolctl import ThreadpoolController
    except ImportError:
        return None
    return ThreadpoolController()
