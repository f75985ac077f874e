"""The code of keys and of aggregates by key.

Accumulators lie in cells, one for each window or region of a key that may be open. A key has as many cells as windows
can be open at once, and window q lies in cell q modulo that number, so that no two that are open share one. A cell
knows how many items it has had; 0 stands for a window that is not open. Windows of time are in `window_rules.py`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import pyarrow as pa

from penstock.codegen.accumulate import Accumulator
from penstock.codegen.aggregate_store import VariableStore
from penstock.codegen.end_rules import arriving, end_keys, note_arrival
from penstock.codegen.exits import origin_of
from penstock.codegen.generated import Cells, Input, Keys
from penstock.codegen.item_rules import unless
from penstock.codegen.key_records import key_level, slot_of, state_array
from penstock.codegen.loop_context import LoopContext
from penstock.codegen.site import Level, Local, Site, Value, cast
from penstock.codegen.traverse import send
from penstock.errors import InternalError
from penstock.graph import nodes as n
from penstock.graph import types
from penstock.graph.faults import FaultKind
from penstock.graph.hidden import is_hidden
from penstock.graph.needs import key_field
from penstock.graph.window import CountWindow, RegionWindow, TimeWindow, WholeWindow


def key_by_item(loop: LoopContext, node: n.KeyBy, site: Site) -> None:
    """Take the number of the item's key, which the engine finds for a whole column before the loop runs."""
    name, inputs = f"key{loop.number(node)}", [_entered(loop, node, site, field) for field in node.names]
    levels = [each.level for each in inputs]
    level = None if None in levels else max(depth for depth in levels if depth is not None)
    loop.code.keys[name] = Keys(node, tuple(inputs), level)
    slot = loop.calls.assign(f"as_int({name}[{'u' if level is None else f'q{level}'}])")
    fields = " or ".join(map(repr, node.names))
    with unless(loop, f"{slot.name} < 0", FaultKind.NAN_KEY, node, site, fields) as inner:
        send(loop, node, inner.with_own(inner.own | {key_field(loop.tree, node): slot}))


def _entered(loop: LoopContext, node: n.KeyBy, site: Site, field: str) -> Input:
    """The column that a field of a key entered by."""
    origin = origin_of(site.find(field)[1])
    column = next((each for each in loop.code.inputs if origin and each.column == origin.column), None)
    if column is None:
        raise InternalError(f"{node.label}: a computed key was not cut off before it is numbered")
    return column


class CellStore(VariableStore):
    """Variables that are fields of a cell: of that whose index the variable `cell` holds."""

    is_carried = True

    def __init__(self, loop: LoopContext, node: n.KeyedAggregate) -> None:
        super().__init__(loop, node)
        self.name, self.cell = f"cells{loop.number(node)}", ""
        self.cells = loop.code.cells.setdefault(self.name, Cells(node, node.window.open_at_once))
        if isinstance(node.window, TimeWindow):
            self.cells.fields |= {"q": "i8", "r": "i8", "s": "i8"}

    def field(self, name: str, is_float: bool = False) -> str:
        """A field of the cell."""
        self.cells.fields.setdefault(name, "f8" if is_float else "i8")
        return f"{self.name}_{name}[{self.cell}]"

    def variable(self, at: int, part: str, is_float: bool = False) -> str:
        return self.field(f"v{at}{part}", is_float)

    def keeper(self, at: int, t: pa.DataType) -> Value:
        field = self.variable(at, "x", types.is_float(t))
        return Local(f"{cast(t)}({field})", store=field)

    def fold(self, at: int, fold: n.Folding) -> tuple[str, str]:
        name = f"{self.name}_f{at}"
        self.cells.folds.setdefault(name, fold.record)
        return name, f"{name}[{self.cell}]"

    def carry_over(self, at: int) -> None:
        low, high = self.variable(at, "x"), self.variable(at, "h")
        self.loop.out.line(f"{high} += {low} >> 32")
        self.loop.out.line(f"{low} &= 4294967295")

    def plain(self, value: Value, t: pa.DataType) -> Value:
        """What an array gave, as a plain number."""
        return self.loop.calls.assign(f"{cast(t)}({value.name})") if isinstance(value, Local) else value


class KeyedFold:
    """One aggregate by key in one loop: what happens with an item, and at the end of the stream for each key."""

    def __init__(self, loop: LoopContext, node: n.KeyedAggregate) -> None:
        self.loop, self.node, self.window = loop, node, node.window
        self.cells = CellStore(loop, node)
        self.accumulator = Accumulator(loop, node, self.cells)
        self.state = state_array(loop, node)
        self.width = node.window.open_at_once

    def item(self, site: Site) -> None:
        slot = slot_of(self.loop, self.node, site)
        if isinstance(self.window, WholeWindow):
            self._item_of_whole(slot, site)
        elif isinstance(self.window, CountWindow):
            self._item_of_count(self.window, slot, site)
        elif isinstance(self.window, RegionWindow):
            self._item_of_region(self.window, slot, site)

    def end_all(self) -> None:
        """The end of the stream: close what is open of each key."""
        end_keys(self.loop, self.node, self._end)

    def _end(self, slot: str, site: Site) -> None:
        if isinstance(self.window, (WholeWindow, RegionWindow)):
            self.cells.cell = slot
            if self.node.given.key is None:  # a stream without items has its row too
                self._begin_once(site)
            self._give(slot, self._first(), site)
        elif isinstance(self.window, CountWindow):
            self._end_of_count(self.window, slot, site)

    # All items of a key

    def _item_of_whole(self, slot: str, site: Site) -> None:
        self.cells.cell = slot
        if self.node.given.key is None:
            self._begin_once(site)
        else:
            with arriving(self.loop, self.node, slot, site):
                self.accumulator.begin(self._key_site(slot, site.fork()))
        self.accumulator.add(site)

    def _begin_once(self, site: Site) -> None:
        """Begin the one window of a stream without a key."""
        has_begun = self.cells.field("n")
        with self.loop.out.block(f"if {has_begun} == 0"):
            self.loop.out.line(f"{has_begun} = 1")
            self.accumulator.begin(site.fork())

    # Regions: what is kept of a first item lies in the cell too

    def _item_of_region(self, window: RegionWindow, slot: str, site: Site) -> None:
        out, self.cells.cell = self.loop.out, slot
        count, begins = self.cells.field("n"), self._begins(window, site)
        with out.block(f"if {count} != 0 and ({begins})"):
            self._give(slot, self._first(), site.fork(aligned=False))
            out.line(f"{count} = 0")
        with out.block(f"if {count} == 0"):
            inner = site.fork()
            note_arrival(self.loop, self.node, slot, inner)
            kept = {name: self.loop.calls.find(old, inner) for name, old in window.kept.items()}
            for name, value in kept.items():
                self.loop.carried.capture(self._kept(name), value)
            self.accumulator.begin(inner.with_own(key_level(self.loop, self.node, slot) | kept))
        out.line(f"{count} += 1")
        self.accumulator.add(site)

    def _begins(self, window: RegionWindow, site: Site) -> str:
        """The test whether an item begins a region that is not the first of its key."""
        if window.start is not None:
            return self.loop.calls.assign(self.loop.calls.call(window.start, site, {}), "b").name  # asked of every item
        values = [(name, self.loop.calls.find(name, site)) for name in window.by]
        return " or ".join(f"not {self._kept(name).name} == {v.name}" for name, v in values if isinstance(v, Local))

    def _kept(self, name: str) -> Local:
        """The field of the cell that holds a field of the region's first item."""
        t = self.node.added[name]
        held = self.cells.field(f"k{list(self.node.added).index(name)}", types.is_float(t))
        return Local(f"{cast(t)}({held})", store=held)

    def _first(self) -> dict[str, str]:
        """What a row has of the first item."""
        return {
            name: self._kept(name).name for name in (self.node.added if isinstance(self.window, RegionWindow) else ())
        }

    # Windows of a number of items

    def _item_of_count(self, window: CountWindow, slot: str, site: Site) -> None:
        out, count, every = self.loop.out, window.count, window.every
        if self.node.has_end:
            note_arrival(self.loop, self.node, slot, site)
        place = self._progress(slot)
        out.line(f"{self._held(slot)} = {place} + 1")
        first = f"max(0, ({place} - {count}) // {every} + 1)"
        with self._windows(slot, first, f"{place} // {every} + 1", site):
            self._add(slot, site.fork())
        full = f"{place} + 1 - {count}"
        with out.block(f"if {full} >= 0 and ({full}) % {every} == 0"):
            number = self.loop.calls.assign(f"({full}) // {every}", "q").name
            self._choose(slot, number)
            self._give(slot, self._bounds(f"{number} * {every}", f"{place} + 1"), site.fork(aligned=False))
            out.line(f"{self.cells.field('n')} = 0")

    def _end_of_count(self, window: CountWindow, slot: str, site: Site) -> None:
        place, count, every = self._progress(slot), window.count, window.every
        first = f"max(0, ({place} - {count}) // {every} + 1)"
        with self._windows(slot, first, f"({place} - 1) // {every} + 1", site) as number:
            n_items = f"as_int({self.cells.field('n')})"
            with self.loop.out.block(f"if {n_items} != 0"):
                start = f"{number} * {every}"
                self._give(slot, self._bounds(start, f"{start} + {n_items}"), self._many(site))

    # What all have in common

    def _held(self, slot: str) -> str:
        return f"{self.state}_at[{slot}]"

    def _progress(self, slot: str) -> str:
        """A variable with how far a key is: its number of items, or its rank."""
        return self.loop.calls.assign(f"as_int({self._held(slot)})").name

    @contextmanager
    def _windows(self, slot: str, first: str, stop: str, site: Site) -> Iterator[str]:
        """A loop over windows by their numbers, with the cell of each."""
        number = self.loop.out.fresh("q")
        with self.loop.out.block(f"for {number} in range({first}, {stop})"):
            self._choose(slot, number)
            yield number

    def _choose(self, slot: str, number: str) -> None:
        index = slot if self.width == 1 else f"{slot} * {self.width} + {number} % {self.width}"
        self.cells.cell = self.loop.calls.assign(index, "c").name

    def _add(self, slot: str, site: Site) -> None:
        count = self.cells.field("n")
        with self.loop.out.block(f"if {count} == 0"):
            self.accumulator.begin(self._key_site(slot, site.fork()))
        self.loop.out.line(f"{count} += 1")
        self.accumulator.add(site)

    def _key_site(self, slot: str, site: Site) -> Site:
        return site.with_own(key_level(self.loop, self.node, slot))

    def _many(self, site: Site) -> Site:
        """The place inside a loop over the windows that close."""
        return site.fork(factor=site.factor * self.width, aligned=False)

    def _bounds(self, start: str, end: str) -> dict[str, str]:
        return {name: value for name, value in zip(self.window.bounds, (start, end), strict=True) if name}

    def _give(self, slot: str, added: Mapping[str, str], site: Site) -> None:
        """Send what has come of a window, with what it adds to the fields of the key."""
        level: Level = {name: value for name, value in site.own.items() if is_hidden(name)}
        level |= key_level(self.loop, self.node, slot)
        for name, value in added.items():
            level[name] = self.loop.calls.assign(value)
        own = self.accumulator.finish(site.with_own(level))
        send(self.loop, self.node, site.with_own(own, aligned=False))
