"""The code of an aggregate: variables that begin with a region, take every item, and finish as fields."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from penstock.codegen.item_rules import keep
from penstock.codegen.key_records import hook_record
from penstock.codegen.outlets import Heap
from penstock.codegen.site import Level, Local, Ref, Site, Value, cast
from penstock.graph import nodes as n
from penstock.graph import types
from penstock.graph.aggregate import NEEDS_AN_ITEM, Builtin
from penstock.graph.faults import FaultKind
from penstock.graph.values import accept

if TYPE_CHECKING:
    from penstock.codegen.loop_context import LoopContext

_START = {
    "min": (str(types.INT64_MAX), "inf"),
    "max": (str(-types.INT64_MAX - 1), "-inf"),
}


class Accumulator:
    """The accumulators of one aggregate node in one loop.

    Where the region may span batches (`is_carried`) the variables are carried; else they live within a row.
    """

    def __init__(self, loop: LoopContext, node: n.Aggregate | n.KeyedAggregate, is_carried: bool) -> None:
        self.loop, self.node, self.is_carried = loop, node, is_carried
        self.out, self.line = loop.out, loop.out.line
        self.name = f"a{loop.number(node)}"
        self.heaps: dict[str, Heap] = {}
        self.kept: dict[str, Value] = {}

    def _variable(self, result: str, part: str, is_float: bool = False) -> str:
        name = f"{self.name}_{list(self.node.results).index(result)}{part}"
        if self.is_carried:
            return self.loop.carried.floating(name) if is_float else self.loop.carried.integer(name)
        return name

    def _type(self, result: Builtin) -> pa.DataType:
        return pa.int64() if result.field is None else self.node.given.scope[result.field]

    # Begin

    def begin(self, site: Site) -> None:
        for name, result in self.node.results.items():
            if isinstance(result, Builtin):
                self._begin(name, result)
            else:
                record = self._fold_record(name, result)
                self.line(f"{self._fold_at(record)} = {record}_0[0]")
                if result.begin is not None:
                    self.line(self.loop.calls.call(result.begin, site, {"self": self._fold_at(record)}))

    def _fold_record(self, name: str, fold: n.Folding) -> str:
        return hook_record(self.loop, self.node, fold.record, f"_{list(self.node.results).index(name)}")

    def _fold_at(self, record: str) -> str:
        """The record of a fold among those of an array."""
        return f"{record}[0]"

    def _begin(self, name: str, result: Builtin) -> None:
        line, kind, t = self.line, result.kind, self._type(result)
        if kind == "to_list":
            return  # the heap's open end is empty when a region begins
        if kind != "sum":
            line(f"{self._variable(name, 'n')} = 0")
        if kind == "sum":
            if types.is_float(t):
                line(f"{self._variable(name, 'x', True)} = 0.0")
            else:
                line(f"{self._variable(name, 'x')} = 0")
                if self._is_split(t):
                    line(f"{self._variable(name, 'h')} = 0")
                    self._note_halves(name)
        elif kind == "mean":
            line(f"{self._variable(name, 'x', True)} = 0.0")
        elif kind == "variance":
            line(f"{self._variable(name, 'x', True)} = 0.0")
            line(f"{self._variable(name, 's', True)} = 0.0")
        elif kind in ("min", "max"):
            is_float = types.is_float(t)
            line(f"{self._variable(name, 'x', is_float)} = {_START[kind][is_float]}")
        elif kind in ("first", "last") and types.is_scalar(t) and not self.is_carried:
            line(f"{self._variable(name, 'x', types.is_float(t))} = {'0.0' if types.is_float(t) else '0'}")
        elif kind in ("first", "last") and not self.is_carried:
            line(f"{self._variable(name, 'x')} = 0")

    def _note_halves(self, name: str) -> None:
        halves = (self._variable(name, "x"), self._variable(name, "h"))
        if self.is_carried and halves not in self.loop.carried.halves:
            self.loop.carried.halves.append(halves)

    def _is_split(self, t: pa.DataType) -> bool:
        """Whether a sum of integers is kept in two halves, so that it is exact beyond 64 bits.

        Integers of up to 32 bits cannot overflow 64 within one list; in a region that spans batches they might, and
        there what goes beyond the lower half is moved up at the start of every batch.
        """
        return self.is_carried or (types.is_integer(t) and types.storage(t).itemsize == 8)

    # Add

    def add(self, site: Site) -> None:
        for name, result in self.node.results.items():
            if isinstance(result, Builtin):
                value = None if result.field is None else self.loop.calls.find(result.field, site)
                getattr(self, f"_add_{result.kind}")(name, result, value, site)
            else:
                record = self._fold_record(name, result)
                self.line(self.loop.calls.call(result.run, site, {"self": self._fold_at(record)}))

    def _add_sum(self, name: str, result: Builtin, value: Local, site: Site) -> None:
        line, t = self.line, self._type(result)
        if types.is_float(t):
            line(f"{self._variable(name, 'x', True)} += {value.name}")
        elif self._is_split(t) and types.storage(t).itemsize == 8:
            line(f"{self._variable(name, 'x')} += {value.name} & 4294967295")
            line(f"{self._variable(name, 'h')} += {value.name} >> 32")
        else:
            line(f"{self._variable(name, 'x')} += {value.name}")

    def _add_count(self, name: str, result: Builtin, value: Any, site: Site) -> None:
        self.line(f"{self._variable(name, 'n')} += 1")

    def _add_mean(self, name: str, result: Builtin, value: Local, site: Site) -> None:
        self.line(f"{self._variable(name, 'n')} += 1")
        self.line(f"{self._variable(name, 'x', True)} += as_float({value.name})")

    def _add_variance(self, name: str, result: Builtin, value: Local, site: Site) -> None:
        count, mean, squares = (
            self._variable(name, "n"),
            self._variable(name, "x", True),
            self._variable(name, "s", True),
        )
        line, delta = self.line, self.out.fresh("d")
        line(f"{count} += 1")
        line(f"{delta} = as_float({value.name}) - {mean}")
        line(f"{mean} += {delta} / {count}")
        line(f"{squares} += {delta} * (as_float({value.name}) - {mean})")

    def _add_min(self, name: str, result: Builtin, value: Local, site: Site, sign: str = "<") -> None:
        is_float = types.is_float(self._type(result))
        best = self._variable(name, "x", is_float)
        nan = f" or {value.name} != {value.name}" if is_float else ""
        self.line(f"{self._variable(name, 'n')} += 1")
        with self.out.block(f"if {value.name} {sign} {best}{nan}"):
            self.line(f"{best} = {value.name}")

    def _add_max(self, name: str, result: Builtin, value: Local, site: Site) -> None:
        self._add_min(name, result, value, site, ">")

    def _add_first(self, name: str, result: Builtin, value: Value, site: Site) -> None:
        count = self._variable(name, "n")
        with self.out.block(f"if {count} == 0"):
            self._keep(name, result, value)
        self.line(f"{count} += 1")

    def _add_last(self, name: str, result: Builtin, value: Value, site: Site) -> None:
        self._keep(name, result, value)
        self.line(f"{self._variable(name, 'n')} += 1")

    def _keep(self, name: str, result: Builtin, value: Value) -> None:
        if not self.is_carried and isinstance(value, Ref):
            # Within a row the value stays where it is, and its index is enough.
            self.kept[name] = Ref(value.column, self._variable(name, "x"))
            self.line(f"{self._variable(name, 'x')} = as_int({value.index})")
        else:
            self.loop.carried.capture(self._keeper(name, result), value)

    def _keeper(self, name: str, result: Builtin) -> Value:
        if name not in self.kept:
            t = self._type(result)
            if self.is_carried:
                self.kept[name] = self.loop.carried.keeper(f"{self.name}_{list(self.node.results).index(name)}x", t)
            else:
                self.kept[name] = Local(self._variable(name, "x"))
        return self.kept[name]

    def _add_to_list(self, name: str, result: Builtin, value: Value, site: Site) -> None:
        heap = self._heap(name, result)
        self.loop.room.of_heap(heap).reserve(site)
        if isinstance(value, Ref):
            assert heap.refers is not None
            stored = self.loop.carried.put(heap.refers, value.elements).index
        else:
            stored = value.name
        self.line(f"{heap.name}_e[{heap.name}_u] = {stored}")
        self.line(f"{heap.name}_u += 1")

    def _heap(self, name: str, result: Builtin) -> Heap:
        if name not in self.heaps:
            t = self._type(result)
            refers = None if types.is_scalar(t) else self.loop.carried.heap(t)
            self.heaps[name] = self.loop.carried.heap(pa.list_(t), is_collected=True, refers=refers)
        return self.heaps[name]

    # Finish

    def finish(self, site: Site) -> Level:
        """The fields of the item that a region leaves behind."""
        own = keep(site.levels[-1], tuple(self.node.keep))
        for name, result in self.node.results.items():
            own[name] = self._finish(name, result, site)
        return own

    def _finish(self, name: str, result: Builtin | n.Folding, site: Site) -> Value:
        if not isinstance(result, Builtin):
            record = self._fold_record(name, result)
            call = self.loop.calls.call(result.end, site, {"self": self._fold_at(record)})
            (value,) = self.loop.calls.results(self.node, (name,), result.end, call)
            return value
        if result.kind in NEEDS_AN_ITEM:
            return self._finish_some(name, result)
        finished: Value = getattr(self, f"_finish_{result.kind}")(name, result)
        return finished

    def _finish_sum(self, name: str, result: Builtin) -> Value:
        t, out = self._type(result), self.out
        if types.is_float(t):
            return self._copied(self._variable(name, "x", True))
        if not self._is_split(t):
            return self._copied(self._variable(name, "x"))
        low, high, total = self._variable(name, "x"), self._variable(name, "h"), out.fresh()
        out.line(f"{total} = {high} + ({low} >> 32)")
        with out.block(f"if {total} < -2147483648 or {total} > 2147483647"):
            self.loop.calls.fault(FaultKind.SUM_OVERFLOW, self.node, str(result))
        out.line(f"{total} = ({total} << 32) | ({low} & 4294967295)")
        return Local(total)

    def _copied(self, variable: str) -> Local:
        """A value of its own: the accumulator begins anew before the item is used up."""
        return self.loop.calls.assign(variable)

    def _finish_count(self, name: str, result: Builtin) -> Value:
        return self._copied(self._variable(name, "n"))

    def _finish_mean(self, name: str, result: Builtin) -> Value:
        return self._ratio(self._variable(name, "x", True), self._variable(name, "n"))

    def _finish_variance(self, name: str, result: Builtin) -> Value:
        divisor = self.loop.calls.assign(f"{self._variable(name, 'n')} - {result.ddof}")
        return self._ratio(self._variable(name, "s", True), divisor.name)

    def _ratio(self, above: str, below: str) -> Local:
        ratio = self.loop.calls.assign("nan")
        with self.out.block(f"if {below} > 0"):
            self.line(f"{ratio.name} = {above} / {below}")
        return ratio

    def _finish_to_list(self, name: str, result: Builtin) -> Value:
        heap, local = self._heap(name, result), self.out.fresh("h")
        h = heap.name
        self.line(f"{h}_o = ended({h}_o, {h}_n, {h}_u)")
        self.line(f"{local} = {h}_n")
        self.line(f"{h}_n += 1")
        return Ref(heap.column, local)

    def _finish_some(self, name: str, result: Builtin) -> Value:
        """An aggregate that needs an item: the default, or a fault, where the region had none."""
        out, t = self.out, self._type(result)
        empty = f"if {self._variable(name, 'n')} == 0"
        if result.kind in ("min", "max"):
            kept: Value = Local(self._variable(name, "x", types.is_float(t)))
        else:
            kept = self.kept[name] if name in self.kept else self._keeper(name, result)
        if result.default is None:
            with out.block(empty):
                self.loop.calls.fault(FaultKind.EMPTY_REGION, self.node, str(result))
            return Ref(kept.column, self._copied(kept.index).name) if isinstance(kept, Ref) else self._typed(kept, t)
        if isinstance(kept, Local):
            value = self._typed(kept, t)
            with out.block(empty):
                out.line(f"{value.name} = {cast(t)}({_literal(result.default, t)})")
            return value
        return self._default_text(name, kept, result, t, empty)

    def _typed(self, kept: Local, t: pa.DataType) -> Local:
        return self.loop.calls.assign(f"{cast(t)}({kept.name})")

    def _default_text(self, name: str, kept: Ref, result: Builtin, t: pa.DataType, empty: str) -> Ref:
        """A default of varying length goes to a heap, and so must what else may stand in its place."""
        heap, local = self.loop.carried.heap_of(self.node, name, t), self.out.fresh("h")
        with self.out.block(empty):
            put = self.loop.carried.put(heap, f"literal{len(self.loop.code.literals)}")
            self.line(f"{local} = {put.index}")
        with self.out.block("else"):
            put = self.loop.carried.put(heap, kept.elements)
            self.line(f"{local} = {put.index}")
        self.loop.code.literals.append((accept(result.default, t), t))
        return Ref(heap.column, local)


def _literal(value: Any, t: pa.DataType) -> str:
    plain = accept(value, t)
    if isinstance(plain, float) and plain != plain:
        return "nan"
    return repr(plain)
