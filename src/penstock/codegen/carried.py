"""What a loop keeps beyond a row: carried variables, and heaps for values of varying length."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from penstock.codegen.emitter import Emitter
from penstock.codegen.generated import GeneratedLoop, Stop
from penstock.codegen.outlets import Buffer, Heap
from penstock.codegen.site import Column, Local, Ref, Value, cast
from penstock.graph import nodes as n
from penstock.graph import types


class Carried:
    """The variables of a loop that are saved when it returns, and loaded when it goes on."""

    def __init__(self, out: Emitter, code: GeneratedLoop) -> None:
        self.out, self.code = out, code
        self.heaps: dict[tuple[n.GraphNode, str], Heap] = {}
        self.halves: list[tuple[str, str]] = []
        """The carried sums in two halves, whose carry is moved up between batches so that they never overflow."""

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
        buffer = Buffer(name)
        self.code.buffers.append(buffer)
        return buffer

    # Heaps

    def put(self, heap: Heap, array: str) -> Ref:
        """Put a value on a heap."""
        local, h = self.out.fresh("h"), heap.name
        self.out.line(f"{h}_o, {h}_e = put({h}_o, {h}_e, {h}_n, {array})")
        self.out.line(f"{local} = {h}_n")
        self.out.line(f"{h}_n += 1")
        return Ref(heap.column, local)

    def heap(self, t: pa.DataType, *, is_collected: bool = False, refers: Heap | None = None) -> Heap:
        """A new heap for values of a type. Fixed-size arrays keep offsets too while they lie on a heap."""
        stored = t if not types.is_array(t) else pa.list_(t.value_type)
        column = Column(f"h{len(self.code.heaps)}", stored, is_heap=True)
        heap = Heap(column, types.size(t), is_collected, refers)
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

    # Values that outlive a row

    def keeper(self, name: str, t: pa.DataType) -> Value:
        """A variable that is carried from batch to batch: a scalar, or an index into a heap of its own."""
        if types.is_float(t):
            return Local(self.floating(name))
        if types.is_scalar(t):
            return Local(f"{cast(t)}({self.integer(name)})", store=name)
        heap = self.heap(t)
        heap.refs.append(self.integer(name))
        return Ref(heap.column, name)

    def capture(self, keeper: Value, value: Value) -> None:
        """Copy a value into a keeper."""
        if isinstance(keeper, Local):
            assert isinstance(value, Local)
            self.out.line(f"{keeper.store or keeper.name} = {value.name}")
            return
        assert isinstance(value, Ref)
        heap = next(heap for heap in self.code.heaps if heap.column == keeper.column)
        put = self.put(heap, value.elements)
        self.out.line(f"{keeper.index} = {put.index}")

    # Returning

    def save(self, stop: Stop) -> None:
        """Save all that is carried, and return. What that is, is known when the whole loop is written."""
        self.out.later(lambda: self._saved(stop))

    def _saved(self, stop: Stop) -> Iterator[str]:
        yield from (f"integers[{at}] = {name}" for at, name in enumerate(self.code.integers))
        yield from (f"floats[{at}] = {name}" for at, name in enumerate(self.code.floats))
        yield from (f"used[{at}] = {buffer.count}" for at, buffer in enumerate(self.code.buffers))
        heaps = "".join(f", {heap.name}_o, {heap.name}_e" for heap in self.code.heaps)
        yield f"return (row, mark, {stop.value}{heaps})"
