"""Values in a loop: loading them, calling functions on them, and keeping them beyond the row."""

from __future__ import annotations

from itertools import count

import pyarrow as pa

from penstock.codegen.emitter import Emitter
from penstock.codegen.generated import Code, Fault
from penstock.codegen.outlets import Buffer, Heap
from penstock.codegen.site import Column, Level, Local, Ref, Site, Value, cast
from penstock.graph import nodes as n
from penstock.graph import types
from penstock.graph.function import Function
from penstock.graph.needs import key_field
from penstock.graph.record import Record
from penstock.graph.tree import Tree
from penstock.plan.segment import Segment


def _seen(t: pa.DataType, elements: str) -> str:
    """An array of elements as the value that a function sees."""
    if not types.is_text(t):
        return elements
    return f"as_text({elements})" if types.is_string(t) else f"as_bytes({elements})"


class ValueWriter:
    """The part of a loop's writer that knows where values are."""

    def __init__(self, tree: Tree, segment: Segment) -> None:
        self.tree, self.segment = tree, segment
        self.out = Emitter(count())
        self.code = Code(segment=segment)
        self.noted: set[int] = set()
        self.heaps: dict[tuple[n.GraphNode, str], Heap] = {}

    def scalar_or_ref(self, name: str, site: Site) -> Value:
        """A field, with a scalar loaded into a variable that stays known at this place."""
        level, value = site.find(name)
        level[name] = self.value_of(value)
        return level[name]

    def value_of(self, value: Value) -> Value:
        if isinstance(value, Ref) and types.is_scalar(value.column.type):
            local = self.out.fresh()
            self.out.line(f"{local} = {cast(value.column.type)}({value.column.prefix}[{value.index}])")
            return Local(local, value)
        return value

    def call(self, function: Function, site: Site, records: dict[str, str]) -> str:
        """A call of a user's function, with a note of where we are in case that it raises."""
        arguments = []
        for parameter in function.parameters:
            if parameter.is_record:
                record = records[parameter.name]
                arguments.append(f"by_reference({record})" if function.is_generator else record)
                continue
            value = self.scalar_or_ref(parameter.field, site)
            if isinstance(value, Local):
                arguments.append(value.name)
            elif types.view(value.column.type) is None:
                arguments.append(f"plain({value.column.prefix}, {value.index})")
            else:
                arguments.append(_seen(parameter.type, value.elements))
        if function not in self.code.functions:
            self.code.functions.append(function)
        number = self.code.functions.index(function)
        self.note(function)
        return f"f{number}({', '.join(arguments)})"

    def note(self, function: Function) -> None:
        """Note which function runs, for the error that names it, unless it cannot raise."""
        checked = any(not types.is_scalar(t) for t in function.returns)  # its length, or that it is UTF-8
        if function.may_raise or function.reason is not None or checked:
            number = self.code.functions.index(function)
            self.noted.add(number)
            self.out.line(f"@note {number}")

    def results(self, node: n.GraphNode, names: tuple[str, ...], function: Function, call: str) -> list[Value]:
        """The results of a call as values: scalars in variables, what varies in length on a heap."""
        if function.is_tuple:
            whole = self.out.fresh("t")
            self.out.line(f"{whole} = {call}")
            parts = [f"{whole}[{at}]" for at in range(len(function.returns))]
        else:
            parts = [call]
        given = zip(names, function.returns, parts, strict=True)
        return [self._result(node, name, t, part, function) for name, t, part in given]

    def _result(self, node: n.GraphNode, name: str, t: pa.DataType, part: str, function: Function) -> Value:
        if types.is_scalar(t):
            local = self.out.fresh()
            self.out.line(f"{local} = {cast(t)}({part})")
            return Local(local)
        heap = self.heap_of(node, name, t)
        given = self.out.fresh("x")
        self.out.line(f"{given} = {part}")
        if types.is_array(t) and function.reason is None:
            with self.out.block(f"if len({given}) != {t.list_size}"):
                self.fault("array_size", node, str(t.list_size), function)
        if types.is_string(t) and function.reason is None:
            with self.out.block(f"if not is_utf8({given})"):
                self.fault("bad_utf8", node, "", function)
        return self.put(heap, given)

    def put(self, heap: Heap, array: str) -> Ref:
        local, h = self.out.fresh("h"), heap.name
        self.out.line(f"{h}_o, {h}_e = put({h}_o, {h}_e, {h}_n, {array})")
        self.out.line(f"{local} = {h}_n")
        self.out.line(f"{h}_n += 1")
        return Ref(heap.column, local)

    def heap(self, t: pa.DataType, *, is_collected: bool = False, refers: Heap | None = None) -> Heap:
        """A new heap for values of a type. Fixed-size arrays keep offsets too while they lie on a heap."""
        held = t if not types.is_array(t) else pa.list_(t.value_type)
        heap = Heap(Column(f"h{len(self.code.heaps)}", held, is_heap=True), types.size(t), is_collected, refers)
        self.code.heaps.append(heap)
        self.integer(f"{heap.name}_n")
        if is_collected:
            self.integer(f"{heap.name}_u")
        return heap

    def heap_of(self, node: n.GraphNode, name: str, t: pa.DataType) -> Heap:
        """The heap of one field that a node computes: one for all the places where the node stands in the loop."""
        if (node, name) not in self.heaps:
            self.heaps[node, name] = self.heap(t)
        return self.heaps[node, name]

    def keeper(self, name: str, t: pa.DataType) -> Value:
        """A variable that is carried from batch to batch: a scalar, or an index into a heap of its own."""
        if types.is_float(t):
            return Local(self.floating(name))
        if types.is_scalar(t):
            return Local(f"{cast(t)}({self.integer(name)})", store=name)
        heap = self.heap(t)
        heap.refs.append(self.integer(name))
        return Ref(heap.column, name)

    def capture(self, kept: Value, value: Value) -> None:
        """Copy a value into a keeper."""
        if isinstance(kept, Local):
            assert isinstance(value, Local)
            self.out.line(f"{kept.store or kept.name} = {value.name}")
            return
        assert isinstance(value, Ref)
        heap = next(heap for heap in self.code.heaps if heap.column == kept.column)
        put = self.put(heap, value.elements)
        self.out.line(f"{kept.index} = {put.index}")

    def integer(self, name: str) -> str:
        """A carried integer (or boolean) variable."""
        if name not in self.code.integers:
            self.code.integers.append(name)
        return name

    def floating(self, name: str) -> str:
        if name not in self.code.floats:
            self.code.floats.append(name)
        return name

    def buffer(self, name: str) -> Buffer:
        made = Buffer(name)
        self.code.buffers.append(made)
        return made

    def fault_number(self, kind: str, node: n.GraphNode, what: str = "", function: Function | None = None) -> int:
        """The number of one of our own faults."""
        self.code.faults.append(Fault(kind, node, what, function))
        return len(self.code.faults)

    def fault(self, kind: str, node: n.GraphNode, what: str = "", function: Function | None = None) -> None:
        """Stop with one of our own faults: a negative number in `w[0]` says which."""
        self.out.line(f"w[0] = -{self.fault_number(kind, node, what, function)}")
        self.out.line("w[1] = i")
        self.out.line("raise Fault")

    def state_record(self, node: n.Stateful, site: Site) -> dict[str, str]:
        if node.state is None:
            return {}
        return {"state": f"{self.state_array(node)}[{self.slot_of(node, site)}]"}

    def slot_of(self, node: n.Stateful, site: Site) -> str:
        """The number of the item's key, at which its record lies; 0 without a key."""
        if node.given.key is None:
            return "0"
        slot = self.scalar_or_ref(key_field(self.tree, node.given.key), site)
        assert isinstance(slot, Local)
        return slot.name

    def key_level(self, node: n.Stateful, slot: str) -> Level:
        """The fields of a key by its number, from where the engine holds them."""
        key = node.given.key
        if key is None:
            return {}
        name = f"kv{self.tree.number[key]}"
        self.code.key_values[name] = key
        level: Level = {}
        for at, (field, t) in enumerate(node.given.key_fields.items()):
            index = slot
            if len(key.names) > 1:
                index = self.out.fresh()
                self.out.line(f"{index} = as_int({name}_p{at}[{slot}])")
            level[field] = Ref(Column(f"{name}_{at}", t), index)
        return level

    def state_array(self, node: n.Stateful) -> str:
        name = f"st{self.tree.number[node]}"
        self.code.states[name] = node
        return name

    def scratch(self, record: type[Record], node: n.GraphNode, suffix: str) -> str:
        """A place for one record while functions change it that may fail."""
        name = f"sv{self.tree.number[node]}{suffix}"
        self.code.scratch[name] = record
        return name

    def record(self, record: type[Record], node: n.GraphNode, suffix: str = "") -> str:
        name = f"rc{self.tree.number[node]}{suffix}"
        self.code.records[name] = record
        return name
