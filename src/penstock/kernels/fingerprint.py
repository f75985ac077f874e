"""The identity of a function by what it does, not where it lies: code, constants, captured values, callees.

Numba does not notice that a callee or a captured value changed, so whatever is kept on disk is named by this.
"""

from __future__ import annotations

import dis
import enum
import hashlib
import types
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import numpy as np

_KNOWN = ("math", "cmath", "operator", "numpy", "numba", "scipy")


class Unknown(Exception):
    """A captured value has no stable identity, so nothing made from the function may be kept on disk."""

    def __init__(self, reason: str, *, is_named: bool = False) -> None:
        super().__init__(reason)
        self.is_named = is_named


def fingerprint(*things: Any) -> str | None:
    """A hash of functions and values that is the same in every process, or None where there is none."""
    try:
        return _digest(things)
    except Unknown:
        return None


def why_unknown(*things: Any) -> str | None:
    """Why `fingerprint` gives None: the captured value that has no identity. None where there is a fingerprint."""
    try:
        _digest(things)
    except Unknown as error:
        return str(error)
    return None


def _digest(things: tuple[Any, ...]) -> str:
    digest = hashlib.sha256()
    for thing in things:
        _add(digest, thing, set())
    return digest.hexdigest()


def is_library(thing: Any) -> bool:
    """Whether a function or module belongs to a library that Numba knows by itself."""
    name = thing.__name__ if isinstance(thing, types.ModuleType) else getattr(thing, "__module__", None) or ""
    return name.split(".")[0] in _KNOWN or name.startswith("penstock.kernels")


_READS_GLOBAL = ("LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS")
_READS_CELL = ("LOAD_DEREF", "LOAD_CLASSDEREF", "LOAD_FROM_DICT_OR_DEREF")
_READS_ATTRIBUTE = ("LOAD_ATTR", "LOAD_METHOD")

Read = tuple[str, tuple[str, ...]]
"""A name from outside that code reads, and the attributes that it reads of it at once: `a.b.c` is (a, (b, c))."""


def globals_read(code: types.CodeType) -> set[str]:
    """The names that a code object, and those nested in it, look up as globals. Attributes are not among them."""
    return {name for name, _ in _reads(code, _READS_GLOBAL)}


@lru_cache(maxsize=4096)
def _reads(code: types.CodeType, kinds: tuple[str, ...]) -> frozenset[Read]:
    """What code reads by instructions of these kinds, with the attributes that follow."""
    reads: set[Read] = set()
    for nested in _nested_codes(code):
        instructions = list(dis.get_instructions(nested))
        for at, instruction in enumerate(instructions):
            if instruction.opname in kinds:
                reads.add((instruction.argval, _attributes(instructions[at + 1 :])))
    return frozenset(reads)


def _attributes(following: list[dis.Instruction]) -> tuple[str, ...]:
    attributes: list[str] = []
    for instruction in following:
        if instruction.opname not in _READS_ATTRIBUTE:
            break
        attributes.append(instruction.argval)
    return tuple(attributes)


def _nested_codes(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _nested_codes(constant)


def _add(digest: Any, thing: Any, seen: set[int]) -> None:
    thing = getattr(thing, "py_func", thing)
    digest.update(type(thing).__name__.encode() + b":")
    if isinstance(thing, types.FunctionType):
        if is_library(thing):
            digest.update(f"{thing.__module__}.{thing.__qualname__}".encode())
        elif id(thing) not in seen:
            _add_function(digest, thing, seen | {id(thing)})
    elif isinstance(thing, types.CodeType):
        _add_code(digest, thing, seen)
    elif isinstance(thing, (tuple, list)):
        digest.update(f"{len(thing)}{getattr(thing, '_fields', '')}".encode())
        for element in thing:
            _add(digest, element, seen)
    elif isinstance(thing, np.ndarray) and not thing.dtype.hasobject:
        digest.update(f"{thing.dtype.str}{thing.dtype.descr}{thing.shape}".encode() + thing.tobytes())
    elif isinstance(thing, np.dtype):
        digest.update(f"{thing.descr}{thing.itemsize}".encode())
    elif thing is None or thing is ... or isinstance(thing, (bool, int, float, complex, str, bytes, np.generic)):
        digest.update(repr(thing).encode())
    elif isinstance(thing, (frozenset, set)):
        for text in sorted(map(repr, thing)):
            digest.update(text.encode())
    elif isinstance(thing, (type, types.BuiltinFunctionType, types.ModuleType, np.ufunc)):
        digest.update(f"{getattr(thing, '__module__', '')}.{getattr(thing, '__qualname__', thing.__name__)}".encode())
        if isinstance(thing, type):
            _add_class(digest, thing, seen)
    else:
        raise Unknown(f"an instance of {type(thing).__name__} has no fixed value")
    digest.update(b";")


def _add_class(digest: Any, cls: type, seen: set[int]) -> None:
    """A class that is not a library's has an identity where its members are known."""
    if issubclass(cls, enum.Enum):
        _add(digest, [(member.name, member.value) for member in cls], seen)
    elif hasattr(cls, "_fields"):
        digest.update(repr(cls._fields).encode())
    elif cls.__module__ != "builtins" and not is_library(cls):
        raise Unknown(f"the class {cls.__name__} has no fixed value")


def _add_code(digest: Any, code: types.CodeType, seen: set[int]) -> None:
    digest.update(code.co_code + repr((code.co_names, code.co_varnames, code.co_argcount, code.co_flags)).encode())
    for constant in code.co_consts:
        _add(digest, constant, seen)


def _add_function(digest: Any, function: types.FunctionType, seen: set[int]) -> None:
    _add_code(digest, function.__code__, seen)
    _add(digest, function.__defaults__, seen)
    _add(digest, sorted((function.__kwdefaults__ or {}).items()), seen)
    for name, attributes, value in _outer_values(function):
        digest.update(name.encode())
        _add_outer(digest, name, attributes, value, seen)


def _outer_values(function: types.FunctionType) -> Iterator[tuple[str, tuple[str, ...], Any]]:
    """What a function reads from outside: captured variables, then globals, with the attributes it reads of each."""
    reads = sorted(_reads(function.__code__, _READS_CELL))
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            value = cell.cell_contents
        except ValueError:  # an empty cell: the function would fail on it anyway
            value = "empty"
        chains = [attributes for read, attributes in reads if read == name]
        yield from ((name, attributes, value) for attributes in chains or [()])
    for name, attributes in sorted(_reads(function.__code__, _READS_GLOBAL)):
        if name in function.__globals__:
            yield name, attributes, function.__globals__[name]


def _add_outer(digest: Any, name: str, attributes: tuple[str, ...], value: Any, seen: set[int]) -> None:
    """A value from outside; of a module of the user's what is read of it, because Numba takes that as a constant."""
    try:
        _add(digest, value, seen)
        while attributes and _is_own_module(value):
            name, value, attributes = f"{name}.{attributes[0]}", getattr(value, attributes[0], None), attributes[1:]
            digest.update(name.encode())
            _add(digest, value, seen)
        if _is_own_module(value):
            raise Unknown("a module has a fixed value only where it is used as `module.name`")
    except Unknown as error:
        raise error if error.is_named else Unknown(f"it uses {name!r}, and {error}", is_named=True) from None


def _is_own_module(value: Any) -> bool:
    return isinstance(value, types.ModuleType) and not is_library(value)
