"""A user's function bound to the fields it names.

Binding happens when the node is made: every parameter finds its field, the function is compiled (or found not to
compile), and its result gets a field type.
"""

from __future__ import annotations

import contextlib
import inspect
import sys
import warnings
from collections.abc import Callable, Collection, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, replace
from types import FunctionType
from typing import Any

import pyarrow as pa

from penstock.errors import GraphError, InterpretedWarning, quoted
from penstock.graph import types, values
from penstock.graph.record import Record
from penstock.kernels.compile import Facts, Snapshot, View, facts, snapshot

RESOLVING: ContextVar[bool] = ContextVar("RESOLVING", default=False)
"""Whether a run starts, so that functions may be called to see the types of their results."""


class Undeclared(GraphError):
    """The type of a result that only a call can show, asked for before a run starts."""


Plain = Mapping[str, Any]
"""The values that a function may name: fields by name, and records such as `state` and `signal`."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter: the field it takes (dotted names with underscores), or a record."""

    name: str
    field: str
    type: pa.DataType | type[Record]

    @property
    def is_record(self) -> bool:
        return isinstance(self.type, type)

    @property
    def view(self) -> View | None:
        return View(self.type.layout.dtype) if self.is_record else types.view(self.type)


@dataclass(frozen=True, eq=False)
class Function:
    """A function, its parameters, and the types of what it gives: one result, or one for each name of a tuple.

    Invariant: `reason` is None exactly when the function compiles; then `call` is the function with what it captured
    when the graph was built. It sees the same values either way.
    """

    where: str
    call: Callable[..., Any]
    parameters: tuple[Parameter, ...]
    returns: tuple[pa.DataType, ...]
    is_tuple: bool = False
    may_raise: bool = True
    reason: str | None = None
    snapshot: Snapshot | None = None

    @property
    def fields(self) -> tuple[str, ...]:
        return tuple(p.field for p in self.parameters if not p.is_record)

    @property
    def is_generator(self) -> bool:
        return inspect.isgeneratorfunction(getattr(self.call, "py_func", self.call))

    @property
    def location(self) -> str:
        """The function by name, file and line, for messages."""
        return location(self.call)

    def arguments(self, scope: Plain) -> list[Any]:
        """The plain values of a scope as this function sees them."""
        return [scope[p.field] if p.is_record else values.present(scope[p.field], p.type) for p in self.parameters]

    def results(self, returned: Any) -> tuple[Any, ...]:
        """What the function gave back, as plain values of the declared types."""
        given = returned if self.is_tuple else (returned,)
        if not isinstance(given, tuple) or len(given) != len(self.returns):
            raise TypeError(f"the result must be a tuple of {len(self.returns)}; got {returned!r}")
        return tuple(values.accept(value, t) for value, t in zip(given, self.returns, strict=True))


def location(function: Any) -> str:
    code = getattr(getattr(function, "py_func", function), "__code__", None)
    name = getattr(function, "__name__", repr(function))
    return f"{name} ({code.co_filename}:{code.co_firstlineno})" if code else name


@dataclass(frozen=True, slots=True)
class Returns:
    """A function with the type of its result said beside it: see `returns`."""

    type: Any
    function: Callable[..., Any]


def returns(type: Any, function: Callable[..., Any]) -> Returns:
    """Say what a function returns, where it cannot be annotated: `int`, `float`, `str`, `list[float]`, an Arrow type.

    >>> import penstock as ps
    >>> import pyarrow as pa
    >>> items = ps.from_items([{"seconds": 60}])
    >>> items.map(at=ps.returns(pa.timestamp("s"), lambda seconds: seconds * 60)).collect().column("at").to_pylist()
    [datetime.datetime(1970, 1, 1, 1, 0)]
    """
    return Returns(type, function)


def bind(
    where: str,
    function: Any,
    scope: Mapping[str, pa.DataType],
    records: Mapping[str, type[Record]] | None = None,
    results: int | None = None,
    yields: bool = False,
    probe: Callable[[Function], Any] | None = None,
    warned: Collection[Any] = (),
) -> Function:
    """Bind a function to a scope of fields and named records.

    `results` is how many values a returned (or yielded) tuple must hold, None for a single value, 0 for nothing.
    `probe` runs the graph up to here on the first items and gives one result, for a function whose result type is
    nowhere to be read; before a run starts, it raises `Undeclared`. A generator is taken only where it `yields`.
    The functions in `warned` are known not to compile.
    """
    wanted = None
    if isinstance(function, Returns):
        wanted, function = function.type, function.function
    if not callable(function) or isinstance(function, type):
        raise GraphError(f"{where}: must be a function of the fields that it names; got {function!r}")
    where = f"{where}: {getattr(function, '__name__', 'function')}"
    if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
        raise GraphError(f"{where}: must be an ordinary function; got an async one; at {location(function)}")
    if inspect.isgeneratorfunction(getattr(function, "py_func", function)) and not yields:
        raise GraphError(f"{where}: must not yield here; got a generator; at {location(function)}")
    parameters = _parameters(where, function, scope, records or {})
    taken = _snapshot(function)
    facts = _facts(function, taken, parameters)
    declared = _declared_types(where, function, wanted, results)
    call = taken.plain if taken is not None and facts.reason is None else function
    unbound = Function(
        where, call, parameters, declared or (), results is not None, facts.may_raise, facts.reason, taken
    )
    if facts.reason is not None and function not in warned:
        warn_interpreted(unbound)
    given = _result_types(unbound, facts, results, declared, probe)
    for t in given:
        if not types.is_flat(t):
            raise GraphError(f"{where}: a result must be a number, a time, a text or a list of numbers; got {t}")
    return replace(unbound, returns=given)


def warn_interpreted(function: Function) -> None:
    warnings.warn(
        f"{function.where} does not compile and runs interpreted, item by item; the reason: {function.reason}; to "
        f"compile it, use numbers, arrays, loops and math only{_fast_way(function)}, at {function.location}",
        InterpretedWarning,
        stacklevel=_outside(),
    )


def _fast_way(function: Function) -> str:
    """What can be done with a text or bytes at full speed, for a function that has one."""
    given = [p for p in function.parameters if not p.is_record and types.is_text(p.type)]
    if not given:
        return ""
    name = given[0].name
    if types.is_string(given[0].type):
        return (
            f", and of a text its len and its bytes: data = {name}.encode(), then data[i], data[i:j], len(data) and "
            f"loops over it; or take whole columns, with map_columns and pyarrow.compute"
        )
    return f", and of bytes {name}[i], {name}[i:j], len({name}), loops over it and np.frombuffer({name}, np.uint8)"


def _outside() -> int:
    """How many frames up the user's own code is, for the warning to point at it."""
    level, frame = 2, sys._getframe(2)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").split(".")[0] in ("penstock", "functools"):
        level, frame = level + 1, frame.f_back
    return level


def _parameters(
    where: str, function: Any, scope: Mapping[str, pa.DataType], records: Mapping[str, type[Record]]
) -> tuple[Parameter, ...]:
    try:
        signature = inspect.signature(getattr(function, "py_func", function))
    except (TypeError, ValueError):
        raise GraphError(f"{where}: its parameters cannot be read; wrap it in a lambda that names its fields") from None
    parameters = []
    for parameter in signature.parameters.values():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            raise GraphError(
                f"{where}: a function must name its fields; got '*{parameter.name}' at {location(function)}"
            )
        if parameter.kind is parameter.KEYWORD_ONLY and parameter.default is parameter.empty:
            raise GraphError(f"{where}: fields are given by position; {parameter.name!r} takes only a keyword")
        name = parameter.name
        field = resolve(name, scope)
        if name in records:
            parameters.append(Parameter(name, name, records[name]))
        elif field is not None:
            parameters.append(Parameter(name, field, scope[field]))
        elif parameter.default is parameter.empty:
            raise GraphError(
                f"{where}: every parameter must be {_allowed_names(scope, records)}; got {name!r}"
                f"{types.nearest(name, [*scope, *records])}; at {location(function)}"
            )
        elif any(resolve(p.name, scope) or p.name in records for p in _after(signature, name)):
            raise GraphError(f"{where}: fields must come before {name!r}, which is none; got {signature}")
        else:
            break
    return tuple(parameters)


def parameter_fields(where: str, function: Any, scope: Mapping[str, pa.DataType]) -> tuple[str, ...]:
    """The fields that the parameters of a function name."""
    return tuple(parameter.field for parameter in _parameters(where, function, scope, {}))


def _after(signature: inspect.Signature, name: str) -> list[inspect.Parameter]:
    parameters = list(signature.parameters.values())
    return parameters[list(signature.parameters).index(name) + 1 :]


def _allowed_names(scope: Mapping[str, Any], records: Mapping[str, Any]) -> str:
    fields = f"a field of the item or of a parent ({quoted(scope)})" if scope else ""
    return " or ".join(part for part in (fields, quoted(records) if records else "") if part)


def resolve(name: str, scope: Mapping[str, Any]) -> str | None:
    """The field that a parameter names: itself, or the one dotted name that reads the same with underscores."""
    if name in scope:
        return name
    dotted = [field for field in scope if "." in field and field.replace(".", "_") == name]
    if len(dotted) > 1:
        raise GraphError(
            f"the parameter {name!r} must mean one field; it could mean {quoted(dotted)}; rename one of them"
        )
    return dotted[0] if dotted else None


def _snapshot(function: Any) -> Snapshot | None:
    """The function and what it captures as they are now, or None where it is no function of Python's."""
    plain = getattr(function, "py_func", function)
    return snapshot(plain) if isinstance(plain, FunctionType) else None


def _facts(function: Any, taken: Snapshot | None, parameters: tuple[Parameter, ...]) -> Facts:
    if taken is None:
        return Facts(reason=f"it is a {type(function).__name__}, and only what def or lambda makes is compiled")
    views = tuple(p.view for p in parameters)
    for parameter, view in zip(parameters, views, strict=True):
        if view is None:
            return Facts(
                reason=f"a compiled function cannot see {parameter.field!r}, a {parameter.type}; enumerate it first"
            )
    return facts(taken, views)  # type: ignore[arg-type]


def _declared_types(where: str, function: Any, wanted: Any, results: int | None) -> tuple[pa.DataType, ...] | None:
    if wanted is None:
        wanted = getattr(getattr(function, "py_func", function), "__annotations__", {}).get("return")
        if isinstance(wanted, str):
            with contextlib.suppress(NameError):  # a name that is only there for type checkers
                wanted = inspect.get_annotations(function, eval_str=True).get("return")
        if isinstance(wanted, str):
            wanted = None
    arguments = getattr(wanted, "__args__", ())
    if arguments and getattr(wanted, "__origin__", None) not in (list, tuple):
        wanted = arguments[0]  # Iterator[float], Generator[...]: what is yielded
        arguments = getattr(wanted, "__args__", ())
    if wanted is None or results == 0:
        return None
    listed = wanted if isinstance(wanted, tuple) else arguments if results is not None and arguments else (wanted,)
    if len(listed) != (results or 1):
        raise GraphError(f"{where}: must be declared with {results or 1} types; got {wanted!r}")
    return tuple(types.declared_type(t, where) for t in listed)


def _result_types(
    function: Function, facts: Facts, results: int | None, declared: tuple[pa.DataType, ...] | None, probe: Any
) -> tuple[pa.DataType, ...]:
    if results == 0:
        return ()
    if facts.reason is None:
        inferred = tuple(types.from_view(view) for view in facts.returns)
        if facts.is_tuple != (results is not None) or len(inferred) != (results or 1):
            shape = f"a tuple of {results}" if results is not None else "one value"
            raise GraphError(
                f"{function.where}: must give {shape}; it gives {len(inferred)} value(s)"
                f"{' in a tuple' if facts.is_tuple else ''}; at {function.location}"
            )
        for given, said in zip(inferred, declared or inferred, strict=True):
            if not types.widens(given, said):
                raise GraphError(f"{function.where}: declared as {said} but gives {given}; at {function.location}")
        return declared or inferred
    if declared is not None:
        return declared
    if probe is None:
        raise _undeclared_error(function, "")
    return tuple(_probe_types(function, probe, results))


def _probe_types(function: Function, probe: Any, results: int | None) -> list[pa.DataType]:
    returned = probe(function)
    if returned is None:
        raise _undeclared_error(function, ", and no item among the first ones reached it to show")
    given = returned if results is not None else (returned,)
    if not isinstance(given, tuple) or len(given) != (results or 1):
        raise GraphError(f"{function.where}: must give a tuple of {results}; got {returned!r}")
    try:
        return [values.type_of(value) for value in given]
    except TypeError as error:
        raise GraphError(f"{function.where}: {error}; at {function.location}") from None


def undeclared_error(function: Function) -> Undeclared:
    """The error of one who asks for a type before a run has seen it."""
    return Undeclared(
        f"{function.where}: does not compile ({function.reason}), so the type of its result is seen only when a run "
        f"starts, and is asked for before; declare it: annotate the function, or write ps.returns(float, function); or "
        f"collect; at {function.location}"
    )


def _undeclared_error(function: Function, why: str) -> GraphError:
    return GraphError(
        f"{function.where}: does not compile ({function.reason}), so the type of its result must be declared{why}; "
        f"annotate it, or write ps.returns(float, function); at {function.location}"
    )
