"""The code of an aggregate by key: accumulators in cells, one for each window or region of a key that may be open.

A key has as many cells as windows can be open at once, and window q lies in cell q modulo that number, so that no two
that are open share one. A cell knows how many items it has had; 0 says that its window is not open. Windows of time are
in `codegen/window_rules.py`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from penstock.codegen.accumulate import Accumulator
from penstock.codegen.generated import Cells
from penstock.codegen.site import Level, Local, Site, Value, cast
from penstock.graph import nodes as n
from penstock.graph import types
from penstock.graph.aggregate import Builtin
from penstock.graph.window import Counted, Found, Timed, Whole

if TYPE_CHECKING:
    from penstock.codegen.rules import LoopWriter


class CellAccumulator(Accumulator):
    """Accumulators whose variables are fields of a cell: of that which the variable named `cell` says."""

    def __init__(self, loop: LoopWriter, node: n.KeyedAggregate) -> None:
        super().__init__(loop, node, is_carried=True)
        self.name, self.cell = f"ce{loop.tree.number[node]}", ""
        self.cells = loop.code.cells.setdefault(self.name, Cells(node, node.window.open_at_once))
        if isinstance(node.window, Timed):
            self.cells.fields |= {"q": "i8", "r": "i8", "s": "i8"}

    def _variable(self, result: str, part: str, is_float: bool = False) -> str:
        return self.field(f"v{list(self.node.results).index(result)}{part}", is_float)

    def field(self, name: str, is_float: bool = False) -> str:
        """A field of the cell."""
        self.cells.fields.setdefault(name, "f8" if is_float else "i8")
        return f"{self.name}_{name}[{self.cell}]"

    def _fold_record(self, name: str, fold: n.Folding) -> str:
        record = f"{self.name}_f{list(self.node.results).index(name)}"
        self.cells.folds.setdefault(record, fold.record)
        return record

    def _fold_at(self, record: str) -> str:
        return f"{record}[{self.cell}]"

    def _note_halves(self, name: str) -> None:
        """Nothing to note: a sum in halves carries over with every item."""

    def _add_sum(self, name: str, result: Builtin, value: Local, site: Site) -> None:
        super()._add_sum(name, result, value, site)
        if not types.is_float(self._type(result)):
            low, high = self._variable(name, "x"), self._variable(name, "h")
            self.loop.out.line(f"{high} += {low} >> 32")
            self.loop.out.line(f"{low} &= 4294967295")

    def _keeper(self, name: str, result: Builtin) -> Value:
        t = self._type(result)
        held = self._variable(name, "x", types.is_float(t))
        return Local(f"{cast(t)}({held})", store=held)

    def finish(self, site: Site) -> Level:
        own = super().finish(site)
        for name in self.node.results:
            value = own[name]
            if isinstance(value, Local):  # as a plain number, whatever the array gave
                local = self.loop.out.fresh()
                self.loop.out.line(f"{local} = {cast(self.node.shape.fields[name])}({value.name})")
                own[name] = Local(local)
        return own


class KeyedFold:
    """One aggregate by key in one loop: what happens with an item, and at the end of the stream for each key."""

    def __init__(self, loop: LoopWriter, node: n.KeyedAggregate) -> None:
        self.loop, self.node, self.window = loop, node, node.window
        self.accumulator = CellAccumulator(loop, node)
        self.state = loop.state_array(node)
        self.width = node.window.open_at_once

    def item(self, site: Site) -> None:
        slot = self.loop.slot_of(self.node, site)
        if isinstance(self.window, Whole):
            self._item_of_whole(slot, site)
        elif isinstance(self.window, Counted):
            self._item_of_count(self.window, slot, site)
        elif isinstance(self.window, Found):
            self._item_of_region(self.window, slot, site)

    def end(self, slot: str, site: Site) -> None:
        """Close what is open of a key."""
        if isinstance(self.window, (Whole, Found)):
            self.accumulator.cell = slot
            self._give(slot, self._first(), site)
        elif isinstance(self.window, Counted):
            self._end_of_count(self.window, slot, site)

    # All items of a key

    def _item_of_whole(self, slot: str, site: Site) -> None:
        self.accumulator.cell = slot
        with self.loop.arriving(self.node, slot, site):
            self.accumulator.begin(self._key_site(slot, site.fork()))
        self.accumulator.add(site)

    # Regions: what is kept of a first item lies in the cell too

    def _item_of_region(self, window: Found, slot: str, site: Site) -> None:
        out, self.accumulator.cell = self.loop.out, slot
        count, begins = self.accumulator.field("n"), self._begins(window, site)
        with out.block(f"if {count} != 0 and ({begins})"):
            self._give(slot, self._first(), site.fork(aligned=False))
            out.line(f"{count} = 0")
        with out.block(f"if {count} == 0"):
            inner = site.fork()
            with self.loop.arriving(self.node, slot, inner):
                pass
            kept = {name: self.loop.scalar_or_ref(old, inner) for name, old in window.kept.items()}
            for name, value in kept.items():
                self.loop.capture(self._kept(name), value)
            self.accumulator.begin(inner.with_own(self.loop.key_level(self.node, slot) | kept))
        out.line(f"{count} += 1")
        self.accumulator.add(site)

    def _begins(self, window: Found, site: Site) -> str:
        """The test whether an item begins a region that is not the first of its key."""
        if window.start is not None:
            begins = self.loop.out.fresh("b")
            self.loop.out.line(f"{begins} = {self.loop.call(window.start, site, {})}")  # asked of every item
            return begins
        values = [(name, self.loop.scalar_or_ref(name, site)) for name in window.by]
        return " or ".join(f"not {self._kept(name).name} == {v.name}" for name, v in values if isinstance(v, Local))

    def _kept(self, name: str) -> Local:
        """The field of the cell that holds a field of the region's first item."""
        t = self.node.added[name]
        held = self.accumulator.field(f"k{list(self.node.added).index(name)}", types.is_float(t))
        return Local(f"{cast(t)}({held})", store=held)

    def _first(self) -> dict[str, str]:
        """What a row has of the first item."""
        return {name: self._kept(name).name for name in (self.node.added if isinstance(self.window, Found) else ())}

    # Windows of a number of items

    def _item_of_count(self, window: Counted, slot: str, site: Site) -> None:
        out, count, every = self.loop.out, window.count, window.every
        if self.node.has_end:
            with self.loop.arriving(self.node, slot, site):
                pass
        place = self._progress(slot)
        out.line(f"{self._held(slot)} = {place} + 1")
        first = f"max(0, ({place} - {count}) // {every} + 1)"
        with self._windows(slot, first, f"{place} // {every} + 1", site):
            self._add(slot, site.fork())
        full = f"{place} + 1 - {count}"
        with out.block(f"if {full} >= 0 and ({full}) % {every} == 0"):
            number = out.fresh("q")
            out.line(f"{number} = ({full}) // {every}")
            self._choose(slot, number)
            self._give(slot, self._bounds(f"{number} * {every}", f"{place} + 1"), site.fork(aligned=False))
            out.line(f"{self.accumulator.field('n')} = 0")

    def _end_of_count(self, window: Counted, slot: str, site: Site) -> None:
        place, count, every = self._progress(slot), window.count, window.every
        first = f"max(0, ({place} - {count}) // {every} + 1)"
        with self._windows(slot, first, f"({place} - 1) // {every} + 1", site) as number:
            n_items = f"as_int({self.accumulator.field('n')})"
            with self.loop.out.block(f"if {n_items} != 0"):
                start = f"{number} * {every}"
                self._give(slot, self._bounds(start, f"{start} + {n_items}"), self._many(site))

    # What all have in common

    def _held(self, slot: str) -> str:
        return f"{self.state}_at[{slot}]"

    def _progress(self, slot: str) -> str:
        """A variable with how far a key is: its number of items, or its rank."""
        local = self.loop.out.fresh()
        self.loop.out.line(f"{local} = as_int({self._held(slot)})")
        return local

    @contextmanager
    def _windows(self, slot: str, first: str, stop: str, site: Site) -> Iterator[str]:
        """A loop over windows by their numbers, with the cell of each."""
        number = self.loop.out.fresh("q")
        with self.loop.out.block(f"for {number} in range({first}, {stop})"):
            self._choose(slot, number)
            yield number

    def _choose(self, slot: str, number: str) -> None:
        cell = self.loop.out.fresh("c")
        place = slot if self.width == 1 else f"{slot} * {self.width} + {number} % {self.width}"
        self.loop.out.line(f"{cell} = {place}")
        self.accumulator.cell = cell

    def _add(self, slot: str, site: Site) -> None:
        count = self.accumulator.field("n")
        with self.loop.out.block(f"if {count} == 0"):
            self.accumulator.begin(self._key_site(slot, site.fork()))
        self.loop.out.line(f"{count} += 1")
        self.accumulator.add(site)

    def _key_site(self, slot: str, site: Site) -> Site:
        return site.with_own(self.loop.key_level(self.node, slot))

    def _many(self, site: Site) -> Site:
        """The place inside a loop over the windows that close."""
        return site.fork(factor=site.factor * self.width, aligned=False)

    def _bounds(self, start: str, end: str) -> dict[str, str]:
        return {name: value for name, value in zip(self.window.bounds, (start, end), strict=True) if name}

    def _give(self, slot: str, added: Mapping[str, str], site: Site) -> None:
        """Send what has come of a window, with what it adds to the fields of the key."""
        level: Level = {name: value for name, value in site.own.items() if name.startswith("#")}
        level |= self.loop.key_level(self.node, slot)
        for name, value in added.items():
            local = self.loop.out.fresh()
            self.loop.out.line(f"{local} = {value}")
            level[name] = Local(local)
        own = self.accumulator.finish(site.with_own(level))
        self.loop.send(self.node, site.with_own(own, aligned=False))
