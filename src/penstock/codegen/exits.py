"""Rows that leave a loop: items of results and cuts, the parents opened in a cut, and the marks between its items."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pyarrow as pa

from penstock.codegen.generated import GeneratedLoop
from penstock.codegen.loop_fields import fields_out, letter_fields
from penstock.codegen.outlets import (
    INDEX,
    WHICH,
    OutColumn,
    Outlet,
    Sink,
    closing_kind,
    enters_contiguous,
    index_level,
    opening_kind,
    signal_kind,
)
from penstock.codegen.site import Column, Level, Local, Ref, Site, Value
from penstock.codegen.travel import Boundary, Mark, SignalAt, Travel
from penstock.errors import InternalError
from penstock.graph import nodes as n
from penstock.graph import types
from penstock.plan.heartbeat.clocks import BEFORE, BEHIND, END, STEPS, WITHIN
from penstock.plan.segment import Segment

if TYPE_CHECKING:
    from penstock.codegen.loop_context import LoopContext


class Exits:
    """The sinks of a loop by their nodes, and what is written to them."""

    def __init__(self, loop: LoopContext) -> None:
        self.loop, self.out, self.code = loop, loop.out, loop.code
        self.sinks: dict[n.GraphNode, list[Sink]] = {}
        self.letters: dict[n.GraphNode, Sink] = {}
        """Where items are noted that fail at a node, where these are skipped."""

    def add_sink(self, node: n.GraphNode, feeds: Segment | None) -> None:
        at, buffer = len(self.code.sinks), self.loop.carried.buffer
        sink = Sink(node, feeds, Outlet(buffer(f"s{at}")))
        if sink.is_cut:
            depths = range(len(node.shape.regions))
            sink.parents = [Outlet(buffer(f"s{at}p{depth}")) for depth in depths]
            sink.marks = buffer(f"s{at}m")
            sink.signals = {number: buffer(f"s{at}g{number}") for number in range(len(self.loop.signals))}
            sink.clocks = self.loop.clocks.at(node)
        self.code.sinks.append(sink)
        self.sinks.setdefault(node, []).append(sink)

    def add_letters(self, node: n.GraphNode) -> None:
        number = node.__dict__.get("numbered", self.loop.tree.number[node])
        sink = Sink(node, None, Outlet(self.loop.carried.buffer(f"l{len(self.code.sinks)}")), number=number)
        self.code.sinks.append(sink)
        self.letters[node] = sink

    def write_joint(self) -> GeneratedLoop:
        """What leaves where streams meet as channels: one item, or one mark, at a time. There is no loop to write."""
        for fed in self.loop.cuts:
            self.add_sink(self.loop.segment.entry, fed)
        for sink in self.code.sinks:
            assert sink.marks is not None
            for outlet in (sink.items, *sink.parents):
                fields = fields_out(self.loop, sink, outlet)
                outlet.columns += [OutColumn(name, t, None, None) for name, t in fields.items()]
            for buffer in (sink.items.buffer, *(p.buffer for p in sink.parents), sink.marks, *sink.signals.values()):
                buffer.numbers["rows"] = 1
        return self.code

    # Items

    def item(self, sink: Sink, site: Site) -> None:
        """Write an item that leaves."""
        sink.items.buffer.reserve(site)
        own = site.own
        if sink.is_cut and INDEX not in own:
            own = own | {INDEX: self._index(site)}
        if sink.has_places:
            own = own | {n.PLACE: self.index(site)}
        self.row(sink.items, own, site)

    def index(self, site: Site) -> Local:
        """The index of the item as a value to be written, whatever it is taken from."""
        value = site.own[INDEX] if INDEX in site.own else self._index(site)
        return Local(f"as_int({value.column.prefix}[{value.index}])" if isinstance(value, Ref) else value.name)

    def _index(self, site: Site) -> Value:
        """The index of an item that was not made from one alone: that of its parent, or of the row that we are at."""
        for level in reversed(site.levels):
            if INDEX in level:
                return level[INDEX]
        if index_level(self.loop.segment.entry.shape) is not None:
            return Local(self.loop.carried.integer("last_index"))
        return self.own_index("row")

    def own_index(self, row: str) -> Value:
        """The index of the item at a row, where indices lie with the items."""
        if enters_contiguous(self.loop.segment):
            return Local(f"(as_int({row}) + indices[0])")
        return Ref(Column("indices", pa.int64()), row)

    def row(self, outlet: Outlet, level: Level, site: Site) -> None:
        """Write one row, and fix the outlet's columns the first time. Every place writes the same columns."""
        if not outlet.written:
            outlet.written = True
            outlet.columns += self._columns_out(outlet, level, site)
        for column in outlet.columns:
            if column.array is None:
                continue
            value = self.loop.calls.load(level[column.field])
            if isinstance(value, Ref) and value.column != column.origin:
                raise InternalError(f"{outlet.buffer.name}: {column.field!r} comes from two places")
            stored = f"as_int({value.index})" if isinstance(value, Ref) else value.name
            self.out.line(f"{column.array}[unsigned({outlet.buffer.count})] = {stored}")
        self.out.line(f"{outlet.buffer.count} += 1")

    def _columns_out(self, outlet: Outlet, level: Level, site: Site) -> Iterator[OutColumn]:
        sink = next(s for s in self.code.sinks if outlet is s.items or any(outlet is p for p in s.parents))
        may_pass = site.aligned and outlet is sink.items and not sink.is_cut
        for at, (name, t) in enumerate(fields_out(self.loop, sink, outlet).items()):
            value, origin = level[name], origin_of(level[name])
            if may_pass and origin is not None and _is_row(origin):
                yield OutColumn(name, t, None, origin.column)
            else:
                by_index = isinstance(value, Ref) and not types.is_scalar(value.column.type)
                yield OutColumn(name, t, f"{outlet.buffer.name}_{at}", origin.column if origin and by_index else None)

    def letter(self, node: n.GraphNode, site: Site, which: str, saved: str | None = None) -> None:
        """Note an item that fails at a node: its index, its fields, which function or fault it was, and the record."""
        outlet = self.letters[node].items
        outlet.buffer.reserve(site)
        level: Level = {name: site.find(name)[1] for name in letter_fields(self.loop, node)}
        if saved is not None:
            self.out.line(f"{self.letters[node].saved_array}[unsigned({outlet.buffer.count})] = {saved}[0]")
        self.row(outlet, level | {WHICH: Local(which), n.PLACE: self.index(site)}, site)

    def count_outputs(self, outputs: str) -> None:
        """Count an item by the number of binary digits of its outputs."""
        if self.code.counts_outputs:
            self.out.line(f"output_counts[bits({outputs})] += 1")

    # Marks

    def mark(self, sink: Sink, mark: Mark, site: Site) -> None:
        """Write a mark between the items of a cut. The whole stream's opening and closing are none."""
        if isinstance(mark, SignalAt):
            self._signal(sink, mark, site)
        elif mark.region is not None:
            self._boundary(sink, mark, mark.region, site)

    def _boundary(self, sink: Sink, mark: Boundary, region: n.Region, site: Site) -> None:
        depth = sink.node.shape.regions.index(region)
        if mark.travel is Travel.CLOSE:
            self._mark(sink, closing_kind(depth), site, ended=None if region.is_found else region.opener.inputs[0])
            return
        outlet = sink.parents[depth]
        self._mark(sink, opening_kind(depth), site)
        outlet.buffer.reserve(site)
        self.row(outlet, site.levels[depth], site)

    def _signal(self, sink: Sink, signal: SignalAt, site: Site) -> None:
        buffer, array = sink.signals[signal.number], signal.array
        buffer.reserve(site)
        came = "mark_origins[mark]" if self.code.clocks else "0"
        emitted = array.removeprefix("em") if array.startswith("em") else came
        self._mark(sink, signal_kind(signal.number), site, emitted)
        self.out.line(f"{buffer.name}[{buffer.count}] = {array}[{signal.at}]")
        self.out.line(f"{buffer.count} += 1")

    def _mark(self, sink: Sink, kind: int, site: Site, emitted: str = "0", ended: n.GraphNode | None = None) -> None:
        """Write a mark; `ended` is where the items come from with one of which all is done."""
        marks = sink.marks
        assert marks is not None
        marks.reserve(site)
        self.out.line(f"{marks.name}_kind[unsigned({marks.count})] = {kind}")
        self.out.line(f"{marks.name}_at[unsigned({marks.count})] = {sink.items.buffer.count}")
        for at, clock in enumerate(sink.clocks):
            place = self._place_by(clock, sink, site, ended)
            self.out.line(f"{marks.name}_key{at}[unsigned({marks.count})] = {place}")
        if sink.clocks:
            self.out.line(f"{marks.name}_from[unsigned({marks.count})] = {emitted}")
        self.out.line(f"{marks.count} += 1")

    def log(self, node: n.GraphNode, signal: SignalAt, site: Site) -> None:
        """Log a signal at a node, with how many items have come there."""
        log, number = self.code.log, self.loop.number(node)
        assert log is not None
        log.reserve(site)
        seen = self.loop.carried.integer(f"seen{number}")
        for at, value in enumerate((number, seen, signal.number)):
            self.out.line(f"log[{log.count}, {at}] = {value}")
        self.out.line(f"log_{signal.number}[{log.count}] = {signal.record}")
        self.out.line(f"{log.count} += 1")

    def _place_by(self, clock: str, sink: Sink, site: Site, ended: n.GraphNode | None) -> str:
        """The position of a mark among the indices of a stem."""
        clocks, segment = self.loop.clocks, self.loop.segment
        if not clocks.is_numbered(sink.node, clock):
            return "0"
        counter = clocks.counter(segment, sink.node, clock)
        for level in reversed(site.levels):
            if clock not in level:
                if site.phase.startswith("mark") and clock in self.code.clocks and counter is None:
                    return f"mark_places{self.code.clocks.index(clock)}[mark]"
                continue
            value = self.loop.calls.load(level[clock])
            assert isinstance(value, Local)
            if level is not site.own:
                return f"{STEPS} * {value.name} + {WITHIN}"
            if ended is not None:
                return f"{STEPS} * ({value.name} + 1) + {clocks.done(ended, clock)}"
            behind = f"{STEPS} * ({value.name} + 1) + {BEHIND}"
            return behind if site.is_behind else f"{STEPS} * {value.name} + {BEFORE}"
        return str(END) if counter is None else f"{STEPS} * ({self.loop.carried.integer(counter)} + 1) + {BEFORE}"


def origin_of(value: Value) -> Ref | None:
    """The column that a value is in, or was loaded from."""
    return value if isinstance(value, Ref) else value.origin


def _is_row(origin: Ref) -> bool:
    """Whether the value is that of the row itself, so that whole columns can be handed on."""
    return origin.index == "u" and not origin.column.is_heap
