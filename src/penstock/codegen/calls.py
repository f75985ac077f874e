"""Calls of the user's functions: values as arguments, results as values, and our own faults."""

from __future__ import annotations

import pyarrow as pa

from penstock.codegen.carried import Carried
from penstock.codegen.emitter import Emitter
from penstock.codegen.generated import FaultSite, GeneratedLoop, Where
from penstock.codegen.site import Local, Ref, Site, Value, cast
from penstock.graph import nodes as n
from penstock.graph import types
from penstock.graph.faults import FaultKind
from penstock.graph.function import Function


class Calls:
    """Loads values and calls functions on them.

    `noted` are the numbers of the functions that may raise. A loop notes which of them runs, unless there is just one.
    """

    def __init__(self, out: Emitter, code: GeneratedLoop, carried: Carried) -> None:
        self.out, self.code, self.carried = out, code, carried
        self.noted: set[int] = set()

    def find(self, name: str, site: Site) -> Value:
        """A field, with a scalar loaded into a variable that stays known at this site."""
        level, value = site.find(name)
        level[name] = self.load(value)
        return level[name]

    def local(self, name: str, site: Site) -> Local:
        """A field that is a scalar, in a variable."""
        value = self.find(name, site)
        assert isinstance(value, Local)
        return value

    def load(self, value: Value) -> Value:
        """A value, with a scalar in a variable."""
        if isinstance(value, Ref) and types.is_scalar(value.column.type):
            local = self.assign(f"{cast(value.column.type)}({value.column.prefix}[{value.index}])")
            return Local(local.name, value)
        return value

    def assign(self, expression: str, prefix: str = "v") -> Local:
        """A new variable that holds what an expression gives here."""
        name = self.out.fresh(prefix)
        self.out.line(f"{name} = {expression}")
        return Local(name)

    def call(self, function: Function, site: Site, records: dict[str, str]) -> str:
        """A call of a user's function, with a note of where we are in case that it raises."""
        arguments = []
        for parameter in function.parameters:
            if parameter.is_record:
                record = records[parameter.name]
                arguments.append(f"by_reference({record})" if function.is_generator else record)
                continue
            value = self.find(parameter.field, site)
            arguments.append(value.name if isinstance(value, Local) else _whole(parameter.type, value))
        if function not in self.code.functions:
            self.code.functions.append(function)
        self.note(function)
        return f"f{self.code.functions.index(function)}({', '.join(arguments)})"

    def note(self, function: Function) -> None:
        """Note which function runs, for the error that names it, unless it cannot raise."""
        is_checked = any(not types.is_scalar(t) for t in function.returns)  # its length, or that it is UTF-8
        if function.may_raise or function.reason is not None or is_checked:
            number = self.code.functions.index(function)
            self.noted.add(number)
            self.out.later(lambda: [f"where[{Where.WHAT}] = {number}"] if len(self.noted) > 1 else [])

    def note_where(self, part: Where, value: object) -> None:
        """Note where the loop is."""
        self.out.line(f"where[{part}] = {value}")

    def results(self, node: n.GraphNode, names: tuple[str, ...], function: Function, call: str) -> list[Value]:
        """The results of a call as values: scalars in variables, what varies in length on a heap."""
        parts = [call]
        if function.is_tuple:
            whole = self.assign(call, "t")
            parts = [f"{whole.name}[{at}]" for at in range(len(function.returns))]
        results = zip(names, function.returns, parts, strict=True)
        return [self._result(node, name, t, part, function) for name, t, part in results]

    def _result(self, node: n.GraphNode, name: str, t: pa.DataType, part: str, function: Function) -> Value:
        if types.is_scalar(t):
            return self.assign(f"{cast(t)}({part})")
        heap = self.carried.heap_of(node, name, t)
        array = self.assign(part, "x").name
        if types.is_array(t) and function.reason is None:
            with self.out.block(f"if len({array}) != {t.list_size}"):
                self.fault(FaultKind.ARRAY_SIZE, node, str(t.list_size), function)
        if types.is_string(t) and function.reason is None:
            with self.out.block(f"if not is_utf8({array})"):
                self.fault(FaultKind.BAD_UTF8, node, "", function)
        return self.carried.put(heap, array)

    # Faults of items that are not exceptions of functions

    def fault_number(self, kind: FaultKind, node: n.GraphNode, what: str = "", function: Function | None = None) -> int:
        """The number of a new fault."""
        self.code.faults.append(FaultSite(kind, node, what, function))
        return len(self.code.faults)

    def fault(self, kind: FaultKind, node: n.GraphNode, what: str = "", function: Function | None = None) -> None:
        """Stop with a fault: a negative number tells which."""
        self.note_where(Where.WHAT, f"-{self.fault_number(kind, node, what, function)}")
        self.note_where(Where.ROW, "row")
        self.out.line("raise Fault")


def _whole(t: pa.DataType, value: Ref) -> str:
    """A value of varying length as the argument that a function takes."""
    if types.view(value.column.type) is None:
        return f"plain({value.column.prefix}, {value.index})"
    if not types.is_text(t):
        return value.elements
    return f"as_text({value.elements})" if types.is_string(t) else f"as_bytes({value.elements})"
