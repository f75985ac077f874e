"""The results of an aggregate: for each kind, how it begins with a region, takes every item, and finishes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cached_property
from typing import Any

import pyarrow as pa

from penstock.codegen.aggregate_store import VariableStore
from penstock.codegen.loop_context import LoopContext
from penstock.codegen.outlets import Heap
from penstock.codegen.site import Local, Ref, Site, Value, cast
from penstock.graph import nodes as n
from penstock.graph import types
from penstock.graph.faults import FaultKind
from penstock.graph.values import accept


class ResultRule(ABC):
    """One result of an aggregate: `name` is its field, `at` its index among all."""

    def __init__(
        self,
        loop: LoopContext,
        node: n.Aggregate | n.KeyedAggregate,
        store: VariableStore,
        at: int,
        name: str,
        result: Any,
    ) -> None:
        self.loop, self.node, self.store, self.at, self.name, self.result = loop, node, store, at, name, result
        self.out, self.line = loop.out, loop.out.line

    @abstractmethod
    def begin(self, site: Site) -> None:
        """A region begins."""

    @abstractmethod
    def add(self, site: Site) -> None:
        """An item of the region has come."""

    @abstractmethod
    def finish(self, site: Site) -> Value:
        """The result, where the region ends."""


class OwnFold(ResultRule):
    """A fold of the user's own, whose record changes by functions."""

    @property
    def records(self) -> dict[str, str]:
        return {"self": self.store.fold(self.at, self.result)[1]}

    def begin(self, site: Site) -> None:
        name, record = self.store.fold(self.at, self.result)
        self.line(f"{record} = {name}_0[0]")
        if self.result.begin is not None:
            self.line(self.loop.calls.call(self.result.begin, site, self.records))

    def add(self, site: Site) -> None:
        self.line(self.loop.calls.call(self.result.run, site, self.records))

    def finish(self, site: Site) -> Value:
        call = self.loop.calls.call(self.result.end, site, self.records)
        return self.loop.calls.results(self.node, (self.name,), self.result.end, call)[0]


class Count(ResultRule):
    """How many items there are; the others that need their number count them too."""

    @cached_property
    def type(self) -> pa.DataType:
        field = self.result.field
        return pa.int64() if field is None else self.node.given.scope[field]

    @cached_property
    def is_float(self) -> bool:
        return types.is_float(self.type)

    @property
    def count(self) -> str:
        return self.store.variable(self.at, "n")

    def value(self, site: Site) -> str:
        """The item's value, in a variable."""
        return self.loop.calls.local(self.result.field, site).name

    def begin(self, site: Site) -> None:
        self.line(f"{self.count} = 0")

    def add(self, site: Site) -> None:
        if self.result.field is not None:
            self.loop.calls.find(self.result.field, site)
        self.line(f"{self.count} += 1")

    def finish(self, site: Site) -> Value:
        """A value of its own: the accumulator begins anew before the item is used up."""
        return self.loop.calls.assign(self.count)


class Sum(Count):
    """A sum: of floats from first to last; of integers exact, in two halves where it could overflow."""

    @property
    def total(self) -> str:
        return self.store.variable(self.at, "x", self.is_float)

    @property
    def high(self) -> str:
        return self.store.variable(self.at, "h")

    @property
    def is_split(self) -> bool:
        """Whether a sum of integers is kept in two halves, so that it is exact beyond 64 bits.

        Integers of up to 32 bits cannot overflow 64 within one list; in a region that spans batches they might, and
        there what goes beyond the lower half is moved up at the start of every batch.
        """
        return not self.is_float and (self.store.is_carried or self._is_long)

    @property
    def _is_long(self) -> bool:
        return types.is_integer(self.type) and types.storage(self.type).itemsize == 8

    def begin(self, site: Site) -> None:
        self.line(f"{self.total} = {'0.0' if self.is_float else '0'}")
        if self.is_split:
            self.line(f"{self.high} = 0")
            self.store.begin_halves(self.total, self.high)

    def add(self, site: Site) -> None:
        value = self.value(site)
        if self.is_split and types.storage(self.type).itemsize == 8:
            self.line(f"{self.total} += {value} & 4294967295")
            self.line(f"{self.high} += {value} >> 32")
        else:
            self.line(f"{self.total} += {value}")
        if not self.is_float:
            self.store.carry_over(self.at)

    def finish(self, site: Site) -> Value:
        if not self.is_split:
            return self.loop.calls.assign(self.total)
        low, high = self.total, self.high
        total = self.loop.calls.assign(f"{high} + ({low} >> 32)").name
        with self.out.block(f"if {total} < -2147483648 or {total} > 2147483647"):
            self.loop.calls.fault(FaultKind.SUM_OVERFLOW, self.node, str(self.result))
        self.line(f"{total} = ({total} << 32) | ({low} & 4294967295)")
        return Local(total)


class Mean(Count):
    """The mean, added from first to last."""

    @property
    def total(self) -> str:
        return self.store.variable(self.at, "x", True)

    def begin(self, site: Site) -> None:
        super().begin(site)
        self.line(f"{self.total} = 0.0")

    def add(self, site: Site) -> None:
        super().add(site)
        self.line(f"{self.total} += as_float({self.value(site)})")

    def finish(self, site: Site) -> Value:
        return self._ratio(self.total, self.count)

    def _ratio(self, above: str, below: str) -> Local:
        ratio = self.loop.calls.assign("nan")
        with self.out.block(f"if {below} > 0"):
            self.line(f"{ratio.name} = {above} / {below}")
        return ratio


class Variance(Mean):
    """The variance, by Welford's recurrence: the total is the mean so far."""

    @property
    def squares(self) -> str:
        return self.store.variable(self.at, "s", True)

    def begin(self, site: Site) -> None:
        super().begin(site)
        self.line(f"{self.squares} = 0.0")

    def add(self, site: Site) -> None:
        value = self.value(site)
        self.line(f"{self.count} += 1")
        delta = self.loop.calls.assign(f"as_float({value}) - {self.total}", "d").name
        self.line(f"{self.total} += {delta} / {self.count}")
        self.line(f"{self.squares} += {delta} * (as_float({value}) - {self.total})")

    def finish(self, site: Site) -> Value:
        divisor = self.loop.calls.assign(f"{self.count} - {self.result.ddof}")
        return self._ratio(self.squares, divisor.name)


class NeedsItem(Count):
    """A result that is one of the items' values: the default, or a fault, where the region had no item."""

    def kept(self) -> Value:
        """What holds the value."""
        raise NotImplementedError

    def finish(self, site: Site) -> Value:
        is_empty, kept = f"if {self.count} == 0", self.kept()
        if self.result.default is not None and isinstance(kept, Ref):
            return self._with_default(kept, is_empty)
        if self.result.default is None:
            with self.out.block(is_empty):
                self.loop.calls.fault(FaultKind.EMPTY_REGION, self.node, str(self.result))
        if isinstance(kept, Ref):
            return Ref(kept.column, self.loop.calls.assign(kept.index).name)
        value = self.loop.calls.assign(f"{cast(self.type)}({kept.name})")
        if self.result.default is not None:
            with self.out.block(is_empty):
                self.line(f"{value.name} = {cast(self.type)}({_literal(self.result.default, self.type)})")
        return value

    def _with_default(self, kept: Ref, is_empty: str) -> Ref:
        """A default of varying length goes to a heap, and so must what else may stand in its place."""
        carried, literals = self.loop.carried, self.loop.code.literals
        heap, local = carried.heap_of(self.node, self.name, self.type), self.out.fresh("h")
        for header, array in ((is_empty, f"literal{len(literals)}"), ("else", kept.elements)):
            with self.out.block(header):
                self.line(f"{local} = {carried.put(heap, array).index}")
        literals.append((accept(self.result.default, self.type), self.type))
        return Ref(heap.column, local)


class Extreme(NeedsItem):
    """The least or the greatest value; NaN where one is."""

    @property
    def best(self) -> str:
        return self.store.variable(self.at, "x", self.is_float)

    def begin(self, site: Site) -> None:
        super().begin(site)
        sign, bound = ("-", -types.INT64_MAX - 1) if self.result.kind == "max" else ("", types.INT64_MAX)
        self.line(f"{self.best} = {f'{sign}inf' if self.is_float else bound}")

    def add(self, site: Site) -> None:
        best, sign = self.best, ">" if self.result.kind == "max" else "<"
        super().add(site)
        value = self.value(site)
        nan = f" or {value} != {value}" if self.is_float else ""
        with self.out.block(f"if {value} {sign} {best}{nan}"):
            self.line(f"{best} = {value}")

    def kept(self) -> Value:
        return Local(self.best)


class Kept(NeedsItem):
    """The value of the first or of the last item. Within a row a longer one stays where it is: its index is enough."""

    row: Ref | None = None
    """Where the value lies, of which a variable holds the index."""

    def begin(self, site: Site) -> None:
        super().begin(site)
        if not self.store.is_carried:
            is_float = types.is_scalar(self.type) and self.is_float
            self.line(f"{self.store.variable(self.at, 'x')} = {'0.0' if is_float else '0'}")

    def add(self, site: Site) -> None:
        value = self.loop.calls.find(self.result.field, site)
        if self.result.kind == "last":
            self._keep(value)
        else:
            with self.out.block(f"if {self.count} == 0"):
                self._keep(value)
        self.line(f"{self.count} += 1")

    def _keep(self, value: Value) -> None:
        if self.store.is_carried or isinstance(value, Local):
            self.loop.carried.capture(self.kept(), value)
        else:
            index = self.store.variable(self.at, "x")
            self.row = Ref(value.column, index)
            self.line(f"{index} = as_int({value.index})")

    def kept(self) -> Value:
        return self.row or self.store.keeper(self.at, self.type)


class ToList(Count):
    """All values, on a heap whose open end is empty when a region begins."""

    @cached_property
    def heap(self) -> Heap:
        refers = None if types.is_scalar(self.type) else self.loop.carried.heap(self.type)
        return self.loop.carried.heap(pa.list_(self.type), is_collected=True, refers=refers)

    def begin(self, site: Site) -> None:
        """Nothing to do."""

    def add(self, site: Site) -> None:
        value, heap = self.loop.calls.find(self.result.field, site), self.heap
        self.loop.room.of_heap(heap).reserve(site)
        if isinstance(value, Ref):
            assert heap.refers is not None
            stored = self.loop.carried.put(heap.refers, value.elements).index
        else:
            stored = value.name
        self.line(f"{heap.name}_e[{heap.name}_u] = {stored}")
        self.line(f"{heap.name}_u += 1")

    def finish(self, site: Site) -> Value:
        heap, local = self.heap, self.out.fresh("h")
        h = heap.name
        self.line(f"{h}_o = ended({h}_o, {h}_n, {h}_u)")
        self.line(f"{local} = {h}_n")
        self.line(f"{h}_n += 1")
        return Ref(heap.column, local)


BUILTINS: dict[str, type[Count]] = {
    "sum": Sum,
    "count": Count,
    "mean": Mean,
    "variance": Variance,
    "min": Extreme,
    "max": Extreme,
    "first": Kept,
    "last": Kept,
    "to_list": ToList,
}
"""What writes a built-in aggregate, for every kind; a test demands them all."""


def _literal(value: Any, t: pa.DataType) -> str:
    plain = accept(value, t)
    return "nan" if isinstance(plain, float) and plain != plain else repr(plain)
