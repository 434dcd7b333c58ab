"""Compiled code is kept on disk until one of the modules that hold any changes."""

from __future__ import annotations

import gc
import hashlib
import warnings
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, TypeVar, cast

from numba import njit
from numba.core.caching import FunctionCache, IndexDataCacheFile
from numba.core.compiler_lock import global_compiler_lock

from labelcert.compiling.inner import InnerCache, InnerCompiler

F = TypeVar("F", bound=Callable[..., Any])

PACKAGE = Path(__file__).parents[1]


def compiled(*, inner: bool = False, allocates: bool = False, **options: Any) -> Callable[[F], F]:
    """Compile a function: kept on disk, and free of Python's lock. Further options are those of Numba.

    An ``inner`` one is called by other compiled functions alone, which takes less to compile. Python must not call it:
    there is nothing to be called. One that ``allocates`` makes arrays. Numba then counts references to every array that
    a call hands on, which took more than half of the time of a retraining.
    """
    if inner:
        options["pipeline_class"] = InnerCompiler

    def decorate(function: F) -> F:
        dispatcher = njit(nogil=True, _nrt=allocates, no_cfunc_wrapper=True, no_cpython_wrapper=inner, **options)(
            function
        )
        dispatcher.compile = _uncollected(dispatcher.compile)
        try:
            dispatcher._cache = (_InnerCache if inner else _Cache)(function)
        except RuntimeError:
            _say_once()
        return cast(F, dispatcher)

    return decorate


def _uncollected(compile_for: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Compile without Python's search for garbage, which took a fifth of the time and found nothing."""

    def compile_now(signature: Any) -> Any:
        with global_compiler_lock:
            collecting = gc.isenabled()
            gc.disable()
            try:
                return compile_for(signature)
            finally:
                if collecting:
                    gc.enable()

    return compile_now


class _Cache(FunctionCache):  # type: ignore[misc]
    """Numba's cache, but a change of any compiled module counts: a function holds the code of those that it calls."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function)
        stamp = (self._impl.locator.get_source_stamp(), stamp_of(PACKAGE))
        self._cache_file = IndexDataCacheFile(self._cache_path, self._impl.filename_base, stamp)
        # Compared before the rest is read, which may name classes that are gone.
        self._cache_file._version = (self._cache_file._version, stamp)


class _InnerCache(_Cache):
    _impl_class = InnerCache


@cache
def stamp_of(folder: Path) -> str:
    """A digest of all modules in a folder that hold compiled code.

    Examples
    --------
    >>> stamp_of(PACKAGE) == stamp_of(PACKAGE)
    True
    """
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*.py")):
        text = path.read_bytes()
        if b"numba" in text or b"compiled" in text:
            digest.update(text)
    return digest.hexdigest()


@cache
def _say_once() -> None:
    warnings.warn(
        "compiled code cannot be kept, since no cache folder is writable: every start takes some seconds longer; "
        "name a folder in the environment variable NUMBA_CACHE_DIR",
        stacklevel=4,
    )
