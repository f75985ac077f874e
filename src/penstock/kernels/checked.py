"""Integer arithmetic that never wraps, for the user's functions.

Python's integers do not overflow; Numba's wrap silently, and mix signed and unsigned 8-bit numbers into surprises. A
pass over Numba's representation of a user's function replaces every integer operator by one that works on signed 64-bit
numbers and raises `OverflowError` where the result does not fit. A second pass refuses a float that would be cut
silently into an integer field of a state. Floats, and the explicit `np.uint64` of hash functions, are left alone.
A third keeps generators from holding on to what they have yielded, a fourth applies the list of `allowed`.
"""

from __future__ import annotations

import builtins
import math
import operator
from collections.abc import Callable, Iterator
from typing import Any

import numba
import numpy as np
from llvmlite import ir as llvm
from numba.core import compiler, ir, types
from numba.core.compiler_machinery import AnalysisPass, FunctionPass, register_pass
from numba.core.postproc import PostProcessor
from numba.core.typed_passes import NopythonTypeInference
from numba.core.untyped_passes import IRProcessing, ReconstructSSA
from numba.extending import intrinsic, overload

from penstock.kernels.allowed import RefuseFolded, Replacements, check, refusal
from penstock.kernels.text_types import Bytes, Text, code_points, holds


def _exact(*operands: Any) -> bool:
    """Whether the operands are integers that must behave like Python's."""
    return all(isinstance(t, types.Integer) and types.unliteral(t) != types.uint64 for t in operands)


def _with_overflow(instruction: str) -> Any:
    @intrinsic  # type: ignore[untyped-decorator]
    def operation(typing: Any, a: Any, b: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            i64 = llvm.IntType(64)
            kind = llvm.FunctionType(llvm.LiteralStructType([i64, llvm.IntType(1)]), [i64, i64])
            function = builder.module.declare_intrinsic(instruction, [i64], kind)
            result = builder.call(function, arguments)
            with builder.if_then(builder.extract_value(result, 1), likely=False):
                context.call_conv.return_user_exc(builder, OverflowError, ("the integer does not fit 64 bits",))
            return builder.extract_value(result, 0)

        return types.int64(types.int64, types.int64), generate

    return operation


_add = _with_overflow("llvm.sadd.with.overflow")
_sub = _with_overflow("llvm.ssub.with.overflow")
_mul = _with_overflow("llvm.smul.with.overflow")


@intrinsic  # type: ignore[untyped-decorator]
def _as_int64(typing: Any, value: Any) -> Any:
    return types.int64(types.int64), lambda context, builder, signature, arguments: arguments[0]


def _floordiv(a: Any, b: Any) -> Any:
    a, b = _as_int64(a), _as_int64(b)
    return _sub(0, a) if b == -1 else a // b


def _mod(a: Any, b: Any) -> Any:
    a, b = _as_int64(a), _as_int64(b)
    return 0 if b == -1 else a % b


def _lshift(a: Any, b: Any) -> Any:
    a, b = _as_int64(a), _as_int64(b)
    if b < 0:
        raise ValueError("negative shift count")
    if a == 0:
        return a
    if b > 62 or (a << b) >> b != a:
        raise OverflowError("the integer does not fit 64 bits")
    return a << b


def _rshift(a: Any, b: Any) -> Any:
    a, b = _as_int64(a), _as_int64(b)
    if b < 0:
        raise ValueError("negative shift count")
    return a >> min(b, 63)


def _pow(a: Any, b: Any) -> Any:
    base, exponent = _as_int64(a), _as_int64(b)
    if exponent < 0:
        raise ValueError("an integer to a negative power is a float: write float(x) ** n")
    result = 1
    while exponent > 0:
        if exponent & 1:
            result = _mul(result, base)
        exponent >>= 1
        if exponent > 0:
            base = _mul(base, base)
    return result


_EXACT: dict[Any, Callable[[Any, Any], Any]] = {
    operator.add: lambda a, b: _add(a, b),
    operator.sub: lambda a, b: _sub(a, b),
    operator.mul: lambda a, b: _mul(a, b),
    operator.floordiv: _floordiv,
    operator.mod: _mod,
    operator.lshift: _lshift,
    operator.rshift: _rshift,
    operator.pow: _pow,
    operator.and_: lambda a, b: _as_int64(a) & _as_int64(b),
    operator.or_: lambda a, b: _as_int64(a) | _as_int64(b),
    operator.xor: lambda a, b: _as_int64(a) ^ _as_int64(b),
}
_IN_PLACE = {
    operator.iadd: operator.add,
    operator.isub: operator.sub,
    operator.imul: operator.mul,
    operator.ifloordiv: operator.floordiv,
    operator.imod: operator.mod,
    operator.ilshift: operator.lshift,
    operator.irshift: operator.rshift,
    operator.ipow: operator.pow,
    operator.iand: operator.and_,
    operator.ior: operator.or_,
    operator.ixor: operator.xor,
}


def _bare(function: Any) -> Any:
    """Without annotations: Numba wants those of an overload and of its implementation to be the same."""
    function.__annotations__ = {}
    return function


def _checked_binary(original: Any, exact: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    def stub(a: Any, b: Any) -> Any:
        return original(a, b)

    stub.__name__ = stub.__qualname__ = original.__name__

    @overload(stub)  # type: ignore[untyped-decorator]
    @_bare
    def choose(a: Any, b: Any) -> Any:
        if isinstance(a, types.Integer) and isinstance(b, types.Integer) and _exact(a) != _exact(b):
            raise refusal("it mixes signed and unsigned 64-bit integers; make both np.uint64")
        if exact is _pow and isinstance(a, types.Float) and _exact(b):
            return lambda a, b: original(a, np.float64(b))  # as Python does; repeated products differ in the last digit
        return _bare(exact) if _exact(a, b) else lambda a, b: original(a, b)

    return stub


_BINARY = {op: _checked_binary(op, exact) for op, exact in _EXACT.items()}
_BINARY |= {op: _checked_binary(op, _EXACT[plain]) for op, plain in _IN_PLACE.items()}


def _checked_comparison(original: Any) -> Callable[[Any, Any], Any]:
    """A comparison that is exact between integers and floats."""
    flipped = _FLIPPED[original]

    def stub(a: Any, b: Any) -> Any:
        return original(a, b)

    stub.__name__ = stub.__qualname__ = original.__name__

    @overload(stub)  # type: ignore[untyped-decorator]
    @_bare
    def choose(a: Any, b: Any) -> Any:
        if any(holds(t, kind) for t in (a, b) for kind in (Text, Bytes)):
            raise refusal("a text, or bytes, in a comparison")
        if _exact(a) and isinstance(b, types.Float):
            return lambda a, b: original(_against(a, b), 0)
        if isinstance(a, types.Float) and _exact(b):
            return lambda a, b: flipped(_against(b, a), 0)
        return lambda a, b: original(a, b)

    return stub


def _sign(a: Any, x: Any) -> Any:
    """The sign of an integer minus a float, exactly: NaN where the float is NaN."""
    if -9007199254740992 <= a <= 9007199254740992 or x != x:
        return np.float64(a) - x if x - x == 0.0 else -x
    if x >= 9223372036854775808.0:
        return -1.0
    if x < -9223372036854775808.0:
        return 1.0
    whole = np.int64(np.floor(x))
    if a != whole:
        return 1.0 if a > whole else -1.0
    return 0.0 if x == np.floor(x) else -1.0


_against = numba.njit(_bare(_sign))
_FLIPPED: dict[Any, Any] = {
    operator.eq: operator.eq,
    operator.ne: operator.ne,
    operator.lt: operator.gt,
    operator.le: operator.ge,
    operator.gt: operator.lt,
    operator.ge: operator.le,
    operator.contains: operator.contains,
}
_BINARY |= {op: _checked_comparison(op) for op in _FLIPPED}


def _checked_unary(original: Any, exact: Callable[[Any], Any], truth: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def stub(a: Any) -> Any:
        return original(a)

    stub.__name__ = stub.__qualname__ = original.__name__

    @overload(stub)  # type: ignore[untyped-decorator]
    @_bare
    def choose(a: Any) -> Any:
        if isinstance(a, types.Boolean):
            return truth
        return exact if _exact(a) else lambda a: original(a)

    return stub


_UNARY = {
    operator.neg: _checked_unary(operator.neg, lambda a: _sub(0, a), lambda a: -np.int64(a)),
    operator.invert: _checked_unary(operator.invert, lambda a: ~_as_int64(a), lambda a: ~np.int64(a)),
}


def _cut(whole: Any) -> Any:
    """Make a float that is whole an integer, where it fits."""
    if whole != whole:
        raise ValueError("cannot convert float NaN to integer")
    if not -9223372036854775808.0 <= whole < 9223372036854775808.0:
        raise OverflowError("the integer does not fit 64 bits")
    return np.int64(whole)


_cut_compiled = numba.njit(_bare(_cut))


def _checked_call(original: Any, choose: Callable[..., Any]) -> Any:
    """A stand-in for a function of Python's that gives integers; `choose` picks the checked form by the types."""

    def stub(*arguments: Any) -> Any:
        return original(*arguments)

    stub.__name__ = stub.__qualname__ = original.__name__  # as Numba's messages should show it
    overload(stub)(_bare(choose))
    return stub


def _choose_int(x: Any) -> Any:
    return (lambda x: _cut_compiled(np.trunc(x))) if isinstance(x, types.Float) else lambda x: int(x)


def _choose_floor(x: Any) -> Any:
    return (lambda x: _cut_compiled(np.floor(x))) if isinstance(x, types.Float) else lambda x: math.floor(x)


def _choose_ceil(x: Any) -> Any:
    return (lambda x: _cut_compiled(np.ceil(x))) if isinstance(x, types.Float) else lambda x: math.ceil(x)


def _choose_round(x: Any, digits: Any = None) -> Any:
    whole = digits in (None, types.none) or getattr(digits, "value", 0) is None
    if whole and isinstance(x, types.Float):
        return lambda x, digits=None: _cut_compiled(np.rint(x))
    if whole and _exact(x):
        return lambda x, digits=None: _as_int64(x)
    raise refusal("round(x, digits) rounds decimals as Python does only where it is interpreted")


def _choose_abs(x: Any) -> Any:
    return (lambda x: _sub(0, x) if x < 0 else _as_int64(x)) if _exact(x) else lambda x: abs(x)


def _choose_pow(a: Any, b: Any) -> Any:
    return (lambda a, b: _power(a, b)) if _exact(a, b) else lambda a, b: a**b


def _choose_divmod(a: Any, b: Any) -> Any:
    return (lambda a, b: (_quotient(a, b), _remainder(a, b))) if _exact(a, b) else lambda a, b: divmod(a, b)


def _choose_sum(values: Any) -> Any:
    if not (isinstance(values, types.Array) and _exact(values.dtype)):
        return lambda values: sum(values)

    def add(values):  # type: ignore[no-untyped-def]
        total = np.int64(0)
        for at in range(len(values)):
            total = _add(total, values[at])
        return total

    return add


def _choose_range(a: Any, b: Any = None, c: Any = None) -> Any:
    """Signed, so that what is counted can be subtracted from, also where it is bounded by a byte."""
    if b in (None, types.none) or getattr(b, "value", 0) is None:
        return lambda a, b=None, c=None: range(_as_int64(a))
    if c in (None, types.none) or getattr(c, "value", 0) is None:
        return lambda a, b=None, c=None: range(_as_int64(a), _as_int64(b))
    return lambda a, b=None, c=None: range(_as_int64(a), _as_int64(b), _as_int64(c))


_power, _quotient, _remainder = (numba.njit(_bare(f)) for f in (_pow, _floordiv, _mod))

_CALLS = {
    math.floor: _checked_call(math.floor, _choose_floor),
    math.ceil: _checked_call(math.ceil, _choose_ceil),
    math.trunc: _checked_call(math.trunc, _choose_int),
    builtins.round: _checked_call(round, _choose_round),
    builtins.abs: _checked_call(abs, _choose_abs),
    builtins.pow: _checked_call(pow, _choose_pow),
    builtins.divmod: _checked_call(divmod, _choose_divmod),
    builtins.sum: _checked_call(sum, _choose_sum),
    builtins.range: _checked_call(range, _choose_range),
}
_INT = _checked_call(int, _choose_int)
_LEN = _checked_call(len, lambda x: (lambda x: code_points(x)) if isinstance(x, Text) else lambda x: len(x))
"""Only where there is a text, because Numba folds the `len` of a tuple by its name."""


@register_pass(mutates_CFG=False, analysis_only=False)
class _CheckIntegers(FunctionPass):  # type: ignore[misc]
    """Replace integer operators, and functions that give integers, by their checked forms."""

    _name = "penstock_check_integers"

    def __init__(self) -> None:
        FunctionPass.__init__(self)

    def run_pass(self, state: Any) -> bool:
        calls = _CALLS | ({len: _LEN} if any(holds(t, Text) for t in state.args) else {})
        for block in state.func_ir.blocks.values():
            for statement in block.find_insts(ir.Assign):
                statement.value = self._check(statement.value, state.func_ir, calls)
        return True

    def _check(self, value: Any, function: Any, calls: dict[Any, Any]) -> Any:
        if isinstance(value, (ir.Global, ir.FreeVar)):
            if _is_hashable(value.value) and value.value in calls:
                # Under another name, because Numba minds what it takes for a changed builtin.
                return ir.Global(f"checked_{value.name}", calls[value.value], value.loc)
            return value
        if not isinstance(value, ir.Expr):
            return value
        if value.op == "getattr":
            module = function._definitions.get(value.value.name, [None])[0]
            is_math = isinstance(module, (ir.Global, ir.FreeVar)) and module.value is math
            found = getattr(math, value.attr, None) if is_math else None
            return ir.Global(value.attr, _CALLS[found], value.loc) if found in _CALLS else value
        if value.op in ("binop", "inplace_binop") and value.fn in _BINARY:
            # Built through the plain constructor: `ir.Expr.binop` takes only Python's own operators.
            return ir.Expr(
                op="binop",
                loc=value.loc,
                fn=_BINARY[value.fn],
                lhs=value.lhs,
                rhs=value.rhs,
                static_lhs=ir.UNDEFINED,
                static_rhs=ir.UNDEFINED,
            )
        if value.op == "unary" and value.fn in _UNARY:
            return ir.Expr(op="unary", loc=value.loc, fn=_UNARY[value.fn], value=value.value)
        if value.op == "call":
            callee = function._definitions.get(value.func.name, [None])[0]
            if isinstance(callee, (ir.Global, ir.FreeVar)) and callee.value is builtins.int:
                callee.value = _INT
        return value


def _is_hashable(value: Any) -> bool:
    return getattr(value, "__hash__", None) is not None and not isinstance(value, (tuple, frozenset))


@register_pass(mutates_CFG=False, analysis_only=True)
class _CheckAssigned(AnalysisPass):  # type: ignore[misc]
    """Refuse a variable that may have no value where it is used: Python raises there, Numba goes on with anything."""

    _name = "penstock_check_assigned"

    def __init__(self) -> None:
        AnalysisPass.__init__(self)

    def run_pass(self, state: Any) -> bool:
        for block in state.func_ir.blocks.values():
            for phi in block.find_exprs("phi"):
                if any(value is ir.UNDEFINED for value in phi.incoming_values):
                    name = next(v for v in phi.incoming_values if v is not ir.UNDEFINED).unversioned_name
                    if not name.startswith("$"):
                        raise refusal(f"the variable {name!r} may have no value where it is used")
        return False


@register_pass(mutates_CFG=False, analysis_only=True)
class _CheckStores(AnalysisPass):  # type: ignore[misc]
    """Refuse what a field or an array would hold only after cutting it."""

    _name = "penstock_check_stores"

    def __init__(self) -> None:
        AnalysisPass.__init__(self)

    def run_pass(self, state: Any) -> bool:
        for block in state.func_ir.blocks.values():
            for statement in block.body:
                self._check(statement, state.typemap)
        return False

    def _check(self, statement: Any, typemap: Any) -> None:
        if not isinstance(statement, (ir.SetAttr, ir.SetItem, ir.StaticSetItem)):
            return
        target, value = typemap[statement.target.name], typemap[statement.value.name]
        if isinstance(statement, ir.SetAttr):
            if not isinstance(target, types.Record):
                return
            held, name = target.typeof(statement.attr), f"the field {statement.attr!r}"
        else:
            held, name = getattr(target, "dtype", None), "the array"
        value = getattr(value, "dtype", value)
        cut = isinstance(held, types.Integer) and isinstance(value, types.Float)
        if cut or (isinstance(held, types.Boolean) and not isinstance(value, types.Boolean)):
            raise refusal(f"{name} holds {held}, and would cut the {value} stored in it")


@register_pass(mutates_CFG=False, analysis_only=False)
class _HoldYielded(FunctionPass):  # type: ignore[misc]
    """Use what a generator yields once more when it goes on.

    Numba lets go of a variable where it is used last. If that is where it is yielded, it never does: the array stays in
    memory for ever.
    """

    _name = "penstock_hold_yielded"

    def __init__(self) -> None:
        FunctionPass.__init__(self)

    def run_pass(self, state: Any) -> bool:
        blocks = state.func_ir.blocks.values()
        if not any(self._is_yield(statement) for block in blocks for statement in block.body):
            return False
        for block in blocks:
            block.body = [after for statement in block.body for after in self._hold(block, statement)]
        PostProcessor(state.func_ir).run()
        return True

    def _is_yield(self, statement: Any) -> bool:
        return isinstance(statement, ir.Assign) and isinstance(statement.value, ir.Yield)

    def _hold(self, block: Any, statement: Any) -> Iterator[Any]:
        yield statement
        if self._is_yield(statement):
            loc = statement.loc
            yield ir.Assign(statement.value.value, block.scope.redefine("held", loc=loc), loc)


@register_pass(mutates_CFG=False, analysis_only=True)
class _CheckAllowed(AnalysisPass):  # type: ignore[misc]
    """Refuse what is not known to mean for texts, bytes, arrays and records what it means in Python."""

    _name = "penstock_check_allowed"

    def __init__(self) -> None:
        AnalysisPass.__init__(self)

    def run_pass(self, state: Any) -> bool:
        for block in state.func_ir.blocks.values():
            check(block.body, state.typemap, _RULES)
        return False


def _is_checked(dispatcher: Any) -> bool:
    return dispatcher._compiler.pipeline_class is CheckedCompiler


_RULES = Replacements(
    {stub: original for table in (_BINARY, _UNARY, _CALLS, {int: _INT, len: _LEN}) for original, stub in table.items()},
    _is_checked,
    of_texts={_LEN},
)


class CheckedCompiler(compiler.CompilerBase):  # type: ignore[misc]
    """Numba's compiler with these passes."""

    def define_pipelines(self) -> list[Any]:
        passes = compiler.DefaultPassBuilder.define_nopython_pipeline(self.state)
        passes.add_pass_after(_HoldYielded, IRProcessing)
        passes.add_pass_after(_CheckIntegers, IRProcessing)
        passes.add_pass_after(_CheckAssigned, ReconstructSSA)
        passes.add_pass_after(RefuseFolded, IRProcessing)
        passes.add_pass_after(_CheckStores, NopythonTypeInference)
        passes.add_pass_after(_CheckAllowed, NopythonTypeInference)
        passes.finalize()
        return [passes]
