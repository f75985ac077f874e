"""What a predicate says of single fields, so that a source can leave out what cannot pass.

Only a function that does nothing but compare fields with constants, joined by `and`, is understood. Its bytecode is
looked at first: it may hold nothing but loads, comparisons and jumps forward, and the constants must be plain numbers.
Such a function has no effects, so it can be run with stand-ins for its fields, which note what they are compared with;
and a few runs tell whether all comparisons must be true for the function to be.
"""

from __future__ import annotations

import dis
import types as python_types
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from penstock.graph import types
from penstock.graph.function import Function, Parameter
from penstock.graph.split import Bound

HARMLESS = frozenset(
    {
        "CACHE", "COMPARE_OP", "COPY", "COPY_FREE_VARS", "EXTENDED_ARG", "JUMP_FORWARD", "JUMP_IF_FALSE_OR_POP",
        "JUMP_IF_TRUE_OR_POP", "LOAD_CONST", "LOAD_DEREF", "LOAD_FAST", "LOAD_FAST_BORROW",
        "LOAD_FAST_BORROW_LOAD_FAST_BORROW", "LOAD_FAST_LOAD_FAST", "LOAD_GLOBAL", "LOAD_SMALL_INT", "NOP", "NOT_TAKEN",
        "POP_JUMP_FORWARD_IF_FALSE", "POP_JUMP_FORWARD_IF_TRUE", "POP_JUMP_IF_FALSE", "POP_JUMP_IF_TRUE", "POP_TOP",
        "PRECALL", "RESUME", "RETURN_CONST", "RETURN_VALUE", "ROT_THREE", "ROT_TWO", "SWAP", "TO_BOOL",
    }
)  # fmt: skip
"""Instructions of Python 3.11 and later that neither call nor store anything. None of them jumps back."""

EXACT = 2**53
"""Up to here every integer is a float, so that comparing one with the other is exact however it is done."""


class _NotUnderstood(Exception):
    """The function is not a conjunction of comparisons with constants."""


def bounds_of(predicate: Function) -> tuple[Bound, ...]:
    """What must hold of single fields for a predicate to be true; nothing where that is not plain to see."""
    function = getattr(predicate.call, "py_func", predicate.call)
    if not isinstance(function, python_types.FunctionType) or any(p.is_record for p in predicate.parameters):
        return ()
    try:
        _refuse_effects(function)
        return tuple(_bounds(predicate.parameters, _conjunction(function, predicate.parameters)))
    except _NotUnderstood:
        return ()


def _refuse_effects(function: python_types.FunctionType) -> None:
    """Refuse a function that could do more than compare: one that calls, stores, loops, or compares other objects."""
    for instruction in dis.get_instructions(function):
        if instruction.opname not in HARMLESS:
            raise _NotUnderstood(instruction.opname)
        if instruction.opname == "LOAD_GLOBAL" and not _is_plain(function.__globals__.get(instruction.argval)):
            raise _NotUnderstood(instruction.argval)
    defaults = (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values())
    try:
        captured = [cell.cell_contents for cell in function.__closure__ or ()]
    except ValueError:  # an empty cell: the function would fail on it anyway
        raise _NotUnderstood("captured") from None
    if not all(_is_plain(value) for value in (*captured, *defaults)):
        raise _NotUnderstood("captured")


def _is_plain(value: object) -> bool:
    return isinstance(value, (bool, int, float, np.float64, np.integer))


@dataclass(eq=False)
class _RowRun:
    """One run of a function, in which all comparisons are true but one."""

    fails: int | None
    made: list[_Comparison] = field(default_factory=list)

    def note(self, name: str, relation: str, value: object) -> _Comparison:
        if not _is_plain(value):
            raise _NotUnderstood(f"compared with {value!r}")
        self.made.append(_Comparison(name, relation, value, len(self.made) != self.fails))
        return self.made[-1]


@dataclass(eq=False)
class _Comparison:
    """The result of comparing a field with a constant: true or false as the run wants it."""

    field: str
    relation: str
    value: Any
    truth: bool

    def __bool__(self) -> bool:
        return self.truth


class _Field:
    """Stands for a field: notes what it is compared with."""

    __array_ufunc__ = None  # so that a NumPy number on the left leaves the comparison to us

    def __init__(self, run: _RowRun, name: str) -> None:
        self._run, self._name = run, name

    def _compare(self, relation: str, other: object) -> _Comparison:
        return self._run.note(self._name, relation, other)

    def __lt__(self, other: object) -> Any:
        return self._compare("<", other)

    def __le__(self, other: object) -> Any:
        return self._compare("<=", other)

    def __gt__(self, other: object) -> Any:
        return self._compare(">", other)

    def __ge__(self, other: object) -> Any:
        return self._compare(">=", other)

    def __eq__(self, other: object) -> Any:
        return self._compare("==", other)

    def __ne__(self, other: object) -> Any:
        return self._compare("!=", other)

    def __bool__(self) -> bool:
        raise _NotUnderstood("a field is asked whether it is true")


def _conjunction(function: python_types.FunctionType, parameters: Sequence[Parameter]) -> list[_Comparison]:
    """The comparisons of which all must be true for the function to be.

    Where they are all true, so must be the result; and where the first so many are true and the next is false, the
    result must be false without a further look. Then there is no other way to be true.
    """
    run = _RowRun(None)
    if not _result(function, parameters, run):
        raise _NotUnderstood("it is never true")
    for at in range(len(run.made)):
        other = _RowRun(at)
        if _result(function, parameters, other) or len(other.made) != at + 1:
            raise _NotUnderstood("it may be true although a comparison is not")
    return run.made


def _result(function: python_types.FunctionType, parameters: Sequence[Parameter], run: _RowRun) -> bool:
    result = function(**{p.name: _Field(run, p.field) for p in parameters})
    if not isinstance(result, (_Comparison, bool, int, float, np.bool_, type(None))):
        raise _NotUnderstood("it gives something else")
    return bool(result)


def _bounds(parameters: Sequence[Parameter], made: Sequence[_Comparison]) -> Iterator[Bound]:
    known = {p.field: p.type for p in parameters}
    for comparison in made:
        t = known[comparison.field]
        if not types.is_scalar(t):
            raise _NotUnderstood(f"{comparison.field} is no number")
        value = comparison.value.item() if isinstance(comparison.value, np.generic) else comparison.value
        # Where one side is a float, both are compared as floats.
        is_exact = isinstance(value, float) if types.is_float(t) else type(comparison.value) in (int, bool)
        if comparison.relation != "!=" and (is_exact or abs(value) <= EXACT) and abs(value) <= types.INT64_MAX:
            yield Bound(comparison.field, comparison.relation, value)
