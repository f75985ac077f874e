"""The identity of a function by what it does, not where it lies: code, constants, captured values, callees.

Numba does not notice that a callee or a captured value changed, so whatever is kept on disk is named by this.
"""

from __future__ import annotations

import enum
import hashlib
import types
from typing import Any

import numpy as np

_KNOWN = ("math", "cmath", "operator", "numpy", "numba", "scipy")


class Unknown(Exception):
    """A captured value has no stable identity, so nothing made from the function may be kept on disk."""


def fingerprint(*things: Any) -> str | None:
    """A hash of functions and values that is the same in every process, or None where there is none."""
    digest = hashlib.sha256()
    try:
        for thing in things:
            _add(digest, thing, set())
    except Unknown:
        return None
    return digest.hexdigest()


def is_library(thing: Any) -> bool:
    """Whether a function or module belongs to a library that Numba knows by itself."""
    name = thing.__name__ if isinstance(thing, types.ModuleType) else getattr(thing, "__module__", None) or ""
    return name.split(".")[0] in _KNOWN or name.startswith("penstock.kernels")


def names_used(code: types.CodeType) -> set[str]:
    """The global and attribute names in a code object and in the ones nested in it."""
    used = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            used |= names_used(constant)
    return used


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
        raise Unknown(repr(thing))
    digest.update(b";")


def _add_class(digest: Any, cls: type, seen: set[int]) -> None:
    """A class that is not a library's has an identity where its members are known."""
    if issubclass(cls, enum.Enum):
        _add(digest, [(member.name, member.value) for member in cls], seen)
    elif hasattr(cls, "_fields"):
        digest.update(repr(cls._fields).encode())
    elif cls.__module__ != "builtins" and not is_library(cls):
        raise Unknown(repr(cls))


def _add_module(digest: Any, module: types.ModuleType, used: set[str], seen: set[int]) -> None:
    """What a function may reach through a module of the user's: Numba takes its constants as they are."""
    for attribute in sorted(used & set(vars(module))):
        value = getattr(module, attribute)
        digest.update(attribute.encode())
        _add(digest, value, seen)
        if isinstance(value, types.ModuleType) and not is_library(value) and id(value) not in seen:
            _add_module(digest, value, used, seen | {id(value)})


def _add_code(digest: Any, code: types.CodeType, seen: set[int]) -> None:
    digest.update(code.co_code + repr((code.co_names, code.co_varnames, code.co_argcount, code.co_flags)).encode())
    for constant in code.co_consts:
        _add(digest, constant, seen)


def _add_function(digest: Any, function: types.FunctionType, seen: set[int]) -> None:
    _add_code(digest, function.__code__, seen)
    _add(digest, function.__defaults__, seen)
    for cell in function.__closure__ or ():
        try:
            _add(digest, cell.cell_contents, seen)
        except ValueError:  # an empty cell: the function would fail on it anyway
            digest.update(b"empty")
    used = names_used(function.__code__)
    for name in sorted(used):
        if name in function.__globals__:
            value = function.__globals__[name]
            digest.update(name.encode())
            _add(digest, value, seen)
            if isinstance(value, types.ModuleType) and not is_library(value):
                _add_module(digest, value, used, seen | {id(value)})
