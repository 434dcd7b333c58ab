"""Named tuples that compiled code takes by reference.

Numba hands over a tuple by value: every array in it is seven arguments or more, of every function that it passes
through. Dozens of arrays then take longer to compile than the code that uses them. A tuple by reference is one pointer
to a table of its fields. Compiled code reads a field where it needs it, and may assume that the table never changes.
The table is made in Python, when the tuple is first handed over.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np
from llvmlite import ir
from numba import typeof, types
from numba.core import cgutils
from numba.core.datamodel import models
from numba.core.errors import TypingError
from numba.core.imputils import lower_getattr_generic
from numba.core.typing.templates import AttributeTemplate, infer_getattr
from numba.extending import NativeValue, intrinsic, register_model, typeof_impl, unbox
from numba.np.arrayobj import make_array

T = TypeVar("T")

_WORD = 8
_POINTER = ir.IntType(8).as_pointer()


def by_reference(cls: type[T]) -> type[T]:
    """Let compiled code take a class of named tuples by reference.

    Fields are arrays, numbers, other tuples by reference, and functions (:class:`Compiled`). Compiled code reads them
    by name; it cannot make new tuples.

    Examples
    --------
    >>> from typing import NamedTuple
    >>> from numba import njit
    >>> @by_reference
    ... class Line(NamedTuple):
    ...     slope: float
    ...     points: np.ndarray
    >>> @njit
    ... def height(line, i):
    ...     return line.slope * line.points[i]
    >>> height(Line(2.0, np.array([1.0, 5.0])), 1)
    10.0
    """
    body = {
        "__module__": cls.__module__,
        "__qualname__": cls.__qualname__,
        "__doc__": cls.__doc__,
        "__getstate__": lambda _: None,  # addresses mean nothing in another process
        "_address": property(_address),
    }
    made: type[T] = type(cls.__name__, (cls,), body)
    typeof_impl.register(made, _type_of)
    return made


def _address(values: Any) -> int:
    """Where the table of the fields lies; it lives as long as the tuple."""
    kept: tuple[Any, int] | None = vars(values).get("_table")
    if kept is None:
        table = np.frombuffer(b"".join(map(_entry, values)), dtype=np.int64)
        # Another thread may make one at the same time: the first that is kept stays.
        kept = vars(values).setdefault("_table", (table, int(table.ctypes.data)))
    return kept[1]


def _entry(value: Any) -> bytes:
    """One field, in the layout that Numba gives to its type, in words of eight bytes."""
    if isinstance(value, np.ndarray):
        return struct.pack(
            f"{5 + 2 * value.ndim}q",
            *(0, 0, value.size, value.itemsize, value.ctypes.data, *value.shape, *value.strides),
        )
    if isinstance(value, Compiled | Anything):
        return struct.pack("q", value.address)
    if hasattr(value, "_address"):
        return struct.pack("q", value._address)
    return struct.pack("d" if isinstance(value, float) else "q", value)


class Reference(types.Type):  # type: ignore[misc]
    """The type of a tuple by reference, in compiled code: its class, and the Numba types of its members."""

    def __init__(self, instance_class: type, members: tuple[Any, ...]) -> None:
        self.instance_class, self.members = instance_class, members
        self.fields: tuple[str, ...] = instance_class._fields  # type: ignore[attr-defined]
        name = f"{instance_class.__module__}.{instance_class.__qualname__}"
        super().__init__(name=f"reference({name}, {', '.join(map(str, members))})")

    def place(self, field: str) -> int:
        """The word of the table at which a field begins."""
        before = self.members[: self.fields.index(field)]
        return sum(5 + 2 * kind.ndim if isinstance(kind, types.Array) else 1 for kind in before)


def _type_of(values: Any, context: Any) -> Reference:
    # Kept, since it is asked for whenever compiled code is called.
    if "_type" not in vars(values):
        vars(values)["_type"] = Reference(type(values), tuple(typeof_impl(value, context) for value in values))
    kind: Reference = vars(values)["_type"]
    return kind


@register_model(Reference)
class _Model(models.PrimitiveModel):  # type: ignore[misc]
    def __init__(self, manager: Any, kind: Reference) -> None:
        super().__init__(manager, kind, _POINTER)


@unbox(Reference)
def _unbox(kind: Reference, values: Any, c: Any) -> Any:
    address = c.pyapi.object_getattr_string(values, "_address")
    pointer = c.pyapi.long_as_voidptr(address)
    c.pyapi.decref(address)
    return NativeValue(pointer, is_error=cgutils.is_not_null(c.builder, c.pyapi.err_occurred()))


@infer_getattr
class _Fields(AttributeTemplate):  # type: ignore[misc]
    key = Reference

    def generic_resolve(self, kind: Reference, field: str) -> Any:
        return kind.members[kind.fields.index(field)] if field in kind.fields else None


@lower_getattr_generic(Reference)
def _read(context: Any, builder: Any, kind: Reference, pointer: Any, field: str) -> Any:
    member, place = kind.members[kind.fields.index(field)], kind.place(field)

    def word(k: int, as_type: Any) -> Any:
        at = builder.gep(pointer, [ir.Constant(ir.IntType(64), _WORD * (place + k))])
        found = builder.load(builder.bitcast(at, as_type.as_pointer()))
        found.set_metadata("invariant.load", builder.module.add_metadata([]))
        return found

    integer = context.get_value_type(types.intp)
    if isinstance(member, types.Array):
        array = make_array(member)(context, builder)
        nothing = context.get_constant_null(types.voidptr)
        array.meminfo, array.parent = nothing, nothing
        array.nitems = word(2, integer)
        array.itemsize = context.get_constant(types.intp, context.get_abi_sizeof(context.get_data_type(member.dtype)))
        array.data = word(4, array.data.type)
        array.shape = cgutils.pack_array(builder, [word(5 + k, integer) for k in range(member.ndim)])
        array.strides = cgutils.pack_array(builder, [word(5 + member.ndim + k, integer) for k in range(member.ndim)])
        return array._getvalue()
    stored = word(0, context.get_data_type(member))
    return context.data_model_manager[member].from_data(builder, stored)


# -- functions ---------------------------------------------------------------------------------------------------------


class Compiled:
    """A compiled function as a field of a tuple by reference, to be called by :func:`call`.

    The caller holds its address, not its code: so it need not be compiled again for another function. The function is
    as :func:`labelcert.compiling.compiled` made it, or None where it will never be called. The result is a Numba type,
    and the arguments are values such as it will be called with.
    """

    def __init__(self, function: Any, result: Any, arguments: Sequence[Any]) -> None:
        self.result, self.address = result, 0
        # The first argument is handed on as :class:`Anything`.
        self.arguments = tuple(typeof(value) for value in arguments[1:])
        if function is None:
            return
        signature = tuple(typeof(value) for value in arguments)
        function.compile(signature)
        found = function.overloads[signature]
        returned = types.unliteral(found.signature.return_type)
        if returned != result:
            raise TypeError(f"expected a function that returns {result}, got {returned}")
        self.address = found.library.get_pointer_to_function(found.fndesc.llvm_func_name)


class Anything:
    """A tuple by reference as a field whose type the reader does not know, and only hands on."""

    def __init__(self, values: Any) -> None:
        self.values = values

    @property
    def address(self) -> int:
        """Where its fields are."""
        return 0 if self.values is None else int(self.values._address)


class Address(types.Type):  # type: ignore[misc]
    """The type of a :class:`Compiled` (with a result) or of :class:`Anything` in compiled code."""

    def __init__(self, result: Any = None, arguments: tuple[Any, ...] = ()) -> None:
        self.result, self.arguments = result, arguments
        super().__init__(name=f"address({result}, {', '.join(map(str, arguments))})")


@typeof_impl.register(Compiled)
@typeof_impl.register(Anything)
def _type_of_address(value: Any, context: Any) -> Address:
    return Address(getattr(value, "result", None), getattr(value, "arguments", ()))


register_model(Address)(_Model)


@intrinsic
def _call(typing_context: Any, function: Any, arguments: Any) -> Any:
    """Call a :class:`Compiled` with a tuple of arguments, from compiled code; the first is :class:`Anything`."""
    given = tuple(types.unliteral(kind) for kind in arguments.types[1:])
    if given != function.arguments:
        raise TypingError(f"the function takes {function.arguments}, got {given}")

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        pointer, given = values
        convention = context.call_conv
        kind = convention.get_function_type(function.result, arguments.types)
        target = builder.bitcast(pointer, kind.as_pointer())
        each = [builder.extract_value(given, k) for k in range(len(arguments.types))]
        status, result = convention.call_function(builder, target, function.result, arguments.types, each)
        with cgutils.if_unlikely(builder, status.is_error):
            convention.return_status_propagate(builder, status)
        return result

    return function.result(function, arguments), generate


call: Any = _call
