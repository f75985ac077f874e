"""The code of windows of time: items into their windows, watermarks that close them, and items that come too late.

All open windows of a node, of all keys, lie in a heap in the order in which they are to close: by their number, which
is the order of their ends and starts, then by the rank of their key, which is the order of the keys' first items. So a
watermark closes those at the top for as long as they end at or before it, and may stop between any two for room.

A cell is found by a hash of the key and the window's number. Cells are taken from a pool, to which those of closed
windows go back, and which the engine enlarges where it may not do for the next item.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.codegen.keyed_rules import KeyedFold
from penstock.codegen.outlets import Buffer
from penstock.codegen.site import Level, Local, Site
from penstock.graph import nodes as n
from penstock.graph.needs import key_field
from penstock.graph.window import Timed

if TYPE_CHECKING:
    from penstock.codegen.rules import LoopWriter


class Limit:
    """The variables of a loop that say which windows of a node have closed: those before a number, if there is one."""

    def __init__(self, loop: LoopWriter, window: Timed, first: str, is_known: str) -> None:
        self.loop, self.window, self.first, self.is_known = loop, window, first, is_known

    def advance(self, array: str, at: str) -> None:
        """Take a watermark, if it is this one's, and further than those before."""
        out, window = self.loop.out, self.window
        with out.block(f'if as_int({array}["of"][{at}]) == {window.clock}'):
            number, newest = out.fresh("q"), f'{"as_float" if window.is_float else "as_int"}({array}["at"][{at}])'
            out.line(f"{number} = {first_open(window, newest)}")
            with out.block(f"if {self.is_known} == 0 or {number} > {self.first}"):
                out.line(f"{self.first} = {number}")
                out.line(f"{self.is_known} = 1")

    def closed(self, number: str) -> str:
        """The test whether a window is closed."""
        return f"{self.is_known} != 0 and {number} < {self.first}"


class TimedFold(KeyedFold):
    """One aggregate by windows of time in one loop."""

    window: Timed

    def __init__(self, loop: LoopWriter, node: n.KeyedAggregate) -> None:
        super().__init__(loop, node)
        counts = f"{self.accumulator.name}_m"
        self.limit = Limit(loop, self.window, f"{counts}[4]", f"{counts}[5]") if self.window.closes else None
        self.pool: Buffer = loop.buffer(f"{self.accumulator.name}p")

    def item(self, site: Site) -> None:
        slot, name, out = self.loop.slot_of(self.node, site), self.accumulator.name, self.loop.out
        with self.loop.arriving(self.node, slot, site):
            out.line(f"{self._held(slot)} = {name}_m[1]")
            out.line(f"{name}_m[1] += 1")
        first, last = span_of(self.loop, self.node, self.window, site)
        start = first
        if self.limit is not None:
            start = out.fresh("q")
            out.line(f"{start} = {first}")
            with out.block(f"if {self.limit.is_known} != 0 and {self.limit.first} > {first}"):
                out.line(f"{start} = {self.limit.first}")
            with out.block(f"if {start} > {last} and {first} <= {last}"):
                if self.window.on_late == "error":
                    self.loop.fault("late_item", self.node, self.window.field)
                out.line(f"{name}_m[2] += 1")
        number = out.fresh("q")
        self.pool.reserve(site, self.window.at_once)
        with out.block(f"for {number} in range({start}, {last} + 1)"):
            self._find(slot, number)
            self._add_timed(slot, number, site.fork())

    def _find(self, slot: str, number: str) -> None:
        """The cell of a window: its own, or one that is free."""
        out, name, place, cell = self.loop.out, self.accumulator.name, self.loop.out.fresh(), self.loop.out.fresh("c")
        out.line(f"{place} = cell_place({name}_t, {name}_s, {name}_q, {slot}, {number})")
        out.line(f"{cell} = as_int({name}_t[{place}]) - 1")
        with out.block(f"if {cell} < 0"):
            with out.block(f"if {name}_m[3] > 0"):
                out.line(f"{cell} = as_int({name}_h[len({name}_h) - {name}_m[3]])")
                out.line(f"{name}_m[3] -= 1")
            with out.block("else"):
                out.line(f"{cell} = {self.pool.count}")
                out.line(f"{self.pool.count} += 1")
            out.line(f"{name}_t[{place}] = {cell} + 1")
        self.accumulator.cell = cell

    def _add_timed(self, slot: str, number: str, site: Site) -> None:
        out, name, cell, field = self.loop.out, self.accumulator.name, self.accumulator.cell, self.accumulator.field
        with out.block(f"if {field('n')} == 0"):
            out.line(f"{field('q')} = {number}")
            out.line(f"{field('s')} = {slot}")
            out.line(f"{field('r')} = {self._held(slot)}")
            out.line(f"heap_push({name}_h, {name}_m, {name}_q, {name}_r, {cell})")
            self.accumulator.begin(self._key_site(slot, site.fork()))
        out.line(f"{field('n')} += 1")
        self.accumulator.add(site)

    # Windows that close

    def advance(self, array: str, at: str) -> None:
        """A watermark has come: close what it closes."""
        assert self.limit is not None
        out, name = self.loop.out, self.accumulator.name
        self.limit.advance(array, at)
        test = f"{name}_m[0] > 0 and {self.limit.is_known} != 0 and {name}_q[{name}_h[0]] < {self.limit.first}"
        with out.block(f"while {test}"):
            phase = f"mark_close{self.loop.tree.number[self.node]}"
            self.loop.checked(phase, lambda: self._close(phase, {}), progress=1)

    def end_all(self) -> None:
        """The end of the stream: close all that is open."""
        name, number = self.accumulator.name, self.loop.tree.number[self.node]
        self.loop.code.endings[number] = self.node
        with self.loop.out.block(f"while {name}_m[0] > 0"):
            self.loop.checked(f"end{number}", self._close_at_end, progress=2)

    def _close_at_end(self) -> None:
        number, name = self.loop.tree.number[self.node], self.accumulator.name
        self.loop.out.line(f"w[2] = {-2 - number}")
        self.loop.out.line(f"w[3] = {name}_s[{name}_h[0]]")
        self._close(f"end{number}", self.loop.index_of_windows(self.node))

    def _close(self, phase: str, index: Level) -> None:
        """Close the window at the top of the heap."""
        out, name, slot, cell, number = self.loop.out, self.accumulator.name, *(self.loop.out.fresh() for _ in range(3))
        out.line(f"{cell} = as_int({name}_h[0])")
        out.line(f"{slot} = as_int({name}_s[{cell}])")
        out.line(f"{number} = as_int({name}_q[{cell}])")
        self.accumulator.cell = cell
        key = self.node.given.key
        assert key is not None
        own: Level = {**index, key_field(self.loop.tree, key): Local(slot)}
        start = f"{number} * {self.window.every!r}"
        bounds = self._bounds(start, f"{start} + {self.window.length!r}")
        out.line(f"heap_pop({name}_h, {name}_m, {name}_q, {name}_r)")
        self._give(slot, bounds, Site((own,), phase=phase))
        out.line(f"{self.accumulator.field('n')} = 0")
        out.line(f"free_cell({name}_t, {name}_h, {name}_m, {name}_s, {name}_q, {cell})")


def span_of(loop: LoopWriter, node: n.GraphNode, window: Timed, site: Site) -> tuple[str, str]:
    """Variables with the numbers of the first and the last window of an item; in none, the first is greater."""
    out, value = loop.out, loop.scalar_or_ref(window.field, site)
    assert isinstance(value, Local)
    if not loop.tree.is_guarded:  # else the rule around it has left out such items
        with out.block(f"if {has_no_bounds(loop, window, site)}"):
            loop.fault("bad_time", node, window.field)
    first, last, kind = out.fresh("q"), out.fresh("q"), "float_" if window.is_float else ""
    zero = 0.0 if window.is_float else 0
    out.line(f"{first} = first_{kind}window({value.name}, {window.every!r}, {window.length!r}, {zero!r})")
    out.line(f"{last} = last_{kind}window({value.name}, {window.every!r})")
    return first, last


def has_no_bounds(loop: LoopWriter, window: Timed, site: Site) -> str:
    """The test whether the time of an item is NaN, or so far from 0 that its windows have no bounds."""
    value = loop.scalar_or_ref(window.field, site)
    assert isinstance(value, Local)
    return f"not {window.least_time!r} <= {value.name} <= {window.greatest_time!r}"


def first_open(window: Timed, newest: str) -> str:
    """The number of the first window that is open once the time where its watermark begins has come to `newest`."""
    kind = "float_" if window.is_float else ""
    return f"first_{kind}window({newest}, {window.every!r}, {window.length!r}, {window.offset!r})"


class TideWriter:
    """What a loop does where a watermark begins, and with items that come too late."""

    def __init__(self, loop: LoopWriter) -> None:
        self.loop = loop

    def tide(self, node: n.Tide, site: Site) -> None:
        """Emit a watermark behind an item with which the newest time passes the end of a window."""
        loop, out, number = self.loop, self.loop.out, self.loop.tree.number[node]
        value = loop.scalar_or_ref(node.field, site)
        assert isinstance(value, Local)
        time, bound = value.name, node.greatest_time
        is_known = loop.integer(f"tk{number}")
        newest = loop.floating(f"tn{number}") if node.is_float else loop.integer(f"tn{number}")
        with out.block(f"if {-bound!r} <= {time} <= {bound!r} and ({is_known} == 0 or {time} > {newest})"):
            grids = dict.fromkeys((first_open(each, time), first_open(each, newest)) for each in node.windows)
            with out.block(f"if {is_known} == 0 or {' or '.join(f'{a} != {b}' for a, b in grids)}"):
                inner, name = site.fork(aligned=False, is_behind=True), f"em{number}"
                loop.code.emitted[name] = node.first
                out.line(f'{name}["at"][0] = {time}')
                loop.hand_on(loop.signal, node, loop.signals.index(node.signal), name, "0", inner)
            out.line(f"{newest} = {time}")
            out.line(f"{is_known} = 1")

    def late_items(self, node: n.LateItems, site: Site) -> None:
        first, last = span_of(self.loop, node, node.window, site)
        if not node.window.closes:
            return
        test = self.limit(node).closed(last)
        with self.loop.out.block(f"if {first} <= {last} and {test}"):
            self.loop.send(node, site.fork(aligned=False))

    def limit(self, node: n.LateItems) -> Limit:
        number = self.loop.tree.number[node]
        return Limit(self.loop, node.window, self.loop.integer(f"wl{number}"), self.loop.integer(f"wk{number}"))
