"""What compiled code may do with texts, bytes, arrays and records: only what means the same in plain Python.

Numba finds a meaning for much that Python means otherwise: a text in a tuple of texts is never found, because an array
is never equal to a str, and `str` of any object it does not know is the name of its type. So this is a list of what is
right, applied to the typed form of every function of the user's, the functions that it calls included. An operation
on such a value, or on anything made of one (a tuple, an iterator, a bound method), that is not in the list is a reason
to run the function interpreted, where a text is a `str`, bytes are `bytes` and a list is a NumPy array.
"""

from __future__ import annotations

import builtins
import operator
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from numba.core import errors, ir, types
from numba.core.compiler_machinery import AnalysisPass, register_pass

from penstock.kernels.text_types import Bytes, Text, holds

_MOVES = ("phi", "cast", "build_tuple", "exhaust_iter", "getiter", "iternext", "pair_first", "pair_second")
"""Expressions that hand a value on as it is, one value after the other."""

_OF_BYTES = {len, enumerate, zip, np.frombuffer}
_OF_ARRAYS = {len, enumerate, zip, iter, min, max, list, sorted, set}
_COMPARING = {"index", "count", "remove", "sort"}
"""The methods of lists that compare elements."""
_ELEMENTWISE = {
    *(operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge, operator.matmul, operator.truediv),
    *(operator.itruediv, operator.imatmul),
}


def refusal(text: str) -> errors.TypingError:
    """The reason why a function is not compiled, marked so that it is found in Numba's long message."""
    return errors.TypingError(f"penstock: {text}.")


class Replacements:
    """The operators and functions that another pass has replaced, by what they stand for; and those made for texts."""

    def __init__(self, originals: dict[Any, Any], is_checked: Callable[[Any], bool], of_texts: set[Any]) -> None:
        self.originals, self.is_checked, self.of_texts = originals, is_checked, of_texts

    def original(self, function: Any) -> Any:
        return self.originals.get(function, function) if _is_hashable(function) else function


def _is_hashable(value: Any) -> bool:
    return getattr(value, "__hash__", None) is not None and not isinstance(value, (tuple, frozenset))


def check(statements: Iterable[Any], typemap: Any, rules: Replacements) -> None:
    """Refuse the first statement that does with a text, bytes, an array or a record what is not known to be right."""
    for statement in statements:
        for kind, word, rule in _KINDS:
            if _touches(statement, typemap, kind) and not rule(statement, typemap, rules):
                raise refusal(f"{word} {_use(statement, rules)} (line {statement.loc.line})")


def _touches(statement: Any, typemap: Any, kind: Callable[[Any], bool]) -> bool:
    return any(kind(typemap[v.name]) for v in statement.list_vars() if v.name in typemap)


def _use(statement: Any, rules: Replacements) -> str:
    """What a statement does with a value, in words."""
    value = getattr(statement, "value", None)
    if not isinstance(statement, ir.Assign):
        return "is stored, or raised"
    if not isinstance(value, ir.Expr):
        return "becomes a value of another kind"
    if value.op in ("binop", "inplace_binop", "unary"):
        name = rules.original(value.fn).__name__.strip("_")
        return f"is an operand of {_SIGNS.get(name, name)!r}"
    if value.op == "call":
        return "is an argument of a call that is not known to mean the same compiled"
    if value.op == "getattr":
        return f"has its {value.attr!r} taken"
    return "is indexed or sliced" if "getitem" in value.op else f"is part of a container ({value.op})"


_SIGNS = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">=", "contains": "in", "is": "is"}
_SIGNS |= {"add": "+", "mul": "*", "mod": "%", "iadd": "+=", "imul": "*=", "not": "not", "is_not": "is not"}


def _moves(statement: Any, typemap: Any) -> bool:
    """Whether the value is only handed on, as a value of the same type."""
    if isinstance(statement, (ir.Del, ir.Return)):
        return True
    if not isinstance(statement, ir.Assign):
        return False
    value, target = statement.value, typemap[statement.target.name]
    if isinstance(value, (ir.Arg, ir.Yield)):
        return True
    if isinstance(value, ir.Var):
        return bool(typemap[value.name] == target)
    if not isinstance(value, ir.Expr) or value.op not in _MOVES:
        return False
    if value.op == "phi":
        return all(v is ir.UNDEFINED or typemap[v.name] == target for v in value.incoming_values)
    return True


def _callee(value: Any, typemap: Any) -> Any:
    return typemap[value.func.name] if isinstance(value, ir.Expr) and value.op == "call" else None


def _calls(value: Any, typemap: Any, rules: Replacements, functions: set[Any]) -> bool:
    """Whether this calls one of these functions, or one that is checked as this one is."""
    callee = _callee(value, typemap)
    if isinstance(callee, types.Dispatcher):
        return rules.is_checked(callee.dispatcher)
    if isinstance(callee, types.Function):
        original = rules.original(callee.typing_key)
        return _is_hashable(original) and original in functions
    return False


def _picks(value: Any, typemap: Any) -> bool:
    """Whether this takes an element of a tuple, by a number."""
    if not isinstance(value, ir.Expr) or value.op not in ("getitem", "static_getitem"):
        return False
    is_number = not isinstance(value.index, slice) if value.op == "static_getitem" else True
    return is_number and isinstance(typemap[value.value.name], types.BaseTuple)


def _text(statement: Any, typemap: Any, rules: Replacements) -> bool:
    if _moves(statement, typemap):
        return True
    value: Any = getattr(statement, "value", None)
    if isinstance(value, ir.Expr) and value.op == "getattr":
        return value.attr == "encode" and isinstance(typemap[value.value.name], Text)
    callee = _callee(value, typemap)
    if isinstance(callee, types.BoundFunction):
        return isinstance(callee.this, Text) and not value.args and not value.kws
    if isinstance(callee, types.Function) and _is_hashable(callee.typing_key):
        return callee.typing_key in rules.of_texts
    return _picks(value, typemap) or _calls(value, typemap, rules, set())


def _bytes(statement: Any, typemap: Any, rules: Replacements) -> bool:
    if _moves(statement, typemap):
        return True
    value = getattr(statement, "value", None)
    if isinstance(value, ir.Expr) and value.op in ("getitem", "static_getitem"):
        index = typemap[value.index.name] if value.op == "getitem" else value.index
        right = isinstance(index, (types.Integer, types.SliceType, slice)) or type(index) is int
        if isinstance(typemap[value.value.name], Bytes):
            result = typemap[statement.target.name]
            is_slice = isinstance(index, (types.SliceType, slice))
            return right and isinstance(result, Bytes if is_slice else types.Integer)
    if isinstance(_callee(value, typemap), types.BoundFunction):
        return isinstance(_callee(value, typemap).this, Text)  # encode itself
    return _picks(value, typemap) or _calls(value, typemap, rules, _OF_BYTES | {builtins.sum})


def _is_array(t: Any) -> bool:
    """Whether a type is, or is made of, NumPy arrays."""
    return isinstance(t, types.Array) or "array(" in str(t)


def _array(statement: Any, typemap: Any, rules: Replacements) -> bool:
    value = getattr(statement, "value", None)
    if not isinstance(statement, ir.Assign) or not isinstance(value, ir.Expr):
        return not isinstance(statement, ir.Branch)
    if value.op == "unary":
        return value.fn is not operator.not_
    if value.op in ("binop", "inplace_binop"):
        return _elementwise(rules.original(value.fn), typemap[value.lhs.name], typemap[value.rhs.name])
    callee = _callee(value, typemap)
    if callee is None or isinstance(callee, (types.Dispatcher, types.NumberClass)):
        return True
    if isinstance(callee, types.BoundFunction):
        return isinstance(callee.this, types.Array) or not _is_comparing(callee)
    if isinstance(callee, types.Function):
        original = rules.original(callee.typing_key)
        is_numpy = isinstance(original, np.ufunc) or _module(original).split(".")[0] == "numpy"
        return is_numpy or (_is_hashable(original) and original in _OF_ARRAYS | {builtins.sum, builtins.abs})
    return False


def _is_comparing(callee: Any) -> bool:
    return str(callee.typing_key).rpartition(".")[2] in _COMPARING


def _module(function: Any) -> str:
    return str(getattr(function, "__module__", None) or "")


def _elementwise(function: Any, left: Any, right: Any) -> bool:
    """Whether this is an operator of NumPy's, between arrays and numbers."""
    numbers = all(isinstance(t, (types.Array, types.Number, types.Boolean)) for t in (left, right))
    if function is operator.contains:
        return isinstance(left, types.Array) and isinstance(right, (types.Number, types.Boolean))
    if function in (operator.add, operator.iadd) and not numbers:
        return isinstance(left, (types.BaseTuple, types.List)) and isinstance(right, (types.BaseTuple, types.List))
    return numbers and function not in (operator.is_, operator.is_not)


def _record(statement: Any, typemap: Any, rules: Replacements) -> bool:
    if isinstance(statement, (ir.SetAttr, ir.SetItem, ir.StaticSetItem)) or _moves(statement, typemap):
        return True
    value = getattr(statement, "value", None)
    if isinstance(value, ir.Expr) and value.op in ("getattr", "getitem", "static_getitem"):
        return True
    callee = _callee(value, typemap)
    return isinstance(callee, types.Dispatcher) or _is_array(callee)


_KINDS: tuple[tuple[Callable[[Any], bool], str, Callable[[Any, Any, Replacements], bool]], ...] = (
    (lambda t: holds(t, Text), "a text", _text),
    (lambda t: holds(t, Bytes), "a bytes value", _bytes),
    (lambda t: _is_array(t) and not holds(t, Text) and not holds(t, Bytes), "an array", _array),
    (lambda t: isinstance(t, types.Record), "a record", _record),
)


@register_pass(mutates_CFG=False, analysis_only=True)
class RefuseFolded(AnalysisPass):  # type: ignore[misc]
    """Refuse what Numba makes a constant before types are known for sure, where it could be asked of a text."""

    _name = "penstock_refuse_folded"

    def __init__(self) -> None:
        AnalysisPass.__init__(self)

    def run_pass(self, state: Any) -> bool:
        if not any(holds(t, Text) or holds(t, Bytes) for t in state.args):
            return False
        for block in state.func_ir.blocks.values():
            for statement in block.find_insts(ir.Assign):
                if (name := self._fold(statement.value)) is not None:
                    raise refusal(f"{name!r} is used where there is a text or bytes (line {statement.loc.line})")
        return False

    def _fold(self, value: Any) -> str | None:
        if isinstance(value, ir.Expr) and value.op == "getattr" and value.attr == "ndim":
            return "ndim"
        is_asked = isinstance(value, (ir.Global, ir.FreeVar)) and any(value.value is f for f in (isinstance, hasattr))
        return value.value.__name__ if is_asked else None
