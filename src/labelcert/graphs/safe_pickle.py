"""Reads the data in a pickle without executing it.

A pickle is a program for a stack machine that may import and call anything. This module never hands one to
`pickle`: it lets `pickletools` split the bytes into instructions (which runs none of them) and interprets
the few that plain data need. A global name is only ever a string here, looked up in a fixed table of
constructors for arrays, CSR matrices and dictionaries; every other name, and every other instruction, is
refused.
"""

from __future__ import annotations

import pickletools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from labelcert.errors import DataUnavailable

_PLAIN_KINDS = "biuf"
_MARK = object()


def read_pickled_data(content: bytes, *, what: str = "the file") -> Any:
    r"""Numbers, text, lists, tuples, dictionaries, arrays and CSR matrices in a pickle (protocols 0 to 3).

    Parameters
    ----------
    content : bytes
        The pickle, as Python 2 or 3 wrote it. Strings of Python 2 are read as Latin-1.
    what : str
        What is being read, named in messages.

    Raises
    ------
    DataUnavailable
        If the pickle asks for anything else, or is damaged.

    Examples
    --------
    >>> read_pickled_data(b"(lp0\nI1\naI2\na.")
    [1, 2]
    >>> read_pickled_data(b"cos\nsystem\n(S'true'\ntR.")
    Traceback (most recent call last):
    labelcert.errors.DataUnavailable: the file asks for 'os.system', ... nothing of it was run...
    """
    machine = _StackMachine(what)
    try:
        for instruction, argument, _ in pickletools.genops(content):
            if instruction.name == "STOP":
                return _finished(machine.result(), {})
            machine.step(instruction.name, argument)
    except (ValueError, TypeError, KeyError, IndexError, AttributeError, RecursionError) as error:
        raise DataUnavailable(f"{what} is damaged: it cannot be read as pickled data ({error})") from error
    raise DataUnavailable(f"{what} is damaged: it ends before its data do")


@dataclass(frozen=True)
class _Name:
    """A global name that the pickle mentions; it stands for nothing until a rule below says so."""

    path: str


@dataclass
class _Blank:
    """An object under construction: what it will be, and the state that the pickle gives it."""

    kind: str
    state: Any = None
    dtype: np.dtype[Any] | None = None


def _finished(value: Any, done: dict[int, Any]) -> Any:
    """Replace objects under construction by the data that they describe, each only once."""
    if isinstance(value, _Name):
        raise ValueError(f"it holds the name {value.path!r} where data were expected")
    if not isinstance(value, _Blank | list | tuple | dict):
        return value
    if id(value) not in done:
        done[id(value)] = _built(value, done)
    return done[id(value)]


def _built(value: _Blank | list[Any] | tuple[Any, ...] | dict[Any, Any], done: dict[int, Any]) -> Any:
    if isinstance(value, list):
        return [_finished(item, done) for item in value]
    if isinstance(value, tuple):
        return tuple(_finished(item, done) for item in value)
    if isinstance(value, dict):
        return {_finished(key, done): _finished(item, done) for key, item in value.items()}
    return {"ndarray": _array, "csr": _csr, "dtype": _dtype}[value.kind](value)


def _raw_bytes(value: Any) -> bytes:
    return value if isinstance(value, bytes) else str(value).encode("latin-1")


def _dtype(blank: _Blank) -> np.dtype[Any]:
    if blank.dtype is None:
        raise ValueError("an array has no type")
    if isinstance(blank.state, tuple) and len(blank.state) > 1 and blank.state[1] in ("<", ">"):
        return blank.dtype.newbyteorder(blank.state[1])
    return blank.dtype


def _array(blank: _Blank) -> Any:
    _, shape, dtype, fortran, content = blank.state
    flat = np.frombuffer(_raw_bytes(content), dtype=_dtype(dtype))
    return flat.reshape(tuple(int(s) for s in shape), order="F" if fortran else "C").copy()


def _csr(blank: _Blank) -> Any:
    state = blank.state
    shape = state["_shape"] if "_shape" in state else state["shape"]
    data, indices, indptr = (_array(state[part]) for part in ("data", "indices", "indptr"))
    matrix = csr_array((data, indices, indptr), shape=(int(shape[0]), int(shape[1])))
    matrix.check_format(full_check=True)
    return matrix


def _new_dtype(code: Any, *_: Any) -> _Blank:
    dtype = np.dtype(str(_raw_bytes(code), "ascii"))
    if dtype.kind not in _PLAIN_KINDS:
        raise ValueError(f"arrays of numbers were expected, not of type {dtype}")
    return _Blank("dtype", dtype=dtype)


def _new_scalar(dtype: _Blank, content: Any) -> Any:
    return np.frombuffer(_raw_bytes(content), dtype=_dtype(dtype)).item()


def _new_object(base: _Name, *_: Any) -> _Blank:
    return _Blank(_CLASSES[base.path])


def _new_dict(*_: Any) -> dict[Any, Any]:
    return {}


def _encoded(text: str, encoding: str = "latin1") -> bytes:
    if encoding not in ("latin1", "latin-1"):
        raise ValueError(f"Latin-1 was expected, not {encoding}")
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
        return self.stack[0]

    def step(self, name: str, argument: Any) -> None:
        if name in _LITERALS:
            self.stack.append(argument)
        elif name in _CONSTANTS:
            self.stack.append(_CONSTANTS[name]())
        elif name in ("PUT", "BINPUT", "LONG_BINPUT"):
            self.memo[int(argument)] = self.stack[-1]
        elif name in ("GET", "BINGET", "LONG_BINGET"):
            self.stack.append(self.memo[int(argument)])
        elif name == "GLOBAL":
            self.stack.append(self._name(argument))
        elif name in ("REDUCE", "NEWOBJ"):
            arguments, called = self.stack.pop(), self.stack.pop()
            self.stack.append(self._construct(called, arguments, new=name == "NEWOBJ"))
        elif name == "BUILD":
            state = self.stack.pop()
            self._blank().state = state
        elif name != "PROTO":
            self._containers(name)

    def _containers(self, name: str) -> None:
        if name in ("TUPLE1", "TUPLE2", "TUPLE3"):
            size = int(name[-1])
            items = self.stack[-size:]
            del self.stack[-size:]
            self.stack.append(tuple(items))
        elif name == "TUPLE":
            self.stack.append(tuple(self._since_mark()))
        elif name == "LIST":
            self.stack.append(self._since_mark())
        elif name == "DICT":
            self.stack.append(_pairs(self._since_mark()))
        elif name in ("APPEND", "APPENDS"):
            items = [self.stack.pop()] if name == "APPEND" else self._since_mark()
            self._top(list).extend(items)
        elif name in ("SETITEM", "SETITEMS"):
            items = self._last_two() if name == "SETITEM" else self._since_mark()
            self._top(dict).update(_pairs(items))
        else:
            raise DataUnavailable(
                f"{self.what} uses the pickle instruction {name}, which plain data do not need; "
                f"nothing of it was run, and the file is refused"
            )

    def _name(self, argument: Any) -> _Name:
        path = str(argument).replace(" ", ".")
        if path not in _KNOWN:
            raise DataUnavailable(
                f"{self.what} asks for {path!r}, which is neither an array nor a dictionary; "
                f"nothing of it was run, and the file is refused"
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

    def _last_two(self) -> list[Any]:
        items = self.stack[-2:]
        del self.stack[-2:]
        return items

    def _top(self, kind: type[Any]) -> Any:
        if not isinstance(self.stack[-1], kind):
            raise ValueError(f"it fills a {type(self.stack[-1]).__name__} as if it were a {kind.__name__}")
        return self.stack[-1]

    def _blank(self) -> _Blank:
        return self._top(_Blank)  # type: ignore[no-any-return]


def _pairs(items: list[Any]) -> dict[Any, Any]:
    if len(items) % 2:
        raise ValueError("a dictionary has a key without a value")
    return dict(zip(items[::2], items[1::2], strict=True))
