"""Rows that leave a loop: items of results and cuts, the parents opened in a cut, and the marks between its items."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from penstock.codegen.generated import Code
from penstock.codegen.loop_values import ValueWriter
from penstock.codegen.outlets import (
    CLOSE,
    INDEX,
    OPEN,
    WHICH,
    OutColumn,
    Outlet,
    Sink,
    enters_contiguous,
    index_level,
    is_contiguous,
)
from penstock.codegen.site import Column, Level, Local, Ref, Site, Value
from penstock.errors import InternalError
from penstock.graph import nodes as n
from penstock.graph import types
from penstock.graph.needs import Names, at_field, key_field, needed_of
from penstock.graph.tree import Tree
from penstock.kernels.credit import SIGNAL
from penstock.plan.heartbeat.clocks import BEFORE, BEHIND, END, STEPS, WITHIN, Clocks
from penstock.plan.mark_types import signal_types
from penstock.plan.segment import Segment


class OutletWriter(ValueWriter):
    """The part of a loop's writer that writes what leaves."""

    def __init__(self, tree: Tree, segment: Segment, needed: dict[n.GraphNode, Names], clocks: Clocks) -> None:
        super().__init__(tree, segment)
        self.needed, self.clocks = needed, clocks
        self.code.clocks = clocks.at(segment.edge)
        self.members = set(segment.nodes)
        self.signals = signal_types(tree)
        self.sinks: dict[n.GraphNode, list[Sink]] = {}
        self.letters: dict[n.GraphNode, Sink] = {}
        """Where items are noted that fail at a node, where these are skipped."""

    def add_sink(self, node: n.GraphNode, feeds: Segment | None) -> None:
        at = len(self.code.sinks)
        sink = Sink(node, feeds, Outlet(self.buffer(f"s{at}")))
        if sink.is_cut:
            depths = range(len(node.shape.regions))
            sink.parents = [Outlet(self.buffer(f"s{at}p{depth}")) for depth in depths]
            sink.marks = self.buffer(f"s{at}m")
            sink.signals = {number: self.buffer(f"s{at}g{number}") for number in range(len(self.signals))}
            sink.clocks = self.clocks.at(node)
        self.code.sinks.append(sink)
        self.sinks.setdefault(node, []).append(sink)

    def add_letters(self, node: n.GraphNode) -> None:
        number = node.__dict__.get("numbered", self.tree.number[node])
        sink = Sink(node, None, Outlet(self.buffer(f"l{len(self.code.sinks)}")), number=number)
        self.code.sinks.append(sink)
        self.letters[node] = sink

    def letter_fields(self, node: n.GraphNode) -> dict[str, pa.DataType]:
        """The fields of an item at a node that it, or one downstream of it, uses."""
        needed = self.needed[node]
        return {name: t for name, t in node.inputs[0].shape.scope.items() if name in needed}

    def write_joint(self, cuts: Sequence[Segment]) -> Code:
        """What leaves where streams meet: one item, or one mark, at a time. There is no loop to write."""
        for fed in cuts:
            self.add_sink(self.segment.entry, fed)
        for sink in self.code.sinks:
            assert sink.marks is not None
            for outlet in (sink.items, *sink.parents):
                fields = self._fields_out(sink, outlet)
                outlet.columns += [OutColumn(name, t, None, None) for name, t in fields.items()]
            for buffer in (sink.items.buffer, *(p.buffer for p in sink.parents), sink.marks, *sink.signals.values()):
                buffer.numbers["rows"] = 1
        return self.code

    def write_item(self, sink: Sink, site: Site) -> None:
        sink.items.buffer.reserve(site)
        own = site.own
        if sink.is_cut and INDEX not in own:
            own = own | {INDEX: self._index(site)}
        if sink.has_places:
            own = own | {n.PLACE: self.place(site)}
        self.write_row(sink.items, own, site)

    def place(self, site: Site) -> Local:
        """The index as a value to be written, whatever it is taken from."""
        value = site.own[INDEX] if INDEX in site.own else self._index(site)
        return Local(f"as_int({value.column.prefix}[{value.index}])" if isinstance(value, Ref) else value.name)

    def _index(self, site: Site) -> Value:
        """The index of an item that was not made from one alone: that of its parent, or of the row that we are at."""
        for level in reversed(site.levels):
            if INDEX in level:
                return level[INDEX]
        if index_level(self.segment.entry.shape) is not None:
            return Local(self.integer("ix_last"))
        return self.own_index("i")

    def own_index(self, row: str) -> Value:
        """The index of the item at a row, where indices lie with the items."""
        if enters_contiguous(self.segment):
            return Local(f"(as_int({row}) + ix[0])")
        return Ref(Column("ix", pa.int64()), row)

    def write_row(self, outlet: Outlet, level: Level, site: Site) -> None:
        """Write one row, and fix the outlet's columns the first time. Every place writes the same columns."""
        if not outlet.written:
            outlet.written = True
            outlet.columns += self._columns_out(outlet, level, site)
        for column in outlet.columns:
            if column.array is None:
                continue
            value = self.value_of(level[column.field])
            if isinstance(value, Ref) and value.column != column.origin:
                raise InternalError(f"{outlet.buffer.name}: {column.field!r} comes from two places")
            stored = f"as_int({value.index})" if isinstance(value, Ref) else value.name
            self.out.line(f"{column.array}[unsigned({outlet.buffer.count})] = {stored}")
        self.out.line(f"{outlet.buffer.count} += 1")

    def _columns_out(self, outlet: Outlet, level: Level, site: Site) -> Iterator[OutColumn]:
        sink = next(s for s in self.code.sinks if outlet is s.items or any(outlet is p for p in s.parents))
        for at, (name, t) in enumerate(self._fields_out(sink, outlet).items()):
            origin = origin_of(level[name])
            if site.aligned and outlet is sink.items and not sink.is_cut and origin is not None and _is_row(origin):
                yield OutColumn(name, t, None, origin.column)
            else:
                value = level[name]
                by_index = isinstance(value, Ref) and not types.is_scalar(value.column.type)
                yield OutColumn(name, t, f"{outlet.buffer.name}_{at}", origin.column if origin and by_index else None)

    def _fields_out(self, sink: Sink, outlet: Outlet) -> dict[str, pa.DataType]:
        node = sink.node
        if sink.is_letters:
            return self.letter_fields(node) | dict.fromkeys((WHICH, n.PLACE), pa.int64())
        if not sink.is_cut:
            return dict(node.shape.fields)
        after = self._needed_beyond(sink)
        depth = None if outlet is sink.items else next(d for d, p in enumerate(sink.parents) if p is outlet)
        is_counted = depth is None and is_contiguous(node) and not (sink.feeds and sink.feeds.copies)
        is_counted = is_counted and not self.tree.is_guarded
        has_index = index_level(node.shape) == depth and not is_counted
        index = {INDEX: pa.int64()} if has_index else {}
        if depth is None:
            own = {name: t for name, t in node.shape.fields.items() if name in after}
            return own | dict.fromkeys(self.hidden_at(node, node.shape, after), pa.int64()) | index
        region = node.shape.regions[depth]
        own = {name: t for name, t in region.fields.items() if name in after}
        if region.is_found:
            return own | index
        hidden = self.hidden_at(region.opener.inputs[0], region.parent, after)
        return own | dict.fromkeys(hidden, pa.int64()) | index

    def _needed_beyond(self, sink: Sink) -> Names:
        """What the nodes behind a cut need; where streams have met, the loop behind gives them as a result."""
        assert sink.feeds is not None
        is_given = isinstance(sink.node, n.Meet) or bool(self.tree.copies(sink.node))
        is_given = is_given and sink.node in self.tree.leaves
        own = frozenset(sink.node.shape.fields) if is_given else frozenset()
        return own.union(*(needed_of(sink.node, node, self.needed) for node in sink.feeds.takers))

    def needed_here(self) -> Names:
        """What must enter: for the nodes of this segment, and for what leaves right after its entry."""
        entry = self.segment.entry
        inside = [needed_of(entry, child, self.needed) for child in self.tree.children[entry] if child in self.members]
        for sink in self.sinks.get(entry, ()):
            inside.append(self._needed_beyond(sink) if sink.is_cut else frozenset(entry.shape.fields))
        return frozenset().union(*inside)

    def hidden_at(self, node: n.GraphNode, shape: n.Shape, after: Names) -> list[str]:
        """The hidden fields behind a node: the number of the key that was given at this very level, and the index."""
        names = [at_field(self.tree, n.stem(node))]
        around = shape.regions[-1].parent.key if shape.regions else None
        if shape.key is not None and shape.key is not around:
            names.append(key_field(self.tree, shape.key))
        return [name for name in names if name in after]

    def mark_open(self, sink: Sink, region: n.Region | None, site: Site) -> None:
        if region is None:
            return
        depth = sink.node.shape.regions.index(region)
        outlet = sink.parents[depth]
        self._mark(sink, 2 * depth + OPEN, site)
        outlet.buffer.reserve(site)
        self.write_row(outlet, site.levels[depth], site)

    def mark_close(self, sink: Sink, region: n.Region | None, site: Site) -> None:
        if region is not None:
            opened = None if region.is_found else region.opener.inputs[0]
            self._mark(sink, 2 * sink.node.shape.regions.index(region) + CLOSE, site, ended=opened)

    def mark_signal(self, sink: Sink, number: int, array: str, at: str, site: Site) -> None:
        buffer = sink.signals[number]
        buffer.reserve(site)
        came = "mk_from[m]" if self.code.clocks else "0"
        self._mark(sink, SIGNAL + number, site, array.removeprefix("em") if array.startswith("em") else came)
        self.out.line(f"{buffer.name}[{buffer.count}] = {array}[{at}]")
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

    def _place_by(self, clock: str, sink: Sink, site: Site, ended: n.GraphNode | None) -> str:
        """The place of a mark among the indices of a stem."""
        if not self.clocks.is_numbered(sink.node, clock):
            return "0"
        counter = self.clocks.counter(self.segment, sink.node, clock)
        for level in reversed(site.levels):
            if clock not in level:
                if site.phase.startswith("mark") and clock in self.code.clocks and counter is None:
                    return f"mk_key{self.code.clocks.index(clock)}[m]"
                continue
            value = self.value_of(level[clock])
            assert isinstance(value, Local)
            if level is not site.own:
                return f"{STEPS} * {value.name} + {WITHIN}"
            if ended is not None:
                return f"{STEPS} * ({value.name} + 1) + {self.clocks.done(ended, clock)}"
            behind = f"{STEPS} * ({value.name} + 1) + {BEHIND}"
            return behind if site.is_behind else f"{STEPS} * {value.name} + {BEFORE}"
        return str(END) if counter is None else f"{STEPS} * ({self.integer(counter)} + 1) + {BEFORE}"


def origin_of(value: Value) -> Ref | None:
    """The column that a value is in, or was loaded from."""
    return value if isinstance(value, Ref) else value.origin


def _is_row(origin: Ref) -> bool:
    """Whether the value is that of the row itself, so that whole columns can be handed on."""
    return origin.index == "u" and not origin.column.is_heap
