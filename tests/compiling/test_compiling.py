"""How code is compiled: tuples by reference, functions by address, and what is kept on disk."""

from __future__ import annotations

import ast
import pickle
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from numba import njit, types
from numba.core.errors import TypingError

import labelcert
from labelcert.compiling import by_reference, compiled
from labelcert.compiling.caching import PACKAGE, stamp_of
from labelcert.compiling.references import Anything, Compiled, call


@by_reference
class Inside(NamedTuple):
    """A tuple in another one."""

    numbers: Any
    count: int


@by_reference
class Outside(NamedTuple):
    """Fields of every kind."""

    matrix: Any
    inside: Inside
    small: Any
    wanted: bool
    scale: float


@njit
def read(o: Any) -> Any:
    """Every field once."""
    strided = o.matrix[1, 2] + o.matrix.shape[0] * o.matrix.shape[1]
    return strided, o.inside.numbers[-1], o.inside.count, o.small[0], o.wanted, o.scale


@njit
def write(o: Any, value: float) -> None:
    """Arrays can be written to."""
    o.inside.numbers[0] = value


def outside(**changed: Any) -> Outside:
    made = Outside(
        matrix=np.arange(12.0).reshape(3, 4),
        inside=Inside(np.array([1, 2, 3]), 7),
        small=np.array([-5], dtype=np.int8),
        wanted=True,
        scale=0.25,
    )
    return made._replace(**changed)


def test_fields() -> None:
    assert read(outside()) == (6.0 + 12.0, 3, 7, -5, True, 0.25)
    assert read(outside(matrix=np.arange(24.0).reshape(4, 6)[::2, ::2], wanted=False))[0] == 16.0 + 6.0
    assert read(outside(matrix=np.asfortranarray(np.arange(12.0).reshape(3, 4))))[0] == 18.0
    assert not read(outside(wanted=False))[4]
    some = outside()
    write(some, 42)
    assert some.inside.numbers[0] == 42


def test_tuples_travel_without_their_addresses() -> None:
    some = outside()
    read(some)
    again = pickle.loads(pickle.dumps(some))
    assert vars(again) == {}
    assert read(again) == read(some)
    assert isinstance(again, Outside)


@compiled()
def plus(o: Any, x: float) -> float:
    """A function to be called by its address."""
    return o.scale + x


@compiled()
def minus(o: Any, x: float) -> float:
    """Another one."""
    return o.scale - x


@by_reference
class Caller(NamedTuple):
    """A function, and what it is called with."""

    function: Any
    about: Any


@compiled()
def through(c: Any, x: float) -> float:
    """Calls whatever function it was given."""
    return call(c.function, (c.about, x))


def test_functions_by_address_share_one_caller() -> None:
    some = outside()
    for function, expected in ((plus, 2.25), (minus, -1.75)):
        assert through(Caller(Compiled(function, types.float64, (some, 1.0)), Anything(some)), 2.0) == expected
    assert len(through.overloads) == 1
    with pytest.raises(TypeError, match="expected a function that returns int64"):
        Compiled(plus, types.int64, (some, 1.0))


def _decorated(node: ast.AST, *, inner: bool) -> bool:
    decorators = [d for d in getattr(node, "decorator_list", []) if isinstance(d, ast.Call)]
    named = [d for d in decorators if getattr(d.func, "id", "") in ("compiled", "njit")]
    return bool(named) if not inner else any(k.arg == "inner" for d in named for k in d.keywords)


def test_python_never_calls_what_only_compiled_code_can() -> None:
    trees = [
        ast.parse(path.read_text())
        for folder in (PACKAGE, Path("tests"), Path("benchmarks"))
        for path in sorted(folder.rglob("*.py"))
    ]
    inner = {
        n.name for tree in trees for n in ast.walk(tree) if isinstance(n, ast.FunctionDef) and _decorated(n, inner=True)
    }
    assert len(inner) > 20
    for tree in trees:
        own = {n.name for n in ast.walk(tree) if isinstance(n, ast.FunctionDef)}
        imported = {a.asname or a.name for n in ast.walk(tree) if isinstance(n, ast.ImportFrom) for a in n.names}
        here = {name for name in inner if name in own or name in imported}
        compiled_here = [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef) and _decorated(n, inner=False)]
        fine = {id(c) for n in compiled_here for c in ast.walk(n)}
        local = {n.name for n in ast.walk(tree) if isinstance(n, ast.FunctionDef) and _decorated(n, inner=True)}
        calls = [
            n
            for n in ast.walk(tree)
            if isinstance(n, ast.Call)
            and getattr(n.func, "id", "") in (here & (local | imported))
            and id(n) not in fine
        ]
        assert not calls, ast.unparse(calls[0])


def test_a_change_of_any_compiled_module_counts(tmp_path: Path) -> None:
    copy = tmp_path / "labelcert"
    shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    before = stamp_of(copy)
    stamp_of.cache_clear()
    (copy / "cli" / "exits.py").write_text("EXIT = 1\n")
    assert stamp_of(copy) == before
    stamp_of.cache_clear()
    with (copy / "svm" / "walking.py").open("a") as stream:
        stream.write("# changed\n")
    assert stamp_of(copy) != before


def test_without_a_place_to_keep_compiled_code(tmp_path: Path) -> None:
    code = (
        "import numba.core.caching as c; c.CacheImpl._locator_classes = []\n"
        "import labelcert.engines.registry; print(labelcert.__version__)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path)
    assert done.stdout.strip() == labelcert.__version__
    assert done.stderr.count("cannot be kept") == 1


def test_threads_share_one_table() -> None:
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(4) as pool:
            for _ in range(200):
                some = outside()
                found = list(pool.map(lambda o: o._address, [some] * 4))
                assert len(set(found)) == 1
    finally:
        sys.setswitchinterval(0.005)


def test_functions_are_called_with_what_they_take() -> None:
    some = outside()
    caller = Caller(Compiled(plus, types.float64, (some, 1.0)), Anything(some))
    with pytest.raises(TypingError, match="the function takes"):
        through(caller, 2)
