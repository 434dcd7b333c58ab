"""Reads the data in a pickle without executing it.

A pickle is a program for a stack machine that may import and call anything. This module never calls
`pickle`. It lets `pickletools` split the bytes into instructions, without running any, and interprets the few
that plain data need. A global name is only a string, looked up in a fixed table of constructors for arrays, CSR
matrices and dictionaries. Every other name, and every other instruction, is refused.
"""

from __future__ import annotations

import pickletools
import re
import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from labelcert.errors import DataUnavailable
from labelcert.graphs.checks import checked_csr, reason

_DTYPE_CODE = re.compile(r"[|<>=]?(b1|[iu][1248]|f[248])")
_DEEPEST = 100
_LARGEST = 20_000_000
_BYTES_PER_VALUE = 8
_MARK = object()


def read_pickled_data(content: bytes, *, what: str = "the file") -> Any:
    r"""Read numbers, text, lists, tuples, dictionaries, arrays and CSR matrices from a pickle (protocols 0 to 3).

    Parameters
    ----------
    content : bytes
        The pickle, written by Python 2 or 3. Strings of Python 2 are read as Latin-1.
    what : str
        What is being read; error messages name it.

    Raises
    ------
    DataUnavailable
        If the pickle contains anything else, is damaged, or is nested or shared so much that reading it would
        exhaust the memory.
    """
    machine = _StackMachine(what)
    try:
        for instruction, argument, _ in pickletools.genops(content):
            if instruction.name == "STOP":
                return _finished(machine.result(), {})[0]
            machine.step(instruction.name, argument)
    except (
        ValueError,
        TypeError,
        LookupError,
        AttributeError,
        ArithmeticError,
        MemoryError,
        RecursionError,
        SyntaxError,
        struct.error,
    ) as error:
        raise DataUnavailable(f"{what} is damaged: it cannot be read as pickled data ({reason(error)})") from error
    raise DataUnavailable(f"{what} is damaged: it ends before its data do")


@dataclass(frozen=True)
class _Name:
    """A global name in the pickle; it means nothing until a rule below gives it a meaning."""

    path: str


@dataclass
class _Blank:
    """An object under construction: its kind, and the state that the pickle gives it."""

    kind: str
    state: Any = None
    dtype: np.dtype[Any] | None = None


def _finished(value: Any, done: dict[int, tuple[Any, int] | None], depth: int = 0) -> tuple[Any, int]:
    """The data that a value describes, each part made only once, and how many values it unfolds to.

    Refuses what is nested too deep, contains itself or unfolds to too much.
    """
    if isinstance(value, _Name):
        raise ValueError(f"it holds the name {value.path!r} where data were expected")
    if not isinstance(value, _Blank | list | tuple | dict):
        return value, 1 + (len(value) // _BYTES_PER_VALUE if isinstance(value, str | bytes) else 0)
    if depth > _DEEPEST:
        raise ValueError(f"its parts are nested more than {_DEEPEST} deep")
    if id(value) not in done:
        done[id(value)] = None
        parts = [_finished(part, done, depth + 1) for part in _parts(value)]
        size = 1 + sum(own for _, own in parts)
        if size > _LARGEST:
            raise ValueError(f"it unfolds to more than {_LARGEST} values")
        done[id(value)] = _built(value, [part for part, _ in parts]), size
    found = done[id(value)]
    if found is None:  # its parts are being made
        raise ValueError("it contains itself")
    return found


def _parts(value: _Blank | list[Any] | tuple[Any, ...] | dict[Any, Any]) -> list[Any]:
    if isinstance(value, dict):
        return [*value.keys(), *value.values()]
    return [value.state] if isinstance(value, _Blank) else list(value)


def _built(value: _Blank | list[Any] | tuple[Any, ...] | dict[Any, Any], parts: list[Any]) -> Any:
    if isinstance(value, _Blank):
        return _dtype(value) if value.kind == "dtype" else {"ndarray": _array, "csr": _csr}[value.kind](parts[0])
    if isinstance(value, dict):
        return dict(zip(parts[: len(value)], parts[len(value) :], strict=True))
    return parts if isinstance(value, list) else tuple(parts)


def _raw_bytes(value: Any) -> bytes:
    if isinstance(value, bytes):
        return value
    if isinstance(value, str):
        return value.encode("latin-1")
    raise ValueError(f"bytes were expected, not a {type(value).__name__}")


def _shape(value: Any) -> tuple[int, ...]:
    if not isinstance(value, tuple) or not all(type(length) is int and length >= 0 for length in value):
        raise ValueError("a shape is not made of lengths")
    return value


def _dtype(blank: _Blank) -> np.dtype[Any]:
    if blank.dtype is None:
        raise ValueError("an array has no type")
    if isinstance(blank.state, tuple) and len(blank.state) > 1 and blank.state[1] in ("<", ">"):
        return blank.dtype.newbyteorder(blank.state[1])
    return blank.dtype


def _array(state: Any) -> Any:
    _, shape, dtype, fortran, content = state
    if not isinstance(dtype, np.dtype):
        raise ValueError("an array has no type")
    flat = np.frombuffer(_raw_bytes(content), dtype=dtype)
    return flat.reshape(_shape(shape), order="F" if fortran else "C").copy()


def _csr(state: Any) -> Any:
    rows, columns = _shape(state["_shape"] if "_shape" in state else state["shape"])
    data, indices, indptr = (state[part] for part in ("data", "indices", "indptr"))
    if not all(isinstance(part, np.ndarray) for part in (data, indices, indptr)):
        raise ValueError("a matrix is not made of arrays")
    return checked_csr(data, indices, indptr, (rows, columns))


def _new_dtype(code: Any, *_: Any) -> _Blank:
    text = str(_raw_bytes(code), "ascii")
    if not _DTYPE_CODE.fullmatch(text):
        raise ValueError(f"arrays of numbers were expected, not of type {text[:20]!r}")
    return _Blank("dtype", dtype=np.dtype(text))


def _new_scalar(dtype: _Blank, content: Any) -> Any:
    return np.frombuffer(_raw_bytes(content), dtype=_dtype(dtype)).item()


def _new_object(base: _Name, *_: Any) -> _Blank:
    return _Blank(_CLASSES[base.path])


def _new_dict(*_: Any) -> dict[Any, Any]:
    return {}


def _encoded(text: str, encoding: str = "latin1") -> bytes:
    if not isinstance(text, str) or not isinstance(encoding, str) or encoding not in ("latin1", "latin-1"):
        raise ValueError("text in Latin-1 was expected")
    return text.encode("latin-1")


_CLASSES = {
    "numpy.ndarray": "ndarray",
    "scipy.sparse.csr.csr_matrix": "csr",
    "scipy.sparse._csr.csr_matrix": "csr",
    "scipy.sparse._csr.csr_array": "csr",
}
_CONSTRUCTORS: dict[str, Callable[..., Any]] = {
    "numpy.dtype": _new_dtype,
    "numpy.core.multiarray._reconstruct": _new_object,
    "numpy._core.multiarray._reconstruct": _new_object,
    "numpy.core.multiarray.scalar": _new_scalar,
    "numpy._core.multiarray.scalar": _new_scalar,
    "copy_reg._reconstructor": _new_object,
    "copyreg._reconstructor": _new_object,
    "collections.defaultdict": _new_dict,
    "collections.OrderedDict": _new_dict,
    "_codecs.encode": _encoded,
}
_INERT = {"__builtin__.list", "builtins.list", "__builtin__.object", "builtins.object"}
_KNOWN = _CLASSES.keys() | _CONSTRUCTORS.keys() | _INERT

_LITERALS = {
    "INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1", "LONG4", "FLOAT", "BINFLOAT",
    "STRING", "BINSTRING", "SHORT_BINSTRING", "UNICODE", "BINUNICODE", "BINBYTES", "SHORT_BINBYTES",
}  # fmt: skip
_CONSTANTS: dict[str, Callable[[], Any]] = {
    "NONE": lambda: None,
    "NEWTRUE": lambda: True,
    "NEWFALSE": lambda: False,
    "EMPTY_LIST": list,
    "EMPTY_TUPLE": tuple,
    "EMPTY_DICT": dict,
    "MARK": lambda: _MARK,
}


@dataclass
class _StackMachine:
    what: str
    stack: list[Any] = field(default_factory=list)
    memo: dict[int, Any] = field(default_factory=dict)

    def result(self) -> Any:
        if len(self.stack) != 1:
            raise ValueError(f"it leaves {len(self.stack)} values instead of one")
        return self._peek()

    def _peek(self) -> Any:
        if not self.stack:
            raise ValueError("it takes more values than it gives")
        if self.stack[-1] is _MARK:
            raise ValueError("it opens a list where a value was expected")
        return self.stack[-1]

    def _pop(self) -> Any:
        value = self._peek()
        del self.stack[-1]
        return value

    def _last(self, count: int) -> list[Any]:
        return [self._pop() for _ in range(count)][::-1]

    def step(self, name: str, argument: Any) -> None:
        if name in _LITERALS:
            self.stack.append(argument)
        elif name in _CONSTANTS:
            self.stack.append(_CONSTANTS[name]())
        elif name in ("PUT", "BINPUT", "LONG_BINPUT"):
            self.memo[int(argument)] = self._peek()
        elif name in ("GET", "BINGET", "LONG_BINGET"):
            self.stack.append(self.memo[int(argument)])
        elif name == "GLOBAL":
            self.stack.append(self._name(argument))
        elif name in ("REDUCE", "NEWOBJ"):
            called, arguments = self._last(2)
            self.stack.append(self._construct(called, arguments, new=name == "NEWOBJ"))
        elif name == "BUILD":
            state = self._pop()
            self._top(_Blank).state = state
        elif name != "PROTO":
            self._containers(name)

    def _containers(self, name: str) -> None:
        if name in ("TUPLE1", "TUPLE2", "TUPLE3"):
            self.stack.append(tuple(self._last(int(name[-1]))))
        elif name == "TUPLE":
            self.stack.append(tuple(self._since_mark()))
        elif name == "LIST":
            self.stack.append(self._since_mark())
        elif name == "DICT":
            self.stack.append(_pairs(self._since_mark()))
        elif name in ("APPEND", "APPENDS"):
            items = self._last(1) if name == "APPEND" else self._since_mark()
            self._top(list).extend(items)
        elif name in ("SETITEM", "SETITEMS"):
            items = self._last(2) if name == "SETITEM" else self._since_mark()
            self._top(dict).update(_pairs(items))
        else:
            raise DataUnavailable(
                f"{self.what} uses the pickle instruction {name}, which plain data do not need; "
                f"nothing in it was run, and the file is refused"
            )

    def _name(self, argument: Any) -> _Name:
        path = str(argument).replace(" ", ".")
        if path not in _KNOWN:
            raise DataUnavailable(
                f"{self.what} asks for {path!r}, which is neither an array nor a dictionary; "
                f"nothing in it was run, and the file is refused"
            )
        return _Name(path)

    def _construct(self, called: Any, arguments: Any, *, new: bool) -> Any:
        if not isinstance(called, _Name) or not isinstance(arguments, tuple):
            raise ValueError("it calls something that is not a known constructor")
        if called.path in _CLASSES and new:
            return _Blank(_CLASSES[called.path])
        if called.path in _CONSTRUCTORS:
            return _CONSTRUCTORS[called.path](*arguments)
        raise ValueError(f"it calls {called.path}")

    def _since_mark(self) -> list[Any]:
        position = len(self.stack) - 1
        while position >= 0 and self.stack[position] is not _MARK:
            position -= 1
        if position < 0:
            raise ValueError("it closes a list that it never opened")
        items = self.stack[position + 1 :]
        del self.stack[position:]
        return items

    def _top(self, kind: type[Any]) -> Any:
        value = self._peek()
        if not isinstance(value, kind):
            raise ValueError(f"it fills a {type(value).__name__} as if it were a {kind.__name__}")
        return value


def _pairs(items: list[Any]) -> dict[Any, Any]:
    if len(items) % 2:
        raise ValueError("a dictionary has a key without a value")
    # Hashing other keys could take forever, or overflow the stack, on tuples crafted for that.
    if not all(type(key) in (int, str, bytes) for key in items[::2]):
        raise ValueError("a dictionary has a key that is neither text nor a whole number")
    return dict(zip(items[::2], items[1::2], strict=True))
